"""Data: what every installation has (digits, docstrings), loaders of known sets, and tables from files.

    >>> from lemmata import data
    >>> data.digits().X.shape
    (1797, 64)

The sets that are files are looked for in the folder that LEMMATA_DATA names, then in the cache (`lemmata.data.locate`).
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "dataset": "Dataset Ratings",
        "embedded": "digits docstrings",
        "files": "read_matrix",
        "inspecting": "Column FileSummary inspect_file",
        "locate": "DataDamaged DataNotFound cache_folder data_folder",
        "people": "adult compas",
        "sets": "a9a california_housing fashion_mnist filmtrust movielens_1m movielens_small movietweetings newsgroups "
        "olivetti_faces spambase spoken_digits time_series tiny_shakespeare wikitext_2",
        "suggesting": "Suggestion suggest_models",
        "tables": "Matrix UnreadableData",
        "text_sets": "ap_corpus imdb_reviews lee_news rt_polarity trec_questions word_evaluation",
    },
)
