"""Whether signals pass through a network: sizes of activations and gradients over depth, and units that never switch on.

    vanishing, exploding   the root mean square of what layers give, and of the gradients that reach them, over depth
    dead                   a ReLU that is 0 on every row has no gradient on any: nothing will switch it on again

With weights of variance 2/fan_in and ReLUs the second moment of activations is the same in every layer (He et al.
2015); with half of that it is 2⁻ᴸ after L layers. Which factor is too much is a rule of thumb: a hundred between the
largest and the smallest layer, of activations or of gradients. That a unit is dead on the given rows is a fact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from lemmata.audit.kernel.claims import (
    PROVED,
    RULE_OF_THUMB,
    Evidence,
    Fit,
    at_most,
    claim,
    unknown,
)
from lemmata.audit.nets.costs import all_rows, forwards, watch
from lemmata.audit.nets.gradients import Function
from lemmata.audit.nets.modules import (
    CannotRun,
    Copy,
    copy_of,
    counted,
    examples_of,
    undecided_where_it_cannot_run,
)
from lemmata.audit.nets.objectives import objective_of

ROWS = 32
FACTOR = 100.0
HALF = 0.5
BATCH = 256


# --- over depth -------------------------------------------------------------------------------------------------------


@dataclass
class Layers:
    """What the layers with matrices gave, in the order in which they were called."""

    names: list[str] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)


def listen(own: Copy) -> tuple[Layers, list[Any]]:
    """Hooks on every layer that has a matrix and no layers inside; embeddings, which read no signal, are left out."""
    import torch

    found, handles = Layers(), []

    def hook(name: str) -> Any:
        def keep(layer: Any, inputs: Any, output: Any) -> None:
            floating = inputs and torch.is_tensor(inputs[0]) and inputs[0].is_floating_point()
            if floating and torch.is_tensor(output) and output.is_floating_point():
                if output.requires_grad:
                    output.retain_grad()
                found.names.append(name)
                found.outputs.append(output)

        return keep

    for name, layer in own.module.named_modules():
        matrices = [p for p in layer.parameters(recurse=False) if p.dim() >= 2]
        if not any(True for _ in layer.children()) and matrices:
            try:
                handles.append(layer.register_forward_hook(hook(name)))
            except RuntimeError as error:  # a script of TorchScript
                raise CannotRun("its layers cannot be listened to") from error
    return found, handles


def sizes_over_depth(fit: Fit) -> tuple[list[str], list[float], list[float]]:
    """Names of layers, root mean squares of their outputs and of the gradients of the loss with respect to them."""
    import torch

    own, examples = copy_of(fit), examples_of(fit, ROWS)
    training = own.runs_in_training(examples)
    own.require_repeatable(examples, training)
    function = Function(own, examples, objective_of(fit, own, examples, training), training)
    layers, handles = listen(own)
    try:
        with torch.enable_grad():
            value = function.value()
            if value.requires_grad:
                value.backward()
    finally:
        for handle in handles:
            handle.remove()
        own.module.zero_grad()
    rms = lambda x: 0.0 if x is None else float(x.detach().double().square().mean().sqrt())  # noqa: E731
    forward = [rms(output) for output in layers.outputs]
    return layers.names, forward, [rms(output.grad) for output in layers.outputs]


@claim(
    "signals keep their size over depth: activations and gradients of layers within a factor of 100",
    kind=RULE_OF_THUMB,
    source="ML Parameter Initialization; He et al. 2015",
    cost=forwards(4, ROWS),
)
@undecided_where_it_cannot_run
def signal_kept(fit: Fit) -> Evidence:
    """In training mode. The output layer, whose scale is that of the targets, counts for its gradient only."""
    names, forward, backward = sizes_over_depth(fit)
    if len(names) < 2:
        return unknown("fewer than two layers with matrices were called")
    worst, where = 1.0, ""
    for what, sizes in (("activations", forward[:-1]), ("gradients", backward)):
        shown = [size for size in sizes if size > 0]
        if not all(math.isfinite(size) for size in sizes):
            advice = f"the {what} are not finite: lower the learning rate, or scale the inputs"
            return at_most(math.inf, FACTOR, advice, unit="factor", kind=PROVED)
        if len(shown) < len(sizes) and what == "activations":
            name = names[sizes.index(0.0)]
            advice = f"{name!r} gives zeros only: initialise its weights"
            return at_most(math.inf, FACTOR, advice, unit="factor")
        if len(shown) > 1 and max(shown) / min(shown) > worst:
            worst = max(shown) / min(shown)
            low, high = (names[sizes.index(pick(shown))] for pick in (min, max))
            where = f"{what} of {low!r} are {worst:.3g} times smaller than those of {high!r}"
    silent = sum(size == 0 for size in backward)
    note = where + (f"; {silent} of {len(names)} layers get no gradient" if silent else "")
    if silent == len(names):
        advice = "no layer gets a gradient: the loss does not depend on them"
        return at_most(math.inf, FACTOR, advice, unit="factor")
    advice = "initialise for the activation (He for ReLU), normalise, or add skip connections"
    return at_most(worst, FACTOR, advice, unit="factor", note=note)


# --- dead units -------------------------------------------------------------------------------------------------------


def switched_on(own: Copy, examples: Any) -> list[Any]:
    """For every ReLU in the order of its calls: which of its units are above 0 on some row. Units are channels of
    convolutions, and the last axis otherwise."""
    import torch
    import torch.nn.functional as F

    rectifiers = {torch.relu, torch.relu_, F.relu, F.relu_, torch.Tensor.relu, torch.Tensor.relu_}
    convolutions = {
        getattr(home, f"conv{transposed}{d}d")
        for home in (torch, F)
        for transposed in ("", "_transpose")
        for d in (1, 2, 3)
    }

    alive: list[Any] = []
    convolved = False

    def look(function: Any, given: Any, result: Any) -> None:
        nonlocal convolved
        if function in convolutions or function is F.linear:
            convolved = function in convolutions
        if function in rectifiers and result.dim() > 1:
            axis = 1 if convolved and result.dim() > 2 else result.dim() - 1
            alive.append((result.detach() > 0).movedim(axis, 0).flatten(1).any(dim=1))

    with torch.enable_grad():  # the fused kernels of evaluation mode show no activations
        watch(lambda: own.call(examples), look)
    return alive


@claim(
    "in no layer are more than half of the ReLU units zero on all of these rows",
    kind=PROVED,
    source="CIL (4.24)",
    cost=forwards(1, all_rows),
)
@undecided_where_it_cannot_run
def units_alive(fit: Fit) -> Evidence:
    """In evaluation mode, in float64, on every row; ends early where every unit has been seen above zero."""
    import torch

    own, examples = copy_of(fit), examples_of(fit)
    alive: list[Any] = []
    n = examples.shape[0]
    for start in range(0, n, BATCH):
        found = switched_on(own, examples.rows(torch.arange(start, min(start + BATCH, n))))
        if start and [len(one) for one in found] != [len(one) for one in alive]:
            return unknown("the units differ from batch to batch")
        alive = [a | b for a, b in zip(alive, found, strict=True)] if alive else found
        if all(bool(one.all()) for one in alive):
            break
    if not alive:
        return unknown("the module calls no ReLU")
    dead = [1 - float(one.double().mean()) for one in alive]
    worst = max(range(len(dead)), key=lambda at: dead[at])
    count, units = sum(int((~one).sum()) for one in alive), sum(len(one) for one in alive)
    note = f"{count:,} of {units:,} units, {counted(len(alive), 'ReLU')}, {counted(n, 'row')}"
    advice = f"the ReLU number {worst + 1} is dead: lower the learning rate, check the scale of the inputs, or use GELU"
    return at_most(dead[worst], HALF, advice, unit="share dead", note=note)
