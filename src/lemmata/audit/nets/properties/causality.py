"""What an output may not depend on: on what comes later, or on padding.

    causal     outputs before position t stay as they are when positions ≥ t change             for every t
    padding    what stands at padded positions does not reach the other outputs

Neither can be seen in a loss: a model that sees the future trains splendidly. Both can be seen by changing the input
and comparing outputs, in float64, from the same buffers and the same noise. One change that shows is a
counterexample, and proves that the property fails; changes that do not show prove nothing, so *holds* is a rule of
thumb and says how many there were. A network in which nothing passes between positions (its mixing layers are still
zero) would hold trivially: the claim then can't tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lemmata.audit.kernel.claims import (
    PROVED,
    RULE_OF_THUMB,
    Evidence,
    Fit,
    at_most,
    claim,
    unknown,
)
from lemmata.audit.nets.costs import forwards
from lemmata.audit.nets.modules import (
    Copy,
    Examples,
    copy_of,
    difference,
    examples_of,
    undecided_where_it_cannot_run,
)
from lemmata.audit.nets.properties.asked import (
    MASKS,
    SAME,
    Asked,
    Blind,
    difference_from,
    other_content,
    pieces,
    place_of,
    wanted,
    with_changed,
)

ROWS = 2
CHANGES = 2  # other content per cut


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
        raise Blind(
            f"the output has shape {tuple(base.shape)}: no axis {axis} of the {T} positions to compare"
        )
    if not bool(base.isfinite().any()):
        raise Blind("the outputs are not finite")
    others = [other_content(tensor, seed) for seed in range(CHANGES)]
    for cut in range(1, T):
        for change, other in enumerate(others):
            end = T if change == 0 else cut + 1  # all that follows, or this position alone
            changed = with_changed(tensor, other, axis, slice(cut, end))
            output = own.output(examples.swap(key, changed), training)
            before = pieces(base, axis, slice(0, cut))
            moved = difference_from(base[before], output[before], base)
            found.tried += 1
            if moved > found.change:
                who = (
                    f"position {cut}" if end == cut + 1 else f"what follows from position {cut} on"
                )
                mode = "training" if training else "evaluation"
                found.change, found.where = moved, f"{who} reaches earlier outputs in {mode} mode"
            if change == 1 and not found.reaches and cut + 1 < T:
                after = pieces(base, axis, slice(cut + 1, None))
                found.reaches = difference_from(base[after], output[after], base) > SAME
    if difference(base, own.output(examples, training)) > SAME:
        raise Blind("the module changes while it is called: the same input has other outputs now")
    return found


def _positions(fit: Fit) -> float:
    asked = wanted(fit)["causal"]
    rows = examples_of(fit, ROWS)
    key, axis = place_of(asked, rows, 1)
    return 3.0 * CHANGES * rows[key].shape[axis]


@claim(
    "no output depends on a later position: what follows can change, and earlier outputs stay, to 1e-10",
    kind=RULE_OF_THUMB,
    source="ML Transformers",
    cost=forwards(_positions, ROWS),
)
@undecided_where_it_cannot_run
def causal(fit: Fit) -> Evidence:
    """All cuts, in evaluation and training mode with the same noise; and again with zero weights moved, which hide leaks."""
    own, examples = copy_of(fit), examples_of(fit, ROWS)
    key, axis = place_of(wanted(fit)["causal"], examples, 1)
    found, leaks = [], []
    try:
        for training in (False, True):
            if training and not own.runs_in_training(examples):
                continue
            own.require_repeatable(examples, training)
            found.append(look_for_leaks(own, examples, key, axis, training))
        leaks = [one for one in found if one.change > SAME]
        if not leaks and (moved := move_zero_weights(own)):
            hidden = look_for_leaks(own, examples, key, axis, False)
            found.append(hidden)
            if hidden.change > SAME:
                return unknown(
                    f"no leak at these weights, but one as soon as the zeros of {moved} are learnt: {hidden.where}"
                )
    except Blind as why:
        return unknown(str(why))
    finally:
        own.reset()
    worst = max(found, key=lambda one: one.change)
    note = f"{sum(one.tried for one in found)} changes tried, all {examples[key].shape[axis]} positions"
    if leaks:
        advice = f"{worst.where}: correct the mask, or what mixes positions there"
        return at_most(worst.change, SAME, advice, "change", note, kind=PROVED)
    if not any(one.reaches for one in found):
        return unknown(f"no output depends on another position, so nothing could leak yet; {note}")
    return at_most(worst.change, SAME, unit="change", note=note)


def move_zero_weights(own: Copy) -> str:
    """Give parameters that are all zero some content; names the first one that is no bias, "" where there is none."""
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


def padded_positions(asked: Asked, examples: Examples) -> tuple[str, Any] | None:
    """The mask's name and where it says padding: True in torch's key_padding_mask, False in masks of real tokens."""
    names = [asked.mask] if asked.mask else [name for name in MASKS if name in examples.named]
    for name in names:
        mask = examples.named.get(name)
        if mask is not None and hasattr(mask, "dim") and mask.dim() == 2:
            mask = mask.bool()
            return name, mask if name.endswith("key_padding_mask") else ~mask
    return None


@claim(
    "what stands at padded positions does not reach the other outputs, to 1e-10",
    kind=RULE_OF_THUMB,
    source="ML Transformers",
    cost=forwards(8, 8),
)
@undecided_where_it_cannot_run
def padding_ignored(fit: Fit) -> Evidence:
    """Outputs with a position are compared at real ones; others as a whole."""
    own, asked = copy_of(fit), wanted(fit)["padding"]
    examples = _rows_with_padding(fit, asked)
    if examples is None:
        return unknown(
            "no mask of shape (rows, positions) with padded and real positions among the arguments: "
            "pass X={'x': …, 'padding': …}, or properties={'padding': 'name of the mask'}"
        )
    key = examples.key if asked.argument is None else asked.argument
    found = padded_positions(asked, examples)
    assert found is not None
    padded, tensor = found[1], examples[key]
    worst, tried, matters = 0.0, 0, False
    try:
        for training in (False, True):
            if training and not own.runs_in_training(examples):
                continue
            own.require_repeatable(examples, training)
            base = own.output(examples, training)
            aligned = base.dim() >= 2 and base.shape[:2] == padded.shape
            for seed in range(2):
                other = other_content(tensor, seed)
                for part in (padded, ~padded):
                    changed = tensor.clone().to(other.dtype)
                    changed[part] = other[part]
                    output = own.output(examples.swap(key, changed), training)
                    a, b = (base[~padded], output[~padded]) if aligned else (base, output)
                    moved = difference_from(a, b, a)
                    if part is padded:
                        worst, tried = max(worst, moved), tried + 1
                    else:
                        matters = matters or moved > SAME
    except Blind as why:
        return unknown(str(why))
    note = (
        f"{tried} changes tried at {int(padded.sum())} padded positions of {examples.shape[0]} rows"
    )
    if worst > SAME:
        advice = "padding reaches the outputs: pass the mask to every layer that mixes positions, and to the pooling"
        return at_most(worst, SAME, advice, "change", note, kind=PROVED)
    if not matters:
        return unknown("the outputs do not depend on the other positions either")
    return at_most(worst, SAME, unit="change", note=note)


def _rows_with_padding(fit: Fit, asked: Asked) -> Examples | None:
    """Up to eight rows that have both padded and real positions, cut out of all."""
    if not isinstance(fit.data, Examples):
        return None
    found = padded_positions(asked, fit.data)
    if found is None:
        return None
    mixed = (found[1].any(dim=1) & (~found[1]).any(dim=1)).nonzero().ravel()[:8]
    return fit.data.rows(mixed) if len(mixed) else None
