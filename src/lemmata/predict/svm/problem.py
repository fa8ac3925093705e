"""The dual of a support vector machine, in one form for classification and regression.

    minimise  ½ βᵀKβ + cᵀβ     over  lo ≤ β ≤ hi,  1ᵀβ = 0                   f(x) = Σ_i β_i κ(x_i, x) + b

    classification, y_i = ±1     β_i = y_i α_i with 0 ≤ α_i ≤ C_i,                       c_i = −y_i
    regression                   β = α ≥ 0 and β = −α* ≤ 0, two variables for each row,  c = ε − y and −ε − y

C_i is C times the weight of row i (ML Support vector machines: the dual of ½‖w‖² + Σ C_i loss_i). A β that can rise has
β < hi, one that can fall β > lo; with G = Kβ + c the solution is where no G that can fall exceeds one that can rise, and
−b lies between the two. The sum of both losses at b and this form of the dual make the duality gap that the audit measures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lemmata.core.blocks import Blocks
from lemmata.predict.kernels.base import Kernel
from lemmata.predict.kernels.tiles import side_by_side
from lemmata.predict.svm.row_cache import RowCache

Array = np.ndarray
TILE = 256  # rows and columns of a whole kernel matrix that are computed at once


@dataclass(frozen=True)
class MachineDual:
    """One dual problem: of two classes, or of a regression."""

    members: Array  # (m,) the rows of the data that it sees
    of: Array  # (v,) the member that each variable belongs to
    c: Array  # (v,)
    lo: Array  # (v,)
    hi: Array  # (v,)

    @classmethod
    def of_signs(cls, members: Array, signs: Array, C: Array) -> MachineDual:
        """Two classes, y = ±1, with a bound C_i for each row."""
        lo, hi = np.where(signs > 0, 0.0, -C), np.where(signs > 0, C, 0.0)
        return cls(members, np.arange(len(members)), -signs.astype(np.float64), lo, hi)

    @classmethod
    def of_numbers(cls, members: Array, y: Array, C: Array, epsilon: float) -> MachineDual:
        """Regression with a tube of half-width ε."""
        n = len(members)
        c = np.concatenate([epsilon - y, -epsilon - y])
        zero = np.zeros(n)
        lo, hi = np.concatenate([zero, -C]), np.concatenate([C, zero])
        return cls(members, np.tile(np.arange(n), 2), c, lo, hi)

    @property
    def size(self) -> int:
        return len(self.c)

    def gradient(self, field: Array) -> Array:
        """G = Kβ + c of every variable, from Kβ of every member."""
        return (field if len(field) == len(self.c) else field[self.of]) + self.c

    def by_member(self, values: Array) -> Array:
        """Numbers of variables, added up where they belong to one row."""
        if len(self.members) == len(values):
            return values
        return values[: len(self.members)] + values[len(self.members) :]

    def intercept(self, beta: Array, G: Array) -> float:
        """b: minus the mean gradient of what is within its bounds, or the middle of what the bounds leave open."""
        inside = (beta > self.lo) & (beta < self.hi)
        if inside.any():
            return -float(G[inside].mean())
        least = G[beta < self.hi].min(initial=np.inf)
        most = G[beta > self.lo].max(initial=-np.inf)
        ends = [end for end in (least, most) if np.isfinite(end)]
        return -float(np.mean(ends))


@dataclass
class Duals:
    """The machines of a fit, and the rows, kernel and cache that they share: the data of the algorithm."""

    X: Any  # (n, d), or K for a precomputed kernel
    kernel: Kernel
    machines: tuple[MachineDual, ...]
    megabytes: float
    together: bool  # the kernel matrix is formed whole, and all machines are solved at once
    tol: float
    order: Array  # (n,) the rows as they stand in the whole matrix: class by class
    data: Blocks
    _whole: Array | None = field(default=None, repr=False)
    _cache: tuple[int, RowCache] | None = field(default=None, repr=False)

    @property
    def whole(self) -> Array:
        """K of all rows in `order`, in float32 where its rounding cannot matter, tile by tile on all cores."""
        if self._whole is None:
            n = self.X.shape[0]
            cuts = [slice(i, min(i + TILE, n)) for i in range(0, n, TILE)]
            dtype = self._dtype()
            K = np.empty((n, n), dtype)
            tile = self.kernel._against(self.X, self.order, cuts)

            def fill(corner: tuple[int, int]) -> None:
                rows, columns = cuts[corner[0]], cuts[corner[1]]
                K[rows, columns] = tile(np.arange(rows.start, rows.stop), corner[1], dtype)
                if corner[0] != corner[1]:
                    K[columns, rows] = K[rows, columns].T

            corners = [(i, j) for i in range(len(cuts)) for j in range(i + 1)]
            if len(corners) == 1:
                fill(corners[0])
            else:
                side_by_side(fill, corners)
            self._whole = K
        return self._whole

    def _dtype(self) -> np.dtype:
        """float32 rows put errors of at most eps/2·max K_ii·‖β‖ into a gradient, of any sign; a tenth of tol is too much."""
        largest = max(float(np.sqrt(one.hi @ one.hi + one.lo @ one.lo)) for one in self.machines)
        noise = np.finfo(np.float32).eps / 2 * self.scale * largest
        return np.dtype(np.float32 if noise < 0.1 * self.tol else np.float64)

    @cached_property
    def places(self) -> Array:
        """Where each row stands in `order`."""
        places = np.empty(len(self.order), np.int64)
        places[self.order] = np.arange(len(places))
        return places

    @property
    def scale(self) -> float:
        """The largest |K_ii|."""
        return float(np.abs(self.kernel.diagonal(self.X)).max(initial=0.0))

    def block(self, machine: MachineDual) -> Array:
        """K of the rows of a machine: of classes that stand together in `order`, four slices of the whole."""
        K, places = self.whole, self.places[machine.members]
        breaks = np.flatnonzero(places[1:] - places[:-1] != 1) + 1
        if len(breaks) == 0:
            return K[places[0] : places[-1] + 1, places[0] : places[-1] + 1]
        if len(breaks) > 1:
            return K[places[:, None], places]
        cut, out = int(breaks[0]), np.empty((len(places), len(places)), K.dtype)
        parts = [(slice(0, cut), places[0]), (slice(cut, None), places[cut])]
        for rows, i in parts:
            for columns, j in parts:
                here = out[rows, columns]
                here[...] = K[i : i + here.shape[0], j : j + here.shape[1]]
        return out

    def cache(self, machine: int) -> RowCache:
        """The rows of one machine; those of the machine before are forgotten."""
        if self._cache is None or self._cache[0] != machine:
            self._cache = None
            members = self.machines[machine].members
            self._cache = machine, RowCache(self.kernel, self.X, self.megabytes, members)
        return self._cache[1]

    def fingerprint(self) -> str:
        bounds = float(sum(one.hi.sum() - one.lo.sum() + abs(one.c).sum() for one in self.machines))
        return f"{self.kernel!r} {bounds!r} {self.data.fingerprint()}"
