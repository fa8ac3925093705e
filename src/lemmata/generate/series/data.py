"""Series as models take them: one, the rows of a matrix, or a list. NaN is refused, or cuts a series in two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_array

from lemmata.core.estimator import Model
from lemmata.core.loop import warn_user
from lemmata.core.validation import refuse_malformed

Array = np.ndarray


@dataclass(frozen=True)
class Series:
    """Series of numbers. Those of one length stand together, as the rows of a matrix."""

    groups: tuple[Array, ...]  # each (series, length)
    left_out: int = 0  # pieces between gaps that were too short

    weights: ClassVar[None] = None

    @classmethod
    def of(cls, X: Any, missing: str = "raise", longer_than: int = 0) -> Series:
        """Check series: a vector, a matrix whose rows are series, or a list of vectors.

        missing : "raise" where a value is NaN, or "cut" the series there
        longer_than : pieces between gaps have to be; others are left out
        """
        if isinstance(X, Series):
            return X
        if _are_several(X):
            found = [_check(np.atleast_2d(one), missing, f" {i}") for i, one in enumerate(X)]
        else:
            found = [_check(np.asarray(X)[None] if _is_one(X) else X, missing, "")]
        if missing != "cut" or all(np.isfinite(rows).all() for rows in found):
            return cls(tuple(found))
        pieces = [piece for rows in found for row in rows for piece in _cut(row)]
        kept = [piece[None] for piece in pieces if len(piece) > longer_than]
        if not kept:
            raise ValueError(f"between the gaps no series is longer than {longer_than} values.")
        return cls(tuple(kept), len(pieces) - len(kept))

    @property
    def shape(self) -> tuple[int, int]:
        """How many series there are, and the length of the longest."""
        return sum(len(rows) for rows in self.groups), max(rows.shape[1] for rows in self.groups)

    @property
    def shortest(self) -> int:
        return min(rows.shape[1] for rows in self.groups)

    @property
    def size(self) -> int:
        return sum(rows.size for rows in self.groups)

    @property
    def dtype(self) -> np.dtype:
        return self.groups[0].dtype

    @cached_property
    def source(self) -> Array:
        """All values one below the other, for a digest."""
        return np.concatenate([rows.ravel() for rows in self.groups])[:, None]

    @property
    def last(self) -> Array:
        """The series that came last."""
        return self.groups[-1][-1]


def _are_several(X: Any) -> bool:
    return isinstance(X, (list, tuple)) and len(X) > 0 and np.ndim(X[0]) == 1


def _is_one(X: Any) -> bool:
    listed = isinstance(X, (list, tuple)) and len(X) > 0
    return np.ndim(X[0]) == 0 if listed else getattr(X, "ndim", 2) == 1


def _check(X: Any, missing: str, which: str) -> Array:
    finite = True if missing == "raise" else "allow-nan"
    try:
        return check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=finite)
    except ValueError as error:
        if "NaN" not in str(error):
            raise
        for row, values in enumerate(np.asarray(X)):
            bad = np.flatnonzero(np.isnan(np.asarray(values, dtype=np.float64)))
            if len(bad):
                raise ValueError(
                    f"series{which or f' {row}'} contains NaN at position {bad[0]} (counted from 0); fill the gaps, or pass "
                    "missing='cut' to fit the pieces between them."
                ) from None
        raise


def _is_constant(rows: Array) -> bool:
    """Whether each series has one value; most differ from it soon."""
    few = rows[:, :100]
    return bool((few == few[:, :1]).all()) and bool((rows == rows[:, :1]).all())


def _cut(row: Array) -> list[Array]:
    known = np.isfinite(row)
    ends = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    return [row[a:b] for a, b in zip(ends[::2], ends[1::2], strict=True)]


class ModelOfSeries(Model):
    """A model of series."""

    missing = "raise"

    def fit(self, X, y=None):  # type: ignore[override]
        """Fit the model to a series (n,), to the rows of a matrix, or to a list of series, and check the claims about it."""
        return super().fit(X)

    @property
    def _least_length(self) -> int:
        """Values that a series needs more of."""
        return 1

    def _validate_rows(self, X, sample_weight=None, reset: bool = True, min_samples=None) -> Any:
        refuse_malformed(X)
        least = self._least_length
        if _is_one(X) or _are_several(X):
            data = Series.of(X, self.missing, longer_than=least)
            if reset:
                self.n_features_in_ = 1
                self._forget("feature_names_in_")
        else:
            blocks = super()._validate_rows(X, sample_weight, reset, min_samples)
            whole = isinstance(blocks.source, np.ndarray)
            rows = (
                blocks.source if whole else np.concatenate([np.asarray(part) for part, _ in blocks])
            )
            data = Series.of(np.asarray(rows), self.missing, longer_than=least)
        if data.left_out:
            found = f"{data.left_out} pieces between gaps have at most {least} values"
            warn_user(f"{found} and are left out.", UserWarning)
        if reset and data.shortest <= least:
            raise ValueError(
                f"{type(self).__name__} needs series of more than {least} values here; the shortest has n_features="
                f"{data.shortest}: lower the order, or pass longer ones."
            )
        if reset and all(_is_constant(rows) for rows in data.groups):
            raise ValueError("every series is constant: there is nothing to predict.")
        return data

    @property
    def accepts_nan(self) -> bool:  # type: ignore[override]
        """NaN cuts a series in two, where that was asked for."""
        return self.missing == "cut"
