"""Claims about trees of merged clusters: each merge is replayed on the distances of the rows.

A tree begins with n clusters of one row and merges two of them n − 1 times, the closest first. What "close" means is the
linkage: how far cluster k is from the union of i and j follows from three known distances (Lance & Williams),

    single     min(d_ik, d_jk)
    complete   max(d_ik, d_jk)
    average    (n_i d_ik + n_j d_jk) / (n_i + n_j)
    ward       √(((n_i + n_k) d²_ik + (n_j + n_k) d²_jk − n_k d²_ij) / (n_i + n_j + n_k))

so that all distances at every merge are known from those of the rows, in n² numbers. The audit makes the merges that the tree
names, whoever built it, and looks whether two other clusters were closer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import cophenet, fcluster
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics import adjusted_rand_score

from lemmata.audit.kernel import attributes
from lemmata.audit.kernel import claims as k

Array = np.ndarray
SOURCE = 'ML "Examples for Representation Learning"'
MOST_ROWS = 5_000  # 200 MB of distances
REPLAY = 60.0  # multiplications per pair of rows
HALVES, CUTS, STABLE = 8, 10, 0.8  # parts of the rows, clusters that are tried, Rand's index
LARGEST_HALF, FEWEST = 1_000, 20
FOLLOWED = 0.5  # correlation of distances in the tree and of the rows
NAMES = {"manhattan": "cityblock", "l1": "cityblock", "l2": "euclidean"}  # SciPy's words


# --- distances --------------------------------------------------------------------------------------------------------


def distances_of(X: Any, metric: Any) -> Array:
    """Return the distances of all pairs of rows as SciPy orders them, n(n − 1)/2; X itself if it is a matrix of distances."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    if isinstance(metric, str) and metric == "precomputed":
        return squareform(X, checks=False)
    return pdist(X, NAMES.get(metric, metric) if isinstance(metric, str) else metric)


def merge_distances(linkage: str, sizes: tuple[Array, float, float], d_ik, d_jk, d_ij):
    """Return how far each cluster k is from the union of i and j; sizes are those of k, i and j."""
    n_k, n_i, n_j = sizes
    if linkage == "single":
        return np.minimum(d_ik, d_jk)
    if linkage == "complete":
        return np.maximum(d_ik, d_jk)
    if linkage == "average":
        return (n_i * d_ik + n_j * d_jk) / (n_i + n_j)
    squares = (n_i + n_k) * d_ik**2 + (n_j + n_k) * d_jk**2 - n_k * d_ij**2
    return np.sqrt(np.maximum(squares, 0.0) / (n_i + n_j + n_k))


# --- the merges -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replay:
    """The merges of a tree, made again on the distances of the rows."""

    distances: Array  # n(n − 1)/2, of pairs of rows
    children: Array  # (n − 1, 2)
    heights: Array  # (n − 1,) how far the two clusters of each merge were from each other
    least: Array  # (n − 1,) the least distance of any two clusters at that time
    sizes: Array  # (n − 1,) rows of each merged cluster

    @property
    def n(self) -> int:
        return len(self.children) + 1

    @cached_property
    def scale(self) -> float:
        return float(max(self.distances.max(initial=0.0), self.heights.max(initial=0.0))) or 1.0

    @property
    def tolerance(self) -> float:
        """The rounding of a square of a distance, as a share of the largest square: n updates, each of a few products."""
        return k.rounding(np.float64, self.n)


def is_tree(children: Array, n: int) -> bool:
    """Return whether each merge joins two clusters that are there, and each cluster but the last is merged once."""
    if children.shape != (n - 1, 2) or (children < 0).any():
        return False
    there = n + np.arange(n - 1)
    return bool((children < there[:, None]).all() and len(np.unique(children)) == children.size)


@k.fact(cost=lambda fit: REPLAY * fit.data.shape[0] ** 2)
def replay(fit: k.Fit) -> Replay:
    n, children = fit.data.shape[0], np.asarray(fit.children_).astype(np.int64)
    if fit.get("connectivity") is not None:
        raise k.CannotTell("only clusters that a given graph connects could be merged")
    if n > MOST_ROWS:
        raise k.CannotTell(
            f"{n:,} rows have too many distances to be replayed; certify some {MOST_ROWS:,}"
        )
    if not is_tree(children, n):
        raise k.CannotTell("children_ is no tree over these rows")
    X = _rows(fit)
    known = distances_of(X, fit.metric)
    return make_merges(known, children, fit.linkage)


def _rows(fit: k.Fit) -> Any:
    parts = [rows.toarray() if sp.issparse(rows) else rows for rows, _ in fit.data]
    return np.concatenate(parts)


def make_merges(distances: Array, children: Array, linkage: str) -> Replay:
    """Merge as the tree says. `nearest` bounds each row from below, and is looked up where it matters."""
    D = squareform(distances)
    np.fill_diagonal(D, np.inf)
    n, nearest = len(D), D.min(axis=1)
    place, size = np.arange(2 * n - 1), np.ones(n)
    heights, least, sizes = np.empty(n - 1), np.empty(n - 1), np.empty(n - 1)
    for t, (one, other) in enumerate(children.tolist()):
        i, j = place[one], place[other]
        heights[t] = D[i, j]
        least[t] = _least(D, nearest, heights[t])
        merged = merge_distances(linkage, (size, size[i], size[j]), D[i], D[j], D[i, j])
        merged[i] = merged[j] = np.inf
        D[i] = D[:, i] = merged
        D[:, j] = nearest[j] = np.inf
        np.minimum(nearest, merged, out=nearest)
        nearest[i] = merged.min()
        size[i] += size[j]
        sizes[t], place[n + t] = size[i], i
    return Replay(distances, children, heights, least, sizes)


def _least(D: Array, nearest: Array, known: float) -> float:
    """Return the least distance of two clusters, one of which is `known`."""
    while nearest[row := nearest.argmin()] < known:
        true = D[row].min()
        if true <= nearest[row]:
            return float(true)
        nearest[row] = true
    return known


def cut(children: Array, clusters: int) -> Array:
    """Return the labels after all merges but the last few, by SciPy, which cuts where a height is passed."""
    n = len(children) + 1
    Z = np.column_stack([children, np.arange(n - 1), np.full(n - 1, 2)]).astype(np.float64)
    return fcluster(Z, n - clusters - 0.5, "distance") - 1


# --- claims -----------------------------------------------------------------------------------------------------------

SOUND = attributes.attributes_sound(
    {
        "children_": "m 2 int >=0",
        "labels_": "n int >=0",
        "distances_?": "m >=0",
        "n_clusters_": "int >=1",
        "n_leaves_?": "int >=1",
    }
)


def _errors(fit: k.Fit) -> dict[str, float | None]:
    n, children = fit.data.shape[0], np.asarray(fit.children_).astype(np.int64)
    if fit.get("connectivity") is None and not is_tree(children, n):
        return {"children_": np.inf}
    errors: dict[str, float | None] = {}
    clusters, labels = int(fit.n_clusters_), np.asarray(fit.labels_)
    if len(children) == n - 1:
        same = len(labels) == n >= clusters and _same_parts(labels, cut(children, clusters))
        errors["labels_"] = 0.0 if same else np.inf
    errors["n_clusters_"] = 0.0 if len(np.unique(labels)) == clusters else np.inf
    errors["n_leaves_"] = 0.0 if fit.get("n_leaves_", n) == n else np.inf
    heights = fit.get("distances_")
    if heights is not None and fit.get("connectivity") is None and n <= MOST_ROWS:
        found = replay(fit)
        squares = np.square(np.asarray(heights, np.float64) / found.scale)
        true = np.square(found.heights / found.scale)
        errors["distances_"] = attributes.discrepancy(squares, true, 1.0, found.tolerance)
    return errors


def _same_parts(one: Array, other: Array) -> bool:
    """Return whether two labellings part the rows in the same way, and both count from 0."""
    if set(one.tolist()) != set(other.tolist()):
        return False
    return np.unique(np.stack([one, other]), axis=1).shape[1] == other.max() + 1


TRUE = attributes.statements_true(_errors, needs=(replay,), unchecked="n_connected_components_")


@k.proved(
    "each merge joins the two clusters that are closest at that time", SOURCE, needs=(replay,)
)
def merges_closest(fit):
    """In squares, as a share of the largest: of two distances that differ by less than rounding either may come first."""
    found = replay(fit)
    excess = (found.heights**2 - found.least**2) / found.scale**2
    worst = int(excess.argmax())
    advice = f"merge {worst + 1} passes over closer clusters: is this the linkage and the metric of the tree?"
    bound = found.tolerance
    return k.at_most(
        max(float(excess[worst]), 0.0), bound, advice, unit="excess of a squared distance"
    )


@k.proved("no merge is lower than the merges it is made of", SOURCE, needs=(replay,))
def heights_rise(fit):
    """True of these four linkages where the closest are merged; centroid and median linkage have inversions."""
    found = replay(fit)
    below = np.concatenate([np.zeros(found.n), found.heights])[found.children].max(axis=1)
    fall = float(np.max(below**2 - found.heights**2, initial=0.0)) / found.scale**2
    return k.at_most(fall, found.tolerance, "cut by number, not by height", unit="fall of a square")


@k.proved("its heights are the edges of a minimum spanning tree", SOURCE, needs=(replay,))
def heights_span(fit):
    """Single linkage is Kruskal's algorithm; here the tree is grown from one row, by Prim's."""
    found = replay(fit)
    D = squareform(found.distances)
    edges, reach = np.empty(found.n - 1), D[0].copy()
    outside = np.ones(found.n, bool)
    outside[0] = False
    for t in range(found.n - 1):
        row = int(np.where(outside, reach, np.inf).argmin())
        edges[t], outside[row] = reach[row], False
        np.minimum(reach, D[row], out=reach)
    apart = float(np.abs(np.sort(edges) - np.sort(found.heights)).max(initial=0.0)) / found.scale
    return k.at_most(
        apart, found.tolerance, "this is no tree of single linkage", unit="difference of an edge"
    )


def _cost_of_halves(fit: k.Fit) -> float:
    half = min(fit.data.shape[0] // 2, LARGEST_HALF)
    return HALVES * half**2 * (10.0 + fit.data.shape[1])


@k.rule_of_thumb(
    "trees of half of the rows give nearly the same clusters", SOURCE, cost=_cost_of_halves
)
def cut_stable(fit):
    """Rand's adjusted index of this cut and that of a half, in the mean; other cuts stand in the note.

    Clusters of noise change with the rows. Unstable ones need not be wrong, but the next sample will have others.
    """
    n, children, clusters = fit.data.shape[0], np.asarray(fit.children_), int(fit.n_clusters_)
    if n < FEWEST or len(children) != n - 1:
        return k.unknown(f"fewer than {FEWEST} rows" if n < FEWEST else "the tree is not whole")
    half = min(n // 2, LARGEST_HALF)
    if not 1 < clusters <= half // 2:
        return k.unknown(f"{clusters} clusters of {n} rows: halves have nothing to compare")
    X, rng = _rows(fit), np.random.default_rng(0)
    tried = sorted({clusters, *range(2, min(CUTS, half // 2) + 1)})
    agreement = np.zeros(len(tried))
    for _ in range(HALVES):
        some = np.sort(rng.choice(n, half, replace=False))
        part = X[np.ix_(some, some)] if fit.metric == "precomputed" else X[some]
        tree = fit.witness("merge_rows", part)
        if tree is None or not is_tree(np.asarray(tree), half):
            return k.unknown("no search looked for trees of parts")
        agreement += [adjusted_rand_score(cut(children, c)[some], cut(tree, c)) for c in tried]
    agreement /= HALVES
    best = tried[int(agreement.argmax())]
    note = f"most stable: {best} clusters, {agreement.max():.2f}"
    advice = f"these clusters depend on the rows that were drawn: try n_clusters={best}, or another linkage"
    return k.at_least(
        float(agreement[tried.index(clusters)]), STABLE, advice, "Rand's adjusted index", note
    )


@k.rule_of_thumb("distances in the tree follow those of the rows", SOURCE, needs=(replay,))
def distances_kept(fit):
    """The cophenetic correlation: two rows are as far apart in the tree as the merge that brings them together is high."""
    found = replay(fit)
    heights = np.maximum.accumulate(found.heights)  # rounding may turn two equal ones round
    Z = np.column_stack([found.children, heights, found.sizes]).astype(np.float64)
    pairs = np.stack([cophenet(Z), found.distances])
    if pairs.std(axis=1).min() <= found.tolerance * found.scale:
        return k.unknown("all rows are equally far apart")
    correlation = float(np.corrcoef(pairs)[0, 1])
    advice = "the tree shows another order than the distances do; average linkage follows them most"
    return k.at_least(correlation, FOLLOWED, advice, unit="cophenetic correlation")


TREE_CLAIMS = (SOUND, TRUE, merges_closest, heights_rise, cut_stable, distances_kept)
SINGLE_CLAIMS = (*TREE_CLAIMS[:4], heights_span, *TREE_CLAIMS[4:])


def tree_of(model: Any) -> dict[str, Any]:
    """scikit-learn's AgglomerativeClustering: single linkage has a claim of its own."""
    return {"claims": SINGLE_CLAIMS if model.linkage == "single" else TREE_CLAIMS}
