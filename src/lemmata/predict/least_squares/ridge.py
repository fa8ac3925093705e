"""Ridge regression: least squares with a price on the length of the weights.

    minimise  ½ Σ s(y − xᵀw − b)² + ½ α‖w‖²             (Σ s x̃x̃ᵀ + αI) w = Σ s x̃ỹ,    b = ȳ − x̄ᵀw                 (ML, Ridge)

As MAP (ML, Ridge as MAP): y | x ~ N(xᵀw + b, σ²/s) and w ~ N(0, τ²I) give −log p(w | X, y) = P(w)/σ² + const with α = σ²/τ².

The notes have three scalings of λ, one of them with a slip. (1/2N)‖y − Xw‖² + λ‖w‖² has gradient −Xᵀ(y − Xw)/N + 2λw:
α = 2Nλ. Their MAP page has the prior N(0, I/λ) and squares over 2σ²: α = σ²λ. Kernel regression has (1/2N)‖y − Xw‖² + ½λ‖w‖²,
so α = Nλ and w = (XᵀX + NλI)⁻¹Xᵀy; the notes' (1/N)(XᵀX + λI)⁻¹Xᵀy has lost the N, which their dual form has. Here α is
scikit-learn's: it does not depend on N.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = Ridge(alpha=0.1).fit(X, y)
    >>> round(model.score(X, y), 4), model.solver_
    (0.5126, 'cholesky')

How solver="auto" chooses. More rows than features: the equations above are formed and factored ("cholesky"). Fewer rows, in
memory: w = X̃ᵀu with (X̃X̃ᵀ + αI)u = ỹ, the smaller system ("dual"). Where these are so ill-conditioned that squaring loses the
answer: an SVD of the rows, or eigenvectors out of core. Both sides above 2048 (sparse: 128): conjugate gradients ("cg").
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lemmata.audit.predict.linear.least_squares import RIDGE_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_least_squares
from lemmata.core.loop import MaxSteps, Solution
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, choice, fitted, parameter
from lemmata.core.supervised import Regressor
from lemmata.predict.base import predict_linear
from lemmata.predict.least_squares import conjugate_gradients as conjugate
from lemmata.predict.least_squares import estimator as ordinary
from lemmata.predict.least_squares import ridge_systems as systems

Array = np.ndarray
FORM_BELOW = 2048  # the smaller side up to which a system is formed by "auto"; above, conjugate gradients win
TIGHT = 1e-8  # where "auto" iterates, it does so to this share of the first gradient, or `tol` if that is less
# scikit-learn's words for what is done here
SAME_SOLVER = {
    "auto": "auto", "svd": "svd", "cholesky": "direct", "lsqr": "cg", "sparse_cg": "cg", "sag": "cg", "saga": "cg",
    "lbfgs": "nnls",
}  # fmt: skip


STORED: dict[str, str | type] = {"coef_": "d | m d", "intercept_": " | m", "solver_": str}


class Ridge(Regressor):
    """Ridge regression.

    Minimises ½ Σ s(y − xᵀw − b)² + ½ α‖w‖² over w and b.

    Attributes
    ----------
    coef_ : (d,) or (m, d)
    intercept_ : float or (m,)
    solver_ : {"cholesky", "dual", "svd", "eigh", "cg", "nnls"}
        What was done.
    n_iter_ : int
    certificate_, trace_, stopped_
    """

    alpha: Any = parameter(1.0, NONNEGATIVE, np.ndarray).doc("""
        α ≥ 0, the price of ‖w‖²; an array has one for every output. 0 is least squares, of minimum
        norm.""")
    _: KW_ONLY
    fit_intercept: bool = common.fit_intercept().doc("""
        Whether there is a b, which is not penalised.""")
    copy_X: bool = common.copy_X()
    max_iter: Any = parameter(None, COUNT, None).doc("""
        Conjugate gradients stop after this many steps; None is 10 times the smaller side, at least
        1000.""")
    tol: float = common.tol(1e-4).doc("""
        Conjugate gradients stop when the gradient of every output is below `tol` times that at w =
        0; where "auto" chose them, at 1e-8 if `tol` is larger. Direct solvers do not use it.""")
    solver: str = parameter("auto", choice(*SAME_SOLVER)).doc("""
        "cholesky": direct, primal or dual by shape. "svd": of the rows, in memory. "lsqr",
        "sparse_cg", "sag", "saga": conjugate gradients. "lbfgs": only with positive=True, and there
        the active-set method that positive=True always uses.""")
    positive: bool = parameter(False, "boolean").doc("Whether weights must be ≥ 0.")
    random_state: Any = common.random_state().doc("Has no effect: nothing is drawn.")

    claims = RIDGE_CLAIMS
    work = staticmethod(cost_of_least_squares)
    accepts_sparse = multi_output = True
    verbose, checkpoint, time_limit = 0, None, None
    stored: ClassVar[dict[str, str | type]] = STORED
    coef_: Array = fitted()
    intercept_: Any = fitted()

    predict = predict_linear

    def _penalties(self, data: Blocks) -> Array:
        """α of every output."""
        assert data.targets is not None
        m = 1 if data.targets.ndim == 1 else data.targets.shape[1]
        alpha = np.asarray(self.alpha, dtype=np.float64).ravel()
        if alpha.size not in (1, m):
            raise ValueError(
                f"Number of targets and number of penalties do not correspond: {m} != {alpha.size}. "
                "Pass one alpha, or one per output."
            )
        if not (np.isfinite(alpha).all() and (alpha >= 0).all()):
            raise ValueError(f"alpha holds {alpha.min():g}; every alpha is a finite number >= 0.")
        return np.broadcast_to(alpha, m)

    def _way(self, data: Blocks) -> str:
        """primal, dual, svd or cg."""
        asked, (n, d) = SAME_SOLVER[self.solver], data.shape
        if self.positive:
            if self.solver not in ("auto", "lbfgs"):
                raise ValueError(
                    f"solver='{self.solver}' does not support positive fitting; set solver='auto' or 'lbfgs'."
                )
            return "primal"
        if asked == "nnls":
            raise ValueError(
                "'lbfgs' solver can be used only when positive=True; set solver='auto'."
            )
        if asked == "svd":
            if data.sparse or not data.in_memory:
                raise ValueError(
                    "solver='svd' does not support sparse or out-of-core input; use 'auto'."
                )
            return "svd"
        if asked == "cg":
            return "cg"
        small, few_rows = min(n, d), data.in_memory and n < d
        if asked == "auto":
            wide = data.sparse and small > ordinary.FORM_SPARSE_BELOW
            if wide or (small > FORM_BELOW and np.all(np.asarray(self.alpha) > 0)):
                return "cg"
        return "dual" if few_rows else "primal"

    def _algorithm(self, data: Blocks) -> Any:
        way, alpha = self._way(data), self._penalties(data)
        if way == "cg":
            return conjugate.ConjugateGradientAlgorithm(
                alpha, min(self.tol, TIGHT) if self.solver == "auto" else self.tol
            )
        if way == "primal":
            return systems.PrimalSystemAlgorithm(alpha, self.positive)
        return (
            systems.DualSystemAlgorithm(alpha) if way == "dual" else systems.ShrinkAlgorithm(alpha)
        )

    def _problem(self, data: Blocks) -> Any:
        way = self._way(data)
        if way == "cg":
            return conjugate.CentredProducts(data, self.fit_intercept, self._penalties(data))
        if way == "primal":
            return ordinary.LeastSquaresProblem.of(data, self.fit_intercept)
        return systems.DualProblem.of(data, self.fit_intercept)

    def _most_steps(self) -> int:
        return self.max_iter or max(1000, 10 * self.n_features_in_)

    def _stop(self):
        return MaxSteps(self._most_steps())

    def _wants_to_settle(self) -> bool:
        return True

    def _describe_unsettled(self, solution: Solution) -> str:
        return (
            f"Ridge reached max_iter={self._most_steps()} before the gradient fell to tol={self.tol:.0e} of its first size: "
            "raise max_iter or tol, scale the columns, or use solver='cholesky'."
        )

    def _attributes(self, solution: Solution, problem: Any) -> dict[str, Any]:
        return ordinary.show_weights(solution.state, problem, problem.data)
