"""Reading vectors of words (CIL 3.3.5): what stands near a word, and which ways are parallel."""

from __future__ import annotations

import numpy as np

from lemmata.atlas import entry, show
from lemmata.atlas.embeddings.texts import LabelledText, corpus
from lemmata.core.certification.pictures import BLUE, GREY, ORANGE, RED, figure
from lemmata.embedding import PMI, WordVectors
from lemmata.embedding.vectors.word_vectors import directions

Array = np.ndarray
NEAR = 8  # words that are shown


def vectors_of(found: LabelledText, k: int = 100) -> WordVectors:
    """Vectors from the counts of pairs: of a small text the best ones, and the same in every run."""
    size = 20 if found.generated else k
    return PMI(size, window=5, random_state=0).fit(found.encoded).vectors_


# --- nearest words (CIL Fig. 3.13) ------------------------------------------------------------------------------------


@entry("nearest-words", "CIL 3.3.5, Fig. 3.13")
def nearest_words(seed: int = 0):
    """Near a word are words of its kind, which the model was not given.

    The eight nearest words of six words, and their cosines, from the information of pairs in windows of five words (PMI).
    Blue: words of the same kind, by lists that were written down before (months, numbers, …); grey: all others. The model
    has seen only which words stand near each other.
    """
    found = corpus(seed)
    vectors = vectors_of(found)
    drawing, cells = figure(2, 3, size=(2.6, 2.3), squeeze=False)
    shares, chance = [], []
    for cell, (word, kind) in zip(cells.flat, found.sets.items(), strict=False):
        near = vectors.nearest(word, NEAR)
        right = np.array([other in kind for other, _ in near])
        shares.append(right.mean())
        others = sum(other in vectors for other in kind if other != word)
        chance.append(others / (len(vectors) - 1))
        bars = cell.barh(
            np.arange(NEAR), [value for _, value in near], color=np.where(right, BLUE, GREY), height=0.75
        )  # fmt: skip
        for bar, (other, _) in zip(bars, near, strict=True):
            cell.text(0.02, bar.get_y() + 0.37, other, va="center", fontsize=8, color="white")
        cell.invert_yaxis()
        cell.set(yticks=[], xlim=(0, 1), title=f"near “{word}”")
        cell.tick_params(labelsize=8)
    for cell in cells.flat[len(found.sets) :]:
        cell.set_axis_off()
    for cell in cells[-1]:
        cell.set_xlabel(f"cosine, {found.name}", fontsize=8)
    drawing.suptitle(
        f"{np.mean(shares):.0%} are of the same kind (by chance {np.mean(chance):.1%})", fontsize=10
    )  # fmt: skip
    show(np.mean(shares) > 0.6, "three of five nearest words and more are of the kind of the word")
    seen = all(share > 5 * luck for share, luck in zip(shares, chance, strict=True))
    show(seen, "of every word, over five times as many as by chance")
    return drawing


# --- affine structure (CIL Fig. 3.14) ---------------------------------------------------------------------------------


def parallel(first: Array, second: Array) -> float:
    """The mean cosine between the ways from first to second of two different pairs."""
    ways = directions(second - first)
    cosines = ways @ ways.T
    return float(cosines[np.triu_indices(len(ways), 1)].mean())


def right_side(first: Array, second: Array) -> float:
    """The share of pairs whose way agrees in sign with the mean way of all other pairs."""
    ways = second - first
    others = ways.sum(axis=0) - ways
    return float((np.einsum("ij,ij->i", ways, others) > 0).mean())


@entry("word-arithmetic", "CIL (3.64), Fig. 3.14")
def word_arithmetic(seed: int = 0):
    """From one word of a pair to the other it is much the same way for all pairs.

    Left: words in pairs that differ in one thing, on the mean way from the first to the second of a pair (across) and the
    first principal axis of what is left (up). Right: the mean cosine between the ways of different pairs, beside that of
    the same words paired at random, where the thing that differs is still there but the rest is not held fixed.
    """
    found = corpus(seed)
    vectors = vectors_of(found)
    one, two = (
        directions(vectors[[pair[i] for pair in found.pairs]].astype(float)) for i in (0, 1)
    )
    way = (two - one).mean(axis=0)
    way /= np.linalg.norm(way)
    centred = np.concatenate([one, two]) - np.concatenate([one, two]).mean(axis=0)
    left = centred - np.outer(centred @ way, way)
    up = np.linalg.svd(left, full_matrices=False)[2][0]
    flat = np.stack([centred @ way, centred @ up], axis=1)
    true, rng = parallel(one, two), np.random.default_rng(seed)
    by_chance = np.array([parallel(one, two[rng.permutation(len(two))]) for _ in range(500)])
    agree = right_side(one, two)

    drawing, (plane, bars) = figure(1, 2, size=(5.2, 4.4), width_ratios=(1.7, 1))
    n = len(found.pairs)
    for i in range(n):
        plane.plot(*flat[[i, n + i]].T, color=GREY, lw=0.8, ls="--", zorder=1)
    _label(plane, [pair[0] for pair in found.pairs], flat[:n], "right", np.ptp(flat, axis=0))
    _label(plane, [pair[1] for pair in found.pairs], flat[n:], "left", np.ptp(flat, axis=0))
    plane.scatter(*flat[:n].T, s=16, color=BLUE, zorder=2)
    plane.scatter(*flat[n:].T, s=16, color=ORANGE, marker="s", zorder=2)
    plane.set(xlabel="along the mean way of the pairs", ylabel="first principal axis of the rest")
    plane.margins(0.18, 0.05)
    plane.set_title(f"{agree:.0%} of the ways point where the others do: {found.name}")
    bars.hist(by_chance, bins=20, color=GREY, label="paired at random")
    bars.axvline(true, color=RED, lw=2, label="pairs as they are")
    bars.set(xlabel="mean cosine between two ways", ylabel="pairings", xlim=(0, None))
    bars.margins(y=0.3)
    bars.legend(loc="upper center")
    bars.set_title("are the ways parallel?")
    show(true > by_chance.max(), "the ways are more parallel than in any of 500 random pairings")
    show(agree >= 0.85, "the other pairs tell the way of a pair, nearly always")
    return drawing


def _label(ax, words: list[str], places: Array, side: str, spans: Array) -> None:
    """Write words beside their points, a line higher where another word is in the way. spans: of all points, (2,)"""
    letter, line = 0.015 * spans[0], 0.03 * spans[1]
    way = -1 if side == "right" else 1
    written: list[tuple[float, float, float]] = []
    for i in np.argsort(places[:, 1], kind="stable"):
        x, y = places[i]
        begin, end = sorted((x, x + way * letter * (len(words[i]) + 1)))
        for left, right, below in written:
            if left < end and begin < right and y - below < line:
                y = below + line
        written.append((begin, end, y))
        ax.annotate(
            words[i], (x, y), xytext=(5 * way, 0), textcoords="offset points", ha=side, va="center", fontsize=8
        )  # fmt: skip
