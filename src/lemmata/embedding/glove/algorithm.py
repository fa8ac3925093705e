"""The algorithms behind GloVe: steps pair by pair, or alternating least squares, on the same objective (CIL 3.3.4).

    J = Σ_{N_wv>0} f(N_wv) (ln N_wv − μ − b_w − c_v − ⟨ζ_w, z_v⟩)²   +   λ (‖ζ‖² + ‖z‖² + ‖b‖² + ‖c‖²)          λ = 0 for steps

μ is the mean of ln N, weighted by f. Steps begin at the biases that leave the least by themselves, and at small random vectors,
so the objective of the first state is what biases alone leave. A step of the loop is an epoch, one step for each pair that
occurs, or a sweep of ALS; the objective of a state is that of all pairs at that state.

"adagrad" divides every number's slope by the root of 1/γ² plus the squares of its slopes so far: first steps of length γ, later
ones by how much that number has been pulled already, and none longer than 1. (The published program adds up squares of γ times
the slopes, from 1, which is the same except for the slope of the step itself: it leaves that out, and has to clip.) "sgd" takes
steps of length γ that falls linearly over the epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.completion.als.algorithm import ALSAlgorithm, ALSState, in_order
from lemmata.completion.observed import Observed
from lemmata.completion.sgd.blocked_entries import in_rounds
from lemmata.core import storable
from lemmata.embedding.glove.blocked import BlockedPairs
from lemmata.embedding.glove.counts import PairCounts, weights_of

Array = np.ndarray
BIAS_SWEEPS = 5  # alternating means that biases begin with
RATES = {"adagrad": 0.1, "sgd": 0.05}  # γ


@storable
@dataclass(frozen=True)
class GloVeState:
    """Vectors and biases of words and contexts, and what the next epoch needs."""

    version = 1
    layout: ClassVar = {
        "U V": "d k",
        "b c": "d",
        "memory": ("d k", "d k", "d", "d"),
        "epoch seed": "int >=0",
        "mean": "",
        "loss": "any",
    }

    U: Array  # ζ (v, k) float32
    V: Array  # z
    b: Array
    c: Array
    memory: tuple[Array, ...]  # of adagrad: 1/γ² + Σ g² of each of the four; else nothing
    mean: float
    epoch: int
    seed: int
    loss: float  # J at these vectors

    @property
    def arrays(self) -> tuple[Array, ...]:
        return (self.U, self.V, self.b, self.c, *self.memory)


@dataclass(frozen=True, eq=False)
class GloVeData:
    """The pairs with their weights, for kernels in blocks or for NumPy as they are."""

    pairs: PairCounts
    weights: Array  # float64, f(N) row by row
    blocks: BlockedPairs | None

    @classmethod
    def of(cls, pairs: PairCounts, x_max: float, alpha: float, compiled: bool) -> GloVeData:
        blocks = BlockedPairs.of(pairs, x_max, alpha) if compiled else None
        return cls(pairs, weights_of(pairs.matrix.data, x_max, alpha), blocks)

    @property
    def places(self) -> tuple[Array, Array]:
        N = self.pairs.matrix
        return np.repeat(np.arange(N.shape[0]), np.diff(N.indptr)), N.indices

    def fingerprint(self) -> str:
        return self.pairs.fingerprint()


@dataclass(frozen=True)
class GloVeAlgorithm:
    """Epochs of single steps. Parameters as those of `GloVe`."""

    vector_size: int
    epochs: int
    adaptive: bool = True
    rate: float = 0.1

    hint: ClassVar[str] = "lower learning_rate"

    def check_state(self, state: GloVeState, data: GloVeData) -> None:
        """ValueError where a state from a file is none of these words."""
        if (
            state.U.shape != (data.pairs.shape[0], self.vector_size)
            or bool(state.memory) != self.adaptive
        ):
            raise ValueError(
                f"it has vectors of shape {state.U.shape} and {len(state.memory)} memories."
            )

    def init(self, data: GloVeData, rng: np.random.Generator) -> GloVeState:
        v, k = data.pairs.shape[0], self.vector_size
        U, V = (
            (rng.random((v, k)) - 0.5).astype(np.float32) / np.float32(k**0.5) for _ in range(2)
        )
        mean, b, c = best_biases(data)
        memory: tuple[Array, ...] = ()
        if self.adaptive:
            memory = tuple(np.full_like(part, self.rate**-2) for part in (U, V, b, c))
        seed = int(rng.integers(2**62))
        state = GloVeState(U, V, b, c, memory, mean, 0, seed, np.inf)
        return replace(state, loss=self._train(state, data, epoch=False).loss)

    def step(self, state: GloVeState, data: GloVeData) -> GloVeState:
        return self._train(state, data)

    def objective(self, state: GloVeState) -> float:
        return state.loss

    def extras(self, state: GloVeState) -> dict[str, float]:
        return {"learning_rate": self._rate(state.epoch)}

    def attributes(self, state: GloVeState) -> dict[str, Any]:
        return public_attributes(state.U, state.V, state.b, state.c, state.mean, state.loss)

    def _rate(self, epoch: int) -> float:
        """γ of an epoch: of plain steps it falls linearly, adagrad's sums make their own."""
        return self.rate if self.adaptive else self.rate * max(1 - epoch / self.epochs, 0.01)

    def _train(self, state: GloVeState, data: GloVeData, epoch: bool = True) -> GloVeState:
        """The state after an epoch (or without one), with its objective."""
        train = self._by_twins if data.blocks is None else self._by_kernels
        parts, loss = train(state, data, epoch)
        U, V, b, c, *memory = parts
        done = state.epoch + epoch
        return replace(state, U=U, V=V, b=b, c=c, memory=tuple(memory), epoch=done, loss=loss)

    def _by_twins(
        self, state: GloVeState, data: GloVeData, epoch: bool
    ) -> tuple[list[Array], float]:
        from lemmata.embedding.glove import _twins as twins

        entries = (*data.places, data.pairs.logs, data.weights.astype(np.float32))
        parts = [part.copy() for part in state.arrays]
        if epoch:
            rng = np.random.default_rng([state.seed, state.epoch])
            # the loop stops at what is not finite
            with np.errstate(over="ignore", invalid="ignore"):
                twins.descend(
                    *entries, parts, state.mean, self._rate(state.epoch), self.adaptive, rng
                )
        with np.errstate(over="ignore", invalid="ignore"):
            return parts, twins.squares(*entries, parts, state.mean)

    def _by_kernels(
        self, state: GloVeState, data: GloVeData, epoch: bool
    ) -> tuple[list[Array], float]:
        from lemmata.embedding.glove import _kernels as kernels

        blocks = data.blocks
        assert blocks is not None
        work, nb = blocks.place(state.arrays), -(-self.vector_size // 16)
        for lines in work[4:6]:  # what fills up lines is divided by its sum as well
            lines.reshape(len(state.U), -1)[:, self.vector_size :] = 1
        pairs = (blocks.others, blocks.logs, blocks.weights, blocks.starts, blocks.lengths)
        mean, effort = np.float32(state.mean), float(len(blocks.logs)) * self.vector_size
        if epoch:
            rng = np.random.default_rng([state.seed, state.epoch])
            rounds, key = blocks.rounds(rng), rng.integers(2**63, dtype=np.uint64)
            # stand-ins for sums that are not there, and not read
            sums = work[4:] if self.adaptive else work[:4]
            rate = np.float32(self._rate(state.epoch))
            steps = partial(
                kernels.descend, *pairs, blocks.rows.cuts, key, *work[:4], *sums, mean, rate, nb, self.adaptive
            )  # fmt: skip
            in_rounds(steps, rounds, effort)
        found = np.zeros(blocks.groups**2)
        measure = partial(
            kernels.squares_into, found, *pairs, blocks.rows.cuts, *work[:4], mean, nb
        )
        in_rounds(measure, [np.arange(len(found))], effort)
        return blocks.put_back(work, state.arrays), float(found.sum())


def public_attributes(
    U: Array, V: Array, b: Array, c: Array, mean: float, loss: float
) -> dict[str, Any]:
    """Return the public attributes of vectors and biases."""
    return {
        "embedding_": U + V,
        "word_embedding_": U,
        "context_embedding_": V,
        "biases_": b,
        "context_biases_": c,
        "mean_": float(mean),
        "loss_": float(loss),
    }


def best_biases(data: GloVeData) -> tuple[float, Array, Array]:
    """μ, b and c: the weighted mean of ln N, and alternating weighted means of what it leaves, of rows and of columns."""
    N, f = data.pairs.matrix, data.weights
    x = data.pairs.logs.astype(np.float64)
    mean = float((f @ x) / f.sum())
    F, X = (
        sp.csr_array((part, N.indices, N.indptr), shape=N.shape) for part in (f, f * (x - mean))
    )
    masses, sums = ([M.sum(axis=axis) for axis in (1, 0)] for M in (F, X))
    b, c = (np.zeros(N.shape[0]) for _ in range(2))
    turned = F.T.tocsr()
    for _ in range(BIAS_SWEEPS):
        b = (sums[0] - F @ c) / np.where(masses[0] > 0, masses[0], 1)
        c = (sums[1] - turned @ b) / np.where(masses[1] > 0, masses[1], 1)
    return mean, b.astype(np.float32), c.astype(np.float32)


@dataclass(frozen=True)
class GloVeALSAlgorithm:
    """Sweeps of `completion.ALS` over the weighted log-counts; its F is ½J."""

    inner: ALSAlgorithm

    hint: ClassVar[str] = "raise reg"

    def init(self, data: Observed, rng: np.random.Generator) -> ALSState:
        return self.inner.init(data, rng)

    def step(self, state: ALSState, data: Observed) -> ALSState:
        return self.inner.step(state, data)

    def objective(self, state: ALSState) -> float:
        return 2 * state.loss

    def attributes(self, state: ALSState) -> dict[str, Any]:
        ones = np.ones(len(state.U)), np.ones(len(state.V))
        U, V = in_order(state.U, state.V, *ones)
        return public_attributes(U, V, state.b, state.c, state.mean, 2 * state.loss)
