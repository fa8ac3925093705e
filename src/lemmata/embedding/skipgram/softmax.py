"""Skip-gram by its exact likelihood, on the counts of pairs: for vocabularies of a few thousand words.

    maximise  Σ_vw N_vw ( s_wv − ln Σ_u exp s_wu ),      s_wv = ⟨ζ_w, z_v⟩ + b_v                                  (CIL (3.46))

N_vw, how often v stands in a window of w, is all that the likelihood depends on (3.45), so a step costs words² · k whatever
the length of the text. With windows that shrink, a pair at distance Δ counts (R − Δ + 1)/R, its share of windows that reach
it; with whole sentences as context, a pair of a sentence of n words counts min{1, 2R/(n − 1)}, what is drawn of it on average.
An epoch is TURNS steps of L-BFGS, none of which lowers the likelihood. Vectors with parts, x = Pᵀa, have the gradient P ∂x.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.embedding.skipgram.algorithm import SkipGramState, check_sizes
from lemmata.embedding.skipgram.contexts import Biases, WindowedText

Array = np.ndarray
TURNS = 20  # of L-BFGS in one epoch
MOST_WORDS = 4096  # a matrix of scores of so many words takes 128 MB


@dataclass(frozen=True)
class SoftmaxAlgorithm:
    """L-BFGS on the likelihood of all pairs. Parameters as those of `SkipGram`."""

    vector_size: int
    shrink: bool = True
    tied: bool = False
    biases: bool = False

    hint: ClassVar[str] = "pass more text, or fewer numbers in a vector"

    @classmethod
    def of(cls, model: Any, biases: Biases) -> SoftmaxAlgorithm:
        """The algorithm of a `SkipGram`; ValueError where it is a CBOW."""
        if not model.sg:
            raise ValueError(
                "objective='softmax' only works with skip-gram; pass sg=True, or objective='negative'."
            )
        size, shrink = model.vector_size - biases.coordinates, bool(model.shrink_windows)
        return cls(size, shrink, bool(model.tied), biases.trained)

    def init(self, data: WindowedText, rng: np.random.Generator) -> SkipGramState:
        v, k = len(data.counts), self.vector_size
        if v > MOST_WORDS:
            raise ValueError(
                f"objective='softmax' compares all pairs of {v:,} words; it is for {MOST_WORDS:,} at most: raise min_count, "
                f"pass max_vocab_size={MOST_WORDS}, or use objective='negative'."
            )
        vectors = (rng.random((data.n_inputs, k)) - 0.5) / k
        # from 0 only one side would move
        outputs = (rng.random((0 if self.tied else v, k)) - 0.5) / k
        state = SkipGramState(
            vectors.astype(np.float32), outputs.astype(np.float32), np.zeros(v, np.float32), 0,
            int(rng.integers(2**62)), 0.0, np.nan,
        )  # fmt: skip
        return self.at(state, data)

    def check_state(self, state: SkipGramState, data: WindowedText) -> None:
        check_sizes(state, data, self.vector_size, self.tied)

    def at(self, state: SkipGramState, data: WindowedText) -> SkipGramState:
        """Return the state with its loss."""
        return replace(state, loss=self._problem(state, data)(self._flat(state))[0])

    def step(self, state: SkipGramState, data: WindowedText) -> SkipGramState:
        from scipy.optimize import minimize

        problem = self._problem(state, data)
        options = {"maxiter": TURNS, "maxcor": 10, "ftol": 0.0, "gtol": 0.0}
        found = minimize(problem, self._flat(state), jac=True, method="L-BFGS-B", options=options)
        X, Z, b = (np.asarray(part, np.float32) for part in problem.parts(found.x))
        return self.at(replace(state, vectors=X, outputs=Z, biases=b, epoch=state.epoch + 1), data)

    def objective(self, state: SkipGramState) -> float:
        return state.loss

    def attributes(self, state: SkipGramState) -> dict[str, Any]:
        return state.attributes(self.tied)

    def _flat(self, state: SkipGramState) -> Array:
        parts = (state.vectors, state.outputs, state.biases)
        return np.concatenate([part.ravel() for part in parts]).astype(np.float64)

    def _problem(self, state: SkipGramState, data: WindowedText) -> Likelihood:
        shares = None if data.parts is None else data.parts.shares
        n, k = state.vectors.shape
        N = data.pair_counts(self.shrink)
        return Likelihood(N, n, k, self.tied, self.biases, shares)


@dataclass(frozen=True)
class Likelihood:
    """Minus the mean log-likelihood of a pair, and its gradient, as a function of all numbers in one row."""

    N: Array
    inputs: int  # rows: words, or words and parts
    size: int
    tied: bool
    biased: bool
    shares: Any = None  # P (inputs, words), if words have parts

    def parts(self, x: Array) -> tuple[Array, Array, Array]:
        n, v, k = self.inputs, len(self.N), self.size
        A, rest = x[: n * k].reshape(n, k), x[n * k :]
        Z = rest[: 0 if self.tied else v * k].reshape(-1, k)
        return A, Z, rest[Z.size :]

    def __call__(self, x: Array) -> tuple[float, Array]:
        A, Z, b = self.parts(x)
        X = A if self.shares is None else self.shares.T @ A
        outputs = X if self.tied else Z
        S = X @ outputs.T + b
        top = S.max(axis=1, keepdims=True)
        E = np.exp(S - top)
        sums = E.sum(axis=1, keepdims=True)
        total, of_word = max(self.N.sum(), 1e-300), self.N.sum(axis=1, keepdims=True)
        loss = float((of_word * (top + np.log(sums))).sum() - (self.N * S).sum()) / total
        D = (of_word * E / sums - self.N) / total
        dX, dZ = D @ outputs, D.T @ X
        db = D.sum(axis=0) if self.biased else np.zeros(len(b))
        if self.shares is not None:
            dX = self.shares @ dX
        parts = (dX + dZ, db) if self.tied else (dX, dZ, db)
        return loss, np.concatenate([part.ravel() for part in parts])
