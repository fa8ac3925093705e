"""Agglomerative clustering: begin with every row by itself, and merge the two closest clusters until one is left.

What "close" means is the linkage: the closest rows of two clusters (single), the farthest (complete), the mean of all distances
(average), or how much the merge adds to the cost of k-means (ward; the distance is the root of twice that). SciPy builds the
tree in O(n²) time and memory; here stand the cut, the drawing and what is claimed of it.

    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> model = AgglomerativeClustering(3, linkage="average").fit(X)
    >>> np.bincount(model.labels_)
    array([50, 64, 36])
    >>> model.certificate_["merges_closest"].verdict
    'holds'
    >>> drawing = model.plot()
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import pdist, squareform
from sklearn.base import ClusterMixin

from lemmata.audit.clustering.trees import SINGLE_CLAIMS, TREE_CLAIMS
from lemmata.core.blocks import Blocks, all_rows
from lemmata.core.certification import pictures
from lemmata.core.certification.reduction_costs import cost_of_tree
from lemmata.core.estimator import Model
from lemmata.core.loop import Never, Stopped
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, choice, parameter
from lemmata.core.runs.trace import Trace
from lemmata.core.store import storable

Array = np.ndarray
LINKAGES = ("ward", "complete", "average", "single")
METRICS = (
    "euclidean",
    "l2",
    "manhattan",
    "l1",
    "cityblock",
    "cosine",
    "correlation",
    "chebyshev",
    "canberra",
    "braycurtis",
    "sqeuclidean",
    "hamming",
    "jaccard",
    "precomputed",
)
NAMES = {"manhattan": "cityblock", "l1": "cityblock", "l2": "euclidean"}  # SciPy's
MOST_ROWS = 60_000  # 14 GB of distances
SHOWN = 30  # clusters at the bottom of a drawing
COLOURS = (
    pictures.BLUE, pictures.ORANGE, pictures.GREEN, pictures.PURPLE, pictures.SKY, pictures.RED,
)  # fmt: skip


@storable
@dataclass(frozen=True)
class TreeState:
    """The merges and their heights, once they are known."""

    version = 1
    layout: ClassVar = {"children": "m 2 int >=0", "heights": "m >=0"}

    children: Array
    heights: Array


@dataclass(frozen=True)
class TreeAlgorithm:
    """One step: SciPy's nearest-neighbour chains, or a minimum spanning tree for single linkage."""

    linkage: str
    draws: ClassVar[bool] = False

    def init(self, distances: Array, rng: Any) -> TreeState:
        return TreeState(np.zeros((0, 2), np.int64), np.zeros(0))

    def step(self, state: TreeState, distances: Array) -> TreeState:
        Z = hierarchy.linkage(distances, self.linkage)
        return TreeState(Z[:, :2].astype(np.int64), Z[:, 2].copy())

    def objective(self, state: TreeState) -> float:
        return 0.0  # nothing is minimised but at each merge

    def attributes(self, state: TreeState) -> dict[str, Any]:
        return {"children_": state.children, "distances_": state.heights}

    def finished(self, state: TreeState) -> bool:
        return len(state.children) > 0


class AgglomerativeClustering(ClusterMixin, Model):
    """Hierarchical clustering: the two closest clusters are merged, again and again.

    Attributes
    ----------
    labels_ : (n,) int
        The cluster of every row; clusters are numbered by their first rows.
    n_clusters_ : int
    children_ : (n − 1, 2) int
        The two clusters of each merge, the closest first. Numbers below n are rows, n + t is the cluster that merge t made.
    distances_ : (n − 1,)
        How far from each other they were, rising.
    n_leaves_, n_connected_components_ : int
        The number of rows; 1.
    certificate_, trace_, stopped_, n_iter_

    Notes
    -----
    Needs 8n² bytes: 10,000 rows 800 MB. The merges are checked in `fit` up to some 800 rows, and by `certify` up to 5,000.
    """

    n_clusters: Any = parameter(2, COUNT, None).doc("""
        The number of clusters; None with a `distance_threshold`.""")
    _: KW_ONLY
    metric: Any = parameter("euclidean", choice(*METRICS), callable).doc("""
        The distance of two rows; ward needs "euclidean". "precomputed": X is the matrix of
        distances. A function of two rows is called for every pair.""")
    compute_full_tree: Any = parameter("auto", choice("auto"), "boolean").doc(
        "Has no effect: the tree is whole."
    )
    linkage: str = parameter("ward", choice(*LINKAGES)).doc("""
        The distance of two clusters: the root of twice what merging adds to the cost of k-means
        ("ward"), the largest ("complete"), mean ("average") or least ("single") distance of their
        rows.""")
    distance_threshold: Any = parameter(None, NONNEGATIVE, None).doc("""
        The height of the cut instead of a number of clusters: merges at that distance or more are
        undone.""")
    compute_distances: bool = parameter(False, "boolean").doc(
        "Has no effect: distances_ are known."
    )

    verbose, checkpoint, time_limit, random_state = 0, None, None, 0
    min_samples = 2
    claims = TREE_CLAIMS
    work = staticmethod(cost_of_tree)
    stored: ClassVar[Mapping[str, str | type]] = {
        "children_ labels_ distances_ n_clusters_ n_leaves_": "audited",
        "n_connected_components_": "int >=1",
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.metric, str) and self.metric == "precomputed"
        return tags

    @classmethod
    def from_linkage(cls, Z, linkage: str, metric: Any = "euclidean", n_clusters: int = 2):
        """Take over a tree that SciPy (or fastcluster) built, to certify, cut and draw it.

        Z : (n − 1, 4), what scipy.cluster.hierarchy.linkage returned, by the same linkage and metric
        """
        Z = np.asarray(Z, dtype=np.float64)
        hierarchy.is_valid_linkage(Z, throw=True)
        model = cls(n_clusters, linkage=linkage, metric=metric)
        model._validate_params()
        for name, value in model._describe_tree(Z[:, :2].astype(np.int64), Z[:, 2]).items():
            setattr(model, name, value)
        model.trace_, model.stopped_, model.n_iter_ = Trace(), Stopped.FINISHED, 1
        return model

    # --- fitting ---

    def fit(self, X, y=None):  # type: ignore[override]
        """Build the tree of the rows of X, cut it, and check the claims about it; y is ignored.

        X : (n, d), or with metric="precomputed" the distances (n, n)
        """
        return super().fit(X)

    def _algorithm(self, data: Blocks) -> TreeAlgorithm:
        n, clusters = data.shape[0], self.n_clusters
        if (clusters is None) == (self.distance_threshold is None):
            raise ValueError(
                f"Exactly one of n_clusters and distance_threshold has to be set, and the other needs to be None; found "
                f"n_clusters={clusters} and distance_threshold={self.distance_threshold}."
            )
        if clusters is not None and clusters > n:
            raise ValueError(
                f"n_clusters={clusters}, but there are {n} rows; pass n_clusters <= {n}."
            )
        if self.linkage == "ward" and self.metric not in ("euclidean", "l2"):
            raise ValueError(
                f"metric={self.metric!r} was provided as metric. Ward can only work with euclidean distances: pass "
                'linkage="average" or "complete", or metric="euclidean".'
            )
        if n > MOST_ROWS:
            raise ValueError(
                f"{n:,} rows have {4 * n**2 / 1e9:.0f} GB of distances; pass {MOST_ROWS:,} rows at most: a part of "
                "them, or the centres of KMeans."
            )
        return TreeAlgorithm(self.linkage)

    def _problem(self, data: Blocks) -> Array:
        known = pair_distances(all_rows(data), self.metric)
        if not np.isfinite(
            known.max(initial=0.0)
        ):  # NaN, too; a table of booleans takes ten times as long
            raise ValueError(
                f"metric={self.metric!r} gives distances that are not finite: a row of zeros has no direction, and "
                "numbers beyond 1e150 no squares. Leave such rows out, or use another metric."
            )
        return known

    def _validate_rows(self, X, sample_weight=None, reset=True, min_samples=None) -> Blocks:
        first = reset or not hasattr(self, "n_features_in_")  # a tree of SciPy's knows no rows
        data = super()._validate_rows(X, sample_weight, first, min_samples)
        if self.__sklearn_tags__().input_tags.pairwise:
            _refuse_no_distances(all_rows(data))
        return data

    def _attributes(self, solution: Any, problem: Array) -> dict[str, Any]:
        found = solution.attributes
        return self._describe_tree(found["children_"], found["distances_"])

    def _describe_tree(self, children: Array, heights: Array) -> dict[str, Any]:
        n = len(children) + 1
        clusters = self.n_clusters
        if clusters is None:
            clusters = int(np.count_nonzero(heights >= self.distance_threshold)) + 1
        return {
            "children_": children,
            "distances_": heights,
            "labels_": cut_tree(children, clusters),
            "n_clusters_": int(clusters),
            "n_leaves_": n,
            "n_connected_components_": 1,
        }

    def _stop(self) -> Never:
        return Never()

    def _wants_to_settle(self) -> bool:
        return False

    def _claims(self):
        return SINGLE_CLAIMS if self.linkage == "single" else self.claims

    def _title(self, data: Blocks | None) -> str:
        return f"AgglomerativeClustering  {self.n_leaves_:,} rows, {self.linkage} linkage, {self.n_clusters_} clusters"

    # --- using it ---

    @property
    def linkage_matrix_(self) -> Array:
        """The tree as scipy.cluster.hierarchy has it, (n − 1, 4): two clusters, their distance, rows of the merged one."""
        n, sizes = self.n_leaves_, np.ones(2 * self.n_leaves_ - 1)
        for t, pair in enumerate(self.children_):
            sizes[n + t] = sizes[pair].sum()
        return np.column_stack([self.children_, self.distances_, sizes[n:]]).astype(np.float64)

    def cut(self, n_clusters: int) -> Array:
        """The labels of another cut of the same tree."""
        if not 1 <= n_clusters <= self.n_leaves_:
            raise ValueError(
                f"n_clusters={n_clusters}; pass a number from 1 to {self.n_leaves_:,}."
            )
        return cut_tree(self.children_, n_clusters)

    def plot(self, labels=None, most: int = SHOWN):
        """Draw the dendrogram, the clusters of the cut in colours, and return the figure.

        labels : names of the rows, shown where all of them are
        most : clusters at the bottom; larger trees begin there, with the number of rows in brackets
        """
        drawing, ax = pictures.figure(size=(7.0, 3.6))
        Z, n, clusters, whole = (
            self.linkage_matrix_,
            self.n_leaves_,
            self.n_clusters_,
            self.n_leaves_ <= most,
        )
        undone = n - clusters  # the first merge that is not made
        cut = 0.5 * (Z[undone - 1, 2] + Z[undone, 2]) if 1 <= undone < n - 1 else 0.0
        hierarchy.set_link_color_palette(list(COLOURS))
        try:
            hierarchy.dendrogram(
                Z,
                ax=ax,
                p=max(most, clusters),
                truncate_mode=None if whole else "lastp",
                labels=labels if whole else None,
                leaf_rotation=90 if whole and labels is not None else 0,
                leaf_font_size=7,
                color_threshold=cut,
                above_threshold_color=pictures.GREY,
            )
        finally:
            hierarchy.set_link_color_palette(None)
        if cut > 0:
            ax.axhline(cut, color=pictures.GREY, linewidth=0.8, linestyle="--")
            place = {"xy": (1.0, cut), "xycoords": ("axes fraction", "data"), "va": "bottom"}
            ax.annotate(f"{clusters} clusters", **place, ha="right", fontsize=8)
        ax.set_ylabel(f"distance of the merged clusters ({self.linkage})")
        ax.set_xlabel("rows" if whole else "rows, or their number in (…)")
        return drawing


def pair_distances(X: Any, metric: Any) -> Array:
    """Return the distances of all pairs of rows in SciPy's order, or those in a matrix of distances."""
    if not isinstance(metric, str):
        return pdist(X, metric)
    if metric == "precomputed":
        return squareform(X, checks=False)
    return pdist(X, NAMES.get(metric, metric))


def cut_tree(children: Array, clusters: int) -> Array:
    """Return labels after all merges but the last few, clusters numbered by their first rows."""
    n = len(children) + 1
    top = np.arange(2 * n - 1)
    for t in range(n - clusters - 1, -1, -1):  # down from the last merge that is made
        top[children[t]] = top[n + t]
    _, first, labels = np.unique(top[:n], return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[labels]


def _refuse_no_distances(D: Array) -> None:
    """Refuse a precomputed matrix that is not square, symmetric and zero on its diagonal."""
    if D.shape[0] != D.shape[1]:
        raise ValueError(
            f"Precomputed distances must be a square matrix; this has shape {D.shape}."
        )
    largest = float(np.abs(D).max(initial=0.0))
    apart, diagonal = float(np.abs(D - D.T).max()), float(np.abs(np.diagonal(D)).max())
    if (D < 0).any() or max(apart, diagonal) > 1e-6 * largest:
        raise ValueError(
            f"metric='precomputed' takes distances >= 0, symmetric (they differ by up to {apart:.2g}) and 0 on the diagonal "
            f"(up to {diagonal:.2g}); pass such a matrix, or rows and another metric."
        )
