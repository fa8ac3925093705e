"""Properties that a network is asked to have, where to look for them, and other content to look with.

A property is checked where it was asked for (`certify(module, X, properties=("causal",))`), where the module declares it
(`declares = ("causal",)`, or a mapping that says where), or where forward is called with `causal=True`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lemmata.audit.kernel.claims import Fit
from lemmata.audit.nets.modules import Examples, difference

SAME = 1e-10  # of the largest output: what rounding in float64 may change


@dataclass(frozen=True)
class Asked:
    """Where a property is to be looked at: which argument of forward, which of its axes, which argument is the mask."""

    argument: int | str | None = None  # None: the first tensor
    axis: int | None = None
    mask: str = ""


PROPERTIES = ("causal", "padding", "shift_equivariant", "permutation_equivariant")
MASKS = (
    "key_padding_mask",
    "src_key_padding_mask",
    "tgt_key_padding_mask",
    "padding",
    "attention_mask",
)


def asked_of(properties: Any) -> dict[str, Asked]:
    """Properties from a name, names, or a mapping of names to where to look; ValueError for others."""
    if properties is None:
        return {}
    if isinstance(properties, str):
        properties = (properties,)
    found = {}
    for name in properties:
        if name not in PROPERTIES:
            raise ValueError(f"properties name {name!r}; there are {', '.join(PROPERTIES)}.")
        where: Any = properties[name] if hasattr(properties, "keys") else {}
        if isinstance(where, int) and not isinstance(where, bool):
            where = {"axis": where}
        elif isinstance(where, str):
            where = {"mask" if name == "padding" else "argument": where}
        strange = set(where or {}) - {"argument", "axis", "mask"}
        if strange:
            raise ValueError(
                f"properties[{name!r}] names {sorted(strange)[0]!r}; pass argument=, axis= or mask=."
            )
        found[name] = Asked(**(where or {}))
    return found


def wanted(fit: Fit) -> dict[str, Asked]:
    """What was asked for, and what the module and the call declare."""
    found = asked_of(getattr(fit.module_, "declares", None))
    data = fit.data if fit.has_data else None
    if isinstance(data, Examples) and any(
        data.named.get(name) is True for name in ("causal", "is_causal")
    ):
        found.setdefault("causal", Asked())
    return {**found, **asked_of(fit.get("properties"))}


def place_of(asked: Asked, examples: Examples, axis: int) -> tuple[int | str, int]:
    """The argument and the axis that were asked for, or the first tensor and this axis."""
    key = examples.key if asked.argument is None else asked.argument
    axis = axis if asked.axis is None else asked.axis
    try:
        tensor = examples[key]
    except (KeyError, IndexError):
        raise ValueError(f"forward is not called with an argument {key!r}.") from None
    if not -tensor.dim() <= axis < tensor.dim():
        raise ValueError(f"{key!r} has shape {tuple(tensor.shape)}, hence no axis {axis}.")
    return key, axis % tensor.dim()


# --- other content ----------------------------------------------------------------------------------------------------


def other_content(tensor: Any, seed: int) -> Any:
    """Content of the same kind that differs everywhere: shuffled numbers with noise, or other tokens of those that occur."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    if tensor.is_floating_point():
        double = tensor.double()
        shuffled = double.flatten()[torch.randperm(double.numel(), generator=generator)]
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        scale = double.square().mean().sqrt().clamp(min=1e-3)
        return shuffled.reshape(tensor.shape) + (1 + 3 * (seed % 2)) * scale * noise
    if tensor.dtype == torch.bool:
        return ~tensor
    tokens = torch.unique(tensor)
    if len(tokens) < 2:
        raise Blind(f"every token is {int(tokens[0])}: pass rows with at least two different ones")  # fmt: skip
    places = torch.searchsorted(tokens, tensor)
    step = torch.randint(1, len(tokens), tensor.shape, generator=generator)
    return tokens[(places + step) % len(tokens)]


class Blind(Exception):
    """These rows, or this module, could not show a violation. The text says why."""


def pieces(tensor: Any, axis: int, at: slice) -> tuple[Any, ...]:
    index = [slice(None)] * tensor.dim()
    index[axis] = at
    return tuple(index)


def with_changed(tensor: Any, other: Any, axis: int, at: slice) -> Any:
    changed = tensor.clone().to(other.dtype)
    where = pieces(tensor, axis, at)
    changed[where] = other[where]
    return changed


def difference_from(a: Any, b: Any, whole: Any) -> float:
    """The largest |a − b| over the largest output of all."""
    found = difference(a, b)
    if not 0 < found < math.inf:
        return found
    finite = whole[whole.isfinite()].abs().max()
    return found * float(a[a.isfinite()].abs().max() / finite)
