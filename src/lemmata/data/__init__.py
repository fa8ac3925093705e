"""Data: what every installation has (digits, docstrings), loaders of known sets, and tables from files.

    >>> from lemmata import data
    >>> data.digits().X.shape
    (1797, 64)

The sets that are files are looked for in the folder that LEMMATA_DATA names, then in the cache (`lemmata.data.locate`).
"""

from lemmata.data.dataset import Dataset, Ratings
from lemmata.data.embedded import digits, docstrings
from lemmata.data.files import read_matrix
from lemmata.data.inspecting import Column, FileSummary, inspect_file
from lemmata.data.locate import DataDamaged, DataNotFound, cache_folder, data_folder
from lemmata.data.people import adult, compas
from lemmata.data.sets import (
    a9a,
    california_housing,
    fashion_mnist,
    filmtrust,
    movielens_1m,
    movielens_small,
    movietweetings,
    newsgroups,
    olivetti_faces,
    spambase,
    spoken_digits,
    time_series,
    tiny_shakespeare,
    wikitext_2,
)
from lemmata.data.suggesting import Suggestion, suggest_models
from lemmata.data.tables import Matrix, UnreadableData
from lemmata.data.text_sets import (
    ap_corpus,
    imdb_reviews,
    lee_news,
    rt_polarity,
    trec_questions,
    word_evaluation,
)

__all__ = [
    "Column", "DataDamaged", "DataNotFound", "Dataset", "FileSummary", "Matrix", "Ratings", "Suggestion", "UnreadableData",
    "a9a", "adult", "ap_corpus", "cache_folder", "california_housing", "compas", "data_folder", "digits", "docstrings",
    "fashion_mnist", "filmtrust", "imdb_reviews", "inspect_file", "lee_news", "movielens_1m", "movielens_small",
    "movietweetings", "newsgroups", "olivetti_faces", "read_matrix", "rt_polarity", "spambase", "spoken_digits",
    "suggest_models", "time_series", "tiny_shakespeare", "trec_questions", "wikitext_2", "word_evaluation",
]  # fmt: skip
