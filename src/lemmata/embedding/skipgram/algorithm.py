"""Skip-gram and CBOW by negative sampling: words tell the words around them from words drawn at random.

    maximise  Σ_(w,v)  ln σ(⟨ζ_w, z_v⟩ + b_v)  +  Σ_(w,u)  ln σ(−⟨ζ_w, z_u⟩ − b_u)                                 (CIL (3.50))

over pairs (w, v) of a word and one in its window, and pairs (w, u) with u drawn from q ∝ p^α. How many negatives there are is
named apart:

    "pair"        r for each pair (w, v), as word2vec draws them
    "window"      r for each occurrence of w, each counted once for every pair: the same expectation, some 3 times faster
    "occurrence"  r for each occurrence of w, counted once: CIL (3.49) as it is written, 2R times fewer

(an occurrence that meets no other word has no pair, and gets no negatives either.) CBOW and documents have the same terms with
another input: the sum or mean of a window's ζ, and the vector of a document, each with one pair for an occurrence.

A step is an epoch: one pass of single gradient steps with the rate γ that falls linearly from `alpha` to `min_alpha` over all
epochs. The loss of a state is measured at that state, on windows and negatives that are the same for every epoch: the mean over
pairs of −ln σ(s_v) − Σ ln σ(−s_u), or an estimate of it by evenly spaced chunks of a long text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.core import storable
from lemmata.embedding.skipgram.windowed import WindowedText

Array = np.ndarray


@storable
@dataclass(frozen=True)
class SkipGramState:
    """Vectors of inputs and outputs, and what the next epoch needs."""

    version = 1
    layout: ClassVar[dict[str, str]] = {
        "vectors": "i k", "outputs": "m k", "biases": "d", "loss": "any", "running_loss": "any",
        "epoch": "int >=0", "seed": "int >=0",
    }  # fmt: skip

    vectors: (
        Array  # ζ (v, k), then vectors of parts of words if they have any; or of documents (n, k)
    )
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
        vectors = ((rng.random((data.n_inputs, k)) - 0.5) / k).astype(np.float32)
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
        """Inputs and outputs as they are trained; `shown.attributes_of` makes vectors of words of them."""
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
        from lemmata.embedding.skipgram.trainers import Batched, Compiled

        rows = len(state.vectors), len(state.outputs), len(state.biases)
        wanted = data.n_inputs, 0 if self.tied else len(data.counts), len(data.counts)
        if rows != wanted:  # from a file: kernels do not look where they write
            raise ValueError(
                f"a state of {rows} inputs, outputs and biases; this text has {wanted}."
            )
        kind = Compiled if data.compiles(self.epochs, self.negative, self.vector_size) else Batched
        return kind(self, data, state)
