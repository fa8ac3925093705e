"""The whole path: every λ from the one at which all coefficients are 0 down to eps times it, each with its duality gap.

    w(λ) = argmin ½‖ỹ − X̃w‖² + λ Σ p_j (ρ|w_j| + (1−ρ)/2 w_j²),      λ_max = max_j |x̃_jᵀỹ| / ρ p_j

w is continuous in λ and (for ρ = 1) linear between the λ's at which the support changes.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> path = LassoPath(alphas=50).fit(X, y)
    >>> path.coefs_.shape, int((path.coefs_[:, 0] != 0).sum()), int((path.coefs_[:, -1] != 0).sum())
    ((10, 50), 0, 10)
    >>> bool((path.dual_gaps_ <= 1e-4 * y.var()).all()), path.certificate_.failed
    (True, [])
    >>> path.at(0.5).coef_.shape
    (10,)
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.predict.linear.penalised import LASSO_PATH_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Statement
from lemmata.core.certification.checking import cost_of_lasso
from lemmata.core.loop import Solution, Stop
from lemmata.core.parameters import ANYTHING, COUNT, FRACTION, KW_ONLY, SHARE, parameter
from lemmata.core.supervised import Regressor
from lemmata.predict.base import linear_scores
from lemmata.predict.lasso.algorithm import Exhausted
from lemmata.predict.lasso.estimator import (
    ElasticNet,
    Lasso,
    describe_gap,
    make_algorithm,
    make_regression,
)
from lemmata.predict.lasso.problem import Regression

Array = np.ndarray
LEAST = 1e-15  # λ's of a constant target, where λ_max = 0; scikit-learn's choice


def falling_alphas(
    problem: Regression, alphas: Any, eps: float, l1_ratio: float, positive: bool
) -> Array:
    """Return the α's of a path: those given, falling, or this number of them from α_max to eps·α_max, evenly in log α."""
    if not isinstance(alphas, Integral):
        given = np.sort(np.asarray(alphas, dtype=np.float64).ravel())[::-1]
        if not len(given) or not np.isfinite(given).all() or given[-1] < 0:
            raise ValueError(
                "alphas holds none, or numbers that are negative or not finite; pass numbers >= 0."
            )
        return given
    if l1_ratio == 0:
        raise ValueError(
            "with l1_ratio=0 no alpha is large enough to make all coefficients 0, so that no grid begins there; pass alphas."
        )
    largest = problem.largest(positive) / l1_ratio
    if largest <= LEAST:
        return np.full(int(alphas), LEAST)
    return np.geomspace(largest, largest * eps, num=int(alphas))


class LassoPath(Regressor):
    """Lasso or elastic net for a whole path of penalties, every one of them certified.

    Minimises 1/2W Σ s_i (y_i − x_iᵀw − b)² + α Σ p_j (ρ|w_j| + (1−ρ)/2 w_j²) over w and b, for every α of the path.

    Attributes
    ----------
    alphas_ : (k,) falling
    coefs_ : (d, k)
    intercepts_ : (k,)
    dual_gaps_ : (k,)
        The objective of each α is at most this much above its least possible value.
    n_iters_ : (k,)
        Sweeps for each.
    certificate_, trace_, stopped_, n_iter_
    """

    _: KW_ONLY
    l1_ratio: float = parameter(1.0, SHARE).doc("ρ: 1 is the Lasso.")
    eps: float = parameter(1e-3, FRACTION).doc("The last α over the first.")
    alphas: Any = parameter(100, COUNT, "array-like").doc("""
        How many α's, evenly spaced in log α from the least one at which all coefficients are 0; or
        the α's themselves.""")
    fit_intercept: bool = common.fit_intercept()
    max_iter: Any = parameter(1000, COUNT, None).doc("""
        How many sweeps of coordinate descent each α may take.""")
    tol: float = common.tol(1e-4).doc("""
        The duality gap to reach at each α, relative to the mean square of the centred y; and at
        most 2.5e-7 of the objective.""")
    positive: bool = parameter(False, "boolean").doc("Allow only w ≥ 0.")
    penalty_factor: Any = parameter(None, "array-like", None).doc("""
        p (n_features,), a factor of both penalties for each feature.""")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    stored: ClassVar[dict[str, str | type]] = {
        "alphas_ coefs_ intercepts_ dual_gaps_": "audited",
        "n_iters_": "k int >=0",
    }
    claims: ClassVar[tuple[Statement, ...]] = LASSO_PATH_CLAIMS
    work = staticmethod(cost_of_lasso)
    accepts_sparse = True
    finds_nonfinite = True  # Design.of does
    random_state = None

    _describe_unsettled = describe_gap

    def _fit_blocks(self, data: Blocks) -> None:
        problem = make_regression(self, data, self._start())
        grid = falling_alphas(problem, self.alphas, self.eps, self.l1_ratio, self.positive)
        self._fit_by(make_algorithm(self, tuple(grid.tolist()), self.l1_ratio), data, problem)

    def _start(self) -> Array | None:
        """(1, d) where the first α begins; None: at 0."""
        return None

    def _stop(self) -> Stop:
        return self._within_time(Exhausted())

    def _attributes(self, solution: Solution, problem: Regression) -> dict[str, Any]:
        found, alphas = solution.attributes, np.array(solution.algorithm.alphas)
        coefs, intercepts = problem.coefficients(found["coefs"], np.zeros(len(alphas), int))
        dtype = np.float64 if problem.data is None else problem.data.dtype
        return {
            "alphas_": alphas.astype(dtype),
            "coefs_": np.ascontiguousarray(coefs.T, dtype=dtype),
            "intercepts_": intercepts.astype(dtype) if self.fit_intercept else np.zeros(len(alphas), dtype),
            "dual_gaps_": found["gaps"].astype(dtype),
            "n_iters_": found["sweeps"],
            "n_iter_": max(int(found["sweeps"].max()), 1),
        }  # fmt: skip

    def predict(self, X):
        """Xw + b for every α: (n, k)."""
        check_is_fitted(self)
        return self._apply(X, lambda rows: linear_scores(rows, self.coefs_.T, self.intercepts_))

    def score(self, X, y, sample_weight=None):
        """The largest R² on the path."""
        from sklearn.metrics import r2_score

        predicted = self.predict(X)
        return max(r2_score(y, column, sample_weight=sample_weight) for column in predicted.T)

    def at(self, alpha: float) -> ElasticNet | Lasso:
        """Return the fitted model at one α; between two of the path, it is on the line through both.

        For the Lasso that is exact if both have the same support. Its certificate is not checked: run certify(X, y).
        """
        check_is_fitted(self)
        falling = self.alphas_
        if not falling[-1] <= alpha <= falling[0]:
            raise ValueError(
                f"alpha={alpha:g} is not on this path, which goes from {falling[0]:.4g} to {falling[-1]:.4g}."
            )
        after = int(np.clip(np.searchsorted(-falling, -alpha), 1, max(len(falling) - 1, 1)))
        before = min(after - 1, len(falling) - 1)
        after = min(after, len(falling) - 1)
        width = falling[before] - falling[after]
        share = 0.0 if width == 0 else (falling[before] - alpha) / width
        model: Any = (
            Lasso(alpha) if self.l1_ratio == 1 else ElasticNet(alpha, l1_ratio=self.l1_ratio)
        )
        model.set_params(
            **{
                name: getattr(self, name)
                for name in ("fit_intercept", "max_iter", "tol", "positive", "penalty_factor")
            }
        )
        model.coef_ = (1 - share) * self.coefs_[:, before] + share * self.coefs_[:, after]
        model.intercept_ = (1 - share) * self.intercepts_[before] + share * self.intercepts_[after]
        for name in ("n_features_in_", "feature_names_in_", "trace_", "stopped_", "n_iter_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        model.certificate_ = model._certificate(None)
        return model


class _UncheckedPath(LassoPath):
    """For functions that return numbers and no model."""

    claims = ()
    _: KW_ONLY
    coef_init: Any = parameter(None, ANYTHING)

    def _start(self) -> Array | None:
        return None if self.coef_init is None else np.asarray(self.coef_init, float).reshape(1, -1)


NO_EFFECT = frozenset(("precompute", "Xy", "copy_X", "check_input", "random_state", "selection"))


def enet_path(
    X,
    y,
    *,
    l1_ratio=0.5,
    n_alphas=None,
    alphas=None,
    coef_init=None,
    return_n_iter=False,
    sample_weight=None,
    **options,
):
    """The elastic net path without an intercept, as scikit-learn's function returns it.

    Parameters
    ----------
    X : array or sparse matrix (n, d); y : (n,)
        Used as they are: centre both first, or fit LassoPath, which has an intercept.
    l1_ratio, sample_weight : as of LassoPath
    alphas : int or array, default=100
        How many α's, or which; n_alphas is the older name of their number.
    coef_init : (d,), optional
        Where the first α begins.
    return_n_iter : bool, default=False
        Return the sweeps of each α as well.
    eps, positive, max_iter, tol, penalty_factor, verbose : as of LassoPath
    precompute, Xy, copy_X, check_input, random_state, selection :
        Have no effect: the Gram matrix of entered columns is always formed, X is never written to and always checked.

    Returns
    -------
    alphas : (k,), coefs : (d, k), dual_gaps : (k,), and n_iters if asked for
    """
    if np.ndim(y) == 2 and np.shape(y)[1] > 1:
        raise ValueError(
            f"y has {np.shape(y)[1]} columns; a path is that of one target: call it for each column."
        )
    if alphas is None or isinstance(alphas, str):
        alphas = 100 if n_alphas is None or n_alphas == "deprecated" else n_alphas
    options = {name: value for name, value in options.items() if name not in NO_EFFECT}
    path = {"l1_ratio": l1_ratio, "alphas": alphas, "coef_init": coef_init, "fit_intercept": False}
    model = _UncheckedPath(**path, **options).fit(X, y, sample_weight)
    result = model.alphas_, model.coefs_, model.dual_gaps_
    return (*result, model.n_iters_.tolist()) if return_n_iter else result


def lasso_path(X, y, **options):
    """The Lasso path without an intercept: enet_path with l1_ratio=1, which see for the options and what is returned."""
    return enet_path(X, y, l1_ratio=1.0, **options)
