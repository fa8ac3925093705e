"""The old name of two packages, for one release: use `lemmata.clustering` and `lemmata.mixtures`."""

import warnings

from lemmata import clustering, mixtures

warnings.warn(
    "lemmata.latent is now lemmata.clustering (KMeans, seeding, coresets) and lemmata.mixtures; "
    "the old name goes with the next release.",
    FutureWarning,
    stacklevel=2,
)

__all__ = sorted([*clustering.__all__, *mixtures.__all__])


def __getattr__(name: str):
    for package in (clustering, mixtures):
        if name in package.__all__:
            return getattr(package, name)
    raise AttributeError(
        f"module 'lemmata.latent' has no attribute {name!r}; see lemmata.clustering and lemmata.mixtures."
    )


def __dir__():
    return __all__
