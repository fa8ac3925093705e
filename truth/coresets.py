"""Coresets drawn as they say, and others: weights, costs and what they state are known by plain sums over the rows."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans as SklearnKMeans

from lemmata import LightweightCoreset
from truth.harness import Case, problems

DRAWN = ("attributes_sound", "statements_true", "total_weight_kept", "cost_of_mean_kept")
SCALES = ((1.0, 0.0), (1e-120, 0.0), (1e120, 0.0), (1.0, 1e5))


def altered(model, **changes):
    """The same model with another coreset."""
    model = copy.deepcopy(model)
    model.coreset_ = replace(model.coreset_, **changes)
    return model


def rows_of(seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Clusters of unequal sizes, some of them far away; and weights or None."""
    rng = np.random.default_rng(seed)
    d, k = int(rng.integers(1, 10)), int(rng.integers(1, 6))
    n = int(rng.integers(3000, 8000))
    places = rng.standard_normal((k, d)) * 10.0 ** rng.uniform(-1, 2)
    X = places[rng.choice(k, n, p=rng.dirichlet(np.ones(k)))] + rng.standard_normal((n, d))
    w = rng.integers(1, 6, n) * 10.0 ** rng.integers(-6, 7) if seed % 3 == 1 else None
    return X, w


@problems(seeds=40, quick=2)
def drawn_or_not(seed: int) -> Iterator[Case]:
    """As drawn, on every type, scale and weighting; then with weights, points or statements that are not those of the draw."""
    X, w = rows_of(seed)
    scale, shift = SCALES[seed % 4]
    X = X * scale + shift
    X = X.astype(np.float32) if seed % 5 == 3 and scale == 1.0 else X
    size = int(np.random.default_rng(seed).choice([200, 1000, 10_000]))
    model = LightweightCoreset(size, random_state=seed).fit(X, sample_weight=w)
    found = model.certify(X, sample_weight=w)
    yield Case("as drawn", found, dict.fromkeys(DRAWN, True), easy=DRAWN)
    if scale == 1.0:
        other = X.astype(np.float32 if X.dtype == np.float64 else np.float64)
        yield Case(
            "other precision",
            model.certify(other, sample_weight=w),
            dict.fromkeys(DRAWN, True),
            easy=DRAWN,
        )
    yield Case(
        "stream",
        model.certify([X[:50], X[:0], X[50:]], sample_weight=w),
        dict.fromkeys(DRAWN, True),
        easy=DRAWN,
    )
    if shift == 0 and scale == 1:
        sparse = sp.csr_array(X)
        same = LightweightCoreset(size, random_state=seed).fit(sparse, sample_weight=w)
        yield Case(
            "sparse", same.certify(sparse, sample_weight=w), dict.fromkeys(DRAWN, True), easy=DRAWN
        )
    yield from _not_drawn(model, X, w)


def _not_drawn(model, X, w) -> Iterator[Case]:
    def case(label, changed, claim, rows=X, weights=w):
        return Case(
            label, changed.certify(rows, sample_weight=weights), {claim: False}, easy=(claim,)
        )

    core = model.coreset_
    spread = core.spread
    yield case("heavier", altered(model, weights=core.weights * 2), "total_weight_kept")
    yield case("rows pushed out", altered(model, points=core.points * 2.0), "cost_of_mean_kept")
    for name, value in {"weight": spread.weight * 1.01, "mean": spread.mean * 1.01 + 1e-3 * abs(core.points).max(),
                        "total": spread.total * 1.01}.items():  # fmt: skip
        yield case(
            f"states another {name}",
            altered(model, spread=replace(spread, **{name: value})),
            "statements_true",
        )
    yield case("states other rows", altered(model, rows=core.rows + 1), "statements_true")
    yield case(
        "other data",
        model,
        "statements_true",
        X[: len(X) // 2],
        None if w is None else w[: len(X) // 2],
    )
    weights = core.weights.copy()
    for label, number in (("NaN", np.nan), ("negative", -1.0)):
        weights[0] = number
        yield case(f"{label} weight", altered(model, weights=weights.copy()), "attributes_sound")
    points = np.array(core.points)
    points[0, 0] = np.inf
    yield case("infinite point", altered(model, points=points), "attributes_sound")


def errors(model, X, sets) -> np.ndarray:
    """|φ_C(Q) − φ_X(Q)| over φ_X(Q), and over ½(φ_X(Q) + φ_X(μ)), by differences."""

    def cost(rows, Q, w):
        return float(w @ ((rows[:, None] - Q) ** 2).sum(axis=2).min(axis=1))

    ones, at_mean = np.ones(len(X)), ((X - X.mean(axis=0)) ** 2).sum()
    exact = np.array([cost(X, Q, ones) for Q in sets])
    found = np.array([cost(model.points_, Q, model.weights_) for Q in sets])
    return np.stack(
        [np.abs(found - exact) / exact, np.abs(found - exact) / (0.5 * (exact + at_mean))]
    )


@problems(seeds=24, quick=1)
def costs(seed: int) -> Iterator[Case]:
    """Large and small coresets, and uniform samples of rows with a few far away; costs of other sets than those tried.

    Where such sets are on both sides of ε, the truth is neither yes nor no, and nothing is said.
    """
    rng = np.random.default_rng(seed)
    X, _ = rows_of(seed)
    X = X[:3000]
    if seed % 2:
        X[:5] = X.mean(axis=0) + 1e3 * np.abs(X).max() * rng.standard_normal((5, X.shape[1]))
    fits = {
        m: LightweightCoreset(m, random_state=seed, n_clusters=6).fit(X) for m in (30, 1500, 4000)
    }
    even = rng.choice(len(X), 300, replace=False)
    fits["even"] = altered(fits[1500], points=X[even], weights=np.full(300, 10.0))
    for name, model in fits.items():
        sets = [X[rng.choice(len(X), 8, replace=False)] for _ in range(25)]
        own = [
            SklearnKMeans(6, n_init=1, max_iter=10, random_state=start)
            .fit(model.points_, sample_weight=model.weights_).cluster_centers_ for start in range(1, 7)
        ]  # fmt: skip
        truths = {}
        for claim, off in (
            ("costs_kept", errors(model, X, sets)[1]),
            ("own_costs_kept", errors(model, X, own)[0]),
        ):
            if off.max() <= 0.08 or off.min() > 0.12:
                truths[claim] = bool(off.max() <= 0.08)
        yield Case(f"{name} draws", model.certify(X), truths, easy=tuple(truths))
