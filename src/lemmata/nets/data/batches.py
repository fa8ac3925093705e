"""Data of a network in batches whose order follows from (seed, epoch) alone: arrays, mapped files, blocks, DataLoaders.

    >>> import numpy as np
    >>> data = as_data((np.arange(10.0).reshape(5, 2), np.array([0, 1, 0, 1, 1])))
    >>> [[tuple(part.shape) for part in batch.parts] for batch in data.batches(seed=0, epoch=3, size=2)]
    [[(2, 2), (2,)], [(2, 2), (2,)], [(1, 2), (1,)]]

The batches of an epoch can begin anywhere (`start`), so a run stopped between two batches resumes as if it had not
been. With several processes (`share`), each gets its part of every batch.
"""

from __future__ import annotations

import math
import threading
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lemmata.core.blocks import Blocks, is_dask
from lemmata.core.validation import refuse_shrunk_file

Array = np.ndarray

FETCH = 4 * 2**20  # bytes of rows that are fetched at once: many small batches cost one call
POOLED = 2**17  # bytes from which on the memory of a fetch comes from the pool
BUFFERS = 6  # in a pool
ORDER, BATCH = 0, 1  # streams of random numbers that a seed is split into


class Batch(NamedTuple):
    """Rows of one batch that this process works on."""

    parts: tuple[Tensor, ...]
    weights: Tensor | None  # their mean over all rows of the data is 1
    rows: int  # in the whole batch, those of other processes included


class Share(NamedTuple):
    """This process among several."""

    rank: int = 0
    size: int = 1

    def of(self, rows: Any) -> Any:
        """The part of a batch that falls to this process."""
        if self.size == 1:
            return rows
        n = len(rows)
        return rows[self.rank * n // self.size : (self.rank + 1) * n // self.size]


ALONE = Share()


def seeds(seed: int, epoch: int, start: int = 0) -> Iterator[int]:
    """A seed for every batch of an epoch, from number `start` on."""
    page, first = divmod(start, 1024)
    while True:
        rng = np.random.default_rng((seed, epoch, BATCH, page))
        yield from rng.integers(2**63, size=1024)[first:].tolist()
        page, first = page + 1, 0


class Data:
    """Input of training, in batches. `validation`, if any, is data that is only evaluated."""

    n: int | None = None  # rows
    own_batches = False  # whether it is cut into batches already
    validation: Data | None = None
    labels: tuple[int, int] | None = None  # the smallest and the largest whole-number target

    def with_validation(self, validation: Data | None) -> Data:
        self.validation = validation
        return self

    def count(self, size: int) -> int | None:
        """Number of batches in an epoch; None if that is unknown."""
        raise TypeError(f"{type(self).__name__} is no data: define count.")

    def batches(
        self, seed: int, epoch: int, size: int, start: int = 0, share: Share = ALONE
    ) -> Iterator[Batch]:
        """The batches of an epoch from number `start` on, in the order that (seed, epoch) gives."""
        raise TypeError(f"{type(self).__name__} is no data: define batches.")

    def in_order(self, size: int) -> Iterator[Batch]:
        """All rows once, for measuring."""
        raise TypeError(f"{type(self).__name__} is no data: define in_order.")

    def fingerprint(self) -> str:
        raise TypeError(f"{type(self).__name__} is no data: define fingerprint.")

    def _with_validation(self, mark: str) -> str:
        return mark if self.validation is None else f"{mark} {self.validation.fingerprint()}"


class One(Data):
    """A single batch, to be measured."""

    def __init__(self, batch: Batch):
        self.batch = batch

    def in_order(self, size: int) -> Iterator[Batch]:
        yield self.batch


class BufferPool:
    """Tensors to fetch rows into, reused once no other tensor shares their memory: fresh pages cost as much as the copying."""

    def __init__(self) -> None:
        # each with the references to its memory while it is free
        self.buffers: list[tuple[Tensor, float]] = []
        self.lock = threading.Lock()

    def take(self, rows: int, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        """An uninitialised tensor for so many rows of this shape."""
        with self.lock:
            for tensor, free in self.buffers:
                fits = tensor.dtype == dtype and tensor.shape[1:] == shape
                if fits and len(tensor) >= rows and _count_references(tensor) == free:
                    return tensor[:rows]
            tensor = torch.empty((rows, *shape), dtype=dtype)
            self.buffers = [*self.buffers[1 - BUFFERS :], (tensor, _count_references(tensor))]
            return tensor[:rows]

    def __reduce__(self) -> Any:
        return BufferPool, ()  # a copy begins empty


def _count_references(tensor: Tensor) -> float:
    """Number of tensors that share this one's memory; NaN, which equals nothing, where torch cannot tell."""
    count = getattr(torch._C, "_storage_Use_Count", None)
    return math.nan if count is None else count(tensor.untyped_storage()._cdata)


class Rows(Data):
    """Arrays, mapped files or tensors of equal length, fetched row by row.

    Parameters
    ----------
    *parts : arrays, tensors or CSR matrices
        Inputs, and targets if there are any. Floats stay what they are; whole numbers become int64.
    weights : array of shape (n,), optional
        How much each row counts.
    shape : tuple, optional
        Of one input, where its rows are flat: (1, 28, 28).
    scale_bytes : bool, default=False
        Whether inputs of uint8 are images, to be scaled to [0, 1]; else they are whole numbers such as tokens.
    """

    def __init__(
        self,
        *parts: Any,
        weights: Any = None,
        shape: tuple[int, ...] | None = None,
        scale_bytes: bool = False,
    ):
        if not parts:
            raise ValueError("Rows of nothing: pass inputs, and targets if there are any.")
        lengths = {int(part.shape[0]) for part in parts}
        if len(lengths) > 1:
            raise ValueError(
                f"the parts have {', '.join(map(str, sorted(lengths)))} rows; all parts have as many."
            )
        self.n: int = lengths.pop()
        if self.n == 0:
            raise ValueError("Rows of length 0: there is nothing to learn from.")
        self.parts = tuple(_addressable(part) for part in parts)
        self.input_shape, self.scale_bytes = shape, scale_bytes
        self.whole_batches = False  # whether what is left at the end of an epoch is left out
        self._pool = BufferPool()
        self.weights = None if weights is None else _normalise(weights, self.n)
        target = self.parts[-1]
        if len(parts) > 1 and isinstance(target, torch.Tensor) and not target.is_floating_point():
            self.labels = int(target.min()), int(target.max())

    def count(self, size: int) -> int:
        return self.n // size if self.whole_batches else -(-self.n // size)

    def batches(self, seed, epoch, size, start=0, share=ALONE):
        order = np.random.default_rng((seed, epoch, ORDER)).permutation(self.n)
        if self.whole_batches:
            order = order[: self.n // size * size]
        yield from self._walk(order, size, start, share)

    def in_order(self, size):
        whole = self.n // size * size if self.whole_batches else 0
        yield from self._walk(np.arange(whole or self.n), size, 0, ALONE)

    def _walk(self, order: Array, size: int, start: int, share: Share) -> Iterator[Batch]:
        scaled = 4 if self.scale_bytes else 1
        width = sum(_bytes_per_row(part) for part in self.parts) * scaled
        group = max(1, FETCH // max(1, width * size))  # batches fetched together
        whole = [order[at : at + size] for at in range(start * size, len(order), size)]
        for first in range(0, len(whole), group):
            some = whole[first : first + group]
            mine = [share.of(rows) for rows in some]
            numbers = np.concatenate(mine)
            index = torch.from_numpy(numbers)
            lengths = [len(rows) for rows in mine]
            parts = [self._fetch(part, numbers, index) for part in self.parts]
            parts[0] = self._inputs(parts[0])
            pieces = zip(*(part.split(lengths) for part in parts), strict=True)
            weights = None if self.weights is None else self.weights[index].split(lengths)
            for i, piece in enumerate(pieces):
                yield Batch(piece, None if weights is None else weights[i], len(some[i]))

    def _inputs(self, x: Tensor) -> Tensor:
        """Inputs in the type and shape that the network takes."""
        if x.dtype == torch.uint8:
            x = self._scale(x) if self.scale_bytes else x.to(torch.int64)
        return x if self.input_shape is None else x.reshape(-1, *self.input_shape)

    def _scale(self, x: Tensor) -> Tensor:
        """Bytes as numbers from 0 to 1: copied, then divided, since torch would copy them for a division, too."""
        if 4 * x.numel() < POOLED:
            return x.float().div_(255.0)
        return self._pool.take(len(x), x.shape[1:], torch.float32).copy_(x).div_(255.0)

    def _fetch(self, part: Any, rows: Array, index: Tensor) -> Tensor:
        """Rows of a part; large ones into a buffer of the pool."""
        if not isinstance(part, torch.Tensor) or _bytes_per_row(part) * len(rows) < POOLED:
            return fetch_rows(part, rows, index)
        buffer = self._pool.take(len(rows), part.shape[1:], part.dtype)
        return torch.index_select(part, 0, index, out=buffer)

    def subset(self, rows: Array) -> Rows:
        """Some of the rows, copied where they are in memory, by number where they are in a file."""
        index = torch.from_numpy(rows)
        parts = [
            fetch_rows(part, rows, index) if isinstance(part, torch.Tensor) else Chosen(part, rows)
            for part in self.parts
        ]
        weights = None if self.weights is None else self.weights[index].numpy()
        return Rows(*parts, weights=weights, shape=self.input_shape, scale_bytes=self.scale_bytes)

    def fingerprint(self) -> str:
        crc = zlib.crc32(f"{self.n} {self.input_shape} {self.scale_bytes}".encode())
        for part in (*self.parts, self.weights):
            if part is not None:
                name = str(part.dtype).removeprefix("torch.")
                crc = zlib.crc32(f"{tuple(part.shape)} {name}".encode(), crc)
                for start in range(0, self.n, 2**14):
                    index = np.arange(start, min(start + 2**14, self.n))
                    rows = fetch_rows(part, index, torch.from_numpy(index))
                    crc = zlib.crc32(np.ascontiguousarray(rows.numpy()).data, crc)
        return self._with_validation(f"{crc:08x}")


class Chosen:
    """Some rows of a mapped file or a sparse matrix, fetched on demand."""

    def __init__(self, part: Any, rows: Array):
        self.part, self.rows = part, rows
        self.shape, self.dtype = (len(rows), *part.shape[1:]), part.dtype

    def __getitem__(self, rows: Array) -> Any:
        if isinstance(self.part, np.memmap):
            refuse_shrunk_file(self.part)
        found = self.part[self.rows[rows]]
        return np.asarray(found.todense()) if hasattr(found, "todense") else found


def _addressable(part: Any) -> Any:
    """A tensor that shares the memory of an array; a mapped file or a sparse matrix unchanged."""
    if isinstance(part, torch.Tensor):
        found = part.detach().cpu()
    elif isinstance(part, (np.memmap, Chosen)) or hasattr(part, "tocsr"):
        return part
    else:
        array = np.asarray(part)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"an array of {array.dtype}; a network takes numbers.")
        array = np.require(
            array, requirements=("A", "W") if array.flags.writeable else ("A", "W", "O")
        )
        found = torch.from_numpy(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))
    return found if found.is_floating_point() or found.dtype == torch.uint8 else found.long()


def fetch_rows(part: Any, rows: Array, index: Tensor) -> Tensor:
    if isinstance(part, torch.Tensor):
        return part.index_select(0, index)
    if hasattr(part, "tocsr"):
        return torch.from_numpy(np.asarray(part[rows].todense()))
    if isinstance(part, np.memmap):
        refuse_shrunk_file(part)
    found = torch.from_numpy(np.array(part[rows]))  # a copy: the file itself stays mapped
    return found if found.is_floating_point() or found.dtype == torch.uint8 else found.long()


def _bytes_per_row(part: Any) -> int:
    sizes = part.shape[1:]
    itemsize = part.element_size() if isinstance(part, torch.Tensor) else part.dtype.itemsize
    return int(np.prod(sizes, dtype=np.int64)) * int(itemsize)


def _normalise(weights: Any, n: int) -> Tensor:
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"weights of shape {weights.shape} for {n} rows; pass one number per row.")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError("weights are finite numbers >= 0, at least one of them positive.")
    return torch.from_numpy(weights / weights.mean())


def as_data(data: Any, shape: tuple[int, ...] | None = None) -> Data:
    """Convert `Data`, Blocks, an array or tensor, a tuple of them, or a DataLoader."""
    from lemmata.nets.data.streams import Loader, Stream

    if isinstance(data, Data):
        return data
    if isinstance(data, Blocks):
        raw = getattr(data._cut, "raw", data.source)  # images of bytes stay bytes
        if raw is None or is_dask(raw):
            return Stream(data, shape)
        parts = (raw,) if data.targets is None else (raw, data.targets)
        return Rows(*parts, weights=data.weights, shape=shape, scale_bytes=raw.dtype == np.uint8)
    if isinstance(data, torch.utils.data.DataLoader):
        return Loader(data)
    if isinstance(data, (tuple, list)):
        return Rows(*data, shape=shape)
    if hasattr(data, "shape"):
        return Rows(data, shape=shape)
    raise TypeError(
        f"data is a {type(data).__name__}; pass an array, a tuple of arrays (inputs, targets), Blocks, or a DataLoader."
    )
