"""SentenceEmbedding: words' vectors trained so that their mean says what a sentence is about (ML "Text Representation").

    h_s = (1/n) Σ x_w predicts the words of its sentence, each left out in turn, or those of the sentences around it
    (training.py)

>>> texts = ["the cat sat on the mat", "a dog sat on a rug", "stocks fell on monday", "shares fell and stocks rose"] * 20
>>> model = SentenceEmbedding(vector_size=8, min_count=2, epochs=10, random_state=0).fit(texts)
>>> model.transform(["the dog on the mat", "unheard words"]).shape
(2, 8)
>>> bool(model.trace_.objective[-1] < model.trace_.objective[0])
True
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lemmata.audit.embedding.sentence_vectors import AVERAGED_CLAIMS
from lemmata.core import common
from lemmata.core.certificate import Fit
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, POSITIVE, choice, fitted, parameter
from lemmata.embedding import parameters
from lemmata.embedding.sentences.averages import SentenceModel
from lemmata.embedding.sentences.training import TARGETS, SentenceAlgorithm, SentenceText
from lemmata.text.encoded import EncodedText

Array = np.ndarray


class SentenceEmbedding(SentenceModel):
    """Vectors of words whose mean is a vector of the sentence, by negative sampling.

    Maximises Σ ln σ(⟨h, z_v⟩) over words v that the mean h of a sentence should predict, plus Σ ln σ(−⟨h, z_u⟩) over words
    drawn at random.

    Attributes
    ----------
    embedding_ : (n_words, k) float32; vectors_ : WordVectors
        x, the vectors that are averaged.
    context_embedding_ : (n_words, k)
        z, those of predicted words.
    counts_ : (n_words,)
    loss_ : float
        The loss per target at the end; `trace_` has one for each epoch.
    certificate_, trace_, stopped_, n_iter_, feature_names_in_ (the words)
    """

    vector_size: int = parameters.VECTOR_SIZE
    targets: str = parameter("words", choice(*TARGETS)).doc("""
        Each word of the sentence from the mean of the others, or the words of the sentences before
        and after it. For "neighbours" texts come in their order; an empty one parts two documents.
        """)
    _: KW_ONLY
    negative: int = parameters.NEGATIVE.doc("""
        Words drawn for each target.""")
    ns_exponent: float = parameters.NS_EXPONENT
    min_count: int = parameters.MIN_COUNT
    max_vocab_size: Any = parameters.MAX_VOCAB_SIZE
    sample: float = parameter(1e-3, NONNEGATIVE).doc("""
        t: of a word with frequency f a share of √(t/f) + t/f occurrences is kept in training; 0
        keeps all.""")
    alpha: float = parameter(0.2, POSITIVE).doc("""
        γ, the first learning rate; a word's share of a mean is small, and so is its gradient.""")
    min_alpha: float = parameters.MIN_ALPHA
    epochs: int = parameter(10, COUNT).doc("Passes over the text.")
    tol: float = parameters.TOL
    tokenizer: Any = parameters.TOKENIZER
    random_state: Any = common.random_state().doc("""
        First vectors, and what is drawn. One thread trains: the same bits on any number of cores.
        """)
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = AVERAGED_CLAIMS
    stored: ClassVar[dict[str, Any]] = {
        **SentenceModel.stored,
        "context_embedding_ loss_": "audited",
    }

    context_embedding_: Array = fitted()
    loss_: float = fitted()

    def _algorithm(self, data: EncodedText) -> SentenceAlgorithm:  # type: ignore[override]
        if self.min_alpha > self.alpha:
            raise ValueError(
                f"min_alpha={self.min_alpha} exceeds alpha={self.alpha}, which falls to it; pass min_alpha <= alpha."
            )
        return SentenceAlgorithm(
            int(self.vector_size), int(self.epochs), self.targets, int(self.negative), float(self.alpha),
            float(self.min_alpha),
        )  # fmt: skip

    def _problem(self, data: EncodedText) -> SentenceText:  # type: ignore[override]
        return SentenceText(
            data, data.vocabulary.counts, float(self.sample), float(self.ns_exponent)
        )

    def _attributes(self, solution: Any, problem: SentenceText) -> dict[str, Any]:
        return {**solution.attributes, "counts_": problem.counts}

    @classmethod
    def work(cls, fit: Fit) -> float:
        """Scores of targets and negatives, and steps along them."""
        each = (1 + float(fit.negative)) * np.shape(fit.embedding_)[1]
        return 4.0 * float(np.max(fit.get("n_iter_", 1))) * fit.data.n_tokens * each
