"""Each claim about k-means holds where it should and fails where it should, on fits of scikit-learn."""

import copy
import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans, MiniBatchKMeans

from lemmata.audit import partition_bounds as gap_module
from lemmata.audit.partitions import KMEANS_CLAIMS, fixed_point, separated
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import WIDEST, Fit, check
from lemmata.core.trace import Trace

RESULT = [statement.name for statement in KMEANS_CLAIMS if statement.about == "result"]
GRID = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]) * 12.0


@pytest.fixture(autouse=True)
def little_work(monkeypatch):
    monkeypatch.setattr(gap_module, "WORK", 1e9)


def blobs(n=3000, seed=0, centers=GRID):
    rng = np.random.default_rng(seed)
    return centers[rng.integers(len(centers), size=n)] + rng.standard_normal((n, centers.shape[1]))


def certified(model, X, weights=None, trace=None, claims=KMEANS_CLAIMS):
    data = Blocks.of(X)
    data = data if weights is None else data.weighted(np.asarray(weights, dtype=float))
    return check(claims, Fit(model, data, None, data.weights, trace), type(model).__name__)


def broken(model, **changes):
    model = copy.deepcopy(model)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def fitted(X, k=6, seed=0, **more):
    return KMeans(k, n_init=10, random_state=seed).fit(X, **more)


@pytest.mark.parametrize("seed", range(3))
def test_a_healthy_fit_keeps_every_promise(seed):
    X = blobs(seed=seed)
    found = certified(fitted(X, seed=seed), X)
    assert found.held == RESULT
    assert found.undecided == ["never_rose"]
    assert found["certified_near_optimum"].measured < 0.01


def test_float32_sparse_and_streamed_rows_are_certified_alike():
    X = blobs()
    single = X.astype(np.float32)
    sparse = sp.csr_array(X)
    assert certified(fitted(single), single).held == RESULT
    assert certified(fitted(sparse), sparse).held == RESULT
    assert certified(fitted(X), [X[:1000], X[1000:]]).held == RESULT


@pytest.mark.parametrize(("scale", "shift"), [(1e-120, 0.0), (1e120, 0.0), (1.0, 1e7)])
def test_far_huge_and_tiny_data_is_certified_alike(scale, shift):
    X = blobs() * scale + shift
    unit = fitted(blobs())
    model = broken(unit, cluster_centers_=unit.cluster_centers_ * scale + shift)
    assert certified(model, X).held == RESULT


def test_weights_are_those_of_the_fit():
    X = blobs(1500)
    w = np.random.default_rng(1).integers(0, 5, 1500)
    found = certified(fitted(X, sample_weight=w), X, w)
    assert found.held == RESULT
    # the means of other rows
    assert "fixed_point" in certified(fitted(X, sample_weight=w), X).failed


@pytest.mark.parametrize("seed", range(3))
def test_mini_batches_do_not_end_at_a_fixed_point(seed):
    X = np.random.default_rng(seed).normal(size=(5000, 5))
    hasty = MiniBatchKMeans(8, random_state=seed, n_init=1).fit(X)
    found = certified(hasty, X, claims=(fixed_point,))
    assert "fixed_point" in found.failed
    assert found["fixed_point"].measured == pytest.approx(
        1 - one_step(hasty, X) / cost(hasty, X), rel=0.5
    )


def cost(model, X):
    return -model.score(X)


def one_step(model, X):
    """The cost after the centres moved to the means, rows staying where they are."""
    labels = model.predict(X)
    return sum(
        ((X[labels == c] - X[labels == c].mean(axis=0)) ** 2).sum() for c in np.unique(labels)
    )


def test_wrong_labels_are_no_fixed_point():
    X = blobs()
    model = fitted(X)
    labels = model.labels_.copy()
    labels[:30] = (labels[:30] + 1) % 6
    found = certified(broken(model, labels_=labels), X)
    assert found.failed == ["fixed_point"]
    assert "1.00% of the rows" in found["fixed_point"].note


def test_a_model_without_labels_or_with_those_of_other_rows_can_be_certified():
    X = blobs()
    model = fitted(X)
    assert certified(broken(model, labels_=model.labels_[:10]), X).held == RESULT
    del model.labels_
    assert certified(model, X).held == RESULT


def test_a_bad_start_fails_the_gap_the_separation_and_the_stability():
    X = blobs()
    start = np.vstack(
        [GRID[0] - 0.1, GRID[0] + 0.1, GRID[1], GRID[2], GRID[3], GRID[4:].mean(axis=0)]
    )
    stuck = KMeans(6, init=start, n_init=1).fit(X)
    found = certified(stuck, X)
    assert {"certified_near_optimum", "separated", "stable"} <= set(found.failed)
    assert found["certified_near_optimum"].measured > 1
    assert "fixed_point" in found.held


def test_centres_on_one_spot_miss_even_the_factor_of_seeding():
    centers = np.array([[0.0, 0.0], [1000.0, 0.0], [0.0, 1000.0]])
    X = blobs(1000, centers=centers)
    start = np.array([[0.0, 1.0], [0.0, -1.0], [500.0, 500.0]])
    found = certified(KMeans(3, init=start, n_init=1).fit(X), X)
    assert "seeding_factor" in found.failed
    assert found["seeding_factor"].bound == pytest.approx(8 * (math.log(3) + 2))


@pytest.mark.parametrize("d", [1, 2])
def test_even_noise_has_no_separate_clusters_and_its_gap_is_not_decided(d):
    for seed in range(2):
        X = np.random.default_rng(seed).random((2000, d))
        found = certified(fitted(X, 8 if d == 2 else 3, seed), X)
        assert "separated" in found.failed
        assert "fixed_point" in found.held
        if d == 2:
            assert "certified_near_optimum" in found.undecided
            gap = found["certified_near_optimum"]
            assert gap.numbers.startswith(f"within {gap.measured:.0%} (sampled, 99%); restarts ")
            assert len(gap.numbers) <= WIDEST  # it stands beside the claim
            assert gap.measured > 0.05
            assert "stable" in found.failed


@pytest.mark.parametrize("shape", [(20, 50), (60, 400), (300, 30)])
def test_few_rows_of_noise_in_many_dimensions_are_not_taken_for_clusters(shape):
    """Their means lie apart by chance. Of small samples one in ten may pass: a cluster of one row has no spread at all."""
    fooled = 0
    for seed in range(20):
        X = np.random.default_rng(seed).standard_normal(shape)
        fooled += certified(fitted(X, 3, seed), X, claims=(separated,)).held == ["separated"]
    assert fooled <= 2


def test_few_rows_of_clusters_in_many_dimensions_are_still_apart():
    for seed in range(10):
        X = np.random.default_rng(seed).standard_normal((30, 50))
        X[::2, 0] += 12
        assert certified(fitted(X, 2, seed), X, claims=(separated,)).held == ["separated"]


def test_an_empty_cluster_is_noticed():
    X = blobs()
    model = fitted(X)
    centers = np.vstack([model.cluster_centers_[:-1], [[1e4, 1e4]]])
    found = certified(broken(model, cluster_centers_=centers, labels_=None), X)
    assert "no_empty_cluster" in found.failed
    assert found["no_empty_cluster"].measured == 5


def test_a_rising_cost_is_noticed():
    X = blobs(500)
    for losses, verdict in (([3.0, 2.0, 1.0], "holds"), ([3.0, 1.0, 2.0], "fails")):
        trace = Trace()
        for loss in losses:
            trace.append(loss, 0.0)
        assert certified(fitted(X), X, trace=trace)["never_rose"].verdict == verdict


def test_duplicated_rows_and_a_single_cluster_raise_nothing():
    X = np.repeat(np.array([[0.0, 1.0], [5.0, 5.0]]), 50, axis=0)
    found = certified(fitted(X, 2), X)
    assert {"fixed_point", "certified_near_optimum", "separated", "stable"} <= set(found.held)
    one = certified(fitted(blobs(300), 1), blobs(300))
    assert {"fixed_point", "certified_near_optimum"} <= set(one.held)
    assert not any("check itself failed" in item.note for item in (*found, *one))
