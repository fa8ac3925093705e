"""Claims about held-out rows: accuracy, calibration, and whether a linear model would have done as well.

Held-out rows are those of `certify(…, X_test=, y_test=)`, or those that early stopping kept apart. The second kind
has been looked at once per epoch, and the epoch was chosen by the result: the best of K checkpoints looks better
than it is. All K intervals hold at once at risk δ if each has δ/K (union bound); K is the largest possible number of
epochs, `max_iter` and the start, which was fixed before. Intervals are exact for hits (Clopper–Pearson) and
by bets for other bounded draws (kernel/concentration.py).

**Calibration.** A bin b of confidences should be right as often as it says: E(hit − confidence | b) = 0. The raw
calibration error averages |differences|, each of which noise makes larger; here each bin has an interval, all at
once, at fixed edges.

**Squared errors** have no range of their own: they are capped at the square of the range of the training targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax

from lemmata.audit.kernel import claims
from lemmata.audit.kernel.claims import CannotTell, Evidence, Fit, at_least, at_most, unknown
from lemmata.audit.kernel.concentration import betting, clopper_pearson
from lemmata.audit.kernel.held_out import beats, mean_gain
from lemmata.audit.nets import modules
from lemmata.audit.nets.modules import Examples, rows_of, unflatten
from lemmata.audit.trust.near_rows import cost_of_nearness
from lemmata.audit.trust.seen_rows import SEEN, Memory, judge_seen, require_unseen, why_copies

Array = np.ndarray

RISK = 0.05
WITHIN = 0.1  # largest error of a calibrated confidence
BINS = 10
SHARE = 0.05  # of the rows: bins with fewer say nothing
LINE = 0.01  # how far the line to compare with may be above the best one
GAIN = 0.01  # what a network has to be better by, to be worth its cost


# --- the rows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnseenRows:
    """Rows that were not trained on, with the network's outputs for them; and the training rows."""

    rows: Array  # (m, d)
    y: Array
    outputs: Array  # (m, outputs), float64
    train: Array  # (n, d)
    train_y: Array
    weights: Array | None
    looks: int  # checkpoints that were compared by these rows

    @property
    def description(self) -> str:
        often = f", {self.looks} checkpoints" if self.looks > 1 else ""
        return f"{len(self.y):,} rows{often}"


def _cost(fit: Fit) -> float:
    test = fit.get("X_test")
    rows = fit.data.shape[0] if test is None else test.shape[0]
    near = cost_of_nearness(fit.data.shape[0], fit.data.size // max(fit.data.shape[0], 1))
    return rows * modules.row_and_call_cost(fit)[0] + 10.0 * fit.data.size + near


@claims.fact(cost=_cost)
def unseen_rows(fit: Fit) -> UnseenRows:
    """Run the held-out rows. CannotTell where there are none, or where they were trained on."""
    n = fit.data.shape[0]
    if fit.y is None:
        raise CannotTell("there is no y: pass certify(module, X, y, …)")
    y, test = np.asarray(fit.y), fit.get("X_test")
    kept, looks = np.arange(n), 1
    if isinstance(test, Examples):
        examples, test_y = test, np.asarray(fit.y_test)
    elif test is not None:
        table = rows_of(test, np.arange(test.shape[0]))
        examples, test_y = unflatten(fit, table), np.asarray(fit.y_test)
    elif fit.get("validation_rows_") is not None:
        held = np.asarray(fit.validation_rows_)
        if fit.get("warm_start"):
            why = "an earlier fit, from which this one went on, may have seen them: pass X_test="
            raise CannotTell(why)
        if len(held) == 0 or held.max() >= n:
            why = "the rows that were held out are not among these: pass the training data"
            raise CannotTell(why)
        kept = np.setdiff1d(kept, held)
        examples, test_y = unflatten(fit, rows_of(fit.data, held)), y[held]
        looks = int(fit.max_iter) + 1
    else:
        raise CannotTell("no rows were held out: pass X_test= and y_test=")
    rows, train = examples.source, modules.examples_of(fit).source[kept]
    memory = Memory(train, rows, "the training rows", True)
    if test is not None:
        require_unseen(memory)
    elif judge_seen(memory).verdict == claims.FAILS:  # they were held out, but may have twins
        raise CannotTell(SEEN)
    if why := why_copies(rows, len(test_y)):
        raise CannotTell(why)
    weights = None if fit.weights is None else np.asarray(fit.weights)[kept]
    own, batches = modules.copy_of(fit), examples.batches()
    outputs = [own.output(part).numpy().reshape(part.shape[0], -1) for part in batches]
    return UnseenRows(rows, test_y, np.concatenate(outputs), train, y[kept], weights, looks)


def unseen_vectors(fit: Fit) -> UnseenRows:
    """The held-out rows. CannotTell where they are tokens."""
    found = unseen_rows(fit)
    if isinstance(fit.data, Examples) and not fit.data.first.is_floating_point():
        raise CannotTell("its inputs are tokens, not numbers")
    return found


# a claim at confidence 1 − δ
claim_about_new_rows: Any = partial(
    claims.claim, kind=claims.STATISTICAL, confidence=1 - RISK, needs=(unseen_rows,)
)


# --- classifiers ------------------------------------------------------------------------------------------------------


def find_hits(found: UnseenRows) -> Array:
    """Whether the largest output is that of the label; of one output, whether its sign is.

    CannotTell where outputs and labels are not those of a classifier.
    """
    y, outputs = found.y, found.outputs.shape[1]
    if y.ndim != 1 or y.dtype.kind not in "iub":
        raise CannotTell(f"y of shape {y.shape} and type {y.dtype} is not one class a row")
    if len(y) and not 0 <= y.min() <= y.max() < max(outputs, 2):
        raise CannotTell(f"labels from {y.min()} to {y.max()} do not fit {outputs} outputs")
    if outputs == 1:
        return (found.outputs[:, 0] > 0) == (y > 0)
    return found.outputs.argmax(axis=1) == y


@claim_about_new_rows(
    "on new rows it is right more often than always answering with the most frequent class",
    source="ML Generalization gap; Clopper–Pearson",
)
def held_out_accuracy(fit: Fit) -> Evidence:
    """Half of δ for the accuracy, shared by the checkpoints that were compared; half for that of the constant."""
    found = unseen_rows(fit)
    hits, n = find_hits(found), len(found.y)
    low, high = clopper_pearson(int(hits.sum()), n, RISK / (2 * found.looks))
    values, counts = np.unique(found.train_y, return_counts=True)
    same = found.y == values[np.argmax(counts)]
    least, most = clopper_pearson(int(same.sum()), n, RISK / 2)
    seen = f"accuracy {hits.mean():.4g} on {found.description}"
    note = f"{seen}; on new rows between {low:.4g} and {high:.4g}"
    if low > most:
        return at_least(low, most, unit="accuracy at least", note=note)
    if high < least:
        advice = "the most frequent class does better: do not use this network"
        return at_least(high, least, advice, unit="accuracy at most", note=note)
    return unknown(f"{note}; that of the most frequent class between {least:.4g} and {most:.4g}")


@claim_about_new_rows(
    "calibrated on new rows: in every tenth of confidences (with 5 % of the rows) right as often as it says, to 0.1",
    source="ML Generalization gap; Waudby-Smith & Ramdas 2024",
)
def calibrated(fit: Fit) -> Evidence:
    """hit − confidence in fixed bins of the confidence in the answer; every bin and checkpoint has its share of δ."""
    found = unseen_rows(fit)
    hits, logits = find_hits(found).astype(np.float64), found.outputs
    if logits.shape[1] == 1:
        logits = np.column_stack([np.zeros(len(logits)), logits])
    sure = softmax(logits, axis=1).max(axis=1)
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
    means = f"mean confidence {sure.mean():.4g}, accuracy {hits.mean():.4g}"
    note = f"{modules.count_of(used, 'bin')}, {found.description}; {means}"
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


def predict_linearly(fit: Fit, found: UnseenRows, kind: str) -> Array:
    """Return XW + b of the held-out rows, with a witness W and b found from the training rows.

    CannotTell without a witness, or where it is not the line of that regression: anything beats a bad line.
    """
    mean, deviation = found.train.mean(axis=0), found.train.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    train, rows = ((X - mean) / deviation for X in (found.train, found.rows))
    line = fit.witness("linear_baseline", kind, train, found.train_y, found.weights)
    if line is None:
        raise CannotTell("searches are switched off: no linear model was fitted to compare with")
    if not excess_of_line(kind, train, found.train_y, found.weights, *line) <= LINE:
        raise CannotTell("the line to compare with was not found: its regression did not arrive")
    return rows @ line[0] + line[1]


def excess_of_line(
    kind: str, X: Array, y: Array, weights: Array | None, W: Array, b: Array
) -> float:
    """Return an upper bound on a line's objective minus the least one, as a share of its objective.

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


def judge_gains(draws: Array, found: UnseenRows, note: str, unit: str, advice: str) -> Evidence:
    """Return the verdict on paired draws in [−1, 1]; every checkpoint and both ends have their share of the risk."""
    gain = mean_gain(draws, RISK / (2 * found.looks))
    undecided = f"{unit} between {gain.lower:.3g} and {gain.upper:.3g}, too few rows to tell"
    return beats(gain, note, advice, unit=unit, undecided=undecided)


def _simpler(name: str) -> str:
    return f"{name} does as well on new rows: use that, it costs less and explains more"


@claim_about_new_rows(
    "worth its cost: on new rows it is right more often than logistic regression, by 0.01 or more",
    source="ML Generalization gap; Waudby-Smith & Ramdas 2024",
    cost=_linear_cost,
)
def beats_linear(fit: Fit) -> Evidence:
    """A line fitted to the same training rows (scaled), compared row by row: hit − its hit − 0.01."""
    found = unseen_vectors(fit)
    mine, classes = find_hits(found), np.unique(found.train_y)
    if len(classes) < 2:
        return unknown("the training rows are of one class")
    scores = predict_linearly(fit, found, "logistic")
    places = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
    theirs = classes[places.astype(int)] == found.y
    accuracies = f"accuracy {mine.mean():.4g}, logistic regression {theirs.mean():.4g}"
    draws = (mine.astype(float) - theirs - GAIN) / (1 + GAIN)
    note = f"{accuracies}, on {found.description}"
    return judge_gains(draws, found, note, "beyond that", _simpler("logistic regression"))


# --- regressors -------------------------------------------------------------------------------------------------------


def cap_errors(errors: Array, found: UnseenRows) -> Array:
    """Squared errors over the squared range of the training targets, at most 1; the mean over outputs."""
    targets = found.train_y.reshape(len(found.train_y), -1).astype(np.float64)
    width = targets.max(axis=0) - targets.min(axis=0)
    if not (width > 0).all():
        raise CannotTell("the training targets are all equal: they have no range to cap errors by")
    return np.minimum(np.square(errors / width), 1.0).mean(axis=1)


def _rms(errors: Array) -> float:
    return float(np.sqrt(np.square(errors).mean()))


def targets_of(found: UnseenRows) -> Array:
    y = found.y.reshape(len(found.y), -1).astype(np.float64)
    if y.shape != found.outputs.shape:
        why = f"outputs of shape {found.outputs.shape} are not numbers for y of {y.shape}"
        raise CannotTell(why)
    return y


@claim_about_new_rows(
    "predicts new rows better than the mean of the training targets, squared errors capped at their range",
    source="ML Generalization gap; Waudby-Smith & Ramdas 2024",
)
def held_out_error(fit: Fit) -> Evidence:
    """Row by row: the capped squared error of the mean minus that of the network."""
    found = unseen_rows(fit)
    y = targets_of(found)
    mean = found.train_y.reshape(len(found.train_y), -1).mean(axis=0)
    mine, theirs = cap_errors(found.outputs - y, found), cap_errors(mean - y, found)
    rms = _rms(found.outputs - y), _rms(mean - y)
    note = f"RMSE {rms[0]:.4g} on {found.description}, {rms[1]:.4g} of the mean"
    advice = "the mean predicts better: do not use this network"
    return judge_gains(theirs - mine, found, note, "gain", advice)


@claim_about_new_rows(
    "worth its cost: on new rows its squared error (capped at the range) is below that of ridge regression by 1 % or more",
    source="ML Generalization gap; Waudby-Smith & Ramdas 2024",
    cost=_linear_cost,
)
def beats_ridge(fit: Fit) -> Evidence:
    """A line fitted to the same training rows (scaled), compared row by row: 0.99 of its error minus the network's."""
    found = unseen_vectors(fit)
    y, theirs = targets_of(found), predict_linearly(fit, found, "ridge")
    mine, line = cap_errors(found.outputs - y, found), cap_errors(theirs - y, found)
    rms = _rms(found.outputs - y), _rms(theirs - y)
    note = f"RMSE {rms[0]:.4g}, ridge regression {rms[1]:.4g}, on {found.description}"
    gains, advice = (1 - GAIN) * line - mine, _simpler("ridge regression")
    return judge_gains(gains, found, note, "beyond that", advice)
