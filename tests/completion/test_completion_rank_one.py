"""The rank-one model against CIL 2.2: the flow solved by hand, its invariant, the saddle, the power steps, planted truth."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from sklearn.exceptions import ConvergenceWarning

from lemmata import RankOne
from lemmata.completion import Observed
from lemmata.completion.baselines.rank_one import (
    STRIDE,
    GradientFlowAlgorithm,
    PowerStepsAlgorithm,
    logistic_flow,
    time_to_reach,
)
from lemmata.completion.centring import HOW
from lemmata.core import MaxSteps, rounding, run

SEEDS = range(2)


def planted(seed=0, n=40, m=30, share=0.4, noise=0.0, dtype=np.float64):
    """A rank-one matrix with entries away from zero, and the same with holes; every row and column keeps one entry."""
    rng = np.random.default_rng(seed)
    u, v = (rng.choice([-1, 1], size) * rng.uniform(0.5, 2, size) for size in (n, m))
    X = np.outer(u, v)
    known = rng.random((n, m)) < share
    known[:, 0] = known[0] = True  # connected
    return X.astype(dtype), np.where(known, X + noise * rng.normal(size=(n, m)), np.nan).astype(
        dtype
    )


# --- one entry --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [1.0, 0.3, 2.5, 0.0, -0.7])
@pytest.mark.parametrize("c", [0.01, 0.4, 1.9, -0.5])
def test_the_logistic_solution_is_the_numerical_flow(a, c):
    t = np.linspace(0, 6, 13)
    flow = solve_ivp(
        lambda _, w: (a - w[0] * w[1]) * w[::-1], (0, 6), (c, c), t_eval=t, rtol=1e-11, atol=1e-13
    )
    assert_allclose(logistic_flow(a, c, t), flow.y[0] * flow.y[1], rtol=1e-7, atol=1e-10)


@given(st.floats(0.1, 10), st.floats(1e-3, 5), st.floats(1e-6, 0.09))
@settings(max_examples=80)
def test_at_the_time_to_reach_epsilon_the_flow_is_epsilon_away(a, c, eps):
    t = time_to_reach(a, c, eps)
    distance = abs(float(logistic_flow(a, c, t)) - a)
    if t == 0:
        assert abs(c * c - a) <= eps
    else:
        assert distance == pytest.approx(
            eps, rel=1e-6, abs=64 * np.finfo(float).eps * a * max(1, c * c / eps)
        )


def test_the_flow_starts_where_it_should_and_ends_at_a_or_in_the_saddle():
    assert logistic_flow(2.0, 0.3, 0.0) == pytest.approx(0.09)
    assert logistic_flow(2.0, 0.3, 1e6) == pytest.approx(2.0)
    assert logistic_flow(-2.0, 0.3, 1e6) == 0  # u = v is the way into the saddle if a < 0
    assert logistic_flow(0.0, 1.0, 2.0) == pytest.approx(1 / 5)
    assert (logistic_flow(1.0, 0.0, np.arange(3.0)) == 0).all()
    assert time_to_reach(1.0, 0.0, 0.1) == np.inf
    assert time_to_reach(1.0, 2.0, 0.1) > 0  # from above, which x = |a − ε| of the notes leaves out


@pytest.mark.parametrize(("a", "eps"), [(0.0, 0.1), (-1.0, 0.1), (1.0, 0.0), (1.0, np.nan)])
def test_times_need_a_positive_target_and_tolerance(a, eps):
    with pytest.raises(ValueError, match="> 0"):
        time_to_reach(a, 0.1, eps)


# --- the flow ---------------------------------------------------------------------------------------------------------


def dense_loss(A, known, u, v):
    return 0.5 * float((np.where(known, A - np.outer(u, v), 0) ** 2).sum())


@pytest.mark.parametrize("seed", SEEDS)
def test_loss_and_gradient_of_a_state_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    _, A = planted(seed, 9, 7)
    known, full = ~np.isnan(A), np.nan_to_num(A)
    u, v, h = rng.normal(size=9), rng.normal(size=7), 1e-5
    state = GradientFlowAlgorithm().at(Observed.of(A), u, v, 1.0)
    assert state.loss == pytest.approx(dense_loss(full, known, u, v), rel=1e-12)
    for i in range(9):  # central differences of a quadratic are exact but for rounding
        e = np.eye(9)[i] * h
        slope = (dense_loss(full, known, u + e, v) - dense_loss(full, known, u - e, v)) / (2 * h)
        assert -state.down_u[i] == pytest.approx(slope, abs=1e-6 * state.loss)
    assert_allclose(state.down_v, np.where(known, full - np.outer(u, v), 0).T @ u, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_the_loss_never_rises_and_the_difference_of_the_norms_is_conserved(seed, noise):
    _, A = planted(seed, noise=noise)
    trace = run(GradientFlowAlgorithm(), Observed.of(A), stop=MaxSteps(60), rng=seed).trace
    assert trace.largest_rise <= rounding(float, terms=A.size)
    imbalance = trace.extras["imbalance"]
    assert abs(imbalance[0]) < 1e-12
    assert np.abs(imbalance).max() < 0.1


def test_an_euler_step_changes_the_difference_of_the_norms_by_eta_squared_only():
    _, A = planted(1)
    algorithm, data = GradientFlowAlgorithm(), Observed.of(A)
    state = algorithm.init(data, np.random.default_rng(0))
    for _ in range(5):
        new = algorithm.step(state, data)
        eta = np.linalg.norm(new.u - state.u) / np.linalg.norm(state.down_u)
        predicted = eta**2 * (state.down_u @ state.down_u - state.down_v @ state.down_v)
        change = (new.u @ new.u - new.v @ new.v) - (state.u @ state.u - state.v @ state.v)
        assert change == pytest.approx(predicted, abs=1e-10 * (new.u @ new.u + new.v @ new.v))
        state = new


def test_shorter_steps_drift_less():
    """Along the flow nothing drifts, so the drift of a discretised path falls with its step, at a fixed length of time."""
    _, A = planted(2)
    data, drifts = Observed.of(A), []
    for eta in (4e-3, 1e-3):
        state = GradientFlowAlgorithm().init(data, np.random.default_rng(0))
        u, v = state.u * 3, state.v * 3
        for _ in range(round(0.4 / eta)):
            state = GradientFlowAlgorithm().at(data, u, v, eta)
            u, v = u + eta * state.down_u, v + eta * state.down_v
        drifts.append(abs(u @ u - v @ v))
    assert drifts[1] < 0.5 * drifts[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_planted_rank_one_matrices_are_recovered(seed):
    X, A = planted(seed, share=0.15)
    model = RankOne(random_state=seed).fit(A)
    assert_allclose(model.complete(keep_known=False), X, rtol=1e-6, atol=1e-6)
    assert model.certificate_.failed == []
    assert {"left_the_saddle", "first_order_point", "balance_conserved"} <= set(
        model.certificate_.held
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_result_does_not_depend_on_the_seed(seed):
    _, A = planted(3, noise=0.3)
    one, other = (
        RankOne(random_state=s, tol=1e-12).fit(A).complete(keep_known=False) for s in (0, seed + 1)
    )
    assert_allclose(one, other, atol=1e-4)


def test_every_connected_block_leaves_its_saddle():
    """The leading pair of the whole matrix is zero on the weaker block, where a flow from it would stay."""
    X, _ = planted(0, 8, 6)
    A = np.full((16, 12), np.nan)
    A[:8, :6], A[8:, 6:] = 5 * X, 0.1 * X
    model = RankOne().fit(A)
    assert_allclose(model.predict(*np.nonzero(~np.isnan(A))), A[~np.isnan(A)], atol=1e-4)
    assert model.certificate_.failed == ["connected_observations"]


def test_empty_rows_and_columns_predict_nothing():
    _, A = planted(0)
    A = np.vstack([A, np.full((1, A.shape[1]), np.nan)])
    model = RankOne().fit(A)
    assert (model.U_[-1] == 0).all()
    assert (model.predict([A.shape[0] - 1] * 3, [0, 1, 2]) == 0).all()


def test_all_zeros_are_met_by_zero():
    for A in (np.zeros((4, 3)), np.where(np.eye(4, 3) == 1, np.nan, 0.0)):
        model = RankOne().fit(A)
        assert (model.complete(keep_known=False) == 0).all()
        assert {"left_the_saddle", "second_order_minimum"} <= set(model.certificate_.held)
        assert model.certificate_.broken == []


# --- power steps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_power_steps_find_the_leading_singular_pair_and_leave_the_tail_of_the_spectrum(seed):
    A = np.random.default_rng(seed).normal(size=(20, 12)) + 1.0
    model = RankOne(tol=1e-14, random_state=seed).fit(A)
    P, s, Qt = np.linalg.svd(A)
    assert_allclose(model.complete(keep_known=False), s[0] * np.outer(P[:, 0], Qt[0]), atol=1e-5)
    assert model.loss_ == pytest.approx(0.5 * (s[1:] ** 2).sum(), rel=1e-10)
    assert {"leading_singular_pair", "never_rose"} <= set(model.certificate_.held)
    assert isinstance(model._algorithm(Observed.of(A)), PowerStepsAlgorithm)


def test_a_power_step_is_least_squares_in_each_factor():
    A = np.random.default_rng(0).normal(size=(6, 5))
    algorithm, data = PowerStepsAlgorithm(), Observed.of(A)
    state = algorithm.init(data, np.random.default_rng(1))
    new = algorithm.step(state, data)
    assert_allclose(new.u, np.linalg.lstsq(state.v[:, None], A.T, rcond=None)[0][0])
    assert_allclose(new.v, np.linalg.lstsq(new.u[:, None], A, rcond=None)[0][0])


def test_the_factors_are_balanced_and_their_signs_no_accident():
    _, A = planted(0, noise=0.1)
    for X in (A, np.nan_to_num(A)):
        model = RankOne().fit(X)
        assert np.linalg.norm(model.U_) == pytest.approx(np.linalg.norm(model.V_))
        assert model.V_[np.abs(model.V_).argmax()] > 0


# --- claims that fail -------------------------------------------------------------------------------------------------


def unsettled(A, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return RankOne(**parameters).fit(A)


def test_stopping_beside_the_saddle_fails_its_claims():
    _, A = planted(0, noise=0.1)
    failed = unsettled(A, max_iter=1).certificate_.failed
    assert {"left_the_saddle", "first_order_point"} <= set(failed)


def test_a_power_method_stopped_early_fails_to_be_the_leading_pair():
    A = np.random.default_rng(0).normal(size=(60, 60))
    assert "leading_singular_pair" in unsettled(A, max_iter=1, random_state=0).certificate_.failed


def test_long_steps_fail_to_follow_the_flow():
    """Factors of very unequal norm at the end of a trace are no end of a flow that began balanced."""
    _, A = planted(0, noise=0.1)
    model = RankOne().fit(A)
    trace = model.trace_.copy()
    trace.append(model.loss_, trace.elapsed, {"gradient": 0.0, "imbalance": 0.5, "size": 1.0})
    model.trace_ = trace
    assert "balance_conserved" in model.certify(A).failed


def test_a_saddle_by_another_hand_is_noticed():
    _, A = planted(0, noise=0.1)
    model = RankOne().fit(A)
    model.U_, model.V_ = model.U_ * 0, model.V_ * 0
    certificate = model.certify(A)
    assert {"left_the_saddle", "second_order_minimum"} <= set(certificate.failed)
    assert "first_order_point" in certificate.held  # it is a critical point


def test_where_entries_are_unknown_nobody_claims_the_best_rank_one_matrix():
    _, A = planted(0)
    names = [claim.name for claim in RankOne().fit(A).certificate_]
    assert "leading_singular_pair" not in names
    assert "balance_conserved" not in [
        claim.name for claim in RankOne().fit(np.nan_to_num(A)).certificate_
    ]


# --- as a model -------------------------------------------------------------------------------------------------------


# without centring the constant is the rank-one part
@pytest.mark.parametrize("how", [how for how in HOW if how != "none"])
def test_offsets_are_taken_out_and_put_back(how):
    X, A = planted(0, noise=0.05)
    model = RankOne(how, random_state=0).fit(A + 7)
    assert model.certificate_.failed == []
    rest = model.complete(keep_known=False) - 7 - X
    assert np.sqrt((rest**2).mean()) < 0.5 * X.std()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_arbitrary_entries_give_finite_factors_and_a_loss_no_larger_than_that_of_zero(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 7, size=2)
    A = rng.normal(size=(n, m)) * 10.0 ** rng.uniform(-8, 8)
    A[rng.random((n, m)) < 0.5] = np.nan
    if np.isnan(A).all():
        A[0, 0] = 1.0
    model = unsettled(A, max_iter=50)
    assert np.isfinite(model.U_).all()
    assert np.isfinite(model.V_).all()
    assert model.loss_ <= 0.5 * np.nansum(A**2) * (1 + 1e-12)


def test_a_step_that_is_too_long_is_halved():
    """At u = v = 1.01 entries of 1 are near, and a quarter of ‖(u, v)‖, the most that a step may be, is far beyond them."""
    A = Observed.of(np.array([[1.0, 1.0], [1.0, np.nan]]))
    algorithm = GradientFlowAlgorithm()
    near = np.full(2, 1.01)
    begin = algorithm.at(A, near, near, step=1e6)
    full = STRIDE * np.sqrt(2 * near @ near / begin.slope)
    tried = algorithm.at(A, near + full * begin.down_u, near + full * begin.down_v, full)
    after = algorithm.step(begin, A)
    assert tried.loss > begin.loss > after.loss
    assert algorithm._descending(begin, A) <= full / 2
    found = run(algorithm, A, stop=MaxSteps(500), start=begin).state
    assert_allclose(np.outer(found.u, found.v), np.ones((2, 2)), rtol=1e-6)
