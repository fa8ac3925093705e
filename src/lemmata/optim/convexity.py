"""Is this function convex? Look for a chord that lies below it: one proves that it is not (CIL 2.2.3).

Where f is smooth, its chords around a point where it curves down lie below it, and where its tangent passes above it, too; so a
chord is all that has to be shown. Two kinds are tried:

    long     between two sampled points, at a share t
    short    around the mean of m of them, along the direction in which second differences curve down most

Every point that f is asked at is a mean of sampled points with weights ≥ 0: if these lie in a convex domain, so does it.

    >>> import numpy as np
    >>> box = np.random.default_rng(0).uniform(-2, 2, (200, 2))
    >>> print(search_nonconvexity(lambda w: (w[0] * w[1] - 1) ** 2, box).verdict)
    not convex
    >>> print(search_nonconvexity(lambda w: float(np.logaddexp(*w)), box).verdict)
    can't tell
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lemmata.audit.optim.convexity import CONVEXITY_CLAIMS
from lemmata.core.certificate import FAILS, Certificate, Fit
from lemmata.core.certification.checking import check

Array = np.ndarray
AROUND = 8  # points whose mean a short chord goes through
CENTRES = 12
LENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01)  # of a short chord, as shares of what the weights allow


@dataclass(frozen=True)
class ConvexitySearch:
    """The chord that lies farthest below a function, of those that were tried; `certificate_` says whether it is a proof."""

    f: Callable[[Array], Any] = field(repr=False)
    chord_: tuple[
        Array, Array, float
    ]  # x, y and t: the function lies above the chord at (1 − t)x + ty
    excess: float  # how far, less than 0 where every chord lies above the function
    tried: int  # chords
    calls: int  # of f
    certificate_: Certificate | None = field(default=None, repr=False)

    def value_of(self, x: Array) -> float:
        return _value(self.f(np.array(x)))

    @property
    def verdict(self) -> str:
        assert self.certificate_ is not None
        return "not convex" if self.certificate_["chord_above"].verdict == FAILS else "can't tell"


def search_nonconvexity(f: Any, sampler: Any, tries: int = 2_000, random_state: int = 0) -> ConvexitySearch:  # fmt: skip
    """Look for a chord of f that lies below f.

    Parameters
    ----------
    f : function of a point, an array, that returns a number, or (value, gradient)
    sampler : array (m, …) of points, or function of a numpy Generator that draws one; from a convex domain
    tries : int, default=2000
        Long chords; short ones cost about as many calls again.
    random_state : int, default=0

    Returns
    -------
    ConvexitySearch : `verdict` is "not convex", then `chord_` proves it, or "can't tell"
    """
    if not callable(f) or not isinstance(tries, (int, np.integer)) or tries < 1:
        raise ValueError(f"f={f!r}, tries={tries!r}: pass a function and a whole number >= 1.")
    rng = np.random.default_rng(random_state)
    points = _draw(sampler, rng)
    search = _ChordSearch(f, points.shape[1:])
    flat = points.reshape(len(points), -1)
    for _ in range(int(tries)):
        i, j = rng.choice(len(flat), 2, replace=False)
        search.try_chord(flat[i], flat[j], 0.5 if rng.random() < 0.5 else float(rng.uniform(0.02, 0.98)))  # fmt: skip
    for _ in range(CENTRES):
        some = flat[rng.choice(len(flat), min(AROUND, len(flat)), replace=False)]
        search.try_around(some)
    found = ConvexitySearch(f, search.chord(), search.excess, search.tried, search.calls)
    title = f"convexity  {flat.shape[1]} numbers, {search.tried:,} chords"
    return replace(found, certificate_=check(CONVEXITY_CLAIMS, Fit(found), title))


class _ChordSearch:
    """The best chord so far, of a function that counts its calls."""

    def __init__(self, f: Any, shape: tuple[int, ...]):
        self.f, self.shape, self.calls, self.tried = f, shape, 0, 0
        self.excess, self.known = -np.inf, dict[bytes, float]()
        self.best: tuple[Array, Array, float] | None = None
        self.share = -np.inf  # of the values: the excess of functions that grow fast says little

    def value(self, x: Array) -> float:
        key = x.tobytes()
        if key not in self.known:
            self.calls += 1
            found = _value(self.f(x.reshape(self.shape).copy()))
            if not np.isfinite(found):
                raise ValueError(
                    f"f is {found} at {_brief(x)}, a mean of sampled points: sample where f is finite, a convex set."
                )
            self.known[key] = found
        return self.known[key]

    def try_chord(self, x: Array, y: Array, t: float) -> None:
        self.tried += 1
        ends = self.value(x), self.value(y)
        between = self.value((1 - t) * x + t * y)
        excess = between - ((1 - t) * ends[0] + t * ends[1])
        share = excess / (max(map(abs, (*ends, between))) or 1.0)
        if share > self.share or self.best is None:
            self.share, self.excess, self.best = share, excess, (x, y, t)

    def try_around(self, some: Array) -> None:
        """Second differences in the weights of a mean, and a chord along the direction that curves down most."""
        m = len(some)
        centre, away = some.mean(axis=0), some - some.mean(axis=0)
        h = 0.25 / m  # weights 1/m ± h(e_i ± e_j) stay ≥ 0
        M, f = np.empty((m, m)), lambda c: self.value(centre + h * (c @ away))
        e = np.eye(m)
        for i in range(m):
            for j in range(i + 1):
                plus, minus = e[i] + e[j], e[i] - e[j]
                M[i, j] = M[j, i] = f(plus) + f(-plus) - (f(minus) + f(-minus))
        values, vectors = np.linalg.eigh(M)
        for c in vectors[:, values < 0].T[:3]:
            c = c - c.mean()
            reach = 1 / (m * max(np.abs(c).max(), 1e-300))
            for length in LENGTHS:
                step = length * reach * (c @ away)
                self.try_chord(centre - step, centre + step, 0.5)

    def chord(self) -> tuple[Array, Array, float]:
        assert self.best is not None
        x, y, t = self.best
        return x.reshape(self.shape), y.reshape(self.shape), t


def _draw(sampler: Any, rng: np.random.Generator) -> Array:
    points = [sampler(rng) for _ in range(200)] if callable(sampler) else sampler
    points = np.array(points, dtype=np.float64)
    if points.ndim < 2 or len(points) < 3 or not np.isfinite(points).all():
        raise ValueError(
            f"sampler gives points of shape {points.shape}; pass an array (m, …) of three finite points or more, or a "
            "function of a numpy Generator that draws one."
        )
    return points


def _value(found: Any) -> float:
    found = found[0] if isinstance(found, tuple) else found
    if np.size(found) != 1:
        raise TypeError(f"f returned {type(found).__name__} of {np.size(found)} numbers; return one number.")  # fmt: skip
    return float(np.asarray(found).item())


def _brief(x: Array) -> str:
    text = ", ".join(f"{one:.4g}" for one in x[:4])
    return f"({text}, …)" if len(x) > 4 else f"({text})"
