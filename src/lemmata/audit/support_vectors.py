"""What theory promises about support vector machines, checked on the data by plain code.

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
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC, SVR

from lemmata.audit.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel_fits import (
    CORNER,
    diagonal_of,
    difference,
    gamma_stated,
    gram,
    mercer,
    products,
    why_no_kernel,
    with_kernel,
)
from lemmata.audit.kernel_matrices import CannotTell, is_given, whole
from lemmata.core.certificate import (
    PROVED,
    RULE_OF_THUMB,
    Evidence,
    Fit,
    at_most,
    claim,
    unknown,
)

Array = np.ndarray

GAP = 0.01  # of the least objective
SLACK = 0.01  # of the margin, or of the spread of y
EDGE = 1e-6  # of the box: a β this near to a bound is at it
FEASIBLE = 1e-6  # of C, by which β may leave its box
REFERENCE = 1500  # rows of a search for something better, with scikit-learn's own machine
SEARCH = 60  # multiplications per entry of K that such a search takes, roughly


# --- one problem ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """One problem in the form above, with the stated β and b."""

    name: str  # "" or "class a against b"
    rows: Array  # (m,) which rows of the data
    y: Array  # (m,)
    low: Array  # (m,)
    high: Array  # (m,)
    eps: float
    beta: Array  # (m,) as stated
    b: float  # as stated

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
        """The largest step out of the box, as a share of it, or of the sum of β as a share of Σ|β|."""
        width = np.maximum(self.high - self.low, np.finfo(float).tiny)
        out = np.maximum(self.low - self.beta, self.beta - self.high) / width
        total = float(np.abs(self.beta).sum())
        return max(float(out.max(initial=0.0)), abs(float(self.beta.sum())) / (total or 1.0))

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
        ends = [end for end in (rises.max(initial=-np.inf), falls.min(initial=np.inf)) if np.isfinite(end)]  # fmt: skip
        return min(ends), float(np.mean(ends)), max(ends)

    def violations(self, f: Array) -> Array:
        """By how much each row breaks complementary slackness: what a small step of its β would gain per unit."""
        e, width = self.y - f - self.b, self.high - self.low
        up = np.where(self.beta >= 0, e - self.eps, e + self.eps)
        down = np.where(self.beta > 0, self.eps - e, -e - self.eps)
        can_rise = self.beta < self.high - EDGE * width
        can_fall = self.beta > self.low + EDGE * width
        return np.maximum(np.where(can_rise, up, 0.0), np.where(can_fall, down, 0.0)).clip(min=0.0)


@dataclass(frozen=True)
class Found:
    """P, D and the rest of one problem."""

    machine: Machine
    f: Array  # (m,) Σ β κ, without b
    primal: float  # at the stated β and b
    profiled: float  # at the stated β and the best b
    dual: float  # the best lower bound known
    norm: float  # ‖f‖ of the space
    largest: float  # κ(x, x) of the support vectors

    @property
    def share(self) -> float:
        """How far P can be above the least possible, as a share of it."""
        if self.primal <= self.dual:
            return 0.0
        return self.primal / self.dual - 1 if self.dual > 0 else math.inf


# --- from public attributes to problems -------------------------------------------------------------------------------


def dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def support_rows(fit: Fit) -> Array:
    """The rows that `support_` means. scikit-learn's SVC leaves out rows of weight 0 and counts the others."""
    support = np.asarray(fit.support_).astype(int)
    if fit.weights is None or not np.any(np.asarray(fit.weights) == 0):
        return support
    counted = np.flatnonzero(np.asarray(fit.weights) > 0)
    return counted[support] if fit.get("made_by_libsvm", False) else support


def bounds(fit: Fit) -> Array:
    """(n,) C s_i, with the weights of the classes."""
    n = fit.data.shape[0]
    s = np.ones(n) if fit.weights is None else np.asarray(fit.weights, dtype=np.float64)
    by_class = fit.get("class_weight_")
    if by_class is not None and len(by_class):
        s = s * np.asarray(by_class, dtype=np.float64)[np.asarray(fit.y).astype(int)]
    return float(fit.C) * s


def pair_machines(fit: Fit) -> Iterator[Machine]:
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
        yield Machine(
            name, counted, sign[counted], np.where(up, 0.0, -box), np.where(up, box, 0.0), 0.0,
            stated[counted], float(b[at]),
        )  # fmt: skip


def tube_machines(fit: Fit) -> Iterator[Machine]:
    """The one problem of a regression."""
    C, y = bounds(fit), np.asarray(fit.y, dtype=np.float64)
    stated = np.zeros(len(y))
    stated[support_rows(fit)] = dense(fit.dual_coef_)[0]
    counted = np.flatnonzero(C > 0)
    box = C[counted]
    yield Machine(
        "", counted, y[counted], -box, box, float(fit.epsilon), stated[counted],
        float(np.ravel(fit.intercept_)[0]),
    )  # fmt: skip


def is_regression(fit: Fit) -> bool:
    return fit.has("epsilon") and not fit.has("classes_")


def problems(fit: Fit) -> list[Found]:
    """Every problem of a fit with its numbers, once per certificate. Raises CannotTell."""
    if "problems" not in fit.memory:
        try:
            fit.memory["problems"] = _measure(fit)
        except CannotTell as why:
            fit.memory["problems"] = why
    found = fit.memory["problems"]
    if isinstance(found, CannotTell):
        raise found
    return found


def _measure(fit: Fit) -> list[Found]:
    rows, support = whole(fit.data), support_rows(fit)
    n = rows.shape[0]
    if len(support) and not 0 <= support.min() <= support.max() < n:
        raise CannotTell(f"support_ names row {support.max():,} and there are {n:,}: pass the training data")  # fmt: skip
    machines = list((tube_machines if is_regression(fit) else pair_machines)(fit))
    return [_solve(fit, rows, machine) for machine in machines]


def _solve(fit: Fit, rows: Any, machine: Machine) -> Found:
    beta, feasible = machine.beta, machine.feasible
    used = np.flatnonzero(beta)
    repaired = not np.array_equal(beta, feasible)
    B = np.column_stack([beta[used], feasible[used]] if repaired else [beta[used]])
    F = product_of(fit, rows, machine.rows, machine.rows[used], B)
    f, within = F[:, 0], F[:, -1]
    square = max(float(beta @ f), 0.0)
    primal, profiled = (0.5 * square + machine.loss(f, b) for b in (machine.b, machine.best_b(f)))
    dual = machine.dual(feasible, float(feasible @ within))
    those = machine.rows[used]
    diagonal = np.diagonal(dense(rows[np.ix_(those, those)])) if is_given(fit) else diagonal_of(fit, rows[those])  # fmt: skip
    largest = float(np.abs(diagonal).max(initial=0.0))
    return Found(machine, f, primal, profiled, dual, math.sqrt(square), largest)


def product_of(fit: Fit, rows: Any, these: Array, those: Array, B: Array) -> Array:
    """κ(x_i, x_j) B for i among these and j among those, in tiles."""
    if is_given(fit):
        return dense(rows[np.ix_(these, those)]) @ B
    return products(fit, rows[these], rows[those], B)


def cost_of_problems(fit: Fit) -> float:
    """One pass over the kernel between the rows and the support vectors of each pair."""
    if "problems" in fit.memory:
        return 0.0
    n, d = fit.data.shape
    classes = 2 if is_regression(fit) else len(fit.classes_)
    return float(n + CORNER) * len(fit.support_) * (d + 12) * max(1.0, 2 * (classes - 1) / classes)


# --- claims -----------------------------------------------------------------------------------------------------------


@claim(
    "the dual coefficients are feasible: 0 ≤ α ≤ C for every row, and they balance",
    kind=PROVED,
    source="ML SVM dual",
    cost=lambda fit: 4.0 * fit.data.shape[0] * np.atleast_2d(fit.dual_coef_).shape[0],
)
@with_kernel
def feasible(fit):
    """Each α inside its box, and Σ αy = 0, to six digits."""
    machines = list((tube_machines if is_regression(fit) else pair_machines)(fit))
    worst = max(machines, key=lambda one: one.infeasibility)
    advice = "they are not those of this C and these weights: pass the training data, its weights and the C of the fit"
    return at_most(
        worst.infeasibility, FEASIBLE, advice, unit="share of C outside", note=worst.name
    )


@claim(
    "the objective is within 1 % of the least possible",
    kind=PROVED,
    source="ML SVM dual; duality gap",
    cost=cost_of_problems,
)
@with_kernel
def near_optimum(fit):
    """P at the stated function and intercept against D at the stated α, made feasible."""
    found = problems(fit)
    if why := why_no_kernel(fit):
        return unknown(why)
    worst = max(found, key=lambda one: one.share)
    if worst.share > GAP:
        return _search(fit, found)
    return at_most(worst.share, GAP, unit="gap / least", note=_in_words(worst))


def _in_words(one: Found) -> str:
    machine = one.machine
    name = f"{machine.name}: " if machine.name else ""
    # P is strongly convex: ½‖f − f*‖² ≤ P(f) − P(f*)
    reach = math.sqrt(2 * max(one.primal - one.dual, 0.0)) / one.norm if one.norm else math.inf
    away = f"; the weights are within {100 * reach:.2g} % of the best" if reach < 1 else ""
    return f"{name}P = {one.primal:.6g}, D = {one.dual:.6g}{away}"


def _search(fit: Fit, found: list[Found]) -> Evidence:
    """The gap does not decide: is there something better, or a better bound? The verdict rests on what is found."""
    rows = whole(fit.data)
    decided = []
    for one in sorted(found, key=lambda one: -one.share):
        if one.share <= GAP:
            decided.append((0.0, one))
            continue
        at_least, better = _improve(fit, rows, one)
        if at_least > GAP:
            return _refuted(one, at_least)
        decided.append((at_least, better))
    worst = max((one for _, one in decided), key=lambda one: one.share)
    if worst.share <= GAP:
        return at_most(worst.share, GAP, unit="gap / least", note=_in_words(worst))
    between = f"between {100 * max(low for low, _ in decided):.2g} % and {100 * worst.share:.3g} %"
    return unknown(f"{between} above the best: lower tol, raise max_iter, or certify with more seconds")  # fmt: skip


def _refuted(one: Found, excess: float) -> Evidence:
    advice = "not the best: raise max_iter, lower tol, and pass the data, weights and C of the fit"
    if one.primal / max(one.profiled, np.finfo(float).tiny) - 1 >= 0.9 * excess:
        advice = f"the intercept is wrong, {one.machine.b:.4g}: the same weights with {one.machine.best_b(one.f):.4g} do better"
    return at_most(excess, GAP, advice, unit="excess / least", note=_in_words(one))


def _improve(fit: Fit, rows: Any, one: Found) -> tuple[float, Found]:
    """(by how much P exceeds something found, the problem with the better bound).

    Candidates: the same f with the best b, a multiple of it, and scikit-learn's own machine on up to REFERENCE of the rows
    (weights scaled up); on all rows its α is a bound as well.
    """
    machine, best, dual = one.machine, min(one.primal, one.profiled), one.dual
    for t in (0.0, 0.1, 0.5, 0.9):
        f = t * one.f
        best = min(best, 0.5 * (t * one.norm) ** 2 + machine.loss(f, machine.best_b(f)))
    m = len(machine.rows)
    chosen = np.unique(np.linspace(0, m - 1, min(m, REFERENCE)).astype(int))
    affordable = float(len(chosen)) ** 2 * (fit.data.shape[1] + SEARCH) <= fit.work
    beta = _reference(fit, rows, machine, chosen) if affordable else None
    if beta is not None:
        full = np.zeros(m)
        full[chosen] = beta
        other = _solve(fit, rows, replace(machine, beta=full, b=0.0))
        best = min(best, other.profiled)
        dual = max(dual, other.dual)  # a feasible β is one, whatever rows it comes from
    excess = one.primal / best - 1 if best > 0 else (math.inf if one.primal > 0 else 0.0)
    return excess, replace(one, dual=dual)


def _reference(fit: Fit, rows: Any, machine: Machine, chosen: Array) -> Array | None:
    """β of scikit-learn's machine on some of the rows; None where they are of one class."""
    these = machine.rows[chosen]
    K = dense(rows[np.ix_(these, these)]) if is_given(fit) else gram(fit, rows[these], rows[these])
    y, box = machine.y[chosen], (machine.high - machine.low)[chosen]
    box = box / (2 if is_regression(fit) else 1) * (len(machine.rows) / len(chosen))
    unit = float(box.max())
    settings = {"kernel": "precomputed", "C": unit, "tol": 1e-4, "max_iter": 100 * len(chosen)}
    if is_regression(fit):
        model = SVR(epsilon=machine.eps, **settings)
    elif len(np.unique(y)) == 2:
        model = SVC(**settings)
    else:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(K, y, sample_weight=box / unit)
    beta = np.zeros(len(chosen))
    beta[model.support_] = dense(model.dual_coef_)[0]
    return beta


@claim(
    "complementary slackness: every row is on its side of the margin, to 1 % of it",
    kind=PROVED,
    source="ML SVM KKT",
    cost=cost_of_problems,
)
@with_kernel
def slackness(fit):
    """Rows without α are beyond the margin, rows with 0 < α < C on it, rows with α = C within it (the tube, in regression)."""
    found = problems(fit)
    scale = _unit(fit)
    worst, row, at = 0.0, -1, found[0]
    for one in found:
        broken = one.machine.violations(one.f) / scale
        if len(broken) and float(broken.max()) > worst:
            worst, row, at = float(broken.max()), int(one.machine.rows[broken.argmax()]), one
    advice = f"row {row} is on the wrong side: lower tol, raise max_iter; " + at.machine.name
    return at_most(worst, SLACK, advice, unit="largest violation", note=_count(fit, found))


def _spread(fit: Fit) -> float:
    """The deviation of y, or ε where y is constant."""
    weights = fit.weights
    y = np.asarray(fit.y, dtype=np.float64)
    mean = np.average(y, weights=weights)
    spread = math.sqrt(float(np.average((y - mean) ** 2, weights=weights)))
    return max(spread, float(fit.epsilon)) or 1.0


def _count(fit: Fit, found: list[Found]) -> str:
    """How many support vectors there are, how many of them at the bound, and the margin."""
    n, s = fit.data.shape[0], len(np.asarray(fit.support_))
    text = f"{s:,} support vectors of {n:,} rows"
    if len(found) > 1:
        return text
    one, machine = found[0], found[0].machine
    width = machine.high - machine.low
    size = np.abs(machine.beta) * (2 if is_regression(fit) else 1)
    text += f", {int((size >= (1 - EDGE) * width).sum()):,} at the bound"
    if one.norm > 0 and not is_regression(fit):
        text += f"; margin {1 / one.norm:.3g}"
    return text


@claim(
    "at most half of the rows are support vectors",
    kind=RULE_OF_THUMB,
    source="ML SVM; Vapnik",
)
def few_support_vectors(fit):
    """Leaving out a row that is no support vector changes nothing, and it is on its side: errors are among the others."""
    n = fit.data.shape[0] if fit.weights is None else int((np.asarray(fit.weights) > 0).sum())
    advice = "the machine remembers the rows: scale the columns, lower gamma, or change C (regression: raise epsilon)"
    return at_most(len(np.asarray(fit.support_)) / n, 0.5, advice, unit="share of the rows")


# --- what the attributes have to be -----------------------------------------------------------------------------------


def _kept_vectors(fit: Fit) -> Any:
    """support_vectors_, or None: where K is given there are none, and scikit-learn keeps none for a function."""
    vectors = fit.get("support_vectors_")
    nothing = is_given(fit) or (
        callable(fit.kernel) and vectors is not None and not vectors.shape[0]
    )
    return None if nothing else vectors


def _disagreements(fit: Fit) -> Iterator[str]:
    support, coef = np.asarray(fit.support_), dense(fit.dual_coef_)
    s = len(support)
    regression = is_regression(fit)
    k = 2 if regression else len(fit.classes_)
    if len(np.unique(support)) != s or (s and support.min() < 0):
        yield "support_ names a row twice, or a row before the first"
    if coef.shape != (k - 1, s):
        yield f"dual_coef_ has shape {coef.shape}, not ({k - 1}, {s})"
    elif not np.isfinite(coef).all():
        yield f"dual_coef_ has {int((~np.isfinite(coef)).sum())} numbers that are not finite"
    pairs = k * (k - 1) // 2
    if np.ravel(fit.intercept_).shape != (pairs,):
        yield f"intercept_ has shape {np.shape(fit.intercept_)}, not ({pairs},)"
    vectors = _kept_vectors(fit)
    if vectors is not None and vectors.shape[0] != s:
        yield f"support_vectors_ has {vectors.shape[0]:,} rows and support_ {s:,}"
    counts = np.ravel(fit.n_support_)
    if counts.sum() != s or len(counts) != (1 if regression else k):
        yield f"n_support_ adds up to {counts.sum()}, not {s}"


SOUND = attributes_sound(
    {
        "support_": "s | whole",
        "intercept_": "p",
        "n_support_": "k | >= 0, whole",
        "gamma_?": "",
        "class_weight_?": "w | >= 0",
    },
    _disagreements,
)


def _statements(fit: Fit) -> Mapping[str, float]:
    """Each stated number against the data.

    support_vectors_ : the rows that support_ names
    n_support_ : how many of them are of each class, which come one class after the other
    intercept_ : the mean of what puts the rows inside their box on the margin (regression: between the least and the largest)
    gamma_, class_weight_ : those asked for
    """
    rows, support = whole(fit.data), np.asarray(fit.support_).astype(int)
    n = rows.shape[0]
    if len(support) and support.max() >= n:
        return {"support_": math.inf}
    found = {} if is_given(fit) else gamma_stated(fit, rows)
    if (vectors := _kept_vectors(fit)) is not None:
        found["support_vectors_"] = difference(vectors, rows[support])
    found |= _intercept_stated(fit)
    if is_regression(fit):
        return found | {"n_support_": discrepancy(np.ravel(fit.n_support_)[0], len(support), 1.0, 0.5)}  # fmt: skip
    k, labels = len(fit.classes_), np.asarray(fit.y).astype(int)[support]
    counts = np.bincount(labels, minlength=k)
    in_order = bool((np.diff(labels) >= 0).all())
    found["n_support_"] = discrepancy(fit.n_support_, counts, 1.0, 0.5) if in_order else math.inf
    if fit.get("class_weight_") is not None:
        true = _class_weights(fit)
        found["class_weight_"] = discrepancy(fit.class_weight_, true, true, 1e-6)
    return found


def _intercept_stated(fit: Fit) -> dict[str, float]:
    """LIBSVM keeps its kernel in float32: sums of it err by as much."""
    try:
        found = problems(fit)
    except CannotTell:
        return {}
    eps = float(np.finfo(np.float32 if fit.get("made_by_libsvm", False) else np.float64).eps)
    errors = []
    for one in found:
        machine = one.machine
        least, middle, most = machine.intercepts(one.f)
        if is_regression(fit):
            middle = min(max(machine.b, least), most)
        size = float(np.abs(machine.beta).sum()) * one.largest
        slack = 1e-6 * max(abs(middle), _unit(fit)) + 8 * eps * size
        errors.append(discrepancy(machine.b, middle, slack, 1.0))
    return {"intercept_": max(errors)}


def _unit(fit: Fit) -> float:
    return _spread(fit) if is_regression(fit) else 1.0


def _class_weights(fit: Fit) -> Array:
    """One factor per class: those a dict names (1 for others), or n/(k·count) for "balanced"."""
    asked, k = fit.get("class_weight"), len(fit.classes_)
    if asked is None:
        return np.ones(k)
    if isinstance(asked, str):
        counts = np.bincount(np.asarray(fit.y).astype(int), minlength=k)
        return counts.sum() / (k * np.maximum(counts, 1))
    return np.array([float(asked.get(label, 1.0)) for label in np.asarray(fit.classes_).tolist()])


def _cost_of_statements(fit: Fit) -> float:
    return cost_of_problems(fit) + 2.0 * fit.data.size


TRUE = statements_true(_statements, cost=_cost_of_statements)

SVC_CLAIMS = (SOUND, TRUE, feasible, near_optimum, slackness, few_support_vectors, mercer)
SVR_CLAIMS = SVC_CLAIMS
