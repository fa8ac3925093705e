"""Batches that come one after the other: statistics that determine H add up.

Least squares: A = Σ s w wᵀ and B = Σ s x wᵀ (`Products`). Divergence: the expected sums m_zj = Σ s x q_zj and Σ s w.
A batch gets its W at the H of its time and is then remembered by these sums alone, so early batches speak through a W
that later ones would have changed (Mairal et al. 2010): passes over the data, or `fit`, come nearer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.core.loop import Stopped
from lemmata.core.runs.trace import Trace
from lemmata.core.store import storable
from lemmata.topics.nmf.divergence import Counted
from lemmata.topics.nmf.squares import FactorPenalty, Products
from lemmata.topics.nmf.table import RowTable

Array = np.ndarray
ROUNDS = 8  # of updates of H for every batch


@storable
@dataclass(frozen=True)
class BatchSums:
    """Statistics of rows and their W that determine H. BatchSums() is the empty sum."""

    version = 1
    layout: ClassVar = {"products": Products, "counts": "d k | ", "slopes": "k | d k | "}

    products: Products = Products()  # of least squares: A, B and what goes with them
    counts: Any = 0.0  # of the divergence: m_zj (m, k)
    slopes: Any = 0.0  # and Σ s w, (k,) or (m, k) over the known rows
    divergence: float = 0.0  # and D, at the H that each batch found
    size: float = 0.0  # numbers read
    weight: float = 0.0  # Σ s

    @classmethod
    def of(cls, table: RowTable, W: Array, V: Array, penalty: FactorPenalty) -> BatchSums:
        size, weight = float(table.data.size), float(table.data.total_weight)
        if not isinstance(table, Counted):
            found = table.map(lambda part: Products.of(part, W[part.place], penalty), Products())
            return cls(products=found, size=size, weight=weight)
        _, counts, logs = table.share_out(W, V)
        slopes = table.column_sums(W)
        known = float(np.vdot(np.broadcast_to(slopes, V.shape), V.astype(np.float64)))
        return cls(Products(), counts, slopes, max(logs + table.entropy + known, 0.0), size, weight)

    def __add__(self, other: BatchSums) -> BatchSums:
        return BatchSums(
            self.products + other.products, self.counts + other.counts, self.slopes + other.slopes,
            self.divergence + other.divergence, self.size + other.size, self.weight + other.weight,
        )  # fmt: skip

    def loss(self, V: Array, penalty: FactorPenalty) -> float:
        """½ ‖X − WH‖² with the W of each batch; the divergence of each batch with the H that it found."""
        if np.ndim(self.counts) == 0:
            return self.products.loss(V, penalty)
        return self.divergence + penalty.on_columns(V)


class PartialFitting:
    """Mixin for `partial_fit`: learning from batches that are not kept."""

    def partial_fit(self: Any, X, y=None, sample_weight=None, *, W=None, H=None):
        """Learn from one batch of rows, and forget them: only sums over them are kept.

        The first batch also says where H starts (or H does, with init="custom"). `reconstruction_err_` is that of all batches,
        each with the W it had; `transform` gives the W that a batch would get now.
        """
        with self._all_or_nothing():
            self._validate_params()
            first = not hasattr(self, "components_")
            data = self._validate_rows(X, sample_weight, reset=first)
            if not first and self.components_.dtype != data.dtype:
                data = self._validate_rows(_as_type(X, self.components_.dtype), sample_weight, reset=False)  # fmt: skip
            if first:
                self._algorithm(data, (W, H))  # refuses what does not fit
            table = self._problem(data)
            if not first and table.k != len(self.components_):
                raise ValueError(
                    f"n_components={table.k}, but there are {len(self.components_)} to continue from; set it to that, or fit."
                )
            algorithm = self._algorithm_for(table, (W, H))
            if first:
                rng = np.random.default_rng(self._rng())
                V, before = algorithm.start(table, rng)[1], BatchSums()
            else:
                V, before = np.ascontiguousarray(self.components_.T), self.sums_
            total = before.weight + data.total_weight
            penalty = self._penalty((total, data.shape[1]))
            V, sums = _learn(algorithm, table, self._rows(table, V), V, before, penalty)
            attributes = {
                "components_": np.ascontiguousarray(V.T),
                "reconstruction_err_": float(np.sqrt(2 * sums.loss(V, FactorPenalty()))),
                "n_components_": table.k,
                "sums_": sums,
            }
            self._forget("doc_topic_")
            batches = self.n_iter_ if not first and self.stopped_ == Stopped.BATCHES else 0
            trace = Trace()
            trace.append(sums.loss(V, penalty), 0.0)
            self._conclude(None, attributes, trace, Stopped.BATCHES, batches + 1)
        return self


def _learn(
    algorithm: Any, table: RowTable, W: Array, V: Array, before: BatchSums, penalty: FactorPenalty
) -> tuple[Array, BatchSums]:
    """H and the sums after a batch whose best W is given: H moves, and of the divergence the shares of this batch with it."""
    algorithm = replace(algorithm, penalty=penalty)
    sums = before + BatchSums.of(table, W, V, penalty)
    if not isinstance(table, Counted):
        for _ in range(ROUNDS):
            V = algorithm.columns_after(sums.products, V)
        return V, sums
    for _ in range(ROUNDS):
        V = algorithm.columns_after(sums.counts, sums.slopes).astype(V.dtype)
        counts = table.share_out(W, V)[0]
        W = algorithm.rows_after(counts, W, table.row_sums(V), table.data.weights)
        sums = before + BatchSums.of(table, W, V, penalty)
    return V, sums


def _as_type(X: Any, dtype: Any) -> Any:
    return X.astype(dtype) if hasattr(X, "astype") else X
