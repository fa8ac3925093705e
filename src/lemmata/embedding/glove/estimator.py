"""GloVe: word vectors whose inner products are log-counts of pairs (CIL 3.3.4; CIL20 5.4; Pennington et al. 2014).

    minimise  Σ_{N_wv>0} f(N_wv) (ln N_wv − ⟨ζ_w, z_v⟩ − b_w − c_v − μ)²,        f(n) = min{1, (n / x_max)^α}       (CIL (3.56))

over vectors and biases of words and of contexts; μ is the weighted mean of ln N. With f = min{1, n} and whole counts it is
plain matrix completion of ln N (CIL (3.61)). The notes leave out biases in (3.58) and say how to absorb them; (3.55) defines N
as a set where its size is meant. CIL20's (5.7), f = 1 and the SVD, holds where every pair occurs: ln 0 is no entry.

    >>> texts = ["the cat sat on the mat", "the dog sat on the rug", "a cat and a dog", "a mat and a rug"] * 10
    >>> model = GloVe(vector_size=3, min_count=2, random_state=0).fit(texts)
    >>> model.vectors_
    WordVectors of 8 words, 3 numbers each (float32)
    >>> bool(model.trace_.objective[-1] < 0.5 * model.trace_.objective[0])
    True
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.embedding.glove import GLOVE_ALS_CLAIMS, GLOVE_CLAIMS
from lemmata.completion.als.algorithm import ALSAlgorithm
from lemmata.completion.rows.solver import worth_kernels
from lemmata.core import common
from lemmata.core.certificate import Fit
from lemmata.core.engine import one_blas_thread, worth_compiling
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, POSITIVE, choice, fitted, parameter
from lemmata.core.validation import Interval
from lemmata.embedding import parameters
from lemmata.embedding.base import EmbeddingModel
from lemmata.embedding.glove.algorithm import RATES, GloVeAlgorithm, GloVeALSAlgorithm, GloVeData
from lemmata.embedding.glove.counts import PairCounts
from lemmata.embedding.windows.cooccurrence import WEIGHTINGS, CoOccurrence
from lemmata.text.encoded import EncodedText
from lemmata.text.words import Vocabulary

Array = np.ndarray
# multiplications of all epochs that NumPy does before kernels are compiled; a round costs as much as so many
COMPILE_ABOVE, PER_ROUND = 2**29, 2**14
EXACT_UP_TO = 100  # numbers a vector: beyond, rows of ALS are solved by conjugate gradients
REG = 0.3  # λ of ALS


class GloVe(EmbeddingModel):
    """Vectors of words by weighted least squares on the logarithms of how often they occur together.

    Minimises Σ f(N_wv)(ln N_wv − ⟨ζ_w, z_v⟩ − b_w − c_v − μ)² over the pairs that occur, f(n) = min{1, (n/x_max)^α}.

    Attributes
    ----------
    vectors_ : WordVectors
    embedding_ : (n_words, k) float32
        ζ + z, the vectors of `vectors_`: counts look both ways, so both mean the same, and their sum is less noisy.
    word_embedding_, context_embedding_ : ζ and z
    biases_, context_biases_ : b and c; mean_ : μ
    loss_ : float
        The objective (of "als" with its ridge) over all pairs at the end; `trace_` has one for each epoch.
    counts_ : (n_words,)
    certificate_, trace_, stopped_, n_iter_

    Two runs of one seed have the same bits on any number of threads: they never share a word (glove/blocked.py).
    """

    vector_size: int = parameters.VECTOR_SIZE.doc("""
        k, how many numbers a vector has; with solver="als" at most as many as there are words.""")
    window: int = parameter(10, parameters.between(1, 1000)).doc("""
        R: pairs are at most so far apart.""")
    _: KW_ONLY
    x_max: float = parameter(10.0, POSITIVE).doc("""
        Pairs that occur this often, and more often, count fully. 100 is the published choice for
        billions of words.""")
    alpha: float = parameter(0.75, Interval(Real, 0, 10, closed="both")).doc("""
        How fast the weight of rarer pairs falls. x_max=1, alpha=1 is f = min{1, n}.""")
    solver: str = parameter("adagrad", choice("adagrad", "sgd", "als")).doc("""
        "adagrad": steps pair by pair, each number with its own step length; "sgd": steps of equal
        length, as CIL (3.62); "als": sweeps of `completion.ALS` with f as weights and a ridge
        `reg`. An epoch of ALS costs some k/4 times as much.""")
    weighting: str = parameter("harmonic", choice(*WEIGHTINGS)).doc("""
        What a pair at distance Δ counts: 1/Δ, 1 or (R − Δ + 1)/R.""")
    learning_rate: Any = parameter(None, POSITIVE, None).doc("""
        γ of steps; None: 0.1 for "adagrad", 0.05 for "sgd".""")
    reg: Any = parameter(None, NONNEGATIVE, None).doc("""
        λ of "als", on vectors and biases; None: 0.3. Steps have none.""")
    epochs: int = parameter(25, COUNT).doc("Passes over the pairs, or sweeps.")
    tol: float = common.tol(0.0).doc("""
        Stop early when an epoch changes the objective by at most this share of it; 0: make all
        epochs.""")
    min_count: int = parameters.MIN_COUNT
    max_vocab_size: Any = parameters.MAX_VOCAB_SIZE
    tokenizer: Any = parameters.TOKENIZER
    random_state: Any = common.random_state().doc("First vectors, and the order of pairs.")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = GLOVE_CLAIMS
    stored: ClassVar[dict[str, Any]] = {
        **EmbeddingModel.stored,
        "word_embedding_ context_embedding_ biases_ context_biases_": "audited",
        "mean_ loss_ reg_": "audited",
    }

    word_embedding_: Array = fitted()
    context_embedding_: Array = fitted()
    biases_: Array = fitted()
    context_biases_: Array = fitted()

    # --- input ---

    def fit(self, X, y=None):  # type: ignore[override]
        """Fit the model and check the claims about it.

        X : texts, lists of words, a Path, an EncodedText, or the counts themselves: a CoOccurrence, whose words, window and
            weighting are then taken as they are
        """
        return super().fit(X)

    def _validate_rows(  # type: ignore[override]
        self, X, sample_weight=None, reset: bool = True, min_samples=None
    ) -> PairCounts:
        if not isinstance(X, CoOccurrence):
            text = super()._validate_rows(X, sample_weight, reset)
            return PairCounts.of(self._count(text))
        if sample_weight is not None:
            raise ValueError("pairs have no weights besides f; multiply their counts.")
        if not reset:
            known = Vocabulary(self.feature_names_in_, self.counts_)
            if list(X.vocabulary.words) != list(known.words):
                raise ValueError(
                    f"these counts are of {len(X.vocabulary):,} words, the model is of {len(known):,} others, or in another "
                    "order; pass the counts that it was fitted to, or a text."
                )
            return PairCounts.of(X)
        data = PairCounts.of(X)
        self.feature_names_in_, self.n_features_in_ = data.vocabulary.words, len(data.vocabulary)
        return data

    def _count(self, text: EncodedText) -> CoOccurrence:
        """The pairs of a text, and its words counted again: over known words a text comes with the model's own counts."""
        found = np.zeros(len(text.vocabulary), np.int64)
        for ids, _ in text:
            found += np.bincount(ids, minlength=len(found))
        pairs = CoOccurrence.of(text, int(self.window), self.weighting)
        words = Vocabulary(text.vocabulary.words, found)
        return CoOccurrence(words, pairs.matrix, pairs.window, pairs.weighting, pairs.symmetric)

    # --- fitting ---

    def _fit_blocks(self, data: Any) -> None:
        if self.reg is not None and self.solver != "als":
            raise ValueError(
                f"reg={self.reg} is of solver='als'; solver={self.solver!r} has no ridge: pass reg=None, or fewer epochs."
            )
        self.counts_ = data.vocabulary.counts
        with one_blas_thread():
            super()._fit_blocks(data)

    def _algorithm(self, data: Any) -> Any:
        k, v = int(self.vector_size), data.shape[0]
        if self.solver == "als":
            if k > v:
                raise ValueError(
                    f"vector_size={k} for {v} words: least squares takes at most one number a word; pass vector_size <= {v}."
                )
            compiled = worth_kernels(data.n_observed, 2 * v, k + 1, int(self.epochs))
            method = "cholesky" if k <= EXACT_UP_TO else "cg"
            reg = REG if self.reg is None else float(self.reg)
            return GloVeALSAlgorithm(
                ALSAlgorithm(k, reg, weighted=0.0, method=method, compiled=compiled)
            )
        rate = RATES[self.solver] if self.learning_rate is None else float(self.learning_rate)
        return GloVeAlgorithm(k, int(self.epochs), self.solver == "adagrad", rate)

    def _problem(self, data: Any) -> Any:
        x_max, alpha = float(self.x_max), float(self.alpha)
        if self.solver == "als":
            return data.as_observed(x_max, alpha)
        work = float(self.epochs) * (
            data.n_observed * int(self.vector_size) + data.shape[0] * PER_ROUND
        )
        return GloVeData.of(data, x_max, alpha, worth_compiling(work, above=COMPILE_ABOVE))

    def _attributes(self, solution: Any, problem: Any) -> dict[str, Any]:
        reg = solution.algorithm.inner.reg if self.solver == "als" else 0.0
        return {**solution.attributes, "counts_": self.counts_, "reg_": reg}

    # --- certificate ---

    def _claims(self):
        return GLOVE_ALS_CLAIMS if self.solver == "als" else GLOVE_CLAIMS

    def _title(self, data: Any) -> str:
        if data is None:
            return type(self).__name__
        v, k = self.embedding_.shape
        return f"GloVe  {v:,} words, {data.n_observed:,} pairs, {k} numbers each, {self.solver}"

    @classmethod
    def work(cls, fit: Fit) -> float:
        """Steps over the pairs; of ALS k/4 times as many."""
        k = np.shape(fit.embedding_)[1]
        per_pair = k * (k + 4) / 4 if fit.get("solver") == "als" else 8 * k
        return float(np.max(fit.get("n_iter_", 1))) * fit.data.n_observed * per_pair
