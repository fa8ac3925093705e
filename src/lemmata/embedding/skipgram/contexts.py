"""Pieces that SkipGram is put together from: the text, what a word is paired with (contexts), and its biases.

    WindowContext      the words at most R away
    SentenceContext    all words of the sentence; where these are more than 2R, 2R draws of them, so that time stays linear
    DocumentContext    the sentence itself, which has a vector and predicts its words
    Biases             b_v beside the vectors, or none
    ClampedBiases      ζ_w ← (1, ζ_w),  z_v ← (b_v, z_v): one coordinate of every input is 1, so that of z_v is v's bias

Each piece knows what it cannot be combined with. A coordinate that is clamped to 1 has no step, and the step of its counterpart
is that of a bias: ∂⟨ζ, z⟩/∂z_1 = 1. So training with a clamped coordinate is training with a bias, number for number, and the
two are joined to the vectors at the end. (CIL 3.3.4 clamps a coordinate of z, too: then ζ has a bias of its own, which
p(v | w) of (3.47) does not.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.audit.embedding.geometry import GEOMETRY_CLAIMS
from lemmata.audit.embedding.skipgram import (
    DOCUMENT_CONTEXT_CLAIMS,
    SENTENCE_CONTEXT_CLAIMS,
    SKIPGRAM_CLAIMS,
    SKIPGRAM_MORE_CLAIMS,
)
from lemmata.core.certificate import Statement
from lemmata.core.engine import worth_compiling
from lemmata.embedding.skipgram import _twins as twins
from lemmata.embedding.subwords import PartTable
from lemmata.embedding.windows.sampling import SampledText
from lemmata.text.encoded import LONGEST, EncodedText

Array = np.ndarray
Claims = tuple[Statement, ...]
# Multiplications below which NumPy is done before numba has compiled: it needs some 8 ns for one, the compiler 5 s.
WORTH_COMPILING = 2**29


# --- contexts ---------------------------------------------------------------------------------------------------------


class WindowContext:
    """The words at most R away from an occurrence."""

    name: ClassVar[str] = "window"
    whole: ClassVar[bool] = False  # whether kernels draw from the whole sentence
    documents: ClassVar[bool] = False  # whether sentences are documents with vectors of their own
    longest: ClassVar[int | None] = LONGEST  # words of a sentence; longer ones are cut
    claims: ClassVar[Claims] = SKIPGRAM_CLAIMS
    further_claims: ClassVar[Claims] = SKIPGRAM_MORE_CLAIMS

    def refuse_wrong(self, model: Any) -> None:
        """Raise ValueError where a model's parameters contradict this context."""

    def draw(
        self, kept: twins.KeptWords, window: int, shrink: bool, unit: int, rng: np.random.Generator
    ) -> twins.Occurrences:
        """Draw the pairs of some sentences, of which the first has the number `unit`."""
        return twins.draw_windows(kept, window, shrink, rng)

    def pair_counts(self, data: WindowedText, shrink: bool) -> Array:
        """N (v, v), row w, column v. Windows look both ways, so it is symmetric."""
        v = len(data.counts)
        N = np.zeros(v * v)
        for ids, starts in data.text:
            sentence = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
            words = ids.astype(np.int64)
            for distance in range(1, data.window + 1):
                together = sentence[distance:] == sentence[:-distance]
                places = words[:-distance][together] * v + words[distance:][together]
                share = (data.window - distance + 1) / data.window if shrink else 1.0
                N += share * np.bincount(places, minlength=v * v)
        square = N.reshape(v, v)
        return square + square.T


class SentenceContext(WindowContext):
    """All other words of the sentence, or 2R draws of them if they are more."""

    name = "sentence"
    whole = True
    claims, further_claims = SENTENCE_CONTEXT_CLAIMS, GEOMETRY_CLAIMS

    def draw(
        self, kept: twins.KeptWords, window: int, shrink: bool, unit: int, rng: np.random.Generator
    ) -> twins.Occurrences:
        return twins.draw_sentences(kept, 2 * window, rng)

    def pair_counts(self, data: WindowedText, shrink: bool) -> Array:
        """Σ over sentences of min{1, 2R/(n − 1)} (c cᵀ − diag c), c the counts of words in one, (v, v)."""
        v = len(data.counts)
        N = np.zeros((v, v))
        for ids, starts in data.text:
            sizes = np.diff(starts)
            C = sp.csr_array((np.ones(len(ids)), ids, starts), shape=(len(sizes), v))
            weight = np.minimum(1.0, 2 * data.window / np.maximum(sizes - 1, 1))
            weighted = sp.diags_array(weight) @ C
            N += (C.T @ weighted).toarray()
            N[np.diag_indices(v)] -= np.asarray(weighted.sum(axis=0)).ravel()
        return N


class DocumentContext(WindowContext):
    """The sentence itself, which has a vector and predicts its words (a distributed bag of words)."""

    name = "document"
    documents = True
    longest = None
    claims, further_claims = DOCUMENT_CONTEXT_CLAIMS, GEOMETRY_CLAIMS

    def refuse_wrong(self, model: Any) -> None:
        if not (model.sg and model.objective == "negative"):
            raise ValueError(
                "context='document' predicts words by negative sampling; pass sg=True and objective='negative'."
            )
        if model.max_n > 0 or model.tied:
            raise ValueError(
                "context='document' has vectors of documents as inputs; pass max_n=0 and tied=False."
            )

    def draw(
        self, kept: twins.KeptWords, window: int, shrink: bool, unit: int, rng: np.random.Generator
    ) -> twins.Occurrences:
        return twins.draw_documents(kept, unit)


CONTEXTS = {one.name: one() for one in (WindowContext, SentenceContext, DocumentContext)}


# --- biases -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Biases:
    """b_v beside the vectors; zeros, which stay zeros, where they are not trained."""

    trained: bool
    coordinates: ClassVar[int] = 0  # of the vectors that are biases

    def attach(self, inputs: Array, outputs: Array, b: Array) -> tuple[Array, Array, Array]:
        """Return inputs, outputs and biases as the model shows them."""
        return inputs, outputs, b

    def detach(self, inputs: Array, outputs: Array, b: Array) -> tuple[Array, Array, Array]:
        """Return inputs, outputs and biases as they are trained, from those that a model shows."""
        if bool((inputs[:, 0] == 1).all()) != bool(self.coordinates):
            raise ValueError(
                "biases were clamped in the fit that is continued and are not now, or the reverse; leave them as they were."
            )
        return inputs, outputs, b


@dataclass(frozen=True)
class ClampedBiases(Biases):
    """b_v as the first coordinate of z_v, whose counterpart in every input is 1."""

    vector_size: int
    coordinates = 1

    def __post_init__(self):
        if self.vector_size < 2:
            raise ValueError(
                "biases='clamped' takes one of the numbers of a vector; pass vector_size >= 2."
            )

    def attach(self, inputs: Array, outputs: Array, b: Array) -> tuple[Array, Array, Array]:
        inputs = np.concatenate([np.ones((len(inputs), 1), inputs.dtype), inputs], axis=1)
        return inputs, np.concatenate([b[:, None], outputs], axis=1), np.zeros_like(b)

    def detach(self, inputs: Array, outputs: Array, b: Array) -> tuple[Array, Array, Array]:
        inputs, outputs, _ = super().detach(inputs, outputs, b)
        return inputs[:, 1:], outputs[:, 1:], outputs[:, 0]


# --- the text ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowedText(SampledText):
    """Sentences, which occurrences are kept, what each is paired with, and what negatives are drawn from.

    counts : (v,) how often each word occurred in all training so far; of a text that continues another, more than in the text
    parts : the rows that words are made of; None: a row for each word
    """

    text: EncodedText
    counts: Array
    window: int = 5
    sample: float = 1e-3
    ns_exponent: float = 0.75
    context: WindowContext = CONTEXTS["window"]
    parts: PartTable | None = None

    @property
    def n_inputs(self) -> int:
        """Number of rows that inputs are made of: words, words and parts, or documents."""
        if self.context.documents:
            return self.text.n_sentences
        return len(self.counts) if self.parts is None else self.parts.n_rows

    def fingerprint(self) -> str:
        """A hash of the text, and all parameters that decide what is drawn from it."""
        parts = self.parts and (self.parts.min_n, self.parts.max_n, self.parts.bucket)
        drawn = (self.window, self.sample, self.ns_exponent, self.context.name, parts)
        return f"{self.text.fingerprint()} {drawn}"

    def compiles(self, epochs: int, negative: int, size: int) -> bool:
        """Whether kernels train it, by the size of the work alone."""
        work = float(self.text.n_tokens) * epochs * self.window * (1 + negative) * size
        return worth_compiling(work, above=WORTH_COMPILING)

    @cached_property
    def _pairs(self) -> dict[bool, Array]:
        return {}

    def pair_counts(self, shrink: bool) -> Array:
        """N (v, v), the expected number of pairs of words; counted once."""
        if shrink not in self._pairs:
            self._pairs[shrink] = self.context.pair_counts(self, shrink)
        return self._pairs[shrink]
