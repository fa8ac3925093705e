"""The rotation that brings pairs of words together, and the loop that finds more pairs with it.

    minimise  ‖XW − Y‖_F²      over W with WᵀW = I,      rows x_i, y_i of length 1: the vectors of pair i

Lengths do not change under W, so ‖XW − Y‖² = ‖X‖² + ‖Y‖² − 2 tr(WᵀXᵀY). With XᵀY = UΣVᵀ the trace is tr(ΣQ), Q = VᵀWᵀU: an
orthogonal matrix, whose entries are at most 1, so Σ_i σ_i q_ii ≤ Σ_i σ_i, which Q = I reaches:

    W = UVᵀ,        max tr(WᵀXᵀY) = ‖XᵀY‖_*  (the sum of singular values)                       (Schönemann 1966; CIL20 5.5)

It is the only one if no σ_i is 0, which takes as many pairs as dimensions. (CIL20 says that a rotation aligns two languages
because embeddings are unique up to one. With two embeddings per model they are unique only up to a linear map, see
docs/embedding.md: that a rotation is enough is an observation about languages, not a theorem.)

**Self-learning** (Artetxe, Labaka & Agirre 2017; Conneau, Lample et al. 2018). With W, words that are each other's nearest by
CSLS are the next dictionary, which gives the next W. A round is taken if the mean cosine of the frequent source words and
their translations rises; otherwise the loop is finished, so 1 − this mean, the objective, never rises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.core import storable
from lemmata.embedding.alignment.retrieval import mutual, translations
from lemmata.embedding.vectors.word_vectors import directions

Array = np.ndarray


def best_rotation(X: Array, Y: Array) -> Array:
    """W = UVᵀ of XᵀY = UΣVᵀ, in double precision."""
    U, _, Vt = np.linalg.svd(X.astype(np.float64).T @ Y.astype(np.float64))
    return U @ Vt


def mean_distance(X: Array, Y: Array, W: Array) -> float:
    """The mean of ‖x_i W − y_i‖² over pairs."""
    apart = X.astype(np.float64) @ W - Y
    return float(np.einsum("ij,ij->", apart, apart) / len(X))


@dataclass(frozen=True)
class TwoSides:
    """Vectors of both sides, rows of length 1, and the pairs to begin with."""

    X: Array  # (s, k)
    Y: Array  # (t, k)
    pairs: Array  # (p, 2)

    @classmethod
    def of(cls, source: Array, target: Array, pairs: Array) -> TwoSides:
        kind = np.result_type(source, target)
        X, Y = (directions(np.asarray(side, kind)) for side in (source, target))
        return cls(X, Y, pairs)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    def rows(self, pairs: Array) -> tuple[Array, Array]:
        """The vectors of pairs."""
        return self.X[pairs[:, 0]], self.Y[pairs[:, 1]]


@storable
@dataclass(frozen=True)
class AlignmentState:
    """A rotation, the pairs that it is best for, and those that it finds."""

    version = 1
    layout: ClassVar[dict[str, str]] = {
        "rotation": "k k",
        "pairs": "p 2 int >=0",
        "found": "q 2 int >=0",
        "loss": "",
        "done": "int >=0 <=1",
    }

    rotation: Array  # W (k, k)
    pairs: Array  # (p, 2), W is their best rotation
    found: Array  # (q, 2), by W; the next round's
    loss: float  # 1 − the mean cosine of words and their translations by W; without rounds, the mean distance of pairs
    done: int = 0


@dataclass(frozen=True)
class ProcrustesAlgorithm:
    """The closed form, for the pairs that are given."""

    draws: ClassVar[bool] = False

    def init(self, data: TwoSides, rng: Any = None) -> AlignmentState:
        X, Y = data.rows(data.pairs)
        W = best_rotation(X, Y)
        return AlignmentState(W, data.pairs, data.pairs[:0], mean_distance(X, Y, W), 1)

    def check_state(self, state: AlignmentState, data: TwoSides) -> None:
        """ValueError where a state from a file has pairs of words that are not there."""
        for pairs in (state.pairs, state.found):
            if (pairs >= (len(data.X), len(data.Y))).any():
                raise ValueError("it pairs words that the embeddings do not have.")

    def step(self, state: AlignmentState, data: TwoSides) -> AlignmentState:
        return state

    def objective(self, state: AlignmentState) -> float:
        return state.loss

    def finished(self, state: AlignmentState) -> bool:
        return bool(state.done)

    def extras(self, state: AlignmentState) -> dict[str, float]:
        return {"pairs": float(len(state.pairs))}

    def attributes(self, state: AlignmentState) -> dict[str, Any]:
        return {"rotation_": state.rotation, "pairs_": state.pairs}


@dataclass(frozen=True)
class SelfLearningAlgorithm(ProcrustesAlgorithm):
    """Rounds of the closed form on the pairs that the rotation before it found.

    neighbours : n, the words whose mean cosine is r
    among : so many of the first words of both sides take part
    """

    neighbours: int = 10
    among: int = 10_000

    def init(self, data: TwoSides, rng: Any = None) -> AlignmentState:
        return self._at(data.pairs, data)

    def _at(self, pairs: Array, data: TwoSides) -> AlignmentState:
        W = best_rotation(*data.rows(pairs))
        X, Y = data.X[: self.among], data.Y[: self.among]
        turned = directions(X @ W.astype(X.dtype))
        forward, backward = translations(turned, Y, self.neighbours)
        cosines = np.einsum("ij,ij->i", turned, Y[forward], dtype=np.float64)
        found = mutual(forward, backward)
        return AlignmentState(W, pairs, found, 1 - float(cosines.mean()))

    def step(self, state: AlignmentState, data: TwoSides) -> AlignmentState:
        if not len(state.found):
            return replace(state, done=1)
        there = self._at(state.found, data)
        return there if there.loss < state.loss else replace(state, done=1)
