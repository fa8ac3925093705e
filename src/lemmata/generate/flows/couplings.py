"""Coupling: some columns are changed by a map whose parameters the others determine (CIL 5.2.5, (5.20) and (5.21)).

    x_β = z_β,    x_α = T(z_α; NN(z_β))            the Jacobian is triangular, so ln|det| is that of T, number by number

    AdditiveCoupling    T = z + τ                  0                                (NICE)
    AffineCoupling      T = e^σ z + τ              Σ σ,    |σ| < 1                  (RealNVP)
    SplineCoupling      T a rational-quadratic increasing spline on [−B, B], z outside       (Durkan et al. 2019)

β is determined by `turn`: even numbers keep the first half, odd ones the second; or by a permutation drawn at random.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lemmata.generate.flows.transforms import Pair

WIDTHS = (64, 64)
LEAST = 1e-3  # of a bin's width and height as shares of the whole, and of a slope
ONE = 0.5413248546129181  # softplus of it is 1: at first the spline is the identity


class _Coupling(nn.Module):
    """Partition and conditioner; `numbers` that T needs for each column it changes."""

    order: Tensor
    numbers = 1

    def __init__(self, size: int, widths: tuple[int, ...], turn: int, shuffle: bool):
        super().__init__()
        turn = turn % 2 if size > 1 else 0
        self.kept = size // 2 if turn == 0 else size - size // 2
        self.size, self.changed = size, size - self.kept
        # the columns in the order: kept, changed
        order = torch.randperm(size) if shuffle else torch.arange(size).roll(-(size // 2) * turn)
        self.register_buffer("order", order)
        self.shuffle, self.turn = shuffle, turn
        layers: list[nn.Module] = []
        before = max(
            self.kept, 1
        )  # one column has nobody to depend on: the network then sees a zero
        for width in widths:
            layers += [nn.Linear(before, width), nn.ReLU()]
            before = width
        last = nn.Linear(before, self.numbers * self.changed)
        self.net = nn.Sequential(*layers, last)

    def _parts(self, x: Tensor) -> Pair:
        """The kept and the changed columns."""
        if self.shuffle:
            x = x[:, self.order]
        elif self.turn:
            changed, kept = x.split((self.changed, self.kept), 1)
            return kept, changed
        kept, changed = x.split((self.kept, self.changed), 1)
        return kept, changed

    def _join(self, kept: Tensor, changed: Tensor) -> Tensor:
        if not self.shuffle:
            return torch.cat((changed, kept) if self.turn else (kept, changed), 1)
        return torch.cat((kept, changed), 1)[:, self.order.argsort()]

    def _condition(self, kept: Tensor) -> Tensor:
        return self.net(kept if self.kept else kept.new_zeros(len(kept), 1))


class AdditiveCoupling(_Coupling):
    """z_α + τ(z_β)."""

    def __init__(
        self, size: int, widths: tuple[int, ...] = WIDTHS, turn: int = 0, shuffle: bool = False
    ):
        super().__init__(size, widths, turn, shuffle)
        self.config = {"size": size, "widths": tuple(widths), "turn": turn, "shuffle": shuffle}

    def forward(self, z: Tensor) -> Pair:
        kept, changed = self._parts(z)
        return self._join(kept, changed + self._condition(kept)), z.new_zeros(len(z))

    def inverse(self, x: Tensor) -> Pair:
        kept, changed = self._parts(x)
        return self._join(kept, changed - self._condition(kept)), x.new_zeros(len(x))


class AffineCoupling(_Coupling):
    """e^σ z_α + τ, (σ, τ) = NN(z_β), σ between −1 and 1."""

    numbers = 2

    def __init__(
        self, size: int, widths: tuple[int, ...] = WIDTHS, turn: int = 0, shuffle: bool = False
    ):
        super().__init__(size, widths, turn, shuffle)
        self.config = {"size": size, "widths": tuple(widths), "turn": turn, "shuffle": shuffle}

    def _scale_and_shift(self, kept: Tensor) -> Pair:
        sigma, tau = self._condition(kept).split(self.changed, 1)
        return torch.tanh(sigma), tau

    def forward(self, z: Tensor) -> Pair:
        kept, changed = self._parts(z)
        sigma, tau = self._scale_and_shift(kept)
        return self._join(kept, changed * sigma.exp() + tau), sigma.sum(1)

    def inverse(self, x: Tensor) -> Pair:
        kept, changed = self._parts(x)
        sigma, tau = self._scale_and_shift(kept)
        return self._join(kept, (changed - tau) * (-sigma).exp()), -sigma.sum(1)


class SplineCoupling(_Coupling):
    """A rational-quadratic spline of each number of z_α: widths, heights and slopes at the knots are NN(z_β).

    Parameters
    ----------
    bins : int, default=8
    bound : float, default=5.0
        B: outside of [−B, B] the map is the identity, and its slope is 1 at both ends.
    """

    def __init__(
        self,
        size: int,
        widths: tuple[int, ...] = WIDTHS,
        turn: int = 0,
        shuffle: bool = False,
        bins: int = 8,
        bound: float = 5.0,
    ):
        self.numbers = 3 * bins - 1
        super().__init__(size, widths, turn, shuffle)
        self.bins, self.bound = bins, bound
        self.config = {
            "size": size, "widths": tuple(widths), "turn": turn, "shuffle": shuffle, "bins": bins, "bound": bound,
        }  # fmt: skip

    def forward(self, z: Tensor) -> Pair:
        return self._bend(z, inverse=False)

    def inverse(self, x: Tensor) -> Pair:
        return self._bend(x, inverse=True)

    def _bend(self, rows: Tensor, inverse: bool) -> Pair:
        kept, changed = self._parts(rows)
        given = self._condition(kept).unflatten(1, (self.changed, self.numbers))
        wide, high, slopes = given.split((self.bins, self.bins, self.bins - 1), 2)
        slopes = F.pad(LEAST + F.softplus(slopes + ONE) * (1 - LEAST), (1, 1), value=1.0)
        across, up = (self._knots(part) for part in (wide, high))
        inside = (changed > -self.bound) & (changed < self.bound)
        at = torch.where(inside, changed, 0.0)
        bent, log_slope = rational_quadratic(at, across, up, slopes, inverse)
        new = torch.where(inside, bent, changed)
        return self._join(kept, new), torch.where(inside, log_slope, 0.0).sum(1)

    def _knots(self, given: Tensor) -> Tensor:
        """bins + 1 increasing numbers from −B to B."""
        shares = LEAST + (1 - LEAST * self.bins) * given.softmax(2)
        inner = 2 * self.bound * shares[..., :-1].cumsum(2) - self.bound
        return F.pad(F.pad(inner, (1, 0), value=-self.bound), (0, 1), value=self.bound)


def rational_quadratic(
    at: Tensor, across: Tensor, up: Tensor, slopes: Tensor, inverse: bool
) -> Pair:
    """Values and log-slopes of the increasing spline through (across, up) with these slopes at its knots, or of its inverse.

    at : (B, c); across, up, slopes : (B, c, knots)
    """
    bins = across.shape[2] - 1
    knots = up if inverse else across
    bin_ = (at[..., None] >= knots[..., 1:-1]).sum(2, keepdim=True).clamp(max=bins - 1)
    x0, y0, d0 = (part.gather(2, bin_)[..., 0] for part in (across, up, slopes))
    x1, y1, d1 = (part.gather(2, bin_ + 1)[..., 0] for part in (across, up, slopes))
    wide, high = x1 - x0, y1 - y0
    s = high / wide
    curved = d0 + d1 - 2 * s
    if inverse:
        y = at - y0
        a = high * (s - d0) + y * curved
        b = high * d0 - y * curved
        root = (b * b + 4 * a * s * y).clamp_min(0).sqrt()  # b² − 4ac, c = −s y
        t = 2 * s * y / (b + root)
    else:
        t = (at - x0) / wide
    rest = t * (1 - t)
    under = s + curved * rest
    value = x0 + t * wide if inverse else y0 + high * (s * t * t + d0 * rest) / under
    slope = d1 * t * t + 2 * s * rest + d0 * (1 - t) * (1 - t)
    log_slope = 2 * s.log() + slope.log() - 2 * under.log()
    return value, -log_slope if inverse else log_slope
