"""Where EM would go on from a mixture: what further steps gain, and whether a nudge leads uphill.

Near a maximum the gains of EM's steps are g_t = Σ_m a_m c_m^t with a_m ≥ 0 and rates 0 ≤ c_m < 1, so that g_{t+1}/g_t rises
towards the slowest rate. What all further steps gain is then (Aitken) g/(1 − c), estimated from the last ones.

    >>> extrapolated_gain(np.cumsum([0, 8, 4, 2, 1.0]))                          # 15 so far, 1 to come
    (16.0, 16.0)
"""

from __future__ import annotations

import numpy as np

from lemmata.audit.mixture_steps import affordable, climb, facts_of, one_thread, pass_work
from lemmata.core.certificate import PROVED, RULE_OF_THUMB, Fit, at_most, claim, rounding, unknown

Array = np.ndarray
TO_GO = 0.125  # nats: half a standard error in one direction, nothing that a sample of this size could tell
STEPS = 8  # of EM, to see its rate
NUDGE = 0.05  # standard deviations of a component
NUDGES, NUDGE_STEPS, FEWEST = 2, 24, 6


def extrapolated_gain(values: Array, noise: float = 0.0) -> tuple[float, float]:
    """What EM gains from the first of these values on, in all: with the rate as measured, and the largest that noise allows."""
    gains = np.abs(np.diff(values))
    so_far, last, m = float(gains.sum()), float(gains[-1]), len(gains) // 2
    if last <= noise:
        return so_far, so_far + noise * len(gains)
    rate = (last / max(gains[-1 - m], last)) ** (1 / m)
    rates = np.minimum([rate, rate + 2 * noise / (last * m)], 1 - 1e-12)
    low, high = so_far + last * rates / (1 - rates)
    return float(low), float(high)


@claim(
    "further EM steps gain at most 0.125 nats, all together",
    kind=RULE_OF_THUMB,
    source="CIL (3.13), (3.14); Aitken 1926",
    cost=lambda fit: (
        (STEPS + 1) * pass_work(fit) + (pass_work(fit) if "facts" not in fit.memory else 0)
    ),
)
def fixed_point(fit):
    """A step of any size says little: EM crawls where components overlap, and stops at any `tol` long before it arrives.

    The rate seen is at most the slowest, so the gain is a lower estimate. With reg_covar an M-step is not the exact maximum and
    ℓ may fall a little on the way to the fixed point: what counts is how far it moves.
    """
    low, high, first = _climbed(fit)
    coarse = _grit(fit)
    if TO_GO < low <= coarse:
        return unknown("rounding of the means alone costs as much", measured=low, unit="nats to go")
    advice = "EM has not arrived: lower tol, or raise max_iter"
    if np.asarray(fit.weights_).dtype == np.float32:
        advice += "; if that does not help, float32 is too coarse for numbers so far from zero"
    if low <= TO_GO < high:
        return unknown("EM crawls: rounding hides its rate", measured=low, unit="nats to go")
    return at_most(
        low, TO_GO, unit="nats to go", advice=advice,
        note=f"extrapolated from {STEPS} steps, the first gains {first:.1g} nats",
    )  # fmt: skip


def _climbed(fit: Fit) -> tuple[float, float, float]:
    """Gain in all (measured, and with noise), and of the first step, in nats of rows that count."""
    if "climbed" not in fit.memory:
        facts = facts_of(fit)
        with one_thread():
            values, _ = climb(facts.parts, facts.rows, STEPS)
        nats = np.array(values) * facts.nats
        noise = rounding(np.float64, facts.n) * (1 + facts.grain * facts.nats / max(facts.n, 1))
        low, high = extrapolated_gain(nats, noise)
        fit.memory["climbed"] = low, high, float(abs(nats[1] - nats[0]))
    return fit.memory["climbed"]


def _grit(fit: Fit) -> float:
    """What rounding the means to their type costs, in nats: ½ Σ_j N_j (eps μ_j/σ_j)² of each feature; ten times that."""
    facts, eps = facts_of(fit), float(np.finfo(np.asarray(fit.weights_).dtype).eps)
    if not fit.has("means_"):
        return 0.0
    C = facts.parts.covariances
    variances = np.einsum("jaa->ja", C) if C.ndim == 3 else C
    off = eps * np.abs(facts.parts.means) / facts.parts.unit
    return float(10 * 0.5 * facts.n * facts.parts.pi @ (off**2 / variances).sum(axis=1))


def _nudging_work(fit: Fit) -> float:
    return min(NUDGES * (NUDGE_STEPS + 1) * pass_work(fit), affordable(fit, 0.2))


@claim(
    "no nudge of the components lets EM climb higher",
    kind=RULE_OF_THUMB,
    source="CIL 3.1.3; Dempster, Laird & Rubin 1977",
    cost=_nudging_work,
)
def no_ascent_nearby(fit):
    """A saddle (two components on the same spot) is a fixed point too; EM leaves it only from beside it.

    The derivative of the EM map at a fixed point has an eigenvalue above 1 just where the likelihood curves upwards
    (θ' − θ = I_c⁻¹∇ℓ), so that EM itself, from a random point nearby, is the power method for it. The mixture it finds is the
    witness: that it is more likely is then a fact, whatever led to it. Finding none is no proof that there is none.
    """
    facts = facts_of(fit)
    if facts.parts.k == 1:
        return unknown("there is one component only")
    steps = int(min(_nudging_work(fit), fit.work) / pass_work(fit) / NUDGES) - 1
    if steps < FEWEST:
        return unknown("too little work allowed: pass seconds=… to certify")
    anyway = _climbed(fit)[0]
    if anyway > TO_GO:
        return unknown("EM still climbs without a nudge")
    best = -np.inf
    with one_thread():
        for seed in range(NUDGES):
            start = facts.parts.nudged(np.random.default_rng(seed), NUDGE)
            try:
                values, _ = climb(start, facts.rows, min(steps, NUDGE_STEPS))
            except np.linalg.LinAlgError:
                continue  # a collapse is for another claim
            best = max(
                best,
                (max(values[1:]) - facts.log_likelihood - facts.parts.log_prior()) * facts.nats,
            )
    gain = best - anyway
    advice = "a saddle, or a flat top: start from elsewhere (n_init, another random_state), or use fewer components"
    return at_most(
        gain, TO_GO, advice, unit="nats", kind=PROVED if gain > TO_GO else "",
        note=f"beyond EM without one; {NUDGES} nudges of {NUDGE} standard deviations, {min(steps, NUDGE_STEPS)} steps each",
    )  # fmt: skip
