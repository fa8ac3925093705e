"""The perturbations an attacker may make: a ball around each row, cut by the box that inputs live in.

    B(x) = {x + δ :  ‖δ‖_p ≤ ε,  low ≤ x + δ ≤ high},     p ∈ {1, 2, ∞}

With c_i the room of coordinate i in its direction (to the border of the box), two problems are solved exactly:

            projection of v:  argmin ‖δ − v‖₂                       best step along g:  argmax gᵀδ
    ℓ∞      clip to ±ε, then to the box                             sign(g_i) min(ε, c_i)
    ℓ2      sign(v) min(t|v|, c),  ‖·‖₂ = ε for one t ≤ 1           sign(g) min(t|g|, c),  ‖·‖₂ = ε for one t
    ℓ1      sign(v) min((|v| − λ)₊, c),  ‖·‖₁ = ε for one λ         the largest |g_i| first, each by c_i, until ε is spent

>>> import numpy as np
>>> ball, x = Ball(1.0, norm=2), np.array([[0.5, 0.9]])
>>> ball.project(x + np.array([[0.0, 5.0]]), x)                     # the box ends at 1
array([[0.5, 1. ]])
>>> Ball(0.1).maximise(np.array([[1.0, -2.0]]), x)                  # ℓ∞
array([[ 0.1, -0.1]])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from lemmata.core.loop import warn_user
from lemmata.core.store import storable

Array = np.ndarray

NORMS = {"inf": math.inf, "linf": math.inf, "l2": 2.0, "l1": 1.0}
SPARSE = 100  # of so many coordinates, one is moved by a step in ℓ1
FINE = 50  # whole numbers with a range of at least this look like bytes


@storable
@dataclass(frozen=True)
class Perturbations:
    """An ε-ball in a norm, cut by a box. `Ball` is its public name.

    Parameters
    ----------
    eps : float
        ε, the radius, in the units of the rows.
    norm : inf, 2 or 1
    low, high : float, or one number for each feature
        The box that inputs live in; -inf and inf, or None, where there is none.
    """

    eps: float
    norm: float = math.inf
    low: Any = 0.0
    high: Any = 1.0

    def __post_init__(self):
        norm = NORMS.get(self.norm) if isinstance(self.norm, str) else self.norm
        if norm not in (1, 2, math.inf):
            raise ValueError(f"norm={self.norm!r} is not known; pass inf, 2 or 1.")
        if not isinstance(self.eps, Real) or not 0 <= self.eps < math.inf:
            raise ValueError(f"eps={self.eps!r}: a radius is a finite number >= 0, in the units of X.")  # fmt: skip
        object.__setattr__(self, "eps", float(self.eps))
        object.__setattr__(self, "norm", float(norm))
        for name, nowhere in (("low", -math.inf), ("high", math.inf)):
            given = getattr(self, name)
            end = np.asarray(nowhere if given is None else given, dtype=np.float64)
            if end.ndim > 1 or np.isnan(end).any():
                raise ValueError(f"{name}={given!r}: pass a number, or one for each feature.")
            object.__setattr__(self, name, float(end) if end.ndim == 0 else tuple(end.tolist()))
        if not (np.asarray(self.low) < np.asarray(self.high)).all():
            raise ValueError(f"the box from low={self.low} to high={self.high} is empty; pass low < high.")  # fmt: skip

    def __repr__(self) -> str:
        box = "" if (self.low, self.high) == (0.0, 1.0) else f", low={self.low}, high={self.high}"
        return f"Ball({self.eps:g}, norm={self.norm:g}{box})"

    def with_eps(self, eps: float) -> Perturbations:
        """Return the ball of another radius."""
        return Perturbations(eps, self.norm, self.low, self.high)

    @property
    def dual(self) -> float:
        """q with 1/p + 1/q = 1: max gᵀδ over the ball is ε‖g‖_q."""
        return {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}[self.norm]

    def measure(self, delta: Array) -> Array:
        """Return ‖δ‖_p of every row, in float64."""
        return np.linalg.norm(np.asarray(delta, dtype=np.float64), ord=self.norm, axis=1)

    def check_rows(self, X: Any) -> Array:
        """Return X as flat rows of floats; refuse rows outside the box, and an ε that cannot be in their units."""
        if hasattr(X, "tocsr"):
            raise TypeError("X is sparse; a perturbation moves every feature: pass X.toarray().")
        X = X.detach().cpu().numpy() if hasattr(X, "detach") else np.asarray(X)
        if X.ndim < 2 or not X.size:
            raise ValueError(f"X has shape {X.shape}; pass at least one row: (n, d), or images (n, …).")  # fmt: skip
        rows = X.reshape(len(X), -1)
        if rows.dtype not in (np.float32, np.float64):
            rows = rows.astype(np.float64)
        if not np.isfinite(rows).all():
            raise ValueError("X holds NaN or infinite numbers; impute or drop these rows.")
        low, high = (np.asarray(end) for end in (self.low, self.high))
        for end in (low, high):
            if end.ndim and len(end) != rows.shape[1]:
                raise ValueError(f"the box has {len(end)} features, X has {rows.shape[1]}.")
        slack = 1e-6 * np.where(np.isfinite(high - low), high - low, 0)
        if ((rows < low - slack) | (rows > high + slack)).any():
            raise ValueError(
                f"X runs from {rows.min():g} to {rows.max():g}, outside of the box from {np.min(low):g} to {np.max(high):g}: "
                "scale X as the model expects it, or pass Ball(eps, low=…, high=…) in the units of X."
            )
        whole = float(self.measure(np.broadcast_to(high - low, rows.shape[1:])[None])[0])
        if self.eps > whole * (1 + 1e-6):
            raise ValueError(
                f"eps={self.eps:g} is more than the whole box ({whole:g} across): is eps in the units of X?"
            )
        if self.norm == math.inf and 0 < self.eps < 0.5 and np.ptp(rows) >= FINE and (rows == np.rint(rows)).all():  # fmt: skip
            warn_user(
                f"X holds whole numbers from {rows.min():g} to {rows.max():g}, and eps={self.eps:g} is far less than "
                "one of their steps: is eps in the units of X?",
                UserWarning,
            )
        return np.clip(rows, self._end("low", rows), self._end("high", rows))

    def _end(self, name: str, X: Array) -> Array:
        return np.asarray(getattr(self, name), dtype=X.dtype)

    def _room(self, direction: Array, X: Array) -> Array:
        """Return c ≥ 0: how far each coordinate may go in its direction before the box ends."""
        ahead = np.where(direction >= 0, self._end("high", X) - X, X - self._end("low", X))
        return np.maximum(ahead, 0, out=ahead)

    # --- the two exact problems ---

    def project(self, Z: Array, X: Array, eps: Array | None = None) -> Array:
        """Return the nearest points to Z (n, d) in the balls around the rows of X, or in balls of other radii (n,)."""
        v = Z - X
        if self.norm == math.inf:
            ends: Any = self.eps if eps is None else eps.astype(X.dtype)[:, None]
            return self.place(X, np.clip(v, -ends, ends, out=v))
        radius = np.full(len(X), self.eps, X.dtype) if eps is None else eps.astype(X.dtype)
        size, c = np.abs(v), self._room(v, X)
        cut = np.minimum(size, c)
        far = np.flatnonzero(np.linalg.norm(cut, ord=self.norm, axis=1) > radius)
        if len(far):
            shrink = _scale_to if self.norm == 2 else _threshold_to
            cut[far] = shrink(size[far], c[far], radius[far])
        return self.place(X, np.copysign(cut, v))

    def maximise(self, G: Array, X: Array) -> Array:
        """Return argmax gᵀδ over the balls around the rows of X: the worst case of a linear function."""
        size, c = np.abs(G), self._room(G, X)
        if self.norm == math.inf:
            return np.sign(G) * np.minimum(c, self.eps)
        if self.norm == 2:
            return np.copysign(_scale_to(size, c, np.full(len(X), self.eps)), G)
        order = np.argsort(-size, axis=1)
        c = np.take_along_axis(np.where(size > 0, np.minimum(c, self.eps), 0), order, axis=1)
        spent = np.cumsum(c, axis=1) - c  # before this coordinate
        taken = np.empty_like(c)
        np.put_along_axis(taken, order, np.clip(self.eps - spent, 0, c), axis=1)
        return np.copysign(taken, G)

    def place(self, X: Array, delta: Array) -> Array:
        """Return x + δ, clipped to the box; δ is overwritten."""
        delta += X
        return np.clip(delta, self._end("low", X), self._end("high", X), out=delta)

    # --- steps and draws ---

    def steer(self, G: Array, Z: Array) -> Array:
        """Return the steepest step of length 1 in this norm along g; ℓ2 and ℓ1 spend none where the box stops it at z.

        ℓ∞: the signs; ℓ2: g/‖g‖; ℓ1: the signs of the largest hundredth of |g|, since one coordinate at a time takes too long.
        """
        if self.norm == math.inf:
            return np.sign(G)
        low, high = self._end("low", Z), self._end("high", Z)
        G = np.where(((G > 0) & (high <= Z)) | ((G < 0) & (low >= Z)), 0, G)
        size = np.abs(G)
        most = size.max(axis=1, keepdims=True)
        G = np.divide(G, most, out=np.zeros_like(G), where=most > 0)  # squares do not underflow
        if self.norm == 2:
            length = np.linalg.norm(G, axis=1, keepdims=True)
            return np.divide(G, length, out=G, where=length > 0)
        m = -(-G.shape[1] // SPARSE)
        least = np.partition(size, -m, axis=1)[:, [-m]]
        G = np.where(size >= least, np.sign(G), 0)
        return G / np.maximum(np.abs(G).sum(axis=1, keepdims=True), 1)

    def draw(self, X: Array, rng: np.random.Generator) -> Array:
        """Return points drawn evenly from the balls around the rows of X, then clipped to the box."""
        n, d = X.shape
        if self.norm == math.inf:
            delta = 2 * rng.random(X.shape, X.dtype) - 1
        elif self.norm == 2:
            delta = rng.standard_normal(X.shape)
            delta *= rng.uniform(size=(n, 1)) ** (1 / d) / np.linalg.norm(delta, axis=1, keepdims=True)  # fmt: skip
        else:
            share = rng.standard_exponential((n, d + 1))
            delta = share[:, :d] / share.sum(axis=1, keepdims=True) * rng.choice([-1.0, 1.0], (n, d))  # fmt: skip
        return self.place(X, (self.eps * delta).astype(X.dtype, copy=False))


Ball = Perturbations


def _scale_to(size: Array, c: Array, eps: Array) -> Array:
    """min(t·size, c) with norm ε, or c where that is not longer. Newton from below: who is clipped stays clipped."""
    most = size.max(axis=1, keepdims=True)
    size = np.divide(size, most, out=np.zeros_like(size), where=most > 0)
    clipped = size == 0
    c = np.where(clipped, 0, c)
    while True:
        rest = eps**2 - np.square(c, where=clipped, out=np.zeros_like(c)).sum(axis=1)
        free = np.square(size, where=~clipped, out=np.zeros_like(size)).sum(axis=1)
        t = np.sqrt(np.maximum(rest, 0) / np.maximum(free, np.finfo(size.dtype).tiny))
        scaled = t[:, None] * size
        more = ~clipped & (scaled >= c)
        if not more.any():
            return np.where(clipped, c, scaled)
        clipped |= more


def _threshold_to(size: Array, c: Array, eps: Array) -> Array:
    """min((size − λ)₊, c) with sum ε < that of λ = 0. The sum is linear in λ between the values size and size − c."""
    ends = np.hstack([size, np.maximum(size - c, 0)])
    order = np.argsort(-ends, axis=1)
    ends = np.take_along_axis(ends, order, axis=1)
    slope = np.cumsum(np.where(order < size.shape[1], 1, -1), axis=1)  # below each value
    rise = slope[:, :-1] * (ends[:, :-1] - ends[:, 1:])
    total = np.hstack([np.zeros((len(size), 1)), np.cumsum(rise, axis=1)])
    first = np.argmax(total >= eps[:, None], axis=1)[:, None]
    above = [np.take_along_axis(part, first, axis=1) for part in (ends, total)]
    between = np.take_along_axis(slope, np.maximum(first - 1, 0), axis=1)
    threshold = above[0] + (above[1] - eps[:, None]) / np.maximum(between, 1)
    return np.minimum(np.maximum(size - threshold, 0), c).astype(size.dtype)
