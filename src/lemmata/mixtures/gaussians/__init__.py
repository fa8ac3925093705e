"""Gaussian components of mixtures: six shapes of covariances, unknown entries (NaN) marginalised exactly.

>>> from lemmata.mixtures.gaussians import FullGaussian
>>> FullGaussian(reg_covar=0.1).name
'full'
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "shapes": "GAUSSIANS DiagonalGaussian FixedGaussian FullGaussian SphericalGaussian TiedGaussian UnitGaussian",
        "family": "Gaussian GaussianParameters",
    },
)
