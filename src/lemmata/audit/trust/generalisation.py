"""Claims about a model on rows it was not trained on: the interval of its score on new rows, and whether these rows can tell.

The risk R = E ℓ(y, f(x)) of a fixed f is the mean of a loss over new rows. The average over n rows, drawn independently of each
other and of f from where new rows come from, is off by no more than concentration.py says, if the range of ℓ was known before.
One row in a thousand may cost any amount, and no thousand rows would show it: of an unbounded loss nothing can be said. Rows
that were trained on are not independent of f, and nothing can be said either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel import concentration
from lemmata.audit.kernel.concentration import effective_size, hoeffding
from lemmata.audit.kernel.held_out import MeanGain, beats, mean_gain
from lemmata.audit.trust.seen_rows import SEEN, judge_seen, memory_of, why_copies

Array = np.ndarray

RISK = 0.05  # δ, by default
UNSEEN = 0.99  # confidence that rows are called trained on, or new, rightly
MOST_CLASSES = 50  # that are compared with
WITHIN = 0.05  # of the range: how well a score has to be known, by default


# --- losses -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PredictionLoss:
    """The cost of a wrong prediction, row by row."""

    name: str
    of: Callable[[Any, Any, Any], Array]  # (model, X, y) -> (n,) losses
    bounds: tuple[float, float] | None  # None: unbounded, or not said
    score: str = ""  # "accuracy": the score is 1 − mean loss


def _wrong(model: Any, X: Any, y: Any) -> Array:
    return (np.asarray(model.predict(X)) != np.asarray(y)).astype(np.float64)


def _probabilities(model: Any, X: Any, y: Any) -> tuple[Array, Array]:
    """Return the predicted probabilities, and which of them belong to the true classes."""
    hits = np.asarray(y)[:, None] == np.asarray(model.classes_)
    return np.asarray(model.predict_proba(X), np.float64), hits


def _brier(model: Any, X: Any, y: Any) -> Array:
    P, hits = _probabilities(model, X, y)
    missing = ~hits.any(axis=1)  # a class that the model does not know has probability 0
    return ((P - hits) ** 2).sum(axis=1) + missing


def _log(model: Any, X: Any, y: Any) -> Array:
    P, hits = _probabilities(model, X, y)
    with np.errstate(divide="ignore"):
        return -np.log(np.where(hits, P, 0.0).sum(axis=1))


def _errors(model: Any, X: Any, y: Any) -> Array:
    return np.asarray(y, np.float64).ravel() - np.asarray(model.predict(X), np.float64).ravel()


LOSSES = {
    "zero_one": PredictionLoss("zero_one", _wrong, (0.0, 1.0), "accuracy"),
    "brier": PredictionLoss("brier", _brier, (0.0, 2.0)),
    "log": PredictionLoss("log", _log, None),
    "squared": PredictionLoss("squared", lambda model, X, y: _errors(model, X, y) ** 2, None),
    "absolute": PredictionLoss("absolute", lambda model, X, y: np.abs(_errors(model, X, y)), None),
}


# --- the interval -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """A mean with the interval in which the expectation lies, at confidence 1 − δ; without one, `why` says why."""

    mean: float
    lower: float
    upper: float
    n: float  # rows, or what weighted ones are worth
    method: str
    why: str = ""

    @property
    def half(self) -> float:
        return max(self.upper - self.mean, self.mean - self.lower)

    def flip(self) -> Interval:
        """Return the interval of 1 − z."""
        lower, upper = 1 - self.upper, 1 - self.lower
        return replace(self, mean=1 - self.mean, lower=lower, upper=upper)


def no_interval(mean: float, n: float, why: str) -> Interval:
    return Interval(mean, -math.inf, math.inf, n, "none", why)


def _by_hoeffding(mean: float, n: float, delta: float, bounds: Any, method: str) -> Interval:
    low, high = bounds
    eps = hoeffding(n, delta, high - low)
    return Interval(mean, max(mean - eps, low), min(mean + eps, high), n, method)


def _why_unbounded(losses: Array, bounds: tuple[float, float] | None) -> str:
    """Say why losses have no known range; empty if they have one."""
    if bounds is None:
        return "the loss has no range that was given beforehand: pass bounds=(low, high)"
    low, high = bounds
    outside = int(((losses < low) | (losses > high)).sum())
    return f"{outside:,} losses are outside of the range {low:g} to {high:g}" if outside else ""


def interval_of(
    losses: Array, bounds: tuple[float, float] | None, delta: float, weights: Array | None = None
) -> Interval:
    """The interval of the mean loss by the sharpest bound that fits: exact for 0 or 1, bets in a range, Σw² with weights."""
    losses = np.asarray(losses, dtype=np.float64)
    mean = float(np.average(losses, weights=weights)) if np.isfinite(losses).all() else math.inf
    n = float(len(losses)) if weights is None else effective_size(weights)
    if (why := _why_unbounded(losses, bounds)) or bounds is None:
        return no_interval(mean, n, why)
    if weights is not None:
        return _by_hoeffding(mean, n, delta, bounds, "Hoeffding, Σw²")
    if tuple(bounds) == (0.0, 1.0) and np.isin(losses, (0.0, 1.0)).all():
        ends = concentration.clopper_pearson(round(losses.sum()), len(losses), delta)
        return Interval(mean, *ends, n, "Clopper–Pearson")
    return Interval(mean, *concentration.betting(losses, delta, *bounds), n, "betting")


def interval_of_folds(
    losses: list[Array], bounds: tuple[float, float] | None, delta: float
) -> Interval:
    """The average risk of the models of the folds: off by no more than one fold's average may be (convexity, Hoeffding)."""
    mean = float(np.mean([float(np.mean(part)) for part in losses]))
    n = float(min(map(len, losses)))
    if why := _why_unbounded(np.concatenate(losses), bounds):
        return no_interval(mean, n, why)
    return _by_hoeffding(mean, n, delta, bounds, "Hoeffding, one fold")


@k.statistical(
    "at most 1 % of these rows equal a training row, or lie far nearer to one than training rows to each other",
    "ML Generalization gap; Clopper–Pearson",
    confidence=UNSEEN,
)
def rows_unseen(fit):
    """Rows are compared as a whole; where training rows repeat themselves, a repeated test row may be chance."""
    found = memory_of(fit.model, fit.X, fit.get("train"))
    if found is None:
        return k.unknown("the model does not keep its training rows: pass train=X_train")
    judged = judge_seen(found)
    if judged.verdict == k.HOLDS and not found.all:
        return k.unknown(f"none is among {found.what}, but the other training rows are not known")
    return judged


def condition_of(X: Any, n: int, judged: k.Evidence | None) -> str:
    """Say on what a verdict about new rows rests. Raises CannotTell where these are no draws, or were trained on."""
    if X is not None and (why := why_copies(X, n)):
        raise k.CannotTell(why)
    if judged and judged.verdict == k.FAILS:
        raise k.CannotTell(SEEN)
    return "" if judged and judged.verdict == k.HOLDS else "if none of these rows was trained on"


# --- one model --------------------------------------------------------------------------------------------------------


@k.fact(cost=k.free)
def losses_of(fit: k.Fit) -> Array:
    """Return the loss of every row."""
    return np.asarray(fit.loss.of(fit.model, fit.X, fit.y), dtype=np.float64)


@k.fact(cost=k.free)
def interval(fit: k.Fit) -> Interval:
    """Return the interval of the mean loss."""
    found = interval_of(losses_of(fit), fit.loss.bounds, fit.delta, fit.weights)
    why = found.why or why_copies(fit.X, len(losses_of(fit)))
    return no_interval(found.mean, found.n, why) if why else found


@k.fact(cost=k.free)
def interval_on_new_rows(fit: k.Fit) -> Interval:
    """Return the same interval, if it is one of new rows. Raises CannotTell."""
    judged = rows_unseen.check(fit)
    if judged.verdict != k.HOLDS:
        raise k.CannotTell(SEEN if judged.verdict == k.FAILS else judged.note)
    if why := interval(fit).why:
        raise k.CannotTell(why)
    return interval(fit)


def at_asked_confidence(check: Callable[[k.Fit], k.Evidence]) -> Callable[[k.Fit], k.Evidence]:
    """Give what a check finds, and why it cannot tell, the confidence 1 − δ that the fit asks for."""

    @wraps(check)
    def check_at_confidence(fit: k.Fit) -> k.Evidence:
        try:
            found = check(fit)
        except k.CannotTell as reason:
            found = k.unknown(str(reason))
        return replace(found, confidence=1 - fit.delta)

    return check_at_confidence


def _width(fit: k.Fit) -> float:
    low, high = fit.loss.bounds
    return high - low


@k.statistical(
    "there are enough rows to know the score to 0.05 of its range",
    "ML Generalization gap; Hoeffding, Clopper–Pearson",
    confidence=1 - RISK,
)
@at_asked_confidence
def enough_rows(fit):
    """The half of the interval, against what was asked for."""
    found, width = interval_on_new_rows(fit), _width(fit)
    within = float(fit.get("within") or WITHIN) * width
    rows = math.ceil(found.n * (found.half / within) ** 2)
    most = concentration.samples_needed(within, fit.delta, width=width)
    advice = f"some {min(rows, most):,} rows would do"
    return k.at_most(found.half, within, advice, unit="±", note=found.method)


@k.statistical(
    "the score on new rows reaches the target", "ML Generalization gap", confidence=1 - RISK
)
@at_asked_confidence
def target_reached(fit):
    """Accuracy at least, or mean loss at most, what was asked for."""
    target = fit.get("target")
    if target is None:
        return k.unknown("no target was given: pass target=")
    found = interval_on_new_rows(fit)
    advice = "not a matter of chance: improve the model, or lower the target"
    if fit.loss.score:  # accuracy
        found = found.flip()
        if found.lower >= target:
            return k.at_least(found.lower, target, unit="at least")
        if found.upper < target:
            return k.at_least(found.upper, target, advice, unit="at most")
    elif found.upper <= target:
        return k.at_most(found.upper, target, unit="at most")
    elif found.lower > target:
        return k.at_most(found.lower, target, advice, unit="at least")
    return k.unknown(f"between {found.lower:.4g} and {found.upper:.4g}: {target:g} is inside")


@k.statistical(
    "predicts new rows better than every constant prediction does",
    "ML Generalization gap; Waudby-Smith & Ramdas 2024",
    confidence=1 - RISK,
)
@at_asked_confidence
def better_than_constant(fit):
    """Row by row: the loss of a constant minus that of the model, for every constant that may be the best on new rows."""
    interval_on_new_rows(fit)
    fixed, near = _constants(fit)
    if not fixed + near:
        return k.unknown("which constant? The loss is none of zero_one, squared and absolute")
    mine, bounds, found = losses_of(fit), fit.loss.bounds, []
    share = concentration.union_bound(len(fixed + near), fit.delta) / 2
    for constant in fixed + near:
        theirs = np.asarray(fit.loss.of(_Constant(constant, fit), fit.X, fit.y), np.float64)
        if _why_unbounded(theirs, bounds):
            return k.unknown("the losses of a constant prediction are outside of the range")
        found.append((gains((theirs - mine) / _width(fit), share, fit.weights), constant))
    gain, constant = min(found, key=lambda one: one[0].lower)
    # a constant that these rows chose may look better than it is
    least, better = min(found[: len(fixed)], key=lambda one: one[0].upper, default=(None, None))
    upper = math.inf if least is None else least.upper
    advice = f"a constant prediction, {better!r}, does better: do not use this model"
    undecided = f"between {gain.lower:.3g} and {gain.upper:.3g}, too few rows to tell"
    note = f"against {constant!r}, the hardest constant to beat"
    return beats(MeanGain(gain.lower, upper), note, advice, undecided=undecided)


def gains(x: Array, delta: float, weights: Array | None = None) -> MeanGain:
    """Return bounds on the mean of draws in [−1, 1], which may be weighted, each at risk δ."""
    if weights is None:
        return mean_gain(x, delta)
    mean = float(np.average(x, weights=weights))
    eps = hoeffding(effective_size(weights), 2 * delta, 2.0)
    return MeanGain(mean - eps, mean + eps)


class _Constant:
    """A model that always predicts the same, in the shape in which a loss asks for it."""

    def __init__(self, value: Any, fit: k.Fit):
        self.value, self.classes_ = value, fit.get("classes_")

    def predict(self, X: Any) -> Array:
        return np.full(np.shape(X)[0] if np.ndim(X) != 1 else len(X), self.value)

    def predict_proba(self, X: Any) -> Array:
        return np.tile(np.asarray(self.classes_) == self.value, (np.shape(X)[0], 1)).astype(float)


def _constants(fit: k.Fit) -> tuple[list[Any], list[Any]]:
    """Constants to beat: those known beforehand, and those around the one that is best for these rows.

    Classes: all of the model, of the training rows and of these; where they are many, the most frequent ones of these. Numbers:
    the mean (the median of absolute losses) of the training targets; that of these, and two of its standard errors beside.
    """
    known, name = fit.get("train_y"), fit.loss.name
    if name == "zero_one":
        values, counts = np.unique(np.asarray(fit.y), return_counts=True)
        often = values[np.argsort(-counts, kind="stable")].tolist()
        others = [np.unique(x).tolist() for x in (known, fit.get("classes_")) if x is not None]
        return list(dict.fromkeys(sum(others, often)))[:MOST_CLASSES], []
    if name not in ("squared", "absolute"):
        return [], []
    middle = np.mean if name == "squared" else np.median
    y = np.asarray(fit.y, np.float64)
    beside = 2 * float(y.std()) / math.sqrt(len(y))
    fixed = [] if known is None else [float(middle(np.asarray(known, np.float64)))]
    return fixed, [float(middle(y)) + shift for shift in (0.0, -beside, beside)]


EVALUATION_CLAIMS = (rows_unseen, enough_rows, target_reached, better_than_constant)
