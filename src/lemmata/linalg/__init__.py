"""Linear algebra on anything with `@`: projections, power method, Lanczos, randomized SVD, norms, shrinkage, angles."""

from importlib import import_module

# At once, not lazily: a module of the same name would otherwise stand in the place of the function `lanczos`.
from lemmata.linalg.lanczos import LanczosAlgorithm, LanczosResult, LanczosState, lanczos
from lemmata.linalg.lowrank import (
    LowRank,
    best_rank_k,
    frobenius_norm,
    nuclear_norm,
    shrink,
    spectral_norm,
    subspace_angles,
)
from lemmata.linalg.power import (
    PowerAlgorithm,
    PowerResult,
    PowerState,
    measured_rates,
    power_iteration,
    predicted_rates,
)
from lemmata.linalg.projections import (
    Complement,
    Projection,
    certify_projection,
    orthonormal_basis,
    pseudo_inverse,
)

_LAZY = {
    "CentredRows": "operators",
    "CentredScatter": "operators",
    "as_operator": "operators",
    "weighted_mean": "operators",
    "RandomizedAlgorithm": "randomized",
    "SVDResult": "randomized",
    "randomized_svd": "randomized",
}

__all__ = [
    "CentredRows", "CentredScatter", "Complement", "LanczosAlgorithm", "LanczosResult", "LanczosState", "LowRank",
    "PowerAlgorithm", "PowerResult", "PowerState", "Projection", "RandomizedAlgorithm", "SVDResult", "as_operator",
    "best_rank_k", "certify_projection", "frobenius_norm", "lanczos", "measured_rates", "nuclear_norm",
    "orthonormal_basis", "power_iteration", "predicted_rates", "pseudo_inverse", "randomized_svd",
    "shrink", "spectral_norm", "subspace_angles", "weighted_mean",
]  # fmt: skip


def __getattr__(name: str):
    """Import the names around the compiled kernels on first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(
            f"module 'lemmata.linalg' has no attribute {name!r}; it has {', '.join(__all__)}."
        )
    value = getattr(import_module(f"lemmata.linalg.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return __all__
