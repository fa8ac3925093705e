"""The gap between given centres and the best ones: lower bounds on the k-means optimum, without a model.

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

from lemmata.audit.clustering.kmeans_bounds import DENSE, ENOUGH, FORMED, WORK, Gap, gap_of
from lemmata.audit.clustering.nearest_centres import Partition
from lemmata.clustering import witness
from lemmata.core.blocks import Blocks, open_rows

Array = np.ndarray


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
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} is not between 0 and 1.")
    data, centers = _open(data, centers, weights)
    rng = np.random.default_rng(0) if rng is None else rng
    k = len(centers) if k is None else k
    found = Partition.of(data, centers)
    around = found if guide is None else Partition.of(data, guide, found.frame)
    work = WORK if work is None else work
    return gap_of(data, found, around, k, rng, confidence, enough, work, _search)
