"""Mini-batches over sparse rows by kernels: rows are gathered in parts, features stepped in groups, in parallel.

How many parts and groups there are is fixed, so the bits of a fit do not depend on the number of cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from lemmata.core.engine import run_tasks
from lemmata.embedding.fasttext._kernels import deal_into, descend_into, gather_into
from lemmata.embedding.fasttext._twins import TINY
from lemmata.linalg.simd import LINE, empty_lines

Array = np.ndarray
GROUPS = 8  # of features, and parts of a batch: enough for eight cores


@dataclass(frozen=True)
class Dealt:
    """Entries of a CSR matrix, in a row group by group of features: group g of row i is at cuts[i, g] … cuts[i, g + 1]."""

    indptr: Array
    indices: Array
    values: Array
    cuts: Array  # (n, GROUPS + 1)

    @classmethod
    def of(cls, X: Any) -> Dealt:
        indptr = X.indptr.astype(np.int64)
        indices, values = np.empty(len(X.data), np.int32), np.empty(len(X.data), np.float32)
        cuts = np.zeros((X.shape[0], GROUPS + 1), np.int64)
        deal_into(indices, values, cuts, indptr, X.indices.astype(np.int32), X.data, GROUPS)
        return cls(indptr, indices, values, cuts)


class CompiledBatches:
    """Vectors A (features, k) and their sums of squares S (features,) while an epoch changes them."""

    def __init__(self, X: Dealt, A: Array, S: Array):
        self.X, self.S = X, S.copy()
        self.n, self.k = A.shape
        self.nb = -(-self.k * A.itemsize // LINE)
        self.lines = self._pad(A)

    def _pad(self, rows: Array) -> Array:
        """Rows as lines of their own, filled up with zeros."""
        lines = empty_lines(1, len(rows) * self.nb, np.float32)[0]
        flat = lines.reshape(len(rows), -1)
        flat[:, : self.k], flat[:, self.k :] = rows, 0
        return lines

    def gather(self, rows: Array) -> Array:
        """h_t = Σ_f x_f a_f of these rows, (t, k)."""
        H, X = empty_lines(1, len(rows) * self.nb, np.float32)[0], self.X
        cuts = list(pairwise(np.linspace(0, len(rows), GROUPS + 1).astype(int)))

        def part(task: int) -> None:
            start, stop = cuts[task]
            gather_into(H, self.lines, self.nb, rows, start, stop, X.indptr, X.indices, X.values)

        run_tasks(part, GROUPS)
        return H.reshape(len(rows), -1)[:, : self.k]

    def descend(self, rows: Array, G: Array, rate: float) -> None:
        """Adagrad with the gradients x_tf g_t: S_f += Σ_t x_tf² ‖g_t‖²/k, then a_f −= rate Σ_t x_tf g_t / √S_f."""
        X, lines = self.X, self._pad(G)
        squares = np.einsum("ij,ij->i", G, G) / np.float32(self.k)
        step = partial(descend_into, self.lines, self.S, lines, self.nb, rows, squares, X.cuts)
        rest = (X.indices, X.values, np.float32(rate), TINY)
        run_tasks(lambda group: step(group, *rest), GROUPS)

    def vectors(self) -> tuple[Array, Array]:
        return np.ascontiguousarray(self.lines.reshape(self.n, -1)[:, : self.k]), self.S
