"""The true neighbours of some rows, by brute force in float64, with which the claims compare those of a model.

Distances come from SciPy's cdist, block by block, differences first, so nothing cancels. The queries are
m rows of the data, all of them where there are no more; the same ones for the same data.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from lemmata.audit.kernel.claims import CannotTell, Fit, fact
from lemmata.audit.predict.rows import dense

Array = np.ndarray
QUERIES = 300  # rows whose neighbours are looked for
# where the budget is small: so many right answers show that 95 % are right, with 95 % confidence
FEWEST = 60
# neighbours that the estimate of a dimension needs, the row itself and a last one included
LEAST = 22
PIECE = 2**22  # numbers of sparse rows made dense at a time

# scikit-learn's other names of SciPy's metrics
NAMES = {"manhattan": "cityblock", "l1": "cityblock", "l2": "euclidean"}
NAMES |= {"p": "minkowski", "infinity": "chebyshev"}
# metrics that a factor common to all numbers multiplies
LENGTHS = ("euclidean", "cityblock", "chebyshev", "minkowski")
KNOWN = (*LENGTHS, "cosine", "correlation", "canberra", "braycurtis", "sqeuclidean", "hamming")


@dataclass(frozen=True)
class Neighbourhoods:
    """Queries and their nearest rows, the row itself among them, in the order of (distance, number)."""

    numbers: Array  # (m,) which rows
    queries: Any  # (m, d) these rows
    distances: Array  # (m, c), in units of `scale`
    rows: Array  # (m, c)
    scale: float  # what the data was divided by
    sizes: Array  # (m,) largest ‖q‖² + ‖x‖², in units of scale²: expanded squares lose digits of it
    apart: float  # the mean distance of two queries
    complete: bool  # whether every row of the data is a query
    angles: bool  # whether distances are those of directions, which err by eps themselves

    @property
    def blur(self) -> Array:
        """The error of squares of distances where they were expanded, ‖q‖² − 2qᵀx + ‖x‖² or 1 − cos, (m,)."""
        # scikit-learn makes directions of float32 rows in float32, and everything else in float64
        precision = self.queries.dtype if self.angles else np.float64
        each = 8 * np.sqrt(self.queries.shape[1]) * np.finfo(precision).eps
        last = self.distances[:, -1]
        sizes = 2 * last + each if self.angles else self.sizes
        return each * sizes + 1e-12 * last**2


def metric_of(fit: Fit) -> tuple[str, dict[str, Any]] | None:
    """SciPy's name of the fit's metric, and its parameters; None where it has none."""
    metric = fit.get("effective_metric_", "euclidean")
    given = dict(fit.get("effective_metric_params_") or {})
    parameters = {name: value for name, value in given.items() if value is not None}
    if metric == "precomputed":
        return metric, {}
    if not isinstance(metric, str):
        return None
    name = NAMES.get(metric, metric)
    return (name, parameters) if name in KNOWN and set(parameters) <= {"p", "w"} else None


def cost_of_asking(fit: Fit, queries: int = FEWEST) -> float:
    n = fit.data.shape[0]
    return min(n, queries) * (0.6 * fit.data.size + 20.0 * n)  # 20: to order them


@fact(cost=cost_of_asking)
def ask(fit: Fit) -> Neighbourhoods:
    """Draw a sample of queries and find their true neighbours. Raises CannotTell."""
    if (found := metric_of(fit)) is None:
        raise CannotTell("the metric is a function, or has parameters, unknown to these checks")
    metric, parameters = found
    n = fit.data.shape[0]
    m = min(n, FEWEST if cost_of_asking(fit, QUERIES) > fit.work / 8 else QUERIES)
    numbers = np.sort(np.random.default_rng(n).choice(n, m, replace=False))
    queries = take(fit, numbers)
    scale = _scale(fit) if metric in LENGTHS else 1.0
    near = dense(queries) / scale
    # the k of the fit, the row itself and one more, to see ties; or enough for a dimension
    count = min(max(int(fit.get("n_neighbors", 1)) + 2, LEAST), n)
    distances, rows = np.full((m, 0), np.inf), np.zeros((m, 0), np.int64)
    largest, start = 0.0, 0
    for block in pieces(fit):
        if metric == "precomputed":  # row q of the data holds the distances of q to all rows
            D = near[:, start : start + len(block)]
        else:
            D = cdist(near, block / scale, metric, **parameters)
        largest = max(largest, float(np.einsum("ij,ij->i", block / scale, block / scale).max()))
        here = np.broadcast_to(np.arange(start, start + len(block)), D.shape)
        distances, rows = (
            (D, here) if not start else (np.hstack([distances, D]), np.hstack([rows, here]))
        )
        order = first_in_order(distances, min(count, distances.shape[1]))
        distances, rows = (np.take_along_axis(part, order, axis=1) for part in (distances, rows))
        start += len(block)
    if metric == "precomputed":
        pairs = near[:, numbers]
    else:  # of all rows, in one piece, they are known
        pairs = D if D.shape == (m, m) == (n, n) else cdist(near, near, metric, **parameters)
    apart = float(pairs.sum() - pairs.trace()) / (m * (m - 1)) if m > 1 else 0.0
    sizes = np.einsum("ij,ij->i", near, near) + largest
    angles = metric in ("cosine", "correlation")
    return Neighbourhoods(numbers, queries, distances, rows, scale, sizes, apart, m == n, angles)


def first_in_order(numbers: Array, count: int) -> Array:
    """The places of the least numbers of each row, (m, count), the first of equal ones first."""
    # not above the last of them, and NaN, which a sort puts at the end
    rows, places = np.nonzero(~(numbers > np.partition(numbers, count - 1)[:, [count - 1]]))
    ordered = places[np.lexsort((numbers[rows, places], rows))]
    return ordered[np.searchsorted(rows, np.arange(len(numbers)))[:, None] + np.arange(count)]


def distances_to(fit: Fit, asked: Neighbourhoods, rows: Array) -> Array:
    """The true distance of each query to each of the rows named for it, (m, k), in units of `scale`.

    Most are among those that brute force listed; of ties beyond the list the distance is measured.
    """
    same = rows[:, :, None] == asked.rows[:, None, :]
    found = np.where(same, asked.distances[:, None, :], np.inf).min(axis=2, initial=np.inf)
    metric, parameters = metric_of(fit) or ("", {})
    near = dense(asked.queries) / asked.scale
    for i in np.flatnonzero(~same.any(axis=2).all(axis=1)):
        if metric == "precomputed":
            found[i] = near[i, rows[i]]
        else:
            others, places = np.unique(rows[i], return_inverse=True)
            there = dense(take(fit, others)) / asked.scale
            found[i] = cdist(near[i : i + 1], there, metric, **parameters)[0][places]
    return found


def answer(method: Any, *arguments: Any) -> Any:
    """Return what a method of a model answers, without scikit-learn's warning that features have no names here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return method(*arguments)


def pieces(fit: Fit):
    """The rows of the data as dense float64, a piece at a time."""
    step = max(1, PIECE // fit.data.shape[1])
    for block, _ in fit.data:
        for start in range(0, block.shape[0], step):
            yield dense(block[start : start + step])


def take(fit: Fit, numbers: Array) -> Any:
    """Some rows as the model takes them: sparse if the data is."""
    parts, start = [], 0
    for block, _ in fit.data:
        here = numbers[(numbers >= start) & (numbers < start + block.shape[0])] - start
        if len(here):
            parts.append(block[here])
        start += block.shape[0]
    if len(parts) == 1:
        return parts[0]
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def _scale(fit: Fit) -> float:
    """A power of two near the largest number, so that squares are floats."""
    largest = max((float(np.abs(block).max(initial=0.0)) for block in pieces(fit)), default=0.0)
    return float(2.0 ** np.clip(np.frexp(largest)[1], -1000, 1000)) if largest > 0 else 1.0
