"""Normalizing flows: bijections whose determinant is known, composed (CIL 5.2)."""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "estimator": "NormalizingFlow",
        "flow": "Flow StandardNormal Standardisation Marginals",
        "transforms": "Chain AffineMap Conv1x1 ActNorm ClassAffine Planar Sylvester",
        "couplings": "AdditiveCoupling AffineCoupling SplineCoupling Squeezed Split",
    },
    ("torch", "deep"),
)
