"""The sum of a text's vectors, classified: a linear model of low rank, by mini-batches (Joulin et al. 2017).

    minimise  1/S Σᵢ sᵢ ℓ(zᵢ, yᵢ),   z = Bᵀh + c,   h = Aᵀx          over A: features × k,  B: k × classes,  c: classes

x is the sparse row of a text, h its vector; ℓ is the softmax loss ln Σ_c e^(z_c) − z_y,
or the hinge max(0, 1 + max_{c≠y} z_c − z_y).
With p = ∂ℓ/∂z of a row the gradients are h pᵀ for B and x gᵀ, g = Bp, for A: every feature of a text gets the same g.

Rows of A get as many steps as their words have occurrences: a rare word learns from few. So steps are Adagrad's with one
running sum for each row, a_f ← a_f − η g/√S_f, S_f = Σ ‖g‖²/k, and rare features take long ones. (With steps of one length, as
fastText's own, film reviews held out were classified 1.4 points worse.) η falls to 0 over the epochs. A batch is gathered by
rows and stepped by groups of features, whose numbers are fixed: the result does not depend on threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from lemmata.core.blocks import Blocks
from lemmata.core.engine import one_blas_thread, worth_compiling
from lemmata.core.store import storable

Array = np.ndarray
COMPILE_ABOVE = 2**29  # multiplications of a fit that NumPy does in less time than a compiler takes
TINY = 1e-30


class Texts:
    """Sparse rows x, their classes and weights, and how epochs go over them: by kernels, or by NumPy where there are few."""

    def __init__(self, data: Blocks, size: int, epochs: int, classes: int):
        assert data.targets is not None
        self.data, self.shape, self.classes = data, data.shape, classes
        self.X = sp.csr_array(data.source)
        self.y = data.targets
        weights = np.ones(len(self.y)) if data.weights is None else data.weights
        self.weights = (weights / weights.mean()).astype(np.float32)
        self.compiled = worth_compiling(4.0 * self.X.nnz * size * epochs, above=COMPILE_ABOVE)
        self._dealt: Any = None

    def fingerprint(self) -> str:
        return self.data.fingerprint()

    @property
    def sizes(self) -> dict[str, int]:
        """The letters of a state that only this problem knows."""
        return {"c": self.classes}

    def batches(self, A: Array, S: Array) -> Any:
        """Return the object that gathers and steps the vectors of mini-batches."""
        if not self.compiled:
            from lemmata.embedding.fasttext._twins import PlainBatches

            return PlainBatches(self.X, A, S)
        from lemmata.embedding.fasttext.compiled import CompiledBatches, Dealt

        if self._dealt is None:
            self._dealt = Dealt.of(self.X)
        return CompiledBatches(self._dealt, A, S)


@storable
@dataclass(frozen=True)
class FastTextState:
    """Vectors, the classifier over them, and what the next epoch needs."""

    version = 1
    layout: ClassVar = {
        "A": "d k",
        "B": "k c",
        "c": "c",
        "sums": "d >=0",
        "sums_B": "k c >=0",
        "sums_c": "c >=0",
    }

    A: Array  # (features, k)
    B: Array  # (k, classes)
    c: Array  # (classes,)
    sums: Array  # (features,) S_f
    sums_B: Array
    sums_c: Array
    epoch: int
    seed: int
    loss: float  # at these vectors, of all rows


@dataclass(frozen=True)
class FastTextAlgorithm:
    """Epochs of mini-batches. Parameters as those of `FastTextClassifier`."""

    size: int
    epochs: int
    rate: float
    batch: int
    hinge: bool
    n_words: int  # features that begin as words; the others begin at 0

    hint: ClassVar[str] = "lower learning_rate"

    def init(self, data: Texts, rng: np.random.Generator) -> FastTextState:
        n, k, classes = data.shape[1], self.size, data.classes
        A = np.zeros((n, k), np.float32)
        A[: self.n_words] = rng.uniform(-1 / k, 1 / k, (min(self.n_words, n), k))
        B, c = np.zeros((k, classes), np.float32), np.zeros(classes, np.float32)
        seed = int(rng.integers(2**62))
        state = FastTextState(
            A, B, c, np.zeros(n, np.float32), np.zeros_like(B), np.zeros_like(c), 0, seed, 0.0
        )
        return replace(state, loss=self._loss(data, data.batches(A, state.sums), B, c))

    def step(self, state: FastTextState, data: Texts) -> FastTextState:
        order = np.random.default_rng([state.seed, state.epoch]).permutation(data.shape[0])
        work = data.batches(state.A, state.sums)
        B, c, sums_B, sums_c = (
            part.copy() for part in (state.B, state.c, state.sums_B, state.sums_c)
        )
        with one_blas_thread():
            for first in range(0, len(order), self.batch):
                rows = order[first : first + self.batch]
                done = (state.epoch + first / len(order)) / max(self.epochs, state.epoch + 1)
                rate = float(self.rate * (1 - done))
                H = work.gather(rows)
                p = self._slopes(H @ B + c, data.y[rows]) * data.weights[rows, None]
                G = p @ B.T
                _adagrad_into(B, sums_B, H.T @ p, rate)
                _adagrad_into(c, sums_c, p.sum(axis=0), rate)
                work.descend(rows, G, rate)
            loss = self._loss(data, work, B, c)
        A, sums = work.vectors()
        return FastTextState(A, B, c, sums, sums_B, sums_c, state.epoch + 1, state.seed, loss)

    def objective(self, state: FastTextState) -> float:
        return state.loss

    def attributes(self, state: FastTextState) -> dict[str, Any]:
        return {
            "vectors_": state.A,
            "coef_": np.ascontiguousarray(state.B.T),
            "intercept_": state.c,
            "loss_": state.loss,
        }

    def _slopes(self, z: Array, y: Array) -> Array:
        """∂ℓ/∂z of every row."""
        rows = np.arange(len(y))
        if self.hinge:
            rival, margin = hinge_margins(z, y)
            p = np.zeros_like(z)
            p[rows, rival] = margin < 1
            p[rows, y] = -(margin < 1).astype(z.dtype)
            return p
        p = np.exp(z - logsumexp(z, axis=1, keepdims=True)).astype(z.dtype)
        p[rows, y] -= 1
        return p

    def _loss(self, data: Texts, work: Any, B: Array, c: Array) -> float:
        total, rows = 0.0, np.arange(data.shape[0])
        for part in np.array_split(rows, max(1, len(rows) // 8192)):
            z = (work.gather(part) @ B + c).astype(np.float64)
            total += float(losses(z, data.y[part], self.hinge) @ data.weights[part])
        return total / len(rows)


def _adagrad_into(theta: Array, sums: Array, gradient: Array, rate: float) -> None:
    sums += gradient**2
    theta -= theta.dtype.type(rate) * gradient / np.sqrt(np.maximum(sums, TINY))


def hinge_margins(z: Array, y: Array) -> tuple[Array, Array]:
    """The rival of the true class, and by how much its score is below that of the true one."""
    rows = np.arange(len(y))
    others = z.copy()
    others[rows, y] = -np.inf
    rival = others.argmax(axis=1)
    return rival, z[rows, y] - z[rows, rival]


def losses(z: Array, y: Array, hinge: bool) -> Array:
    """ℓ of every row."""
    if hinge:
        return np.maximum(0, 1 - hinge_margins(z, y)[1])
    return logsumexp(z, axis=1) - z[np.arange(len(y)), y]
