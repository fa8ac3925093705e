"""Timing: systems take turns, so that a noisy minute hits all of them; medians, ratios, memory and quality are printed."""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np


def machine() -> None:
    """Print the speed of this machine, for reading the figures below."""
    A = np.ones((2048, 2048), np.float32)
    best = min(time_call(lambda: A @ A)[0] for _ in range(3))
    print(
        f"machine: {os.cpu_count()} cores, GEMM float32 {2 * 2048**3 / best / 1e9:.0f} GFLOP/s\n",
        flush=True,
    )


def compare(
    work: str,
    systems: dict[str, Callable[[], Any]],
    quality: Callable[[Any], float] | None = None,
    *,
    ours: str = "lemmata",
    target: float | None = None,
    least_quality: float = -np.inf,
    rounds: int = 5,
) -> None:
    """Run every system `rounds` times in turns and print a table; the target is our speed against the best peer.

    Peers below `least_quality` are shown but do not count. Systems whose first run takes over 8 s run twice.
    """
    for function in systems.values():
        run_quietly(function)  # warm-up: compilers, page faults, caches
    times: dict[str, list[float]] = {name: [] for name in systems}
    results: dict[str, Any] = {}
    added: dict[str, float] = {}
    for _ in range(rounds):
        for name, function in systems.items():
            if len(times[name]) >= 2 and times[name][0] > 8:
                continue
            results.pop(name, None)
            gc.collect()
            base = reset_peak()
            seconds, results[name] = time_call(function)
            times[name].append(seconds)
            added[name] = max(added.get(name, 0.0), memory("VmHWM") - base)
    reached = {name: quality(results[name]) if quality else np.nan for name in systems}
    medians = {name: statistics.median(values) for name, values in times.items()}
    peers = [
        n
        for n in systems
        if not n.startswith("lemmata") and n != ours and not reached[n] < least_quality
    ]
    best = min(peers, key=medians.get) if peers else None
    print(f"{work}")
    for name, seconds in sorted(medians.items(), key=lambda item: item[1]):
        note = (
            ""
            if name.startswith("lemmata") or name in peers
            else "  (below the quality asked for: does not count)"
        )
        figure = f"  quality {reached[name]:.6f}" if quality else ""
        print(
            f"  {name:<34}{seconds:9.3f} s  (best {min(times[name]):.3f})  +{added[name]:5.0f} MB{figure}{note}"
        )
    if best is not None:
        wanted = f"  (target ≥ {target}x)" if target else ""
        print(f"  → {medians[best] / medians[ours]:.2f}x the best peer, {best}{wanted}")
    print(flush=True)


def time_call(function: Callable[[], Any]) -> tuple[float, Any]:
    """Call a function: the seconds that it took, and its result."""
    begin = time.perf_counter()
    result = run_quietly(function)
    return time.perf_counter() - begin, result


def time_cpu(function: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of one call, and its result: for machines that do other things as well."""
    begin = time.process_time()
    result = function()
    return time.process_time() - begin, result


def run_quietly(function: Callable[[], Any]) -> Any:
    """Call a function without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


def memory(key: str) -> float:
    """VmRSS or VmHWM of this process in MB (0 where there is no /proc)."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith(key))
    except (OSError, StopIteration):
        return 0.0


def reset_peak() -> float:
    """Forget the high-water mark of memory; returns what is in use now."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass
    return memory("VmRSS")


def milliseconds(fits: dict[str, Callable[[], Any]], for_seconds: float = 1.0) -> dict[str, float]:
    """The best time of each, in turns."""
    best = dict.fromkeys(fits, float("inf"))
    for fit in fits.values():
        fit()
    end, rounds = time.perf_counter() + for_seconds, 0
    while time.perf_counter() < end or rounds < 5:
        for name, fit in fits.items():
            begin = time.perf_counter()
            fit()
            best[name] = min(best[name], 1e3 * (time.perf_counter() - begin))
        rounds += 1
    return best


def add_clocks(systems):
    """The same systems with a clock on each, and the seconds that the clocks have shown so far."""
    seen: dict[str, list[float]] = {name: [] for name in systems}

    def with_clock(name):
        def run():
            seconds, result = time_call(systems[name])
            seen[name].append(seconds)
            return result

        return run

    return {name: with_clock(name) for name in systems}, seen


def typical_seconds(seconds):
    """The median, without the run that warmed up."""
    return statistics.median(seconds[1:] or seconds)


def share_added(function, X):
    """The peak of memory during a call beyond what was in use before, as a share of X, and in MB. Call it once before.

    Memory that was freed but kept for later is given back first: else a call that takes it again would seem to take none.
    """
    gc.collect()
    with suppress(OSError, AttributeError):  # with another C library the figure may be too small
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    base = reset_peak()
    result = run_quietly(function)
    added = memory("VmHWM") - base
    del result
    return added / (X.nbytes / 2**20), added


def plan_training(fit: Callable[[int, int], Any], rows: int, minutes: float) -> tuple[int, int]:
    """Rows and epochs that fit(rows, epochs) trains in so many minutes of CPU, by the seconds that more rows take."""
    some, seconds = max(rows // 100, 1), []
    fit(some, 1)  # warms up
    for count in (some, 3 * some):
        begin = time.process_time()
        fit(count, 1)
        seconds.append(time.process_time() - begin)
    total = int(2 * some * 60 * minutes / max(seconds[1] - seconds[0], 1e-3))
    epochs = max(1, round(total / rows))
    return min(rows, max(some, total // epochs)), epochs
