"""Numba, where it pays: `kernel` marks what is compiled, `worth_compiling` says when, `pick` takes the kernels or their twins.

To compile the kernels of a model takes some ten seconds, once per machine. Small data does not wait for that: below a size
found by measurement the NumPy twin of a kernel does the work, and numba is not even imported. The choice is made once per
fit, by the total size of the work and by nothing else, so that neither blocks nor what ran before can change a result.

    loops = pick(worth_compiling(work, above=2**26), "lemmata.topics.nmf")
    loops.sweep_into(W, P, G)        # of _kernels.py, or of _twins.py
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

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
