"""map_reduce: apply a function to every block and add up the results in the order of the blocks.

    >>> import numpy as np
    >>> from lemmata.core.blocks import Blocks
    >>> data = Blocks.of(np.ones((1000, 3)))
    >>> map_reduce(lambda rows, weights: rows.sum(axis=0), data, start=0.0)
    array([1000., 1000., 1000.])

Threads here, a Dask cluster for dask arrays while a `distributed.Client` is open. Each block is worked on with one BLAS
thread and the sum runs in block order, so the result depends neither on the number of threads nor on that of workers.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from lemmata.core.blocks import Blocks, checked_block, is_dask


def cores() -> int:
    """How many cores this process may use; LEMMATA_THREADS overrides it."""
    asked = os.environ.get("LEMMATA_THREADS")
    return (
        max(1, int(asked))
        if asked
        else len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )


def map_reduce(
    function: Callable[[Any, Any], Any], data: Blocks, start: Any, *, threads: int | None = None
) -> Any:
    """start + f(block 1) + f(block 2) + …, with the blocks worked on side by side."""
    total = start
    for part in _mapped(function, data, threads or cores()):
        total = total + part
    return total


def _mapped(function, data: Blocks, threads: int) -> Iterator[Any]:
    client = _client() if is_dask(data.source) else None
    if client is not None:
        yield from _on_cluster(client, function, data)
    elif data.n_blocks == 1:
        for rows, weights in data:
            yield function(rows, weights)
    else:
        with one_blas_thread():
            yield from _on_threads(function, data, threads)


def _on_threads(function, pairs: Iterable, threads: int) -> Iterator[Any]:
    """Results in the order of the blocks, at most threads + 1 of them in memory."""
    if threads == 1:
        for rows, weights in pairs:
            yield function(rows, weights)
        return
    pending: deque = deque()
    with _pool(threads) as pool:
        try:
            for rows, weights in pairs:
                pending.append(pool.submit(function, rows, weights))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
            wait(pending)  # nobody works on the data of a caller who has gone


_idle: dict[
    tuple[int, int], list[ThreadPoolExecutor]
] = {}  # by process, since threads do not survive a fork, and size


@contextmanager
def _pool(threads: int):
    """Some threads: idle ones, or new ones where all are busy. To start them for every pass takes longer than a small pass."""
    idle = _idle.setdefault((os.getpid(), threads), [])
    try:
        pool = idle.pop()
    except IndexError:
        pool = ThreadPoolExecutor(threads, thread_name_prefix="lemmata")
    try:
        yield pool
    finally:
        idle.append(pool)


def run_tasks(work: Callable[[int], Any], count: int) -> None:
    """work(0), …, work(count − 1) side by side on our own threads, for kernels that let go of the interpreter's lock.

    numba's own threads die with a fork (OpenMP) or with a second caller (workqueue); these do neither.
    """
    threads = cores()
    if threads == 1 or count <= 1:
        for task in range(count):
            work(task)
        return
    with _pool(threads) as pool:
        futures = [pool.submit(work, task) for task in range(count)]
        try:
            for future in futures:
                future.result()
        finally:
            for future in futures:
                future.cancel()
            wait(futures)  # nobody works on the arrays of a caller who has gone


_lowered: list[
    tuple[Any, int]
] = []  # BLAS libraries whose threads are limited now, and how many they had
_inside = 0
_door = threading.Lock()


@contextmanager
def one_blas_thread():
    """BLAS on one thread, for work that is parallel already.

    The limit is the process's and callers overlap (threads of a Dask worker, fits side by side): the first one in sets it,
    the last one out lifts it.
    """
    global _inside
    with _door:
        _inside += 1
        if _inside == 1:
            had = [(one, one.get_num_threads()) for one in _blas()]
            _lowered[:] = [(one, threads) for one, threads in had if threads not in (1, None)]
            _set_threads([(one, 1) for one, _ in _lowered])
    try:
        yield
    finally:
        with _door:
            _inside -= 1
            if _inside == 0 and _lowered:
                _set_threads(_lowered)
                _lowered.clear()
                _let_this_thread_set_limits()


_scanned: tuple[int, list[Any]] = (
    -1,
    [],
)  # how many modules there were, and the libraries found then


def _blas() -> list[Any]:
    """The BLAS libraries of this process. To look for them takes 3 ms, so it is done again only after further imports."""
    global _scanned
    if _scanned[0] != len(sys.modules):
        from threadpoolctl import ThreadpoolController

        found = ThreadpoolController().lib_controllers
        _scanned = len(sys.modules), [one for one in found if one.user_api == "blas"]
    return _scanned[1]


def _set_threads(wanted: list[tuple[Any, int]]) -> None:
    """Give libraries their numbers of threads. threadpoolctl's own `limit` describes each of them first, every time."""
    if wanted:
        _let_this_thread_set_limits()
    for one, threads in wanted:
        one.set_num_threads(threads)


def _let_this_thread_set_limits() -> None:
    """From 3.8 on threadpoolctl ignores all threads but the first that set a limit, until that one lifts it."""
    import threadpoolctl

    release = getattr(
        getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None
    )
    if release is not None:
        release(force=True)


def _client():
    """The open Dask client, if any, without importing dask for those who do not use it."""
    if "distributed" not in sys.modules:
        return None
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        return None


def _on_cluster(client, function, data: Blocks) -> Iterator[Any]:
    X, start, futures = data.source, 0, []
    width, dtype, allow_nan = data.shape[1], data.dtype, data.allow_nan

    def work(block, weights, first_row):
        with one_blas_thread():
            return function(checked_block(block, width, dtype, allow_nan, first_row), weights)

    for part, size in zip(X.to_delayed()[:, 0], X.chunks[0], strict=True):
        weights = None if data.weights is None else data.weights[start : start + size]
        futures.append(client.submit(work, client.compute(part), weights, start, pure=False))
        start += size
    for future in futures:
        yield future.result()
