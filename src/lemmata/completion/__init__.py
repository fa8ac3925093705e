"""Matrix completion (CIL 2): what is known of a matrix, and what may be said of the rest.

>>> from lemmata.completion import ALS, Observed, recovery
>>> ratings = Observed.from_labels(["ann", "ann", "bob"], ["Alien", "Brazil", "Alien"], [5, 3, 4])
>>> ratings.shape, recovery.degrees_of_freedom(*ratings.shape, 1)
((2, 2), 3)
"""

from lemmata.completion import metrics, recovery
from lemmata.completion.als import ALS
from lemmata.completion.certify_factors import certify_factors
from lemmata.completion.cluster import Distributed
from lemmata.completion.imputed_svd import ImputedSVD
from lemmata.completion.mean_ratings import MeanRatings
from lemmata.completion.observed import Observed
from lemmata.completion.projection import SingularValueProjection
from lemmata.completion.rank_one import RankOne
from lemmata.completion.sgd import SGDFactorization
from lemmata.completion.soft_impute import SoftImpute
from lemmata.completion.thresholding import SingularValueThresholding

__all__ = [
    "ALS",
    "Distributed",
    "ImputedSVD",
    "MeanRatings",
    "Observed",
    "RankOne",
    "SGDFactorization",
    "SingularValueProjection",
    "SingularValueThresholding",
    "SoftImpute",
    "certify_factors",
    "metrics",
    "recovery",
]
