"""Matrix completion (CIL 2): what is known of a matrix, and what may be said of the rest.

>>> from lemmata.completion import ALS, Observed, recovery
>>> ratings = Observed.from_labels(["ann", "ann", "bob"], ["Alien", "Brazil", "Alien"], [5, 3, 4])
>>> ratings.shape, recovery.degrees_of_freedom(*ratings.shape, 1)
((2, 2), 3)
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "ALS": "als.estimator",
        "Distributed": "als.distributed",
        "ImputedSVD": "baselines.imputed_svd",
        "MeanRatings": "baselines.mean_ratings",
        "Observed": "observed",
        "Pairs": "data.pairs",
        "RankOne": "baselines.rank_one",
        "SGDFactorization": "sgd.estimator",
        "SingularValueProjection": "nuclear.projection",
        "SingularValueThresholding": "nuclear.thresholding",
        "SoftImpute": "nuclear.soft_impute",
        "certify_factors": "certifying",
        "metrics": "metrics",
        "recovery": "recovery",
    },
)
