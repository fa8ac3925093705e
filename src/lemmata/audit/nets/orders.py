"""Claims about scanning orders: what each output of a network over images or sequences depends on (CIL 5.1.3).

    causal          the output at a number stays as it is when this number and all after it change         in scanning order
    no_blind_spot   … and changes when one before it does, for each that is in the window of the number

The numbers of an input (C, H, W) are scanned pixel by pixel, the channels of a pixel one after the other; an output belongs to
the number, or, if it has no axis of channels, to the pixel, where it stands: (B, …, C, H, W), (B, …, H, W), (B, C, H, W, …).
Whatever is changed, a batch holds one change in each row. Evaluation mode, float64, as in dependence.py.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.nets.changes import SAME, PropertyRequest, judge_change, other_content
from lemmata.audit.nets.modules import Copy, Examples, copy_of, examples_of, forwards

Array = np.ndarray

CUTS = 64  # places of a change, evenly spaced where there are more
ROWS = 16
AT_ONCE = 2**16  # numbers in a call, of the inputs
TRIES = 4  # contents, before a number counts as without influence


class Scan(NamedTuple):
    """Numbers in scanning order, and the grid that they fill row by row."""

    order: Array  # (T,): the place in the flat input of each number
    rows: int
    columns: int

    @property
    def ranks(self) -> Array:
        return np.argsort(self.order)


def scan_of(order: Any, shape: tuple[int, ...]) -> Scan:
    """The scan of inputs of this shape: "raster", "columns", or a permutation of the pixels or of all numbers."""
    C, H, W = (1, 1, 1, *shape)[-3:]
    pixels, (rows, columns) = np.arange(H * W), (H, W)
    if isinstance(order, str):
        if order not in ("raster", "columns"):
            raise ValueError(f"order={order!r}; pass 'raster', 'columns' or a permutation.")
        if order == "columns":
            pixels, rows, columns = pixels.reshape(H, W).T.ravel(), W, H
    else:
        pixels = np.asarray(order).ravel()
        if len(pixels) == C * H * W and C > 1:
            return Scan(_permutation(pixels), H, W * C)
        pixels = _permutation(pixels, H * W)
    return Scan((np.arange(C) * H * W + pixels[:, None]).ravel(), rows, columns * C)


def stated_scan(net: Any) -> Scan:
    """The scan that a network of ours states."""
    return Scan(net.order.cpu().numpy(), *net.grid)


def _permutation(order: Array, size: int | None = None) -> Array:
    if not np.array_equal(np.sort(order), np.arange(len(order) if size is None else size)):
        raise ValueError(f"order of {len(order)} numbers is no permutation of the pixels.")
    return order


def along_numbers(output: Any, shape: tuple[int, ...]) -> tuple[Any, bool]:
    """(B, …, T): an output by the numbers of the input; or by its pixels, and then True."""
    wide, sides, n = len(shape), tuple(output.shape), len(output)
    if sides[-wide:] == shape and len(sides) > wide:
        return output.reshape(n, -1, math.prod(shape)), False
    if sides[1 : wide + 1] == shape:
        return output.reshape(n, math.prod(shape), -1).transpose(1, 2), False
    if wide > 1 and sides[1 - wide :] == shape[1:] and len(sides) >= wide:
        return output.reshape(n, -1, math.prod(shape[1:])), True
    raise k.CannotTell(f"the output has shape {sides}: no axes of the inputs' {shape} to compare")


def opposite_content(tensor: Any, seed: int) -> Any:
    """The other end of the range everywhere, which is another level; of tokens, and with later seeds, `other_content`."""
    import torch

    if seed > 0 or not tensor.is_floating_point():
        return other_content(tensor, seed)
    low, high = tensor.double().min(), tensor.double().max()
    return torch.where(tensor > (low + high) / 2, low, high + (high == low))


def changes_of(own: Copy, examples: Examples, key: Any, masks: Array, other: Any) -> tuple[Array, float]:  # fmt: skip
    """(m, T or pixels): the largest change of each output of the row that has other content at each mask (m, T); and the
    largest output."""
    import torch

    tensor = examples[key]
    shape, n = tuple(tensor.shape[1:]), len(tensor)
    found, largest = [], 0.0
    step = max(1, AT_ONCE // math.prod(shape))
    for start in range(0, len(masks), step):
        mask = torch.from_numpy(masks[start : start + step]).reshape(-1, *shape)
        rows = examples.rows((torch.arange(len(mask)) + start) % n)
        changed = torch.where(mask, other[(torch.arange(len(mask)) + start) % n], rows[key].to(other.dtype))  # fmt: skip
        base, output = (along_numbers(own.output(one), shape)[0] for one in (rows, rows.swap(key, changed)))  # fmt: skip
        if not bool(base.isfinite().all()):
            raise k.CannotTell("the outputs are not finite")
        off = (output - base).abs().nan_to_num(math.inf, math.inf).amax(1)
        found.append(off.numpy())
        largest = max(largest, float(base.abs().max()))
    return np.concatenate(found), largest


class OrderLeak(NamedTuple):
    """The largest change of an output by what it should not know."""

    change: float
    where: str
    tried: int
    reaches: bool  # whether outputs depend on anything before them


def look_in_order(own: Copy, examples: Examples, key: Any, scan: Scan) -> OrderLeak:
    """Change all from a number on, and each alone; compare what is not after it."""
    shape = tuple(examples[key].shape[1:])
    _, by_pixel = along_numbers(own.output(examples.rows(slice(0, 1))), shape)
    ranks = scan.ranks
    of_outputs, C = ranks, len(ranks) // max(math.prod(shape[1:]), 1) if len(shape) > 1 else 1
    if by_pixel:  # a pixel is scanned with all of its channels
        ranks = ranks // C
        of_outputs = ranks.reshape(C, -1)[0]
    T = int(ranks.max()) + 1
    cuts = np.unique(np.linspace(0, T - 1, min(T, CUTS)).astype(int))
    worst, where, reaches = 0.0, "", False
    for kind, masks in enumerate((ranks >= cuts[:, None], ranks == cuts[:, None])):
        content = (other_content, opposite_content)[kind](examples[key], 0)
        moved, largest = changes_of(own, examples, key, masks, content)
        early = np.where(of_outputs <= cuts[:, None], moved, 0.0) / max(largest, 1e-300)
        reaches = reaches or bool(
            (np.where(of_outputs > cuts[:, None], moved, 0.0) > SAME * largest).any()
        )
        if early.max() > max(worst, SAME):
            i, j = np.unravel_index(early.argmax(), early.shape)
            who = f"number {cuts[i]}" if kind else f"what follows from number {cuts[i]} on"
            at = "its own output" if of_outputs[j] == cuts[i] else f"the output at {of_outputs[j]}"
            worst, where = float(early.max()), f"{who} reaches {at}, in scanning order"
    return OrderLeak(worst, where, 2 * len(cuts), reaches)


def judge_leak(found: OrderLeak) -> k.Evidence:
    if found.change <= SAME and not found.reaches:
        return k.unknown(f"no output depends on another number; {found.tried} changes tried")
    advice = f"{found.where}: correct the mask, A (without the number itself) first and B after it"
    return judge_change(found.change, f"{found.tried} changes tried", advice)


def blind_numbers(
    own: Copy, examples: Examples, key: Any, scan: Scan, window: Any
) -> tuple[Array, Array, tuple[int, int]]:
    """Ranks before a number in the last row that are in its window, and of those that do not change its output; and the window.

    Without one given: as many rows up as it reaches, and as far to both sides as it reaches to the right above.
    """
    rows, columns = scan.rows, scan.columns
    t = (rows - 1) * columns + (columns // 2 if rows > 1 else columns - 1)
    r, c = np.divmod(np.arange(t), columns)
    up, side = rows - 1 - r, c - t % columns
    asked = np.ones(t, bool) if window is None else (up <= window[0]) & (np.abs(side) <= window[1])
    shape = tuple(examples[key].shape[1:])
    _, by_pixel = along_numbers(own.output(examples.rows(slice(0, 1))), shape)
    if by_pixel and len(shape) > 1 and shape[0] > 1:
        raise k.CannotTell(
            "outputs without an axis of channels do not say which number they are of"
        )
    reached = np.zeros(t, bool)
    for seed in range(TRIES):
        left = np.flatnonzero(asked & ~reached)
        if len(left):
            masks = scan.ranks == left[:, None]
            content = opposite_content(examples[key], seed)
            moved, largest = changes_of(own, examples, key, masks, content)
            reached[left] = moved[:, scan.order[t]] > SAME * largest
    if not reached.any():
        raise k.CannotTell("no output depends on another number")
    if window is None:
        far, right = int(up[reached].max()), int(side[reached & (up > 0)].max(initial=0))
        back = max(int(-side[reached & (up == 0)].min(initial=0)), right)
        window, asked = (far, right), np.where(up > 0, (up <= far) & (np.abs(side) <= right), -side <= back)  # fmt: skip
    return np.flatnonzero(asked), np.flatnonzero(asked & ~reached), window


def judge_window(own: Copy, examples: Examples, key: Any, scan: Scan, window: Any) -> k.Evidence:
    asked, blind, (up, side) = blind_numbers(own, examples, key, scan, window)
    where = f"{up} rows up and {side} columns to each side" if scan.rows > 1 else "before the last"
    note = f"{len(asked)} numbers, {where}"
    if not len(blind):
        return k.at_most(0.0, 0.0, unit="blind", note=note, kind=k.PROVED)
    r, c = np.divmod(blind[-1], scan.columns)
    advice = f"row {r}, column {c} of the scan, for one, has no influence: use a stack for the rows above, and one for this row"
    return k.at_most(float(len(blind)), 0.0, advice, unit="blind", note=note)


def _forward_rows(fit: k.Fit) -> float:
    return TRIES * float(fit.data.size) / max(fit.data.shape[0], 1)


@k.rule_of_thumb(
    "every number in the window changes the output that it comes before: of one place, by other content there",
    "CIL 5.1.3; van den Oord et al. 2016",
    cost=forwards(_forward_rows, 1),
)
def no_blind_spot(fit: k.Fit) -> k.Evidence:
    """Of a module as it was asked for; of a model by the scan that its network states."""
    asked = (fit.get("properties") or {}).get("no_blind_spot", PropertyRequest())
    examples = examples_of(fit, ROWS)
    key, _ = asked.find(examples, 1)
    stated = asked.order is None and hasattr(fit.module_, "order")
    shape = tuple(examples[key].shape[1:])
    scan = stated_scan(fit.module_) if stated else scan_of(asked.order or "raster", shape)
    return judge_window(copy_of(fit), examples, key, scan, asked.window)
