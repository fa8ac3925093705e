"""Claims about weights that are used twice, and about weights whose scale does not matter.

shared       f(θ, θ) has the gradient ∂₁f + ∂₂f: a weight that is used k times gets the sum of k gradients
batch norm   (cz − mean(cz))/std(cz) = (z − mean z)/std z: in training mode, scaling the weights before it changes nothing
             (except for ε, which is added to the variance against division by zero)
"""

from __future__ import annotations

from typing import Any

from lemmata.audit.kernel import claims as k
from lemmata.audit.nets import modules
from lemmata.audit.nets.gradients import Function
from lemmata.audit.nets.modules import Copy, Examples, copy_of, count_of, examples_of, forwards

ROWS = 8
SUMS = 1e-10  # of the gradient: rounding in float64, added in another order
SCALE_FREE = 1e-3  # of the output: what ε may leave
FACTORS = (0.5, 2.0)


# --- shared weights ---------------------------------------------------------------------------------------------------


def gradients_of_uses(function: Function) -> dict[str, list[Any]]:
    """Return ∂f/∂(each use) of every parameter; uses without a gradient (only a shape was read) are left out.

    Every use gets a copy of the parameter of its own, and the copy has a gradient of its own.
    """
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._pytree import tree_map

    names = {id(p): n for n, p in function.tensors.items() if isinstance(p, torch.nn.Parameter)}
    copies: dict[str, list[Any]] = {name: [] for name in names.values()}

    def own(value: Any) -> Any:
        name = names.get(id(value)) if isinstance(value, torch.nn.Parameter) else None
        if name is None:
            return value
        copies[name].append(value.detach().clone().requires_grad_())
        return copies[name][-1]

    class Apart(TorchFunctionMode):
        def __torch_function__(self, called, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                return called(*tree_map(own, args), **tree_map(own, kwargs or {}))

    with torch.enable_grad(), Apart():
        value = function.value()
    leaves = [(name, leaf) for name, uses in copies.items() for leaf in uses]
    if not leaves or not value.requires_grad:
        return {}
    found = torch.autograd.grad(value, [leaf for _, leaf in leaves], allow_unused=True)
    result: dict[str, list[Any]] = {}
    for (name, _), gradient in zip(leaves, found, strict=True):
        if gradient is not None:
            result.setdefault(name, []).append(gradient)
    return result


@k.proved(
    "the gradient of every shared weight is the sum of the gradients of its uses",
    "ML Convolutional Networks",
    cost=forwards(6, ROWS),
)
def shared_gradients_add(fit: k.Fit) -> k.Evidence:
    """In training mode, with one draw of its noise; each use gets a copy of the weight, and its own gradient."""
    function = Function.in_training(fit, ROWS)
    whole = function.gradients()
    try:
        parts = gradients_of_uses(function)
    except k.CannotTell:
        why = "the uses of its weights cannot be told apart: it does not run on copies of them"
        return k.unknown(why)
    shared = {name: uses for name, uses in parts.items() if len(uses) > 1}
    if not shared:
        return k.unknown("no weight is used more than once")
    worst, where = 0.0, ""
    for name, uses in shared.items():
        total, size = sum(uses), max(float(one.norm()) for one in uses)
        off = float((total - whole[name]).norm()) / size if size > 0 else 0.0
        if not off <= worst:
            worst, where = off, name
    most = max(len(uses) for uses in shared.values())
    note = f"{count_of(len(shared), 'weight')}, used up to {most} times"
    look = "look for hooks, or a backward that forgets a use"
    advice = f"the gradient of {where} is not that sum: {look}"
    return k.at_most(worst, SUMS, advice, unit="mismatch", note=note)


def uses_weights_twice(fit: k.Fit) -> bool:
    """Whether some parameter is used more than once in a call; False where that cannot be determined."""
    try:
        function = Function(fit, copy_of(fit), examples_of(fit, 2), training=False)
        return any(len(uses) > 1 for uses in gradients_of_uses(function).values())
    except Exception:
        return False


# --- batch norm -------------------------------------------------------------------------------------------------------


def batch_norms(module: Any) -> list[tuple[str, Any]]:
    """Batch norms of PyTorch, and other layers whose class is called BatchNorm…."""
    from torch.nn.modules.batchnorm import _BatchNorm

    return [
        (name, layer)
        for name, layer in module.named_modules()
        if isinstance(layer, _BatchNorm) or type(layer).__name__.startswith("BatchNorm")
    ]


def layers_before(own: Copy, examples: Examples) -> dict[str, Any]:
    """The layer whose output is the input of each batch norm, by the name of the batch norm."""
    import torch

    outputs, found, handles = {}, {}, []

    def remember(layer: Any) -> Any:
        def hook(_: Any, inputs: Any, output: Any) -> None:
            if torch.is_tensor(output):
                outputs[id(output)] = (layer, output)  # kept alive, so that no id is used twice

        return hook

    def ask(name: str) -> Any:
        def hook(_: Any, inputs: Any) -> None:
            if inputs and id(inputs[0]) in outputs:
                found[name] = outputs[id(inputs[0])][0]

        return hook

    for _, layer in own.module.named_modules():
        if getattr(layer, "weight", None) is not None and layer.weight.dim() >= 2:
            handles.append(layer.register_forward_hook(remember(layer)))
    for name, layer in batch_norms(own.module):
        handles.append(layer.register_forward_pre_hook(ask(name)))
    try:
        own.output(examples, training=True)
    finally:
        for handle in handles:
            handle.remove()
    return found


@k.rule_of_thumb(
    "multiplying the weights before a batch norm by ½ or 2 leaves outputs in training mode as they are, to 0.1 %",
    "ML Batch Normalization",
    cost=forwards(lambda fit: 2.0 * len(batch_norms(fit.module_)) + 2, ROWS),
)
def scale_invariant(fit: k.Fit) -> k.Evidence:
    """For every batch norm that follows a layer with weights directly: its weight and bias times ½ and 2."""
    import torch

    own, examples = copy_of(fit), examples_of(fit, ROWS)
    own.require_repeatable(examples, True)
    pairs = layers_before(own, examples)
    base = own.output(examples, training=True)
    worst, where = 0.0, ""
    try:
        for name, layer in pairs.items():
            for factor in FACTORS:
                with torch.no_grad():
                    for tensor in layer.parameters(recurse=False):
                        tensor.mul_(factor)
                moved = modules.difference(base, own.output(examples, training=True))
                own.reset()
                if moved > worst:
                    worst, where = moved, name
    finally:
        own.reset()
    if not pairs:
        return k.unknown("no batch norm follows a layer with weights directly")
    note = count_of(len(pairs), "batch norm")
    small = f"before {where!r} the variance is not large against eps"
    advice = f"{small}, or it does not normalise in training: larger weights, or a smaller eps"
    return k.at_most(worst, SCALE_FREE, advice, unit="change", note=note)


SHARING_CLAIMS = (scale_invariant, shared_gradients_add)
