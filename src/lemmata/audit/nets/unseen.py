"""What rows that a network was not trained on say about it: accuracy, calibration, and whether a line would have done.

Held-out rows are those of `certify(…, X_test=, y_test=)`, or those that early stopping kept apart. The second kind
has been looked at once per epoch, and the epoch was chosen by what was seen: the best of K checkpoints looks better
than it is. All K intervals hold at once at risk δ if each has δ/K (union bound); K is the number of epochs that there
could have been, `max_iter` and the start, which was fixed before. Intervals are exact for hits (Clopper–Pearson) and
by bets for other bounded draws (kernel/concentration.py).

**Calibration.** A bin b of confidences should be right as often as it says: E(hit − confidence | b) = 0. The raw
calibration error averages |differences|, each of which noise makes larger; here each bin has an interval, all at
once, at fixed edges.

**Squared errors** have no range of their own: they are capped at the square of the range of the training targets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax

from lemmata.audit.kernel.claims import (
    FAILS,
    STATISTICAL,
    Evidence,
    Fit,
    at_least,
    at_most,
    claim,
    fact,
    free,
    unknown,
)
from lemmata.audit.kernel.concentration import betting, clopper_pearson
from lemmata.audit.kernel.held_out import beats, mean_gain
from lemmata.audit.nets.costs import row_cost
from lemmata.audit.nets.modules import (
    CannotRun,
    Copy,
    Examples,
    copy_of,
    counted,
    examples_of,
    rows_of,
    undecided_where_it_cannot_run,
    unflatten,
)
from lemmata.audit.trust.seen_rows import SEEN, Memory, judge_seen, why_copies

Array = np.ndarray

RISK = 0.05
WITHIN = 0.1  # what "calibrated" means
BINS = 10
SHARE = 0.05  # of the rows: bins with fewer say nothing
LINE = 0.01  # how far the line to compare with may be above the best one
GAIN = 0.01  # what a network has to be better by, to be worth its cost
BATCH = 256
MISSING = "no rows were held out: pass X_test= and y_test="
NO_LINE = "searches are switched off, and nobody fitted a line to compare with"


# --- the rows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeldOut:
    """Rows that were not trained on, with what the network gives for them; and the rows that were."""

    rows: Array  # (m, d)
    y: Array
    outputs: Array  # (m, outputs), float64
    train: Array  # (n, d)
    train_y: Array
    weights: Array | None
    looks: int  # checkpoints that were compared by these rows

    @property
    def told(self) -> str:
        often = f", {self.looks} checkpoints" if self.looks > 1 else ""
        return f"{len(self.y):,} rows{often}"


def run_rows(own: Copy, examples: Examples) -> Array:
    """Outputs in evaluation mode, a batch at a time."""
    import torch

    n, found = examples.shape[0], []
    for start in range(0, n, BATCH):
        part = examples.rows(torch.arange(start, min(start + BATCH, n)))
        found.append(own.output(part).numpy().reshape(part.shape[0], -1))
    return np.concatenate(found)


def _cost(fit: Fit) -> float:
    test = fit.get("X_test")
    rows = fit.data.shape[0] if test is None else test.shape[0]
    return rows * row_cost(fit) + 10.0 * fit.data.size


@fact(cost=_cost)
def held_out_of(fit: Fit) -> HeldOut:
    """Return the held-out rows, run. CannotRun where there are none, or where they were trained on."""
    n = fit.data.shape[0]
    if fit.y is None:
        raise CannotRun("there is no y: pass certify(module, X, y, …)")
    y, test = np.asarray(fit.y), fit.get("X_test")
    kept, looks = np.arange(n), 1
    if test is not None:
        examples = test if isinstance(test, Examples) else unflatten(fit, _table(test))
        test_y = np.asarray(fit.y_test)
    elif fit.get("validation_rows_") is not None:
        held = np.asarray(fit.validation_rows_)
        if fit.get("warm_start"):
            raise CannotRun(
                "an earlier fit, at whose weights this one began, may have seen them: pass X_test="
            )
        if len(held) == 0 or held.max() >= n:
            raise CannotRun(
                "the rows that were held out are not among these: pass the training data"
            )
        kept = np.setdiff1d(kept, held)
        examples, test_y = unflatten(fit, rows_of(fit.data, held)), y[held]
        looks = int(fit.max_iter) + 1
    else:
        raise CannotRun(MISSING)
    whole = examples_of(fit).source
    train = whole[kept]
    if judge_seen(Memory(train, examples.source, "the training rows", True)).verdict == FAILS:
        raise CannotRun(SEEN)
    if why := why_copies(examples.source, len(test_y)):
        raise CannotRun(why)
    weights = None if fit.weights is None else np.asarray(fit.weights)[kept]
    outputs = run_rows(copy_of(fit), examples)
    return HeldOut(examples.source, test_y, outputs, train, y[kept], weights, looks)


def _table(data: Any) -> Array:
    return rows_of(data, np.arange(data.shape[0]))


def right(outputs: Array, y: Array) -> Array:
    """Whether the largest output is that of the label; of one output, whether its sign is."""
    if outputs.shape[1] == 1:
        return (outputs[:, 0] > 0) == (y > 0)
    return outputs.argmax(axis=1) == y


def classes_told(found: HeldOut) -> str:
    """Why outputs and labels are not those of a classifier; empty if they are."""
    if found.y.ndim != 1 or found.y.dtype.kind not in "iub":
        return f"y of shape {found.y.shape} and type {found.y.dtype} is not one class a row"
    most = 2 if found.outputs.shape[1] == 1 else found.outputs.shape[1]
    if len(found.y) and not 0 <= found.y.min() <= found.y.max() < most:
        return f"labels from {found.y.min()} to {found.y.max()} do not fit {found.outputs.shape[1]} outputs"
    return ""


def of_new_rows(sentence: str, source: str, cost: Callable[[Fit], float] = free) -> Callable:
    """A claim at confidence 1 − δ, undecided where no rows were held out."""

    def marked(check: Callable[[Fit], Evidence]) -> Any:
        made = claim(
            sentence,
            kind=STATISTICAL,
            confidence=1 - RISK,
            source=source,
            needs=(held_out_of,),
            cost=cost,
        )
        return made(undecided_where_it_cannot_run(check))

    return marked


# --- classifiers ------------------------------------------------------------------------------------------------------


@of_new_rows(
    "on new rows it is right more often than always answering with the most frequent class",
    source="ML Generalisation; Clopper–Pearson",
)
def held_out_accuracy(fit: Fit) -> Evidence:
    """Half of δ for the accuracy, shared by the checkpoints that were compared; half for that of the constant."""
    found = held_out_of(fit)
    if why := classes_told(found):
        return unknown(why)
    hits, n = right(found.outputs, found.y), len(found.y)
    low, high = clopper_pearson(int(hits.sum()), n, RISK / (2 * found.looks))
    values, counts = np.unique(found.train_y, return_counts=True)
    same = found.y == values[np.argmax(counts)]
    least, most = clopper_pearson(int(same.sum()), n, RISK / 2)
    note = (
        f"accuracy {hits.mean():.4g} on {found.told}; on new rows between {low:.4g} and {high:.4g}"
    )
    if low > most:
        return at_least(low, most, unit="accuracy at least", note=note)
    if high < least:
        advice = "the most frequent class does better: do not use this network"
        return at_least(high, least, advice, unit="accuracy at most", note=note)
    return unknown(f"{note}; that of the most frequent class between {least:.4g} and {most:.4g}")


@of_new_rows(
    "calibrated on new rows: in every tenth of confidences (with 5 % of the rows) right as often as it says, to 0.1",
    source="ML Generalisation; Waudby-Smith & Ramdas 2024",
)
def calibrated(fit: Fit) -> Evidence:
    """hit − confidence in fixed bins of the confidence in the answer; every bin and checkpoint has its share of δ."""
    found = held_out_of(fit)
    if why := classes_told(found):
        return unknown(why)
    logits = found.outputs
    if logits.shape[1] == 1:
        logits = np.column_stack([np.zeros(len(logits)), logits])
    sure = softmax(logits, axis=1).max(axis=1)
    hits = right(found.outputs, found.y).astype(np.float64)
    places = np.minimum((sure * BINS).astype(int), BINS - 1)
    worst, off, wide, used = 0.0, 0.0, "", 0
    for b in range(BINS):
        here = places == b
        if here.sum() < max(SHARE * len(hits), 2):
            continue
        used += 1
        low, high = b / BINS, (b + 1) / BINS
        share = RISK / (BINS * found.looks)
        ends = betting(hits[here] - sure[here], share, -high, 1 - low)
        outside = max(ends[0], -ends[1], 0.0)  # how far from 0 the whole interval lies
        off = max(off, outside)
        worst = max(worst, -ends[0], ends[1])
        if max(-ends[0], ends[1]) > WITHIN and not wide:
            wide = f"{100 * low:.0f}–{100 * high:.0f} %: off by {ends[0]:.3f} to {ends[1]:.3f} ({here.sum():,} rows)"
    if not used:
        return unknown("too few rows")
    note = f"{counted(used, 'bin')}, {found.told}; mean confidence {sure.mean():.4g}, accuracy {hits.mean():.4g}"
    if off > WITHIN:
        advice = "scale its outputs by one temperature, fitted on rows held out for that"
        return at_most(off, WITHIN, advice, unit="off by at least", note=note)
    if wide:
        return unknown(f"confidences of {wide}: more rows would tell")
    return at_most(worst, WITHIN, unit="off by at most", note=note)


# --- against simpler models -------------------------------------------------------------------------------------------


def _linear_cost(fit: Fit) -> float:
    outputs = len(np.unique(np.asarray(fit.y))) if np.asarray(fit.y).dtype.kind in "iu" else 1
    return 100.0 * fit.data.size * min(outputs, 1000)


def line_of(fit: Fit, found: HeldOut, kind: str) -> Array | None:
    """Return XW + b of the held-out rows, W and b found from the training rows; None where nobody searches.

    CannotRun where what was found is not the line of that regression: anything beats a bad line.
    """
    mean, deviation = found.train.mean(axis=0), found.train.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    train, rows = ((X - mean) / deviation for X in (found.train, found.rows))
    line = fit.witness("linear_baseline", kind, train, found.train_y, found.weights)
    if line is None:
        return None
    if not excess_of_line(kind, train, found.train_y, found.weights, *line) <= LINE:
        raise CannotRun("the line to compare with was not found: its regression did not arrive")
    return rows @ line[0] + line[1]


def excess_of_line(
    kind: str, X: Array, y: Array, weights: Array | None, W: Array, b: Array
) -> float:
    """Return how far a line is at most above the least of its regression, as a share of its objective.

    F = Σ s_i ℓ_i + ½μ‖W‖² curves by μ at least along W, so F − F* ≤ ‖∇_W‖²/2μ + |∇_b||b − b*|, with b* taken to be
    within 1 + |b| of b.
    """
    s = np.ones(len(y)) if weights is None else weights
    Z = X @ W + b
    if kind == "ridge":
        slopes, mu = 2 * (Z - y.reshape(Z.shape)), 2.0
        losses = np.square(slopes).sum(axis=1) / 4
    else:
        if Z.shape[1] == 1:
            Z = np.column_stack([np.zeros(len(Z)), Z[:, 0]])
        own = np.unique(y, return_inverse=True)[1].ravel()
        slopes, mu = softmax(Z, axis=1), 1.0
        losses = logsumexp(Z, axis=1) - Z[np.arange(len(Z)), own]
        slopes[np.arange(len(Z)), own] -= 1
        slopes = slopes[:, -W.shape[1] :]
    weighted = slopes * s[:, None]
    along = np.square(X.T @ weighted + mu * W).sum() / (2 * mu)
    free = np.abs(weighted.sum(axis=0)) @ (1 + np.abs(np.atleast_1d(b)))
    value = float(s @ losses) + mu / 2 * float(np.square(W).sum())
    return float(along + free) / value if value > 0 else 0.0


def _compared(draws: Array, found: HeldOut, note: str, unit: str, advice: str) -> Evidence:
    """Return the verdict on paired draws in [−1, 1]; every checkpoint and both ends have their share of the risk."""
    gain = mean_gain(draws, RISK / (2 * found.looks))
    undecided = f"{unit} between {gain.lower:.3g} and {gain.upper:.3g}, too few rows to tell"
    return beats(gain, note, advice, unit=unit, undecided=undecided)


def _simpler(name: str) -> str:
    return f"{name} does as well on new rows: use that, it costs less and explains more"


@of_new_rows(
    "worth its cost: on new rows it is right more often than logistic regression, by 0.01 or more",
    source="ML Generalisation; Waudby-Smith & Ramdas 2024",
    cost=_linear_cost,
)
def beats_linear(fit: Fit) -> Evidence:
    """A line fitted to the same training rows (scaled), compared row by row: hit − its hit − 0.01."""
    found = held_out_of(fit)
    if why := _not_rows(fit) or classes_told(found):
        return unknown(why)
    if len(np.unique(found.train_y)) < 2:
        return unknown("the training rows are of one class")
    scores = line_of(fit, found, "logistic")
    if scores is None:
        return unknown(NO_LINE)
    classes = np.unique(found.train_y)
    places = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
    theirs, mine = classes[places.astype(int)] == found.y, right(found.outputs, found.y)
    note = f"accuracy {mine.mean():.4g}, logistic regression {theirs.mean():.4g}, on {found.told}"
    draws = (mine.astype(float) - theirs - GAIN) / (1 + GAIN)
    return _compared(draws, found, note, "beyond that", _simpler("logistic regression"))


def _not_rows(fit: Fit) -> str:
    first = fit.data.first if isinstance(fit.data, Examples) else None
    return (
        "" if first is None or first.is_floating_point() else "its inputs are tokens, not numbers"
    )


# --- regressors -------------------------------------------------------------------------------------------------------


def capped(errors: Array, found: HeldOut) -> Array:
    """Squared errors over the squared range of the training targets, at most 1; the mean over outputs."""
    targets = found.train_y.reshape(len(found.train_y), -1).astype(np.float64)
    width = targets.max(axis=0) - targets.min(axis=0)
    if not (width > 0).all():
        raise CannotRun("the training targets are all equal: they have no range to cap errors by")
    return np.minimum(np.square(errors / width), 1.0).mean(axis=1)


def _rms(errors: Array) -> float:
    return float(np.sqrt(np.square(errors).mean()))


def _numbers(found: HeldOut) -> Array:
    y = found.y.reshape(len(found.y), -1).astype(np.float64)
    if y.shape != found.outputs.shape:
        raise CannotRun(
            f"outputs of shape {found.outputs.shape} are not numbers for y of {y.shape}"
        )
    return y


@of_new_rows(
    "predicts new rows better than the mean of the training targets, squared errors capped at their range",
    source="ML Generalisation; Waudby-Smith & Ramdas 2024",
)
def held_out_error(fit: Fit) -> Evidence:
    """Row by row: the capped squared error of the mean minus that of the network."""
    found = held_out_of(fit)
    y = _numbers(found)
    mean = found.train_y.reshape(len(found.train_y), -1).mean(axis=0)
    mine, theirs = capped(found.outputs - y, found), capped(mean - y, found)
    rms = _rms(found.outputs - y), _rms(mean - y)
    note = f"RMSE {rms[0]:.4g} on {found.told}, {rms[1]:.4g} of the mean"
    advice = "the mean predicts better: do not use this network"
    return _compared(theirs - mine, found, note, "gain", advice)


@of_new_rows(
    "worth its cost: on new rows its squared error (capped at the range) is below that of ridge regression by 1 % or more",
    source="ML Generalisation; Waudby-Smith & Ramdas 2024",
    cost=_linear_cost,
)
def beats_ridge(fit: Fit) -> Evidence:
    """A line fitted to the same training rows (scaled), compared row by row: 0.99 of its error minus the network's."""
    found = held_out_of(fit)
    if why := _not_rows(fit):
        return unknown(why)
    y = _numbers(found)
    theirs = line_of(fit, found, "ridge")
    if theirs is None:
        return unknown(NO_LINE)
    mine, line = capped(found.outputs - y, found), capped(theirs - y, found)
    rms = _rms(found.outputs - y), _rms(theirs - y)
    note = f"RMSE {rms[0]:.4g}, ridge regression {rms[1]:.4g}, on {found.told}"
    return _compared((1 - GAIN) * line - mine, found, note, "beyond that", _simpler("ridge regression"))  # fmt: skip
