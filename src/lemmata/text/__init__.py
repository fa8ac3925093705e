"""Text: words, vocabularies and counts. What topic models and word embeddings learn from, in memory or from files.

>>> from lemmata import text
>>> found = text.counts(["the cat sat", "the dog and the cat"])
>>> list(found.words), found.matrix.toarray().tolist()
(['and', 'cat', 'dog', 'sat', 'the'], [[0, 1, 0, 1, 1], [1, 1, 1, 0, 2]])
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "counting": "Counts counts",
        "encoded": "EncodedText encode",
        "reading": "Files UnreadableText read",
        "words": "Tokenizer Vocabulary",
        "phrases": "join_phrases",
    },
)
