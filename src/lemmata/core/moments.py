"""Count, mean and scatter: the sufficient statistic of everything linear (CIL 1.4.3).

>>> import numpy as np
>>> X = np.random.default_rng(0).normal(size=(100, 3))
>>> parts = sum((Moments.of(B) for B in np.array_split(X, 7)), Moments())
>>> bool(np.allclose(parts.covariance, np.cov(X.T)))
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce
from lemmata.core.store import storable
from lemmata.core.validation import NotFinite

Array = np.ndarray
CENTRED_ENOUGH = 64.0  # a Gram matrix minus n·mmᵀ loses log10(64) < 2 digits while n·m² stays below 64 times the scatter


@storable
@dataclass(frozen=True)
class Moments:
    """Total weight n, mean μ and scatter Σ w(x−μ)(x−μ)ᵀ of rows, in float64. Moments() is the empty sum."""

    version = 1
    layout: ClassVar = {"n": ">0", "mean": "d", "scatter": "d d"}

    n: float = 0
    mean: Any = 0.0  # (d,)
    scatter: Any = 0.0  # (d, d)

    @classmethod
    def of(cls, rows: Any, weights: Array | None = None) -> Moments:
        """Moments of a block; a weight counts its row that many times."""
        n = rows.shape[0] if weights is None else float(weights.sum(dtype=np.float64))
        if n == 0:
            return cls()
        if sp.issparse(rows):
            return cls._of_sparse(rows, weights, n)
        if weights is None:
            total, weighted = rows.sum(axis=0, dtype=np.float64), rows
        else:
            weighted = rows * weights[:, None].astype(rows.dtype, copy=False)
            total = weighted.sum(axis=0, dtype=np.float64)
        if not np.isfinite(total).all():
            raise NotFinite(
                "Input contains NaN or infinity (or numbers too large for its dtype); clean or impute it first."
            )
        mean = total / n
        scatter = _minus_outer((weighted.T @ rows).astype(np.float64), n * mean, mean)
        if _lost_digits(n, mean, scatter):  # centre first
            centred = rows - mean.astype(rows.dtype)
            weighted = (
                centred
                if weights is None
                else centred * weights[:, None].astype(rows.dtype, copy=False)
            )
            # the mean was rounded to the dtype of the rows
            rest = weighted.sum(axis=0, dtype=np.float64) / n
            mean = mean.astype(rows.dtype).astype(np.float64) + rest
            scatter = _minus_outer((weighted.T @ centred).astype(np.float64), n * rest, rest)
        return cls(n, mean, scatter)

    @classmethod
    def _of_sparse(cls, rows, weights, n) -> Moments:
        """The rows stay sparse; zeros keep the mean small against the scatter, so centring afterwards loses little.

        Where a column has few zeros and lies far from them, slices of the rows are centred before they are multiplied.
        """
        rows = rows.astype(np.float64)
        weighted = rows if weights is None else rows.multiply(weights[:, None]).tocsr()
        mean = np.asarray(weighted.sum(axis=0)).ravel() / n
        scatter = _minus_outer((weighted.T @ rows).toarray(), n * mean, mean)
        if _lost_digits(n, mean, scatter):
            step = max(1, 2**20 // rows.shape[1])
            slices = [slice(i, i + step) for i in range(0, rows.shape[0], step)]
            return sum(
                (
                    cls.of(rows[s].toarray(), None if weights is None else weights[s])
                    for s in slices
                ),
                cls(),
            )
        return cls(n, mean, scatter)

    def __add__(self, other: Moments) -> Moments:
        if other.n == 0:
            return self
        if self.n == 0:
            return other
        n = self.n + other.n
        d = other.mean - self.mean
        scatter = _minus_outer(self.scatter + other.scatter, d, d * -(self.n * other.n / n))
        return Moments(n, self.mean + d * (other.n / n), scatter)

    @property
    def about_zero(self) -> Array:
        """Σ wxxᵀ, the scatter about 0 instead of the mean."""
        return self.scatter + np.multiply.outer(self.n * self.mean, self.mean)

    @property
    def covariance(self) -> Array:
        """scatter / (n − 1), scikit-learn's convention."""
        return self.scatter / max(self.n - 1, np.finfo(float).tiny)


def _lost_digits(n: float, mean: Array, scatter: Array) -> bool:
    """Whether subtracting n·μμᵀ ate digits of the scatter; raises where its squares were too large for their dtype."""
    spread = np.diagonal(scatter)
    if not np.isfinite(spread).all():
        raise ValueError(
            "Input contains numbers too large for their dtype to be squared; scale it down, or use float64."
        )
    return bool((n * mean**2 > CENTRED_ENOUGH * spread).any())


def _minus_outer(S: Array, u: Array, v: Array) -> Array:
    """S − uvᵀ in place, some rows at a time: a temporary d × d array costs as much as the products where d is large."""
    for i in range(0, len(u), 64):
        S[i : i + 64] -= np.multiply.outer(u[i : i + 64], v)
    return S


class Gathering:
    """Moments of batches that come one by one: exact in any order, and as fast as one pass over all of them.

    Small batches wait in a buffer and are then added up like the blocks of a fit, because a d × d sum per batch of a
    thousand rows would cost as much as its products.
    """

    BUFFER = 64 * 2**20  # bytes

    def __init__(self, moments: Moments | None = None):
        self._moments = Moments() if moments is None else moments
        self._buffer: Array | None = None  # rows that wait
        self._weights: Array | None = None
        self._filled = 0

    def add(self, data: Blocks) -> None:
        """Take a batch. Refuses what cannot be squared now, not when the buffer is emptied."""
        rows = data.source
        if not isinstance(rows, np.ndarray) or not data.in_memory or rows.nbytes > self.BUFFER // 4:
            self._moments = map_reduce(Moments.of, data, self.total())
            return
        # not a BLAS dot: waking its threads costs more than the sum
        if not np.isfinite(np.einsum("ij,ij->", rows, rows)):
            raise NotFinite(
                "Input contains NaN or infinity, or numbers too large for their dtype to be squared."
            )
        buffer, weights = self._room_for(rows)
        here = slice(self._filled, self._filled + len(rows))
        buffer[here] = rows
        weights[here] = 1.0 if data.weights is None else data.weights
        self._filled = here.stop

    def _room_for(self, rows: Array) -> tuple[Array, Array]:
        """The buffer, emptied if these rows would not fit or are of another type."""
        if (
            self._buffer is not None
            and self._weights is not None
            and self._buffer.dtype == rows.dtype
        ):
            if self._filled + len(rows) > len(self._buffer):
                self.total()
            return self._buffer, self._weights
        self.total()
        size = self.BUFFER // max(rows.shape[1] * rows.itemsize, 1)
        self._buffer, self._weights = np.empty((size, rows.shape[1]), rows.dtype), np.empty(size)
        return self._buffer, self._weights

    def total(self) -> Moments:
        """The moments of all batches so far."""
        if self._filled and self._buffer is not None and self._weights is not None:
            rows, weights = self._buffer[: self._filled], self._weights[: self._filled]
            even = bool((weights == 1).all())
            self._moments = map_reduce(
                Moments.of, Blocks.of(rows, None if even else weights), self._moments
            )
            self._filled = 0
        return self._moments

    def __getstate__(self) -> dict[str, Any]:
        return {"moments": self.total()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Gathering.__init__(self, state["moments"])
