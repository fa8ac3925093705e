"""The factored objective, its gradient, Hessian and saddles against formulas, finite differences and dense algebra."""

from functools import partial

import numpy as np
import pytest
from factored_twins import (
    als,
    at,
    convex_optimum,
    counts,
    dense_hessian,
    objective,
    penalties,
    planted,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lemmata.audit.completion.factored_objective import (
    Factored,
    Factors,
    Side,
    Singular,
    products_at,
)
from lemmata.audit.completion.optimality.curvature import (
    as_direction,
    as_vector,
    curve,
    gauge_part,
    smallest_curvature,
    weakest_curvature,
)
from lemmata.audit.completion.optimality.global_optimum import ROUNDS, duality_gap, search
from lemmata.completion import Observed
from lemmata.completion.witness import add_factor, along, escape, further_factor, line_search, sweep

SEEDS = range(1)
KINDS = {
    "plain": {},
    "weighted": {"weighted": True},
    "biased": {"biased": True, "mean": 0.7},
    "weighted and biased": {"weighted": True, "biased": True},
    "implicit": {"feedback": "implicit", "alpha": 2.0},
    "implicit and weighted": {
        "feedback": "implicit",
        "alpha": 0.5,
        "confidence_offset": 0.3,
        "weighted": True,
    },
}


def random_point(seed, kind, k=2, reg=0.3):
    kw = KINDS[kind]
    A = counts(seed) if "feedback" in kw else planted(seed)
    rng = np.random.default_rng(seed)
    (n, m), biased = A.shape, kw.get("biased", False)
    biases = (rng.normal(size=n), rng.normal(size=m)) if biased else (np.zeros(n), np.zeros(m))
    return A, at(A, Factors(rng.normal(size=(n, k)), rng.normal(size=(m, k)), *biases), reg, **kw)


def twin(A, problem, kind, where):
    kw = KINDS[kind]
    implicit = {
        "implicit": True,
        "alpha": kw.get("alpha", 1.0),
        "offset": kw.get("confidence_offset", 1.0),
    }
    more = implicit if "feedback" in kw else {"mean": kw.get("mean", 0.0)}
    return objective(A, where, 0.3, kw.get("weighted", False), **more)


def random_direction(problem, seed):
    size = len(as_vector(problem, problem.at))
    return as_direction(problem, np.random.default_rng(seed + 100).normal(size=size))


# --- value, slope, curvature ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_objective_is_its_formula_and_a_polynomial_of_degree_4_on_every_line(kind, seed):
    A, problem = random_point(seed, kind)
    assert_allclose(problem.objective, twin(A, problem, kind, problem.at), rtol=1e-12)
    d = random_direction(problem, seed)
    coefficients = along(problem, d)
    for t in (-1.5, 0.3, 2.0):
        value = np.polynomial.polynomial.polyval(t, coefficients)
        assert_allclose(value, twin(A, problem, kind, problem.at.move(t, d)), rtol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_and_hessian_are_the_derivatives_on_a_line(kind, seed):
    """F(x + td) = c₀ + c₁t + c₂t² + …: ∇ᵀd = c₁ and dᵀHd = 2c₂; the polynomial itself is tested above."""
    _, problem = random_point(seed, kind)
    for again in range(3):
        d = random_direction(problem, seed + again)
        c = along(problem, d)
        assert_allclose(problem.gradient.dot(d), c[1], rtol=1e-9, atol=1e-9 * abs(c).max())
        assert_allclose(d.dot(curve(problem, d)), 2 * c[2], rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_hessian_is_symmetric_and_the_difference_of_gradients(kind):
    _, problem = random_point(0, kind)
    H = dense_hessian(problem)
    assert_allclose(H, H.T, atol=1e-11 * abs(H).max())
    d, step = random_direction(problem, 1), 1e-5
    ahead, behind = (problem.move(problem.at.move(t, d)).gradient for t in (step, -step))
    difference = (as_vector(problem, ahead) - as_vector(problem, behind)) / (2 * step)
    # central differences err by step²·(third derivative) and eps/step·|∇|, both about 1e-10 of the size
    assert_allclose(
        difference, as_vector(problem, curve(problem, d)), atol=1e-7 * np.abs(difference).max()
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_hessian_of_a_fully_known_rank_one_problem_is_that_of_the_notes(seed):
    rng = np.random.default_rng(seed)
    A, u, v = rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=4)
    H = dense_hessian(Factored.of(Observed.of(A), u[:, None], v[:, None], reg=0.0))
    C = 2 * np.outer(u, v) - A
    expected = np.block([[v @ v * np.eye(5), C], [C.T, u @ u * np.eye(4)]])  # CIL (2.18)
    assert_allclose(H, expected, atol=1e-12 * np.abs(expected).max())


@settings(max_examples=30)
@given(
    st.integers(1, 30), st.integers(1, 30), st.integers(0, 4), st.floats(0, 1), st.integers(0, 99)
)
def test_products_at_entries_are_those_of_the_whole_product(n, m, k, density, seed):
    rng = np.random.default_rng(seed)
    A = Observed.of(np.where(rng.random((n, m)) < density, 1.0, np.nan))
    U, V = rng.normal(size=(n, k)), rng.normal(size=(m, k))
    found = products_at(A.by_row.indptr, A.by_row.indices, U, V)
    assert_allclose(found, (U @ V.T)[A.rows, A.columns], atol=1e-12)


def test_products_at_few_and_at_many_entries_agree():
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(300, 3)), rng.normal(size=(400, 3))
    for density in (0.02, 0.9):  # gathered, and by whole rows
        A = Observed.of(np.where(rng.random((300, 400)) < density, 1.0, np.nan))
        found = products_at(A.by_row.indptr, A.by_row.indices, U, V)
        assert_allclose(found, (U @ V.T)[A.rows, A.columns], atol=1e-12)


# --- gauge ------------------------------------------------------------------------------------------------------------


def gauge_directions(problem):
    """All of them, one by one."""
    (U, V, b, c), k = problem.at, problem.rank
    zero = np.zeros_like(b), np.zeros_like(c)
    for i in range(k):
        for j in range(k):
            M = np.zeros((k, k))
            M[i, j] = 1.0
            if problem.penalised and i < j:
                yield Factors(U @ (M - M.T), V @ (M - M.T), *zero)
            elif not problem.penalised:
                yield Factors(U @ M, -V @ M.T, *zero)


@pytest.mark.parametrize(("reg", "biases"), [(0.4, False), (0.4, True), (0.0, False)])
@pytest.mark.parametrize("seed", SEEDS)
def test_gauge_directions_are_flat_at_a_first_order_point(reg, biases, seed):
    A = planted(seed, density=0.9, biases=biases)
    factors, mean = als(A, 2, reg, biases=biases, sweeps=3000)
    problem = at(A, factors, reg, biased=biases, mean=mean)
    H = dense_hessian(problem)
    for d in gauge_directions(problem):
        y = as_vector(problem, d)
        assert np.linalg.norm(H @ y) < 1e-8 * np.linalg.norm(H, 2) * np.linalg.norm(y)


@pytest.mark.parametrize("reg", [0.0, 0.4])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_gauge_part_is_the_orthogonal_projection_on_the_gauge_directions(reg, seed):
    A = planted(seed)
    rng = np.random.default_rng(seed)
    problem = Factored.of(A, rng.normal(size=(14, 3)), rng.normal(size=(11, 3)), reg=reg)
    G = np.column_stack([as_vector(problem, d) for d in gauge_directions(problem)])
    d = random_direction(problem, seed)
    y = as_vector(problem, d)
    expected = G @ np.linalg.lstsq(G, y, rcond=None)[0]
    assert_allclose(
        as_vector(problem, gauge_part(problem, d)), expected, atol=1e-9 * np.linalg.norm(y)
    )


# --- smallest eigenvalues ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("k", [1, 3])
def test_the_origin_is_a_saddle_with_curvature_lambda_minus_sigma(seed, k):
    A = planted(seed)
    sigma = np.linalg.norm(A.dense(0.0), 2)
    origin = Factored.of(A, np.zeros((14, k)), np.zeros((11, k)), reg=0.5)
    assert_allclose(smallest_curvature(origin).value, 0.5 - sigma, rtol=1e-8)
    scaled = weakest_curvature(origin).value  # Lanczos stops when it knows the sign, and σ to 1 %
    assert 1 - sigma / 0.5 - 1e-9 <= scaled <= 1 - 0.99 * sigma / 0.5
    # here the origin is the minimum
    heavy = Factored.of(A, np.zeros((14, k)), np.zeros((11, k)), reg=1.1 * sigma)
    assert_allclose(smallest_curvature(heavy).value, 0.1 * sigma, rtol=1e-7)
    assert_allclose(weakest_curvature(heavy).value, 1 - 1 / 1.1, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_lanczos_finds_the_smallest_eigenvalue_of_the_dense_hessian_without_gauge(kind, seed):
    A, problem = random_point(seed, kind)
    H = dense_hessian(problem)
    G = np.linalg.qr(np.column_stack([as_vector(problem, d) for d in gauge_directions(problem)]))[0]
    P = np.eye(len(H)) - G @ G.T
    dead = np.r_[A.row_counts == 0, A.column_counts == 0]
    assert not dead.any()
    lifted = P @ H @ P + 10 * np.linalg.norm(H, 2) * G @ G.T
    expected = np.linalg.eigvalsh(lifted)[0]
    found = smallest_curvature(problem)
    assert abs(found.value - expected) <= max(found.error, 1e-7 * np.linalg.norm(H, 2))
    d = found.direction
    assert_allclose(
        d.dot(curve(problem, d)),
        found.value * d.dot(d),
        rtol=1e-6,
        atol=1e-9 * np.linalg.norm(H, 2),
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_scaled_hessian_has_one_minus_the_coupling_as_its_smallest_eigenvalue(kind, seed):
    """At a first-order point, against LAPACK on [I K; Kᵀ I] with its gauge directions, of eigenvalue 0, lifted."""
    kw = dict(KINDS[kind])
    kw.pop("mean", None)
    A = counts(seed) if "feedback" in kw else planted(seed, biases="biased" in kw)
    if "implicit" in kind:
        kw.pop("confidence_offset", None)
    more = {"implicit": "feedback" in kw, "alpha": kw.get("alpha", 1.0)}
    factors, mean = als(
        A, 2, 0.3, weighted=kw.get("weighted", False), biases=kw.get("biased", False), **more
    )
    problem = at(A, factors, 0.3, mean=mean, **kw)
    assert max(np.abs(part).max() for part in problem.gradient) < 1e-7
    H, k, (n, m) = dense_hessian(problem), problem.rank, problem.shape
    blocks = [np.arange(i * k, (i + 1) * k) for i in range(n + m)]
    if problem.biased:
        blocks = [np.r_[block, (n + m) * k + i] for i, block in enumerate(blocks)]
    D = np.zeros_like(H)
    for block in blocks:
        D[np.ix_(block, block)] = H[np.ix_(block, block)]
    L = np.linalg.cholesky(D)
    scaled = np.linalg.solve(L, np.linalg.solve(L, H).T)
    G = np.linalg.qr(
        L.T @ np.column_stack([as_vector(problem, d) for d in gauge_directions(problem)])
    )[0]
    expected = np.linalg.eigvalsh(scaled + 2 * G @ G.T)[0]
    found = weakest_curvature(problem, margin=0.0)
    assert found.value - found.error - 1e-6 <= expected <= found.value + 1e-6
    d = found.direction
    y = as_vector(problem, d)
    assert_allclose(y @ H @ y / (y @ D @ y), found.value, atol=1e-8)


def test_the_coupling_is_the_rate_of_alternating_least_squares():
    """Block Gauss–Seidel on a quadratic shrinks its slowest error by σ₁(K)² per sweep; objectives by σ₁⁴."""
    A = planted(0, noise=1.0)
    found = weakest_curvature(at(A, als(A, 2, 0.5, sweeps=2000)[0], 0.5), margin=0.0)
    rate = (1 - found.value) ** 4
    start = als(A, 2, 0.5, sweeps=60)[0]
    losses = []
    for sweeps in range(3):
        factors = als(A, 2, 0.5, sweeps=sweeps, start=(start.U, start.V))[0] if sweeps else start
        losses.append(objective(A, factors, 0.5))
    measured = (losses[1] - losses[2]) / (losses[0] - losses[1])
    assert_allclose(measured, rate, rtol=0.05)


def test_rows_without_entries_do_not_count_as_flat_directions():
    A = planted(1)
    wider = Observed.from_triplets(A.rows, A.columns, A.values, (16, 12))
    for weighted in (False, True):
        factors, _ = als(wider, 2, 0.3, weighted=weighted)
        problem = at(wider, factors, 0.3, weighted=weighted)
        whole = at(
            A,
            Factors(factors.U[:14], factors.V[:11], np.zeros(14), np.zeros(11)),
            0.3,
            weighted=weighted,
        )
        assert_allclose(weakest_curvature(problem).value, weakest_curvature(whole).value, atol=1e-6)
        if weighted:
            assert_allclose(
                smallest_curvature(problem).value, smallest_curvature(whole).value, atol=1e-6
            )


def test_a_row_that_is_flat_by_itself_is_named_and_looked_at_another_way():
    A = Observed.of(np.array([[1.0, np.nan, np.nan], [1.0, 2.0, 3.0], [2.0, 1.0, 5.0]]))
    rng = np.random.default_rng(0)
    problem = Factored.of(A, rng.normal(size=(3, 2)), rng.normal(size=(3, 2)), reg=0.0)
    with pytest.raises(Singular, match="fewer entries"):
        Side.of(problem, 0)
    origin = Factored.of(A, np.zeros((3, 2)), np.zeros((3, 2)), reg=0.0)
    assert escape(A, np.zeros((3, 2)), np.zeros((3, 2)), reg=0.0).objective < origin.objective


@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_of_newton_steps_is_a_sweep_of_least_squares(kind):
    kw = dict(KINDS[kind])
    kw.pop("confidence_offset", None)
    A = counts(0) if "feedback" in kw else planted(0, biases="biased" in kw)
    mean = A.values.mean() if "biased" in kw else 0.0
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(14, 2)), rng.normal(size=(11, 2))
    problem = at(A, Factors(U, V, np.zeros(14), np.zeros(11)), 0.3, **{**kw, "mean": mean})
    more = {"implicit": "feedback" in kw, "alpha": kw.get("alpha", 1.0)}
    solver = {"weighted": kw.get("weighted", False), "biases": kw.get("biased", False), **more}
    expected, _ = als(A, 2, 0.3, **solver, sweeps=1, start=(U, V))
    for found, wanted in zip(sweep(problem).at, expected, strict=True):
        assert_allclose(found, wanted, atol=1e-8 * max(np.abs(wanted).max(), 1))


# --- going on ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_line_search_finds_the_least_value_on_the_line(kind, seed):
    _, problem = random_point(seed, kind)
    d = random_direction(problem, seed)
    step, value = line_search(problem, d)
    assert_allclose(problem.move(problem.at.move(step, d)).objective, value, rtol=1e-10)
    grid = np.polynomial.polynomial.polyval(np.linspace(-5, 5, 2001), along(problem, d))
    assert value <= grid.min() * (1 + 1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_fit_that_misses_a_factor_is_a_saddle_and_is_left(seed, weighted):
    """A zero column of U and V stays zero under alternation: a first-order point of rank 2 that is really of rank 1."""
    A, reg = planted(seed, noise=0.1, density=0.8), 0.05
    one, _ = als(A, 1, reg, weighted=weighted)
    U, V = np.c_[one.U, np.zeros(14)], np.c_[one.V, np.zeros(11)]
    stuck = Factored.of(A, U, V, reg=reg, weighted=weighted)
    assert max(np.abs(part).max() for part in stuck.gradient) < 1e-8
    assert weakest_curvature(stuck).value < -0.1
    assert smallest_curvature(stuck).value < -0.1
    free = escape(A, U, V, reg=reg, weighted=weighted)
    assert free.objective < 0.9 * stuck.objective
    whole, _ = als(A, 2, reg, weighted=weighted, start=(free.at.U, free.at.V))
    minimum = at(A, whole, reg, weighted=weighted)
    assert weakest_curvature(minimum).value > 0
    # nothing to leave
    assert escape(A, whole.U, whole.V, reg=reg, weighted=weighted).objective == minimum.objective


def test_escape_moves_biases_too():
    A = planted(3, biases=True)
    zero = np.zeros((14, 2)), np.zeros((11, 2)), np.zeros(14), np.zeros(11)
    before = objective(A, Factors(*zero), 0.2, mean=A.values.mean())
    free = escape(A, *zero, mean=A.values.mean(), reg=0.2)
    assert free.objective < before
    assert_allclose(free.objective, objective(A, free.at, 0.2, mean=A.values.mean()), rtol=1e-12)


# --- duality ----------------------------------------------------------------------------------------------------------


def dual_value(A, Y, reg, weighted, biases, mean):
    r, s = (np.where(p > 0, p, 1.0) for p in penalties(A, reg, weighted))
    a = A.dense(0.0) - mean * ~np.isnan(A.dense())
    value = np.vdot(a, Y) - 0.5 * np.vdot(Y, Y)
    if biases:
        value -= 0.5 * np.sum(Y.sum(1) ** 2 / r) + 0.5 * np.sum(Y.sum(0) ** 2 / s)
    return value, np.linalg.norm(Y / np.sqrt(r)[:, None] / np.sqrt(s), 2)


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_feasible_dual_point_exceeds_the_convex_optimum_and_no_factors_fall_below(
    seed, weighted, biases
):
    A, reg = planted(seed, biases=biases), 0.1 if weighted else 0.6
    mean, best = (
        A.values.mean() if biases else 0.0,
        convex_optimum(A, reg, weighted=weighted, biases=biases),
    )
    rng = np.random.default_rng(seed)
    known = ~np.isnan(A.dense())
    for _ in range(10):
        Y = known * rng.normal(size=A.shape)
        Y = Y / dual_value(A, Y, reg, weighted, biases, mean)[1]
        assert dual_value(A, Y, reg, weighted, biases, mean)[0] <= best
        k = rng.integers(1, 5)
        zero = rng.normal(size=14) * biases, rng.normal(size=11) * biases
        point = Factors(rng.normal(size=(14, k)), rng.normal(size=(11, k)), *zero)
        problem = at(A, point, reg, weighted=weighted, biased=biases, mean=mean)
        gap = duality_gap(problem)
        assert gap.dual <= best * (1 + 1e-9)
        tight = search(problem, 0.01, partial(further_factor, None), ROUNDS)
        assert gap.dual <= tight.dual <= best * (1 + 1e-9)
        assert tight.best >= best * (1 - 1e-9)
        assert tight.primal == gap.primal
        assert problem.objective >= best * (1 - 1e-9)


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_gap_closes_at_full_rank_where_both_problems_are_one(seed, weighted, biases):
    A, reg = planted(seed, biases=biases), 0.1 if weighted else 0.6
    factors, mean = als(A, 11, reg, weighted=weighted, biases=biases, sweeps=2000)
    problem = at(A, factors, reg, weighted=weighted, biased=biases, mean=mean)
    gap = duality_gap(problem)
    # at the optimum many σ are 1, where ALS approaches sublinearly
    assert gap.gap < 1e-4 * gap.primal
    assert gap.top.bound < 1 + 1e-3
    assert_allclose(gap.primal, convex_optimum(A, reg, weighted=weighted, biases=biases), rtol=1e-5)


def test_lanczos_and_lapack_agree_on_the_gap(monkeypatch):
    A = planted(0, n=40, m=30)
    problem = at(A, als(A, 1, 0.5, sweeps=100)[0], 0.5)
    exact = duality_gap(problem)
    monkeypatch.setattr("lemmata.audit.completion.optimality.global_optimum.SHORT", 0)
    for turned in (problem, Factored.of(A.T, problem.at.V, problem.at.U, reg=0.5)):
        found = duality_gap(turned)
        assert_allclose(found.top.sigma, exact.top.sigma, rtol=1e-6)
        assert found.top.sigma <= exact.top.bound <= found.top.bound * (1 + 1e-12)
        assert found.risk == 1e-4
        assert exact.risk == 0
    assert_allclose(duality_gap(problem).dual, exact.dual, rtol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_gap_of_implicit_feedback_closes_at_full_rank_and_bounds_every_rank(seed):
    A = counts(seed)
    full, _ = als(A, 11, 0.4, implicit=True, alpha=2.0, sweeps=2000)
    best = duality_gap(at(A, full, 0.4, feedback="implicit", alpha=2.0))
    assert best.gap < 1e-4 * best.primal
    low, _ = als(A, 2, 0.4, implicit=True, alpha=2.0)
    found = duality_gap(at(A, low, 0.4, feedback="implicit", alpha=2.0))
    assert found.dual <= best.primal <= found.primal
    assert found.top.sigma > 1.01


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_missing_factor_lowers_the_objective_as_the_certificate_says(kind, seed):
    _, problem = random_point(seed, kind)
    grown = add_factor(problem)
    assert duality_gap(problem).top.sigma > 1  # a random point is far from the optimum
    assert grown.rank == problem.rank + 1
    assert grown.objective < problem.objective


def test_no_factor_is_added_at_the_optimum():
    A = planted(0)
    factors, _ = als(A, 8, 2.0, sweeps=4000)
    problem = at(A, factors, 2.0 * (1 + 1e-6))  # a hair more λ, so that rounding does not decide
    assert add_factor(problem) is problem
