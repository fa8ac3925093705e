"""NMF by the Kullback–Leibler divergence, with multiplicative updates from the E-step of pLSA.

    minimise  D(X ‖ WH) = Σ_ij s_i (x_ij ln(x_ij/p_ij) − x_ij + p_ij),      p = WH,      over W, H ≥ 0,       with penalties

The share of component z in p_ij is q_ijz = w_iz h_zj / p_ij. With n_iz = Σ_j x_ij q_ijz and m_zj = Σ_i s_i x_ij
q_ijz, Jensen's inequality bounds D from above by

    −Σ_iz s_i n_iz ln w_iz − Σ_zj m_zj ln h_zj + Σ_z (Σ_i s_i w_iz)(Σ_j h_zj) + penalties + const,

with equality where q was taken. For H fixed its least point is the positive root of n/w = Σ_j h_zj + a₁ + a₂ w: n
over the column's sum without penalties, Lee & Seung's rule. Then the same for H with the new W. Neither raises the
bound, so D cannot rise. Without penalties this is EM for pLSA, up to the scale of the components, and the sums over
entries are those of its E-step (topics/plsa/corpus.py).

A step updates both factors, then makes a pass: D in a state is that of its factors. It goes further than the bound says:
every ratio of a new entry to its old one is raised to the power γ = 1.5 (Salakhutdinov & Roweis 2003: near a minimum
any γ < 2 converges), which takes 0.7 to 0.9 of the passes. A step that would raise D is made again with γ = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.core.engine import one_blas_thread
from lemmata.core.store import storable
from lemmata.topics.nmf.squares import FactorPenalty
from lemmata.topics.nmf.table import RowPart, RowTable
from lemmata.topics.plsa.corpus import CountedCorpus

Array = np.ndarray
GAMMA = 1.5  # 1 is the plain rule


@dataclass(frozen=True)
class Sums:
    """Σ_i s_i x_ij q_ijz (m, k) and −Σ s x ln p, of some rows."""

    columns: Array
    loss: float

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.columns + other.columns, self.loss + other.loss)


class Counted(RowTable):
    """A table whose entries are shared out among components: by pLSA's kernels where it is sparse, else by BLAS."""

    sweepless = True

    @cached_property
    def corpus(self) -> CountedCorpus:
        data = self.data
        if self.only_stored:
            data = Blocks.of(data.source.csr())
            data = data if self.data.weights is None else data.weighted(self.data.weights)
        return CountedCorpus(data, self.k, self.passes)

    def share_out(self, W: Array, V: Array) -> tuple[Array, Array, float]:
        """s_i n_iz (n, k), m_zj as (m, k), and −Σ s x ln p, at these factors."""
        if self.sparse:
            found = self.corpus.expect(W, V)
            return found.documents, found.words, found.loss
        rows, tiny = np.empty_like(W), np.finfo(W.dtype).tiny

        def work(part: RowPart) -> Sums:
            mine = W[part.place]
            p = mine @ V.T
            np.maximum(p, tiny, out=p)
            X = part.weight(part.rows)
            with np.errstate(over="ignore"):
                loss = -float(np.vdot(X, np.log(p)))
            Q = np.divide(X, p, out=p)
            rows[part.place] = mine * (Q @ V)
            return Sums(Q.T @ mine, loss)

        found = self.map(work, Sums(np.zeros_like(V), 0.0))
        return rows, found.columns * V, found.loss

    def row_sums(self, V: Array) -> Array:
        """Σ_j h_zj, (k,), or over the known columns of every row, (n, k)."""
        if not self.holes:
            return V.sum(axis=0)
        out = np.empty((self.shape[0], V.shape[1]), V.dtype)

        def work(part: RowPart) -> float:
            out[part.place] = V.sum(axis=0) if part.mask is None else part.mask @ V
            return 0.0

        self.map(work, 0.0)
        return out

    def column_sums(self, W: Array) -> Array:
        """Σ_i s_i w_iz, (k,), or over the known rows of every column, (m, k)."""
        s = self.data.weights
        sW = W if s is None else W * s[:, None].astype(W.dtype)
        if not self.holes:
            return sW.sum(axis=0)
        return self.map(lambda part: part.mask.T @ sW[part.place], 0.0)

    @cached_property
    def entropy(self) -> float:
        """Σ s (x ln x − x), what D has besides."""
        total = 0.0
        for rows, weights in self.data:
            x = (rows.data if sp.issparse(rows) else np.nan_to_num(rows)).astype(np.float64)
            terms = x * np.log(np.where(x > 0, x, 1)) - x
            if weights is None:
                total += float(terms.sum())
            elif sp.issparse(rows):
                total += float(terms @ np.repeat(weights, np.diff(rows.indptr)))
            else:
                total += float(np.asarray(weights) @ terms.sum(axis=1))
        return total


@storable
@dataclass(frozen=True)
class DivergenceState:
    """Both factors, what the shares of components at them add up to, and the objective of this pair."""

    version = 1
    layout: ClassVar = {"W rows": "n k >=0", "V columns": "d k >=0"}

    W: Array  # (n, k)
    V: Array  # (m, k): Hᵀ
    rows: Array  # s_i n_iz, (n, k)
    columns: Array  # m_zj, (m, k)
    loss: float


def go_further(new: Array, old: Array) -> Array:
    """old · (new/old)^γ; what was 0 stays."""
    ratio = np.divide(new, old, out=np.ones_like(new), where=old > 0)
    return new * ratio ** new.dtype.type(GAMMA - 1)


def positive_root(counts: Array, slope: Array, l2: float) -> Array:
    """The w ≥ 0 with counts/w = slope + l₂ w."""
    if not l2:
        return counts / np.where(slope > 0, slope, 1)
    # the form that does not subtract nearly equal numbers
    return 2 * counts / np.maximum(slope + np.sqrt(slope**2 + 4 * l2 * counts), np.finfo(counts.dtype).tiny)  # fmt: skip


@dataclass(frozen=True)
class DivergenceAlgorithm:
    """Multiplicative updates on a `Counted` table."""

    start: Callable[[RowTable, np.random.Generator], tuple[Array, Array]]
    penalty: FactorPenalty

    hint = "look for extreme values, and scale the data to about 1"

    def init(self, table: Counted, rng: np.random.Generator) -> DivergenceState:
        return self._at(*self.start(table, rng), table)

    def step(self, state: DivergenceState, table: Counted) -> DivergenceState:
        with one_blas_thread():
            slope, weights = table.row_sums(state.V), table.data.weights
            plain = self.rows_after(state.rows, state.W, slope, weights)
            W = go_further(plain, state.W)
            V = go_further(self.columns_after(state.columns, table.column_sums(W)), state.V)
            new = self._at(W, V, table)
            # D is a difference of sums of the size of Σ s x, and known to their rounding only
            if new.loss <= state.loss + np.finfo(V.dtype).eps * abs(table.entropy):
                return new
            return self._at(plain, self.columns_after(state.columns, table.column_sums(plain)), table)  # fmt: skip

    def rows_after(self, counts: Array, W: Array, slope: Array, weights: Array | None) -> Array:
        if weights is not None:  # a row of weight 0 says nothing, and is left alone
            s = weights[:, None].astype(W.dtype)
            counts = np.where(s > 0, counts / np.where(s > 0, s, 1), W * slope)
        return positive_root(counts, slope + self.penalty.l1_W, self.penalty.l2_W).astype(W.dtype)

    def columns_after(self, counts: Array, slope: Array) -> Array:
        p = self.penalty
        return positive_root(counts, slope + p.l1_H, p.l2_H).astype(counts.dtype)

    def _at(self, W: Array, V: Array, table: Counted) -> DivergenceState:
        rows, columns, loss = table.share_out(W, V)
        return DivergenceState(W, V, rows, columns, self.total(table, W, V, loss))

    def total(self, table: Counted, W: Array, V: Array, logs: float) -> float:
        """The objective, from −Σ s x ln p."""
        p, s = self.penalty, table.data.weights
        sW = W if s is None else W * s[:, None]
        if table.holes:
            known = float(np.vdot(sW.astype(np.float64), table.row_sums(V)))
        else:
            known = float(sW.sum(axis=0, dtype=np.float64) @ V.sum(axis=0, dtype=np.float64))
        cost = p.on_columns(V)
        if p.l1_W or p.l2_W:
            squares = np.einsum("ij,ij->", sW, W, dtype=np.float64)
            cost += p.l1_W * float(sW.sum(dtype=np.float64)) + 0.5 * p.l2_W * float(squares)
        return max(logs + known + table.entropy, 0.0) + cost

    def objective(self, state: DivergenceState) -> float:
        return state.loss

    def attributes(self, state: DivergenceState) -> dict[str, Any]:
        return {"components_": np.ascontiguousarray(state.V.T), "doc_topic_": state.W}
