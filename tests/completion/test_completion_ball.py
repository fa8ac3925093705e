"""The ball of the nuclear norm: the gap of Frank and Wolfe is a bound, the end is SoftImpute's, no step rises."""

import numpy as np
import pytest

import lemmata
from lemmata.completion import NuclearBall, Observed, SoftImpute
from lemmata.completion.nuclear.ball import BallAlgorithm
from lemmata.core import MaxSteps, run


def planted(seed=0, n=40, m=30, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, m))
    return np.where(rng.random(X.shape) < 0.5, X + noise * rng.normal(size=X.shape), np.nan)


@pytest.mark.parametrize("reg", [2.0, 6.0])
def test_every_radius_is_a_penalty_of_soft_impute(reg):
    A = planted()
    soft = SoftImpute(reg, centre="none", tol=1e-12, random_state=0).fit(A)
    radius = float(soft.singular_values_.sum())
    model = NuclearBall(radius, tol=1e-8, max_iter=500, random_state=0).fit(A)
    assert np.abs(model.complete() - soft.complete()).max() < 0.02
    assert len(model.singular_values_) == len(soft.singular_values_)
    assert (
        model.certify(A)["in_ball"].verdict
        == model.certificate_["least_in_ball"].verdict
        == "holds"
    )


def test_the_gap_bounds_the_distance_from_the_best_and_no_step_rises():
    A = Observed.of(planted())
    algorithm = BallAlgorithm(radius=40.0, tol=1e-10)
    best = run(algorithm, A, stop=MaxSteps(200), rng=0)
    trace = run(algorithm, A, stop=MaxSteps(12), rng=0).trace
    assert (np.diff(trace.objective) <= 1e-12 * trace.objective[0]).all()
    assert (trace.objective - best.trace.last() <= trace.extras["gap"] * (1 + 1e-6) + 1e-9).all()


def test_what_is_not_the_best_is_found_out():
    A = planted()
    done = NuclearBall(40.0, random_state=0).fit(A)
    best = done.U_
    done.U_ = 0.8 * best
    short = done.certify(A)["least_in_ball"]
    assert short.verdict == "fails"
    assert short.witness["left"].shape == (40,)
    done.U_ = 1.2 * best
    assert {"in_ball", "statements_true"} <= set(done.certify(A).failed)


def test_a_ball_that_holds_the_entries_meets_them():
    full = np.outer(np.arange(1.0, 7), [1, -1, 2])
    model = NuclearBall(2 * np.linalg.norm(full), max_iter=60, random_state=0).fit(full)
    assert np.abs(model.complete() - full).max() < 1e-2 * np.abs(full).max()
    scaled = NuclearBall(random_state=0).fit(1e3 * full)
    assert scaled.radius_ == pytest.approx(1e3 * np.linalg.norm(full))


@pytest.mark.parametrize("radius", [0, -1.0, np.nan, "large"])
def test_a_radius_has_to_be_positive(radius):
    with pytest.raises(ValueError, match="radius"):
        lemmata.NuclearBall(radius).fit(planted())


def test_matrices_of_low_rank_and_norm_lie_in_the_ball_and_its_corners_have_rank_one():
    """Q_k ⊂ P_k: ‖B‖₂ ≤ 1 and rank B ≤ k make ‖B‖_* ≤ k (CIL20 3.4.3); the ball of radius 1 is the hull of the uvᵀ."""
    rng = np.random.default_rng(0)
    for k in (1, 2, 4):
        for _ in range(20):
            B = rng.normal(size=(6, k)) @ rng.normal(size=(k, 5))
            B /= np.linalg.norm(B, 2)
            assert np.linalg.norm(B, "nuc") <= k + 1e-12
        inside = np.diag(np.full(5, k / 5))  # in P_k, but of rank 5: the inclusion is strict
        assert np.linalg.norm(inside, "nuc") == pytest.approx(k)
        assert np.linalg.matrix_rank(inside) > k
    B = rng.normal(size=(6, 5))
    W, s, Zt = np.linalg.svd(B / np.linalg.norm(B, "nuc"), full_matrices=False)
    assert s.sum() == pytest.approx(1)  # a mean of corners with the weights s
    assert np.linalg.norm(sum(x * np.outer(w, z) for x, w, z in zip(s, W.T, Zt, strict=True)), "nuc") <= 1 + 1e-12  # fmt: skip
