"""Documents and their topics, drawn (CIL 3.2, CIL20 4): bags of words, two draws for each word, two senses."""

from __future__ import annotations

import numpy as np

from lemmata import LDA, text
from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, figure

Array = np.ndarray
TOPICS = ("money", "river", "music")
COLOURS = (BLUE, GREEN, ORANGE)
# three topics of ten words each; two words belong to two of them
WORDS = {
    "money": "bank loan credit interest account note payment price market debt",
    "river": "bank water fish shore boat stream bridge current stone rain",
    "music": "note song chord voice key band rhythm concert string drum",
}


def plant(
    n: int, length: int, seed: int, alpha: float = 0.15
) -> tuple[Array, Array, Array, list[str], list[list[tuple[int, int]]]]:
    """Documents by two draws for each word: counts (n, m), p(z | d), p(w | z), the words, and the drawn (topic, word)."""
    rng = np.random.default_rng(seed)
    words = sorted({word for line in WORDS.values() for word in line.split()})
    phi = np.zeros((3, len(words)))
    for z, topic in enumerate(TOPICS):
        named = WORDS[topic].split()
        phi[z, [words.index(word) for word in named]] = np.linspace(2, 0.7, len(named))
    phi /= phi.sum(axis=1, keepdims=True)
    theta = rng.dirichlet(np.full(3, alpha), n)
    drawn = []
    for mixture in theta:
        topics = rng.choice(3, length, p=mixture)
        drawn.append([(int(t), int(rng.choice(len(words), p=phi[t]))) for t in topics])
    N = np.zeros((n, len(words)), int)
    for d, pairs in enumerate(drawn):
        np.add.at(N[d], [w for _, w in pairs], 1)
    return N, theta, phi, words, drawn


@entry("bag-of-words", "CIL Fig. 3.5; CIL20 Fig. 4.1; ML Text Representation")
def bag_of_words(seed: int = 0):
    """A document becomes a row of counts: the order of its words is gone, and most counts are 0.

    Left: four sentences as rows, one column for each word. Right: the share of zeros in the counts of planted documents, by
    their number; a larger text has more words, of which each document has few. Sentences with their words shuffled have the
    same rows.
    """
    sentences = (
        "the boat left the shore",
        "the shore left the boat",
        "the bank gave a loan for the boat",
        "a song for the shore",
    )
    counts = text.counts(sentences, token_pattern=r"[a-z]+")
    M, words = counts.matrix.toarray(), list(counts.words)
    drawing, (left, right) = figure(1, 2, size=(4.9, 3.0), width_ratios=(1.7, 1))
    left.imshow(M, cmap="Blues", vmin=0, vmax=3)
    for (i, j), value in np.ndenumerate(M):
        left.text(j, i, str(value) if value else "·", ha="center", va="center", fontsize=9)
    left.set_xticks(range(len(words)), words, rotation=45, ha="right")
    left.set_yticks(range(4), sentences, fontsize=8)
    sizes = np.array([10, 30, 100, 300])
    rng = np.random.default_rng(seed)
    zipf = 1 / np.arange(1, 20001)
    zipf /= zipf.sum()
    zeros = []
    for n in sizes:
        rows = [np.unique(rng.choice(20000, 100, p=zipf)) for _ in range(n)]
        zeros.append(1 - sum(map(len, rows)) / (n * len(np.unique(np.concatenate(rows)))))
    right.semilogx(sizes, zeros, color=BLUE, marker="o")
    right.set(
        xlabel="documents of 100 words",
        ylabel="share of zeros",
        ylim=(0, 1),
        title="words with Zipf's frequencies",
    )
    shuffled = [" ".join(rng.permutation(s.split())) for s in sentences]
    show(
        (text.counts(shuffled, token_pattern=r"[a-z]+").matrix != counts.matrix).nnz == 0,
        "shuffled words give the same counts",
    )
    show((M[0] == M[1]).all(), "two sentences that say the opposite may have the same row")
    show(
        zeros[-1] > 0.95 and (np.diff(zeros) > 0).all(),
        "of 300 documents over 95 % of the counts are 0",
    )
    return drawing


@entry("two-draws", "CIL Fig. 3.6; CIL20 Fig. 4.2, 4.7, 4.2.1; CIL 3.2.2", alpha=(0.05, 1.0))
def two_draws(alpha: float = 0.15, seed: int = 0):
    """Every word takes two draws: a topic of the document, then a word of the topic; on average that is a product of matrices.

    Left to right: p(z | d) of 12 documents, p(w | z) of three topics, their product p(w | d), and the shares of words in 400
    that were drawn for each document. Below: how far those are from the product, by the words drawn: like 1/√s. A new
    document is a new row on the left. The parameter says how mixed documents are.
    """
    _, theta, phi, _words, _ = plant(12, 1, seed, alpha)
    P = theta @ phi
    rng = np.random.default_rng(seed + 1)

    def sample(s: int) -> Array:
        z = np.stack([rng.multinomial(s, mixture) for mixture in theta])
        return (
            np.stack(
                [sum(rng.multinomial(count, phi[t]) for t, count in enumerate(row)) for row in z]
            )
            / s
        )

    drawing, axes = figure(1, 5, size=(2.7, 3.2), width_ratios=(0.5, 1.2, 1.2, 1.2, 1.1))
    F = sample(400)
    for ax, M, title in zip(
        axes,
        (theta, phi, P, F),
        ("p(z | d)", "p(w | z)", "product", "400 words each"),
        strict=False,
    ):
        ax.imshow(M, cmap="Blues", vmin=0, aspect="auto", vmax=1 if M is theta else phi.max())
        ax.set(
            title=title,
            xlabel="topic" if M is theta else "word",
            ylabel="topic" if M is phi else "document",
        )
        ax.set(xticks=[], yticks=[])
    sizes = np.array([30, 100, 300, 1000, 3000])
    far = np.array([np.abs(sample(int(s)) - P).sum(axis=1).mean() for s in sizes])
    axes[4].loglog(sizes, far, color=BLUE, marker="o", label="|shares − product|")
    axes[4].loglog(sizes, far[0] * np.sqrt(sizes[0] / sizes), color="black", ls=":", label="1/√s")
    axes[4].set(xlabel="words drawn s")
    axes[4].legend(fontsize=7)
    slope = np.polyfit(np.log(sizes), np.log(far), 1)[0]
    show(abs(slope + 0.5) < 0.1, "the shares of drawn words tend to the product like 1/√s")
    show(np.linalg.matrix_rank(P) == 3, "the product has rank 3, however many documents there are")
    show(np.allclose(P.sum(axis=1), 1), "each row of it is a distribution over words")
    return drawing


@entry("coloured-document", "CIL Fig. 3.7, 3.2.4; CIL20 4.4", length=(30, 90))
def coloured_document(length: int = 56, seed: int = 0):
    """Topics colour the words of a document, and a word with two senses takes the colour of its neighbours.

    LDA of 300 planted documents under three topics, which it is not told. One of them, word by word in the colour of its
    likeliest topic, its mixture (bars), and the topics' likeliest words. Crosses: words whose colour is not the topic they
    were drawn from. The parameter is the length of the documents.
    """
    N, theta, phi, words, drawn = plant(300, length, seed)
    model = LDA(3, random_state=seed, max_iter=60).fit(N)
    match = [int(np.argmax(phi @ topic)) for topic in model.components_]
    found = np.asarray(model.components_)[np.argsort(match)]
    found = found / found.sum(axis=1, keepdims=True)
    mixture = np.asarray(model.doc_topic_)[:, np.argsort(match)]
    mixture = mixture / mixture.sum(axis=1, keepdims=True)
    right = [
        np.mean([np.argmax(mixture[d] * found[:, w]) == z for z, w in pairs])
        for d, pairs in enumerate(drawn)
    ]
    d = int(np.argmin(np.abs(theta - 1 / 3).max(axis=1)))  # the most mixed one
    drawing, (left, middle, last) = figure(1, 3, size=(3.6, 3.6), width_ratios=(1.6, 0.5, 1.3))
    for place, (z, w) in enumerate(drawn[d]):
        colour = int(np.argmax(mixture[d] * found[:, w]))
        x, y = place % 4, place // 4
        left.text(
            x,
            -y,
            words[w],
            color=COLOURS[colour],
            fontsize=8,
            ha="center",
            va="center",
            weight="bold",
        )
        if colour != z:
            left.plot(x + 0.42, -y, color=GREY, marker="x", ms=5, ls="")
    left.set(
        xlim=(-0.6, 3.7),
        ylim=(-(length // 4) - 0.5, 0.8),
        title=f"a document: {100 * right[d]:.0f} % as they were drawn",
    )
    left.set_axis_off()
    middle.bar(range(3), mixture[d], color=COLOURS)
    middle.plot(range(3), theta[d], color="black", marker="_", ms=14, ls="", label="planted")
    middle.set_xticks(range(3), TOPICS, rotation=45)
    middle.set_title("its mixture")
    middle.legend(fontsize=7)
    for z in range(3):
        for rank, w in enumerate(np.argsort(-found[z])[:8]):
            last.text(z, -rank, words[w], color=COLOURS[z], fontsize=8, ha="center")
    last.set(xlim=(-0.5, 2.5), ylim=(-8, 1), title="likeliest words of the topics")
    last.set_axis_off()
    show(sorted(match) == [0, 1, 2], "each topic found is one of the three that were planted")
    show(np.abs(found - phi).sum(axis=1).max() < 0.25, "with their words")
    show(np.mean(right) > 0.9, "over 90 % of all words get the colour they were drawn from")
    return drawing


@entry("double-senses", "CIL Table 3.1, Fig. 3.8, 3.2.2", word=(0, 1))
def double_senses(word: int = 0, seed: int = 0):
    """A word with two senses is in two topics, and its neighbours say which one is meant.

    Likeliest words of three topics that LDA found, as shares; "bank" stands in two of them and "note", too. Right: p(topic |
    the word, its document) for one word in short texts: the other words decide. The parameter chooses bank (0) or note (1).
    """
    N, _, phi, words, _ = plant(300, 60, seed)
    model = LDA(3, random_state=seed, max_iter=60).fit(N)
    match = [int(np.argmax(phi @ topic)) for topic in model.components_]
    found = np.asarray(model.components_)[np.argsort(match)]
    found = found / found.sum(axis=1, keepdims=True)
    name = ("bank", "note")[word]
    at = words.index(name)
    texts = {
        0: ("bank loan interest debt", "bank water boat fish", "bank", "bank loan water"),
        1: ("note debt payment", "note chord song", "note", "note price drum"),
    }[word]
    drawing, (left, right) = figure(1, 2, size=(4.6, 3.6), width_ratios=(1.3, 1))
    for z in range(3):
        for rank, w in enumerate(np.argsort(-found[z])[:9]):
            both = words[w] in ("bank", "note")
            left.barh(-rank - 0.28, found[z, w], 0.1, left=z * 0.4, color=COLOURS[z])
            left.text(
                z * 0.4,
                -rank,
                words[w],
                fontsize=9,
                weight="bold" if both else "normal",
                va="center",
            )
        left.text(z * 0.4, 1, TOPICS[z], color=COLOURS[z], fontsize=10, weight="bold")
    left.set(ylim=(-9, 1.6), title="likeliest words; bars: p(w | z)")
    left.set_axis_off()
    C = np.stack([[line.split().count(w) for w in words] for line in texts])
    mixtures = np.asarray(model.transform(C))[:, np.argsort(match)]
    sense = mixtures * found[:, at]
    sense /= sense.sum(axis=1, keepdims=True)
    base = np.zeros(len(texts))
    for z in range(3):
        right.barh(np.arange(len(texts)), sense[:, z], left=base, color=COLOURS[z], label=TOPICS[z])
        base += sense[:, z]
    right.set_yticks(np.arange(len(texts)), texts, fontsize=8)
    right.invert_yaxis()
    right.set(xlabel=f"p(topic | {name}, text)", xlim=(0, 1))
    right.legend(loc="upper center", bbox_to_anchor=(0.4, -0.16), ncols=3)
    other = (1, 2)[word]
    show(found[0, at] > 0.05 and found[other, at] > 0.05, f"{name} is a word of two topics")
    show(
        sense[0, 0] > 0.7 and sense[1, other] > 0.7, "the words around it say which sense is meant"
    )
    show(0.1 < sense[2, 0] < 0.9, "alone it could be either")
    return drawing
