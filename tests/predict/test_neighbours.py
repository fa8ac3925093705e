"""Exact neighbours: the order of (distance, number) whatever the path, and scikit-learn's answers where they are unique."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import neighbors as sk
from sklearn.datasets import load_digits, load_iris

import lemmata
from lemmata import KernelSmoother, KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors
from lemmata.core.engine import run_tasks
from lemmata.predict.neighbours.search import ExactSearch
from lemmata.predict.neighbours.trees import TreeSearch


def brute(Q, X, k, power=2.0):
    """The first k rows by (Σ|q − x|^p, number), from differences in float64, scaled so that squares are floats."""
    size = 2.0 ** np.frexp(np.abs(X).max())[1] if np.any(X) else 1.0
    parts = np.abs(np.asarray(Q, float)[:, None] / size - np.asarray(X, float)[None] / size)
    D = parts.max(axis=2) if np.isinf(power) else (parts**power).sum(axis=2)
    rows = np.argsort(D, axis=1, kind="stable")[:, :k]
    D = np.take_along_axis(D, rows, axis=1)
    return (D if np.isinf(power) else D ** (1 / power)) * size, rows


def agrees(found, true):
    np.testing.assert_array_equal(found[1], true[1])
    np.testing.assert_allclose(found[0], true[0], rtol=1e-13)


def grid(n, d, seed):
    """Whole numbers: distances are exact, and full of ties."""
    rng = np.random.default_rng(seed)
    return rng.integers(-2, 3, (n, d)).astype(float)


# --- the search -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["never", "always"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n", "q", "d", "k"), [(501, 100, 7, 5), (1003, 61, 33, 10), (40, 13, 1, 40)]
)
def test_kernels_and_their_twins_find_what_brute_force_finds(mode, dtype, n, q, d, k):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, d)).astype(dtype)
    X[n // 2 :: 7] = X[0]  # copies
    Q = np.vstack([rng.standard_normal((q, d)).astype(dtype), X[:5]])
    with lemmata.config(compile=mode):
        agrees(ExactSearch(X).nearest(Q, k), brute(Q, X, k))


@pytest.mark.parametrize("mode", ["never", "always"])
def test_ties_go_to_the_lower_number(mode):
    X, Q = grid(700, 6, 0), grid(50, 6, 1)
    with lemmata.config(compile=mode):
        agrees(ExactSearch(X).nearest(Q, 8), brute(Q, X, 8))
    agrees(TreeSearch(X).nearest(Q, 8), brute(Q, X, 8))
    agrees(TreeSearch(X, np.inf).nearest(Q, 8), brute(Q, X, 8, np.inf))


@pytest.mark.parametrize("mode", ["never", "always"])
@pytest.mark.parametrize("where", [1e8, 1e150, 1e-150, "outlier", "equal", "far queries"])
def test_what_float32_cannot_see_is_still_exact(mode, where):
    """Far from zero, beyond the range of squares, beside an outlier, where all rows are equal to float32: slower, not wrong."""
    rng = np.random.default_rng(3)
    X, Q = rng.standard_normal((300, 9)), rng.standard_normal((40, 9))
    true = brute(Q, X, 4)
    if where == 1e8:
        X, Q = (
            np.round(X * 2**10) / 2**10 + 1e8,
            np.round(Q * 2**10) / 2**10 + 1e8,
        )  # no rounding by the shift itself
        true = brute(Q - 1e8, X - 1e8, 4)
    elif where == "outlier":
        X[7] = 1e30
        true = brute(Q, np.delete(X, 7, axis=0), 4)
        true[1][true[1] >= 7] += 1
    elif where == "equal":
        X = 1 + 1e-12 * X
        true = brute(Q, X, 4)
    elif where == "far queries":
        Q[::2] *= 1e20
        true = brute(Q, X, 4)
    else:
        X, Q, true = X * where, Q * where, (true[0] * where, true[1])
    with lemmata.config(compile=mode):
        found = ExactSearch(X).nearest(Q, 4)
    np.testing.assert_array_equal(found[1], true[1])
    np.testing.assert_allclose(found[0], true[0], rtol=1e-9)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    d=st.integers(1, 6),
    exponents=st.lists(st.integers(-11, 11), min_size=6, max_size=6),
    shift=st.integers(-110, 110),
    narrow=st.booleans(),
)
def test_any_rows_in_any_units(seed, n, d, exponents, shift, narrow):
    """Features of different size, mixed signs, ties, sums of squares without rounding: the order of brute force."""
    rng = np.random.default_rng(seed)
    units = 2.0 ** (np.array(exponents[:d]) + shift)
    X, Q = (rng.integers(-3, 4, (m, d)) * units for m in (n, 5))
    X, Q = (rows.astype(np.float32 if narrow else np.float64) for rows in (X, Q))
    k = int(rng.integers(1, n + 1))
    with lemmata.config(compile="never"):
        agrees(ExactSearch(X).nearest(Q, k), brute(Q, X, k))
    agrees(TreeSearch(X).nearest(Q, k), brute(Q, X, k))


def test_the_number_of_threads_changes_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    X, Q = (
        rng.standard_normal((900, 20)).astype(np.float32),
        rng.standard_normal((500, 20)).astype(np.float32),
    )
    for mode in ("never", "always"):
        found = []
        for threads in ("1", "3"):
            monkeypatch.setenv("LEMMATA_THREADS", threads)
            with lemmata.config(compile=mode):
                found.append(ExactSearch(X).nearest(Q, 6))
        np.testing.assert_array_equal(found[0][0], found[1][0])
        np.testing.assert_array_equal(found[0][1], found[1][1])


def test_searches_side_by_side_do_not_meet():
    rng = np.random.default_rng(1)
    X, Q = rng.standard_normal((400, 8)), rng.standard_normal((60, 8))
    true, found = brute(Q, X, 3), {}
    run_tasks(lambda task: found.update({task: ExactSearch(X).nearest(Q, 3)}), 6)
    for each in found.values():
        agrees(each, true)


# --- the models beside scikit-learn's ---------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [load_iris, load_digits])
@pytest.mark.parametrize("weights", ["uniform", "distance", lambda d: np.exp(-d)])
def test_votes_and_means_are_those_of_scikit_learn(load, weights):
    X, y = load(return_X_y=True)
    Q = X[::3] + 0.3 * np.random.default_rng(0).standard_normal(X[::3].shape)
    ours, theirs = (
        L.KNeighborsClassifier(7, weights=weights).fit(X, y)
        for L in (lemmata.predict.neighbours, sk)
    )
    np.testing.assert_allclose(ours.predict_proba(Q), theirs.predict_proba(Q), atol=1e-9)
    np.testing.assert_array_equal(ours.predict(Q), theirs.predict(Q))
    both = np.stack([y, X[:, 0]], axis=1)
    ours, theirs = (
        L.KNeighborsRegressor(7, weights=weights).fit(X, both)
        for L in (lemmata.predict.neighbours, sk)
    )
    np.testing.assert_allclose(ours.predict(Q), theirs.predict(Q), rtol=1e-9)


METRICS = [
    ("manhattan", {}), ("chebyshev", {}), ("minkowski", {"p": 3}), ("cosine", {}), ("canberra", {}),
    ("correlation", {}), ("hamming", {}), ("sqeuclidean", {}), ("nan_euclidean", {}),
]  # fmt: skip


@pytest.mark.parametrize(("metric", "parameters"), METRICS)
@pytest.mark.parametrize("d", [3, 20])
def test_other_metrics_have_the_distances_of_scikit_learn(metric, parameters, d):
    rng = np.random.default_rng(0)
    X, Q = rng.standard_normal((200, d)), rng.standard_normal((30, d))
    ours = NearestNeighbors(metric=metric, **parameters).fit(X)
    theirs = sk.NearestNeighbors(metric=metric, algorithm="brute", **parameters).fit(X)
    found, true = ours.kneighbors(Q), theirs.kneighbors(Q)
    np.testing.assert_allclose(found[0], true[0], atol=1e-12)
    if metric != "hamming":  # all rows differ in all features
        np.testing.assert_array_equal(found[1], true[1])
    radius = float(np.median(true[0][:, -1])) * (1 + 1e-9)
    found = ours.radius_neighbors_graph(Q, radius, mode="distance")
    true = theirs.radius_neighbors_graph(Q, radius, mode="distance")
    assert abs(found - true).max() < 1e-12
    assert found.nnz == true.nnz


def test_a_function_of_two_rows_is_a_metric_and_distances_can_be_given():
    X = np.random.default_rng(0).standard_normal((60, 4))
    true = NearestNeighbors(metric="manhattan").fit(X).kneighbors()
    function = NearestNeighbors(metric=lambda a, b: np.abs(a - b).sum()).fit(X)
    np.testing.assert_allclose(function.kneighbors()[0], true[0])
    D = np.abs(X[:, None] - X).sum(axis=2)
    given = NearestNeighbors(metric="precomputed").fit(D)
    np.testing.assert_array_equal(given.kneighbors()[1], true[1])
    assert given.certify(D).failed == []


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
def test_sparse_rows_have_the_neighbours_of_dense_ones(metric):
    S = sp.random(300, 80, 0.2, format="csr", random_state=0)
    found = NearestNeighbors(metric=metric).fit(S).kneighbors(S[:40])
    true = NearestNeighbors(metric=metric).fit(S.toarray()).kneighbors(S[:40].toarray())
    np.testing.assert_allclose(found[0], true[0], atol=1e-12)
    np.testing.assert_array_equal(found[1], true[1])
    mixed = NearestNeighbors(metric=metric).fit(S).kneighbors(S[:40].toarray())
    np.testing.assert_array_equal(mixed[1], true[1])


def test_a_row_is_no_neighbour_of_itself():
    X = np.repeat(
        grid(30, 3, 0), 4, axis=0
    )  # each row four times: k + 1 of them may come before the row itself
    for algorithm in ("brute", "kd_tree"):
        model = NearestNeighbors(n_neighbors=3, algorithm=algorithm).fit(X)
        rows = model.kneighbors(return_distance=False)
        assert not (rows == np.arange(len(X))[:, None]).any()
        np.testing.assert_array_equal(model.kneighbors()[0], 0)
        graph = model.radius_neighbors_graph(radius=0.0)
        assert graph.diagonal().sum() == 0
        assert graph.sum() >= 3 * len(X)


def test_the_radius_belongs_to_the_neighbourhood():
    X = np.array([[0.0], [1.0], [2.0], [5.0]])
    for algorithm in ("brute", "kd_tree"):
        distances, rows = (
            NearestNeighbors(radius=1.0, algorithm=algorithm)
            .fit(X)
            .radius_neighbors([[1.0]], sort_results=True)
        )
        assert rows[0].tolist() == [1, 0, 2]
        assert distances[0].tolist() == [0, 1, 1]
        empty = NearestNeighbors(algorithm=algorithm).fit(X).radius_neighbors([[9.0]], 0.5)
        assert len(empty[0][0]) == 0


def test_weights_count_rows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), rng.integers(0, 3, 60)
    w, Q = rng.integers(0, 4, 60), rng.standard_normal((40, 3))
    again = np.repeat(X, w, axis=0), np.repeat(y, w)
    for weights in ("uniform", "distance"):
        ours = KNeighborsClassifier(7, weights=weights).fit(X, y, w).predict_proba(Q)
        np.testing.assert_allclose(
            ours, KNeighborsClassifier(7, weights=weights).fit(*again).predict_proba(Q)
        )
        ours = KNeighborsRegressor(7, weights=weights).fit(X, y, w).predict(Q)
        np.testing.assert_allclose(
            ours, KNeighborsRegressor(7, weights=weights).fit(*again).predict(Q)
        )
    halves = KNeighborsRegressor(3).fit(X, y, np.full(60, 0.5)).predict(Q)  # six rows count three
    np.testing.assert_allclose(halves, KNeighborsRegressor(6).fit(X, y).predict(Q))


def test_a_classifier_of_several_outputs_is_saved_and_read(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 3))
    Y = np.where(X[:, :2] > 0, "plus", "minus")
    model = KNeighborsClassifier().fit(X, Y)
    lemmata.save(model, tmp_path / "k.lemma")
    back = lemmata.load(tmp_path / "k.lemma")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert str(back.certify(X, Y)) == str(model.certify(X, Y))


def test_several_outputs_and_labels_of_any_kind():
    X, y = load_iris(return_X_y=True)
    both = np.stack([np.array(list("abc"))[y], np.where(X[:, 0] > 6, "long", "short")], axis=1)
    Q = X + 0.1 * np.random.default_rng(0).standard_normal(X.shape)  # no ties
    ours, theirs = (L.KNeighborsClassifier().fit(X, both) for L in (lemmata.predict.neighbours, sk))
    np.testing.assert_array_equal(ours.predict(Q), theirs.predict(Q))
    for found, true in zip(ours.predict_proba(Q), theirs.predict_proba(Q), strict=True):
        np.testing.assert_allclose(found, true)
    assert KNeighborsClassifier().fit(X, y > 1).predict(X[-1:]).tolist() == [True]


# --- kernel smoothing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", "biweight", "tricube", "boxcar"])
def test_a_smoother_lies_between_the_nearest_row_and_the_mean(kernel):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 2)), rng.standard_normal(80)
    Q = rng.standard_normal((30, 2))
    nearest = KNeighborsRegressor(1).fit(X, y).predict(Q)
    np.testing.assert_allclose(KernelSmoother(kernel, bandwidth=1e-9).fit(X, y).predict(Q), nearest)
    wide = KernelSmoother(kernel, bandwidth=1e9).fit(X, y).predict(Q)
    np.testing.assert_allclose(wide, y.mean(), rtol=1e-6)
    if kernel == "boxcar":
        rows = NearestNeighbors(radius=0.9).fit(X).radius_neighbors(Q, return_distance=False)
        means = [
            y[some].mean() if len(some) else near for some, near in zip(rows, nearest, strict=True)
        ]
        np.testing.assert_allclose(
            KernelSmoother(kernel, bandwidth=0.9).fit(X, y).predict(Q), means
        )


def test_the_chosen_bandwidth_has_the_least_leave_one_out_error():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (70, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(70)
    model = KernelSmoother().fit(X, y)
    assert model.bandwidth_ == model.bandwidths_[np.argmin(model.loo_errors_)]
    with lemmata.config(certificate=False):
        for h, error in list(zip(model.bandwidths_, model.loo_errors_, strict=True))[::6]:
            squares = []
            for i in range(70):
                left = np.arange(70) != i
                one = KernelSmoother(bandwidth=h).fit(X[left], y[left])
                squares.append((one.predict(X[i : i + 1])[0] - y[i]) ** 2)
            np.testing.assert_allclose(error, np.mean(squares), rtol=1e-9)


# --- bad input --------------------------------------------------------------------------------------------------------


def test_messages_say_what_to_do():
    X, y = load_iris(return_X_y=True)
    model = KNeighborsClassifier(200).fit(X, y)
    with pytest.raises(ValueError, match="pass 1 <= n_neighbors <= 150"):
        model.predict(X)
    with pytest.raises(ValueError, match="one class only"):
        KNeighborsClassifier().fit(X, np.zeros(150))
    with pytest.raises(ValueError, match="algorithm='brute' or 'auto'"):
        NearestNeighbors(metric="cosine", algorithm="kd_tree").fit(X).kneighbors(X)
    with pytest.raises(ValueError, match="as many rows as columns"):
        NearestNeighbors(metric="precomputed").fit(X)
    with pytest.raises(ValueError, match="total weight"):
        KNeighborsClassifier(5).fit(X, y, np.full(150, 1e-3)).predict(X)
    with pytest.raises(ValueError, match="non-zero"):
        KNeighborsClassifier(5).fit(X, y, np.zeros(150))
    with pytest.raises(ValueError, match="weights"):
        KNeighborsClassifier(5, weights=lambda d: -d).fit(X, y).predict(X + 1)
    with pytest.raises(ValueError, match="pass a bandwidth"):
        KernelSmoother().fit(np.ones((5, 2)), np.arange(5.0))
    bytes_ = (X * 10).astype(np.int8)
    true = NearestNeighbors().fit(bytes_.astype(float)).kneighbors()
    np.testing.assert_array_equal(NearestNeighbors().fit(bytes_).kneighbors()[1], true[1])
    empty = sp.csr_matrix((30, 6))
    assert NearestNeighbors().fit(empty).kneighbors()[0].max() == 0
