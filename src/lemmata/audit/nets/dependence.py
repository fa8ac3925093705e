"""Claims about what outputs depend on: later positions, padding, the order of positions, the place in an image.

    causal                    outputs before position t stay as they are when positions ≥ t change             for every t
    padding_ignored           the content of padded positions does not reach the other outputs
    permutation_equivariant   f(x permuted) = f(x) permuted
    shift_equivariant         f(x shifted by s) = f(x) shifted by s, away from the borders

None of this can be seen in a loss: a model that sees the future trains splendidly. It can be seen by changing the input
and comparing outputs, in float64, from the same buffers and the same noise. One change that shows is a
counterexample, and proves that the property fails; changes that do not show prove nothing, so *holds* is a rule of
thumb and says how many were tried. A network in which nothing passes between positions (its mixing layers are still
zero) would hold trivially: the claim then can't tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.nets.modules import Copy, Examples, copy_of, difference, examples_of, forwards

SAME = 1e-10  # of the largest output: what rounding in float64 may change
ROWS = 2
CHANGES = 2  # other contents per cut
PERMUTATIONS = 8
WIDE = 6  # shifts at most
MASKS = (
    "key_padding_mask",
    "src_key_padding_mask",
    "tgt_key_padding_mask",
    "padding",
    "attention_mask",
)


@dataclass(frozen=True)
class PropertyRequest:
    """Where a property should hold: which argument of forward, which of its axes, which argument is the mask."""

    argument: int | str | None = None  # None: the first tensor
    axis: int | None = None
    mask: str = ""

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


# --- changes ----------------------------------------------------------------------------------------------------------


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
        why = f"every token is {int(tokens[0])}: pass rows with at least two different ones"
        raise k.CannotTell(why)
    places = torch.searchsorted(tokens, tensor)
    step = torch.randint(1, len(tokens), tensor.shape, generator=generator)
    return tokens[(places + step) % len(tokens)]


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


# --- causality --------------------------------------------------------------------------------------------------------


@dataclass
class Leak:
    """The largest change of an output before the change of its input."""

    change: float = 0.0
    where: str = ""
    tried: int = 0
    reaches: bool = False  # whether any output depends on an earlier position at all


def look_for_leaks(own: Copy, examples: Examples, key: Any, axis: int, training: bool) -> Leak:
    """Change every suffix, and every single position; compare what comes before, and see that what comes after can change."""
    tensor = examples[key]
    T, found = tensor.shape[axis], Leak()
    base = own.output(examples, training)
    if base.dim() <= axis or base.shape[axis] != T:
        shape = tuple(base.shape)
        why = f"the output has shape {shape}: no axis {axis} of the {T} positions to compare"
        raise k.CannotTell(why)
    if not bool(base.isfinite().any()):
        raise k.CannotTell("the outputs are not finite")
    others = [other_content(tensor, seed) for seed in range(CHANGES)]
    for cut in range(1, T):
        for change, other in enumerate(others):
            end = T if change == 0 else cut + 1  # all that follows, or this position alone
            changed = replace_at(index_along(tensor, axis, slice(cut, end)), tensor, other)
            output = own.output(examples.swap(key, changed), training)
            before = index_along(base, axis, slice(0, cut))
            moved = difference_from(base[before], output[before], base)
            found.tried += 1
            if moved > found.change:
                alone, mode = end == cut + 1, "training" if training else "evaluation"
                who = f"position {cut}" if alone else f"what follows from position {cut} on"
                found.change, found.where = moved, f"{who} reaches earlier outputs in {mode} mode"
            if change == 1 and not found.reaches and cut + 1 < T:
                after = index_along(base, axis, slice(cut + 1, None))
                found.reaches = difference_from(base[after], output[after], base) > SAME
    if difference(base, own.output(examples, training)) > SAME:
        why = "the module changes while it is called: the same input has other outputs now"
        raise k.CannotTell(why)
    return found


def _calls(fit: k.Fit) -> float:
    rows = examples_of(fit, ROWS)
    key, axis = fit.properties["causal"].find(rows, 1)
    return 3.0 * CHANGES * rows[key].shape[axis]


@k.rule_of_thumb(
    "no output depends on a later position: what follows can change, and earlier outputs stay, to 1e-10",
    "ML Transformers",
    cost=forwards(_calls, ROWS),
)
def causal(fit: k.Fit) -> k.Evidence:
    """All cuts, in evaluation and training mode with the same noise; and again with zero weights moved, which hide leaks."""
    own, examples = copy_of(fit), examples_of(fit, ROWS)
    key, axis = fit.properties["causal"].find(examples, 1)
    try:
        modes = own.modes_that_run(examples)
        found = [look_for_leaks(own, examples, key, axis, training) for training in modes]
        worst = max(found, key=lambda one: one.change)
        if worst.change <= SAME and (moved := move_zero_weights(own)):
            found.append(hidden := look_for_leaks(own, examples, key, axis, False))
            if hidden.change > SAME:
                why = f"no leak at these weights, but one as soon as the zeros of {moved} are"
                return k.unknown(f"{why} learnt: {hidden.where}")
    finally:
        own.reset()
    worst = max(found, key=lambda one: one.change)
    note = f"{sum(one.tried for one in found)} changes tried, all {examples[key].shape[axis]} positions"
    if worst.change <= SAME and not any(one.reaches for one in found):
        return k.unknown(
            f"no output depends on another position, so nothing could leak yet; {note}"
        )
    advice = f"{worst.where}: correct the mask, or what mixes positions there"
    return judge_change(worst.change, note, advice)


def move_zero_weights(own: Copy) -> str:
    """Give parameters that are all zero some content; return the name of the first that is no bias, "" if there is none."""
    import torch

    zero = {
        name: p
        for name, p in own.parameters.items()
        if not name.endswith("bias") and p.numel() > 0 and not bool(p.detach().any())
    }
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in zero.values():
            p.add_(0.3 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    return next(iter(zero), "")


# --- padding ----------------------------------------------------------------------------------------------------------


def padded_positions(asked: PropertyRequest, examples: Examples) -> Any:
    """True at padding, from the mask: torch's key_padding_mask as it is, masks of real tokens negated. None without one."""
    for name in (asked.mask,) if asked.mask else MASKS:
        mask = examples.named.get(name)
        if mask is not None and hasattr(mask, "dim") and mask.dim() == 2:
            return mask.bool() if name.endswith("key_padding_mask") else ~mask.bool()
    return None


def rows_with_padding(fit: k.Fit, asked: PropertyRequest) -> tuple[Examples, Any]:
    """Up to eight rows that have both padded and real positions, and where they are padded."""
    padded = padded_positions(asked, fit.data) if isinstance(fit.data, Examples) else None
    if padded is not None:
        mixed = (padded.any(dim=1) & (~padded).any(dim=1)).nonzero().ravel()[:8]
        if len(mixed):
            return fit.data.rows(mixed), padded[mixed]
    raise k.CannotTell(
        "no mask of shape (rows, positions) with padded and real positions among the arguments: "
        "pass X={'x': …, 'padding': …}, or properties={'padding': 'name of the mask'}"
    )


@k.rule_of_thumb(
    "what stands at padded positions does not reach the other outputs, to 1e-10",
    "ML Transformers",
    cost=forwards(8, 8),
)
def padding_ignored(fit: k.Fit) -> k.Evidence:
    """Outputs with a position are compared at real ones; others as a whole."""
    own, asked = copy_of(fit), fit.properties["padding"]
    examples, padded = rows_with_padding(fit, asked)
    key = examples.key if asked.argument is None else asked.argument
    tensor = examples[key]
    worst, tried, matters = 0.0, 0, False
    for training in own.modes_that_run(examples):
        base = own.output(examples, training)
        aligned = base.dim() >= 2 and base.shape[:2] == padded.shape
        for other in (other_content(tensor, seed) for seed in range(2)):
            for part in (padded, ~padded):
                changed = replace_at(part, tensor, other)
                output = own.output(examples.swap(key, changed), training)
                a, b = (base[~padded], output[~padded]) if aligned else (base, output)
                moved = difference_from(a, b, a)
                if part is padded:
                    worst, tried = max(worst, moved), tried + 1
                else:
                    matters = matters or moved > SAME
    if worst <= SAME and not matters:
        return k.unknown("the outputs do not depend on the other positions either")
    where = f"{int(padded.sum())} padded positions of {examples.shape[0]} rows"
    advice = "padding reaches the outputs: pass the mask to every layer that mixes positions, and to the pooling"
    return judge_change(worst, f"{tried} changes tried at {where}", advice)


# --- permutations -----------------------------------------------------------------------------------------------------


def permutations(T: int) -> Iterator[Any]:
    import torch

    rng = np.random.default_rng(0)
    yield torch.from_numpy(np.r_[1, 0, 2:T])
    yield torch.from_numpy(np.roll(np.arange(T), 1))
    for _ in range(PERMUTATIONS - 2):
        yield torch.from_numpy(rng.permutation(T))


@k.rule_of_thumb(
    "the order of positions does not matter: permuted inputs give permuted outputs, to 1e-10",
    "ML Attention",
    cost=forwards(PERMUTATIONS + 2, ROWS),
)
def permutation_equivariant(fit: k.Fit) -> k.Evidence:
    """In evaluation mode. Outputs without that axis (a pooled one) have to stay as they are."""
    own, examples = copy_of(fit), examples_of(fit, ROWS)
    key, axis = fit.properties["permutation_equivariant"].find(examples, 1)
    own.require_repeatable(examples, False)
    tensor, base = examples[key], own.output(examples)
    T = tensor.shape[axis]
    if T < 2:
        return k.unknown(f"axis {axis} has {T} position")
    moves = base.dim() > axis and base.shape[axis] == T
    worst, depends = 0.0, False
    for order in permutations(T):
        output = own.output(examples.swap(key, tensor.index_select(axis, order)))
        expected = base.index_select(axis, order) if moves else base
        worst = max(worst, difference(expected, output))
        depends = depends or not moves or difference(base, expected) > SAME
    if not depends:
        return k.unknown("all positions have the same output: there is nothing to permute")
    advice = "positions enter somewhere: leave out position embeddings and masks that depend on the order"
    return judge_change(worst, f"{PERMUTATIONS} permutations tried", advice)


# --- shifts -----------------------------------------------------------------------------------------------------------


@k.rule_of_thumb(
    "shifted inputs give shifted outputs, away from the borders, to 1e-10",
    "CIL 4.4.1",
    cost=forwards(2 * WIDE + 4, ROWS),
)
def shift_equivariant(fit: k.Fit) -> k.Evidence:
    """In evaluation mode, along every axis after the channels. With stride r, shifts are multiples of r."""
    own, examples, asked = copy_of(fit), examples_of(fit, ROWS), fit.properties["shift_equivariant"]
    key, axis = asked.find(examples, -1)
    own.require_repeatable(examples, False)
    tensor, base = examples[key], own.output(examples)
    if not tensor.is_floating_point() or base.dim() != tensor.dim():
        shapes = f"shape {tuple(base.shape)} for an input of {tuple(tensor.shape)}"
        return k.unknown(f"the output has {shapes}: no axis to shift along")
    axes = [axis] if asked.axis is not None else list(range(2, tensor.dim()))
    worst, tried, compared = 0.0, 0, 0
    for along in axes:
        L, out = tensor.shape[along], base.shape[along]
        stride = max(round(L / out), 1)
        reach = border_reach(own, examples, key, along, base, stride)
        for steps in range(1, WIDE // len(axes) + 1):
            moved = own.output(examples.swap(key, tensor.roll(steps * stride, along)))
            inside = slice(reach + steps, out - reach)
            if inside.stop - inside.start < 1:
                continue
            where = index_along(base, along, inside)
            expected = base.roll(steps, along)[where]
            worst = max(worst, difference_from(expected, moved[where], base))
            tried, compared = tried + 1, compared + expected.numel()
    if not tried:
        return k.unknown("every output sees a border: pass larger inputs")
    if worst <= SAME and difference(base, base.roll(1, axes[0])) <= SAME:
        return k.unknown("the outputs are the same everywhere: there is nothing to shift")
    advice = "something depends on the place: positions, dense layers over places, or a stride that the sizes do not fit"
    return judge_change(worst, f"{tried} shifts tried, {compared:,} outputs compared", advice)


def border_reach(
    own: Copy, examples: Examples, key: Any, along: int, base: Any, stride: int
) -> int:
    """Number of outputs next to a border that depend on it: as far as a change of the middle place shows, and one more."""
    tensor = examples[key]
    middle = tensor.shape[along] // 2
    # without padding the first output looks at the first places, the last at the last: centres lie on each other
    offset = (base.shape[along] - 1) / 2 - (tensor.shape[along] - 1) / 2 / stride
    reach = 0
    for seed, place in enumerate((middle, middle + stride // 2)):
        where = index_along(tensor, along, slice(place, place + 1))
        changed = replace_at(where, tensor, other_content(tensor, seed))
        output = own.output(examples.swap(key, changed))
        seen = (output != base).movedim(along, 0).flatten(1).any(dim=1)
        places = seen.nonzero().ravel()
        if len(places):
            far = (places - place / stride - offset).abs().max()
            reach = max(reach, math.ceil(float(far)) + 1)
    return reach


PROPERTIES = {  # by the name of the property
    "causal": causal,
    "padding": padding_ignored,
    "shift_equivariant": shift_equivariant,
    "permutation_equivariant": permutation_equivariant,
}
PROPERTY_CLAIMS = tuple(PROPERTIES.values())
