"""Bijections of ℝᵈ with known determinants (CIL 5.2.3–5.2.5). Each has

    forward(z)   →  x = F(z)      and  ln|det J_F(z)|        of every row
    inverse(x)   →  z = F⁻¹(x)    and  ln|det J_F⁻¹(x)| = −ln|det J_F(F⁻¹(x))|

    AffineMap    A z + μ,  A = P L (U + diag(s))        ln|det| = Σ ln|s|                                    (5.13), (5.18)
    Conv1x1      the same at each of p q pixels         pq Σ ln|s|                                                   (5.19)
    ActNorm      s ⊙ z + μ, set by the first batch      Σ ln|s|, of images of each channel: pq Σ ln|s|               (5.17)
    ClassAffine  s_y ⊙ z + μ_y, of the class y          Σ ln|s_y|
    Planar       z + u φ(⟨θ,z⟩ + b)                     ln(1 + φ′ ⟨u,θ⟩), if ⟨u,θ⟩ > −1             (5.14), (5.15)
    Sylvester    z + Q R φ(R̃ Qᵀz + b)                   Σ ln(1 + φ′ r_ii r̃_ii), if r_ii r̃_ii > −1            (5.16)

φ = tanh, 0 < φ′ ≤ 1. The conditions on planar and Sylvester flows are missing in the notes: without them the maps fold over,
and at ⟨u,θ⟩ = −1 the inverse is not Lipschitz. Here parameters satisfy them whatever the optimiser does. With them
the inverse is one increasing equation in one number, for each unit: a + c tanh(a + b) = y, c > −1. In (5.17) j ≤ q, and its s
is not that of (5.18): both maps together have pq(Σ ln|s| of (5.17) + Σ ln|s| of (5.18)).

A `Chain` composes maps. Those with `takes_classes` are given the class of each row, too, as its place: forward(z, y).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Pair = tuple[Tensor, Tensor]
HALVINGS, NEWTON = 12, 6  # of a bracket of width 2|c|; then steps that double the digits
NEAR_ONE = math.log(math.e - 1)  # softplus of it is 1


class Chain(nn.Module):
    """F_L ∘ … ∘ F_1, of modules with forward and inverse, in the order from z to x."""

    def __init__(self, transforms: Sequence[Any]):
        super().__init__()
        for at, transform in enumerate(transforms):
            if not callable(getattr(transform, "inverse", None)):
                raise ValueError(
                    f"transform {at} of the flow, {type(transform).__name__}, has no inverse: "
                    "give it inverse(x), which returns z and ln|det| of every row."
                )
        self.config: dict[str, Any] = {"transforms": list(transforms)}
        self.transforms = nn.ModuleList(transforms)
        self.takes_classes = any(getattr(one, "takes_classes", False) for one in transforms)

    def forward(self, z: Tensor, y: Tensor | None = None) -> Pair:
        """x = F(z) and ln|det J_F(z)|."""
        log_det: Any = 0.0
        for transform in self.transforms:
            z, one = transform(z, *_class_for(transform, y))
            log_det = log_det + one
        return z, log_det

    def inverse(self, x: Tensor, y: Tensor | None = None) -> Pair:
        """z = F⁻¹(x) and ln|det J_F⁻¹(x)|."""
        log_det: Any = 0.0
        for transform in reversed(self.transforms):
            x, one = transform.inverse(x, *_class_for(transform, y))  # type: ignore[operator]
            log_det = log_det + one
        return x, log_det

    def begin_at(self, x: Tensor, y: Tensor | None = None) -> None:
        """Let transforms that look at data first (actnorm) do so."""
        for transform in reversed(self.transforms):
            if callable(begin := getattr(transform, "begin_at", None)):
                begin(x, *_class_for(transform, y))
            x = transform.inverse(x, *_class_for(transform, y))[0]  # type: ignore[operator]


def _class_for(transform: Any, y: Tensor | None) -> tuple[Tensor, ...]:
    return (y,) if y is not None and getattr(transform, "takes_classes", False) else ()


def _spread(numbers: Tensor, x: Tensor) -> tuple[Tensor, int]:
    """Numbers of columns, or of the channels of images, as they multiply x; and how often each of them does in a row."""
    return numbers.reshape(-1, *[1] * (x.ndim - 2)), math.prod(x.shape[2:])


class AffineMap(nn.Module):
    """A z + μ with A = P L (U + diag(s)): L has ones on its diagonal, U zeros, P and the signs of s are fixed. Or A = diag(s).

    Parameters
    ----------
    size : int
        d
    diagonal : bool, default=False
    shuffle : bool, default=False
        Whether P is a permutation drawn at random rather than I.
    """

    stored_layout: ClassVar = {"order": "n int >=0 <n distinct"}
    order: Tensor
    signs: Tensor

    def __init__(self, size: int, diagonal: bool = False, shuffle: bool = False):
        super().__init__()
        self.config = {"size": size, "diagonal": diagonal, "shuffle": shuffle}
        self.shift = nn.Parameter(torch.zeros(size))
        self.log_scale = nn.Parameter(torch.zeros(size))
        self.lower = None if diagonal else nn.Parameter(torch.zeros(size, size))
        self.upper = None if diagonal else nn.Parameter(torch.zeros(size, size))
        self.register_buffer("order", torch.randperm(size) if shuffle else torch.arange(size))
        self.register_buffer("signs", torch.ones(size))

    def _triangles(self) -> Pair:
        assert self.lower is not None
        assert self.upper is not None
        one = torch.eye(len(self.shift), dtype=self.shift.dtype, device=self.shift.device)
        diagonal = torch.diag(self.signs * self.log_scale.exp())
        return self.lower.tril(-1) + one, self.upper.triu(1) + diagonal

    def _undo(self, y: Tensor) -> Tensor:
        """(U + diag(s))⁻¹ L⁻¹ y of columns y."""
        lower, upper = self._triangles()
        y = torch.linalg.solve_triangular(lower, y, upper=False, unitriangular=True)
        return torch.linalg.solve_triangular(upper, y, upper=True)

    def forward(self, z: Tensor) -> Pair:
        if self.lower is None:
            x = z * self.log_scale.exp()
        else:
            lower, upper = self._triangles()
            x = z @ (lower @ upper).T
        return x[:, self.order] + self.shift, self.log_scale.sum().expand(len(z))

    def inverse(self, x: Tensor) -> Pair:
        y = (x - self.shift)[:, self.order.argsort()]
        z = y * (-self.log_scale).exp() if self.lower is None else self._undo(y.T).T
        return z, -self.log_scale.sum().expand(len(x))


class Conv1x1(AffineMap):
    """A convolution of one pixel, that is an affine map of the channels, the same at every pixel; at first a rotation."""

    def __init__(self, channels: int):
        super().__init__(channels)
        self.config = {"channels": channels}
        P, L, U = torch.linalg.lu(torch.linalg.qr(torch.randn(channels, channels))[0])
        with torch.no_grad():
            self.order.copy_(P.argmax(1))
            self.lower.copy_(L)  # type: ignore[union-attr]
            self.upper.copy_(U)  # type: ignore[union-attr]
            self.signs.copy_(U.diagonal().sign())
            self.log_scale.copy_(U.diagonal().abs().log())

    def forward(self, z: Tensor) -> Pair:
        lower, upper = self._triangles()
        weight = (lower @ upper)[self.order]
        return F.conv2d(z, weight[:, :, None, None], self.shift), self._log_det(z)

    def inverse(self, x: Tensor) -> Pair:
        one = torch.eye(len(self.shift), dtype=x.dtype, device=x.device)
        weight = self._undo(one)[:, self.order]
        return F.conv2d(x - _spread(self.shift, x)[0], weight[:, :, None, None]), -self._log_det(x)

    def _log_det(self, x: Tensor) -> Tensor:
        return (math.prod(x.shape[2:]) * self.log_scale.sum()).expand(len(x))


class _Scaled(nn.Module):
    """s ⊙ z + μ: `_numbers` gives ln s and μ as they act on rows, and ln|det| of every row."""

    def _numbers(self, x: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        raise NotImplementedError

    def forward(self, z: Tensor, y: Tensor | None = None) -> Pair:
        log_scale, shift, log_det = self._numbers(z, y)
        return z * log_scale.exp() + shift, log_det

    def inverse(self, x: Tensor, y: Tensor | None = None) -> Pair:
        log_scale, shift, log_det = self._numbers(x, y)
        return (x - shift) * (-log_scale).exp(), -log_det


class ActNorm(_Scaled):
    """s ⊙ z + μ of so many columns, or channels (5.17); mean and deviation of the first batch are where μ and s begin."""

    begun: Tensor

    def __init__(self, size: int):
        super().__init__()
        self.config = {"size": size}
        self.shift = nn.Parameter(torch.zeros(size))
        self.log_scale = nn.Parameter(torch.zeros(size))
        self.register_buffer("begun", torch.zeros((), dtype=torch.bool))

    def begin_at(self, x: Tensor) -> None:
        if not self.begun:
            numbers = x.transpose(0, 1).flatten(1)
            deviation = numbers.std(1, correction=0)
            self.shift.copy_(numbers.mean(1))
            self.log_scale.copy_(torch.where(deviation > 1e-6, deviation, 1.0).log())
            self.begun.fill_(True)

    def _numbers(self, x: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        (scale, times), (shift, _) = _spread(self.log_scale, x), _spread(self.shift, x)
        return scale, shift, (times * self.log_scale.sum()).expand(len(x))


class ClassAffine(_Scaled):
    """s_y ⊙ z + μ_y of rows of this shape: each class has a normal density of its own; at first N(0, I)."""

    takes_classes = True

    def __init__(self, shape: Sequence[int], n_classes: int):
        super().__init__()
        self.config = {"shape": tuple(shape), "n_classes": n_classes}
        self.shift = nn.Parameter(torch.zeros(n_classes, *shape))
        self.log_scale = nn.Parameter(torch.zeros(n_classes, *shape))

    def _numbers(self, x: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        log_scale = self.log_scale[y]
        return log_scale, self.shift[y], log_scale.flatten(1).sum(1)


# --- maps that are inverted by increasing equations -------------------------------------------------------------------


def solve_increasing(y: Tensor, c: Tensor, b: Tensor) -> Tensor:
    """Solve a + c tanh(a + b) = y for a, where c > −1: the left side increases, and a is within |c| of y.

    Halvings, then Newton's steps, without gradients; a last step of Newton's carries the first derivatives in y, c and b.
    """
    with torch.no_grad():
        low, high = y - c.abs(), y + c.abs()
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            under = middle + c * torch.tanh(middle + b) < y
            low, high = torch.where(under, middle, low), torch.where(under, high, middle)
        a = (low + high) / 2
        for _ in range(NEWTON):
            value = torch.tanh(a + b)
            step = (a + c * value - y) / (1 + c * (1 - value * value))
            a = torch.minimum(torch.maximum(a - step, low), high)
        value = torch.tanh(a + b)
        slope = 1 + c * (1 - value * value)
    return a - (a + c * torch.tanh(a + b) - y) / slope


def keep_invertible(free: Tensor, theta: Tensor) -> Tensor:
    """u with ⟨u,θ⟩ > −1: v + (m(⟨v,θ⟩) − ⟨v,θ⟩) θ/‖θ‖², m(a) = softplus(a + ln(e−1)) − 1."""
    given = (free * theta).sum(-1, keepdim=True)
    allowed = F.softplus(given + NEAR_ONE) - 1
    length = (theta * theta).sum(-1, keepdim=True).clamp_min(torch.finfo(theta.dtype).tiny)
    return free + (allowed - given) * theta / length


class Planar(nn.Module):
    """z + u φ(⟨θ,z⟩ + b), with ⟨u,θ⟩ > −1 by construction."""

    def __init__(self, size: int):
        super().__init__()
        self.config = {"size": size}
        self.theta = nn.Parameter(torch.randn(size) / math.sqrt(size))
        self.free = nn.Parameter(0.1 * torch.randn(size) / math.sqrt(size))
        self.bias = nn.Parameter(torch.zeros(()))

    @property
    def u(self) -> Tensor:
        return keep_invertible(self.free, self.theta)

    def forward(self, z: Tensor) -> Pair:
        u = self.u
        value = torch.tanh(z @ self.theta + self.bias)
        return z + value[:, None] * u, torch.log1p((1 - value * value) * (u @ self.theta))

    def inverse(self, x: Tensor) -> Pair:
        u = self.u
        c = u @ self.theta
        value = torch.tanh(solve_increasing(x @ self.theta, c, self.bias) + self.bias)
        return x - value[:, None] * u, -torch.log1p((1 - value * value) * c)


class Sylvester(nn.Module):
    """z + Q R φ(R̃ Qᵀz + b): Q (size × units) has orthonormal columns, R and R̃ are upper triangular, |r_ii|, |r̃_ii| < 1."""

    def __init__(self, size: int, units: int):
        super().__init__()
        if not 1 <= units <= size:
            raise ValueError(
                f"units={units} of a Sylvester flow of {size} numbers; pass 1 to {size}."
            )
        self.config = {"size": size, "units": units}
        self.basis = nn.Parameter(torch.randn(size, units))
        self.first = nn.Parameter(0.1 * torch.randn(units, units))
        self.second = nn.Parameter(0.1 * torch.randn(units, units))
        self.bias = nn.Parameter(torch.zeros(units))

    @property
    def R(self) -> Tensor:
        return self.first.triu(1) + torch.diag(torch.tanh(self.first.diagonal()))

    @property
    def R_tilde(self) -> Tensor:
        return self.second.triu(1) + torch.diag(torch.tanh(self.second.diagonal()))

    def _log_det(self, value: Tensor, R: Tensor, R_tilde: Tensor) -> Tensor:
        return torch.log1p((1 - value * value) * (R.diagonal() * R_tilde.diagonal())).sum(1)

    def forward(self, z: Tensor) -> Pair:
        Q, R, R_tilde = torch.linalg.qr(self.basis)[0], self.R, self.R_tilde
        value = torch.tanh(z @ Q @ R_tilde.T + self.bias)
        return z + value @ R.T @ Q.T, self._log_det(value, R, R_tilde)

    def inverse(self, x: Tensor) -> Pair:
        """v = Qᵀz solves v + R φ(R̃v + b) = Qᵀx, from the last number to the first; r̃_ii v_i is the unknown of each."""
        Q, R, R_tilde = torch.linalg.qr(self.basis)[0], self.R, self.R_tilde
        y = x @ Q
        found: list[Tensor] = []  # v_m, …, v_1
        values: list[Tensor] = []  # φ of the same
        for i in reversed(range(R.shape[0])):
            h, left = self.bias[i], y[:, i]
            if found:
                h = h + torch.stack(found[::-1], 1) @ R_tilde[i, i + 1 :]
                left = left - torch.stack(values[::-1], 1) @ R[i, i + 1 :]
            r = R_tilde[i, i]
            value = torch.tanh(solve_increasing(r * left, r * R[i, i], h) + h)
            values.append(value)
            found.append(left - R[i, i] * value)
        value = torch.stack(values[::-1], 1)
        return x - value @ R.T @ Q.T, -self._log_det(value, R, R_tilde)
