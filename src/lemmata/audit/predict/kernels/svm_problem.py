"""Support vector machines as one problem: its objective, its dual, and both at the coefficients that a fit states.

Everything is recomputed in float64 from the rows and the public attributes: `support_`, `dual_coef_` β, `intercept_` b and the
parameters of the kernel, in scikit-learn's layout, one problem per pair of classes. Both machines are one problem: targets y
(±1 for a pair of classes), a tube ε (0 for classes) and a box l ≤ β ≤ h for every row,

    P(f, b) = ½‖f‖² + Σ h_i (e_i − ε)₊ + Σ (−l_i)(−e_i − ε)₊,      e = y − f(x) − b,      f = Σ β_i κ(x_i, ·)
    D(β) = yᵀβ − ε‖β‖₁ − ½ βᵀKβ                                    subject to  l ≤ β ≤ h,  1ᵀβ = 0

    classes:     h = C s, l = 0 where y = +1;  h = 0, l = −C s where y = −1;  ε = 0      (P's sums are the hinge loss)
    regression:  h = C s, l = −C s                                                        (the ε-insensitive loss)

since the loss is the largest of β(y − f) − ε|β| over the box. Every β inside the constraints bounds P from below: a stated β is
cut to its box and its heavier side scaled down until 1ᵀβ = 0, and P − D is then how far (f, b) can be from the best. P is that
of the function people predict with: the stated β, the stated b. For comparison the best b of the same f is found exactly: P is
piecewise linear in b, with slope −Σh on the far left that rises by h_i at y_i − f_i − ε and by −l_i at y_i − f_i + ε.

All of it needs K to be positive semidefinite; without that P has no convexity, D no meaning, and the claims can't tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.kernel.claims import CannotTell, Fit, fact
from lemmata.audit.predict.kernels import grams
from lemmata.audit.predict.kernels.kernel_matrices import is_given
from lemmata.audit.predict.rows import dense, whole

Array = np.ndarray

EDGE = 1e-6  # of the box: a β this near to a bound is at it


# --- one problem ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MachineProblem:
    """One problem in the form above, with the stated β and b."""

    name: str  # "" or "class a against b"
    rows: Array  # (m,) which rows of the data
    y: Array  # (m,)
    low: Array  # (m,)
    high: Array  # (m,)
    eps: float
    beta: Array  # (m,) as stated
    b: float  # as stated
    outside: float = 0.0  # Σ|β| of rows that may have none: they weigh nothing

    @property
    def feasible(self) -> Array:
        """β inside its constraints: cut to the box, then the heavier side scaled down."""
        beta = np.clip(self.beta, self.low, self.high)
        above, below = beta[beta > 0].sum(), -beta[beta < 0].sum()
        common = min(above, below)
        beta[beta > 0] *= common / above if above > 0 else 0.0
        beta[beta < 0] *= common / below if below > 0 else 0.0
        return beta

    @property
    def infeasibility(self) -> float:
        """The largest step out of the box, as a share of it, or Σβ, or β of rows that weigh nothing, as a share of Σ|β|."""
        width = np.maximum(self.high - self.low, np.finfo(float).tiny)
        out = np.maximum(self.low - self.beta, self.beta - self.high) / width
        total = float(np.abs(self.beta).sum()) + self.outside
        sums = max(abs(float(self.beta.sum())), self.outside) / (total or 1.0)
        return max(float(out.max(initial=0.0)), sums)

    def loss(self, f: Array, b: float) -> float:
        e = self.y - f - b
        above, below = np.maximum(e - self.eps, 0), np.maximum(-e - self.eps, 0)
        return float(self.high @ above - self.low @ below)

    def best_b(self, f: Array) -> float:
        """A minimiser of the loss over b: where its slope passes zero."""
        at = np.concatenate([self.y - f - self.eps, self.y - f + self.eps])
        rise = np.concatenate([self.high, -self.low])
        order = np.argsort(at, kind="stable")
        reached = np.cumsum(rise[order])
        place = np.searchsorted(reached, self.high.sum() * (1 - 1e-15))
        return float(at[order][min(place, len(at) - 1)])

    def dual(self, beta: Array, quadratic: float) -> float:
        """The largest D on the ray through a feasible β, as far as its box goes."""
        linear = float(self.y @ beta - self.eps * np.abs(beta).sum())
        if linear <= 0:
            return 0.0  # β = 0 is feasible too
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(beta > 0, self.high / beta, np.where(beta < 0, self.low / beta, np.inf))
        most = float(room.min(initial=np.inf))
        t = min(linear / quadratic if quadratic > 0 else math.inf, max(most, 1.0))
        return max(t * linear - 0.5 * t * t * quadratic, 0.0) if math.isfinite(t) else 0.0

    def intercepts(self, f: Array) -> tuple[float, float, float]:
        """(least, mean, largest) b by the rows whose β is inside its box; where none is, by what the bounds leave open."""
        free = (self.beta > self.low) & (self.beta < self.high) & (self.beta != 0)
        at = self.y - f - self.eps * np.sign(self.beta)  # b = y − f ∓ ε puts a row on the margin
        if free.any():
            return float(at[free].min()), float(at[free].mean()), float(at[free].max())
        up, down = self.y - f - self.eps, self.y - f + self.eps
        rises = np.where(self.beta >= 0, up, down)[self.beta < self.high]  # b is at least these
        falls = np.where(self.beta > 0, up, down)[self.beta > self.low]  # and at most these
        ends = np.array([rises.max(initial=-np.inf), falls.min(initial=np.inf)])
        ends = ends[np.isfinite(ends)]
        return float(ends.min()), float(ends.mean()), float(ends.max())

    def violation(self, f: Array) -> float:
        """By how much the least b that one row allows exceeds the largest of another: where SMO stops, at most tol."""
        up, down = self.y - f - self.eps, self.y - f + self.eps
        rises = np.where(self.beta >= 0, up, down)[self.beta < self.high]
        falls = np.where(self.beta > 0, up, down)[self.beta > self.low]
        return max(float(rises.max(initial=-np.inf) - falls.min(initial=np.inf)), 0.0)

    def violations(self, f: Array) -> Array:
        """By how much each row breaks complementary slackness: what a small step of its β would gain per unit."""
        e, width = self.y - f - self.b, self.high - self.low
        up = np.where(self.beta >= 0, e - self.eps, e + self.eps)
        down = np.where(self.beta > 0, self.eps - e, -e - self.eps)
        can_rise = self.beta < self.high - EDGE * width
        can_fall = self.beta > self.low + EDGE * width
        return np.maximum(np.where(can_rise, up, 0.0), np.where(can_fall, down, 0.0)).clip(min=0.0)


@dataclass(frozen=True)
class MachineGap:
    """P, D and the rest of one problem."""

    machine: MachineProblem
    f: Array  # (m,) Σ β κ, without b
    primal: float  # at the stated β and b
    profiled: float  # at the stated β and the best b
    dual: float  # the best lower bound known
    bound_by: Array  # (m,) a feasible β on whose ray D is that
    norm: float  # ‖f‖ of the space

    @property
    def share(self) -> float:
        """The most that P can be above the least possible, as a share of it."""
        if self.primal <= self.dual:
            return 0.0
        return self.primal / self.dual - 1 if self.dual > 0 else math.inf


# --- from public attributes to problems -------------------------------------------------------------------------------


def support_rows(fit: Fit) -> Array:
    """The rows that `support_` means. scikit-learn's SVC leaves out rows of weight 0 and counts the others."""
    support = np.asarray(fit.support_).astype(int)
    if fit.weights is None or not np.any(np.asarray(fit.weights) == 0):
        return support
    if not fit.get("made_by_libsvm", False):
        return support
    counted = np.flatnonzero(np.asarray(fit.weights) > 0)
    if len(support) and support.max() >= len(counted):
        raise CannotTell(
            f"support_ names row {support.max():,} of the {len(counted):,} with a weight: pass the weights of the fit"
        )
    return counted[support]


def bounds(fit: Fit) -> Array:
    """(n,) C s_i, with the weights of the classes."""
    n = fit.data.shape[0]
    s = np.ones(n) if fit.weights is None else np.asarray(fit.weights, dtype=np.float64)
    by_class = fit.get("class_weight_")
    if by_class is not None and len(by_class):
        s = s * np.asarray(by_class, dtype=np.float64)[np.asarray(fit.y).astype(int)]
    return float(fit.C) * s


def pair_machines(fit: Fit) -> Iterator[MachineProblem]:
    """One problem per pair of classes i < j. +1 is class i, but of two classes the second (as scikit-learn has it)."""
    classes, y, C = len(fit.classes_), np.asarray(fit.y).astype(int), bounds(fit)
    coef, support, b = dense(fit.dual_coef_), support_rows(fit), np.ravel(fit.intercept_)
    labels = y[support]
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    for at, (i, j) in enumerate(pairs):
        counted = np.flatnonzero(((y == i) | (y == j)) & (C > 0))
        sign = np.where(y == (j if classes == 2 else i), 1.0, -1.0)
        stated = np.zeros(len(y))
        for one, other in ((i, j), (j, i)):
            mine = labels == one
            stated[support[mine]] = coef[other - (other > one), mine]
        box = C[counted]
        up = sign[counted] > 0
        name = "" if classes == 2 else f"class {fit.classes_[i]} against {fit.classes_[j]}"
        yield MachineProblem(
            name, counted, sign[counted], np.where(up, 0.0, -box), np.where(up, box, 0.0), 0.0,
            stated[counted], float(b[at]), float(np.abs(stated[C == 0]).sum()),
        )  # fmt: skip


def tube_machines(fit: Fit) -> Iterator[MachineProblem]:
    """The one problem of a regression."""
    C, y = bounds(fit), np.asarray(fit.y, dtype=np.float64)
    stated = np.zeros(len(y))
    stated[support_rows(fit)] = dense(fit.dual_coef_)[0]
    counted = np.flatnonzero(C > 0)
    box = C[counted]
    yield MachineProblem(
        "", counted, y[counted], -box, box, float(fit.epsilon), stated[counted],
        float(np.ravel(fit.intercept_)[0]), float(np.abs(stated[C == 0]).sum()),
    )  # fmt: skip


def is_regression(fit: Fit) -> bool:
    return fit.has("epsilon") and not fit.has("classes_")


@fact(cost=lambda fit: 4.0 * fit.data.shape[0] * np.atleast_2d(fit.dual_coef_).shape[0])
def machines(fit: Fit) -> list[MachineProblem]:
    """List every problem of a fit."""
    return list((tube_machines if is_regression(fit) else pair_machines)(fit))


def _cost_of_problems(fit: Fit) -> float:
    """One pass over the kernel between the rows and the support vectors, and its products with the β of each pair."""
    n, d = fit.data.shape
    classes = 2 if is_regression(fit) else len(fit.classes_)
    entries = float(n + grams.CORNER) * len(fit.support_)
    return entries * grams.cost_of_entry(d + classes * (classes - 1) / 2)


@fact(cost=_cost_of_problems, needs=(machines,))
def problems(fit: Fit) -> list[MachineGap]:
    """Find the numbers of every problem of a fit. Raises CannotTell."""
    rows, support = whole(fit.data), support_rows(fit)
    n = rows.shape[0]
    if len(support) and not 0 <= support.min() <= support.max() < n:
        raise CannotTell(f"support_ names row {support.max():,} and there are {n:,}: pass the training data")  # fmt: skip
    grams.refuse_lost_digits(fit, rows)
    return solve(fit, rows, machines(fit))


def solve(fit: Fit, rows: Any, found: list[MachineProblem]) -> list[MachineGap]:
    """Measure problems that share rows: the kernel between all rows and those with a coefficient is computed once."""
    if any(machine.outside for machine in found):
        raise CannotTell("rows of weight 0 have coefficients: pass the weights of the fit")
    counted = np.unique(np.concatenate([machine.rows for machine in found]))
    B = np.zeros((rows.shape[0], 2 * len(found)))
    for i, machine in enumerate(found):
        B[machine.rows, 2 * i], B[machine.rows, 2 * i + 1] = machine.beta, machine.feasible
    used = np.flatnonzero(B.any(axis=1))
    # most β are feasible as they stand: their second column is the first again
    repaired = (B[:, ::2] != B[:, 1::2]).any(axis=0)
    needed = np.flatnonzero(np.column_stack([np.ones_like(repaired), repaired]))
    F = np.zeros_like(B)
    F[np.ix_(counted, needed)] = product_of(fit, rows, counted, used, B[np.ix_(used, needed)])
    gaps = []
    for i, machine in enumerate(found):
        columns = F[machine.rows, 2 * i], F[machine.rows, 2 * i + int(repaired[i])]
        gaps.append(_measure(machine, *columns))
    return gaps


def _measure(machine: MachineProblem, f: Array, within: Array) -> MachineGap:
    """P and D at the stated β, whose f is given, and at the feasible one, whose f is `within`."""
    beta, feasible = machine.beta, machine.feasible
    square = max(float(beta @ f), 0.0)
    primal, profiled = (0.5 * square + machine.loss(f, b) for b in (machine.b, machine.best_b(f)))
    dual = machine.dual(feasible, float(feasible @ within))
    return MachineGap(machine, f, primal, profiled, dual, feasible, math.sqrt(square))


def product_of(fit: Fit, rows: Any, these: Array, those: Array, B: Array) -> Array:
    """κ(x_i, x_j) B for i among these and j among those, in tiles."""
    if is_given(fit):
        return dense(rows[np.ix_(these, those)]) @ B
    return grams.products(fit, rows[these], rows[those], B)
