"""Other content for the inputs of a network, and the verdict on what it changes in the outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lemmata.audit.kernel import claims as k
from lemmata.audit.nets.modules import Copy, Examples, difference, watch

SAME = 1e-10  # of the largest output: what rounding in float64 may change


@dataclass(frozen=True)
class PropertyRequest:
    """Where a property should hold: which argument of forward, which of its axes, which argument is the mask.

    Of images: the scanning order ("raster", "columns", a permutation), and the window, rows up and columns to each side.
    """

    argument: int | str | None = None  # None: the first tensor
    axis: int | None = None
    mask: str = ""
    order: Any = None
    window: tuple[int, int] | None = None
    # of a cache: a function of (module, tokens, past); of batches, (module, tokens, real); of views, (batch, generator)
    step: Any = None
    sides: tuple[str, ...] = ()  # on which prompts are padded; both without
    baseline: Any = None  # of views: a module to compare with

    def find(self, examples: Examples, axis: int) -> tuple[int | str, int]:
        """The argument and the axis that were requested, by default the first tensor and this axis."""
        key = examples.key if self.argument is None else self.argument
        axis = axis if self.axis is None else self.axis
        try:
            tensor = examples[key]
        except (KeyError, IndexError):
            raise ValueError(f"forward is not called with an argument {key!r}.") from None
        if not -tensor.dim() <= axis < tensor.dim():
            raise ValueError(f"{key!r} has shape {tuple(tensor.shape)}, hence no axis {axis}.")
        return key, axis % tensor.dim()


def other_content(tensor: Any, seed: int) -> Any:
    """Content of the same kind that differs everywhere: shuffled numbers with noise, or other tokens of those that occur."""
    import torch

    if tensor.is_floating_point():
        generator = torch.Generator().manual_seed(seed)
        double = tensor.double()
        shuffled = double.flatten()[torch.randperm(double.numel(), generator=generator)]
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        scale = double.square().mean().sqrt().clamp(min=1e-3)
        return shuffled.reshape(tensor.shape) + (1 + 3 * (seed % 2)) * scale * noise
    if tensor.dtype == torch.bool:
        return ~tensor
    return TokenCycle(torch.unique(tensor), seed * tensor.numel()).replace(tensor, ...)


@dataclass
class TokenCycle:
    """The tokens of a vocabulary, one after the other."""

    known: Any
    used: int = 0

    def __post_init__(self) -> None:
        if len(self.known) < 2:
            why = f"every token is {int(self.known[0])}: pass rows with at least two different ones"
            raise k.CannotTell(why)

    def replace(self, tensor: Any, where: Any) -> Any:
        """The tensor with the next tokens in some places; where one stands already, the one after it."""
        import torch

        changed, n = tensor.clone(), len(self.known)
        old = changed[where]
        places = (self.used + torch.arange(old.numel())).reshape(old.shape)
        self.used += old.numel()
        places += self.known[places % n] == old
        changed[where] = self.known[places % n].to(changed.dtype)
        return changed


def vocabulary(own: Copy, examples: Examples, data: Any, key: Any) -> Any:
    """All tokens of the table in which the module looks these up; without one, those that occur in the data."""
    import torch
    import torch.nn.functional as F

    tables: list[int] = []

    def look(function: Any, given: Any, result: Any) -> None:
        if function is F.embedding and torch.equal(given[0], examples[key].to(given[0].dtype)):
            tables.append(len(given[1]))

    watch(lambda: own.output(examples), look)
    if tables:
        return torch.arange(min(tables))
    return torch.unique(data[key] if isinstance(data, Examples) else examples[key])


def index_along(tensor: Any, axis: int, at: slice) -> tuple[Any, ...]:
    index = [slice(None)] * tensor.dim()
    index[axis] = at
    return tuple(index)


def replace_at(where: Any, tensor: Any, other: Any) -> Any:
    """The tensor with the content of another one in some places."""
    changed = tensor.clone().to(other.dtype)
    changed[where] = other[where]
    return changed


def difference_from(a: Any, b: Any, whole: Any) -> float:
    """The largest |a − b| over the largest output of all."""
    found = difference(a, b)
    if not 0 < found < math.inf:
        return found
    finite = whole[whole.isfinite()].abs().max()
    return found * float(a[a.isfinite()].abs().max() / finite)


def judge_change(change: float, note: str, advice: str) -> k.Evidence:
    """A change that shows is a counterexample; changes that do not show prove nothing."""
    if change > SAME:
        return k.at_most(change, SAME, advice, "change", note, kind=k.PROVED)
    return k.at_most(change, SAME, unit="change", note=note)
