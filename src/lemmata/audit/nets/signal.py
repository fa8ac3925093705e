"""Claims about signals in a network: sizes of activations and gradients over depth, and units that never switch on.

    vanishing, exploding   the root mean square of the outputs of layers, and of the gradients that reach them, over depth
    dead                   a ReLU that is 0 on every row has no gradient on any: nothing will switch it on again

With weights of variance 2/fan_in and ReLUs the second moment of activations is the same in every layer (He et al.
2015); with half of that it is 2⁻ᴸ after L layers. Which factor is too much is a rule of thumb: a hundred between the
largest and the smallest layer, of activations or of gradients. That a unit is dead on the given rows is a fact.
"""

from __future__ import annotations

import math
from typing import Any

from lemmata.audit.kernel import claims as k
from lemmata.audit.nets.gradients import Function
from lemmata.audit.nets.modules import Copy, copy_of, count_of, examples_of, forwards, watch

ROWS = 32
FACTOR = 100.0
HALF = 0.5


# --- over depth -------------------------------------------------------------------------------------------------------


def record_outputs(own: Copy) -> tuple[list[tuple[str, Any]], list[Any]]:
    """Hooks on every layer that has a matrix and no layers inside; embeddings, which read no signal, are left out.

    Return the list to which calls append (name, output), and the handles of the hooks.
    """
    import torch

    found: list[tuple[str, Any]] = []
    handles = []

    def hook(name: str) -> Any:
        def keep(layer: Any, inputs: Any, output: Any) -> None:
            floating = inputs and torch.is_tensor(inputs[0]) and inputs[0].is_floating_point()
            if floating and torch.is_tensor(output) and output.is_floating_point():
                if output.requires_grad:
                    output.retain_grad()
                found.append((name, output))

        return keep

    for name, layer in own.module.named_modules():
        matrices = [p for p in layer.parameters(recurse=False) if p.dim() >= 2]
        if not any(True for _ in layer.children()) and matrices:
            try:
                handles.append(layer.register_forward_hook(hook(name)))
            except RuntimeError as error:  # a script of TorchScript
                raise k.CannotTell("its layers cannot be listened to") from error
    return found, handles


def sizes_over_depth(fit: k.Fit) -> tuple[list[str], list[float], list[float]]:
    """Names of layers, root mean squares of their outputs and of the gradients of the loss with respect to them."""
    import torch

    function = Function.in_training(fit, ROWS)
    layers, handles = record_outputs(function.own)
    try:
        with torch.enable_grad():
            value = function.value()
            if value.requires_grad:
                value.backward()
    finally:
        for handle in handles:
            handle.remove()
        function.own.module.zero_grad()
    rms = lambda x: 0.0 if x is None else float(x.detach().double().square().mean().sqrt())  # noqa: E731
    names, outputs = [name for name, _ in layers], [output for _, output in layers]
    return names, [rms(output) for output in outputs], [rms(output.grad) for output in outputs]


@k.rule_of_thumb(
    "signals keep their size over depth: activations and gradients of layers within a factor of 100, none without a gradient",
    "ML Parameter Initialization; He et al. 2015",
    cost=forwards(4, ROWS),
)
def signal_kept(fit: k.Fit) -> k.Evidence:
    """In training mode. The output layer, whose scale is that of the targets, counts for its gradient only."""
    names, forward, backward = sizes_over_depth(fit)
    if len(names) < 2:
        return k.unknown("fewer than two layers with matrices were called")
    worst, where = 1.0, ""
    for what, sizes in (("activations", forward[:-1]), ("gradients", backward)):
        shown = [size for size in sizes if size > 0]
        if not all(math.isfinite(size) for size in sizes):
            advice = f"the {what} are not finite: lower the learning rate, or scale the inputs"
            return k.at_most(math.inf, FACTOR, advice, unit="factor", kind=k.PROVED)
        if len(shown) < len(sizes) and what == "activations":
            name = names[sizes.index(0.0)]
            advice = f"{name!r} gives zeros only: initialise its weights"
            return k.at_most(math.inf, FACTOR, advice, unit="factor")
        if len(shown) > 1 and max(shown) / min(shown) > worst:
            worst = max(shown) / min(shown)
            low, high = (names[sizes.index(pick(shown))] for pick in (min, max))
            where = f"{what} of {low!r} are {worst:.3g} times smaller than those of {high!r}"
    silent = layers_without_gradient(fit.module_, names, backward)
    if not silent and not any(backward):
        return k.unknown("no layer has weights to train")
    if silent:
        zero = [name for name in names if is_still_zero(fit.module_.get_submodule(name))]
        which = ", ".join(map(repr, silent[:3])) + (" …" if len(silent) > 3 else "")
        note = f"{len(silent)} of {len(set(names))} layers get no gradient: {which}"
        if zero and max(backward) > 0 and worst <= FACTOR:
            return k.unknown(f"{note}; the weights of {zero[0]!r} are still zero, and pass none on")
        advice = f"{which} cannot learn: a unit before the loss is dead, detached or saturated on every row"
        return k.at_most(math.inf, FACTOR, advice, unit="factor", note=note)
    advice = "initialise for the activation (He for ReLU), normalise, or add skip connections"
    return k.at_most(worst, FACTOR, advice, unit="factor", note=where)


def layers_without_gradient(module: Any, names: list[str], backward: list[float]) -> list[str]:
    """The layers with weights to be trained of which no call passes a gradient back."""
    most: dict[str, float] = {}
    for name, size in zip(names, backward, strict=True):
        most[name] = max(size, most.get(name, 0.0))
    trained = lambda name: any(p.requires_grad for p in module.get_submodule(name).parameters())  # noqa: E731
    return [name for name, size in most.items() if size == 0 and trained(name)]


def is_still_zero(layer: Any) -> bool:
    """Whether a matrix of the layer is 0, as some are before training."""
    return any(p.dim() >= 2 and not bool(p.detach().any()) for p in layer.parameters())


# --- dead units -------------------------------------------------------------------------------------------------------


def units_above_zero(own: Copy, examples: Any) -> list[Any]:
    """Return, for every ReLU in the order of calls, which of its units are above 0 on some row.

    Units are channels of convolutions, and the last axis otherwise.
    """
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


@k.proved(
    "in no layer are more than half of the ReLU units zero on all of these rows",
    "CIL (4.24)",
    cost=forwards(1),
)
def units_alive(fit: k.Fit) -> k.Evidence:
    """In evaluation mode, in float64, on every row; ends early once every unit has been above zero."""
    own, examples = copy_of(fit), examples_of(fit)
    alive: list[Any] | None = None
    for batch in examples.batches():
        found = units_above_zero(own, batch)
        if alive is not None and [len(one) for one in found] != [len(one) for one in alive]:
            return k.unknown("the units differ from batch to batch")
        alive = found if alive is None else [a | b for a, b in zip(alive, found, strict=True)]
        if all(bool(one.all()) for one in alive):
            break
    if not alive:
        return k.unknown("the module calls no ReLU")
    dead = [1 - float(one.double().mean()) for one in alive]
    worst = max(range(len(dead)), key=lambda at: dead[at])
    count, units = sum(int((~one).sum()) for one in alive), sum(len(one) for one in alive)
    rows = count_of(examples.shape[0], "row")
    note = f"{count:,} of {units:,} units, {count_of(len(alive), 'ReLU')}, {rows}"
    advice = f"the ReLU number {worst + 1} is dead: lower the learning rate, check the scale of the inputs, or use GELU"
    return k.at_most(dead[worst], HALF, advice, unit="share dead", note=note)
