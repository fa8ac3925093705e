"""An epoch of negative sampling, and the loss between epochs: by kernels on threads, or by NumPy in mini-batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from lemmata.core.engine import cores, run_tasks
from lemmata.embedding.skipgram.windowed import Chunks, WindowedText

if TYPE_CHECKING:
    from lemmata.embedding.skipgram.algorithm import SkipGramAlgorithm, SkipGramState

Array = np.ndarray
SHARED = {"pair": 0, "window": 1, "occurrence": 2}
TABLE = 1024  # steps of σ and ln(1 + eˢ) over −8 … 8, read by straight lines in between: wrong by 1e-5 at most
MEASURE = 2**63  # the key of the draws that the loss is measured on
NO_PARTS = np.empty(0, np.int64), np.empty(0, np.int32)


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
        rates = (a.alpha, a.min_alpha, fall)
        before = self.state.epoch * n
        return self._over(self.data.chunks(), before, self.state.seed, rates, not a.deterministic)

    def measure(self) -> tuple[float, int]:
        return self._over(self.data.measured(), 0, self.state.seed + MEASURE, (0.0, 0.0, 0.0), True)

    def _over(
        self, blocks: Iterable[Chunks], before: int, seed: int, rates: Any, parallel: bool
    ) -> tuple[float, int]:
        """All chunks; the loss is added up in their order."""
        from lemmata.embedding.skipgram import _kernels as kernels
        from lemmata.linalg.simd import empty_lines

        data, key, model = self.data, np.uint64(seed % 2**64), self._model()
        total, pairs = 0.0, 0
        for block in blocks:
            found: list[Any] = [None] * len(block.ranges)

            def work(task: int, block: Chunks = block, found: list[Any] = found) -> None:
                found[task] = kernels.train(
                    block.ids, block.starts, *block.ranges[task], before + block.position, block.unit, key,
                    data.keep_bits, data.alias, *model, *rates, self.tables, self.algorithm.biases,
                    empty_lines(1, 2 * self.lanes, np.float32)[0],
                )  # fmt: skip

            if parallel and cores() > 1:
                run_tasks(work, len(block.ranges))
            else:
                for task in range(len(block.ranges)):
                    work(task)
            total += float(sum(loss for loss, _ in found))
            pairs += sum(count for _, count in found)
        return total, pairs

    def _model(self) -> tuple[Any, ...]:
        """Vectors, what they are made of, and who predicts whom, as the kernel takes them."""
        from lemmata.embedding.skipgram import _kernels as kernels

        a, data = self.algorithm, self.data
        table = data.parts
        firsts, parts = NO_PARTS if table is None else (table.firsts, table.rows)
        widest = (1 if table is None else table.widest) * (1 if a.sg else 2 * data.window)
        source = kernels.WORD if a.sg else kernels.WINDOW
        if data.context == "document":
            source = kernels.UNIT
        return (
            self.inputs, self.outputs, self.biases, self.lanes, firsts, parts, widest, data.window, a.shrink,
            data.context == "sentence", source, a.negative, SHARED[a.shared], a.mean,
        )  # fmt: skip

    def result(self) -> tuple[Array, Array, Array]:
        vectors, outputs = (
            np.ascontiguousarray(
                lines.reshape(-1, 16 * self.lanes)[:, : self.algorithm.vector_size]
            )
            for lines in (self.inputs, self.outputs)
        )
        return vectors, outputs, self.biases


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

    def _over(self, blocks: Iterable[Chunks], number: int, rates: Any) -> tuple[float, int]:
        from lemmata.embedding.skipgram import _twins as twins

        a, data = self.algorithm, self.data
        rng = np.random.default_rng([self.state.seed, number])
        biases = self.biases if a.biases else None
        shares = None if data.parts is None else data.parts.shares
        batches = twins.Batches(
            self.inputs, self.outputs, biases, data.table, a.negative, rng, a.alpha, shares
        )
        total, pairs, n = 0.0, 0, max(1, data.text.n_tokens)
        for block in blocks:
            for first, last in block.ranges:
                begin, end = block.starts[first], block.starts[last]
                ids, cut = block.ids[begin:end], block.starts[first : last + 1] - begin
                kept = twins.keep_words(ids, cut, data.keep, rng)
                if data.context == "document":
                    found = twins.draw_documents(kept, block.unit + first)
                elif data.context == "sentence":
                    found = twins.draw_sentences(kept, 2 * data.window, rng)
                else:
                    found = twins.draw_windows(kept, data.window, a.shrink, rng)
                # where in the epoch this chunk lies
                low, high = (block.position + begin) / n, (block.position + end) / n

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
