"""The atlas: one experiment per figure, table or exercise of the notes. Each entry draws one figure and asserts what it shows.

>>> from lemmata import atlas
>>> atlas.entries()["eigendigits"].title
'The principal axes of the digits are strokes'
>>> drawn = atlas.entries()["eigendigits"].perform("atlas-out")     # doctest: +SKIP
>>> drawn.path, drawn.caption, drawn.shown                          # doctest: +SKIP
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from inspect import getdoc, signature
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from lemmata.atlas.numbers import KEY, numbers_of
from lemmata.core.engine import config, one_blas_thread

CHAPTERS = (
    "reduction.digits",
    "reduction.subspaces",
    "reduction.sparse_codes",
    "completion.statements",
    "completion.algorithms",
    "completion.recovery",
    "clustering.centres",
    "clustering.mixtures",
    "clustering.latent",
    "topics.documents",
    "topics.reading",
    "topics.bars",
    "topics.held_out",
    "topics.parts",
    "embeddings.contexts",
    "embeddings.reading",
    "embeddings.information",
    "embeddings.training",
    "optimisation.descent",
    "optimisation.stepping",
    "prediction.generalisation",
    "prediction.linear",
    "prediction.geometry",
    "prediction.kernels",
    "prediction.fairness",
    "prediction.robustness",
    "nets.mlp",
    "nets.units",
    "nets.structure",
    "nets.images",
    "nets.attention",
    "nets.training",
    "nets.approximation",
    "language",
    "nets.encoders",
    "generate.likelihoods",
    "generate.diffusion",
    "generate.games",
    "generate.architectures",
)
LOOK: dict[Any, Any] = {"axes.titlesize": 10, "legend.fontsize": 8, "legend.frameon": False}
_ENTRIES: dict[str, AtlasEntry] = {}


class NotShown(AssertionError):
    """A figure does not show what its entry says."""


@dataclass(frozen=True)
class DrawnFigure:
    """A figure that was drawn, its title and source, and the sentences that were asserted of it while it was made."""

    path: Path
    title: str
    source: str
    caption: str
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Slider:
    """A number that an entry takes, and between which bounds it draws. Whole if its default is."""

    name: str
    default: float
    low: float
    high: float

    def __str__(self):
        return f"{self.name} {self.low} to {self.high} (default {self.default})"

    def check(self, value: float) -> float:
        """The value as the entry takes it, or the error that says between which bounds it has to lie."""
        found = type(self.default)(value) if self.low <= value <= self.high else None
        if found is None:
            raise ValueError(
                f"{self.name}={value} lies outside; pass {self.low} to {self.high} (default {self.default})."
            )
        if found != value:
            raise ValueError(f"{self.name}={value} is no whole number; pass {self}.")
        return found


@dataclass(frozen=True)
class AtlasEntry:
    """An experiment: its title, its source in the notes, the function that draws and checks it, and what that takes."""

    id: str
    title: str
    source: str
    make: Callable[..., Any]
    parameters: tuple[Slider, ...] = ()

    @property
    def caption(self) -> str:
        """The description of the figure, and how to read it: the docstring below its title."""
        text = getdoc(self.make) or ""
        return " ".join((text.partition("\n\n")[2] or text).split())

    def check(self, values: dict[str, float]) -> dict[str, float]:
        """The values as `make` takes them. ValueError where one is unknown, or outside of its bounds."""
        known = {one.name: one for one in self.parameters}
        if unknown := set(values) - set(known):
            takes = ", ".join(map(str, self.parameters)) or "no parameters"
            raise ValueError(f"{self.id} takes {takes}, not {', '.join(sorted(unknown))}.")
        return {name: known[name].check(value) for name, value in values.items()}

    def draw(self, folder: Any = ".") -> Path:
        """Draw the figure into a folder as ID.png. Raises NotShown if the experiment shows something else."""
        return self.perform(folder).path

    def perform(self, folder: Any = ".", **values: float) -> DrawnFigure:
        """Draw the figure, and return what was asserted. The PNG holds its numbers, to tell whether it is current.

        Values are those of the entry's parameters, within their bounds; the others keep their defaults.
        """
        from matplotlib import rc_context

        from lemmata.core.store import write_atomically

        checked = self.check(values)
        path = Path(folder) / f"{self.id}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        with _small_fits(), rc_context(LOOK), _listening() as heard:
            figure = self.make(**checked)
        content = io.BytesIO()
        metadata = {
            "Title": self.title,
            "Description": self.caption,
            KEY: json.dumps(numbers_of(figure)),
            "Software": None,  # the same bytes from every version of matplotlib that draws the same
        }
        figure.savefig(content, format="png", metadata=metadata)
        write_atomically(path, content.getvalue())
        return DrawnFigure(path, self.title, self.source, self.caption, tuple(dict.fromkeys(heard)))


@contextmanager
def _small_fits() -> Iterator[None]:
    """Fit without threads and certificates: for thousands of small fits they cost more than the work."""
    with warnings.catch_warnings(), one_blas_thread(), config(certificate=False):
        warnings.simplefilter("ignore", ConvergenceWarning)  # experiments stop early on purpose
        yield


_HEARD: ContextVar[list[str] | None] = ContextVar("what an entry has shown", default=None)


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Collect the sentences that are passed to `show` meanwhile."""
    heard: list[str] = []
    token = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(token)


def entry(id: str, source: str, **bounds: tuple[float, float]):
    """Put a function that returns a figure into the atlas. Its docstring begins with the title, then follows the caption.

    Its arguments are the parameters of the entry: here are the bounds of each, its default is in the signature. A seed may
    be any of the first hundred.
    """

    def decorate(make: Callable[..., Any]) -> Callable[..., Any]:
        known = _ENTRIES.get(id)
        if known and known.make.__code__ != make.__code__:  # equal where a module is imported again
            raise ValueError(f"the atlas has an entry {id!r} already, {known.make.__name__}: choose another id.")  # fmt: skip
        title = (getdoc(make) or "").partition("\n")[0].removesuffix(".")
        parameters = tuple(
            Slider(name, taken.default, *bounds.get(name, (0, 99)))
            for name, taken in signature(make).parameters.items()
        )
        _ENTRIES[id] = AtlasEntry(id, title, source, make, parameters)
        return make

    return decorate


def show(condition: Any, sentence: str) -> None:
    """Assert what a figure shows, with a sentence for people."""
    if not condition:
        raise NotShown(f"this should be visible, but is not: {sentence}.")
    heard = _HEARD.get()
    if heard is not None:
        heard.append(sentence)


def entries() -> dict[str, AtlasEntry]:
    """All experiments by their id, in the order of the notes."""
    for chapter in CHAPTERS:
        import_module(f"lemmata.atlas.{chapter}")
    return dict(_ENTRIES)
