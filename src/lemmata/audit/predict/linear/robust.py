"""Claims about robust regression: Huber's with its scale, absolute loss, Tukey's biweight.

    huber      P(w, b, σ) = Σ sᵢ (σ + σ H(rᵢ/σ)) + α‖w‖²,      H(z) = z² up to |z| = ε, 2ε|z| − ε² beyond     (r = y − Xw − b)
    absolute   P(w, b)    = Σ sᵢ |rᵢ|
    tukey      Σ sᵢ ρ(rᵢ) with a fixed scale, not convex: a first-order point is all that is claimed

Huber's objective is convex in (w, b, σ) together. For every a with |aᵢ| ≤ 2ε, Σ sᵢaᵢ² ≤ 4Σs and Σ sᵢaᵢ = 0

    P ≥ Σ sᵢ (aᵢrᵢ + σ(1 − aᵢ²/4)) + α‖w‖² ≥ Σ sᵢaᵢyᵢ − ‖Xᵀ(s∘a)‖²/4α = D(a),

and a = clip(2r/σ, ±2ε) closes the gap at the minimum. The gap is again a sum of terms none of which is negative.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.duality_gap import Point, Risk, feasible, point
from lemmata.audit.predict.linear import near_optimum as near
from lemmata.audit.predict.linear.least_squares import CORRELATION, first_few, name_of
from lemmata.audit.predict.linear.objectives import LinearObjective, problem_of

Array = np.ndarray


def _loss(fit: k.Fit) -> str:
    return str(fit.get("loss", "huber"))


def robust_objective(fit: k.Fit) -> LinearObjective:
    """The objective without Huber's scale, which is added below."""
    intercept = "free" if fit.get("fit_intercept", True) else "none"
    if _loss(fit) != "huber":
        return LinearObjective("absolute", intercept=intercept)
    alpha, epsilon = float(fit.alpha), float(fit.epsilon)
    return LinearObjective("huber", l2=alpha, intercept=intercept, epsilon=epsilon)


problem = problem_of(robust_objective)


# --- Huber's loss with its scale --------------------------------------------------------------------------------------


def huber_value(
    risk: Risk, r: Array, W: Array, sigma: float, epsilon: float, alpha: float
) -> float:
    z = np.abs(r) / sigma
    H = np.where(z <= epsilon, z * z, 2 * epsilon * z - epsilon**2)
    return float((risk.s * sigma * (1 + H)).sum() + alpha * np.square(W).sum())


def huber_gap(
    risk: Risk, at: Point, sigma: float, U: Array, epsilon: float, alpha: float
) -> tuple[float, Array]:
    """P(at, σ) − D(a) for slopes u = s∘a that are made feasible first, and those."""
    s, r, total = risk.s, risk.y - at.f, float(risk.s.sum())
    U, V, missed = feasible(risk, U, at)
    a = np.divide(U, s, out=np.zeros_like(U), where=s > 0)
    length = float((s * a * a).sum())
    shrink = min(1.0, 2 * math.sqrt(total / length) if length > 0 else 1.0)
    U, V, a = U * shrink, V * shrink, a * shrink
    z = np.abs(r) / sigma
    # σH(z) + σ·a²/4 − a r of every row, in the same shape as Huber's excess
    along = np.sign(r) * a
    inside = np.square(z - along / 2)
    beyond = (z - epsilon) * (2 * epsilon - along) + np.square(epsilon - along / 2)
    rows = float((s * sigma * np.where(z <= epsilon, inside, beyond)).sum())
    spare = sigma * max(total - float((s * a * a).sum()) / 4, 0.0)
    ridge = float(np.square(2 * alpha * at.W - V).sum()) / (4 * alpha) if alpha > 0 else 0.0
    return rows + spare + missed + ridge, U


def _huber_optimality(fit: k.Fit, risk: Risk, at: Point) -> near.Optimality:
    epsilon, sigma = float(fit.epsilon), float(fit.scale_)
    alpha = float(fit.alpha) / risk.rows.scale / risk.rows.scale  # of the weights of divided rows
    r = risk.y - at.f
    value = huber_value(risk, r, at.W, sigma, epsilon, alpha)
    own = risk.s * np.clip(2 * r / sigma, -2 * epsilon, 2 * epsilon)
    null, blur = _null(risk, epsilon), partial(near.resolution, fit, risk, at, sigma)
    most, certain, values, nulls = (np.array([x]) for x in (math.inf, 0.0, value, null))
    found = near.Optimality(risk, at, most, certain, values, nulls, blur, np.zeros_like(own))

    def compare(U: Array | None) -> bool:
        """Whether the least gap is small enough, with that of one more dual point."""
        if U is not None:
            gap, U = huber_gap(risk, at, sigma, U, epsilon, alpha)
            found.dual[:], most[:] = U if gap < most[0] else found.dual, np.minimum(most, gap)
        return bool((found.upper <= near.NEAR).all())

    if compare(own) or compare(fit.witness("feasible_slopes", risk, own)):
        return found
    shown = fit.witness("better_huber_fit", found, sigma, epsilon, alpha, near.SHARE * fit.work)
    if shown is not None:
        W, b, scale, U = shown
        gain = value - huber_value(risk, risk.y - point(risk, W, b).f, W, scale, epsilon, alpha)
        if gain > 0 and scale > 0:
            certain[0] = gain
            found.better[0] = {"weights": W, "intercept": b, "scale": scale}
        compare(U)
    return found


def best_scale(risk: Risk, r: Array, sigma: float, epsilon: float, rounds: int = 50) -> float:
    """Σ s (1 − a²/4) = 0 for a = clip(2r/σ): σ² Σs = Σ s min(r², ε²σ²), by its fixed point."""
    s, total = risk.s, float(risk.s.sum())
    for _ in range(rounds):
        new = math.sqrt(float((s * np.minimum(r * r, (epsilon * sigma) ** 2)).sum()) / total)
        if not new > 0:
            return sigma
        if abs(new - sigma) <= 1e-13 * sigma:
            break
        sigma = new
    return sigma


def _null(risk: Risk, epsilon: float) -> float:
    """A constant prediction, the median, with the scale that suits it."""
    r = risk.y - np.median(risk.y)
    start = float(np.sqrt((risk.s * r * r).sum() / risk.s.sum()))
    if not start > 0:
        return 0.0
    sigma = best_scale(risk, r, start, epsilon)
    return huber_value(risk, r, np.zeros((1, 1)), sigma, epsilon, 0.0)


def _gap_cost(fit: k.Fit) -> float:
    if _loss(fit) == "huber":
        return near.slope_cost(fit)
    return 0.0 if _loss(fit) == "tukey" else near.gap_cost(fit, robust_objective(fit))


@k.fact(cost=_gap_cost, needs=(problem,))
def optimality(fit: k.Fit) -> near.Optimality:
    find = _huber_optimality if _loss(fit) == "huber" else near.find_optimality
    return find(fit, *problem(fit))


@k.proved(near.WITHIN, "Fenchel duality; ML Loss Functions", needs=(optimality,))
def near_optimum(fit: k.Fit) -> k.Evidence:
    if _loss(fit) == "tukey":
        return k.unknown("Tukey's loss is not convex: no gap is known, see first_order_point")
    return near.judge(fit, optimality(fit))


# --- weights and first-order points -----------------------------------------------------------------------------------


def _residuals(fit: k.Fit) -> tuple[Risk, Point, Array]:
    risk, at = problem(fit)
    return risk, at, (risk.y - at.f)[:, 0]


def row_weights(fit: k.Fit, r: Array) -> Array:
    """ψ(r)/r, 1 for small residuals: what each row counts in the normal equations."""
    if _loss(fit) == "tukey":
        width = float(fit.get("tuning", 4.685)) * float(fit.scale_)
        return np.square(np.maximum(1 - np.square(r / width), 0.0)) if width > 0 else (r == 0) * 1.0
    with np.errstate(divide="ignore"):
        return np.minimum(1.0, float(fit.epsilon) * float(fit.scale_) / np.abs(r))


@k.proved(
    "a first-order point: no column correlates with the weighted residuals by more than 1e-4",
    "ML Loss Functions",
    needs=(problem,),
    cost=near.slope_cost,
)
def first_order_point(fit: k.Fit) -> k.Evidence:
    """Σ sᵢωᵢrᵢxᵢ = 0, ω recomputed from the residuals; each column, its mean taken off, against its length and that of ωr."""
    if _loss(fit) != "tukey":
        return k.unknown("the objective is convex: near_optimum decides")
    risk, at, r = _residuals(fit)
    s = risk.s[:, 0]
    pull = row_weights(fit, r) * r
    mean, sizes = risk.centred_columns
    lean = risk.rows.adjoint((s * pull)[:, None])[:, 0] - mean * (s @ pull)
    if risk.free:
        lean, sizes = np.append(lean, s @ pull), np.append(sizes, math.sqrt(s.sum()))
    total = math.sqrt(float(s @ pull**2))
    whole = np.sqrt(risk.column_squares)
    reach = float(whole @ np.abs(at.W[:, 0])) + math.sqrt(float(s @ risk.y[:, 0] ** 2))
    blur = k.rounding(near.dtype_of(fit), len(s)) * reach
    if total <= 2 * blur:
        return k.unknown("the residuals are rounding")
    cosine = np.divide(np.abs(lean), sizes * total, out=np.zeros_like(lean), where=sizes > 0)
    j = int(np.argmax(cosine))
    name = "the constant" if j == len(at.W) else name_of(fit, j)
    advice = f"{name} correlates most: raise max_iter, lower tol, or bring the columns to one scale"
    unit, bound = "|cos(column, weighted residuals)|", max(CORRELATION, blur / total)
    return k.at_most(cosine[j], bound, advice, unit)


def outliers(fit: k.Fit, r: Array) -> Array:
    """The rows that the loss holds for outliers."""
    width = {"huber": fit.get("epsilon"), "tukey": fit.get("tuning", 4.685)}.get(_loss(fit), 3.0)
    return np.abs(r) > float(width) * float(fit.scale_)


@k.rule_of_thumb("fewer than half of the rows are outliers", "ML Loss Functions", needs=(problem,))
def outliers_are_few(fit: k.Fit) -> k.Evidence:
    """The breakdown point: a majority of outliers is another law, and the fit describes whichever it found first."""
    _, _, r = _residuals(fit)
    if not float(fit.scale_) > 0:
        return k.unknown("the scale is 0: most rows are fitted exactly")
    far = np.flatnonzero(outliers(fit, r))
    order = far[np.argsort(-np.abs(r[far]))]
    note = f"rows {first_few(order)}" if far.size else "none"
    advice = "the rows follow more than one law: look at the residuals, or add the column that tells them apart"
    return k.at_most(len(far) / len(r), 0.5, advice, unit="share of outliers", note=note)


# --- what is stated ---------------------------------------------------------------------------------------------------


def _problems(fit: k.Fit) -> Iterator[str]:
    yield from near.shape_problems(fit)
    if _loss(fit) == "huber" and not float(fit.get("scale_", 1.0)) > 0:
        yield "scale_ should be > 0"


def _statements(fit: k.Fit) -> dict[str, float]:
    """outliers_ and weights_ as the residuals say; rows at the edge may be either."""
    _, _, r = _residuals(fit)
    found: dict[str, float] = {}
    stated, weights = fit.get("outliers_"), fit.get("weights_")
    if stated is not None:
        blur = 1e-6 * (float(fit.scale_) + float(np.abs(r).max(initial=0.0)))
        sure = outliers(fit, np.abs(r) + blur) == outliers(fit, np.abs(r) - blur)
        wrong = np.shape(stated) != r.shape or (np.asarray(stated) != outliers(fit, r))[sure].any()
        found["outliers_"] = math.inf if wrong else 0.0
    if weights is not None and _loss(fit) != "absolute":
        found["weights_"] = discrepancy(weights, row_weights(fit, r), 1.0, 1e-3)
    return found


SOUND = attributes_sound({"scale_": ">=0", "weights_?": "n >=0 <=1"}, _problems)
TRUE = statements_true(_statements, needs=(problem,))
ROBUST_CLAIMS = (SOUND, TRUE, near_optimum, first_order_point, outliers_are_few)
