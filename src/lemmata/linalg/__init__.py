"""Linear algebra on anything with `@`: projections, power method, Lanczos, randomized SVD, norms, shrinkage, angles."""

# At once, not on first use: a module of the same name would stand in the place of the function `lanczos`.
from lemmata.linalg.lanczos import lanczos  # noqa: F401
from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "krylov": "ArnoldiResult arnoldi",
        "lanczos": "LanczosAlgorithm LanczosResult LanczosState lanczos",
        "lowrank": "LowRank best_rank_k frobenius_norm nuclear_norm shrink spectral_norm subspace_angles",
        "operators": "CentredRows CentredScatter as_operator weighted_mean",
        "power": "PowerAlgorithm PowerResult PowerState measured_rates power_iteration predicted_rates",
        "projections": "Complement Projection certify_projection orthonormal_basis pseudo_inverse",
        "randomized": "RandomizedAlgorithm SVDResult randomized_svd",
    },
)
