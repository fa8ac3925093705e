"""Judging samples: how long a certificate takes, and what the measures say of data next to data. ./run bench judging"""

from __future__ import annotations

import time

import numpy as np

import lemmata
from lemmata.generate import Samples, classifier_score, frechet_distance, kernel_test, overlap


def main() -> None:
    rng = np.random.default_rng(0)
    for n, d in ((2000, 2), (2000, 64), (10_000, 64)):
        X, new, honest = rng.normal(size=(3, n, d))
        copies = X + 0.01 * rng.normal(size=X.shape)
        for label, rows in (("honest", honest), ("copies", copies)):
            start = time.process_time()
            found = lemmata.certify(Samples(rows), X, X_test=new, seconds=300)
            took = time.process_time() - start
            print(
                f"{n:,} × {d}, {label}: {took:.1f} CPU s; hold {found.held[2:]}, fail {found.failed}"
            )
    X, new = rng.normal(size=(2, 1000, 16))
    for measure in (frechet_distance, overlap, kernel_test, classifier_score):
        start = time.process_time()
        value = measure(X, new)
        print(
            f"{measure.__name__} of 1,000 × 16, data to data: {value}, {time.process_time() - start:.2f} CPU s"
        )


if __name__ == "__main__":
    main()
