"""What running a network costs, and whether it keeps its digits: every call of a tensor function is looked at once.

A linear map of P outputs with n weights each takes P·n multiplications, a convolution likewise, a matrix product as many as its
result has numbers times what is summed. Inside of BLAS, ten of them take as long as one in a plain pass over the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lemmata.audit.kernel.claims import Fit, fact, free
from lemmata.audit.nets.modules import Copy, Examples, copy_of, examples_of

BLAS = 0.1  # a multiplication inside of a matrix product, in units of one in a plain pass
CALL = 2e4  # what calling a layer costs besides its products: some twenty microseconds


def watch(run: Callable[[], Any], look: Callable[[Any, Any, Any], None]) -> None:
    """Run something, and show every function of tensors that it calls: look(function, arguments, result)."""
    from torch.overrides import TorchFunctionMode

    class Watch(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            look(function, (*args, *(kwargs or {}).values()), result)
            return result

    with Watch():
        run()


def _tensors(values: Any) -> list[Any]:
    import torch

    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, list | tuple):
        return [tensor for value in values for tensor in _tensors(value)]
    return []


def narrows(own: Copy, examples: Examples, training: bool) -> bool:
    """Whether numbers of double precision are rounded to fewer digits on the way."""
    import torch

    found = []

    def look(function: Any, given: Any, result: Any) -> None:
        wide = any(x.dtype == torch.float64 for x in _tensors(given))
        fewer = [x for x in _tensors(result) if x.is_floating_point() and x.dtype != torch.float64]
        found.append(wide and bool(fewer))

    watch(lambda: own.output(examples, training), look)
    return any(found)


def products_of(own: Copy, examples: Examples) -> float:
    """Multiplications of a call, as its matrix products and convolutions need them."""
    import torch
    import torch.nn.functional as F

    matrix = {torch.matmul, torch.mm, torch.bmm, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.bmm}  # fmt: skip
    total = 0.0

    def look(function: Any, given: Any, result: Any) -> None:
        nonlocal total
        tensors, size = _tensors(given), sum(x.numel() for x in _tensors(result))
        if function in matrix:
            total += size * tensors[0].shape[-1]
        elif function is F.scaled_dot_product_attention:
            total += 2.0 * tensors[0].numel() * tensors[1].shape[-2]
        elif function is F.multi_head_attention_forward:
            weights = sum(x.numel() for x in tensors if isinstance(x, torch.nn.Parameter))
            query, key = tensors[:2]  # (T, B, d)
            total += query.numel() / query.shape[-1] * weights + 2.0 * query.numel() * key.shape[0]
        elif function is not F.embedding:
            maps = [x for x in tensors if isinstance(x, torch.nn.Parameter) and x.dim() >= 2]
            total += sum(size * math.prod(one.shape[1:]) for one in maps[:1])

    watch(lambda: own.output(examples), look)
    for layer in own.module.modules():
        if isinstance(layer, torch.nn.RNNBase):  # one call, and a step for every position
            weights = sum(parameter.numel() for parameter in layer.parameters())
            first = examples.first
            total += weights * math.prod(first.shape[:2] if first.dim() > 1 else first.shape)
    return total


@fact(cost=free)
def row_and_call_cost(fit: Fit) -> tuple[float, float]:
    """Return what one row costs forward, its products; and what a call costs besides, its layers."""
    rows, own = examples_of(fit, 2), copy_of(fit)
    products = products_of(own, rows) / rows.shape[0]
    weights = sum(parameter.numel() for parameter in own.parameters.values())
    return BLAS * max(products, weights), CALL * sum(1 for _ in own.module.modules())


def row_cost(fit: Fit) -> float:
    return row_and_call_cost(fit)[0]


def forwards(
    calls: Callable[[Fit], float] | float, rows: Callable[[Fit], float] | float
) -> Callable[[Fit], float]:
    """The cost of so many calls of the module on so many rows each."""

    def cost(fit: Fit) -> float:
        times = calls(fit) if callable(calls) else calls
        many = rows(fit) if callable(rows) else rows
        row, call = row_and_call_cost(fit)
        return times * (many * row + call)

    return cost


def all_rows(fit: Fit) -> float:
    return float(fit.data.shape[0])
