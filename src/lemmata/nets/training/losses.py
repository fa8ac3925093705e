"""Objectives of training: losses of a network's outputs by name, and objectives of a whole network.

    cross_entropy   ℓ(f, y) = log Σ_k e^{f_k} − f_y      f the logits, y a class; label_smoothing ε mixes ε/K of every class in
    bce             ℓ(f, y) = log(1 + e^f) − y f              one logit for each yes or no
    mse             ℓ(f, y) = mean (f − y)²
    l1              ℓ(f, y) = mean |f − y|
    huber           ½ r² where |r| ≤ δ, δ(|r| − δ/2) beyond

A loss is a function of (outputs, targets) that gives one number per row, shape (B,), or their mean. Where that is too little (a
diffusion model draws its noise, a language model shifts its tokens, an autoencoder has no targets), an *objective* sees
the network itself:

    >>> @objective
    ... def denoising(net, batch, rng):
    ...     (x,) = batch                                        # what the data holds, as tensors
    ...     noise = torch.randn(x.shape, generator=rng)         # randomness of this batch alone
    ...     return (net(x + noise) - noise).square().flatten(1).mean(1)          # (B,), or one number: their mean
    >>> isinstance(denoising, Objective)
    True

Where a loss is a sum whose parts one wants to see, it gives `Terms`; their means stand in the trace, under their names:

    >>> @objective
    ... def bound(net, batch, rng):
    ...     error, divergence = net(batch[0])                   # (B,) each
    ...     return Terms(error + divergence, {"kl": divergence})

A network that knows its loss has a method `loss(*batch)`, with the same results, and is trained by ``loss="module"``.

    >>> outputs, targets = torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0])
    >>> CrossEntropy()(outputs, targets)
    tensor([0.1269, 2.1269])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lemmata.core.files.encoding import storable
from lemmata.nets.training.counting import Operations

TAKEN = (
    "loss", "rows", "counted", "epoch", "batch", "rate", "validation_loss", "validation_score",
)  # fmt: skip


@dataclass(frozen=True)
class Terms:
    """What an objective gives where a loss alone is too little.

    losses : of the rows, shape (B,), or their mean, shape ()
    numbers : further numbers by name, shaped like losses; they are not minimised, their means go to the trace
    counts : of the rows, shape (B,), where a row's loss is a sum over so many things, tokens or pixels. The mean is then one
        over things, Σ wᵢ ℓᵢ / Σ wᵢ nᵢ, both sums over the whole batch however it is cut; so is that of numbers of shape (B,)

    >>> words = Terms(torch.tensor([6.0, 1.0]), counts=torch.tensor([3.0, 1.0]))      # texts of three words and of one
    >>> words.mean()
    tensor(1.7500)
    """

    losses: Tensor
    numbers: Mapping[str, Tensor] = field(default_factory=dict)
    counts: Tensor | None = None

    def mean(self) -> Tensor:
        """What is minimised, of rows that weigh the same; 0 where nothing counts."""
        if self.counts is None:
            return self.losses.mean()
        return self.losses.sum() / self.counts.sum().clamp(min=1)


def as_terms(found: Any) -> Terms:
    return found if isinstance(found, Terms) else Terms(found)


class Objective:
    """objective(net, batch, rng) → losses of the rows, shape (B,), or their mean, shape (); or `Terms`.

    net : the network, in training mode while it learns and in evaluation mode while it is measured
    batch : a tuple of tensors, what the data holds: (x,), (x, y), …
    rng : a torch.Generator on the device, seeded for this batch; draw from it, or from torch's global one, which is seeded, too

    `refuses_bfloat16`, of an objective or of a network, says why products in eight bits would spoil it; "" if they do not.
    `compares_rows`, of either, says that the loss of a row depends on the other rows of its batch (contrastive losses): then a
    batch cannot be cut, by `accumulate` or among processes, without becoming another loss, and that is refused.
    """

    refuses_bfloat16: str = ""
    compares_rows: bool = False

    def __call__(self, net: nn.Module, batch: Sequence[Tensor], rng: torch.Generator) -> Any:
        raise TypeError(f"{type(self).__name__} has no formula: define __call__.")


class Written(Objective):
    """An objective written as a function."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function

    def __call__(self, net: nn.Module, batch: Sequence[Tensor], rng: torch.Generator) -> Any:
        return self.function(net, batch, rng)


@storable
@dataclass(frozen=True)
class ModuleLoss(Objective):
    """The loss that the network itself has: net.loss(*batch). It draws from torch's own generator."""

    def __call__(self, net: nn.Module, batch: Sequence[Tensor], rng: torch.Generator) -> Any:
        if not callable(getattr(net, "loss", None)):
            raise ValueError(
                f"loss='module' needs a network with a method loss(*batch); {type(net).__name__} has none."
            )
        return net.loss(*batch)  # type: ignore[operator]


def objective(function: Callable[..., Any]) -> Objective:
    """Mark a function of (net, batch, rng) as an objective; any other callable is a loss of (outputs, targets)."""
    return Written(function)


@dataclass(frozen=True)
class Predicting(Objective):
    """The loss of what a network predicts: batches are (x, y)."""

    loss: Callable[[Tensor, Tensor], Any]

    def __call__(self, net: nn.Module, batch: Sequence[Tensor], rng: torch.Generator) -> Any:
        return self.of(net(batch[0]), batch)

    def of(self, outputs: Tensor, batch: Sequence[Tensor]) -> Any:
        """The loss of given outputs; under autocast it is computed in float32."""
        if len(batch) != 2:
            raise ValueError(
                f"the data has {len(batch)} part(s); a loss of outputs and targets needs two: inputs and targets."
            )
        narrow = outputs.dtype in (torch.bfloat16, torch.float16)
        return self.loss(outputs.float() if narrow else outputs, batch[1])

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        """Refuse outputs that do not fit the loss, in the words of the loss."""
        check = getattr(self.loss, "check", None)
        if check is not None:
            check(outputs, targets)


# --- losses of outputs ------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class CrossEntropy:
    """log Σ_k e^{f_k} − f_y, with (1 − ε) y + ε/K instead of y where label_smoothing = ε > 0.

    Outputs (B, K) with labels (B,); or (B, T, K) with labels (B, T), classes last, as of texts; or (B, K, …) with
    labels (B, …), as of images. Several labels per row count each for themselves, those of −100 not at all: `Terms` of sums
    and counts, whose mean is over the labels of a whole batch.
    """

    label_smoothing: float = 0.0

    def __post_init__(self):
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing={self.label_smoothing}; pass a number in [0, 1).")

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor | Terms:
        if outputs.ndim > 2 and targets.shape == outputs.shape[:-1]:
            outputs = outputs.movedim(-1, 1)
        found = F.cross_entropy(
            outputs, targets.long(), reduction="none", label_smoothing=self.label_smoothing
        )
        if found.ndim == 1:
            return found
        return Terms(found.flatten(1).sum(1), counts=(targets != -100).flatten(1).sum(1))

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        fits = outputs.ndim >= 2 and targets.shape in (
            outputs.shape[:1] + outputs.shape[2:],
            outputs.shape[:-1],
        )
        if not fits:
            raise ValueError(
                "cross_entropy needs a number for each class, outputs of shape (rows, classes) for labels of shape (rows,); "
                f"the network gives {tuple(outputs.shape)} for labels of shape {tuple(targets.shape)}."
            )
        if targets.is_floating_point():
            raise ValueError(
                f"cross_entropy needs whole numbers as labels, found {targets.dtype}; for numbers use loss='mse'."
            )

    def check_labels(self, outputs: Tensor, lowest: int, highest: int) -> None:
        classes = outputs.shape[-1 if outputs.ndim > 2 else 1]
        if lowest < -100 or -100 < lowest < 0 or highest >= classes:
            raise ValueError(
                f"labels from {lowest} to {highest} are out of range: the network gives {classes} outputs, so that labels are "
                f"0 to {classes - 1}. Give the network {max(highest, 0) + 1} outputs, or count labels from 0."
            )


@dataclass(frozen=True)
class CrossEntropyOf(CrossEntropy):
    """Cross-entropy of a known number of classes: a network with more outputs could be trained, but not predict."""

    classes: int = 2

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        super().check(outputs, targets)
        if outputs.shape[1] != self.classes:
            given = f"{outputs.shape[1]} output{'s' if outputs.shape[1] != 1 else ''}"
            one = ", or one with loss='bce'" if self.classes == 2 else ""
            raise ValueError(
                f"the network gives {given} for {self.classes} classes; give it {self.classes}{one}."
            )


class _Elementwise:
    """A loss of numbers: outputs and targets of one shape, the mean over all that is not the row."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        targets = targets.to(outputs.dtype).reshape(outputs.shape)
        found = self.each(outputs, targets)
        return found.flatten(1).mean(1) if outputs.ndim > 1 else found

    def each(self, outputs: Tensor, targets: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} has no formula: define each.")

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        # the same numbers, one row each: broadcasting (B, 1) against (B,) would compare every row with every other
        if outputs.shape[0] != targets.shape[0] or outputs.numel() != targets.numel():
            raise ValueError(
                f"{type(self).__name__} compares outputs with targets number by number; the network gives "
                f"{tuple(outputs.shape)} for targets of shape {tuple(targets.shape)}. Give it {targets[0].numel()} output(s)."
            )


@storable
@dataclass(frozen=True)
class SquaredError(_Elementwise):
    """mean (f − y)²."""

    def each(self, outputs, targets):
        return (outputs - targets).square()


@storable
@dataclass(frozen=True)
class AbsoluteError(_Elementwise):
    """mean |f − y|."""

    def each(self, outputs, targets):
        return (outputs - targets).abs()


@storable
@dataclass(frozen=True)
class Huber(_Elementwise):
    """½ r² up to δ, a line beyond: errors larger than δ pull no harder."""

    delta: float = 1.0

    def __post_init__(self):
        if not self.delta > 0:
            raise ValueError(f"delta={self.delta}; pass a number > 0.")

    def each(self, outputs, targets):
        return F.huber_loss(outputs, targets, reduction="none", delta=self.delta)


@storable
@dataclass(frozen=True)
class BinaryCrossEntropy(_Elementwise):
    """log(1 + e^f) − y f of one logit for each yes or no, y in [0, 1]."""

    def each(self, outputs, targets):
        return F.binary_cross_entropy_with_logits(outputs, targets, reduction="none")

    def check(self, outputs, targets):
        super().check(outputs, targets)
        low, high = float(targets.min()), float(targets.max())
        if not 0 <= low <= high <= 1:
            raise ValueError(
                f"bce needs targets from 0 to 1, found {low:g} to {high:g}; for classes use cross_entropy."
            )


LOSSES: dict[str, Callable[[], Callable[[Tensor, Tensor], Any]]] = {
    "cross_entropy": CrossEntropy,
    "bce": BinaryCrossEntropy,
    "mse": SquaredError,
    "l1": AbsoluteError,
    "huber": Huber,
}


def as_objective(loss: Any) -> Objective:
    """An objective from a name, a loss of (outputs, targets), or an objective."""
    if isinstance(loss, Objective):
        return loss
    if loss == "module":
        return ModuleLoss()
    if isinstance(loss, str):
        if loss not in LOSSES:
            known = f"{', '.join(LOSSES)}, and module for the network's own"
            raise ValueError(f"loss={loss!r} is not known; there are {known}.")
        return Predicting(LOSSES[loss]())
    if not callable(loss):
        raise TypeError(
            f"loss is a {type(loss).__name__}; pass a name ({', '.join(LOSSES)}), a function of (outputs, targets), or an "
            "objective of (net, batch, rng)."
        )
    return Predicting(loss)


# --- checks -----------------------------------------------------------------------------------------------------------


class NonFiniteLoss(FloatingPointError, ValueError):
    """A loss that is NaN or infinite; the message says which layer was the first."""


def first_nonfinite(
    net: nn.Module, objective: Objective, batch: Sequence[Tensor], rng: torch.Generator
) -> str:
    """Describe where the first number that is not finite comes from: run the batch again, layer by layer."""
    for at, part in enumerate(batch):
        if part.is_floating_point() and not torch.isfinite(part).all():
            return f"{'the inputs' if at == 0 else 'the targets'} of this batch hold numbers that are not finite"
    for name, weight in net.named_parameters():
        if not torch.isfinite(weight).all():
            return f"the weights {name!r} are not finite since the update before: its gradient was too large"
    found: list[str] = []

    def look(name: str, layer: nn.Module) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            tensors = output if isinstance(output, (tuple, list)) else (output,)
            if not found and any(
                isinstance(t, Tensor) and t.is_floating_point() and not torch.isfinite(t).all()
                for t in tensors
            ):
                found.append(f"the first layer to give one is {name!r} ({type(layer).__name__})")

        return hook

    leaves = [(name, part) for name, part in net.named_modules() if not any(part.children())]
    hooks = [part.register_forward_hook(look(name or "the network", part)) for name, part in leaves]
    try:
        with torch.no_grad():
            objective(net, batch, rng)
    finally:
        for hook in hooks:
            hook.remove()
    itself = "every layer gives finite numbers: it is the loss itself that does not"
    return found[0] if found else itself


def check_outputs(
    net: nn.Module,
    objective: Objective,
    batch: Sequence[Tensor],
    rng: torch.Generator,
    labels: tuple[int, int] | None,
) -> Operations:
    """Run a batch once before training and count its work; ValueError says what does not fit: shapes of inputs, outputs,
    labels, the loss."""
    try:
        with torch.no_grad():
            if isinstance(objective, Predicting):
                _check_predictions(net, objective, batch, labels)
            with Operations() as counted:
                terms = as_terms(objective(net, batch, rng))
    except (RuntimeError, IndexError, TypeError) as error:
        shapes = ", ".join(str(tuple(part.shape)) for part in batch)
        lines = str(error).strip().splitlines()
        raise ValueError(
            f"{type(net).__name__} does not take this data: a batch has shapes {shapes} (rows "
            "first, then what the network was built for; images are (rows, channels, height, width)). torch says: "
            f"{lines[0] if lines else type(error).__name__}."
        ) from error
    check_losses(terms.losses, len(batch[0]))
    if terms.counts is not None:
        check_losses(terms.losses, len(batch[0]), "loss", each=True)
        check_losses(terms.counts, len(batch[0]), "counts", each=True)
    for name, found in terms.numbers.items():
        if name in TAKEN:
            raise ValueError(
                f"the objective calls a number {name!r}, as the trace does; rename it."
            )
        check_losses(found, len(batch[0]), name)
    return counted


def check_losses(losses: Any, rows: int, name: str = "loss", each: bool = False) -> None:
    """ValueError unless there is one number for each row, or, if not `each`, their mean."""
    if not isinstance(losses, Tensor) or losses.shape not in ((rows,), (rows,) if each else ()):
        found = f"a {type(losses).__name__}"
        if isinstance(losses, Tensor):
            found = f"a tensor of shape {tuple(losses.shape)}"
        more = ", where counts are given" if each else ", or their mean, shape ()"
        raise ValueError(
            f"the {name} of {rows} rows is {found}; it has to be one number for each row, shape ({rows},){more}."
        )


def _check_predictions(
    net: nn.Module, objective: Predicting, batch: Sequence[Tensor], labels: Any
) -> None:
    outputs = net(batch[0])
    if len(batch) < 2:
        return
    if not isinstance(outputs, Tensor):
        raise ValueError(
            f"{type(net).__name__} gives a {type(outputs).__name__}; a loss of outputs and "
            "targets needs a tensor (write an objective for anything else)."
        )
    objective.check(outputs, batch[1])
    if labels is not None and isinstance(objective.loss, CrossEntropy):
        objective.loss.check_labels(outputs, *labels)
