"""Latent variables (CIL 3, CIL20 4 and 6): clusters, mixtures, and what their fits are worth.

>>> from lemmata.latent import KMeans, GaussianMixture, certified_gap, d2_sampling, select
>>> from sklearn.datasets import load_iris
>>> X = load_iris().data
>>> select(X, range(1, 5), random_state=0).best.n_components          # by BIC
2
"""

from lemmata.latent.coreset import LightweightCoreset
from lemmata.latent.em import EMAlgorithm, Family, elbo
from lemmata.latent.families import Bernoulli, Categorical, Multinomial, Poisson
from lemmata.latent.gap import certified_gap
from lemmata.latent.kmeans import KMeans
from lemmata.latent.mixture import GaussianMixture, Mixture
from lemmata.latent.seeding import d2_sampling, greedy_d2_sampling, kmeans_parallel, random_rows, seeding_factor
from lemmata.latent.selecting import select

__all__ = [
    "Bernoulli",
    "Categorical",
    "EMAlgorithm",
    "Family",
    "GaussianMixture",
    "KMeans",
    "LightweightCoreset",
    "Mixture",
    "Multinomial",
    "Poisson",
    "certified_gap",
    "d2_sampling",
    "elbo",
    "greedy_d2_sampling",
    "kmeans_parallel",
    "random_rows",
    "seeding_factor",
    "select",
]
