"""The eigenproblem behind PCA, and the ways to solve it.

    maximise  tr(Uᵀ S U)   over U: d × k with UᵀU = I,        S = Σ w(x−μ)(x−μ)ᵀ the scatter of the data

The k leading eigenvectors of S solve it (CIL Thm 1.4.4). `Scatter` is S as an operator: a matrix where d × d numbers fit,
otherwise products with the data, which stays sparse and is centred implicitly. The algorithms below and those of
`lemmata.linalg` ask it for nothing but `S @ V`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.core.engine import map_reduce
from lemmata.core.moments import Moments
from lemmata.core.store import storable
from lemmata.linalg.randomized import signs
from lemmata.reduction.dimension import count_kept

Array = np.ndarray
# above this share of all eigenpairs LAPACK's full solver is faster than its partial one
PART_OF_SPECTRUM = 1 / 3


@dataclass(frozen=True)
class Scatter:
    """S with the total weight n, the mean μ and its trace. Works as an operator, `S @ V`.

    Not centred, S is Σ wxxᵀ, whose eigenvectors are the right singular vectors of the rows.
    """

    n: float
    mean: Array  # (d,)
    total: float  # tr S = Σ w‖x−μ‖²
    operator: Any  # (d, d), with @
    dtype: np.dtype
    data: Blocks | None = None
    moments: Moments | None = None  # what `operator` was formed from, if it was

    @classmethod
    def of_moments(
        cls, moments: Moments, dtype, data: Blocks | None = None, centred: bool = True
    ) -> Scatter:
        S = moments.scatter if centred else moments.about_zero
        mean, total = np.asarray(moments.mean), float(np.trace(S))
        if data is not None:
            refuse_vanishing(total, data)
        return cls(
            moments.n, mean, total, S.astype(dtype, copy=False), np.dtype(dtype), data, moments
        )

    @classmethod
    def form(cls, data: Blocks, centred: bool = True) -> Scatter:
        """S as a matrix, from one pass of Moments."""
        return cls.of_moments(map_reduce(Moments.of, data, Moments()), data.dtype, data, centred)

    @classmethod
    def implicit(cls, data: Blocks, columns: float, centred: bool = True) -> Scatter:
        """S as products with the data, for many features; `columns` of them in all, roughly."""
        from lemmata.linalg.operators import CentredScatter, weighted_mean

        S = CentredScatter(data, None if centred else np.zeros(data.shape[1]), columns)
        refuse_vanishing(S.trace, data)
        mean = S.mean if centred else weighted_mean(data)
        return cls(data.total_weight, mean, S.trace, S, data.dtype, data)

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.mean), len(self.mean))

    @property
    def matrix(self) -> Array:
        """S as a matrix; formed now if it was not."""
        if isinstance(self.operator, np.ndarray):
            return self.operator
        return Scatter.form(self.data).operator  # type: ignore[arg-type]

    def __matmul__(self, V: Array) -> Array:
        return self.operator @ V

    def fingerprint(self) -> str:
        return self.data.fingerprint() if self.data is not None else ""


def refuse_vanishing(total: float, data: Blocks) -> None:
    """Refuse rows that differ, but by so little that the squares of the differences vanish: their scatter would be 0.

    While `total` is at least n times the least normal number, what underflow loses of a product is below its rounding.
    """
    if total >= data.total_weight * float(np.finfo(data.dtype).tiny):
        return
    first = next(iter(data))[0][:1]
    for rows, _ in data:
        # zeros of sparse rows are equal to each other, so their entries are compared with 0
        apart = rows.data if sp.issparse(rows) else rows - first
        largest = float(np.abs(apart).max(initial=0.0))
        if largest > 0:
            raise ValueError(
                f"the rows differ by {largest:.2g} at most, whose square is 0 in {data.dtype}: divide X by its largest number."
            )


@storable
@dataclass(frozen=True)
class AxesState:
    """Orthonormal directions and the scatter along each; none before the first step of a direct solver."""

    version = 1
    layout: ClassVar = {"values": "k", "vectors product?": "r k"}

    values: Array  # (k,) descending
    vectors: Array  # (d, k)
    product: Array | None  # S @ vectors, where the next step needs it


class AxesAlgorithm:
    """Base of the solvers here: a state is a basis, and its objective minus the scatter that the basis captures."""

    def check_state(self, state: AxesState, data: Scatter) -> None:
        """ValueError where a state from a file has axes in another space."""
        if len(state.vectors) != len(data.mean):
            raise ValueError(f"its axes have {len(state.vectors)} numbers, not {len(data.mean)}.")

    def init(self, data: Scatter, rng: np.random.Generator) -> AxesState:
        return AxesState(np.zeros(0), np.zeros((len(data.mean), 0), data.dtype), None)

    def objective(self, state: AxesState) -> float:
        return -float(state.values.sum(dtype=np.float64))

    def attributes(self, state: AxesState) -> dict[str, Any]:
        return {"values": state.values, "vectors": state.vectors}

    def finished(self, state: AxesState) -> bool:
        return len(state.values) > 0  # a direct solver is done after its only step


@dataclass(frozen=True)
class EighAlgorithm(AxesAlgorithm):
    """LAPACK on the matrix S: all eigenpairs, or the leading ones if they are few (CIL 1.5.1)."""

    draws: ClassVar = False

    n_components: int | float | str

    def step(self, state, data):
        S, d, k = data.matrix, len(data.mean), self.n_components
        few = [d - k, d - 1] if isinstance(k, int) and k < PART_OF_SPECTRUM * d else None
        values, vectors = scipy.linalg.eigh(S, subset_by_index=few, check_finite=False)
        # LAPACK's partial solvers silently lose eigenvalues that coincide (S near cI)
        if few and len(values) <= few[1] - few[0]:
            values, vectors = scipy.linalg.eigh(S, driver="evd", check_finite=False)
        values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
        k = (
            k
            if isinstance(k, int)
            else count_kept(
                values, k, data.total, data.n, lambda: np.diagonal(S).astype(np.float64)
            )
        )
        return AxesState(values[:k], np.ascontiguousarray(vectors[:, :k]), None)


@dataclass(frozen=True)
class SVDAlgorithm(AxesAlgorithm):
    """LAPACK's SVD of the centred rows: never squares the data, so small singular values keep their digits (CIL 2.3.3)."""

    draws: ClassVar = False

    n_components: int | float | str

    def step(self, state, data):
        rows = data.data.source - data.mean.astype(data.dtype)
        if data.data.weights is not None:
            rows *= np.sqrt(data.data.weights)[:, None].astype(data.dtype)
        squares = np.einsum("ij,ij->j", rows, rows, dtype=np.float64)
        _, singular, Vt = scipy.linalg.svd(
            rows, full_matrices=False, check_finite=False, overwrite_a=True
        )
        values = singular.astype(np.float64) ** 2
        k = count_kept(values, self.n_components, data.total, data.n, lambda: squares)
        return AxesState(singular[:k] ** 2, np.ascontiguousarray(Vt[:k].T), None)


@dataclass(frozen=True)
class VarianceAscentAlgorithm(AxesAlgorithm):
    """Projected gradient ascent: U ← orth(U + η S U), the gradient of ½ tr(UᵀSU) being S U.

    For a positive semidefinite S the captured scatter cannot fall, whatever η. η = 1/θ₁, the inverse of the smoothness
    measured so far, makes the step about as long as the basis itself.
    """

    stored_name: ClassVar = "GradientAlgorithm"

    k: int

    def init(self, data, rng):
        start = rng.standard_normal((len(data.mean), self.k)).astype(data.dtype)
        return self._at(data, start)

    def step(self, state, data):
        if state.values[0] <= 0:  # no scatter at all: every direction is as good
            return state
        return self._at(data, state.vectors + state.product / state.values[0])

    def _at(self, data, directions):
        """The state of a span: its orthonormal basis turned so that UᵀSU is diagonal (Rayleigh–Ritz)."""
        U, _ = np.linalg.qr(directions)
        SU = data @ U
        values, turn = np.linalg.eigh((U.T @ SU).astype(np.float64))
        turn = turn[:, ::-1].astype(U.dtype)
        return AxesState(
            np.maximum(values[::-1], 0).astype(U.dtype), U @ turn, (SU @ turn).astype(U.dtype)
        )

    def extras(self, state):
        # the gradient within the tangent space
        ascent = state.product - state.vectors * state.values
        return {"gradient": float(np.linalg.norm(ascent.astype(np.float64)))}

    def finished(self, state):
        return False


def upright(vectors: Array) -> Array:
    """The columns with signs such that the entry of largest magnitude is positive, so that runs and machines agree."""
    return vectors * signs(vectors)
