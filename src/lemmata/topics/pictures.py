"""Topics drawn: bars of their likeliest words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lemmata.core.certification.pictures import BLUE, figure
from lemmata.core.certification.showing import one_line

LONGEST = 22  # letters of a word in a figure


def bars(topics: Sequence[tuple[int, float | None, Sequence[str], np.ndarray]]) -> Any:
    """A figure of horizontal bars; a topic is its number, its share of all words, its words and their probabilities."""
    if not topics:
        raise ValueError("there is no topic to draw; pass at least one.")
    n = max(len(words) for _, _, words, _ in topics)
    columns = min(4, len(topics))
    rows = -(-len(topics) // columns)
    drawing, axes = figure(rows, columns, size=(2.6, 0.6 + 0.22 * n), squeeze=False)
    for ax in axes.flat[len(topics) :]:
        ax.set_axis_off()
    for ax, (topic, share, words, heights) in zip(axes.flat, topics, strict=False):
        places = np.arange(len(words))
        ax.barh(places, heights[: len(words)], color=BLUE, height=0.75)
        ax.set_yticks(places, [_label(word) for word in words], fontsize=8)
        ax.invert_yaxis()
        ax.tick_params(axis="x", labelsize=7)
        ax.tick_params(axis="y", length=0)
        ax.locator_params(axis="x", nbins=3)
        ax.set_title(
            f"topic {topic}" + ("" if share is None else f" · {100 * share:.1f} % of words"),
            fontsize=9, loc="left",
        )  # fmt: skip
    for ax in axes[-1]:
        ax.set_xlabel("p(word | topic)", fontsize=8)
    return drawing


def _label(word: Any) -> str:
    """A word that matplotlib draws as it stands: a dollar would begin a formula."""
    text = one_line(str(word)).replace("$", r"\$")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
