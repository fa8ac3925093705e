"""Probes: what a simple classifier makes of frozen features, beside the raw input and the same network untrained.

    >>> from sklearn.datasets import load_digits
    >>> from lemmata import SimCLR
    >>> X, y = load_digits(return_X_y=True)
    >>> X = (X / 16).reshape(-1, 1, 8, 8).astype("float32")
    >>> model = SimCLR(regions=2, net_options={"widths": (16, 32)}, max_iter=2, random_state=0).fit(X[:1200])
    >>> found = probe(model, X[:1200], y[:1200], X[1200:], y[1200:], labels=200)
    >>> [row.name for row in found.rows]
    ['features', 'raw input', 'untrained']

Accuracies come with an interval (Clopper–Pearson, 95 %), and the gain of the features over each of the others with one of its
own, row by row on the same rows, which is far narrower than the difference of the two.
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


@dataclass(frozen=True)
class ProbeRow:
    """One kind of features: accuracy with its interval, and the gain of the model's features over it."""

    name: str
    width: int
    accuracy: float
    interval: tuple[float, float]
    gain: tuple[float, float] | None  # between these, at 95 %; None for the model's own


@dataclass(frozen=True)
class ProbeReport:
    """A table of probes, that of the model first."""

    kind: str
    labels: int
    tested: int
    rows: tuple[ProbeRow, ...]

    def __str__(self) -> str:
        lines = [f"{self.kind} probe, {self.labels:,} labels, {self.tested:,} rows tested"]
        for row in self.rows:
            low, high = row.interval
            line = f"  {row.name:<10} {row.width:>6,} numbers   {row.accuracy:.4f}  [{low:.4f}, {high:.4f}]"
            more = "" if row.gain is None else f"   gain over it {row.gain[0]:+.4f} to {row.gain[1]:+.4f}"  # fmt: skip
            lines.append(line + more)
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
) -> ProbeReport:
    """Compare features with the raw input and an untrained network by what a probe learns from them.

    Parameters
    ----------
    model : a model with `transform`, or a torch.nn.Module
    X, y : rows with labels to learn the probe from
    X_test, y_test : rows that neither model nor probe has seen
    kind : "linear", our `LogisticRegression` on standardised features, or "neighbours", a vote of 10
    labels : int, optional
        So many rows of X, drawn at random; None: all.
    untrained : torch.nn.Module, optional
        The network to compare with; by default a copy with new weights.
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r}; pass one of {', '.join(KINDS)}.")
    y, y_test = np.asarray(y), np.asarray(y_test)
    if len(X) != len(y) or len(X_test) != len(y_test):
        found = f"{len(X)} rows with {len(y)} labels, {len(X_test)} with {len(y_test)}"
        raise ValueError(f"{found}; pass one label for each row.")
    if labels is not None and not 2 <= labels <= len(y):
        raise ValueError(f"labels={labels} of {len(y)} rows; pass a number from 2 to {len(y)}.")
    chosen = np.random.default_rng(random_state).permutation(len(y))[:labels]
    some, X_test = np.asarray(X)[np.sort(chosen)], np.asarray(X_test)
    named = {"features": _encoder_of(model), "raw input": _flat}
    if untrained is None:
        untrained = untrained_copy(_module_of(model), _tensor(model, np.asarray(X)[:CALIBRATING]))
    named["untrained"] = _runner(model, untrained)
    hits, rows = {}, []
    for name, encode in named.items():
        train, test = encode(some), encode(X_test)
        hits[name] = _fit_probe(kind, train, y[np.sort(chosen)], test) == y_test
        n, right = len(y_test), int(hits[name].sum())
        paired = hits["features"].astype(float) - hits[name]
        gain = None if name == "features" else betting(paired, 0.05, -1.0, 1.0)
        rows.append(ProbeRow(name, train.shape[1], right / n, clopper_pearson(right, n), gain))
    return ProbeReport(kind, len(some), len(y_test), tuple(rows))


def _fit_probe(kind: str, train: Array, y: Array, rows: Array) -> Array:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import lemmata

    last: Any = lemmata.LogisticRegression(C=0.1, max_iter=300, tol=1e-2)  # more changes no label
    if kind == "neighbours":
        last = lemmata.KNeighborsClassifier(min(NEIGHBOURS, len(y)), weights="distance")
    with lemmata.config(certificate=False):
        return make_pipeline(StandardScaler(), last).fit(train, y).predict(rows)


def _module_of(model: Any) -> Any:
    return model.module_.encoder if hasattr(model, "module_") else model


def _shape_of(model: Any, X: Array) -> tuple[int, ...]:
    found = tuple(model.input_shape_) if hasattr(model, "input_shape_") else flatten(X)[1]
    return tuple(X.shape[1:]) if found is None else found


def _tensor(model: Any, X: Array) -> Any:
    import torch

    return torch.from_numpy(_flat(X)).reshape(-1, *_shape_of(model, X))


def _flat(X: Array) -> Array:
    """Rows of numbers; bytes of images from 0 to 1."""
    scaled = X.astype(np.float32) / 255 if X.dtype == np.uint8 else X
    return np.ascontiguousarray(scaled.reshape(len(X), -1))


def _encoder_of(model: Any) -> Any:
    return model.transform if hasattr(model, "transform") else _runner(model, model)


def _runner(model: Any, module: Any) -> Any:
    """A function from rows to the features of a module."""

    def run(X: Array) -> Array:
        module.eval()
        return run_rows(module, _flat(X), _shape_of(model, X), like=next(module.parameters()))

    return run
