"""Claims about support vector machines, checked on the data by plain code (the problem itself: svm_problem.py).

The duality gap bounds how far the objective is from the least possible; where it does not decide, a better machine is looked
for, and the verdict rests on what is found. Coefficients are feasible and complementary to the margins, the intercept is that
of the rows on the margin, support vectors are rows of the data, and the kernel is one on these rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.predict.class_weights import class_factors
from lemmata.audit.predict.kernels import grams, svm_problem
from lemmata.audit.predict.kernels.kernel_matrices import is_given
from lemmata.audit.predict.kernels.kernel_ridge import mercer
from lemmata.audit.predict.kernels.svm_problem import MachineGap, is_regression, machines, problems
from lemmata.audit.predict.rows import dense, whole

Array = np.ndarray

GAP = 0.01  # of the least objective
SLACK = 0.01  # of the margin, or of the spread of y
SCALES = 10  # between deviations of columns: then the small ones are 1 % of a squared distance
MANY = 0.5  # of the rows
FEASIBLE = 1e-6  # of C, by which β may leave its box


# --- claims -----------------------------------------------------------------------------------------------------------


@claims.proved(
    "the dual coefficients are feasible: 0 ≤ α ≤ C for every row, and they balance",
    "ML Application to SVM",
    needs=(machines,),
)
def feasible(fit):
    """Each α inside its box, and Σ αy = 0, to six digits."""
    worst = max(machines(fit), key=lambda one: one.infeasibility)
    advice = "they are not those of this C and these weights: pass the training data, its weights and the C of the fit"
    outside = worst.infeasibility
    return claims.at_most(outside, FEASIBLE, advice, unit="share of C outside", note=worst.name)


@claims.proved(
    "the objective is within 1 % of the least possible",
    "ML Application to SVM; duality gap",
    needs=(problems, grams.why_no_kernel),
)
def near_optimum(fit):
    """P at the stated function and intercept against D at the stated α, made feasible."""
    found = problems(fit)
    if why := grams.why_no_kernel(fit):
        return claims.unknown(why)
    worst = max(found, key=lambda one: one.share)
    return _look_further(fit, found) if worst.share > GAP else _accept(worst)


def _accept(worst: MachineGap) -> claims.Evidence:
    witness = {"dual_point": worst.bound_by}
    return claims.at_most(
        worst.share, GAP, unit="gap / least", note=_in_words(worst), witness=witness
    )


def _in_words(one: MachineGap) -> str:
    machine = one.machine
    name = f"{machine.name}: " if machine.name else ""
    # P is strongly convex: ½‖f − f*‖² ≤ P(f) − P(f*)
    reach = math.sqrt(2 * max(one.primal - one.dual, 0.0)) / one.norm if one.norm else math.inf
    away = f"; the weights are within {100 * reach:.2g} % of the best" if reach < 1 else ""
    return f"{name}P = {one.primal:.6g}, D = {one.dual:.6g}{away}"


def _look_further(fit: claims.Fit, found: list[MachineGap]) -> claims.Evidence:
    """Decide where the gap does not: is there something better, or a better bound? The verdict rests on what is found."""
    least, decided = 0.0, []
    for one in sorted(found, key=lambda one: -one.share):
        if one.share <= GAP:
            decided.append(one)
            continue
        excess, better, improved = _improve(fit, one)
        if excess > GAP:
            return _refute(one, excess, better)
        least = max(least, excess)
        decided.append(improved)
    worst = max(decided, key=lambda one: one.share)
    if worst.share <= GAP:
        return _accept(worst)
    between = f"between {100 * least:.2g} % and {100 * worst.share:.3g} % above the best"
    return claims.unknown(f"{between}: lower tol, raise max_iter, or certify with more seconds")


def _refute(one: MachineGap, excess: float, better: Array) -> claims.Evidence:
    advice = "not the best: raise max_iter, lower tol, and pass the data, weights and C of the fit"
    if one.primal / max(one.profiled, np.finfo(float).tiny) - 1 >= 0.9 * excess:
        advice = f"the intercept is wrong, {one.machine.b:.4g}: the same weights with {one.machine.best_b(one.f):.4g} do better"
    found = {"better_beta": better}
    return claims.at_most(excess, GAP, advice, "excess / least", _in_words(one), witness=found)


def _improve(fit: claims.Fit, one: MachineGap) -> tuple[float, Array, MachineGap]:
    """(by how much P exceeds something found, its β, the problem with the better bound).

    Candidates: the same f with the best b, a multiple of it, and what a search finds, whose β is a bound as well.
    """
    machine = one.machine
    best, better = min(one.primal, one.profiled), machine.beta
    for t in (0.0, 0.1, 0.5, 0.9):
        f = t * one.f
        value = 0.5 * (t * one.norm) ** 2 + machine.loss(f, machine.best_b(f))
        best, better = (value, t * machine.beta) if value < best else (best, better)
    improved = one
    beta = fit.witness("better_machine", machine)
    if beta is not None and np.isfinite(beta).all():
        (other,) = svm_problem.solve(fit, whole(fit.data), [replace(machine, beta=beta, b=0.0)])
        if grams.believable([one.primal, other.profiled], [one.dual, other.dual]):
            best, better = (other.profiled, beta) if other.profiled < best else (best, better)
            if other.dual > one.dual:  # a feasible β is one, whatever rows it comes from
                improved = replace(one, dual=other.dual, bound_by=other.bound_by)
    excess = one.primal / best - 1 if best > 0 else (math.inf if one.primal > 0 else 0.0)
    return excess, better, improved


@claims.proved(
    "complementary slackness: every row is on its side of the margin, to 1 % of it",
    "ML Interpretation of the dual formulation",
    needs=(problems,),
)
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
    return claims.at_most(worst, SLACK, advice, unit="largest violation", note=_count(fit, found))


def _unit(fit: claims.Fit) -> float:
    """The margin of classes; for a regression the deviation of y, or ε where y is constant."""
    if not is_regression(fit):
        return 1.0
    y = np.asarray(fit.y, dtype=np.float64)
    mean = np.average(y, weights=fit.weights)
    spread = math.sqrt(float(np.average((y - mean) ** 2, weights=fit.weights)))
    return max(spread, float(fit.epsilon)) or 1.0


def _count(fit: claims.Fit, found: list[MachineGap]) -> str:
    """Count the support vectors and those at the bound; with the margin."""
    n, s = fit.data.shape[0], len(np.asarray(fit.support_))
    text = f"{s:,} support vectors of {n:,} rows"
    if len(found) > 1:
        return text
    one, machine = found[0], found[0].machine
    width = machine.high - machine.low
    size = np.abs(machine.beta) * (2 if is_regression(fit) else 1)
    text += f", {int((size >= (1 - svm_problem.EDGE) * width).sum()):,} at the bound"
    if one.norm > 0 and not is_regression(fit):
        text += f"; margin {1 / one.norm:.3g}"
    return text


@claims.rule_of_thumb("at most half of the rows are support vectors", "ML SVM; Vapnik")
def few_support_vectors(fit):
    """Leaving out a row that is no support vector changes nothing, and it is on its side: errors are among the others."""
    n = fit.data.shape[0] if fit.weights is None else int((np.asarray(fit.weights) > 0).sum())
    share = len(np.asarray(fit.support_)) / n
    advice = "lower gamma, or choose it with C by cross-validation; classes that overlap need many"
    if is_regression(fit):
        advice = "raise epsilon towards the noise of y, or lower gamma"
    if share > MANY and not is_given(fit) and _differ_in_scale(whole(fit.data)):
        advice = "scale the columns: the narrowest has less than a tenth of the widest's spread"
    return claims.at_most(share, MANY, advice, unit="share of the rows")


def _differ_in_scale(rows: Any) -> bool:
    """Whether both deviations and ranges of columns differ more than tenfold; constant and sparse ones are left aside."""
    if sp.issparse(rows):
        return False
    X = np.asarray(rows, np.float64)
    spread, width = X.std(axis=0), np.ptp(X, axis=0)
    varies = spread > 1e-12 * np.abs(X).max(axis=0, initial=0.0)
    return varies.sum() > 1 and all(
        part[varies].max() > SCALES * part[varies].min() for part in (spread, width)
    )


# --- what the attributes have to be -----------------------------------------------------------------------------------


def _kept_vectors(fit: claims.Fit) -> Any:
    """support_vectors_, or None: where K is given there are none, and scikit-learn keeps none for a function."""
    vectors = fit.get("support_vectors_")
    if is_given(fit) or (callable(fit.kernel) and vectors is not None and not vectors.shape[0]):
        return None
    return vectors


def _disagreements(fit: claims.Fit) -> Iterator[str]:
    support, coef = np.asarray(fit.support_), dense(fit.dual_coef_)
    s, regression = len(support), is_regression(fit)
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
    if (vectors := _kept_vectors(fit)) is not None and vectors.shape[0] != s:
        yield f"support_vectors_ has {vectors.shape[0]:,} rows and support_ {s:,}"
    counts = np.ravel(fit.n_support_)
    if counts.sum() != s or len(counts) != (1 if regression else k):
        yield f"n_support_ adds up to {counts.sum()}, not {s}"


SOUND = attributes_sound(
    {
        "support_": "s int",
        "intercept_": "p",
        "n_support_": "k >=0 int",
        "gamma_?": "",
        "class_weight_?": "w >=0",
    },
    _disagreements,
)


def _statements(fit: claims.Fit) -> Mapping[str, float | None]:
    """Each stated number against the data.

    support_vectors_ : the rows that support_ names
    n_support_ : how many of them are of each class, which come one class after the other
    intercept_ : the mean of what puts the rows inside their box on the margin (regression: between the least and the largest)
    gamma_, kernel_, class_weight_ : those of the parameters
    fit_status_ (ours) : whether optimality is violated by more than tol
    """
    rows, support = whole(fit.data), np.asarray(fit.support_).astype(int)
    n = rows.shape[0]
    if len(support) and support.max() >= n:
        return {"support_": math.inf}
    found: dict[str, float | None] = dict(grams.kernel_stated(fit, rows))
    if (vectors := _kept_vectors(fit)) is not None:
        found["support_vectors_"] = grams.difference(vectors, rows[support])
    found |= _intercept_stated(fit) | _status_stated(fit)
    if fit.get("shape_fit_") is not None:
        found["shape_fit_"] = discrepancy(fit.shape_fit_, fit.data.shape, 1.0, 0.5)
    if is_regression(fit):
        wrong = discrepancy(np.ravel(fit.n_support_)[0], len(support), 1.0, 0.5)
        return found | {"n_support_": wrong}
    k, labels = len(fit.classes_), np.asarray(fit.y).astype(int)[support]
    counts = np.bincount(labels, minlength=k)
    in_order = bool((np.diff(labels) >= 0).all())
    found["n_support_"] = discrepancy(fit.n_support_, counts, 1.0, 0.5) if in_order else math.inf
    if fit.get("class_weight_") is not None:
        true = class_factors(fit.get("class_weight"), fit.classes_, np.asarray(fit.y).astype(int))
        found["class_weight_"] = discrepancy(fit.class_weight_, true, true, 1e-6)
    return found


def _rounding_of_kernel(fit: claims.Fit) -> float:
    """The rounding error of an entry of K. LIBSVM keeps its kernel in float32: sums of it err by as much."""
    if not fit.get("made_by_libsvm", False):
        return 0.0
    rows, support = whole(fit.data), svm_problem.support_rows(fit)
    diagonal = rows[support, support] if is_given(fit) else grams.diagonal_of(fit, rows[support])
    return 8 * float(np.finfo(np.float32).eps) * float(np.abs(diagonal).max(initial=0.0))


def _intercept_stated(fit: claims.Fit) -> dict[str, float]:
    try:
        found = problems(fit)
    except claims.CannotTell:
        return {}
    coarse = _rounding_of_kernel(fit)
    errors = []
    for one in found:
        machine = one.machine
        least, middle, most = machine.intercepts(one.f)
        if is_regression(fit):
            middle = min(max(machine.b, least), most)
        slack = 1e-6 * max(abs(middle), _unit(fit)) + coarse * float(np.abs(machine.beta).sum())
        errors.append(discrepancy(machine.b, middle, slack, 1.0))
    return {"intercept_": max(errors)}


def _status_stated(fit: claims.Fit) -> dict[str, float | None]:
    """1 where some machine is left with a violation above tol, to rounding; what ended LIBSVM's loop is not known."""
    status, known = fit.get("fit_status_"), not fit.get("made_by_libsvm", False)
    try:
        found = problems(fit) if status is not None and known else []
    except claims.CannotTell:
        found = []
    if not found:
        return {} if status is None else {"fit_status_": None}
    left = max(one.machine.violation(one.f) for one in found)
    slack = 1e-6 * max(_unit(fit), *(float(np.abs(one.f).max(initial=0.0)) for one in found))
    open_to_rounding = abs(left - fit.tol) <= slack
    true = int(left > fit.tol)
    return {"fit_status_": None if open_to_rounding else discrepancy(status, true, 1.0, 0.5)}


TRUE = statements_true(_statements, cost=claims.passes(2), needs=(problems,))

SVC_CLAIMS = (SOUND, TRUE, near_optimum, feasible, slackness, few_support_vectors, mercer)
SVR_CLAIMS = SVC_CLAIMS
