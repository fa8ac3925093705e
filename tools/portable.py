"""Repeats the numerical tests as other machines would see them, and prints a table.

    ./run test --portable              # every machine that this CPU can pretend to be: a habit before a release
    ./run test --portable haswell      # one of them

A machine here is a set of environment variables: which instructions BLAS, NumPy, PyTorch, oneDNN and Numba may use, how many
threads, whether the shared data is there, and whether something else keeps the cores busy. None of them is ever set by
`./run test` itself. A tolerance that fails under one of them is wrong: it is derived again, never widened until it passes.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

ROOT = Path(__file__).parents[1]
TESTS = ("linalg", "audit", "conformance", "nets", "clustering", "completion", "mixtures", "optim",
         "predict", "reduction", "topics", "embedding")  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """What a machine would have: variables, the flags that this CPU needs to pretend so, and its noise."""

    variables: dict[str, str]
    needs: frozenset[str] = frozenset()
    threads: int = 1
    busy: bool = False
    tests: tuple[str, ...] = field(default=TESTS)


MACHINES = {
    "haswell": Machine(  # no AVX-512 anywhere
        {
            "OPENBLAS_CORETYPE": "Haswell",
            "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
        },
        frozenset({"avx2", "fma"}),
    ),
    "skylake": Machine(  # AVX-512 without bfloat16, four threads
        {
            "OPENBLAS_CORETYPE": "SkylakeX",
            "ATEN_CPU_CAPABILITY": "avx512",
            "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        },
        frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl"}),
        threads=4,
    ),
    "generic": Machine(  # SSE only, and none of the shared data
        {
            "OPENBLAS_CORETYPE": "Nehalem",
            "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
            "ATEN_CPU_CAPABILITY": "default",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "NUMBA_CPU_NAME": "generic",
            "LEMMATA_DATA": "/nonexistent",
        },
    ),
    "busy": Machine({}, busy=True, tests=("core", "optim", "nets", "reliability", "text")),
}


def flags() -> set[str]:
    """Return the instruction sets of this CPU; none where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def environment(machine: Machine) -> dict[str, str]:
    """Return the environment of a machine, with a cache of kernels of its own."""
    threads = str(machine.threads)
    own = {
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "NUMBA_NUM_THREADS": str(max(machine.threads, 2)),
        "CI": "true",  # the same examples every time
    }
    if "NUMBA_CPU_NAME" in machine.variables:
        own["NUMBA_CACHE_DIR"] = os.path.join(tempfile.gettempdir(), "lemmata-portable-kernels")
    # a feature that this CPU lacks, or that its NumPy does not know, cannot be disabled: it warns, and nothing is lost
    return {**os.environ, **own, **machine.variables, "PYTHONWARNINGS": "ignore::ImportWarning"}


def spin() -> None:
    while True:
        pass


def test(machine: Machine) -> tuple[str, list[str]]:
    """Run the tests as on this machine; return pytest's last line and what failed."""
    noise = [multiprocessing.Process(target=spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for process in noise if machine.busy else ():
        process.start()
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", "--assert=plain"]
    command += ["-m", "not slow", "-p", "no:cacheprovider"]
    command += [f"tests/{name}" for name in machine.tests]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(machine), capture_output=True, text=True
    )
    for process in noise if machine.busy else ():
        process.terminate()
    failed = re.findall(r"^(?:FAILED|ERROR) (\S.*)$", done.stdout, re.M)
    lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["no output"]
    if done.returncode and not failed:
        failed = [lines[-1]]
    return lines[-1].strip("= "), failed


def main(names: list[str]) -> int:
    unknown = set(names) - set(MACHINES)
    if unknown:
        print(f"there is no machine {sorted(unknown)[0]!r}; known are {', '.join(MACHINES)}.")
        return 2
    np.linalg.norm(np.ones(2))  # loads BLAS
    here = sorted({str(pool.get("architecture")) for pool in threadpool_info()} - {"None"})
    print(f"this CPU as it is: BLAS for {', '.join(here) or 'an unknown CPU'}\n")
    print(f"{'machine':10}{'minutes':>8}  result")
    red = 0
    for name in names or MACHINES:
        machine = MACHINES[name]
        missing = sorted(machine.needs - flags())
        if missing:
            print(f"{name:10}{'':8}  not tried: this CPU has no {', '.join(missing)}", flush=True)
            continue
        began = time.monotonic()
        result, failed = test(machine)
        print(f"{name:10}{(time.monotonic() - began) / 60:8.1f}  {result}", flush=True)
        for line in failed:
            print(f"{'':20}{line}", flush=True)
        red += bool(failed)
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
