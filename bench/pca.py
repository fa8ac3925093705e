"""PCA against scikit-learn and SciPy: dense tall, dense wide, sparse, batches, out of core."""

from __future__ import annotations

import os
import tempfile
import time

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.decomposition import IncrementalPCA, TruncatedSVD

from bench.helpers.harness import compare, memory
from lemmata import PCA
from lemmata import TruncatedSVD as OurSVD


def dense(n, d, seed=0):
    """A spectrum that falls like a power, plus white noise."""
    rng = np.random.default_rng(seed)
    scale = 3 / np.sqrt(np.arange(1, 101, dtype=np.float32))
    X = rng.standard_normal((n, 100), dtype=np.float32) @ (
        rng.standard_normal((100, d), dtype=np.float32) * scale[:, None]
    )
    X += rng.standard_normal((n, d), dtype=np.float32)
    return X


def documents(n, d, per_row, topics=80, seed=0):
    """Sparse rows like documents: each draws words from three topics, the words of a topic following Zipf's law."""
    rng = np.random.default_rng(seed)
    mine = rng.integers(0, topics, (n, 3))
    topic = mine[np.arange(n)[:, None], rng.integers(0, 3, (n, per_row))].ravel()
    rank = np.minimum(np.exp(rng.random(n * per_row) * np.log(d)).astype(np.int64), d) - 1
    column = (rank * 31 + topic * 617) % d
    ones = np.ones(n * per_row, np.float32)
    X = sp.coo_array((ones, (np.repeat(np.arange(n), per_row), column)), (n, d)).tocsr()
    X.data = np.log1p(X.data)
    return X


def captured(X, best):
    """The share of the best possible variance that components capture; sparse rows are centred implicitly."""
    mean = np.asarray(X.mean(axis=0)).ravel()

    def share(C):
        Z = np.asarray(X @ C.T) - mean @ C.T
        return float((Z.astype(np.float64) ** 2).sum() / best)

    return share


def tables():
    for n, d, k, target in ((100_000, 500, 20, 1.0), (20_000, 2_000, 50, 1.3)):
        X = dense(n, d)
        values = np.linalg.eigvalsh(np.cov(X.T.astype(np.float64)))
        systems = {"lemmata": lambda X=X, k=k: PCA(k).fit(X).components_}
        for solver in ("covariance_eigh", "arpack", "randomized"):
            systems[f"scikit-learn {solver}"] = lambda X=X, k=k, s=solver: (
                SklearnPCA(k, svd_solver=s, random_state=0).fit(X).components_
            )
        best = values[-k:].sum() * (n - 1)
        compare(
            f"dense {n:,} × {d:,} → {k}, float32",
            systems,
            captured(X, best),
            target=target,
            least_quality=0.9999,
        )


def sparse():
    """Centred sparse rows, at two sizes: the smaller one spends more of its time beside the products."""
    for n, d, per_row in ((100_000, 20_000, 42), (200_000, 50_000, 50)):
        _sparse(documents(n, d, per_row), 50)


def _sparse(X, k):
    # not our own yardstick
    exact = SklearnPCA(k, svd_solver="arpack", tol=0.0, random_state=1).fit(X.astype(np.float64))
    best = float(np.sum(exact.singular_values_**2))
    systems = {
        "lemmata (centred)": lambda: PCA(k, random_state=0).fit(X).components_,
        "lemmata TruncatedSVD": lambda: OurSVD(k, random_state=0).fit(X).components_,
        "TruncatedSVD arpack (not centred)": lambda: (
            TruncatedSVD(k, algorithm="arpack", random_state=0).fit(X).components_
        ),
        "TruncatedSVD randomized": lambda: TruncatedSVD(k, random_state=0).fit(X).components_,
        "scikit-learn PCA arpack (centred)": lambda: (
            SklearnPCA(k, svd_solver="arpack", random_state=0).fit(X).components_
        ),
        "svds arpack (not centred)": lambda: svds(X, k, rng=0)[2],
    }
    (n, d) = X.shape
    compare(
        f"sparse {n:,} × {d:,}, {X.nnz / 1e6:.1f}M entries → {k}, float32",
        systems,
        captured(X, best),
        ours="lemmata (centred)",
        target=2.5,
        least_quality=0.999,
        rounds=3,
    )


def batches():
    X = dense(100_000, 500)
    parts = np.array_split(X, 100)

    def ours():
        model = PCA(20)
        for part in parts:
            model.partial_fit(part)
        return model.components_

    def theirs():
        model = IncrementalPCA(20)
        for part in parts:
            model.partial_fit(part)
        return model.components_

    systems = {
        "partial_fit × 100": ours,
        "one fit": lambda: PCA(20).fit(X).components_,
        "scikit-learn IncrementalPCA × 100": theirs,
    }
    best = np.linalg.eigvalsh(np.cov(X.T.astype(np.float64)))[-20:].sum() * (len(X) - 1)
    work = "dense 100,000 × 500 in 100 batches → 20 (target: within 1.3x of one fit)"
    compare(work, systems, captured(X, best), ours="partial_fit × 100")


def out_of_core():
    """A file of 4 GB: our fit against reading it once, cold and warm, and the peak memory of the process."""
    n, d = 1_000_000, 1_000
    with tempfile.TemporaryDirectory(dir=os.environ.get("LEMMATA_BENCH_DIR")) as folder:
        path = os.path.join(folder, "big.npy")
        file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
        for start in range(0, n, 50_000):
            file[start : start + 50_000] = dense(50_000, d, seed=start)
            file.flush()
        del file
        print(f"out of core: {n:,} × {d:,} float32 (4 GB file) → 20")
        for state in ("cold", "warm"):
            reading = _timed(path, state, _read)
            with open("/proc/self/clear_refs", "w") as peak:
                peak.write("5")
            fitting = _timed(path, state, lambda path: PCA(20).fit(np.load(path, mmap_mode="r")))
            print(
                f"  {state}: fit {fitting:.2f} s, reading once {reading:.2f} s → {fitting / reading:.2f}x (target ≤ 3x); "
                f"peak memory of the process {memory('VmHWM'):.0f} MB (target < 600)",
                flush=True,
            )
    print()


def _timed(path, state, function):
    if state == "cold":
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    begin = time.perf_counter()
    function(path)
    return time.perf_counter() - begin


def _read(path):
    """Every byte once, as NumPy users do it."""
    X = np.load(path, mmap_mode="r")
    return sum(float(X[start : start + 8192].sum()) for start in range(0, len(X), 8192))


def main():
    out_of_core()  # first, while the process is small
    tables()
    batches()
    sparse()
