"""Data of a network in batches whose order follows from (seed, epoch) alone: arrays, mapped files, blocks, DataLoaders.

    >>> import numpy as np
    >>> data = as_data((np.arange(10.0).reshape(5, 2), np.array([0, 1, 0, 1, 1])))
    >>> [[tuple(part.shape) for part in batch.parts] for batch in data.batches(seed=0, epoch=3, size=2)]
    [[(2, 2), (2,)], [(2, 2), (2,)], [(1, 2), (1,)]]

The batches of an epoch can begin anywhere (`start`), so a run stopped between two batches goes on as if it had not
been. Of several processes (`share`) each gets its part of every batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lemmata.core.blocks import Blocks, is_dask
from lemmata.core.malformed import refuse_shrunk_file
from lemmata.nets.seeding import own_draws

Array = np.ndarray

GATHERED = 4 * 2**20  # bytes of rows that are fetched at once: many small batches cost one call
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
    page = start // 1024
    while True:
        rng = np.random.default_rng((seed, epoch, BATCH, page))
        yield from rng.integers(2**63, size=1024)[
            start % 1024 if page == start // 1024 else 0 :
        ].tolist()
        page += 1


class Data:
    """What training reads. `validation`, if any, is data that it only looks at."""

    n: int | None = None  # rows
    validation: Data | None = None
    labels: tuple[int, int] | None = None  # the smallest and the largest whole-number target

    def with_validation(self, validation: Data | None) -> Data:
        self.validation = validation
        return self

    def count(self, size: int) -> int | None:
        """How many batches an epoch has; None if nobody knows."""
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
                f"the parts have {', '.join(map(str, sorted(lengths)))} rows; all parts have as "
                "many."
            )
        self.n: int = lengths.pop()
        if self.n == 0:
            raise ValueError("Rows of length 0: there is nothing to learn from.")
        self.parts = tuple(_addressable(part) for part in parts)
        self.input_shape, self.scale_bytes = shape, scale_bytes
        self.weights = None if weights is None else _normalised(weights, self.n)
        target = self.parts[-1]
        if len(parts) > 1 and isinstance(target, torch.Tensor) and not target.is_floating_point():
            self.labels = int(target.min()), int(target.max())

    def count(self, size: int) -> int:
        return -(-self.n // size)

    def batches(self, seed, epoch, size, start=0, share=ALONE):
        order = np.random.default_rng((seed, epoch, ORDER)).permutation(self.n)
        yield from self._walk(order, size, start, share)

    def in_order(self, size):
        yield from self._walk(np.arange(self.n), size, 0, ALONE)

    def _walk(self, order: Array, size: int, start: int, share: Share) -> Iterator[Batch]:
        width = sum(_bytes_per_row(part) for part in self.parts)
        group = max(1, GATHERED // max(1, width * size))  # batches fetched together
        whole = [order[at : at + size] for at in range(start * size, len(order), size)]
        for first in range(0, len(whole), group):
            some = whole[first : first + group]
            mine = [share.of(rows) for rows in some]
            parts, weights = self.take(np.concatenate(mine))
            lengths = [len(rows) for rows in mine]
            pieces = [part.split(lengths) for part in parts]
            weighing = None if weights is None else weights.split(lengths)
            for i, rows in enumerate(some):
                own = None if weighing is None else weighing[i]
                yield Batch(tuple(piece[i] for piece in pieces), own, len(rows))

    def take(self, rows: Array) -> tuple[tuple[Tensor, ...], Tensor | None]:
        """Some rows of all parts, and their weights."""
        index = torch.from_numpy(rows)
        parts = [_fetched(part, rows, index) for part in self.parts]
        x = parts[0]
        if x.dtype == torch.uint8:
            x = x.to(torch.float32).div_(255.0) if self.scale_bytes else x.to(torch.int64)
        if self.input_shape is not None:
            x = x.reshape(-1, *self.input_shape)
        parts[0] = x
        return tuple(parts), None if self.weights is None else self.weights[index]

    def subset(self, rows: Array) -> Rows:
        """Some of the rows, copied where they are in memory, by number where they are in a file."""
        index = torch.from_numpy(rows)
        parts = [
            _fetched(part, rows, index) if isinstance(part, torch.Tensor) else Chosen(part, rows)
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
                    rows = _fetched(part, index, torch.from_numpy(index))
                    crc = zlib.crc32(np.ascontiguousarray(rows.numpy()).data, crc)
        return self._with_validation(f"{crc:08x}")


class Chosen:
    """Some rows of a mapped file or a sparse matrix, fetched when they are asked for."""

    def __init__(self, part: Any, rows: Array):
        self.part, self.rows = part, rows
        self.shape, self.dtype = (len(rows), *part.shape[1:]), part.dtype

    def __getitem__(self, rows: Array) -> Any:
        if isinstance(self.part, np.memmap):
            refuse_shrunk_file(self.part)
        found = self.part[self.rows[rows]]
        return np.asarray(found.todense()) if hasattr(found, "todense") else found


def _addressable(part: Any) -> Any:
    """A tensor that shares its memory where there is one; a mapped file or a sparse matrix as it is."""
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


def _fetched(part: Any, rows: Array, index: Tensor) -> Tensor:
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


def _normalised(weights: Any, n: int) -> Tensor:
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"weights of shape {weights.shape} for {n} rows; pass one number per row.")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError("weights are finite numbers >= 0, at least one of them positive.")
    return torch.from_numpy(weights / weights.mean())


class Stream(Data):
    """Blocks that can only be read one after the other: rows are shuffled within a block, blocks come in their own order."""

    def __init__(self, blocks: Blocks, shape: tuple[int, ...] | None = None):
        self.blocks, self.input_shape, self.n = blocks, shape, blocks.shape[0]
        self.sizes = [rows.shape[0] for rows, _ in blocks]
        targets = blocks.targets
        if targets is not None and targets.dtype.kind in "iu":
            self.labels = int(targets.min()), int(targets.max())
        self.scale = 1.0 if blocks.weights is None else float(np.mean(blocks.weights))

    def count(self, size: int) -> int:
        return sum(-(-rows // size) for rows in self.sizes)

    def batches(self, seed, epoch, size, start=0, share=ALONE):
        yield from self._walk(size, start, share, (seed, epoch))

    def in_order(self, size):
        yield from self._walk(size, 0, ALONE, None)

    def _walk(
        self, size: int, start: int, share: Share, shuffled: tuple[int, int] | None
    ) -> Iterator[Batch]:
        row, number = 0, 0
        for at, (block, weights) in enumerate(self.blocks):
            n = block.shape[0]
            inside = -(-n // size)
            if number + inside > start:
                order = np.arange(n)
                if shuffled is not None:
                    order = np.random.default_rng((*shuffled, ORDER, at)).permutation(n)
                dense = block.toarray() if hasattr(block, "toarray") else block
                for first in range(max(start - number, 0) * size, n, size):
                    whole = order[first : first + size]
                    yield self._batch(dense, weights, share.of(whole), row, len(whole))
            row, number = row + n, number + inside

    def _batch(self, block: Array, weights: Any, rows: Array, row: int, whole: int) -> Batch:
        x = torch.from_numpy(np.ascontiguousarray(block[rows]))
        parts = [x if self.input_shape is None else x.reshape(-1, *self.input_shape)]
        if self.blocks.targets is not None:
            y = torch.from_numpy(np.ascontiguousarray(self.blocks.targets[row + rows]))
            parts.append(y if y.is_floating_point() else y.long())
        own = None if weights is None else torch.from_numpy(weights[rows] / self.scale)
        return Batch(tuple(parts), own, whole)

    def fingerprint(self) -> str:
        return self._with_validation(self.blocks.fingerprint())


class Loader(Data):
    """A torch DataLoader: its own batches, in the order that its sampler draws from a seed of (seed, epoch).

    A resumed epoch reads the batches before `start` again, to throw them away. Of several processes each has its own
    loader (with a DistributedSampler); all of them give batches of the same length.
    """

    def __init__(self, loader: Any):
        self.loader = loader
        self.n = len(loader.dataset) if hasattr(loader.dataset, "__len__") else None

    def count(self, size: int) -> int | None:
        try:
            return len(self.loader)
        except TypeError:  # an IterableDataset that does not say how long it is
            return None

    def batches(self, seed, epoch, size, start=0, share=ALONE):
        if hasattr(getattr(self.loader, "sampler", None), "set_epoch"):
            self.loader.sampler.set_epoch(epoch)
        drawn = int(np.random.default_rng((seed, epoch, ORDER)).integers(2**63))
        if self.loader.generator is not None:
            self.loader.generator.manual_seed(drawn)
        own = seeds(drawn, epoch)
        torch.default_generator.manual_seed(drawn)
        reading = iter(self.loader)
        for number in range(2**62):
            torch.default_generator.manual_seed(next(own))  # for what the data set draws
            found = next(reading, None)
            if found is None:
                return
            if number >= start:
                parts = _as_parts(found)
                yield Batch(parts, None, len(parts[0]) * share.size)

    def in_order(self, size):
        yield from self.batches(0, 0, size)

    def fingerprint(self) -> str:
        with own_draws():
            first = next(iter(self.batches(0, 0, 1)), None)
        crc = zlib.crc32(f"{self.n} {self.count(1)}".encode())
        for part in first.parts if first is not None else ():
            crc = zlib.crc32(np.ascontiguousarray(part.numpy()).data, crc)
        return self._with_validation(f"{crc:08x}")


def _as_parts(found: Any) -> tuple[Tensor, ...]:
    if isinstance(found, torch.Tensor):
        return (found,)
    if isinstance(found, Sequence) and all(isinstance(part, torch.Tensor) for part in found):
        return tuple(found)
    raise TypeError(
        f"the DataLoader gives a {type(found).__name__}; a batch is a tensor or a sequence of "
        "tensors."
    )


def as_data(data: Any, shape: tuple[int, ...] | None = None) -> Data:
    """Data of anything training takes: `Data`, Blocks, an array or tensor, a tuple of them, a DataLoader."""
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
        f"data is a {type(data).__name__}; pass an array, a tuple of arrays (inputs, targets), "
        "Blocks, or a DataLoader."
    )
