"""Problems of clusters and mixtures for the common suite: three clouds of rows, and numbers nothing can be made of."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp
from scipy.stats import bernoulli, multinomial, poisson

from lemmata.clustering.assignment import take_rows
from lemmata.clustering.coresets.sampling import CoresetAlgorithm
from lemmata.clustering.lloyd import LloydAlgorithm, Points
from lemmata.clustering.minibatch import MiniBatchAlgorithm, _draw
from lemmata.core import Blocks, Never
from lemmata.mixtures import Bernoulli, Categorical, EMAlgorithm, Multinomial, Poisson
from lemmata.mixtures.gaussians import (
    DiagonalGaussian,
    FixedGaussian,
    FullGaussian,
    SphericalGaussian,
    TiedGaussian,
    UnitGaussian,
)

N, D, K = 60, 4, 3


def clouds(dtype=np.float64, scale=1.0):
    rng = np.random.default_rng(5)
    return (
        scale * (rng.normal(size=(N, D)) + 3 * rng.normal(size=(K, D))[np.arange(N) % K])
    ).astype(dtype)


def points(dtype):
    return Points.of(clouds(dtype), np.arange(N) % 4 + 0.5)


def sparse_points(dtype):
    return Points.of(sp.csr_array(np.maximum(clouds(), 0).astype(dtype)))


def blocks(dtype):
    return Blocks.of(clouds(dtype))


def holes(dtype):
    X = clouds(dtype)
    return Blocks.of(np.where(np.random.default_rng(6).random(X.shape) < 0.2, np.nan, X))


def counts(dtype):
    return Blocks.of(np.round(np.abs(clouds())).astype(dtype))


def bits(dtype):
    return Blocks.of((clouds() > 0).astype(dtype))


def too_large():
    return Blocks.of(clouds(scale=1e200))


def negative():
    return Blocks.of(-1 - np.round(np.abs(clouds())))


# --- losses, by plain NumPy and SciPy ---------------------------------------------------------------------------------


def cost(state, points):
    X = np.concatenate(
        [rows.toarray() if sp.issparse(rows) else rows for rows, _ in points.data]
    ).astype(float)
    weights = np.ones(N) if points.weights is None else points.weights
    squares = ((X[:, None] - state.centers.astype(float)) ** 2).sum(axis=2)
    return float(weights @ squares.min(axis=1))


def batch_cost(state, points):
    """Per row, of the batch of a state."""
    rows = _draw(points, 20, np.random.default_rng([state.seed, state.number]))
    X = take_rows(points.data, rows).astype(float)
    return float(((X[:, None] - state.centers.astype(float)) ** 2).sum(axis=2).min(axis=1).mean())


def coreset_error(state, data):
    X, kept = data.source.astype(float), state.coreset
    mean = X.mean(axis=0)
    true = ((X - mean) ** 2).sum()
    return (
        abs(float(kept.weights @ ((kept.points.astype(float) - mean) ** 2).sum(axis=1)) - true)
        / true
    )


def mixture_loss(log_density, log_prior=lambda values: 0.0):
    """−(Σ_i log Σ_j π_j p(x_i; θ_j) + log prior) / n, from the log-density of a row under a component."""

    def loss(state, data):
        joint = [
            [log_density(x, state.params, j) for j in range(K)] for x in data.source.astype(float)
        ]
        total = logsumexp(np.array(joint) + np.log(state.weights), axis=1).sum()
        return -float(total + log_prior(state.params)) / N

    return loss


def gaussian(x, params, j):
    """−½(zᵀz + log|2πC|) with z = L⁻¹(x − μ), C = LLᵀ, of the entries that are known."""
    seen, C = ~np.isnan(x), params.covariances
    C = C[j] if C.ndim == 3 else C if C.shape == (D, D) else np.eye(D) * C[j]
    L = np.linalg.cholesky(C[np.ix_(seen, seen)].astype(float))
    z = np.linalg.solve(L, (x - params.means[j])[seen])
    return -0.5 * (z @ z + seen.sum() * np.log(2 * np.pi)) - np.log(np.diag(L)).sum()


def codes(x, params, j):
    starts = np.cumsum(params.sizes) - params.sizes
    return np.log(params.values[j][starts + x.astype(int)]).sum()


def log_values(params):
    return np.log(params.values).sum()


# name, algorithm, easy, hopeless, recompute, and what else a Problem takes
WIDE = {"threaded": True, "wide": ("weights", "params", "stats", "past")}
CLUSTERING = [
    ("Lloyd", lambda: LloydAlgorithm(K), points, lambda: Points.of(clouds(scale=1e200)), cost,
     {"threaded": True, "wide": ("sums",)}),
    ("Lloyd with bounds", lambda: LloydAlgorithm(K, "random", "yinyang"), points, lambda: Points.of(clouds(scale=1e200)), cost,
     {"threaded": True, "wide": ("sums",)}),
    ("Lloyd on sparse rows", lambda: LloydAlgorithm(K, "random"), sparse_points, lambda: Points.of(clouds(scale=1e200)), cost,
     {"threaded": True, "wide": ("sums",)}),
    ("mini-batches", lambda: MiniBatchAlgorithm(LloydAlgorithm(K), 20, 40, 2, 0.01), points,
     lambda: Points.of(clouds(scale=1e200)), batch_cost, {"threaded": True, "wide": ("given", "batch")}),
    ("coreset", lambda: CoresetAlgorithm(20), blocks, too_large, coreset_error,
     {"threaded": True, "stop": Never(), "wide": ("spread", "shares", "positions", "coreset")}),
    *(
        (f"EM, {family.name} Gaussians{name}", lambda family=family: EMAlgorithm(family, K), data, too_large,
         mixture_loss(gaussian), WIDE)
        for family in (FullGaussian(), TiedGaussian(), DiagonalGaussian(), SphericalGaussian(), UnitGaussian(),
                       FixedGaussian(2.0))
        for data, name in ((blocks, ""), (holes, " with holes"))
    ),
    ("EM, Bernoulli", lambda: EMAlgorithm(Bernoulli(1.0), K), bits, negative,
     mixture_loss(lambda x, params, j: bernoulli.logpmf(x, params.values[j]).sum(),
                  lambda params: log_values(params) + np.log1p(-params.values).sum()), WIDE),
    ("EM, Poisson", lambda: EMAlgorithm(Poisson(0.0), K), counts, negative,
     mixture_loss(lambda x, params, j: poisson.logpmf(x, params.values[j]).sum()), WIDE),
    ("EM, multinomial", lambda: EMAlgorithm(Multinomial(1.0), K), counts, negative,
     mixture_loss(lambda x, params, j: multinomial.logpmf(x, int(x.sum()), params.values[j]), log_values), WIDE),
    ("EM, categorical", lambda: EMAlgorithm(Categorical(1.0), K), counts, negative, mixture_loss(codes, log_values), WIDE),
]  # fmt: skip
