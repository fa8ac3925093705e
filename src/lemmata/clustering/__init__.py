"""Clusters (CIL20 6.2): k-means, where it starts, what it costs at least, and coresets to run it on.

>>> from lemmata.clustering import KMeans, certified_gap, d2_sampling
>>> from sklearn.datasets import load_iris
>>> X = load_iris().data
>>> d2_sampling(X, 3, rng=0).shape
(3, 4)
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "agglomerative": "AgglomerativeClustering",
        "kmeans": "KMeans",
        "coresets.estimator": "LightweightCoreset",
        "minibatch": "MiniBatchKMeans",
        "lower_bounds": "certified_gap",
        "seeding": "d2_sampling greedy_d2_sampling kmeans_parallel random_rows seeding_factor",
    },
)
