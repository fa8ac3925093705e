"""Claims about every linear predictor. The main one is *near_optimum*: the objective is within 0.1 % of the least possible.

It is decided from two sides: a dual point shows that no weights are better by more (kernel/duality_gap.py), other weights show
that some are. Both are witnesses: searches outside of the trusted base look for them (predict/witness), and here they are
checked. Where neither decides, the claim can't tell and says what is known.

Where the least objective is below a thousandth of what a constant prediction has, that thousandth is what the 0.1 % are of, as
the sentence of the claim says: beyond it, the explained share of the loss (R²) is right to six digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, statements_true
from lemmata.audit.kernel.duality_gap import (
    DesignRows,
    Point,
    Risk,
    centre_columns,
    gap_at,
    point,
)
from lemmata.audit.predict.linear import objectives

Array = np.ndarray
NEAR = 1e-3  # of the least objective
WITHIN = "the objective is within 0.1 % of the least possible (or 1e-6 of a constant prediction's)"
LEAST = 1e-3  # of the objective of a constant prediction: the smallest value that NEAR is taken of
SLOPE = 5e-4  # of the scale of a slope: scikit-learn's default tol leaves up to half of it on standardised columns
# times √(λ₂/ℓ″), of a constant column: a slope of SLOPE beside it gains 3e-5 of a constant prediction's objective, at most
HELD = 10.0
FAR = 10.0  # deviations from 0: a mean that a penalised intercept, or none, does not take up
LARGEST = 2**26  # numbers of a dense table that a check may make
SHARE = 0.5  # of the budget that is left: what a search may take
WIDEST = 2000  # rows or columns, whichever are fewer, that are decomposed for a basis of their span
OUTSIDE = 1e-6  # of the weights, outside the span of the rows: a solver's own error is smaller


# --- how far from the least -------------------------------------------------------------------------------------------


def slope_cost(fit: k.Fit) -> float:
    """Xᵀu and column sizes, for every output; and some sixty operations on every score."""
    m = objectives.outputs(fit)
    return objectives.cost_of_scores(fit) + 60.0 * fit.data.shape[0] * m


def gap_cost(fit: k.Fit, objective: objectives.LinearObjective) -> float:
    """Columns without a penalty are decomposed once for every output: as much as least squares, or too much for memory."""
    n, d = fit.data.shape
    bare = float(d * ((np.asarray(objective.l1) == 0) & (np.asarray(objective.l2) == 0)).mean())
    if bare * n > LARGEST:
        return math.inf
    return slope_cost(fit) + 3.0 * n * (bare + 1) * bare * objectives.outputs(fit)


@dataclass(frozen=True)
class Optimality:
    """For every output: the largest and the certain distance of P from its least, P itself, and what 0.1 % are of."""

    risk: Risk
    at: Point
    most: Array
    certain: Array
    value: Array
    null: Array  # P of a constant prediction
    resolution: Callable[[], Array]  # what rounding the weights to their own dtype costs
    dual: Array  # the dual point that shows `most`
    # what shows `certain`, by output
    better: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def upper(self) -> Array:
        """The excess at most, as a share of the least objective."""
        return self._share(self.most)

    @property
    def lower(self) -> Array:
        """The excess that is certain, as such a share."""
        return self._share(self.certain)

    def _share(self, excess: Array) -> Array:
        """excess / max(P − excess, LEAST · null). A P − excess that is rounding is 0; NaN stays NaN: it is broken, never 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            left = self.value - excess
            least = np.maximum(np.where(left > 1e-10 * self.value, left, 0.0), LEAST * self.null)
            return np.where(excess <= 0, 0.0, excess / least)


@cache
def optimality_of(read: objectives.Reader) -> k.Fact:
    """The fact: how far the objective that `read` names is from the least possible."""
    problem = objectives.problem_of(read)

    @k.fact(cost=lambda fit: gap_cost(fit, objectives.objective_of(fit, read)), needs=(problem,))
    def optimality(fit: k.Fit) -> Optimality:
        return find_optimality(fit, *problem(fit))

    return optimality


def find_optimality(fit: k.Fit, risk: Risk, at: Point) -> Optimality:
    """The gap that the fit's own slopes show; where that is not enough, what searches find."""
    value, null = risk.value(at.W, at.f), risk.null_value()
    most, dual = np.full_like(value, np.inf), np.zeros_like(at.f)
    blur = partial(resolution, fit, risk, at)
    found = Optimality(risk, at, most, np.zeros_like(most), value, null, blur, dual)

    def compare(points: Iterable[Array]) -> None:
        for U in points:
            gap, U = gap_at(risk, at, U)
            dual[:], most[:] = np.where(gap < most, U, dual), np.minimum(most, gap)

    alpha = stated_alpha(fit, risk)
    compare([risk.slopes(at.f)])
    if alpha is not None:
        compare([-risk.y * np.minimum(alpha, risk.loss.steepest * risk.s)])
    if not (found.upper <= NEAR).all():
        compare(fit.witness("dual_points", risk, at) or ())
    late = np.flatnonzero(~(found.upper <= NEAR))
    work = SHARE * fit.work / max(len(late), 1)
    for i in map(int, late):
        enough = NEAR * max(float(value[i] - most[i]), LEAST * float(null[i]))
        part, start = (risk, at) if risk.joint else (risk.output(i), at.output(i))
        shown = fit.witness("better_weights", part, start, float(most[i]), enough, work)
        if shown is not None:
            W, b, U = shown
            gain = value[i] - part.value(W, point(part, W, b).f)[0]
            if gain > 0:
                found.certain[i], found.better[i] = gain, {"weights": W, "intercept": b}
            gap, U = gap_at(part, start, U)
            if gap[0] < most[i]:
                most[i], dual[:, slice(None) if risk.joint else slice(i, i + 1)] = gap[0], U
    return found


def resolution(fit: k.Fit, risk: Risk, at: Point, unit: float = 1.0) -> Array:
    """½ℓ″ Σ s (ε Σⱼ|xⱼwⱼ| + ε|b|)², in a unit: what P loses by weights that are rounded, 4 units in their last place."""
    eps = np.finfo(dtype_of(fit)).eps
    sizes = np.sqrt(risk.column_squares)[:, None]
    reach = (sizes * np.abs(at.W)).sum(axis=0) + np.sqrt(risk.s.sum(axis=0)) * np.abs(at.b)
    lost = 0.5 * max(risk.loss.curved, 1.0) * np.square(4 * eps * reach) / unit
    return np.atleast_1d(lost.sum()) if risk.joint else lost


def dtype_of(fit: k.Fit) -> Any:
    """The floats that the weights are stored in."""
    return np.result_type(objectives.coefficients(fit)[0].dtype, np.float32)


def stated_alpha(fit: k.Fit, risk: Risk) -> Array | None:
    """α ≥ 0 of a linear SVM that states it for these rows."""
    alpha = fit.get("dual_coef_")
    if alpha is None or not risk.loss.margin:
        return None
    alpha = np.abs(np.atleast_2d(np.asarray(alpha, dtype=np.float64))).T
    return alpha if alpha.shape == risk.y.shape else None


# --- claims -----------------------------------------------------------------------------------------------------------


def near_optimum(read: objectives.Reader) -> k.Statement:
    """The claim that the objective is within 0.1 % of the least possible."""
    optimality = optimality_of(read)

    @k.proved(WITHIN, "Fenchel duality; ML L₁-Regularization", needs=(optimality,))
    def near_optimum(fit: k.Fit) -> k.Evidence:
        objective = objectives.objective_of(fit, read)
        if math.isinf(objective.C):
            return judge_hard_margin(fit, objective)
        return judge(fit, optimality(fit))

    return near_optimum


def first_order_point(read: objectives.Reader) -> k.Statement:
    """The claim that the optimality conditions hold, column by column: tighter than the objective, which is flat there."""
    problem = objectives.problem_of(read)
    sentence = "a first-order point: no column's slope is off by more than 0.05 % of its scale"
    source = "Karush, Kuhn & Tucker"

    @k.proved(sentence, source, needs=(problem,), cost=slope_cost)
    def first_order_point(fit: k.Fit) -> k.Evidence:
        if math.isinf(objectives.objective_of(fit, read).C):
            return k.unknown("a hard margin has no slope: near_optimum decides")
        return judge_slopes(fit, *problem(fit))

    return first_order_point


def judge_slopes(fit: k.Fit, risk: Risk, at: Point, bound: float = SLOPE) -> k.Evidence:
    """|∂ⱼP| less what the penalty allows, over ‖xⱼ − mⱼ‖ times the size of the slopes of a constant prediction.

    Where the intercept is penalised, or there is none, columns far from 0 are steep in every direction by themselves, and
    what they say together is not: what holds of their deviations holds, and what fails even of their whole length fails.
    """
    if not risk.loss.smooth:
        return k.unknown("the loss has a kink: near_optimum decides")
    mean, lengths = centre(risk)
    found = _compare_slopes(fit, risk, at, bound, mean, lengths)
    if risk.free or found.verdict == k.HOLDS:
        return found
    whole = _compare_slopes(fit, risk, at, bound, 0 * mean, np.sqrt(risk.column_squares))
    if whole.verdict == k.FAILS:
        return whole
    why = "beside the deviations of a column from its mean the slope is too large, beside its length it is not"
    return k.unknown(f"{why}: near_optimum decides", found.measured, found.unit)


def _compare_slopes(
    fit: k.Fit, risk: Risk, at: Point, bound: float, mean: Array, lengths: Array
) -> k.Evidence:
    off, sizes, whole = column_slopes(risk, at, mean, lengths)
    null = np.sqrt(_square_slopes(risk, risk.null_scores))
    own = np.sqrt(_square_slopes(risk, 0 * at.f))
    reach = (whole[: len(at.W)] * np.abs(at.W)).sum(axis=0) + own
    # the constant part of a column is held by its penalty alone, where a slope g gains g²/2λ₂
    apart = 1 - np.square(np.divide(sizes, whole, out=np.ones_like(whole), where=whole > 0))
    apart = np.where(sizes > 0, np.maximum(apart, 0.0), HELD**2)
    held = apart[: len(at.W)] * risk.l2 / (risk.loss.curved or 1.0)
    sizes = np.sqrt(np.square(sizes) + np.pad(held, ((0, len(off) - len(held)), (0, 0))))
    # below it, slopes are rounding: of the weights in their dtype, and of sums over columns far from 0
    least = k.rounding(dtype_of(fit), len(risk.s)) / bound * sizes * reach
    lost = k.rounding(np.float64, len(risk.s)) / bound * whole * np.sqrt(_square_slopes(risk, at.f))
    scale = np.maximum(sizes * null, np.maximum(least, lost))
    share = np.divide(off, scale, out=np.where(off > 0, np.inf, 0.0), where=scale > 0)
    j, i = np.unravel_index(int(np.argmax(share)), share.shape)
    name = "the intercept" if j == fit.data.shape[1] else f"column {j}"
    advice = f"{name} is off most: lower tol, raise max_iter, or bring the columns to one scale"
    return k.at_most(share[j, i], bound, advice, unit=f"{_of(risk, int(i))}slope / scale")


def centre(risk: Risk) -> tuple[Array, Array]:
    """Means that an intercept takes up (0 without one), and lengths ‖xⱼ − mⱼ‖; without a free one, of columns far from 0.

    A column that does not vary has a length of 0 beside an intercept, which can take its place, and its own without one.
    """
    if risk.free:
        return risk.centred_columns
    rows = replace(risk.rows, constant=None)
    squares = risk.column_squares
    mean, lengths = centre_columns(rows, risk.s.max(axis=1), squares[: rows.shape[1]])
    whole = np.sqrt(squares)
    lengths = np.where(FAR * lengths < whole[: len(mean)], lengths, whole[: len(mean)])
    if risk.rows.constant is None:
        return 0 * mean, np.where(lengths > 0, lengths, whole)
    return np.append(mean, 0.0), np.append(lengths, whole[-1])


def column_slopes(risk: Risk, at: Point, mean: Array, lengths: Array) -> tuple[Array, Array, Array]:
    """By how much each slope misses what the penalty allows, the lengths that are given, and ‖xⱼ‖.

    The last row of each belongs to an intercept. With one, b = b′ − mᵀw, the slope is that at a fixed b′, and m are the
    means: a column far from 0 would hide any slope behind its length ‖xⱼ‖.
    """
    U = risk.slopes(at.f)
    V, sums = risk.rows.adjoint(U), U.sum(axis=0)
    if risk.rows.constant is not None:  # penalised: what its own penalty leaves of the sums
        sums = missed_slopes(risk, at.W, V)[-1] / risk.rows.constant
    off = np.abs(missed_slopes(risk, at.W, V - np.outer(mean, sums)))
    sizes, whole = lengths[:, None], np.sqrt(risk.column_squares)[:, None]
    if not risk.free:
        return off, sizes, whole
    one = np.full((1, 1), math.sqrt(float(risk.s.max(axis=1).sum())))
    return np.vstack([off, np.abs(sums)]), np.vstack([sizes, one]), np.vstack([whole, one])


def missed_slopes(risk: Risk, W: Array, V: Array) -> Array:
    """What is left of the slope v of the losses, column by column, once −∂Ω(w) has taken what it can."""
    G = V + risk.l2 * W
    if risk.positive:
        return np.where(W > 0, G + risk.l1, np.minimum(G + risk.l1, 0.0))
    inside = np.sign(G) * np.maximum(np.abs(G) - risk.l1, 0.0)
    return np.where(W != 0, G + risk.l1 * np.sign(W), inside)


def _square_slopes(risk: Risk, f: Array) -> Array:
    """Σ sᵢ ℓᵢ′²."""
    return (risk.s * np.square(risk.loss.slope(risk.y, f))).sum(axis=0)


def judge_hard_margin(fit: k.Fit, objective: objectives.LinearObjective) -> k.Evidence:
    """C = ∞: ½‖w‖² under margins ≥ 1. Every α ≥ 0 gives (Σα)²/2‖Σ αyx‖² ≤ ½‖w*‖² ≤ ½‖w‖²/(least margin)²."""
    if fit.get("dual_coef_") is None or objective.intercept == "free" or np.any(objective.l1):
        return k.unknown("a hard margin: its gap is read from dual_coef_ of a penalised intercept")
    risk, at = objectives.make_problem(fit, replace(objective, C=1.0))
    alpha = stated_alpha(fit, risk)
    margins = np.where(risk.s > 0, risk.y * at.f, np.inf).min(axis=0)
    if alpha is None or not (margins >= 1 - NEAR).all():
        return k.unknown("a hard margin: some margins are below 1, or dual_coef_ is of other rows")
    alpha = np.where(risk.s > 0, alpha, 0.0)
    V = risk.rows.adjoint(risk.y * alpha)
    least = np.square(alpha.sum(axis=0)) / (2 * np.square(V).sum(axis=0))
    value = 0.5 * np.square(at.W).sum(axis=0) / np.square(np.minimum(margins, 1.0))
    share = np.maximum(value - least, 0.0) / least
    i = int(np.argmax(share))
    if not share[i] <= NEAR:
        return k.unknown(f"the stated dual_coef_ show {_percent(share[i])} at most", share[i])
    return k.at_most(share[i], NEAR, unit=f"{_of(risk, i)}gap / least")


def judge(fit: k.Fit, found: Optimality) -> k.Evidence:
    """The verdict of near_optimum: better weights refute it, a gap proves it, rounding or neither leaves it open."""
    risk, upper, lower = found.risk, found.upper, found.lower
    bad, worst = int(np.argmax(lower)), int(np.argmax(upper))
    if lower[bad] > NEAR and found.certain[bad] > found.resolution()[bad]:
        advice = (
            "raise max_iter or lower tol; if that does not help, bring the columns to one scale"
        )
        least, most = _percent(lower[bad]), _percent(upper[bad])
        note = f"better weights were found: relative excess at least {least}, at most {most}"
        unit, shown = f"{_of(risk, bad)}excess / least", found.better.get(bad)
        return k.at_most(lower[bad], NEAR, advice, unit, note, witness=shown)
    if upper[worst] <= NEAR:
        unit, note = f"{_of(risk, worst)}gap / least", _distance(found)
        return k.at_most(upper[worst], NEAR, "", unit, note, witness={"dual_point": found.dual})
    if found.most[worst] <= found.resolution()[worst]:
        kind = objectives.coefficients(fit)[0].dtype
        return k.unknown(f"the gap is within what weights in {kind} resolve", upper[worst])
    known = f"{_of(risk, worst)}the gap shows {_percent(upper[worst])} at most"
    return k.unknown(f"{known}, and no better weights were found", upper[worst])


def _percent(share: float) -> str:
    if not np.isfinite(share):
        return "any amount"
    return f"{100 * share:.2g} %" if share < 1 else f"{share:.2g}-fold"


def _of(risk: Risk, i: int) -> str:
    if risk.joint or risk.y.shape[1] == 1:
        return ""
    return f"{risk.names[i] if risk.names else f'output {i}'}: "


def _distance(found: Optimality) -> str:
    """‖w − w*‖ ≤ √(2 gap/λ₂): P is λ₂-strongly convex in w, with or without a free intercept."""
    least = float(found.risk.l2.min()) if found.risk.l2.size else 0.0
    size = float(np.linalg.norm(found.at.W))
    if least <= 0 or size == 0:
        return ""
    reach = math.sqrt(2 * float(found.most.sum()) / least) / size
    return f"the weights are within {_percent(reach)} of the best" if reach < 1 else ""


# --- the representer theorem ------------------------------------------------------------------------------------------


def representer(read: objectives.Reader) -> k.Statement:
    """The claim that w = Xᵀu, of fits whose objective has an ℓ2 penalty on every weight and no other.

    What stands orthogonal to all rows changes no prediction and costs ‖w‖², so the best weights have none of it. A free
    intercept changes nothing about it.
    """

    def applies(fit: k.Fit) -> bool:
        objective = objectives.objective_of(fit, read)
        return not np.any(objective.l1) and bool(np.all(np.asarray(objective.l2) > 0))

    def cost(fit: k.Fit) -> float:
        n, d = fit.data.shape
        return 4.0 * max(n, d) * float(min(n, d)) ** 2 if applies(fit) else 0.0

    sentence, source = "the weights lie in the span of the rows", "ML Representer theorem"

    @k.proved(sentence, source, cost=cost)
    def representer(fit: k.Fit) -> k.Evidence:
        if not applies(fit):
            return k.unknown("promised of weights with an ℓ2 penalty, and no other")
        return outside_rows(fit)

    return representer


def outside_rows(fit: k.Fit) -> k.Evidence:
    """The part of the weights that is orthogonal to every row with a weight."""
    n, d = fit.data.shape
    if min(n, d) > WIDEST:
        return k.unknown(f"a basis of the span of {n:,} rows of {d:,} columns is too expensive")
    X = DesignRows(fit.data).columns(np.arange(d))
    if fit.weights is not None:
        X = X[np.asarray(fit.weights) > 0]
    X = X / (float(np.abs(X).max(initial=0.0)) or 1.0)
    unit = "share outside"
    everything = k.at_most(0.0, 1.0, unit=unit, note=f"the rows span all {d:,} directions")
    if n >= d:
        squares = np.linalg.eigvalsh(X.T @ X)
        if squares[0] > 1e-8 * squares[-1]:
            return everything
    _, values, Vt = np.linalg.svd(X, full_matrices=False)
    basis = Vt[values > k.rounding(np.float64, max(n, d)) * values.max(initial=0.0)]
    if len(basis) == d:
        return everything
    W = np.atleast_2d(np.asarray(fit.coef_, dtype=np.float64))
    size = float(np.linalg.norm(W))
    outside = float(np.linalg.norm(W - (W @ basis.T) @ basis)) / size if size else 0.0
    coarse = max((fit.data.dtype, np.asarray(fit.coef_).dtype), key=lambda t: np.finfo(t).eps)
    bound = max(OUTSIDE, math.sqrt(k.rounding(coarse, d)) if coarse == np.float32 else 0.0)
    advice = "a part of the weights is not from the data: fit again (start at 0), or lower tol"
    note = f"the rows span {len(basis):,} of {d:,} directions"
    return k.at_most(outside, bound, advice, unit, note)


# --- attributes and statements ----------------------------------------------------------------------------------------


def shape_problems(fit: k.Fit) -> Iterator[str]:
    """A sentence for everything that is wrong with coef_ and intercept_."""
    coef, intercept = np.asarray(fit.coef_), np.asarray(fit.intercept_)
    for name, x in (("coef_", coef), ("intercept_", intercept)):
        if x.dtype.kind not in "fiub":
            yield f"{name} holds {x.dtype}, not numbers"
            return
        if not np.isfinite(x).all():
            yield f"{name} has {int((~np.isfinite(x)).sum())} numbers that are not finite"
    if coef.ndim not in (1, 2):
        yield f"coef_ has shape {coef.shape}, not (d) or (m, d)"
        return
    if fit.has_data and coef.shape[-1] != fit.data.shape[1]:
        yield f"coef_ has shape {coef.shape}, but d = {fit.data.shape[1]}"
    outputs = 1 if coef.ndim == 1 else len(coef)
    if intercept.size not in (1, outputs):
        yield f"intercept_ has shape {intercept.shape}, but there are {outputs} rows of weights"
    if fit.has("classes_") and outputs != (1 if len(fit.classes_) == 2 else len(fit.classes_)):
        yield f"coef_ has {outputs} rows for {len(fit.classes_)} classes"
    if fit.get("positive", False) and coef.size and coef.min() < 0:
        yield "coef_ should be >= 0"


SOUND = attributes_sound({"dual_coef_?": "k n >=0"}, shape_problems)
# a dual point bounds the objective from below whatever it is: a wrong one proves less, and nothing wrong
nothing_stated = statements_true(lambda fit: {}, cost=k.free, unchecked="dual_coef_")


def claims_about(read: objectives.Reader) -> tuple[k.Statement, ...]:
    """The claims about a fit that states nothing but its weights."""
    return (SOUND, nothing_stated, near_optimum(read), first_order_point(read), representer(read))
