"""Masks of known values: NaN is unknown in dense rows, all but the entries in an `Observed`; the rest of a sparse matrix is 0.

A known zero says that two things do not go together, an unknown entry says nothing. Where something is not known, the sums over
columns in every formula run over the known ones only,

    G_i = Σ_{j ∈ Ω_i} v_j v_jᵀ = (mask · V⊗V)_i,        Σ_{j ∈ Ω_i} v_j = (mask · V)_i,

products of the mask with a matrix that has a row for every column of X: they cost k/2 times a product with X itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.completion.observed import Observed
from lemmata.core.blocks import Blocks

Array = np.ndarray


def known_part(rows: Any, only_stored: bool) -> tuple[Any, Any]:
    """(rows with 0 for what is not known, the mask as 1 and 0); None for the mask where everything is known."""
    if only_stored:
        ones = np.ones_like(rows.data)
        return rows, sp.csr_array((ones, rows.indices, rows.indptr), shape=rows.shape)
    if sp.issparse(rows):
        return rows, None
    unknown = np.isnan(rows)
    if not unknown.any():
        return rows, np.ones_like(rows)
    return np.where(unknown, 0, rows), (~unknown).astype(rows.dtype)


def has_holes(data: Blocks) -> bool:
    """Return whether anything is not known."""
    if isinstance(data.source, Observed):
        return True
    # NaN is passed on by min, which needs no copy
    return any(not sp.issparse(rows) and bool(np.isnan(rows.min(initial=0.0))) for rows, _ in data)


def squared_rows(V: Array) -> Array:
    """v_j v_jᵀ of every row, (m, k(k + 1)/2): the upper triangle."""
    a, b = np.triu_indices(V.shape[1])
    return V[:, a] * V[:, b]


def unfold(triangles: Array, k: int) -> Array:
    """Symmetric matrices (n, k, k) from their upper triangles."""
    G = np.empty((len(triangles), k, k), triangles.dtype)
    a, b = np.triu_indices(k)
    G[:, a, b] = triangles
    G[:, b, a] = triangles
    return G
