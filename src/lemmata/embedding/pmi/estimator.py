"""PMI: word vectors by the singular value decomposition of pointwise mutual information (CIL 3.3.3; CIL20 5.4).

    minimise  ‖M − ζzᵀ‖_F²      over ζ, z: words × k,      M_wv = max{0, ln[N_wv / (N_w q_v)] − shift}       (matrix.py)

solved by the k leading singular vectors, M ≈ UΣVᵀ (Eckart and Young, CIL Thm 2.3.4): ζ = UΣ^p, z = VΣ^(1−p). What skip-gram
approaches by steps is factorised here once, from counts of pairs. The certificate is that of the singular vectors.

    >>> texts = ["the cat sat on the mat", "the dog sat on the rug", "a cat and a dog", "a mat and a rug"] * 10
    >>> model = PMI(vector_size=3, min_count=2, random_state=0).fit(texts)
    >>> model.vectors_
    WordVectors of 8 words, 3 numbers each (float32)
    >>> model.certificate_.failed
    []
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.embedding.geometry import GEOMETRY_CLAIMS
from lemmata.audit.embedding.pmi import PMI_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Fit
from lemmata.core.engine import one_blas_thread
from lemmata.core.loop import MaxSteps, Never, Solution
from lemmata.core.parameters import KW_ONLY, SHARE, WHOLE, choice, fitted, parameter
from lemmata.core.validation import Interval
from lemmata.embedding import parameters
from lemmata.embedding.base import EmbeddingModel
from lemmata.embedding.pmi.matrix import information
from lemmata.embedding.windows.cooccurrence import WEIGHTINGS, CoOccurrence
from lemmata.linalg.randomized import RandomizedAlgorithm
from lemmata.reduction.covariance import EighAlgorithm, Scatter, upright
from lemmata.text.encoded import EncodedText

Array = np.ndarray
FORM_BELOW = 64  # words: so few are decomposed as a whole
OVERSAMPLES = 20


class PMI(EmbeddingModel):
    """Vectors of words from a factorisation of (shifted, positive) pointwise mutual information.

    Attributes
    ----------
    vectors_ : WordVectors
    embedding_ : (n_words, k) float32: ζ; context_embedding_ : z
    singular_values_ : (k,); components_ : (k, n_words), the right singular vectors of M
    counts_ : (n_words,)
    certificate_, trace_, stopped_, n_iter_
    """

    vector_size: int = parameters.VECTOR_SIZE.doc("""
        k, how many numbers a vector has; fewer than there are words.""")
    window: int = parameters.WINDOW
    _: KW_ONLY
    weighting: str = parameter("linear", choice(*WEIGHTINGS)).doc("""
        What a pair at distance Δ counts: (R − Δ + 1)/R, 1/Δ or 1.""")
    shift: float = parameter(0.0, Interval(Real, None, None, closed="neither")).doc("""
        Taken off the information: ln r for the optimum of skip-gram with r negatives.""")
    positive: bool = parameter(True, "boolean").doc("""
        Cut at 0. Otherwise pairs that never occur, of which the information is −∞, count as 0 among
        negative ones.""")
    ns_exponent: float = parameters.NS_EXPONENT.doc("""
        α in q ∝ p^α, the frequencies of contexts; 1: plain mutual information.""")
    power: float = parameter(0.5, SHARE).doc("p in ζ = UΣ^p.")
    min_count: int = parameters.MIN_COUNT
    max_vocab_size: Any = parameters.MAX_VOCAB_SIZE
    n_iter: int = parameter(5, WHOLE).doc("Products with MᵀM of the randomized decomposition.")
    tokenizer: Any = parameters.TOKENIZER
    random_state: Any = common.random_state().doc("Where the decomposition starts.")
    verbose: int = common.verbose()

    claims = PMI_CLAIMS
    further_claims = GEOMETRY_CLAIMS[1:]
    stored: ClassVar[dict[str, Any]] = {
        **EmbeddingModel.stored,
        "context_embedding_ components_ singular_values_": "audited",
    }

    checkpoint, time_limit, tol = None, None, 0.0
    components_: Array = fitted()
    singular_values_: Array = fitted()

    @property
    def max_iter(self) -> int:
        """The number of steps that progress is shown for."""
        return max(int(self.n_iter), 1)

    # --- the matrix ---

    def _information(self, text: EncodedText) -> Blocks:
        pairs = CoOccurrence.of(text, int(self.window), self.weighting)
        M = information(
            pairs.matrix,
            float(self.shift),
            float(self.ns_exponent),
            bool(self.positive),
            np.float32,
        )
        if not M.nnz:
            raise ValueError(
                f"no pair of words has an information above shift={self.shift}: lower it, or pass sentences of several words."
            )
        return Blocks.of(M)

    def _fit_blocks(self, data: Any) -> None:
        k, v = int(self.vector_size), len(data.vocabulary)
        if k >= v:
            raise ValueError(
                f"vector_size={k} for {v} words: a factorisation has fewer numbers than words; pass vector_size <= {v - 1}."
            )
        self.counts_ = data.vocabulary.counts
        with one_blas_thread():  # LAPACK's last bits follow the number of its threads
            super()._fit_blocks(self._information(data))

    def _algorithm(self, data: Blocks) -> Any:
        k = int(self.vector_size)
        if self._is_formed(data.shape[1]):
            return EighAlgorithm(k)
        return RandomizedAlgorithm(k, oversampling=OVERSAMPLES)

    def _is_formed(self, words: int) -> bool:
        return words <= max(FORM_BELOW, int(self.vector_size) + OVERSAMPLES)

    def _problem(self, data: Blocks) -> Scatter:
        if self._is_formed(data.shape[1]):
            return Scatter.form(Blocks.of(data.source.toarray()), centred=False)
        columns = (int(self.vector_size) + OVERSAMPLES) * (2 * int(self.n_iter) + 4)
        return Scatter.implicit(data, columns, centred=False)

    def _stop(self) -> Any:
        if self._is_formed(len(self.counts_)):
            return Never()  # one decomposition, whatever n_iter is
        return self._within_time(MaxSteps(int(self.n_iter)))

    def _attributes(self, solution: Solution, problem: Scatter) -> dict[str, Any]:
        found = solution.attributes
        sigma = np.sqrt(np.maximum(np.asarray(found["values"], np.float64), 0))
        V = upright(np.asarray(found["vectors"], np.float32))
        M = problem.data.source if problem.data is not None else None
        scale = np.where(sigma > 0, sigma, 1)
        left = np.asarray(M @ V, np.float64) / scale
        return {
            "embedding_": (left * sigma**self.power).astype(np.float32),
            "context_embedding_": (V * sigma ** (1 - self.power)).astype(np.float32),
            "components_": np.ascontiguousarray(V.T),
            "singular_values_": sigma.astype(np.float32),
            "counts_": self.counts_,
        }

    # --- certificate ---

    def _certificate(self, data: Any, y=None, *, attributes=None, **options: Any) -> Any:
        if isinstance(data, EncodedText):
            attributes, data = {**(attributes or {}), "text": data}, self._information(data)
        return super()._certificate(data, y, attributes=attributes, **options)

    def _title(self, data: Any) -> str:
        if data is None:
            return type(self).__name__
        return f"PMI  {data.shape[0]:,} words, {data.source.nnz:,} pairs → {len(self.components_)}"

    @classmethod
    def work(cls, fit: Fit) -> float:
        """Products with the matrix."""
        width = len(fit.components_) + OVERSAMPLES
        return float(np.max(fit.get("n_iter_", 5))) * 2 * fit.data.size * width
