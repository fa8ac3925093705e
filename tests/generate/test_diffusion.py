"""Diffusion: schedules, targets and samplers against closed forms; denoisers of others certified; bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import lemmata
from lemmata.core.certificate import FAILS, HOLDS
from lemmata.generate import Denoiser
from lemmata.generate.diffusion.exact import MixtureDenoiser
from lemmata.generate.diffusion.samplers import SAMPLERS, trajectory
from lemmata.generate.diffusion.schedules import NAMES, make_schedule
from lemmata.generate.diffusion.targets import TARGETS, noise_of, target_of


def _mixture(schedule):
    covariances = np.array([[[0.1, 0.05], [0.05, 0.2]], [[0.05, 0], [0, 0.05]]])
    return MixtureDenoiser(
        np.array([0.6, 0.4]), np.array([[-1, 0], [1, 0.5]]), covariances, schedule
    )


@pytest.mark.parametrize("name", NAMES)
def test_steps_multiply_to_the_closed_form_and_end_in_noise(name):
    schedule = make_schedule(name, 300)
    np.testing.assert_allclose(np.cumprod(schedule.alpha), schedule.alpha_bar, rtol=1e-12)
    np.testing.assert_allclose(schedule.alpha_bar**2 + schedule.beta_bar**2, 1, rtol=1e-14)
    assert ((schedule.alpha[1:] > 0) & (schedule.alpha[1:] < 1)).all()
    assert schedule.terminal_snr < 1e-4


def test_the_chain_of_steps_has_the_closed_form_in_law():
    """(5.43): mean and deviation of x_t|x_0 after t steps of (5.41), in exact arithmetic of moments."""
    schedule = make_schedule("linear", 50)
    mean, variance = 1.0, 0.0
    for a in schedule.alpha[1:]:
        mean, variance = a * mean, a**2 * variance + (1 - a**2)
    assert mean == pytest.approx(schedule.alpha_bar[-1], rel=1e-12)
    assert variance == pytest.approx(schedule.beta_bar[-1] ** 2, rel=1e-12)


@pytest.mark.parametrize("kind", TARGETS)
def test_a_target_gives_back_the_noise(kind):
    x0, noise = np.random.default_rng(0).normal(size=(2, 5, 3))
    a, b = 0.6, 0.8
    x, found = a * x0 + b * noise, target_of(kind, x0, noise, a, b)
    np.testing.assert_allclose(noise_of(kind, found, x, a, b), noise, atol=1e-14)


def test_the_exact_score_is_the_gradient_of_ln_p():
    best = _mixture(make_schedule("cosine", 100))
    x, h = np.random.default_rng(1).normal(size=(6, 2)), 1e-5
    for t in (0, 10, 60, 100):
        steps = h * np.eye(2)
        slopes = [(best.log_prob(x + e, t) - best.log_prob(x - e, t)) / (2 * h) for e in steps]
        np.testing.assert_allclose(best.score(x, t), np.column_stack(slopes), atol=1e-7)


def test_denoising_and_explicit_score_matching_differ_by_a_constant():
    """E‖s − ∇ln p(x_t|x_0)‖² − E‖s − ∇ln p(x_t)‖² is the same for every s; 1-d, by quadrature over x_t."""
    schedule = make_schedule("cosine", 100)
    law = MixtureDenoiser(np.array([0.3, 0.7]), np.array([[-1.0], [1.0]]), np.full((2, 1, 1), 0.04), schedule)  # fmt: skip
    t = 60
    a, b = schedule.alpha_bar[t], schedule.beta_bar[t]
    variance = a**2 * 0.04 + b**2
    parts = list(zip(law.weights, law.means[:, 0], strict=True))

    def gap(s):
        def density(x):
            return sum(w * np.exp(-((x - a * m) ** 2) / (2 * variance)) for w, m in parts)

        def explicit(x):
            return (s(x) - law.score(np.array([[x]]), t)[0, 0]) ** 2 * density(x)

        def denoising(x):
            # given x and its mode, x_0 is normal: E(s − ∇)² = (s − E∇)² + Var ∇, ∇ = (a x_0 − x)/b²
            gain = a * 0.04 / variance
            left = 0.04 - gain * a * 0.04
            found = 0.0
            for w, m in parts:
                mean = m + gain * (x - a * m)
                near = w * np.exp(-((x - a * m) ** 2) / (2 * variance))
                found += near * ((s(x) - (a * mean - x) / b**2) ** 2 + (a / b**2) ** 2 * left)
            return found

        return quad(denoising, -6, 6)[0] - quad(explicit, -6, 6)[0]

    gaps = [gap(s) for s in (lambda x: 0.0, lambda x: -x, np.sin)]
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-6)


@pytest.mark.parametrize(("sampler", "limit"), [("ddim", 1.2), ("heun", 1.1)])
def test_with_the_exact_score_few_steps_give_the_law(sampler, limit):
    """Distance of sorted projections to fresh rows, next to that of rows to rows."""
    schedule, rng = make_schedule("cosine", 1000), np.random.default_rng(2)
    best = _mixture(schedule)
    x = rng.normal(size=(5000, 2))
    *_, (_, drawn) = trajectory(x, best, np.zeros_like, schedule, sampler, 50)
    angles = np.linspace(0, np.pi, 32, endpoint=False)
    along = np.stack([np.cos(angles), np.sin(angles)])
    tables = [best.draw(5000, rng) for _ in range(8)]

    def distance(A, B):
        return np.sqrt(np.square(np.sort(A @ along, axis=0) - np.sort(B @ along, axis=0)).mean())

    usual = [distance(A, B) for A, B in zip(tables[:4], tables[4:], strict=True)]
    assert np.mean([distance(drawn, B) for B in tables]) <= limit * np.max(usual)


def test_heun_is_of_second_order_and_ddim_of_first():
    """Normal rows N(0, v): the flow maps x_T to x_T √v/√(ᾱ²v + β̄²) exactly."""
    schedule, v = make_schedule("cosine", 4000), 0.25
    law = MixtureDenoiser(np.ones(1), np.zeros((1, 1)), np.full((1, 1, 1), v), schedule)
    x = np.array([[1.0]])
    a, b = schedule.alpha_bar[-1], schedule.beta_bar[-1]
    exact = np.sqrt(v / (a**2 * v + b**2))
    errors = {}
    for sampler in ("ddim", "heun"):
        ends = [list(trajectory(x, law, np.zeros_like, schedule, sampler, n))[-1][1] for n in (50, 100)]  # fmt: skip
        errors[sampler] = [abs(float(end[0, 0]) - exact) for end in ends]
    assert 1.7 < errors["ddim"][0] / errors["ddim"][1] < 2.3
    assert errors["heun"][0] / errors["heun"][1] > 3.2
    assert errors["heun"][1] < errors["ddim"][1] / 5


def test_the_step_of_the_notes_has_the_wrong_variance_to_second_order():
    """On N(0, I) ML's (2 − α) step tends to the variance (2 − δ)/(2 − 3δ + 2δ² − δ³); the ancestral one, σ = β, to 1."""
    delta, n = 0.1, 400
    schedule = make_schedule((1 - delta) ** np.arange(1, n + 1))
    unit = MixtureDenoiser(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)), schedule)
    x = np.ones((1, 1))

    def variance(step):
        """Of a linear step x ↦ c x + e z: both found by two calls, then iterated."""
        c = float((step(np.zeros_like)(x, n, n - 1))[0, 0])
        e = float((step(np.ones_like)(x, n, n - 1))[0, 0]) - c
        return e**2 / (1 - c**2)

    euler = variance(lambda draw: SAMPLERS["euler-maruyama"](unit, draw, schedule))
    expected = (2 - delta) / (2 - 3 * delta + 2 * delta**2 - delta**3)
    assert euler == pytest.approx(expected, rel=1e-9)
    exact = variance(lambda draw: SAMPLERS["ancestral"](unit, draw, schedule, 1.0))
    assert exact == pytest.approx(1, rel=1e-9)


def test_the_least_noise_is_exact_for_one_point():
    """Of rows at one point the posterior's deviation leads back to it, whatever is drawn."""
    schedule, rng = make_schedule("linear", 30), np.random.default_rng(3)
    point = np.array([0.3, -1.2])

    def predict(x, t):
        return (x - schedule.alpha_bar[t] * point) / schedule.beta_bar[t]

    def draw(x):
        return rng.normal(size=x.shape)

    *_, (_, drawn) = trajectory(draw(np.zeros((4, 2))), predict, draw, schedule, "ancestral", 30)
    np.testing.assert_allclose(drawn, np.tile(point, (4, 1)), atol=1e-12)


def test_a_denoiser_of_others_is_certified():
    schedule, rng = make_schedule("cosine", 200), np.random.default_rng(4)
    best = _mixture(schedule)
    X, new = best.draw(600, rng), best.draw(600, rng)
    found = lemmata.certify(Denoiser(best, schedule.alpha_bar[1:]), X, X_test=new)
    assert found.held[-4:] == ["beats_linear_denoiser", "noise_adds_up", "starts_from_noise", "sampler_inverts"]  # fmt: skip
    wrong = lemmata.certify(Denoiser(best, schedule.alpha_bar[1:], "v"), X, X_test=new)
    assert wrong["beats_linear_denoiser"].verdict == FAILS
    late = lemmata.certify(Denoiser(best, schedule.alpha_bar[1:100]), X, X_test=new)
    assert late["starts_from_noise"].verdict == FAILS
    assert late["noise_adds_up"].verdict == HOLDS


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: make_schedule("quadratic"), "'quadratic'; pass 'cosine', 'linear', 'constant'"),
        (lambda: make_schedule("cosine", 0), "steps=0; pass a whole number >= 1"),
        (lambda: make_schedule([0.9, 1.2]), "ᾱ at step 2 is 1.2; it has to lie between 0 and 1"),
        (lambda: make_schedule([0.9, 0.5, 0.5]), "ᾱ at step 3 is 0.5, after 0.5: it has to fall"),
        (lambda: make_schedule("linear", 10).times(11), "steps=11; pass a whole number from 1 to 10"),
        (lambda: Denoiser(lambda x, t: x, [0.5], "velocity"), "predict='velocity'; pass 'v', 'noise'"),
        (lambda: list(trajectory(0, None, None, make_schedule("linear", 9), "rk4")), "sampler='rk4'"),
    ],
)  # fmt: skip
def test_bad_input_says_what_is_accepted(act, message):
    with pytest.raises(ValueError, match=message):
        act()
