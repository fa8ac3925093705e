"""Claims about a completed matrix, checked on the known entries by plain code.

Everything is recomputed in float64 from the entries (`fit.data`) and public attributes: U_, V_, mean_, row_bias_, column_bias_
(and scales), reg_ (λ), weighted_reg_, and bias_reg_ (κ), weighted_bias_reg_ where biases have a penalty of their own; `biases`,
`nonnegative`, `feedback` and `alpha` where a model has them. So the claims certify factors from anywhere
(completion/certifying.py). No solver uses this code, and it uses none of theirs.

**First order.** At a minimiser ∇_U = λU − Π_Ω(A − UVᵀ)V vanishes, that is, its three terms cancel. How well they do is the
length of their sum over the sum of their lengths: a number between 0 and 1 that does not change when the factors shrink or
grow, so tiny factors are no excuse. **Rows and columns.** Each row is a quadratic problem of its own (factored_objective.py),
so what solving it again would gain is known exactly: ½ gᵀD⁻¹g. Summed over all rows, or over all columns, that is the gain of
half a sweep of ALS, and zero at a fixed point (CIL (2.38)). **Second order.** CIL 2.4.3 leaves open whether a fixed point of
ALS is a minimum. The smallest eigenvalue of the Hessian tells (curvature.py). U = V = 0 is a first-order point of every
objective, mostly a saddle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from lemmata.audit.completion.factored_objective import Factored, blocks_cost, gain, gains, join
from lemmata.audit.completion.held_out.error import ENTRY_CLAIMS
from lemmata.audit.completion.held_out.offsets import beats_offsets
from lemmata.audit.completion.optimality.curvature import PRODUCTS, Curvature, downward
from lemmata.audit.completion.optimality.global_optimum import (
    global_optimum,
    least_penalised,
    rank_not_cut,
)
from lemmata.audit.completion.statements import SOUND, per_factor, precision, problem_of
from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import never_rose
from lemmata.audit.kernel.concentration import betting
from lemmata.audit.kernel.lanczos import RISK

Array = np.ndarray

SLOPE = 2e-3  # the default tol of ALS, 1e-5 per sweep, leaves 5e-4 to 1.6e-3
CURVED = 1e-3  # of the mean curvature; less than this is flat as far as a point with such a slope can tell
WORTH = 1e-4  # of the objective: a way down that gains less is a matter of convergence, not a way out of a saddle
FEW_PRODUCTS = 60  # decide most fits
GAIN = 1e-4  # of the objective; the default tol is a tenth of it
NOISE_LEFT = 0.01  # of the objective: what stochastic steps may leave behind
DRAWN, DRAWN_RISK = (
    256,
    0.01,
)  # rows, and columns, that are looked at where there is no time for all


# --- the run ----------------------------------------------------------------------------------------------------------


NEVER_ROSE = never_rose(
    "the objective never rose",
    "CIL 2.4.3",
    lambda fit: claims.rounding(precision(fit), terms=fit.data.n_observed),
    "report this: an exact half-sweep cannot raise it",
)


@claims.rule_of_thumb(
    "the steps shrink faster than 1/√t, so that their noise dies out",
    "Robbins & Monro 1951",
    about="run",
)
def steps_shrink(fit):
    """p in γ_t ∝ (1 + t)^−p, from the first and the last epoch. Σγ_t = ∞ and Σγ_t² < ∞ ask for ½ < p ≤ 1."""
    rates = fit.trace.extras["learning_rate"]
    if len(rates) < 2:
        return claims.unknown("one epoch shows no schedule")
    exponent = math.log(rates[0] / rates[-1]) / math.log(len(rates))
    advice = "the factors keep fluctuating around a minimum: pass decay above 0.5, or learning_rate='auto'"
    return claims.at_least(exponent, math.nextafter(0.5, 1), advice, unit="p")


# --- a fixed point of alternation -------------------------------------------------------------------------------------


def _sweep_cost(fit: claims.Fit) -> float:
    p = np.shape(fit.U_)[1] + 1
    return fit.data.n_observed * p * (p + 1) + sum(fit.data.shape) * (1.5 * p**3 + 2500)


@claims.fact(cost=_sweep_cost)
def half_sweep_gain(fit: claims.Fit) -> float:
    """Return what solving the rows again, or the columns, would gain: a share of the loss and of their own penalty.

    Where every entry is met, what is left of the objective is the rounding of the factors, and of no interest.
    """
    return max(gain(problem_of(fit), side) / own for side, own in enumerate(_own_parts(fit)))


def _own_parts(fit: claims.Fit) -> Iterator[float]:
    """The loss with the penalty of the rows, and with that of the columns."""
    problem = problem_of(fit)
    noise = claims.rounding(precision(fit), problem.rank + 1)
    floor = noise**2 * problem.size / GAIN
    for side, reg in enumerate((problem.row_reg, problem.column_reg)):
        lengths = np.square(problem.at[side]).sum(axis=1)
        biases = problem.bias_regs[side] @ problem.at[side + 2] ** 2
        own = problem.loss + 0.5 * float(reg @ lengths + biases + problem.ridge * problem.energy)
        yield max(own + floor, np.finfo(float).tiny)


@claims.proved(
    "solving either side again lowers the objective by less than 0.01 %",
    "CIL (2.38)",
    needs=(half_sweep_gain,),
)
def fixed_point(fit):
    """½ gᵀD⁻¹g, summed over all rows, and over all columns."""
    return claims.at_most(half_sweep_gain(fit), GAIN, "lower tol, or raise max_iter", unit="gain")


def _drawn_sweep_cost(fit: claims.Fit) -> float:
    """The slopes of all rows, the systems of those drawn, and products of all pairs of factors."""
    entries, sides, p = fit.data.n_observed, fit.data.shape, np.shape(fit.U_)[1] + 1
    drawn = sum(min(DRAWN * np.sqrt(entries / n), entries) for n in sides)  # large rows come often
    return per_factor(6)(fit) + p * p * (drawn + 0.5 * sum(sides)) + 2 * DRAWN * (1.5 * p**3 + 2500)


def _near_cost(fit: claims.Fit) -> float:
    return 0.0 if half_sweep_gain in fit.facts else min(_drawn_sweep_cost(fit), _sweep_cost(fit))


@claims.proved(
    "solving either side exactly would lower the objective by less than 1 %",
    "CIL (2.38)",
    cost=_near_cost,
)
def near_fixed_point(fit):
    """The gain of half a sweep of ALS from here: what noise, or too few epochs, left behind. See `fixed_point` of ALS.

    Where the budget does not allow all of them, rows and columns are drawn (`_drawn_gain`), and the claim is statistical.
    """
    advice = "raise max_iter and lower tol; with a learning_rate of your own, give it more decay"
    if half_sweep_gain in fit.facts or fit.work >= _sweep_cost(fit):
        return claims.at_most(half_sweep_gain(fit), NOISE_LEFT, advice, unit="gain")
    ends = [_drawn_gain(problem_of(fit), side) for side in (0, 1)]
    shares = np.array(ends) / np.array(list(_own_parts(fit)))[:, None]
    low, high = shares.max(axis=0)
    if low <= NOISE_LEFT < high:
        return claims.unknown(f"between {low:.2g} and {high:.2g}: run certify(X) for all rows")
    measured, note = (high, "at most") if high <= NOISE_LEFT else (low, "at least")
    note = f"{note}, from {DRAWN} rows and {DRAWN} columns"
    found = claims.at_most(measured, NOISE_LEFT, advice, unit="gain", note=note)
    return replace(found, kind=claims.STATISTICAL, confidence=1 - DRAWN_RISK)


def _drawn_gain(problem: Factored, side: int) -> tuple[float, float]:
    """Bounds on `gain`, from rows drawn by u_i = ½‖g_i‖²/λ_i: no row gains more, as D_i ≥ λ_i, so gain/u is in [0, 1]."""
    g = join(problem, problem.gradient[side], problem.gradient[side + 2])
    ridge = (problem.row_reg, problem.column_reg)[side]
    if problem.biased:
        ridge = np.minimum(ridge, problem.bias_regs[side])
    squares = 0.5 * np.einsum("ik,ik->i", g, g)
    most = np.divide(squares, ridge, out=np.where(squares > 0, np.inf, 0.0), where=ridge > 0)
    total = float(most.sum())
    if not 0 < total < np.inf:
        return 0.0, total
    rows = np.random.default_rng(0).choice(len(most), DRAWN, p=most / total)
    shares = np.clip(gains(problem, side, rows) / most[rows], 0.0, 1.0)
    low, high = betting(shares, DRAWN_RISK / 2)
    return low * total, high * total


# --- first and second order -------------------------------------------------------------------------------------------


@claims.fact(cost=per_factor(10))  # four sparse products and the fitted entries
def slope(fit: claims.Fit) -> float:
    return slope_at(problem_of(fit), bool(fit.get("nonnegative", False)))


def slope_at(problem: Factored, nonnegative: bool = False) -> float:
    """Return how far from stationary a point is, between 0 (not at all) and 1, whatever the size of its factors."""
    curvatures = problem.row_curvatures() if nonnegative else ()
    worst = 0.0
    for side, (data, fitted, ridge) in enumerate(_gradient_terms(problem)):
        size = sum(np.linalg.norm(term) for term in (data, fitted, ridge))
        slopes = ridge + fitted - data
        if nonnegative and side < 2:
            slopes = _held_at_zero(problem, side, slopes, curvatures[side])
        worst = max(worst, float(np.linalg.norm(slopes) / size) if size > 0 else 0.0)
    return worst


@claims.rule_of_thumb(
    "a first-order point: the gradient is at most 0.2 % of the size of its terms",
    "CIL (2.38)",
    needs=(slope,),
)
def first_order_point(fit):
    """‖∇_U‖ / (‖Π_Ω(A)V‖ + ‖Π_Ω(UVᵀ)V‖ + ‖λU‖), or the same for V, or those of the biases: the worst of them."""
    advice = "not converged: lower tol and raise max_iter"
    return claims.at_most(slope(fit), SLOPE, advice, unit="|∇| / its terms")


def _gradient_terms(problem: Factored) -> Iterator[tuple[Array, Array, Array]]:
    """(W∘A)V, (W∘X)V and ΛU, whose sum (but for signs) is ∇_U; then those of V and, with 1 for the other side, of b and c."""
    U, V, b, c = problem.at
    w = 1.0 if problem.weights is None else problem.weights
    beyond = 1.0 if problem.beyond is None else problem.beyond
    A = problem.on_entries(w * problem.target)
    X = problem.on_entries(beyond * problem.fitted)
    d = problem.everywhere
    everywhere = (d * U @ (V.T @ V), d * V @ (U.T @ U)) if d else (0.0, 0.0)
    yield A @ V, X @ V + everywhere[0], problem.row_reg[:, None] * U
    yield A.T @ U, X.T @ U + everywhere[1], problem.column_reg[:, None] * V
    if not problem.biased:
        return
    alpha, beta = problem.bias_regs
    yield A.sum(axis=1), X.sum(axis=1), alpha * b
    yield A.sum(axis=0), X.sum(axis=0), beta * c


def _held_at_zero(problem: Factored, side: int, slopes: Array, curvature: Array) -> Array:
    """The gradient with what a bound at 0 holds back removed: min(∇, L·U) with L the curvature of the row, 0 iff KKT."""
    dimension = problem.rank + problem.biased
    return np.minimum(slopes, dimension * curvature[:, None] * problem.at[side])


def _product_cost(fit: claims.Fit) -> float:
    """Cost of one product with the Hessian: entries twice from either side, and the blocks of rows and columns."""
    p, (n, m) = np.shape(fit.U_)[1] + 1, fit.data.shape
    return 6 * fit.data.n_observed * (p + 10) + (n + m) * p * p


def _curvature_cost(fit: claims.Fit, products: int = FEW_PRODUCTS) -> float:
    return blocks_cost(fit.data, np.shape(fit.U_)[1] + 1) + products * _product_cost(fit)


@claims.statistical(
    "a minimum, not a saddle: no direction curves down by more than 1e-3 of the curvature of single rows",
    "CIL 2.4.3, (2.18)",
    confidence=1 - 2 * RISK,
    cost=_curvature_cost,
    needs=(slope,),
)
def second_order_minimum(fit):
    """The smallest eigenvalue of the Hessian modulo gauge, in units of the curvature that each row feels alone."""
    problem = problem_of(fit)
    if fit.get("nonnegative", False):
        why = "with a bound at 0 this is a question of copositivity, which cannot be decided at this size"
        return claims.unknown(why)
    if slope(fit) > SLOPE:
        return claims.unknown(
            "not a first-order point, so no minimum and no saddle; converge first"
        )
    if problem.rank == 0:
        return claims.unknown("there are no factors")
    affordable = fit.work >= _curvature_cost(fit, PRODUCTS)
    try:
        found = downward(problem, margin=CURVED, most=PRODUCTS if affordable else FEW_PRODUCTS)
    except MemoryError as error:
        return claims.unknown(str(error))
    if found.value < -CURVED:
        return _saddle(fit, problem, found)
    if found.value - found.error < -CURVED:
        return claims.unknown(
            f"Lanczos: {found.value:.1e}, or up to {found.error:.1e} less, after {found.products} products"
        )
    return claims.at_least(
        found.value, -CURVED, unit="curvature", note=f"{found.products} products"
    )


def _saddle(fit: claims.Fit, problem: Factored, found: Curvature) -> claims.Evidence:
    """A direction that curves down is its own proof, if following it pays."""
    step = fit.witness("lowest_on_line", problem, found.direction)
    if step is None:
        return claims.unknown(f"curvature {found.value:.1e}; what it gains was not searched for")
    after = problem.move(problem.at.move(step, found.direction)).objective
    gained = 1 - after / problem.objective if problem.objective > 0 else 0.0
    if not gained >= WORTH:  # so for a step that is no number
        return claims.unknown(
            f"curvature {found.value:.1e}, but all it gains is {100 * gained:.1g} %: lower tol to tell"
        )
    note = f"going down there lowers the objective by {100 * gained:.2g} %"
    advice = "a saddle: ALS.escape() leaves it (completion.witness.escape for factors from elsewhere), or another random_state"
    witness = {**found.direction._asdict(), "step": step}
    return claims.at_least(
        found.value, -CURVED, advice, "curvature", note, kind=claims.PROVED, witness=witness
    )


@claims.proved("the factors are nonnegative", "CIL 2.4")
def nonnegative_factors(fit):
    smallest = min(np.min(fit.U_, initial=0.0), np.min(fit.V_, initial=0.0))
    return claims.at_least(smallest, 0.0, "fit with nonnegative=True", unit="smallest")


# --- claims of each model ---------------------------------------------------------------------------------------------

_FREE = (first_order_point, fixed_point, second_order_minimum, global_optimum)
_NONNEGATIVE = (first_order_point, nonnegative_factors)
IMPLICIT_CLAIMS = (*SOUND, *_FREE, NEVER_ROSE)  # every entry is known there
NONNEGATIVE_IMPLICIT_CLAIMS = (*SOUND, *_NONNEGATIVE, NEVER_ROSE)
EXPLICIT_CLAIMS = (*IMPLICIT_CLAIMS, *ENTRY_CLAIMS)
NONNEGATIVE_CLAIMS = (*NONNEGATIVE_IMPLICIT_CLAIMS, *ENTRY_CLAIMS)
_STOCHASTIC = (*SOUND, near_fixed_point, first_order_point)
SGD_CLAIMS = (*_STOCHASTIC, NEVER_ROSE, *ENTRY_CLAIMS)
SCHEDULED_SGD_CLAIMS = (*_STOCHASTIC, steps_shrink, *ENTRY_CLAIMS)
_CONVEX = (least_penalised, first_order_point, rank_not_cut)
SOFT_IMPUTE_CLAIMS = (*SOUND, *_CONVEX, NEVER_ROSE, *ENTRY_CLAIMS)


def factor_claims(implicit: bool, nonnegative: bool) -> tuple[claims.Statement, ...]:
    """Return the claims about factors from elsewhere, whose run is not known."""
    about = (*SOUND, *(_NONNEGATIVE if nonnegative else _FREE))
    return about if implicit else (*about, *ENTRY_CLAIMS, beats_offsets)
