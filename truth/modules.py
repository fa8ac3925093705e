"""Modules of plain PyTorch, whole and with one thing wrong: backward passes, dead layers, vanishing signals, hooks, NaN."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import lemmata
from lemmata.audit.nets.gradients import gradients_true
from lemmata.audit.nets.modules import Examples
from lemmata.audit.nets.sharing import scale_invariant
from lemmata.audit.nets.signal import signal_kept, units_alive
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.nets.certifying import requested_properties
from truth.harness import Case, problems


def judged(net, X, claim, properties=None) -> Certificate:
    """One claim of a module, without the others, which cost more than it does."""
    examples = Examples((), X) if isinstance(X, dict) else Examples((X,))
    requested = requested_properties(net, examples, properties)
    attributes = {"module_": net, "properties": requested}
    fit = Fit(SimpleNamespace(), examples, attributes=attributes)
    return check((claim,), fit, f"torch {type(net).__name__}")


class Product(torch.autograd.Function):
    """x Wᵀ with a backward of its own, right or with a slip."""

    @staticmethod
    def forward(ctx, x, W, slip):
        ctx.save_for_backward(x, W)
        ctx.slip = slip
        return x @ W.T

    @staticmethod
    def backward(ctx, g):
        x, W = ctx.saved_tensors
        of_x, of_W = g @ W, g.T @ x
        if ctx.slip == "transposed":
            of_x = g @ W.T
        elif ctx.slip == "one entry":
            of_W = of_W.clone()
            of_W[0, 0] *= 2
        elif ctx.slip == "a permille":
            of_W = of_W * 1.001
        elif ctx.slip == "sign":
            of_x = -of_x
        elif ctx.slip == "forgotten":
            of_x = None
        elif ctx.slip == "some rows":
            of_W = (g * torch.where(x[:, :1] > RARE, 1.5, 1.0)).T @ x
        return of_x, of_W, None


RARE = 0.8  # of a first entry in [−1, 1]
SLIPS = ("transposed", "one entry", "a permille", "sign", "forgotten")


class Written(nn.Module):
    """Two layers around a product with a backward by hand; its slip in both modes, or in one."""

    def __init__(self, d: int, slip: str = "", modes: tuple[bool, ...] = (False, True)):
        super().__init__()
        self.first, self.last = nn.Linear(d, d), nn.Linear(d, 3)
        self.W = nn.Parameter(torch.randn(d, d))
        self.slip, self.modes = slip, modes

    def forward(self, x):
        slip = self.slip if self.training in self.modes else ""
        return self.last(torch.tanh(Product.apply(torch.tanh(self.first(x)), self.W, slip)))


class Tied(nn.Module):
    """One matrix three times: in, through, and transposed out."""

    def __init__(self, d: int, lose: bool = False):
        super().__init__()
        self.W = nn.Parameter(torch.randn(d, d) / d**0.5)
        self.lose = lose

    def forward(self, x):
        h = torch.tanh(x @ self.W)
        h = F.linear(h, self.W.detach() if self.lose else self.W).relu()
        return h @ self.W.T


def healthy(kind: int) -> tuple[nn.Module, torch.Tensor]:
    """Networks whose gradients PyTorch computes, with their inputs."""
    images, rows = torch.randn(12, 1, 10, 10), torch.randn(20, 6)
    images[:, :, :3] = 0  # units stand exactly at their kink
    if kind == 0:
        return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 12), nn.GELU(), nn.Linear(12, 2)), rows  # fmt: skip
    if kind == 1:
        net = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3),
            nn.Flatten(), nn.Linear(150, 4),
        )  # fmt: skip
        return net, images
    if kind == 2:
        net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 3))
        nn.init.zeros_(net[0].bias)
        return net, images
    if kind == 3:
        return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.randn(6, 5, 8)
    if kind == 4:
        return nn.GRU(4, 5, batch_first=True), torch.randn(6, 5, 4)
    if kind == 5:
        return nn.Sequential(nn.Embedding(9, 8), nn.LayerNorm(8), nn.Linear(8, 9)), torch.randint(0, 9, (6, 5))  # fmt: skip
    return Written(6), rows


@problems(seeds=35, quick=1)
def gradients(seed):
    """Seven kinds of networks in four float types; backward passes with a slip, hooks that double, parts cut off."""
    torch.manual_seed(seed)
    dtype = (torch.float32, torch.float64, torch.bfloat16, torch.float16)[seed % 4]
    name = "gradients_true"
    net, X = healthy(seed % 7)
    loss = {"y": torch.randint(0, 2, (len(X),)), "loss": "cross_entropy"} if seed % 7 == 0 else {}
    yes = {name: True, "attributes_sound": True}
    yield Case(f"healthy {seed % 7}", lemmata.certify(net.to(dtype), X, **loss), yes, easy=yes)
    wrong = Written(6, SLIPS[seed % 5]).to(dtype)
    found = lemmata.certify(wrong, torch.randn(20, 6))
    yield Case(SLIPS[seed % 5], found, {name: False}, easy=(name,))
    hooked = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).to(dtype)
    if seed % 2:
        hooked[2].weight.register_hook(lambda g: 2 * g)
    else:
        hooked[0].register_full_backward_hook(lambda m, inputs, outputs: (inputs[0] * 2,))
    found = lemmata.certify(hooked, torch.randn(20, 6))
    yield Case("a hook", found, {name: False}, easy=(name,))
    found = lemmata.certify(Tied(6, lose=True).to(dtype), torch.randn(20, 6))
    yield Case("detached", found, {name: False}, easy=(name,))


@problems(seeds=30, quick=1)
def some_gradients(seed):
    """A backward that errs on few rows, if on any, or in one mode; with dropout in between, and without."""
    torch.manual_seed(seed)
    X, name = torch.randn(int(torch.randint(20, 200, ())), 6), "gradients_true"
    net = Written(6, "some rows")
    wrong = torch.tanh(net.first(X))[:, 0] > RARE
    found = judged(net, X, gradients_true)
    yield Case(f"{int(wrong.sum())} of {len(X)} rows", found, {name: not wrong.any()}, easy=(name,))
    for mode in (False, True):
        net = Written(6, SLIPS[seed % 5], (mode,))
        if seed % 2:
            net.first = nn.Sequential(net.first, nn.Dropout(0.2))
        label = f"{SLIPS[seed % 5]}, training {mode}"
        yield Case(label, judged(net, X, gradients_true), {name: False}, easy=(name,))


@problems(seeds=20, quick=1)
def shared(seed):
    """A matrix used three times; one whose gradient a hook changes."""
    torch.manual_seed(seed)
    name = "shared_gradients_add"
    X = torch.randn(20, 5 + seed % 3)
    net = Tied(X.shape[1]).to((torch.float32, torch.float64)[seed % 2])
    found = lemmata.certify(net, X)
    yield Case("thrice", found, {name: True, "gradients_true": True}, easy=(name,))
    net.W.register_hook(lambda g: g / 3)
    yield Case("a mean", lemmata.certify(net, X), {name: False}, easy=(name,))


def deep(depth: int, width: int, gain: float, activation) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layer = nn.Linear(width, width)
        nn.init.normal_(layer.weight, std=gain * (2 / width) ** 0.5)
        nn.init.zeros_(layer.bias)
        layers += [layer, activation()]
    return nn.Sequential(*layers, nn.Linear(width, 3))


@problems(seeds=30, quick=1)
def signals(seed):
    """He's deviations, a third and three times of them over ten layers; sigmoids, which lose at least a factor 4 each."""
    torch.manual_seed(seed)
    X, name = torch.randn(64, 48), "signal_kept"
    cases = {
        "he": (1.0, nn.ReLU, True),
        "a third": (1 / 3, nn.ReLU, False),
        "three times": (3.0, nn.ReLU, False),
        "sigmoids": (1.0, nn.Sigmoid, False),
    }
    for label, (gain, activation, truth) in cases.items():
        found = judged(deep(10, 48, gain, activation), X, signal_kept)
        yield Case(label, found, {name: truth}, easy=(name,))


class Detached(nn.Module):
    """The last layer of a network sees the others, and they never hear of it."""

    def __init__(self, net: nn.Sequential):
        super().__init__()
        self.body, self.head = net[:-1], net[-1]

    def forward(self, x):
        return self.head(self.body(x).detach())


@problems(seeds=20, quick=1)
def silence(seed):
    """Layers behind ReLUs that are off, or cut off; layers that are frozen, or behind a head that is still zero."""
    torch.manual_seed(seed)
    X, name, width = torch.randn(64, 12), "signal_kept", 12
    nets = {label: deep(4, width, 1.0, nn.ReLU) for label in ("dead", "frozen", "zero", "whole")}
    with torch.no_grad():
        layer = nets["dead"][2 * (1 + seed % 3)]
        layer.weight.abs_().neg_()
        layer.bias.fill_(-0.1)
        nn.init.zeros_(nets["zero"][-1].weight)
    nets["frozen"][: 2 * (1 + seed % 3)].requires_grad_(False)
    nets["detached"] = Detached(deep(3, width, 1.0, nn.ReLU))
    for label, net in nets.items():
        truths = {name: label not in ("dead", "detached")}
        easy = () if label == "zero" else truths
        yield Case(label, judged(net, X, signal_kept), truths, easy)


@problems(seeds=30, quick=1)
def units(seed):
    """ReLUs whose units were counted by plain code; layers that a bias has switched off, in modules and in functions."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    X, name = torch.randn(int(rng.integers(20, 400)), 10), "units_alive"
    net = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 2)).double()  # fmt: skip
    for off in (0, int(rng.integers(1, 20)), 20):
        with torch.no_grad():
            net[2].bias[:off] = -100.0
            first = net[1](net[0](X.double()))
            shares = [float((h <= 0).all(0).double().mean()) for h in (first, net[3](net[2](first)))]  # fmt: skip
        truth = max(shares) <= 0.5
        yield Case(f"{off} of 20 off", judged(net, X, units_alive), {name: truth}, easy=(name,))
    images = torch.randn(9, 2, 7, 7)
    conv = nn.Sequential(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(150, 2))
    yield Case("channels", judged(conv, images, units_alive), {name: True}, easy=(name,))
    with torch.no_grad():
        conv[0].bias[:4] = -100.0
    yield Case("channels off", judged(conv, images, units_alive), {name: False}, easy=(name,))


@problems(seeds=20, quick=1)
def norms(seed):
    """Batch norms after layers of the usual size; after layers so small that ε is all there is; norms that do not normalise."""
    torch.manual_seed(seed)
    X, name = torch.randn(16, 6), "scale_invariant"

    class BatchNormIdle(nn.Module):
        def forward(self, z):
            return z - z.mean(0)

    def net(norm):
        return nn.Sequential(nn.Linear(6, 8), norm, nn.Tanh(), nn.Linear(8, 2))

    good = net(nn.BatchNorm1d(8))
    with torch.no_grad():
        good[0].weight.mul_(4)
    yield Case("usual", judged(good, X, scale_invariant), {name: True}, easy=(name,))
    with torch.no_grad():
        good[0].weight.mul_(1e-3)
    yield Case("tiny", judged(good, X, scale_invariant), {name: False}, easy=(name,))
    yield Case(
        "idle", judged(net(BatchNormIdle()), X, scale_invariant), {name: False}, easy=(name,)
    )


@problems(seeds=10, quick=1)
def tensors(seed):
    """Parameters and buffers that are finite, or are not; a mask of −∞ is meant so."""
    torch.manual_seed(seed)
    X, name = torch.randn(8, 4), "attributes_sound"
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    net.register_buffer("mask", torch.full((3, 3), -torch.inf).triu(1))
    yield Case("sound", lemmata.certify(net, X), {name: True}, easy=(name,))
    with torch.no_grad():
        (net[0].weight, net[1].running_var)[seed % 2].view(-1)[1] = (torch.nan, torch.inf)[seed % 2]
    yield Case("not finite", lemmata.certify(net, X), {name: False}, easy=(name,))
