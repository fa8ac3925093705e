"""Sentences as vectors, judged by a linear classifier on top; beside gensim's and tf-idf. `./run bench sentences`

Vectors are trained on the training texts alone (rt-polarity: five folds; questions: the given split) and a logistic
regression is fitted to the scaled rows, its C chosen among three on the training part. Seconds are those of training and
transforming.

    ./run py -m bench.sentences 1              one fold of rt-polarity instead of five
    ./run py -m bench.sentences choose         mean or SIF? Three folds of up to 6,000 training texts of four sets; some minutes
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lemmata import data
from lemmata.embedding import PMI, SentenceEmbedding, SentenceVectors, SkipGram
from lemmata.text.words import WORDS, Tokenizer

SIZE = 100
SPLIT = Tokenizer(token_pattern=WORDS)


class Gensim:
    """gensim's Doc2Vec, or the mean of its Word2Vec, as a transformer."""

    def __init__(self, kind: str):
        self.kind = kind

    def fit(self, texts: list[str]) -> Gensim:
        from gensim.models import Doc2Vec, Word2Vec
        from gensim.models.doc2vec import TaggedDocument

        rows = [SPLIT(text) for text in texts]
        options: dict[str, Any] = {
            "vector_size": SIZE,
            "min_count": 2,
            "epochs": 20,
            "workers": 2,
            "seed": 0,
        }
        if self.kind == "doc2vec":
            self.model = Doc2Vec(
                [TaggedDocument(row, [i]) for i, row in enumerate(rows)], dm=0, **options
            )
        else:
            self.model = Word2Vec(rows, sg=1, **options)
        return self

    def transform(self, texts: list[str]) -> np.ndarray:
        rows = [SPLIT(text) for text in texts]
        if self.kind == "doc2vec":
            return np.array([self.model.infer_vector(row) for row in rows])
        return np.array(
            [
                self.model.wv.get_mean_vector(row, pre_normalize=False) if row else np.zeros(SIZE)
                for row in rows
            ]
        )


def ways() -> dict[str, Any]:
    settings = {"vector_size": SIZE, "min_count": 2, "tokenizer": SPLIT, "random_state": 0}
    skipgram = SkipGram(epochs=20, negatives_per="window", deterministic=True, **settings)
    return {
        "mean of PMI": SentenceVectors(PMI(**settings), "mean", tokenizer=SPLIT),
        "SIF of PMI": SentenceVectors(PMI(**settings), "sif", tokenizer=SPLIT),
        "mean of skip-gram": SentenceVectors(skipgram, "mean", tokenizer=SPLIT),
        "SIF of skip-gram": SentenceVectors(skipgram, "sif", tokenizer=SPLIT),
        "trained for averaging": SentenceEmbedding(epochs=20, **settings),
        "gensim, mean of word2vec": Gensim("mean"),
        "gensim, doc2vec": Gensim("doc2vec"),
        "tf-idf": None,
    }


def judged(
    way: Any, train: list[str], y: np.ndarray, test: list[str], z: np.ndarray
) -> tuple[float, float]:
    """Accuracy on the test texts, and the seconds of training and transforming."""
    begin = time.perf_counter()
    if way is None:
        vectorizer = TfidfVectorizer(token_pattern=WORDS, min_df=2)
        X, T = vectorizer.fit_transform(train), vectorizer.transform(test)
        head, grid = LogisticRegression(max_iter=500), {"C": [0.3, 3, 30]}
    else:
        way.fit(train)
        X, T = way.transform(train), way.transform(test)
        head = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
        grid = {"logisticregression__C": [0.003, 0.03, 0.3]}
    spent = time.perf_counter() - begin
    return float(GridSearchCV(head, grid, cv=3).fit(X, y).score(T, z)), spent


def choose() -> None:
    """Print the accuracy of the mean and of SIF on training texts alone, for three kinds of vectors; it chooses the default."""
    rng = np.random.default_rng(0)
    settings: dict[str, Any] = {"vector_size": SIZE, "min_count": 2, "random_state": 0}
    sets = {
        "rt-polarity": data.rt_polarity(),
        "questions": data.trec_questions("train"),
        "IMDb": data.imdb_reviews("train"),
        "newsgroups": data.newsgroups("train"),
    }
    models = {
        "SentenceEmbedding()": SentenceEmbedding(random_state=0),
        "PMI": PMI(**settings),
        "SkipGram, 10 epochs": SkipGram(
            epochs=10, negatives_per="window", deterministic=True, **settings
        ),
    }
    print(f"{'':14}{'':22}{'mean':>8}{'SIF':>8}   SIF − mean, by fold")
    for name, found in sets.items():
        kept = rng.permutation(len(found.texts))[:6000]
        texts, y = [found.texts[i] for i in kept], np.asarray(found.y)[kept]
        for words, model in models.items():
            rows = []
            for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(texts, y):
                given, new = ([texts[i] for i in part] for part in (train, test))
                vectors = model.fit(given).vectors_
                ways = [SentenceVectors(vectors, method) for method in ("mean", "sif")]
                rows.append([judged(way, given, y[train], new, y[test])[0] for way in ways])
            mean, sif = np.mean(rows, axis=0)
            gains = "  ".join(f"{b - a:+.3f}" for a, b in rows)
            print(f"{name:14}{words:22}{mean:8.3f}{sif:8.3f}   {gains}", flush=True)


def main(used: int = 5) -> None:
    """used : how many of the five folds of rt-polarity"""
    polarity = data.rt_polarity()
    parts = [data.trec_questions(part) for part in ("train", "test")]
    splits = list(
        StratifiedKFold(5, shuffle=True, random_state=0).split(polarity.texts, polarity.y)
    )
    print(f"{'':28}{'rt-polarity':>14}{'seconds':>9}{'questions':>12}{'seconds':>9}")
    for name, way in ways().items():
        found = []
        for train, test in splits[:used]:
            given, new = ([polarity.texts[i] for i in part] for part in (train, test))
            found.append(judged(way, given, polarity.y[train], new, polarity.y[test]))
        accuracy, spent = np.mean(found, axis=0)
        asked, took = judged(
            way, list(parts[0].texts), parts[0].y, list(parts[1].texts), parts[1].y
        )
        print(f"{name:28}{accuracy:14.3f}{spent:9.2f}{asked:12.3f}{took:9.2f}", flush=True)


if __name__ == "__main__":
    import sys

    if sys.argv[1:] == ["choose"]:
        choose()
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
