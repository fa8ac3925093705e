"""Forged files: one number, text, list, name or array altered, the hash made right again, then opened and used.

    python -m tools.forge --count 10000 --seed 24 [--only KMeans Gibbs] [--show refused]

True files, written once: every model and variant of tests/conformance, some networks, checkpoints of every model half-way and
of every algorithm; each by kernels and by their twins. A forgery is opened in a process of its own, forked from this one,
which has done the same with the true file: a model is loaded, asked everything and saved, a checkpoint resumed.

    refused   with a ValueError on opening, or later by a line of ours that says why
    works     whatever the numbers are worth
    error     opened, then a Python error         dead, memory, slow   a signal; 1 GB more than here; --seconds of work

Exit 1 where something was dead, took too much memory or too long. Under NUMBA_BOUNDSCHECK=1 (with a NUMBA_CACHE_DIR of its own)
kernels that read beside their arrays are errors as well.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import select
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import lemmata
from lemmata.core.files.encoding import hash_of, json_of

GIGABYTE = 2**30
WAITS = 20  # times the seconds of work that a process may take, until it is ended
OUTCOMES = ("refused", "works", "error", "dead", "memory", "slow")
Rng = np.random.Generator

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "reliability"))
true_files = import_module("true_files")


# --- forgeries --------------------------------------------------------------------------------------------------------

NUMBERS = (-1, 0, 1, 2, 7, 4000, 2**20, 2**31, 2**62, 2**64, 10**30, 1e-300, 1e300, True)
TEXTS = ("", "nan", "os.system", "(a|aa)+$", r"(\w+\s?)*$", "x" * 100_000, "Network", "float32")
ENTRIES = (-1, 0, 1, 10**9, 2**31 - 1, -(2**31), 2**62, np.nan, np.inf, 1e300)
HOW = (
    "one",
    "one",
    "one",
    "all",
    "dtype",
    "short",
    "long",
    "empty",
    "flat",
    "axis",
    "turned",
    "order",
)
DTYPES = ("int8", "int32", "int64", "uint64", "float16", "float32", "float64", "bool")


def forge(raw: bytes, rng: Rng) -> tuple[bytes, str]:
    """A file with one thing altered, and what that is."""
    from safetensors.numpy import load, save

    header, arrays = raw[8 : 8 + int.from_bytes(raw[:8], "little")], load(raw)
    manifest = json.loads(json.loads(header)["__metadata__"]["lemmata"])
    del manifest["hash"]
    places = list(_places(manifest["content"], ""))
    if arrays and rng.random() < 0.45:
        key = _pick(rng, sorted(arrays))
        where = next((name for holder, at, name in places if holder[at] == key), key)
        arrays[key], what = _alter_array(arrays[key], rng)
    else:
        where, what = _alter_manifest(places, arrays, rng)
    manifest["hash"] = hash_of(manifest, arrays)
    return save(arrays, metadata={"lemmata": json_of(manifest).decode()}), f"{where}: {what}"


def _pick(rng: Rng, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def _alter_array(x: np.ndarray, rng: Rng) -> tuple[np.ndarray, str]:
    """One entry or all of them, fewer or more, in another shape, type or order."""
    how = _pick(rng, HOW)
    x, axis = np.atleast_1d(x), int(rng.integers(max(x.ndim, 1)))
    if how in ("one", "all"):
        value = _pick(rng, (*ENTRIES, x.size, len(x)))
        chosen = rng.integers(max(x.size, 1)) if how == "one" and x.size else slice(None)
        x = x.copy()
        with np.errstate(all="ignore"):
            x.flat[chosen] = np.asarray(value).astype(x.dtype)
        return x, f"{how} = {value}"
    cut, dtype = int(rng.integers(x.shape[axis] or 1)), _pick(rng, DTYPES)
    with np.errstate(all="ignore"):
        made = {
            "dtype": lambda: x.astype(dtype),
            "short": lambda: np.delete(x, slice(cut, None), axis),
            "long": lambda: np.concatenate([x, x, x], axis=axis),
            "empty": lambda: x[:0],
            "flat": lambda: x.ravel(),
            "axis": lambda: x[None],
            "turned": lambda: x.T,
            "order": lambda: rng.permutation(x.ravel()).reshape(x.shape),
        }[how]()
    return np.ascontiguousarray(made), f"{how} {x.dtype} {x.shape} -> {made.dtype} {made.shape}"


def _alter_manifest(places: list, arrays: dict, rng: Rng) -> tuple[str, str]:
    """Another number, text or length, another part of the file instead, or nothing."""
    kind = _pick(rng, ((int, float), str, list, dict, object))
    holder, key, where = _pick(rng, [p for p in places if isinstance(p[0][p[1]], kind)] or places)
    old, others = holder[key], [one[0][one[1]] for one in places]
    if kind is object or isinstance(old, dict) or old is None:
        new = _pick(rng, (None, 0, "x", [], *[_pick(rng, others) for _ in range(4)]))
    elif isinstance(old, str):
        new = _pick(rng, (*TEXTS, *(one for one in others if isinstance(one, str))))
    elif isinstance(old, list):
        new = _pick(rng, (old[:-1], old[1:], [], old * 2, old * 1000, [1] * 2**18, [old]))
    else:
        new = _pick(rng, (*NUMBERS, old * 300, old + 1, -old, {"$": "float", "value": "nan"}))
    if isinstance(holder, dict) and rng.random() < 0.1:
        del holder[key]
        return where, "absent"
    holder[key] = _copy(new, arrays)
    return where, f"{str(old)[:40]} -> {str(new)[:40]}"


def _places(value: Any, where: str) -> Iterator[tuple[Any, Any, str]]:
    """Every place in a manifest: what holds it, its key there, and its name."""
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        named = isinstance(value, list) and key == 1 and isinstance(value[0], str)
        name = f"{where}.{value[0] if named else key}"
        yield value, key, name.replace(".items", "").replace(".fields", "")
        if isinstance(inner, (dict, list)):
            yield from _places(inner, name)


def _copy(value: Any, arrays: dict) -> Any:
    """A part of the file once more, its arrays under names of their own, since none may be named twice."""
    if isinstance(value, list):
        return [_copy(item, arrays) for item in value]
    found = {k: _copy(v, arrays) for k, v in value.items()} if isinstance(value, dict) else value
    for key in {"key", "text", "ends"} & set(found if isinstance(found, dict) else ()):
        if isinstance(found[key], str) and found[key] in arrays:
            arrays[name := f"b{len(arrays)}"] = arrays[found[key]]
            found[key] = name
    return found


# --- opening them -----------------------------------------------------------------------------------------------------


def attempt_in_child(source: Any, path: Path, seconds: float) -> tuple[str, str, float]:
    """The outcome in a process of its own, and the megabytes that it took beyond those of this one."""
    size, resident, shared = map(int, Path("/proc/self/statm").read_text().split()[:3])
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        most = size * resource.getpagesize() + 4 * GIGABYTE
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        # of its own work: on a busy machine nothing else tells a loop without end from a process that waits
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 1))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        found = true_files.attempt(source, path)
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], WAITS * seconds)
    said = os.read(reading, 4096) if ready else b""
    os.close(reading)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    # pages of libraries are not in a child before it uses them: counted as its own
    taken = usage.ru_maxrss / 1024 - (resident - shared) * resource.getpagesize() / 2**20
    slow = not ready or os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
    outcome, message = json.loads(said) if said else ("slow" if slow else "dead", str(status))
    return ("memory" if taken * 2**20 > GIGABYTE else outcome), message, taken


def forge_all(found: list[Any], count: int, seed: int, folder: Path, seconds: float = 20.0):
    """(source, what was altered, outcome, message, megabytes, seconds) of one forgery after the other."""
    for i in range(count):
        rng, source, began = np.random.default_rng([seed, i]), found[i % len(found)], time.time()
        raw, what = forge(source.raw, rng)
        (folder / "forged").write_bytes(raw)
        with lemmata.config(compile=source.mode):
            rest = attempt_in_child(source, folder / "forged", seconds)
        yield source, f"#{i} {what}", *rest, time.time() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", nargs="*", default=[], help="words of the names of sources")
    parser.add_argument("--show", nargs="*", default=OUTCOMES[2:], choices=OUTCOMES)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ.update(LEMMATA_THREADS="1", LEMMATA_CERTIFICATE="0")
    began, counts, largest, longest = time.time(), Counter(), 0.0, 0.0
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None  # saving waits for the disk
    with tempfile.TemporaryDirectory(dir=shared) as place:
        found = list(true_files.sources(Path(place), asked.only))
        print(f"{len(found)} true files in {time.time() - began:.0f} s", flush=True)
        every = forge_all(found, asked.count, asked.seed, Path(place), asked.seconds)
        for source, what, outcome, message, size, took in every:
            counts[source.kind, outcome] += 1
            largest, longest = max(largest, size), max(longest, took)
            if outcome in asked.show:
                print(
                    outcome, *source[:3], what, message, f"{size:.0f} MB {took:.1f} s", flush=True
                )
    kinds = sorted({kind for kind, _ in counts})
    print("".ljust(11), *(word.rjust(8) for word in OUTCOMES))
    for name, those in [*((kind, [kind]) for kind in kinds), ("all", kinds)]:
        print(name.ljust(11), *(f"{sum(counts[k, o] for k in those):8,}" for o in OUTCOMES))
    print(f"largest {largest:.0f} MB, longest {longest:.1f} s, {time.time() - began:.0f} s in all")
    return int(any(counts[kind, word] for kind in kinds for word in OUTCOMES[3:]))


if __name__ == "__main__":
    sys.exit(main())
