"""What rows that a model has not seen say about it: the score on new rows with an interval, and whether these rows can tell.

The risk R = E ℓ(y, f(x)) of a fixed f is the mean of a loss over new rows. The average over n rows, drawn independently of each
other and of f from where new rows come from, is off by no more than concentration.py says, if the range of ℓ was known before.
One row in a thousand may cost any amount, and no thousand rows would show it: of an unbounded loss nothing can be said. Rows
that were trained on are not independent of f, and nothing can be said either.

**Which of K models.** The one with the least average loss has a risk within 2ε of the least of the K risks, where ε is the
deviation that none of the K averages exceeds (union bound). Compared row by row, ℓ_other − ℓ_chosen is a draw in [−R, R] that
varies little where the two agree: bets on it tell models apart long before their intervals do. The choice was made on the same
rows, so each of the K(K − 1) ordered pairs gets its share of δ.

**Cross-validation** averages the scores of k models. Each is tested on n/k rows that it has not seen, but the tests are not
independent of each other. The mean of exp(λ·average deviation) is at most the average of those of the folds (convexity), so the
average deviates no more than one fold of n/k rows may: that is what can be said, about the average risk of the k models, at the
size they were trained with. The usual mean ± deviation/√k is no confidence interval: no estimate of that variance is unbiased
(Bengio & Grandvalet 2004).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import binom

from lemmata.audit.concentration import (
    betting,
    clopper_pearson,
    effective_size,
    hoeffding,
    mean_at_least,
    samples_needed,
    union_bound,
)
from lemmata.core.certificate import (
    FAILS,
    HOLDS,
    PROVED,
    RULE_OF_THUMB,
    STATISTICAL,
    Evidence,
    Fit,
    at_least,
    at_most,
    claim,
    unknown,
)

Array = np.ndarray

WITHIN = 0.05  # of the range: what "known" means, unless asked otherwise
CHANCE = 1e-3  # of so many repeated rows, below which they are no coincidence
SEEN = "these rows were trained on: they say nothing about new ones"
SOME = 20  # rows without a repetition from which on a column is taken never to repeat


# --- losses -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """What a wrong prediction costs, row by row."""

    name: str
    of: Callable[[Any, Any, Any], Array]  # (model, X, y) -> (n,) losses
    bounds: tuple[float, float] | None  # None: unbounded, or not said
    score: str = ""  # "accuracy": the score is 1 − mean loss


def _wrong(model: Any, X: Any, y: Any) -> Array:
    return (np.asarray(model.predict(X)) != np.asarray(y)).astype(np.float64)


def _probabilities(model: Any, X: Any, y: Any) -> tuple[Array, Array]:
    P, classes = np.asarray(model.predict_proba(X), np.float64), np.asarray(model.classes_)
    hits = np.asarray(y)[:, None] == classes
    return P, hits


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
    "zero_one": Loss("zero_one", _wrong, (0.0, 1.0), "accuracy"),
    "brier": Loss("brier", _brier, (0.0, 2.0)),
    "log": Loss("log", _log, None),
    "squared": Loss("squared", lambda model, X, y: _errors(model, X, y) ** 2, None),
    "absolute": Loss("absolute", lambda model, X, y: np.abs(_errors(model, X, y)), None),
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

    def flipped(self) -> Interval:
        """Of 1 − z."""
        return Interval(
            1 - self.mean, 1 - self.upper, 1 - self.lower, self.n, self.method, self.why
        )


def interval_of(
    losses: Array, bounds: tuple[float, float] | None, delta: float, weights: Array | None = None
) -> Interval:
    """The interval of the mean loss by the sharpest bound that fits: exact for 0 or 1, bets in a range, Σw² with weights."""
    losses = np.asarray(losses, dtype=np.float64)
    mean = float(np.average(losses, weights=weights)) if np.isfinite(losses).all() else math.inf
    n = float(len(losses)) if weights is None else effective_size(weights)
    nothing = Interval(mean, -math.inf, math.inf, n, "none")
    if bounds is None:
        return _without(nothing, "the loss has no range that was given beforehand: pass bounds=(low, high)")  # fmt: skip
    low, high = bounds
    outside = int(((losses < low) | (losses > high)).sum())
    if outside:
        return _without(nothing, f"{outside:,} losses are outside of the range {low:g} to {high:g}")
    if weights is not None:
        eps = hoeffding(n, delta, high - low)
        return Interval(mean, max(mean - eps, low), min(mean + eps, high), n, "Hoeffding, Σw²")
    if (low, high) == (0.0, 1.0) and np.isin(losses, (0.0, 1.0)).all():
        return Interval(mean, *clopper_pearson(round(losses.sum()), len(losses), delta), n, "Clopper–Pearson")  # fmt: skip
    return Interval(mean, *betting(losses, delta, low, high), n, "betting")


def _without(one: Interval, why: str) -> Interval:
    return Interval(one.mean, one.lower, one.upper, one.n, one.method, why)


# --- rows that were trained on ----------------------------------------------------------------------------------------


def row_keys(X: Any, single: bool = False) -> Array:
    """One key per row: equal rows have equal keys. single : compare as float32."""
    if sp.issparse(X):
        X = sp.csr_array(X, dtype=np.float32 if single else np.float64)
        X.sum_duplicates()
        X.eliminate_zeros()
        cut = [slice(a, b) for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
        return np.array([hash((X.indices[part].tobytes(), X.data[part].tobytes())) for part in cut])
    rows = np.asarray(X)
    if rows.dtype.kind in "fiub":
        rows = rows.reshape(len(rows), -1).astype(np.float32 if single else np.float64)
        rows = np.ascontiguousarray(np.where(rows == 0, 0, rows))  # −0 equals 0
        return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    return np.array([hash(repr(row)) for row in rows.tolist()])


@dataclass(frozen=True)
class Memory:
    """Rows that a model was trained on, all of them or some, and the test rows in the same form."""

    rows: Any
    test: Any
    what: str
    all: bool


def memory_of(model: Any, X: Any, train: Any) -> Memory | None:
    """The training rows as they were given, or as the model keeps them (neighbours, kernels, support vectors)."""
    if train is not None:
        return Memory(train, X, "the training rows", True)
    steps = getattr(model, "steps", None)
    if steps is not None:  # what reaches the last step of a pipeline
        model, X = model[-1], model[:-1].transform(X) if len(model) > 1 else X
    for name in ("_fit_X", "X_fit_", "X_train_"):
        if (rows := getattr(model, name, None)) is not None and _is_table(rows, X):
            return Memory(rows, X, f"the {rows.shape[0]:,} rows that the model keeps", True)
    if (rows := getattr(model, "support_vectors_", None)) is not None and _is_table(rows, X):
        return Memory(rows, X, f"the {rows.shape[0]:,} support vectors", False)
    return None


def _is_table(rows: Any, X: Any) -> bool:
    wide = np.shape(X)[1] if len(np.shape(X)) == 2 else getattr(X, "shape", (0, 0))[-1]
    return len(getattr(rows, "shape", ())) == 2 and rows.shape[0] > 0 and rows.shape[1] == wide


@claim(
    "none of these rows was trained on",
    kind=PROVED,
    source="ML Generalisation",
)
def rows_unseen(fit):
    """Rows are compared as a whole; where training rows repeat themselves, a repeated test row may be chance."""
    found = memory_of(fit.model, fit.X, fit.get("train"))
    if found is None:
        return unknown(
            "the model does not keep its training rows: pass train=X_train to look there"
        )
    judged = judge_seen(found)
    if judged.verdict == HOLDS and not found.all:
        return unknown(f"none is among {found.what}, but the other training rows are not known")
    return judged


def judge_seen(found: Memory) -> Evidence:
    """No test row equals a training row. Where some do: more than chance would have it, or numbers that do not repeat, or open.

    Chance is what training rows do among themselves: the share of them that have a twin, as high as it may be.
    """
    single = np.float32 in [getattr(part, "dtype", None) for part in (found.rows, found.test)]
    known, keys = row_keys(found.rows, single), row_keys(found.test, single)
    seen, n = int(np.isin(keys, known).sum()), len(keys)
    advice = f"{seen:,} of {n:,} rows are among {found.what}: test on rows that were held out"
    if not seen:
        return at_most(0, 0, unit="trained on")
    counts = np.unique(known, return_counts=True)[1]
    expected = clopper_pearson(int(counts[counts > 1].sum()), len(known), CHANCE)[1]
    if binom.sf(seen - 1, n, expected) < CHANCE:
        return at_most(seen / n, expected, advice, unit="share trained on", kind=STATISTICAL,
                       confidence=1 - CHANCE)  # fmt: skip
    if _never_repeats(found.rows):
        return at_most(seen, 0, advice, unit="trained on", kind=RULE_OF_THUMB)
    return unknown(
        f"{seen:,} of {n:,} rows equal training rows, by chance or because they were trained on"
    )


def _never_repeats(rows: Any) -> bool:
    """Whether some column has another number in every row: what equals such a row is that row."""
    if sp.issparse(rows) or len(rows) < SOME:
        return False
    columns = np.asarray(rows).reshape(len(rows), -1)
    if columns.dtype.kind not in "fiu":
        return False
    return any(len(np.unique(columns[:, j])) == len(columns) for j in range(columns.shape[1]))


# --- one model --------------------------------------------------------------------------------------------------------


def losses_of(fit: Fit) -> Array:
    """The loss of every row, once per certificate."""
    if "losses" not in fit.memory:
        fit.memory["losses"] = np.asarray(fit.loss.of(fit.model, fit.X, fit.y), dtype=np.float64)
    return fit.memory["losses"]


def interval(fit: Fit) -> Interval:
    """The interval of the mean loss."""
    if "interval" not in fit.memory:
        fit.memory["interval"] = interval_of(losses_of(fit), fit.loss.bounds, fit.delta, fit.weights)  # fmt: skip
    return fit.memory["interval"]


def why_nothing(fit: Fit) -> str:
    """Why these rows say nothing about new ones; empty if they do."""
    if "seen" not in fit.memory:
        fit.memory["seen"] = rows_unseen.check(fit).verdict == FAILS
    if fit.memory["seen"]:
        return SEEN
    return interval(fit).why


def _width(fit: Fit) -> float:
    low, high = fit.loss.bounds
    return high - low


@claim(
    "there are enough rows to know the score to 0.05 of its range",
    kind=STATISTICAL,
    source="ML Generalisation; Hoeffding, Clopper–Pearson",
)
def enough_rows(fit):
    """The half of the interval, against what was asked for."""
    if why := why_nothing(fit):
        return unknown(why)
    found, within = interval(fit), float(fit.get("within") or WITHIN) * _width(fit)
    rows = math.ceil(found.n * (found.half / within) ** 2)
    most = samples_needed(within, fit.delta, width=_width(fit))
    advice = f"some {min(rows, most):,} rows would do"
    return at_most(
        found.half, within, advice, unit="±", note=found.method, confidence=1 - fit.delta
    )


@claim(
    "the score on new rows reaches the target",
    kind=STATISTICAL,
    source="ML Generalisation",
)
def target_reached(fit):
    """Accuracy at least, or mean loss at most, what was asked for."""
    target = fit.get("target")
    if target is None:
        return unknown("no target was given: pass target=")
    if why := why_nothing(fit):
        return unknown(why)
    found, sure = interval(fit), {"confidence": 1 - fit.delta}
    advice = "not a matter of chance: improve the model, or lower the target"
    if fit.loss.score:  # accuracy
        found = found.flipped()
        if found.lower >= target:
            return at_least(found.lower, target, unit="at least", **sure)
        if found.upper < target:
            return at_least(found.upper, target, advice, unit="at most", **sure)
    elif found.upper <= target:
        return at_most(found.upper, target, unit="at most", **sure)
    elif found.lower > target:
        return at_most(found.lower, target, advice, unit="at least", **sure)
    return unknown(f"between {found.lower:.4g} and {found.upper:.4g}: {target:g} is inside")


@claim(
    "predicts new rows better than one constant prediction does",
    kind=STATISTICAL,
    source="ML Generalisation; Waudby-Smith & Ramdas 2024",
)
def better_than_constant(fit):
    """Row by row: the loss of the constant minus that of the model. The constant is that of the training rows, or any class."""
    if why := why_nothing(fit):
        return unknown(why)
    constants, where = _constants(fit)
    if not len(constants):
        return unknown("which constant? pass train_y= (or predict classes)")
    mine, bounds = losses_of(fit), fit.loss.bounds
    width, worst = _width(fit), None
    share = union_bound(len(constants), fit.delta) / 2
    for constant in constants:
        theirs = np.asarray(fit.loss.of(_Constant(constant, fit), fit.X, fit.y), np.float64)
        if bounds is not None and ((theirs < bounds[0]) | (theirs > bounds[1])).any():
            return unknown("the losses of a constant prediction are outside of the range")
        gain = (theirs - mine) / width
        lower, upper = gains(gain, share, fit.weights)
        if worst is None or lower < worst[0]:
            worst = lower, upper, constant
    assert worst is not None
    lower, upper, constant = worst
    constant = constant.item() if hasattr(constant, "item") else constant
    note = f"against {constant!r}{where}"
    if lower > 0:
        return at_least(lower, 0, unit="gain at least", note=note, confidence=1 - fit.delta)
    if upper < 0:
        advice = f"a constant prediction, {constant!r}, does better: do not use this model"
        return at_least(upper, 0, advice, unit="gain at most", note=note, confidence=1 - fit.delta)
    return unknown(f"between {lower:.3g} and {upper:.3g} {note}: too few rows to tell")


def gains(x: Array, delta: float, weights: Array | None = None) -> tuple[float, float]:
    """(lower, upper) of the mean of draws in [−1, 1], each at risk δ."""
    if weights is not None:
        mean = float(np.average(x, weights=weights))
        eps = hoeffding(effective_size(weights), 2 * delta, 2.0)
        return mean - eps, mean + eps
    return mean_at_least(x, delta, -1.0, 1.0), -mean_at_least(-x, delta, -1.0, 1.0)


class _Constant:
    """A model that always predicts the same, in the shape in which a loss asks for it."""

    def __init__(self, value: Any, fit: Fit):
        self.value, self.classes_ = value, fit.get("classes_")

    def predict(self, X: Any) -> Array:
        return np.full(np.shape(X)[0] if np.ndim(X) != 1 else len(X), self.value)

    def predict_proba(self, X: Any) -> Array:
        return np.tile(np.asarray(self.classes_) == self.value, (np.shape(X)[0], 1)).astype(float)


def _constants(fit: Fit) -> tuple[list[Any], str]:
    """What one could always predict: the best of the training targets; else any class, all of which have to be beaten."""
    known, classes = fit.get("train_y"), fit.get("classes_")
    if fit.loss.name not in ("zero_one", "squared", "absolute"):
        return [], ""
    if known is not None:
        if fit.loss.name == "zero_one":
            values, counts = np.unique(np.asarray(known), return_counts=True)
            return [values[np.argmax(counts)]], ", the most frequent class of the training rows"
        middle = np.mean if fit.loss.name == "squared" else np.median
        return [float(middle(np.asarray(known, np.float64)))], " of the training rows"
    if fit.loss.name == "zero_one" and classes is not None:
        return list(np.asarray(classes)), ", the hardest of the classes to beat"
    return [], ""


EVALUATION_CLAIMS = (rows_unseen, enough_rows, target_reached, better_than_constant)


# --- several models ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairwise:
    """How the chosen one of K models compares with each of the others."""

    chosen: int
    means: Array  # (K,) average losses
    eps: float  # none of the averages is off by more, but for δ
    regret: float  # the chosen one is within this of the best, but for δ
    behind: Array  # (K,) the least by which each is worse than the chosen one, but for δ; −inf for the chosen one


def compare_losses(L: Array, bounds: tuple[float, float], delta: float, weights: Array | None = None) -> Pairwise:  # fmt: skip
    """L : (K, n) losses of K models on the same rows, within bounds."""
    K, n = L.shape
    width = bounds[1] - bounds[0]
    means = np.average(L, axis=1, weights=weights)
    chosen = int(np.argmin(means))
    size = n if weights is None else effective_size(weights)
    # half of δ for the K averages, half for the ordered pairs
    eps = hoeffding(size, union_bound(2 * K, delta), width)
    share = union_bound(max(2 * K * (K - 1), 1), delta)
    behind, regret = np.full(K, -math.inf), 0.0
    for other in range(K):
        if other == chosen:
            continue
        lower, _ = gains((L[other] - L[chosen]) / width, share, weights)
        behind[other] = lower * width
        regret = max(regret, -lower * width)
    return Pairwise(chosen, means, eps, min(regret, 2 * eps), behind)


@claim(
    "no candidate was trained on any of these rows",
    kind=PROVED,
    source="ML Generalisation",
)
def candidates_unseen(fit):
    """The rows are looked for where each model keeps its own, and among the training rows if they were given."""
    if fit.get("train") is not None:
        return judge_seen(Memory(fit.train, fit.X, "the training rows", True))
    kept = [(name, memory_of(model, fit.X, None)) for name, model in fit.models.items()]
    found = [(name, judge_seen(one)) for name, one in kept if one is not None]
    for _, judged in found:
        if judged.verdict != HOLDS:
            return judged
    if len(found) < len(kept) or not all(one is not None and one.all for _, one in kept):
        return unknown(
            "not every candidate keeps its training rows: pass train=X_train to look there"
        )
    return at_most(0, 0, unit="trained on")


def _pairwise(fit: Fit) -> Pairwise:
    if "pairwise" not in fit.memory:
        fit.memory["pairwise"] = compare_losses(fit.losses, fit.bounds, fit.delta, fit.weights)
    return fit.memory["pairwise"]


@claim(
    "no other candidate is better on new rows by more than 0.05 of the range",
    kind=STATISTICAL,
    source="ML Generalisation; union bound",
)
def good_choice(fit):
    """The smaller of 2ε and the largest gain that another could have, seen row by row."""
    if _were_seen(fit):
        return unknown(SEEN)
    found, width = _pairwise(fit), fit.bounds[1] - fit.bounds[0]
    K, within = len(found.means), float(fit.get("within") or WITHIN) * width
    if K == 1:
        return unknown("there is one candidate only")
    rows = samples_needed(within / 2, fit.delta, K, width)
    note = f"2ε = {2 * found.eps:.3g} for {K} candidates"
    if found.regret > within:
        return unknown(
            f"up to {found.regret:.3g} better: {rows:,} rows would do for any {K} candidates"
        )
    return at_most(found.regret, within, unit="regret at most", note=note, confidence=1 - fit.delta)


@claim(
    "the chosen candidate is better than each of the others on new rows",
    kind=STATISTICAL,
    source="ML Generalisation; Waudby-Smith & Ramdas 2024",
)
def best_alone(fit):
    """Row by row, at a share of δ for each ordered pair, since the choice was made on the same rows."""
    if _were_seen(fit):
        return unknown(SEEN)
    found, names = _pairwise(fit), list(fit.models)
    others = np.delete(found.behind, found.chosen)
    if not len(others):
        return unknown("there is one candidate only")
    if others.min() > 0:
        return at_least(float(others.min()), 0, unit="ahead by at least", confidence=1 - fit.delta)
    same = [names[i] for i in np.flatnonzero(found.behind <= 0) if i != found.chosen]
    shown = ", ".join(map(str, same[:4])) + (f" and {len(same) - 4} more" if len(same) > 4 else "")
    return unknown(f"not told apart from {shown}")


def _were_seen(fit: Fit) -> bool:
    if "seen" not in fit.memory:
        fit.memory["seen"] = candidates_unseen.check(fit).verdict == FAILS
    return fit.memory["seen"]


COMPARISON_CLAIMS = (candidates_unseen, good_choice, best_alone)


# --- cross-validation -------------------------------------------------------------------------------------------------


@claim(
    "no fold is tested on rows that its own model was trained on",
    kind=PROVED,
    source="ML Cross-validation",
)
def folds_unseen(fit):
    """By number, and by content: rows that occur twice may be on both sides."""
    worst: Evidence | None = None
    for at, (train, test) in enumerate(fit.folds):
        shared = np.intersect1d(train, test).size
        if shared:
            return at_most(
                shared,
                0,
                f"fold {at} tests rows it was trained on: use another splitter",
                unit="trained on",
            )
        found = judge_seen(
            Memory(take(fit.X, train), take(fit.X, test), f"those of fold {at}", True)
        )
        if worst is None or found.verdict == FAILS or worst.verdict == HOLDS:
            worst = found
        if found.verdict == FAILS:
            break
    return worst if worst is not None else unknown("there are no folds")


def take(X: Any, rows: Array) -> Any:
    """Some rows of an array, a sparse matrix, a DataFrame or a list."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else [X[i] for i in rows]


def interval_of_folds(losses: list[Array], bounds: tuple[float, float] | None, delta: float) -> Interval:  # fmt: skip
    """The average risk of the models of the folds: off by no more than one fold's average may be (convexity, Hoeffding)."""
    means = np.array([float(np.mean(part)) for part in losses])
    n = float(min(map(len, losses)))
    mean = float(means.mean())
    every = np.concatenate(losses)
    if bounds is None or ((every < bounds[0]) | (every > bounds[1])).any():
        why = interval_of(every, bounds, delta).why
        return Interval(mean, -math.inf, math.inf, n, "none", why)
    eps = hoeffding(n, delta, bounds[1] - bounds[0])
    return Interval(mean, max(mean - eps, bounds[0]), min(mean + eps, bounds[1]), n, "Hoeffding, one fold")  # fmt: skip


CROSS_VALIDATION_CLAIMS = (folds_unseen,)


# --- bias and variance ------------------------------------------------------------------------------------------------


@claim(
    "noise, bias² and variance add up to the risk, to four standard errors",
    kind=RULE_OF_THUMB,
    source="ML Bias–variance",
)
def adds_up(fit):
    """The risk is measured by itself, on targets of its own: E(y − f̂)² = noise + bias² + variance."""
    if not fit.error > 0:
        return at_most(abs(fit.total - fit.risk), 1e-9 * max(abs(fit.risk), 1e-300), unit="apart")
    advice = (
        "the generator or the fit depends on something that is not drawn again: check their seeds"
    )
    return at_most(abs(fit.total - fit.risk) / fit.error, 4.0, advice, unit="standard errors")


BIAS_VARIANCE_CLAIMS = (adds_up,)
