"""NMF by least squares: what one pass says about the factors, and the algorithm around any update of them.

    minimise  F(W, H) = ½ Σ_i s_i ‖x_i − w_i H‖² + penalties        over W (n, k) ≥ 0 and H (k, m) ≥ 0           (CIL (3.40))

    penalties  Σ_i s_i (a₁ Σ w_i + ½ a₂ ‖w_i‖²) + b₁ Σ H + ½ b₂ ‖H‖²

With H fixed, every row of W has a problem of its own, with G = HHᵀ and p_i = x_i Hᵀ. With W fixed, F depends on X
through sums over rows alone, A = Σ s w wᵀ and B = Σ s x wᵀ, which add up over blocks:

    F(H) = ½ Σ s‖x‖² − ⟨B, Hᵀ⟩ + ½ ⟨A, HHᵀ⟩ + penalties.

A step updates W part by part, adds up A and B on the way, then updates H: one pass, and F of the new pair falls out
of A and B. Where entries are not known, G and A are one matrix for every row and every column. V is Hᵀ throughout.

HALS is pushed (Ang & Gillis 2019): the pass is made at max(0, V + β (V − V before)), with β a little larger after each
step. A step that would raise F is made again without a push, so F cannot rise; β is then a third smaller. On tf-idf that
halves the number of passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.core.engine import one_blas_thread
from lemmata.core.store import storable
from lemmata.topics.nmf.hals import HALS, SWEEPS
from lemmata.topics.nmf.table import RowPart, RowTable

Array = np.ndarray
PUSH = 0.5  # β of the first push; at most 1
Update = Callable[[Array, Array, Array, float, float, int], Array]  # W, P, G, l₁, l₂, sweeps


@dataclass(frozen=True)
class FactorPenalty:
    """a₁, a₂ on W and b₁, b₂ on H."""

    stored_name: ClassVar[str] = "Penalty"

    l1_W: float = 0.0
    l2_W: float = 0.0
    l1_H: float = 0.0
    l2_H: float = 0.0

    def on_columns(self, V: Array) -> float:
        if not (self.l1_H or self.l2_H):
            return 0.0
        return self.l1_H * float(V.sum(dtype=np.float64)) + 0.5 * self.l2_H * square_of(V)


def square_of(V: Array) -> float:
    return float(np.einsum("ij,ij->", V, V, dtype=np.float64))


@storable
@dataclass(frozen=True)
class Products:
    """Products of rows and their W that determine H. Products() is the empty sum."""

    layout: ClassVar = {"gram": "k k | d k k | ", "cross": "d k | "}

    gram: Any = 0.0  # A = Σ s w wᵀ, (k, k), or (m, k, k) over the known rows of every column
    cross: Any = 0.0  # B = Σ s x wᵀ, (m, k)
    square: float = 0.0  # Σ s x²
    weight: float = 0.0  # Σ s
    penalty: float = 0.0  # Σ s (a₁ Σ w + ½ a₂ ‖w‖²)

    @classmethod
    def of(cls, part: RowPart, W: Array, penalty: FactorPenalty) -> Products:
        sW = part.weight(W)
        cost = penalty.l1_W * float(sW.sum(dtype=np.float64)) if penalty.l1_W else 0.0
        if penalty.l2_W:
            cost += 0.5 * penalty.l2_W * float(np.einsum("ij,ij->", sW, W, dtype=np.float64))
        weight = len(W) if part.weights is None else float(part.weights.sum(dtype=np.float64))
        gram, cross = part.weighted_gram(W), part.transposed_times(sW)
        return cls(gram, cross, part.square, float(weight), cost)

    def __add__(self, other: Products) -> Products:
        if np.ndim(self.cross) == 0:
            return other
        return Products(
            self.gram + other.gram, self.cross + other.cross, self.square + other.square,
            self.weight + other.weight, self.penalty + other.penalty,
        )  # fmt: skip

    def loss(self, V: Array, penalty: FactorPenalty) -> float:
        """F of this W and any H."""
        A, wide = self.gram.astype(np.float64, copy=False), V.astype(np.float64, copy=False)
        if A.ndim == 2:
            quadratic = np.vdot(A, wide.T @ wide)
        else:
            quadratic = np.einsum("jzr,jz,jr->", A, wide, wide, optimize=True)
        crossed = float(np.vdot(self.cross.astype(np.float64, copy=False), wide))
        squares = max(0.5 * self.square - crossed + 0.5 * float(quadratic), 0.0)
        return squares + self.penalty + penalty.on_columns(V)


@storable
@dataclass(frozen=True)
class SquaresState:
    """Both factors, F of this pair, and what the next push depends on."""

    version = 2  # before, nothing was pushed
    layout: ClassVar[dict[str, str]] = {"W": "n k >=0", "V before": "d k >=0", "push": ">=0 <=1"}

    W: Array  # (n, k)
    V: Array  # (m, k): Hᵀ
    loss: float
    before: Array  # V of the step before; at the start, of this one
    push: float  # β

    @classmethod
    def upgrade(cls, fields: dict[str, Any], version: int) -> dict[str, Any]:
        return {**fields, "before": fields["V"], "push": PUSH} if version < 2 else fields


@dataclass(frozen=True)
class SquaresAlgorithm:
    """Alternating updates on a `RowTable`.

    start : gives W and V
    rows, columns : the update of W and of V
    """

    start: Callable[[RowTable, np.random.Generator], tuple[Array, Array]]
    rows: Update
    columns: Update
    penalty: FactorPenalty

    hint = "look for extreme values, and scale the data to about 1"

    def init(self, table: RowTable, rng: np.random.Generator) -> SquaresState:
        W, V = self.start(table, rng)
        found = table.map(lambda part: Products.of(part, W[part.place], self.penalty), Products())
        return SquaresState(W, V, found.loss(V, self.penalty), V, PUSH)

    def step(self, state: SquaresState, table: RowTable) -> SquaresState:
        with one_blas_thread():  # its last bits follow the number of its threads
            if isinstance(self.columns, HALS):
                Y = np.maximum(
                    state.V + state.V.dtype.type(state.push) * (state.V - state.before), 0
                )
                W, V, loss = self._from(table, state.W, Y)
                # F is a difference of sums of the size of Σ s x², and known to their rounding only
                if loss <= state.loss + np.finfo(Y.dtype).eps * table.square:
                    return SquaresState(W, V, loss, state.V, min(1.0, 1.05 * state.push))
                state = replace(state, push=state.push / 1.5)
            W, V, loss = self._from(table, state.W, state.V)
            return SquaresState(W, V, loss, state.V, state.push)

    def _from(self, table: RowTable, W: Array, V: Array) -> tuple[Array, Array, float]:
        """Better factors, W first and then V, and F of them."""
        W, found = self.learn(table, W, V)
        V = self.columns_after(found, V)
        return W, V, found.loss(V, self.penalty)

    def learn(self, table: RowTable, W: Array, V: Array) -> tuple[Array, Products]:
        """A better W for this V, and what it says about the next one: the one pass of a step."""
        p = self.penalty
        better, shared = np.empty_like(W), None if table.holes else V.T @ V

        def work(part: RowPart) -> Products:
            G = part.gram(V) if shared is None else shared
            mine = self.rows(W[part.place], part.times(V), G, p.l1_W, p.l2_W, SWEEPS)
            better[part.place] = mine
            return Products.of(part, mine, p)

        found = table.map(work, Products())
        return better, found

    def columns_after(self, found: Products, V: Array) -> Array:
        """A better V for what W says."""
        p = self.penalty
        cross = np.ascontiguousarray(found.cross)
        return self.columns(V, cross, found.gram, p.l1_H, p.l2_H, SWEEPS)

    def objective(self, state: SquaresState) -> float:
        return state.loss

    def attributes(self, state: SquaresState) -> dict[str, Any]:
        return {"components_": np.ascontiguousarray(state.V.T), "doc_topic_": state.W}
