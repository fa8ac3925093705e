"""Loaders of texts and of files that evaluate word vectors, over the table in sets.py.

>>> ap_corpus()                                # doctest: +SKIP
ap-corpus: 2,246 × 10,473 int64 sparse, 302,031 non-zeros
  ...
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lemmata.data.dataset import Dataset
from lemmata.data.locate import DataDamaged
from lemmata.data.sets import SOURCES, _dataset, _parts


def _lines(folder: str, name: str) -> Iterator[str]:
    """The lines of a packed file; only "\\n" ends a line."""
    with gzip.open(SOURCES[folder].find(name), "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.rstrip("\n")


def ap_corpus() -> Dataset:
    """2,246 newspaper articles as counts of 10,473 words: a CSR matrix, the words in `features`."""
    import scipy.sparse as sp

    words = tuple(_lines("ap-corpus", "vocab.txt.gz"))
    indptr, columns, counts = [0], [], []
    for line in _lines("ap-corpus", "ap.dat.gz"):
        size, *pairs = line.split()
        if int(size) != len(pairs):
            raise DataDamaged(
                f"ap.dat.gz: a document of {size} words has {len(pairs)}; fetch it again."
            )
        for pair in pairs:
            word, _, count = pair.partition(":")
            columns.append(int(word))
            counts.append(int(count))
        indptr.append(len(columns))
    X = sp.csr_array(
        (np.array(counts), np.array(columns), np.array(indptr)), shape=(len(indptr) - 1, len(words))
    )
    X.sort_indices()
    return _dataset("ap-corpus", X=X, features=words)


def imdb_reviews(part: str = "all") -> Dataset:
    """50,000 film reviews, y = 1 for praise. part: "train" (25,000), "test" or "all"."""
    rows = [
        line.split("\t", 2)
        for p in _parts(part, ("train", "test"))
        for line in _lines("imdb-reviews", f"{p}.tsv.gz")
    ]
    y = np.array([int(label) for label, _, _ in rows])
    texts = tuple(text for _, _, text in rows)
    return _dataset("imdb-reviews", texts=texts, y=y, names=("negative", "positive"))


def rt_polarity() -> Dataset:
    """10,662 sentences of film reviews, y = 1 for praise; the positive ones come first."""
    rows = [line.split("\t", 1) for line in _lines("rt-polarity", "sentences.tsv.gz")]
    y = np.array([int(label) for label, _ in rows])
    return _dataset(
        "rt-polarity", texts=tuple(text for _, text in rows), y=y, names=("negative", "positive")
    )


def trec_questions(part: str = "all", fine: bool = False) -> Dataset:
    """5,952 questions by the kind of answer they ask for: 6 kinds, or 50 with fine=True. part: "train", "test" or "all"."""
    rows = [
        line.split("\t", 2)
        for p in _parts(part, ("train", "test"))
        for line in _lines("trec-questions", f"{p}.tsv.gz")
    ]
    kinds = [f"{coarse}:{detail}" if fine else coarse for coarse, detail, _ in rows]
    names, y = np.unique(kinds, return_inverse=True)
    texts = tuple(text for _, _, text in rows)
    return _dataset("trec-questions", texts=texts, y=y, names=tuple(names.tolist()))


def lee_news(part: str = "background") -> Dataset:
    """Short news items. part: "background" (300), "judged" (50) or "all"."""
    files = {"background": "lee_background.cor.gz", "judged": "lee.cor.gz"}
    lines = [line for p in _parts(part, files) for line in _lines("lee-news", files[p])]
    return _dataset("lee-news", texts=tuple(lines))


def word_evaluation() -> dict[str, Path]:
    """The paths of the files that evaluate word vectors: "analogies", "wordsim353" and "simlex999"."""
    find = SOURCES["word-evaluation"].find
    names = {
        "analogies": "questions-words.txt.gz",
        "wordsim353": "wordsim353.tsv",
        "simlex999": "simlex999.txt",
    }
    return {key: find(name) for key, name in names.items()}
