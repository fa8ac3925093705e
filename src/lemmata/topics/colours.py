"""A document with its words coloured by topic (CIL Fig. 3.7): in a terminal by rich, in a notebook, as plain text.

Colour is never the only sign: the number of its topic stands below every word. Everything that comes from the document is
escaped, and control characters are written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.certification.pictures import BLUE, GREEN, ORANGE, PURPLE, RED, SKY
from lemmata.core.certification.showing import one_line, printable

Array = np.ndarray
GROUNDS = {
    ORANGE: "black",
    SKY: "black",
    GREEN: "black",
    PURPLE: "black",
    BLUE: "white",
    RED: "black",
}
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


class Mark(NamedTuple):
    """A word of the text: where it stands, its topic, and how sure that is."""

    start: int
    stop: int
    word: str
    topic: int
    probability: float


class Legend(NamedTuple):
    """A topic of the document, its share of it, and its likeliest words anywhere."""

    topic: int
    share: float
    words: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class ColouredText:
    """A text, the marks in it, and its topics by falling share."""

    text: str
    marks: tuple[Mark, ...]
    legend: tuple[Legend, ...]

    def _pieces(self) -> Iterator[tuple[str, Mark | None]]:
        """The text cut at the marks."""
        end = 0
        for mark in self.marks:
            yield self.text[end : mark.start], None
            yield self.text[mark.start : mark.stop], mark
            end = mark.stop
        yield self.text[end:], None

    @property
    def _colours(self) -> dict[int, str]:
        """The colours of the largest topics; there are no more colours than these."""
        return dict(zip((one.topic for one in self.legend), GROUNDS, strict=False))

    def __str__(self) -> str:
        text = "".join(
            printable(piece) + (_number(mark.topic) if mark else "")
            for piece, mark in self._pieces()
        )
        lines = [
            f"{_number(one.topic)}  {100 * one.share:.0f} %  {' '.join(map(one_line, one.words))}"
            for one in self.legend
        ]
        return "\n".join([text, "", *lines])

    __repr__ = __str__

    def __rich__(self) -> Any:
        from rich.text import Text

        shown, colours = Text(), self._colours
        for piece, mark in self._pieces():
            shown.append(printable(piece), _style(colours, mark.topic) if mark else None)
            if mark:
                shown.append(_number(mark.topic), "dim")
        shown.append("\n")
        for one in self.legend:
            shown.append("\n")
            shown.append(f" {one.topic} ", _style(colours, one.topic))
            shown.append(f" {one.share:4.0%} {' '.join(map(one_line, one.words))}")
        return shown

    def _repr_html_(self) -> str:
        colours, parts = self._colours, []
        for piece, mark in self._pieces():
            text = escape(printable(piece))
            if mark is None:
                parts.append(text)
                continue
            ground = _ground(colours.get(mark.topic), mark.probability)
            title = f"topic {mark.topic}, p = {mark.probability:.2f}"
            parts.append(f'<span title="{title}"{ground}>{text}<sub>{mark.topic}</sub></span>')
        legend = "".join(
            f"<li><span{_ground(colours.get(one.topic), 1.0)}>topic {one.topic}</span> "
            f"{one.share:.0%}: {escape(' '.join(map(one_line, one.words)))}</li>"
            for one in self.legend
        )
        return f'<div style="white-space:pre-wrap">{"".join(parts)}</div><ul>{legend}</ul>'


def _number(topic: int) -> str:
    return str(topic).translate(SUBSCRIPTS)


def _style(colours: dict[int, str], topic: int) -> str:
    colour = colours.get(topic)
    return f"{GROUNDS[colour]} on {colour}" if colour else "underline"


def _ground(colour: str | None, probability: float) -> str:
    """A background, stronger where the topic is surer; letters keep the colour of the page, dark or light."""
    if colour is None:
        return ""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    strength = 0.15 + 0.35 * probability
    return f' style="background:rgba({red},{green},{blue},{strength:.2f})"'


def colour_text(
    text: str,
    spans: Sequence[tuple[str, int, int]],
    posterior: Array,
    shares: Array,
    words: Sequence[Sequence[str]],
) -> ColouredText:
    """A text whose words at `spans` have the probabilities `posterior` (tokens, k) of topics; `shares` (k,) of the document."""
    topics = posterior.argmax(axis=1) if len(spans) else np.empty(0, int)
    marks = tuple(
        Mark(start, stop, word, int(z), float(p[z]))
        for (word, start, stop), z, p in zip(spans, topics, posterior, strict=True)
    )
    present = sorted({mark.topic for mark in marks}, key=lambda z: (-shares[z], z))
    return ColouredText(
        text, marks, tuple(Legend(z, float(shares[z]), tuple(words[z])) for z in present)
    )
