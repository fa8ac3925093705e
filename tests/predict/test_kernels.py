"""Kernels against their definitions, Mercer's conditions and scikit-learn."""

import json
import math
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import (
    laplacian_kernel,
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
)
from sklearn.svm import SVC

from lemmata.core import rounding
from lemmata.core.engine import cores
from lemmata.core.store import decode, encode
from lemmata.predict import mercer
from lemmata.predict.kernels import (
    RBF,
    Constant,
    Kernel,
    Laplacian,
    Linear,
    PairFunction,
    Polynomial,
    Product,
    Sigmoid,
    Sum,
    kernel_of,
    tiles,
)

KERNELS = [
    Linear(),
    Polynomial(),
    Polynomial(degree=2, gamma=0.3, coef0=0.0),
    RBF(),
    RBF(gamma="scale"),
    0.5 * RBF(gamma=2.0) + Linear() * Polynomial(degree=2),
]
THEIRS = [
    (Linear(), linear_kernel, {}),
    (Polynomial(), polynomial_kernel, {}),
    (
        Polynomial(degree=5, gamma=0.1, coef0=2.0),
        polynomial_kernel,
        {"degree": 5, "gamma": 0.1, "coef0": 2.0},
    ),
    (RBF(), rbf_kernel, {}),
    (RBF(gamma=0.7), rbf_kernel, {"gamma": 0.7}),
]


def rows(n, d, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


def entry_error(K, d, degree=1):
    """An entry is a d-term product raised to a power; K² ≤ κ(x,x)κ(y,y), so its largest entry is on the diagonal."""
    return degree * rounding(K.dtype, d) * np.abs(K).max()


matrices = arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 4)),
    elements=st.floats(-30, 30, allow_subnormal=False),
)


# --- what they are ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("ours", "theirs", "parameters"), THEIRS)
def test_they_agree_with_scikit_learn(ours, theirs, parameters, seed, dtype):
    X, Y = rows(40, 7, seed, dtype), rows(30, 7, seed + 50, dtype)
    for args in ((X,), (X, Y)):
        K = ours(*args)
        assert K.dtype == dtype
        assert_allclose(
            K, theirs(*args, **parameters), atol=entry_error(K, 7, getattr(ours, "degree", 1))
        )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_sparse_rows_give_what_dense_rows_give(kernel, dtype):
    X = sp.random_array((60, 20), density=0.2, rng=0, dtype=np.float64).astype(dtype)
    Y = sp.random_array((33, 20), density=0.2, rng=1, dtype=np.float64).astype(dtype).tocsr()
    fitted = kernel.fitted(X.toarray())
    for other in (None, Y):
        dense = fitted(X.toarray(), None if other is None else other.toarray())
        for flavour in (sp.csr_array(X), sp.csc_array(X), sp.csr_matrix(X)):
            K = fitted(flavour, other)
            assert isinstance(K, np.ndarray)
            assert K.dtype == dtype
            assert_allclose(K, dense, atol=entry_error(dense, 20, degree=3))
    assert_allclose(
        fitted(X, Y.toarray()), fitted(X.toarray(), Y), atol=entry_error(dense, 20, degree=3)
    )
    assert_allclose(
        kernel.fitted(X)(X),
        kernel.fitted(X.toarray())(X.toarray()),
        atol=10 * entry_error(dense, 20, 3),
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@settings(max_examples=40)
@given(X=matrices)
def test_every_kernel_matrix_is_symmetric_and_positive_semidefinite(kernel, X):
    K = kernel(X)
    assert_array_equal(K, K.T)
    values = np.linalg.eigvalsh(K)
    scale = max(np.abs(K).max(), 1e-300)
    # ‖E‖ ≤ n·max|e|, degree ≤ 3 + sums
    assert values[0] >= -len(X) * 5 * rounding(K.dtype, X.shape[1]) * scale


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@settings(max_examples=40)
@given(X=matrices)
def test_the_cauchy_schwarz_inequality_holds_and_the_diagonal_is_the_diagonal(kernel, X):
    kernel = kernel.fitted(X)
    K, diagonal = kernel(X), kernel.diagonal(X)
    error = 5 * rounding(K.dtype, X.shape[1])
    assert_allclose(np.diag(K), diagonal, rtol=error, atol=1e-300)
    lengths = np.sqrt(diagonal)  # below 1e-154 a square is no longer a number
    assert (
        np.abs(K) <= np.multiply.outer(lengths, lengths) * (1 + error) + 1e-152 * lengths.max()
    ).all()


def test_a_polynomial_of_degree_two_is_the_product_of_its_features():
    X = rows(20, 3)
    pairs = [(i, j) for i in range(3) for j in range(i, 3)]
    # (γxᵀy + c)²: squares γx_i², mixed γ√2·x_i x_j, linear √(2γc)·x_i, constant c
    gamma, c = 0.6, 1.5
    mixed = np.column_stack(
        [gamma * X[:, i] * X[:, j] * (1 if i == j else math.sqrt(2)) for i, j in pairs]
    )
    features = np.column_stack([mixed, math.sqrt(2 * gamma * c) * X, np.full(20, c)])
    K = Polynomial(degree=2, gamma=gamma, coef0=c)(X)
    assert_allclose(K, features @ features.T, atol=entry_error(K, 3, 2))


def test_the_gaussian_in_one_dimension_has_the_features_of_its_taylor_series():
    x = np.linspace(-1, 1, 9)[:, None]
    k = np.arange(40)  # the remainder 2^40/40! is 1e-36
    scale = np.sqrt(2.0**k / np.array([float(math.factorial(i)) for i in k]))
    features = np.exp(-(x**2)) * scale * x**k
    assert_allclose(RBF(gamma=1.0)(x), features @ features.T, atol=rounding(float, len(k)))


@settings(max_examples=20)
@given(X=matrices, c=st.floats(0, 5))
def test_sums_products_and_multiples_are_those_of_the_matrices(X, c):
    a, b = RBF(gamma=0.1), Polynomial(degree=2, gamma=0.5)
    assert_array_equal((a + b)(X), a(X) + b(X))
    assert_array_equal((a * b)(X), a(X) * b(X))
    assert_array_equal((c * a)(X), c * a(X))
    assert_array_equal((a * c)(X), c * a(X))
    assert_array_equal((c + a)(X), c + a(X))
    assert_array_equal((np.float64(c) * a)(X), c * a(X))


def test_a_combined_kernel_takes_its_open_parameters_from_the_data():
    X = rows(30, 4) * 3
    kernel = (RBF(gamma="scale") + 2 * Polynomial()).fitted(X)
    assert kernel.left.gamma == pytest.approx(1 / (4 * X.var()))
    assert kernel.right.right.gamma == 0.25


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e8])
def test_distances_far_from_the_origin_keep_their_digits(offset):
    X = rows(50, 3)
    X = (X + offset) - offset  # numbers that stay exact when the offset is added again
    K = RBF(gamma=0.5)(X + offset)
    exact = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    # as at the origin
    assert_allclose(K, exact, atol=rounding(float, 3) * (X**2).sum(axis=1).max())


def test_close_pairs_in_float32_are_not_lost_among_distant_ones():
    X = np.concatenate([rows(20, 5), rows(20, 5) + 300]).astype(np.float32)
    exact = np.exp(-0.5 * ((X[:, None].astype(float) - X[None].astype(float)) ** 2).sum(axis=2))
    assert_allclose(RBF(gamma=0.5)(X), exact, atol=8 * np.finfo(np.float32).eps)


@pytest.mark.parametrize(
    "kernel",
    [*KERNELS, PairFunction(lambda x, y: float(x @ y))],
    ids=lambda kernel: repr(kernel).split(" at 0x")[0],
)
def test_tiles_give_what_one_piece_gives(kernel, monkeypatch):
    X, Y = rows(47, 3), rows(38, 3, 1)
    fitted = kernel.fitted(X)
    whole, across = fitted(X), fitted(X, Y)
    monkeypatch.setattr(tiles, "TILE", 10)
    assert_allclose(fitted(X), whole, atol=entry_error(whole, 3, 5))
    assert_allclose(fitted(X, Y), across, atol=entry_error(whole, 3, 5))
    assert_array_equal(fitted(X), fitted(X).T)


def test_one_thread_and_four_give_the_same_bits(monkeypatch):
    X = rows(1300, 6)
    results = []
    for threads in ("1", "4"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        results.append((0.5 * RBF() + Polynomial())(X))
    assert_array_equal(*results)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(), RBF()], ids=repr)
@pytest.mark.parametrize("sparse", [False, True])
def test_nothing_larger_than_the_result_is_made(kernel, sparse):
    X = sp.random_array((3000, 30), density=0.3, rng=0).tocsr() if sparse else rows(3000, 30)
    kernel(X[:5])  # what is imported on first use is not the kernel's
    tracemalloc.start()
    K = kernel(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    tile = 8 * tiles.TILE**2
    # a handful of tiles per thread, whatever n
    assert peak <= K.nbytes + 12 * cores() * tile


# --- parameters -------------------------------------------------------------------------------------------------------


def test_gamma_means_what_scikit_learn_means():
    X, y = rows(40, 5) * 2 + 1, np.arange(40) % 2
    for name in ("scale", "auto"):
        for data in (X, sp.csr_array(np.where(X > 1, X, 0))):
            assert RBF(gamma=name).fitted(data).gamma == pytest.approx(
                SVC(gamma=name).fit(data, y)._gamma, rel=1e-12
            )
    assert RBF().fitted(X).gamma == RBF(gamma="auto").fitted(X).gamma == 1 / 5
    assert RBF(gamma="scale").fitted(np.ones((3, 2))).gamma == 1.0
    assert RBF(gamma=0.3).fitted(X) == RBF(gamma=0.3)


def test_a_scale_is_measured_on_training_rows_only():
    with pytest.raises(ValueError, match=r"call kernel.fitted\(X\) first"):
        RBF(gamma="scale")(rows(3, 2), rows(4, 2))


def test_names_objects_and_functions_become_kernels():
    assert kernel_of("linear", gamma=1.0, degree=2) == Linear()
    assert kernel_of("poly", gamma=1.0, degree=2, coef0=0) == Polynomial(2, 1.0, 0)
    assert kernel_of("rbf", gamma=0.1, coef0=3) == RBF(0.1)
    combined = RBF(0.1) + Linear()
    assert kernel_of(combined) is combined
    X = rows(6, 2)
    assert_allclose(
        kernel_of(lambda x, y, power: (x @ y) ** power, power=2)(X), (X @ X.T) ** 2, atol=1e-12
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kernel_of("gauss"), "kernel is 'gauss'; pass one of 'linear', 'poly'"),
        (lambda: kernel_of(RBF), "the class RBF, not an instance"),
        (lambda: kernel_of(3), "kernel is 3; pass one of"),
        (
            lambda: kernel_of(RBF(), gamma=1.0),
            r"RBF\(gamma=None\) has its parameters already; leave out gamma",
        ),
        (lambda: RBF(gamma=-1), "gamma=-1; pass a finite number >= 0"),
        (lambda: RBF(gamma=float("nan")), "gamma=nan"),
        (lambda: RBF(gamma="big"), "gamma='big'"),
        (lambda: Polynomial(degree=0), "degree=0; a polynomial kernel has a whole degree >= 1"),
        (lambda: Polynomial(degree=2.5), "degree=2.5"),
        (lambda: Polynomial(coef0=np.inf), "coef0=inf"),
        (lambda: -1.0 * Linear(), "a number >= 0, not with -1.0"),
        (lambda: Linear() + "rbf", "not with a str"),
        (lambda: Linear()(np.ones(3)), r"rows of shape \(3,\)"),
        (lambda: Linear()(np.ones((2, 3)), np.ones((2, 4))), "X has 3 features and Y has 4"),
    ],
)
def test_what_is_no_kernel_is_refused_with_a_reason(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_unknown_parameter_is_named():
    with pytest.raises(
        TypeError, match="unknown kernel parameter 'gama'; there are gamma, degree and coef0"
    ):
        kernel_of("rbf", gama=1.0)


def test_a_kernel_that_says_nothing_says_what_is_missing():
    with pytest.raises(TypeError, match="define _tile"):
        Kernel()(np.ones((2, 2)))
    with pytest.raises(TypeError, match="define diagonal"):
        Kernel().diagonal(np.ones((2, 2)))


@pytest.mark.parametrize(
    "kernel", [*KERNELS, Constant(2.0), Sum(Linear(), RBF(1.0)), Product(RBF(), RBF())], ids=repr
)
def test_a_kernel_survives_a_file(kernel):
    assert decode(json.loads(json.dumps(encode(kernel, {}))), {}) == kernel


def test_integers_are_taken_as_floats_and_no_rows_give_an_empty_matrix():
    X = np.arange(6).reshape(3, 2)
    assert_array_equal(Linear()(X), X @ X.T)
    assert Linear()(X).dtype == np.float64
    assert RBF()(np.empty((0, 2)), X).shape == (0, 3)


def test_a_matrix_too_large_for_the_machine_is_known_in_advance(monkeypatch):
    assert tiles.memory() > 2**28
    assert tiles.too_large(1000, 8) == ""
    assert "the kernel matrix of 10,000,000 rows needs 745,058.1 GB" in tiles.too_large(10**7, 8)
    monkeypatch.delattr("os.sysconf")
    assert tiles.memory() == float("inf")
    assert tiles.too_large(10**7, 8, copies=5) == ""


# --- Mercer -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [*KERNELS, Laplacian(0.5), Laplacian() * Linear() + 1], ids=repr)
def test_mercer_holds_for_kernels_built_by_the_rules(kernel):
    found = mercer(kernel, rows(60, 3))
    assert (found.verdict, found.everywhere) == ("holds", True)
    assert found.bound == pytest.approx(
        -60 * np.finfo(float).eps * np.linalg.norm(kernel(rows(60, 3)), 2)
    )


@pytest.mark.parametrize(
    "kernel",
    [Sigmoid(1.0, -1.0), Polynomial(2, 1.0, -2.0), lambda x, y: -float(x @ y)],
    ids=["sigmoid", "polynomial", "function"],
)
def test_mercer_fails_with_a_witness_that_anybody_can_check(kernel):
    X = rows(60, 3)
    found = mercer(kernel, X)
    K = kernel_of(kernel)(X)
    assert (found.verdict, found.everywhere) == ("fails", False)
    assert found.witness @ K @ found.witness == pytest.approx(found.measured, rel=1e-9)
    assert found.measured < found.bound < 0


def test_mercer_of_some_rows_speaks_of_those():
    X = rows(500, 3)
    found = mercer(lambda x, y: float(x @ y), X, max_rows=40)
    assert len(found.rows) == 40
    assert not found.everywhere  # a function of ones own may be anything elsewhere
    assert "40 of the 500 rows" in found.note
    K = RBF(1.0)(X[:50])
    assert mercer("precomputed", K).verdict == "holds"
    K[0, 0] = -1.0
    assert mercer("precomputed", K).verdict == "fails"
    for bad, message in ((np.triu(K), "not symmetric"), (np.full((2, 2), np.inf), "not finite")):
        with pytest.raises(ValueError, match=message):
            mercer("precomputed", bad)


def test_the_laplacian_kernel_is_scikit_learns():
    X, Y = rows(30, 4), rows(20, 4, 1)
    for args in ((X,), (X, Y)):
        assert_allclose(Laplacian(0.3)(*args), laplacian_kernel(*args, gamma=0.3), atol=1e-12)
    assert_allclose(Laplacian()(X), laplacian_kernel(X), atol=1e-12)


@pytest.mark.parametrize("kernel", [*KERNELS, Laplacian()], ids=repr)
@pytest.mark.parametrize("sparse", [False, True])
def test_tiles_of_chosen_rows_are_those_of_the_matrix(kernel, sparse):
    X = rows(50, 4) + 100
    X = sp.csr_array(X) if sparse else X
    kernel = kernel.fitted(X)
    members, cuts = np.arange(10, 45), [slice(0, 20), slice(20, 35)]
    tile, K = kernel._against(X, members, cuts), kernel(X)
    for dtype in (np.float32, np.float64):
        found = np.hstack([tile(np.array([3, 30, 7]), c, np.dtype(dtype)) for c in (0, 1)])
        exact = K[members[[3, 30, 7]]][:, members]
        assert_allclose(found, exact, rtol=100 * np.finfo(dtype).eps + 1e-9 * sparse * 1e4)
