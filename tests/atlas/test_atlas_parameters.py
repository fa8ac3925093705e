"""Entries that take parameters show the same at other values of them, and notice where it is not so."""

import numpy as np
import pytest

from lemmata import atlas
from lemmata.atlas import NotShown
from lemmata.atlas.clustering import latent
from lemmata.atlas.completion import statements
from lemmata.atlas.nets import units
from lemmata.atlas.prediction import geometry, kernels
from lemmata.atlas.reduction import subspaces

# cheap ones: each end of each parameter is a drawing
QUICK = (
    "saddle-escape",
    "bottleneck",
    "circle-to-ellipse",
    "any-eigenvector",
    "rank-envelope",
    "classification-losses",
    "softened-frequencies",
)


@pytest.mark.parametrize("id", QUICK)
def test_both_ends_of_each_parameter_show_the_same(id):
    entry = atlas.entries()[id]
    assert entry.parameters
    for one in entry.parameters:
        for value in (1, 2) if one.name == "seed" else (one.low, one.high):
            entry.make(**{one.name: one.check(value)})


def test_a_slope_that_is_half_of_the_gradient_is_noticed(monkeypatch):
    wrong = units.MLP.backward

    def halve(self, layers, kept, delta, gradient):
        wrong(self, layers, kept, delta / 2, gradient)

    monkeypatch.setattr(units.MLP, "backward", halve)
    with pytest.raises(NotShown, match="back-propagation"):
        units.unit_and_layers()


def test_one_pass_less_than_said_is_noticed(monkeypatch):
    found = subspaces.randomized_svd
    monkeypatch.setattr(subspaces, "randomized_svd", lambda A, k, passes, **o: found(A, k, passes=0, **o))  # fmt: skip
    with pytest.raises(NotShown, match="pass"):
        subspaces.random_projections()


def test_a_kernel_that_is_none_is_noticed(monkeypatch):
    monkeypatch.setattr(kernels, "RBF", lambda gamma: kernels.Sigmoid(gamma=1.0, coef0=-1.0))
    with pytest.raises(NotShown, match="positive semidefinite"):
        kernels.mercer_eigenvalues()


def test_more_neighbours_than_said_are_noticed(monkeypatch):
    classifier = geometry.KNeighborsClassifier
    monkeypatch.setattr(geometry, "KNeighborsClassifier", lambda k: classifier(9))
    with pytest.raises(NotShown, match="no mistake"):
        geometry.neighbour_boundaries()


def test_a_collector_who_is_lucky_is_noticed(monkeypatch):
    lucky = np.random.default_rng(0)

    class Lucky:
        geometric = staticmethod(lambda p, size: np.maximum(lucky.geometric(p, size) // 2, 1))

    monkeypatch.setattr(statements.np.random, "default_rng", lambda seed=None: Lucky())
    with pytest.raises(NotShown, match="four standard errors"):
        statements.coupon_collector()


def test_centres_that_are_not_means_are_noticed(monkeypatch):
    fit = latent.KMeans.fit

    def move(self, X):
        fit(self, X)
        self.cluster_centers_ = self.cluster_centers_ + 0.1
        return self

    monkeypatch.setattr(latent.KMeans, "fit", move)
    with pytest.raises(NotShown, match="agrees"):
        latent.kmeans_steps()
