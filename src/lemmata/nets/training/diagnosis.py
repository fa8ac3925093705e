"""What is wrong with a network: which layer was the first to give a number that is not finite, and what does not fit
its loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lemmata.nets.training.losses import CrossEntropy, Objective, Predicting


class NotFinite(FloatingPointError, ValueError):
    """A loss that is NaN or infinite; the message says which layer was the first."""


def first_nonfinite(
    net: nn.Module, objective: Objective, batch: Sequence[Tensor], rng: torch.Generator
) -> str:
    """Where the first number that is not finite comes from, in words: the batch is run again, layer by layer."""
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
    return (
        found[0]
        if found
        else "every layer gives finite numbers: it is the loss itself that does not"
    )


def check_outputs(
    net: nn.Module,
    objective: Objective,
    batch: Sequence[Tensor],
    rng: torch.Generator,
    labels: tuple[int, int] | None,
) -> None:
    """Run a batch once, before anything is trained, and say what does not fit: shapes of inputs, outputs, labels, the loss."""
    try:
        with torch.no_grad():
            if isinstance(objective, Predicting):
                _check_predictions(net, objective, batch, labels)
            losses = objective(net, batch, rng)
    except (RuntimeError, IndexError, TypeError) as error:
        shapes = ", ".join(str(tuple(part.shape)) for part in batch)
        lines = str(error).strip().splitlines()
        raise ValueError(
            f"{type(net).__name__} does not take this data: a batch has shapes {shapes} (rows "
            "first, then what the network was built "
            "for; images are (rows, channels, height, width)). torch says: "
            f"{lines[0] if lines else type(error).__name__}."
        ) from error
    check_losses(losses, len(batch[0]))


def check_losses(losses: Any, rows: int) -> None:
    if not isinstance(losses, Tensor) or losses.shape not in ((), (rows,)):
        found = (
            f"a tensor of shape {tuple(losses.shape)}"
            if isinstance(losses, Tensor)
            else f"a {type(losses).__name__}"
        )
        raise ValueError(
            f"the loss of {rows} rows is {found}; it has to be one number for each row, shape "
            f"({rows},), or their mean, shape ()."
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
