"""The two claims that begin the certificate of a module that nobody fitted through us: finite numbers, and no statements.

A module of PyTorch is its tensors: parameters, which are learned, and buffers, which are kept (running means of batch norms).
About data it states nothing: losses are stated by the estimators that train it (stated.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from lemmata.audit.kernel.attributes import attributes_sound, statements_true
from lemmata.audit.kernel.claims import Fit


def unsound_tensors(fit: Fit) -> Iterator[str]:
    """Parameters and buffers with numbers that are not finite, by name."""
    import torch

    module = fit.module_
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_floating_point() or tensor.is_complex():
            wrong = int((~torch.isfinite(tensor)).sum())
            # a mask of −∞ is meant: a buffer without NaN that is all 0 and −∞
            if wrong and not _is_mask(tensor):
                yield f"{name} has {wrong:,} numbers that are not finite"


def _is_mask(tensor) -> bool:
    if tensor.requires_grad or tensor.is_complex():
        return False
    return bool(((tensor == 0) | (tensor == -float("inf"))).all())


MODULE_STATED_CLAIMS = (
    attributes_sound({}, unsound_tensors),
    statements_true(lambda fit: {}, cost=lambda fit: 0.0),
)
