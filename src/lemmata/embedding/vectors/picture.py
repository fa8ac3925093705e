"""Words on a plane: the two principal axes of some vectors, with pairs of words joined by lines (CIL Fig. 3.14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lemmata.embedding.vectors.word_vectors import directions

if TYPE_CHECKING:
    from lemmata.embedding.vectors.word_vectors import WordVectors

SHOWN = 60  # words that a picture holds legibly


def plane(vectors: WordVectors, words: Sequence[str]) -> np.ndarray:
    """The words' unit vectors on their two principal axes, (n, 2)."""
    rows = directions(vectors[list(words)].astype(np.float64))
    centred = rows - rows.mean(axis=0)
    U, s, _ = np.linalg.svd(centred, full_matrices=False)
    flat = np.zeros((len(rows), 2))
    flat[:, : min(2, len(s))] = (U * s)[:, :2]
    return flat


def plot(
    vectors: WordVectors,
    words: Sequence[str] | None = None,
    *,
    pairs: Sequence[tuple[str, str]] = (),
    ax: Any = None,
) -> Any:
    """Draw words on two principal axes of their unit vectors; returns the Axes.

    words : which; None: those of the pairs, or the most frequent ones
    pairs : words to join by a line, such as ("man", "woman")
    """
    from matplotlib import pyplot as plt

    chosen = list(words) if words is not None else []
    chosen += [word for pair in pairs for word in pair if word not in chosen]
    chosen = list(dict.fromkeys(chosen)) or vectors.words[:SHOWN].tolist()
    if len(chosen) < 2:
        raise ValueError(f"{len(chosen)} word(s) to draw; pass two and more.")
    places = plane(vectors, chosen)
    ax = plt.subplots(figsize=(7, 5.5))[1] if ax is None else ax
    for first, second in pairs:
        ends = places[[chosen.index(first), chosen.index(second)]]
        ax.plot(*ends.T, color="#56B4E9", linestyle="--", linewidth=1, zorder=1)
    ax.scatter(*places.T, s=14, color="#0072B2", zorder=2)
    for word, (x, y) in zip(chosen, places, strict=True):
        ax.annotate(word, (x, y), xytext=(3, 3), textcoords="offset points", fontsize=9)
    ax.set(xlabel="first principal axis", ylabel="second principal axis")
    ax.margins(0.12)
    return ax
