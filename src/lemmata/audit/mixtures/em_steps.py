"""Plain EM, for checks only: rows as they are read, the E-step, single steps from where a fit stands.

    ℓ(θ) = Σ_i w_i ln Σ_j π_j p(x_i; θ_j),      r_ij ∝ π_j p(x_i; θ_j)  (E),      θ' from Σ_i w_i r_ij t(x_i)  (M)

Weights are divided by the largest, so that their unit does not matter. Sums of log-likelihoods are given in nats of
n = (Σw)²/Σw² rows that count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.clustering.nearest_centres import one_blas_thread
from lemmata.audit.kernel.claims import LEAST_BUDGET, CannotTell, Fit, fact, free
from lemmata.audit.mixtures.gaussians import components_of

Array = np.ndarray
Rows = Iterable[tuple[Array, Array]]  # slices of rows and their weights, as often as asked for
NUMBERS = 2**18  # in the temporaries of a slice
OVERHEAD = 3e5  # multiplications that the Python around a slice takes the time of
START_STEPS = 5  # of EM, that the start of a run takes the time of
# shares of it; what is left is for the passes that every claim needs
THIRDS, FRESH, HALVES, CLIMBING, NUDGING, RIDGELESS = 0.2, 0.15, 0.2, 0.2, 0.1, 0.08
TIMES_THE_FIT = 5.0  # what certify(X) may take


class Reading:
    """The rows of a fit, dense and in float64, in slices that fit a cache; a row of which nothing is known weighs nothing.

    dtype : rounds the rows first to what the model itself is shown
    """

    def __init__(self, data: Any, width: int, dtype: Any = None):
        self.data, self.dtype = data, dtype
        self.step = max(256, NUMBERS // max(data.shape[1] * width, 1))
        self.unit = unit_of(data)

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        for rows, w in self.data:
            for start in range(0, rows.shape[0], self.step):
                part = rows[start : start + self.step]
                part = np.asarray(part.toarray() if hasattr(part, "toarray") else part)
                if self.dtype is not None:
                    part = part.astype(self.dtype, copy=False)
                part = part.astype(np.float64, copy=False)
                known = ~np.isnan(part).all(axis=1)
                weights = 1.0 if w is None else w[start : start + self.step] / self.unit
                yield part, known * np.asarray(weights, dtype=np.float64)


def unit_of(data: Any) -> float:
    """The largest weight, by which all are divided."""
    return 1.0 if data.weights is None else float(np.max(data.weights))


def posterior(joint: Array) -> tuple[Array, Array]:
    """ln p(x) (n,) and the responsibilities (n, k) of ln π_j p(x; θ_j). A row that nothing explains belongs to all alike."""
    top = joint.max(axis=1, keepdims=True)
    finite = np.isfinite(top)
    r = np.exp(joint - np.where(finite, top, 0.0))
    total = r.sum(axis=1, keepdims=True)
    lost = ~(total > 0)
    r /= np.where(lost, 1.0, total)
    if lost.any():
        r[lost[:, 0]] = 1 / joint.shape[1]
    with np.errstate(divide="ignore"):
        return (np.where(finite, top, 0.0) + np.log(total))[:, 0], r


def expect(parts: Any, rows: Rows) -> tuple[float, list[Array]]:
    """The log-likelihood and log prior of components, and the sums for their next M-step."""
    value, sums = parts.log_prior(), parts.empty()
    for x, w in rows:
        each, r = posterior(parts.joint(x))
        value += _dot(w, each)
        parts.add(sums, x, w[:, None] * r)
    return float(value), sums


def log_likelihood(parts: Any, rows: Rows) -> float:
    return float(sum(_dot(w, posterior(parts.joint(x))[0]) for x, w in rows))


def _dot(w: Array, each: Array) -> float:
    """Σ w ln p; 0 · −∞ = 0."""
    return float(w @ np.where(w > 0, each, 0.0))


def make_steps(parts: Any, rows: Rows, steps: int) -> Any:
    """Return the components after so many EM steps; LinAlgError where one collapses."""
    for _ in range(steps):
        parts = parts.step(expect(parts, rows)[1])
    return parts


def merge_all(parts: Any) -> Any:
    """Return the one component with the mean and covariance of all."""
    while parts.k > 1:
        parts = parts.merge(0, parts.k - 1)
    return parts


@dataclass(frozen=True)
class FitFacts:
    """The result of one plain pass over the data of a fit, in float64."""

    parts: Any  # the components
    rows: Reading
    sums: list[Array]  # for the next M-step
    weight: float  # Σ w, in units of the largest weight
    n: float  # rows that count: (Σw)² / Σw²
    log_likelihood: float  # Σ w ln p(x)
    grain: float  # Σ w·(by how many eps ln p(x) may err); rounding is relative to it
    impossible: int  # rows that count and have ln p(x) = −∞
    counts: Array  # (k,) how many rows a component lives on: (Σ w r)² / Σ w² r, which is Σ r without weights

    def require_finite(self) -> None:
        """Leave claims about the height of the likelihood undecided where it is −∞."""
        if self.impossible:
            rows = f"{self.impossible:,} rows have probability 0"
            raise CannotTell(f"{rows}: the log-likelihood is −∞")

    def require_several(self) -> None:
        """Leave claims about more than one component undecided where there is one."""
        if self.parts.k == 1:
            raise CannotTell("there is one component only")

    @property
    def nats(self) -> float:
        """From sums with weights to nats of rows that count."""
        return self.n / self.weight


# --- what it costs ----------------------------------------------------------------------------------------------------


@fact(cost=free)
def known_components(fit: Fit) -> Any:
    """Read the components; their weights are as the model has them."""
    return components_of(fit)


def pass_work(fit: Fit, n: int | None = None) -> float:
    """Return the multiplications of one E-step with its sums on n rows (all rows of the data), Python included."""
    n, parts = fit.data.shape[0] if n is None else n, known_components(fit)
    slices = 1 + n // max(256, NUMBERS // max(fit.data.shape[1] * parts.k, 1))
    return parts.work(n) + OVERHEAD * slices + hole_work(fit, n)


@fact(cost=free)
def patterns(fit: Fit) -> float:
    """Count the patterns of missing values, at most; each has factors of its own, for every component."""
    found = 0.0
    if np.ndim(getattr(known_components(fit), "covariances", 0)) == 3:
        for rows, _ in fit.data:
            gone = np.isnan(rows)
            some, where = int(gone.any(axis=1).sum()), int(gone.any(axis=0).sum())
            found += float(min(some, 2.0**where))
    return found


def hole_work(fit: Fit, n: int) -> float:
    """Return what patterns of missing values cost in a pass over n rows."""
    share = min(n / max(fit.data.shape[0], 1), 1.0)
    return 0.5 * OVERHEAD * known_components(fit).k * (patterns(fit) * share)


def fit_work(fit: Fit) -> float:
    """Return roughly what the fit took: its steps and some for k-means before, times its starts."""
    steps = float(np.max(fit.get("n_iter_", 1))) + START_STEPS
    starts = float(fit.get("n_init", 1) or 1)
    return steps * starts * known_components(fit).solver_work(fit.data.shape[0])


def affordable(fit: Fit, share: float) -> float:
    """Return the work that a check may plan with: its share of what certify(X) has, or of what certify(X, seconds=…) left."""
    left = fit.work if np.isfinite(fit.work) else 0.0
    return share * max(TIMES_THE_FIT * fit_work(fit), LEAST_BUDGET, left)


# --- what several claims need -----------------------------------------------------------------------------------------


@fact(cost=lambda fit: 1.25 * pass_work(fit))
def facts_of(fit: Fit) -> FitFacts:
    """Read the rows once."""
    rows = Reading(fit.data, len(fit.weights_))
    parts = components_of(fit, rows.unit)
    sums, squares = parts.empty(), np.zeros(parts.k)
    weight = square = value = grain = 0.0
    impossible = 0
    with one_blas_thread():
        for x, w in rows:
            joint = parts.joint(x)
            each, r = posterior(joint)
            finite = np.where((r > 0) & np.isfinite(joint), np.abs(joint), 0.0)
            impossible += int(np.count_nonzero((each == -np.inf) & (w > 0)))
            weight, square, value = weight + w.sum(), square + w @ w, value + _dot(w, each)
            grain += w @ ((r * finite).sum(axis=1) + parts.grain(x, r))
            parts.add(sums, x, w[:, None] * r)
            squares += w**2 @ r
    effective = sums[0] ** 2 / np.maximum(squares, np.finfo(float).tiny)
    n = weight**2 / square if square > 0 else 0.0
    return FitFacts(parts, rows, sums, weight, n, value, grain, impossible, effective)
