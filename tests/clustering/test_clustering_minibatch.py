"""MiniBatchKMeans: its steps against a plain loop, its cost against scikit-learn's, and what every model promises."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import MiniBatchKMeans as SklearnMiniBatchKMeans
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import ConvergenceWarning

import lemmata
from lemmata import KMeans, MiniBatchKMeans
from lemmata.clustering.lloyd import LloydAlgorithm, Points
from lemmata.clustering.minibatch import MiniBatchAlgorithm, _draw


def blobs(n=3000, k=6, seed=0):
    return make_blobs(n, 4, centers=k, cluster_std=1.0, random_state=seed)[0]


def same_model(one, other):
    names = ("cluster_centers_", "labels_", "inertia_", "n_steps_")
    return all(
        np.asarray(getattr(one, name)).tobytes() == np.asarray(getattr(other, name)).tobytes()
        for name in names
    )


# --- the algorithm ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [300, 3000])  # all rows are looked at, or those drawn are fetched
def test_a_centre_is_the_mean_of_all_rows_it_was_given(n):
    X = blobs(n)
    data, algorithm = Points.of(X), MiniBatchAlgorithm(LloydAlgorithm(6), 100, 300, 1, 0.0)
    state = algorithm.init(data, np.random.default_rng(0))
    centers, counts, sums = state.centers.copy(), np.zeros(6), np.zeros((6, 4))
    for number in range(20):
        batch = X[_draw(data, 100, np.random.default_rng([state.seed, number]))]
        labels = ((batch[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        for row, label in zip(batch, labels, strict=True):
            counts[label] += 1
            sums[label] += row
        centers = sums / counts[:, None]
        state = algorithm.step(state, data)
        assert_allclose(state.centers, centers, rtol=1e-12)


def test_rows_are_drawn_as_often_as_they_weigh():
    X, w = np.arange(4.0)[:, None], np.array([1.0, 0.0, 3.0, 6.0])
    counts = np.bincount(_draw(Points.of(X, w), 20_000, np.random.default_rng(0)), minlength=4)
    assert counts[1] == 0
    # binomial counts, 4.5 standard deviations
    assert (np.abs(counts - 2_000 * w) <= 4.5 * np.sqrt(2_000 * w * (1 - w / 10)) + 1e-9).all()


def test_poor_clusters_move_to_rows_of_the_batch():
    X = np.vstack([blobs(2000, 3), np.full((2, 4), 60.0)])
    start = np.vstack([X[:3], X[-1:]])  # one centre serves two rows
    shares = []
    for ratio in (0.01, 0.0):
        model = MiniBatchKMeans(4, init=start, random_state=0, reassignment_ratio=ratio)
        counts = model.set_params(max_no_improvement=None, max_iter=9).fit(X).sums_.counts
        shares.append(counts.min() / counts.max())
    assert shares[0] > 0.01 > shares[1]


def test_it_stops_by_its_rules():
    X = blobs()
    cut = MiniBatchKMeans(6, max_iter=2, max_no_improvement=None, random_state=0).fit(X)
    assert (cut.n_steps_, cut.n_iter_, cut.stopped_) == (6, 3, "max steps")  # 2 · 3000 / 1024
    calm = MiniBatchKMeans(6, tol=0.01, max_no_improvement=None, random_state=0).fit(X)
    assert calm.stopped_ == "settled"
    assert calm.trace_.last("shift") <= 0.01
    waited = MiniBatchKMeans(6, max_no_improvement=3, random_state=0).fit(X)
    averages = waited.trace_.extras["average"]
    assert averages[-3:].min() >= averages[1:-3].min()


# --- beside others ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: load_digits().data, lambda: blobs(8000, 12)])
def test_it_costs_no_more_than_scikit_learns(make):
    X, k, seeds = make(), 10, range(12)
    ours = [MiniBatchKMeans(k, random_state=seed).fit(X).inertia_ for seed in seeds]
    theirs = [SklearnMiniBatchKMeans(k, random_state=seed).fit(X).inertia_ for seed in seeds]
    error = np.sqrt((np.var(ours) + np.var(theirs)) / len(seeds))
    assert np.mean(ours) <= np.mean(theirs) + 3 * error


def test_it_is_close_to_k_means_where_clusters_are_clear():
    X = make_blobs(5000, 4, centers=5, cluster_std=0.5, random_state=3)[0]
    best = KMeans(5, n_init=5, random_state=0).fit(X).inertia_
    assert (
        MiniBatchKMeans(5, init="k-means++", n_init=5, random_state=0).fit(X).inertia_ < 1.02 * best
    )


def test_every_parameter_of_scikit_learns_is_there():
    ours, theirs = MiniBatchKMeans().get_params(), SklearnMiniBatchKMeans().get_params()
    assert {name: ours[name] for name in theirs} == theirs
    fitted = SklearnMiniBatchKMeans(3, random_state=0).fit(blobs(300))
    public = {name for name in vars(fitted) if name.endswith("_") and not name.startswith("_")}
    assert public <= set(vars(MiniBatchKMeans(3, random_state=0).fit(blobs(300))))


# --- what every model promises ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_kernels_and_twins_agree(weighted):
    X = blobs(1200)
    w = np.random.default_rng(0).random(len(X)) if weighted else None
    fits = []
    for mode in ("never", "always"):
        with lemmata.config(compile=mode):
            fits.append(MiniBatchKMeans(6, batch_size=200, random_state=0).fit(X, sample_weight=w))
    assert fits[0].n_steps_ == fits[1].n_steps_
    assert_allclose(fits[0].cluster_centers_, fits[1].cluster_centers_, rtol=1e-10)
    assert_array_equal(fits[0].labels_, fits[1].labels_)


def test_sparse_rows_and_blocks_give_what_an_array_gives():
    X = np.maximum(blobs(), 0)
    whole = MiniBatchKMeans(6, init=X[:6], random_state=0).fit(X)
    for data in (sp.csr_array(X), list(np.array_split(X, 4))):
        model = MiniBatchKMeans(6, init=X[:6], random_state=0).fit(data)
        assert_allclose(model.cluster_centers_, whole.cluster_centers_, rtol=1e-9)
        assert model.inertia_ == pytest.approx(whole.inertia_, rel=1e-9)


def test_labels_are_not_made_where_nobody_wants_them():
    X = blobs()
    full, bare = (
        MiniBatchKMeans(6, random_state=0, compute_labels=labels).fit(X) for labels in (True, False)
    )
    assert not hasattr(bare, "labels_")
    assert_array_equal(bare.cluster_centers_, full.cluster_centers_)
    assert bare.inertia_ == pytest.approx(full.inertia_, rel=0.2)  # a smoothed cost of batches


def test_what_it_states_is_true_and_batches_go_on():
    X = blobs()
    model = MiniBatchKMeans(6, random_state=0).fit(X)
    found = model.certify(X)
    assert {"attributes_sound", "statements_true", "no_empty_cluster"} <= set(found.held)
    assert "never_rose" not in [claim.name for claim in found]
    wrong = MiniBatchKMeans(6, random_state=0).fit(X)
    wrong.inertia_ *= 1.001
    assert "statements_true" in wrong.certify(X).failed
    steps = model.n_steps_
    weight = model.sums_.counts.sum()
    model.partial_fit(X[:100])
    assert model.sums_.counts.sum() == weight + 100
    assert model.stopped_ == "batches"
    assert steps > 0


def test_a_fit_that_is_cut_short_fails_its_fixed_point():
    X = np.random.default_rng(0).normal(size=(4000, 3))
    hasty = MiniBatchKMeans(
        20, init="random", n_init=1, batch_size=20, max_no_improvement=1, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="near_fixed_point fails"):
        model = hasty.fit(X)
    assert "near_fixed_point" in model.certify(X).failed
