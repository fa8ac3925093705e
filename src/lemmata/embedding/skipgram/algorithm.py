"""Skip-gram and CBOW by negative sampling: words separate the words around them from words drawn at random.

    maximise  Σ_(w,v)  ln σ(⟨ζ_w, z_v⟩ + b_v)  +  Σ_(w,u)  ln σ(−⟨ζ_w, z_u⟩ − b_u)                                 (CIL (3.50))

over pairs (w, v) of a word and one in its window, and pairs (w, u) with u drawn from q ∝ p^α. The number of negatives
has a name:

    "pair"        r for each pair (w, v), as word2vec draws them
    "window"      r for each occurrence of w, each counted once for every pair: the same expectation, some 3 times faster
    "occurrence"  r for each occurrence of w, counted once: CIL (3.49) as it is written, 2R times fewer

(an occurrence without neighbours has no pair, and gets no negatives either.) CBOW and documents have the same terms with
another input: the sum or mean of a window's ζ, and the vector of a document, each with one pair for an occurrence.

Noise contrastive estimation (Gutmann & Hyvärinen 2010; Mnih & Teh 2012) asks the same, given what noise there is: a pair is
one of 1 + r, and if s is to be ln p(v | w), the odds are p(v | w) / r q_v. So s − ln(r q_v) stands in the place of s, and the
best s is the log-probability of the softmax (3.46), normalised by itself. Here that is a bias b_v − ln(r q_v).

A step is an epoch: one pass of single gradient steps with the rate γ that falls linearly from `alpha` to `min_alpha` over all
epochs. The loss of a state is measured at that state, on windows and negatives that are the same for every epoch: the mean over
pairs of −ln σ(s_v) − Σ ln σ(−s_u), or an estimate of it by evenly spaced chunks of a long text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.core import storable
from lemmata.core.engine import cores, run_tasks
from lemmata.embedding.skipgram import _twins as twins
from lemmata.embedding.skipgram.contexts import Biases, WindowedText
from lemmata.embedding.windows.sampling import Chunks, noise

Array = np.ndarray
RATES = {True: 0.025, False: 0.075}  # of skip-gram; of CBOW, whose gradients are a window's mean
SHARED = {"pair": 0, "window": 1, "occurrence": 2}
TABLE = 1024  # steps of σ and ln(1 + eˢ) over −8 … 8, read by straight lines in between: wrong by 1e-5 at most
MEASURE = 2**63  # the key of the draws that the loss is measured on
TINY = 1e-30  # for words that do not occur, which are neither seen nor drawn
NO_PARTS = np.empty(0, np.int64), np.empty(0, np.int32)


@storable
@dataclass(frozen=True)
class SkipGramState:
    """Vectors of inputs and outputs, and what the next epoch needs."""

    version = 1
    layout: ClassVar[dict[str, str]] = {
        "vectors": "i k",
        "outputs": "m k",
        "biases": "d",
        "loss running_loss": "any",
        "epoch": "int >=0 <=999999999",
        "seed": "int >=0",
    }

    # ζ (v, k), then vectors of parts of words if there are any; or of documents (n, k)
    vectors: Array
    outputs: Array  # z (v, k); (0, k) of one embedding
    biases: Array  # b (v,), zeros without
    epoch: int
    seed: int
    loss: float  # at these vectors, per pair
    running_loss: float  # the mean over the epoch's own steps, each before it was made

    def attributes(self, tied: bool) -> dict[str, Any]:
        """Return inputs and outputs as they are trained; the estimator makes vectors of words of them."""
        return {
            "embedding_": self.vectors,
            "context_embedding_": self.vectors if tied else self.outputs,
            "biases_": self.biases,
            "loss_": self.loss,
        }


def check_sizes(state: SkipGramState, data: WindowedText, size: int, tied: bool) -> None:
    """ValueError where a state from a file is none of this text: kernels do not look where they write."""
    rows = len(state.vectors), len(state.outputs), len(state.biases), state.vectors.shape[1]
    v = len(data.counts)
    wanted = data.n_inputs, 0 if tied else v, v, size
    if rows != wanted:
        raise ValueError(
            f"a state of {rows} inputs, outputs, biases and columns; this text has {wanted}."
        )


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
    contrast: bool = False  # noise contrastive estimation
    alpha: float = 0.025
    min_alpha: float = 1e-4
    deterministic: bool = False

    hint: ClassVar[str] = "lower alpha"

    @classmethod
    def of(cls, model: Any, biases: Biases) -> SkipGramAlgorithm:
        """The algorithm of a `SkipGram`; ValueError where its parameters contradict each other."""
        alpha = RATES[bool(model.sg)] if model.alpha is None else model.alpha
        if model.min_alpha > alpha:
            raise ValueError(
                f"min_alpha={model.min_alpha} exceeds alpha={alpha}, which falls to it; pass min_alpha <= alpha."
            )
        if model.tied and not model.sg:
            raise ValueError(
                "tied=True only works with skip-gram: CBOW's inputs are means of windows; pass sg=True."
            )
        contrast = model.objective == "nce"
        if contrast and not biases.trained:
            raise ValueError(
                "objective='nce' estimates log-probabilities, whose level is b: pass biases=True or biases='clamped'."
            )
        if contrast and model.negatives_per == "occurrence":
            raise ValueError(
                "objective='nce' has to know how many negatives a pair has; pass negatives_per='pair' or 'window'."
            )
        return cls(
            vector_size=model.vector_size - biases.coordinates,
            epochs=model.epochs,
            sg=bool(model.sg),
            negative=model.negative,
            shared=model.negatives_per,
            shrink=bool(model.shrink_windows),
            mean=bool(model.cbow_mean),
            tied=bool(model.tied),
            biases=biases.trained,
            contrast=contrast,
            alpha=float(alpha),
            min_alpha=float(model.min_alpha),
            deterministic=bool(model.deterministic),
        )

    # --- the loop ---

    def init(self, data: WindowedText, rng: np.random.Generator) -> SkipGramState:
        """ζ uniform in ±1/2k, z = 0, as word2vec begins; with NCE, b_v is the frequency's logarithm."""
        v, k = len(data.counts), self.vector_size
        vectors = ((rng.random((data.n_inputs, k)) - 0.5) / k).astype(np.float32)
        outputs = np.zeros((0 if self.tied else v, k), np.float32)
        seed = int(rng.integers(2**62))
        b = np.log(noise(data.counts, 1.0) + TINY) if self.contrast else np.zeros(v)
        state = SkipGramState(vectors, outputs, b.astype(np.float32), 0, seed, 0.0, np.nan)
        return self.at(state, data)

    def odds(self, data: WindowedText) -> Array:
        """−ln(r q_v), what NCE adds to a log-probability; zeros for negative sampling."""
        q = noise(data.counts, data.ns_exponent)
        shift = -np.log(self.negative * q + TINY) if self.contrast else np.zeros(len(q))
        return shift.astype(np.float32)

    def check_state(self, state: SkipGramState, data: WindowedText) -> None:
        check_sizes(state, data, self.vector_size, self.tied)

    def at(self, state: SkipGramState, data: WindowedText) -> SkipGramState:
        """Return the state with its loss."""
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
        return state.attributes(self.tied)

    def rate(self, share: float) -> float:
        """γ when this share of all epochs is done."""
        return max(self.min_alpha, self.alpha - (self.alpha - self.min_alpha) * share)

    def _trainer(
        self, data: WindowedText, state: SkipGramState
    ) -> CompiledTrainer | BatchedTrainer:
        compiles = data.compiles(self.epochs, self.negative, self.vector_size)
        return (CompiledTrainer if compiles else BatchedTrainer)(self, data, state)


# --- an epoch, and the loss between epochs: by kernels on threads, or by NumPy in mini-batches ---


class CompiledTrainer:
    """An epoch by kernels: one thread after the other's chunk, or all of them at once without locks."""

    def __init__(self, algorithm: SkipGramAlgorithm, data: WindowedText, state: SkipGramState):
        from lemmata.linalg.simd import to_lines

        self.algorithm, self.data, self.state = algorithm, data, state
        self.lanes = -(-algorithm.vector_size // 16)
        self.inputs = self._writable(to_lines(state.vectors))
        self.outputs = self.inputs if algorithm.tied else self._writable(to_lines(state.outputs))
        self.odds = algorithm.odds(data)
        self.biases = state.biases + self.odds
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
        return self._over(
            self.data.loss_chunks(), 0, self.state.seed + MEASURE, (0.0, 0.0, 0.0), True
        )

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
        """Vectors, the rows they are made of, and what predicts what, as the kernel takes them."""
        from lemmata.embedding.skipgram import _kernels as kernels

        a, data = self.algorithm, self.data
        table = data.parts
        firsts, parts = NO_PARTS if table is None else (table.firsts, table.rows)
        widest = (1 if table is None else table.widest) * (1 if a.sg else 2 * data.window)
        source = kernels.WORD if a.sg else kernels.WINDOW
        if data.context.documents:
            source = kernels.UNIT
        return (
            self.inputs, self.outputs, self.biases, self.lanes, firsts, parts, widest, data.window, a.shrink,
            data.context.whole, source, a.negative, SHARED[a.shared], a.mean,
        )  # fmt: skip

    def result(self) -> tuple[Array, Array, Array]:
        vectors, outputs = (
            np.ascontiguousarray(
                lines.reshape(-1, 16 * self.lanes)[:, : self.algorithm.vector_size]
            )
            for lines in (self.inputs, self.outputs)
        )
        return vectors, outputs, self.biases - self.odds


class BatchedTrainer:
    """An epoch by mini-batches in NumPy, without a compiler. It is the same for any number of threads."""

    def __init__(self, algorithm: SkipGramAlgorithm, data: WindowedText, state: SkipGramState):
        self.algorithm, self.data, self.state = algorithm, data, state
        self.inputs = state.vectors.copy()
        self.outputs = self.inputs if algorithm.tied else state.outputs.copy()
        self.odds = algorithm.odds(data)
        self.biases = state.biases + self.odds

    def epoch(self) -> tuple[float, int]:
        a, done = self.algorithm, self.state.epoch
        return self._over(self.data.chunks(), done, lambda share: a.rate((done + share) / a.epochs))

    def measure(self) -> tuple[float, int]:
        return self._over(self.data.loss_chunks(), 2**32, lambda share: 0.0)

    def _over(self, blocks: Iterable[Chunks], number: int, rates: Any) -> tuple[float, int]:
        a, data = self.algorithm, self.data
        rng = np.random.default_rng([self.state.seed, number])
        biases = self.biases if a.biases else None
        shares = None if data.parts is None else data.parts.shares
        batches = twins.BatchSteps(
            self.inputs, self.outputs, biases, data.table, a.negative, rng, a.alpha, shares
        )
        total, pairs, n = 0.0, 0, max(1, data.text.n_tokens)
        for block in blocks:
            for first, last in block.ranges:
                begin, end = block.starts[first], block.starts[last]
                ids, cut = block.ids[begin:end], block.starts[first : last + 1] - begin
                kept = twins.keep_words(ids, cut, data.keep, rng)
                unit = block.unit + first
                found = data.context.draw(kept, data.window, a.shrink, unit, rng)
                # where in the epoch this chunk is
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
        return self.inputs, self.outputs, self.biases - self.odds
