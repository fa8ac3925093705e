"""The main claim about a linear predictor, *near_optimum*: its objective is within 0.1 % of the least possible.

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
from functools import cache
from typing import Any

import numpy as np

from lemmata.audit.kernel.attributes import attributes_sound, statements_true
from lemmata.audit.kernel.claims import (
    PROVED,
    Evidence,
    Fact,
    Fit,
    Statement,
    at_most,
    claim,
    fact,
    free,
    rounding,
    unknown,
)
from lemmata.audit.kernel.duality_gap import Point, Risk, gap_at, point
from lemmata.audit.predict.linear.objectives import (
    Objective,
    coefficients,
    make_problem,
    objective_of,
    outputs,
    problem_of,
)

Array = np.ndarray
Words = Callable[[Fit], Objective]
NEAR = 1e-3  # of the least objective
WITHIN = "the objective is within 0.1 % of the least possible (or 1e-6 of a constant prediction's)"
LEAST = 1e-3  # of the objective of a constant prediction: what the least objective counts at least
SLOPE = 5e-4  # of the scale of a slope: scikit-learn's default tol leaves up to half of it on standardised columns
LARGEST = 2**26  # numbers of a dense table that a check may make
SHARE = 0.5  # of the budget that is left: what a search may take


# --- how far from the least -------------------------------------------------------------------------------------------


def slope_cost(fit: Fit) -> float:
    """Xᵀu and column sizes, for every output; and some sixty operations on every score."""
    m = outputs(fit)
    return float(fit.data.size) * (m + 1) + 60.0 * fit.data.shape[0] * m


def gap_cost(fit: Fit, words: Objective) -> float:
    """Columns without a penalty are decomposed once for every output: as much as least squares, or too much for memory."""
    n, d = fit.data.shape
    bare = float(d * ((np.asarray(words.l1) == 0) & (np.asarray(words.l2) == 0)).mean())
    if bare * n > LARGEST:
        return math.inf
    return slope_cost(fit) + 3.0 * n * (bare + 1) * bare * outputs(fit)


@dataclass(frozen=True)
class Optimality:
    """Of every output: how far P is above the least at most and at least, P itself, and what 0.1 % are of."""

    risk: Risk
    at: Point
    most: Array
    certain: Array
    value: Array
    null: Array  # P of a constant prediction
    resolution: Array  # what rounding the weights to their own dtype costs
    dual: Array  # the dual point that shows `most`
    better: dict[int, dict[str, Any]] = field(
        default_factory=dict
    )  # by output: what shows `certain`

    @property
    def upper(self) -> Array:
        """The excess at most, as a share of the least objective."""
        return _share(self.most, np.maximum(_left(self.value, self.most), LEAST * self.null))

    @property
    def lower(self) -> Array:
        """The excess that is certain, as such a share."""
        return _share(self.certain, np.maximum(_left(self.value, self.certain), LEAST * self.null))


def _left(whole: Array, part: Array) -> Array:
    """whole − part; 0 where that is the rounding of two large numbers."""
    with np.errstate(invalid="ignore"):
        left = whole - part
        return np.where(left > 1e-10 * whole, left, 0.0)


def _share(part: Array, whole: Array) -> Array:
    """part / whole; NaN stays NaN: what is not a number is broken, never 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(part <= 0, 0.0, part / whole)


@cache
def optimality_of(words: Words) -> Fact:
    """The fact: how far the objective in these words is from the least possible."""
    problem = problem_of(words)

    @fact(cost=lambda fit: gap_cost(fit, objective_of(fit, words)), needs=(problem,))
    def optimality(fit: Fit) -> Optimality:
        return find_optimality(fit, *problem(fit))

    return optimality


def find_optimality(fit: Fit, risk: Risk, at: Point) -> Optimality:
    """The gap that the fit's own slopes show; where that is not enough, what searches find."""
    value, null = risk.value(at.W, at.f), risk.null_value()
    most, dual, blur = np.full_like(value, np.inf), np.zeros_like(at.f), resolution(fit, risk, at)
    found = Optimality(risk, at, most, np.zeros_like(most), value, null, blur, dual)

    def compare(points: Iterable[Array]) -> None:
        for U in points:
            gap, U = gap_at(risk, at, U)
            dual[:], most[:] = np.where(gap < most, U, dual), np.minimum(most, gap)

    compare((risk.slopes(at.f), *_stated_dual(fit, risk)))
    if not (found.upper <= NEAR).all():
        compare(fit.witness("dual_points", risk, at) or ())
    late = np.flatnonzero(~(found.upper <= NEAR))
    work = SHARE * fit.work / max(len(late), 1)
    for k in map(int, late):
        enough = NEAR * max(float(value[k] - most[k]), LEAST * float(null[k]))
        part, start = (risk, at) if risk.joint else (risk.output(k), at.output(k))
        shown = fit.witness("better_weights", part, start, float(most[k]), enough, work)
        if shown is not None:
            W, b, U = shown
            gain = value[k] - part.value(W, point(part, W, b).f)[0]
            if gain > 0:
                found.certain[k], found.better[k] = gain, {"weights": W, "intercept": b}
            gap, U = gap_at(part, start, U)
            if gap[0] < most[k]:
                most[k], dual[:, slice(None) if risk.joint else slice(k, k + 1)] = gap[0], U
    return found


def resolution(fit: Fit, risk: Risk, at: Point) -> Array:
    """½ℓ″ Σ s (ε Σⱼ|xⱼwⱼ| + ε|b|)²: what P loses by weights that are rounded, 4 units in the last place of their dtype."""
    eps = np.finfo(dtype_of(fit)).eps
    sizes = np.sqrt(risk.column_squares)[:, None]
    reach = (sizes * np.abs(at.W)).sum(axis=0) + np.sqrt(risk.s.sum(axis=0)) * np.abs(at.b)
    lost = 0.5 * max(risk.loss.curved, 1.0) * np.square(4 * eps * reach)
    return np.atleast_1d(lost.sum()) if risk.joint else lost


def dtype_of(fit: Fit) -> Any:
    """The floats that the weights are stored in."""
    return np.result_type(coefficients(fit)[0].dtype, np.float32)


def _stated_dual(fit: Fit, risk: Risk) -> Iterator[Array]:
    """u = −yα of a linear SVM that states α."""
    alpha = fit.get("dual_coef_")
    if alpha is None or not risk.loss.margin:
        return
    alpha = np.abs(np.atleast_2d(np.asarray(alpha, dtype=np.float64))).T
    if alpha.shape == risk.y.shape:
        yield -risk.y * np.minimum(alpha, risk.loss.steepest * risk.s)


# --- claims -----------------------------------------------------------------------------------------------------------


def near_optimum(words: Words) -> Statement:
    """The claim that the objective is within 0.1 % of the least possible."""
    optimality = optimality_of(words)

    @claim(WITHIN, kind=PROVED, source="Fenchel duality; ML Lasso", needs=(optimality,))
    def near_optimum(fit: Fit) -> Evidence:
        objective = objective_of(fit, words)
        if math.isinf(objective.C):
            return judge_hard_margin(fit, objective)
        return judge(fit, optimality(fit))

    return near_optimum


def first_order_point(words: Words) -> Statement:
    """The claim that the optimality conditions hold, column by column: tighter than the objective, which is flat there."""
    problem = problem_of(words)

    @claim(
        "a first-order point: no column's slope is off by more than 0.05 % of its scale",
        kind=PROVED,
        source="Karush, Kuhn & Tucker",
        needs=(problem,),
        cost=slope_cost,
    )
    def first_order_point(fit: Fit) -> Evidence:
        if math.isinf(objective_of(fit, words).C):
            return unknown("a hard margin has no slope: near_optimum decides")
        return judge_slopes(fit, *problem(fit))

    return first_order_point


def judge_slopes(fit: Fit, risk: Risk, at: Point, bound: float = SLOPE) -> Evidence:
    """|∂ⱼP| less what the penalty allows, over ‖xⱼ‖ times the size of the slopes of a constant prediction.

    With a free intercept b = b′ − mᵀw the slope is that at a fixed b′, and ‖xⱼ‖ that of the deviations from the mean m: a
    column far from 0 would hide any slope behind its length.
    """
    if not risk.loss.smooth:
        return unknown("the loss has a kink: near_optimum decides")
    U = risk.slopes(at.f)
    mean, lengths = risk.centred_columns
    sums = U.sum(axis=0)
    off = breach(risk, at.W, risk.rows.adjoint(U) - np.outer(mean, sums))
    sizes, whole = lengths[:, None], np.sqrt(risk.column_squares)[:, None]
    if risk.free:
        one = np.full((1, 1), math.sqrt(float(risk.s.max(axis=1).sum())))
        off, sizes, whole = np.vstack([off, np.abs(sums)]), np.vstack([sizes, one]), np.vstack([whole, one])  # fmt: skip
    null = np.sqrt(_square_slopes(risk, risk.null_scores))
    own = np.sqrt(_square_slopes(risk, 0 * at.f))
    reach = (whole[: len(at.W)] * np.abs(at.W)).sum(axis=0) + own
    # below it, slopes are rounding: of the weights in their dtype, and of sums over columns far from 0
    least = rounding(dtype_of(fit), len(risk.s)) / bound * sizes * reach
    lost = rounding(np.float64, len(risk.s)) / bound * whole * np.sqrt(_square_slopes(risk, at.f))
    scale = np.maximum(sizes * null, np.maximum(least, lost))
    share = np.divide(off, scale, out=np.where(off > 0, np.inf, 0.0), where=scale > 0)
    j, k = np.unravel_index(int(np.argmax(share)), share.shape)
    name = "the intercept" if j == len(at.W) else f"column {j}"
    advice = f"{name} is off most: lower tol, raise max_iter, or bring the columns to one scale"
    return at_most(share[j, k], bound, advice, unit=f"{_of(risk, int(k))}slope / scale")


def breach(risk: Risk, W: Array, V: Array) -> Array:
    """By how much the slope v of the losses misses −∂Ω(w), column by column."""
    G = V + risk.l2 * W
    if risk.positive:
        return np.where(W > 0, np.abs(G + risk.l1), np.maximum(-G - risk.l1, 0.0))
    return np.where(W != 0, np.abs(G + risk.l1 * np.sign(W)), np.maximum(np.abs(G) - risk.l1, 0.0))


def _square_slopes(risk: Risk, f: Array) -> Array:
    """Σ sᵢ ℓᵢ′²."""
    return (risk.s * np.square(risk.loss.slope(risk.y, f))).sum(axis=0)


def judge_hard_margin(fit: Fit, objective: Objective) -> Evidence:
    """C = ∞: ½‖w‖² under margins ≥ 1. Every α ≥ 0 gives (Σα)²/2‖Σ αyx‖² ≤ ½‖w*‖² ≤ ½‖w‖²/(least margin)²."""
    alpha = fit.get("dual_coef_")
    if alpha is None or objective.intercept == "free" or np.any(objective.l1):
        return unknown("a hard margin: its gap is read from dual_coef_ of a penalised intercept")
    risk, at = make_problem(fit, replace(objective, C=1.0))
    alpha = np.abs(np.atleast_2d(np.asarray(alpha, dtype=np.float64))).T
    margins = np.where(risk.s > 0, risk.y * at.f, np.inf).min(axis=0)
    if alpha.shape != risk.y.shape or not (margins >= 1 - NEAR).all():
        return unknown("a hard margin: some margins are below 1, or dual_coef_ is of other rows")
    V = risk.rows.adjoint(np.where(risk.s > 0, risk.y * alpha, 0.0))
    alpha = np.where(risk.s > 0, alpha, 0.0)
    least = np.square(alpha.sum(axis=0)) / (2 * np.square(V).sum(axis=0))
    value = 0.5 * np.square(at.W).sum(axis=0) / np.square(np.minimum(margins, 1.0))
    share = np.maximum(value - least, 0.0) / least
    k = int(np.argmax(share))
    if not share[k] <= NEAR:
        return unknown(f"the stated dual_coef_ show {_sure(share[k])} at most", share[k])
    return at_most(share[k], NEAR, unit=f"{_of(risk, k)}gap / least")


def judge(fit: Fit, found: Optimality) -> Evidence:
    risk, upper, lower = found.risk, found.upper, found.lower
    bad = int(np.argmax(lower))
    if lower[bad] > NEAR and found.certain[bad] > found.resolution[bad]:
        advice = (
            "raise max_iter or lower tol; if that does not help, bring the columns to one scale"
        )
        note = f"better weights were found: relative excess at least {_sure(lower[bad])}, at most {_sure(upper[bad])}"
        unit, shown = f"{_of(risk, bad)}excess / least", found.better.get(bad)
        return at_most(lower[bad], NEAR, advice, unit, note, witness=shown)
    worst = int(np.argmax(upper))
    if upper[worst] <= NEAR:
        unit, note = f"{_of(risk, worst)}gap / least", _distance(found)
        return at_most(upper[worst], NEAR, "", unit, note, witness={"dual_point": found.dual})
    if found.most[worst] <= found.resolution[worst]:
        kind = coefficients(fit)[0].dtype
        return unknown(f"the gap is within what weights in {kind} resolve", upper[worst])
    return unknown(
        f"{_of(risk, worst)}the gap shows {_sure(upper[worst])} at most, and no better weights were found", upper[worst]
    )  # fmt: skip


def _sure(share: float) -> str:
    if not np.isfinite(share):
        return "any amount"
    return f"{100 * share:.2g} %" if share < 1 else f"{share:.2g}-fold"


def _of(risk: Risk, k: int) -> str:
    if risk.joint or risk.y.shape[1] == 1:
        return ""
    return f"{risk.names[k] if risk.names else f'output {k}'}: "


def _distance(found: Optimality) -> str:
    """‖w − w*‖ ≤ √(2 gap/λ₂): P is λ₂-strongly convex in w, with or without a free intercept."""
    least = float(found.risk.l2.min()) if found.risk.l2.size else 0.0
    size = float(np.linalg.norm(found.at.W))
    if least <= 0 or size == 0:
        return ""
    reach = math.sqrt(2 * float(found.most.sum()) / least) / size
    return f"the weights are within {_sure(reach)} of the best" if reach < 1 else ""


# --- attributes and statements ----------------------------------------------------------------------------------------


def shape_problems(fit: Fit) -> Iterator[str]:
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


SHAPES: dict[str, str] = {}
SOUND = attributes_sound(SHAPES, shape_problems)


def _nothing(fit: Fit) -> dict[str, float]:
    return {}


nothing_stated = statements_true(_nothing, cost=free)
