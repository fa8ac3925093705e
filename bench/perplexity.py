"""Held-out perplexity: ./run bench perplexity

1,000 documents of 100 words written by 50 known topics over 10,000 words. What the estimate costs, how far it may be off, and
how much the same particles are worth without guesses for the words to come. There is no peer: other libraries have a bound.
"""

from __future__ import annotations

import time

import numpy as np

from lemmata.audit.topics.documents import Documents
from lemmata.audit.topics.left_to_right import left_to_right
from lemmata.topics import perplexity


def planted(n: int = 1000, m: int = 10_000, k: int = 50, length: int = 100, seed: int = 0):
    rng = np.random.default_rng(seed)
    phi, alpha = rng.dirichlet(np.full(m, 0.05), k), np.full(k, 0.1)
    return rng.multinomial(length, rng.dirichlet(alpha, n) @ phi), phi, alpha


def main() -> None:
    N, phi, alpha = planted()
    for options in ({}, {"particles": 100}, {"method": "completion"}):
        begin = time.perf_counter()
        found = perplexity((phi, alpha), N, **options)
        seconds = time.perf_counter() - begin
        print(f"{seconds:6.2f} s  {found}, too high by about {found.bias:.2g}")
    for length in (100, 400):
        documents = Documents.of(planted(n=8, m=2000, length=length)[0])
        phi, alpha = planted(n=8, m=2000, length=length)[1:]
        for guided in (False, True):
            logs = left_to_right(
                documents, phi, alpha, particles=20, runs=16, moves=0, seed=0, guided=guided
            )
            deviation = float(np.sqrt(logs.var(axis=1, ddof=1).mean()))
            name = "with guesses" if guided else "plain"
            print(f"{length} words, 20 particles, {name}: ln p̂ deviates by {deviation:.1f} nats")
