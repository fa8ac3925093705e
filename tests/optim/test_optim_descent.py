"""Descent: any optimiser, any smooth function, under the common loop."""

from dataclasses import dataclass

import numpy as np
import pytest

from lemmata.core import Checkpoint, Diverged, MaxSteps, Settled, SmallGradient, run
from lemmata.optim import Adam, Descent, GradientDescent, HeavyBall, Nesterov


@dataclass(frozen=True)
class Quadratic:
    """½ xᵀHx − bᵀx with data b."""

    H: np.ndarray

    def __call__(self, params, b):
        (x,) = params
        return 0.5 * float(x @ self.H @ x) - float(b @ x), (self.H @ x - b,)


@pytest.fixture(params=range(3))
def problem(request):
    rng = np.random.default_rng(request.param)
    Q, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    H = (Q * np.linspace(1, 30, 6)) @ Q.T
    return Quadratic((H + H.T) / 2), rng.standard_normal(6)


@pytest.mark.parametrize(
    "optimizer",
    [
        GradientDescent.for_curvature(30, 1),
        HeavyBall.for_curvature(30, 1),
        Nesterov.for_curvature(30, 1),
        Nesterov.for_curvature(30),
    ],
    ids=repr,
)
def test_a_small_gradient_means_a_small_error(problem, optimizer):
    function, b = problem
    solution = run(
        Descent(function, optimizer, (np.zeros(6),)), b, stop=SmallGradient(1e-9) | MaxSteps(5000)
    )
    assert solution.stopped == "small gradient"
    error = solution.attributes["params_"][0] - np.linalg.solve(function.H, b)
    assert np.linalg.norm(error) <= 1e-9 / 1 * (1 + 1e-5)  # ‖x − x*‖ ≤ ‖∇f(x)‖/μ and μ = 1


def test_the_loss_and_gradient_in_a_state_are_its_own(problem):
    function, b = problem
    algorithm = Descent(function, Adam(0.1), (np.ones(6),))
    solution = run(algorithm, b, stop=MaxSteps(7))
    loss, gradient = function(solution.state.params, b)
    assert solution.attributes["loss_"] == loss == solution.trace.last()
    assert solution.trace.last("gradient") == pytest.approx(np.linalg.norm(gradient[0]))


def test_gradient_descent_at_1_over_L_never_rises(problem):
    function, b = problem
    solution = run(
        Descent(function, GradientDescent(1 / 30), (np.ones(6),)),
        b,
        stop=Settled(1e-12) | MaxSteps(2000),
    )
    assert solution.stopped == "settled"
    assert solution.trace.largest_rise <= 1e-15


def test_a_step_beyond_2_over_L_diverges_and_the_warning_says_what_to_do(problem):
    function, b = problem
    with (
        np.errstate(over="ignore"),
        pytest.warns(Diverged, match="lower the step size of the optimiser"),
    ):
        solution = run(
            Descent(function, GradientDescent(1.0), (np.ones(6),)), b, stop=MaxSteps(5000)
        )
    assert solution.stopped == "diverged"
    assert np.isfinite(solution.state.params[0]).all()


def test_stopped_and_resumed_equals_never_stopped(problem, tmp_path):
    function, b = problem
    algorithm = Descent(function, Adam(0.05), (np.ones(6),))
    whole = run(algorithm, b, stop=MaxSteps(40))
    run(algorithm, b, stop=MaxSteps(17), callbacks=[Checkpoint(tmp_path / "d.ckpt", every=5)])
    resumed = run(
        algorithm, b, stop=MaxSteps(40), callbacks=[Checkpoint(tmp_path / "d.ckpt", every=5)]
    )
    assert (resumed.state.params[0] == whole.state.params[0]).all()
    assert (resumed.trace.objective == whole.trace.objective).all()


def test_a_start_that_is_no_tuple_and_a_gradient_of_the_wrong_shape_are_refused(problem):
    function, b = problem
    with pytest.raises(TypeError, match="pass a tuple of arrays"):
        run(Descent(function, GradientDescent(0.1), np.zeros(6)), b)
    with pytest.raises(ValueError, match="they must agree"):
        run(
            Descent(
                lambda params, data: (0.0, (np.zeros(2),)), GradientDescent(0.1), (np.zeros(3),)
            ),
            b,
        )
