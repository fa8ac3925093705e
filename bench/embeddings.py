"""Word embeddings against gensim on WikiText-2: text to numbers, and skip-gram at the same settings, in turns.

./run bench embeddings              # SEEDS=5 for the mean of five seeds
"""

from __future__ import annotations

import os
import statistics
import time

import numpy as np

import lemmata
from bench.harness import compare, run_quietly
from lemmata import data, text
from lemmata.embedding import SkipGram, WordVectors

SETTINGS = {"vector_size": 100, "window": 5, "negative": 5, "min_count": 5, "epochs": 5}
OURS = {
    "lemmata": {},
    "lemmata, deterministic": {"deterministic": True},
    "lemmata, negatives per window": {"negatives_per": "window"},
}


def sentences() -> list[list[str]]:
    """WikiText-2, lower case, a line a sentence."""
    lines = data.wikitext_2("train").texts[0].splitlines()
    return [words for line in lines if (words := line.lower().split())]


def theirs(lists, seed):
    from gensim.models import Word2Vec

    model = Word2Vec(lists, sg=1, workers=2, seed=seed, **SETTINGS)
    return WordVectors(model.wv.index_to_key, model.wv.vectors)


def ours(lists, seed, **options):
    with lemmata.config(certificate=False):
        return SkipGram(random_state=seed, **SETTINGS, **options).fit(lists).vectors_


def vocabulary(lists, tokens):
    from gensim.models import Word2Vec

    systems = {
        "lemmata": lambda: text.encode(lists, min_count=5),
        "gensim build_vocab": lambda: Word2Vec(min_count=5).build_vocab(lists),
    }
    title = f"words to numbers and counts, {tokens:,} words (gensim: counts only)"
    compare(title, systems, target=2.0, rounds=3)


def training(lists, tokens, seeds):
    with lemmata.config(compile="always"):  # nobody waits for the compiler below
        ours(lists[:50], 0, min_alpha=1e-3)
    judged = data.word_evaluation()
    systems = {"gensim, 2 workers": lambda seed: theirs(lists, seed)}
    systems |= {
        name: lambda seed, o=options: ours(lists, seed, **o) for name, options in OURS.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    scores: dict[str, list[tuple[float, float, float]]] = {name: [] for name in systems}
    for seed in range(1, seeds + 1):
        for name, fit in systems.items():
            begin = time.perf_counter()
            vectors = run_quietly(lambda fit=fit, seed=seed: fit(seed))
            seconds[name].append(time.perf_counter() - begin)
            similar = [
                vectors.evaluate_similarity(judged[key]) for key in ("wordsim353", "simlex999")
            ]
            solved = vectors.evaluate_analogies(judged["analogies"])
            scores[name].append((similar[0].spearman, similar[1].spearman, solved.accuracy))
    epochs = SETTINGS["epochs"]
    print(
        f"skip-gram, {tokens:,} words, dim 100, window 5, 5 negatives, 5 epochs, vocabulary included; {seeds} seeds"
    )
    peer = statistics.median(seconds["gensim, 2 workers"])
    for name, times in seconds.items():
        middle = statistics.median(times)
        mean, error = (
            np.mean(scores[name], axis=0),
            np.std(scores[name], axis=0, ddof=min(1, seeds - 1)) / seeds**0.5,
        )
        print(
            f"  {name:<32}{middle:7.1f} s  {epochs * tokens / middle / 1e3:7.0f} k words/s  {peer / middle:5.2f}x   "
            f"WordSim {mean[0]:.3f} ± {error[0]:.3f}  SimLex {mean[1]:.3f} ± {error[1]:.3f}  analogies {mean[2]:.3f}"
        )
    print(
        f"  (± is over seeds; over the {similar[0].n_pairs} pairs it is {similar[0].standard_error:.3f}; target ≥ 2x)\n"
    )


def main() -> None:
    lists = sentences()
    tokens = sum(map(len, lists))
    vocabulary(lists, tokens)
    training(lists, tokens, int(os.environ.get("SEEDS", "3")))
