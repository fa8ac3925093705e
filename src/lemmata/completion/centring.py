"""Centring: what a row, a column or the whole matrix has in common is taken out before the factors, and put back after.

    a_ij = μ + b_i + c_j + s_i t_j x_ij                      x: what the factors explain                    (CIL 2.1.4)

With the means over what is known, so that an empty row has mean 0 (CIL (2.6)):

    μ_i = Σ_j ω_ij a_ij / max{1, Σ_j ω_ij}

Row and column means cannot simply be added (what a row has in common is in the means of its columns too), so "both" asks for
the b and c that fit best together, μ the mean of all known entries:

    minimise  ½ Σ_Ω (a_ij − μ − b_i − c_j)²  +  ½ λ (‖b‖² + ‖c‖²)

    >>> import numpy as np
    >>> from lemmata.completion.observed import Observed
    >>> A = Observed.of(np.array([[5.0, np.nan, 3.0], [np.nan, 2.0, np.nan]]))
    >>> offsets = centre(A, "rows")
    >>> offsets.rows, offsets.remove_from(A).values
    (array([4., 2.]), array([ 1., -1.,  0.]))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from lemmata.completion.observed import Entries, Observed

Array = np.ndarray

HOW = ("none", "global", "rows", "columns", "both", "zscore rows", "zscore columns")
BLOCK = 2**19  # entries gathered at once: 4 MB, which stay in the cache
ACCURACY = 1e-12  # of the normal equations of "both", relative to their right-hand side
BIAS_REG = 3.0  # κ: so many average entries are added to every row and column, unless somebody knows better
MAX_STEPS = 1000  # of conjugate gradients; MovieLens needs 20


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
        return cls(
            0.0, np.zeros(n, dtype), np.zeros(m, dtype), np.ones(n, dtype), np.ones(m, dtype)
        )

    @property
    def T(self) -> Offsets:
        """The offsets of the transposed matrix."""
        return Offsets(self.mean, self.columns, self.rows, self.column_scale, self.row_scale)

    def at(self, rows: Array, columns: Array) -> Array:
        """μ + b_i + c_j at positions (broadcast against each other)."""
        return self.rows.dtype.type(self.mean) + self.rows[rows] + self.columns[columns]

    def scale_at(self, rows: Array, columns: Array) -> Array:
        return self.row_scale[rows] * self.column_scale[columns]

    def remove_from(self, A: Observed) -> Observed:
        """The entries of x: what is left for the factors."""
        i, j = A.rows, A.columns
        return A.with_values(
            ((A.values - self.at(i, j)) / self.scale_at(i, j)).astype(A.dtype, copy=False)
        )


def centre(A: Observed, how: str, reg: float = 0.0) -> Offsets:
    """The offsets of a partly known matrix.

    Parameters
    ----------
    how : {"none", "global", "rows", "columns", "both", "zscore rows", "zscore columns"}
        rows: b_i = μ_i of (2.6), and μ = 0. both: as above. zscore rows: the same as rows, with s_i the standard deviation of
        the known entries of row i (Def. 2.1.1), 1 for a row that is constant or empty. The same for columns.
    reg : float, default=0
        λ of "both". With rows or columns alone, λ > 0 draws their means towards the mean of all entries: μ + b_i with
        b_i = Σ_j (a_ij − μ)/(n_i + λ). At λ = 0, "both" has many best answers where b_i + t, c_j − t is as good; the c_j chosen
        average 0 over the known entries of every connected part of the matrix.
    """
    if how not in HOW:
        raise ValueError(f"centre={how!r} is not accepted; pass one of {', '.join(HOW)}.")
    if not (isinstance(reg, Real) and 0 <= reg < np.inf):
        raise ValueError(f"reg={reg!r} is not accepted; λ is a number >= 0.")
    if how.endswith("columns"):
        return centre(A.T, how.replace("columns", "rows"), reg).T
    offsets = Offsets.zero(A.shape, A.dtype)
    if how == "none":
        return offsets
    if how in ("global", "both") or reg > 0:
        mean, b, c = biases(A, rows=how != "global", columns=how == "both", reg=reg)
        offsets = replace(offsets, mean=mean, rows=b.astype(A.dtype), columns=c.astype(A.dtype))
    else:
        offsets = replace(offsets, rows=row_means(A))
    return replace(offsets, row_scale=row_deviations(A)) if how == "zscore rows" else offsets


def row_means(A: Observed) -> Array:
    """μ_i over what is known of row i; 0 where nothing is (CIL (2.6))."""
    return (A.over_rows(sum_values) / np.maximum(1, A.row_counts)).astype(A.dtype)


def row_deviations(A: Observed) -> Array:
    """σ_i of what is known of row i, 1 where that is one value or none: dividing by 0 would tell nothing."""
    counts = np.maximum(1, A.row_counts)
    means = A.over_rows(sum_values) / counts  # not rounded to float32, as row_means are
    squares, spread = A.over_rows(sum_squares, aligned=(means,))
    return np.where(spread > 0, np.sqrt(squares / counts), 1.0).astype(A.dtype)


# --- both at once -----------------------------------------------------------------------------------------------------


def biases(
    A: Observed, *, rows: bool = True, columns: bool = True, reg: float = 0.0
) -> tuple[float, Array, Array]:
    """μ, b and c in float64: the mean of all known entries and the best offsets from it, of rows, columns or both.

    With n_i and m_j the counts and r, s the sums of a − μ over rows and columns, the derivatives vanish where

        (n_i + λ) b_i + Σ_j ω_ij c_j = r_i          (m_j + λ) c_j + Σ_i ω_ij b_i = s_j

    Eliminating b leaves one positive semidefinite system for c, solved by conjugate gradients with its diagonal as the
    preconditioner. From c = 0 the iterates never leave its range, hence the choice of c at λ = 0 named in `centre`.
    """
    (n, m), b, c = A.shape, np.zeros(A.shape[0]), np.zeros(A.shape[1])
    if not A.n_observed:
        return 0.0, b, c
    sums = A.over_rows(sum_values)
    mean = float(sums.sum() / A.mass)
    if not rows and not columns:
        return mean, b, c
    n_i, m_j = (
        np.maximum(counts + reg, 1.0 if reg == 0 else reg)
        for counts in (A.row_masses, A.column_masses)
    )
    r = sums - mean * A.row_masses
    s = A.over_columns(sum_values) - mean * A.column_masses
    if not columns:
        return mean, r / n_i, c
    if not rows:
        return mean, b, s / m_j

    def schur(c):
        return m_j * c - A.over_columns(sum_others, A.over_rows(sum_others, c) / n_i)

    start = s - A.over_columns(sum_others, r / n_i)
    # What rounding leaves in sums of so many entries; below it there is nothing to solve for.
    size = np.sqrt(float(A.over_rows(sum_squares, aligned=(np.zeros(n),))[0].sum()))
    # in units of the right-hand side: its square, times that of the accuracy, would vanish for entries of 1e-150
    unit = float(np.abs(start).max()) or 1.0
    c, _ = cg(
        LinearOperator((m, m), schur, dtype=np.float64),
        start / unit,
        rtol=ACCURACY,
        atol=8 * np.finfo(float).eps * size / unit,
        maxiter=MAX_STEPS,
        M=LinearOperator((m, m), lambda x: x / m_j, dtype=np.float64),
    )
    c = unit * c
    return mean, (r - A.over_rows(sum_others, c)) / n_i, c


def residual_deviation(A: Observed) -> float:
    """The deviation of an entry from offsets of rows and columns that have not seen it: a unit for ridges on factors.

    With one side alone, leaving an entry out makes its error e/(1 − h), h = 1/(n_i + κ) its share of its own offset. With both,
    h is the sum of the two shares, as if they did not interact. Where rows have few entries, errors of entries that were seen
    are far too small (MovieTweetings: 1.31, and 1.51 of entries held out; this is 1.55).

    Not less than a thousandth of the entries themselves, so that a ridge in this unit is one.
    """
    mean, b, c = biases(A, reg=BIAS_REG)
    shares = [1 / (masses + BIAS_REG) for masses in (A.row_masses, A.column_masses)]
    errors = A.over_rows(left_out_squares, mean, c, shares[1], aligned=(b, shares[0]))
    square = float(errors.sum()) / A.mass
    zero = np.zeros(A.shape[0]), np.zeros(A.shape[1])
    all_of_it = float(A.over_rows(squared_errors, 0.0, zero[1], aligned=(zero[0],)).sum())
    return max(square, 1e-6 * all_of_it / A.mass) ** 0.5 or 1.0


# --- passes over the entries of rows; on a cluster each block of rows is one call ---------------------------------------


def sum_values(entries: Entries) -> Array:
    """Σ_j a_ij of every row, in float64."""
    out = np.zeros(len(entries.indptr) - 1)
    for rows, starts, here in pieces(entries):
        out[rows] = np.add.reduceat(_weigh(entries, here, entries.values[here]), starts)
    return out


def _weigh(entries: Entries, here: slice, x: Array) -> Array:
    """Numbers of some entries in float64, times the weights where entries have any."""
    wide = x.astype(np.float64, copy=False)
    return wide if entries.weights is None else wide * entries.weights[here]


def sum_others(entries: Entries, c: Array) -> Array:
    """Σ_j c_j over the known j of every row."""
    out = np.zeros(len(entries.indptr) - 1)
    for rows, starts, here in pieces(entries):
        out[rows] = np.add.reduceat(_weigh(entries, here, c[entries.indices[here]]), starts)
    return out


def sum_squares(entries: Entries, means: Array) -> tuple[Array, Array]:
    """Σ_j (a_ij − μ_i)² of every row, and the difference between its largest and smallest entry."""
    squares, spread = np.zeros((2, len(entries.indptr) - 1))
    for rows, starts, here in pieces(entries):
        a = entries.values[here].astype(np.float64)
        spread[rows] = np.maximum.reduceat(a, starts) - np.minimum.reduceat(a, starts)
        a -= np.repeat(means[rows], np.diff(np.append(starts, len(a))))
        squares[rows] = np.add.reduceat(a * a, starts)
    return squares, spread


def squared_errors(entries: Entries, mean: float, c: Array, b: Array) -> Array:
    """Σ_j (a_ij − μ − b_i − c_j)² of every row."""
    out = np.zeros(len(entries.indptr) - 1)
    with np.errstate(over="ignore", invalid="ignore"):  # the loop stops at what is not finite
        for rows, starts, here in pieces(entries):
            e = entries.values[here] - c[entries.indices[here]]
            e -= np.repeat(b[rows] + mean, np.diff(np.append(starts, len(e))))
            out[rows] = np.add.reduceat(_weigh(entries, here, e * e), starts)
    return out


def left_out_squares(
    entries: Entries, mean: float, c: Array, of_columns: Array, b: Array, of_rows: Array
) -> Array:
    """Σ_j ((a_ij − μ − b_i − c_j) / (1 − h_ij))² of every row, h_ij the sum of a share of its row and one of its column."""
    out = np.zeros(len(entries.indptr) - 1)
    with np.errstate(over="ignore", invalid="ignore"):
        for rows, starts, here in pieces(entries):
            sizes, columns = (
                np.diff(np.append(starts, here.stop - here.start)),
                entries.indices[here],
            )
            e = entries.values[here] - c[columns] - np.repeat(b[rows] + mean, sizes)
            e /= 1 - of_columns[columns] - np.repeat(of_rows[rows], sizes)
            out[rows] = np.add.reduceat(_weigh(entries, here, e * e), starts)
    return out


def pieces(entries: Entries) -> Iterator[tuple[Array, Array, slice]]:
    """Rows that have entries, where each of them starts in its piece, and the piece of the entries: about BLOCK of them."""
    indptr = entries.indptr
    filled = np.flatnonzero(np.diff(indptr))
    if not len(filled):
        return
    first = indptr[filled]
    cuts = np.searchsorted(first, np.arange(first[0] + BLOCK, indptr[-1], BLOCK))
    for rows in np.split(np.arange(len(filled)), np.unique(cuts)):
        if len(rows):
            begin, end = first[rows[0]], indptr[filled[rows[-1]] + 1]
            yield filled[rows], first[rows] - begin, slice(begin, end)
