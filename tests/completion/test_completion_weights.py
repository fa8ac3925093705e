"""Weights of explicit entries: two is an entry known twice, none is an entry that is not known, one changes nothing."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import lemmata
from lemmata.audit.completion.factored_objective import Factored, Factors
from lemmata.audit.completion.optimality.curvature import curve
from lemmata.completion import ALS, Observed, SGDFactorization
from lemmata.completion.als.algorithm import ALSAlgorithm, ALSState
from lemmata.completion.als.saddles import Hessian
from lemmata.completion.data.entries import Entries, WeightedEntries, transpose
from lemmata.completion.rows.solver import RowSolver
from lemmata.completion.witness import along

HOW = {
    "cholesky": {"method": "cholesky"},
    "cg": {"method": "cg"},
    "nonnegative": {"nonnegative": True},
}


def planted(seed=0, n=40, m=30, k=2, density=0.6, noise=0.1, dtype=np.float64):
    """A matrix of rank k with holes, and whole weights from 1 to 3 for its entries."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, k)) @ rng.standard_normal((k, m)) + 3
    A += noise * rng.standard_normal(A.shape)
    A[rng.random(A.shape) > density] = np.nan
    known = Observed.of(A.astype(dtype))
    return known, rng.integers(1, 4, known.n_observed).astype(dtype)


def repeated(A, times):
    """The entries of A, each so many times: what whole weights stand for."""
    rows, columns = np.repeat(A.rows, times), np.repeat(A.columns, times)
    indptr = np.r_[0, np.cumsum(np.bincount(rows, minlength=A.shape[0]))]
    by_row = Entries(indptr.astype(np.int64), columns, np.repeat(A.values, times))
    order = np.argsort(columns, kind="stable")
    indptr = np.r_[0, np.cumsum(np.bincount(columns, minlength=A.shape[1]))]
    by_column = Entries(indptr.astype(np.int64), rows[order], by_row.values[order])
    return Observed(by_row, by_column, A.shape)


# --- what a weight means ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compile", ["always", "never"])
@pytest.mark.parametrize("parameters", [{}, {"reg": 0.3}, {"reg": 0.3, "reg_weighting": "plain"}])
def test_a_weight_of_two_is_an_entry_known_twice(parameters, compile):
    A, w = planted()
    twice = repeated(A, w.astype(int))
    with lemmata.config(compile=compile, certificate=False):
        fits = [
            ALS(rank=2, tol=0, max_iter=10, random_state=0, **parameters).fit(X, weights=weights)
            for X, weights in ((A, w), (twice, None))
        ]
    assert fits[0].reg_ == pytest.approx(fits[1].reg_, rel=1e-9)
    assert fits[0].mean_ == pytest.approx(fits[1].mean_, rel=1e-12)
    assert fits[0].loss_ == pytest.approx(fits[1].loss_, rel=1e-9)
    np.testing.assert_allclose(fits[0].complete(keep_known=False), fits[1].complete(keep_known=False), rtol=1e-7)  # fmt: skip


def test_a_weight_of_zero_is_an_entry_that_is_not_known():
    A, w = planted()
    w[::3] = 0
    fits = [
        ALS(rank=2, random_state=0).fit(X, weights=weights)
        for X, weights in ((A, w), (A.select(w > 0), w[w > 0]))
    ]
    assert fits[0].observed_.n_observed == int((w > 0).sum())
    np.testing.assert_array_equal(fits[0].U_, fits[1].U_)
    assert fits[0].loss_ == fits[1].loss_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("how", HOW)
def test_weights_of_one_have_the_bits_of_no_weights(how, dtype):
    A, _ = planted(dtype=dtype)
    for compile in ("always", "never"):
        with lemmata.config(compile=compile, certificate=False):
            model = ALS(rank=3, max_iter=3, tol=0, random_state=0, **HOW[how])
            plain, ones = (
                lemmata.ALS(**model.get_params()).fit(A, weights=w)
                for w in (None, np.ones(A.n_observed))
            )
        for name in ("U_", "V_", "row_bias_", "column_bias_", "loss_", "mean_", "reg_"):
            np.testing.assert_array_equal(getattr(plain, name), getattr(ones, name), err_msg=name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("how", HOW)
def test_rows_with_weights_are_least_squares_of_entries_times_their_roots(how, dtype):
    """Each row by hand in float64, then kernels and twins: solutions and losses."""
    A, w = planted(1, dtype=dtype)
    w = (w * np.random.default_rng(2).gamma(1.0, size=len(w)) + 1e-3).astype(dtype)
    V = np.random.default_rng(3).standard_normal((A.shape[1], 5)).astype(dtype)
    shift = np.linspace(-1, 1, A.shape[1]).astype(dtype)
    entries = WeightedEntries.of(A.by_row, w)
    solver = RowSolver(0.2, weighted=0.5, bias=True, bias_reg=0.7, cg_steps=60, **HOW[how])
    found = [replace(solver, compiled=c)(entries, V, shift) for c in (True, False)]
    tolerance = 2e-3 if dtype == np.float32 else 1e-7
    for W, losses in found:
        for i in range(A.shape[0]):
            here = slice(*A.by_row.indptr[i : i + 2])
            own, j = w[here].astype(float), A.by_row.indices[here]
            X = np.c_[V[j], np.ones(len(j))].astype(float)
            a = A.by_row.values[here].astype(float) - shift[j]
            ridge = np.r_[np.full(5, 0.2 * own.sum() ** 0.5), 0.7]
            x = W[i].astype(float)
            gradient = X.T @ (own * (X @ x - a)) + ridge * x
            size = np.abs(X.T @ (own * a)) + ridge * np.abs(x) + 1
            if how == "nonnegative":
                assert x[:5].min() >= 0
                gradient[:5] = np.minimum(gradient[:5], 100 * x[:5])
            assert (np.abs(gradient) <= tolerance * size).all()
            by_hand = 0.5 * (own @ (a - X @ x) ** 2 + ridge @ x**2)
            assert losses[i] == pytest.approx(by_hand, rel=100 * tolerance, abs=tolerance)
    np.testing.assert_allclose(found[0][0], found[1][0], atol=30 * tolerance)


def test_singular_rows_with_weights_get_their_shortest_solution():
    """Two entries, five unknowns, λ = 0: the solution of √w (a − Xw) = 0 with the least length does not depend on w."""
    A = Observed.of(np.array([[1.0, 2.0, np.nan, np.nan]]))
    V = np.random.default_rng(0).standard_normal((4, 5))
    plain, _ = RowSolver(0.0)(A.by_row, V)
    for compiled in (True, False):
        weighted, _ = RowSolver(0.0, compiled=compiled)(
            WeightedEntries.of(A.by_row, np.array([0.1, 7.0])), V
        )
        np.testing.assert_allclose(weighted, plain, rtol=1e-10)


def test_weights_by_the_noise_recover_what_equal_weights_lose():
    """Rank 2, three entries of four with 20 times the noise: 1/σ² makes the error of the completion less than half."""
    rng = np.random.default_rng(5)
    truth = rng.standard_normal((120, 2)) @ rng.standard_normal((2, 90))
    noise = np.where(rng.random(truth.shape) < 0.75, 2.0, 0.1)
    X = truth + noise * rng.standard_normal(truth.shape)
    model = ALS(rank=2, reg=1e-3, biases=False, tol=1e-9, max_iter=300, random_state=0)
    equal, right = (
        np.abs(model.fit(X, weights=w).complete(keep_known=False) - truth).mean()
        for w in (None, 1 / noise**2)
    )
    assert right < 0.5 * equal
    assert right < 0.06
    assert model.certificate_.failed in ([], ["global_optimum"])


# --- the certificate knows them ---------------------------------------------------------------------------------------


def test_slopes_and_curvatures_of_weighted_objectives_are_those_of_differences():
    A, w = planted(2, n=6, m=5)
    A = A.weighted(w)
    rng = np.random.default_rng(0)

    def point():
        return Factors(*(rng.standard_normal(s) for s in ((6, 2), (5, 2), 6, 5)))

    at, d = point(), point()
    given = {"reg": 0.3, "weighted": 0.5, "bias_reg": 0.2, "biased": True}

    def F(x):
        return Factored.of(A, x.U, x.V, row_bias=x.b, column_bias=x.c, **given)

    by_hand = A.dense() - at.b[:, None] - at.c - at.U @ at.V.T
    dense = np.zeros(A.shape)
    dense[A.rows, A.columns] = A.weights
    assert F(at).loss == pytest.approx(0.5 * np.nansum(dense * by_hand**2), rel=1e-12)
    h = 1e-5
    slope = (F(at.move(h, d)).objective - F(at.move(-h, d)).objective) / (2 * h)
    assert F(at).gradient.dot(d) == pytest.approx(slope, rel=1e-7)
    ahead, back = F(at.move(h, d)).gradient, F(at.move(-h, d)).gradient
    second = (ahead.dot(d) - back.dot(d)) / (2 * h)
    assert curve(F(at), d).dot(d) == pytest.approx(second, rel=1e-6)
    assert np.polyval(along(F(at), d)[::-1], 0.7) == pytest.approx(F(at.move(0.7, d)).objective)
    algorithm = ALSAlgorithm(2, 0.3, weighted=0.5, bias_reg=0.2)
    hessian = Hessian.at(algorithm, A, ALSState(*at, 0.0, np.inf))
    y = rng.standard_normal(len(hessian.scale))
    curved = curve(F(at), Factors(*hessian.direction(y)))
    wanted = hessian.scale * np.concatenate([part.ravel() for part in curved])
    np.testing.assert_allclose(hessian.times(y[:, None])[:, 0], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_certificate_of_a_weighted_fit_is_that_of_its_own_objective(dtype):
    A, w = planted(3, dtype=dtype)
    w = w * np.random.default_rng(1).gamma(0.3, size=len(w)) + 1e-6
    model = ALS(rank=2, reg=0.05, tol=1e-8, max_iter=500, random_state=0).fit(A, weights=w)
    found = model.certify(A)
    wanted = {"statements_true", "never_rose", "fixed_point", "first_order_point"}
    assert wanted <= set(found.held), found
    # the same factors are no first-order point of the unweighted objective, nor is that their loss
    lenient = lemmata.certify(_with(model, A), A)
    assert {"statements_true", "first_order_point"} <= set(lenient.failed), lenient


def _with(model, A):
    """The model as if it had been fitted to entries without weights."""
    from copy import copy

    other = copy(model)
    other.observed_ = A
    return other


def test_enough_factors_are_certified_as_the_best_of_any_rank():
    A, w = planted(4)
    model = ALS(rank=15, reg=3.0, reg_weighting="plain", biases=False, tol=1e-10, max_iter=500)
    assert "global_optimum" in model.fit(A, weights=w).certify(A).held


def test_other_entries_need_weights_of_their_own():
    A, w = planted()
    model = ALS(rank=2, random_state=0).fit(A, weights=w)
    with pytest.raises(ValueError, match="the fit had weights"):
        model.certify(A.select(np.arange(A.n_observed) > 5))
    assert model.certify(A.weighted(2 * w)).failed != model.certify(A).failed


# --- the door ---------------------------------------------------------------------------------------------------------


def test_weights_come_as_numbers_or_as_a_matrix():
    A, w = planted()
    dense = np.full(A.shape, np.nan)
    dense[A.rows, A.columns] = w
    sparse = sp.csr_array((w, A.by_row.indices, A.by_row.indptr), shape=A.shape)
    for given in (dense, sparse, w.tolist()):
        np.testing.assert_array_equal(A.weighted(given).weights, w)
    by_column = A.weighted(w).by_column
    np.testing.assert_array_equal(by_column.weights, transpose(A.with_values(w).by_row, A.shape).values)  # fmt: skip
    np.testing.assert_array_equal(A.weighted(w).T.weights, by_column.weights)
    np.testing.assert_allclose(A.weighted(w).row_masses, np.nansum(dense, axis=1))
    assert A.weighted(w).weighted(None).weights is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w[1:], "one for each of the"),
        (lambda w: -w, "finite numbers >= 0"),
        (lambda w: w * np.nan, "finite numbers >= 0"),
        (lambda w: w * np.inf, "finite numbers >= 0"),
        (lambda w: 0 * w, "all weights are 0"),
        (lambda w: w * 5e307, "too large"),
        (lambda w: ["much"] * len(w), "no number"),
    ],
)
def test_bad_weights_are_refused_with_what_to_do(change, message):
    A, w = planted()
    with pytest.raises(ValueError, match=message):
        ALS(rank=2).fit(A, weights=change(w))


def test_models_that_know_no_weights_refuse_them(tmp_path):
    A, w = planted()
    with pytest.raises(ValueError, match="SGDFactorization does not know"):
        SGDFactorization(rank=2).fit(A.weighted(w))
    with pytest.raises(ValueError, match="weights of its own"):
        ALS(rank=2, feedback="implicit").fit(A.with_values(np.abs(A.values)), weights=w)
    with pytest.raises(ValueError, match="a folder holds no weights"):
        A.weighted(w).save(tmp_path)


def test_files_keep_weights(tmp_path):
    A, w = planted()
    model = ALS(rank=2, random_state=0).fit(A, weights=w)
    lemmata.save(model, tmp_path / "w.lemma")
    again = lemmata.load(tmp_path / "w.lemma")
    np.testing.assert_array_equal(again.observed_.weights, w)
    assert again.certify(A).held == model.certify(A).held
