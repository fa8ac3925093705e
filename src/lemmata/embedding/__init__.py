"""Word embeddings (CIL 3.3; CIL20 5; ML "Text Representation"): words as vectors, learned from the words around them.

    text.encode(documents)      sentences as numbers of words (`EncodedText`): what all models here are fitted to
    SkipGram                    words predict their neighbours: negative sampling, or the exact softmax
    WordVectors                 what every model gives: nearest, similarity, analogy, judging, files
    SentenceVectors             sentences: the mean of their words, or SIF; SentenceEmbedding: trained for it
    align(source, target)       two of them in one space: the best rotation, translations, precision

>>> import numpy as np
>>> from lemmata.embedding import WordVectors
>>> vectors = WordVectors(["cat", "dog", "car"], np.array([[1.0, 0.1], [0.9, 0.2], [0.0, 1.0]]))
>>> vectors.nearest("cat", n=1)
[('dog', 0.992...)]
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "alignment.estimator": "Alignment align",
        "windows.cooccurrence": "CoOccurrence",
        "fasttext.estimator": "FastTextClassifier",
        "glove.estimator": "GloVe",
        "pmi.estimator": "PMI",
        "sentences.trained": "SentenceEmbedding",
        "sentences.fixed": "SentenceVectors",
        "skipgram.estimator": "SkipGram",
        "vectors.word_vectors": "WordVectors",
        "vectors.balancing": "balanced",
    },
)
