"""Principal component analysis: the k-dimensional subspace that keeps most of the variance.

    minimise  E‖x − μ − P(x − μ)‖²  over projections P of rank k,      solved by P = CᵀC,  rows of C the k leading
                                                                       eigenvectors of the covariance (CIL Thm 1.4.4)

    >>> from sklearn.datasets import load_digits
    >>> pca = PCA(n_components=10).fit(load_digits().data)
    >>> pca.certificate_.failed
    []

How svd_solver="auto" chooses. Few features (the covariance is formed from one pass of Moments; dense, memmap, streams and dask
alike): `eigh`. Fewer rows than features, dense: `svd`. Sparse with many features, or dense with more features than a
covariance fits: `lanczos` on products with the data, which is never centred or densified in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lemmata.audit.reduction.pca import (
    ITERATIVE_CLAIMS,
    KNEE_CLAIMS,
    PARALLEL_CLAIMS,
    POWER_CLAIMS,
    SUBSPACE_CLAIMS,
)
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification import reduction_costs as costs
from lemmata.core.loop import MaxSteps, Never, Settled
from lemmata.core.parameters import COUNT, FRACTION, KW_ONLY, WHOLE, choice, parameter
from lemmata.core.validation import NotFinite
from lemmata.reduction import covariance
from lemmata.reduction.dimension import KNEE, MLE, PARALLEL
from lemmata.reduction.principal import PrincipalAxes

SOLVERS = ("auto", "eigh", "svd", "power", "lanczos", "randomized", "gradient")
# scikit-learn's words for ours
SAME_SOLVER = {"full": "svd", "covariance_eigh": "eigh", "arpack": "lanczos"}
STEPS = 16  # products with k + OVERSAMPLING columns that an iterative solver takes, roughly
QUICK = 7  # products of "randomized" where nothing says when to stop, as in scikit-learn


class PCA(PrincipalAxes):
    """Principal component analysis.

    Finds the projection of rank k that minimises E‖x − μ − P(x − μ)‖².

    Attributes
    ----------
    components_ : (k, d)
    explained_variance_, explained_variance_ratio_, singular_values_ : (k,)
    mean_ : (d,)
    noise_variance_ : float
        The average variance of the directions left out.
    n_components_, n_samples_ : int
    solver_ : str
        What "auto" chose.
    certificate_, trace_, stopped_, n_iter_

    Notes
    -----
    `partial_fit` is exact: it adds up Moments, and solves when a result is first read. Weights count rows: weight 2
    is the row twice. Signs are such that the largest entry of every component is positive.
    """

    n_components: Any = parameter(None, COUNT, FRACTION, choice(MLE, KNEE, PARALLEL), None).doc("""
        k. A float keeps as many components as explain more than that share of the variance; "mle"
        as many as Minka's evidence of probabilistic PCA is largest for; "knee" those before the
        spectrum bends; "parallel" those that vary more than independent columns do by chance (Horn);
        None keeps all. Of the last two the certificate gives the reason.""")
    _: KW_ONLY
    copy: bool = parameter(True, "boolean").doc("Has no effect: X is never written to.")
    whiten: bool = parameter(False, "boolean").doc("""
        Divide the scores by their standard deviations.""")
    svd_solver: str = parameter("auto", choice(*SOLVERS, *SAME_SOLVER)).doc("""
        "eigh" ("covariance_eigh"), "svd" ("full"): LAPACK on the covariance or on the rows.
        "power": one axis after the other (CIL 1.5.2). "lanczos" ("arpack"): block Krylov.
        "randomized": subspace iteration from a random start. "gradient": ascent on the captured
        variance. In brackets: scikit-learn's words for the same.""")
    tol: float = common.tol(1e-6).doc("""
        The iterative solvers stop when a step changes the captured variance by at most this share
        of it; "power": when the square of an axis's residual relative to λ₁ is below it; "eigh" and
        "svd" do not use it. 0 means rounding. It bounds no angle: `principal_axes` measures those.
        """)
    iterated_power: Any = parameter("auto", choice("auto"), WHOLE).doc("""
        "randomized": this many products with the covariance after the first. "auto": until `tol` is
        met; 7 if that is 0.""")
    n_oversamples: int = parameter(costs.OVERSAMPLING, COUNT).doc("""
        "randomized": directions beyond k that are iterated with.""")
    power_iteration_normalizer: str = parameter("auto", choice("auto", "QR", "LU", "none")).doc("""
        Has no effect: every product is orthonormalised, as "QR" does.""")
    random_state: Any = common.random_state().doc("Where the iterative solvers start.")
    max_iter: int = common.max_iter(1000).doc("The iterative solvers stop after this many steps.")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    work = staticmethod(costs.cost_of_pca)

    @classmethod
    def restored(cls, parameters, attributes):
        """A model from a file; files of before the first release name a parameter `solver`."""
        kept = {name: value for name, value in parameters.items() if name != "solver"}
        return super().restored(kept, attributes)

    # --- fitting ---

    def _algorithm(self, data: Blocks) -> Any:
        super()._algorithm(data)
        self.solver_ = self._chosen_solver(data)
        return self._algorithm_for(self._resolve_components(*data.shape), data)

    def _chosen_solver(self, data: Blocks) -> str:
        (n, d), asked = data.shape, SAME_SOLVER.get(self.svd_solver, self.svd_solver)
        if asked == "svd" and (data.sparse or not data.in_memory):
            raise ValueError(
                f"svd_solver={self.svd_solver!r} needs a dense array in memory; use 'covariance_eigh', 'arpack' or 'auto'."
            )
        if asked != "auto":
            return asked
        if data.in_memory and not data.sparse and n < d and n <= costs.FORM_BELOW:
            return "svd"
        share = not isinstance(self.n_components, int | np.integer)
        return "eigh" if share or costs.forms_covariance(data) else "lanczos"

    def _algorithm_for(self, k: int | float | str, data: Blocks) -> Any:
        if self.solver_ == "eigh":
            return covariance.EighAlgorithm(k)
        if self.solver_ == "svd":
            return covariance.SVDAlgorithm(k)
        if not isinstance(k, int):
            raise ValueError(
                f"n_components={k!r} needs the whole spectrum; svd_solver={self.solver_!r} finds leading parts only. "
                "Use 'covariance_eigh'."
            )
        if self.solver_ == "gradient":
            return covariance.VarianceAscentAlgorithm(k)
        if self.solver_ == "power":
            from lemmata.linalg.power import PowerAlgorithm

            # a residual r changes the variance by about r²
            return PowerAlgorithm(k, tol=self.tol**0.5)
        if self.solver_ == "lanczos":
            from lemmata.linalg.lanczos import LanczosAlgorithm

            # a product with S errs by √d·eps·λ₁
            tol = 1e-10 if self.tol > 0 else float(np.finfo(data.dtype).eps) * data.shape[1] ** 0.5
            return LanczosAlgorithm(
                k, block=min(k + costs.OVERSAMPLING, costs.LANCZOS_BLOCK), tol=tol
            )
        from lemmata.linalg.randomized import RandomizedAlgorithm

        return RandomizedAlgorithm(k, oversampling=int(self.n_oversamples))

    def _problem(self, data: Blocks) -> covariance.Scatter:
        if self.solver_ == "svd":
            return _centre_only(data)
        forms = self.solver_ == "eigh" or costs.forms_covariance(data)
        if forms:
            return covariance.Scatter.form(data)
        k = int(self._resolve_components(*data.shape))
        return covariance.Scatter.implicit(data, columns=STEPS * (k + costs.OVERSAMPLING))

    def _stop(self):
        if self.solver_ in costs.DIRECT:
            return Never()
        rule = self._within_time(MaxSteps(self._most_steps))
        # power settles one axis after the other, and a number of products is meant as it is
        counted = self.solver_ == "power" or self._most_steps != self.max_iter
        return rule if counted else Settled(self.tol) | rule

    @property
    def _most_steps(self) -> int:
        if self.solver_ != "randomized" or (self.iterated_power == "auto" and self.tol > 0):
            return self.max_iter
        return QUICK if self.iterated_power == "auto" else int(self.iterated_power)

    def _wants_to_settle(self) -> bool:
        if self.solver_ == "randomized":
            return self._most_steps == self.max_iter
        return self.tol > 0 or self.solver_ == "lanczos"

    def _claims(self):
        solver = getattr(self, "solver_", "eigh")
        if solver in costs.DIRECT:
            by_rule = {KNEE: KNEE_CLAIMS, PARALLEL: PARALLEL_CLAIMS}
            word = self.n_components if isinstance(self.n_components, str) else ""
            return by_rule.get(word, SUBSPACE_CLAIMS)
        return POWER_CLAIMS if solver == "power" else ITERATIVE_CLAIMS

    def partial_fit(self, X, y=None, sample_weight=None):
        """Add a batch of rows. The result is that of one fit to all rows, in any order of the batches.

        The axes are solved for when one of them is first read, so that a batch costs its moments and nothing else.
        """
        self._add_batch(X, sample_weight)
        return self


def _centre_only(data: Blocks) -> covariance.Scatter:
    """Mean and total scatter for the SVD of the rows, which needs no product with S."""
    X, w = data.source, data.weights
    mean = np.average(X, axis=0, weights=w) if w is not None else X.mean(axis=0, dtype=np.float64)
    if not np.isfinite(mean).all():
        raise NotFinite(
            "Input contains NaN or infinity (or numbers too large for its dtype); clean or impute it first."
        )
    centred = X - mean.astype(X.dtype)
    squares = np.einsum("ij,ij->i", centred, centred, dtype=np.float64)
    total = float(squares.sum() if w is None else w @ squares)
    covariance.refuse_vanishing(total, data)
    return covariance.Scatter(data.total_weight, mean, total, None, X.dtype, data)
