"""Problems of NMF for the common suite: products of small factors, dense, sparse, with holes; numbers too large to square."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lemmata.core import Blocks
from lemmata.topics.nmf.divergence import Counted, DivergenceAlgorithm
from lemmata.topics.nmf.hals import HALS
from lemmata.topics.nmf.initialisation import Start
from lemmata.topics.nmf.multiplicative import Multiplicative
from lemmata.topics.nmf.projected_als import ProjectedALS
from lemmata.topics.nmf.squares import FactorPenalty, SquaresAlgorithm
from lemmata.topics.nmf.table import RowTable

N, D, K = 40, 8, 3
PENALTY = FactorPenalty(0.1, 0.2, 0.3, 0.1)


def parts(dtype=np.float64, scale=1.0):
    rng = np.random.default_rng(3)
    return (scale * (rng.gamma(1.0, size=(N, K)) @ rng.gamma(1.0, size=(K, D)))).astype(dtype)


def weighted(dtype):
    return RowTable(Blocks.of(parts(dtype)).weighted(np.arange(N) % 3 + 0.5), K)


def sparse(dtype):
    return RowTable(Blocks.of(sp.csr_array(np.where(parts() > 2, parts(), 0).astype(dtype))), K)


def torn(dtype):
    X = parts(dtype)
    return RowTable(
        Blocks.of(np.where(np.random.default_rng(4).random(X.shape) < 0.2, np.nan, X)), K
    )


def counted(dtype):
    return Counted(Blocks.of(parts(dtype)), K)


def loss(divergence):
    def of(state, table):
        X = table.data.source
        X = (X.toarray() if sp.issparse(X) else X).astype(float)
        s = np.ones(N) if table.data.weights is None else table.data.weights
        W, V = state.W.astype(float), state.V.astype(float)
        P, known = W @ V.T, ~np.isnan(X)
        x = np.where(known, X, 1.0)
        terms = x * np.log(x / np.maximum(P, 1e-300)) - x + P if divergence else 0.5 * (x - P) ** 2
        total = s @ np.where(known, terms, 0.0).sum(axis=1)
        p = PENALTY
        rows = p.l1_W * W.sum(axis=1) + 0.5 * p.l2_W * (W**2).sum(axis=1)
        return float(total + s @ rows + p.l1_H * V.sum() + 0.5 * p.l2_H * (V**2).sum())

    return of


def squares(update):
    return lambda: SquaresAlgorithm(Start("random"), update, update, PENALTY)


def too_large():
    return RowTable(Blocks.of(parts(scale=1e200)), K)


# name, algorithm, easy, hopeless, recompute, and what else a Problem takes
FACTORS = [
    ("HALS", squares(HALS()), weighted, too_large, loss(False), {"threaded": True}),
    ("HALS on sparse rows", squares(HALS()), sparse, too_large, loss(False), {"threaded": True}),
    ("HALS with holes", squares(HALS()), torn, too_large, loss(False), {"threaded": True}),
    ("multiplicative updates", squares(Multiplicative()), weighted, too_large, loss(False), {"threaded": True}),
    ("projected ALS", squares(ProjectedALS()), weighted, too_large, loss(False), {"threaded": True}),
    ("KL-NMF", lambda: DivergenceAlgorithm(Start("random"), PENALTY), counted,
     lambda: Counted(Blocks.of(parts(scale=1e308)), K), loss(True), {"threaded": True}),
]  # fmt: skip
