"""Trees of merged clusters: as SciPy and scikit-learn build them, and with other merges, heights, labels or linkages."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import cdist
from sklearn.cluster import AgglomerativeClustering as SklearnTree

import lemmata
from lemmata import AgglomerativeClustering
from truth.harness import Case, problems

LINKAGES = ("ward", "complete", "average", "single")
BUILT = ("attributes_sound", "statements_true", "merges_closest", "heights_rise")


def draw_rows(seed: int) -> np.ndarray:
    """Rows without ties, in clusters or not, of any size and place."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(30, 100)), int(rng.integers(1, 8))
    X = rng.normal(size=(n, d)) + (seed % 3) * 4 * rng.integers(3, size=n)[:, None]
    return X * 10.0 ** rng.integers(-6, 7) + (1e3 if seed % 4 == 3 else 0.0)


@problems(seeds=40, quick=2)
def merges(seed: int) -> Iterator[Case]:
    X, linkage = draw_rows(seed), LINKAGES[seed % 4]
    single = ("heights_span",) if linkage == "single" else ()
    truths = dict.fromkeys((*BUILT, *single), True)
    ours = AgglomerativeClustering(3, linkage=linkage).fit(X)
    theirs = SklearnTree(3, linkage=linkage, compute_distances=bool(seed % 2)).fit(X)
    yield Case("ours", ours.certify(X), truths, easy=BUILT)
    yield Case("scikit-learn's", lemmata.certify(theirs, X), truths, easy=BUILT)
    other = LINKAGES[(seed + 1) % 4]
    wrong = AgglomerativeClustering.from_linkage(hierarchy.linkage(X, linkage), other)
    yield Case(
        "another linkage", wrong.certify(X), {"statements_true": False}, easy=("statements_true",)
    )
    yield from altered(ours, X, np.random.default_rng(seed), single)


def altered(model, X, rng, single) -> Iterator[Case]:
    """One merge too early, a height, a label, children that are no tree, other rows."""
    n = len(X)

    def case(label, change, claim, rows=X):
        other = copy.deepcopy(model)
        change(other)
        return Case(label, other.certify(rows), {claim: False}, easy=(claim,))

    far = np.unravel_index(cdist(X, X).argmax(), (n, n))
    children = merge_first(far, n, rng)

    def replace(other):
        other.children_ = children

    yield case("the farthest rows first", replace, "merges_closest")
    if model.linkage in ("single", "average"):  # whatever comes later is closer
        yield case("the same, heights", replace, "heights_rise")
    if single:
        yield case("the same, edges", replace, "heights_span")
    yield case("NaN", lambda one: one.distances_.__setitem__(0, np.nan), "attributes_sound")
    t = int(rng.integers(n - 1))
    yield case("a height", lambda one: one.distances_.__setitem__(t, 1.01 * one.distances_[t]), "statements_true")  # fmt: skip
    yield case("a label", lambda one: one.labels_.__setitem__(t, (one.labels_[t] + 1) % 3), "statements_true")  # fmt: skip
    yield case("no tree", lambda one: one.children_.__setitem__((n - 2, 0), 0), "statements_true")
    moved = X[rng.permutation(n)]
    yield case("rows in another order", lambda one: None, "statements_true", moved)


def merge_first(pair, n: int, rng) -> np.ndarray:
    """Merges of n rows in any order, but for the first."""
    there, merges = [i for i in range(n) if i not in pair] + [n], [list(pair)]
    while len(there) > 1:
        rng.shuffle(there)
        merges.append([there.pop(), there.pop()])
        there.append(n + len(merges) - 1)
    return np.array(merges)


@problems(seeds=24, quick=1)
def cuts(seed: int) -> Iterator[Case]:
    """Clouds far apart, cut where they are: stable. One cloud of independent columns, cut into many: not."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(2, 6)), int(rng.integers(100, 300))
    places = 30.0 * np.eye(6)[:k]
    clouds = rng.normal(size=(n, 6)) + places[rng.permutation(np.arange(n) % k)]
    for linkage in ("ward", "average"):
        found = AgglomerativeClustering(k, linkage=linkage).fit(clouds).certify(clouds)
        yield Case(f"clouds, {linkage}", found, {"cut_stable": True, "distances_kept": True}, easy=("cut_stable",))  # fmt: skip
    by_lot = AgglomerativeClustering(k, linkage="average").fit(clouds)
    by_lot.children_ = merge_first((0, 1), n, rng)
    yield Case("merged by lot", by_lot.certify(clouds), {"distances_kept": False}, easy=("distances_kept",))  # fmt: skip
    noise = rng.uniform(size=(n, 6))
    found = AgglomerativeClustering(8).fit(noise).certify(noise)
    yield Case("one cloud in eight", found, {"cut_stable": False}, easy=("cut_stable",))
