"""Mixtures (CIL 3.1, CIL20 6.3): EM for any family of components, and how many of them.

>>> from lemmata.mixtures import GaussianMixture, select
>>> from sklearn.datasets import load_iris
>>> select(load_iris().data, range(1, 5), random_state=0).best.n_components          # by BIC
2
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "Bernoulli": "families",
        "Categorical": "families",
        "EMAlgorithm": "em",
        "Family": "expectation",
        "GaussianMixture": "estimators",
        "Mixture": "estimators",
        "Multinomial": "families",
        "Poisson": "families",
        "elbo": "expectation",
        "select": "choice",
    },
)
