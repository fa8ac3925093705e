"""Every algorithm with a problem it solves and one that nobody can: what test_algorithms.py runs its checks on.

An algorithm enters the suite by one `Problem` in PROBLEMS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from autoencoder_problems import AUTOENCODERS
from clustering_problems import CLUSTERING
from completion_problems import COMPLETION
from core_toys import Halving
from dictionary_problems import DICTIONARIES
from mlp_problems import PERCEPTRONS
from nets_problems import NETS
from nmf_problems import FACTORS
from text_problems import TEXTS
from topics_problems import TOPICS

from lemmata.core import Blocks, MaxSteps, Never, Restarts, Solution, Stop
from lemmata.core import Path as ParameterPath
from lemmata.linalg import LanczosAlgorithm, PowerAlgorithm, RandomizedAlgorithm
from lemmata.optim import SGD, Adam, Descent, GradientDescent, HeavyBall, Nesterov
from lemmata.reduction.covariance import (
    EighAlgorithm,
    Scatter,
    SVDAlgorithm,
    VarianceAscentAlgorithm,
)
from lemmata.reduction.reconstruction import (
    ClosedLinearAutoencoderAlgorithm,
    LinearAutoencoderAlgorithm,
    StochasticLinearAutoencoderAlgorithm,
    TrainingSample,
    largest_eigenvalue,
)

N, D, K = 60, 12, 3


@dataclass(frozen=True)
class Problem:
    """One algorithm and what the suite has to know of it."""

    name: str
    algorithm: Callable[[], Any]
    easy: Callable[[Any], Any]  # dtype -> data on which the algorithm works
    hopeless: Callable[[], Any]  # data on which nothing can work
    # (state, data) -> the loss, from the state's arrays by plain NumPy
    recompute: Callable[[Any, Any], float]
    stop: Stop = MaxSteps(9)
    # whether a hopeless run's own numbers show it
    says_so: Callable[[Solution], bool] = lambda solution: False
    wide: tuple[
        str, ...
    ] = ()  # fields of the state kept in float64 on purpose, float32 data or not
    threaded: bool = False  # goes through map_reduce or a parallel kernel
    single: bool = False  # computes in float32 whatever the data is: texts have no dtype


# --- data -------------------------------------------------------------------------------------------------------------


def rows(dtype=np.float64, scale=1.0):
    """Rows with a clear spectrum, away from the origin."""
    rng = np.random.default_rng(0)
    return (scale * (rng.normal(size=(N, D)) * 0.7 ** np.arange(D) + 1.0)).astype(dtype)


def symmetric(dtype):
    """Positive definite, eigenvalues 1, 0.7, 0.49, …"""
    Q, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(D, D)))
    return (Q * 0.7 ** np.arange(D) @ Q.T).astype(dtype)


def too_large():
    return np.full((D, D), 1e308)


def opposite():
    """Eigenvalues 1 and −1, each repeated: |λ₂/λ₁| = 1, so powers of it never settle."""
    return np.diag([1.0, -1.0] * (D // 2))


def sample(dtype, with_rows=False, scale=1.0):
    X = rows(dtype, scale)
    centred = X.astype(float) - X.mean(axis=0)
    S = centred.T @ centred / N
    longest = float((centred**2).sum(axis=1).max())
    return TrainingSample(
        X.mean(axis=0),
        S,
        largest_eigenvalue(S),
        np.dtype(dtype).name,
        X if with_rows else None,
        longest=longest,
    )


def broken_sample(with_rows=False):
    """Numbers whose squares are infinite, and so is Σ."""
    part = sample(np.float64, with_rows)
    far = None if part.rows is None else part.rows * 1e170
    return TrainingSample(
        part.mean, part.covariance * np.inf, np.inf, part.dtype, far, longest=np.inf
    )


# --- losses, by plain NumPy -------------------------------------------------------------------------------------------


def captured(vectors, S):
    vectors, S = np.asarray(vectors, dtype=float), np.asarray(S, dtype=float)
    return -float(np.trace(vectors.T @ S @ vectors))


def power_loss(state, A):
    return captured(np.column_stack([state.locked, state.v]), A)


def lanczos_loss(state, A):
    Q = np.hstack(state.basis).astype(float)
    return -float(np.linalg.eigvalsh(Q.T @ np.asarray(A, dtype=float) @ Q)[::-1][:K].sum())


def autoencoder_loss(state, sample):
    W, V = state.params if len(state.params) == 2 else (state.params[0].T, state.params[0])
    rest = np.eye(D) - np.asarray(V, dtype=float) @ np.asarray(W, dtype=float)
    return 0.5 * float(np.trace(rest @ sample.covariance @ rest.T))


def axes_loss(state, scatter):
    return captured(state.vectors, scatter.matrix)


# --- functions to descend ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bowl:
    """½ xᵀAx − bᵀx."""

    def __call__(self, params, data):
        (x,), (A, b) = params, data
        with np.errstate(over="ignore", invalid="ignore"):
            return float(0.5 * x @ A @ x - b @ x), (A @ x - b,)


def bowl_data(dtype):
    return symmetric(dtype), np.ones(D, dtype)


def steep_bowl():
    return 1e8 * symmetric(np.float64), np.ones(D)


def descent(optimizer):
    return lambda dtype=np.float64: Descent(Bowl(), optimizer, start=(np.linspace(-1, 1, D),))


def descent_loss(state, data):
    return Bowl()(
        tuple(np.asarray(part, dtype=float) for part in state.params),
        [np.asarray(p, float) for p in data],
    )[0]


# --- the registry -----------------------------------------------------------------------------------------------------


def nan_vector():
    return np.array([1.0, np.nan, 2.0])


def toy_loss(state, data):
    return float(state.x @ state.x)


def toy_children_loss(state, data):
    return toy_loss(state.state, data)


def vector(dtype):
    return np.linspace(-1, 1, D)


def formed(dtype):
    return Scatter.form(Blocks.of(rows(dtype)))


def implicit(dtype):
    X = sp.csr_array(np.where(rows() > 1, rows(), 0).astype(dtype))
    return Scatter.implicit(Blocks.of(X), columns=20)


def infinite_scatter():
    X = rows() * 1e170  # its squares are not numbers any more
    with np.errstate(over="ignore", invalid="ignore"):
        return Scatter.form(Blocks.of(X))


def never_settles(solution):
    return solution.stopped == "max steps" and solution.trace.last("residual") > 0.1


OPTIMIZERS = {
    "gradient descent": GradientDescent(1.0),
    "SGD": SGD(0.5, decay=0.1),
    "heavy ball": HeavyBall(0.5, momentum=0.5),
    "Nesterov": Nesterov(0.5, momentum=0.5),
    "Adam": Adam(0.1),
}

PROBLEMS = [
    Problem("toy", lambda: Halving(0.9, 0.1), vector, nan_vector, toy_loss),
    Problem(
        "Restarts",
        lambda: Restarts(Halving(0.9, 0.1), n=3, stop=MaxSteps(3)),
        vector, nan_vector, toy_children_loss, stop=Never(),
    ),
    Problem(
        "Path",
        lambda: ParameterPath(Halving(noise=0.1), over={"rate": [0.9, 0.5]}, stop=MaxSteps(4)),
        vector, nan_vector, toy_children_loss, stop=Never(),
    ),
    Problem(
        "power method", lambda: PowerAlgorithm(K, tol=1e-6), symmetric, opposite, power_loss,
        stop=MaxSteps(40), says_so=never_settles, wide=("values",),
    ),
    Problem("power method, overflowing", lambda: PowerAlgorithm(1), symmetric, too_large, power_loss, wide=("values",)),
    Problem(
        "Lanczos", lambda: LanczosAlgorithm(K), symmetric, too_large, lanczos_loss,
        wide=("T", "coupling", "values", "bounds"),
    ),
    Problem(
        "Lanczos in blocks, restarted", lambda: LanczosAlgorithm(K, block=2, max_dim=7), symmetric, too_large, lanczos_loss,
        wide=("T", "coupling", "values", "bounds"),
    ),
    Problem(
        "randomized", lambda: RandomizedAlgorithm(K, oversampling=2), symmetric, too_large,
        lambda state, S: captured(state.Q[:, :K], S), wide=("values",),
    ),
    Problem(
        "randomized on sparse rows", lambda: RandomizedAlgorithm(K, oversampling=2), implicit, infinite_scatter,
        lambda state, S: captured(state.Q[:, :K], S.matrix), wide=("values",), threaded=True,
    ),
    Problem("eigh", lambda: EighAlgorithm(K), formed, infinite_scatter, axes_loss, Never(), wide=("values",), threaded=True),
    Problem("svd", lambda: SVDAlgorithm(K), formed, infinite_scatter, axes_loss, Never(), wide=("values",), threaded=True),
    Problem("gradient PCA", lambda: VarianceAscentAlgorithm(K), formed, infinite_scatter, axes_loss, threaded=True),
    Problem(
        "gradient PCA on sparse rows", lambda: VarianceAscentAlgorithm(K), implicit, infinite_scatter, axes_loss, threaded=True,
    ),
    Problem(
        "autoencoder, descent on Σ", lambda: LinearAutoencoderAlgorithm(K, False, "any", Nesterov(1.0)),
        sample, broken_sample, autoencoder_loss, wide=("params", "gradient", "memory"),
    ),
    Problem(
        "autoencoder, tied", lambda: LinearAutoencoderAlgorithm(K, True, "any", GradientDescent(1.0), step_size=0.05),
        sample, broken_sample, autoencoder_loss, wide=("params", "gradient", "memory"),
    ),
    Problem(
        "autoencoder, mini-batches", lambda: StochasticLinearAutoencoderAlgorithm(K, False, "any", SGD(1.0), batch_size=16),
        lambda dtype: sample(dtype, with_rows=True), lambda: broken_sample(with_rows=True), autoencoder_loss,
        wide=("gradient",),
    ),
    Problem(
        "autoencoder, closed form", lambda: ClosedLinearAutoencoderAlgorithm(K, False, "any"),
        sample, broken_sample, autoencoder_loss, stop=Never(), wide=("params", "gradient", "memory"),
    ),
    *(
        Problem(
            f"descent, {name}", descent(optimizer), bowl_data, steep_bowl, descent_loss,
            stop=MaxSteps(60), wide=("params", "gradient", "memory"),
            says_so=lambda solution: solution.trace.largest_rise > 0 or solution.trace.last("gradient") > 1,
        )
        for name, optimizer in OPTIMIZERS.items()
    ),
    *(Problem(*problem, **more) for *problem, more in (*COMPLETION, *CLUSTERING, *NETS, *PERCEPTRONS, *AUTOENCODERS, *TOPICS)),
    *(Problem(*problem, **more) for *problem, more in DICTIONARIES),
    *(Problem(*problem, **more) for *problem, more in FACTORS),
    *(Problem(*problem, **more) for *problem, more in TEXTS),
]  # fmt: skip
