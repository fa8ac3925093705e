"""Documents that a topic model has not seen, drawn (CIL 3.2.4): how probable they are, and which model knows them best."""

from __future__ import annotations

import numpy as np

from lemmata.atlas import entry, show
from lemmata.audit.topics.documents import Documents
from lemmata.audit.topics.left_to_right import left_to_right
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, figure
from lemmata.mixtures.estimators import Mixture
from lemmata.mixtures.families import Multinomial
from lemmata.topics.enumeration import enumerate_topics
from lemmata.topics.held_out import perplexity, unigram
from lemmata.topics.lda.estimator import LDA
from lemmata.topics.plsa.estimator import PLSA

Array = np.ndarray


def _plant(seed: int, n: int, m: int, k: int, length: int, alpha: float, spread: float = 0.3):
    rng = np.random.default_rng(seed)
    phi, prior = rng.dirichlet(np.full(m, spread), k), np.full(k, alpha)
    return rng.multinomial(length, rng.dirichlet(prior, n) @ phi), phi, prior


@entry("left-to-right", "CIL (3.35)")
def filters(seed: int = 0):
    """Read from left to right, a document is as probable as it is on average, and its logarithm too low.

    Twenty documents of 24 words under three topics, each read by 40 filters: ln of the estimate minus ln of the probability
    by enumeration, a dot for each document, and the mean. Below, the mean of estimate over truth: 1, with few particles as with
    many. Guesses for the words to come make the same particles worth many more.
    """
    N, phi, alpha = _plant(seed, 20, 30, 3, 24, 0.3)
    documents = Documents.of(N, seed)
    exact = enumerate_topics(documents, phi, alpha)[:, None]
    sizes, styles = (1, 2, 5, 10, 30), ((False, ORANGE, "plain"), (True, BLUE, "with guesses"))
    drawing, (top, below) = figure(2, 1, size=(6.2, 2.5), sharex=True)
    places, low = np.arange(len(sizes)), {}
    for guided, colour, name in styles:
        errors = [
            left_to_right(
                documents, phi, alpha, particles=R, runs=40, moves=0, seed=seed, guided=guided
            )
            - exact
            for R in sizes
        ]
        shift = 0.1 if guided else -0.1
        for place, error in zip(places, errors, strict=True):
            top.plot(
                np.full(len(N), place + shift), error.mean(axis=1), ".", color=colour, alpha=0.4
            )
        means = np.array([error.mean() for error in errors])
        top.plot(places + shift, means, color=colour, label=name)
        ratios = [np.exp(error) for error in errors]
        centres = np.array([one.mean() for one in ratios])
        widths = np.array([2 * one.std() / np.sqrt(one.size) for one in ratios])
        below.errorbar(places + shift, centres, widths, fmt="o", ms=4, color=colour, capsize=3)
        show((means <= 0).all(), "on average ln p̂ is below ln p, for every number of particles")
        show(abs(means[-1]) < abs(means[0]) / 5, "30 particles are nearer than one")
        # a few of ten means may be more than two errors off, none five
        show((np.abs(centres - 1) < 2.5 * widths).all(), "the mean of p̂/p is 1, within its error")
        low[guided] = -means[3]
    show(low[True] < 0.5 * low[False], "guesses take most of the bias of ten particles")
    for ax, at in ((top, 0.0), (below, 1.0)):
        ax.axhline(at, color=GREY, lw=1)
    top.set(ylabel="mean of ln p̂ − ln p")
    top.legend(fontsize=10)
    below.set(ylabel="mean of p̂ / p, ± 2 errors", xlabel="particles")
    below.set_xticks(places, [str(R) for R in sizes])
    return drawing


@entry("three-models-of-documents", "CIL 3.2.2–3.2.4")
def three_models(seed: int = 0):
    """No topics, one a document, a mixture, a mixture with a prior: judged on the same new documents.

    Perplexity of the second halves of 100 new documents, the first halves read, after fits to 200 documents of 40 words
    under five planted topics: a unigram, a multinomial mixture (one topic per document), pLSA and LDA with five topics.
    The line is the model that wrote them.
    """
    N, phi, alpha = _plant(seed, 300, 120, 5, 40, 0.4, 0.1)
    train, test = N[:200].astype(float), N[200:]
    classes = Mixture(5, family=Multinomial(smoothing=0.1), init_params="k-means++", random_state=0)
    models = {
        "unigram": unigram(train),
        "a topic\nper document": classes.fit(train),
        "pLSA": PLSA(5, random_state=0).fit(train),
        "LDA": LDA(5, max_iter=80, doc_topic_prior=0.4, random_state=0).fit(train),
    }
    found = {
        name: float(perplexity(model, test, "completion", smoothing=0.01, random_state=seed))
        for name, model in models.items()
    }
    best = float(perplexity((phi, alpha), test, "completion", random_state=seed))
    drawing, ax = figure(1, 1, size=(5.2, 3.2))
    colours = (GREY, ORANGE, GREEN, BLUE)
    bars = ax.bar(list(found), list(found.values()), color=colours, width=0.6)
    ax.bar_label(bars, fmt="%.1f", padding=2)
    ax.axhline(best, color="black", ls="--", lw=1)
    ax.text(4.1, best + 0.5, f"truth {best:.1f}", ha="right", va="bottom", fontsize=9)
    ax.set(
        ylabel="perplexity of p(w² | w¹)", ylim=(0, 1.15 * max(found.values())), xlim=(-0.6, 4.1)
    )
    names = list(found)
    show(found[names[1]] < found[names[0]], "one topic per document beats none")
    show(found["LDA"] < found["pLSA"], "a prior on mixtures beats none: pLSA overfits a few words")
    show(found["LDA"] < found[names[1]], "documents of several topics want a model of several")
    show(best < found["LDA"] < 1.1 * best, "LDA comes within a tenth of the model that wrote them")
    return drawing


@entry("held-out-prior", "CIL 3.2.4, (3.34)", alpha=(0.1, 0.6))
def held_out_prior(alpha: float = 0.3, seed: int = 0):
    """New documents say how strong the prior on mixtures is: their likelihood is highest near the α₀ that wrote them.

    Perplexity of 80 new documents of 40 words, by LDA fitted to 240 documents under three planted topics with each α₀, and
    by the planted topics themselves. Too small an α₀ takes every document for one of a single topic, too large a one
    for one of all of them. A dashed line: the α₀ of the documents, which is the parameter; a dot: the mean of those that
    `doc_topic_prior="auto"` learns from the training documents.
    """
    N, phi, _ = _plant(seed, 320, 60, 3, 40, alpha, 0.1)
    train, test = N[:240].astype(float), N[240:]
    grid = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.7, 1.2, 2.5])

    def judge(model) -> float:
        return float(perplexity(model, test, particles=5, runs=2, moves=0, random_state=seed))

    fits = [LDA(3, max_iter=60, doc_topic_prior=a, random_state=0).fit(train) for a in grid]
    fitted, planted = [judge(one) for one in fits], [judge((phi, a)) for a in grid]
    auto = LDA(3, max_iter=60, doc_topic_prior="auto", random_state=0).fit(train)
    learned = float(np.mean(auto.doc_topic_prior_))
    drawing, ax = figure(size=(5.4, 3.5))
    ax.semilogx(grid, fitted, color=BLUE, marker="o", ms=4, label="LDA fitted with α₀")
    ax.semilogx(grid, planted, color=GREY, marker="s", ms=4, label="the topics that were planted")
    ax.plot(
        learned, judge(auto), color=ORANGE, marker="D", ls="", label=f"α learned: {learned:.2f}"
    )
    ax.axvline(alpha, color="black", ls="--", lw=1)
    ax.set(xlabel="α₀", ylabel="perplexity of new documents", title=f"documents of α₀ = {alpha:g}")
    ax.legend()
    for name, found in (("fitted", fitted), ("planted", planted)):
        best = grid[int(np.argmin(found))]
        show(
            alpha / 3 <= best <= 3 * alpha, f"the best α₀ of {name} topics is within a factor of 3"
        )
        show(found[0] > min(found) < found[-1], "weaker and stronger priors are worse")
    show(alpha / 2 < learned < 2 * alpha, "learned α is within a factor of 2")
    return drawing
