"""Claims about decisions on people in groups: do acceptance, errors and meaning of a decision depend on the group?

    independence  D ⊥ A        separation  D ⊥ A | Y        sufficiency  Y ⊥ A | D

Rows are draws of their group, independent of each other and of the model: nothing is said about rows that were trained on.
A largest gap of several is biased upwards, so no claim compares it with a threshold. *Fails* needs one pair of groups that is
apart for certain, all pairs and rates at once (union bound). *Holds* needs every pair to be close: were one pair in truth
farther apart, its own interval would have to miss, so each has the whole risk δ (intersection of tests). Between the two the
claim can't tell, and says how many rows it would take.

**What cannot hold together** (q = P(Y=1|D), p base rates, J = |TPR − FPR| of group b):

    p_a − p_b = Σ_d (P_a(d) − P_b(d)) q_a(d) + Σ_d P_b(d)(q_a(d) − q_b(d))      so  |ΔP(D)| + max(|ΔPPV|, |ΔNPV|) ≥ |Δp|
    P_a(D) − P_b(D) = p_a ΔTPR + (1 − p_a) ΔFPR + Δp (TPR_b − FPR_b)            so  |ΔP(D)| + max(|ΔTPR|, |ΔFPR|) ≥ |Δp| J

The notes' slips: "any of the three" means any two; separation against sufficiency needs A and Y to be dependent.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from lemmata.audit.kernel import claims as k
from lemmata.audit.trust.fair.counts import DRAWN, GroupCounts, Rate
from lemmata.audit.trust.fair.gaps import Gaps, gaps_at_once, gaps_between
from lemmata.audit.trust.generalisation import at_asked_confidence, condition_of, rows_unseen

Array = np.ndarray

BINS = 10  # of scores
MOST_RIGHT = 0.6  # of rows whose group is guessed, groups balanced
MOST_LEARNED = 20_000  # rows to learn the group from
SOURCE = "ML Fairness criteria in classification"


# --- counts -----------------------------------------------------------------------------------------------------------


@k.fact(cost=k.free)
def counts_of(fit: k.Fit) -> GroupCounts:
    """Count the rows. Raises CannotTell where they are no independent draws."""
    counts = GroupCounts.of(fit.names, fit.codes, fit.y, fit.decisions, fit.weights)
    if len(counts.names) < 2:
        raise k.CannotTell("there is one group only")
    condition(fit)
    return counts


@k.fact(cost=k.free)
def condition(fit: k.Fit) -> str:
    """Say on what verdicts about new rows rest. Raises CannotTell where these are no draws, or were trained on."""
    rows = fit.get("X")
    if rows is None and fit.get("scores") is not None:
        rows = np.column_stack([fit.scores, fit.y, fit.codes])
    return condition_of(rows, len(fit.y), unseen(fit))


@k.fact(cost=k.free)
def unseen(fit: k.Fit) -> k.Evidence | None:
    """Look for the rows among those that the model was trained on; None where there is no model."""
    if fit.get("fitted") is None:
        return None
    known = {"X": fit.get("X"), "train": fit.get("train")}
    return rows_unseen.check(k.Fit(fit.fitted, None, fit.y, attributes=known))


@k.statistical(
    "at most 1 % of these rows equal a training row, or lie far nearer to one than training rows to each other",
    "ML Generalization gap; Clopper–Pearson",
    confidence=rows_unseen.confidence,
)
def people_unseen(fit):
    """The rows are looked for among the training rows, or those that the model keeps. Decisions alone keep none."""
    return unseen(fit) or k.unknown("decisions alone do not say what the model was trained on")


# --- gaps -------------------------------------------------------------------------------------------------------------


def _judge_gaps(fit: k.Fit, rates: tuple[str, ...], within: float) -> k.Evidence:
    """No two groups differ by more than `within` in any of these rates: holds, fails or can't tell."""
    counts = counts_of(fit)
    sure = gaps_at_once(counts, rates, fit.delta)
    name, gaps = max(sure.items(), key=lambda item: item[1].lower.max())
    i, j = np.unravel_index(gaps.lower.argmax(), gaps.lower.shape)
    if gaps.lower[i, j] > within:
        advice = "not a matter of chance: look at these groups' data, or set thresholds by group"
        note = _describe_gap(counts.names, name, gaps, int(i), int(j))
        return k.at_most(gaps.lower[i, j], within, advice, unit="gap at least", note=note)
    own = {rate: gaps_between(counts.rate(rate), fit.delta, counts.weighted) for rate in rates}
    for rate, found in own.items():
        if not (found.rate.draws > 0).all():
            empty = counts.names[int(np.argmin(found.rate.draws > 0))]
            rows = f"rows {DRAWN[rate]}" if rate in DRAWN else "rows"
            return k.unknown(f"{rate} is not defined: {empty!r} has no {rows}")
    name, gaps = max(own.items(), key=lambda item: item[1].upper.max())
    i, j = np.unravel_index(gaps.upper.argmax(), gaps.upper.shape)
    if gaps.upper[i, j] <= within:
        note = f"{name} of {counts.names[i]!r} and {counts.names[j]!r} is the least certain"
        return k.at_most(gaps.upper[i, j], within, unit="gap at most", note=note)
    if abs(gaps.observed[i, j]) > within:  # to fail, all pairs count
        gaps = sure[name]
    return k.unknown(_say_why(counts.names, name, gaps, (i, j), within, fit.delta))


def _describe_gap(names: tuple[str, ...], rate: str, gaps: Gaps, i: int, j: int) -> str:
    a, b = (f"{gaps.rate.values[at]:.3f} of {names[at]!r}" for at in (i, j))
    return f"{rate} {a}, {b}: apart by {gaps.lower[i, j]:.3f} to {gaps.upper[i, j]:.3f}"


def _say_why(names, rate: str, gaps: Gaps, pair, within: float, delta: float) -> str:
    """Name the groups that are too small and the rows it would take, or the pair that is too near to the limit."""
    enough = math.ceil((ndtri(delta) / within) ** 2 / 2)  # two groups of these, half accepted
    small = np.flatnonzero(gaps.rate.size < enough)
    drawn = f"{DRAWN[rate]} " if rate in DRAWN else ""
    if len(small):
        some = sorted(small, key=lambda at: gaps.rate.size[at])[:4]
        listed = ", ".join(f"{names[at]!r} {gaps.rate.size[at]:,.0f}" for at in some)
        more = f" and {len(small) - 4} more" if len(small) > 4 else ""
        return f"too few rows {drawn}to know the {rate}: {listed}{more}; some {enough:,} would do for equal groups"
    i, j = pair
    gap, ends = gaps.observed[i, j], (gaps.lower[i, j], gaps.upper[i, j])
    half = gap - ends[0] if gap > within else ends[1] - gap
    times = max((half / max(abs(within - gap), 1e-3)) ** 2, 1.1)
    text = f"{rate} of {names[i]!r} and {names[j]!r} is {gap:+.3f} apart ({ends[0]:+.3f} to {ends[1]:+.3f})"
    return f"{text}; some {times:.2g} times as many rows {drawn}would do"


def _with_condition(fit: k.Fit, found: k.Evidence) -> k.Evidence:
    """Say on what a verdict about new rows rests where it is not known what the model was trained on."""
    said = condition(fit) if found.relation else ""
    return replace(found, note="; ".join(filter(None, (found.note, said))))


@k.statistical("no two groups are accepted at rates further apart than `within`", SOURCE, confidence=0.95)  # fmt: skip
@at_asked_confidence
def independence(fit):
    """P(D=1|a), all pairs at once."""
    return _with_condition(fit, _judge_gaps(fit, ("acceptance",), fit.within))


@k.statistical("no two groups have TPR or FPR further apart than `within`", SOURCE, confidence=0.95)
@at_asked_confidence
def separation(fit):
    """P(D=1|Y,a), all pairs and both rates at once."""
    return _with_condition(fit, _judge_gaps(fit, ("TPR", "FPR"), fit.within))


@k.statistical("no two groups have PPV or NPV further apart than `within`", SOURCE, confidence=0.95)
@at_asked_confidence
def sufficiency(fit):
    """P(Y|D,a), all pairs and both rates at once."""
    return _with_condition(fit, _judge_gaps(fit, ("PPV", "NPV"), fit.within))


@k.statistical(
    "base rates are at most twice `within` apart: beyond that no decisions meet independence and sufficiency both",
    "ML Incompatibility results",
    confidence=0.95,
)
@at_asked_confidence
def criteria_compatible(fit):
    """|ΔP(D)| + max(|ΔPPV|, |ΔNPV|) ≥ |Δp|: with both at most `within`, base rates are at most twice that apart."""
    found = _judge_gaps(fit, ("base rate",), 2 * fit.within)
    if found.verdict == k.FAILS:
        p = counts_of(fit).rate("base rate").values
        advice = "one of independence and sufficiency must give by half of the gap: choose which"
        note = f"of these rows, proved: the two gaps add up to at least {np.ptp(p):.3f}"
        found = replace(found, advice=advice, note=f"{found.note}; {note}")
    return _with_condition(fit, found)


# --- calibration ------------------------------------------------------------------------------------------------------


@k.statistical(
    "in every group, y and score differ on average by at most `within`, tenth by tenth of the scores",
    "ML Calibration and sufficiency; Hoeffding",
    confidence=0.95,
)
@at_asked_confidence
def calibrated_by_group(fit):
    """Σ_b P(b|a) |E(Y − R|b, a)| = max over signs s of E s(bin)(Y − R), draws between −1 and 1, with fixed bins b.

    At most: for the signs of the truth the average is at most the observed sum, and errs by ε. At least: the observed signs are
    some of 2^BINS, and all of these averages are within ε at once.
    """
    counts, R = counts_of(fit), fit.get("scores")
    if R is None:
        return k.unknown("there are no scores: pass scores=, probabilities of y = 1")
    if R.min() < 0 or R.max() > 1:
        return k.unknown(f"scores from {R.min():.3g} to {R.max():.3g} are no probabilities")
    w = np.ones(len(R)) if fit.weights is None else fit.weights
    size, G = counts.rate("acceptance").size, len(counts.names)
    at = BINS * fit.codes + np.minimum((BINS * R).astype(int), BINS - 1)
    sums = np.abs(np.bincount(at, w * (fit.y - R), minlength=G * BINS).reshape(G, BINS)).sum(axis=1)
    error = sums / np.maximum(counts.rows, np.finfo(float).tiny)
    least = error - np.sqrt(2 * (math.log(G / fit.delta) + BINS * math.log(2)) / size)
    most = error + np.sqrt(2 * math.log(1 / fit.delta) / size)
    if (worst := least.max()) > fit.within:
        note = f"{error[least.argmax()]:.3f} of these rows of {counts.names[int(least.argmax())]!r}"
        advice = "calibrate the scores of each group on rows of their own"
        found = k.at_most(worst, fit.within, advice, unit="at least", note=note)
    elif most.max() <= fit.within:
        found = k.at_most(most.max(), fit.within, unit="at most")
    else:
        at_worst = int(most.argmax())
        enough = math.ceil(2 * math.log(1 / fit.delta) / (0.5 * fit.within) ** 2)
        why = f"{error[at_worst]:.3f} of these {size[at_worst]:,.0f} rows of {counts.names[at_worst]!r}"
        found = k.unknown(f"{why}, too few to tell; {enough:,} would do at half of `within`")
    return _with_condition(fit, found)


# --- the group behind the features ------------------------------------------------------------------------------------


@k.statistical(
    "a fresh classifier, groups balanced, is right about the group on at most 60 % of new rows",
    "ML Sensitive attributes",
    confidence=0.95,
)
@at_asked_confidence
def group_hidden(fit):
    """Learned from half of the rows, judged on the others: each group against the rest, (hits of it + hits of the rest)/2."""
    counts, X = counts_of(fit), fit.get("X")
    if X is None:
        return k.unknown("there are no features: pass X=")
    learn, judge = np.array_split(np.random.default_rng(0).permutation(len(fit.y)), 2)
    learn = learn[:MOST_LEARNED]
    guess = fit.witness("guess_group", _take(X, learn), fit.codes[learn])
    if guess is None:
        return k.unknown("nobody looked for a classifier: searches are switched off")
    guessed, true = np.asarray(guess(_take(X, judge))), fit.codes[judge]
    G = len(counts.names)
    tried = range(1 if G == 2 else G)
    most, least = 2 * [0.0]
    for g in tried:
        # the rate at which g is said of its own rows, and of others: their difference is 2·(balanced accuracy) − 1
        own = np.array([true == g, true != g])
        rate = Rate((own & (guessed == g)).sum(1), own.sum(1), own.sum(1))
        if not own.any(axis=1).all():
            return k.unknown(f"there are no rows of {counts.names[g]!r} in one of the halves")
        upper = (1 + gaps_between(rate, fit.delta).upper[0, 1]) / 2
        lower = (1 + gaps_between(rate, fit.delta / len(tried)).lower[0, 1]) / 2
        most = max(most, upper)
        if lower > least:
            least, group = lower, counts.names[g]
    if least > MOST_RIGHT:
        advice = "leaving the group out is no protection: the other features give it away"
        note = f"{group!r} against the rest"
        return k.at_most(least, MOST_RIGHT, advice, unit="right at least", note=note)
    if most <= MOST_RIGHT:
        return k.at_most(most, MOST_RIGHT, unit="right at most")
    return k.unknown(f"right on {least:.3f} to {most:.3f}, too few rows to tell")


def _take(X, rows: Array):
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


FAIRNESS_CLAIMS = (
    people_unseen, independence, separation, sufficiency, calibrated_by_group, criteria_compatible, group_hidden,
)  # fmt: skip
CODE_CLAIMS = (group_hidden,)
