"""Two halves of WikiText-2, an embedding of each, one rotation: how many held-out words are found. `python -m bench.alignment`

Every other paragraph goes to one half. Of the words among the first 5,000 of both, 1,000 are held out; the rest, or some of
them, are the pairs given.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from lemmata import data
from lemmata.embedding import PMI, SkipGram, WordVectors, align

MODELS = {
    "pmi": lambda seed: PMI(100, min_count=10, random_state=seed),
    "skipgram": lambda seed: SkipGram(
        100, min_count=10, negatives_per="window", deterministic=True, random_state=seed
    ),
}


def halves() -> list[list[str]]:
    texts = [line for line in data.wikitext_2("train").texts[0].split("\n") if len(line) > 40]
    return [texts[::2], texts[1::2]]


def shared_words(a: WordVectors, b: WordVectors, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Words among the first 5,000 of both, in an order drawn at random, each as a pair with itself."""
    common = [word for word in a.words[:5000].tolist() if b.ids.get(word, 5000) < 5000]
    return [(common[i], common[i]) for i in rng.permutation(len(common))]


def main(names: tuple[str, ...] = ()) -> None:
    rng = np.random.default_rng(0)
    for name in names or list(MODELS):
        parts = (MODELS[name](seed).fit(half).vectors_ for seed, half in enumerate(halves()))
        a, b = parts
        pairs = shared_words(a, b, rng)
        test, given = pairs[:1000], pairs[1000:]
        unaligned = align(a, b, given, max_iter=0)
        unaligned.rotation_ = np.eye(a.vector_size, dtype=a.matrix.dtype)
        print(
            f"{name}: {len(a):,} and {len(b):,} words; without a rotation {unaligned.precision(test, 1)}"
        )
        for count in (50, 200, 1000, len(given)):
            for rounds in (0, 20):
                begin = time.perf_counter()
                found = align(a, b, given[:count], max_iter=rounds)
                spent = time.perf_counter() - begin
                cosine = found.precision(test, 1, method="cosine")[1]
                print(
                    f"{count:5} pairs, {found.n_iter_ if rounds else 0:2} rounds, {spent:5.1f} s: {found.precision(test)}; "
                    f"by cosine {cosine:.1%}",
                    flush=True,
                )


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
