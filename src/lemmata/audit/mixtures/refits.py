"""Claims from fits to parts of the rows: are labels repeated, is every component needed, are fresh rows as likely?

A model's own memberships and likelihood flatter it: it has seen the rows. So some rows are left out, EM continues from
the model on the others, and the rows left out are the judges. EM runs outside, as a search; its last step is made here, so
that what is judged is made of the other rows, except for where EM began. Bounds hold for whatever mixture that is, however
well it was fitted, with one exception, which the claim names: the best k − 1 components in U below.

EM that begins at the model does not leave its optimum, and where others are as good (a ring of blobs, two to a component),
another sample may choose one of them. So fits from twelve fresh starts stand beside it: what they say about the labels counts
too, unless they are less likely by three standard errors. An optimum that a start finds with a chance of a third
is missed by all with 0.8 %.

Every mixture of k components contains those of k − 1, so that its likelihood is higher on the rows it was fitted to. On
other rows it need not be. Universal inference (Wasserman, Ramdas & Balakrishnan 2020): with θ̂ fitted to one half D₁,

    U = p(D₀; θ̂ with k components) / sup p(D₀; k − 1 components)      has mean ≤ 1 if k − 1 are the truth,

since sup ≥ the truth and D₀ is independent of θ̂; so P(U ≥ 100) ≤ 0.01, for any number of rows and with no condition on the
family. The mean of U over both halves is no larger. Weights of at most 1 keep it true: E[(p/q)^w] ≤ (E[p/q])^w.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from lemmata.audit.clustering.nearest_centres import Frame, one_blas_thread
from lemmata.audit.kernel import claims
from lemmata.audit.kernel.concentration import effective_size
from lemmata.audit.kernel.held_out import NOT_CAPPED, mean_gain
from lemmata.audit.mixtures import em_steps
from lemmata.audit.mixtures.em_steps import (
    FitFacts,
    facts_of,
    known_components,
    pass_work,
    posterior,
)
from lemmata.core.blocks import Blocks

Array = np.ndarray
CONFIDENCE = 0.99
SOFT = 0.05  # of the labels may be others: two equal Gaussians 3.3 standard deviations apart
SHOWN = float(np.log(1 / (1 - CONFIDENCE)))  # nats
PER_FEATURE = 0.1  # nats by which fresh rows may be less likely
NOT_TOLD_APART = 3.0  # standard errors of a difference in log-likelihood
CAP = 5.0  # nats per feature from the median, at which log-likelihoods are cut
REFIT_STEPS = 15  # of EM from the model: enough where parts of the rows agree with all of them
FRESH_STARTS, FRESH_STEPS = 12, 15
TRIAL_STEPS, PAIRS = 4, 3  # pairs of components that a search tries as one
MOST_ROWS = 20_000
FOLDS, SMALL = 3, 3000  # rows up to which every row is left out once, not a third of them
THIRD_PASSES = 2 / 3 * (REFIT_STEPS + 1) + 1
FRESH_PASSES = FRESH_STARTS * (2 / 3 * (FRESH_STEPS + 2) + 1) + THIRD_PASSES
HALF_PASSES = 2 * (REFIT_STEPS + 2) + (PAIRS + 1) * (TRIAL_STEPS + 1)


class SampledRows(NamedTuple):
    """Rows that count, and their weights."""

    rows: Array
    weights: Array

    def part(self, which: Array) -> list[tuple[Array, Array]]:
        return [(self.rows[which], self.weights[which])]


def _room(fit: claims.Fit, times: float, share: float) -> int:
    """Number of rows that may be read so many times; 0 where they are too few for the shapes."""
    parts, n = known_components(fit), fit.data.shape[0]
    work = em_steps.affordable(fit, share) / times - em_steps.OVERHEAD
    room = int(min(n, MOST_ROWS, max(work, 0) / (parts.work(1) + em_steps.hole_work(fit, n) / n)))
    return 0 if room < min(0.8 * n, 20 * parts.k * parts.rows_needed) else room


def _folds(fit: claims.Fit) -> tuple[int, int]:
    """Number of thirds that are left out in turn, and of rows: all three if they are few, else one."""
    n = fit.data.shape[0]
    if n <= SMALL and _room(fit, FOLDS * THIRD_PASSES, em_steps.THIRDS) == n:
        return FOLDS, n
    return 1, _room(fit, THIRD_PASSES, em_steps.THIRDS)


def _sample(fit: claims.Fit, most: int) -> SampledRows:
    """Some rows of positive weight of which something is known, at random, in float64."""
    data, (n, d) = fit.data, fit.data.shape
    chosen = np.arange(n)
    if most < n:
        chosen = np.sort(np.random.default_rng(0).choice(n, most, replace=False))
    rows, weights = Frame(np.zeros(d)).take(data, chosen), np.ones(len(chosen))
    if data.weights is not None:
        weights = np.asarray(data.weights[chosen], float) / em_steps.unit_of(data)
    counts = (weights > 0) & ~np.isnan(rows).all(axis=1)
    return SampledRows(rows[counts], weights[counts])


def _refit(fit: claims.Fit, parts: Any, rows: list[tuple[Array, Array]]) -> Any:
    """Return components fitted to some of the rows: a search leads near, and a plain step makes them of these rows alone."""
    shown = fit.witness("refit_mixture", parts, rows, REFIT_STEPS - 1)
    if shown is None:
        raise claims.CannotTell("no search fitted parts of the rows")
    near = parts.of_vector(shown)
    return near.step(em_steps.expect(near, rows)[1])


TOO_LITTLE = "too little work allowed for fits to enough rows: pass seconds=… to certify"


# --- labels -----------------------------------------------------------------------------------------------------------


def _work(fit: claims.Fit, passes: float, room: int) -> float:
    per_pass = known_components(fit).work(room) + em_steps.OVERHEAD + em_steps.hole_work(fit, room)
    return passes * per_pass


def _third_work(fit: claims.Fit) -> float:
    folds, room = _folds(fit)
    again = _room(fit, FRESH_PASSES, em_steps.FRESH)
    return _work(fit, folds * THIRD_PASSES, room) + _work(fit, FRESH_PASSES, again)


@claims.statistical(
    "a fit to other rows gives at least 95 % of the labels again",
    "CIL (3.4); Hoeffding 1963",
    confidence=CONFIDENCE,
    needs=(facts_of,),
    cost=_third_work,
)
def memberships_clear(fit):
    """The probability of another label, by the memberships of a fit to two thirds of the rows, this one not among them.

    1 − r_z(x) ∈ [0, 1] with z the label that the model gives: near 1 where the two fits disagree, the doubt where they agree.
    Its mean is bounded by n·KL(mean ‖ p) ≤ ln 100 (Hoeffding 1963, Theorem 1), which for zeros and ones is Clopper–Pearson's
    bound up to a little. With few rows every one is left out once, and the folds are counted as if they were independent.
    """
    facts = facts_of(fit)
    facts.require_several()
    folds, room = _folds(fit)
    if not room:
        return claims.unknown(TOO_LITTLE)
    again = _room(fit, FRESH_PASSES, em_steps.FRESH)
    try:
        with one_blas_thread():
            doubts, weights = _doubts(fit, facts.parts, _sample(fit, room), folds)
            if not len(doubts):
                return claims.unknown("no rows could be left out")
            mean, low, high = _share_of_labels(doubts, weights)
            rivals = _rivals(fit, facts.parts, _sample(fit, again)) if again and low <= SOFT else []
    except np.linalg.LinAlgError:
        return claims.unknown("a component collapses where a third of the rows is left out")
    advice = "labels are not to be trusted: use predict_proba, or fewer components, or more rows"
    note, unit = f"{mean:.2%} of {effective_size(weights):,.0f} rows left out", "labels that change"
    most = max((one.share for one in rivals), default=0.0)
    if most > SOFT:
        shown = max((one.least for one in rivals if one.better), default=0.0)
        if shown > SOFT and again == fit.data.shape[0]:
            note = "by a fit from another start that is more likely"
            return claims.at_most(shown, SOFT, advice, unit, note)
        other = f"from another start {most:.0%} of the labels change"
        return claims.unknown(f"{other}, and the rows do not tell the two fits apart", most)
    if low <= SOFT < high or (low > SOFT and room < fit.data.shape[0]):
        return claims.unknown(f"between {low:.1%} and {high:.1%} of the labels change", mean)
    if high <= SOFT and not again:
        return claims.unknown(TOO_LITTLE)
    return claims.at_most(high if high <= SOFT else low, SOFT, advice, unit, note)


def _doubts(fit: claims.Fit, parts: Any, sample: SampledRows, folds: int) -> tuple[Array, Array]:
    """1 − r_z(x) of the rows left out, r from a fit to the others, and their weights."""
    fold = np.random.default_rng(1).permutation(len(sample.rows)) % FOLDS
    labels = parts.joint(sample.rows).argmax(axis=1)
    doubts, weights = [], []
    for out in range(folds):
        left = fold == out
        if not left.any() or left.all():
            continue
        again = _refit(fit, parts, sample.part(~left))
        r = posterior(again.joint(sample.rows[left]))[1]
        doubts.append(1 - r[np.arange(left.sum()), labels[left]])
        weights.append(sample.weights[left])
    return np.concatenate(doubts or [np.empty(0)]), np.concatenate(weights or [np.empty(0)])


class Rival(NamedTuple):
    """A fit from a fresh start that the rows do not tell from that of the model."""

    share: float  # of the labels of the rows left out that it changes
    least: float  # a bound on it
    better: bool  # more likely than that of the model


def _rivals(fit: claims.Fit, parts: Any, sample: SampledRows) -> list[Rival]:
    """Fits to two thirds of the rows from fresh starts, beside that from the model, judged on the third left out."""
    left = np.random.default_rng(3).permutation(len(sample.rows)) % FOLDS == 0
    labels, others = parts.joint(sample.rows).argmax(axis=1), sample.part(~left)
    each = posterior(_refit(fit, parts, others).joint(sample.rows))[0]
    found, w = [], sample.weights / sample.weights.sum()
    shown = fit.witness("fresh_mixtures", parts, others, FRESH_STARTS, FRESH_STEPS)
    if shown is None:
        raise claims.CannotTell("no search fitted parts of the rows")
    for vector in shown:
        near = parts.of_vector(vector)
        theirs, r = posterior(near.step(em_steps.expect(near, others)[1]).joint(sample.rows))
        possible = np.isfinite(theirs) & np.isfinite(each)  # a row of probability 0 tells nothing
        gains = np.subtract(theirs, each, out=np.zeros_like(each), where=possible)
        gain = float(w @ gains)
        error = float(np.sqrt(w**2 @ (gains - gain) ** 2))
        if not gain + NOT_TOLD_APART * error >= 0:
            continue  # a worse optimum, which a good fit does not end in
        names = _match(labels[~left], r[~left].argmax(axis=1), parts.k)
        doubts = 1 - r[left][np.arange(left.sum()), names[labels[left]]]
        share, least, _ = _share_of_labels(doubts, sample.weights[left])
        found.append(Rival(share, least, gain > 0))
    return found


def _match(ours: Array, theirs: Array, k: int) -> Array:
    """For every one of our labels the one of theirs that it shares most rows with, one to one."""
    table = np.zeros((k, k))
    np.add.at(table, (ours, theirs), 1)
    return linear_sum_assignment(-table)[1]


def _share_of_labels(doubts: Array, weights: Array) -> tuple[float, float, float]:
    """The share of labels that change, and bounds on it."""
    mean = float(weights @ doubts / weights.sum())
    return mean, *share_bounds(mean, effective_size(weights), SHOWN)


def share_bounds(mean: float, n: float, nats: float) -> tuple[float, float]:
    """The p with n·KL(mean ‖ p) ≤ nats: bounds on the mean of numbers in [0, 1], each with confidence 1 − e^−nats."""

    def far(p: float) -> bool:
        with np.errstate(divide="ignore", invalid="ignore"):
            yes = mean * np.log(mean / p) if mean > 0 else 0.0
            no = (1 - mean) * np.log((1 - mean) / (1 - p)) if mean < 1 else 0.0
        return n * (yes + no) > nats

    ends = []
    for outer in (0.0, 1.0):
        inside, outside = mean, outer
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if far(middle) else (middle, outside)
        ends.append(outside)
    return float(min(ends[0], mean)), float(max(ends[1], mean))


# --- the number of components -----------------------------------------------------------------------------------------


def _half_work(fit: claims.Fit) -> float:
    return _work(fit, HALF_PASSES, _room(fit, HALF_PASSES, em_steps.HALVES))


@claims.statistical(
    "one component fewer explains the rows worse: a split likelihood ratio above 100",
    "CIL20 6.4; Wasserman, Ramdas & Balakrishnan 2020",
    confidence=CONFIDENCE,
    needs=(facts_of,),
    cost=_half_work,
)
def worth_its_components(fit):
    """ln U of the split likelihood ratio of k components against the best k − 1, in nats: at ln 100, k − 1 are rejected.

    It fails where the reverse is shown: k − 1 components or one, fitted to the same half, give the other half 100 times the
    likelihood, which has a chance of at most 1 % if the k fitted components were the truth. Between the two the rows do
    not tell. The best k − 1 is the best that EM finds after merging pairs, or one component, which is a formula (so that
    k = 2 needs no search): one that misses better ones makes U too large. Nothing else rests on how well the search fits.
    """
    facts = facts_of(fit)
    facts.require_several()
    room = _room(fit, HALF_PASSES, em_steps.HALVES)
    if not room:
        return claims.unknown(TOO_LITTLE)
    try:
        with one_blas_thread():
            needed, spare = _ratios(fit, facts.parts, _sample(fit, room))
    except np.linalg.LinAlgError:
        return claims.unknown("a component collapses where half of the rows is left out")
    advice = "fewer components predict other rows better: lower n_components (see lemmata.mixtures.select)"
    if needed >= SHOWN:
        return claims.at_least(needed, SHOWN, unit="ln U")
    if spare >= SHOWN and not room < fit.data.shape[0]:
        note = f"fewer components are {spare:.3g} nats ahead on other rows"
        return claims.at_least(-spare, SHOWN, advice, "ln U", note)
    return claims.unknown("the rows do not tell k from k − 1 components", needed, "ln U")


def _ratios(fit: claims.Fit, parts: Any, sample: SampledRows) -> tuple[float, float]:
    """ln U for k components over k − 1, and for k − 1 or one over k, each the mean over both halves."""
    side = np.random.default_rng(2).permutation(len(sample.rows)) % 2
    if len(side) < 2:
        return -np.inf, -np.inf
    halves = [sample.part(side == s) for s in (0, 1)]
    many = [_refit(fit, parts, half) for half in halves]
    few = [_fewer(fit, fitted, half) for fitted, half in zip(many, halves, strict=True)]
    one = [_alone(fitted, half) for fitted, half in zip(many, halves, strict=True)]
    needed, spare = [], []
    for s in (0, 1):
        k = em_steps.log_likelihood(many[1 - s], halves[s])
        needed.append(
            _over(k, max(em_steps.log_likelihood(x, halves[s]) for x in (few[s], one[s])))
        )
        spare += [
            _over(em_steps.log_likelihood(fewer[1 - s], halves[s]), k) for fewer in (few, one)
        ]
    return _log_mean(needed), _log_mean(spare)


def _over(more: float, less: float) -> float:
    """ln of a ratio of likelihoods; of two that are 0, no evidence."""
    return more - less if more > -np.inf else -np.inf


def _log_mean(logs: list[float]) -> float:
    """ln of the mean of e^l."""
    return float(np.logaddexp.reduce(logs) - np.log(len(logs)))


def _alone(parts: Any, half: list[tuple[Array, Array]]) -> Any:
    """One component for all rows: a formula, except for missing values."""
    return em_steps.make_steps(em_steps.merge_all(parts), half, TRIAL_STEPS)


def _fewer(fit: claims.Fit, parts: Any, half: list[tuple[Array, Array]]) -> Any:
    """Return the best mixture with one component fewer that a search finds for these rows."""
    shown = fit.witness("fewer_components", parts, half, PAIRS, TRIAL_STEPS, REFIT_STEPS)
    if shown is None:
        raise claims.CannotTell("no search fitted fewer components")
    return parts.merge(0, parts.k - 1).of_vector(shown)


# --- fresh rows -------------------------------------------------------------------------------------------------------


def _fresh_work(fit: claims.Fit) -> float:
    """Return the price of going through both; nothing is read where there are no fresh rows."""
    if fit.y is None:
        return 0.0
    return claims.price_of(
        fit, lambda fit: pass_work(fit) + pass_work(fit, len(fit.y)), (facts_of,)
    )


@claims.statistical(
    "fresh rows are as likely as those fitted to, up to 0.1 nats per feature; ln p is cut 5 nats per feature from its median",
    "CIL20 6.4; Waudby-Smith & Ramdas 2024",
    confidence=CONFIDENCE,
    cost=_fresh_work,
)
def fresh_rows_as_likely(fit):
    """The mean of ln p(x) over the training rows less that over rows given as y, in nats per feature.

    One row in a thousand may be impossible but for 1e6 nats, and no thousand rows would show it: nothing can be said about the
    mean unless ln p is cut. The median is that of the training rows, so the range is known before the fresh ones, and bets
    bound the mean (kernel/held_out.py).
    """
    if fit.y is None or np.ndim(fit.y) != 2 or np.shape(fit.y)[1] != fit.data.shape[1]:
        return claims.unknown("pass rows that were not fitted to: certify(X, fresh_rows)")
    facts, rows, unit = facts_of(fit), Blocks.of(np.asarray(fit.y)), "nats per feature"
    facts.require_finite()
    d = fit.data.shape[1]
    with one_blas_thread():
        (seen, w), (fresh, v) = (_logs(facts, data) for data in (fit.data, rows))
    if impossible := int((fresh == -np.inf).sum()):
        advice = "their log-likelihood is −∞: fit with smoothing > 0"
        note = f"{impossible:,} fresh rows have probability 0"
        return claims.at_most(np.inf, PER_FEATURE, advice, unit, note, kind=claims.PROVED)
    middle = float(np.median(seen[w > 0]))
    inside, cut = (np.clip((logs - middle) / d, -CAP, CAP) for logs in (seen, fresh[v > 0]))
    mean = float(w @ inside / w.sum())
    slack = PER_FEATURE - mean
    found = mean_gain(slack + cut, 1 - CONFIDENCE, slack - CAP, slack + CAP)
    gap, uncut = mean - float(cut.mean()), float(w @ seen / w.sum() - fresh[v > 0].mean()) / d
    note = f"gap {gap:.2g}"
    if found.upper < 0:
        advice = "the model has memorised its rows: use fewer components, covariance_type='diag' or 'tied', or more rows"
        return claims.at_most(PER_FEATURE - found.upper, PER_FEATURE, advice, unit, note)
    if not found.lower > 0:
        ends = f"{PER_FEATURE - found.upper:.2g} to {PER_FEATURE - found.lower:.2g}"
        return claims.unknown(f"a gap of {ends} nats per feature", gap)
    if uncut > PER_FEATURE:
        return claims.unknown(f"a gap of {uncut:.2g} nats per feature: {NOT_CAPPED}", uncut)
    return claims.at_most(PER_FEATURE - found.lower, PER_FEATURE, unit=unit, note=note)


def _logs(facts: FitFacts, data: Any) -> tuple[Array, Array]:
    """ln p(x) of every row, and the weights."""
    parts = [
        (posterior(facts.parts.joint(x))[0], w) for x, w in em_steps.Reading(data, facts.parts.k)
    ]
    each, w = (np.concatenate(column) for column in zip(*parts, strict=True))
    return each, w
