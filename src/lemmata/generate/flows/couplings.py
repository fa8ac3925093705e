"""Coupling: some columns are changed by a map whose parameters the others determine (CIL 5.2.5, (5.20) and (5.21)).

    x_β = z_β,    x_α = T(z_α; NN(z_β))            the Jacobian is triangular, so ln|det| is that of T, number by number

    AdditiveCoupling    T = z + τ                  0                                (NICE)
    AffineCoupling      T = e^σ z + τ              Σ σ,    |σ| < 1                  (RealNVP)
    SplineCoupling      T a rational-quadratic increasing spline on [−B, B], z outside       (Durkan et al. 2019)

β is determined by `turn`: even numbers keep the first half, odd ones the second; or by a permutation drawn at random. Columns
of images are channels, and the network convolves. In `Squeezed` images, whose channels are the four pixels of each square of
2 × 2, the partition "checkerboard" keeps the pixels of one colour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lemmata.generate.flows.transforms import Chain, Pair

WIDTHS = (64, 64)
LEAST = 1e-3  # of a bin's width and height as shares of the whole, and of a slope
ONE = 0.5413248546129181  # softplus of it is 1: at first the spline is the identity


class _Coupling(nn.Module):
    """Partition and conditioner; `numbers` that T needs for each column it changes.

    Parameters
    ----------
    size : int
        Columns, or channels.
    widths : tuple of int
        Units of the layers of the network, or their channels.
    turn : int
    partition : {"halves", "random", "checkerboard"}
    conv : bool, default=False
        Whether rows are images.
    n_classes : int, default=0
        Above 0 the network is given the class, too: a bias of its first layer for each.
    """

    stored_layout: ClassVar = {"order": "n int >=0 <n distinct"}
    order: Tensor
    numbers = 1
    _map: Any  # (changed columns, what the network gives for them, inverse) ↦ T or its inverse, with ln|det| of every row

    def __init__(
        self,
        size: int,
        widths: Sequence[int] = WIDTHS,
        turn: int = 0,
        partition: str = "halves",
        conv: bool = False,
        n_classes: int = 0,
    ):
        super().__init__()
        self.config: dict[str, Any] = {
            "size": size, "widths": tuple(widths), "turn": turn, "partition": partition, "conv": conv,
            "n_classes": n_classes,
        }  # fmt: skip
        self.turn, self.halves = turn % 2 if size > 1 else 0, partition == "halves"
        self.kept = size // 2 if self.turn == 0 else size - size // 2
        self.changed = size - self.kept
        # the columns in the order: kept, changed
        order = torch.randperm(size) if partition == "random" else torch.arange(size)
        if partition == "checkerboard":
            white = (order % 4 == 0) | (order % 4 == 3)
            order = torch.cat([order[white], order[~white]])
        if partition != "random":
            order = order.roll(-(size // 2) * self.turn)
        self.register_buffer("order", order)
        # one column has nobody to depend on: the network then sees a zero
        before, layers = max(self.kept, 1), []
        for at, width in enumerate((*widths, self.numbers * self.changed)):
            side = 3 if at in (0, len(widths)) else 1
            layers.append(nn.Conv2d(before, width, side, padding=side // 2) if conv else nn.Linear(before, width))  # fmt: skip
            before = width
        if conv:  # at first the identity, as deep flows of images need it
            nn.init.zeros_(layers[-1].weight)
            nn.init.zeros_(layers[-1].bias)  # type: ignore[arg-type]
        self.net = nn.Sequential(layers[0], *(part for one in layers[1:] for part in (nn.ReLU(inplace=True), one)))  # fmt: skip
        self.takes_classes = n_classes > 0
        first = (*widths, before)[0]
        self.bias = nn.Embedding(n_classes, first) if n_classes else None

    def forward(self, z: Tensor, y: Tensor | None = None) -> Pair:
        return self._change(z, y, inverse=False)

    def inverse(self, x: Tensor, y: Tensor | None = None) -> Pair:
        return self._change(x, y, inverse=True)

    def _change(self, rows: Tensor, y: Tensor | None, inverse: bool) -> Pair:
        kept, changed = self._parts(rows)
        changed, log_det = self._map(changed, self._condition(kept, y), inverse)
        return self._join(kept, changed), log_det

    def _parts(self, x: Tensor) -> Pair:
        """The kept and the changed columns."""
        if not self.halves:
            x = x[:, self.order]
        elif self.turn:
            changed, kept = x.split((self.changed, self.kept), 1)
            return kept, changed
        kept, changed = x.split((self.kept, self.changed), 1)
        return kept, changed

    def _join(self, kept: Tensor, changed: Tensor) -> Tensor:
        if self.halves:
            return torch.cat((changed, kept) if self.turn else (kept, changed), 1)
        return torch.cat((kept, changed), 1)[:, self.order.argsort()]

    def _condition(self, kept: Tensor, y: Tensor | None) -> Tensor:
        given = kept if self.kept else kept.new_zeros(len(kept), 1, *kept.shape[2:])
        if self.bias is None or y is None:
            return self.net(given)
        found = self.net[0](given)
        return self.net[1:](found + self.bias(y).reshape(*found.shape[:2], *[1] * (found.ndim - 2)))


class AdditiveCoupling(_Coupling):
    """z_α + τ(z_β)."""

    def _map(self, changed: Tensor, given: Tensor, inverse: bool) -> Pair:
        return changed - given if inverse else changed + given, given.new_zeros(len(given))


class AffineCoupling(_Coupling):
    """e^σ z_α + τ, (−σ, τ) = NN(z_β), so that densities need no sign; σ between −1 and 1, of images between −2 and 2."""

    numbers = 2

    def _map(self, changed: Tensor, given: Tensor, inverse: bool) -> Pair:
        minus, tau = given.split(self.changed, 1)
        minus = 2 * torch.tanh(minus / 2) if minus.ndim > 2 else torch.tanh(minus)
        if inverse:
            return (changed - tau) * minus.exp(), minus.flatten(1).sum(1)
        return changed * (-minus).exp() + tau, -minus.flatten(1).sum(1)


# --- images -----------------------------------------------------------------------------------------------------------


class _Within(Chain):
    """Maps of a part of x, or of x in another form: `_take` gives it, and the function that puts back what became of it."""

    def _take(self, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        raise NotImplementedError

    def forward(self, z: Tensor, y: Tensor | None = None) -> Pair:
        part, put_back = self._take(z)
        part, log_det = super().forward(part, y)
        return put_back(part), log_det

    def inverse(self, x: Tensor, y: Tensor | None = None) -> Pair:
        part, put_back = self._take(x)
        part, log_det = super().inverse(part, y)
        return put_back(part), log_det

    def begin_at(self, x: Tensor, y: Tensor | None = None) -> None:
        super().begin_at(self._take(x)[0], y)


class Squeezed(_Within):
    """Maps of images whose channels are the four pixels of each square of 2 × 2: half as high and wide."""

    def _take(self, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        return F.pixel_unshuffle(x, 2), lambda part: F.pixel_shuffle(part, 2)


class Split(_Within):
    """Maps of the first half of the channels; the others stay as they are, so that deeper levels work on less."""

    def _take(self, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        inner, outer = x.chunk(2, 1)
        return inner, lambda part: torch.cat((part, outer), 1)


# --- splines ----------------------------------------------------------------------------------------------------------


class SplineCoupling(_Coupling):
    """A rational-quadratic spline of each number of z_α: widths, heights and slopes at the knots are NN(z_β).

    Parameters
    ----------
    bins : int, default=8
    bound : float, default=5.0
        B: outside of [−B, B] the map is the identity, and its slope is 1 at both ends.
    """

    def __init__(self, *args: Any, bins: int = 8, bound: float = 5.0, **more: Any):
        self.numbers = 3 * bins - 1
        super().__init__(*args, **more)
        self.bins, self.bound = bins, bound
        self.config |= {"bins": bins, "bound": bound}

    def _map(self, changed: Tensor, given: Tensor, inverse: bool) -> Pair:
        given = given.unflatten(1, (self.changed, self.numbers))
        wide, high, slopes = given.split((self.bins, self.bins, self.bins - 1), 2)
        slopes = F.pad(LEAST + F.softplus(slopes + ONE) * (1 - LEAST), (1, 1), value=1.0)
        across, up = (self._knots(part) for part in (wide, high))
        inside = (changed > -self.bound) & (changed < self.bound)
        at = torch.where(inside, changed, 0.0)
        bent, log_slope = rational_quadratic(at, across, up, slopes, inverse)
        return torch.where(inside, bent, changed), torch.where(inside, log_slope, 0.0).sum(1)

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
