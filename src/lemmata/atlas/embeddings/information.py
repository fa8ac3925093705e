"""The information in vectors of words (CIL 3.3.2 to 3.3.4): GloVe's weights, the optimum of negative sampling, its noise."""

from __future__ import annotations

import numpy as np

from lemmata.atlas import entry, show
from lemmata.atlas.embeddings.texts import LabelledText, corpus, generate_text
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, figure
from lemmata.core.engine import config
from lemmata.embedding import PMI, CoOccurrence, SkipGram, WordVectors
from lemmata.embedding.glove.counts import weights_of
from lemmata.embedding.windows.sampling import noise

Array = np.ndarray


# --- GloVe's weights (CIL Fig. 3.12) ----------------------------------------------------------------------------------


@entry("glove-weights", "CIL (3.57), Fig. 3.12")
def glove_weights(seed: int = 0):
    """GloVe's weights: pairs that occur once are many and count little.

    Left: f(n) = min{1, (n/n_max)^α}, what the squared error of a pair counts that occurs n times; α = 0 is the unweighted
    case f = min{1, n} of matrix completion (3.60). Right: pairs of words in windows of five words of a text that occur at
    most n times: their share of all pairs, and their share of the weight.
    """
    found = corpus(seed)
    n = CoOccurrence.of(found.encoded, 5).matrix.data
    x_max = 100.0 if not found.generated else 10.0
    drawing, (left, right) = figure(1, 2, size=(4.4, 3.3))
    grid = np.linspace(0, 1.6 * x_max, 321)[1:]
    styles = {0.75: (BLUE, "-", "α = ¾"), 1.0: (ORANGE, "--", "α = 1"), 0.5: (GREEN, "-.", "α = ½")}
    for alpha, (colour, line, name) in styles.items():
        left.plot(grid, weights_of(grid, x_max, alpha), color=colour, ls=line, lw=2, label=name)
    left.plot(grid, np.minimum(1, grid), color=GREY, lw=1.5, ls=":", label="α = 0: min{1, n}")
    left.set(xlabel="n, how often a pair occurs", ylabel="f(n)", ylim=(0, 1.08))
    left.set_title(f"the weight of a pair, n_max = {x_max:.0f}")
    left.legend(fontsize=9, loc="lower right")
    order = np.sort(n)
    upto = np.unique(order)
    ends = np.searchsorted(order, upto, side="right") - 1
    share = (ends + 1) / len(order)
    right.plot(upto, share, color=GREY, ls=":", lw=1.5, label="of the pairs (α = 0)")
    held = {}
    for alpha, (colour, line, name) in styles.items():
        total = np.cumsum(weights_of(order, x_max, alpha))
        held[alpha] = total[ends] / total[-1]
        right.plot(upto, held[alpha], color=colour, ls=line, lw=2, label=f"of the weight, {name}")
    right.set(
        xscale="log", xlabel="pairs that occur at most n times", ylabel="share", ylim=(0, 1.03)
    )
    right.legend(loc="lower right")
    right.set_title(f"{found.name}: {len(n):,} pairs")
    once = int(np.searchsorted(upto, 1.0, side="right")) - 1
    kink = weights_of(np.array([x_max * (1 - 1e-9), x_max]), x_max, 0.75)
    show(abs(kink[0] - 1) < 1e-8 and kink[1] == 1, "f is continuous where it reaches 1")
    show((np.diff(weights_of(grid, x_max, 0.75)) >= 0).all(), "f never falls")
    seen = held[0.75][once] < 0.75 * share[once]
    show(seen, f"they are {share[once]:.0%} of the pairs and {held[0.75][once]:.0%} of the weight")
    ranked = [held[alpha][once] for alpha in (0.5, 0.75, 1.0)]
    show(ranked == sorted(ranked, reverse=True), "the larger α, the less they count")
    return drawing


# --- inner products and information (CIL (3.53)) ----------------------------------------------------------------------


def optimum(N: Array, counts: Array, negative: int, exponent: float = 0.75) -> Array:
    """ln[N_wv / (r N_w q_v)] of every pair, what negative sampling would reach if it could choose every score; −∞ where none
    is."""
    with np.errstate(divide="ignore"):
        return np.log(N / (negative * N.sum(axis=1, keepdims=True) * noise(counts, exponent)))


@entry("inner-products", "CIL (3.53), (3.54)")
def inner_products(seed: int = 0):
    """Inner products of skip-gram approach the shifted information of a pair.

    Each point is a pair of words of a generated text that occurs five times and more: across, what theory says is best for
    negative sampling with r = 2, the information ln[N/(r N_w q_v)]; up, the score ⟨ζ_w, z_v⟩ + b_v that skip-gram learned.
    Left with as many numbers as there are words: nothing stands in the way. Right with five: the best that five can do.
    Larger points: pairs that occur more often.
    """
    encoded = generate_text(seed, sentences=2000, contexts=16).encoded
    v, negative = len(encoded.vocabulary), 2
    N = CoOccurrence.of(encoded, 5).matrix.toarray()
    best = optimum(N, encoded.vocabulary.counts, negative)
    often = N >= 5
    drawing, cells = figure(1, 2, size=(4.2, 3.8), sharex=True, sharey=True)
    agreed = []
    for cell, k in zip(cells, (v, 5), strict=True):
        model = SkipGram(
            k, window=5, negative=negative, sample=0, shrink_windows=False, biases=True, min_count=1, alpha=0.1, epochs=20,
            random_state=seed, deterministic=True,
        )  # fmt: skip
        with config(compile="always"):  # so few words make short batches, which NumPy is slow at
            model.fit(encoded)
        scores = model.embedding_ @ model.context_embedding_.T + model.biases_
        x, y, size = best[often], scores[often], N[often]
        agreed.append(float(np.corrcoef(x, y)[0, 1]))
        ends = np.array([x.min(), x.max()])
        cell.plot(ends, ends, color=ORANGE, lw=1.5, ls="--", label="equal")
        cell.scatter(x, y, s=np.minimum(2 + size / 8, 40), color=BLUE, alpha=0.4, lw=0, zorder=1)
        cell.set_xlabel("ln[N / (r N_w q_v)], shifted information")
        cell.set_title(f"{k} numbers a word: correlation {agreed[-1]:.2f}")
    cells[0].set_ylabel("⟨ζ_w, z_v⟩ + b_v, learnt")
    cells[0].legend(fontsize=9)
    show(agreed[0] > 0.97, "with enough numbers, scores and information correlate by 0.97 and more")
    show(agreed[1] > 0.75, "with five numbers, by three quarters and more")
    show(agreed[1] < agreed[0], "fewer numbers agree less")
    return drawing


# --- the exponent of the noise (CIL (3.51)) ---------------------------------------------------------------------------

EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)


def kept_kinds(vectors: WordVectors, found: LabelledText, near: int = 8) -> float:
    """The share of nearest words that are of the same kind, over all words whose kind is known."""
    kinds = {word: set(kind) for kind in found.sets.values() for word in kind}
    known = [word for word in kinds if word in vectors]
    return float(
        np.mean([other in kinds[w] for w in known for other, _ in vectors.nearest(w, near)])
    )


def judge(vectors: WordVectors, found: LabelledText) -> float:
    """Score vectors by 353 pairs that people judged (Spearman's ρ); of a generated text, by neighbours of the same kind."""
    if found.generated:
        return kept_kinds(vectors, found)
    from lemmata.data import word_evaluation

    return vectors.evaluate_similarity(word_evaluation()["wordsim353"]).spearman


def sweep_exponents(found: LabelledText, seeds: int) -> dict[str, Array]:
    """Scores at every exponent, (exponents, seeds). Of a generated text by PMI, whose seeds are other texts; of WikiText-2 by
    PMI, which is the same for all seeds, and by skip-gram.
    """
    if found.generated:
        texts = [generate_text(seed) for seed in range(seeds)]
        return {"PMI": np.array([[_information(a, text) for text in texts] for a in EXPONENTS])}
    scores = np.zeros((len(EXPONENTS), seeds))
    for i, exponent in enumerate(EXPONENTS):
        for seed in range(seeds):
            model = SkipGram(
                50, window=5, ns_exponent=exponent, negatives_per="window", random_state=seed, deterministic=True
            )  # fmt: skip
            scores[i, seed] = judge(model.fit(found.encoded).vectors_, found)
    return {"PMI": np.array([[_information(a, found)] for a in EXPONENTS]), "SkipGram": scores}


def _information(exponent: float, found: LabelledText) -> float:
    size = 20 if found.generated else 100
    model = PMI(size, window=5, ns_exponent=exponent, random_state=0)
    return judge(model.fit(found.encoded).vectors_, found)


@entry("noise-exponent", "CIL (3.51)")
def noise_exponent(seed: int = 0):
    """Negatives drawn nearly by frequency serve better than even ones.

    The quality of vectors when negatives are drawn from q ∝ p^α (SkipGram), or the information of pairs is taken relative
    to that q (PMI): α = 0 draws all words alike, α = 1 by their frequency. Good: agreement with what people say about 353
    pairs of words (Spearman's ρ), or, of a generated text, the share of the eight nearest words of the same kind. Bars: two
    standard errors of the mean over seeds; PMI of a given text has none. The dotted line is ¾, word2vec's choice.
    """
    found = corpus(seed)
    seeds = 4 if found.generated else 3
    scores = sweep_exponents(found, seeds)
    drawing, ax = figure(size=(5.4, 3.6))
    for (name, values), colour, mark in zip(scores.items(), (ORANGE, BLUE), "so", strict=False):
        mean, error = values.mean(axis=1), 2 * values.std(axis=1) / np.sqrt(max(seeds - 1, 1))
        ax.errorbar(
            EXPONENTS, mean, error if error.any() else None, color=colour, marker=mark, capsize=3, lw=1.5, label=name
        )  # fmt: skip
        gain = values[EXPONENTS.index(0.75)] - values[EXPONENTS.index(0.0)]  # by seed
        doubt = 2 * gain.std() / np.sqrt(max(len(gain) - 1, 1))
        show(
            gain.mean() > doubt, f"{name}: α = ¾ does better than α = 0, by more than seeds explain"
        )
    ax.axvline(0.75, color=GREY, lw=1, ls=":")
    what = (
        "share of neighbours of the same kind"
        if found.generated
        else "Spearman's ρ with WordSim-353"
    )
    ax.set(xlabel="α in q ∝ p^α", ylabel=what)
    ax.set_xticks(EXPONENTS)
    ax.legend(fontsize=9, loc="lower right")
    ax.set_title(f"{found.name}, {seeds} seeds")
    return drawing
