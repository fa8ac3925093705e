"""Rules by which a batch becomes an update of the weights: descent on one loss, or the steps of a game of two players.

    LossDescent     w ← w − η ∇f(w)                                       one loss, all weights
    Synchronous     x ← x − η ∇ₓf(x, y),   y ← y − η ∇_y g(x, y)          both step from the same point        CIL (5.39)
    Alternating     x ← x − η ∇ₓf(x, y),   y ← y − η ∇_y g(x⁺, y)         y sees the new x, `steps` times      CIL (5.39)
    Extragradient   z ← z − η F(z − η F(z)),   z = (x, y), F = (∇ₓf, ∇_y g)                                    CIL (5.40)

These are the methods of `lemmata.optim.saddle_point` for networks: x minimises f, y minimises g, −f in a zero-sum game. Both
players are parts of one module, with one optimiser and in one state (`Players`). "x − η∇" stands for a step of any
optimiser: with Adam the last rule is extra-Adam, whose two steps both enter the running means (Gidel et al. 2019).

Each gradient is taken with random numbers of its own, on the same batch of data. CIL lets x move first, ML's algorithm y: that
is the same sequence but for its first step.

    >>> import numpy as np
    >>> class Bilinear(Players):
    ...     players = ("x", "y")                              # parts of the network, hence whose weights
    ...     def of(self, player, net, batch, rng):
    ...         f = net["x"].weight.squeeze() * net["y"].weight.squeeze()
    ...         return f if player == "x" else -f
    >>> from lemmata.nets import Training, train
    >>> one = torch.ones(1, 1)
    >>> def net():
    ...     found = torch.nn.ModuleDict({"x": torch.nn.Linear(1, 1, False), "y": torch.nn.Linear(1, 1, False)})
    ...     found.load_state_dict({"x.weight": one, "y.weight": one})
    ...     return found
    >>> for rule in (Synchronous(), Alternating(), Extragradient()):
    ...     game = Training(net, Bilinear(), optimizer="sgd", learning_rate=0.3, batch_size=1, rule=rule)
    ...     end = train(game, one, epochs=100, rng=0).state.model
    ...     print(f"{type(rule).__name__:13} {np.hypot(end['x.weight'], end['y.weight']).item():.3g}")
    Synchronous   105
    Alternating   1.23
    Extragradient 0.0197
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from lemmata.core.files.encoding import storable
from lemmata.nets.data.batches import Batch
from lemmata.nets.training.losses import Objective, Terms, as_terms

Means = dict[str, float]


class Players(Objective):
    """The losses of a game: each player moves the weights of its own part of the network, so that its own loss falls.

    of(player, net, batch, rng) → the loss of one player, as an objective gives it; −f against f in a zero-sum game

    The loss of the whole is that of the first player; those of both stand in the trace under their names. How both move is
    `Training(rule=…)`.
    """

    players: tuple[str, str] = ("x", "y")  # names of the parts

    def of(self, player: str, net: nn.Module, batch: Sequence[Tensor], rng: torch.Generator) -> Any:
        raise TypeError(f"{type(self).__name__} has no losses: define of.")

    def __call__(self, net: nn.Module, batch: Sequence[Tensor], rng: torch.Generator) -> Terms:
        found = {player: as_terms(self.of(player, net, batch, rng)) for player in self.players}
        numbers = {name: value for one in found.values() for name, value in one.numbers.items()}
        losses = {player: one.losses for player, one in found.items()}
        return Terms(losses[self.players[0]], {**numbers, **losses})

    def weights(self, net: nn.Module) -> dict[str, list[Tensor]]:
        """The weights of each player; ValueError where one has none, or a weight belongs to nobody."""
        trained = {name: w for name, w in net.named_parameters() if w.requires_grad}
        found: dict[str, list[Tensor]] = {player: [] for player in self.players}
        for name, weight in trained.items():
            if (player := name.partition(".")[0]) not in found:
                raise ValueError(
                    f"the weights {name!r} of {type(net).__name__} belong to no player; its parts are {' and '.join(found)}."
                )
            found[player].append(weight)
        for player, own in found.items():
            if not own:
                raise ValueError(f"the player {player!r} of {type(net).__name__} has no weight to train.")  # fmt: skip
        return found


class Learner(Protocol):
    """A network in training, as a rule asks for it: trainer.py."""

    players: tuple[str, ...]
    trained: list[Tensor]

    def gradients(self, batch: Batch, seed: int, player: str | None = None) -> Means: ...

    def apply(self, rate: float) -> None: ...


class Rule:
    """rule.update(learner, batch, seed, rate) updates the weights once and returns the means of the batch before that."""

    plays: ClassVar[bool] = True  # for the two players of a game

    def update(self, learner: Learner, batch: Batch, seed: int, rate: float) -> Means:
        raise TypeError(f"{type(self).__name__} is no rule: define update.")

    def check(self, objective: Objective) -> None:
        """ValueError where a rule for two players meets one loss, or the reverse."""
        name, game = type(self).__name__, isinstance(objective, Players)
        if self.plays and not game:
            raise ValueError(
                f"rule={name}() is for the losses of two players (`Players`), and there is one loss: leave it out."
            )
        if game and not self.plays:
            raise ValueError(
                f"rule={name}() minimises one loss, and there are two players: pass Alternating(), Synchronous() "
                "or Extragradient()."
            )


@storable
@dataclass(frozen=True)
class LossDescent(Rule):
    """A step down the gradient of one loss."""

    plays = False

    def update(self, learner: Learner, batch: Batch, seed: int, rate: float) -> Means:
        means = learner.gradients(batch, seed)
        learner.apply(rate)
        return means


@storable
@dataclass(frozen=True)
class Alternating(Rule):
    """The first player steps, then the second one, `steps` times, by what it sees then."""

    steps: int = 1

    def __post_init__(self):
        if not self.steps >= 1:
            raise ValueError(f"steps={self.steps} of the second player; pass an int >= 1.")

    def update(self, learner: Learner, batch: Batch, seed: int, rate: float) -> Means:
        x, y = learner.players
        means = _label(learner.gradients(batch, seed, x), x, first=True)
        learner.apply(rate)
        for k in range(1, self.steps + 1):
            found = _label(learner.gradients(batch, draw(seed, k), y), y)
            learner.apply(rate)
            for name, value in found.items():
                means[name] = means.get(name, 0.0) + value / self.steps
        return means


@storable
@dataclass(frozen=True)
class Synchronous(Rule):
    """Both players step from the same point."""

    def update(self, learner: Learner, batch: Batch, seed: int, rate: float) -> Means:
        means = _both_gradients(learner, batch, seed)
        learner.apply(rate)
        return means


@storable
@dataclass(frozen=True)
class Extragradient(Rule):
    """Both players step by the gradients at the point where synchronous steps would lead."""

    def update(self, learner: Learner, batch: Batch, seed: int, rate: float) -> Means:
        here = [weight.detach().clone() for weight in learner.trained]
        means = _both_gradients(learner, batch, seed)
        learner.apply(rate)
        _both_gradients(learner, batch, draw(seed, 2))
        with torch.no_grad():
            for weight, kept in zip(learner.trained, here, strict=True):
                weight.copy_(kept)
        learner.apply(rate)
        return means


def draw(seed: int, k: int) -> int:
    """The seed of the k-th gradient on a batch, whose own is k = 0."""
    return (seed + 0x9E3779B97F4A7C15 * k * 2**8) % 2**63


def _both_gradients(learner: Learner, batch: Batch, seed: int) -> Means:
    x, y = learner.players
    means = _label(learner.gradients(batch, seed, x), x, first=True)
    return means | _label(learner.gradients(batch, draw(seed, 1), y), y)


def _label(means: Means, player: str, first: bool = False) -> Means:
    """The means of one player's gradient under its name; the loss of a game, and the rows, are those of the first."""
    found: dict[str, Any] = {player: means["loss"], **means}
    if not first:
        del found["loss"], found["rows"]
    return found
