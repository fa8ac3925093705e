"""An epoch of GloVe on counts with a Zipf pattern, beside what the memory allows; and WikiText-2 end to end beside others.

./run bench glove                   # PAIRS=50 million pairs that occur; WORDS=200000
"""

from __future__ import annotations

import os
import time

import numpy as np
import scipy.sparse as sp

import lemmata
from lemmata import data
from lemmata.core.engine import cores, run_tasks
from lemmata.embedding import PMI, CoOccurrence, GloVe, SkipGram
from lemmata.embedding.glove.algorithm import GloVeAlgorithm, GloVeData
from lemmata.embedding.glove.counts import PairCounts
from lemmata.text.encoded import encode
from lemmata.text.words import Vocabulary

TARGET = 20.0  # seconds for an epoch over 50 million pairs, 100 numbers a vector


def zipf_pairs(wanted: int, words: int, seed: int = 0) -> CoOccurrence:
    """Counts of pairs whose words are drawn evenly in the logarithm of their rank, until so many different pairs occur."""
    rng = np.random.default_rng(seed)
    keys, times = np.zeros(0, np.int64), np.zeros(0, np.int64)
    while len(keys) < wanted:
        rank = [np.exp(rng.random(2**25) * np.log(words)).astype(np.int64) - 1 for _ in range(2)]
        more, counted = np.unique(rank[0] * words + rank[1], return_counts=True)
        new, again = np.unique(np.concatenate([keys, more]), return_inverse=True)
        times = np.bincount(again, np.concatenate([times, counted])).astype(np.int64)
        keys = new
    kept = np.sort(rng.permutation(len(keys))[:wanted])
    rows, columns = np.divmod(keys[kept], words)
    N = sp.csr_array((times[kept].astype(float), (rows, columns)), shape=(words, words))
    names = np.array([f"w{i}" for i in range(words)])
    return CoOccurrence(Vocabulary(names, np.arange(words, 0, -1)), N, 5, "harmonic", True)


def bandwidth() -> float:
    """Bytes a second that all cores together read and write, in long runs."""
    parts = [np.zeros(2**26, np.float32) for _ in range(cores())]
    run_tasks(lambda task: np.add(parts[task], 1, out=parts[task]), len(parts))
    begin = time.perf_counter()
    run_tasks(lambda task: np.add(parts[task], 1, out=parts[task]), len(parts))
    return 2 * sum(part.nbytes for part in parts) / (time.perf_counter() - begin)


def epochs() -> None:
    wanted, words = (
        int(1e6 * float(os.environ.get("PAIRS", "50"))),
        int(os.environ.get("WORDS", "200000")),
    )
    pairs = PairCounts.of(zipf_pairs(wanted, words))
    begin = time.perf_counter()
    blocked = GloVeData.of(pairs, 10.0, 0.75, compiled=True)
    dealt = time.perf_counter() - begin
    print(f"GloVe, {pairs.n_observed:,} pairs of {words:,} words, 100 numbers, {cores()} cores")
    print(f"  pairs into blocks            {dealt:7.1f} s, once")
    lines = 7 * 64  # bytes of a vector
    speed = bandwidth()
    for solver, arrays in (("adagrad", 2), ("sgd", 1)):
        algorithm = GloVeAlgorithm(100, 5, solver == "adagrad", 0.05)
        state = algorithm.init(blocked, np.random.default_rng(0))
        seconds = []
        for _ in range(2):
            begin = time.perf_counter()
            state = algorithm.step(state, blocked)
            seconds.append(time.perf_counter() - begin)
        # contexts are read and written at every pair, and read once more for the loss; a word stays in the cache
        bytes_ = pairs.n_observed * (2 * arrays + 1) * lines
        print(
            f"  {solver:<10} epoch and its loss {min(seconds):7.1f} s  {pairs.n_observed / min(seconds) / 1e6:6.1f} M pairs/s  "
            f"(target {TARGET:.0f} s for 50 M; {bytes_ / 1e9:.0f} GB at {speed / 1e9:.0f} GB/s: {bytes_ / speed:.1f} s, if no "
            "context stayed in a cache)"
        )


def words() -> None:
    """WikiText-2: seconds, and Spearman's ρ with what people say."""
    lines = data.wikitext_2("train").texts[0].splitlines()
    text = encode([found for line in lines if (found := line.lower().split())], min_count=5)
    judged = data.word_evaluation()
    models = {
        "GloVe": GloVe(random_state=0),
        "GloVe, window 5": GloVe(window=5, random_state=0),
        "GloVe, als, 8 sweeps": GloVe(solver="als", epochs=8, random_state=0),
        "SkipGram": SkipGram(random_state=0),
        "PMI": PMI(random_state=0),
    }
    print(f"WikiText-2, {text.n_tokens:,} words, 100 numbers, kernels compiled before")
    for name, model in models.items():
        begin = time.perf_counter()
        with lemmata.config(certificate=False):
            vectors = model.fit(text).vectors_
        seconds = time.perf_counter() - begin
        people = [vectors.evaluate_similarity(judged[key]) for key in ("wordsim353", "simlex999")]
        solved = vectors.evaluate_analogies(judged["analogies"]).accuracy
        print(
            f"  {name:<26}{seconds:7.1f} s   WordSim {people[0].spearman:.3f} ± {people[0].standard_error:.3f}   "
            f"SimLex {people[1].spearman:.3f}   analogies {100 * solved:.1f} %"
        )


def main() -> None:
    with lemmata.config(compile="always", certificate=False):  # nobody waits for the compiler below
        small = [["a", "b", "c", "d"]] * 3
        for model in (
            GloVe(2, min_count=1),
            GloVe(2, min_count=1, solver="als"),
            SkipGram(2, min_count=1),
        ):
            model.fit(small)
    if os.environ.get("PAIRS") != "0":
        epochs()
    if os.environ.get("WIKI") != "0":
        words()
