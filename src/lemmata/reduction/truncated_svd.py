"""The truncated SVD: the best approximation of the rows by a matrix of rank k, without centring them.

    minimise  ‖X − X CᵀC‖_F²  over C: k × d with CCᵀ = I,        solved by the k leading right singular vectors  (CIL Thm 2.3.4)

These are the leading eigenvectors of XᵀX, which is never formed where there are many features: sparse rows stay sparse, and a
product with it is one pass over them. Unlike PCA nothing is subtracted, so the first direction often points to the mean.

    >>> import scipy.sparse as sp
    >>> X = sp.random_array((200, 3000), density=0.01, format="csr", rng=np.random.default_rng(0))
    >>> TruncatedSVD(n_components=5, algorithm="arpack", random_state=0).fit_transform(X).shape
    (200, 5)
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lemmata.audit.reduction.pca import SVD_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.reduction_costs import (
    FORM_BELOW,
    LANCZOS_BLOCK,
    cost_of_truncated_svd,
)
from lemmata.core.estimator import Model
from lemmata.core.loop import MaxSteps, Solution
from lemmata.core.parameters import COUNT, KW_ONLY, WHOLE, choice, parameter
from lemmata.linalg.lanczos import LanczosAlgorithm
from lemmata.linalg.operators import CentredScatter
from lemmata.linalg.randomized import RandomizedAlgorithm
from lemmata.reduction.axes import Axes
from lemmata.reduction.covariance import EighAlgorithm, Scatter, upright

MOST_STEPS = 1000  # of Lanczos


class TruncatedSVD(Axes, Model):
    """The k leading right singular vectors of the rows, dense or sparse (also called latent semantic analysis).

    Finds the projection CᵀC of rank k that minimises ‖X − XCᵀC‖².

    Attributes
    ----------
    components_ : (k, d)
    singular_values_ : (k,)
        The lengths of the columns of XCᵀ.
    explained_variance_, explained_variance_ratio_ : (k,)
        Variances of these columns (over n), and their shares of the variance of all features.
    solver_ : str
    certificate_, trace_, stopped_, n_iter_

    Notes
    -----
    Weights count rows: weight 2 is the row twice. Signs are such that the largest entry of every component is positive.
    """

    n_components: int = parameter(2, COUNT).doc("k, at most the number of features.")
    _: KW_ONLY
    algorithm: str = parameter("randomized", choice("arpack", "randomized")).doc("""
        Subspace iteration from a random start; or block Lanczos, to rounding.""")
    n_iter: int = parameter(5, WHOLE).doc("""
        "randomized": this many products with XᵀX after the first.""")
    n_oversamples: int = parameter(10, COUNT).doc("""
        "randomized": directions beyond k that are iterated with.""")
    power_iteration_normalizer: str = parameter("auto", choice("auto", "QR", "LU", "none")).doc("""
        Has no effect: every product is orthonormalised, as "QR" does.""")
    random_state: Any = common.random_state().doc("Where both start.")
    tol: float = common.tol(0.0).doc("""
        "arpack": the residual ‖XᵀXv − σ²v‖ over σ₁² at which a vector counts as found; 0 means
        rounding.""")

    accepts_sparse = True
    finds_nonfinite = True
    claims = SVD_CLAIMS
    work = staticmethod(cost_of_truncated_svd)
    stored: ClassVar[dict[str, str | type]] = {
        "components_": "audited",
        "explained_variance_ explained_variance_ratio_ singular_values_": "audited",
        "solver_": str,
    }

    verbose, checkpoint, time_limit, max_iter = 0, None, None, MOST_STEPS

    # --- fitting ---

    def _algorithm(self, data: Blocks) -> Any:
        d, k = data.shape[1], int(self.n_components)
        if k > d:
            raise ValueError(f"n_components={k} exceeds n_features={d}; pass n_components <= {d}.")
        randomized, columns = self.algorithm == "randomized", k + int(self.n_oversamples)
        if randomized and self._forms(data) and columns >= d:
            self.solver_ = "eigh"  # as many random columns would span everything
            return EighAlgorithm(k)
        if randomized:
            self.solver_ = "randomized"
            return RandomizedAlgorithm(k, oversampling=int(self.n_oversamples))
        self.solver_ = "lanczos"
        tol = max(float(self.tol), float(np.finfo(data.dtype).eps) * d**0.5)
        return LanczosAlgorithm(k, block=LANCZOS_BLOCK, tol=tol)

    def _problem(self, data: Blocks) -> Scatter:
        if self._forms(data):
            return Scatter.form(data, centred=False)
        return Scatter.implicit(data, self._columns(), centred=False)

    def _columns(self) -> int:
        """Number of columns that are multiplied with the data in all, roughly."""
        return (int(self.n_components) + int(self.n_oversamples)) * (2 * int(self.n_iter) + 4)

    def _forms(self, data: Blocks) -> bool:
        """Whether n·d² to form XᵀX is less than n·d for each product with it and each column."""
        return not data.sparse and data.shape[1] <= min(self._columns(), FORM_BELOW)

    def _stop(self):
        steps = int(self.n_iter) if self.solver_ == "randomized" else MOST_STEPS
        return self._within_time(MaxSteps(steps))

    def _wants_to_settle(self) -> bool:
        return self.solver_ == "lanczos"

    def _attributes(self, solution: Solution, problem: Scatter) -> dict[str, Any]:
        found, n, dtype, mean = solution.attributes, problem.n, problem.dtype, problem.mean
        values = np.maximum(np.asarray(found["values"], dtype=np.float64), 0)
        C = np.ascontiguousarray(upright(np.asarray(found["vectors"], dtype=dtype)).T)
        # variances about the mean: taking its square off afterwards would lose digits where it is large
        moments = problem.moments
        centred = CentredScatter(problem.data, mean) if moments is None else moments.scatter
        along = np.maximum(np.einsum("kd,dk->k", C, centred @ C.T, dtype=np.float64), 0.0) / n
        total = (centred.trace if moments is None else float(np.trace(moments.scatter))) / n
        return {
            "components_": C,
            "explained_variance_": along.astype(dtype),
            "explained_variance_ratio_": (along / total if total > 0 else along).astype(dtype),
            "singular_values_": np.sqrt(values).astype(dtype),
        }

    def _title(self, data: Blocks | None) -> str:
        return (
            f"{super()._title(data)} → {len(self.components_)}, not centred, solver {self.solver_}"
        )
