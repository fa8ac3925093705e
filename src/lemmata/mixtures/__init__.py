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
        "families": "Bernoulli Categorical Multinomial Poisson",
        "em": "EMAlgorithm",
        "any_model": "EMResult run_em",
        "expectation": "Family elbo",
        "estimators": "GaussianMixture Mixture",
        "choice": "select",
    },
)
