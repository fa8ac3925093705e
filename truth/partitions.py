"""Clusterings whose labels, steps, optimum and clusters are known: by plain loops, an exact programme, or the law of rows."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.cluster import MiniBatchKMeans

import lemmata
from lemmata import KMeans
from lemmata.audit.clustering.kmeans import KMEANS_CLAIMS, MINI_BATCH_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.core.runs.trace import Trace
from truth.harness import Case, problems

CHEAP = 3e7  # units of work: enough for everything but searches
SCALES = ((1.0, 0.0), (1e-150, 0.0), (1e150, 0.0), (1.0, 1e5), (1e-3, 7.0))


def tampered(model, **changes):
    """A copy with other attributes."""
    model = copy.deepcopy(model)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def cheap(model, X, weights=None, claims=KMEANS_CLAIMS, work=CHEAP) -> Certificate:
    """The claims that a few passes decide."""
    data = Blocks.of(X) if weights is None else Blocks.of(X).weighted(np.asarray(weights, float))
    trace = getattr(model, "trace_", None)
    return check(claims, Fit(model, data, None, data.weights, trace), "", work=work)


def blobs(rng, n: int, d: int, k: int, apart: float) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian clusters of unit deviation, any two of them `apart` or more, of sizes that differ up to threefold."""
    places = [np.zeros(d)]
    while len(places) < k:
        new = rng.standard_normal(d) * apart * (1.5 if d > 2 else 1 + k / 2)
        if min(np.linalg.norm(new - place) for place in places) >= apart:
            places.append(new)
    shares = rng.uniform(1, 3, k)
    labels = rng.choice(k, n, p=shares / shares.sum())
    return np.stack(places)[labels] + rng.standard_normal((n, d)), np.stack(places)


def quietly(model, X, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, **more)


def cost(X, C, w=None) -> float:
    best = ((X[:, None].astype(np.float64) - C) ** 2).sum(axis=2).min(axis=1)
    return float(best.sum() if w is None else w @ best)


# --- what a model states ----------------------------------------------------------------------------------------------

SAID = ("attributes_sound", "statements_true", "no_empty_cluster")


@problems(seeds=20, quick=1)
def stated_numbers(seed: int) -> Iterator[Case]:
    """Labels, cost and sums as they are, and changed one at a time; every type, scale and weighting."""
    rng = np.random.default_rng(seed)
    k, d, (scale, shift) = int(rng.integers(2, 7)), int(rng.integers(1, 9)), SCALES[seed % 5]
    X, _ = blobs(rng, 400, d, k, 6.0)
    X = X * scale + shift
    if seed % 3 == 1 and scale == 1.0:
        X = X.astype(np.float32)
    w = rng.integers(1, 5, 400) * 10.0 ** rng.integers(-9, 9) if seed % 4 == 3 else None
    ours = quietly(KMeans(k, random_state=seed), X, sample_weight=w)
    fits = {"ours": ours}
    if 1e-100 < scale < 1e100:  # scikit-learn's own squares leave the floats beyond
        fits["scikit-learn"] = quietly(
            SklearnKMeans(k, n_init=1, random_state=seed), X, sample_weight=w
        )
        fits["batches"] = quietly(
            MiniBatchKMeans(k, n_init=1, random_state=seed), X, sample_weight=w
        )
        if shift == 0:
            fits["sparse"] = quietly(KMeans(k, random_state=seed), sp.csr_array(X), sample_weight=w)
    for name, model in fits.items():
        rows = sp.csr_array(X) if name == "sparse" else X
        C = model.cluster_centers_.astype(np.float64)
        full = len(np.unique([np.square((x - C) / scale).sum(axis=1).argmin() for x in X])) == k
        yes = {"attributes_sound": True, "statements_true": True, "no_empty_cluster": full}
        hopeless = (
            name == "batches" and X.dtype == np.float32 and shift > 100
        )  # squares of 1e10 in float32
        yield Case(name, cheap(model, rows, w), yes, easy=() if hopeless else SAID)
        yield from () if hopeless else _changed(name, model, rows, w, rng)
    # rows of the other precision, and a stream with an empty block
    if 1e-30 < scale < 1e30:
        other = X.astype(np.float32 if X.dtype == np.float64 else np.float64)
        yield Case("other precision", cheap(ours, other, w), {"statements_true": True}, easy=SAID)
    stream = [X[:100], X[:0], X[100:]]
    yield Case(
        "stream",
        cheap(ours, stream, w),
        {"statements_true": True, "no_empty_cluster": True},
        easy=SAID,
    )


def _changed(name: str, model, X, w, rng) -> Iterator[Case]:
    no, k = {"statements_true": False}, len(model.cluster_centers_)
    labels, C = model.labels_.copy(), model.cluster_centers_
    labels[rng.integers(len(labels))] += 1
    moved = tampered(model, labels_=labels % k)
    yield Case(f"{name}, one label", cheap(moved, X, w), no, easy=no)
    yield Case(
        f"{name}, cost", cheap(tampered(model, inertia_=model.inertia_ * 1.02), X, w), no, easy=no
    )
    yield Case(
        f"{name}, permuted",
        cheap(tampered(model, cluster_centers_=C[::-1].copy()), X, w),
        no,
        easy=no,
    )
    yield Case(f"{name}, one label short", cheap(tampered(model, labels_=(labels % k)[1:]), X, w),
               {} if hasattr(model, "n_steps_") else no, easy=no)  # fmt: skip
    if name == "ours":
        sums = copy.copy(model.sums_)
        object.__setattr__(sums, "counts", sums.counts * 1.01)
        yield Case("sums", cheap(tampered(model, sums_=sums), X, w), no, easy=no)
    nan, unsound = C.copy(), {"attributes_sound": False}
    nan[0, 0] = np.nan
    beyond = np.where(np.arange(len(labels)) == 3, k, labels)
    for what, change in {
        "NaN": {"cluster_centers_": nan}, "a number too many": {"cluster_centers_": np.hstack([C, C])},
        "label k": {"labels_": beyond}, "negative cost": {"inertia_": -1.0}, "infinite cost": {"inertia_": np.inf},
    }.items():  # fmt: skip
        yield Case(f"{name}, {what}", cheap(tampered(model, **change), X, w), unsound, easy=unsound)
    away = C.copy()
    away[0] = 3 * C[0] + 100 * (np.abs(C).max(axis=0) + np.abs(C).max())  # where no row is
    empty = tampered(
        model,
        cluster_centers_=away,
        labels_=np.maximum(model.labels_, 1) if k > 1 else model.labels_,
    )
    if k > 1:
        yield Case(
            f"{name}, empty",
            cheap(empty, X, w),
            {"no_empty_cluster": False},
            easy=("no_empty_cluster",),
        )


# --- the run, and steps that are left ---------------------------------------------------------------------------------


def stepped(model, X, claims=KMEANS_CLAIMS[:6]) -> Certificate:
    """The claims up to steps that are left, and work for a few hundred of these."""
    return cheap(model, X, claims=claims, work=2e9)


@problems(seeds=16, quick=1)
def steps_left(seed: int) -> Iterator[Case]:
    """Fits stopped early or not, and what one step and all steps still gain: Lloyd's iteration carried to its end."""
    rng = np.random.default_rng(seed)
    n, d, k = 1500, int(rng.integers(1, 6)), int(rng.integers(3, 12))
    X = [rng.random((n, d)), rng.standard_normal((n, d)), blobs(rng, n, d, k, 5.0)[0]][seed % 3]
    X = X * SCALES[seed % 5][0] + SCALES[seed % 5][1] if SCALES[seed % 5][0] in (1.0, 1e-3) else X
    start = X[rng.choice(n, k, replace=False)]
    names = ("fixed_point", "no_steps_left")
    for steps, tol in ((1, 0.0), (3, 0.0), (10, 0.0), (300, 1e-2), (300, 1e-4), (300, 0.0)):
        model = quietly(SklearnKMeans(k, init=start, n_init=1, max_iter=steps, tol=tol), X)
        yield Case(f"{steps} steps, tol {tol}", stepped(model, X), _left(model, X), easy=names)
    ours = quietly(KMeans(k, init=start, max_iter=2), X)
    found = stepped(ours, X)
    yield Case(
        "ours, 2 steps", found, {**_left(ours, X), "never_rose": True}, easy=(*names, "never_rose")
    )
    trace = Trace()
    for value in (3.0, 1.0, 1.0 + 1e-6, 0.5):
        trace.append(value, 0.0)
    ours.trace_ = trace
    yield Case("a rise", stepped(ours, X), {"never_rose": False}, easy=("never_rose",))
    names = ("near_fixed_point", "no_steps_left")
    for size in (8, 256):
        hasty = MiniBatchKMeans(k, n_init=1, random_state=seed, max_iter=1, batch_size=size)
        truths = _left(quietly(hasty, X), X, "near_fixed_point", 0.02)
        yield Case(
            f"batches of {size}", stepped(hasty, X, MINI_BATCH_CLAIMS[:4]), truths, easy=names
        )


def _left(model, X, name: str = "fixed_point", share: float = 1e-4) -> dict[str, bool]:
    C = model.cluster_centers_.astype(np.float64)
    labels = ((X[:, None] - C) ** 2).sum(axis=2).argmin(axis=1)
    now, once = cost(X, C), 0.0
    for c in np.unique(labels):
        once += ((X[labels == c] - X[labels == c].mean(axis=0)) ** 2).sum()
    end = quietly(SklearnKMeans(len(C), init=C, n_init=1, max_iter=5000, tol=0.0), X).inertia_
    return {
        name: bool(now - once <= share * now),
        "no_steps_left": bool(now - min(end, once) <= 0.01 * now),
    }


# --- the optimum ------------------------------------------------------------------------------------------------------


def optimum_on_a_line(x: np.ndarray, k: int) -> tuple[float, np.ndarray]:
    """The exact optimum of one feature and its centres: the best clusters are intervals, found by dynamic programming."""
    x = np.sort(x)
    n, shift = len(x), x.mean()
    S, Q = (np.concatenate([[0.0], np.cumsum(v)]) for v in (x - shift, (x - shift) ** 2))
    i, j = np.arange(n + 1)[:, None], np.arange(n + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        interval = np.where(
            j > i, np.maximum(Q[j] - Q[i] - (S[j] - S[i]) ** 2 / (j - i), 0), np.inf
        )
    best, cuts = interval[0], []
    for _ in range(k - 1):
        both = best[:, None] + interval
        cuts.append(both.argmin(axis=0))
        best = both.min(axis=0)
    stop, centers = n, []
    for cut in reversed(cuts):
        centers.append(x[cut[stop] : stop].mean())
        stop = cut[stop]
    return float(best[-1]), np.array([*centers, x[:stop].mean()])[:, None]


@problems(seeds=8, quick=1)
def near_the_optimum(seed: int) -> Iterator[Case]:
    """One feature, where the optimum is exact; and planted clusters, where it is where they were planted."""
    rng, name = np.random.default_rng(seed), ("certified_near_optimum",)
    for n in (80, 300, 700):
        k = int(rng.integers(2, 6))
        law = (seed + n) % 4
        x = [
            rng.random(n),
            rng.standard_normal(n),
            rng.standard_t(2, n),
            12.0 * rng.integers(0, k, n) + rng.standard_normal(n),
        ][law]
        X, (best, C) = x[:, None], optimum_on_a_line(x, k)
        near = ("4.9 % off", 0.049) if seed % 2 else ("5.1 % off", 0.051)
        for what, off in (("the best", 0.0), near, ("30 % off", 0.3)):
            centers = C + np.sqrt(off * best / n) * rng.choice([-1, 1], k)[:, None]
            model = tampered(
                quietly(SklearnKMeans(k, init=C, n_init=1), X),
                cluster_centers_=centers,
                inertia_=cost(X, centers),
            )
            model.labels_ = ((X - centers.T) ** 2).argmin(axis=1)
            truth = {"certified_near_optimum": model.inertia_ <= 1.05 * best}
            hopeless = (law != 3 and truth[name[0]]) or 0.01 < off < 0.1
            yield Case(
                f"line, n {n}, law {law}, {what}",
                lemmata.certify(model, X),
                truth,
                () if hopeless else name,
            )
    d, k = int(rng.integers(2, 8)), int(rng.integers(3, 9))
    X, places = blobs(rng, 1200, d, k, 11.0)
    X = X * SCALES[seed % 5][0] + SCALES[seed % 5][1]
    places = places * SCALES[seed % 5][0] + SCALES[seed % 5][1]
    good = quietly(KMeans(k, init=places), X)
    yield Case("planted", good.certify(X), {name[0]: True}, name)
    start = places.copy()
    start[1] = places[0] + 0.1 * SCALES[seed % 5][0]
    stuck = quietly(KMeans(k, init=start), X)
    if stuck.inertia_ > 1.06 * good.inertia_:
        yield Case("stuck", stuck.certify(X), {name[0]: False}, name)


# --- clusters, or cuts through a cloud --------------------------------------------------------------------------------

ASKED = ("found_again", "separated")
BOTH, AGAIN, NEITHER = (
    {"found_again": a, "separated": s} for a, s in ((True, True), (True, False), (False, False))
)


def certified(model, X, w=None) -> Certificate:
    return lemmata.certify(quietly(model, X, sample_weight=w), X, sample_weight=w)


@problems(seeds=14, quick=1)
def clusters(seed: int) -> Iterator[Case]:
    """Planted clusters, and the same with a cluster too many, too few, or a row that has one to itself."""
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(2, 7)), int(rng.integers(2, 15))
    n = 260 * k
    X, places = blobs(rng, n, d, k, 9.0)
    w = rng.uniform(0.5, 1.5, n) if seed % 4 == 1 else None
    rows = X.astype(np.float32) if seed % 3 == 1 else X * SCALES[seed % 5][0] + SCALES[seed % 5][1]
    where = places if seed % 3 == 1 else places * SCALES[seed % 5][0] + SCALES[seed % 5][1]
    ours = quietly(KMeans(k, init=where), rows, sample_weight=w)
    yield Case(f"{k} planted", ours.certify(rows, sample_weight=w), BOTH, ASKED)
    theirs = SklearnKMeans(k, init=places, n_init=1)
    yield Case("scikit-learn", certified(theirs, X), BOTH, ASKED)
    yield Case(
        "one too many", certified(SklearnKMeans(k + 1, n_init=10, random_state=seed), X), NEITHER
    )
    row = X.mean(axis=0) + 300 * rng.standard_normal(d)
    yield Case("a single row", certified(SklearnKMeans(k + 1, n_init=10, random_state=seed), np.vstack([X, row])),
               {"found_again": False, "separated": False})  # fmt: skip
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]]) * 10.0
    square = corners[rng.integers(4, size=1600)] + rng.standard_normal((1600, 2))
    for too_few in (2, 3):
        yield Case(
            f"4 in {too_few}",
            certified(SklearnKMeans(too_few, n_init=10, random_state=seed), square),
            NEITHER,
        )
    start = places.copy()
    start[1] = places[0] + 0.1
    stuck = quietly(SklearnKMeans(k, init=start, n_init=1), X)
    if k > 2 and stuck.inertia_ > 1.1 * cost(X, places):
        yield Case("stuck", lemmata.certify(stuck, X), NEITHER)


@problems(seeds=10, quick=1)
def clouds(seed: int) -> Iterator[Case]:
    """One cloud, cut: where all cuts are alike, other rows choose another; where one is best, it still has no valley."""
    rng = np.random.default_rng(seed)
    k, d, n = int(rng.integers(3, 9)), int(rng.integers(2, 11)), 1800
    angle, radius = rng.random(n) * 2 * np.pi, np.sqrt(rng.random(n))
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    even = {
        "ring": circle + 0.02 * rng.standard_normal((n, 2)), "disc": circle * radius[:, None],
        "Gaussian": rng.standard_normal((n, d)), "cube": rng.random((n, d + 2)),
    }  # fmt: skip
    for name, X in even.items():
        yield Case(name, certified(SklearnKMeans(k, n_init=5, random_state=seed), X), NEITHER)
        yield Case(
            f"{name} in 3", certified(SklearnKMeans(3, n_init=5, random_state=seed), X), NEITHER
        )
    few = rng.standard_normal((int(rng.integers(20, 200)), 300))
    yield Case(
        "few rows", certified(SklearnKMeans(min(k, 5), n_init=5, random_state=seed), few), NEITHER
    )
    singles = rng.standard_normal((30, 50))
    yield Case(
        "single rows", certified(SklearnKMeans(20, n_init=5, random_state=seed), singles), NEITHER
    )
    line = rng.random((3000, 1)) * 10.0 ** rng.integers(-5, 6)
    yield Case(
        "line in 3",
        certified(SklearnKMeans(3, n_init=5, random_state=seed), line),
        AGAIN,
        ("separated",),
    )
    long = rng.standard_normal((3000, d)) * np.array([6.0] + [1.0] * (d - 1))
    yield Case(
        "long cloud in 2",
        certified(SklearnKMeans(2, n_init=5, random_state=seed), long),
        AGAIN,
        ("separated",),
    )
