"""Images and sequences as rows of numbers, with the shape of one input beside them.

    (n, d)           a table                     one input is (d,), or `input_shape` if that is given
    (n, H, W)        grey images                 (1, H, W)
    (n, C, H, W)     images of C channels        (C, H, W)
    (n, 1, L)        sequences                   (1, L); of several channels: pass input_shape=(C, L)

Images of uint8 stay bytes, a fourth of the memory, and are scaled to [0, 1] as they are read; images of float64 become float32.

>>> rows, shape = flatten(np.zeros((5, 28, 28), np.uint8))
>>> rows.shape, str(rows.dtype), shape
((5, 784), 'float32', (1, 28, 28))
>>> flatten(np.zeros((5, 28, 28, 3)))
Traceback (most recent call last):
ValueError: X has shape (5, 28, 28, 3), which looks like images with their channels last; ...
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from lemmata.core.blocks import Blocks, is_stream, rows_per_block

CHANNELS = (1, 3, 4)  # grey, colour, colour with transparency
AT_ONCE, FEW = 1024, 16  # rows that are predicted together; those whose memory is counted first
Shape = tuple[int, ...]


class ByteRows:
    """Cuts rows of bytes into blocks of floats from 0 to 1; `raw` are the bytes."""

    def __init__(self, raw: np.ndarray):
        self.raw, self.step = raw, rows_per_block(raw.shape[0], raw.shape[1], 4)

    def __call__(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self.raw), self.step):
            rows = np.asarray(self.raw[start : start + self.step], dtype=np.float32)
            yield rows / np.float32(255)


def flatten(X: Any, wanted: Shape | None = None, fitted: bool = False) -> tuple[Any, Shape | None]:
    """Rows of X and the shape of one input; None for a table.

    wanted : the parameter input_shape, or, if `fitted`, the shape that the model was fitted to
    """
    if hasattr(X, "detach"):  # a tensor
        X = X.detach().cpu().numpy()
    if isinstance(X, (list, tuple)) and not is_stream(X):
        X = _as_array(X)
    if isinstance(X, (list, tuple)) and any(hasattr(block, "tocsr") for block in X):
        raise TypeError("a block of X is sparse; networks take dense blocks: pass block.toarray().")
    ndim, shape = getattr(X, "ndim", 2), wanted
    if ndim > 2:
        shape = _shape_of(tuple(X.shape), wanted, fitted)
        X = np.asarray(X) if not isinstance(X, np.ndarray) else X
        X = X.reshape(len(X), math.prod(shape))
        if X.dtype == np.float64:
            X = X.astype(np.float32)
    else:
        columns = X.shape[1] if ndim == 2 and hasattr(X, "shape") else None
        if shape is not None and columns is not None and columns != math.prod(shape) and not fitted:
            raise ValueError(
                f"X has {columns} features, but input_shape={shape} has {math.prod(shape)}; they have to be as many."
            )
    if shape is not None and len(shape) > 1 and getattr(X, "dtype", None) == np.uint8:
        cut = ByteRows(X)
        X = Blocks(cut, X.shape, np.dtype(np.float32), n_blocks=-(-len(X) // cut.step))
    return X, shape


def _as_array(X: Any) -> Any:
    """Nested lists deeper than a table as an array; anything else unchanged, for scikit-learn to validate."""
    first = X[0] if len(X) else None
    deep = isinstance(first, (list, tuple)) and len(first) and isinstance(first[0], (list, tuple))
    if deep or getattr(first, "ndim", 0) > 1:
        shapes = [np.shape(one) for one in X] if not deep else []
        if other := next((i for i, shape in enumerate(shapes) if shape != shapes[0]), 0):
            raise ValueError(
                f"X[{other}] has shape {shapes[other]}, X[0] has {shapes[0]}: images have one size; crop or pad them."
            )
        return np.asarray(X)
    return X


def _shape_of(found: Shape, wanted: Shape | None, fitted: bool) -> Shape:
    """The shape of one input among (n, …); ValueError says what is wrong with it."""
    one = found[1:]
    if wanted is not None:
        if one == wanted or (1, *one) == wanted:
            return wanted
        whose = "the model was fitted to inputs of shape" if fitted else "input_shape is"
        if len(one) == 3 and (one[2], one[0], one[1]) == wanted:
            raise ValueError(
                f"X has shape {found}, with the channels last; {whose} {wanted}, channels first: {_turn(found)}."
            )
        raise ValueError(
            f"X has shape {found}, but {whose} {wanted}: pass X of shape (n, {', '.join(map(str, wanted))})."
        )
    if len(one) == 2:
        return one if one[0] == 1 else (1, *one)
    if len(one) == 3:
        if one[2] in CHANNELS and one[0] not in CHANNELS:
            raise ValueError(
                f"X has shape {found}, which looks like images with their channels last; pass (n, "
                f"channels, height, width): {_turn(found)}."
            )
        return one
    raise ValueError(
        f"X has shape {found}; pass rows (n, d), images (n, H, W) or (n, C, H, W), sequences (n, 1, L), or pass input_shape."
    )


def _turn(found: Shape) -> str:
    return "X.transpose(0, 3, 1, 2)" if len(found) == 4 else "move the channels before the height"


def run_rows(function: Any, rows: np.ndarray, shape: Shape, like: Any) -> np.ndarray:
    """Outputs of a function of tensors for rows of this shape, flat and in the dtype of the rows.

    like : a tensor of the device and type that the function takes
    """
    import torch

    from lemmata.nets.training.counting import Operations

    def run(some: np.ndarray) -> Any:
        x = torch.from_numpy(np.ascontiguousarray(some))
        return function(x.to(like.device, like.dtype).reshape(-1, *shape))

    found, step = [], AT_ONCE
    with torch.no_grad():
        if len(rows) > 8 * FEW:  # of few rows nothing is large
            with Operations() as counted:
                run(rows[:FEW])
            step = counted.rows_at_once(FEW)
        for start in range(0, max(len(rows), 1), step):
            some = rows[start : start + step]
            found.append(run(some).cpu().numpy().astype(rows.dtype).reshape(len(some), -1))
    return np.concatenate(found)
