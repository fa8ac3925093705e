"""A λ for rows and another for columns complete as their geometric mean; a nuclear norm and a ridge on the whole matrix."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import lemmata
from lemmata.completion import ALS, SGDFactorization, SoftImpute

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


# --- ½γ‖X‖² beside λ‖X‖_* (CIL24 2.2) ---


def soft(ridge, **more):
    settings = {"centre": "none", "tol": 1e-13, "max_iter": 3000, "random_state": 0} | more
    return SoftImpute(0.4, ridge=ridge, **settings).fit(X)


@pytest.mark.parametrize("compiled", ["never", "always"])
@pytest.mark.parametrize("ridge", [0.1, 2.0])
def test_the_residual_is_a_subgradient_of_both_penalties(ridge, compiled):
    """R − γX = λPQᵀ + W with PᵀW = 0, WQ = 0, ‖W‖₂ ≤ λ."""
    with lemmata.config(compile=compiled):
        model = soft(ridge)
    P, Q = (part / np.sqrt(model.singular_values_) for part in (model.U_, model.V_))
    known = model.complete(keep_known=False)
    W = np.nan_to_num(X - known) - ridge * known - 0.4 * P @ Q.T
    assert max(np.abs(P.T @ W).max(), np.abs(W @ Q).max()) < 1e-5
    assert np.linalg.norm(W, 2) <= 0.4 * (1 + 1e-5)
    loss = 0.5 * np.nansum((X - known) ** 2) + 0.4 * model.singular_values_.sum()
    loss += 0.5 * ridge * np.sum(known**2)
    assert model.trace_.last() == pytest.approx(loss, rel=1e-9)
    assert_allclose(model.fold_in(X).factors, model.U_, atol=1e-4)
    found = model.explain(0, 1)
    assert abs(found.remainder) < 1e-3
    assert {"least_penalised", "first_order_point", "statements_true"} <= set(model.certify(X).held)


def test_known_everywhere_the_optimum_is_shrunk_and_scaled():
    model = SoftImpute(0.5, ridge=1.0, centre="none", tol=1e-13, max_iter=999).fit(A)
    s = np.linalg.svd(A, compute_uv=False)
    assert_allclose(model.singular_values_, (s[s > 0.5] - 0.5) / 2, rtol=1e-6)


def test_a_fit_without_its_second_penalty_is_found_out():
    model = soft(2.0)
    model.ridge_ = 0.0
    assert {"least_penalised", "statements_true"} <= set(model.certify(X).failed)
    plain = soft(0.0)
    plain.ridge_ = 2.0
    assert "least_penalised" in plain.certify(X).failed


def test_a_file_of_before_the_second_penalty_opens(tmp_path):
    model = soft(0.0)
    names = [*SoftImpute.stored]
    kept = {name: value for name, value in vars(model).items() if name.endswith("_")}
    parameters = {name: value for name, value in model.get_params().items() if name != "ridge"}
    assert any("ridge_" in name for name in names)
    old = SoftImpute.restored(parameters, {k: v for k, v in kept.items() if k != "ridge_"})
    assert_allclose(old.fold_in(X).factors, model.fold_in(X).factors)
    assert "least_penalised" in old.certify(X).held


def test_a_negative_ridge_is_refused():
    with pytest.raises(ValueError, match="ridge"):
        soft(-1.0)
