"""KMeans against theory, against scikit-learn, and against itself on every kind of data."""

import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from lemmata import KMeans, load, save
from lemmata.clustering.lloyd import LloydAlgorithm, Points, Still
from lemmata.core import (
    Checkpoint,
    Interrupted,
    MaxSteps,
    Never,
    Restarts,
    StepFailed,
    blocks,
    rounding,
    run,
)

ALGORITHMS = ("lloyd", "hamerly", "yinyang", "auto")
DTYPES = [np.float32, np.float64]


def blobs(n=600, d=5, k=6, seed=0, apart=8.0, dtype=np.float64):
    """Round clusters of unit variance, their centres `apart` standard deviations per axis from each other on average."""
    rng = np.random.default_rng(seed)
    centers = apart * rng.standard_normal((k, d))
    labels = rng.integers(k, size=n)
    labels[:k] = np.arange(k)
    return (centers[labels] + rng.standard_normal((n, d))).astype(dtype), labels, centers


def noise(n=500, d=4, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


def cost(X, C, w=None):
    squares = cdist(np.asarray(X, float), np.asarray(C, float), "sqeuclidean").min(axis=1)
    return float(squares.sum() if w is None else w @ squares)


def same_model(one, other):
    return all(
        np.asarray(getattr(one, name)).tobytes() == np.asarray(getattr(other, name)).tobytes()
        for name in ("cluster_centers_", "labels_", "inertia_")
    )


def distinct(n, seed):
    """Numbers of k rows to start from, the same for everybody."""
    return np.random.default_rng(seed).permutation(n)


# --- agreement --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("make", [noise, lambda seed: blobs(seed=seed)[0]], ids=["noise", "blobs"])
def test_it_agrees_with_scikit_learn_from_the_same_start(make, seed):
    X = make(seed=seed)
    start = X[distinct(len(X), seed)[:7]]
    ours = KMeans(7, init=start, tol=0).fit(X)
    theirs = SklearnKMeans(7, init=start, n_init=1, tol=0).fit(X)
    assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-10, atol=1e-12)
    assert_array_equal(ours.labels_, theirs.labels_)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-12)
    assert_array_equal(ours.predict(X[:50]), theirs.predict(X[:50]))
    assert_allclose(ours.transform(X[:50]), theirs.transform(X[:50]), rtol=1e-9, atol=1e-9)
    assert ours.score(X) == pytest.approx(theirs.score(X), rel=1e-12)


@pytest.mark.parametrize("seed", range(1))
def test_it_agrees_with_scikit_learn_on_weights_and_on_sparse_rows(seed):
    rng = np.random.default_rng(seed)
    X, w = noise(seed=seed) * (rng.random((500, 4)) < 0.5), rng.random(500)
    start = X[distinct(500, seed)[:5]]
    theirs = SklearnKMeans(5, init=start, n_init=1, tol=0).fit(X, sample_weight=w)
    for data in (X, sp.csr_array(X)):
        ours = KMeans(5, init=start, tol=0).fit(data, sample_weight=w)
        assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-9, atol=1e-11)
        assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-10)


@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_tol_means_what_it_means_in_scikit_learn(tol):
    for seed in range(3):
        X = noise(1000, 3, seed)
        start = X[distinct(1000, seed)[:12]]
        theirs = SklearnKMeans(12, init=start, n_init=1, tol=tol).fit(X)
        ours = KMeans(12, init=start, tol=tol).fit(X)
        assert ours.n_iter_ == theirs.n_iter_
        assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(2))
def test_every_algorithm_gives_the_same_bits(dtype, seed, monkeypatch):
    monkeypatch.setattr("lemmata.clustering.lloyd.WORTHWHILE", 0)
    X = noise(900, 6, seed, dtype)
    one = KMeans(20, random_state=seed, algorithm="lloyd").fit(X)
    for algorithm in ("hamerly", "yinyang", "elkan", "auto"):
        other = KMeans(20, random_state=seed, algorithm=algorithm).fit(X)
        assert same_model(one, other)
        assert_array_equal(one.trace_.objective, other.trace_.objective)


# --- theory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("init", ["k-means++", "k-means||", "random"])
@pytest.mark.parametrize("seed", range(1))
def test_no_step_raises_the_cost(dtype, init, seed):
    X = noise(700, 8, seed, dtype)
    model = KMeans(15, init=init, n_init=1, random_state=seed, tol=0).fit(X)
    assert model.trace_.largest_rise <= rounding(dtype, 8)
    assert model.stopped_ == "settled"
    assert {"never_rose", "fixed_point", "no_empty_cluster"} <= set(model.certificate_.held)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_at_the_end_rows_are_nearest_and_centres_are_means(algorithm):
    X = noise(800, 5)
    model = KMeans(9, tol=0, random_state=1, algorithm=algorithm).fit(X)
    D = cdist(X, model.cluster_centers_)
    assert_array_equal(model.labels_, D.argmin(axis=1))
    for j in range(9):
        assert_allclose(
            model.cluster_centers_[j], X[model.labels_ == j].mean(axis=0), rtol=1e-12, atol=1e-14
        )
    assert model.inertia_ == pytest.approx((D.min(axis=1) ** 2).sum(), rel=1e-12)
    assert model.labels_.dtype == np.int32


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("init", ["k-means++", "k-means||"])
@pytest.mark.parametrize("seed", range(2))
def test_planted_clusters_are_found(dtype, init, seed):
    X, labels, centers = blobs(1200, 6, 8, seed, apart=12.0, dtype=dtype)
    model = KMeans(8, init=init, n_init=4, random_state=seed).fit(X)
    assert adjusted_rand_score(labels, model.labels_) == 1
    nearest = cdist(centers, model.cluster_centers_).min(axis=1)
    assert (
        nearest < 6 * np.sqrt(6 / 100)
    ).all()  # the mean of some 100 rows or more in 6 dimensions, six deviations
    assert model.certificate_.failed == []


def test_shifting_and_scaling_the_data_shifts_and_scales_the_result():
    X = noise(400, 3)
    start = X[:6]
    plain = KMeans(6, init=start, tol=0).fit(X)
    moved = KMeans(6, init=start * 4 + 2**20, tol=0).fit(X * 4 + 2**20)
    assert_array_equal(plain.labels_, moved.labels_)
    # rows were rounded at 2²⁰·eps = 2e-10
    assert moved.inertia_ == pytest.approx(16 * plain.inertia_, rel=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [1e6, -1e6])
def test_clusters_far_from_the_origin_are_found(dtype, offset):
    X, labels, _ = blobs(900, 4, 5, apart=10.0)
    model = KMeans(5, n_init=5, random_state=0).fit((X + offset).astype(dtype))
    assert adjusted_rand_score(labels, model.labels_) == 1
    assert model.inertia_ == pytest.approx(
        cost((X + offset).astype(dtype), model.cluster_centers_), rel=rounding(dtype, 4)
    )


def test_one_cluster_is_the_mean_and_n_clusters_are_the_rows():
    X = noise(30, 3)
    assert_allclose(KMeans(1).fit(X).cluster_centers_[0], X.mean(axis=0), atol=1e-15)
    all_of_them = KMeans(30, random_state=0).fit(X)
    assert all_of_them.inertia_ == 0
    assert sorted(all_of_them.labels_) == list(range(30))


@pytest.mark.parametrize("seed", range(2))
def test_an_empty_cluster_is_put_to_use(seed):
    X = noise(300, 2, seed)
    start = np.vstack([X[:3], np.full((2, 2), 50.0)])
    model = KMeans(5, init=start, tol=0).fit(X)
    assert (np.bincount(model.labels_, minlength=5) > 0).all()
    assert model.trace_.largest_rise == 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_start_out_of_this_world_comes_back(dtype, algorithm):
    X = noise(300, 3, dtype=dtype)
    start = np.vstack([X[:4], np.full((1, 3), 1e25)]).astype(dtype)
    model = KMeans(5, init=start, tol=0, algorithm=algorithm).fit(X)
    assert np.abs(model.cluster_centers_).max() < 10
    assert (np.bincount(model.labels_, minlength=5) > 0).all()


# --- all kinds of data ------------------------------------------------------------------------------------------------


class Rereadable:
    """Blocks that can be read again and again, as a user would write it."""

    def __init__(self, X, parts):
        self.X, self.parts = X, parts

    def __iter__(self):
        yield from np.array_split(self.X, self.parts)


def containers(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    yield "memmap", np.load(tmp_path / "X.npy", mmap_mode="r")
    yield "list of blocks", list(np.array_split(X, 5))
    yield "re-iterable", Rereadable(X, 7)
    yield "dask", da.from_array(X, chunks=(100, 2))
    yield "csr", sp.csr_array(X)
    yield "csc matrix", sp.csc_matrix(X)
    yield "sparse blocks", [sp.csr_array(X[:100]), sp.csr_array(X[100:])]
    yield "mixed blocks", [sp.csr_array(X[:100]), X[100:]]
    yield "fortran", np.asfortranarray(X)
    yield "list", X.tolist()


@pytest.mark.parametrize("weighted", [True])
def test_every_container_gives_the_same_fit(tmp_path, weighted):
    X, _, _ = blobs()
    w = np.random.default_rng(0).random(len(X)) if weighted else None
    start = X[:6]
    whole = KMeans(6, init=start, tol=0).fit(X, sample_weight=w)
    for name, data in containers(X, tmp_path):
        model = KMeans(6, init=start, tol=0).fit(data, sample_weight=w)
        assert_allclose(
            model.cluster_centers_, whole.cluster_centers_, rtol=1e-11, atol=1e-12, err_msg=name
        )
        assert_array_equal(model.labels_, whole.labels_, err_msg=name)
        assert model.inertia_ == pytest.approx(whole.inertia_, rel=1e-11), name
        assert_array_equal(np.asarray(model.predict(data)), whole.labels_, err_msg=name)
        assert_allclose(
            np.asarray(model.transform(data)), whole.transform(X), atol=1e-6, err_msg=name
        )
        assert model.score(data, sample_weight=w) == pytest.approx(-whole.inertia_, rel=1e-11), name
        assert model.certify(data, sample_weight=w)["fixed_point"].verdict == "holds", name


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_mapped_file_gives_the_bits_of_the_array(tmp_path, algorithm, monkeypatch):
    monkeypatch.setattr(blocks, "rows_per_block", lambda n, d, itemsize: 130)
    X = noise(1000, 5, dtype=np.float32)
    np.save(tmp_path / "X.npy", X)
    fits = [
        KMeans(9, random_state=0, algorithm=algorithm).fit(data)
        for data in (X, np.load(tmp_path / "X.npy", mmap_mode="r"))
    ]
    assert same_model(*fits)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_result_does_not_depend_on_threads(dtype, algorithm, monkeypatch):
    monkeypatch.setattr(blocks, "rows_per_block", lambda n, d, itemsize: 111)
    X, fits = noise(1200, 6, dtype=dtype), []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        fits.append(KMeans(10, random_state=3, algorithm=algorithm).fit(X))
    assert same_model(fits[0], fits[1])
    assert same_model(fits[0], fits[2])


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_distances_are_those_of_plain_numpy(offset):
    X = noise(200, 6) + offset
    model = KMeans(7, random_state=0).fit(X)
    D = cdist(X, model.cluster_centers_)
    # a square errs by some eps of the largest square, so its root by the root of that where it is small
    assert_allclose(model.transform(X) ** 2, D**2, atol=rounding(np.float64, 6) * (D**2).max())


# --- weights and batches ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("seed", range(1))
def test_a_weight_counts_its_row_that_many_times(algorithm, seed):
    X = noise(200, 3, seed)
    w = np.random.default_rng(seed).integers(0, 4, 200)
    start = X[distinct(200, seed)[:6]]
    weighted = KMeans(6, init=start, tol=0, algorithm=algorithm).fit(X, sample_weight=w)
    repeated = KMeans(6, init=start, tol=0, algorithm=algorithm).fit(np.repeat(X, w, axis=0))
    assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, rtol=1e-11, atol=1e-13)
    assert_array_equal(np.repeat(weighted.labels_, w), repeated.labels_)
    assert weighted.inertia_ == pytest.approx(repeated.inertia_, rel=1e-12)
    assert weighted.n_iter_ == repeated.n_iter_


def test_rows_without_weight_get_a_label_and_nothing_else():
    X, _, _ = blobs()
    far = np.vstack([X, np.full((50, 5), 1e4)])
    w = np.concatenate([np.ones(len(X)), np.zeros(50)])
    plain = KMeans(6, init=X[:6], tol=0).fit(X)
    model = KMeans(6, init=X[:6], tol=0).fit(far, sample_weight=w)
    assert_allclose(model.cluster_centers_, plain.cluster_centers_, rtol=1e-11)
    assert_array_equal(model.labels_[: len(X)], plain.labels_)
    for seed in range(5):  # nor are they ever drawn
        assert (
            KMeans(6, random_state=seed, max_iter=1, tol=0)
            .fit(far, sample_weight=w)
            .cluster_centers_.max()
            < 100
        )


@settings(max_examples=15)
@given(seed=st.integers(0, 2**31), parts=st.integers(1, 6))
def test_a_centre_is_the_mean_of_all_rows_it_was_ever_given(seed, parts):
    X = noise(120, 2, seed=seed % 1000)
    start, given_to = X[:4].copy(), [[] for _ in range(4)]
    model, centers = KMeans(4, init=start), start
    for batch in np.array_split(X, parts):
        for row, j in zip(batch, cdist(batch, centers).argmin(axis=1), strict=True):
            given_to[j].append(row)
        model.partial_fit(batch)
        centers = np.array(
            [
                np.mean(rows, axis=0) if rows else c
                for rows, c in zip(given_to, centers, strict=True)
            ]
        )
        assert_allclose(model.cluster_centers_, centers, rtol=1e-12, atol=1e-13)
    assert model.n_iter_ == parts
    assert_array_equal(model.labels_, model.predict(batch))


def test_batches_go_on_from_a_fit_and_approach_it_from_nothing():
    X, _, _ = blobs(3000, apart=12.0)
    model = KMeans(6, random_state=0).fit(X[:1500]).partial_fit(X[1500:])
    whole = KMeans(6, init=model.cluster_centers_).fit(X)
    # the blobs are far apart
    assert_allclose(model.cluster_centers_, whole.cluster_centers_, rtol=1e-10)
    fresh = KMeans(6, random_state=0)
    for batch in np.array_split(X, 10):
        fresh.partial_fit(batch)
    assert cost(X, fresh.cluster_centers_) <= 1.01 * whole.inertia_
    assert fresh.certify(X)["fixed_point"].verdict in ("holds", "fails")
    assert fresh.fit(X).n_iter_ >= 1


def test_the_first_batch_needs_a_row_per_cluster():
    with pytest.raises(ValueError, match="minimum of 8"):
        KMeans().partial_fit(noise(5))


# --- several starts ---------------------------------------------------------------------------------------------------


def test_the_best_of_several_starts_is_kept_with_its_own_trace():
    X = noise(300, 2)
    one = LloydAlgorithm(12, "random")
    solution = run(
        Restarts(one, 6, stop=Still(1e-4) | MaxSteps(300)), Points.of(X), stop=Never(), rng=5
    )
    ends = [trace.last() for trace in solution.children]
    model = KMeans(12, init="random", n_init=6, random_state=5).fit(X)
    assert model.inertia_ == min(ends)
    assert model.n_iter_ == len(solution.children[int(np.argmin(ends))]) - 1
    assert model.trace_.objective[-1] == model.inertia_
    assert "never_rose" in model.certificate_.held
    assert model.stopped_ == "settled"


def test_auto_means_ten_starts_where_they_are_not_drawn_with_care(monkeypatch):
    starts = []
    monkeypatch.setattr(
        LloydAlgorithm, "start", lambda self, data, rng: (starts.append(1), data.data.source[:3])[1]
    )
    X = noise(100)
    for init, expected in (
        ("random", 10),
        ("k-means++", 1),
        ("k-means||", 1),
        (X[:3], 1),
        (lambda X, k, random_state: X[:k], 10),
    ):
        starts.clear()
        KMeans(3, init=init).fit(X)
        assert len(starts) == expected


def test_a_callable_says_where_to_start():
    def corner(X, k, random_state):
        assert isinstance(random_state, np.random.RandomState)
        return X[:k]

    X = noise(200)
    assert same_model(KMeans(4, init=corner, n_init=1).fit(X), KMeans(4, init=X[:4]).fit(X))


def test_time_runs_out():
    X = noise(3000, 10)
    model = KMeans(50, n_init=100, init="random", time_limit=0.3, random_state=0).fit(X)
    # the start that is shown may have settled before
    assert model.stopped_ in (
        "out of time",
        "settled",
    )
    assert model.inertia_ == pytest.approx(cost(X, model.cluster_centers_), rel=1e-12)


# --- stopping and resuming --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("n_init", [1, 3])
def test_a_checkpoint_is_resumed_to_the_bit(tmp_path, algorithm, n_init, monkeypatch):
    monkeypatch.setattr("lemmata.clustering.lloyd.WORTHWHILE", 0)
    X, path = noise(600, 5, dtype=np.float32), tmp_path / "kmeans.ckpt"
    one = LloydAlgorithm(12, "k-means++", algorithm)
    whole = one if n_init == 1 else Restarts(one, n_init, stop=Still(0.0) | MaxSteps(300))
    stop = Still(0.0) if n_init == 1 else Never()
    straight = run(whole, Points.of(X), stop=stop, rng=2)
    for steps in (0, 3, 7):
        run(whole, Points.of(X), stop=MaxSteps(steps), callbacks=[Checkpoint(path)], rng=2)
    resumed = run(whole, Points.of(X), stop=stop, callbacks=[Checkpoint(path)], rng=2)
    assert_array_equal(straight.trace.objective, resumed.trace.objective)
    one_end, other_end = (
        solution.attributes["cluster_centers_"] for solution in (straight, resumed)
    )
    assert one_end.tobytes() == other_end.tobytes()


def test_a_checkpoint_of_the_model_belongs_to_its_start(tmp_path):
    X, path = noise(200), tmp_path / "c"
    first = KMeans(5, random_state=0, checkpoint=path).fit(X)
    assert same_model(KMeans(5, random_state=0, checkpoint=path).fit(X), first)
    with pytest.raises(ValueError, match="belongs to another"):
        KMeans(5, random_state=1, checkpoint=path).fit(X)


def test_batches_go_on_after_loading_as_if_nothing_had_happened(tmp_path):
    parts = [noise(50, seed=seed) for seed in range(4)]
    model = KMeans(3, random_state=0).partial_fit(parts[0]).partial_fit(parts[1])
    save(model, tmp_path / "m")
    loaded = load(tmp_path / "m")
    for part in parts[2:]:
        model.partial_fit(part)
        loaded.partial_fit(part)
    assert same_model(model, loaded)
    assert model.n_iter_ == loaded.n_iter_ == 4


def test_ctrl_c_keeps_the_centres_and_what_belongs_to_them():
    X, calls = noise(3000, 8, dtype=np.float32), []

    def seeds(data, k, random_state):
        calls.append(k)
        if len(calls) == 3:  # while the third start looks for its centres
            raise KeyboardInterrupt
        return data[random_state.permutation(len(data))[:k]]

    with pytest.warns(Interrupted, match="interrupted"):
        model = KMeans(20, init=seeds, n_init=5, tol=0, random_state=0, algorithm="yinyang").fit(X)
    assert model.inertia_ == pytest.approx(cost(X, model.cluster_centers_), rel=1e-5)
    assert_array_equal(model.labels_, model.predict(X))
    assert "fixed_point" in model.certificate_.held


def test_too_few_steps_are_said():
    X = noise(2000, 5)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        model = KMeans(30, max_iter=2, tol=1e-9, random_state=0).fit(X)
    assert model.n_iter_ == 2
    assert model.stopped_ == "max steps"
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        KMeans(30, max_iter=2, tol=1e-9, n_init=2, random_state=0).fit(X)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.filterwarnings("ignore:only .* different rows")
def test_more_clusters_than_different_rows_are_said_and_cost_nothing(n):
    X = np.repeat(noise(n, 2), 5, axis=0)
    for algorithm in ALGORITHMS:
        with pytest.warns(ConvergenceWarning, match=f"{n} distinct clusters"):
            model = KMeans(5, random_state=0, algorithm=algorithm).fit(X)
        assert model.inertia_ == 0
        assert len(np.unique(model.labels_)) == n
        assert_array_equal(model.cluster_centers_[model.labels_], X)
        assert "no_empty_cluster" in model.certificate_.failed


def test_more_clusters_than_rows_are_refused():
    with pytest.raises(ValueError, match=r"n_samples=3 should be >= n_clusters=8.*n_clusters <= 3"):
        KMeans().fit(noise(3))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    "container", [np.asarray, sp.csr_array, lambda X: [X[:20], X[20:]], lambda X: X.tolist()]
)
def test_nan_and_infinity_are_refused(bad, container):
    X = noise(40)
    X[3, 2] = bad
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            getattr(KMeans(2), method)(container(X))
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        KMeans(2, random_state=0).fit(noise(40)).predict(container(X))


@pytest.mark.parametrize(
    ("X", "w", "message"),
    [
        (noise(20), -np.ones(20), "[Nn]egative"),
        (noise(20), np.zeros(20), "non-zero"),
        (noise(20), np.full(20, np.nan), "NaN"),
        (noise(20), np.ones(19), "shape|length|inconsistent"),
        (np.arange(20.0), None, "2D"),
        (np.empty((0, 3)), None, "sample"),
        (np.empty((20, 0)), None, "feature"),
        (np.full((20, 2), 1e200) * np.arange(20)[:, None], None, "too large"),
    ],
    ids=[
        "negative weights",
        "no weights",
        "weights NaN",
        "few weights",
        "one axis",
        "no rows",
        "no features",
        "1e200",
    ],
)
def test_bad_rows_and_weights_are_refused(X, w, message):
    model = KMeans(3, random_state=0)
    before = dict(vars(model))
    with pytest.raises((ValueError, StepFailed), match=message):
        model.fit(X, sample_weight=w)
    assert vars(model) == before


@pytest.mark.parametrize(
    "parameters",
    [{"n_clusters": 0}, {"n_clusters": 2.5}, {"init": "best"}, {"n_init": 0}, {"n_init": "many"}, {"algorithm": "magic"},
     {"max_iter": 0}, {"tol": -1}, {"init": np.zeros((3, 4))}, {"init": np.zeros((2, 9))}, {"init": np.full((2, 4), np.nan)},
     {"init": lambda X, k, random_state: X[: k + 1]}],
    ids=lambda value: "-".join(value) + str(np.shape(next(iter(value.values())))),
)  # fmt: skip
def test_impossible_parameters_are_refused(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        KMeans(**{"n_clusters": 2, **parameters}).fit(noise(20))


@pytest.mark.parametrize(("dtype", "scale"), [(np.float64, 1e150), (np.float64, 1e-150), (np.float64, 1e-300),
                                              (np.float32, 1e30), (np.float32, 1e-30)])  # fmt: skip
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_huge_and_tiny_scales_change_nothing(dtype, scale, algorithm):
    X, labels, _ = blobs(200, 3, 4, apart=12.0)
    model = KMeans(4, n_init=4, random_state=0, algorithm=algorithm).fit((X * scale).astype(dtype))
    assert adjusted_rand_score(labels, model.labels_) == 1
    assert_array_equal(model.predict((X * scale).astype(dtype)), model.labels_)
    nearest = model.transform((X * scale).astype(dtype))
    assert np.isfinite(nearest).all()
    assert_array_equal(nearest.argmin(axis=1), model.labels_)


def test_constant_features_and_duplicated_rows_are_no_news():
    X, labels, _ = blobs(300, 2, 3, apart=15.0)
    wide = np.repeat(np.column_stack([X, np.full(300, 7.0), np.zeros(300)]), 2, axis=0)
    model = KMeans(3, n_init=4, random_state=0).fit(wide)
    assert adjusted_rand_score(np.repeat(labels, 2), model.labels_) == 1
    assert_allclose(model.cluster_centers_[:, 2:], [[7, 0]] * 3, atol=1e-13)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        constant = KMeans(3, random_state=0).fit(np.ones((50, 2)))
    assert constant.inertia_ == 0
    assert_array_equal(constant.cluster_centers_, 1)


def test_counts_of_huge_weights_do_not_overflow():
    X = noise(50, 2)
    model = KMeans(3, init=X[:3], tol=0).fit(X, sample_weight=np.full(50, 2.0**62))
    assert_allclose(
        model.cluster_centers_, KMeans(3, init=X[:3], tol=0).fit(X).cluster_centers_, rtol=1e-12
    )
    assert model.sums_.counts.sum() == 50 * 2.0**62


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_empty_blocks_of_a_stream_are_no_rows(algorithm):
    """Two blocks begin at the same row then: bounds that belong to the first row alone would be those of no row at all."""
    X = noise(700, 3)
    whole = KMeans(5, init=X[:5], tol=0, algorithm=algorithm).fit([X[:300], X[300:]])
    gaps = KMeans(5, init=X[:5], tol=0, algorithm=algorithm).fit([X[:300], X[:0], X[300:], X[:0]])
    assert same_model(whole, gaps)


@pytest.mark.parametrize("algorithm", ["hamerly", "yinyang", "elkan"])
def test_streams_of_sparse_rows_take_any_algorithm(algorithm):
    X = noise(200, 3)
    parts = [sp.csr_array(X[:90]), X[90:]]
    assert same_model(
        *(KMeans(4, init=X[:4], algorithm=name).fit(parts) for name in (algorithm, "lloyd"))
    )


def test_a_stream_that_is_cut_differently_later_is_refused():
    class Restless:
        def __init__(self, X):
            self.X, self.passes = X, 0

        def __iter__(self):
            self.passes += 1
            yield from np.array_split(self.X, 2 + self.passes % 3)

    with pytest.raises(ValueError, match="cut for cut"):
        KMeans(4, random_state=0, algorithm="yinyang").fit(Restless(noise(300)))


@pytest.mark.parametrize("wrap", [lambda A: A, lambda A: [A]], ids=["matrix", "stream"])
def test_entries_stored_in_parts_are_added_up_before_they_are_squared(wrap):
    rng = np.random.default_rng(0)
    parts = (rng.standard_normal(600), np.tile([0, 1, 2, 0, 1, 2], 100), np.arange(0, 601, 6))
    A = sp.csr_array(parts, shape=(100, 3))
    X = A.toarray()
    found = KMeans(4, init=X[:4], tol=0).fit(wrap(A))
    assert found.inertia_ == pytest.approx(KMeans(4, init=X[:4], tol=0).fit(X).inertia_, rel=1e-12)
    assert A.nnz == 600  # the user's own matrix is left alone


def test_sparse_rows_close_to_their_centres_cost_what_dense_ones_do():
    """‖c‖² + Σ x(x − 2c) has no digits left where ‖x − c‖² is 1e-16 of ‖c‖²."""
    rng = np.random.default_rng(0)
    spots = np.where(rng.random((5, 40)) < 0.3, 100 * rng.standard_normal((5, 40)), 0.0)
    X = np.repeat(spots, 20, axis=0) * (1 + 1e-8 * rng.standard_normal((100, 1)))
    for start in (spots, X[::20]):
        dense, sparse = (KMeans(5, init=start, tol=0).fit(data) for data in (X, sp.csr_array(X)))
        assert sparse.inertia_ == pytest.approx(dense.inertia_, rel=1e-6)
        assert_array_equal(sparse.labels_, dense.labels_)
    assert (
        KMeans(5, init=spots, tol=0).fit(sp.csr_array(np.repeat(spots, 8, axis=0))).inertia_ < 1e-25
    )


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_rows_far_from_the_centres_are_scored_by_their_distance(kind, scale):
    """In a frame for float32 rows of size 1e-30 the centres would be infinite, and in one for the centres rows of 1e30."""
    X = noise(60, 3, dtype=np.float32)
    model = KMeans(4, random_state=0).fit(X)
    others = X * np.float32(scale)
    assert model.score(kind(others)) == pytest.approx(
        -cost(others, model.cluster_centers_), rel=rounding(np.float32, 3)
    )
    assert np.isfinite(model.partial_fit(kind(others)).inertia_)


def test_centres_beyond_the_type_of_the_rows_are_said():
    model = KMeans(2, random_state=0).fit(noise(30) * 1e80)
    for method in (model.predict, model.transform, model.score):
        with pytest.raises(ValueError, match=r"float32, which ends before .* at .*; pass float64"):
            method(noise(5, dtype=np.float32))


@pytest.mark.parametrize(("dtype", "scale"), [(np.float64, 1e-310), (np.float32, 1e-40)])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_numbers_below_the_normal_floats_are_numbers(dtype, scale, kind):
    X, labels, _ = blobs(200, 3, 4, apart=12.0)
    model = KMeans(4, n_init=4, random_state=1).fit(kind((X * scale).astype(dtype)))
    assert adjusted_rand_score(labels, model.labels_) == 1


def test_repeated_rows_break_no_promise_by_rounding():
    """The mean of twenty equal rows is that row only to rounding, so the cost goes from 0 to 1e-30."""
    X = np.repeat(noise(3, 3, seed=5), 20, axis=0)
    for seed in range(5):
        model = KMeans(3, random_state=seed).fit(X)
        assert "never_rose" in model.certificate_.held


def test_a_batch_too_large_to_be_squared_leaves_the_model_as_it_was():
    model = KMeans(3, random_state=0).partial_fit(noise(30))
    before = dict(vars(model))
    with pytest.raises(ValueError, match="too large"):
        model.partial_fit(noise(30) * 1e300)
    assert vars(model) == before
    with pytest.raises(ValueError, match=r"n_clusters=5.*3 centres"):
        model.set_params(n_clusters=5).partial_fit(noise(30))


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=25)
@given(
    n=st.integers(2, 60), d=st.integers(1, 4), k=st.integers(1, 8), seed=st.integers(0, 2**31),
    levels=st.sampled_from([2, 5, 10**6]), algorithm=st.sampled_from(ALGORITHMS),
)  # fmt: skip
def test_whatever_comes_the_result_is_consistent(dtype, n, d, k, seed, levels, algorithm):
    X = np.random.default_rng(seed).integers(0, levels, (n, d)).astype(dtype)
    k = min(k, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(k, random_state=seed % 2**31, algorithm=algorithm).fit(X)
    D = cdist(X.astype(float), model.cluster_centers_.astype(float), "sqeuclidean")
    chosen = D[np.arange(n), model.labels_]
    assert (chosen <= D.min(axis=1) + rounding(dtype, d) * max(D.max(), 1)).all()
    assert model.inertia_ == pytest.approx(
        chosen.sum(), rel=rounding(dtype, d), abs=rounding(dtype, d) * D.max()
    )
    assert model.cluster_centers_.shape == (k, d)
    assert np.isfinite(model.cluster_centers_).all()


# --- conventions ------------------------------------------------------------------------------------------------------


def test_names_and_frames_are_scikit_learns():
    import pandas as pd

    frame = pd.DataFrame(noise(50, 3), columns=list("abc"))
    model = KMeans(2, random_state=0).set_output(transform="pandas").fit(frame)
    assert (
        list(model.transform(frame).columns)
        == ["kmeans0", "kmeans1"]
        == list(model.get_feature_names_out())
    )
    assert model.feature_names_in_.tolist() == list("abc")
    assert_array_equal(clone(model).fit_predict(frame), model.labels_)
    assert_allclose(
        KMeans(2, random_state=0).fit_transform(frame.to_numpy()), model.transform(frame).to_numpy()
    )
