"""Expectation maximisation, once for every mixture; and online EM, which learns from batches of rows and keeps none of them.

    maximise  ℓ(θ) = Σ_i w_i log Σ_j π_j p(x_i; θ_j)      over π on the simplex and θ_1 … θ_k                 (CIL (3.5), (3.6))

With responsibilities q_ij the bound ℓ ≥ Σ_i w_i Σ_j q_ij [log π_j + log p(x_i; θ_j) − log q_ij] holds (Jensen, CIL (3.9)). The
E-step makes it tight, q_ij ∝ π_j p(x_i; θ_j) (CIL (3.12)); the M-step maximises it, π_j ∝ Σ_i w_i q_ij (CIL (3.13)) and a
weighted maximum likelihood problem per component (CIL (3.14)). So ℓ cannot fall.

What the M-step needs of the data adds up over blocks, so a `Family` (expectation.py) says three things: the log-densities of
rows, the expected statistics of a block, and the parameters that belong to statistics. A step is M then E: each state carries
the likelihood of its own parameters, and the statistics from which the next M-step needs no look at the data.

EM crawls where components overlap, so near the end two steps s₀ → s₁ → s₂ of the statistics are followed by a leap along them
(SQUAREM, Varadhan & Roland 2008), which is kept only where it is more likely: ℓ still cannot fall.

    s₀ − 2αr + α²v,    r = s₁ − s₀,    v = (s₂ − s₁) − r,    α = −1/|1 − c|,    c² = the ratio of the gains of the two steps

At α = −1 this is s₂. Gains shrink by c² where errors shrink by c, whatever the units of the parameters are.

    >>> from lemmata.core.loop import MaxSteps, run
    >>> from lemmata.mixtures.families import Bernoulli
    >>> X = np.repeat([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [30, 10], axis=0)
    >>> state = run(EMAlgorithm(Bernoulli(smoothing=0), 2), Blocks.of(X), stop=MaxSteps(50), rng=0).state
    >>> np.sort(state.weights).round(6), round(state.log_likelihood, 6)
    (array([0.25, 0.75]), -0.562335)

(CIL 3.1.5 says that k-means is the limit of large variances; it is that of small ones: responsibilities become hard as σ → 0.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.core.blocks import Blocks
from lemmata.core.store import storable
from lemmata.mixtures.expectation import Family, expectation, maximisation
from lemmata.mixtures.starting import RandomMemberships

Array = np.ndarray
LONGEST, SHORTEST = 64.0, -1.05  # leaps; −1 is none
# a leap so long tells about slow directions; a shorter one makes the gain of the last count less
FAR, FORGET = -2.0, 0.1
# Steps like the last one that must not matter. Beside a saddle gains shrink to 1e-4 nats before they grow to ten again; saddles
# are for components of few rows, where steps cost little, so that patience ends at so many rows times steps.
PATIENCE, ROWS = 4000, 8e6
HASTE = 25  # as many of large data, and where the likelihood also falls: what is left is rounding, or what reg_covar takes
NOISE = 8 * float(np.finfo(float).eps)  # of a mean log-likelihood: gains below are rounding


@storable
@dataclass(frozen=True)
class Past:
    """The part of an earlier state that a leap needs."""

    version = 1

    stats: Any
    loss: float


@storable
@dataclass(frozen=True)
class EMState:
    """A mixture, what its E-step found, and the likelihood of these very parameters."""

    version = 3
    layout: ClassVar[dict[str, str]] = {"weights": "k >=0 <=1"}

    weights: Array  # (k,) π
    params: Any  # θ
    stats: Any  # expected under π and θ: the next M-step
    log_likelihood: float  # mean over the weight of rows
    loss: float  # −(log-likelihood + log prior) per unit of weight
    price: float  # how much of a fall of the likelihood the M-step that led here may have given away (reg_covar)
    rows: float  # that count: (Σw)²/Σw²
    past: tuple[Past, ...] = ()  # up to two plain steps before this state
    # nats that all further steps may gain, for all rows together, by the last two plain ones and the leap before them
    to_go: float = np.inf
    # nats that the last long leap gained, for all rows together: 0 if it led nowhere, ∞ before there was one
    leapt: float = np.inf

    @staticmethod
    def upgrade(fields: dict[str, Any], version: int) -> dict[str, Any]:
        return {**fields, "leapt": np.inf} if version == 2 else fields


@dataclass(frozen=True)
class EMAlgorithm:
    """EM for a mixture of `n_components` from `family`. `start` says where it begins (see starting.py)."""

    family: Family
    n_components: int
    start: Any = None  # random responsibilities
    compiled: bool | None = None  # whether kernels do the work; None: as the size of the data says
    leap_below: float = 0.0  # nats per row: EM leaps once a step gains less; 0 is plain EM

    hint = "raise reg_covar or smoothing, lower n_components, or scale the data"

    def __post_init__(self):
        if self.n_components < 1:
            raise ValueError(
                f"n_components={self.n_components}: a mixture has at least one component."
            )

    @property
    def sizes(self) -> dict[str, int]:
        return {"k": self.n_components}

    def check_state(self, state: EMState, data: Blocks) -> None:
        """ValueError where the parameters in a state from a file are none of this family's."""
        self.family.check_parameters(state.params, self.n_components, data.shape[1])
        if any(type(past.stats) is not type(state.stats) for past in state.past):
            raise ValueError("its past is that of another family.")

    def init(self, data: Blocks, rng: np.random.Generator) -> EMState:
        start = RandomMemberships() if self.start is None else self.start
        weights, params = start.begin(
            self.family, self.n_components, data, self.family.survey(data), rng
        )
        state = self.at(data, weights, params)
        if state.log_likelihood == -np.inf:
            raise ValueError(
                "the initial values give some rows the probability 0 (ln p = −∞); start from values between, like 0.01 for 0."
            )
        return state

    def step(self, state: EMState, data: Blocks) -> EMState:
        past, leapt = (*state.past, Past(state.stats, state.loss))[-2:], state.leapt
        if len(state.past) == 2 and abs(state.past[1].loss - state.loss) < self.leap_below:
            alpha = stretch(state.past[0].loss, state.past[1].loss, state.loss)
            far = self._leap(state, data, alpha)
            leapt = 0.0 if alpha < FAR else FORGET * leapt
            if far is not None and far.loss < state.loss:
                return replace(far, leapt=max(leapt, state.rows * (state.loss - far.loss)))
            past = past[1:]  # two more steps before the next leap
        weights, params = maximisation(self.family, state.stats)  # M
        new = self.at(data, weights, params, state.rows)  # E
        price = self.family.price(state.stats, params) if new.loss > state.loss else 0.0
        losses = [*(earlier.loss for earlier in past), new.loss]
        to_go = still_to_gain(losses, state.rows)
        # where gains shrink slowly, or leaps gain, small steps say nothing until a long leap has gained little
        if leapt < np.inf or (len(losses) == 3 and stretch(*losses) < FAR):
            to_go = max(to_go, leapt)
        return replace(new, price=price, past=past, to_go=to_go, leapt=leapt)

    def _leap(self, state: EMState, data: Blocks, alpha: float) -> EMState | None:
        """The state at the end of a leap, of half of it, …; None where there is nothing beyond the last step."""
        (a, b), c = state.past, state
        while alpha < SHORTEST:
            shares = (1 + alpha) ** 2, -2 * alpha * (1 + alpha), alpha**2
            stats = a.stats.scale(shares[0]) + b.stats.scale(shares[1]) + c.stats.scale(shares[2])
            if self.family.sound(stats, c.stats):
                weights, params = maximisation(self.family, stats)
                return self.at(data, weights, params, state.rows)
            alpha = (alpha - 1) / 2
        return None

    def at(self, data: Blocks, weights: Array, params: Any, rows: float | None = None) -> EMState:
        """The state of a mixture: one E-step."""
        found = expectation(self.family, params, weights, data, self.compiled)
        if not found.weight > 0:
            raise ValueError("no row has both a weight and a value; there is nothing to fit.")
        mean = found.log_likelihood / found.weight
        loss = -mean - self.family.log_prior(params) / found.weight
        rows = effective_rows(data) if rows is None else rows
        return EMState(weights, params, found.stats, mean, loss, 0.0, rows)

    def objective(self, state: EMState) -> float:
        return state.loss

    def extras(self, state: EMState) -> dict[str, float]:
        return {"log_likelihood": state.log_likelihood, "price": state.price, "to_go": state.to_go}

    def attributes(self, state: EMState) -> dict[str, Any]:
        return {"weights_": state.weights, **self.family.attributes(state.params)}


def effective_rows(data: Blocks) -> float:
    """Number of rows that count as much as these with their weights: (Σw)²/Σw²."""
    if data.weights is None:
        return float(data.shape[0])
    w = np.asarray(data.weights, dtype=np.float64) / np.max(data.weights)
    return float(w.sum() ** 2 / (w @ w))


def stretch(before: float, then: float, now: float) -> float:
    """The length of a leap, in steps: −1/(1 − c), where gains shrink by c² from one step to the next; −1 where they do not."""
    last, earlier = then - now, before - then
    if not (earlier > 0 and last > 0 and earlier != last):
        return -1.0
    return -min(1 / abs(1 - float(np.sqrt(last / earlier))), LONGEST)


def still_to_gain(losses: list[float], rows: float) -> float:
    """Nats that further steps may gain: those of as many steps as there were patient ones, or more if gains shrink slowly.

    Gains shrink in the end by a constant rate (Aitken), which they approach from below: the rate seen is moved half of the
    way towards 1. On the way past a saddle gains shrink and then grow again: steps like the last one count always.
    """
    changes = rows * np.diff(losses)
    gains = np.abs(changes)
    if len(gains) < 2 or gains[1] == 0:
        return 0.0 if len(gains) and gains[-1] == 0 else np.inf
    rate = np.sqrt(gains[1] / gains[0]) if gains[0] > 0 else np.inf
    extrapolated = gains[1] * rate / (1 - rate) if rate < 1 else np.inf
    noise = NOISE * rows * max(map(abs, losses))
    steps = max(min(PATIENCE, ROWS / rows), HASTE) if changes.max() <= 0 else HASTE
    return float(max(steps * gains[1], extrapolated if gains[1] > noise else 0.0))


# --- batches ----------------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class StepwiseState:
    """A mixture that learns from batches."""

    version = 1
    layout: ClassVar[dict[str, str]] = {"weights": "k >=0 <=1"}

    weights: Array
    params: Any
    stats: Any  # per unit of weight: an average over the batches that forgets old ones slowly
    batches: int  # t
    weight: float  # of all rows so far
    log_likelihood: float  # mean, of the newest batch under the parameters before it was learned from: a fair forecast


@dataclass(frozen=True)
class StepwiseEM:
    """Online EM (Cappé & Moulines 2009): s ← (1 − γ_t) s + γ_t ŝ with the batch's statistics ŝ, γ_t = (t + 2)^−κ, then M.

    Σ γ_t = ∞ and Σ γ_t² < ∞ need ½ < κ ≤ 1. Smaller κ forgets the start sooner, larger κ averages more.
    """

    family: Family
    kappa: float = 0.6

    def __post_init__(self):
        if not 0.5 < self.kappa <= 1:
            raise ValueError(
                f"kappa={self.kappa}: the steps (t + 2)^-kappa converge for 0.5 < kappa <= 1."
            )

    def begin(self, state: EMState) -> StepwiseState:
        """Continue from a fit, or from its first state on the first batch; the fit counts as one batch."""
        total = float(state.stats.counts.sum())
        return StepwiseState(
            state.weights, state.params, state.stats.scale(1 / total), 0, total, state.log_likelihood
        )  # fmt: skip

    def update(self, state: StepwiseState, data: Blocks) -> StepwiseState:
        """Learn from a batch. One whose rows all weigh nothing, or are all unknown, changes nothing."""
        for rows, _ in data:
            self.family.check(rows)  # as the survey did before a fit
        found = expectation(self.family, state.params, state.weights, data)
        total = float(found.stats.counts.sum()) if found.weight > 0 else 0.0
        if total == 0:
            return state
        gamma = (state.batches + 2) ** -self.kappa
        stats = state.stats.scale(1 - gamma) + found.stats.scale(gamma / total)
        weight = state.weight + found.weight
        # a prior counts against all rows seen
        weights, params = maximisation(self.family, stats.scale(weight))
        mean = found.log_likelihood / found.weight
        return replace(
            state,
            weights=weights,
            params=params,
            stats=stats,
            batches=state.batches + 1,
            weight=weight,
            log_likelihood=mean,
        )
