"""Models of levels of known truth: masks that are right and each single slip, a blind spot, fits, and fits that are spoilt."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import lemmata
from lemmata import PixelCNN, WaveNet
from lemmata.generate import Density
from lemmata.generate.pixels import CausalNet
from truth.harness import Case, problems


class MaskedConv(nn.Conv2d):
    """A convolution that sees earlier pixels, as others write it; `sees` says what of the middle row and of the channels."""

    def __init__(self, inputs, outputs, kernel, sees):
        super().__init__(inputs, outputs, kernel, padding=kernel // 2)
        mask, m = torch.ones_like(self.weight), kernel // 2
        mask[:, :, m + 1 :] = 0
        mask[:, :, m, m + 1 :] = 0
        mask[:, :, m, m] = sees(torch.arange(outputs)[:, None], torch.arange(inputs)[None]).float()
        self.register_buffer("mask", mask)

    def forward(self, x):
        return F.conv2d(x, self.weight * self.mask, self.bias, padding=self.padding)


class Masked(nn.Module):
    """Two masked layers over C channels, the features of each in turn: logits (B, 2, C, H, W)."""

    def __init__(self, C, first, second, kernel=5, turned=False, late=False):
        super().__init__()
        self.C = C
        self.first = MaskedConv(C, 6 * C, kernel, first)
        self.second = MaskedConv(6 * C, 2 * C, kernel, second)
        with torch.no_grad():
            self.first.weight.mul_(4)
            if turned:  # the middle row to the right is open: ≤ for <
                self.first.mask[:, :, kernel // 2, kernel // 2 + 1] = 1
            if late:  # a row below
                self.second.mask[:, :, kernel // 2 + 1] = 1

    def forward(self, x):
        found = self.second(torch.tanh(self.first(x)))
        return found.reshape(len(x), 2, self.C, *x.shape[2:])

    def log_prob(self, rows, shape):
        x = torch.as_tensor(rows).reshape(-1, *shape)
        logs = F.log_softmax(self(x.to(self.first.weight)), 1)
        return logs.gather(1, x.long()[:, None]).flatten(1).sum(1).detach()


def A(C):
    """The channel before in the same pixel, not the number itself."""
    return lambda out, into: out % C > into % C


def B(C):
    return lambda out, into: out % C >= into % C


def case(label, found, **truths):
    return Case(label, found, truths, easy=truths)


@problems(seeds=12, quick=1)
def masks(seed):
    """Binary images of 2 × 3 pixels: whether outputs know what they predict, and whether probabilities add up to 1."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    nets = {
        "right": (1, A(1), B(1), {}),
        "A twice": (1, A(1), A(1), {}),
        "B first": (1, B(1), B(1), {}),
        "≤ for <": (1, A(1), B(1), {"turned": True}),
        "a row below": (1, A(1), B(1), {"late": True}),
        "two channels": (2, A(2), B(2), {}),
        "channels swapped": (2, A(2), lambda out, into: out % 2 <= into % 2, {}),
        "any other channel": (2, lambda out, into: out % 2 != into, B(2), {}),
    }
    for label, (C, first, second, more) in nets.items():
        net, shape = Masked(C, first, second, **more).double(), (C, 2, 3)
        X = rng.integers(0, 2, (40, *shape)).astype(float)
        right = label in ("right", "A twice", "two channels")
        found = lemmata.certify(net, X, properties={"causal": {"order": "raster"}}, seconds=20)
        yield case(label, found, causal=right)
        law = Density(partial(net.log_prob, shape=shape), levels=[0, 1])
        found = lemmata.certify(law, X.reshape(40, -1), seconds=20)
        yield case(label, found, mass_one=right)


@problems(seeds=10, quick=1)
def windows(seed):
    """Masked layers upon each other are blind to the right above; two stacks are not, nor dilations that double."""
    torch.manual_seed(seed)
    X = np.random.default_rng(seed).integers(0, 2, (20, 1, 7, 9)).astype(np.float32)
    stacked = nn.Sequential(
        MaskedConv(1, 8, 3, A(1)), nn.Tanh(), MaskedConv(8, 8, 3, B(1)), nn.Tanh(), MaskedConv(8, 2, 3, B(1))
    )  # fmt: skip
    nets = [("stacked masks", stacked, X, False)]
    nets += [("two stacks", CausalNet((1, 7, 9), 2, (7, 9), 8, 3, (1, 1, 1), 8), X, True)]
    for label, dilations in (("doubling", (1, 2, 4)), ("gaps", (3, 6))):
        net = CausalNet((1, 63), 2, (1, 63), 8, 3, dilations, 8)
        nets += [(label, net, X.reshape(20, 1, 63), label == "doubling")]
    for label, net, rows, fine in nets:
        asked = {"causal": {"order": "raster"}, "no_blind_spot": {}}
        found = lemmata.certify(net, rows, properties=asked, seconds=20)
        yield case(label, found, causal=True, no_blind_spot=fine)


class Unshifted(CausalNet):
    """Without the shift that is mask A: every output sees its own number."""

    def logits(self, places, y=None):
        return super().logits(torch.cat([places[:, 1:], places[:, :1]], 1), y)


@problems(seeds=8, quick=1)
def fits(seed):
    """Numbers that follow from their neighbours, numbers that do not, and fits with something wrong."""
    rng = np.random.default_rng(seed)
    settings = {"channels": 8, "hidden": 16, "n_blocks": 2, "learning_rate": 0.02, "random_state": seed}  # fmt: skip

    def draw(n, tied):
        X = rng.choice(4, (n, 5, 5), p=(0.7, 0.1, 0.1, 0.1) if tied else None)
        for i in range(5 if tied else 0):
            for j in range(5):
                X[:, i, j] += (X[:, i, j - 1] if j else 0) + (X[:, i - 1, j] if i else 0)
        return (X % 4).astype(np.float32)

    X = draw(600, True)
    model = PixelCNN(**settings, max_iter=6).fit(X)
    good = dict.fromkeys(("attributes_sound", "statements_true", "causal", "no_blind_spot"), True)
    yield case("tied", model.certify(X, seconds=60), beats_independent=True, **good)
    sound = WaveNet("auto", **settings, max_iter=6).fit(X.reshape(600, -1))
    yield case("as a sequence", sound.certify(X.reshape(600, -1), seconds=60), **good)
    leaky = copy.deepcopy(model)
    leaky.module_.__class__ = Unshifted
    leaky.loss_ = float(-leaky.score(X))
    found = leaky.certify(X, seconds=60)
    truths = {"causal": False, "beats_independent": False, "statements_true": True}
    yield Case("sees itself", found, truths, easy=("causal", "statements_true"))
    liar = copy.deepcopy(model)
    liar.loss_ *= 0.99
    yield case("lying loss", liar.certify(X, seconds=60), statements_true=False)
    with torch.no_grad():
        liar.module_.place[0, 0, 0] = np.nan
    yield case("a NaN", liar.certify(X, seconds=60), attributes_sound=False)
    y = rng.integers(0, 2, 600)
    X[y == 1] = 3 - X[y == 1]
    model = PixelCNN(**settings, max_iter=3).fit(X, y)
    found = model.certify(X, y, seconds=60)
    yield case("classes", found, attributes_sound=True, statements_true=True, causal=True)
    yield case("labels of others", model.certify(X, 1 - y, seconds=60), statements_true=False)
    X = draw(300, False)
    loose = PixelCNN(**settings, max_iter=15, test_fraction=0.4).fit(X)
    yield Case("independent", loose.certify(X, seconds=60), {"beats_independent": False})
    X = X[:, :2, :2].clip(0, 1)
    few = PixelCNN(**settings, max_iter=2, test_fraction=0.0).fit(X)
    yield case("enumerated", few.certify(X, seconds=60), mass_one=True)
    few.module_.__class__ = Unshifted
    yield case("sees itself", few.certify(X, seconds=60), mass_one=False)
