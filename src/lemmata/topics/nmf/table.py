"""A matrix as the algorithms of NMF see it: parts of its rows, what is known of them, and a pass over all parts.

Dense rows come in parts that stay in the cache while both products are made of them, X Hᵀ and then XᵀW: they are read
from memory once a pass. Sparse rows are multiplied by linalg's kernels, which have threads of their own. Where the
cuts are depends on the shape alone and sums are added in their order, so the bits of a fit do not depend on the
number of cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.completion.observed import Observed
from lemmata.core.blocks import Blocks
from lemmata.core.engine import one_blas_thread, run_tasks, worth_compiling
from lemmata.linalg.operators import SparseRows
from lemmata.topics.nmf.masks import has_holes, known_part, squared_rows, unfold

Array = np.ndarray
COMPILE_ABOVE = 2**27  # multiplications of all sweeps that NumPy does in about half a second
# sparse rows have no products to share among threads, and NumPy's sweeps take 1.2 times as long as compiled ones
COMPILE_SPARSE_ABOVE = 2**30
PASSES = 50  # that a fit takes, roughly
TASKS = 8  # enough for eight cores; each has sums of its own
TOGETHER = 2**20  # numbers of a part of dense rows: 4 MB of float32
WHOLE = 2**16  # numbers that one thread has multiplied before a second one has begun


@dataclass(frozen=True)
class RowPart:
    """Some rows: 0 where nothing is known, a mask (or None: all is known), and weights (or None: all are 1)."""

    first: int
    rows: Any  # (r, m), array or SparseRows
    mask: Any
    weights: Array | None
    size: int  # r

    @property
    def place(self) -> slice:
        return slice(self.first, self.first + self.size)

    def times(self, V: Array) -> Array:
        return self.rows @ V

    def transposed_times(self, U: Array) -> Array:
        if isinstance(self.rows, SparseRows):
            return self.rows.T @ U
        return (U.T @ self.rows).T  # BLAS is quicker this way round

    def weight(self, W: Array) -> Array:
        """diag(s) W."""
        return W if self.weights is None else W * self.weights[:, None]

    def gram(self, V: Array) -> Array:
        """VᵀV (k, k), or over the known columns of every row (r, k, k)."""
        if self.mask is None:
            return V.T @ V
        return unfold(self.mask @ squared_rows(V), V.shape[1])

    def weighted_gram(self, W: Array) -> Array:
        """Σ s w wᵀ (k, k), or over the known rows of every column (m, k, k)."""
        if self.mask is None:
            return self.weight(W).T @ W
        return unfold(self.mask.T @ self.weight(squared_rows(W)), W.shape[1])

    @cached_property
    def square(self) -> float:
        """Σ s x²."""
        X = self.rows.X if isinstance(self.rows, SparseRows) else self.rows
        if sp.issparse(X):
            values = X.data.astype(np.float64)
            s = 1.0 if self.weights is None else np.repeat(self.weights, np.diff(X.indptr))
            return float((values**2 * s).sum())
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
        return float(squares.sum() if self.weights is None else squares @ self.weights)


def _sparse_blocks(data: Blocks) -> bool:
    """Return whether a stream has sparse blocks, judged by the first one."""
    return not data.in_memory and any(sp.issparse(rows) for rows, _ in islice(data, 1))


class RowTable:
    """Rows of numbers ≥ 0, weighted: weight 2 is the row twice."""

    sweepless = False  # whether products are all the work

    def __init__(self, data: Blocks, k: int, passes: int = PASSES, holes: bool | None = None):
        self.data, self.shape, self.dtype, self.k = data, data.shape, data.dtype, k
        self.holes = has_holes(data) if holes is None else holes
        self.passes = passes
        n, m = data.shape
        sweeping = 4.0 * (n + m) * k * k * passes
        self.only_stored = isinstance(data.source, Observed)
        self.sparse = data.sparse or self.only_stored or _sparse_blocks(data)
        above = COMPILE_SPARSE_ABOVE if self.sparse else COMPILE_ABOVE
        self.compiled = worth_compiling(sweeping, above=above)

    def fingerprint(self) -> str:
        return self.data.fingerprint()

    # --- parts ---

    @cached_property
    def _kept(self) -> list[list[RowPart]]:
        return [task for tasks in self._cut() for task in tasks]

    def _cut(self) -> Iterator[list[list[RowPart]]]:
        """Tasks that can run in parallel: of all blocks where they are in memory, else of one block after the other."""
        first, sparse_parts = 0, []
        for rows, weights in self.data:
            s = None if weights is None else weights.astype(self.dtype)
            if sp.issparse(rows):
                sparse_parts.append(self._sparse_part(first, rows, s))
                if not self.data.in_memory:
                    yield [sparse_parts]
                    sparse_parts = []
            else:
                yield self._dense_parts(first, np.asarray(rows), s)
            first += rows.shape[0]
        if sparse_parts:
            yield [sparse_parts]

    def _sparse_part(self, first: int, rows: Any, weights: Array | None) -> RowPart:
        rows, mask = known_part(rows, self.only_stored)
        columns = 2.0 * self.k * self.passes
        if mask is not None:
            mask = SparseRows(mask, columns * self.k / 2)
        return RowPart(first, SparseRows(rows, columns), mask, weights, rows.shape[0])

    def _dense_parts(self, first: int, rows: Array, weights: Array | None) -> list[list[RowPart]]:
        n, m = rows.shape
        # NumPy's sweeps hold the interpreter's lock: better all rows at once
        tasks = TASKS if (self.compiled or self.sweepless) and n * m > WHOLE else 1
        step = max(32, TOGETHER // max(m, 1))
        if self.holes:  # a k × k matrix for every row
            step = max(1, min(step, TOGETHER // self.k**2))
        cuts = np.linspace(0, n, tasks + 1).astype(int)
        found = []
        for start, stop in pairwise(cuts):
            parts = []
            for at in range(start, stop, step):
                here = slice(at, min(at + step, stop))
                X, mask = known_part(rows[here], False) if self.holes else (rows[here], None)
                s = None if weights is None else weights[here]
                parts.append(RowPart(first + at, X, mask, s, len(X)))
            found.append(parts)
        return found

    def map(self, work: Callable[[RowPart], Any], start: Any) -> Any:
        """start + work(part 1) + work(part 2) + …: parts of a task one after the other, tasks in parallel."""
        total = start
        with one_blas_thread():
            for tasks in [self._kept] if self.data.in_memory else self._cut():
                found: list[Any] = [None] * len(tasks)

                def task(number: int, tasks: Any = tasks, found: Any = found) -> None:
                    here = None
                    for part in tasks[number]:
                        here = work(part) if here is None else here + work(part)
                    found[number] = here

                run_tasks(task, len(tasks))
                for one in found:
                    total = total if one is None else total + one
        return total

    # --- sums ---

    @cached_property
    def square(self) -> float:
        """Σ s x² over what is known."""
        return self.map(lambda part: part.square, 0.0)
