"""Kernel ridge regression, Mercer and feature maps: identities, and whose fits they certify."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_diabetes
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge

import lemmata
from lemmata.audit.predict.kernels import grams
from lemmata.audit.predict.kernels.foreign import kernel_of
from lemmata.audit.predict.kernels.grams import kernel_by_rules
from lemmata.audit.predict.kernels.kernel_ridge import KERNEL_RIDGE_CLAIMS, ridge
from lemmata.core import Blocks, Fit
from lemmata.predict.kernels import RBF, Constant, Cosine, Linear, Polynomial, Sigmoid

NAMES = [statement.name for statement in KERNEL_RIDGE_CLAIMS]


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:150] * 10, y[:150] / 50


def fit_of(model, X, y, weights=None):
    return Fit(
        model, Blocks.of(X, weights).with_targets(y), y, weights, attributes=kernel_of(model)
    )


def test_the_residual_is_the_gap(diabetes):
    """P − D = ½ Σ s r², and the least possible lies between the two."""
    X, y = diabetes
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 2, len(y))
    model = KernelRidge(kernel="rbf", gamma=0.1, alpha=0.3).fit(X, y, sample_weight=s)
    K = np.exp(-0.1 * ((X[:, None] - X[None]) ** 2).sum(axis=2))

    def primal(c):
        return 0.5 * s @ (y - K @ c) ** 2 + 0.15 * c @ K @ c

    best = primal(model.dual_coef_)
    for size in (0.0, 0.1, 3.0):
        c = model.dual_coef_ + size * rng.standard_normal(len(y))
        changed = copy.deepcopy(model)
        changed.dual_coef_ = c
        found = ridge(fit_of(changed, X, y, s))
        dual = 0.3 * (c @ y - 0.5 * c @ (K + 0.3 * np.diag(1 / s)) @ c)
        assert found.primal[0] == pytest.approx(primal(c))
        assert found.primal[0] - found.gap[0] == pytest.approx(dual, abs=1e-9 * primal(c))
        assert dual <= best * (1 + 1e-12)


def test_rows_of_weight_zero_are_no_reason_to_say_nothing(diabetes):
    X, y = diabetes
    s = (np.arange(len(y)) % 5 > 0).astype(float)
    model = lemmata.KernelRidge(kernel="rbf", gamma=0.1, alpha=0.3).fit(X, y, sample_weight=s)
    assert lemmata.certify(model, X, y, sample_weight=s)["near_optimum"].verdict == "holds"
    model.dual_coef_[0] = 1.0
    found = lemmata.certify(model, X, y, sample_weight=s)["near_optimum"]
    assert "rows of weight 0 have coefficients" in str(found)


@pytest.mark.parametrize("cls", [KernelRidge, lemmata.KernelRidge])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian", "cosine"])
def test_healthy_fits_keep_every_promise(cls, kernel, diabetes):
    X, y = diabetes
    Y = np.c_[y, -2 * y]
    for target in (y, Y):
        found = lemmata.certify(cls(alpha=0.5, kernel=kernel, gamma=0.1).fit(X, target), X, target)
        assert found.held == NAMES, found


def test_one_alpha_per_target_and_sparse_rows(diabetes):
    X, y = diabetes
    Y = np.c_[y, y**2]
    model = KernelRidge(alpha=np.array([0.1, 10.0])).fit(X, Y)
    assert lemmata.certify(model, X, Y).held == NAMES
    rows = sp.csr_array(np.where(np.abs(X) > 0.3, X, 0))
    assert lemmata.certify(KernelRidge().fit(rows, y), rows, y).held == NAMES
    pairs = KernelRidge(kernel=lambda a, b: float(a @ b) + 1.0).fit(X, y)
    assert lemmata.certify(pairs, X, y).held == NAMES


def test_coefficients_that_do_not_solve_the_system_fail(diabetes):
    X, y = diabetes
    model = KernelRidge(kernel="rbf", alpha=0.5).fit(X, y)
    for changes in ({"dual_coef_": 1.01 * model.dual_coef_}, {"alpha": 0.6}):
        changed = copy.deepcopy(model)
        for name, value in changes.items():
            setattr(changed, name, value)
        assert "solves_system" in lemmata.certify(changed, X, y).failed
    assert "statements_true" in lemmata.certify(model, X[::-1].copy(), y).failed
    assert lemmata.certify(model, X[:100], y[:100])["near_optimum"].verdict == "can't tell"


def test_what_a_search_finds_is_checked_and_not_believed(diabetes, monkeypatch):
    X, y = diabetes
    model = KernelRidge(kernel="rbf", gamma=0.1).fit(X, y)
    best = model.dual_coef_.copy()
    model.dual_coef_ = 1.05 * best
    found = lemmata.certify(model, X, y)["near_optimum"]
    assert found.verdict == "fails"
    np.testing.assert_allclose(found.witness["better_coefficients"], best, rtol=1e-6)
    with lemmata.config(searches=False):
        assert lemmata.certify(model, X, y)["near_optimum"].verdict == "can't tell"
    for lie in (np.full(150, np.nan), np.full(150, np.inf), 1e12 * best, np.zeros(150)):
        name = "lemmata.predict.svm.witness.better_ridge"
        monkeypatch.setattr(name, lambda *_, lie=lie: lie)
        assert lemmata.certify(model, X, y)["near_optimum"].verdict == "can't tell"


def test_alpha_zero_has_no_gap(diabetes):
    X, y = diabetes
    found = lemmata.certify(KernelRidge(kernel="rbf", alpha=0.0).fit(X, y), X, y)
    assert found["near_optimum"].verdict == "can't tell"
    assert found["solves_system"].verdict == "holds"


def test_many_rows_have_bounds_without_eigenvalues(diabetes, monkeypatch):
    monkeypatch.setattr(grams, "SOLVE", 50)
    monkeypatch.setattr(grams, "TILE", 1000)
    X, y = diabetes
    found = lemmata.certify(KernelRidge(kernel="rbf", alpha=0.5).fit(X, y), X, y)
    assert found.held == NAMES
    tiny = lemmata.certify(KernelRidge(kernel="rbf", alpha=1e-9).fit(X, y), X, y)
    assert tiny["well_conditioned"].verdict == "can't tell"


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (RBF(0.1) + 2 * Linear(), True),
        (RBF(0.1) * Polynomial(2, gamma=1.0, coef0=0.5), True),
        (Cosine() + Constant(3.0), True),
        (RBF(0.1) + Sigmoid(gamma=0.1), False),
        (Polynomial(2, gamma=1.0, coef0=-1.0), False),
    ],
)
def test_sums_and_products_of_kernels_are_kernels(kernel, expected):
    class Model:
        pass

    model = Model()
    model.kernel = model.kernel_ = kernel
    assert kernel_by_rules(Fit(model)) == expected


def test_one_negative_direction_is_proof_and_rounding_is_none(diabetes):
    X, y = diabetes
    K = X @ X.T  # of rank 10: most eigenvalues are rounding
    model = KernelRidge(kernel="precomputed").fit(K, y)
    assert lemmata.certify(model, K, y)["mercer"].verdict == "holds"
    v = np.linalg.qr(np.random.default_rng(0).standard_normal((150, 1)))[0]
    wrong = K - 1e-6 * np.linalg.norm(K, 2) * (v @ v.T)
    found = lemmata.certify(KernelRidge(kernel="precomputed").fit(wrong, y), wrong, y)
    assert found["mercer"].verdict == "fails"
    assert found["near_optimum"].verdict == "can't tell"


def test_feature_maps_of_both_libraries(diabetes):
    X, _ = diabetes
    for cls in (Nystroem, lemmata.Nystroem):
        found = lemmata.certify(cls(gamma=0.05, n_components=100, random_state=0).fit(X), X)
        assert not found.failed
        assert not found.broken
        few = lemmata.certify(cls(gamma=1.0, n_components=3, random_state=0).fit(X), X)
        assert few.failed == ["little_missed"]
    many, few = (RBFSampler(gamma=0.05, n_components=k, random_state=0).fit(X) for k in (400, 10))
    assert not lemmata.certify(many, X).failed
    assert lemmata.certify(few, X).failed == ["near_kernel"]
