"""What can be wrong with numbers from outside, found before a kernel meets it and told with its place.

    >>> import numpy as np
    >>> refuse_nonfinite(np.array([[1.0, 2.0], [np.nan, 4.0]]))
    Traceback (most recent call last):
    ValueError: Input X contains NaN: the first in row 1, column 0 (counted from 0). Drop or fill in such values, or use ...

Sparse matrices are three arrays that anybody may write into; compiled code follows them without looking, so their indices are
checked once. A mapped file that has become shorter kills the process that reads it, so its size is asked for before each block.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

TAKE_NAN = (
    "Drop or fill in such values, or use a model that takes NaN as unknown: GaussianMixture for rows, "
    "ALS or SoftImpute for a matrix to be completed."
)
ROWS_AT_ONCE = 4096  # looked at for the culprit, so that no mask as large as the data is made


class NotFinite(ValueError):
    """Sums over the data are not finite: it holds NaN or infinity, or numbers too large to be added up.

    What a pass raises that cannot say where; `Model.fit` then looks for the place (`refuse_nonfinite`).
    """


def refuse_nonfinite(
    X: Any,
    *,
    allow_nan: bool = False,
    what: str = "Input X",
    first_row: int = 0,
    names: Sequence[str] | None = None,
) -> None:
    """Raise ValueError if X, dense or sparse, holds NaN or infinity, and say which of them, and where the first stands.

    allow_nan : whether NaN is a value that is not known, so that only infinity is refused
    first_row : the number of X's first row in the whole data
    names : what the columns are called
    """
    bad = np.isinf if allow_nan else _not_finite
    found = _first(X, bad)
    if found is None:
        return
    row, column, value = found
    kind = "NaN" if np.isnan(value) else "infinity"
    name = f" ({str(names[column])[:40]!r})" if names is not None and column < len(names) else ""
    where = f"the first in row {first_row + row}, column {column}{name} (counted from 0)"
    advice = (
        TAKE_NAN
        if kind == "NaN"
        else "A value that is not known is NaN; one that is too large has to be scaled down."
        if allow_nan
        else "Drop or fill in such values; one that overflowed has to be scaled down."
    )
    raise ValueError(f"{what} contains {kind}: {where}. {advice}")


def all_finite(X: Any, allow_nan: bool = False) -> bool:
    """Whether X holds no infinity, and no NaN unless that is allowed: one fast sum, and a closer look if it overflows."""
    numbers = X.data if sp.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        total = numbers.sum(dtype=np.float64)
    return bool(np.isfinite(total) or not (np.isinf if allow_nan else _not_finite)(numbers).any())


def _not_finite(values: Any) -> Any:
    return ~np.isfinite(values)


def _first(X: Any, bad: Any) -> tuple[int, int, float] | None:
    """The row, the column and the value of the first number that is bad, row by row."""
    if sp.issparse(X):
        X = X.tocsr()
        places = np.flatnonzero(bad(X.data))
        if not len(places):
            return None
        row = int(np.searchsorted(X.indptr, places[0], side="right")) - 1
        # within the row, columns need not be in order
        inside = places[places < X.indptr[row + 1]]
        place = inside[np.argmin(X.indices[inside])]
        return row, int(X.indices[place]), float(X.data[place])
    X = np.atleast_2d(X)
    for start in range(0, X.shape[0], ROWS_AT_ONCE):
        rows = X[start : start + ROWS_AT_ONCE]
        places = np.flatnonzero(bad(rows))
        if len(places):
            row, column = divmod(int(places[0]), X.shape[1])
            return start + row, column, float(rows[row, column])
    return None


# --- sparse matrices --------------------------------------------------------------------------------------------------


def refuse_malformed(X: Any, what: str = "X") -> None:
    """Raise ValueError if the parts of a sparse matrix do not fit together; anything that is not sparse passes."""
    if not sp.issparse(X):
        return
    if X.ndim != 2:
        raise ValueError(f"{what} is a sparse array with {X.ndim} axes; a matrix has two.")
    wrong = _wrong_parts(X)
    if wrong:
        raise ValueError(
            f"{what} is a malformed {X.format.upper()} matrix of shape {X.shape}: {wrong}. "
            "Build it again from (values, (rows, columns)), which scipy checks."
        )


def _wrong_parts(X: Any) -> str:
    if X.format in ("csr", "csc"):
        major, minor = X.shape if X.format == "csr" else X.shape[::-1]
        if len(X.data) < _last(X.indptr):
            return f"indptr ends at {_last(X.indptr)}, but there are {len(X.data):,} values"
        return _wrong_pointers(X.indptr, X.indices, major, minor)
    if X.format == "bsr":
        high, wide = X.blocksize
        if X.data.ndim != 3 or len(X.data) < _last(X.indptr):
            return f"indptr ends at {_last(X.indptr)}, but there are {len(X.data):,} blocks"
        return _wrong_pointers(X.indptr, X.indices, X.shape[0] // high, X.shape[1] // wide)
    if X.format == "coo":
        if any(len(part) != len(X.data) for part in X.coords):
            return "rows, columns and values differ in number"
        for part, size in zip(X.coords, X.shape, strict=True):
            if wrong := _outside(part, size):
                return wrong
    if X.format == "lil":  # lists: nothing can crash before they are arrays
        return _wrong_parts(X.tocsr())
    return ""


def _wrong_pointers(indptr: Any, indices: Any, major: int, minor: int) -> str:
    if indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        return f"indptr and indices are {indptr.dtype} and {indices.dtype}, not integers"
    if indptr.ndim != 1 or len(indptr) != major + 1:
        return f"indptr has {len(indptr):,} numbers, {major + 1:,} are needed"
    if indptr[0] != 0:
        return f"indptr begins with {indptr[0]}, not 0"
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if len(falls):
        return f"indptr falls from {indptr[falls[0]]} to {indptr[falls[0] + 1]} at {falls[0] + 1}"
    if indptr[-1] > len(indices):
        return f"indptr ends at {indptr[-1]}, but there are {len(indices):,} indices"
    return _outside(indices[: indptr[-1]], minor)


def _outside(indices: Any, size: int) -> str:
    if len(indices) and (indices.min() < 0 or indices.max() >= size):
        wrong = indices[(indices < 0) | (indices >= size)][0]
        return f"the index {wrong} is not within 0 … {size - 1}"
    return ""


def _last(indptr: Any) -> int:
    return int(indptr[-1]) if len(indptr) else -1


# --- mapped files -----------------------------------------------------------------------------------------------------


def refuse_shrunk_file(X: Any) -> None:
    """Raise ValueError if the file of an np.memmap ends before the map does: to read on there would kill the process."""
    file = getattr(X, "_mmap", None)
    if file is None:  # a copy, or no map at all
        return
    begin = X.offset - X.offset % mmap.ALLOCATIONGRANULARITY
    try:
        size = file.size()
    except (OSError, ValueError):  # anonymous or closed: there is no file to ask
        return
    if size < begin + len(file):
        raise ValueError(
            f"the file of the memmap ({X.filename}) has {size:,} bytes where {begin + len(file):,} were mapped: "
            "it was cut off after it was opened. Open it again with numpy.load or numpy.memmap."
        )
