"""Receptive fields: the inputs that one output of a stack of convolutions and poolings sees (ML "Convolutional Networks").

    r = 1 + Σ_l (k_l − 1) d_l Π_{i<l} s_i         kernels k, strides s, dilations d

A layer adds (k − 1)·d of its own steps, and one of its steps is the product of the strides before it. The formula says what an
output may depend on; gradients show what it does depend on.

    >>> receptive_field([(3, 1), (3, 1), (2, 2), (3, 1)])
    (ReceptiveField(size=10, stride=2, first=0),)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class ReceptiveField:
    """The receptive field along an axis: output u sees the inputs from u·stride + first, `size` of them."""

    size: int = 1
    stride: int = 1
    first: int = 0

    def then(
        self, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1
    ) -> ReceptiveField:
        """The field after one more layer: r + (k − 1)·d·j, where j, the product of the strides so far, is one of its steps."""
        return ReceptiveField(
            self.size + (kernel - 1) * dilation * self.stride,
            self.stride * stride,
            self.first - padding * self.stride,
        )


def receptive_field(stack: Any) -> tuple[ReceptiveField, ...]:
    """The receptive field of a stack of layers along each axis, r = 1 + Σ_l (k_l − 1) d_l Π_{i<l} s_i.

    stack : layers as (kernel, stride, padding, dilation) or dicts of these, or a `Sequential` of convolutions and poolings
    """
    if hasattr(stack, "children"):
        each_layer = list(_window_layers(stack))
        axes = max((len(one["kernel"]) for one in each_layer), default=0)
        fields = [ReceptiveField()] * axes
        for one in each_layer:
            fields = [
                field.then(*(one[key][axis] for key in ("kernel", "stride", "padding", "dilation")))
                for axis, field in enumerate(fields)
            ]
        return tuple(fields)
    field = ReceptiveField()
    for sizes in stack:
        field = field.then(**sizes) if isinstance(sizes, dict) else field.then(*sizes)
    return (field,)


def _window_layers(module: Any) -> Iterator[dict[str, tuple[int, ...]]]:
    """Kernel, stride, padding and dilation of the layers of a stack with windows, in order."""
    kind = type(module).__name__
    if kind == "Sequential":
        for part in module:
            yield from _window_layers(part)
    elif kind in ("Flatten", "Linear") or "Adaptive" in kind:
        raise ValueError(f"{module} sees everything; pass the layers before it.")
    elif any(True for _ in module.children()) or "Transpose" in kind:
        raise ValueError(
            f"the receptive field of {kind} does not follow from its layers in order; measure it, or pass a Sequential of "
            "convolutions and poolings."
        )
    elif hasattr(module, "kernel_size"):
        if isinstance(module.padding, str):
            raise ValueError(
                f"padding={module.padding!r} of {kind}; pass layers with a number there."
            )
        axes = int(kind[-2])  # Conv2d, MaxPool1d, …
        sizes = {
            "kernel": module.kernel_size,
            "stride": module.stride,
            "padding": module.padding,
            "dilation": getattr(module, "dilation", 1),
        }
        yield {
            key: (size,) * axes if isinstance(size, int) else tuple(size)
            for key, size in sizes.items()
        }


def measure_receptive_field(
    module: Any,
    shape: Sequence[int],
    at: Sequence[int] | None = None,
    n_inputs: int = 32,
    seed: int = 0,
) -> Array:
    """Which inputs move an output: a mask over the grid, where |∂z[u]/∂x| > 0 for any channel and any of the random inputs.

    at : u, a place of the output's grid; its middle, if not given

    Maxima and ReLUs hide inputs from single gradients, so several random inputs are tried; what none of them shows is not in
    the mask.
    """
    import copy

    import torch

    twin = copy.deepcopy(module).double().eval()
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.standard_normal((n_inputs, *shape))).requires_grad_()
    z = twin(x)
    u = [n // 2 for n in z.shape[2:]] if at is None else list(at)
    # no channels that cancel each other
    weights = torch.from_numpy(rng.standard_normal(z.shape[1]))
    (slope,) = torch.autograd.grad((z[(slice(None), slice(None), *u)] * weights).sum(), x)
    return (slope.abs() > 0).any(dim=0).any(dim=0).numpy()
