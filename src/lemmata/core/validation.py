"""Checks of data from outside, before a kernel reads it; messages say where the first wrong number stands.

    >>> import numpy as np
    >>> refuse_nonfinite(np.array([[1.0, 2.0], [np.nan, 4.0]]))
    Traceback (most recent call last):
    ValueError: Input X contains NaN: the first in row 1, column 0 (counted from 0). Drop or fill in such values, or use ...

Sparse matrices are three arrays that anybody may write into; compiled code follows them without looking, so their indices are
checked once. A mapped file that has become shorter kills the process that reads it, so its size is asked for before each block.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from numbers import Number
from types import FunctionType
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.utils.validation import check_array, validate_data

TAKE_NAN = (
    "Drop or fill in such values, or use a model that takes NaN as unknown: GaussianMixture for rows, "
    "ALS or SoftImpute for a matrix to be completed."
)
# of numbers whose cubes overflow no product of residuals, rows and weights can be trusted
CUBES = 3
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
    advice = "Drop or fill in such values; one that overflowed has to be scaled down."
    if allow_nan:
        advice = "A value that is not known is NaN; one that is too large has to be scaled down."
    raise ValueError(f"{what} contains {kind}: {where}. {TAKE_NAN if kind == 'NaN' else advice}")


def refuse_large(X: Any, power: int = 2, *, what: str = "Input X", first_row: int = 0) -> None:
    """Raise ValueError where sums over X of this power of its numbers, with some room, leave float64."""
    most = float(np.finfo(np.float64).max / (16.0 * max(1, X.shape[0] * X.shape[1]))) ** (1 / power)
    if most > float(np.finfo(X.dtype).max):  # no float32 is that large
        return
    found = _first(X, lambda values: np.abs(values) > most)
    if found is not None:
        row, column, value = found
        raise ValueError(
            f"{what} holds {value:.3g} in row {first_row + row}, column {column} (counted from 0), and sums of numbers like "
            f"that to the power of {power} leave float64; divide {what[-1]} by a constant, or look at that row."
        )


# what a fit may end with because of the numbers it was given; a step that failed is a RuntimeError
OVER_NUMBERS = (NotFinite, ArithmeticError, RuntimeError, np.linalg.LinAlgError)


def name_culprit(failure: BaseException, data: Any, allow_nan: bool, given: Any = None) -> None:
    """Raise ValueError if a fit to row blocks failed over one of their numbers, and say where that stands.

    given : what the blocks were made of, perhaps with names of columns
    """
    if isinstance(failure, NotFinite):  # from a first pass over data that was not checked before
        for first, rows in _blocks(data):
            names = getattr(given, "columns", None)
            refuse_nonfinite(rows, allow_nan=allow_nan, first_row=first, names=names)
    elif not isinstance(failure.__cause__, OSError) and hasattr(data, "targets"):
        for first, rows in _blocks(data):
            refuse_large(rows, CUBES, first_row=first)
        if data.targets is not None and data.targets.dtype.kind == "f":
            refuse_large(data.targets.reshape(len(data.targets), -1), CUBES, what="y")


def _blocks(data: Any) -> Iterator[tuple[int, Any]]:
    """The row blocks, each with the number of its first row."""
    first = 0
    for rows, _ in data:
        yield first, rows
        first += rows.shape[0]


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


# --- rows of a model --------------------------------------------------------------------------------------------------

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def is_plain(model: Any, X: Any, reset: bool, min_samples: int = 1) -> bool:
    """Whether X is an array that scikit-learn's checks would accept as it is; they take 0.1 ms, half of a small fit."""
    return (
        type(X) is np.ndarray
        and X.dtype in FLOATS
        and X.ndim == 2
        and X.shape[0] >= max(min_samples, 1)
        and X.shape[1] > 0
        and (reset or "feature_names_in_" not in vars(model))
    )


def check_array_of(model: Any, X: Any, reset: bool, min_samples: int, finite: bool) -> Any:
    """Check X by scikit-learn's own validation, in the words of this model; say where NaN and infinity stand."""
    if is_plain(model, X, reset, min_samples) and (not finite or all_finite(X, model.accepts_nan)):
        model._check_width(X, reset)
        return X
    try:
        return validate_data(
            model,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            accept_sparse=("csr", "csc") if model.accepts_sparse else False,
            ensure_all_finite="allow-nan" if finite and model.accepts_nan else finite,
            ensure_min_samples=min_samples,
        )
    except ValueError as error:
        if "contains NaN" in str(error) or "contains infinity" in str(error):
            numbers = check_array(X, accept_sparse=True, dtype=np.float64, ensure_all_finite=False)
            names = getattr(X, "columns", None)
            refuse_nonfinite(numbers, allow_nan=model.accepts_nan, names=names)
        raise
    except TypeError as error:
        if "NAType" not in str(error):
            raise
        raise TypeError(
            'X holds pandas.NA among Python objects; X.astype("Float64") makes numbers of them, and NaN of those.'
        ) from error


def check_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """Weights of rows, or one for all of them: finite, at least 0, not all 0."""
    if isinstance(sample_weight, Number):
        sample_weight = np.full(n_rows, sample_weight)
    weights = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, order="C", input_name="sample_weight"
    )
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight.shape is {weights.shape}; pass one weight for each of {n_rows:,} rows."
        )
    if (weights < 0).any():
        raise ValueError("sample_weight has negative values; pass weights of at least 0.")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not total > 0:
        raise ValueError("Sample weights must contain at least one non-zero number.")
    if not np.isfinite(total):
        raise ValueError("Sample weights overflow when added up; divide them by their maximum.")
    return weights


# --- results of a model -----------------------------------------------------------------------------------------------

# Ways to use a fitted model whose results are numbers for rows. In the second set infinity is an answer: a row that cannot
# be, an interval without an end.
FINITE = (
    *("predict", "predict_proba", "decision_function", "transform", "inverse_transform"),
    *("kneighbors", "reconstruct", "impute", "complete", "fold_in", "discriminate"),
)
NOT_NAN = ("predict_log_proba", "predict_interval", "score_samples", "score", "cost")
OVERFLOW = "Divide the rows by a unit, those of the fit as well, or look at that row."


def refuse_result(name: str, result: Any, model: Any, *arguments: Any, **named: Any) -> None:
    """Raise ValueError for what a method of a model came to, unless NaN or infinity is an answer there."""
    bad = _not_finite if name in FINITE else np.isnan
    parts = map(np.asarray, result if isinstance(result, tuple) else (result,))
    wrong = [part for part in parts if part.dtype.kind == "f" and bad(part).any()]
    if name not in FINITE + NOT_NAN or not wrong:
        return
    numbers, given = wrong[0], map(_as_numbers, (*arguments, *named.values()))
    known = [one for one in given if one is not None and one.size]
    if any(np.isnan(one).any() for one in known):  # what is not known may stay so
        return
    row = f" for row {np.argwhere(bad(numbers))[0][0]} (counted from 0)" if numbers.ndim else ""
    kind = "NaN" if np.isnan(numbers).any() else "infinity"
    size = max((float(np.abs(one).max()) for one in known), default=np.nan)
    # else the model is at fault
    large = not size < float(np.finfo(numbers.dtype).max) ** (1 / CUBES)
    why = "attributes of the model are not finite, or far too large; certify(X) says which."
    if large:
        why = f"sums with numbers as large as {size:.3g} leave {numbers.dtype}. {OVERFLOW}"
    raise ValueError(f"{type(model).__name__}.{name} comes to {kind}{row}: {why}")


def _as_numbers(given: Any) -> np.ndarray | None:
    """The numbers of an argument; None for words and for what would have to be read again."""
    given = given.data if sp.issparse(given) else given
    if not (hasattr(given, "__array__") or isinstance(given, list | tuple | float)):
        return None
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):  # labels, lists of blocks
        return None


def refuse_attribute(model: Any, name: str, value: Any) -> None:
    """Raise ValueError for an attribute of a fit that is not finite, unless the model declares that it may be so."""
    spec = model._shapes().get(name, ("any", True))[0]
    words = spec.split() if isinstance(spec, str) else ()
    if "any" not in words and not all_finite(np.asarray(value), "nan" in words):
        raise ValueError(
            f"{type(model).__name__} comes to {name} = NaN or infinity: sums over numbers as large as those of the "
            f"data leave {np.asarray(value).dtype}. {OVERFLOW}"
        )


# --- scikit-learn's private functions ---------------------------------------------------------------------------------
#
# All that lemmata takes from scikit-learn's private modules stands here. scikit-learn may move or rename it in any release;
# then this section changes. What has a public substitute works until then, and what has none names a release to install.

try:
    from sklearn.utils._param_validation import Interval as Interval
    from sklearn.utils._param_validation import StrOptions as StrOptions
    from sklearn.utils._param_validation import make_constraint as make_constraint
except ImportError as error:
    # no substitute: _validate_params() knows only scikit-learn's own constraints
    raise ImportError(
        f"scikit-learn {sklearn.__version__} has moved what checks parameters, and this lemmata does not know where to; "
        "install scikit-learn<=1.9, or a newer lemmata."
    ) from error


def is_search(model: Any) -> bool:
    """Whether a model is one of scikit-learn's searches (GridSearchCV and its kin)."""
    try:
        from sklearn.model_selection._search import BaseSearchCV
    except ImportError:
        from sklearn.model_selection import GridSearchCV, RandomizedSearchCV

        return isinstance(model, GridSearchCV | RandomizedSearchCV)
    return isinstance(model, BaseSearchCV)


def choose_columns(X: Any, columns: Any) -> Any:
    """The columns of an array, sparse matrix or data frame, named as a ColumnTransformer names them."""
    try:
        from sklearn.utils import _safe_indexing
    except ImportError:
        from sklearn.compose import ColumnTransformer

        # the only public way in: keep these columns, drop the rest, change nothing
        keep = ColumnTransformer([("keep", "passthrough", columns)], sparse_threshold=1.0)
        return keep.set_output(transform="default").fit_transform(X)
    return _safe_indexing(X, columns, axis=1)


def name_after(cls: type, method: Any) -> Any:
    """Return a method that was inherited as this class's own: errors of its arguments name the class."""
    copy = FunctionType(
        method.__code__,
        method.__globals__,
        method.__name__,
        method.__defaults__,
        method.__closure__,
    )
    copy.__kwdefaults__, copy.__doc__ = method.__kwdefaults__, method.__doc__
    copy.__annotations__, copy.__module__ = method.__annotations__, method.__module__
    copy.__qualname__ = f"{cls.__name__}.{method.__name__}"
    return copy
