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
        "als.estimator": "ALS",
        "als.distributed": "Distributed",
        "baselines.imputed_svd": "ImputedSVD",
        "baselines.mean_ratings": "MeanRatings",
        "observed": "Observed",
        "data.pairs": "Pairs",
        "baselines.rank_one": "RankOne",
        "sgd.estimator": "SGDFactorization",
        "nuclear.ball": "NuclearBall",
        "nuclear.projection": "SingularValueProjection",
        "nuclear.thresholding": "SingularValueThresholding",
        "nuclear.soft_impute": "SoftImpute",
        "certifying": "certify_factors",
        "metrics": "metrics",
        "recovery": "recovery",
    },
)
