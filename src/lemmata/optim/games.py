"""Saddle points: x minimises what y maximises, as in a GAN or a Lagrangian.

    min over x, max over y of f(x, y)                       F = (∂f/∂x, −∂f/∂y) vanishes at a saddle point

    synchronous    both step from the same point            x ← x − η∂ₓf(x, y),   y ← y + η∂_yf(x, y)               CIL (5.39)
    alternating    y sees the new x                         x ← x − η∂ₓf(x, y),   y ← y + η∂_yf(x⁺, y)              CIL (5.39)
    extragradient  both step by the slopes at the point     z ← z − ηF(z − ηF(z))                                   CIL (5.40)
                   where synchronous steps would lead

On the bilinear game f = xy the first multiplies the distance to the saddle point by √(1 + η²) every step, the second stays on
an ellipse forever, and the third multiplies it by √(1 − η² + η⁴) < 1 for η < 1. Extragradient converges on every
convex–concave f with an L-Lipschitz F for η < 1/L (Korpelevich 1976).

    >>> import numpy as np
    >>> def bilinear(x, y):
    ...     return float(x @ y), y, x                       # the value, ∂f/∂x, ∂f/∂y
    >>> for method in ("synchronous", "alternating", "extragradient"):
    ...     found = saddle_point(bilinear, np.ones(1), np.ones(1), method=method, step_size=0.3, max_iter=100)
    ...     print(f"{method:14} {np.hypot(found.x, found.y)[0]:.3g}")
    synchronous    105
    alternating    1.23
    extragradient  0.0197
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.optim.saddle_points import GAME_CLAIMS
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.core.loop import MaxSteps, SmallGradient, run
from lemmata.core.runs.trace import Trace
from lemmata.core.store import storable
from lemmata.optim.functions import as_point
from lemmata.optim.schedules import check_range

Array = np.ndarray
Game = Callable[[Array, Array], tuple[float, Array, Array]]
MODES = ("extragradient", "alternating", "synchronous")


@storable
@dataclass(frozen=True)
class GameState:
    """Both players' points, the value and both slopes there."""

    version = 1

    x: Array
    y: Array
    value: float
    slope_x: Array
    slope_y: Array

    @property
    def residual(self) -> float:
        """‖F‖: zero at a saddle point."""
        return float(np.hypot(np.linalg.norm(self.slope_x), np.linalg.norm(self.slope_y)))


@dataclass(frozen=True)
class DescentAscent:
    """Simultaneous, alternating or extragradient steps on game(x, y) -> (value, ∂f/∂x, ∂f/∂y)."""

    game: Game
    start: tuple[Array, Array]
    step_size: float
    mode: str = "extragradient"

    draws: ClassVar[bool] = False
    hint: ClassVar[str] = "lower step_size, or pass method='extragradient'"

    def __post_init__(self):
        check_range("step_size", self.step_size, 0, open_low=True)
        if self.mode not in MODES:
            raise ValueError(f"method={self.mode!r} is not accepted; pass {', '.join(MODES)}.")

    def init(self, data: Any, rng: Any) -> GameState:
        return self._at(*self.start)

    def step(self, state: GameState, data: Any) -> GameState:
        eta = self.step_size
        x = state.x - eta * state.slope_x
        if self.mode == "alternating":
            return self._at(x, state.y + eta * np.asarray(self.game(x, state.y)[2]))
        y = state.y + eta * state.slope_y
        if self.mode == "synchronous":
            return self._at(x, y)
        _, slope_x, slope_y = self.game(x, y)
        return self._at(state.x - eta * np.asarray(slope_x), state.y + eta * np.asarray(slope_y))

    def _at(self, x: Array, y: Array) -> GameState:
        value, slope_x, slope_y = self.game(x, y)
        return GameState(x, y, float(value), np.asarray(slope_x), np.asarray(slope_y))

    def objective(self, state: GameState) -> float:
        return state.residual

    def extras(self, state: GameState) -> dict[str, float]:
        return {"gradient": state.residual, "step_size": self.step_size, "value": state.value}

    def attributes(self, state: GameState) -> dict[str, Any]:
        return {"x_": state.x, "y_": state.y}


@dataclass(eq=False)
class SaddlePoint:
    """Where a game ended: both points, the value, ‖F‖ there, the run and what is true of it."""

    x: Array
    y: Array
    value: float
    residual: float
    method: str
    step_size: float
    tol: float
    trace_: Trace
    stopped_: str
    n_iter_: int
    game_: Game
    certificate_: Certificate | None = None

    def certify(self) -> Certificate:
        """Check every claim again."""
        fit = Fit(self, trace=self.trace_, stopped=f"{self.stopped_}, {self.n_iter_} steps")
        title = f"{self.method}  {self.x.size} against {self.y.size} numbers"
        self.certificate_ = check(GAME_CLAIMS, fit, title)
        return self.certificate_

    def __repr__(self) -> str:
        return (
            f"saddle point by {self.method}: {self.n_iter_} steps, stopped: {self.stopped_}\n"
            f"  f(x, y) = {self.value:.6g}, ‖F‖ = {self.residual:.3g}\n"
            f"  {self.certificate_.counts if self.certificate_ else ''}"
        )


def saddle_point(
    game: Game,
    x0: Any,
    y0: Any,
    *,
    method: str = "extragradient",
    step_size: float = 0.1,
    tol: float = 1e-6,
    max_iter: int = 10_000,
) -> SaddlePoint:
    """Look for a point at which x cannot lower and y cannot raise f to first order.

    Parameters
    ----------
    game : callable
        (x, y) -> (value, ∂f/∂x, ∂f/∂y).
    method : {"extragradient", "alternating", "synchronous"}
    step_size : float, default=0.1
        η; extragradient needs η < 1/L, L the Lipschitz constant of F = (∂ₓf, −∂_yf).
    tol : float, default=1e-6
        The run ends when ‖F‖ is at most this.
    """
    start = as_point(x0), as_point(y0)
    found = game(*start)
    shapes = [np.shape(part) for part in found[1:]] if isinstance(found, tuple) else []
    if shapes != [start[0].shape, start[1].shape]:
        raise ValueError(
            f"the game returned slopes of shapes {shapes} for points of shapes {start[0].shape} and {start[1].shape}; "
            "return (value, ∂f/∂x, ∂f/∂y)."
        )
    descent = DescentAscent(game, start, float(step_size), method)
    solution = run(descent, None, stop=SmallGradient(tol) | MaxSteps(max_iter))
    state = solution.state
    result = SaddlePoint(
        state.x, state.y, state.value, state.residual, method, float(step_size), float(tol), solution.trace,
        str(solution.stopped), solution.step, game,
    )  # fmt: skip
    result.certify()
    return result


@dataclass(frozen=True)
class Lagrangian:
    """f(x) + λᵀh(x) as a game: x minimises, the multipliers λ maximise (ML "Linearized Penalty Functions").

    f : x -> (value, gradient);  h : x -> (values, jacobian), asked to be zero
    """

    f: Callable[[Array], tuple[float, Array]]
    h: Callable[[Array], tuple[Array, Array]]

    def __call__(self, x: Array, multipliers: Array) -> tuple[float, Array, Array]:
        value, gradient = self.f(x)
        h, J = self.h(x)
        return (
            float(value + multipliers @ h),
            gradient + np.asarray(J).T @ multipliers,
            np.asarray(h),
        )
