"""A Gaussian mixture as the inner loops see it: in units in which the data has about mean 0 and deviation 1.

Both the compiled sweep (_kernels_em.py) and its NumPy twin (_twins_em.py) read this, so that either can do the work. Which
one does is decided once per fit, by the total size of the work.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray
WIDE = 4  # features that the kernel works on at a time: P has a multiple of it as columns
# log-density of a row beyond all densities; what can be squared is above
LOWEST, LOWEST_SINGLE = -8e307, -2e38


class Standardised(NamedTuple):
    """Read-only arrays of one dtype, as the kernels are compiled for."""

    centre: Array  # (d,)
    inverse: Array  # (d,) of the deviations
    P: Array  # (k, d, d padded to fours) upper triangular, PPᵀ the precision; or (k, d)
    shift: Array  # Pᵀμ, padded alike
    means: Array  # (k, d)
    logs: Array  # (k,) log π_j and all that does not depend on x

    @classmethod
    def of(cls, dtype: Any, *arrays: Array) -> Standardised:
        fixed = [np.ascontiguousarray(array, dtype=dtype).view() for array in arrays]
        for array in fixed:
            array.flags.writeable = False
        return cls(*fixed)


def patterns(gone: Array) -> tuple[Array, Array]:
    """An order in which equal rows of `gone` (n, d) are neighbours, and where each group of them starts (and the last ends)."""
    packed = np.packbits(gone, axis=1)
    order = np.lexsort(packed.T)
    packed = packed[order]
    starts = np.flatnonzero(np.r_[True, (packed[1:] != packed[:-1]).any(axis=1)])
    return order, np.r_[starts, len(order)]
