"""Small data: NumPy does what kernels do, numba is not imported, and bits depend neither on BLAS threads nor on a fork."""

import os

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.datasets import load_digits, load_iris, load_wine

import lemmata
from lemmata import KMeans, LightweightCoreset
from lemmata.clustering import d2_sampling, greedy_d2_sampling, kmeans_parallel
from lemmata.clustering._twins import _first_equal
from lemmata.clustering.lloyd import KMeansState
from lemmata.core import Blocks, store


def clouds(dtype=np.float64, n=900):
    rng = np.random.default_rng(0)
    return (4 * rng.normal(size=(7, 5))[rng.integers(7, size=n)] + rng.normal(size=(n, 5))).astype(
        dtype
    )


def both(make):
    """The same by NumPy and by kernels."""
    found = []
    for mode in ("never", "always"):
        with lemmata.config(compile=mode):
            found.append(make())
    return found


# --- twins and kernels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, lambda X: list(np.array_split(X, 3))])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("init", ["k-means++", "k-means||"])
def test_a_whole_fit_is_the_same_by_numpy_and_by_kernels(kind, dtype, weighted, init):
    X = clouds(dtype)
    w = np.random.default_rng(1).integers(0, 3, len(X)) if weighted else None
    one, other = both(lambda: KMeans(7, init=init, random_state=0).fit(kind(X), sample_weight=w))
    rtol = 1e-9 if dtype == np.float64 else 1e-3
    assert_allclose(one.cluster_centers_, other.cluster_centers_, rtol=rtol, atol=rtol)
    assert np.mean(one.labels_ != other.labels_) <= (0 if dtype == np.float64 else 0.002)
    assert one.inertia_ == pytest.approx(other.inertia_, rel=rtol)
    assert_allclose(one.transform(X), other.transform(X), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("method", [d2_sampling, greedy_d2_sampling, kmeans_parallel])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, lambda X: list(np.array_split(X, 4))])
def test_seeding_draws_the_same_rows_by_numpy_and_by_kernels(method, kind):
    X = np.round(clouds(), 3)
    for seed in range(4):
        one, other = both(lambda seed=seed: method(kind(X), 12, seed, return_indices=True)[1])
        assert_array_equal(one, other)


@pytest.mark.parametrize("weighted", [False, True])
def test_coresets_are_the_same_by_numpy_and_by_kernels(weighted):
    X = clouds(n=3000)
    w = np.random.default_rng(1).random(len(X)) if weighted else None
    one, other = both(lambda: LightweightCoreset(300, random_state=0).fit(X, sample_weight=w))
    assert_array_equal(one.points_, other.points_)
    assert_allclose(one.weights_, other.weights_, rtol=1e-12)


# --- bits -------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_fits_the_same():
    X = clouds()
    before = KMeans(7, random_state=0).fit(X)
    big = np.random.default_rng(0).normal(size=(3000, 100))
    KMeans(40, random_state=0, max_iter=3, tol=0.5).fit(big)  # BLAS has had its threads
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            same = KMeans(7, random_state=0).fit(X)
            KMeans(40, random_state=0, max_iter=3, tol=0.5).fit(big)
            os.write(writing, np.float64(same.inertia_).tobytes())
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(reading, 8) == np.float64(before.inertia_).tobytes()


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_init", [1, 8])
def test_a_checkpoint_goes_on_with_a_larger_max_iter(tmp_path, n_init):
    X = np.random.default_rng(0).normal(size=(500, 5))
    whole = KMeans(6, n_init=n_init, random_state=0).fit(X)
    model = KMeans(
        6, n_init=n_init, random_state=0, max_iter=3, tol=0, checkpoint=tmp_path / "c"
    ).fit(X)
    model.set_params(max_iter=300, tol=1e-4).fit(X)
    assert model.inertia_ == whole.inertia_
    assert_array_equal(model.cluster_centers_, whole.cluster_centers_)
    assert model.n_iter_ == whole.n_iter_


def test_a_forged_checkpoint_is_refused(tmp_path):
    X, path = clouds(), tmp_path / "c"
    KMeans(7, random_state=0, max_iter=2, tol=0, checkpoint=path).fit(X)
    content = store.read(path, "checkpoint")
    state = content["state"]
    forged = KMeansState(state.centers[:, :3].copy(), state.sums, state.shift)
    store.write(path, "checkpoint", {**content, "state": forged})
    with pytest.raises(ValueError, match=r"centers|d ="):
        KMeans(7, random_state=0, max_iter=9, tol=0, checkpoint=path).fit(X)


def test_a_model_whose_labels_name_no_centre_is_refused(tmp_path):
    model = KMeans(3, random_state=0).fit(clouds())
    model.labels_ = model.labels_ + 5
    lemmata.save(model, tmp_path / "m.lemma")
    with pytest.raises(ValueError, match="labels_ go up to 7"):
        lemmata.load(tmp_path / "m.lemma")


# --- quality, and what a weight is -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [load_iris, load_wine, load_digits])
def test_the_default_costs_no_more_than_scikit_learns(make):
    X, k, seeds = make().data, 10 if make is load_digits else 3, range(30)
    ours = [KMeans(k, random_state=seed).fit(X).inertia_ for seed in seeds]
    theirs = [SklearnKMeans(k, random_state=seed).fit(X).inertia_ for seed in seeds]
    error = np.sqrt((np.var(ours) + np.var(theirs)) / len(seeds))
    assert np.mean(ours) <= np.mean(theirs) + 3 * error


def test_every_parameter_and_attribute_of_scikit_learns_is_there():
    ours, theirs = KMeans().get_params(), SklearnKMeans().get_params()
    assert {name: ours[name] for name in theirs if name != "algorithm"} == {
        name: value for name, value in theirs.items() if name != "algorithm"
    }
    fitted = SklearnKMeans(3, random_state=0).fit(clouds())
    public = {name for name in vars(fitted) if name.endswith("_") and not name.startswith("_")}
    model = KMeans(3, algorithm="lloyd", copy_x=False, random_state=0).fit(clouds())
    assert public <= set(vars(model))
    methods = {
        name for name in dir(fitted) if not name.startswith("_") and callable(getattr(fitted, name))
    }
    assert methods <= set(dir(model))


@pytest.mark.parametrize("claim", ["found_again", "separated"])
def test_statistical_claims_count_the_rows_that_weights_leave(claim):
    """A thousand rows of which forty carry the weight say as much as forty: nothing can be shown of three clusters."""
    rng = np.random.default_rng(0)
    X = 12 * rng.normal(size=(3, 4))[np.arange(6000) % 3] + rng.normal(size=(6000, 4))
    even = KMeans(3, n_init=4, random_state=0).fit(X)
    assert even.certify(X, seconds=60)[claim].verdict == "holds"
    w = np.full(6000, 1e-9)
    w[:40] = 1.0
    heavy = KMeans(3, n_init=4, random_state=0).fit(X, sample_weight=w)
    assert heavy.certify(X, sample_weight=w, seconds=60)[claim].verdict != "holds"


def test_a_single_block_without_a_whole_matrix_is_seeded():
    """What mixtures make of rows with holes: one block, and nobody has the array."""
    X = clouds()
    data = Blocks(lambda: iter([X]), X.shape, X.dtype, n_blocks=1)
    assert_array_equal(greedy_d2_sampling(data, 5, 0), greedy_d2_sampling(X, 5, 0))


def test_blocks_of_few_rows_give_what_the_whole_gives():
    X = clouds()
    whole = KMeans(7, init=X[:7], tol=0).fit(X)
    parts = KMeans(7, init=X[:7], tol=0).fit(Blocks.of(list(np.array_split(X, 5))))
    assert_allclose(parts.cluster_centers_, whole.cluster_centers_, rtol=1e-12)
    assert_array_equal(parts.labels_, whole.labels_)


@pytest.mark.parametrize("k", [3, 127, 128, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_are_the_first_of_the_best_scores(k, dtype):
    rng = np.random.default_rng(k)
    S = rng.integers(3, size=(k, 400)).astype(dtype)  # full of ties
    assert_array_equal(_first_equal(S, S.max(axis=0)), S.argmax(axis=0))
    S[k // 2, 7] = np.nan
    assert_array_equal(_first_equal(S, S.max(axis=0)), S.argmax(axis=0))
