"""The power method with deflation: the k eigenvectors of largest |λ|, one after the other.

    v ← (I − LLᵀ) A v / ‖(I − LLᵀ) A v‖                  L: the vectors found so far           (CIL (1.5), Ex. 1.3)

For a symmetric A the part of v outside the eigenvector sought shrinks by |λ₂/λ₁| in every step, and so does the residual
‖Av − θv‖; the trace shows it (`measured_rates`). Orthogonalising against L in every step acts like the deflated
A − λuuᵀ of CIL (1.3), but does not trust u and λ to be exact. (The notes' ‖u‖ there should be ‖u‖²; and CIL 1.5.1 gives
the limit ±u₁: the start decides the sign.)

For a positive semi-definite A the Rayleigh quotient θ = vᵀAv never falls, so −Σθ, the objective, never rises: with
μ_p = vᵀAᵖv, Cauchy–Schwarz gives μ₂² ≤ μ₁μ₃ and μ₁² ≤ μ₀μ₂, hence μ₃/μ₂ ≥ μ₂/μ₁ ≥ μ₁/μ₀. An indefinite A is accepted, but
θ may then fall on its way, and λ, −λ of equal size are never separated.

    >>> found = power_iteration(np.diag([4.0, 2.0, 1.0]), k=2, rng=0)
    >>> found.values.round(6), found.predicted_rate.round(6), found.measured_rate.round(2)
    (array([4., 2.]), array([0.5, 0.5]), array([0.5, 0.5]))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.core.certificate import rounding
from lemmata.core.loop import MaxSteps, Stopped, run
from lemmata.core.runs.trace import Trace, decay_rate
from lemmata.core.store import storable
from lemmata.linalg import _checks as checks
from lemmata.linalg._checks import count

Array = np.ndarray


@storable
@dataclass(frozen=True)
class PowerState:
    """The vectors found (locked) and the one being worked on."""

    version = 1
    layout: ClassVar = {
        "locked": "r j",
        "values": "j",
        "v Av": "r",
        "rayleigh": "",
        "residual": ">=0",
    }

    locked: Array  # (d, j)
    values: Array  # (j,) the Rayleigh quotients of the locked ones
    v: Array  # (d,) a unit vector orthogonal to them
    Av: Array  # (d,) (I − LLᵀ) A v
    rayleigh: float  # θ = vᵀAv
    residual: float  # ‖(I − LLᵀ) A v − θv‖
    seed: int  # vector j starts from default_rng((seed, j))

    @property
    def scale(self) -> float:
        """|θ₁|: residuals are small or large compared with the first eigenvalue."""
        return abs(float(self.values[0] if len(self.values) else self.rayleigh))


def _outside(L: Array, x: Array) -> Array:
    """x minus its part in the span of L. Twice, because once leaves a rounding error of the size of what was removed."""
    for _ in range(2):
        x = x - L @ (L.T @ x)
    return x


def _unit(x: Array) -> Array:
    return (x / checks.norm(x)).astype(x.dtype, copy=False)


def _dot(x: Array, y: Array) -> float:
    return float(np.dot(x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)))


@dataclass(frozen=True)
class PowerAlgorithm:
    """One step is one product with A. A vector whose residual is at most tol·|θ₁| is locked, and the next one begins.

    Parameters
    ----------
    k : int, default=1
        Number of eigenvectors.
    tol : float, default=1e-10
        Residual at which a vector counts as found, relative to |θ₁|; never below what rounding allows.
    """

    k: int = 1
    tol: float = 1e-10

    hint = "scale A: its products leave the finite numbers"

    def init(self, A: Any, rng: np.random.Generator) -> PowerState:
        A = checks.as_square(A)
        d, dtype = A.shape[0], checks.float_type(A)
        count(self.k, d)
        checks.positive(self.tol, "tol")
        return self._begin(A, np.zeros((d, 0), dtype), np.zeros(0), int(rng.integers(2**62)))

    def step(self, state: PowerState, A: Any) -> PowerState:
        if self._is_found(state):
            if len(state.values) + 1 == self.k:
                return state
            locked = np.column_stack([state.locked, state.v])
            return self._begin(A, locked, np.append(state.values, state.rayleigh), state.seed)
        v = _outside(state.locked, state.Av)
        return self._at(A, state.locked, state.values, v, state.seed)

    def _begin(self, A, locked, values, seed) -> PowerState:
        v = _start(locked, seed, len(values))
        return self._at(A, locked, values, v, seed)

    def _at(self, A, locked, values, v, seed) -> PowerState:
        v = _unit(v)
        Av = _outside(locked, checks.product(A, v))
        rayleigh = _dot(v, Av)
        residual = float(checks.norm(Av - v.dtype.type(rayleigh) * v))
        return PowerState(locked, values, v, Av, rayleigh, residual, seed)

    def _is_found(self, state: PowerState) -> bool:
        tol = max(self.tol, rounding(state.v.dtype, terms=len(state.v)))
        return state.residual <= tol * max(state.scale, abs(state.rayleigh))

    def finished(self, state: PowerState) -> bool:
        return len(state.values) + 1 == self.k and self._is_found(state)

    def objective(self, state: PowerState) -> float:
        """−Σ of the Rayleigh quotients so far; a vector not begun counts 0, so that it falls when one begins (A ⪰ 0)."""
        return -float(state.values.sum() + state.rayleigh)

    def extras(self, state: PowerState) -> dict[str, float]:
        return {"residual": state.residual, "vector": float(len(state.values))}

    def attributes(self, state: PowerState) -> dict[str, Array]:
        """k orthonormal vectors, largest |value| first. Those not begun are random directions, with the value 0."""
        vectors = np.column_stack([state.locked, state.v])
        while vectors.shape[1] < self.k:
            vectors = np.column_stack([vectors, _start(vectors, state.seed, vectors.shape[1])])
        values = self.values_as_found(state)
        order = _largest_first(values)
        return {"values": values[order], "vectors": vectors[:, order]}

    def values_as_found(self, state: PowerState) -> Array:
        """(k,) in the order of the search, which is that of size except where values nearly agree."""
        found = [*state.values, state.rayleigh]
        return np.array(found + [0.0] * (self.k - len(found)))


def _largest_first(values: Array) -> Array:
    return np.argsort(-np.abs(values), kind="stable")


def _start(locked: Array, seed: int, j: int) -> Array:
    """The start of vector j: a random unit vector orthogonal to the locked ones."""
    x = np.random.default_rng((seed, j)).standard_normal(len(locked)).astype(locked.dtype)
    x = _outside(locked, _unit(x))
    x = _outside(locked, _unit(x))  # where little is left, rounding is a large share of it
    return _unit(x)


# --- rates ------------------------------------------------------------------------------------------------------------


def predicted_rates(values: Any, next_value: float, dtype: Any = np.float64) -> Array:
    """|λ_{j+1}/λ_j| for each value, `next_value` being the one after the last; NaN where λ_j is zero up to rounding."""
    sizes = np.abs(np.append(np.asarray(values, dtype=float), next_value))
    sizes[sizes <= rounding(dtype) * sizes.max()] = 0.0
    rates = np.full(len(sizes) - 1, np.nan)
    np.divide(sizes[1:], sizes[:-1], out=rates, where=sizes[:-1] > 0)
    return rates


def measured_rates(trace: Trace) -> Array:
    """The factor by which the residual of each vector shrank per step, in the order in which the vectors were found.

    At first all eigenvectors take part in a residual, at the end only the next one does. NaN where too few rows show it.
    """
    residual, vector = trace.extras["residual"], trace.extras["vector"]
    count = int(vector.max()) + 1
    logs = (np.log(residual[(vector == j) & (residual > 0)]) for j in range(count))
    return np.array([decay_rate(one) for one in logs])


def _next_value(A: Any, vectors: Array, steps: int = 20) -> float:
    """λ_{k+1}, from below: the residual of the last vector points to the next eigenvector, so a few power steps from there
    find its value. 0 if there is no further direction."""
    d, k = vectors.shape
    if k == d:
        return 0.0
    v = vectors[:, -1]
    Av = checks.product(A, v)
    x = _outside(vectors, Av)
    # found to the last digit: what is left points anywhere
    if checks.norm(x) <= np.finfo(v.dtype).eps * checks.norm(Av):
        x = _start(vectors, 0, k)
    theta = 0.0
    for _ in range(steps):
        if not x.any():
            break
        v = _unit(x)
        x = _outside(vectors, checks.product(A, v))
        theta = _dot(v, x)
    return theta


@dataclass(frozen=True)
class PowerResult:
    """Result of `power_iteration`, largest |value| first."""

    values: Array  # (k,)
    vectors: Array  # (d, k)
    residuals: Array  # (k,) ‖Av − θv‖, measured at the end: an eigenvalue lies within it of θ
    predicted_rate: Array  # (k,) |λ_{j+1}/λ_j|, with an estimate of λ_{k+1} from below
    measured_rate: Array  # (k,) the decay of the residual per step
    trace: Trace
    stopped: str

    @property
    def converged(self) -> bool:
        return self.stopped == Stopped.FINISHED


def power_iteration(
    A: Any,
    k: int = 1,
    *,
    tol: float = 1e-10,
    max_iter: int = 10_000,
    rng: int | np.random.Generator | None = None,
) -> PowerResult:
    """The k eigenvectors of largest |λ| of a symmetric A by the power method with deflation.

    Parameters
    ----------
    A : anything with `@` and `.shape`, symmetric
    k : int, default=1
    tol : float, default=1e-10
        Residual ‖Av − θv‖ at which a vector is found, relative to |θ₁|.
    max_iter : int, default=10_000
        Products with A, for all k vectors together.
    rng : int, Generator or None
        Random numbers of the starts.
    """
    A, rng = checks.as_square(A), np.random.default_rng(rng)
    checks.check_symmetric(A, rng)
    solution = run(PowerAlgorithm(k, tol), A, stop=MaxSteps(max_iter), rng=rng)
    values, vectors = solution.attributes["values"], solution.attributes["vectors"]
    residuals = checks.residual_norms(A, values, vectors)
    predicted = predicted_rates(values, _next_value(A, vectors), vectors.dtype)
    measured = np.full(k, np.nan)
    rates = measured_rates(solution.trace)
    measured[: len(rates)] = rates
    measured = measured[_largest_first(solution.algorithm.values_as_found(solution.state))]
    return PowerResult(
        values, vectors, residuals, predicted, measured, solution.trace, str(solution.stopped)
    )
