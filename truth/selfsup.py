"""Planted encoders: constant, nearly so, of rank one, random, whitened, few rows; views whose signal is known; captions.

Rows are signal (2 columns) and nuisance (20), and a view draws the nuisance again. So the best linear encoder is known, the
signal; the nuisance finds nothing, and neither does what contracts to a point. Collapsed trainings are real ones, on digits.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import lemmata
from lemmata import BYOL, CLIP, SimCLR, VICReg
from lemmata.selfsup import LeaveOut, losses
from lemmata.selfsup.networks import two_layers
from lemmata.selfsup.views import choose_views
from truth.harness import Case, problems

ROWS, SIGNAL, NUISANCE = 1200, 2, 20
SOUND = {"attributes_sound": True, "statements_true": True}


class Encoder(nn.Module):
    """A function of rows as a module."""

    def __init__(self, function):
        super().__init__()
        self.w, self.function = nn.Parameter(torch.zeros(1)), function

    def forward(self, x):
        return self.function(x) + 0 * self.w


def redraw(batch, generator):
    """The same signal but for a little noise, another nuisance."""
    near = batch[:, :SIGNAL] + 0.05 * torch.randn(len(batch), SIGNAL, generator=generator).to(batch)
    return torch.cat([near, torch.randn(len(batch), NUISANCE, generator=generator).to(batch)], 1)


def certify(function, X, views=redraw, baseline=None):
    asked = {"views": {"step": views, "baseline": baseline}}
    return lemmata.certify(Encoder(function), X, properties=asked)


def draw(seed: int, n: int = ROWS, d: int = SIGNAL + NUISANCE) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@problems(seeds=20, quick=1)
def encoders(seed: int) -> Iterator[Case]:
    """Spread and rank follow from how each was made."""
    X, width = draw(seed), SIGNAL + NUISANCE
    mix = torch.randn(width, 64, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    L = np.linalg.cholesky(np.linalg.inv(np.cov(X, rowvar=False)))
    whiten, mean = torch.from_numpy(L), torch.from_numpy(X.mean(axis=0).astype(float))
    for label, function, healthy in (
        ("identity", lambda x: x, True),
        ("random", lambda x: torch.relu(x @ mix.to(x)), True),
        ("whitened", lambda x: (x - mean.to(x)) @ whiten.to(x), True),
        ("constant", torch.ones_like, False),
        ("zero", torch.zeros_like, False),
        ("nearly constant", lambda x: 1 + 0.02 * x, False),
        ("noise about a point", lambda x: x.new_ones(64) + 1e-3 * x @ mix.to(x), False),
        ("rank one", lambda x: (x @ mix[:, :1].to(x)) * mix[0].to(x), False),
    ):
        yield Case(label, certify(function, X), {"not_collapsed": healthy}, easy=("not_collapsed",))
    for n in (3, 10, 30):
        few, views = draw(seed, n, 300), LeaveOut(0.3)
        yield Case(f"{n} rows", certify(lambda x: x, few, views), {"not_collapsed": True})
        found = certify(torch.ones_like, few, views)
        yield Case(f"{n} rows, constant", found, {"not_collapsed": False}, easy=("not_collapsed",))


@problems(seeds=20, quick=1)
def views(seed: int) -> Iterator[Case]:
    """The signal finds its rows; chance and the nuisance find one in 256, and no more than another draw of the nuisance."""
    X = draw(seed)
    of_signal, nuisance = (lambda x: x[:, :SIGNAL]), (lambda x: x[:, SIGNAL:])
    one, other = (lambda x: x[:, SIGNAL : SIGNAL + 10]), (lambda x: x[:, SIGNAL + 10 :])
    for label, mine, theirs, better in (
        ("signal against all", of_signal, None, True),
        ("signal against nuisance", of_signal, nuisance, True),
        ("nuisance against signal", nuisance, of_signal, False),
        ("nuisance against nuisance", one, other, False),
        ("signal against itself", of_signal, lambda x: 2 * x[:, :SIGNAL], False),
        ("a point against signal", torch.ones_like, of_signal, False),
    ):
        found = certify(mine, X, baseline=None if theirs is None else Encoder(theirs))
        yield Case(label, found, {"views_found": better}, easy=("views_found",) if better else ())


@problems(seeds=20, quick=1)
def probes(seed: int) -> Iterator[Case]:
    """Classes that a product of two columns tells: no linear probe of the rows can."""
    X, new = draw(seed), draw(seed + 10_000)
    rng = np.random.default_rng(seed)
    product = lambda x: x[:, :1] * x[:, 1:2]  # noqa: E731
    asked = {"views": {"step": redraw, "baseline": Encoder(lambda x: x[:, SIGNAL : SIGNAL + 1])}}
    both = ("probe_beats_pixels", "probe_beats_untrained")
    for label, function, signal, better in (
        ("the product", product, True, True),
        ("a column", lambda x: x[:, :1], True, False),
        ("labels by lot", product, False, False),
    ):
        y, truth = (
            (rows[:, 0] * rows[:, 1] > 0).astype(int) if signal else rng.integers(0, 2, len(rows))
            for rows in (X, new)
        )
        found = lemmata.certify(Encoder(function), X, y, X_test=new, y_test=truth, properties=asked)
        yield Case(label, found, dict.fromkeys(both, better), easy=both if better else ())


@problems(seeds=4, quick=1)
def trainings(seed: int) -> Iterator[Case]:
    """On digits, 300 updates of a perceptron: as they should be, and without the piece that holds rows apart."""
    X = torch.from_numpy((load_digits().images[:, None] / 16).astype(np.float32))
    X, new = X[:1300], X[1300:]
    two_views = choose_views(None, (1, 8, 8))
    for label, loss in (
        ("BYOL", predict_target),
        ("BYOL without target and stop", predict_itself),
        ("VICReg", losses.regularise),
        ("VICReg without variance", lambda z, z_plus: losses.regularise(z, z_plus, variance=0.0)),
    ):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
        predictor, target = two_layers(32, 64, 32), copy.deepcopy(net)
        weights = [*net.parameters(), *predictor.parameters()]
        optimizer, rng = torch.optim.Adam(weights, 2e-3), torch.Generator().manual_seed(seed)
        for _ in range(300):
            both = torch.cat(two_views(X[torch.randint(len(X), (128,), generator=rng)], rng))
            z, z_plus = net(both).chunk(2)
            if loss is predict_target:
                t, t_plus = target(both).detach().chunk(2)
                value = loss(predictor(z), t_plus) + loss(predictor(z_plus), t)
            elif loss is predict_itself:
                value = loss(predictor(z), z_plus) + loss(predictor(z_plus), z)
            else:
                value = loss(z, z_plus)
            optimizer.zero_grad()
            value.mean().backward()
            optimizer.step()
            with torch.no_grad():
                for slow, weight in zip(target.parameters(), net.parameters(), strict=True):
                    slow.lerp_(weight, 0.02)
        found = lemmata.certify(net, new, properties={"views": two_views.first})
        truths = {"not_collapsed": "without" not in label}
        yield Case(label, found, truths, easy=truths)


def predict_target(p, target):
    return losses.predict(p, target)


def predict_itself(p, z):
    """The same, and gradients flow into both sides."""
    return 2 - 2 * torch.cosine_similarity(p, z)


@problems(seeds=3, quick=1)
def fits(seed: int) -> Iterator[Case]:
    """Our estimators on rows of signal and nuisance; a statement that is not true."""
    X, new = draw(seed, 700), draw(seed + 10_000, 700)
    options = {
        "net": "FeedForward",
        "net_options": {"widths": (32,)},
        "views": redraw,
        "projection": 8,
        "hidden": 32,
    }
    for cls in (SimCLR, BYOL, VICReg):
        with lemmata.config(certificate=False):
            model = cls(**options, batch_size=100, max_iter=3, random_state=seed).fit(X)
        yield Case(
            cls.__name__,
            model.certify(X, X_test=new, seconds=60),
            {**SOUND, "not_collapsed": True},
            SOUND,
        )
        for name in ("loss_", "alignment_", "uniformity_", "spectrum_"):
            liar = copy.copy(model)
            setattr(liar, name, getattr(model, name) + 0.01)
            found = liar.certify(X, X_test=new, seconds=60)
            yield Case(f"{cls.__name__}, {name}", found, {"statements_true": False}, ("statements_true",))  # fmt: skip


SIDES = np.array(["left", "right"])


def describe(rows):
    return [f"{SIDES[int(a > 0)]} {'upper' if b > 0 else 'lower'}" for a, b in rows[:, :2]]


@problems(seeds=8, quick=1)
def captions(seed: int) -> Iterator[Case]:
    """A word for the sign of each of two columns, and captions of other rows."""
    X, new = draw(seed, 1500, 6), draw(seed + 10_000, 1500, 6)
    rng = np.random.default_rng(seed)
    options = {"net_options": {"widths": (32,)}, "projection": 8, "hidden": 16, "batch_size": 100}
    for label, learned, tested in (
        ("true captions", True, True),
        ("shuffled in training", False, True),
        ("shuffled in the test", True, False),
    ):
        shown, said = describe(X), describe(new)
        shown = shown if learned else rng.permutation(shown).tolist()
        said = said if tested else rng.permutation(said).tolist()
        with lemmata.config(certificate=False):
            model = CLIP(**options, max_iter=4, random_state=seed).fit(X, shown)
        if learned:
            found = model.certify(X, shown, X_test=new, y_test=said, seconds=60)
            truths = {**SOUND, "captions_found": tested}
            yield Case(label, found, truths, easy=truths if tested else tuple(SOUND))
            names, many = SIDES[(new[:, 0] > 0).astype(int)], draw(seed + 20_000, 20_000, 6)
            sides = model.classifier(SIDES, "{}")
            # one word of two was never a caption: how good that is, only many rows say
            right = sides.score(many, SIDES[(many[:, 0] > 0).astype(int)]) if tested else 0.0
            found = sides.certify(new, names if tested else rng.permutation(names))
            easy = ("zero_shot_beats_chance",) if right > 0.6 or 0 < right < 0.4 else ()
            yield Case(label, found, {"zero_shot_beats_chance": right > 0.5}, easy)
    liar = copy.copy(model)
    liar.temperature_ *= 1.01
    found = liar.certify(X, shown, X_test=new, y_test=said, seconds=60)
    yield Case("lying temperature", found, {"statements_true": False}, ("statements_true",))
