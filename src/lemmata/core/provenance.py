"""What a certificate was made from: a fingerprint of the data, and the versions of the libraries.

    1,797 × 64 float64, digest 5d2f0e6c1b7a9348 of 32 evenly spaced rows

A certificate must not cost a pass over the data, so the digest is one of evenly spaced rows or entries where the data is larger
than SAMPLED, and says so. It tells data apart that differ everywhere (scaled, sorted, another split), not one changed number.
"""

from __future__ import annotations

import hashlib
import platform
from functools import lru_cache
from typing import Any

import numpy as np

SAMPLED = 2**14  # bytes that are read: some twenty microseconds, 1 % of the quickest fits


def describe_data(data: Any) -> str:
    """Shape, type, weights and a digest of rows (Blocks) or entries (of a sparse or partly known matrix)."""
    if not hasattr(data, "shape"):
        return ""
    n, m = data.shape
    parts = [f"{n:,} × {m:,} {data.dtype}"]
    weights = getattr(data, "weights", None)
    if weights is not None:
        parts.append(f"weights of sum {float(np.sum(weights, dtype=np.float64)):.6g}")
    parts.append(_digest(data, weights))
    targets = getattr(data, "targets", None)
    if targets is not None:
        places = _spaced(len(targets), targets.itemsize * targets[:1].size)
        parts.append(f"targets {_hash([targets[places]])}")
    return ", ".join(parts)


def _digest(data: Any, weights: np.ndarray | None) -> str:
    source = getattr(data, "source", None)
    if isinstance(source, np.ndarray):
        places = _spaced(len(source), source.shape[1] * source.itemsize)
        arrays = [_narrow(source[places]), *([] if weights is None else [weights[places]])]
        told = "all rows" if len(places) == len(source) else f"{len(places):,} evenly spaced rows"
        return f"digest {_hash(arrays)} of {told}"
    entries = _entries(data, source)
    if entries is None:
        return "a stream of rows, no digest"
    places = _spaced(len(entries[0]), sum(part.itemsize for part in entries))
    arrays = [part[places] for part in entries]
    if weights is not None:
        arrays.append(weights[_spaced(len(weights), weights.itemsize)])
    told = f"{len(places):,} evenly spaced ones of " if len(places) < len(entries[0]) else ""
    return f"digest {_hash(arrays)} of {told}{len(entries[0]):,} entries"


def _entries(data: Any, source: Any) -> tuple[np.ndarray, ...] | None:
    """Columns and values of a sparse matrix, or of one whose other entries are not known; None for a stream."""
    if hasattr(source, "indptr"):
        return source.indices, source.data
    order = getattr(data, "by_row", ())
    arrays = tuple(part for part in order if isinstance(part, np.ndarray))[1:]
    return arrays if len(arrays) == 2 and len(arrays[0]) == len(arrays[1]) else None


def _spaced(count: int, size: int) -> np.ndarray:
    """As many evenly spaced places as SAMPLED bytes allow."""
    return np.linspace(0, count - 1, num=min(count, max(SAMPLED // max(size, 1), 1))).astype(
        np.intp
    )


def _narrow(rows: np.ndarray) -> np.ndarray:
    """Of rows so long that one alone exceeds SAMPLED, evenly spaced columns."""
    return rows[:, _spaced(rows.shape[1], rows.itemsize)] if rows.nbytes > SAMPLED else rows


def _hash(arrays: list[np.ndarray]) -> str:
    found = hashlib.blake2b(digest_size=8)
    for array in arrays:
        found.update(f"{array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data if array.size else b"")
    return found.hexdigest()


@lru_cache(maxsize=1)
def describe_versions() -> str:
    """lemmata 0.1.0, numpy …, scipy …, scikit-learn …, python …"""
    from importlib.metadata import version

    import scipy

    from lemmata import __version__

    numbers = {"lemmata": __version__, "numpy": np.__version__, "scipy": scipy.__version__}
    numbers |= {"scikit-learn": version("scikit-learn"), "python": platform.python_version()}
    return ", ".join(f"{name} {number}" for name, number in numbers.items())
