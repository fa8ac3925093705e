"""Gradient descent that leaves saddle points: where the gradient is small, a little noise.

    x ← x + ξ,  ξ uniform in a ball of radius r,   where ‖∇f(x)‖ ≤ g and the last noise is `wait` steps ago;   x ← x − η∇f(x)

At a strict saddle point some direction curves down, and the noise has a part along it that grows by 1 + η|λ| a step. If f has
not fallen by `drop` within `wait` steps of a noise, there is most likely no such direction: the point before the noise is the
answer (Jin et al. 2017, CIL 4.3.4). The noise of step t follows from the seed in the state and from t.

    >>> import numpy as np
    >>> from lemmata.core import MaxSteps, run
    >>> def f(x):                                            # ¼x⁴ − ½x² + ½y²: a saddle at 0, minima of −¼ at (±1, 0)
    ...     return float(x[0] ** 4 / 4 - x[0] ** 2 / 2 + x[1] ** 2 / 2), np.array([x[0] ** 3 - x[0], x[1]])
    >>> found = run(NoisyDescent(f, np.zeros(2), step_size=0.3), None, stop=MaxSteps(1000), rng=0)
    >>> found.stopped, round(found.state.loss, 6)
    ('finished', -0.25)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.core.store import storable
from lemmata.optim.functions import Function
from lemmata.optim.methods.base import NAN, PointMethod
from lemmata.optim.schedules import check_range

Array = np.ndarray


@storable
@dataclass(frozen=True)
class NoisyState:
    """The iterate, the point before the last noise, and when that was."""

    version = 1

    x: Array
    gradient: Array
    loss: float
    anchor: Array
    anchor_gradient: Array
    anchor_loss: float
    steps: int
    shaken: int  # the step of the last noise; −1 if there was none
    seed: int
    done: bool = False


@dataclass(frozen=True)
class NoisyDescent(PointMethod):
    """Perturbed gradient descent.

    Parameters
    ----------
    step_size : float
        η, at most 1/L.
    threshold : float
        g: gradients up to this call for noise.
    radius : float
        r, the size of the noise.
    wait : int
        Steps that a noise is given to show a way down.
    drop : float
        By how much f must fall meanwhile. A noise of size r at a minimum costs ½Lr² and comes back to it: this should be more
        than rounding and less than a saddle point is worth.
    """

    function: Function
    start: Array
    step_size: float
    threshold: float = 1e-3
    radius: float = 1e-2
    wait: int = 100
    drop: float = 1e-5

    hint: ClassVar[str] = "lower step_size"

    def __post_init__(self):
        for name in ("step_size", "threshold", "radius", "drop"):
            check_range(name, getattr(self, name), 0, open_low=True)
        check_range("wait", self.wait, 1)

    def init(self, data: Any, rng: np.random.Generator) -> NoisyState:
        x = self.start
        value, gradient = self._evaluate(x)
        seed = int(rng.integers(2**63))
        return NoisyState(x, gradient, value, x, gradient, value, 0, -1, seed)

    def step(self, state: NoisyState, data: Any) -> NoisyState:
        x, g, loss, shaken = state.x, state.gradient, state.loss, state.shaken
        anchor = state.anchor, state.anchor_gradient, state.anchor_loss
        since = state.steps - shaken if shaken >= 0 else self.wait
        if shaken >= 0 and since == self.wait and state.anchor_loss - loss < self.drop:
            a, ga, va = anchor
            kept = (x, g, loss) if loss < va else (a, ga, va)
            return NoisyState(*kept, *anchor, state.steps, shaken, state.seed, done=True)
        if float(np.linalg.norm(g)) <= self.threshold and since >= self.wait:
            anchor, shaken = (x, g, loss), state.steps
            x = x + self._noise(state)
            _, g = self._evaluate(x)
        x = x - x.dtype.type(self.step_size) * g
        loss, g = self._evaluate(x)
        return NoisyState(x, g, loss, *anchor, state.steps + 1, shaken, state.seed)

    def _noise(self, state: NoisyState) -> Array:
        """Uniform in the ball: a Gaussian direction, and a length whose d-th power is uniform."""
        rng = np.random.default_rng([state.seed, state.steps])
        v = rng.standard_normal(state.x.shape)
        length = self.radius * rng.random() ** (1 / v.size)
        return (v * (length / np.linalg.norm(v))).astype(state.x.dtype)

    def finished(self, state: NoisyState) -> bool:
        return state.done

    def extras(self, state: NoisyState) -> dict[str, float]:
        return {
            "gradient": float(np.linalg.norm(state.gradient)),
            "step_size": self.step_size if state.steps else NAN,
            "noise": float(state.shaken == state.steps - 1 and state.shaken >= 0),
        }
