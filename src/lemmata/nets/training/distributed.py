"""Several processes train one network, each on its part of every batch.

    torchrun --nproc-per-node 2 train.py           with, in train.py:

    with lemmata.nets.processes():                  # joins those that torchrun started; alone it does nothing
        NeuralClassifier(net, batch_size=256).fit(X, y)

Every process has the same weights and the whole data. Of a batch of B rows process r takes the r-th part, and the
gradients of the sum of losses are added up before each update, so that the update is that of one process with the whole
batch, to rounding. This is so for networks in which rows do not meet and nothing is drawn. What differs for others:

* batch normalisation takes the mean and variance of a process's own rows, so its statistics are those of B/processes
  rows (and each process has its own running means; those of the first are kept);
* dropout and augmentation draw from a stream of their own in each process: equal in distribution, not in bits.

The first process writes checkpoints and says when time is up; all read the same ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from lemmata.core.checkpoint import Checkpoint
from lemmata.core.loop import Stop
from lemmata.nets.data.batches import ALONE, Share


@contextmanager
def processes(backend: str | None = None) -> Iterator[Share]:
    """Join the processes that torchrun started, if it did, and part from them at the end."""
    begun = "WORLD_SIZE" in os.environ and not dist.is_initialized()
    if begun:
        dist.init_process_group(backend or ("nccl" if torch.cuda.is_available() else "gloo"))
    try:
        yield share()
    finally:
        if begun:
            dist.destroy_process_group()


def share() -> Share:
    """This process among those that train together."""
    if not (dist.is_available() and dist.is_initialized()):
        return ALONE
    return Share(dist.get_rank(), dist.get_world_size())


def agreed(value: Any) -> Any:
    """What the first process says, in all of them."""
    if share().size == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def add_up(tensors: list[Tensor]) -> None:
    """Replace tensors by their sums over all processes, in one message per dtype."""
    for dtype in {tensor.dtype for tensor in tensors}:
        some = [tensor for tensor in tensors if tensor.dtype == dtype]
        flat = torch.cat([tensor.reshape(-1) for tensor in some])
        dist.all_reduce(flat)
        for tensor, total in zip(some, flat.split([t.numel() for t in some]), strict=True):
            tensor.copy_(total.view_as(tensor))


def _meet() -> None:
    """Wait for all processes."""
    if share().size > 1:
        dist.barrier()


class Together(Stop):
    """A stopping rule that the first process decides for all: clocks differ."""

    def __init__(self, rule: Stop):
        self.rule = rule

    def reason(self, solution):
        return agreed(self.rule.reason(solution))


class SharedCheckpoint(Checkpoint):
    """A checkpoint that all processes read and the first one writes."""

    def resume(self, algorithm, data, rng):
        _meet()  # the first process may still be at work on the last file
        found = super().resume(algorithm, data, rng)
        _meet()  # nobody writes before everybody has read
        return found

    def _write(self, solution):
        if share().rank == 0:
            super()._write(solution)
