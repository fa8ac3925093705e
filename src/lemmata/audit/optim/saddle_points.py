"""Claims about a saddle-point run: stated numbers, whether neither player gains, and whether the players circle."""

from __future__ import annotations

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true


def _game(fit: k.Fit) -> tuple[float, float]:
    """The value and ‖F‖ where a game ended."""
    # `fit.y` would be the targets of a fit
    value, slope_x, slope_y = fit.game_(np.array(fit.model.x), np.array(fit.model.y))
    return float(value), float(np.hypot(np.linalg.norm(slope_x), np.linalg.norm(slope_y)))


def _game_errors(fit: k.Fit) -> dict[str, float]:
    value, residual = _game(fit)
    tolerance = k.rounding(np.asarray(fit.x).dtype, 1000)
    return {
        "value": discrepancy(fit.value, value, max(abs(value), 1e-300), tolerance),
        "residual": discrepancy(fit.residual, residual, max(residual, 1e-300), tolerance),
    }


@k.rule_of_thumb("neither player gains to first order: ‖F‖ ≤ tol", "CIL (5.39)–(5.40)")
def saddle_point_reached(fit: k.Fit):
    advice = "the players chase each other: pass method='extragradient', a smaller step_size, or a larger max_iter"
    return k.at_most(_game(fit)[1], float(fit.tol), advice, unit="‖F‖")


@k.rule_of_thumb(
    "the steps approach the saddle point instead of circling it", "CIL 5.4.4", about="run"
)
def approaches(fit: k.Fit):
    """The largest ‖F‖ of the last third of the run over the largest of the first third."""
    assert fit.trace is not None
    norms = fit.trace.extras["gradient"]
    third = len(norms) // 3
    if third < 3:
        return k.unknown("too few steps to see where they go")
    ratio = float(norms[-third:].max() / norms[:third].max()) if norms[:third].max() > 0 else 0.0
    advice = "synchronous steps drift away and alternating ones circle: pass method='extragradient'"
    return k.at_most(ratio, 0.5, advice, unit="late/early ‖F‖")


SOUND = attributes_sound({"value": "", "residual": ">=0"})
TRUE = statements_true(_game_errors, cost=k.free)
GAME_CLAIMS = (SOUND, TRUE, saddle_point_reached, approaches)
