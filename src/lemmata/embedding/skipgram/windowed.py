"""A text with everything that is drawn from it: what skip-gram and CBOW see as their data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lemmata.core.compiler import worth_compiling
from lemmata.embedding.windows.sampling import WHOLE, AliasTable, keep_probabilities, noise
from lemmata.text.encoded import EncodedText

Array = np.ndarray
CHUNK = 2**13  # tokens that a thread takes at a time
MEASURED = 2**16  # tokens whose windows tell the loss; of a longer text, evenly spaced chunks of it
# Multiplications below which NumPy is done before numba has compiled: it needs some 8 ns for one, the compiler 5 s.
WORTH_COMPILING = 2**29


@dataclass(frozen=True)
class WindowedText:
    """Sentences, which occurrences are kept, and what negatives are drawn from.

    counts : (v,) how often each word was met in all training so far; of a text that continues another, more than in the text
    """

    text: EncodedText
    counts: Array
    window: int = 5
    sample: float = 1e-3
    ns_exponent: float = 0.75

    @property
    def shape(self) -> tuple[int, int]:
        return self.text.shape

    def fingerprint(self) -> str:
        return self.text.fingerprint()

    @cached_property
    def keep(self) -> Array:
        """The probability that an occurrence of each word is kept."""
        return keep_probabilities(self.counts, self.sample)

    @cached_property
    def keep_bits(self) -> Array:
        return np.minimum(np.rint(self.keep * WHOLE), WHOLE).astype(np.uint64)

    @cached_property
    def table(self) -> AliasTable:
        return AliasTable.of(noise(self.counts, self.ns_exponent))

    @cached_property
    def alias(self) -> Array:
        return self.table.packed

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

    def chunks(self) -> Iterator[tuple[int, Any, list[tuple[int, int]]]]:
        """For every block the place of its first token, its ids and starts, and ranges of sentences of some CHUNK tokens."""
        position = 0
        for ids, starts in self.text:
            cuts = np.searchsorted(starts, np.arange(0, starts[-1] + CHUNK, CHUNK))
            cuts = np.unique(np.minimum(cuts, len(starts) - 1))
            ranges = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
            yield (
                position,
                (ids, starts),
                [one for one in ranges if starts[one[1]] > starts[one[0]]],
            )
            position += int(starts[-1])

    def measured(self) -> Iterator[tuple[int, Any, list[tuple[int, int]]]]:
        """The chunks whose loss is measured: all of a short text, evenly spaced ones of a long one."""
        every = max(1, self.text.n_tokens // MEASURED)
        number = 0
        for position, block, ranges in self.chunks():
            chosen = [one for i, one in enumerate(ranges, number) if i % every == 0]
            number += len(ranges)
            if chosen:
                yield position, block, chosen
