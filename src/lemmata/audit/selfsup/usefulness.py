"""Claims about what an encoder is good for: finding a row by another view of it, and predicting labels by a linear probe.

**Views.** A row is found if, by cosines, its second view is nearer to its first than the second views of 255 other rows are.
These others (half of the rows, where there are fewer than 510) are drawn once and not tested themselves, so that what is found
of different rows are independent draws; of few rows several views are drawn, and each row counts by its share. The untrained
network, on the same views, is the one to beat: convolutions with random weights tell images apart well.

**Probes.** Least squares on standardised features with a small ridge, in closed form: nothing is searched for, and all
sides get the same. Hits are compared row by row on rows that neither encoder nor probe saw. Bets bound the mean gain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.nets import modules
from lemmata.audit.selfsup import features as f

Array = np.ndarray

OTHERS = 255
DRAWS = 1000, 8  # views that are looked for in all; of one row at most
RIDGE = 0.01  # of the variance of a feature
LEARN, TEST = 10_000, 5000  # rows of a probe


# --- views ------------------------------------------------------------------------------------------------------------


def find_views(first: Array, second: Array, others: int) -> Array:
    """Whether each row after the first `others` is found: its second view nearer to its first than theirs are."""
    a, b = f.normalise(first, 1e-300), f.normalise(second, 1e-300)
    own = (a[others:] * b[others:]).sum(axis=1)
    return own > (a[others:] @ b[:others].T).max(axis=1) + k.rounding(np.float64, a.shape[1])


@k.statistical(
    "among up to 256 rows not trained on, it finds a row by another view of it more often than the untrained network does",
    "ML Contrastive learning; Waudby-Smith & Ramdas 2024",
    confidence=1 - f.RISK,
    needs=(f.new_rows, f.baseline_encoder),
    cost=f.cost_of_rows(4.0),
)
def views_found(fit: k.Fit) -> k.Evidence:
    """Paired row by row. A module without a baseline is compared with its input."""
    rows = f.some_of(f.new_rows(fit).new)[0]
    order = np.random.default_rng(0).permutation(rows.shape[0])
    rows = rows.rows(order)
    others = min(OTHERS, rows.shape[0] // 2)
    if others < 8:
        raise k.CannotTell(f"{rows.shape[0]} rows: 16 are needed")
    draws = min(max(DRAWS[0] // (rows.shape[0] - others), 1), DRAWS[1])
    baseline, found = f.baseline_encoder(fit), np.zeros((2, rows.shape[0] - others))
    for seed in range(draws):
        first, second = f.draw_views(fit, rows, seed)
        own = modules.copy_of(fit)
        found[0] += find_views(f.encode(own, first), f.encode(own, second), others)
        raw = baseline is None
        a, b = (one.source if raw else f.encode(baseline, one) for one in (first, second))
        found[1] += find_views(a, b, others)
    mine, theirs = found / draws
    who = "raw input" if baseline is None else "the untrained network"
    note = f"{100 * mine.mean():.3g} % of {len(mine):,} found among {others + 1}, by {who} {100 * theirs.mean():.3g} %"
    advice = "it learned less than nothing about its views: train longer, or choose milder views"
    return f.judge(mine - theirs, note, advice)


# --- probes -----------------------------------------------------------------------------------------------------------


def probe_hits(train: Array, y: Array, rows: Array, labels: Array) -> Array:
    """Whether least squares of one column a class, by these training rows, is right about each row."""
    classes = np.unique(y)
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    varies = deviation > k.rounding(np.float64, len(train)) * np.abs(train).max(initial=0.0)
    Z, new = ((X[:, varies] - mean[varies]) / deviation[varies] for X in (train, rows))
    Y = (y[:, None] == classes).astype(np.float64)
    n, d = Z.shape
    if d <= n:
        W = np.linalg.solve(Z.T @ Z + n * RIDGE * np.eye(d), Z.T @ (Y - Y.mean(axis=0)))
    else:
        W = Z.T @ np.linalg.solve(Z @ Z.T + n * RIDGE * np.eye(n), Y - Y.mean(axis=0))
    return classes[(new @ W + Y.mean(axis=0)).argmax(axis=1)] == labels


def _cost_of_features(fit: k.Fit) -> float:
    return (LEARN + TEST) * modules.row_and_call_cost(fit)[0]


class ProbeRows:
    """Rows with labels for the probes: to learn from, and to test on."""

    def __init__(self, fit: k.Fit):
        found = f.new_rows(fit)
        if found.y is None or found.trained_y is None or found.trained is None:
            raise k.CannotTell("probes need labels: pass y (and y_test with X_test)")
        classes = found.y.ndim == 1 and found.y.dtype.kind in "iub"
        if not classes or len(np.unique(found.trained_y)) < 2:
            raise k.CannotTell("probes need one class a row, and two classes or more")
        self.train, learn = f.some_of(found.trained, LEARN)
        self.rows, test = f.some_of(found.new, TEST)
        self.y, self.labels = found.trained_y[learn], found.y[test]

    def hits(self, encode: Any) -> Array:
        return probe_hits(encode(self.train), self.y, encode(self.rows), self.labels)


@k.fact(cost=_cost_of_features, needs=(f.new_rows,))
def own_hits(fit: k.Fit) -> tuple[ProbeRows, Array]:
    """Return the rows, and which of them the probe of the encoder is right about."""
    rows = ProbeRows(fit)
    return rows, rows.hits(lambda examples: f.encode(modules.copy_of(fit), examples))


def _judge(fit: k.Fit, encode: Any, who: str, advice: str) -> k.Evidence:
    rows, mine = own_hits(fit)
    theirs = rows.hits(encode)
    note = f"accuracy {mine.mean():.4g}, {who} {theirs.mean():.4g}, {len(rows.y):,} labels, {len(mine):,} rows"
    return f.judge(mine.astype(float) - theirs, note, advice)


def _cost_of_pixels(fit: k.Fit) -> float:
    d = fit.data.size // max(fit.data.shape[0], 1)
    return LEARN * float(d) * min(d, LEARN) / k.PRODUCTS


@k.statistical(
    "a linear probe of its features is right more often, on rows not trained on, than one of the raw input",
    "ML Transfer learning; Waudby-Smith & Ramdas 2024",
    confidence=1 - f.RISK,
    needs=(own_hits,),
    cost=_cost_of_pixels,
)
def probe_beats_pixels(fit: k.Fit) -> k.Evidence:
    """Least squares on both, paired row by row."""
    advice = "the raw input serves a linear model better: train longer, or raise regions"
    return _judge(fit, lambda examples: examples.source, "raw input", advice)


@k.statistical(
    "a linear probe of its features is right more often, on rows not trained on, than one of the same network untrained",
    "ML Transfer learning; Waudby-Smith & Ramdas 2024",
    confidence=1 - f.RISK,
    needs=(own_hits, f.baseline_encoder),
    cost=_cost_of_features,
)
def probe_beats_untrained(fit: k.Fit) -> k.Evidence:
    """Least squares on both, as many features, paired row by row."""
    own = f.baseline_encoder(fit)
    if own is None:
        why = 'pass an untrained copy: properties={"views": {"step": augment, "baseline": module}}'
        raise k.CannotTell(why)
    advice = "training made nothing better: train longer, other views, or use it as it is drawn"
    return _judge(fit, lambda examples: f.encode(own, examples), "untrained", advice)
