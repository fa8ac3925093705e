"""SVC: the conditions of its optimum, by formulas of their own, and agreement with scikit-learn's."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import svm as theirs
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

import lemmata
from lemmata import SVC
from lemmata.predict.kernels import RBF, Polynomial
from lemmata.predict.svm import base, smo
from lemmata.predict.svm.one_vs_one import pair_coefficients


def moons(n=300, seed=0, noise=0.3, dtype=np.float64):
    """Two half circles that overlap a little."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    t = np.pi * rng.random(n)
    X = np.column_stack([np.cos(t) + y, np.where(y, 0.5 - np.sin(t), np.sin(t))])
    return (X + noise * rng.standard_normal((n, 2))).astype(dtype), y


def blobs(n=240, k=4, d=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    return rng.standard_normal((n, d)) + 1.5 * np.eye(k, d)[y] * 2, y


@pytest.fixture
def cached(monkeypatch):
    """The way of large data: rows of K from a cache, working sets of 64, two tiles."""
    monkeypatch.setattr(base, "SMALL", 0)
    monkeypatch.setattr(smo, "WORKING", 64)
    monkeypatch.setattr("lemmata.predict.svm.row_cache.COLUMNS", 100)


def gap(model, X, y, K, C):
    """Primal minus dual of a fit to two classes, by definition: (gap, primal)."""
    alpha = np.zeros(len(X))
    sign = np.where(y == model.classes_[1], 1.0, -1.0)
    alpha[model.support_] = model.dual_coef_[0] * sign[model.support_]
    beta = alpha * sign
    f = K @ beta + model.intercept_[0]
    primal = 0.5 * beta @ K @ beta + np.sum(C * np.maximum(0, 1 - sign * f))
    return primal - (alpha.sum() - 0.5 * beta @ K @ beta), primal


def feasibility(model, y, C):
    """By how much α leaves its box, and the balance, both for two classes."""
    sign = np.where(y == model.classes_[1], 1.0, -1.0)[model.support_]
    alpha = model.dual_coef_[0] * sign
    bound = np.broadcast_to(C, len(y))[model.support_]
    return max(-alpha.min(), (alpha - bound).max(), 0.0), abs(model.dual_coef_.sum())


# --- the optimum ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compile", ["never", "always"])
@pytest.mark.parametrize("way", ["whole", "cached"])
@pytest.mark.parametrize("C", [0.1, 10.0, 300.0])
def test_the_conditions_of_the_optimum_hold_at_the_end(C, way, compile, request):
    if way == "cached":
        request.getfixturevalue("cached")
    X, y = moons()
    with lemmata.config(compile=compile):
        model = SVC(C=C, gamma=1.0).fit(X, y)
    K = rbf_kernel(X, gamma=1.0)
    outside, balance = feasibility(model, y, C)
    assert outside == 0
    assert balance <= 1e-12 * C * len(model.support_)
    # KKT, by row: α = 0 ⇒ yf ≥ 1, 0 < α < C ⇒ yf = 1, α = C ⇒ yf ≤ 1
    sign = np.where(y == 1, 1.0, -1.0)
    beta = np.zeros(len(X))
    beta[model.support_] = model.dual_coef_[0]
    margin, alpha = sign * (K @ beta + model.intercept_), beta * sign
    tol = 1.01e-3
    assert (margin[alpha == 0] >= 1 - tol).all()
    assert (margin[alpha == C] <= 1 + tol).all()
    assert_allclose(margin[(alpha > 0) & (alpha < C)], 1, atol=tol)
    missing, primal = gap(model, X, y, K, C)
    # a violation of tol costs at most tol for each unit of α
    assert -1e-9 * primal <= missing <= 2e-3 * max(alpha.sum(), C * len(X) * 1e-3)
    assert model.fit_status_ == 0
    assert not {"feasible", "near_optimum", "slackness"} & set(model.certify(X, y).failed)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_it_decides_as_scikit_learn_does(load, kernel):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours, peer = (cls(kernel=kernel, tol=1e-5).fit(X, y) for cls in (SVC, theirs.SVC))
    assert_allclose(
        _pairs(ours, X), _pairs(peer, X), atol=2e-3 * (1 + np.abs(_pairs(peer, X)).max())
    )
    assert_array_equal(ours.predict(X), peer.predict(X))
    assert len(ours.dual_coef_) == len(peer.dual_coef_)
    # copies of a row may share its β in any way
    assert_allclose(ours.n_support_, peer.n_support_, atol=2)
    if kernel == "linear":
        assert_allclose(ours.coef_, peer.coef_, atol=2e-3 * np.abs(peer.coef_).max())
    for name in ("support_", "n_support_", "intercept_", "class_weight_"):
        assert getattr(ours, name).dtype == getattr(peer, name).dtype


def _pairs(model, X):
    return model.set_params(decision_function_shape="ovo").decision_function(X)


def test_the_dual_objective_is_not_above_that_of_scikit_learn():
    X, y = moons(400)
    K = rbf_kernel(X, gamma=2.0)
    ours, peer = (cls(C=50, gamma=2.0, tol=1e-6).fit(X, y) for cls in (SVC, theirs.SVC))
    values = []
    for model in (ours, peer):
        beta = np.zeros(len(X))
        beta[model.support_] = model.dual_coef_[0]
        values.append(0.5 * beta @ K @ beta - np.abs(beta).sum())
    assert values[0] <= values[1] + 1e-6 * abs(values[1])
    assert ours.trace_.last() == pytest.approx(values[0], rel=1e-9)


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
@pytest.mark.parametrize("ties", [False, True])
def test_votes_and_scores_of_several_classes_are_scikit_learns(shape, ties):
    X, y = blobs(k=4)
    settings = {"decision_function_shape": shape, "break_ties": ties, "tol": 1e-6, "gamma": 0.5}
    ours, peer = SVC(**settings).fit(X, y), theirs.SVC(**settings).fit(X, y)
    new = np.random.default_rng(1).standard_normal((500, 3)) * 3
    assert_allclose(ours.decision_function(new), peer.decision_function(new), atol=1e-4)
    if shape == "ovo" and ties:
        with pytest.raises(ValueError, match="break_ties must be False"):
            ours.predict(new)
    else:
        assert_array_equal(ours.predict(new), peer.predict(new))


def test_the_layout_of_the_coefficients_is_libsvms():
    X, y = blobs(k=4)
    ours, peer = (cls(C=2, gamma=0.5, tol=1e-7).fit(X, y) for cls in (SVC, theirs.SVC))
    assert_array_equal(ours.support_, peer.support_)
    assert_allclose(ours.dual_coef_, peer.dual_coef_, atol=2e-5)
    assert_allclose(ours.intercept_, peer.intercept_, atol=1e-4)
    assert_array_equal(ours.support_vectors_, X[ours.support_])
    table = pair_coefficients(ours.dual_coef_, ours.n_support_)
    f = rbf_kernel(X, ours.support_vectors_, gamma=0.5) @ table + ours.intercept_
    assert_allclose(f, _pairs(ours, X), atol=1e-12)
    assert_allclose(table.sum(axis=0), 0, atol=1e-12)


# --- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["whole", "cached"])
def test_weights_scale_the_boxes(way, request):
    if way == "cached":
        request.getfixturevalue("cached")
    X, y = moons()
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 4, len(X)).astype(float)
    model = SVC(C=2.0, gamma=1.0, class_weight={0: 3.0}, tol=1e-6).fit(X, y, weights)
    C = 2.0 * weights * np.where(y == 0, 3.0, 1.0)
    assert feasibility(model, y, C)[0] == 0
    assert not np.isin(model.support_, np.flatnonzero(weights == 0)).any()
    missing, primal = gap(model, X, y, rbf_kernel(X, gamma=1.0), C)
    assert abs(missing) <= 1e-4 * primal
    peer = theirs.SVC(C=2.0, gamma=1.0, class_weight={0: 3.0}, tol=1e-6).fit(X, y, weights)
    assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-4)
    # a row of weight 3 is the row three times
    times = weights.astype(int)
    repeated = SVC(C=2.0, gamma=1.0, class_weight={0: 3.0}, tol=1e-6).fit(
        np.repeat(X, times, axis=0), np.repeat(y, times)
    )
    assert_allclose(model.decision_function(X), repeated.decision_function(X), atol=1e-4)


def test_balanced_weights_are_scikit_learns():
    X, y = blobs(k=3)
    keep = (y != 2) | (np.arange(len(y)) % 5 == 0)
    X, y = X[keep], y[keep]
    ours, peer = (cls(class_weight="balanced", tol=1e-6).fit(X, y) for cls in (SVC, theirs.SVC))
    assert_allclose(ours.class_weight_, peer.class_weight_)
    assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-4)


# --- kernels and data -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["whole", "cached"])
def test_a_kernel_by_name_object_function_and_matrix_gives_one_fit(way, request):
    if way == "cached":
        request.getfixturevalue("cached")
    X, y = moons()
    by_name = SVC(gamma=0.7, tol=1e-6).fit(X, y).decision_function(X)
    by_object = SVC(kernel=RBF(0.7), tol=1e-6).fit(X, y).decision_function(X)
    function = SVC(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.7), tol=1e-6).fit(X, y)
    K = rbf_kernel(X, gamma=0.7)
    given = SVC(kernel="precomputed", tol=1e-6).fit(K, y)
    assert_allclose(by_object, by_name, atol=1e-9)
    assert_allclose(function.decision_function(X), by_name, atol=1e-4)
    assert_allclose(given.decision_function(K), by_name, atol=1e-4)
    assert given.support_vectors_.shape == (0, 0)


@pytest.mark.parametrize("way", ["whole", "cached"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", RBF(0.2) + 0.1 * Polynomial(2, 0.5)])
def test_sparse_rows_give_what_dense_rows_give(kernel, way, request):
    if way == "cached":
        request.getfixturevalue("cached")
    X = sp.random_array((200, 30), density=0.2, rng=0).tocsr()
    X = sp.csr_array(X * (np.arange(200) != 5)[:, None])  # with an empty row
    y = np.where(
        np.random.default_rng(0).random(200) + X[:, 0].toarray().ravel() > 0.6, "yes", "no"
    )
    dense, sparse = (
        SVC(kernel=kernel, tol=1e-6).fit(X.toarray(), y),
        SVC(kernel=kernel, tol=1e-6).fit(X, y),
    )
    assert sp.issparse(sparse.support_vectors_)
    assert_allclose(sparse.decision_function(X), dense.decision_function(X.toarray()), atol=1e-4)
    assert_array_equal(sparse.predict(X), dense.predict(X))
    if kernel == "linear":
        assert_allclose(sparse.coef_, dense.coef_, atol=1e-4)


def test_neither_the_cache_nor_the_way_changes_the_result_beyond_tol(cached, monkeypatch):
    X, y = moons(500)
    found = [SVC(C=20, gamma=1.0, cache_size=size).fit(X, y) for size in (1e-3, 0.2, 200)]
    monkeypatch.setattr(base, "SMALL", 2**23)
    found.append(SVC(C=20, gamma=1.0).fit(X, y))
    for model in found[1:]:
        assert_allclose(model.trace_.last(), found[0].trace_.last(), rtol=1e-4)
        assert_allclose(model.decision_function(X), found[0].decision_function(X), atol=0.02)


def test_the_cache_keeps_no_more_than_it_may():
    from lemmata.predict.svm.row_cache import FEWEST, RowCache

    X = np.random.default_rng(0).standard_normal((2000, 3))
    cache = RowCache(RBF(0.5), X, megabytes=1.0, members=np.arange(2000))
    assert cache.rows.nbytes <= 2**20
    whole = RBF(0.5)(X)
    rng = np.random.default_rng(1)
    for _ in range(20):
        wanted = rng.choice(2000, 50, replace=False)
        assert_allclose(cache.rows[cache.slots(wanted)], whole[wanted], atol=1e-6)
        known = np.flatnonzero(cache.slot_of >= 0)
        assert_array_equal(cache.row_at[cache.slot_of[known]], known)
    assert RowCache(RBF(0.5), X, megabytes=1e-6, members=np.arange(2000)).capacity == FEWEST
    beta = rng.standard_normal(2000) * (rng.random(2000) < 0.3)
    assert_allclose(cache.field(beta), whole @ beta, atol=1e-10)


def test_one_thread_and_four_give_the_same_bits(cached, monkeypatch):
    X, y = moons(400)
    found = []
    for threads in ("1", "4"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        found.append(SVC(C=5).fit(X, y))
    assert_array_equal(found[0].dual_coef_, found[1].dual_coef_)
    assert_array_equal(found[0].intercept_, found[1].intercept_)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["cat", "dog", "eel"]),
        np.array([True, False]),
        np.array([3.0, -1.0]),
        np.array([7, 2, 300]),
    ],
)
def test_labels_of_any_type_come_back(labels):
    X, y = blobs(k=len(labels))
    model = SVC().fit(X, labels[y])
    assert_array_equal(model.classes_, np.unique(labels))
    assert model.predict(X).dtype == labels.dtype
    assert np.mean(model.predict(X) == labels[y]) > 0.8


# --- the solver -------------------------------------------------------------------------------------------------------


def sub_problem(m, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, 6))
    signs = rng.choice([-1.0, 1.0], m)
    K = A @ A.T / 6 + 0.1 * np.eye(m)
    return K, -signs, np.where(signs > 0, 0, -1.5), np.where(signs > 0, 1.5, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("budget", [0, 10, 1000])
@pytest.mark.parametrize("regression", [False, True])
def test_compiled_loops_make_the_steps_of_their_twins(budget, dtype, regression):
    from lemmata.predict.svm import _kernels, _twins

    small, G0, lo, hi = sub_problem(40, seed=1)
    small = K = small.astype(dtype)
    if regression:  # two variables for each row of K
        G0, lo, hi = np.r_[0.1 + G0, G0 - 0.1], np.repeat([0, -1.5], 40), np.repeat([1.5, 0], 40)
        K = np.tile(small, (2, 2))
    found = []
    for loops in (_kernels, _twins):
        beta, G = np.zeros_like(G0), G0.copy()
        steps, left = loops.solve_into(beta, G, small, lo, hi, 1e-6, budget)
        assert steps <= budget
        assert steps == budget or left <= 1e-6
        assert beta.sum() == pytest.approx(0, abs=1e-12)
        assert ((beta >= lo) & (beta <= hi)).all()
        assert_allclose(G, G0 + K.astype(float) @ beta, atol=1e-9)
        found.append((beta, G, steps, left))
    for ours, twin in zip(*found, strict=True):
        assert_array_equal(ours, twin)  # to the bit: which of them runs depends on what ran before

    rows = np.random.default_rng(0).standard_normal((9, 50)).astype(np.float32)
    slots, change = np.array([1, 8, 3, 0, 5]), np.arange(1.0, 6.0)
    for loops in (_kernels, _twins):
        field, block = np.ones(50), np.empty((5, 5), np.float32)
        loops.add_rows_into(field, 10, 40, rows, slots, change)
        assert_allclose(field[10:40], 1 + (change @ rows[slots])[10:40], rtol=1e-6)
        assert_array_equal(field[:10], 1)
        for start, stop in ((3, 5), (0, 3)):
            loops.gather_into(block, rows, slots, np.array([4, 2, 9, 9, 0]), start, stop)
        assert_array_equal(np.tril(block), np.tril(rows[slots][:, [4, 2, 9, 9, 0]]))
        assert_array_equal(block, block.T)


def test_newton_on_the_free_variables_solves_their_equations():
    from lemmata.predict.svm.newton import free_newton

    K, G0, lo, hi = sub_problem(30, seed=3)
    rng = np.random.default_rng(0)
    beta = 0.5 * (lo + hi)
    beta[-1] -= beta.sum()
    beta = np.clip(beta, lo, hi)
    beta[rng.random(30) < 0.3] = 0.0
    total, G = beta.sum(), G0 + K @ beta
    before = 0.5 * beta @ K @ beta + G0 @ beta
    assert free_newton(beta, G, K, lo, hi) >= 1
    assert 0.5 * beta @ K @ beta + G0 @ beta < before
    assert ((beta >= lo) & (beta <= hi)).all()
    assert beta.sum() == pytest.approx(total, abs=1e-12)
    assert_allclose(G, G0 + K @ beta, atol=1e-10)
    free = (beta > lo) & (beta < hi)
    assert np.ptp(G[free]) < 1e-6


def test_unscaled_columns_are_no_trouble_where_smo_alone_takes_a_hundred_thousand_steps():
    X, y = load_wine(return_X_y=True)
    model = SVC(kernel="linear").fit(X, y)
    assert model.steps_.max() < 10_000
    assert theirs.SVC(kernel="linear").fit(X, y).n_iter_.max() > 100_000
    assert not {"near_optimum", "slackness"} & set(model.certify(X, y).failed)


def test_float32_rows_do_not_blur_the_optimum_of_a_large_C(cached):
    X, y = moons(300, noise=0.5)
    K = 100.0 * rbf_kernel(X, gamma=2.0)
    with lemmata.config(compile="always"):
        model = SVC(kernel="precomputed", C=1e2, tol=1e-4).fit(K, y)
    beta = np.zeros(len(X))
    beta[model.support_] = model.dual_coef_[0]
    G = K @ beta - np.where(y == 1, 1.0, -1.0)
    lo, hi = np.where(y == 1, 0, -1e2), np.where(y == 1, 1e2, 0)
    assert G[beta > lo].max() - G[beta < hi].min() <= 1.01e-4


def test_the_objective_never_rises_and_the_violation_is_in_the_trace(cached):
    X, y = moons()
    model = SVC(C=10).fit(X, y)
    assert model.trace_.largest_rise <= 1e-9 * abs(model.trace_.last())
    assert model.trace_.last("violation") <= model.tol
    assert model.n_iter_ == len(model.trace_) - 1


@settings(max_examples=30)
@given(
    n=st.integers(2, 25), d=st.integers(1, 3), k=st.integers(2, 4), seed=st.integers(0, 10**6),
    C=st.sampled_from([1e-3, 1.0, 1e3]), scale=st.sampled_from([1e-3, 1.0, 1e3]),
)  # fmt: skip
def test_any_rows_are_fitted_to_their_optimum(n, d, k, seed, C, scale):
    rng = np.random.default_rng(seed)
    X = scale * rng.integers(-2, 3, (n, d)).astype(float)  # with copies of rows among them
    y = rng.integers(k, size=n)
    y[: min(2, n)] = [0, 1]
    model = SVC(C=C).fit(X, y)
    assert model.fit_status_ == 0
    assert np.isfinite(model.decision_function(X)).all()
    assert (np.abs(model.dual_coef_) <= C).all()
    if len(model.classes_) == 2:
        K = rbf_kernel(X, gamma=model.gamma_)
        missing, primal = gap(model, X, y, K, C)
        assert missing <= 4e-3 * max(1.0, C) * n + 1e-6 * primal


# --- running and storing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["whole", "cached"])
def test_steps_and_time_are_limited_and_said(way, request):
    if way == "cached":
        request.getfixturevalue("cached")
    X, y = moons(400)
    with pytest.warns(
        ConvergenceWarning, match=r"made max_iter=3 steps and optimality is violated"
    ):
        model = SVC(C=100, max_iter=3).fit(X, y)
    assert (model.fit_status_, model.stopped_) == (1, "max steps")
    assert (model.steps_ <= 3).all()
    assert "slackness" in model.certify(X, y).failed
    assert SVC(time_limit=1e-6).fit(X, y).stopped_ == "out of time"


def test_a_stopped_fit_goes_on_where_it_was(cached, tmp_path):
    X, y = blobs(k=3)
    straight = SVC(C=10).fit(X, y)
    path = tmp_path / "svc.ckpt"
    SVC(C=10, checkpoint=path, time_limit=1e-6).fit(X, y)
    resumed = SVC(C=10, checkpoint=path).fit(X, y)
    assert_array_equal(resumed.dual_coef_, straight.dual_coef_)
    assert resumed.n_iter_ == straight.n_iter_
    with pytest.raises(ValueError, match="belongs to another data"):
        SVC(C=10, checkpoint=path).fit(X + 1, y)


# --- bad input --------------------------------------------------------------------------------------------------------


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="one class only, 1; SVC needs at least two classes"):
        SVC().fit(np.ones((4, 2)), np.ones(4, int))


def test_a_class_without_weight_is_refused():
    X, y = blobs(k=3)
    with pytest.raises(ValueError, match="every row of the class 2 has weight 0"):
        SVC().fit(X, y, (y != 2).astype(float))


def test_rows_that_are_all_alike_are_a_draw():
    X, y = np.ones((10, 3)), np.arange(10) % 2
    model = SVC().fit(X, y)
    assert model.fit_status_ == 0
    assert_allclose(model.decision_function(X), model.decision_function(X)[0])


def test_a_kernel_that_is_not_positive_semidefinite_ends_and_says_so():
    X, y = moons()
    model = SVC(kernel="sigmoid", gamma=5.0, coef0=-1.0, max_iter=20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert "mercer" in model.certify(X, y).failed


@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_numbers_of_any_size_are_fitted_or_refused(scale):
    X, y = moons(60)
    model = SVC().fit(scale * X, y)
    assert_allclose(
        model.decision_function(scale * X), SVC().fit(X, y).decision_function(X), atol=5e-3
    )
    with pytest.raises(ValueError, match="gives numbers beyond float64"):
        SVC(kernel="poly", gamma=1.0).fit(1e150 * X, y)
    with pytest.raises(ValueError, match="overflows: divide X by its largest number"):
        SVC().fit(1e200 * X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_iter": 0}, "max_iter=0 leaves nothing to fit"),
        ({"class_weight": {5: 1.0}}, "class_weight names the class 5, which is not in y"),
        ({"kernel": "precomputed"}, "Precomputed matrix must be a square matrix"),
        ({"kernel": lambda A, B: np.ones(3)}, "gave an array of shape"),
    ],
)
def test_bad_settings_get_one_clear_sentence(settings, message):
    with pytest.raises(ValueError, match=message):
        SVC(**settings).fit(*moons(40))


def test_a_matrix_that_is_no_kernel_matrix_is_refused():
    X, y = moons(40)
    K = rbf_kernel(X)
    K[3, 5] += 1
    with pytest.raises(ValueError, match="K is not symmetric"):
        SVC(kernel="precomputed").fit(K, y)
    with pytest.raises(TypeError, match="Sparse precomputed kernels are not supported"):
        SVC(kernel="precomputed").fit(sp.csr_array(rbf_kernel(X)), y)
    with pytest.raises(ValueError, match="expecting 40 features"):
        SVC(kernel="precomputed").fit(rbf_kernel(X), y).predict(rbf_kernel(X)[:, :30])


# --- large data -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ten_thousand_rows_reach_the_optimum_of_libsvm():
    rng = np.random.default_rng(5)
    Z = rng.standard_normal((10_000, 20))
    t = np.sin(Z[:, 0] * 2) + Z[:, 1] * Z[:, 2] + 0.3 * rng.standard_normal(len(Z)) > 0
    ours, peer = SVC(cache_size=1000).fit(Z, t), theirs.SVC(cache_size=1000).fit(Z, t)
    new = rng.standard_normal((1000, 20))
    assert_allclose(ours.decision_function(new), peer.decision_function(new), atol=5e-3)
    assert not {"feasible", "near_optimum", "slackness"} & set(ours.certify(Z, t).failed)
