"""Probes: what a simple classifier makes of frozen features, beside the raw input and the same network untrained.

    >>> from sklearn.datasets import load_digits
    >>> from lemmata import SimCLR
    >>> X, y = load_digits(return_X_y=True)
    >>> X = (X / 16).reshape(-1, 1, 8, 8).astype("float32")
    >>> model = SimCLR(regions=2, net_options={"widths": (16, 32)}, max_iter=2, random_state=0).fit(X[:1200])
    >>> found = probe(model, X[:1200], y[:1200], X[1200:], y[1200:], labels=200)
    >>> [row.name for row in found.rows]
    ['features', 'raw input', 'untrained']

Accuracies come with an interval (95 %), and the gain of the features over each of the others with one of its own, row by row
on the same rows, which is far narrower than the difference of the two. Which 100 labels were drawn moves an accuracy by 0.02:
`draws` averages over several such draws, and states their deviation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.kernel.concentration import betting, clopper_pearson
from lemmata.audit.selfsup.features import CALIBRATING, untrained_copy
from lemmata.nets.estimators.inputs import flatten, run_rows

Array = np.ndarray
KINDS = ("linear", "neighbours")
NEIGHBOURS = 10
STRENGTHS = (1.0, 10.0, 100.0, 1000.0)  # C·n of a linear probe, one of which is chosen
FOLDS, MANY = 5, 500  # parts of the labels that are left out in turn; above so many labels, one


@dataclass(frozen=True)
class ProbeRow:
    """One kind of features: accuracy with its interval, and the gain of the model's features over it."""

    name: str
    width: int
    accuracy: float
    interval: tuple[float, float]
    gain: tuple[float, float] | None  # between these, at 95 %; None for the model's own
    deviation: float  # of the accuracy between draws of labels


@dataclass(frozen=True)
class ProbeReport:
    """A table of probes, that of the model first."""

    kind: str
    labels: int
    tested: int
    rows: tuple[ProbeRow, ...]
    draws: int = 1

    def __str__(self) -> str:
        times = f" drawn {self.draws} times" if self.draws > 1 else ""
        lines = [f"{self.kind} probe, {self.labels:,} labels{times}, {self.tested:,} rows tested"]
        for row in self.rows:
            low, high = row.interval
            line = f"  {row.name:<10} {row.width:>6,} numbers   {row.accuracy:.4f}  [{low:.4f}, {high:.4f}]"
            between = f"  ± {row.deviation:.4f}" if times else ""
            more = "" if row.gain is None else f"   gain over it {row.gain[0]:+.4f} to {row.gain[1]:+.4f}"  # fmt: skip
            lines.append(line + between + more)
        return "\n".join(lines)


def probe(
    model: Any,
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    kind: str = "linear",
    labels: int | None = None,
    random_state: int = 0,
    untrained: Any = None,
    draws: int = 1,
) -> ProbeReport:
    """Compare features with the raw input and an untrained network by what a probe learns from them.

    Parameters
    ----------
    model : a model with `transform`, or a torch.nn.Module
    X, y : rows with labels to learn the probe from
    X_test, y_test : rows that neither model nor probe has seen
    kind : "linear", our `LogisticRegression` on standardised features, its C·n chosen by five-fold cross-validation (above
        500 labels, on a fifth left out), or "neighbours", a vote of 10
    labels : int, optional
        So many rows of X, drawn at random; None: all.
    untrained : torch.nn.Module, optional
        The network to compare with; by default a copy with new weights.
    draws : int, default=1
        Accuracies are means over so many draws of the labels.
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r}; pass one of {', '.join(KINDS)}.")
    X, y, X_test, y_test = (np.asarray(part) for part in (X, y, X_test, y_test))
    if len(X) != len(y) or len(X_test) != len(y_test):
        sizes = f"{len(X)} rows with {len(y)} labels, {len(X_test)} with {len(y_test)}"
        raise ValueError(f"{sizes}; pass one label for each row.")
    if labels is not None and not 2 <= labels <= len(y):
        raise ValueError(f"labels={labels} of {len(y)} rows; pass a number from 2 to {len(y)}.")
    if draws < 1:
        raise ValueError(f"draws={draws}; pass 1 or more.")
    module = model.module_.encoder if hasattr(model, "module_") else model
    shape = tuple(model.input_shape_) if hasattr(model, "input_shape_") else flatten(X)[1]
    shape = tuple(X.shape[1:]) if shape is None else shape
    if untrained is None:
        import torch

        first = torch.from_numpy(_flat(X[:CALIBRATING])).reshape(-1, *shape)
        untrained = untrained_copy(module, first)
    named = {
        "features": model.transform if hasattr(model, "transform") else _runner(module, shape),
        "raw input": _flat,
        "untrained": _runner(untrained, shape),
    }
    rng = np.random.default_rng(random_state)
    chosen = [np.sort(rng.permutation(len(y))[:labels]) for _ in range(draws)]
    used = np.unique(np.concatenate(chosen))
    hits, rows, n = {}, [], len(y_test)
    for name, encode in named.items():
        train, test = encode(X[used]), encode(X_test)
        places = [np.searchsorted(used, some) for some in chosen]
        found = [fit_probe(train[at], y[used[at]], test, kind) for at in places]
        right = np.array(found) == y_test
        hits[name], each = right.mean(axis=0), right.mean(axis=1)
        gain = None if name == "features" else betting(hits["features"] - hits[name], 0.05, -1.0, 1.0)  # fmt: skip
        one = draws == 1
        interval = clopper_pearson(int(right.sum()), n) if one else betting(hits[name], 0.05, 0.0, 1.0)  # fmt: skip
        rows.append(ProbeRow(name, train.shape[1], float(each.mean()), interval, gain, float(each.std())))  # fmt: skip
    return ProbeReport(kind, len(chosen[0]), n, tuple(rows), draws)


def fit_probe(train: Array, y: Array, rows: Array, kind: str = "linear") -> Array:
    """The labels of rows by a probe of labelled ones, both of them features."""
    import lemmata

    with lemmata.config(certificate=False):
        mean, deviation = train.mean(axis=0), train.std(axis=0)
        scale = np.where(deviation > 1e-6 * np.abs(mean), deviation, 1)
        train, rows = (train - mean) / scale, (rows - mean) / scale
        if kind == "neighbours":
            nearest = lemmata.KNeighborsClassifier(min(NEIGHBOURS, len(y)), weights="distance")
            return nearest.fit(train, y).predict(rows)
        if len(y) < train.shape[1]:  # the weights lie in the span of the rows: the same minimum
            U, s, Vt = np.linalg.svd(train, full_matrices=False)
            train, rows = U * s, rows @ Vt.T
        strength = _choose_strength(train, y) / len(y)
        return _logistic(strength).fit(train, y).predict(rows)


def _logistic(C: float) -> Any:
    import lemmata

    return lemmata.LogisticRegression(C=C, max_iter=300, tol=1e-3, solver="lbfgs")


def _choose_strength(train: Array, y: Array) -> float:
    """C·n by the labels left out that are predicted right; the smallest of equals."""
    order, right = np.random.default_rng(0).permutation(len(y)), dict.fromkeys(STRENGTHS, 0)
    for out in np.array_split(order, FOLDS)[: FOLDS if len(y) <= MANY else 1]:
        rest = np.setdiff1d(order, out)
        if len(np.unique(y[rest])) > 1:
            for strength in STRENGTHS:
                found = _logistic(strength / len(rest)).fit(train[rest], y[rest])
                right[strength] += int((found.predict(train[out]) == y[out]).sum())
    return max(STRENGTHS, key=right.__getitem__)


def _flat(X: Array) -> Array:
    """Rows of numbers; bytes of images from 0 to 1."""
    scaled = X.astype(np.float32) / 255 if X.dtype == np.uint8 else X
    return np.ascontiguousarray(scaled.reshape(len(X), -1))


def _runner(module: Any, shape: tuple[int, ...]) -> Any:
    """A function from rows to the features of a module."""

    def run(X: Array) -> Array:
        module.eval()
        return run_rows(module, _flat(X), shape, like=next(module.parameters()))

    return run
