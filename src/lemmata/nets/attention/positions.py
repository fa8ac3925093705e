"""Positions (ML "Positional Information"): attention does not see order, so the place of each token is added to it.

    learned      x_t + w_t,           w: T × d learned with the rest; knows no place beyond T
    sinusoidal   x_t + p(t),          p(t) = (sin ω₁t … sin ω_{d/2}t, cos ω₁t … cos ω_{d/2}t),   ω_i = L^(−(i−1)/(d/2))

p turns with t: p(t + s) = R(s) p(t) with a rotation R(s) that does not depend on t, so a linear map of queries can ask for
"s places earlier", wherever it stands; and p(t)ᵀp(t + s) = Σ cos ω_i s depends on the distance alone. The same
numbers encode the time of diffusion in a U-Net (`lemmata.nets.images.unet`).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LONGEST = 10_000.0  # L: the slowest wave turns once in 2πL^(1 − 2/d) places


def sinusoidal(t: Tensor, width: int, longest: float = LONGEST) -> Tensor:
    """p(t) for numbers t of any shape: (…, width), in the precision of t (the default one, if t is whole)."""
    if width < 2 or width % 2:
        raise ValueError(
            f"width={width}: waves come in pairs of sine and cosine; pass an even width."
        )
    t = t if t.is_floating_point() else t.to(torch.get_default_dtype())
    i = torch.arange(width // 2, device=t.device, dtype=t.dtype)
    angles = t[..., None] * longest ** (-i / (width // 2))
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def places(start: int | Tensor, x: Tensor) -> Tensor:
    """(T,), or (B, T) where each row has its own start: the places of tokens; padding before place 0 is put there, too."""
    steps = torch.arange(x.shape[1], device=x.device)
    return start + steps if isinstance(start, int) else (start[:, None] + steps).clamp_min(0)


class SinusoidalPositions(nn.Module):
    """x_t + p(t), for sequences of any length."""

    def __init__(self, width: int, longest: float = LONGEST) -> None:
        super().__init__()
        self.width, self.longest = width, longest

    def forward(self, x: Tensor, start: int | Tensor = 0) -> Tensor:  # (B, T, d)
        """Tokens with their places; the first one stands at `start`, in each row at its own if that is (B,)."""
        precise = torch.promote_types(x.dtype, torch.float32)  # bfloat16 cannot count to 300
        t = places(start, x).to(precise)
        return x + sinusoidal(t, self.width, self.longest).to(x.dtype)


class LearnedPositions(nn.Module):
    """x_t + w_t, for sequences of up to `length` tokens."""

    def __init__(self, length: int, width: int, std: float = 0.02) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(length, width) * std)

    def forward(self, x: Tensor, start: int | Tensor = 0) -> Tensor:  # (B, T, d)
        """Tokens with their places; the first one stands at `start`, in each row at its own if that is (B,)."""
        end = int(start if isinstance(start, int) else start.max()) + x.shape[1]
        if end > len(self.weight):
            raise ValueError(
                f"the sequence has {end} tokens, the positions were built for {len(self.weight)}; "
                "shorten it, or build the network with a larger length."
            )
        if isinstance(start, int):
            return x + self.weight[start:end]
        return x + F.embedding(places(start, x), self.weight)


def positions(kind: str, length: int, width: int, std: float = 0.02) -> nn.Module:
    """Positions by name: learned (up to `length` tokens) or sinusoidal (any number)."""
    if kind == "learned":
        return LearnedPositions(length, width, std)
    if kind == "sinusoidal":
        return SinusoidalPositions(width)
    raise ValueError(f"positions={kind!r} is unknown; pass 'learned' or 'sinusoidal'.")
