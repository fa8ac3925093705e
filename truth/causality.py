"""Networks over positions, with masks that are right and masks with one slip; convolutions and what only looks like one."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from lemmata.audit.nets.dependence import (
    causal,
    padding_ignored,
    permutation_equivariant,
    shift_equivariant,
)
from truth.harness import Case, problems
from truth.modules import judged


class Causal(nn.Module):
    """PyTorch's encoder over embedded tokens or vectors, with the mask that it is given."""

    def __init__(self, mask, tokens: int = 0, width: int = 8, train_mask=None):
        super().__init__()
        self.embed = nn.Embedding(tokens, width) if tokens else nn.Identity()
        layer = nn.TransformerEncoderLayer(width, 2, 16, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.mask, self.train_mask = mask, mask if train_mask is None else train_mask

    def forward(self, x):
        mask = self.train_mask if self.training else self.mask
        return self.layers(self.embed(x), mask=mask)


class Later(nn.Module):
    """A recurrent network that reads one position ahead, or not at all."""

    def __init__(self, ahead: bool):
        super().__init__()
        self.cell, self.ahead = nn.GRU(8, 8, batch_first=True), ahead

    def forward(self, x):
        h = self.cell(x)[0]
        return h + 1e-3 * F.pad(x, (0, 0, 0, 1))[:, 1:] if self.ahead else h


def inputs(seed: int, T: int):
    return torch.randint(0, 7, (4, T)) if seed % 2 else torch.randn(4, T, 8)


@problems(seeds=30, quick=1)
def masks(seed):
    """The triangle; no mask; one off; a leak at one place, in one mode, or of a millionth; attention not learnt yet."""
    torch.manual_seed(seed)
    T, name = 5 + seed % 6, "causal"
    X, tokens = inputs(seed, T), 7 * (seed % 2)
    right = torch.ones(T, T, dtype=torch.bool).triu(1)
    late, single, soft = right.triu(2), right.clone(), right * -13.0
    at = seed % (T - 1)
    single[at, at + 1] = False
    dtype = (torch.float32, torch.float64)[seed // 2 % 2]

    def case(label, truth, net, easy=True):
        found = judged(net.to(dtype), X, causal, (name,))
        return Case(label, found, {name: truth}, easy=(name,) if easy else ())

    yield case("triangle", True, Causal(right, tokens))
    yield case("no mask", False, Causal(None, tokens))
    yield case("one off", False, Causal(late, tokens))
    yield case(f"a leak at {at}", False, Causal(single, tokens))
    yield case("in training", False, Causal(right, tokens, train_mask=single))
    yield case("in evaluation", False, Causal(single, tokens, train_mask=right))
    yield case("a millionth", False, Causal(soft, tokens))
    hidden = Causal(None, tokens)
    for layer in hidden.layers.layers:
        nn.init.zeros_(layer.self_attn.out_proj.weight)
    yield case("not learnt yet", False, hidden, easy=False)
    if not tokens:
        yield case("recurrent", True, Later(False))
        yield case("reads ahead", False, Later(True))


class Aside(nn.Module):
    """A recurrent network over tokens, its state and a second output; something reads everything, or does so at one token."""

    def __init__(self, tokens: int, leak: str = "", rare: int = -1):
        super().__init__()
        self.embed, self.cell = nn.Embedding(tokens, 8), nn.GRU(8, 8, batch_first=True)
        self.leak, self.rare = leak, rare

    def forward(self, x):
        h, state = self.cell(self.embed(x))
        later = h.flip(1).cumsum(1).flip(1)
        if self.leak == "written":  # a rare token is told to all
            h = h + 1e-3 * (x == self.rare).any(1)[:, None, None]
        if self.leak == "read":  # and listens to all
            h = h + 1e-3 * (x == self.rare)[:, :, None] * later
        return h, state, later if self.leak == "second" else 2 * h


@problems(seeds=20, quick=1)
def asides(seed):
    """A leak in a second output, or where a token stands that the rows may not hold; states as long as there are positions."""
    torch.manual_seed(seed)
    T, tokens, name = 4 + seed % 4, 20 + 10 * (seed % 5), "causal"
    X, rare = torch.randint(0, tokens // 2, (4 + seed % 3, T)), int(torch.randint(0, tokens, ()))
    for leak in ("", "second", "written", "read"):
        found = judged(Aside(tokens, leak, rare), X, causal, (name,))
        yield Case(leak or "none", found, {name: not leak}, easy=(name,))


@problems(seeds=20, quick=1)
def amounts(seed):
    """Means over real positions, and over all; a count of padding; states counted from the end."""
    torch.manual_seed(seed)
    T, name = 7, "padding_ignored"
    real = torch.arange(T) < torch.randint(2, T, (6, 1))

    class Counted(nn.Module):
        def __init__(self, how):
            super().__init__()
            self.layer, self.how = nn.Linear(8, 8), how

        def forward(self, x, padding):
            z = torch.tanh(self.layer(x)) * padding[:, :, None]
            if self.how == "from the end":
                return z * torch.arange(x.shape[1], 0, -1)[None, :, None]
            n = padding.sum(1, keepdim=True)
            n = n if self.how == "right" else 0 * n + x.shape[1]
            return (z.sum(1) / n, z) if self.how != "a count" else (z, (~padding).sum(1).double())

    for how in ("right", "all", "a count", "from the end"):
        X = {"x": torch.randn(6, T, 8), "padding": real}
        found = judged(Counted(how), X, padding_ignored, ("padding",))
        yield Case(how, found, {name: how == "right"}, easy=(name,))


@problems(seeds=20, quick=1)
def padding(seed):
    """Masked attention and masked means; means over everything; masks that stop one layer short, or are turned round."""
    torch.manual_seed(seed)
    T, name = 6, "padding_ignored"
    real = torch.arange(T) < torch.randint(2, T, (5, 1))
    X = {"x": inputs(seed, T)[[0, 1, 2, 3, 0]], "padding": real}

    class Pooled(nn.Module):
        def __init__(self, masked=True, means=True):
            super().__init__()
            self.embed = nn.Embedding(7, 8) if seed % 2 else nn.Identity()
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.masked, self.means = masked, means

        def forward(self, x, padding):
            z = self.layer(self.embed(x), src_key_padding_mask=~padding if self.masked else None)
            return (z * padding[:, :, None]).sum(1) if self.means else z.mean(1)

    for label, net, truth in (
        ("masked", Pooled(), True),
        ("no mask in attention", Pooled(masked=False), False),
        ("pooled with padding", Pooled(means=False), False),
    ):
        found = judged(net, X, padding_ignored, ("padding",))
        yield Case(label, found, {name: truth}, easy=(name,))
    if seed % 2 == 0:
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        for label, mask, net, truth in (
            ("torch's", ~real, layer, True),
            ("turned round", real, _Turned(layer), False),  # masks what is real
        ):
            given = {"src": X["x"], "src_key_padding_mask": mask}
            found = judged(net, given, padding_ignored, {"padding": "src_key_padding_mask"})
            yield Case(label, found, {name: truth}, easy=(name,))


class _Turned(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, src, src_key_padding_mask):
        return self.layer(src, src_key_padding_mask=~src_key_padding_mask)


@problems(seeds=20, quick=1)
def symmetries(seed):
    """Attention without and with positions; sets; convolutions of several strides and paddings; what depends on the place."""
    torch.manual_seed(seed)
    sets, images = torch.randn(3, 6, 8), torch.randn(2, 2, 20, 20)
    dtype = (torch.float32, torch.float64)[seed % 2]
    order, place = "permutation_equivariant", "shift_equivariant"

    class Place(nn.Module):
        def __init__(self, shape, inner, size=0.1):
            super().__init__()
            self.at, self.inner = nn.Parameter(size * torch.randn(shape)), inner

        def forward(self, x):
            return self.inner(x + self.at)

    attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    pooled = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Flatten(1), nn.Linear(48, 2))
    for label, net, truth in (
        ("attention", attention, True),
        ("with positions", Place((6, 8), attention), False),
        ("recurrent", nn.GRU(8, 8, batch_first=True), False),
        ("flattened", pooled, False),
    ):
        found = judged(net.to(dtype), sets, permutation_equivariant, (order,))
        yield Case(label, found, {order: truth}, easy=(order,))
    kernel, stride = (3, 5)[seed % 2], (1, 2)[seed // 2 % 2]
    stack = nn.Sequential(
        nn.Conv2d(2, 4, kernel, padding=kernel // 2), nn.ReLU(), nn.MaxPool2d(stride), nn.Conv2d(4, 3, 3, padding=1)
    )  # fmt: skip
    for label, net, truth in (
        ("convolutions", stack, True),
        ("valid", nn.Sequential(nn.Conv2d(2, 4, kernel), nn.Tanh(), nn.Conv2d(4, 2, 3)), True),
        ("with places", Place((2, 20, 20), stack, 1e-3), False),
    ):
        found = judged(net.to(dtype), images, shift_equivariant, (place,))
        yield Case(label, found, {place: truth}, easy=(place,))
