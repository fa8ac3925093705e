"""Lasso and elastic net at one λ, with the duality gap that says how far the fit is from the optimum.

    minimise  1/2W Σ s_i (y_i − x_iᵀw − b)² + α Σ p_j (ρ|w_j| + (1−ρ)/2 w_j²)          over w and b           (ML, Lasso)

s: sample weights and W their sum, ρ: l1_ratio (1 for the Lasso), p: penalty factors. How it is solved: algorithm.py.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = Lasso(alpha=1.0).fit(X, y)
    >>> model.coef_.round(1).tolist()
    [0.0, 0.0, 367.7, 6.3, 0.0, 0.0, 0.0, 0.0, 307.6, 0.0]
    >>> model.certificate_.failed
    []
    >>> bool(ElasticNet(alpha=0.01, l1_ratio=0.5).fit(X, y).dual_gap_ < 1e-4 * y.var())
    True
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lemmata.audit.predict.linear.penalised import LASSO_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Statement
from lemmata.core.certification.checking import cost_of_lasso
from lemmata.core.loop import Solution, Stop, warn_user
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, SHARE, choice, fitted, parameter
from lemmata.core.supervised import Regressor, Supervised
from lemmata.predict.base import predict_linear
from lemmata.predict.lasso.algorithm import ElasticNetAlgorithm, Exhausted
from lemmata.predict.lasso.problem import Regression, check_factors, column_matrix, prepare

Array = np.ndarray

MANY = 2**31  # sweeps where max_iter is None


def make_regression(model: Any, data: Blocks, start: Array | None = None) -> Regression:
    """Put the problem of a model in its own units."""
    factor = check_factors(model.penalty_factor, data.shape[1], model.positive)
    return prepare(
        column_matrix(data),
        np.asarray(data.targets),
        data.weights,
        fit_intercept=model.fit_intercept,
        factor=factor,
        start=start,
        data=data,
    )


def make_algorithm(model: Any, alphas: tuple[float, ...], l1_ratio: float) -> ElasticNetAlgorithm:
    """Return the algorithm for falling penalties, with the options of a model."""
    sweeps = MANY if model.max_iter is None else int(model.max_iter)
    return ElasticNetAlgorithm(
        alphas, float(l1_ratio), bool(model.positive), float(model.tol), sweeps
    )


def describe_gap(model: Any, solution: Solution) -> str:
    """Say that sweeps ran out, and by how much the objective can be too large."""
    gap = solution.trace.last("gap")
    return (
        f"{type(model).__name__} reached max_iter={model.max_iter} with a duality gap of {gap:.1e}, more than "
        f"tol={model.tol:.0e} times the mean square of y: raise max_iter, or read certificate_."
    )


def make_sparse(model: Any) -> Any:
    """`coef_` as a sparse matrix with a row per output."""
    return sp.csr_array(np.atleast_2d(model.coef_))


class OnePenalty(Supervised):
    """Base of Lasso and ElasticNet: the fit at one α."""

    alpha: float = parameter(1.0, NONNEGATIVE).doc("""
        α, the strength of the penalty. At 0 there is no dual point to certify the fit with: use
        LinearRegression.""")
    _: KW_ONLY
    l1_ratio: float = parameter(0.5, SHARE).doc("ρ: 1 is the Lasso, 0 a ridge regression.")
    fit_intercept: bool = common.fit_intercept().doc("""
        Whether there is an intercept b, which bears no penalty.""")
    precompute: Any = parameter(False, "boolean", "array-like").doc("""
        Has no effect: the Gram matrix of the columns that enter is always formed, and never that of
        all of them.""")
    max_iter: Any = parameter(1000, COUNT, None).doc("""
        How many sweeps of coordinate descent each output may take.""")
    copy_X: bool = common.copy_X()
    tol: float = common.tol(1e-4).doc("""
        The fit ends when the duality gap is at most tol times the mean square of the centred y
        (scikit-learn's rule), and at most 2.5e-7 of the objective.""")
    warm_start: bool = common.warm_start().doc("Begin at the coefficients of the last fit.")
    positive: bool = parameter(False, "boolean").doc("Allow only w ≥ 0.")
    random_state: Any = common.random_state().doc("Has no effect: nothing is drawn.")
    selection: str = parameter("cyclic", choice("cyclic", "random")).doc("""
        Has no effect: sweeps are cyclic, and the duality gap says where they end.""")
    penalty_factor: Any = parameter(None, "array-like", None).doc("""
        p (n_features,), a factor of both penalties for each feature; 0: this feature bears none.
        """)
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    stored: ClassVar = {"coef_": "d | m d", "intercept_ dual_gap_": " | m"}
    claims: ClassVar[tuple[Statement, ...]] = LASSO_CLAIMS
    work = staticmethod(cost_of_lasso)
    accepts_sparse = multi_output = True
    finds_nonfinite = True  # Design.of does
    coef_: Array = fitted()
    intercept_: Any = fitted()

    predict = predict_linear
    sparse_coef_ = property(make_sparse)
    _describe_unsettled = describe_gap

    def _algorithm(self, data: Blocks) -> ElasticNetAlgorithm:
        if self.alpha == 0:
            warn_user(
                f"{type(self).__name__}(alpha=0) has no penalty, so that nothing certifies the fit; "
                "use LinearRegression, which solves it directly.",
                UserWarning,
            )
        return make_algorithm(self, (float(self.alpha),), self.l1_ratio)

    def _problem(self, data: Blocks) -> Regression:
        return make_regression(self, data, self._start(data))

    def _stop(self) -> Stop:
        return self._within_time(Exhausted())

    def _start(self, data: Blocks) -> Array | None:
        """The coefficients of the last fit, with warm_start."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        start = np.atleast_2d(np.asarray(self.coef_, np.float64))
        outputs = 1 if data.targets.ndim == 1 else data.targets.shape[1]  # type: ignore[union-attr]
        if start.shape != (outputs, data.shape[1]):
            raise ValueError(
                f"warm_start: coef_ has shape {self.coef_.shape}, this data has {outputs} output(s) and {data.shape[1]} "
                "features; set warm_start=False for other data."
            )
        return np.maximum(start, 0.0) if self.positive else start

    def _attributes(self, solution: Solution, problem: Any) -> dict[str, Any]:
        found, dtype = solution.attributes, problem.data.dtype
        coefs, intercepts = problem.coefficients(found["coefs"], np.arange(len(found["coefs"])))
        single = problem.data.targets.ndim == 1 or len(coefs) == 1
        return {
            "coef_": (coefs[0] if single else coefs).astype(dtype),
            "intercept_": _scalars(intercepts, single, dtype) if self.fit_intercept else 0.0,
            "dual_gap_": float(found["gaps"][0]) if single else found["gaps"].astype(dtype),
            "n_iter_": max(int(found["sweeps"].max()), 1),
        }


def _scalars(values: Array, single: bool, dtype: np.dtype) -> Any:
    return dtype.type(values[0]) if single else values.astype(dtype)


class ElasticNet(OnePenalty, Regressor):
    """Linear regression with ℓ1 and ℓ2 penalties.

    Minimises 1/2W Σ s_i (y_i − x_iᵀw − b)² + α Σ p_j (ρ|w_j| + (1−ρ)/2 w_j²) over w and b; several outputs are independent
    problems, solved side by side.

    Attributes
    ----------
    coef_ : (d,) or (n_outputs, d)
    intercept_ : float or (n_outputs,)
    dual_gap_ : float or (n_outputs,)
        The objective at `coef_` is at most this much above the least possible one.
    sparse_coef_ : sparse matrix
    n_iter_ : int
        Sweeps; the most that an output took.
    certificate_, trace_, stopped_
    """


class Lasso(OnePenalty, Regressor):
    """Linear regression with an ℓ1 penalty, which sets many coefficients to exactly 0.

    Minimises 1/2W Σ s_i (y_i − x_iᵀw − b)² + α Σ p_j |w_j| over w and b; several outputs are independent problems.

    Attributes
    ----------
    coef_, intercept_, dual_gap_, sparse_coef_, n_iter_, certificate_, trace_, stopped_ : as of ElasticNet
    """

    alpha: float = parameter(1.0, NONNEGATIVE).doc("""
        α, the strength of the penalty (λ). From max_j |x̃_jᵀỹ| on, all coefficients are 0.""")
    _: KW_ONLY
    copy_X: bool = common.copy_X(before="max_iter")

    l1_ratio = 1.0
