"""Topics, drawn (CIL 3.2, CIL20 4): what maximum likelihood minimises, topics of docstrings and of people who watch films."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import rel_entr, xlogy

from lemmata import text
from lemmata.atlas import entry, show
from lemmata.core.blocks import Blocks
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, SKY, figure
from lemmata.topics.plsa.corpus import CountedCorpus
from lemmata.topics.plsa.em import PLSAAlgorithm
from lemmata.topics.plsa.estimator import PLSA

Array = np.ndarray


# --- likelihood and divergence (CIL20 Rem. 4.3) -----------------------------------------------------------------------


@entry("likelihood-divergence", "CIL20 Rem. 4.3, CIL 3.2.3")
def likelihood_divergence(seed: int = 0):
    """EM raises the likelihood as it lowers the divergence: the two differ by a constant.

    Left: steps of EM on 200 documents drawn from three topics; the log-likelihood of a token, and minus the mean divergence
    between the words of a document and the model's, Σ_d s_d KL(N_d/s_d ‖ p_d)/Σ s_d. They differ by the entropy H of words in
    documents, which no model changes. Right: the one against the other, for the steps of EM and for topics drawn at random.
    """
    rng = np.random.default_rng(seed)
    theta, phi = rng.dirichlet(np.full(3, 0.3), 200), rng.dirichlet(np.full(80, 0.1), 3)
    N = np.stack([rng.multinomial(rng.integers(20, 200), p) for p in theta @ phi]).astype(float)
    lengths = N.sum(axis=1)
    frequencies = N / lengths[:, None]
    entropy = -float(lengths @ xlogy(frequencies, frequencies).sum(axis=1)) / lengths.sum()
    algorithm, corpus = PLSAAlgorithm(3), CountedCorpus(Blocks.of(sp.csr_array(N)), 3, 40)
    state = algorithm.init(corpus, rng)

    def divergence_of(p: Array) -> float:
        return float(lengths @ rel_entr(frequencies, p).sum(axis=1)) / lengths.sum()

    path = []
    for _ in range(41):
        p = state.theta @ state.phi.T
        path.append((divergence_of(p), -state.loss / lengths.sum()))
        state = algorithm.step(state, corpus)
    divergence, likelihood = np.array(path).T
    apart = -divergence - likelihood
    others = [rng.dirichlet(np.ones(3), 200) @ rng.dirichlet(np.ones(80), 3) for _ in range(20)]
    drawn = np.array(
        [(divergence_of(p), float((N * np.log(p)).sum()) / lengths.sum()) for p in others]
    )

    drawing, (left, right) = figure(1, 2, size=(4.6, 3.2))
    steps = np.arange(len(likelihood))
    left.plot(steps, -divergence, color=ORANGE, lw=2, label="−Σ s KL / Σ s")
    left.plot(steps, likelihood, color=BLUE, lw=2, label="ℓ / Σ s")
    left.annotate(
        "", (30, -divergence[30]), (30, likelihood[30]), arrowprops={"arrowstyle": "<->", "color": GREY}
    )  # fmt: skip
    middle = (likelihood[30] - divergence[30]) / 2
    left.text(29, middle, f"{entropy:.3f}", ha="right", va="center", color=GREY, fontsize=9)
    left.set(xlabel="step of EM", ylabel="nats a token")
    left.legend(fontsize=9, loc="center left", bbox_to_anchor=(0.02, 0.42))
    left.set_title("likelihood and divergence")
    right.plot(drawn[:, 0], drawn[:, 1], color=GREEN, marker="o", ms=4, ls="", label="drawn topics")
    right.plot(divergence, likelihood, color=BLUE, marker=".", ms=6, lw=1, label="steps of EM")
    ends = np.array([0.0, drawn[:, 0].max()])
    right.plot(ends, -entropy - ends, color=GREY, lw=1, ls="--", label="ℓ/Σs = −H − Σ s KL/Σs")
    right.set(xlabel="Σ s KL / Σ s", ylabel="ℓ / Σ s", title="any topics lie on the same line")
    right.legend(fontsize=9)
    error = np.abs(np.concatenate([apart, -drawn.sum(axis=1)]) - entropy).max()
    show(error < 1e-12, "log-likelihood plus divergence is minus the entropy, for any topics")
    show((np.diff(likelihood) > -1e-12).all(), "the likelihood never falls")
    show(divergence[-1] < 0.5 * divergence[0], "EM halves the divergence")
    return drawing


# --- docstrings -------------------------------------------------------------------------------------------------------


def purity(topics: Array, labels: Array, k: int) -> tuple[float, Array]:
    """The share of documents whose label is the most frequent one of their topic, and how often labels meet topics."""
    table = np.zeros((k, int(labels.max()) + 1))
    np.add.at(table, (topics, labels), 1)
    return float(table.max(axis=1).sum() / len(labels)), table


@entry("docstring-topics", "CIL 3.2.2, Table 3.1")
def docstring_topics(seed: int = 0):
    """Topics of docstrings know their package, which they were not given.

    Eight topics of 1,500 docstrings of numpy, scipy, scikit-learn and the standard library as they are installed here,
    found by pLSA from counts of words alone. Bars: the packages of the documents of which a topic is the largest; beside them
    its likeliest words. Purity: the share of documents in the most frequent package of their topic.
    """
    from lemmata.data import docstrings

    k, found = 8, docstrings()
    assert found.texts is not None
    assert found.y is not None
    drawn = np.random.default_rng(seed).permutation(len(found))[:1500]
    labels = found.y[drawn]
    counts = text.counts(
        [found.texts[i] for i in drawn],
        stop_words="english",
        token_pattern=r"[a-z]{3,}",
        min_df=8,
        max_df=0.3,
    )
    model = PLSA(k, max_iter=100, random_state=seed).fit(counts)
    pure, table = purity(model.doc_topic_.argmax(axis=1), labels, k)
    shuffled, _ = purity(
        model.doc_topic_.argmax(axis=1), np.random.default_rng(1).permutation(labels), k
    )
    rows = model.table(n=6)
    drawing, ax = figure(size=(8.6, 3.8))
    left = np.zeros(k)
    order = [row.topic for row in rows]
    for label, colour in enumerate((BLUE, GREY, ORANGE, GREEN)):
        width = table[order, label]
        ax.barh(np.arange(k), width, left=left, color=colour, label=found.names[label], height=0.7)
        left += width
    for place, row in enumerate(rows):
        ax.text(left[place] + 6, place, " ".join(row.words), va="center", fontsize=8)
    ax.set_yticks(np.arange(k), [f"topic {topic}" for topic in order], fontsize=8)
    ax.set(xlabel="documents of which it is the largest topic", xlim=(0, 1.75 * left.max()))
    ax.invert_yaxis()
    ax.legend(loc="lower right")
    ax.set_title(f"purity {pure:.2f} (labels shuffled: {shuffled:.2f}); packages as installed here")
    seen = pure > shuffled + 0.25
    show(seen, "topics are purer than shuffled labels, by a quarter of the documents")
    show(pure > 0.65, "two documents of three are in the most frequent package of their topic")
    return drawing


# --- films ------------------------------------------------------------------------------------------------------------


def _likes(seed: int) -> tuple[Any, list[str], Array, list[str], str]:
    """Who liked which film (CSR), titles, genres of films (films, genres), their names, and where it all comes from."""
    from lemmata.data import DataNotFound, movielens_small

    try:
        ratings = movielens_small()
    except DataNotFound:
        rng = np.random.default_rng(seed)
        names = ["Action", "Children", "Crime", "Musical", "Romance", "War"]
        genres = np.eye(6)[np.arange(180) % 6]
        taste = rng.dirichlet(np.full(6, 0.3), 300)
        films = rng.dirichlet(np.full(180, 0.5))
        N = np.stack([rng.multinomial(50, p / p.sum()) for p in (taste @ genres.T) * films])
        titles = [f"{names[i % 6]} {i}" for i in range(180)]
        return (
            sp.csr_array(N.astype(float)),
            titles,
            genres,
            names,
            "generated (MovieLens is not here)",
        )
    liked = ratings.rating >= 4
    N = sp.csr_array(
        (np.ones(liked.sum()), (ratings.user[liked], ratings.item[liked])), shape=ratings.shape
    )
    often = np.flatnonzero(np.asarray(N.sum(axis=0)).ravel() >= 20)
    N = N[:, often]
    N = N[np.flatnonzero(np.asarray(N.sum(axis=1)).ravel() >= 10)]
    names = sorted({genre for i in often for genre in ratings.genres[i]})
    genres = np.array([[name in ratings.genres[i] for name in names] for i in often], float)
    return (
        N,
        [ratings.titles[i] for i in often],
        genres,
        names,
        "MovieLens small, ratings of 4 and more",
    )


@entry("words-in-two-topics", "CIL Table 3.1, 3.2.2")
def words_in_two_topics(seed: int = 0):
    """A word with two senses leads two topics, and documents use it in one of them at a time.

    Columns: the ten likeliest words of two topics for each of four words, of 40 that pLSA finds in 3,000 docstrings; the
    pairs share no other word. Bars: the documents with the word by where p(z | document, word) is above 0.8: the first
    topic, the second, another, none.
    """
    from matplotlib.patches import Patch

    from lemmata.data import docstrings

    k, found = 40, docstrings()
    assert found.texts is not None
    drawn = np.random.default_rng(seed).permutation(len(found))[:3000]
    counts = text.counts(
        [found.texts[i] for i in drawn],
        stop_words="english",
        token_pattern=r"[a-z]{3,}",
        min_df=8,
        max_df=0.1,
    )
    model = PLSA(k, max_iter=60, random_state=seed).fit(counts)
    phi, words, mixtures = model.components_, counts.words, model.doc_topic_
    phi = phi / phi.sum(axis=1, keepdims=True)
    top = np.argsort(-phi, axis=1)[:, :10]
    pairs = [
        (min(phi[a, w], phi[b, w]), int(w), a, b)
        for a in range(k)
        for b in range(a)
        for w in np.intersect1d(top[a], top[b])
        if len(np.intersect1d(top[a], top[b])) == 1
    ]
    chosen: list[tuple[int, int, int]] = []
    for _, w, a, b in sorted(pairs, reverse=True):
        if all(w != other and not {a, b} & {c, d} for other, c, d in chosen):
            chosen.append((w, a, b))
    chosen = chosen[:4]
    show(
        len(chosen) == 4, "four words are among the ten likeliest of two topics without other words"
    )
    drawing, (left, right) = figure(1, 2, size=(6.0, 3.6), width_ratios=(3.2, 1))
    for place, (w, *both) in enumerate(chosen):
        q = mixtures * phi[:, w]
        q = (q / np.maximum(q.sum(axis=1, keepdims=True), 1e-300))[_documents_with(counts, w)]
        shares = [(q[:, z] > 0.8).mean() for z in both]
        clear = (q > 0.8).any(axis=1).mean()
        base = 0.0
        parts = (*shares, clear - sum(shares), 1 - clear)
        for share, colour in zip(parts, (BLUE, ORANGE, SKY, GREY), strict=True):
            right.barh(-place, share, left=base, color=colour)
            base += share
        for sense, (z, share) in enumerate(zip(both, shares, strict=True)):
            colour, x = (BLUE, ORANGE)[sense], 2 * place + sense
            left.text(x, 1, f"{words[w]} {sense + 1}", color=colour, fontsize=8, weight="bold")
            for rank, other in enumerate(top[z]):
                bold = "bold" if other == w else "normal"
                left.text(x, -rank, words[other], fontsize=8, weight=bold)
            show(share * len(q) >= 2, f"documents use {words[w]} in its sense {sense + 1} alone")
        show(clear > 0.5, f"most documents with {words[w]} use it in one sense")
    left.set(xlim=(0, 8), ylim=(-9.5, 1.8))
    left.set_title("topics of 3,000 docstrings, as installed here")
    left.set_axis_off()
    right.set_yticks(-np.arange(4), [words[w] for w, *_ in chosen], fontsize=8)
    right.set(xlabel="share of documents", xlim=(0, 1))
    kinds = ("sense 1", "sense 2", "another", "several")
    handles = [Patch(color=one) for one in (BLUE, ORANGE, SKY, GREY)]
    right.legend(handles, kinds, loc="upper center", bbox_to_anchor=(0.4, 1.22), ncols=2)
    return drawing


def _documents_with(counts: Any, w: int) -> Array:
    return np.unique(sp.csc_array(counts.matrix)[:, [w]].indices)


@entry("film-topics", "CIL 3.2, CIL20 4")
def film_topics(seed: int = 0):
    """Topics of people who watch films prefer genres, which they were not given.

    pLSA where a document is a person and its words are the films they liked. Each row is a topic with its likeliest films;
    colours say how much more often its films are of a genre than all films that were liked (1: as often). The
    model knows nothing about genres.
    """
    from matplotlib.colors import TwoSlopeNorm

    k = 6
    N, titles, genres, names, source = _likes(seed)
    model = PLSA(k, max_iter=60, tol=0.0, random_state=seed).fit(N)
    usual = np.asarray(N.sum(axis=0)).ravel() @ genres / N.sum()
    common = np.flatnonzero(usual > 0.03)
    lift = (model.components_ @ genres / usual)[:, common]
    rng, films = np.random.default_rng(seed), len(titles)
    chance = [
        (model.components_[:, rng.permutation(films)] @ genres / usual)[:, common].std()
        for _ in range(20)
    ]
    drawing, ax = figure(size=(9.4, 3.6))
    picture = ax.imshow(
        np.log2(np.maximum(lift, 0.125)),
        cmap="RdBu_r",
        norm=TwoSlopeNorm(0.0, -2.0, 2.0),
        aspect="auto",
    )
    ax.set_xticks(
        np.arange(len(common)), [names[j] for j in common], rotation=45, ha="right", fontsize=8
    )
    tops = model.top_words(3, vocabulary=titles)
    labels = ["\n".join([", ".join(_short(title) for title in top)]) for top in tops]
    ax.set_yticks(np.arange(k), labels, fontsize=7)
    ax.spines[["left", "bottom"]].set_visible(False)
    bar = drawing.colorbar(picture, ax=ax, ticks=[-2, -1, 0, 1, 2])
    bar.ax.set_yticklabels(["¼", "½", "1", "2", "4"])
    bar.set_label("times as often", fontsize=8)
    ax.set_title(f"genres of {k} topics: {source}")
    show(lift.std() > 1.5 * max(chance), "topics differ in genres more than by chance")
    show((lift.max(axis=1) > 1.2).all(), "every topic prefers some genre by a fifth")
    return drawing


def _short(title: str) -> str:
    name = title.rsplit(" (", 1)[0].removesuffix(", The").replace("$", r"\$")
    return name if len(name) <= 24 else f"{name[:23]}…"
