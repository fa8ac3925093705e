"""Entries spread over a Dask cluster: each half-sweep is a map over blocks of rows or columns.

    folder (shared by all machines) ──mapped──> a worker's block of rows  ┐
    the other factor ──into the folder, mapped──> every worker            ┴─> its block of the new factor ──> client

Workers read their blocks from a folder written by `Observed.save`, and what is sent along lies there too while a half-sweep
lasts. So nothing large passes through the scheduler, worker processes of one machine share one copy of the factor, and a
task depends on files alone: what a worker takes with it when it dies is done again by another one. (Dask's own scatter hangs
on a worker that has just died.) Every row is solved by one task, whoever runs it, so the factors have the bits of a run on one
machine. docs/scale.md counts flops, bytes and memory.

    with Client(cluster):                                         # dask.distributed
        model = ALS(rank=64).fit(Distributed.spread(ratings, "/shared/ratings"))
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.completion.observed import Entries, Observed

Array = np.ndarray

BLOCKS_PER_THREAD = 4  # blocks of equal work still differ in time: with a few per thread nobody waits long at the end


# NumPy reads the head of a file by `ast`, which CPython 3.11 does not let two threads of a worker do at once
_reading = threading.Lock()


def _map(path: Any) -> Array:
    with _reading:
        return np.load(path, mmap_mode="r")


class Sent(NamedTuple):
    """An array that lies in a file."""

    path: str

    def rows(self, here: slice = slice(None)) -> Array:
        return _map(self.path)[here]


class Distributed(Observed):
    """The entries in a folder, worked on by the workers of a Dask client. Takes the place of an `Observed` in `fit`.

    Parameters
    ----------
    folder : path
        Written by `Observed.save`, readable under the same path by every worker.
    client : dask.distributed.Client, optional
        By default the one that is open.
    """

    def __init__(self, folder: Any, client: Any = None):
        here = Observed.open(folder)
        super().__init__(
            here.by_row, here.by_column, here.shape, here.row_labels, here.column_labels
        )
        self.folder, self.client = Path(folder).resolve(), client or _open_client()
        n_blocks = BLOCKS_PER_THREAD * max(1, sum(self.client.nthreads().values()))
        self._cuts = {
            order: _equal_work(getattr(here, order).indptr, n_blocks)
            for order in ("by_row", "by_column")
        }

    @classmethod
    def spread(cls, X: Any, folder: Any, client: Any = None) -> Distributed:
        """Write entries (whatever `Observed.of` takes) into the folder and let the workers have them."""
        Observed.of(X).save(folder)
        return cls(folder, client)

    @property
    def local(self) -> Observed:
        """The same entries, mapped into this process."""
        return Observed(
            self.by_row, self.by_column, self.shape, self.row_labels, self.column_labels
        )

    @property
    def T(self) -> Observed:
        return self.local.T

    def over_rows(self, function: Callable, *shared: Any, aligned: Sequence[Array] = ()) -> Any:
        """`Observed.over_rows`, one task per block of rows."""
        return self._over("by_row", function, shared, aligned)

    def over_columns(self, function: Callable, *shared: Any, aligned: Sequence[Array] = ()) -> Any:
        return self._over("by_column", function, shared, aligned)

    def _over(self, order: str, function: Callable, shared: tuple, aligned: Sequence[Array]) -> Any:
        with tempfile.TemporaryDirectory(prefix="sent-", dir=self.folder) as letters:
            sent = [
                _send(value, Path(letters) / f"{i}.npy")
                for i, value in enumerate((*shared, *aligned))
            ]
            call = function, sent[: len(shared)], sent[len(shared) :]
            parts = self.client.gather(
                [
                    self.client.submit(_work, str(self.folder), order, *cut, *call, pure=False)
                    for cut in self._cuts[order]
                ]
            )
        if isinstance(parts[0], tuple):
            return tuple(np.concatenate(items) for items in zip(*parts, strict=True))
        return np.concatenate(parts)


def _send(value: Any, path: Path) -> Any:
    """A value as it travels: arrays as files, the rest as it is."""
    if not isinstance(value, np.ndarray):
        return value
    np.save(path, value)
    return Sent(str(path))


def _work(
    folder: str, order: str, start: int, stop: int, function: Callable, shared: list, aligned: list
) -> Any:
    """One block on a worker: what it needs is mapped, its kernels run on one thread (the worker has its own threads)."""
    os.environ.setdefault("LEMMATA_THREADS", "1")
    whole = [value.rows() if isinstance(value, Sent) else value for value in shared]
    cut = [value.rows(slice(start, stop)) for value in aligned]
    return function(_entries(folder, order, start, stop), *whole, *cut)


def _entries(folder: str, order: str, start: int, stop: int) -> Entries:
    """Rows start … stop − 1 of an order, from the files; only their pages are read."""
    indptr, indices, values = (
        _map(Path(folder) / f"{order}-{name}.npy") for name in Entries._fields
    )
    pointers = np.asarray(indptr[start : stop + 1])
    here = slice(int(pointers[0]), int(pointers[-1]))
    return Entries(pointers - pointers[0], indices[here], values[here])


def _equal_work(indptr: Array, n_blocks: int) -> list[tuple[int, int]]:
    """Ranges of rows with about equally many entries (a row counts as one more: empty rows cost time too)."""
    work = np.asarray(indptr) + np.arange(len(indptr))
    wanted = np.linspace(0, work[-1], n_blocks + 1)[1:-1]
    cuts = np.unique(np.r_[0, np.searchsorted(work, wanted), len(indptr) - 1]).tolist()
    return list(itertools.pairwise(cuts))


def _open_client() -> Any:
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        raise ValueError(
            "there is no open Dask client; make one with distributed.Client(...), or pass client=."
        ) from None
