"""Bijections of ℝᵈ with known determinants (CIL 5.2.3–5.2.5). Each has

    forward(z)   →  x = F(z)      and  ln|det J_F(z)|        of every row
    inverse(x)   →  z = F⁻¹(x)    and  ln|det J_F⁻¹(x)| = −ln|det J_F(F⁻¹(x))|

    AffineMap    A z + μ,  A = P L (U + diag(s))        ln|det| = Σ ln|s|                                    (5.13), (5.18)
    ActNorm      s ⊙ z + μ, set by the first batch      Σ ln|s|
    Planar       z + u φ(⟨θ,z⟩ + b)                     ln(1 + φ′ ⟨u,θ⟩), if ⟨u,θ⟩ > −1             (5.14), (5.15)
    Sylvester    z + Q R φ(R̃ Qᵀz + b)                   Σ ln(1 + φ′ r_ii r̃_ii), if r_ii r̃_ii > −1            (5.16)

φ = tanh, 0 < φ′ ≤ 1. The conditions on planar and Sylvester flows are missing in the notes: without them the maps fold over,
and at ⟨u,θ⟩ = −1 the inverse is not Lipschitz. Here parameters satisfy them whatever the optimiser does. With them
the inverse is one increasing equation in one number, for each unit: a + c tanh(a + b) = y, c > −1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Pair = tuple[Tensor, Tensor]
HALVINGS, NEWTON = 12, 6  # of a bracket of width 2|c|; then steps that double the digits
NEAR_ONE = math.log(math.e - 1)  # softplus of it is 1


class AffineMap(nn.Module):
    """A z + μ with A = P L (U + diag(e^s)): L has ones on its diagonal, U zeros, P is fixed. Or A = diag(e^s).

    Parameters
    ----------
    size : int
        d
    diagonal : bool, default=False
    shuffle : bool, default=False
        Whether P is a permutation drawn at random rather than I.
    """

    order: Tensor

    def __init__(self, size: int, diagonal: bool = False, shuffle: bool = False):
        super().__init__()
        self.config = {"size": size, "diagonal": diagonal, "shuffle": shuffle}
        self.shift = nn.Parameter(torch.zeros(size))
        self.log_scale = nn.Parameter(torch.zeros(size))
        self.lower = None if diagonal else nn.Parameter(torch.zeros(size, size))
        self.upper = None if diagonal else nn.Parameter(torch.zeros(size, size))
        self.register_buffer("order", torch.randperm(size) if shuffle else torch.arange(size))

    def _triangles(self) -> Pair:
        assert self.lower is not None
        assert self.upper is not None
        one = torch.eye(len(self.shift), dtype=self.shift.dtype, device=self.shift.device)
        return self.lower.tril(-1) + one, self.upper.triu(1) + torch.diag(self.log_scale.exp())

    def forward(self, z: Tensor) -> Pair:
        if self.lower is None:
            x = z * self.log_scale.exp()
        else:
            lower, upper = self._triangles()
            x = z @ (lower @ upper).T
        return x[:, self.order] + self.shift, self.log_scale.sum().expand(len(z))

    def inverse(self, x: Tensor) -> Pair:
        y = (x - self.shift)[:, self.order.argsort()]
        if self.lower is None:
            z = y * (-self.log_scale).exp()
        else:
            lower, upper = self._triangles()
            y = torch.linalg.solve_triangular(lower, y.T, upper=False, unitriangular=True)
            z = torch.linalg.solve_triangular(upper, y, upper=True).T
        return z, -self.log_scale.sum().expand(len(x))


class ActNorm(nn.Module):
    """s ⊙ z + μ, where μ and s are at first the mean and the deviation of the first batch (CIL 5.2.5)."""

    begun: Tensor

    def __init__(self, size: int):
        super().__init__()
        self.config = {"size": size}
        self.shift = nn.Parameter(torch.zeros(size))
        self.log_scale = nn.Parameter(torch.zeros(size))
        self.register_buffer("begun", torch.zeros((), dtype=torch.bool))

    def begin(self, x: Tensor) -> None:
        if not self.begun:
            deviation = x.std(0, correction=0)
            self.shift.copy_(x.mean(0))
            self.log_scale.copy_(torch.where(deviation > 1e-6, deviation, 1.0).log())
            self.begun.fill_(True)

    def forward(self, z: Tensor) -> Pair:
        return z * self.log_scale.exp() + self.shift, self.log_scale.sum().expand(len(z))

    def inverse(self, x: Tensor) -> Pair:
        z = (x - self.shift) * (-self.log_scale).exp()
        return z, -self.log_scale.sum().expand(len(x))


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


class Planar(nn.Module):
    """z + u φ(⟨θ,z⟩ + b), with ⟨u,θ⟩ > −1 by construction: u = v + (m(⟨v,θ⟩) − ⟨v,θ⟩) θ/‖θ‖², m(a) = softplus(a + ln(e−1)) − 1.

    Parameters
    ----------
    size : int
    """

    def __init__(self, size: int):
        super().__init__()
        self.config = {"size": size}
        self.theta = nn.Parameter(torch.randn(size) / math.sqrt(size))
        self.free = nn.Parameter(0.1 * torch.randn(size) / math.sqrt(size))
        self.bias = nn.Parameter(torch.zeros(()))

    @property
    def u(self) -> Tensor:
        given = self.free @ self.theta
        allowed = F.softplus(given + NEAR_ONE) - 1
        length = (self.theta @ self.theta).clamp_min(torch.finfo(self.theta.dtype).tiny)
        return self.free + (allowed - given) * self.theta / length

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
    """z + Q R φ(R̃ Qᵀz + b): Q (d × m) has orthonormal columns, R and R̃ are upper triangular, |r_ii|, |r̃_ii| < 1.

    Parameters
    ----------
    size : int
        d
    units : int
        m ≤ d
    """

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
