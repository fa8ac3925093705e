"""The atlas: one experiment per figure, table or exercise of the notes. Each entry draws one figure and asserts what it shows.

>>> from lemmata import atlas
>>> atlas.entries()["eigendigits"].title
'The principal axes of the digits are strokes'
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from lemmata.core.config import config
from lemmata.core.engine import one_blas_thread

CHAPTERS = ("reduction", "completion", "clustering", "mixtures")
_ENTRIES: dict[str, Entry] = {}


class NotShown(AssertionError):
    """A figure does not show what its entry says."""


@dataclass(frozen=True)
class Entry:
    """An experiment: what it shows, where the notes have it, and the function that draws and checks it."""

    id: str
    title: str
    source: str
    make: Callable[[], Any]

    def draw(self, folder: Any = ".") -> Path:
        """Draw the figure into a folder as ID.png. Raises NotShown if the experiment came out otherwise."""
        path = Path(folder) / f"{self.id}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        # thousands of small fits: waking threads, or checking each of them, costs more than the work
        with warnings.catch_warnings(), one_blas_thread(), config(certificate=False):
            warnings.simplefilter("ignore", ConvergenceWarning)  # experiments stop early on purpose
            self.make().savefig(path)
        return path


def entry(id: str, title: str, source: str):
    """Put a function that returns a figure into the atlas."""

    def decorate(make: Callable[[], Any]) -> Callable[[], Any]:
        _ENTRIES[id] = Entry(id, title, source, make)
        return make

    return decorate


def show(condition: Any, sentence: str) -> None:
    """Assert what a figure shows, with a sentence for people."""
    if not condition:
        raise NotShown(f"this should be visible, but is not: {sentence}.")


def entries() -> dict[str, Entry]:
    """All experiments by their id, in the order of the notes."""
    for chapter in CHAPTERS:
        import_module(f"lemmata.atlas.{chapter}")
    return dict(_ENTRIES)
