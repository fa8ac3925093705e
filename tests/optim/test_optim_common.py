"""What every algorithm keeps: a state of its own that goes through files and goes on from there, and the loss of its point."""

import numpy as np
import pytest

from lemmata.core import MaxSteps, run
from lemmata.core.store import decode, encode
from lemmata.optim import (
    LBFGS,
    SGD,
    Adam,
    BackoffDescent,
    Ball,
    Box,
    Conditions,
    CoordinateDescent,
    Descent,
    DescentAscent,
    LeastAbsolute,
    LeastSquares,
    LineSearchDescent,
    Logistic,
    MultiplierDescent,
    NoisyDescent,
    PowerDecay,
    Rosenbrock,
    StochasticDescent,
    SubgradientDescent,
    newton_descent,
)
from lemmata.optim.functions import Flat

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
SQUARES, LOGISTIC = LeastSquares(X, X @ np.ones(3) + 1, 0.1), Logistic(X, X[:, 0] > 0, 0.1)
START = np.array([0.5, -1.0, 2.0])
SUM_TO_1 = Conditions(equal=lambda x: (np.array([x.sum() - 1]), np.ones((1, 3))))
ALL = {
    "descent": Descent(Flat(SQUARES), Adam(0.1), (START,), Ball(1.0)),
    "sgd": StochasticDescent(LOGISTIC, SGD(PowerDecay(0.2)), START, 7, average=True),
    "subgradient": SubgradientDescent(
        LeastAbsolute(X, X[:, 0]), START, PowerDecay(0.5, 0.5), Box(-1.0, 1.0)
    ),
    "backoff": BackoffDescent(Rosenbrock(), START, 1.0),
    "armijo": LineSearchDescent(Rosenbrock(), START),
    "wolfe": LineSearchDescent(Rosenbrock(), START, "wolfe"),
    "newton": newton_descent(Rosenbrock(), START),
    "lbfgs": LBFGS(Rosenbrock(), START),
    "coordinate": CoordinateDescent(SQUARES, START),
    "coordinate, called": CoordinateDescent(Rosenbrock(), START),
    "noisy": NoisyDescent(SQUARES, START, 0.1, threshold=1.0, wait=2),
    "game": DescentAscent(lambda x, y: (float(x @ y), y, x), (START, START[::-1].copy()), 0.1),
    "multipliers": MultiplierDescent(SQUARES, START, SUM_TO_1),
}


def stored(state):
    arrays = {}
    return encode(state, arrays), {key: value.tobytes() for key, value in arrays.items()}


@pytest.fixture(params=ALL.values(), ids=ALL)
def algorithm(request):
    return request.param


def test_a_step_leaves_its_state_alone_repeats_itself_and_goes_on_from_a_file(algorithm):
    state = run(algorithm, None, stop=MaxSteps(3), rng=1).state
    before = stored(state)
    once, twice = (algorithm.step(state, None) for _ in range(2))
    assert stored(state) == before
    arrays = {}
    again = decode(encode(state, arrays), arrays)
    resumed = algorithm.step(again, None)
    if not isinstance(algorithm, LBFGS):  # its rows hold seconds
        assert stored(once) == stored(twice) == stored(resumed)


def test_the_loss_of_a_state_is_that_of_its_point(algorithm):
    if isinstance(algorithm, DescentAscent):
        state = run(algorithm, None, stop=MaxSteps(4)).state
        assert algorithm.objective(state) == pytest.approx(
            np.hypot(*map(np.linalg.norm, (state.x, state.y)))
        )
        return
    solution = run(algorithm, None, stop=MaxSteps(4), rng=1)
    (x,) = solution.attributes["params_"]
    function = (
        algorithm.function.function if isinstance(algorithm.function, Flat) else algorithm.function
    )
    assert algorithm.objective(solution.state) == pytest.approx(function(x)[0], rel=1e-12)
    assert solution.trace.last() == algorithm.objective(solution.state)


def test_points_stay_in_the_set_at_every_step():
    for name in ("descent", "subgradient"):
        algorithm, off = ALL[name], []

        def watch(solution, constraint=algorithm.constraint, off=off):
            (x,) = solution.attributes["params_"]
            off.append(np.abs(x - constraint(x)).max())

        run(algorithm, None, stop=MaxSteps(20), callbacks=[watch])
        assert max(off) <= 1e-15
