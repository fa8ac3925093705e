"""Rows of a fit as its claims read them: dense, all at once, or some of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.audit.kernel.claims import CannotTell

Array = np.ndarray


def dense(rows: Any) -> Array:
    """Return rows as a dense array of float64."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def whole(data: Any) -> Any:
    """Return all rows in memory, sparse ones as such."""
    if data.in_memory:
        return data.source
    parts = [rows for rows, _ in data]
    return sp.vstack(parts).tocsr() if sp.issparse(parts[0]) else np.concatenate(parts)


def evenly_spread(n: int, most: int) -> Array:
    """Return the numbers of up to `most` of n rows, from the first to the last."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


def refuse_other_rows(fitted: int, n: int) -> None:
    """Raise CannotTell where a fit was to another number of rows."""
    if fitted != n:
        why = f"the fit was to {fitted:,} rows and these are {n:,}: pass the training data"
        raise CannotTell(why)
