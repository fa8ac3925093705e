"""What a sweep of ALS costs on a Dask cluster: the formulas of docs/scale.md against measurements at three sizes.

Two worker processes on this machine; seconds = overhead + flops / rate, with both from the smallest and the largest size.
"""

from __future__ import annotations

import tempfile
import time

import numpy as np

from bench.helpers.ratings import ratings
from lemmata.completion import Observed
from lemmata.completion.als.algorithm import ALSAlgorithm
from lemmata.completion.als.distributed import Distributed

SIZES = ((6_000, 4_000, 10**6), (20_000, 6_000, 3 * 10**6), (70_000, 10_000, 10**7))
RANK, WORKERS = 64, 2


def flops(n, m, entries, k):
    """Normal equations of both sides, symmetric halves only, and the factorisations; w = k + 1 with the bias."""
    w = k + 1
    return 2 * entries * w * (w + 1) + (n + m) * w**3 / 3


def bytes_moved(n, m, k, workers):
    """Each factor is sent to every worker once and comes back once; with its bias and the bias as a shift."""
    w = k + 1
    return 4 * (n + m) * w * (workers + 2)  # out to all; starts out and results back in parts


def memory_per_worker(n, m, entries, k, workers):
    """Mapped entries of both orders, the factor that was sent, and the block that goes back."""
    return (16 * entries + 4 * (n + m) * (k + 1)) / workers + 4 * max(n, m) * (k + 1)


def main():
    from distributed import Client, LocalCluster

    print(f"ALS on {WORKERS} worker processes, rank {RANK}, float32")
    work, took = [], []
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        for n, m, entries in SIZES:
            (u, i, r), _ = ratings(n, m, entries)
            with tempfile.TemporaryDirectory() as folder:
                data = Distributed.spread(Observed.from_triplets(u, i, r, (n, m)), folder)
                seconds, sent = sweep(data, client)
                used = max(client.run(peak).values())
            work.append(flops(n, m, entries, RANK))
            took.append(seconds)
            moved, memory = (
                bytes_moved(n, m, RANK, WORKERS),
                memory_per_worker(n, m, entries, RANK, WORKERS),
            )
            print(
                f"  {entries / 1e6:4.0f}M of {n:,} × {m:,}: sweep {seconds:.2f} s, {work[-1] / seconds / 1e9:.0f} GFLOP/s; "
                f"moved {sent / 1e6:.0f} MB (formula {moved / 1e6:.0f}); "
                f"worker peak {used / 1e6:.0f} MB (formula {memory / 1e6:.0f} + Python)",
                flush=True,
            )
    rate = (work[-1] - work[0]) / (took[-1] - took[0])
    overhead = took[0] - work[0] / rate
    print(
        f"  {overhead:.2f} s + flops / {rate / 1e9:.0f} GFLOP/s: {overhead + work[1] / rate:.2f} s for the middle one\n"
    )


def sweep(data, client):
    """Seconds of the fastest of three sweeps, and the bytes of one that pass between client and workers."""
    algorithm = ALSAlgorithm(RANK, 0.08)
    state = algorithm.init(data, np.random.default_rng(0))
    best, counted = np.inf, count_bytes(data)
    for _ in range(3):
        counted["bytes"], begin = 0, time.perf_counter()
        state = algorithm.step(state, data)
        best = min(best, time.perf_counter() - begin)
    return best, counted["bytes"]


def count_bytes(data):
    """Count what over_rows and over_columns send and get, by the sizes of the arrays."""
    total = {"bytes": 0}

    def counting(over):
        def call(function, *shared, aligned=()):
            out = over(function, *shared, aligned=aligned)
            parts = out if isinstance(out, tuple) else (out,)
            total["bytes"] += WORKERS * size(shared) + size(aligned) + size(parts)
            return out

        return call

    data.over_rows, data.over_columns = counting(data.over_rows), counting(data.over_columns)
    return total


def size(arrays):
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


def peak():
    """The most memory this worker process ever had."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
