"""Vectors trained to be averaged: the mean of a sentence's words predicts words, against words drawn at random.

    maximise  Σ_(s, v)  ln σ(⟨h_s, z_v⟩)  +  Σ_(s, u)  ln σ(−⟨h_s, z_u⟩),        h_s = (1/n) Σ_(w in s) x_w

over words v of the same sentence, left out of the mean ("words": CBOW whose window is the sentence; Kenter et al. 2016,
Pagliardini et al. 2018), or of the sentences before and after ("neighbours": what skip-thought does with networks, by bags of
words; Hill et al. 2016), and negatives u drawn from q ∝ p^α. ML "Text Representation" names both: words such that averaging
works well, and sentences that appear together with context sentences.

A step is an epoch of single gradient steps with a rate that falls linearly. The loss of a state is measured at that state, on
draws that are the same for every epoch: the mean over targets, of a long text over evenly spaced chunks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.core import storable
from lemmata.core.engine import worth_compiling
from lemmata.embedding.sentences._twins import list_targets
from lemmata.embedding.skipgram import _twins as twins
from lemmata.embedding.windows.sampling import Chunks, SampledText
from lemmata.text.encoded import EncodedText

Array = np.ndarray
TARGETS = ("words", "neighbours")
# multiplications; NumPy needs some 40 ns for one (a mean is made for every target), the compiler 5 s
WORTH_COMPILING = 2**27
TABLE = 1024  # steps of σ and ln(1 + eˢ) over −8 … 8
MEASURE = 2**63  # the key of the draws that the loss is measured on


@dataclass(frozen=True)
class SentenceText(SampledText):
    """Sentences, which of their words are kept, and what negatives are drawn from."""

    text: EncodedText
    counts: Array  # (v,) how often each word occurs
    sample: float = 1e-3
    ns_exponent: float = 0.75

    @property
    def sizes(self) -> dict[str, int]:
        """The letters of a state that only this problem knows."""
        return {"d": len(self.counts)}

    def fingerprint(self) -> str:
        return f"{self.text.fingerprint()} {self.sample} {self.ns_exponent}"


@storable
@dataclass(frozen=True)
class SentenceState:
    """Vectors of inputs and outputs, and what the next epoch needs."""

    version = 1
    layout: ClassVar = {"vectors outputs": "d k", "loss": "any", "epoch seed": "int >=0"}

    vectors: Array  # x (v, k)
    outputs: Array  # z (v, k)
    epoch: int
    seed: int
    loss: float  # at these vectors, per target


@dataclass(frozen=True)
class SentenceAlgorithm:
    """Epochs of negative sampling. Parameters as those of `SentenceEmbedding`."""

    vector_size: int
    epochs: int
    targets: str = "words"
    negative: int = 5
    alpha: float = 0.2
    min_alpha: float = 1e-4

    hint: ClassVar[str] = "lower alpha"

    def init(self, data: SentenceText, rng: np.random.Generator) -> SentenceState:
        """x uniform in ±1/2k, z = 0, as word2vec begins."""
        v, k = len(data.counts), self.vector_size
        vectors = ((rng.random((v, k)) - 0.5) / k).astype(np.float32)
        state = SentenceState(
            vectors, np.zeros((v, k), np.float32), 0, int(rng.integers(2**62)), 0.0
        )
        return self.at(state, data)

    def step(self, state: SentenceState, data: SentenceText) -> SentenceState:
        trainer = self._trainer(data, state)
        trainer.epoch()
        loss = trainer.measure()
        vectors, outputs = trainer.result()
        return replace(state, vectors=vectors, outputs=outputs, epoch=state.epoch + 1, loss=loss)

    def objective(self, state: SentenceState) -> float:
        return state.loss

    def extras(self, state: SentenceState) -> dict[str, float]:
        return {"learning_rate": self.rate(state.epoch / self.epochs)}

    def attributes(self, state: SentenceState) -> dict[str, Any]:
        return {
            "embedding_": state.vectors,
            "context_embedding_": state.outputs,
            "loss_": state.loss,
        }

    def rate(self, share: float) -> float:
        """γ when this share of all epochs is done."""
        return max(self.min_alpha, self.alpha - (self.alpha - self.min_alpha) * share)

    def _trainer(self, data: SentenceText, state: SentenceState) -> Any:
        work = float(data.text.n_tokens) * self.epochs * (2 + self.negative) * self.vector_size
        compiles = worth_compiling(work, above=WORTH_COMPILING)
        return (CompiledSentences if compiles else BatchedSentences)(self, data, state)

    def at(self, state: SentenceState, data: SentenceText) -> SentenceState:
        """The state with its loss."""
        return replace(state, loss=self._trainer(data, state).measure())


class CompiledSentences:
    """An epoch by kernels, on one thread: the same bits wherever it runs."""

    def __init__(self, algorithm: SentenceAlgorithm, data: SentenceText, state: SentenceState):
        from lemmata.linalg.simd import empty_lines, to_lines

        self.algorithm, self.data, self.state = algorithm, data, state
        self.lanes = -(-algorithm.vector_size // 16)
        self.inputs, self.outputs = to_lines(state.vectors), to_lines(state.outputs)
        for lines in (self.inputs, self.outputs):
            lines.flags.writeable = True
        longest = max((int(np.diff(starts).max(initial=0)) for _, starts in data.text), default=0)
        self.middle = empty_lines(1, 3 * self.lanes, np.float32)[0]
        self.moved = empty_lines(1, max(longest, 1) * self.lanes, np.float32)[0]
        places = np.linspace(-8, 8, TABLE + 1)
        tables = np.stack([1 / (1 + np.exp(-places)), np.logaddexp(0, places)])
        self.tables = tables.astype(np.float32)

    def epoch(self) -> float:
        a, n = self.algorithm, self.data.text.n_tokens
        fall = (a.alpha - a.min_alpha) / max(1, a.epochs * n)
        rates = (a.alpha, a.min_alpha, fall)
        return self._over(self.data.chunks(), self.state.epoch * n, self.state.seed, rates)

    def measure(self) -> float:
        return self._over(self.data.loss_chunks(), 0, self.state.seed + MEASURE, (0.0, 0.0, 0.0))

    def _over(self, blocks: Iterable[Chunks], before: int, seed: int, rates: Any) -> float:
        """The mean loss of all targets, each before its step."""
        from lemmata.embedding.sentences import _kernels as kernels

        a, data = self.algorithm, self.data
        train = kernels.train_words if a.targets == "words" else kernels.train_neighbours
        total, targets = 0.0, 0
        for block in blocks:
            for first, last in block.ranges:
                loss, count = train(
                    block.ids, block.starts, first, last, before + block.position, np.uint64(seed % 2**64), data.keep_bits,
                    data.alias, self.inputs, self.outputs, self.lanes, a.negative, *rates, self.tables,
                    np.empty(0, np.float32), self.middle, self.moved,
                )  # fmt: skip
                total, targets = total + loss, targets + count
        return total / max(targets, 1)

    def result(self) -> tuple[Array, Array]:
        v, k = self.state.vectors.shape
        vectors, outputs = (
            np.ascontiguousarray(lines.reshape(v, -1)[:, :k])
            for lines in (self.inputs, self.outputs)
        )
        return vectors, outputs


class BatchedSentences:
    """An epoch by mini-batches in NumPy, without a compiler. Neighbours are those within a chunk of sentences."""

    def __init__(self, algorithm: SentenceAlgorithm, data: SentenceText, state: SentenceState):
        self.algorithm, self.data, self.state = algorithm, data, state
        self.inputs, self.outputs = state.vectors.copy(), state.outputs.copy()

    def epoch(self) -> float:
        a, done = self.algorithm, self.state.epoch
        return self._over(self.data.chunks(), done, lambda share: a.rate((done + share) / a.epochs))

    def measure(self) -> float:
        return self._over(self.data.loss_chunks(), 2**32, lambda share: 0.0)

    def _over(self, blocks: Iterable[Chunks], number: int, rates: Any) -> float:
        a, data = self.algorithm, self.data
        rng = np.random.default_rng([self.state.seed, number])
        batches = twins.BatchSteps(
            self.inputs, self.outputs, None, data.table, a.negative, rng, a.alpha
        )
        total, targets, n = 0.0, 0, max(1, data.text.n_tokens)
        for block, first, last in ((one, *cut) for one in blocks for cut in one.ranges):
            begin, end = block.starts[first], block.starts[last]
            cuts = block.starts[first : last + 1] - begin
            kept = twins.keep_words(block.ids[begin:end], cuts, data.keep, rng)
            rate = rates((block.position + begin) / n)
            for shift in (0,) if a.targets == "words" else (-1, 1):
                found = list_targets(kept.words, kept.sentence, last - first, shift)
                if len(found.owner):
                    loss, count = batches.cbow(found, True, lambda share, rate=rate: rate)
                    total, targets = total + loss, targets + count
        return total / max(targets, 1)

    def result(self) -> tuple[Array, Array]:
        return self.inputs, self.outputs
