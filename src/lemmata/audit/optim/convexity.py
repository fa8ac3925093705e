"""Claim about convexity: a chord of the function that lies below it proves that it is not convex; nothing proves that it is.

    f((1 − t)x + ty) ≤ (1 − t)f(x) + tf(y)        for all x, y and 0 ≤ t ≤ 1                         (CIL Definition 2.2.2)

The chord comes from a search and is believed as little as any witness: f is asked again at its three points, and at points next
to them, because a function of floats is rough. How rough is measured there, and what is less than that is no violation.
"""

from __future__ import annotations

import numpy as np

from lemmata.audit.kernel import claims as k

Array = np.ndarray
# of neighbours, as shares of x: f may add what is larger than x, and round it
SCALES = (3e-16, 1e-13, 1e-10, 1e-7)
DIRECTIONS, MARGIN = 4, 100.0  # and how many times the roughness counts
LEAST = 1e-11  # of the values: rounding that neighbours may happen not to show


def excess_of(f, x: Array, y: Array, t: float) -> float:
    """Return how far f lies above its chord between x and y, at the share t."""
    return f((1 - t) * x + t * y) - ((1 - t) * f(x) + t * f(y))


def roughness(f, x: Array) -> float:
    """The largest |f(x + h) − 2f(x) + f(x − h)| over tiny h: slopes cancel, what rounding does to f stays."""
    rng, here, worst = np.random.default_rng(0), f(x), 0.0
    for scale in SCALES:
        h = scale * x * rng.uniform(-1, 1, (DIRECTIONS, *x.shape))
        worst = max(worst, *(abs(f(x + one) - 2 * here + f(x - one)) for one in h))
    return worst


@k.proved("no chord that was tried lies below the function", "CIL Definition 2.2.2")
def chord_above(fit: k.Fit):
    """In units of what rounding may do; holding is not to be had: other chords were not tried."""
    x, y, t = (np.asarray(one, np.float64) for one in fit.chord_)
    middle = (1 - t) * x + t * y
    if not 0 < t < 1:
        raise k.CannotTell(f"t = {t:g} is no place between two points")
    values = [fit.value_of(one) for one in (x, y, middle)]
    if not np.isfinite(values).all():
        raise k.CannotTell("f is not finite at the ends of the chord or between them")
    rough = sum(roughness(fit.value_of, one) for one in (x, y, middle))
    allowed = MARGIN * rough + LEAST * max(map(abs, values))
    excess = excess_of(fit.value_of, x, y, float(t))
    if excess <= allowed:
        return k.unknown(f"{fit.tried:,} chords were tried, with {fit.calls:,} calls", excess, "f − chord")  # fmt: skip
    advice = "f is not convex where it was sampled: what is found there may be a local minimum"
    shown = {"x": x, "y": y, "t": float(t)}
    return k.at_most(excess, allowed, advice, unit="f − chord", witness=shown)


CONVEXITY_CLAIMS = (chord_above,)
