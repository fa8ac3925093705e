"""Planted games: generators that make the law, half of it, or training rows; discriminators that err as often as is known.

The law has two groups at ±1 in the first column, and a normal second one. Players that hardly move (rate 10⁻¹²) are what they
were made, so the share of each side that the discriminator gets wrong is that of a normal beyond a threshold.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np
import torch
from torch import nn
from torch.nn.functional import softplus

import lemmata
from lemmata import GAN
from lemmata.audit.generate.players import LEAST, SIDES, players_alive
from lemmata.core.certificate import Fit
from lemmata.core.certification.checking import check
from lemmata.core.runs.trace import Trace
from truth.harness import Case, problems

ROWS, SPREAD, LATENT = 2000, 0.2, 2
STILL = {"learning_rate": 1e-12, "max_iter": 8, "latent": LATENT, "r1": 0.0, "test_fraction": 0.0}
OF_SAMPLES = ("modes_covered", "passes_for_data", "not_copied")
DEVIATION = (1 + SPREAD**2) ** 0.5  # of the first column


class Law(nn.Module):
    """Makes rows of the law, in units of the columns; of one group only, or moved in the second column."""

    def __init__(self, one_sided: bool = False, moved: float = 0.0):
        super().__init__()
        self.w, self.one_sided, self.moved = nn.Parameter(torch.zeros(1)), one_sided, moved

    def forward(self, z):
        # the sign and the size of a normal number are independent: its size gives a uniform one, hence a normal one
        sign = torch.ones_like(z[:, 0]) if self.one_sided else z[:, 0].sign()
        uniform = torch.erf(z[:, 0].abs() / 2**0.5).clamp(1e-6, 1 - 1e-6)
        first = (sign + SPREAD * torch.special.ndtri(uniform)) / DEVIATION
        return torch.stack([first, z[:, 1] + self.moved], 1) + 0 * self.w


class Copier(nn.Module):
    """Makes training rows."""

    def __init__(self, rows):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))
        self.register_buffer("rows", torch.from_numpy((rows - rows.mean(0)) / rows.std(0)))

    def forward(self, z):
        uniform = torch.special.ndtr(z[:, 0].double())
        return self.rows[(uniform * len(self.rows)).long().clamp(max=len(self.rows) - 1)] + 0 * self.w  # fmt: skip


class Threshold(nn.Module):
    """The logit of a threshold in the second column; or a constant."""

    def __init__(self, at: float = 0.0, constant: float | None = None):
        super().__init__()
        self.w, self.at, self.constant = nn.Parameter(torch.zeros(1)), at, constant

    def forward(self, x):
        # 0 · x: a gradient flows to the generator, and is 0
        found = self.at - x[:, 1] if self.constant is None else 0 * x[:, 1] + self.constant
        return found + 0 * self.w


def draw(rng: np.random.Generator, n: int = ROWS) -> np.ndarray:
    first = rng.choice([-1.0, 1.0], n) + SPREAD * rng.normal(size=n)
    return np.stack([first, rng.normal(size=n)], 1).astype(np.float32)


def play(X: np.ndarray, generator: nn.Module, discriminator: nn.Module, seed: int) -> GAN:
    with lemmata.config(certificate=False):
        return GAN(generator, discriminator, **STILL, random_state=seed).fit(X)


@problems(seeds=12, quick=1)
def generators(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    X, new = draw(rng), draw(rng)
    honest = {"attributes_sound": True, "statements_true": True, "players_alive": True}
    for label, made, truths in (
        ("the law itself", Law(), dict.fromkeys(OF_SAMPLES, True)),
        ("one group", Law(one_sided=True), {"modes_covered": False, "passes_for_data": False, "not_copied": True}),
        ("training rows", Copier(X), {"modes_covered": True, "not_copied": False}),
    ):  # fmt: skip
        model = play(X, made, Threshold(), seed)
        truths = {**honest, **truths}
        easy = [name for name in truths if name != "modes_covered" or not truths[name]]
        yield Case(label, model.certify(X, X_test=new, seconds=60), truths, easy)
    liar = copy.deepcopy(model)
    liar.loss_ += 0.01
    found = liar.certify(X, X_test=new, seconds=1)
    yield Case("lying loss", found, {"statements_true": False}, easy=("statements_true",))
    with torch.no_grad():
        liar.module_.discriminator.net.w.fill_(np.nan)
    found = liar.certify(X, X_test=new, seconds=1)
    yield Case("a NaN", found, {"attributes_sound": False}, easy=("attributes_sound",))


@problems(seeds=40, quick=2)
def discriminators(seed: int) -> Iterator[Case]:
    """The same normal column on both sides, as far apart as makes a threshold wrong so often."""
    X = draw(np.random.default_rng(seed))
    for wrong in (0.5, 0.1, 0.03, 0.004, 0.001):
        at = NormalDist().inv_cdf(1 - wrong)
        model = play(X, Law(moved=2 * at), Threshold(at), seed)
        truths = {"players_alive": wrong >= 0.01}
        yield Case(f"wrong {wrong:.1%}", model.certify(X, seconds=0.1), truths, easy=truths)
    for label, generator, judge in (
        ("always data", Law(), Threshold(constant=3.0)),
        ("always made", Law(), Threshold(constant=-3.0)),
        ("always 0", Law(), Threshold(constant=0.0)),
        ("never wrong", Law(moved=40.0), Threshold(20.0)),
    ):
        found = play(X, generator, judge, seed).certify(X, seconds=0.1)
        yield Case(label, found, {"players_alive": False}, easy=("players_alive",))


@problems(seeds=20, quick=1)
def other_loops(seed: int) -> Iterator[Case]:
    """Somebody's own loop of PyTorch and what it wrote down; whether its players are alive is asked of fresh rows."""
    for label, learns in (("both learn", True), ("the generator stays away", False)):
        trace, wrong = play_by_hand(seed, learns)
        truths = {} if 0.003 < wrong < 0.03 else {"players_alive": wrong >= LEAST}
        yield Case(label, check((players_alive,), Fit(None, trace=trace), "a loop"), truths, truths)


def play_by_hand(seed: int, learns: bool, epochs: int = 40) -> tuple[Trace, float]:
    """Its trace, and the lesser share of fresh data and fresh samples that its discriminator gets wrong late in the run."""
    rng, trace, late = np.random.default_rng(seed), Trace(), []
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made, judge = (nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, n)) for n in (2, 1))
        moves = [
            torch.optim.Adam(one.parameters(), 3e-3, betas=(0.5, 0.99)) for one in (made, judge)
        ]

        def outcomes(n: int) -> tuple[torch.Tensor, torch.Tensor]:
            samples = made(torch.randn(n, 2)) + (0 if learns else 8)
            return judge(torch.from_numpy(draw(rng, n)))[:, 0], judge(samples)[:, 0]

        losses = (
            lambda real, fake: softplus(-fake),
            lambda real, fake: softplus(-real) + softplus(fake),
        )
        for epoch in range(epochs + 1):
            right = []
            for _ in range(8):
                real, fake = outcomes(128)
                right.append([float((real >= 0).float().mean()), float((fake <= 0).float().mean())])
                for move, loss in list(zip(moves, losses, strict=True))[0 if learns else 1 :]:
                    move.zero_grad()
                    loss(*outcomes(128)).mean().backward()
                    move.step()
            trace.append(0.0, 0.0, dict(zip(SIDES, np.mean(right, axis=0), strict=True)))
            if epoch > 3 * epochs // 4:
                real, fake = outcomes(4000)
                late.append([float((real < 0).float().mean()), float((fake > 0).float().mean())])
    return trace, float(np.mean(late, axis=0).min())
