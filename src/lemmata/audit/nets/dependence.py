"""Claims about what outputs depend on: later positions, padding, the order of positions, the place in an image.

    causal                    outputs before position t stay as they are when positions ≥ t change             for every t
                              (of images in a scanning order: orders.py)
    padding_ignored           neither the content of padded positions nor their number reaches the other outputs
    permutation_equivariant   f(x permuted) = f(x) permuted
    shift_equivariant         f(x shifted by s) = f(x) shifted by s, away from the borders

None of this can be seen in a loss: a model that sees the future trains splendidly. It can be seen by changing the input
and comparing outputs, in float64, from the same buffers and the same noise. One change that shows is a
counterexample, and proves that the property fails; changes that do not show prove nothing, so *holds* is a rule of
thumb and says how many were tried. Tokens are changed into each that the module has an embedding of, in turn, as far as the
changes go round. A network in which nothing passes between positions (its mixing layers are still zero) would hold trivially:
the claim then can't tell.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.language.batching import batch_agrees
from lemmata.audit.language.caching import cache_agrees
from lemmata.audit.nets.changes import (
    SAME,
    PropertyRequest,
    TokenCycle,
    difference_from,
    index_along,
    judge_change,
    other_content,
    replace_at,
    vocabulary,
)
from lemmata.audit.nets.modules import (
    Copy,
    Examples,
    copy_of,
    count_of,
    difference,
    examples_of,
    forwards,
)
from lemmata.audit.nets.orders import CUTS, judge_leak, look_in_order, no_blind_spot, scan_of

ROWS = 16
CHANGES = 2  # per cut: all that follows, and the position alone
PERMUTATIONS = 8
WIDE = 6  # shifts at most
MASKS = (
    "key_padding_mask",
    "src_key_padding_mask",
    "tgt_key_padding_mask",
    "padding",
    "attention_mask",
)


# --- causality --------------------------------------------------------------------------------------------------------


@dataclass
class Leak:
    """The largest change of an output before the change of its input."""

    change: float = 0.0
    where: str = ""
    tried: int = 0
    reaches: bool = False  # whether any output depends on an earlier position at all


def has_positions(at: int, output: Any, rows: int, T: int, axis: int = 1) -> bool:
    """Whether positions stand along this axis of an output; heads or rows may be as many as there are positions."""
    if output.dim() <= axis or output.shape[axis] != T:
        return False
    alike = output.shape[0] != rows or (output.dim() >= 4 and list(output.shape).count(T) > 1)
    return at == 0 or not alike


def outputs_along(own: Copy, examples: Examples, key: Any, axis: int, training: bool) -> list[Any]:
    """Every output by its number, None for one without a clear axis of the positions."""
    rows, T = examples[key].shape[0], examples[key].shape[axis]
    found = own.values(examples, training)
    return [one if has_positions(at, one, rows, T, axis) else None for at, one in enumerate(found)]


def look_for_leaks(
    own: Copy,
    examples: Examples,
    key: Any,
    axis: int,
    training: bool,
    tokens: TokenCycle | None,
    first: int = 1,
) -> Leak:
    """Change every suffix, and every single position; compare what comes before, and see that what comes after can change.

    first : the position from which on they are changed
    """
    tensor, call = examples[key], lambda given: outputs_along(own, given, key, axis, training)
    T, found, bases = tensor.shape[axis], Leak(), call(examples)
    if all(base is None for base in bases):
        shape = tuple(own.output(examples, training).shape)
        why = f"the output has shape {shape}: no axis {axis} of the {T} positions to compare"
        raise k.CannotTell(why)
    if not any(base is not None and bool(base.isfinite().any()) for base in bases):
        raise k.CannotTell("the outputs are not finite")
    others = [] if tokens else [other_content(tensor, seed) for seed in range(CHANGES)]
    for cut, change in itertools.product(range(first, T), range(CHANGES)):
        end = T if change == 0 else cut + 1  # all that follows, or this position alone
        where = index_along(tensor, axis, slice(cut, end))
        changed = (
            tokens.replace(tensor, where) if tokens else replace_at(where, tensor, others[change])
        )
        found.tried += 1
        for at, (base, output) in enumerate(
            zip(bases, call(examples.swap(key, changed)), strict=True)
        ):
            if base is None or output is None:
                continue
            before = index_along(base, axis, slice(0, cut))
            moved = difference_from(base[before], output[before], base)
            if moved > found.change:
                who = f"position {cut}" if change else f"what follows from position {cut} on"
                which = f" of output {at + 1}" if at else ""
                mode = "training" if training else "evaluation"
                found.where = f"{who} reaches earlier places{which} in {mode} mode"
                found.change = moved
            if change == 1 and not found.reaches and cut + 1 < T:
                after = index_along(base, axis, slice(cut + 1, None))
                found.reaches = difference_from(base[after], output[after], base) > SAME
    again = zip(bases, call(examples), strict=True)
    if any(base is not None and difference(base, output) > SAME for base, output in again):
        why = "the module changes while it is called: the same input has other outputs now"
        raise k.CannotTell(why)
    return found


def rows_of_tokens(
    examples: Examples, key: Any, axis: int, tokens: TokenCycle | None
) -> Iterator[Examples]:
    """The rows with all positions but the last of other tokens, until each was there, or as often as there are positions."""
    if tokens is None:
        return
    tensor, readers = examples[key], TokenCycle(tokens.known)
    T = tensor.shape[axis]
    for _ in range(T):
        yield examples.swap(
            key, readers.replace(tensor, index_along(tensor, axis, slice(0, T - 1)))
        )
        if readers.used >= len(readers.known):
            break


def _calls(fit: k.Fit) -> float:
    rows, asked = examples_of(fit, ROWS), fit.properties["causal"]
    key, axis = asked.find(rows, 1)
    if asked.order is not None:
        return 4.0 * CUTS / ROWS
    return 5.0 * CHANGES * rows[key].shape[axis]


@k.rule_of_thumb(
    "no output depends on a later position: on up to 16 rows, in both modes, what follows can change, and every "
    "earlier output stays, to 1e-10",
    "ML Transformers",
    cost=forwards(_calls, ROWS),
)
def causal(fit: k.Fit) -> k.Evidence:
    """All cuts, in evaluation and training mode with the same noise; with rows of other tokens; and with zero weights moved.

    Weights that are still zero hide leaks. A number of rows that is that of the positions would make axes look alike.
    """
    own, examples, asked = copy_of(fit), examples_of(fit, ROWS), fit.properties["causal"]
    key, axis = asked.find(examples, 1)
    if asked.order is not None:
        scan = scan_of(asked.order, tuple(examples[key].shape[1:]))
        return judge_leak(look_in_order(own, examples, key, scan))
    T = examples[key].shape[axis]
    if axis != 0 and len(examples[key]) == T > 1:
        examples = examples_of(fit, T - 1)
    tokens = None
    if not examples[key].is_floating_point() and str(examples[key].dtype) != "torch.bool":
        tokens = TokenCycle(vocabulary(own, examples, fit.data, key))
    try:
        modes = own.modes_that_run(examples)
        found = [look_for_leaks(own, examples, key, axis, mode, tokens) for mode in modes]
        found += [
            look_for_leaks(own, other, key, axis, False, tokens, T - 1)
            for other in rows_of_tokens(examples, key, axis, tokens)
        ]
        worst = max(found, key=lambda one: one.change)
        if worst.change <= SAME and (moved := move_zero_weights(own)):
            found.append(hidden := look_for_leaks(own, examples, key, axis, False, tokens))
            if hidden.change > SAME:
                why = f"no leak at these weights, but one as soon as the zeros of {moved} are"
                return k.unknown(f"{why} learned: {hidden.where}")
    finally:
        own.reset()
    worst = max(found, key=lambda one: one.change)
    note = f"{sum(one.tried for one in found)} changes tried, all {T} positions, {len(examples[key])} rows"
    if tokens:
        seen = min(tokens.used, len(tokens.known))
        note += f", {seen:,} of {count_of(len(tokens.known), 'token')}"
    if worst.change <= SAME and not any(one.reaches for one in found):
        return k.unknown(f"no output depends on another position: nothing could leak yet; {note}")
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
    """Up to ROWS rows that have both padded and real positions, and where they are padded."""
    padded = padded_positions(asked, fit.data) if isinstance(fit.data, Examples) else None
    if padded is not None:
        mixed = (padded.any(dim=1) & (~padded).any(dim=1)).nonzero().ravel()[:ROWS]
        if len(mixed):
            return fit.data.rows(mixed), padded[mixed]
    raise k.CannotTell(
        "no mask of shape (rows, positions) with padded and real positions among the arguments: "
        "pass X={'x': …, 'padding': …}, or properties={'padding': 'name of the mask'}"
    )


def change_at_real(bases: list[Any], outputs: list[Any], real: Any, kept: Any) -> float:
    """The largest change of any output: at the real places of one that has them, of one without positions as a whole.

    real and kept are the places in the first and in the second call. Where positions stand elsewhere (weights of heads,
    caches), and where what belongs to a row is as long as the row, there is nothing to compare.
    """
    worst = 0.0
    for at, (a, b) in enumerate(zip(bases, outputs, strict=True)):
        both = a.shape[:2] == real.shape and b.shape[:2] == kept.shape
        if both and has_positions(at, a, *real.shape):
            a, b = a[real], b[kept]
        elif at > 0 and real.shape[1] in a.shape:
            continue
        if real.shape == kept.shape or a.shape == b.shape:
            worst = max(worst, difference_from(a, b, a))
    return worst


def drop_padding(own: Copy, examples: Examples, padded: Any) -> tuple[float, bool]:
    """The change in evaluation mode with less padding at the end, and whether it runs at that length."""
    T = padded.shape[1]
    trailing = padded.flip(1).int().cumprod(dim=1).sum(dim=1)
    places = trailing.nonzero().ravel()
    if not len(places):
        return 0.0, False
    few, shorter = examples.rows(places), T - int(trailing[places].min())

    def cut(value: Any) -> Any:
        sides = value.shape[:2]
        if value.dim() >= 2 and sides[1] == T and sides[0] in (len(places), T):
            value = value[:, :shorter]
        square = value.dim() == 2 and tuple(sides) == (T, T) and len(places) != T
        return value[:shorter] if square else value

    real = ~padded[places]
    try:
        outputs = own.values(few.map(cut))
    except k.CannotTell:
        return 0.0, False
    return change_at_real(own.values(few), outputs, real, real[:, :shorter]), True


@k.rule_of_thumb(
    "neither what stands at padded positions nor how many there are at the end reaches the other outputs: on up to 16 rows, "
    "to 1e-10",
    "ML Transformers",
    cost=forwards(10, ROWS),
)
def padding_ignored(fit: k.Fit) -> k.Evidence:
    """Every output: those with a position are compared at real ones, others as a whole. Contents are changed in both modes."""
    own, asked = copy_of(fit), fit.properties["padding"]
    examples, padded = rows_with_padding(fit, asked)
    key = examples.key if asked.argument is None else asked.argument
    tensor = examples[key]
    worst, tried, matters = 0.0, 0, False
    for training in own.modes_that_run(examples):
        bases = own.values(examples, training)
        for other in (other_content(tensor, seed) for seed in range(2)):
            for part in (padded, ~padded):
                outputs = own.values(examples.swap(key, replace_at(part, tensor, other)), training)
                moved = change_at_real(bases, outputs, ~padded, ~padded)
                if part is padded:
                    worst, tried = max(worst, moved), tried + 1
                else:
                    matters = matters or moved > SAME
    if worst <= SAME and not matters:
        return k.unknown("the outputs do not depend on the other positions either")
    amount, ran = drop_padding(own, examples, padded)
    where = f"{int(padded.sum())} padded positions of {examples.shape[0]} rows"
    note = f"{tried} changes tried at {where}"
    note += ", and less padding" if ran else "; not with less padding, at which it does not run"
    advice = "padding reaches the outputs: pass the mask to every layer that mixes positions, and to the pooling"
    if amount > max(worst, SAME):
        advice = "the amount of padding reaches the outputs: divide by the number of real positions, and count from the start"
    return judge_change(max(worst, amount), note, advice)


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
    "no_blind_spot": no_blind_spot,
    "cached": cache_agrees,
    "batched": batch_agrees,
}
PROPERTY_CLAIMS = tuple(PROPERTIES.values())
