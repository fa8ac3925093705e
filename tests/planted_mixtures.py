"""Data with known clusters, for the tests of mixtures."""

from dataclasses import dataclass

import numpy as np

from lemmata.mixtures.starting import from_memberships

KINDS = ("full", "tied", "diag", "spherical")
COUNTING = ("bernoulli", "categorical", "multinomial", "poisson")


def clusters(n=80, d=3, k=3, distance=4.0, seed=0, dtype=np.float64):
    """k Gaussian clusters of n rows each, of different shapes, in random order."""
    rng = np.random.default_rng(seed)
    rows = [
        rng.normal(size=(n, d)) @ (0.5 * rng.normal(size=(d, d)) + np.eye(d))
        + distance * np.eye(k, d)[j]
        for j in range(k)
    ]
    return rng.permutation(np.concatenate(rows)).astype(dtype)


def counts(name, n=200, seed=0):
    """Rows of two clear groups for a family that counts, and the groups."""
    rng = np.random.default_rng(seed)
    z = np.repeat([0, 1], n // 2)
    if name == "bernoulli":
        X = rng.random((n, 8)) < np.where(z[:, None] == (np.arange(8) < 4), 0.9, 0.1)
    elif name == "categorical":
        X = np.where(rng.random((n, 8)) < 0.8, 2 * z[:, None], rng.integers(3, size=(n, 8)))
    elif name == "multinomial":
        p = np.array([[0.4, 0.3, 0.2, 0.05, 0.05], [0.05, 0.05, 0.2, 0.3, 0.4]])
        X = rng.multinomial(30, p[z])
    else:
        X = rng.poisson(np.array([[2.0, 9.0, 4.0], [8.0, 1.0, 4.0]])[z])
    return X.astype(np.float64), z


@dataclass(frozen=True)
class GivenLabels:
    """A start of EM: every row belongs to one component, by labels (n,) in 0 … k − 1."""

    labels: np.ndarray

    def begin(self, family, k, data, rough, rng):
        def respond(rows, beside):
            return np.eye(k)[beside.numbers]

        return from_memberships(family, k, data, rough, respond, self.labels)
