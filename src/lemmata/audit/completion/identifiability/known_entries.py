"""Claims about the places of the known entries: a question about a graph, not about values.

Rows and columns are the nodes, known entries the edges. A block without an edge to the others floats free (`components`); a row
with fewer than k edges has more unknowns than equations, and so may its neighbours without it (`core`). Counts are necessary
only: two blocks that share a single entry can have plenty of them. What decides is the Jacobian of (U, V) ↦ Π_Ω(UVᵀ): where its
rank is k(n + m − k), generic matrices of rank k are determined up to finitely many choices (generic_rank.py).

    >>> ring = Observed.of(np.where(np.eye(3, k=1) + np.eye(3) + np.eye(3, k=-2), 1.0, np.nan))
    >>> components(ring)[0], core_rank(ring), freedom(pattern(ring), 1).directions
    (1, 1, 0)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from lemmata.audit.completion.identifiability.generic_rank import determined, freedom
from lemmata.audit.kernel import claims
from lemmata.completion.observed import Observed

Array = np.ndarray
SEARCH = 2e8  # multiplications that deciding uniqueness takes unless there is more to spend
MOST = 0.5  # of predictions: then the typical one is determined by entries
SPARE = 4e9  # and at most where nobody set a limit: some seconds


# --- counting ---------------------------------------------------------------------------------------------------------


def degrees_of_freedom(n: int, m: int, k: int) -> int:
    """k(n + m − k), the dimension of the n × m matrices of rank k (CIL (2.43) for n = m)."""
    if not 0 <= k <= min(n, m):
        raise ValueError(f"k={k} is no rank of a {n} × {m} matrix; pass 0 ≤ k ≤ {min(n, m)}.")
    return k * (n + m - k)


def largest_rank(n: int, m: int, entries: int) -> int:
    """The largest k with k(n + m − k) ≤ entries: more cannot be determined, whatever the entries are."""
    if entries >= n * m:
        return min(n, m)
    s = n + m  # the smaller root of k² − sk + entries
    k = (s - math.isqrt(max(s * s - 4 * entries, 0))) // 2
    while k > 0 and k * (s - k) > entries:  # isqrt rounds down, so that k may be one too large
        k -= 1
    return min(k, n, m)


# --- the graph of the entries -----------------------------------------------------------------------------------------


def pattern(A: Observed) -> sp.csr_array:
    """A 1 for every known entry."""
    indptr, indices, _ = A.by_row
    return sp.csr_array((np.ones(len(indices), np.int8), indices, indptr), shape=A.shape)


def components(A: Observed) -> tuple[int, Array]:
    """The connected components that have entries: how many, and that of each row, then of each column (−1: no entries)."""
    (n, m), (indptr, indices, _) = A.shape, A.by_row
    pointers = np.r_[indptr, np.full(m, indptr[-1])]
    graph = sp.csr_array(
        (np.ones(len(indices), np.int8), indices.astype(np.int64) + n, pointers),
        shape=(n + m, n + m),
    )
    label = connected_components(graph, directed=False)[1]
    empty = np.r_[A.row_counts, A.column_counts] == 0
    found, label[~empty] = np.unique(label[~empty], return_inverse=True)
    label[empty] = -1
    return len(found), label


class Core(NamedTuple):
    """The rows and columns that are left when those with fewer than k entries are removed until there are none."""

    rows: Array  # (n,) bool
    columns: Array  # (m,) bool
    entries: int

    def determines(self, k: int) -> bool:
        """Whether something is left, with enough entries for its degrees of freedom: necessary for rank k anywhere."""
        n, m = int(self.rows.sum()), int(self.columns.sum())
        return min(n, m) >= k and self.entries >= k * (n + m - k)


def core(A: Observed, k: int, within: Core | None = None) -> Core:
    """The k-core: the largest block in which every row and column has k entries. `within` a larger core, for speed.

    A row that is removed takes its entries with it, so each entry is looked at once from either side.
    """
    keep, sides = [np.ones(size, bool) for size in A.shape], (A.by_row, A.by_column)
    counts = [A.row_counts.copy(), A.column_counts.copy()]

    def remove(side: int, gone: Array) -> None:
        keep[side][gone] = False
        seen = _neighbours(sides[side], gone)
        counts[1 - side] -= np.bincount(seen, minlength=A.shape[1 - side])

    if within is not None:
        remove(0, np.flatnonzero(~within.rows))
        remove(1, np.flatnonzero(~within.columns))
    while True:
        before = [int(part.sum()) for part in keep]
        for side in (0, 1):
            remove(side, np.flatnonzero(keep[side] & (counts[side] < k)))
        if before == [int(part.sum()) for part in keep]:
            return Core(keep[0], keep[1], int(counts[0][keep[0]].sum()))


def _neighbours(entries: Any, rows: Array) -> Array:
    """The columns of all entries in these rows."""
    starts, lengths = entries.indptr[rows], np.diff(entries.indptr)[rows]
    if not lengths.sum():
        return np.zeros(0, np.int64)
    first = np.repeat(starts - np.r_[0, np.cumsum(lengths)[:-1]], lengths)
    return entries.indices[first + np.arange(lengths.sum())]


def core_rank(A: Observed) -> int:
    """The largest k whose k-core has k(n′ + m′ − k) entries: what the densest block can determine, if not the whole.

    Putting back the rows that were removed last adds at least k − 1 entries and k − 1 unknowns each: if k will do, k − 1 will.
    """
    low, high = 0, min(_at_least_themselves(A.row_counts), _at_least_themselves(A.column_counts))
    inner: Core | None = None
    while low < high:
        k = (low + high + 1) // 2
        found = core(A, k, inner)
        if found.determines(k):
            low, inner = k, found
        else:
            high = k - 1
    return low


def _at_least_themselves(counts: Array) -> int:
    """The largest k such that k of the counts are at least k: no larger core has rows enough."""
    return int((np.sort(counts)[::-1] >= np.arange(1, len(counts) + 1)).sum())


# --- claims ------------------------------------------------------------------------------------------------


@claims.proved(
    "as many known entries as a rank-k matrix has degrees of freedom, k(n + m − k)", "CIL (2.43)"
)
def enough_entries(fit):
    (n, m), k = fit.data.shape, _rank(fit)
    most = largest_rank(n, m, fit.data.n_observed)
    note = "necessary, not enough"
    freedoms = degrees_of_freedom(n, m, k)
    return claims.at_least(fit.data.n_observed, freedoms, _remedy(fit, most), "entries", note)


@claims.proved(
    "most predictions are of rows and columns with at least k entries", "CIL 2.6.1, Ex. 2.6"
)
def enough_per_row_and_column(fit):
    """k numbers of a row's factors need k equations. Rows and columns are asked for as often as they have entries."""
    k, counts = _rank(fit), (fit.data.row_counts, fit.data.column_counts)
    enough = [part >= k for part in counts]
    note = "necessary, not enough"
    if not all(part.all() for part in enough):
        few = [int((~part).sum()) for part in enough]
        empty = sum(int((part == 0).sum()) for part in counts)
        note = f"{few[0]:,} rows and {few[1]:,} columns have fewer, {empty:,} of them none"
    rests = "reg and the offsets" if _reg(fit) > 0 else "the offsets and on where the solver began"
    advice = f"the others rest on {rests}: lower the rank, or do not rely on them"
    share = _share(_weigh(fit.data, *enough), _weigh(fit.data))
    return claims.at_least(share, MOST, advice, unit="share of predictions", note=note)


def _weigh(A: Observed, rows: Any = True, columns: Any = True) -> float:
    """Weigh the unknown cells of a block (masks): n_i m_j each, a row and a column drawn as often as each has entries."""
    r, c = (A.row_counts * rows).astype(float), (A.column_counts * columns).astype(float)
    return float(r.sum() * c.sum() - r @ (pattern(A) @ c))


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 1.0


@claims.proved("the known entries connect all rows and columns that have any", "CIL 2.6")
def connected_observations(fit):
    """Blocks that share no entry can be scaled against each other at will: U → tU, V → V/t in one of them."""
    pieces, label = components(fit.data)
    sizes = np.bincount(label[label >= 0])
    note = ""
    if pieces > 1:
        largest, all_of_them = int(sizes.max()), int(sizes.sum())
        note = f"the largest holds {largest:,} of {all_of_them:,} rows and columns"
    advice = "predictions across components are not determined: fit each on its own, or do not rely on them"
    return claims.at_most(pieces, 1, advice, unit="components", note=note)


def _search_cost(fit: claims.Fit) -> float:
    side = min(fit.data.shape) * (_rank(fit) + 1.0)
    return 30 * fit.data.n_observed + min(side**3 / 2 + 100 * side**2, SEARCH)


@claims.proved(
    "most predictions within connected components have finitely many values at rank k",
    "CIL 2.6; Király, Theran & Tomioka 2015",
    cost=_search_cost,
)
def locally_unique(fit):
    """At least: blocks that are proved to leave no freedom. At most: the k-core. Rows and columns outside of it can move alone.

    Fitted biases count as one factor more: b1ᵀ + 1cᵀ + UVᵀ has the Jacobian of [U 1][V 1]ᵀ, and generic factors of rank k + 1
    get ones in their last columns by scaling rows and columns, which changes no rank.
    """
    A, k = fit.data, _rank(fit)
    if k == 0 or not A.n_observed:
        return claims.unknown("there are no factors, or no entries")
    biased = bool(fit.get("biases", False))
    k = min(k + biased, *A.shape)
    note = f"generic matrices of rank {k}" + (", one for the biases" if biased else "")
    inside, label = core(A, k), components(A)[1]
    whole = sum(_weigh(A, *part) for part in _pieces(A, label, label >= 0))
    blocks = list(_pieces(A, label, np.r_[inside.rows, inside.columns]))
    most = _share(sum(_weigh(A, *part) for part in blocks), whole)
    left = [size - int(part.sum()) for size, part in zip(A.shape, inside[:2], strict=True)]
    note += f"; without {left[0]:,} rows and {left[1]:,} columns" if any(left) else ""
    if most < MOST:
        advice = _remedy(fit, core_rank(A) - biased)
        return claims.at_least(most, MOST, advice, unit="share of predictions, at most", note=note)
    budget = max(_search_cost(fit), 0.5 * fit.work if math.isfinite(fit.work) else SPARE)
    weight, free = 0.0, 0
    for rows, columns in blocks:
        block = pattern(A)[rows][:, columns]
        fixed = [rows.copy(), columns.copy()]
        fixed[0][rows], fixed[1][columns] = determined(block, k, budget)
        if _weigh(A, *fixed) < MOST * _weigh(A, rows, columns):
            found = freedom(block, k, budget)
            free = -1 if found is None or free < 0 else free + found.directions
            fixed = [rows, columns] if found is not None and not found.directions else fixed
        weight += _weigh(A, *fixed)
    if (least := _share(weight, whole)) >= MOST:
        return claims.at_least(least, MOST, unit="share of predictions, at least", note=note)
    how = f"{free:,} free directions" if free > 0 else "the rank is too expensive: give it seconds"
    return claims.unknown(f"{least:.0%} to {most:.0%} of predictions, {note}; {how}")


def _pieces(A: Observed, label: Array, kept: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the kept rows and columns of each component, as masks. How components relate is another claim."""
    for piece in np.unique(label[kept]):
        here = kept & (label == piece)
        yield here[: A.shape[0]], here[A.shape[0] :]


def _remedy(fit: claims.Fit, most: int) -> str:
    """Return advice where the entries do not determine the completion: never "raise rank", nor "lower" it where λ decides."""
    if _reg(fit) > 0:
        return "what entries leave open, reg decides: choose it by the error on held-out entries"
    lower = f"lower the rank to {most} or less" if most > 0 else "lower the rank"
    return f"the completion is not unique: {lower}, or use a model with reg (ALS, SoftImpute)"


def _reg(fit: claims.Fit) -> float:
    return float(fit.get("reg_", 0.0))


def _rank(fit: claims.Fit) -> int:
    return int(np.asarray(fit.U_).shape[1])


_COUNTED = (enough_entries, enough_per_row_and_column)
IDENTIFIABLE_CLAIMS = (*_COUNTED, connected_observations, locally_unique)
