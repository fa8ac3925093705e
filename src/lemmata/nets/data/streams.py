"""Data that comes in its own order: streams of blocks, and torch's DataLoaders."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lemmata.core.blocks import Blocks
from lemmata.nets.data.batches import ALONE, ORDER, Batch, Data, Share, seeds
from lemmata.nets.training.devices import own_draws

Array = np.ndarray


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

    A resumed epoch reads the batches before `start` again, and drops them. Each of several processes has its own
    loader (with a DistributedSampler); all of them give batches of the same length.
    """

    own_batches = True

    def __init__(self, loader: Any):
        self.loader = loader
        self.n = len(loader.dataset) if hasattr(loader.dataset, "__len__") else None

    def count(self, size: int) -> int | None:
        try:
            return len(self.loader)
        except TypeError:  # an IterableDataset of unknown length
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
        f"the DataLoader gives a {type(found).__name__}; a batch is a tensor or a sequence of tensors."
    )
