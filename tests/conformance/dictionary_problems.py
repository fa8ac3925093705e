"""Learning of dictionaries for the common suite: losses recomputed by plain NumPy from the arrays of a state."""

from __future__ import annotations

import numpy as np

from lemmata.core import MaxSteps
from lemmata.reduction.sparse_coding.coding import Coder, TrainingRows
from lemmata.reduction.sparse_coding.ksvd import KSVDAlgorithm
from lemmata.reduction.sparse_coding.mod import MODAlgorithm
from lemmata.reduction.sparse_coding.online import OnlineAtomsAlgorithm

ALPHA = 0.5


def rows(dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6)) * (rng.random((60, 6)) < 0.5) @ rng.normal(size=(6, 6))
    return TrainingRows(X.astype(dtype), None, compiled=False)


def endless():
    """Numbers that are not finite."""
    return TrainingRows(np.full((60, 6), np.inf), None, compiled=False)


def ksvd_loss(state, data):
    D, X = state.D.astype(float), data.X.astype(float)
    total = 0.0
    for x, index, value in zip(X, state.index, state.value.astype(float), strict=True):
        used = index >= 0
        r = x - value[used] @ D[index[used]]
        total += 0.5 * r @ r / len(X)
    return total


def by_books(x, D, s):
    """OMP by least squares on every support it grows."""
    S: list[int] = []
    r = x
    for _ in range(s):
        S.append(int(np.abs(D @ r).argmax()))
        r = x - np.linalg.lstsq(D[S].T, x, rcond=None)[0] @ D[S]
    return r


def mod_loss(state, data):
    D, X = state.D.astype(float), data.X.astype(float)
    return float(np.mean([0.5 * r @ r for r in (by_books(x, D, 2) for x in X)]))


def online_loss(state, data):
    """The best ℓ1 codes of the batch, by scikit-learn."""
    from sklearn.linear_model import Lasso

    n, size = len(data.X), 20
    per_pass = n // size
    order = np.random.default_rng([state.seed, state.number // per_pass]).permutation(n)
    at = state.number % per_pass * size
    X, D = data.X[np.sort(order[at : at + size])].astype(float), state.D.astype(float)
    lasso = Lasso(alpha=ALPHA / 6, fit_intercept=False, tol=1e-10, max_iter=10_000)
    Z = np.array([lasso.fit(D.T, x).coef_ for x in X])
    return float(np.mean(0.5 * ((X - Z @ D) ** 2).sum(axis=1) + ALPHA * np.abs(Z).sum(axis=1)))


DICTIONARIES = [
    ("K-SVD", lambda: KSVDAlgorithm(5, Coder("omp", 2)), rows, endless, ksvd_loss, {}),
    ("MOD", lambda: MODAlgorithm(5, Coder("omp", 2)), rows, endless, mod_loss, {}),
    (
        "online dictionaries",
        lambda: OnlineAtomsAlgorithm(5, Coder("lasso_cd", alpha=ALPHA, tol=1e-12), 20),
        rows, endless, online_loss, {"stop": MaxSteps(9)},
    ),
]  # fmt: skip
