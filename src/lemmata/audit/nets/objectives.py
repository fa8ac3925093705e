"""What a network's gradients are taken of: a loss by name, a loss that was passed, or a random weighting of all outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lemmata.audit.kernel.claims import Fit
from lemmata.audit.nets.modules import Copy, Examples, flat, spaced

LOSSES = ("cross_entropy", "bce", "mse", "l1", "huber")


def loss_by_name(name: str) -> Callable[[Any, Any], Any]:
    """A mean over rows of what predictions cost. Classes stand last: (B, c) and y (B,), or (B, T, c) and y (B, T)."""
    import torch.nn.functional as F

    def cross_entropy(output: Any, y: Any) -> Any:
        return F.cross_entropy(output.reshape(-1, output.shape[-1]), y.reshape(-1).long())

    compare: dict[str, Any] = {
        "bce": F.binary_cross_entropy_with_logits,
        "mse": F.mse_loss,
        "l1": F.l1_loss,
        "huber": F.huber_loss,
    }
    if name == "cross_entropy":
        return cross_entropy
    return lambda output, y: compare[name](output, y.to(output.dtype).reshape(output.shape))


def objective_of(fit: Fit, own: Copy, examples: Examples, training: bool) -> Callable[[Any], Any]:
    """A function of what the module returns: a number whose gradients are looked at."""
    import torch

    loss = fit.get("objective")  # validated by `certify(module, …)`
    if loss is not None:
        n = fit.data.shape[0]
        y = torch.as_tensor(np.asarray(fit.y))[spaced(n, examples.shape[0])]
        y = y.double() if y.is_floating_point() else y
        if callable(loss):
            return lambda returned: loss(returned, y)
        by_name = loss_by_name(loss)
        return lambda returned: by_name(flat(returned)[0], y)
    with torch.no_grad():
        shapes = [tensor.shape for tensor in own.outputs(examples, training)]
    generator = torch.Generator().manual_seed(2)
    weights = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    count = sum(w.numel() for w in weights)

    def weighted(returned: Any) -> Any:
        parts = [(w * tensor).sum() for w, tensor in zip(weights, flat(returned), strict=True)]
        return torch.stack(parts).sum() / count**0.5

    return weighted
