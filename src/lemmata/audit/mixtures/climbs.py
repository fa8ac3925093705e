"""Claims about further steps of EM from a mixture: what they gain, and whether a nudge leads uphill.

Near a maximum the gains of EM's steps are g_t = Σ_m a_m c_m^t with a_m ≥ 0 and rates 0 ≤ c_m < 1, so that g_{t+1}/g_t rises
towards the slowest rate. What all further steps gain is then (Aitken) g/(1 − c), estimated from the last ones.

    >>> extrapolated_gain(np.cumsum([0, 8, 4, 2, 1.0]))                          # 15 so far, 1 to come
    (16.0, 16.0)
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy.special import xlogy

from lemmata.audit.clustering.nearest_centres import one_blas_thread
from lemmata.audit.kernel import claims
from lemmata.audit.mixtures import em_steps
from lemmata.audit.mixtures.em_steps import FitFacts, affordable, facts_of, pass_work
from lemmata.audit.mixtures.gaussians import outer

Array = np.ndarray
TO_GO = 0.125  # nats: half a standard error in one direction, nothing that a sample of this size could tell
LEAPS = 10  # of EM in the search for more
MOST_STEPS = 1e6  # at most: where gains do not shrink, they are counted so often
NUDGE = 0.05  # standard deviations of a component
NUDGES, NUDGE_STEPS, FEWEST = 2, 24, 6
# share of the work allowed, beyond which one step is looked at before anybody climbs
EXPENSIVE = 0.25
TINY = 1e-15  # in the units of the data
SINGLE = 0.4  # of a pass in float64, that one in float32 without rounding errors takes: 0.15 to 0.6
STILL_GROWING = "steps from a nudge still gain more and more: pass seconds=… to certify"


def extrapolated_gain(values: Array, noise: float = 0.0) -> tuple[float, float]:
    """The total gain of EM from the first of these values on: with the rate as measured, and the largest that noise allows."""
    gains = np.abs(np.diff(values))
    so_far, last, m = float(gains.sum()), float(gains[-1]), len(gains) // 2
    if last <= noise:
        return so_far, so_far + noise * len(gains)
    rate = (last / max(gains[-1 - m], last)) ** (1 / m)
    rates = np.minimum([rate, rate + 2 * noise / (last * m)], 1 - 1 / MOST_STEPS)
    low, high = so_far + last * rates / (1 - rates)
    return float(low), float(high)


def _climbing_passes(fit: claims.Fit) -> float:
    """Return how many passes there is work for, a leap being three; those of two plain steps where there is little."""
    planned = min(1 + 3 * LEAPS, affordable(fit, em_steps.CLIMBING) / pass_work(fit))
    left = fit.work / pass_work(fit) - 2  # what every claim needs comes first
    return max(2.0, planned) if planned <= left else 2.0


def _climbing_work(fit: claims.Fit) -> float:
    return _climbing_passes(fit) * pass_work(fit)


@claims.fact(cost=_climbing_work, needs=(facts_of,))
def climb(fit: claims.Fit) -> tuple[float, float, float, float]:
    """Return the gain found, in all (at the rate measured, and with noise), and what of it may be noise, in nats that count."""
    facts = facts_of(fit)
    leaps = max(int(_climbing_passes(fit) / 3), 1)
    with one_blas_thread():
        risen, last = _rise(fit, facts, leaps - 1)
    found, last = (risen + np.abs(np.diff(last)).sum()) * facts.nats, last * facts.nats
    # each term errs by some eps of what it is made of, in any direction, and so does the sum
    noise = 4 * claims.rounding(np.float64, facts.n) * (1 + facts.grain / facts.weight)
    steps = float(np.abs(np.diff(last)).sum())
    low, high = (found + total - steps for total in extrapolated_gain(last, noise))
    return found, low, high, 3 * leaps * noise


def _rise(fit: claims.Fit, facts: FitFacts, leaps: int) -> tuple[float, Array]:
    """Return how much more likely a mixture is that a search shows, and the objective over two plain steps from there.

    A mixture that is less likely is no way up: the steps are then made from the model, as they are where there is no search.
    """
    start = facts.log_likelihood + facts.parts.log_prior()
    shown = fit.witness("climb_by_leaps", facts.parts, facts.rows, leaps) if leaps else None
    if shown is not None:
        last = _two_steps(facts.parts.of_vector(shown), facts)
        if last[0] >= start:
            return float(last[0] - start), last
    return 0.0, _two_steps(facts.parts, facts, (start, facts.sums))


def _two_steps(parts: Any, facts: FitFacts, here: Any = None) -> Array:
    """Return the objective here and after each of two steps of EM; `here`, with the sums of its E-step, where it is known."""
    value, sums = here or em_steps.expect(parts, facts.rows)
    values = [value]
    for _ in range(2):
        parts = parts.step(sums)
        value, sums = em_steps.expect(parts, facts.rows)
        values.append(value)
    return np.array(values)


# --- where that is much of the work allowed: one step on the data, and the rate of the run ---
#
# An M-step gains q = Q(θ') − Q(θ) of the bound, known from the sums of one E-step, and at most 2q of ℓ near a fixed point:
# errors that shrink by c have a gain of (1 + c)q. What all steps gain is 2q/(1 − c²) then, with the rate c² of the gains of the
# run's last steps. The E-step is made in float32, whose rounding adds to q.


def _hurries(fit: claims.Fit) -> bool:
    """Whether the run says that it arrived, of Gaussians in float64, and `climb` costs a large part of what is allowed."""
    if climb in fit.facts or fit.trace is None or "to_go" not in fit.trace.extras:
        return False
    settled = len(fit.trace.objective) > 1 and fit.trace.extras["to_go"][-1] <= TO_GO
    double = np.asarray(fit.weights_).dtype == np.float64 and fit.has("covariances_")
    return bool(settled and double) and _cost_of_climb(fit) > EXPENSIVE * fit.work


def _cost_of_climb(fit: claims.Fit) -> float:
    return claims.price_of(fit, claims.free, (climb,))


def _cost_of_last_step(fit: claims.Fit) -> float:
    return SINGLE * pass_work(fit) if _hurries(fit) else 0.0


@claims.fact(cost=_cost_of_last_step)
def last_step(fit: claims.Fit) -> float:
    """Return what further steps gain, in nats that count, by one of them and the run's rate; ∞ where nothing was looked at."""
    if not _hurries(fit):
        return np.inf
    rows = em_steps.Reading(fit.data, len(fit.weights_))
    parts = em_steps.components_of(fit, rows.unit)
    centre, weight, square = parts.pi @ parts.means, 0.0, 0.0
    spread, away = parts.covariances, np.abs(parts.means - centre) / parts.unit
    variances = spread if spread.ndim == 2 else np.einsum("jaa->ja", spread)
    if not (variances.min() > TINY and max(variances.max(), away.max()) < 1 / TINY):
        return np.inf  # nothing that float32 can square
    single, sums = _in_single(parts, centre), parts.empty()
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        for x, w in rows:
            x = ((x - centre) / parts.unit).astype(np.float32)
            r = em_steps.posterior(single.joint(x))[1]
            single.add(sums, x, w[:, None].astype(np.float32) * r)
            weight, square = weight + w.sum(), square + w @ w
        if not all(np.isfinite(part).all() for part in sums):
            return np.inf
        gain = _sum_logs(parts.step(sums), sums, parts.means) - _sum_logs(parts, sums, parts.means)
    losses = fit.trace.objective[-3:]
    before = np.abs(np.diff(losses))
    rate = before[-1] / before[0] if len(before) > 1 and before[0] > 0 else 1.0
    if before[-1] <= claims.rounding(np.float64) * np.abs(losses).max():
        rate = 0.0  # below rounding a gain has no rate, and a million of them are no news
    gain = 2 * abs(gain) * weight / square
    return float(gain / max(1 - rate, 1 / MOST_STEPS)) if np.isfinite(gain) else np.inf


def _in_single(parts: Any, centre: Array) -> Any:
    """The same components of rows (x − centre)/unit, in float32."""
    other = copy.copy(parts)
    other.means = ((parts.means - centre) / parts.unit).astype(np.float32)
    other.unit, other.log_unit = (np.full(parts.d, x, np.float32) for x in (1, 0))
    other.covariances = parts.covariances.astype(np.float32)
    other.pi, other._factors = parts.pi.astype(np.float32), None
    return other


def _sum_logs(parts: Any, sums: list[Array], means: Array) -> float:
    """Σ r ln π_j p(x; θ_j) up to a constant, from sums about `means`: what an M-step maximises."""
    counts, first, second, rest = sums
    away, weight = (parts.means - means) / parts.unit, float(xlogy(counts, parts.pi).sum())
    if parts.covariances.ndim == 2:  # variances along the axes; rest counts known cells
        v = parts.covariances
        about = second - 2 * away * first + rest * away**2
        return weight - 0.5 * float((rest * np.log(v) + about / v).sum())
    cross = first[:, :, None] * away[:, None, :]
    about = second + rest - cross - cross.transpose(0, 2, 1)
    about = about + counts[:, None, None] * outer(away)
    logs = 2 * np.log(np.einsum("jaa->ja", parts.factors)).sum(axis=1)
    distances = np.trace(np.linalg.solve(parts.covariances, about), axis1=1, axis2=2)
    return weight - 0.5 * float(counts @ logs + distances.sum())


def _cost_of_fixed_point(fit: claims.Fit) -> float:
    """Count `climb` where it is asked for."""
    if last_step in fit.facts and last_step(fit) <= TO_GO:
        return 0.0
    return 0.0 if _hurries(fit) else _cost_of_climb(fit)


@claims.rule_of_thumb(
    "further EM steps raise the log-likelihood by at most 0.125 nats in all",
    "CIL (3.13), (3.14); Aitken 1926",
    needs=(last_step,),
    cost=_cost_of_fixed_point,
)
def fixed_point(fit):
    """A step of any size says little: EM crawls where components overlap, and stops at any `tol` long before it arrives.

    What is found by climbing is a fact; what the last steps' rate says about the rest is a lower estimate. With reg_covar an
    M-step is not the exact maximum and ℓ may fall a little on the way to the fixed point: what counts is how far it moves.
    """
    if (gain := last_step(fit)) <= TO_GO:
        note = "one step on the data, the rest by the rate of the run's last steps"
        return claims.at_most(gain, TO_GO, unit="nats to go", note=note)
    if _cost_of_climb(fit) > fit.work:
        return claims.unknown(
            "one step on the data does not settle it: run certify(X)", gain, "nats to go"
        )
    facts_of(fit).require_finite()
    found, low, high, noise = climb(fit)
    if low - noise <= TO_GO < low:
        return claims.unknown("the gains are rounding", measured=low, unit="nats to go")
    if TO_GO < low <= _grit(fit):
        return claims.unknown("rounding of the means alone costs as much", low, "nats to go")
    if low <= TO_GO < high:
        return claims.unknown(
            "EM converges so slowly that rounding hides its rate", measured=low, unit="nats to go"
        )
    advice = "EM has not converged: lower tol, or raise max_iter"
    if np.asarray(fit.weights_).dtype == np.float32:
        advice += "; if that does not help, float32 is too coarse for numbers so far from zero"
    return claims.at_most(
        low, TO_GO, unit="nats to go", advice=advice, note=f"{found:.2g} found by climbing, the rest extrapolated",
        kind=claims.PROVED if found > TO_GO else "",
    )  # fmt: skip


def _grit(fit: claims.Fit) -> float:
    """The cost of rounding the means to their type, in nats: ½ Σ_j N_j (eps μ_j/σ_j)² of each feature; ten times that."""
    facts, eps = facts_of(fit), float(np.finfo(np.asarray(fit.weights_).dtype).eps)
    if not fit.has("means_"):
        return 0.0
    C = facts.parts.covariances
    variances = np.einsum("jaa->ja", C) if C.ndim == 3 else C
    off = eps * np.abs(facts.parts.means) / facts.parts.unit
    return float(10 * 0.5 * facts.n * facts.parts.pi @ (off**2 / variances).sum(axis=1))


def _nudging_work(fit: claims.Fit) -> float:
    most = affordable(fit, em_steps.NUDGING)
    return min(NUDGES * (NUDGE_STEPS + 1) * pass_work(fit), most)


@claims.rule_of_thumb(
    "from no nearby start that was tried does EM climb higher",
    "CIL 3.1.3; Dempster, Laird & Rubin 1977",
    needs=(facts_of,),
    cost=_nudging_work,
)
def no_ascent_nearby(fit):
    """A saddle (two components on the same spot) is a fixed point too; EM leaves it only from beside it.

    The derivative of the EM map at a fixed point has an eigenvalue above 1 just where the likelihood curves upwards
    (θ' − θ = I_c⁻¹∇ℓ), so that EM itself, from a random point nearby, is the power method for it. The mixture it finds is the
    witness: that it is more likely is then a fact, whatever led to it. Finding none is no proof that there is none.
    """
    facts = facts_of(fit)
    facts.require_several()
    facts.require_finite()
    steps = int(min(_nudging_work(fit), fit.work) / pass_work(fit) / NUDGES) - 1
    if steps < FEWEST:
        return claims.unknown("too little work allowed: pass seconds=… to certify")
    anyway = climb(fit)[1]
    if anyway > TO_GO:
        return claims.unknown("EM still climbs without a nudge")
    steps = min(steps, NUDGE_STEPS)
    with one_blas_thread():
        shown = fit.witness("climb_from_nudges", facts.parts, facts.rows, NUDGES, NUDGE, steps)
        if shown is None:
            return claims.unknown("no climb from a nudge came to an end")
        vector, growing = shown
        reached = em_steps.expect(facts.parts.of_vector(vector), facts.rows)[0]
    gain = (reached - facts.log_likelihood - facts.parts.log_prior()) * facts.nats - anyway
    if gain <= TO_GO and growing:
        return claims.unknown(STILL_GROWING, gain)
    advice = "a saddle, or a flat top: start from elsewhere (n_init, another random_state), or use fewer components"
    return claims.at_most(
        gain, TO_GO, advice, unit="nats", kind=claims.PROVED if gain > TO_GO else "",
        note=f"beyond EM without one; {NUDGES} nudges of {NUDGE} standard deviations, {steps} steps each",
        witness={"parameters": vector} if gain > TO_GO else None,
    )  # fmt: skip
