"""A text with everything that is drawn from it: what skip-gram and CBOW see as their data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lemmata.core.compiler import worth_compiling
from lemmata.embedding.subwords import PartTable
from lemmata.embedding.windows.sampling import Drawn
from lemmata.text.encoded import EncodedText

Array = np.ndarray
CHUNK = 2**13  # tokens that a thread takes at a time
MEASURED = 2**16  # tokens whose windows tell the loss; of a longer text, evenly spaced chunks of it
# Multiplications below which NumPy is done before numba has compiled: it needs some 8 ns for one, the compiler 5 s.
WORTH_COMPILING = 2**29


@dataclass(frozen=True)
class Chunks:
    """A block of a text, and the ranges of its sentences that are worked on one after the other or side by side."""

    position: int  # of its first token in the text
    unit: int  # of its first sentence
    ids: Array
    starts: Array
    ranges: list[tuple[int, int]]


@dataclass(frozen=True)
class WindowedText(Drawn):
    """Sentences, which occurrences are kept, who meets whom, and what negatives are drawn from.

    counts : (v,) how often each word was met in all training so far; of a text that continues another, more than in the text
    context : "window": the words around an occurrence; "sentence": all words of its sentence, or 2 · window draws of them if
        they are more; "document": the sentence itself, which has a vector and predicts its words
    parts : the rows that words are made of; None: a row for each word
    """

    text: EncodedText
    counts: Array
    window: int = 5
    sample: float = 1e-3
    ns_exponent: float = 0.75
    context: str = "window"
    parts: PartTable | None = None

    @property
    def n_inputs(self) -> int:
        """How many rows inputs are made of: words, words and parts, or documents."""
        if self.context == "document":
            return self.text.n_sentences
        return len(self.counts) if self.parts is None else self.parts.n_rows

    def fingerprint(self) -> str:
        """Of the text, and of all that decides what is drawn from it."""
        parts = self.parts and (self.parts.min_n, self.parts.max_n, self.parts.bucket)
        drawn = (self.window, self.sample, self.ns_exponent, self.context, parts)
        return f"{self.text.fingerprint()} {drawn}"

    def compiles(self, epochs: int, negative: int, size: int) -> bool:
        """Whether kernels train it, by the size of the work alone."""
        work = float(self.text.n_tokens) * epochs * self.window * (1 + negative) * size
        return worth_compiling(work, above=WORTH_COMPILING)

    @cached_property
    def _memory(self) -> dict[str, Any]:
        return {}

    def remembered(self, name: str, make: Callable[[], Any]) -> Any:
        """What is computed from the text once."""
        if name not in self._memory:
            self._memory[name] = make()
        return self._memory[name]

    def chunks(self) -> Iterator[Chunks]:
        """The text in blocks, each cut into ranges of sentences of some CHUNK tokens."""
        position = unit = 0
        for ids, starts in self.text:
            cuts = np.searchsorted(starts, np.arange(0, starts[-1] + CHUNK, CHUNK))
            cuts = np.unique(np.minimum(cuts, len(starts) - 1))
            ranges = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
            filled = [one for one in ranges if starts[one[1]] > starts[one[0]]]
            yield Chunks(position, unit, ids, starts, filled)
            position += int(starts[-1])
            unit += len(starts) - 1

    def measured(self) -> Iterator[Chunks]:
        """The chunks whose loss is measured: all of a short text, evenly spaced ones of a long one."""
        every = max(1, self.text.n_tokens // MEASURED)
        number = 0
        for block in self.chunks():
            chosen = [one for i, one in enumerate(block.ranges, number) if i % every == 0]
            number += len(block.ranges)
            if chosen:
                yield replace(block, ranges=chosen)
