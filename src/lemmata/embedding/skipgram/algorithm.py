"""Skip-gram and CBOW by negative sampling: words tell the words around them from words drawn at random.

    maximise  Σ_(w,v)  ln σ(⟨ζ_w, z_v⟩ + b_v)  +  Σ_(w,u)  ln σ(−⟨ζ_w, z_u⟩ − b_u)                                 (CIL (3.50))

over pairs (w, v) of a word and one in its window, and pairs (w, u) with u drawn from q ∝ p^α. How many negatives there are is
named apart:

    "pair"        r for each pair (w, v), as word2vec draws them
    "window"      r for each occurrence of w, each counted once for every pair: the same expectation, some 3 times faster
    "occurrence"  r for each occurrence of w, counted once: CIL (3.49) as it is written, 2R times fewer

A step is an epoch: one pass of single gradient steps with the rate γ that falls linearly from `alpha` to `min_alpha` over all
epochs. The loss of a state is measured at that state, on windows and negatives that are the same for every epoch: the mean over
pairs of −ln σ(s_v) − Σ ln σ(−s_u), or an estimate of it by evenly spaced chunks of a long text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.core import storable
from lemmata.core.engine import cores, run_tasks
from lemmata.embedding.skipgram.windowed import WindowedText

Array = np.ndarray
SHARED = {"pair": 0, "window": 1, "occurrence": 2}
TABLE = 1024  # steps of σ and ln(1 + eˢ) over −8 … 8, read by straight lines in between: wrong by 1e-5 at most
MEASURE = 2**63  # the key of the draws that the loss is measured on


@storable
@dataclass(frozen=True)
class SkipGramState:
    """Vectors of inputs and outputs, and what the next epoch needs."""

    version = 1
    layout: ClassVar[dict[str, str]] = {
        "vectors": "d k", "outputs": "m k", "biases": "d", "loss": "any", "running_loss": "any",
        "epoch": "int >=0", "seed": "int >=0",
    }  # fmt: skip

    vectors: Array  # ζ (v, k)
    outputs: Array  # z (v, k); (0, k) of one embedding
    biases: Array  # b (v,), zeros without
    epoch: int
    seed: int
    loss: float  # at these vectors, per pair
    running_loss: float  # the mean over the epoch's own steps, each before it was made


@dataclass(frozen=True)
class SkipGramAlgorithm:
    """Epochs of negative sampling. Parameters as those of `SkipGram`."""

    vector_size: int
    epochs: int
    sg: bool = True
    negative: int = 5
    shared: str = "pair"
    shrink: bool = True
    mean: bool = True
    tied: bool = False
    biases: bool = False
    alpha: float = 0.025
    min_alpha: float = 1e-4
    deterministic: bool = False

    hint: ClassVar[str] = "lower alpha"

    # --- the loop ---

    def init(self, data: WindowedText, rng: np.random.Generator) -> SkipGramState:
        """ζ uniform in ±1/2k, z = 0, as word2vec begins."""
        v, k = len(data.counts), self.vector_size
        vectors = ((rng.random((v, k)) - 0.5) / k).astype(np.float32)
        outputs = np.zeros((0 if self.tied else v, k), np.float32)
        seed = int(rng.integers(2**62))
        state = SkipGramState(vectors, outputs, np.zeros(v, np.float32), 0, seed, 0.0, np.nan)
        return self.at(state, data)

    def at(self, state: SkipGramState, data: WindowedText) -> SkipGramState:
        """The state with its loss."""
        trainer = self._trainer(data, state)
        loss, pairs = trainer.measure()
        return replace(state, loss=loss / max(pairs, 1))

    def step(self, state: SkipGramState, data: WindowedText) -> SkipGramState:
        trainer = self._trainer(data, state)
        running, pairs = trainer.epoch()
        loss, measured = trainer.measure()
        vectors, outputs, biases = trainer.result()
        return replace(
            state,
            vectors=vectors,
            outputs=outputs[:0] if self.tied else outputs,
            biases=biases,
            epoch=state.epoch + 1,
            loss=loss / max(measured, 1),
            running_loss=running / max(pairs, 1),
        )

    def objective(self, state: SkipGramState) -> float:
        return state.loss

    def extras(self, state: SkipGramState) -> dict[str, float]:
        return {
            "learning_rate": self.rate(state.epoch / self.epochs),
            "running_loss": state.running_loss,
        }

    def attributes(self, state: SkipGramState) -> dict[str, Any]:
        return {
            "embedding_": state.vectors,
            "context_embedding_": state.vectors if self.tied else state.outputs,
            "biases_": state.biases,
            "loss_": state.loss,
        }

    def rate(self, share: float) -> float:
        """γ when this share of all epochs is done."""
        return max(self.min_alpha, self.alpha - (self.alpha - self.min_alpha) * share)

    def _trainer(self, data: WindowedText, state: SkipGramState) -> Any:
        kind = Compiled if data.compiles(self.epochs, self.negative, self.vector_size) else Batched
        return kind(self, data, state)


class Compiled:
    """An epoch by kernels: one thread after the other's chunk, or all of them at once without locks."""

    def __init__(self, algorithm: SkipGramAlgorithm, data: WindowedText, state: SkipGramState):
        from lemmata.linalg.simd import to_lines

        self.algorithm, self.data, self.state = algorithm, data, state
        self.lanes = -(-algorithm.vector_size // 16)
        self.inputs = self._writable(to_lines(state.vectors))
        self.outputs = self.inputs if algorithm.tied else self._writable(to_lines(state.outputs))
        self.biases = state.biases.copy()
        places = np.linspace(-8, 8, TABLE + 1)
        self.tables = np.stack([1 / (1 + np.exp(-places)), np.logaddexp(0, places)]).astype(
            np.float32
        )

    @staticmethod
    def _writable(lines: Array) -> Array:
        lines.flags.writeable = True
        return lines

    def epoch(self) -> tuple[float, int]:
        a, n = self.algorithm, self.data.text.n_tokens
        fall = (a.alpha - a.min_alpha) / max(1, a.epochs * n)
        before = self.state.epoch * n
        return self._over(
            self.data.chunks(),
            before,
            self.state.seed,
            (a.alpha, a.min_alpha, fall),
            not a.deterministic,
        )

    def measure(self) -> tuple[float, int]:
        return self._over(self.data.measured(), 0, self.state.seed + MEASURE, (0.0, 0.0, 0.0), True)

    def _over(
        self, blocks: Any, before: int, seed: int, rates: Any, parallel: bool
    ) -> tuple[float, int]:
        """All chunks; the loss is added up in their order."""
        from lemmata.embedding.skipgram import _kernels as kernels

        a, data = self.algorithm, self.data
        key = np.uint64(seed % 2**64)
        total, pairs = 0.0, 0
        for position, (ids, starts), ranges in blocks:
            found: list[Any] = [None] * len(ranges)

            def work(
                task: int, position=position, ids=ids, starts=starts, ranges=ranges, found=found
            ) -> None:
                head = (
                    ids,
                    starts,
                    *ranges[task],
                    before + position,
                    key,
                    data.keep_bits,
                    data.alias,
                )
                body = (
                    self.inputs,
                    self.outputs,
                    self.biases,
                    self.lanes,
                    data.window,
                    a.shrink,
                    a.negative,
                )
                if a.sg:
                    tail = (SHARED[a.shared], *rates, self.tables, a.biases)
                    found[task] = kernels.train_skipgram(*head, *body, *tail)
                else:
                    middle = np.zeros((2 * self.lanes, 16), np.float32)
                    tail = (a.mean, *rates, self.tables, a.biases, _aligned(middle))
                    found[task] = kernels.train_cbow(*head, *body, *tail)

            if parallel and cores() > 1:
                run_tasks(work, len(ranges))
            else:
                for task in range(len(ranges)):
                    work(task)
            total += float(sum(loss for loss, _ in found))
            pairs += sum(count for _, count in found)
        return total, pairs

    def result(self) -> tuple[Array, Array, Array]:
        v, k = self.state.vectors.shape
        vectors, outputs = (
            np.ascontiguousarray(lines.reshape(v, -1)[:, :k])
            for lines in (self.inputs, self.outputs)
        )
        return vectors, outputs, self.biases


def _aligned(array: Array) -> Array:
    from lemmata.linalg.simd import empty_lines

    lines = empty_lines(1, len(array), array.dtype)[0]
    lines[:] = array
    return lines


class Batched:
    """An epoch by mini-batches in NumPy, without a compiler. It is the same for any number of threads."""

    def __init__(self, algorithm: SkipGramAlgorithm, data: WindowedText, state: SkipGramState):
        self.algorithm, self.data, self.state = algorithm, data, state
        self.inputs = state.vectors.copy()
        self.outputs = self.inputs if algorithm.tied else state.outputs.copy()
        self.biases = state.biases.copy()

    def epoch(self) -> tuple[float, int]:
        a, done = self.algorithm, self.state.epoch
        return self._over(self.data.chunks(), done, lambda share: a.rate((done + share) / a.epochs))

    def measure(self) -> tuple[float, int]:
        return self._over(self.data.measured(), 2**32, lambda share: 0.0)

    def _over(self, blocks: Any, number: int, rates: Any) -> tuple[float, int]:
        from lemmata.embedding.skipgram import _twins as twins

        a, data = self.algorithm, self.data
        rng = np.random.default_rng([self.state.seed, number])
        biases = self.biases if a.biases else None
        batches = twins.Batches(
            self.inputs, self.outputs, biases, data.table, a.negative, rng, a.alpha
        )
        total, pairs, n = 0.0, 0, max(1, data.text.n_tokens)
        for position, (ids, starts), ranges in blocks:
            for first, last in ranges:
                begin, end = starts[first], starts[last]
                cut = starts[first : last + 1] - begin
                found = twins.draw_windows(
                    ids[begin:end], cut, data.keep, data.window, a.shrink, rng
                )
                # where in the epoch this chunk lies
                low, high = (position + begin) / n, (position + end) / n

                def here(share: float, low=low, high=high) -> float:
                    return rates(low + share * (high - low))

                if not len(found.owner):
                    continue
                if a.sg:
                    loss, count = batches.skipgram(found, a.shared, here)
                else:
                    loss, count = batches.cbow(found, a.mean, here)
                total, pairs = total + loss, pairs + count
        return total, pairs

    def result(self) -> tuple[Array, Array, Array]:
        return self.inputs, self.outputs, self.biases
