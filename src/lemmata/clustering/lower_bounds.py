"""Lower bounds on the k-means optimum as functions of data and centres: how far from the best are these?

The bounds are those of the trusted base (`audit/clustering/kmeans_bounds.py`), the searches those of `witness.py`.

    >>> rng = np.random.default_rng(0)
    >>> centers = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]])
    >>> X = np.repeat(centers, 500, axis=0) + rng.standard_normal((2000, 2))
    >>> gap = certified_gap(X, centers, rng=rng)
    >>> gap.bound, gap.confidence, gap.gap < 0.01                          # k > d: the spectral bound would be 0
    ('separation', 1.0, True)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array

from lemmata.audit.clustering.kmeans_bounds import (
    DENSE,
    ENOUGH,
    FORMED,
    WORK,
    Gap,
    gap_of,
    moments_of,
    monte_carlo_bound,
    spectral_bound,
)
from lemmata.audit.clustering.nearest_centres import Frame, Partition
from lemmata.audit.clustering.separation_bound import separation_bound
from lemmata.clustering import witness
from lemmata.core.blocks import Blocks, open_rows

Array = np.ndarray
SOME_STEPS = 8  # on each subset, if their number is given


def _search(name: str, *arguments: Any) -> Any:
    return getattr(witness, name)(None, *arguments)


def _open(data: Any, centers: Any, weights: Any) -> tuple[Blocks, Array]:
    """Rows and centres that belong together, checked."""
    data = open_rows(data, weights)
    centers = check_array(centers, dtype=[np.float64, np.float32], input_name="centers")
    if centers.shape[1] != data.shape[1]:
        raise ValueError(
            f"centres of {centers.shape[1]} features for data of {data.shape[1]}; pass centres of this data."
        )
    if data.sparse and data.shape[0] <= DENSE and data.shape[1] <= FORMED:
        # as small as the bound that is taken here
        data = Blocks.of(data.source.toarray(), data.weights)
    return data, centers


def certified_gap(
    data: Any,
    centers: Any,
    k: int | None = None,
    rng: np.random.Generator | None = None,
    confidence: float = 0.99,
    weights: Array | None = None,
    guide: Any = None,
    enough: float = ENOUGH,
    work: float | None = None,
) -> Gap:
    """Return the smallest g for which cost(centres) ≤ (1 + g)·optimum can be proved with so much work.

    guide : other centres to build the bounds from, where those to be judged are poor
    enough : a gap at which to stop looking
    work : multiplications, about 1e9 a second; by default 8e9. What costs more is left out: the gap is then larger.
    """
    data, centers = _open(data, centers, weights)
    rng = np.random.default_rng(0) if rng is None else rng
    k = len(centers) if k is None else k
    found = Partition.of(data, centers)
    around = found if guide is None else Partition.of(data, guide, found.frame)
    work = WORK if work is None else work
    return gap_of(data, found, around, k, rng, confidence, enough, work, _search)


def spectral_lower_bound(data: Any, k: int, weights: Array | None = None) -> float:
    """Return tr S − Σ_{i<k} λ_i(S), S the scatter of the centred rows; 0 once k > d."""
    data = open_rows(data, weights)
    if not k <= data.shape[1] <= FORMED:
        return 0.0
    frame = Frame.of(data)
    return frame.cost_outside(spectral_bound(moments_of(data, frame), k))


def separation_lower_bound(data: Any, centers: Any, weights: Array | None = None) -> float:
    """Return what centres that lie far apart prove about the optimum for as many clusters.

    0 beyond 4096 features, where the scatter matrix would not be formed.
    """
    data, centers = _open(data, centers, weights)
    if data.shape[1] > FORMED:
        return 0.0
    found = Partition.of(data, centers)
    return found.frame.cost_outside(separation_bound(data, found, moments_of(data, found.frame)))


def monte_carlo_lower_bound(
    data: Any,
    k: int,
    rng: np.random.Generator,
    confidence: float = 0.99,
    subsets: int | None = None,
    size: int | None = None,
    centers: Any = None,
    weights: Array | None = None,
    work: float | None = None,
) -> float:
    """Return a number that exceeds the k-means optimum with probability at most 1 − confidence, over the draw of the subsets.

    centers : where the clusters of a subset are looked for first; any choice is valid, good ones give tight bounds.
    subsets, size : m and s; if not given, what pays best for so much work is found on a few pilot subsets.
    work : multiplications that all subsets together may take, about 1e9 a second
    """
    data, centers = (
        (open_rows(data, weights), None) if centers is None else _open(data, centers, weights)
    )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} is not between 0 and 1.")
    frame, alpha = Frame.of(data, centers), 1 - confidence
    start = None if centers is None else frame.inside(centers)
    work = WORK if work is None else work

    def plan(draw: Any) -> tuple[int, int, int] | None:
        if subsets is not None:
            return size or witness.LARGEST, subsets, SOME_STEPS
        return witness.subset_plan(None, draw, k, start, alpha, np.inf, work, size)

    return frame.cost_outside(monte_carlo_bound(data, frame, k, rng, alpha, start, _search, plan))


def dual_bounds(
    X: Any, k: int, labels: Any, weights: Array | None = None, steps: int = 0
) -> list[float]:
    """Return lower bounds on the cost of every partition of a few rows into k clusters: of the closed form, and step by step.

    labels : a clustering of the rows, the better the tighter; steps : supergradient steps where the closed form is loose
    """
    w = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=np.float64)
    X, labels, w = np.asarray(X, dtype=np.float64)[w > 0], np.asarray(labels)[w > 0], w[w > 0]
    return witness.ascend(witness.WeakDual(X, w, k), labels, steps) if len(X) > k else [0.0]
