"""Barron's theorem (ML "L_2 Approximation"): one hidden layer of n units, in any dimension, errs by O(1/√n).

    f(x) = ∫ e^{iω·x} f̃(ω) dω,    C = ∫ ‖ω‖ |f̃(ω)| dω    ⇒    for every n there is  f_n(x) = c_0 + Σ_j c_j φ(w_j·x + b_j)  with

    ∫ (f − f_n)² dμ ≤ (2 r C)² / n              for every probability measure μ on the ball ‖x‖ ≤ r       (Barron 1993)

The notes integrate against dx, which multiplies the right side by the ball's volume, and their f̂ = ∫ f e^{−iω·x} dx is (2π)ᵈ f̃,
so that their C is (2π)ᵈ times the C of the theorem.

The proof is a construction. Along ω, a wave a cos(ω·x + b) is a function g of z = ω·x/‖ω‖ ∈ [−r, r], and

    g(z) − g(0) = ∫_0^r g'(t) 1[z > t] dt − ∫_{−r}^0 g'(t) 1[z < t] dt,        ∫ |g'| ≤ 2r |a| ‖ω‖

so f − f(0) is a mixture of steps with total mass V ≤ 2rC. Drawing n steps with probability |g'|/V and averaging V·(± step) is
unbiased, and its variance is at most V²/n: that is the theorem (for steps; sigmoids steep enough come as close as one
likes). `barron_net` draws so, and may then fit the outer weights by least squares, or choose the steps greedily. `Cosines` are
functions with a known C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lemmata.nets.approximation.layers import Layers

Array = np.ndarray

CANDIDATES = 8  # drawn per unit that the greedy method keeps


@dataclass(frozen=True)
class Cosines:
    """f(x) = Σ_k a_k cos(ω_k·x + b_k): its Fourier transform is points at ±ω_k, so that C = Σ |a_k| ‖ω_k‖ exactly."""

    amplitudes: Array  # (K,)
    frequencies: Array  # (K, d)
    phases: Array  # (K,)

    def __post_init__(self):
        for name, ndim in (("amplitudes", 1), ("frequencies", 2), ("phases", 1)):
            array = np.asarray(getattr(self, name), dtype=np.float64)
            if array.ndim != ndim or len(array) != len(self.amplitudes):
                raise ValueError(
                    f"{name} has shape {array.shape}; pass K amplitudes, K × d frequencies and K phases."
                )
            object.__setattr__(self, name, array)

    def __call__(self, X) -> Array:
        """(n,) of rows (n, d)."""
        return np.cos(np.asarray(X) @ self.frequencies.T + self.phases) @ self.amplitudes

    @property
    def constant(self) -> float:
        """C"""
        return float(np.abs(self.amplitudes) @ np.linalg.norm(self.frequencies, axis=1))

    def bound(self, width: int, radius: float) -> float:
        """(2rC)²/n, on the mean squared error over the ball"""
        return (2 * radius * self.constant) ** 2 / width


def sample_ball(n: int, d: int, radius: float, rng: np.random.Generator) -> Array:
    """Rows drawn evenly from the ball."""
    directions = rng.standard_normal((n, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return radius * directions * rng.random((n, 1)) ** (1 / d)


def barron_net(
    f: Cosines,
    width: int,
    radius: float,
    rng: np.random.Generator,
    *,
    method: str = "drawn",
    steepness: float = math.inf,
    n_samples: int = 2000,
) -> Layers:
    """A net with one hidden layer of `width` units for f on the ball of this radius.

    method : "drawn" is the proof: steps drawn from f's own mixture, all with the same weight; its mean squared error is at most
        f.bound(width, radius) on average over draws. "fitted" then fits the outer weights to f on `n_samples` points of the
        ball. "greedy" picks the steps one by one from 8 times as many, each time the one that fits what is left best.
    steepness : of sigmoids in place of steps
    """
    if width < 1 or not radius > 0:
        raise ValueError(f"width={width} and radius={radius}: pass width >= 1 and radius > 0.")
    if method not in ("drawn", "fitted", "greedy"):
        raise ValueError(f"method={method!r}: pass 'drawn', 'fitted' or 'greedy'.")
    n = width * (CANDIDATES if method == "greedy" else 1)
    W, b, out = _drawn_steps(f, n, radius, rng)
    phi = "step" if math.isinf(steepness) else "sigmoid"
    if phi == "sigmoid":
        W, b = steepness * W, steepness * b
    start = float(f(np.zeros((1, f.frequencies.shape[1])))[0])
    net = Layers((W, out[None]), (b, np.array([start])), phi)
    if method == "drawn":
        return net
    X = sample_ball(n_samples, f.frequencies.shape[1], radius, rng)
    y = f(X)
    units = net.activations(X)[0]
    kept = _greedy(units, y, width) if method == "greedy" else np.arange(width)
    design = np.column_stack([units[:, kept], np.ones(len(X))])
    weights = np.linalg.lstsq(design, y, rcond=None)[0]
    return Layers((W[kept], weights[None, :-1]), (b[kept], weights[-1:]), phi)


def _drawn_steps(f: Cosines, n: int, radius: float, rng) -> tuple[Array, Array, Array]:
    """n steps of f's mixture: directions, biases and outer weights ±V/n, with V = Σ_k ∫|g_k'|."""
    lengths = np.linalg.norm(f.frequencies, axis=1)
    masses = np.abs(f.amplitudes) * _total_variation(lengths * radius, f.phases)
    V = float(masses.sum())
    if V == 0:
        return np.zeros((n, f.frequencies.shape[1])), np.zeros(n), np.zeros(n)
    wave = rng.choice(len(masses), size=n, p=masses / V)
    t = _draw_places(lengths[wave], f.phases[wave], radius, rng)
    # g'(t) = −a ‖ω‖ sin(‖ω‖t + b); left of 0 the step opens to the left and enters with a minus
    side = np.where(t > 0, 1.0, -1.0)
    slope = -np.sign(f.amplitudes[wave] * np.sin(lengths[wave] * t + f.phases[wave]))
    W = side[:, None] * f.frequencies[wave] / lengths[wave, None]
    return W, -side * t, side * slope * V / n


def _sine_integral(s: Array) -> Array:
    """∫ |sin| from 0 to s"""
    turns, rest = np.divmod(s, math.pi)
    return 2 * turns + 1 - np.cos(rest)


def _total_variation(angle: Array, phase: Array) -> Array:
    """∫ |sin(s + b)| ds over −angle ≤ s ≤ angle"""
    return _sine_integral(phase + angle) - _sine_integral(phase - angle)


def _draw_places(lengths: Array, phases: Array, radius: float, rng) -> Array:
    """t in [−r, r] with density ∝ |sin(‖ω‖t + b)|, by the inverse of its integral."""
    low, high = (_sine_integral(phases + sign * lengths * radius) for sign in (-1, 1))
    turns, rest = np.divmod(rng.uniform(low, high), 2)
    return np.clip((math.pi * turns + np.arccos(1 - rest) - phases) / lengths, -radius, radius)


def _greedy(units: Array, y: Array, width: int) -> Array:
    """Orthogonal matching pursuit: each time the unit whose part beyond those kept explains most of what is left.

    With q the new direction (the unit's part orthogonal to those kept), a unit u loses (q·u)² of its squared length beyond
    them and (q·u)(q·rest) of its product with what is left: one product Uᵀq per unit that is kept.
    """
    U = units - units.mean(axis=0)
    rest = y - y.mean()
    whole = np.einsum("ij,ij->j", U, U)
    beyond, gain = whole.copy(), rest @ U
    kept: list[int] = []
    Q = np.zeros((0, len(U)))
    for _ in range(width):
        free = beyond > 1e-9 * whole
        free[kept] = False
        score = np.where(free, np.abs(gain) / np.sqrt(np.where(free, beyond, 1.0)), -1.0)
        score[kept] = -2.0
        best = int(score.argmax())
        kept.append(best)
        if not free[best]:
            continue
        q = U[:, best]
        for _ in range(2):  # once leaves a rounding error of the size of what was removed
            q = q - Q.T @ (Q @ q)
        q = q / np.linalg.norm(q)
        Q = np.vstack([Q, q])
        along = q @ U
        beyond, gain = np.maximum(beyond - along**2, 0.0), gain - (q @ rest) * along
        rest = rest - q * (q @ rest)
    return np.array(kept)


def fitted_rate(widths, errors) -> float:
    """p of error ≈ c · widthᵖ by least squares of the logarithms: −½ is Barron's rate for the root mean squared error."""
    return float(
        np.polyfit(np.log(np.asarray(widths, float)), np.log(np.asarray(errors, float)), 1)[0]
    )
