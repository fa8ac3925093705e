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
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from lemmata.audit.predict.linear.penalised import LASSO_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Statement
from lemmata.core.loop import Solution, Stop, warn_user
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, SHARE, choice, parameter
from lemmata.fit_costs import cost_of_lasso
from lemmata.predict.base import LinearRegressor
from lemmata.predict.lasso.algorithm import ElasticNetAlgorithm, Exhausted
from lemmata.predict.lasso.problem import Prepared, column_matrix, prepare

Array = np.ndarray

MANY = 2**31  # sweeps where max_iter is None


class Penalised(LinearRegressor):
    """What the models of this folder share: penalty factors, the problem in its own units, sweeps as iterations."""

    finds_nonfinite = True  # Design.of does
    claims: ClassVar[tuple[Statement, ...]] = LASSO_CLAIMS
    work = staticmethod(cost_of_lasso)

    def _stop(self) -> Stop:
        return self._limited(Exhausted())

    def _most_sweeps(self) -> int:
        return MANY if self.max_iter is None else int(self.max_iter)

    def _factors(self, d: int) -> Array | None:
        """The penalty factors, checked; None: all 1."""
        if self.penalty_factor is None:
            return None
        p = check_array(
            self.penalty_factor, ensure_2d=False, dtype=np.float64, input_name="penalty_factor"
        )
        if p.shape != (d,):
            raise ValueError(
                f"penalty_factor has shape {p.shape} for {d} features; pass one number per feature."
            )
        if p.min() < 0:
            raise ValueError(
                f"penalty_factor holds {p.min():g}; pass numbers >= 0 (0: no penalty on that feature)."
            )
        if self.positive and (p == 0).any():
            raise ValueError(
                "penalty_factor holds 0 and positive=True: a feature without penalty is solved for without bounds; "
                "pass a small factor such as 1e-6 instead, or positive=False."
            )
        return p

    def _checked_array(self, X, reset: bool, min_samples: int, finite: bool):
        checked = super()._checked_array(X, reset, min_samples, finite)
        if reset and sp.issparse(checked) and checked.format == "csc":  # Blocks will be rows
            self.__dict__["_columns_now"] = checked
        return checked

    def _prepared(self, data: Blocks, start: Array | None = None) -> Prepared:
        columns = self.__dict__.pop("_columns_now", None)
        return prepare(
            column_matrix(data) if columns is None else columns,
            np.asarray(data.targets),
            data.weights,
            fit_intercept=self.fit_intercept,
            factor=self._factors(data.shape[1]),
            start=start,
            data=data,
        )

    def _problem(self, data: Blocks) -> Any:
        self.__dict__["_prepared_now"] = prepared = self._prepared(data, self._warm(data))
        return prepared.problem

    def _warm(self, data: Blocks) -> Array | None:
        return None

    def _done(self) -> Prepared:
        """What was prepared for the fit under way."""
        return self.__dict__.pop("_prepared_now")

    def _conclude(self, data, attributes, trace, stopped, steps):
        attributes = dict(attributes)
        sweeps = attributes.pop("sweeps")
        super()._conclude(data, attributes, trace, stopped, int(np.max(sweeps)))

    def _warn_unsettled(self, solution: Solution) -> None:
        gap = solution.trace.last("gap")
        warn_user(
            f"{type(self).__name__} reached max_iter={self.max_iter} with a duality gap of {gap:.1e}, more than "
            f"tol={self.tol:.0e} times the mean square of y: raise max_iter, or read certificate_.",
            ConvergenceWarning,
        )

    @property
    def sparse_coef_(self) -> Any:
        """`coef_` as a sparse matrix with a row per output."""
        return sp.csr_array(np.atleast_2d(self.coef_))


class ElasticNet(Penalised):
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

    stored: ClassVar[dict[str, str | type]] = {
        "coef_": "d | m d",
        "intercept_": " | m",
        "dual_gap_": " | m",
    }
    multi_output = True

    def _algorithm(self, data: Blocks) -> ElasticNetAlgorithm:
        if self.alpha == 0:
            warn_user(
                f"{type(self).__name__}(alpha=0) has no penalty, so that nothing certifies the fit; "
                "use LinearRegression, which solves it directly.",
                UserWarning,
            )
        return ElasticNetAlgorithm(
            (float(self.alpha),), float(self.l1_ratio), bool(self.positive), float(self.tol), self._most_sweeps()
        )  # fmt: skip

    def _warm(self, data: Blocks) -> Array | None:
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
        found, prepared = solution.attributes, self._done()
        dtype = problem.data.dtype
        coefs, intercepts = prepared.coefficients(found["coefs"], np.arange(len(found["coefs"])))
        single = problem.data.targets.ndim == 1 or len(coefs) == 1
        return {
            "coef_": (coefs[0] if single else coefs).astype(dtype),
            "intercept_": _scalars(intercepts, single, dtype) if self.fit_intercept else 0.0,
            "dual_gap_": float(found["gaps"][0]) if single else found["gaps"].astype(dtype),
            "sweeps": found["sweeps"],
        }


def _scalars(values: Array, single: bool, dtype: np.dtype) -> Any:
    return dtype.type(values[0]) if single else values.astype(dtype)


class Lasso(ElasticNet):
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
