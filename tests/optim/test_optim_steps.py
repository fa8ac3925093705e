"""The optimiser steps keep the rates that theory promises, and agree with PyTorch where the definitions coincide."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core.store import decode, encode
from lemmata.optim import (
    SGD,
    AdaGrad,
    Adam,
    AdamCIL,
    AveragedMomentum,
    GradientDescent,
    HeavyBall,
    Nesterov,
    OptState,
    PowerDecay,
    RMSprop,
    SignSGD,
    gradient_norm,
)

SEEDS = range(2)
ALL = [
    GradientDescent(0.1),
    SGD(0.1, decay=0.5),
    HeavyBall(0.1, 0.8),
    Nesterov(0.1),
    Nesterov(0.1, momentum=0.8),
    Adam(0.1),
    AveragedMomentum(0.1, 0.8),
    AdaGrad(0.1),
    RMSprop(0.1),
    AdamCIL(0.1),
    SignSGD(0.1),
    Adam(PowerDecay(0.1, r=0.5)),
]


def quadratic(seed, kappa=100.0, d=12):
    """½(x − x*)ᵀH(x − x*) with curvatures from μ = 1 to L = κ, both attained; and a start."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((d, d)))
    curvatures = np.concatenate([[1.0, kappa], rng.uniform(1, kappa, d - 2)])
    H, minimum = (Q * curvatures) @ Q.T, rng.standard_normal(d)
    return H, minimum, minimum + rng.standard_normal(d)


def iterates(optimizer, H, minimum, x, steps):
    """(params, state) after 0, 1, 2, … steps."""
    params, state = (x,), optimizer.init((x,))
    yield params, state
    for _ in range(steps):
        params, state = optimizer.step(state, params, (H @ (params[0] - minimum),))
        yield params, state


def value(H, minimum, x):
    return 0.5 * float((x - minimum) @ H @ (x - minimum))


# --- rates ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_descent_with_step_1_over_L_contracts_gap_and_distance_by_1_minus_mu_over_L(seed):
    H, minimum, start = quadratic(seed)
    for t, ((x,), _) in enumerate(
        iterates(GradientDescent.for_curvature(100.0), H, minimum, start, 200)
    ):
        shrink = (1 - 1 / 100) ** t
        assert value(H, minimum, x) <= shrink * value(H, minimum, start) * (1 + 1e-12)
        assert np.sum((x - minimum) ** 2) <= shrink * np.sum((start - minimum) ** 2) * (1 + 1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_constant_step_contracts_the_distance_by_kappa_minus_1_over_kappa_plus_1(seed):
    H, minimum, start = quadratic(seed)
    for t, ((x,), _) in enumerate(
        iterates(GradientDescent.for_curvature(100.0, 1.0), H, minimum, start, 200)
    ):
        assert np.linalg.norm(x - minimum) <= (99 / 101) ** t * np.linalg.norm(start - minimum) * (
            1 + 1e-12
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_heavy_ball_reaches_the_accelerated_rate(seed):
    """In an eigendirection e_t = rᵗ(U_t(c) − r U_{t−1}(c)) with r = √β, |c| ≤ 1 and Chebyshev's |U_t| ≤ t + 1."""
    H, minimum, start = quadratic(seed)
    r = (10 - 1) / (10 + 1)
    for t, ((x,), _) in enumerate(
        iterates(HeavyBall.for_curvature(100.0, 1.0), H, minimum, start, 150)
    ):
        bound = (t + 1 + r * t) * r**t * np.linalg.norm(start - minimum)
        assert np.linalg.norm(x - minimum) <= bound * (1 + 1e-6) + 1e-14


@pytest.mark.parametrize("seed", SEEDS)
def test_nesterov_with_tuned_momentum_contracts_the_gap_by_1_minus_1_over_root_kappa(seed):
    H, minimum, start = quadratic(seed)
    optimizer = Nesterov.for_curvature(100.0, 1.0)
    first = value(H, minimum, start) + 0.5 * np.sum((start - minimum) ** 2)
    for t, (params, state) in enumerate(iterates(optimizer, H, minimum, start, 150)):
        (x,) = optimizer.without_momentum(state, params)
        assert value(H, minimum, x) <= (1 - 1 / 10) ** t * first * (1 + 1e-12) + 1e-28


@pytest.mark.parametrize("seed", SEEDS)
def test_nesterov_without_mu_keeps_its_quadratic_bound_on_convex_functions(seed):
    # as good as not strongly convex over this many steps
    H, minimum, start = quadratic(seed, kappa=1e6)
    optimizer = Nesterov.for_curvature(1e6)
    for t, (params, state) in enumerate(iterates(optimizer, H, minimum, start, 300)):
        (x,) = optimizer.without_momentum(state, params)
        assert value(H, minimum, x) <= 2e6 * np.sum((start - minimum) ** 2) / (t + 1) ** 2


def test_acceleration_needs_root_kappa_times_fewer_steps_than_gradient_descent():
    H, minimum, start = quadratic(0, kappa=2500.0)

    def steps_to(optimizer):
        goal = 1e-8 * value(H, minimum, start)
        points = (params[0] for params, _ in iterates(optimizer, H, minimum, start, 40_000))
        return next(t for t, x in enumerate(points) if value(H, minimum, x) <= goal)

    plain = steps_to(GradientDescent.for_curvature(2500.0))
    # √κ = 50, less the factor t of a double root
    assert steps_to(HeavyBall.for_curvature(2500.0, 1.0)) * 10 < plain
    assert steps_to(Nesterov.for_curvature(2500.0, 1.0)) * 10 < plain


@pytest.mark.parametrize("seed", SEEDS)
def test_decaying_steps_average_the_noise_away_and_constant_ones_do_not(seed):
    """On ½x² with noise of variance 1: the constant step ends at η/(2 − η), η_t = 1/(1+t) at the mean of the noise, 1/T."""
    T, width = 2000, 500
    noise = np.random.default_rng(seed).standard_normal((T, width))

    def end(optimizer):
        params = (np.full(width, 3.0),)
        state = optimizer.init(params)
        for row in noise:
            params, state = optimizer.step(state, params, (params[0] + row,))
        return float(np.mean(params[0] ** 2))

    five_deviations = 5 * np.sqrt(2 / width)  # of a mean of squared Gaussians, relative to it
    assert end(SGD(1.0, decay=1.0)) == pytest.approx(1 / T, rel=five_deviations)
    assert end(SGD(0.5)) == pytest.approx(0.5 / 1.5, rel=five_deviations)


# --- agreement --------------------------------------------------------------------------------------------------------


def torch_pair(seed, make, ours, steps=60):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    target = rng.standard_normal(5)
    matrix = rng.standard_normal((3, 5))
    a, b = torch.tensor(target * 0.3, requires_grad=True), torch.tensor(matrix, requires_grad=True)
    theirs = make([a, b])
    params = (a.detach().numpy().copy(), b.detach().numpy().copy())
    state = ours.init(params)
    for _ in range(steps):
        theirs.zero_grad()
        loss = (
            ((b @ a - 1) ** 2).sum() + ((a - torch.tensor(target)) ** 4).sum() + 0.1 * (b**2).sum()
        )
        loss.backward()
        x, B = params  # the same gradients by hand
        residual = B @ x - 1
        gradient = (2 * B.T @ residual + 4 * (x - target) ** 3, 2 * np.outer(residual, x) + 0.2 * B)
        theirs.step()
        params, state = ours.step(state, params, gradient)
        yield params, (a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("name", "options", "ours"),
    [
        ("SGD", {"lr": 0.01}, GradientDescent(0.01)),
        ("SGD", {"lr": 0.01}, SGD(0.01)),
        ("SGD", {"lr": 0.01, "momentum": 0.8}, HeavyBall(0.01, 0.8)),
        ("SGD", {"lr": 0.01, "momentum": 0.8, "nesterov": True}, Nesterov(0.01, 0.8)),
        ("Adam", {"lr": 0.05}, Adam(0.05)),
        ("Adam", {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6}, Adam(0.02, 0.8, 0.95, 1e-6)),
        ("Adagrad", {"lr": 0.05}, AdaGrad(0.05)),
    ],
)
def test_every_step_agrees_with_pytorch(name, options, ours, seed):
    torch = pytest.importorskip("torch")
    for mine, theirs in torch_pair(
        seed, lambda params: getattr(torch.optim, name)(params, **options), ours
    ):
        for x, y in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


def test_nesterov_is_the_two_sequence_scheme_of_the_books():
    H, minimum, start = quadratic(1)
    optimizer = Nesterov(0.005, momentum=0.7)
    x_before, x, y = start, start, start
    for params, state in iterates(optimizer, H, minimum, start, 40):
        np.testing.assert_allclose(params[0], y, atol=1e-12)
        np.testing.assert_allclose(optimizer.without_momentum(state, params)[0], x, atol=1e-12)
        x_before, x = x, y - 0.005 * H @ (y - minimum)
        y = x + 0.7 * (x - x_before)


def two_steps(optimizer, gradients):
    params = (np.zeros(2),)
    state = optimizer.init(params)
    for g in gradients:
        params, state = optimizer.step(state, params, (np.array(g),))
    return params[0], state


def test_the_notes_momentum_is_heavy_ball_with_the_step_shortened_by_1_minus_beta():
    gradients = np.random.default_rng(0).standard_normal((9, 2))
    notes, _ = two_steps(AveragedMomentum(0.3, 0.8), gradients)
    ball, _ = two_steps(HeavyBall(0.3 * (1 - 0.8), 0.8), gradients)
    np.testing.assert_allclose(notes, ball, rtol=1e-13)


def test_under_a_constant_gradient_momentum_ends_with_the_steps_that_4_39_says():
    _, state = two_steps(HeavyBall(0.1, 0.9), np.ones((400, 2)))
    np.testing.assert_allclose(state.slots[0][0], -0.1 / (1 - 0.9))
    _, state = two_steps(AveragedMomentum(0.1, 0.9), np.ones((400, 2)))
    np.testing.assert_allclose(state.slots[0][0], 1.0)  # m, so the step is η


def test_the_two_adams_differ_in_how_they_begin_and_agree_in_the_long_run():
    g0, g1 = np.array([1.0, -2.0]), np.array([3.0, 0.5])
    x, _ = two_steps(AdamCIL(0.1, beta=0.9, alpha=0.99, delta=1e-300), [g0, g1])
    m, h = 0.9 * g0 + 0.1 * g1, 0.99 * g0**2 + 0.01 * g1**2  # (4.43)–(4.45), begun with g0
    np.testing.assert_allclose(x, -0.1 * np.sign(g0) - 0.1 * m / np.sqrt(h))
    gradients = np.random.default_rng(1).standard_normal((4000, 2)) + 1
    steps = []
    for optimizer in (AdamCIL(0.1), Adam(0.1)):
        before, _ = two_steps(optimizer, gradients[:-1])
        after, _ = two_steps(optimizer, gradients)
        steps.append(after - before)
    np.testing.assert_allclose(*steps, rtol=0.05)


def test_rmsprop_is_the_notes_adam_without_momentum():
    gradients = np.random.default_rng(2).standard_normal((7, 2))
    a, _ = two_steps(RMSprop(0.1, alpha=0.95), gradients)
    b, _ = two_steps(AdamCIL(0.1, beta=0.0, alpha=0.95), gradients)
    np.testing.assert_allclose(a, b)


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_adaptive_steps_do_not_depend_on_the_units_of_the_coordinates(a, b):
    gradients = np.random.default_rng(3).standard_normal((5, 2))
    for optimizer in (
        AdaGrad(0.1, 1e-300),
        RMSprop(0.1, delta=1e-300),
        AdamCIL(0.1, delta=1e-300),
        SignSGD(0.1),
    ):
        one, _ = two_steps(optimizer, gradients)
        other, _ = two_steps(optimizer, gradients * [a, b])
        np.testing.assert_allclose(one, other, rtol=1e-9)


# --- purity -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ALL, ids=repr)
def test_a_step_leaves_its_input_alone_and_repeats_itself(optimizer):
    rng = np.random.default_rng(0)
    params = (rng.standard_normal((2, 3)), rng.standard_normal(4))
    state = optimizer.init(params)
    for _ in range(3):
        gradient = tuple(rng.standard_normal(part.shape) for part in params)
        kept = [part.tobytes() for group in (params, gradient, *state.slots) for part in group]
        once, twice = (optimizer.step(state, params, gradient) for _ in range(2))
        assert kept == [
            part.tobytes() for group in (params, gradient, *state.slots) for part in group
        ]
        assert all((x == y).all() for x, y in zip(once[0], twice[0], strict=True))
        params, state = once


@pytest.mark.parametrize("optimizer", ALL, ids=repr)
def test_float32_stays_float32(optimizer):
    params = (np.ones((2, 2), np.float32), np.ones(3, np.float32))
    state = optimizer.init(params)
    for _ in range(3):
        params, state = optimizer.step(state, params, params)
    assert {part.dtype for group in (params, *state.slots) for part in group} == {
        np.dtype(np.float32)
    }


@pytest.mark.parametrize("optimizer", ALL, ids=repr)
def test_states_are_frozen_and_go_through_files_unchanged(optimizer):
    params = (np.arange(3.0),)
    _, state = optimizer.step(optimizer.init(params), params, params)
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.count = 7
    arrays: dict = {}
    again = decode(encode(state, arrays), arrays)
    assert isinstance(again, OptState)
    assert again.count == 1
    assert len(again.slots) == len(state.slots)
    assert all((x[0] == y[0]).all() for x, y in zip(again.slots, state.slots, strict=True))


@given(st.floats(1e-3, 1e3), st.lists(st.floats(-100, 100), min_size=1, max_size=5))
def test_gradient_steps_scale_with_step_size_and_gradient(eta, numbers):
    x = np.array(numbers)
    (new,), _ = GradientDescent(eta).step(OptState(0), (x,), (x,))
    np.testing.assert_allclose(new, (1 - eta) * x, atol=1e-9 * (1 + eta) * np.abs(x).max())


@given(st.floats(1e-6, 1e6))
def test_adams_first_step_is_the_step_size_whatever_the_scale_of_the_gradient(scale):
    optimizer, x = Adam(0.01, epsilon=1e-300), np.zeros(3)
    (new,), _ = optimizer.step(optimizer.init((x,)), (x,), (scale * np.array([1.0, -2.0, 3.0]),))
    np.testing.assert_allclose(new, [-0.01, 0.01, -0.01], rtol=1e-9)


def test_the_gradient_norm_is_that_of_all_entries_together():
    assert gradient_norm((np.array([3.0]), np.array([[4.0, 12.0]]))) == pytest.approx(13.0)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: GradientDescent(0.0),
        lambda: GradientDescent(float("nan")),
        lambda: GradientDescent(float("inf")),
        lambda: SGD(0.1, decay=-1),
        lambda: HeavyBall(0.1, momentum=1.0),
        lambda: Nesterov(0.1, momentum=-0.1),
        lambda: Adam(beta1=1.0),
        lambda: Adam(epsilon=0.0),
        lambda: AdaGrad(delta=0.0),
        lambda: RMSprop(alpha=1.0),
        lambda: AdamCIL(beta=-0.1),
        lambda: AveragedMomentum(0.1, momentum=1.0),
        lambda: SignSGD(-1.0),
    ],
)
def test_hyper_parameters_out_of_range_are_refused_with_the_range(make):
    with pytest.raises(ValueError, match="out of range; pass a number in"):
        make()


@pytest.mark.parametrize("step_size", ["auto", lambda t: 0.1])
def test_a_step_size_that_is_no_number_and_no_schedule_is_refused(step_size):
    with pytest.raises(TypeError, match="pass a number > 0 or a schedule"):
        GradientDescent(step_size)


def test_curvatures_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="pass 0 <= mu <= L"):
        HeavyBall.for_curvature(1.0, 2.0)


def test_gradients_of_another_structure_are_refused():
    with pytest.raises(ValueError, match="zip"):
        GradientDescent(0.1).step(OptState(0), (np.ones(2), np.ones(2)), (np.ones(2),))
