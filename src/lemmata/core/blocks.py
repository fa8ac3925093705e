"""Data is blocks: an array, a sparse matrix, a memmap, a stream of blocks or a dask array as one sequence of row blocks.

    >>> import numpy as np
    >>> data = Blocks.of(np.arange(12.0).reshape(6, 2))
    >>> data.shape, [rows.shape for rows, weights in data]
    ((6, 2), [(6, 2)])

Iterating gives pairs (rows, weights): rows a 2-D array or a CSR matrix of the data's dtype, weights a vector or None. Where
the cuts are depends on the shape alone, never on threads, so that sums in block order are reproducible to the bit.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core import validation

# of a dense block: large enough for BLAS, small enough for the last-level cache
BLOCK_BYTES = 8 * 2**20
LARGEST_BLOCK = 32 * 2**20
MIN_ROWS, MAX_ROWS = 512, 65_536
LAG = 4  # blocks of a mapped file that stay in memory, since threads may still be at work on them
FINGERPRINT_BYTES = 2**30  # beyond it a fingerprint looks at evenly spaced rows only


class Blocks:
    """A matrix cut into row blocks, with optional row weights."""

    def __init__(
        self,
        cut: Callable[[], Iterator],
        shape: tuple[int, int],
        dtype: np.dtype,
        weights=None,
        source: Any = None,
        n_blocks: int | None = None,
        allow_nan: bool = False,
        targets: np.ndarray | None = None,
    ):
        self._cut, self.n_blocks = cut, n_blocks  # None: nobody counted
        self.targets = targets  # what is to be predicted, one row each: (n,) or (n, outputs)
        # whether NaN may be among the numbers: values that are not known
        self.allow_nan = allow_nan
        self.shape, self.dtype, self.weights = shape, np.dtype(dtype), weights
        self.source = source  # the whole matrix where it is in memory (ndarray or sparse), the dask array, or None
        self.sparse = sp.issparse(source)
        # the CSC matrix that the rows were made of, for algorithms that read columns
        self.columns: Any = None

    @classmethod
    def of(cls, X: Any, weights=None, *, allow_nan: bool = False) -> Blocks:
        """Blocks of anything the library takes. Arrays are expected to be validated; streams are checked here."""
        if isinstance(X, Blocks):
            return X
        if sp.issparse(X):
            return _of_sparse(X, weights)
        if isinstance(X, np.ndarray):
            return _of_array(X, weights)
        if is_dask(X):
            return _of_dask(X, weights, allow_nan)
        return _of_stream(X, weights, allow_nan)

    def weighted(self, weights: np.ndarray) -> Blocks:
        """The same blocks with other weights."""
        return self._with(weights=weights)

    def with_targets(self, targets: np.ndarray) -> Blocks:
        """The same blocks with what is to be predicted of each row."""
        return self._with(targets=targets)

    def _with(self, **changed: Any) -> Blocks:
        copied = Blocks(
            self._cut, self.shape, self.dtype, self.weights, self.source, self.n_blocks,
            self.allow_nan, self.targets,
        )  # fmt: skip
        copied.columns = self.columns
        for name, value in changed.items():
            setattr(copied, name, value)
        return copied

    def recut(self, step: int) -> Blocks:
        """The same rows in blocks of at most `step` rows. Arrays and mapped files; anything else stays as it is cut."""
        if not isinstance(self.source, np.ndarray) or self.shape[0] == 0:
            return self

        def cut():
            for rows in self._cut():  # these cuts stay, with what they do for mapped files
                for start in range(0, rows.shape[0], step):
                    yield rows[start : start + step]

        n_blocks = 1 if self.n_blocks == 1 and step >= self.shape[0] else None
        return self._with(_cut=cut, n_blocks=n_blocks)

    @property
    def in_memory(self) -> bool:
        elsewhere = isinstance(self.source, np.memmap) or is_dask(self.source)
        return self.source is not None and not elsewhere

    @property
    def size(self) -> int:
        """The number of numbers that a pass has to look at."""
        return self.source.nnz if self.sparse else self.shape[0] * self.shape[1]

    @property
    def total_weight(self) -> float:
        if self.weights is None:
            return self.shape[0]
        return float(np.sum(self.weights, dtype=np.float64))

    def __iter__(self) -> Iterator[tuple[Any, np.ndarray | None]]:
        start = 0
        for rows in self._cut():
            stop = start + rows.shape[0]
            yield rows, None if self.weights is None else self.weights[start:stop]
            start = stop

    def triples(self) -> Iterator[tuple[Any, np.ndarray, np.ndarray | None]]:
        """(rows, targets, weights) block by block."""
        assert self.targets is not None
        start = 0
        for rows, weights in self:
            stop = start + rows.shape[0]
            yield rows, self.targets[start:stop], weights
            start = stop

    def fingerprint(self) -> str:
        """A mark of the content: the same data gives the same mark in every process."""
        crc = zlib.crc32(f"{self.shape} {self.dtype}".encode())
        every = max(1, -(-self.size * self.dtype.itemsize // FINGERPRINT_BYTES))
        for rows, weights in self:
            parts = (
                (rows.data, rows.indices, rows.indptr) if sp.issparse(rows) else (rows[::every],)
            )
            for part in (*parts, *(() if weights is None else (weights,))):
                crc = zlib.crc32(np.ascontiguousarray(part).data, crc)
        if self.targets is not None:
            crc = zlib.crc32(np.ascontiguousarray(self.targets).data, crc)
        return f"{crc:08x}"


def is_dask(X: Any) -> bool:
    """Whether X is a dask array, without importing dask."""
    return type(X).__module__.split(".")[0] == "dask" and hasattr(X, "to_delayed")


def unmask(X: Any) -> Any:
    """A masked array as one with NaN where it is masked: values that are not known. Anything else as it is."""
    if not isinstance(X, np.ma.MaskedArray):
        return X
    return np.ma.filled(X.astype(X.dtype if X.dtype.kind == "f" else np.float64), np.nan)


def is_stream(X: Any) -> bool:
    """Whether X is a sequence of blocks rather than one array-like: iterable, shapeless, its items two-dimensional."""
    if any(
        hasattr(X, name) for name in ("shape", "__array__", "__dataframe__", "dtype")
    ) or isinstance(X, (str, bytes, dict)):
        return False
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(len(getattr(item, "shape", ())) == 2 for item in X)
    return hasattr(X, "__iter__")


def rows_per_block(n: int, d: int, itemsize: int) -> int:
    """The number of rows of a dense block: about BLOCK_BYTES; for wide data up to 8d rows, so that d × d sums cost little
    beside the products they add up, as long as the block stays below LARGEST_BLOCK.

    A handful of blocks is made a multiple of four, so that two or four cores get equal shares.
    """
    width = max(1, d * itemsize)
    rows = max(BLOCK_BYTES // width, MIN_ROWS, min(8 * d, LARGEST_BLOCK // width), d)
    rows = min(rows, MAX_ROWS)
    count = -(-n // rows)
    if 1 < count < 16:
        count = -(-count // 4) * 4
        rows = -(-n // count)
    return max(rows, 1)


def _of_array(X, weights):
    step = rows_per_block(X.shape[0], X.shape[1], X.dtype.itemsize)
    mapped = isinstance(X, np.memmap)

    def cut():
        for start in range(0, X.shape[0], step):
            if mapped:  # the disk reads ahead while the block at hand is worked on
                validation.refuse_shrunk_file(X)
                _advise(X, start + step, LAG * step, "MADV_WILLNEED")
            rows = X[start : start + step]
            yield rows.view(np.ndarray) if mapped else rows
            if mapped and start >= LAG * step:
                _forget_pages(X, start - LAG * step, step)
        if mapped:
            _forget_pages(X, 0, X.shape[0])

    return Blocks(cut, X.shape, X.dtype, weights, source=X, n_blocks=-(-X.shape[0] // step))


def _forget_pages(X: np.memmap, start: int, count: int) -> None:
    """Tell the system that rows of a mapped file were read, so that the process does not grow to the size of the file.

    The page cache keeps them. Private mappings (mode "c") hold the user's own changes in those pages and are left alone.
    """
    if X.mode != "c":
        _advise(X, start, count, "MADV_DONTNEED")


def _advise(X: np.memmap, start: int, count: int, advice: str) -> None:
    """Say to the system what will happen to the whole pages of some rows, where it listens."""
    file = X._mmap  # type: ignore[attr-defined]
    count = min(count, X.shape[0] - start)
    # None: a copy of a memmap
    if file is None or not X.flags.c_contiguous or not hasattr(mmap, advice):
        return
    base = np.frombuffer(file, dtype=np.uint8).__array_interface__["data"][0]
    first = X.__array_interface__["data"][0] - base + start * X.strides[0]
    begin = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (first + count * X.strides[0] - begin) // mmap.PAGESIZE * mmap.PAGESIZE
    if length > 0:
        file.madvise(getattr(mmap, advice), begin, length)


def _of_sparse(X, weights):
    validation.refuse_malformed(X)
    columns = X if X.format == "csc" else None
    # one flavour everywhere: scipy's older matrices multiply and sum differently
    X = _canonical(sp.csr_array(X))

    def cut():
        for start in range(0, X.shape[0], MAX_ROWS):
            yield (
                _sparse_rows(X, start, min(start + MAX_ROWS, X.shape[0]))
                if X.shape[0] > MAX_ROWS
                else X
            )

    data = Blocks(cut, X.shape, X.dtype, weights, source=X, n_blocks=-(-X.shape[0] // MAX_ROWS))
    data.columns = columns
    return data


def _canonical(X):
    """A column named twice in a row has to be added up before anybody squares it; the user's own matrix stays as it is."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _sparse_rows(X, start, stop):
    """Rows of a CSR matrix that share its entries; scipy's own slices copy them."""
    first, last = X.indptr[start], X.indptr[stop]
    parts = (X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first)
    return sp.csr_array(parts, shape=(stop - start, X.shape[1]))


def _of_dask(X, weights, allow_nan):
    if X.ndim != 2:
        raise ValueError(f"the dask array has {X.ndim} dimensions; a matrix has two.")
    if any(np.isnan(size) for axis in X.chunks for size in axis):
        raise ValueError("the dask array has chunks of unknown size: call X.compute_chunk_sizes().")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"the dask array has dtype {X.dtype}; blocks hold real numbers.")
    X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X  # a block has all columns
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    first_rows = np.cumsum((0, *X.chunks[0]))

    def check(block, block_info=None):  # wherever it is computed, also if a prediction is lazy
        first = int(first_rows[block_info[0]["chunk-location"][0]])
        return checked_block(np.asarray(block), X.shape[1], dtype, allow_nan, first)

    checked = X.map_blocks(check, dtype=dtype, meta=np.empty((0, 0), dtype))

    def cut():
        for part in checked.to_delayed()[:, 0]:
            yield part.compute()

    return Blocks(cut, X.shape, dtype, weights, source=checked, allow_nan=allow_nan)


def _of_stream(X, weights, allow_nan):
    if iter(X) is X:
        raise TypeError(
            f"a {type(X).__name__} can be read only once and a fit needs several passes; "
            "pass a list of blocks, or an object whose __iter__ starts again each time."
        )
    sizes: list[int] = []
    width, dtypes = None, set()
    for block in X:
        rows = checked_block(block, width, allow_nan=allow_nan, first_row=sum(sizes))
        sizes.append(rows.shape[0])
        width = rows.shape[1]
        dtypes.add(rows.dtype)
    if width is None:
        raise ValueError("the stream of blocks is empty; pass at least one block of rows.")
    dtype = np.result_type(*dtypes)

    def cut():
        for number, (block, size) in enumerate(zip_longest(X, sizes), start=1):
            found = None if block is None else checked_block(block, width, dtype, allow_nan)
            if size is None or found is None or found.shape[0] != size:
                raise ValueError(
                    f"the stream gave {len(sizes)} blocks of {sum(sizes)} rows at first, and another block number {number} "
                    "later; it has to repeat itself, cut for cut."
                )
            yield found

    return Blocks(cut, (sum(sizes), width), dtype, weights, allow_nan=allow_nan)


def check_blocks(data: Blocks, allow_nan: bool = False) -> None:
    """Raise ValueError where a block holds numbers that are not finite."""
    start = 0
    for rows, _ in data:
        checked_block(rows, allow_nan=allow_nan, first_row=start)
        start += len(rows)


def checked_block(
    block: Any,
    width: int | None = None,
    dtype: Any = None,
    allow_nan: bool = False,
    first_row: int | None = None,
):
    """One block of a stream, as float rows of the right width; it begins at `first_row` of the whole, if that is known."""
    validation.refuse_malformed(block, "a block")
    # a worker's may be unaligned
    sparse = sp.issparse(block)
    rows = _canonical(sp.csr_array(block)) if sparse else np.require(block, requirements="A")
    if rows.ndim != 2:
        raise ValueError(
            f"a block has shape {rows.shape}; pass two-dimensional ones: rows × features."
        )
    if width is not None and rows.shape[1] != width:
        raise ValueError(
            f"a block has {rows.shape[1]} features, the blocks before it have {width}; all must agree."
        )
    if rows.dtype.kind not in "biuf":
        raise ValueError(f"a block has dtype {rows.dtype}; blocks hold real numbers.")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    if not validation.all_finite(rows, allow_nan):
        what = "a block" if first_row is None else "Input X"
        validation.refuse_nonfinite(rows, allow_nan=allow_nan, what=what, first_row=first_row or 0)
    return rows if dtype is None else rows.astype(dtype, copy=False)


def all_rows(data: Blocks) -> Any:
    """Return all rows in memory: the array or CSR matrix they come from, or their blocks put together."""
    if data.in_memory:
        return data.source
    parts = [rows for rows, _ in data]
    if len(parts) == 1:
        return parts[0]
    return sp.vstack(parts).tocsr() if sp.issparse(parts[0]) else np.concatenate(parts)


def open_rows(data: Any, weights: Any = None) -> Blocks:
    """The door of functions that are no estimators: rows as checked Blocks of floats, with checked weights, if any."""
    from sklearn.utils import check_array

    mapped = (
        isinstance(data, np.memmap) and data.ndim == 2 and data.dtype in (np.float32, np.float64)
    )
    validation.refuse_malformed(data, "data")
    if not (mapped or isinstance(data, Blocks) or is_dask(data) or is_stream(data)):
        data = check_array(
            data, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="data"
        )
    data = Blocks.of(data)
    if 0 in data.shape:
        raise ValueError(f"data of shape {data.shape}; pass at least one row and one feature.")
    if weights is None:
        return data
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != data.shape[:1]:
        raise ValueError(
            f"weights of shape {weights.shape} for {data.shape[0]} rows; pass one number per row."
        )
    if not (np.isfinite(weights.max()) and weights.min() >= 0 and weights.max() > 0):
        raise ValueError(
            f"weights from {weights.min():g} to {weights.max():g}; pass finite numbers >= 0, at least one of them positive."
        )
    return data.weighted(weights)
