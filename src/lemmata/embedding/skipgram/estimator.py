"""Skip-gram with negative sampling, and CBOW: word2vec, with a true loss for every epoch (CIL 3.3; CIL20 5.3; ML "Skip-Gram").

    p(v | w) = σ(⟨ζ_w, z_v⟩ + b_v)                                                                                (CIL (3.47))

is the probability that v stands near w and was not drawn at random. The best of all functions of (v, w), with N_vw the pairs, r
negatives each and q what they are drawn from, is ln[N_vw / (r N_w q_v)]: shifted pointwise mutual information (CIL (3.53)).
(CIL (3.54) has the contribution of a pair to the mutual information; that is p(v, w) times it.)

    >>> texts = ["the cat sat on the mat", "the dog sat on the rug", "a cat and a dog"] * 30
    >>> model = SkipGram(vector_size=8, min_count=2, epochs=10, random_state=0).fit(texts)
    >>> model.vectors_
    WordVectors of 8 words, 8 numbers each (float32)
    >>> bool(model.trace_.objective[-1] < model.trace_.objective[0])
    True
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.embedding.skipgram import SKIPGRAM_CLAIMS, SKIPGRAM_MORE_CLAIMS
from lemmata.core import common
from lemmata.core.certificate import Fit
from lemmata.core.loop import run
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, POSITIVE, choice, fitted, parameter
from lemmata.embedding import parameters
from lemmata.embedding.base import EmbeddingModel
from lemmata.embedding.skipgram import contexts as windows
from lemmata.embedding.skipgram.algorithm import SkipGramAlgorithm, SkipGramState
from lemmata.embedding.skipgram.softmax import SoftmaxAlgorithm
from lemmata.embedding.subwords import PartTable, PartVectors
from lemmata.embedding.vectors.word_vectors import WordVectors
from lemmata.text.encoded import EncodedText, encode_with
from lemmata.text.words import Tokenizer, Vocabulary

Array = np.ndarray
OBJECTIVES: dict[str, Any] = {
    "negative": SkipGramAlgorithm,
    "nce": SkipGramAlgorithm,
    "softmax": SoftmaxAlgorithm,
}


class SkipGram(EmbeddingModel):
    """Vectors of words that predict the words around them, by negative sampling (word2vec).

    Maximises Σ ln σ(⟨ζ_w, z_v⟩ + b_v) over pairs in windows plus Σ ln σ(−⟨ζ_w, z_u⟩ − b_u) over words u drawn at random.
    Names of parameters are gensim's, where it has them.

    Attributes
    ----------
    vectors_ : WordVectors
        nearest, similarity, analogy, evaluate_similarity, evaluate_analogies, write.
    embedding_ : (n_words, k) float32
        ζ, the vectors of `vectors_`.
    context_embedding_ : (n_words, k)
        z, those of predicted words (CBOW: of the word in the middle). With context="document": (n_documents, k), the
        vectors of documents, by whose products with `embedding_` words are predicted.
    biases_ : (n_words,)
        b; zeros without, and where they are a clamped coordinate.
    parts_ : PartVectors
        Vectors of parts of words, by slot; only with max_n > 0.
    counts_ : (n_words,)
        How often each word occurs, in the order of `feature_names_in_`, the words.
    loss_ : float
        The loss per pair at the end, measured on windows that are the same for every epoch; `trace_` has one for each.
    certificate_, trace_, stopped_, n_iter_
    """

    vector_size: int = parameters.VECTOR_SIZE
    window: int = parameters.WINDOW
    _: KW_ONLY
    sg: bool = parameter(True, "boolean").doc("""
        Words predict their neighbours (skip-gram); False: the mean of a window predicts its word
        (CBOW).""")
    context: str = parameter("window", choice("window", "sentence", "document")).doc("""
        What a word is paired with. "window": words at most R away. "sentence": all words of its sentence,
        near or far; where these are more than 2R, each occurrence is paired with 2R draws of them, so that
        time stays linear. "document": the sentence itself, which gets a vector that predicts its
        words (a distributed bag of words). A sentence is what is read as one text: a line, a
        paragraph or a file, by the `unit` of `lemmata.text.read`.""")
    objective: str = parameter("negative", choice("negative", "nce", "softmax")).doc("""
        "nce": noise contrastive estimation, negative sampling that knows its noise: ⟨ζ_w, z_v⟩ + b_v
        estimates ln p(v | w) of the softmax, not ln[p(v | w) / r q_v]. It needs biases.
        "softmax": the exact likelihood (3.46) of the counts of all pairs, for 4,096 words at most;
        an epoch is 20 steps of L-BFGS, and negative, sample and alpha are not used.""")
    negative: int = parameters.NEGATIVE.doc("""
        r, words drawn for each pair.""")
    negatives_per: str = parameter("pair", choice("pair", "window", "occurrence")).doc("""
        r for each pair, as word2vec; "window": r for each occurrence, shared by its pairs with the
        weight of all of them, which has the same expectation; "occurrence": r for each occurrence,
        counted once, as CIL (3.49) is written.""")
    ns_exponent: float = parameters.NS_EXPONENT
    min_count: int = parameters.MIN_COUNT
    max_vocab_size: Any = parameters.MAX_VOCAB_SIZE
    sample: float = parameter(1e-3, NONNEGATIVE).doc("""
        t: of a word with frequency f a share of √(t/f) + t/f occurrences is kept; 0 keeps all.""")
    shrink_windows: bool = parameter(True, "boolean").doc("""
        Every occurrence looks 1 to R words far, drawn evenly: nearer words count more. False:
        always R.""")
    cbow_mean: bool = parameter(True, "boolean").doc("""
        CBOW averages the vectors of a window; False: adds them up.""")
    tied: bool = parameter(False, "boolean").doc("One embedding, ζ = z, as in CIL (3.44).")
    biases: Any = parameter(False, "boolean", choice("clamped")).doc("""
        Whether b_v is part of the model; word2vec has none. "clamped": as a coordinate of z_v whose
        counterpart in every ζ is 1, the first of `embedding_` and `context_embedding_` (CIL 3.3.4);
        it is one of the k, and no part of `vectors_`.""")
    min_n: int = parameter(3, parameters.between(1, 1000)).doc("""
        Words also consist of their parts, the runs of min_n to max_n characters of "<word>"
        (fastText: 3 to 6), and a word never seen has the vectors of its parts:
        `vectors_["unheard"]`.""")
    max_n: int = parameter(0, parameters.between(0, 1000)).doc("""
        The longest parts of words; 0: whole words only.""")
    bucket: int = parameter(2_000_000, parameters.between(1, 2**31)).doc("""
        How many slots parts are hashed into; only those that occur take memory.""")
    alpha: Any = parameter(None, POSITIVE, None).doc("""
        γ, the first learning rate; None: 0.025, and 0.075 for CBOW.""")
    min_alpha: float = parameters.MIN_ALPHA
    epochs: int = parameter(5, COUNT).doc("Passes over the text.")
    tol: float = parameters.TOL
    deterministic: bool = parameter(False, "boolean").doc("""
        The same vectors for any number of threads, by using one. False: threads write the same
        vectors without locks, so that two runs of one seed differ a little. (With
        LEMMATA_THREADS=1, and for texts small enough for NumPy, they never do.)""")
    tokenizer: Any = parameters.TOKENIZER.doc("""
        What makes words of texts; by default lower case, and words of two letters and more. Lists
        of words need none.""")
    random_state: Any = common.random_state().doc("First vectors, windows, and what is drawn.")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = SKIPGRAM_CLAIMS
    further_claims = SKIPGRAM_MORE_CLAIMS
    stored: ClassVar[dict[str, Any]] = {
        **EmbeddingModel.stored,
        "context_embedding_": "c k",
        "biases_ loss_": "audited",
        "parts_?": PartVectors,
    }

    context_embedding_: Array = fitted()
    biases_: Array = fitted()
    loss_: float = fitted()
    parts_: PartVectors = fitted()

    @property
    def _context(self) -> windows.WindowContext:
        return windows.CONTEXTS[self.context]

    @property
    def _biases(self) -> windows.Biases:
        if isinstance(self.biases, str):
            return windows.ClampedBiases(True, self.vector_size)
        return windows.Biases(bool(self.biases))

    def _algorithm(self, data: EncodedText) -> Any:  # type: ignore[override]
        self._context.refuse_wrong(self)
        if self.tied and self.max_n > 0:
            raise ValueError(
                "tied=True: a word is the same as input and as output, and outputs have no parts; pass max_n=0 or tied=False."
            )
        return OBJECTIVES[self.objective].of(self, self._biases)

    @property
    def _longest(self) -> int | None:  # type: ignore[override]
        return self._context.longest

    def _problem(self, data: EncodedText) -> Any:  # type: ignore[override]
        return self._problem_with(data, data.vocabulary.counts)

    def _problem_with(self, data: EncodedText, counts: Array) -> windows.WindowedText:
        words = data.vocabulary.words.tolist()
        parts = PartTable.of(words, self.min_n, self.max_n, self.bucket) if self.max_n else None
        drawn = self.window, float(self.sample), float(self.ns_exponent)
        return windows.WindowedText(data, counts, *drawn, self._context, parts)

    def _attributes(self, solution: Any, problem: windows.WindowedText) -> dict[str, Any]:
        """Public attributes: vectors of words with those of their parts, and of documents as contexts."""
        self._forget("parts_")
        found = dict(solution.attributes)
        inputs = found["embedding_"]
        if problem.parts is not None:
            found["parts_"] = problem.parts.vectors(inputs)
            inputs = problem.parts.compose(inputs)
        rows = self._biases.attach(inputs, found["context_embedding_"], found["biases_"])
        first, second = (1, 0) if problem.context.documents else (0, 1)
        shown = {"embedding_": rows[first], "context_embedding_": rows[second], "biases_": rows[2]}
        return {**found, **shown, "counts_": problem.counts}

    def _claims(self) -> tuple[Any, ...]:
        return self._context.claims

    def _further_claims(self) -> tuple[Any, ...]:
        return self._context.further_claims

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> SkipGram:
        """Rebuild a model from a file, and check the sizes that depend on its parameters."""
        model = super().restored(parameters, attributes)
        (words, k), contexts = model.embedding_.shape, len(model.context_embedding_)
        if not model._context.documents and contexts != words:
            raise ValueError(f"context_embedding_ has {contexts} rows for {words} words.")
        parts = getattr(model, "parts_", None)
        if parts is not None and parts.matrix.shape[1] != k - model._biases.coordinates:
            raise ValueError(f"parts_ have {parts.matrix.shape[1]} numbers, words {k}.")
        return model

    @cached_property
    def _vectors(self) -> WordVectors:
        """The vectors without the clamped coordinate: a one in every vector says nothing about its word."""
        matrix = self.embedding_[:, self._biases.coordinates :]
        return WordVectors(
            self.feature_names_in_, matrix, self.counts_, getattr(self, "parts_", None)
        )

    @classmethod
    def work(cls, fit: Fit) -> float:
        """Scores of pairs and of negatives, and steps along them."""
        each = float(fit.window) * (1 + float(fit.negative)) * np.shape(fit.embedding_)[1]
        return 2.0 * float(np.max(fit.get("n_iter_", 1))) * fit.data.size * each

    def partial_fit(self, X, y=None) -> SkipGram:
        """Continue with more text: its new words get vectors if they now occur min_count times, all others are trained further.

        A new word that has parts begins with their vectors. New documents are added to those in `context_embedding_`.
        The learning rate starts at alpha again and falls over `epochs` passes over the new text alone.
        """
        if not hasattr(self, "embedding_"):
            return self.fit(X)
        with self._all_or_nothing():
            self._validate_params()
            if self.embedding_.shape[1] != self.vector_size:
                raise ValueError(
                    f"vector_size={self.vector_size}, but the fit that is continued has vectors of {self.embedding_.shape[1]} "
                    "numbers; leave it as it was, or call fit."
                )
            known = Vocabulary(self.feature_names_in_, self.counts_)
            new = self._encode_further(X)
            total = known + new.vocabulary
            kept = total.pruned(1, None)
            data = new.over(kept)
            algorithm, problem = self._algorithm(data), self._problem_with(data, kept.counts)
            first = algorithm.init(problem, np.random.default_rng(self._rng()))
            start = self._start_from_fit(first, problem, kept.encode(list(known)))
            start = algorithm.at(start, problem)
            solution = run(
                algorithm, problem, stop=self._stop(), callbacks=self._callbacks(), start=start
            )
            self.feature_names_in_, self.n_features_in_ = kept.words, len(kept)
            attributes = self._attributes(solution, problem)
            if problem.context.documents:
                both = self.context_embedding_, attributes["context_embedding_"]
                attributes["context_embedding_"] = np.concatenate(both)
            self._conclude(None, attributes, solution.trace, solution.stopped, solution.step)
        return self

    def _encode_further(self, X: Any) -> EncodedText:
        """The new text over known words and those that occur often enough in it."""
        if not isinstance(X, EncodedText):
            X = encode_with(X, self.tokenizer or Tokenizer(), longest=self._longest)
        words, known = X.vocabulary, Vocabulary(self.feature_names_in_, self.counts_)
        often = (words.counts >= self.min_count) | (known.encode(list(words)) >= 0)
        if not often.any():
            raise ValueError(
                f"none of the {len(words):,} words of the text is known or occurs min_count={self.min_count} times in it."
            )
        return X.over(Vocabulary(words.words[often], words.counts[often]))

    def _start_from_fit(
        self, state: SkipGramState, data: windows.WindowedText, places: Array
    ) -> SkipGramState:
        """A first state with the vectors of this fit in it, its words at these places of the vocabulary."""
        shown = self.embedding_, self.context_embedding_
        inputs, outputs = shown[::-1] if data.context.documents else shown
        inputs, outputs, biases = self._biases.detach(inputs, outputs, self.biases_)
        vectors, all_outputs, b = state.vectors.copy(), state.outputs.copy(), state.biases.copy()
        b[places] = biases
        if len(all_outputs):  # not tied
            all_outputs[places] = outputs
        if data.parts is not None:
            known = getattr(self, "parts_", None)
            vectors = data.parts.continue_rows(vectors, inputs, places, known)
        elif not data.context.documents:  # those are new
            vectors[places] = inputs
        return replace(state, vectors=vectors, outputs=all_outputs, biases=b)
