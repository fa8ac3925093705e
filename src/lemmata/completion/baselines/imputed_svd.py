"""Imputation and SVD: fill the unknown entries with means, then take the best matrix of rank k. With a warning.

    F = A where it is known, the fill (0, or a mean) elsewhere;      minimise  ½‖F − X‖²  over rank X ≤ k      (CIL 2.3.4)

With the fill μ + b_i + c_j taken off, F is zero wherever nothing is known: the sparse matrix X_Ω of the centred entries. So the
SVD of the filled n × m matrix needs products with |Ω| numbers only, and is found by Lanczos on X_ΩᵀX_Ω (or X_ΩX_Ωᵀ).

The notes do not recommend this method, for "unknown" is not "equal to the mean": a share p of known entries makes X_Ω about p
times the matrix sought, and the best approximation of that is p times too small; with many factors it reproduces the fill. The
claim `not_pulled_to_the_fill` measures it.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 40))
    >>> model = ImputedSVD(rank=2).fit(np.where(rng.random(truth.shape) < 0.5, truth, np.nan))
    >>> model.certificate_.failed
    ['not_pulled_to_the_fill']
    >>> print(model.certificate_["not_pulled_to_the_fill"].numbers)
    strength 0.4... < 0.9
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.audit.completion.low_rank import IMPUTED_SVD_CLAIMS
from lemmata.completion.base import CompletionModel, check_rank
from lemmata.completion.centring import centre
from lemmata.completion.observed import Observed
from lemmata.core import common
from lemmata.core.engine import worth_compiling
from lemmata.core.loop import MaxSteps, Stop
from lemmata.core.parameters import COUNT, KW_ONLY, choice, parameter
from lemmata.core.store import digest
from lemmata.linalg.lanczos import LanczosAlgorithm
from lemmata.linalg.operators import SparseRows
from lemmata.linalg.randomized import signs

Array = np.ndarray

FILLS = {"zero": "none", "global": "global", "rows": "rows", "columns": "columns", "both": "both"}
SMALL = 2**20  # entries: SciPy multiplies as many by ten vectors in 20 ms


# --- the filled matrix ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Filled:
    """The centred entries X (n × m) as the symmetric operator XᵀX, or XXᵀ if that is smaller; zeros are never stored."""

    rows: SparseRows  # X, or Xᵀ if n < m: its Gram matrix is the smaller one
    transposed: bool
    compiled: bool  # whether kernels make the products

    @classmethod
    def of(cls, A: Observed) -> Filled:
        n, m = A.shape
        entries, size = (A.by_column, (m, n)) if n < m else (A.by_row, (n, m))
        indptr, indices, values = entries
        X = SparseRows(sp.csr_array((values, indices, indptr), shape=size))
        return cls(X, n < m, worth_compiling(A.n_observed, above=SMALL))

    @property
    def shape(self) -> tuple[int, int]:
        return (self.rows.shape[1],) * 2

    @property
    def dtype(self) -> np.dtype:
        return self.rows.dtype

    def __matmul__(self, V: Array) -> Array:
        X = self.rows.X
        if not self.compiled or V.ndim == 1:
            return X.T @ (X @ V)
        return self.rows.gram(V)[0]

    def fingerprint(self) -> str:
        X = self.rows.X
        return digest([list(X.shape), self.transposed, X.indptr, X.indices, X.data])

    def factors(self, vectors: Array) -> tuple[Array, Array, Array]:
        """P, σ, Q of the SVD inside the span of singular vectors of the shorter side; large entries of Q are positive."""
        left, s, turn = np.linalg.svd(self.rows.X @ vectors, full_matrices=False)
        right = vectors @ turn.T
        P, Q = (right, left) if self.transposed else (left, right)
        flip = signs(Q)
        return P * flip, s, Q * flip


# --- the estimator ----------------------------------------------------------------------------------------------------


class ImputedSVD(CompletionModel):
    """SVD of a matrix whose unknown entries were filled with means: the simplest completion, and a biased one.

    Minimises ‖F − X‖ over X = fill + UVᵀ of rank k, F the filled matrix with the fill taken off. Never forms F.

    Attributes
    ----------
    U_, V_ : arrays (n, k) and (m, k)
        P√Σ and Q√Σ of the SVD.
    singular_values_ : array (k,)
        Of the filled matrix without its fill, descending.
    mean_, row_bias_, column_bias_, row_scale_, column_scale_ : float, (n,), (m,), (n,), (m,)
        The fill μ + b_i + c_j (the scales are 1).
    reg_, weighted_reg_ : float
        0: nothing is regularised.
    observed_, n_features_in_, n_iter_, trace_, stopped_, certificate_
        The trace shows −Σσ_i², which Lanczos lowers.
    """

    rank: int = parameter(10, COUNT).doc("""
        k, the number of singular values kept; at most the smaller side of the matrix.""")
    _: KW_ONLY
    fill: str = parameter("both", choice(*FILLS)).doc("""
        What stands where nothing is known: the best sum of a row and a column offset, the row or
        column mean, that of all known entries, or zero, which means something only if the data is
        centred.""")
    max_iter: int = common.max_iter(1000).doc("""
        The most products of Lanczos with a block of vectors.""")
    tol: float = common.tol(1e-8).doc("""
        Done when Lanczos's error bounds say that every σ_i² is right to this share of σ₁² (float32:
        1e-6 at best). Not a change of the objective: a sum of eigenvalues that pauses says little.
        """)
    random_state: Any = common.random_state().doc("""
        Of Lanczos's first block; the result depends on it only by rounding, unless singular values
        coincide.""")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = IMPUTED_SVD_CLAIMS
    stored: ClassVar = {**CompletionModel.stored, "singular_values_ reg_ weighted_reg_": "audited"}

    def _algorithm(self, data: Any) -> LanczosAlgorithm:
        check_rank(self.rank, data)
        least = 1e-6 if data.dtype == np.float32 else 0.0  # products in float32 do not know more
        # equal singular values are found as often as they occur
        block = max(2, min(int(self.rank), 32))
        return LanczosAlgorithm(int(self.rank), block=block, tol=max(float(self.tol), least))

    def _centring(self) -> str:
        return FILLS[self.fill]

    def _problem(self, data: Any) -> Filled:
        return Filled.of(centre(data, self._centring()).remove_from(data))

    def _stop(self) -> Stop:
        """Lanczos is finished when its error bounds are; a sum of eigenvalues that pauses says less."""
        rule: Stop = MaxSteps(self.max_iter)
        return self._within_time(rule)

    def _attributes(self, solution, problem: Filled) -> dict[str, Any]:
        P, s, Q = problem.factors(solution.attributes["vectors"])
        root = np.sqrt(s)
        return {
            "U_": P * root,
            "V_": Q * root,
            "singular_values_": s,
            **self._set_offsets(centre(self.observed_, self._centring())),
            "reg_": 0.0,
            "weighted_reg_": 0,
        }
