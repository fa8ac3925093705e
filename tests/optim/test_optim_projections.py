"""Projections: feasible, idempotent, nearest (variational inequality, brute force), and the same as the audit's own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize as scipy_minimize

from lemmata.audit.optim import constraints as sets
from lemmata.optim import PSD, Affine, Ball, Box, L1Ball, RankK, Simplex

A = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 2.0, -1.0], [1.0, 2.0, 2.0, -1.0]])  # of rank 2
VECTOR_SETS = [
    Box(-0.5, 1.5),
    Box(np.array([0.0, -np.inf, -1.0, 2.0]), np.array([0.0, 3.0, np.inf, 4.0])),
    Ball(1.3),
    Ball(0.7, centre=np.array([1.0, -2.0, 0.0, 0.5])),
    Simplex(),
    Simplex(3.5),
    L1Ball(1.0),
    L1Ball(4.2),
    Affine(A, A @ np.array([1.0, -1.0, 0.5, 2.0])),
]
MATRIX_SETS = [RankK(1), RankK(2), PSD()]
numbers = st.floats(-50, 50).filter(lambda v: v == 0 or abs(v) > 1e-9)
vectors = arrays(np.float64, 4, elements=numbers)
matrices = arrays(np.float64, (4, 4), elements=numbers)
names = {"ids": repr}


def check(constraint, z):
    x, scale = constraint(z), 1 + np.abs(z).max()
    np.testing.assert_allclose(constraint(x), x, atol=1e-12 * scale)  # idempotent: x is in the set
    theirs = sets.nearest(constraint.facts, z)
    distance = np.linalg.norm(z - x)
    assert distance == pytest.approx(np.linalg.norm(z - theirs), abs=1e-10 * scale)
    if constraint.convex:
        np.testing.assert_allclose(x, theirs, atol=1e-10 * scale)
    return x


@pytest.mark.parametrize("constraint", VECTOR_SETS, **names)
@settings(max_examples=30)
@given(z=vectors, y=vectors)
def test_a_projection_onto_a_convex_set_satisfies_the_variational_inequality(constraint, z, y):
    x, y = check(constraint, z), constraint(y)
    scale = (1 + np.abs(z).max()) * (1 + np.abs(y - x).max())
    assert (
        float((z - x) @ (y - x)) <= 1e-10 * scale
    )  # x is nearest exactly if this holds for all y in C
    # and so it is 1-Lipschitz
    assert np.linalg.norm(x - y) <= np.linalg.norm(z - y) + 1e-10 * scale


@pytest.mark.parametrize("constraint", MATRIX_SETS, **names)
@settings(max_examples=20)
@given(Z=matrices, W=matrices)
def test_no_other_matrix_of_the_set_is_nearer(constraint, Z, W):
    X = check(constraint, Z)
    other = constraint(W)
    scale = 1 + np.abs(Z).max() + np.abs(W).max()
    assert np.linalg.norm(Z - X) <= np.linalg.norm(Z - other) + 1e-10 * scale
    if isinstance(constraint, PSD):
        assert np.linalg.eigvalsh(X).min() >= -1e-11 * scale
        assert float(np.sum((Z - X) * (other - X))) <= 1e-8 * scale**2
    else:
        assert np.linalg.matrix_rank(X, tol=1e-9 * scale) <= constraint.k


@pytest.mark.parametrize("seed", range(3))
def test_a_quadratic_programme_finds_the_same_points(seed):
    rng = np.random.default_rng(seed)
    z = 2 * rng.standard_normal(5)

    def solved(constraints, bounds=None, size=5, full=lambda v: v, start=None):
        found = scipy_minimize(
            lambda v: 0.5 * np.sum((full(v) - z) ** 2), np.full(size, 0.1) if start is None else start,
            bounds=bounds, constraints=constraints, method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
        )  # fmt: skip
        return full(found.x)

    simplex = solved([{"type": "eq", "fun": lambda v: v.sum() - 2}], [(0, None)] * 5)
    np.testing.assert_allclose(Simplex(2.0)(z), simplex, atol=1e-5)
    # x = p − q with p, q ≥ 0 and Σp + q ≤ r is the ℓ1 ball without kinks
    split = solved(
        [{"type": "ineq", "fun": lambda v: 1.5 - v.sum()}], [(0, None)] * 10, 10, lambda v: v[:5] - v[5:]
    )  # fmt: skip
    np.testing.assert_allclose(L1Ball(1.5)(z), split, atol=1e-5)
    B, b = rng.standard_normal((2, 5)), rng.standard_normal(2)
    affine = solved([{"type": "eq", "fun": lambda v: B @ v - b}])
    np.testing.assert_allclose(Affine(B, b)(z), affine, atol=1e-5)


@pytest.mark.parametrize("constraint", [*VECTOR_SETS, *MATRIX_SETS], **names)
def test_float32_stays_float32_and_points_inside_stay_where_they_are(constraint):
    shape = (4, 4) if constraint in MATRIX_SETS else (4,)
    z = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x = constraint(z)
    assert x.dtype == np.float32
    np.testing.assert_allclose(constraint(x), x, atol=2e-6)


def test_huge_coordinates_do_not_swallow_the_sum_of_a_simplex():
    assert Simplex()(np.array([1e16, 1e16 + 2, 0.0])).sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "constraint", [Box(-1.0, 1.0), Ball(2.0), Simplex(3.0), L1Ball(0.5)], **names
)
def test_no_two_points_are_further_apart_than_the_diameter_and_slopes_are_least_where_the_audit_says(
    constraint,
):
    rng = np.random.default_rng(0)
    points = np.array([constraint(5 * rng.standard_normal(6)) for _ in range(300)])
    apart = np.linalg.norm(points[:, None] - points, axis=2).max()
    assert apart <= constraint.diameter((6,)) * (1 + 1e-12)
    assert constraint.diameter((6,)) == pytest.approx(sets.diameter(constraint.facts, (6,)))
    g = rng.standard_normal(6)
    least = sets.least_slope(constraint.facts, g)
    assert (points @ g).min() >= least - 1e-12
    far = constraint(-1e6 * g)  # attained, in the limit
    assert float(far @ g) == pytest.approx(least, abs=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box(2.0, 1.0), "low <= high"),
        (lambda: Ball(-1.0), "out of range"),
        (lambda: Simplex(0.0), "out of range"),
        (lambda: Affine(np.ones((2, 3)), [1.0, 2.0]), "no solution"),
        (lambda: Affine(np.ones((2, 3)), [1.0]), "must agree"),
        (lambda: RankK(0), "out of range"),
        (lambda: RankK(1)(np.ones(3)), "projects matrices"),
        (lambda: PSD()(np.ones((2, 3))), "square matrices"),
    ],
)
def test_bad_sets_are_refused_in_one_sentence(make, message):
    with pytest.raises(ValueError, match=message):
        make()
