"""Skip-gram with parts of words against gensim's FastText on a part of WikiText-2: same settings, in turns.

./run bench subwords              # SEEDS=2, SHARE=0.5 of the text, ONLY=lemmata of our variants
"""

from __future__ import annotations

import os
import statistics
import time

import numpy as np

import lemmata
from bench.helpers.harness import run_quietly
from lemmata import data
from lemmata.embedding import SkipGram, WordVectors

SETTINGS = {
    "vector_size": 100, "window": 5, "negative": 5, "min_count": 5, "epochs": 5, "min_n": 3, "max_n": 6, "bucket": 2_000_000,
}  # fmt: skip
THEIRS = "gensim FastText, 2 workers"
OURS = {
    "lemmata": {},
    "lemmata, deterministic": {"deterministic": True},
    "lemmata, negatives per window": {"negatives_per": "window"},
    "lemmata, words only": {"max_n": 0},
}


def part_of_wikitext(share: float) -> list[list[str]]:
    """The first lines of WikiText-2, lower case, a line a sentence."""
    lines = data.wikitext_2("train").texts[0].splitlines()
    lists = [words for line in lines if (words := line.lower().split())]
    return lists[: int(share * len(lists))]


def theirs(lists, seed):
    from gensim.models import FastText

    model = FastText(lists, sg=1, workers=2, seed=seed, **SETTINGS)
    return WordVectors(model.wv.index_to_key, model.wv.vectors)


def ours(lists, seed, **options):
    with lemmata.config(certificate=False):
        return SkipGram(random_state=seed, **{**SETTINGS, **options}).fit(lists).vectors_


def main() -> None:
    seeds, share = int(os.environ.get("SEEDS", "1")), float(os.environ.get("SHARE", "1"))
    lists = part_of_wikitext(share)
    tokens = sum(map(len, lists))
    with lemmata.config(compile="always"):  # nobody waits for the compiler below
        ours(lists[:50], 0, min_alpha=1e-3)
    judged = data.word_evaluation()["wordsim353"]
    chosen = os.environ.get("ONLY", "").split(",")  # names; all without
    systems = {THEIRS: lambda seed: theirs(lists, seed)}
    systems |= {name: lambda seed, o=o: ours(lists, seed, **o) for name, o in OURS.items()}
    systems = {
        name: fit for name, fit in systems.items() if chosen == [""] or name in (THEIRS, *chosen)
    }
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    scores: dict[str, list[float]] = {name: [] for name in systems}
    for seed in range(1, seeds + 1):
        for name, fit in systems.items():
            begin = time.perf_counter()
            vectors = run_quietly(lambda fit=fit, seed=seed: fit(seed))
            seconds[name].append(time.perf_counter() - begin)
            scores[name].append((score := vectors.evaluate_similarity(judged)).spearman)
    print(
        f"skip-gram with parts of 3 to 6 letters, {tokens:,} words, dim 100, window 5, 5 negatives, 5 epochs; {seeds} seeds"
    )
    peer = statistics.median(seconds[THEIRS])
    for name, times in seconds.items():
        middle, rate = statistics.median(times), SETTINGS["epochs"] * tokens
        error = np.std(scores[name], ddof=min(1, seeds - 1)) / seeds**0.5
        print(
            f"  {name:<32}{middle:7.1f} s  {rate / middle / 1e3:7.0f} k words/s  {peer / middle:5.2f}x   "
            f"WordSim {np.mean(scores[name]):.3f} ± {error:.3f}"
        )
    print(
        f"  (± is over seeds; over the {score.n_pairs} pairs it is {score.standard_error:.3f}; target ≥ 2x)\n"
    )
