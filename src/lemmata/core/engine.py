"""Doing the work: threads and clusters, kernels or their NumPy twins, and settings of the whole process.

`map_reduce` applies a function to every block and adds up the results in the order of the blocks.

    >>> import numpy as np
    >>> from lemmata.core.blocks import Blocks
    >>> data = Blocks.of(np.ones((1000, 3)))
    >>> map_reduce(lambda rows, weights: rows.sum(axis=0), data, start=0.0)
    array([1000., 1000., 1000.])

Threads here, a Dask cluster for dask arrays while a `distributed.Client` is open. Each block is worked on with one BLAS
thread and the sum runs in block order, so the result depends neither on the number of threads nor on that of workers.

`kernel` marks what numba compiles. To compile the kernels of a model takes some ten seconds, once per machine, so small data
does not wait for that: `worth_compiling` says when, and `pick` takes the kernels or their twins, without importing numba. The
choice is made once per fit, by the total size of the work alone: neither blocks nor what ran before can change a result.

    loops = pick(worth_compiling(work, above=2**26), "lemmata.topics.nmf")
    loops.sweep_into(W, P, G)        # of _kernels.py, or of _twins.py

`config` changes settings for a while. They live in the environment (LEMMATA_CERTIFICATE=0, LEMMATA_COMPILE=never), so that
processes started inside have them too; a worker that runs already, joblib's for instance, gets them with the model it is sent.

    >>> import lemmata
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> with lemmata.config(certificate=False):              # hot loops, grid searches
    ...     model = lemmata.PCA(2).fit(X)
    >>> model.certificate_.not_checked == [claim.name for claim in model.certificate_]
    True
    >>> model.certify(X).not_checked                        # certify(X) always checks
    []
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any

import numpy as np

from lemmata.core.blocks import Blocks, is_dask
from lemmata.core.validation import FINITE, NOT_NAN, refuse_result


def cores() -> int:
    """The number of cores that this process may use; LEMMATA_THREADS overrides it."""
    if asked := os.environ.get("LEMMATA_THREADS"):
        return max(1, int(asked))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_reduce(
    function: Callable[[Any, Any], Any], data: Blocks, start: Any, *, threads: int | None = None
) -> Any:
    """start + f(block 1) + f(block 2) + …, with the blocks worked on side by side."""
    total = start
    for part in _map_blocks(function, data, threads or cores()):
        total = total + part
    return total


def _map_blocks(function, data: Blocks, threads: int) -> Iterator[Any]:
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


# by process, since threads do not survive a fork, and size
_idle: dict[tuple[int, int], list[ThreadPoolExecutor]] = {}


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

    numba's own threads die with a fork (OpenMP) or with a second caller (workqueue); these do neither. The caller's thread is
    one of them, and each takes the next task that is left: to hand over every task by itself takes three times as long.
    """
    threads = min(cores(), count)
    if threads <= 1:
        for task in range(count):
            work(task)
        return
    left = iter(range(count))  # its next() is one step of the interpreter: no task is taken twice

    def take_tasks() -> None:
        try:
            for task in left:
                work(task)
        finally:
            deque(left, maxlen=0)  # after an error no thread begins another

    with _pool(threads - 1) as pool:
        futures = [pool.submit(take_tasks) for _ in range(threads - 1)]
        try:
            take_tasks()
            for future in futures:
                future.result()
        finally:
            wait(futures)  # nobody works on the arrays of a caller who has gone


# BLAS libraries whose threads are limited now, and how many they had
_lowered: list[tuple[Any, int]] = []
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


# Ways to use a fitted model: BLAS has one thread in them, as in a fit. Lists of recommendations end with NaN where fewer were
# found, so that those after the first two tables are not looked at.
USES = (
    *FINITE,
    *NOT_NAN,
    *("influence", "bic", "aic", "precision", "radius_neighbors", "translate", "nearest"),
    *("recommend", "similar_items", "similar_users"),
)


def alone(function: Callable, use: str = "") -> Callable:
    """The function with BLAS on one thread wherever it is called, on a worker of a cluster too.

    use : the name of a method of a model, which raises ValueError where its result would be NaN or infinite without a reason
    """

    @wraps(function)
    def work(*arguments: Any, **named: Any) -> Any:
        with one_blas_thread():
            result = function(*arguments, **named)
        if use and not all(map(is_finite, result if isinstance(result, tuple) else (result,))):
            refuse_result(use, result, *arguments, **named)
        return result

    work.on_one_thread = True  # type: ignore[attr-defined]
    return work


def is_finite(value: Any) -> bool:
    """Whether no float of an array, a table or this number is NaN or infinite; anything else is. One pass over it."""
    if not isinstance(value, np.ndarray | float | np.floating) and not hasattr(value, "to_numpy"):
        return True
    value = np.asarray(value)
    return value.dtype.kind != "f" or bool(np.isfinite(value).all())


# how many modules there were, and the libraries found then
_scanned: tuple[int, list[Any]] = (-1, [])


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

    known: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(known, "clear_controlling_thread"):
        known.clear_controlling_thread(force=True)


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

    for part, size in zip(X.to_delayed()[:, 0], X.chunks[0], strict=True):
        weights = None if data.weights is None else data.weights[start : start + size]
        work = alone(function)
        futures.append(client.submit(work, client.compute(part), weights, pure=False))
        start += size
    for future in futures:
        yield future.result()


# --- kernels, where they pay ------------------------------------------------------------------------------------------

COMPILE = "LEMMATA_COMPILE"
MODES = ("auto", "always", "never")


def worth_compiling(work: float, *, above: float) -> bool:
    """Whether kernels do so much work; `lemmata.config(compile="always")` or "never" decides it for every size."""
    mode = os.environ.get(COMPILE, "auto")
    if mode not in MODES:
        raise ValueError(f"{COMPILE}={mode!r} is not accepted; set auto, always or never.")
    return mode == "always" or (mode == "auto" and work > above)


def pick(compiled: bool, package: str, subject: str = "") -> Any:
    """The module of a package that does the work: `_kernels<subject>`, or `_twins<subject>` with the same functions in NumPy"""
    return import_module(f"{package}._{'kernels' if compiled else 'twins'}{subject}")


def kernel(function: Callable | None = None, **options: Any) -> Any:
    """numba's njit without the interpreter's lock, NumPy's division by zero, and a cache on disk where one can be written.

    @kernel
    @kernel(forceinline=True)
    """
    if function is None:
        return lambda marked: kernel(marked, **options)
    from numba import njit

    _announce_compiling()
    compiled = njit(nogil=True, error_model="numpy", **options)(function)
    try:
        compiled.enable_caching()
    except RuntimeError:  # numba found no folder that it may write to
        _heard["no cache"] = True
    return compiled


_heard: dict[str, bool] = {}  # what the one line about compiling depends on


def be_quiet() -> None:
    """Compile without the line; for callers that say themselves what takes so long."""
    _heard["said"] = True


def _announce_compiling() -> None:
    """One line on stderr when the first kernel of this process is compiled, rather than loaded from the cache."""
    if "listening" in _heard:
        return
    _heard["listening"] = True
    from numba.core import event

    class Announcement(event.Listener):
        def on_start(self, event: Any) -> None:
            module = str(event.data["dispatcher"].py_func.__module__)
            if module.startswith("lemmata.") and "said" not in _heard:
                _heard["said"] = True
                print(
                    f"lemmata: compiling once, some 10 seconds; {_hint()}.",
                    file=sys.stderr,
                    flush=True,
                )

        def on_end(self, event: Any) -> None:
            """The end needs no line."""

    event.register("numba:compile", Announcement())


def _hint() -> str:
    if "no cache" in _heard:
        return "nothing here can be written to, so every process compiles again: set NUMBA_CACHE_DIR to a folder that can"
    return "`lemmata warm` does it ahead"


# --- settings of the whole process ------------------------------------------------------------------------------------

CERTIFICATE = "LEMMATA_CERTIFICATE"
SEARCHES = "LEMMATA_SEARCHES"
MAIN_SHARE = "LEMMATA_SHARE"
SENT = (CERTIFICATE, SEARCHES, COMPILE, MAIN_SHARE)

_ever_changed = (
    threading.Event()
)  # a worker may have been started with settings that no longer hold


def checks_in_fit() -> bool:
    """Whether `fit` checks claims: unless LEMMATA_CERTIFICATE is 0."""
    return os.environ.get(CERTIFICATE, "1") != "0"


def searches_allowed() -> bool:
    """Whether claims may ask our solvers for witnesses: unless LEMMATA_SEARCHES is 0."""
    return os.environ.get(SEARCHES, "1") != "0"


def main_share() -> float:
    """The share of a fit's time that checking its main claim may take: 0.2, unless LEMMATA_SHARE says otherwise."""
    return float(os.environ.get(MAIN_SHARE, "0.2"))


@contextmanager
def config(
    *,
    certificate: bool | None = None,
    searches: bool | None = None,
    compile: str | None = None,
    main_share: float | None = None,
) -> Iterator[None]:
    """Change settings for a while, in this process and those it starts; what is None stays as it is.

    certificate : bool, optional
        False: every claim of `certificate_` says *not checked*, and a fit costs what its solver costs.
    searches : bool, optional
        False: no claim looks for better weights, centres or dual points with our solvers; some then can't tell.
    compile : {"auto", "always", "never"}, optional
        Which work is done by compiled kernels rather than by NumPy: "auto", what is large enough to be worth a compiler.
    main_share : float, optional
        The share of a fit's time that `fit` may spend on the main claim of its certificate, roughly; 0.2 by default.
    """
    switches = {"certificate": (CERTIFICATE, certificate), "searches": (SEARCHES, searches)}
    for name, (_, value) in switches.items():
        if not isinstance(value, bool | None):
            raise TypeError(f"{name}={value!r} is not accepted; pass True or False.")
    if compile is not None and compile not in MODES:
        raise ValueError(f"compile={compile!r} is not accepted; pass one of {', '.join(MODES)}.")
    changes = {where: str(int(value)) for where, value in switches.values() if value is not None}
    changes |= {} if compile is None else {COMPILE: compile}
    if main_share is not None:
        if not 0 <= main_share < float("inf"):
            raise ValueError(f"main_share={main_share!r} is not accepted; pass a number >= 0.")
        changes[MAIN_SHARE] = repr(float(main_share))
    _ever_changed.set()
    with _environment(changes):
        yield


@contextmanager
def _environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    _set_environment(changes)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def sent_along(received: Mapping[str, str | int] | None = None) -> Mapping[str, str | int]:
    """Return what a model takes with it to another process: the settings that were made here, and where here is.

    A worker passes on what it received from its parent; anybody else says what is set now. That nothing is set is sent too
    once `config` was used: a worker that was started inside of its block would keep those settings.
    """
    if received and received.get("sender") == os.getppid():
        return received
    made = {name: os.environ[name] for name in SENT if name in os.environ}
    return {**made, "sender": os.getpid()} if made or _ever_changed.is_set() else {}


@contextmanager
def as_sent(settings: Mapping[str, str | int]) -> Iterator[None]:
    """The settings that came with a model from the parent of this process; at home, or from a file, what is set now counts."""
    if not settings or settings.get("sender") != os.getppid():
        yield
        return
    with _environment({name: str(settings[name]) if name in settings else None for name in SENT}):
        yield
