"""Searching for chords below a function: found where there are any, never where the function is convex."""

import numpy as np
import pytest

import lemmata
from lemmata.audit.optim.convexity import chord_above
from lemmata.core.certificate import Fit
from lemmata.optim import search_nonconvexity

RNG = np.random.default_rng(0)
A = RNG.normal(size=(8, 5))
CONVEX = {
    "squares": lambda w: float(((A @ w - 1) ** 2).sum()),
    "singular": lambda w: float((w[0] + w[1]) ** 2),
    "logistic": lambda w: float(np.logaddexp(0, A @ w).sum()),
    "largest": lambda w: float((A @ w).max()),
    "absolute": lambda w: float(np.abs(w).sum()),
    "linear": lambda w: float(3 * w[0] - w[1] + 1e6),
    "far from 0": lambda w: float(((w + 1e6) ** 2).sum()),
    "fourth powers": lambda w: float((w**4).sum()),
}
NOT_CONVEX = {
    "a product": lambda w: float((w[0] * w[1] - 1) ** 2),
    "a root": lambda w: float(np.sqrt(np.abs(w)).sum()),
    "a saddle": lambda w: float(w @ w - 1.01 * w[0] ** 2),
    "a network": lambda w: float(((np.tanh(A[:, :2] @ w[:2]) * w[2] - 1) ** 2).sum()),
    "a wave": lambda w: float(w @ w + 2 * np.sin(3 * w[0])),
    "concave": lambda w: -float(w @ w),
}


@pytest.mark.parametrize("name", CONVEX)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_convex_functions_are_never_called_otherwise(name, scale):
    found = search_nonconvexity(CONVEX[name], scale * RNG.uniform(-2, 2, (60, 5)), tries=200)
    assert found.verdict == "can't tell"
    assert f"{found.tried:,} chords" in found.certificate_["chord_above"].note


@pytest.mark.parametrize("name", NOT_CONVEX)
def test_a_chord_below_the_function_is_a_proof(name):
    f = NOT_CONVEX[name]
    found = search_nonconvexity(f, lambda rng: rng.uniform(-2, 2, 5))
    assert found.verdict == "not convex"
    x, y, t = found.chord_
    assert f((1 - t) * x + t * y) > (1 - t) * f(x) + t * f(y)
    assert not found.certificate_.holds


def test_no_point_outside_of_the_sampled_ones_is_asked():
    def f(w):
        assert (w > 0).all()
        return float((w * np.log(w)).sum())

    assert search_nonconvexity(f, RNG.uniform(1e-6, 3, (40, 4)), tries=300).verdict == "can't tell"


def test_steps_of_rounding_are_no_dents():
    """f = w² to a reader, and a staircase of height 2 to a computer: 1e16 cancels."""

    def f(w):
        return float(((w + 1e8) ** 2 - 1e16 - 2e8 * w).sum())

    found = search_nonconvexity(f, RNG.uniform(-2, 2, (60, 2)), tries=200)
    assert found.verdict == "can't tell"


def test_a_made_up_chord_is_no_witness():
    class Claimed:
        chord_, tried, calls = (np.zeros(2), np.ones(2), 0.5), 1, 3
        value_of = staticmethod(lambda w: float(w @ w))

    assert chord_above(Fit(Claimed())).verdict == "can't tell"


def test_objectives_of_ours_are_functions_too():
    box = RNG.uniform(-2, 2, (50, 2))
    assert search_nonconvexity(lemmata.optim.Rosenbrock(), box).verdict == "not convex"


@pytest.mark.parametrize(
    ("f", "sampler", "message"),
    [
        (lambda w: float(np.log(w[0])), np.linspace(-1, 1, 10)[:, None], "f is (nan|-inf) at"),
        (lambda w: w, np.zeros((5, 2)), "return one number"),
        (lambda w: 0.0, np.zeros(5), "three finite points"),
        (lambda w: 0.0, np.full((5, 2), np.nan), "three finite points"),
        (3, np.zeros((5, 2)), "pass a function"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value|divide by zero:RuntimeWarning")
def test_bad_input_is_answered_in_words(f, sampler, message):
    with pytest.raises((ValueError, TypeError), match=message):
        search_nonconvexity(f, sampler)
