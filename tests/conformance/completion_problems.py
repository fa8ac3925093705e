"""Problems of matrix completion for the common suite: a noisy low-rank matrix with holes, and numbers too large to square."""

from __future__ import annotations

import numpy as np

from lemmata.completion import Observed
from lemmata.completion.als.algorithm import ALSAlgorithm
from lemmata.completion.baselines.mean_ratings import MeanRatingsAlgorithm
from lemmata.completion.baselines.rank_one import GradientFlowAlgorithm, PowerStepsAlgorithm
from lemmata.completion.nuclear.projection import ProjectionAlgorithm
from lemmata.completion.nuclear.soft_impute import SoftImputeAlgorithm
from lemmata.completion.nuclear.thresholding import ThresholdingAlgorithm
from lemmata.completion.sgd.blocked_entries import BlockedEntries
from lemmata.completion.sgd.estimator import SGDFactorizationAlgorithm
from lemmata.core import Never

N, M, K, REG = 30, 20, 2, 0.1


def matrix(dtype=np.float64, share=0.6, scale=1.0):
    rng = np.random.default_rng(3)
    A = 1.0 + rng.normal(size=(N, K)) @ rng.normal(size=(K, M)) + 0.1 * rng.normal(size=(N, M))
    return Observed.of(np.where(rng.random((N, M)) < share, scale * A, np.nan).astype(dtype))


def positive(dtype):
    A = matrix(dtype)
    return A.with_values(np.abs(A.values))


def complete(dtype):
    return matrix(dtype, share=1.1)


def too_large():
    return matrix(scale=1e200)


def blocked(dtype):
    return BlockedEntries.of(matrix(dtype))


def blocked_too_large():
    return BlockedEntries.of(too_large())


# --- losses, by plain NumPy on dense matrices -------------------------------------------------------------------------


def squares(A, X):
    """½ Σ_Ω (a − x)²."""
    return 0.5 * float(np.nansum((A.dense().astype(float) - X) ** 2))


def ridge(F, bias, counts):
    return (
        0.5
        * REG
        * float(((np.asarray(F, float) ** 2).sum(axis=1) + np.asarray(bias, float) ** 2) @ counts)
    )


def als_loss(state, A, weighted=True):
    U, V, b, c = (np.asarray(part, float) for part in (state.U, state.V, state.b, state.c))
    counts = (A.row_counts, A.column_counts) if weighted else (np.ones(N), np.ones(M))
    X = state.mean + b[:, None] + c + U @ V.T
    return squares(A, X) + ridge(U, b, counts[0]) + ridge(V, c, counts[1])


def implicit_loss(state, A):
    """Over all places: where nothing is stored, confidence 1 in preference 0."""
    a, X = (
        A.dense(fill=0.0).astype(float),
        np.asarray(state.U, float) @ np.asarray(state.V, float).T,
    )
    total = 0.5 * float(((1 + np.abs(a)) * ((a > 0) - X) ** 2).sum())
    return (
        total
        + ridge(state.U, np.zeros(N), A.row_counts)
        + ridge(state.V, np.zeros(M), A.column_counts)
    )


def sgd_loss(state, data):
    A = matrix(data.x.dtype)
    shown = SGDFactorizationAlgorithm(K, REG).attributes(state)
    U, V = shown["U_"].astype(float), shown["V_"].astype(float)
    b, c = shown["row_bias_"].astype(float), shown["column_bias_"].astype(float)
    X = shown["mean_"] + b[:, None] + c + U @ V.T
    return squares(A, X) + ridge(U, b, A.row_counts) + ridge(V, c, A.column_counts)


def means_loss(state, A):
    X = state.mean + np.asarray(state.rows)[:, None] + np.asarray(state.columns)
    return squares(A, X) + 0.5 * REG * float((state.rows**2).sum() + (state.columns**2).sum())


def rank_one_loss(state, A):
    return squares(A, np.outer(state.u.astype(float), state.v.astype(float)))


def product(state):
    return (state.P.astype(float) * state.s) @ state.Q.astype(float).T


def soft_loss(state, A):
    return squares(A, product(state)) + state.level * float(
        np.linalg.svd(product(state), compute_uv=False).sum()
    )


def dual_loss(state, A):
    """½‖B‖² − ⟨Y, A⟩ for the B and Y of the state; how near B is to shrink_τ(Y) is tested beside the model."""
    return 0.5 * float((product(state) ** 2).sum()) - float(
        state.Y.astype(float) @ A.values.astype(float)
    )


TAU = 20.0

# name, algorithm, easy, hopeless, recompute, and what else a Problem takes
COMPLETION = [
    ("mean ratings", lambda: MeanRatingsAlgorithm("both", REG), matrix, too_large, means_loss,
     {"stop": Never(), "wide": ("rows", "columns")}),
    ("rank one, power steps", PowerStepsAlgorithm, complete, lambda: complete(np.float64).with_values(np.full(N * M, 1e200)),
     rank_one_loss, {}),
    ("rank one, gradient flow", GradientFlowAlgorithm, matrix, too_large, rank_one_loss, {}),
    ("ALS", lambda: ALSAlgorithm(K, REG), matrix, too_large, als_loss, {"threaded": True}),
    ("ALS, plain", lambda: ALSAlgorithm(K, REG, weighted=False), matrix, too_large,
     lambda state, A: als_loss(state, A, weighted=False), {"threaded": True}),
    ("ALS, conjugate gradients", lambda: ALSAlgorithm(K, REG, method="cg"), matrix, too_large, als_loss, {"threaded": True}),
    ("ALS, nonnegative", lambda: ALSAlgorithm(K, REG, nonnegative=True), matrix, too_large, als_loss, {"threaded": True}),
    ("ALS, implicit", lambda: ALSAlgorithm(K, REG, implicit=True, biases=False), positive, too_large, implicit_loss,
     {"threaded": True, "says_so": lambda solution: solution.trace.largest_rise >= 0}),
    ("SGD factorization", lambda: SGDFactorizationAlgorithm(K, REG), blocked, blocked_too_large, sgd_loss, {"threaded": True}),
    ("SGD factorization, adam", lambda: SGDFactorizationAlgorithm(K, REG, optimizer="adam"), blocked, blocked_too_large,
     sgd_loss, {"threaded": True}),
    ("singular value projection", lambda: ProjectionAlgorithm(K), matrix, too_large,
     lambda state, A: squares(A, product(state)), {"threaded": True}),
    ("singular value thresholding", lambda: ThresholdingAlgorithm(TAU), matrix, too_large, dual_loss, {"threaded": True}),
    ("soft-impute", lambda: SoftImputeAlgorithm(1.0), matrix, too_large, soft_loss, {"threaded": True}),
]  # fmt: skip
