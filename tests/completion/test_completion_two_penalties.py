"""A λ for rows and another for columns: the completed matrix is that of their geometric mean, the factors are not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from lemmata.completion import ALS, SGDFactorization

RNG = np.random.default_rng(0)
A = RNG.normal(size=(14, 2)) @ RNG.normal(size=(2, 11)) + 0.2 * RNG.normal(size=(14, 11))
X = np.where(RNG.random(A.shape) < 0.7, A, np.nan)
ROW, COLUMN = 0.9, 0.1


def objective(z, regs=(ROW, COLUMN)):
    """½ Σ_Ω (a − uᵀv)² + ½ λ_r ‖U‖² + ½ λ_c ‖V‖², as the ML notes have it."""
    U, V = z[: 14 * 11].reshape(14, 11), z[14 * 11 :].reshape(11, 11)
    R = np.nan_to_num(X - U @ V.T)
    slope = np.concatenate([(regs[0] * U - R @ V).ravel(), (regs[1] * V - R.T @ U).ravel()])
    return 0.5 * (R**2).sum() + 0.5 * regs[0] * (U**2).sum() + 0.5 * regs[1] * (V**2).sum(), slope


def test_als_minimises_the_objective_of_the_notes():
    model = ALS(11, reg=(ROW, COLUMN), reg_weighting="plain", biases=False, random_state=0)
    model.set_params(tol=1e-12, max_iter=500).fit(X)
    z = np.concatenate([model.U_.ravel(), model.V_.ravel()])
    value, slope = objective(z)
    assert value == pytest.approx(model.loss_)
    assert np.abs(slope).max() < 1e-4
    best = minimize(
        objective, RNG.normal(size=25 * 11), jac=True
    )  # at full rank every minimum is one
    assert model.loss_ == pytest.approx(best.fun, rel=1e-5)
    assert "global_optimum" in model.certify(X).held


@pytest.mark.parametrize(
    "model",
    [
        ALS(2, random_state=0, tol=1e-10, max_iter=300),
        ALS(2, random_state=0, nonnegative=True),
        ALS(2, random_state=0, reg_weighting="plain"),
        SGDFactorization(2, random_state=0),
    ],
    ids=repr,
)
def test_two_penalties_complete_as_their_geometric_mean(model):
    rows = X[:4]
    one = model.set_params(reg=0.3).fit(X)
    known, folded = one.complete(), one.fold_in(rows).factors
    lengths, loss = np.linalg.norm(one.U_, axis=0), one.loss_
    two = model.set_params(reg=(ROW, COLUMN)).fit(X)
    assert (two.reg_, two.reg_ratio_) == (pytest.approx(0.3), pytest.approx(9))
    assert_allclose(two.complete(), known, atol=1e-6)
    assert_allclose(np.linalg.norm(two.U_, axis=0), lengths / 3**0.5)
    assert_allclose(two.fold_in(rows).factors, folded / 3**0.5, atol=1e-6)
    assert two.loss_ == pytest.approx(loss)
    assert "statements_true" not in two.certify(X).failed


def test_a_fit_goes_on_from_its_own_factors():
    model = ALS(2, reg=(ROW, COLUMN), random_state=0, tol=1e-8, max_iter=300).fit(X)
    before = model.complete(), model.loss_
    model.update(X, sweeps=2)
    assert_allclose(model.complete(), before[0], atol=1e-3)
    assert model.loss_ <= before[1] * (1 + 1e-12)
    new = model.fold_in(X[:, :3], axis="columns")
    assert_allclose(new.factors, model.V_[:3], atol=1e-3)


def test_factors_of_other_lengths_are_found_out():
    model = ALS(2, reg=(ROW, COLUMN), random_state=0).fit(X)
    model.reg_ratio_ = 1.0
    assert {"statements_true", "fixed_point"} <= set(model.certify(X).failed)


@pytest.mark.parametrize("reg", [(0, 1), (1.0, np.inf), (1, 2, 3), (1, "a"), (-1, -1)])
@pytest.mark.parametrize("cls", [ALS, SGDFactorization])
def test_a_pair_that_has_no_minimum_is_refused(cls, reg):
    with pytest.raises(ValueError, match="two numbers > 0"):
        cls(2, reg=reg).fit(X)
