"""Planted densities: flows that are right, with a wrong sign, a dropped term, a fold, or draws of their own; densities with and
without a mass of 1.

A flow of a rotated and bent normal density is built by hand, so that it is known to beat independent columns on its own draws.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import numpy as np
from scipy.stats import multivariate_normal

import lemmata
from lemmata.generate import Density, NormalizingFlow
from truth.harness import Case, problems

ROWS = 400
CLAIMS = ("beats_independent", "inverts", "log_det_true", "mass_one")


def _truths(**others: bool) -> dict[str, bool]:
    return {**dict.fromkeys(CLAIMS, True), **others}


def _right_flow(seed: int):
    import torch

    from lemmata.generate.flows import AffineMap, Flow, Planar, StandardNormal

    torch.manual_seed(seed)
    flow = Flow([Planar(2), AffineMap(2), Planar(2)], StandardNormal(2)).double()
    with torch.no_grad():
        for weight in flow.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
        flow.transforms[1].lower.copy_(torch.tensor([[0.0, 0.0], [1.5, 0.0]]))
        flow.transforms[1].log_scale.clamp_(-0.5, 0.5)
    return flow


def _draw(flow, seed: int) -> np.ndarray:
    import torch

    with torch.no_grad():
        return flow.sample(ROWS, torch.Generator().manual_seed(seed)).numpy()


@problems(seeds=12, quick=1)
def flows(seed: int) -> Iterator[Case]:
    import torch
    from torch import nn

    from lemmata.generate.flows import Flow, Planar

    class WrongSign(Planar):
        def inverse(self, x):
            z, log_det = super().inverse(x)
            return z, -log_det

    class DroppedTerm(Planar):
        def inverse(self, x):
            z, log_det = super().inverse(x)
            return z, 0 * log_det

    class Folded(Planar):
        """⟨u,θ⟩ = −3: where θᵀz is near 0 it turns back."""

        @property
        def u(self):
            return -3 * self.theta / (self.theta @ self.theta)

        def forward(self, z):
            value = torch.tanh(z @ self.theta + self.bias)
            slope = 1 + (1 - value * value) * (self.u @ self.theta)
            return z + value[:, None] * self.u, slope.abs().log()

    class Noisy(nn.Module):
        """Dropout that eval() does not switch off, in the shift."""

        def forward(self, z):
            return z + nn.functional.dropout(torch.full_like(z, 0.2)), z.new_zeros(len(z))

        def inverse(self, x):
            return x - nn.functional.dropout(torch.full_like(x, 0.2)), x.new_zeros(len(x))

    right = _right_flow(seed)
    X, new = _draw(right, 2 * seed), _draw(right, 2 * seed + 1)
    with torch.no_grad():
        many = right.sample(100_000, torch.Generator().manual_seed(10_000 + seed))
        gain = _share_of_gains(right.log_prob(many).numpy(), X, many.numpy())

    def certify(flow):
        return lemmata.certify(flow, X, X_test=new, seconds=60)

    truths = {**_truths(beats_independent=gain > 0.5), "planar_invertible": True}
    yield Case("right", certify(right), truths, easy=CLAIMS[1:])
    first, *rest = list(right.transforms)
    for label, kind in (("wrong sign", WrongSign), ("a dropped term", DroppedTerm)):
        spoilt = kind(2).double()
        spoilt.load_state_dict(first.state_dict())
        flow = Flow([spoilt, *rest], right.base)
        truths = {"inverts": True, "log_det_true": False, "beats_independent": False}
        yield Case(label, certify(flow), truths, easy=("log_det_true",))
    folded = Folded(2).double()
    folded.load_state_dict(first.state_dict())
    flow = Flow([folded, *rest], right.base)
    truths = {"inverts": False, "planar_invertible": False, "beats_independent": False}
    yield Case("folded planar map", certify(flow), truths, easy=("planar_invertible",))
    flow = Flow([Noisy(), *right.transforms], right.base)
    truths = {"inverts": False, "beats_independent": False, "mass_one": False}
    yield Case("dropout left on", certify(flow), truths, easy=("inverts",))


def _share_of_gains(own: np.ndarray, X: np.ndarray, rows: np.ndarray) -> float:
    """The share of rows that are more probable than under normals of the columns of X."""
    mean, s = X.mean(axis=0), X.std(axis=0)
    other = -0.5 * (((rows - mean) / s) ** 2 + np.log(2 * math.pi * s**2)).sum(1)
    return float((own > other).mean())


@problems(seeds=12, quick=1)
def fits(seed: int) -> Iterator[Case]:
    """Our fits to an arc and to noise; the share of 20,000 new rows that are more probable is counted."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 3, 20_600)
    arc = np.column_stack([np.cos(t), np.sin(t)]) + 0.1 * rng.normal(size=(20_600, 2))
    for label, rows in (("an arc", arc), ("noise", rng.normal(size=(20_600, 2)))):
        X, many = rows[:600], rows[600:]
        model = NormalizingFlow(n_transforms=4, max_iter=10, random_state=seed).fit(X)
        learned = np.delete(X, model.test_rows_, axis=0)
        gains = _share_of_gains(model.score_samples(many), learned, many) > 0.5
        truths = {"inverts": True, "log_det_true": True, "statements_true": True}
        yield Case(label, model.certify(X), {**truths, "beats_independent": gains})


@problems(seeds=12, quick=1)
def classes(seed: int) -> Iterator[Case]:
    """Fits with classes; the same with labels of other rows, shares that add up to 2, a class whose determinant is dropped."""
    import torch

    from lemmata.generate.flows import ClassAffine

    class Dropping(ClassAffine):
        def inverse(self, x, y):
            z, log_det = super().inverse(x, y)
            return z, torch.where(y == 1, 0.0, log_det)

    rng = np.random.default_rng(seed)
    y = rng.choice(3, size=20_900, p=[0.5, 0.3, 0.2])
    rows = rng.normal(scale=3, size=(3, 2))[y] + rng.uniform(0.2, 0.9, (3, 1))[y] * rng.normal(size=(len(y), 2))  # fmt: skip
    X, labels = rows[:900], y[:900]
    settings = {"n_transforms": 3, "widths": (32,), "max_iter": 10, "random_state": seed}
    model = NormalizingFlow(**settings).fit(X, labels)
    gains = _share_of_gains(
        model.score_samples(rows[900:]), np.delete(X, model.test_rows_, axis=0), rows[900:]
    )
    good = dict.fromkeys(("inverts", "log_det_true", "statements_true"), True)
    truths = {**good, "beats_independent": gains > 0.5}
    yield Case("classes", model.certify(X, labels, seconds=60), truths, easy=good)
    found = model.certify(X, rng.permutation(labels))
    yield Case("labels of others", found, {"statements_true": False}, easy=("statements_true",))
    twice = copy.deepcopy(model)
    twice.module_.shares *= 2
    yield Case("shares add up to 2", twice.certify(X, labels), {"beats_independent": False})
    dropped = copy.deepcopy(model)
    dropped.module_.transforms[0].__class__ = Dropping
    truths = {"inverts": True, "log_det_true": False, "beats_independent": False, "statements_true": False}  # fmt: skip
    yield Case("a dropped class", dropped.certify(X, labels), truths, easy=("log_det_true",))


@problems(seeds=8, quick=1)
def images_of_levels(seed: int) -> Iterator[Case]:
    """Glow of 2 × 2 images of two levels, tied and independent; P of all 16 by 2,000 draws from each cell."""
    rng = np.random.default_rng(seed)
    cells, images = rng.random((2000, 4)), 2.0 + (np.arange(16)[:, None] >> np.arange(4) & 1)
    settings = {"n_transforms": 4, "widths": (8,), "max_iter": 10, "random_state": seed}
    for label, tie in (("tied", 0.1), ("independent", 0.5)):
        rows = (rng.random((10_600, 1)) < 0.5) ^ (rng.random((10_600, 4)) < tie)
        X, many = 2.0 + rows[:600].reshape(-1, 1, 2, 2), rows[600:] @ (1 << np.arange(4))
        model = NormalizingFlow("glow", **settings).fit(X)
        draws = [np.exp(model.score_samples((one + cells).reshape(-1, 1, 2, 2))) for one in images]
        learned = np.delete(rows[:600], model.test_rows_, axis=0)
        shares = (learned.sum(axis=0) + 0.5) / (len(learned) + 1)
        other = np.where(images == 3, shares, 1 - shares).prod(axis=1)
        gains = (np.mean(draws, axis=1) > other)[many].mean() > 0.5
        good = dict.fromkeys(("inverts", "log_det_true", "statements_true"), True)
        yield Case(label, model.certify(X, seconds=60), {**good, "beats_independent": gains}, easy=good)  # fmt: skip
        liar = copy.deepcopy(model)
        liar.levels_ = np.array([2.0, 4.0])  # cells twice as wide, which overlap
        yield Case(f"{label}, wide cells", liar.certify(X), {"beats_independent": False})


@problems(seeds=12, quick=1)
def transformed_distributions(seed: int) -> Iterator[Case]:
    """torch.distributions with a transform of one's own, which tells the truth about its determinant or does not."""
    import torch
    from torch import distributions as D

    class Shear(D.Transform):
        domain = codomain = D.constraints.real_vector
        bijective = True
        lie = 0.0

        def _call(self, z):
            return torch.stack([z[:, 0], 2 * z[:, 1] + 1.5 * z[:, 0]], 1)

        def _inverse(self, x):
            return torch.stack([x[:, 0], (x[:, 1] - 1.5 * x[:, 0]) / 2], 1)

        def log_abs_det_jacobian(self, z, x):
            return z.new_full((len(z),), math.log(2) + self.lie)

    base = D.Independent(D.Normal(torch.zeros(2).double(), torch.ones(2).double()), 1)
    torch.manual_seed(seed)
    for label, lie in (("true log_abs_det_jacobian", 0.0), ("one that lies", -1.0)):
        shear = Shear()
        shear.lie = lie
        law = D.TransformedDistribution(base, [shear])
        X, new = (law.sample((ROWS,)).numpy() for _ in range(2))
        found = lemmata.certify(law, X, X_test=new, seconds=60)
        good = lie == 0
        truths = _truths(log_det_true=good, mass_one=good, beats_independent=good)
        yield Case(label, found, truths, easy=("inverts", "log_det_true", "mass_one"))


@problems(seeds=6, quick=1)
def other_libraries(seed: int) -> Iterator[Case]:
    """Fits of zuko, normflows and nflows to an arc, where installed, and the same with a determinant that is not theirs."""
    import torch

    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 3, 20_800)
    rows = np.column_stack([np.cos(t), np.sin(t)]) + 0.1 * rng.normal(size=(20_800, 2))
    X, new, many = rows[:400], rows[400:800], rows[800:]
    torch.manual_seed(seed)
    for make in (_zuko, _normflows, _nflows):
        try:
            model, log_prob, lie = make()
        except ModuleNotFoundError:
            continue
        optimizer, x = torch.optim.Adam(model.parameters(), lr=5e-3), torch.from_numpy(X).float()
        for _ in range(60):
            loss = -log_prob(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        name = make.__name__.strip("_")
        with torch.no_grad():
            own = log_prob(torch.from_numpy(many).float()).numpy()
        truths = {"beats_independent": _share_of_gains(own, X, many) > 0.5, "inverts": True, "log_det_true": True}  # fmt: skip
        found = lemmata.certify(model, X, X_test=new, seconds=60)
        yield Case(name, found, truths, easy=("inverts", "log_det_true"))
        lie()
        found = lemmata.certify(model, X, X_test=new, seconds=60)
        truths = {"inverts": True, "log_det_true": False, "beats_independent": False, "mass_one": False}  # fmt: skip
        yield Case(f"{name}, one that lies", found, truths, easy=("log_det_true",))


def _zuko():
    import zuko

    flow = zuko.flows.RealNVP(2, transforms=3, hidden_features=(32,))

    def lie() -> None:
        forward = type(flow).forward

        class Lying(type(flow)):
            def forward(self, c=None):
                found = forward(self, c)
                part = found.transform.transforms[0]
                true = part.log_abs_det_jacobian
                part.log_abs_det_jacobian = lambda x, y: true(x, y) + 1
                call = part.call_and_ladj
                part.call_and_ladj = lambda x: (call(x)[0], call(x)[1] + 1)
                return found

        flow.__class__ = Lying

    return flow, lambda x: flow().log_prob(x), lie


def _normflows():
    import normflows as nf

    parts = []
    for _ in range(3):
        net = nf.nets.MLP([1, 32, 2], init_zeros=True)
        parts += [nf.flows.AffineCouplingBlock(net), nf.flows.Permute(2, mode="swap")]
    flow = nf.NormalizingFlow(nf.distributions.DiagGaussian(2), parts)

    def lie() -> None:
        last, inverse = flow.flows[0], flow.flows[0].inverse
        last.inverse = lambda x: (inverse(x)[0], inverse(x)[1] + 1)

    return flow, flow.log_prob, lie


def _nflows():
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms import CompositeTransform, MaskedAffineAutoregressiveTransform

    maps = CompositeTransform([MaskedAffineAutoregressiveTransform(2, 16) for _ in range(2)])
    flow = Flow(maps, StandardNormal([2]))

    def lie() -> None:
        first = maps._transforms[0]

        class Lying(type(first)):
            def forward(self, inputs, context=None):
                found, log_det = super().forward(inputs, context)
                return found, log_det + 1

        first.__class__ = Lying

    return flow, flow.log_prob, lie


@problems(seeds=12, quick=1)
def functions(seed: int) -> Iterator[Case]:
    """A function that gives ln p, of a mass of 1 and of e; on rows of which it is the law, or which are independent."""
    law = multivariate_normal([0, 3], [[1, 0.8], [0.8, 1]])
    X, new = (law.rvs(ROWS, random_state=2 * seed + at) for at in range(2))
    for label, more in (
        ("the law", 0.0),
        ("unnormalised", 1.0),
        ("half of the mass", -math.log(2)),
    ):
        found = lemmata.certify(
            Density(lambda rows, more=more: law.logpdf(rows) + more), X, X_test=new
        )
        truths = {"mass_one": more == 0, "beats_independent": more == 0}
        yield Case(label, found, truths, easy=("mass_one",))
    rng = np.random.default_rng(seed)
    X, new = (rng.normal([0, 3], size=(ROWS, 2)) for _ in range(2))
    found = lemmata.certify(Density(law.logpdf), X, X_test=new)
    yield Case(
        "of other rows", found, {"mass_one": True, "beats_independent": False}, easy=("mass_one",)
    )
