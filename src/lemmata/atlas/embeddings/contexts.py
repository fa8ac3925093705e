"""Words in their contexts, drawn (CIL 3.3, CIL20 5): windows, maps of words, two languages in one space."""

from __future__ import annotations

import functools
import operator
from types import SimpleNamespace

import numpy as np

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, RED, SKY, figure
from lemmata.embedding import align
from lemmata.embedding.windows.cooccurrence import CoOccurrence
from lemmata.linalg.randomized import signs
from lemmata.reduction.pca import PCA
from lemmata.text.encoded import encode

Array = np.ndarray
# who does what where, three times: words of a theme meet each other
THEMES = {
    "court": (
        "king queen knight prince",
        "rules crowns guards leaves",
        "castle throne crown kingdom",
    ),
    "sea": ("sailor captain fish gull", "sails crosses sees follows", "ship wave harbour storm"),
    "kitchen": ("cook baker guest waiter", "bakes cuts serves tastes", "bread soup oven table"),
}


def write_sentences(n: int, seed: int, mixed: float = 0.0) -> list[list[str]]:
    """Sentences of five words, the WHO VERB the WHAT, of one theme; a share of the words comes from any."""
    rng = np.random.default_rng(seed)
    themes = [[group.split() for group in theme] for theme in THEMES.values()]
    drawn = []
    for _ in range(n):
        theme = rng.integers(3)
        who, verb, what = (
            str(rng.choice(themes[rng.integers(3) if rng.random() < mixed else theme][part]))
            for part in range(3)
        )
        drawn.append(["the", who, verb, "the", what])
    return drawn


def _information(n: int, seed: int, mixed: float = 0.0) -> tuple[Array, list[str], Array]:
    """Positive pointwise mutual information of words and contexts in a window of 4, the words, and the counts."""
    pairs = CoOccurrence.of(encode(write_sentences(n, seed, mixed)), window=4)
    C, words = pairs.matrix.toarray(), list(pairs.vocabulary)
    p = C / C.sum()
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(p / np.outer(p.sum(axis=1), p.sum(axis=0))), 0), words, C


@entry(
    "context-window",
    "CIL Fig. 3.11, (3.43); CIL20 Fig. 5.1, 5.2; ML Skip-Gram Model",
    window=(1, 4),
)
def context_window(window: int = 2, seed: int = 0):
    """Skip-gram predicts the words around a word: what stands near "king" often is what it means.

    Left: a sentence, one active word after the other (blue), and the words in its window, each a pair to learn from. Right: how
    often words stand within four places of "king" in 400 sentences, as shares of its contexts, and as shares of all words:
    "the" is everywhere, "throne" is not. The parameter is the window.
    """
    sentence = ["the", "king", "leaves", "the", "castle", "at", "night"]
    drawing, (left, right) = figure(1, 2, size=(4.8, 3.4))
    pairs = []
    for row in range(len(sentence)):
        for place, word in enumerate(sentence):
            near = 0 < abs(place - row) <= window
            colour = BLUE if place == row else SKY if near else "white"
            left.fill(
                place + np.array([-0.5, 0.5, 0.5, -0.5]),
                -row + np.array([-0.38, -0.38, 0.38, 0.38]),
                color=colour,
            )
            left.text(
                place,
                -row,
                word,
                ha="center",
                va="center",
                fontsize=8,
                color="white" if place == row else "black" if near else GREY,
            )
            if near:
                pairs.append((sentence[row], word))
    left.set(xlim=(-0.6, 6.6), ylim=(-6.6, 0.6), title=f"{len(pairs)} pairs, window {window}")
    left.set_axis_off()
    _, words, C = _information(400, seed)
    king = C[words.index("king")] / C[words.index("king")].sum()
    usual = C.sum(axis=0) / C.sum()
    shown = [
        words.index(word) for word in ("the", "throne", "castle", "rules", "crowns", "ship", "soup")
    ]
    at = np.arange(len(shown))
    right.bar(at - 0.2, king[shown], 0.4, color=BLUE, label="p(w | king)")
    right.bar(at + 0.2, usual[shown], 0.4, color=ORANGE, label="p(w)")
    right.set_xticks(at, [words[i] for i in shown], rotation=45)
    right.set(ylabel="share of the contexts")
    right.legend()
    n = len(sentence)
    show(
        len(pairs) == sum(min(window, i) + min(window, n - 1 - i) for i in range(n)),
        "each word has up to 2R contexts, fewer at the ends",
    )
    show(set(pairs) == {(b, a) for a, b in pairs}, "with b near a, a is near b")
    show(
        (king[shown[1:5]] > 1.5 * usual[shown[1:5]]).all(),
        "words of the court are more frequent near king than elsewhere",
    )
    show((king[shown[5:]] == 0).all(), "ship and soup never stand there")
    show(king[shown[0]] < 1.5 * usual[shown[0]], "the is frequent there, as everywhere")
    return drawing


@entry("word-map", "CIL20 Fig. 5.3; CIL 3.3.1", sentences=(100, 1000))
def word_map(sentences: int = 400, seed: int = 0):
    """Vectors whose products are mutual information put words of one theme side by side.

    Words of 400 sentences by three numbers, from a factorisation of their positive pointwise mutual information: who, what
    and what of three themes, which no one told it; three words of ten come from any theme. Right: cosines of all
    pairs, ordered by theme. The parameter is the number of sentences.
    """
    M, words, _ = _information(sentences, seed, mixed=0.3)
    themes: list[list[str]] = [
        functools.reduce(operator.iadd, (group.split() for group in theme), [])
        for theme in THEMES.values()
    ]
    order = [words.index(word) for theme in themes for word in theme]
    U, s, _ = np.linalg.svd(M)
    Z = U[:, :3] * signs(U[:, :3]) * np.sqrt(s[:3])
    flat = PCA(2).fit_transform(Z[order])
    directions = Z[order] / np.linalg.norm(Z[order], axis=1, keepdims=True)
    cosines = directions @ directions.T
    drawing, (left, right) = figure(1, 2, size=(4.6, 3.9))
    for t, (name, colour, mark) in enumerate(
        zip(THEMES, (BLUE, GREEN, ORANGE), "o^s", strict=True)
    ):
        at = slice(12 * t, 12 * t + 12)
        left.plot(*flat[at].T, color=colour, marker=mark, ls="", ms=4, label=name)
        for i in range(12 * t, 12 * t + 12, 3):
            left.annotate(
                words[order[i]],
                flat[i],
                (4, 5 * (i % 2) - 4),
                textcoords="offset points",
                fontsize=7,
            )
    left.set(
        xlabel="first number", ylabel="second number", title="three numbers a word, drawn by two"
    )
    left.legend()
    picture = right.imshow(cosines, cmap="RdBu_r", vmin=-1, vmax=1)
    right.set_xticks([5.5, 17.5, 29.5], THEMES)
    right.set_yticks([5.5, 17.5, 29.5], THEMES)
    right.set_title("cosines of all pairs")
    drawing.colorbar(picture, ax=right, shrink=0.8)
    theme = np.repeat(np.arange(3), 12)
    same = np.equal.outer(theme, theme)
    nearest = np.where(np.eye(36, dtype=bool), -1, cosines).argmax(axis=1)
    show(
        np.mean(theme[nearest] == theme) > 0.9,
        "nine words of ten have a word of their theme as the nearest",
    )
    apart = cosines[same].mean() - cosines[~same].mean()
    show(apart > 0.5, "words of a theme point the same way, words of different ones do not")
    return drawing


@entry("two-languages", "CIL20 5.5, Fig. 5.7", known=(4, 100), noise=(0.0, 0.6))
def two_languages(known: int = 12, noise: float = 0.1, seed: int = 0):
    """Two languages are one cloud, turned: a few known pairs find the rotation for all words.

    Vectors of 300 words in two languages, the second turned and with noise; lines join what means the same. Left: as they are.
    Middle: after the rotation that known pairs ask for. Right: the share of the other words whose nearest neighbour is their
    translation, by the number of known pairs. Parameters are this number and the noise.
    """
    rng = np.random.default_rng(seed)
    d = 8
    X = rng.standard_normal((300, d)) * np.linspace(2, 0.5, d)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    Y = X @ Q + noise * rng.standard_normal((300, d))
    names = [f"w{i}" for i in range(300)]
    others = [name.upper() for name in names]

    def rotate(n: int) -> SimpleNamespace:
        pairs = list(zip(names[:n], others[:n], strict=True))
        W = align((names, X), (others, Y), pairs, max_iter=1).rotation_
        D = ((X[:, None] @ W - Y) ** 2).sum(axis=2)
        return SimpleNamespace(W=W, share=np.mean(D.argmin(axis=1)[n:] == np.arange(n, 300)))

    drawing, axes = figure(1, 3, size=(3.5, 3.4))
    plane = PCA(2).fit(Y).components_.T
    best = rotate(known)
    for ax, left, title in (
        (axes[0], X, "as they are"),
        (axes[1], X @ best.W, f"turned by {known} pairs"),
    ):
        for a, b in zip((left @ plane)[:60], (Y @ plane)[:60], strict=True):
            ax.plot(*np.stack([a, b], axis=1), color=GREY, lw=0.5)
        ax.plot(*(left @ plane)[:60].T, color=BLUE, marker="o", ms=3, ls="", label="one language")
        ax.plot(*(Y @ plane)[:60].T, color=ORANGE, marker="^", ms=3, ls="", label="the other")
        ax.set(xlabel="first axis", ylabel="second axis", aspect="equal", title=title)
    axes[0].legend()
    counts = np.array([1, 2, 4, 8, 16, 32])
    shares = np.array([rotate(int(n)).share for n in counts])
    axes[2].semilogx(counts, shares, color=BLUE, marker="o")
    axes[2].axvline(d, color="black", ls=":", lw=0.8)
    axes[2].set(
        xlabel="known pairs (dots: dimensions)",
        ylabel="others that find their translation",
        ylim=(0, 1.05),
    )
    show(
        np.allclose(best.W @ best.W.T, np.eye(d)),
        "the map is a rotation: distances within a language stay",
    )
    show(
        best.share > 0.8 or known < d or noise > 0.3,
        "with the known pairs most of the others find their translation",
    )
    show(shares[-1] > shares[0] + 0.3, "with one pair few of them do")
    return drawing


@entry("softened-frequencies", "CIL24 Fig. 7; CIL (3.51); CIL20 5.3.2", alpha=(0.1, 1.0))
def softened_frequencies(alpha: float = 0.75):
    """A power below 1 takes from frequent words and gives to rare ones.

    Left: pᵅ by p: steep near 0. Right: how often words with Zipf's frequencies are drawn as negatives, as pᵅ and as p.
    The parameter is α; word2vec and the notes take ¾.
    """
    p = np.linspace(0, 1, 300)
    drawing, (left, right) = figure(1, 2, size=(4.5, 3.3))
    for a, colour, style in ((1.0, GREY, ":"), (alpha, BLUE, "-"), (0.25, ORANGE, "--")):
        left.plot(p, p**a, color=colour, ls=style, label=f"α = {a:g}")
    left.set(xlabel="p(w)", ylabel="p(w)ᵅ", aspect="equal")
    left.legend()
    ranks = np.arange(1, 10001)
    zipf = 1 / ranks / (1 / ranks).sum()
    soft = zipf**alpha / (zipf**alpha).sum()
    right.loglog(ranks, zipf, color=GREY, ls=":", label="as p")
    right.loglog(ranks, soft, color=BLUE, label=f"as p^{alpha:g}")
    cross = int(np.argmax(soft > zipf)) if alpha < 1 else 0
    if cross:
        right.axvline(cross, color=RED, lw=0.8, ls="--", label=f"equal at rank {cross:,}")
    right.set(xlabel="rank of the word", ylabel="share of the draws")
    right.legend()
    show(
        alpha == 1 or (soft[:cross] <= zipf[:cross] * (1 + 1e-9)).all(),
        "frequent words are drawn less often than they stand",
    )
    show(alpha == 1 or soft[-1] > zipf[-1], "rare ones more often")
    show(np.all(np.diff(soft) < 0), "their order stays")
    return drawing
