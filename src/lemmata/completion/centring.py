"""Centring: what a row, a column or the whole matrix has in common is taken out before the factors, and put back after.

    a_ij = μ + b_i + c_j + s_i t_j x_ij                      x: what the factors explain                    (CIL 2.1.4)

With the means over what is known, so that an empty row has mean 0 (CIL (2.6)):

    μ_i = Σ_j ω_ij a_ij / max{1, Σ_j ω_ij}

    >>> import numpy as np
    >>> from lemmata.completion.observed import Observed
    >>> A = Observed.of(np.array([[5.0, np.nan, 3.0], [np.nan, 2.0, np.nan]]))
    >>> offsets = centre(A, "rows")
    >>> offsets.rows, offsets.removed(A).values
    (array([4., 2.]), array([ 1., -1.,  0.]))
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lemmata.completion.observed import Observed

Array = np.ndarray

HOW = ("none", "global", "rows", "columns", "both", "zscore rows", "zscore columns")


@dataclass(frozen=True)
class Offsets:
    """μ, b and c, and the scales s and t (ones unless z-scores were asked for)."""

    mean: float
    rows: Array  # (n,) b
    columns: Array  # (m,) c
    row_scale: Array  # (n,) s
    column_scale: Array  # (m,) t

    @classmethod
    def zero(cls, shape: tuple[int, int], dtype) -> Offsets:
        n, m = shape
        return cls(0.0, np.zeros(n, dtype), np.zeros(m, dtype), np.ones(n, dtype), np.ones(m, dtype))

    def at(self, rows: Array, columns: Array) -> Array:
        """μ + b_i + c_j at positions (broadcast against each other)."""
        return self.rows.dtype.type(self.mean) + self.rows[rows] + self.columns[columns]

    def scale_at(self, rows: Array, columns: Array) -> Array:
        return self.row_scale[rows] * self.column_scale[columns]

    def removed(self, A: Observed) -> Observed:
        """The entries of x: what is left for the factors."""
        i, j = A.rows, A.columns
        return A.with_values(((A.values - self.at(i, j)) / self.scale_at(i, j)).astype(A.dtype, copy=False))


def centre(A: Observed, how: str, reg: float = 0.0) -> Offsets:
    """The offsets of a partly known matrix."""
    if how not in HOW:
        raise ValueError(f"centre={how!r} is not accepted; pass one of {', '.join(HOW)}.")
    offsets = Offsets.zero(A.shape, A.dtype)
    if how == "none":
        return offsets
    if how == "rows":
        return Offsets(0.0, row_means(A), offsets.columns, offsets.row_scale, offsets.column_scale)
    mean = float(A.values.mean(dtype=np.float64)) if A.n_observed else 0.0
    return Offsets(mean, offsets.rows, offsets.columns, offsets.row_scale, offsets.column_scale)


def row_means(A: Observed) -> Array:
    """μ_i over what is known of row i; 0 where nothing is (CIL (2.6))."""
    sums = np.bincount(A.rows, weights=A.values, minlength=A.shape[0])
    return (sums / np.maximum(1, A.row_counts)).astype(A.dtype)
