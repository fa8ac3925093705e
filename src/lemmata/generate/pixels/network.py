"""Networks of causal convolutions: every number of an image or a sequence from those before it (CIL 5.1.3).

    P(x) = Π_t P(x_t | x_s, s < t in the window of t),      each factor a softmax over levels                             (5.6)

so that x_t, given its window, is independent of the earlier numbers outside of it; (5.6) says "of the rest", but later ones
depend on x_t. Numbers are put into a grid in scanning order, the channels of a pixel next to each other, and looked at by two
stacks of convolutions, so that no part of the window is blind (van den Oord et al. 2016):

    rows above    v ← v + g,                 g = tanh a ⊙ σ(b),  (a, b) = A * v       rows up to this one, columns on both sides
    this row      h ← h + W(tanh c ⊙ σ(d)),                      (c, d) = B * h + C g      columns up to this one

Inputs are moved by one row and by one column first, which is mask A; everything after is mask B. A sequence has no rows above:
with growing dilations that is WaveNet.

Drawing takes the numbers one by one. Of the stacks only what a new number changes is computed: the row above once a row,
one column of this row at a time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lemmata.generate.base import sum_over_classes


def gate(x: Tensor, dim: int = 1) -> Tensor:
    """tanh a ⊙ σ(b) of the two halves."""
    a, b = x.chunk(2, dim)
    return torch.tanh(a) * torch.sigmoid(b)


class GatedBlock(nn.Module):
    """A layer of both stacks; of sequences, of one.

    above : whether there are rows above
    """

    def __init__(self, channels: int, kernel: int, dilation: int, above: bool, n_classes: int):
        super().__init__()
        self.reach, self.dilation = kernel // 2, dilation
        reach, far = self.reach, kernel // 2 * dilation
        both = 2 * channels
        self.left = nn.Conv2d(channels, both, (1, reach + 1), padding=(0, far), dilation=dilation)
        self.mix = nn.Conv2d(channels, channels, 1)
        self.classes = nn.Embedding(n_classes, both) if n_classes else None
        if above:
            self.above = nn.Conv2d(
                channels, both, (reach + 1, 2 * reach + 1), padding=far, dilation=dilation
            )
            self.join = nn.Conv2d(channels, both, 1)

    def forward(
        self, h: Tensor, v: Tensor | None, y: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        found = self.left(h)[..., : h.shape[-1]]
        if v is not None:
            rows = gate(self.above(v)[..., : v.shape[-2], :])
            found, v = found + self.join(rows), v + rows
        if self.classes is not None and y is not None:
            found = found + self.classes(y)[:, :, None, None]
        return h + self.mix(gate(found)), v

    # --- one number at a time ---

    def memory(self) -> deque[Tensor]:
        """Room for the rows, or the columns, that the next one needs."""
        return deque(maxlen=self.reach * self.dilation + 1)

    def next_row(self, past: deque[Tensor]) -> tuple[Tensor, Tensor]:
        """From rows of v (B, C, W), the last of them new: that of the next block, and what it adds to this row."""
        rows = list(past)[:: -self.dilation][::-1]
        gaps = [torch.zeros_like(rows[0])] * (self.reach + 1 - len(rows))
        found = F.conv2d(
            torch.stack([*gaps, *rows], 2), self.above.weight, self.above.bias,
            padding=(0, self.reach * self.dilation), dilation=(1, self.dilation),
        )  # fmt: skip
        found = gate(found)
        return past[-1] + found[:, :, 0], self.join(found)[:, :, 0]

    def next_column(self, past: deque[Tensor], added: Tensor) -> Tensor:
        """From columns of h (B, C), the last of them new: that of the next block."""
        assert self.left.bias is not None
        found = self.left.bias + added
        taps = self.left.weight[:, :, 0]  # (2C, C, reach + 1)
        for back, h in enumerate(list(past)[:: -self.dilation]):
            found = found + h @ taps[..., -1 - back].T
        return past[-1] + F.linear(gate(found), self.mix.weight[..., 0, 0], self.mix.bias)


class CausalNet(nn.Module):
    """Logits of the levels of every number, given those before it in the scanning order.

    Parameters
    ----------
    input_shape : tuple
        Of one input: (C, H, W), (1, L), (d,).
    n_levels : int
        K.
    grid : pair of int
        Rows and columns in which the numbers are scanned; one row is a sequence.
    channels, kernel, dilations
        Features of each stack; the side of a masked kernel, odd; one dilation for every block.
    hidden : int
        Units of the layer before the logits.
    n_classes : int, default=0
        Classes to condition on.

    `levels` (K,), `order` (numbers of the inputs in scanning order) and `shares` (of the classes) are buffers.
    """

    levels: Tensor
    stored_layout: ClassVar = {"order": "n int >=0 <n distinct", "shares": "c >=0 sum=1"}
    order: Tensor
    shares: Tensor

    def __init__(
        self,
        input_shape: Sequence[int],
        n_levels: int,
        grid: Sequence[int],
        channels: int = 32,
        kernel: int = 3,
        dilations: Sequence[int] = (1, 1, 1, 1),
        hidden: int = 64,
        n_classes: int = 0,
    ):
        super().__init__()
        self.config = {
            "input_shape": tuple(input_shape), "n_levels": n_levels, "grid": tuple(grid), "channels": channels,
            "kernel": kernel, "dilations": tuple(dilations), "hidden": hidden, "n_classes": n_classes,
        }  # fmt: skip
        size = math.prod(input_shape)
        if math.prod(grid) != size or kernel < 3 or kernel % 2 == 0:
            raise ValueError(
                f"grid={tuple(grid)}, kernel={kernel}: pass rows and columns of {size} numbers, and an odd kernel >= 3."
            )
        self.shape, self.grid = tuple(input_shape), tuple(grid)
        self.register_buffer("levels", torch.arange(float(n_levels)))
        self.register_buffer("order", torch.arange(size))
        if n_classes:
            self.register_buffer("shares", torch.full((n_classes,), 1 / n_classes))
        above = grid[0] > 1
        self.embed = nn.Embedding(n_levels, channels)
        self.place = nn.Parameter(torch.zeros(channels, *grid))
        self.place_above = nn.Parameter(torch.zeros(channels, *grid)) if above else None
        self.blocks = nn.ModuleList(
            GatedBlock(channels, kernel, dilation, above, n_classes) for dilation in dilations
        )
        self.head = nn.Sequential(
            nn.GELU(), nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, n_levels)
        )

    # --- probabilities ---

    def places(self, x: Tensor) -> Tensor:
        """(B, T): the numbers of the levels, in scanning order."""
        middles = self.levels[:-1] + self.levels.diff() / 2
        return torch.bucketize(x.flatten(1)[:, self.order], middles)

    def logits(self, places: Tensor, y: Tensor | None = None) -> Tensor:
        """(B, T, K), in scanning order."""
        rows, columns = self.grid
        e = self.embed(places.reshape(-1, rows, columns)).permute(0, 3, 1, 2)
        h = F.pad(e, (1, 0))[..., :-1] + self.place
        v = None
        if self.place_above is not None:
            v = F.pad(e, (0, 0, 1, 0))[..., :-1, :] + self.place_above
        for block in self.blocks:
            h, v = block(h, v, y)
        return self.head(h.permute(0, 2, 3, 1).reshape(len(places), -1, h.shape[1]))

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """(B, K, *input_shape): logits of each number's levels, where the number stands."""
        found = self.logits(self.places(x), y).transpose(1, 2)
        return found[..., self.order.argsort()].reshape(len(x), -1, *self.shape)

    def log_prob(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """(B,): ln P(x), in nats; given classes, ln P(x|y)."""
        if y is None and self.config["n_classes"]:
            return sum_over_classes(self.log_prob, x, self.shares)
        places = self.places(x)
        found = self.logits(places, y)
        losses = F.cross_entropy(found.flatten(0, 1), places.flatten(), reduction="none")
        return -losses.reshape(len(x), -1).sum(1)

    def loss(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        return -self.log_prob(x, y)

    # --- drawing ---

    def sample(
        self,
        n: int,
        generator: torch.Generator | None = None,
        y: Tensor | None = None,
        x: Tensor | None = None,
        known: Tensor | None = None,
    ) -> Tensor:
        """(n, *input_shape): draws, in the units of the levels; numbers that are `known`, (n, T), are those of x."""
        like = self.levels
        u = torch.rand(n, len(self.order), generator=generator, dtype=like.dtype, device=like.device)  # fmt: skip
        if x is None or known is None:
            return self.values(self.draw(u, y))
        return self.values(self.draw(u, y, self.places(x.to(like)), known[:, self.order]))

    def values(self, places: Tensor) -> Tensor:
        """(B, *input_shape): the numbers of levels in scanning order."""
        return self.levels[places[:, self.order.argsort()]].reshape(-1, *self.shape)

    def draw(
        self,
        u: Tensor,
        y: Tensor | None = None,
        given: Tensor | None = None,
        known: Tensor | None = None,
    ) -> Tensor:
        """(B, T): levels in scanning order, by inverting each distribution at u (B, T); those `known` are `given` instead."""
        (rows, columns), blocks = self.grid, cast("list[GatedBlock]", list(self.blocks))
        found = torch.zeros(u.shape, dtype=torch.long, device=u.device)
        nothing = u.new_zeros(len(u), self.place.shape[0])
        none = u.new_zeros(1)
        classes = [none if b.classes is None or y is None else b.classes(y) for b in blocks]
        row = nothing[..., None].expand(-1, -1, columns)
        above = [block.memory() for block in blocks]
        for r in range(rows):
            added = [[one] * columns for one in classes]
            if self.place_above is not None:
                v = row + self.place_above[:, r]
                for i, block in enumerate(blocks):
                    above[i].append(v)
                    v, more = block.next_row(above[i])
                    added[i] = [a + b for a, b in zip(added[i], more.unbind(2), strict=True)]
            past = [block.memory() for block in blocks]
            column, seen = nothing, []
            for c in range(columns):
                h, t = column + self.place[:, r, c], r * columns + c
                for i, block in enumerate(blocks):
                    past[i].append(h)
                    h = block.next_column(past[i], added[i][c])
                shares = self.head(h).softmax(1).cumsum(1)
                place = (shares < u[:, t, None] * shares[:, -1:]).sum(1)
                if known is not None and given is not None:
                    place = torch.where(known[:, t], given[:, t], place)
                found[:, t] = place
                column = self.embed(place)
                seen.append(column)
            row = torch.stack(seen, 2)
        return found
