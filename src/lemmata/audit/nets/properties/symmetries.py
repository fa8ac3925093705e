"""What should not matter to a network: the order of positions, or where in an image a thing stands.

    permutation_equivariant   f(x permuted) = f(x) permuted
    shift_equivariant         f(x shifted by s) = f(x) shifted by s, away from the borders

A shift that shows, or a permutation, is a counterexample; *holds* is a rule of thumb that says how many were tried. How far a
border is seen is measured: as far as a change in the middle is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

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
    SAME,
    difference_from,
    other_content,
    pieces,
    place_of,
    wanted,
    with_changed,
)

Array = np.ndarray
ROWS = 2
PERMUTATIONS = 8
WIDE = 6  # shifts at most


# --- permutations -----------------------------------------------------------------------------------------------------


def _permutations(T: int) -> Iterator[Array]:
    rng = np.random.default_rng(0)
    yield np.r_[1, 0, 2:T]
    yield np.roll(np.arange(T), 1)
    for _ in range(PERMUTATIONS - 2):
        yield rng.permutation(T)


@claim(
    "the order of positions does not matter: permuted inputs give permuted outputs, to 1e-10",
    kind=RULE_OF_THUMB,
    source="ML Attention",
    cost=forwards(PERMUTATIONS + 2, ROWS),
)
@undecided_where_it_cannot_run
def permutation_equivariant(fit: Fit) -> Evidence:
    """In evaluation mode. Outputs without that axis (a pooled one) have to stay as they are."""
    own, examples = copy_of(fit), examples_of(fit, ROWS)
    key, axis = place_of(wanted(fit)["permutation_equivariant"], examples, 1)
    own.require_repeatable(examples, False)
    tensor, base = examples[key], own.output(examples)
    T = tensor.shape[axis]
    if T < 2:
        return unknown(f"axis {axis} has {T} position")
    moves = base.dim() > axis and base.shape[axis] == T
    worst, tried, depends = 0.0, 0, False
    for order in _permutations(T):
        output = own.output(examples.swap(key, tensor.index_select(axis, _index(order))))
        expected = base.index_select(axis, _index(order)) if moves else base
        worst, tried = max(worst, difference(expected, output)), tried + 1
        depends = depends or not moves or difference(base, expected) > SAME
    if not depends:
        return unknown("all positions have the same output: there is nothing to permute")
    note = f"{tried} permutations tried"
    if worst > SAME:
        advice = "positions enter somewhere: leave out position embeddings and masks that depend on the order"
        return at_most(worst, SAME, advice, "change", note, kind=PROVED)
    return at_most(worst, SAME, unit="change", note=note)


def _index(order: Array) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(order))


# --- shifts -----------------------------------------------------------------------------------------------------------


@claim(
    "shifted inputs give shifted outputs, away from the borders, to 1e-10",
    kind=RULE_OF_THUMB,
    source="CIL 4.4.1",
    cost=forwards(2 * WIDE + 4, ROWS),
)
@undecided_where_it_cannot_run
def shift_equivariant(fit: Fit) -> Evidence:
    """In evaluation mode, along every axis after the channels. With stride r, shifts are multiples of r."""
    own, examples = copy_of(fit), examples_of(fit, ROWS)
    asked = wanted(fit)["shift_equivariant"]
    key, axis = place_of(asked, examples, -1)
    own.require_repeatable(examples, False)
    tensor, base = examples[key], own.output(examples)
    if not tensor.is_floating_point() or base.dim() != tensor.dim():
        return unknown(
            f"the output has shape {tuple(base.shape)} for an input of {tuple(tensor.shape)}: no axis to shift along"
        )
    axes = [axis] if asked.axis is not None else list(range(2, tensor.dim()))
    worst, tried, compared = 0.0, 0, 0
    for along in axes:
        L, out = tensor.shape[along], base.shape[along]
        stride = max(round(L / out), 1)
        reach = _reach(own, examples, key, along, base, stride)
        for steps in range(1, WIDE // len(axes) + 1):
            rolled = examples.swap(key, tensor.roll(steps * stride, along))
            moved = own.output(rolled)
            inside = slice(reach + steps, out - reach)
            if inside.stop - inside.start < 1:
                continue
            where = pieces(base, along, inside)
            expected = base.roll(steps, along)[where]
            worst = max(worst, difference_from(expected, moved[where], base))
            tried, compared = tried + 1, compared + expected.numel()
    if not tried:
        return unknown("every output sees a border: pass larger inputs")
    note = f"{tried} shifts tried, {compared:,} outputs compared"
    if worst > SAME:
        advice = "something depends on the place: positions, dense layers over places, or a stride that the sizes do not fit"
        return at_most(worst, SAME, advice, "change", note, kind=PROVED)
    if difference(base, base.roll(1, axes[0])) <= SAME:
        return unknown("the outputs are the same everywhere: there is nothing to shift")
    return at_most(worst, SAME, unit="change", note=note)


def _reach(own: Copy, examples: Examples, key: Any, along: int, base: Any, stride: int) -> int:
    """How many outputs away from a border see it: as far as a change of the middle place is seen, and one more."""
    tensor = examples[key]
    middle = tensor.shape[along] // 2
    # without padding the first output looks at the first places, the last at the last: centres lie on each other
    offset = (base.shape[along] - 1) / 2 - (tensor.shape[along] - 1) / 2 / stride
    reach = 0
    for seed, place in enumerate((middle, middle + stride // 2)):
        changed = with_changed(tensor, other_content(tensor, seed), along, slice(place, place + 1))
        output = own.output(examples.swap(key, changed))
        seen = (output != base).movedim(along, 0).flatten(1).any(dim=1)
        places = seen.nonzero().ravel()
        if len(places):
            far = (places - place / stride - offset).abs().max()
            reach = max(reach, math.ceil(float(far)) + 1)
    return reach
