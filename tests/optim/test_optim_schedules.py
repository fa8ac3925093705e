"""Schedules: their formulas, their exponents, and the two sums of Robbins and Monro."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.optim import SGD, Constant, Cosine, InverseDecay, OptState, PowerDecay, StepDecay

ALL = [
    Constant(0.1),
    PowerDecay(0.1, 0.6),
    InverseDecay(0.1, 0.05),
    StepDecay(0.1, 0.5, 10),
    Cosine(0.1, 50, 0.01),
]


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_steps_begin_at_the_step_size_stay_positive_and_never_rise(schedule):
    steps = np.array([schedule(t) for t in range(200)])
    assert steps[0] == pytest.approx(0.1)
    assert (steps > 0).all()
    assert (np.diff(steps) <= 1e-18).all()


@given(st.floats(0.05, 2.0))
def test_the_two_sums_of_robbins_and_monro_decide_at_one_half_and_one(r):
    """Σ t^−r over dyadic blocks: a block [T, 2T) adds about T^(1−r), so the sum is finite exactly if that falls."""
    schedule = PowerDecay(1.0, r)
    block = lambda power, T: sum(schedule(t) ** power for t in np.linspace(T, 2 * T, 50)) * T / 50  # noqa: E731
    first, second = (block(power, 2e6) / block(power, 1e6) for power in (1, 2))
    if abs(r - 1) > 0.01:
        assert (first > 1) == (r < 1)  # Σηₜ = ∞ for r < 1, and for r = 1 as well
    if abs(r - 0.5) > 0.01:
        assert (second < 1) == (r > 0.5)  # Σηₜ² < ∞


def test_exponents_are_those_of_the_long_run():
    assert [s.exponent for s in ALL] == [0.0, 0.6, 1.0, math.inf, 0.0]
    assert Cosine(0.1, 50).exponent == math.inf
    assert InverseDecay(0.1, 0.0).exponent == 0.0
    for schedule in ALL[:3]:
        measured = -math.log(schedule(2 * 10**9) / schedule(10**9)) / math.log(2)
        assert measured == pytest.approx(schedule.exponent, abs=1e-6)


def test_particular_values():
    assert StepDecay(1.0, 0.1, 3)(7) == pytest.approx(0.01)
    assert Cosine(1.0, 10, 0.2)(5) == pytest.approx(0.6)
    assert Cosine(1.0, 10, 0.2)(99) == pytest.approx(0.2)


def test_an_optimiser_with_a_schedule_takes_its_steps():
    optimizer, x = SGD(PowerDecay(1.0, r=1.0)), (np.zeros(1),)
    state = optimizer.init(x)
    for _ in range(3):
        x, state = optimizer.step(state, x, (np.ones(1),))
    assert x[0][0] == pytest.approx(-(1 + 1 / 2 + 1 / 3))
    assert state == OptState(3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PowerDecay(0.0),
        lambda: PowerDecay(0.1, r=-1.0),
        lambda: InverseDecay(0.1, -1.0),
        lambda: StepDecay(0.1, factor=0.0),
        lambda: StepDecay(0.1, every=0),
        lambda: Cosine(0.1, 0),
        lambda: Cosine(0.1, 5, least=0.2),
        lambda: Constant(math.inf),
    ],
)
def test_numbers_out_of_range_are_refused(make):
    with pytest.raises(ValueError, match="out of range"):
        make()
