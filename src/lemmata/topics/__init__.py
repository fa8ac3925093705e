"""Topics of documents (CIL 3.2; CIL20 4): which distributions of words, mixed, make what was written?

>>> from lemmata import text, topics
>>> counts = text.counts(["cat dog cat", "dog cat pet", "loss risk fit", "fit loss loss"])
>>> print(topics.PLSA(2, random_state=0).fit(counts).certificate_["topics_supported"].numbers)
documents of topic 0 2 < 5
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "allocation": "LatentDirichletAllocation",
        "lda.estimator": "LDA",
        "nmf.estimator": "NMF",
        "plsa.estimator": "PLSA",
        "held_out": "perplexity unigram",
    },
)
