"""Targets: what a denoiser predicts from x_t = ᾱ x_0 + β̄ ξ: four ways to say the same thing.

    noise    ξ                          x_0 = (x − β̄ ξ)/ᾱ
    x0       x_0                        ξ = (x − ᾱ x_0)/β̄
    v        ᾱ ξ − β̄ x_0                x_0 = ᾱ x − β̄ v,   ξ = β̄ x + ᾱ v            (Salimans & Ho 2022; good at both ends)
    score    ∇ ln p(x_t)                E[ξ|x] = −β̄ score                            (ML lacks the minus)

Losses differ by weights: of the same denoiser, with SNR = ᾱ²/β̄², at each t

    ‖ξ̂ − ξ‖² = SNR ‖x̂_0 − x_0‖² = ‖v̂ − v‖² ᾱ² = β̄² ‖ŝ − s‖²

so that "predict the noise" is another weighting of score matching, not "equivalent" to it (ML).
"""

from __future__ import annotations

from typing import Any

TARGETS = ("v", "noise", "x0", "score")


def target_of(kind: str, x0: Any, noise: Any, a: Any, b: Any) -> Any:
    """Return what a denoiser of this kind has to predict; a = ᾱ_t, b = β̄_t, numbers or arrays that fit."""
    if kind == "noise":
        return noise
    if kind == "x0":
        return x0
    return a * noise - b * x0 if kind == "v" else -noise / b


def noise_of(kind: str, found: Any, x: Any, a: Any, b: Any) -> Any:
    """E[ξ|x_t = x] from a prediction of this kind."""
    if kind == "noise":
        return found
    if kind == "x0":
        return (x - a * found) / b
    return b * x + a * found if kind == "v" else -b * found


def require_target(kind: str) -> str:
    if kind not in TARGETS:
        raise ValueError(f"predict={kind!r}; pass {', '.join(map(repr, TARGETS))}.")
    return kind
