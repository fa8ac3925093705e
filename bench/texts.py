"""Film reviews to praise or blame, end to end: 25,000 texts to learn from, 25,000 to judge.

./run bench texts
"""

from __future__ import annotations

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from bench.helpers.harness import compare
from lemmata import data
from lemmata.embedding import FastTextClassifier


def main() -> None:
    train, test = data.imdb_reviews("train"), data.imdb_reviews("test")
    peer = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LinearSVC())
    systems = {
        "lemmata FastTextClassifier": lambda: (
            FastTextClassifier(random_state=0).fit(train.texts, train.y).predict(test.texts)
        ),
        "scikit-learn tf-idf bigrams + LinearSVC": lambda: peer.fit(
            list(train.texts), train.y
        ).predict(list(test.texts)),
    }
    compare(
        "IMDb reviews, from texts to predictions, with certificate",
        systems,
        lambda found: float(np.mean(found == test.y)),
        ours="lemmata FastTextClassifier",
        target=3,
        rounds=1,
    )
