"""Kernel ridge regression: least squares in the feature space of a kernel.

    minimise  Σ_i w_i (y_i − f(x_i))² + α‖f‖²      over f(x) = Σ_i c_i κ(x_i, x)              (ML Kernel regression)

The gradient vanishes where D(Kc − y) + αc = 0 on the range of K, D = diag(w): with c = D^½a

    (D^½ K D^½ + αI) a = D^½ y

one Cholesky factor for all outputs that share α. With the linear kernel f is ridge regression without an intercept, and
w = Xᵀc its weights (ML L₂-Regularization: primal and dual). n rows need n² numbers and n³/3 multiplications; for many rows
``make_pipeline(Nystroem(), Ridge())`` is the same with features of some hundred landmarks.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (200, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(200)
    >>> model = KernelRidge(alpha=0.1, kernel="rbf", gamma=1.0).fit(X, y)
    >>> round(model.score(X, y), 2), model.certificate_.failed
    (0.98, [])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.predict.kernels.kernel_ridge import KERNEL_RIDGE_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_kernel_ridge
from lemmata.core.loop import Never, Solution
from lemmata.core.parameters import KW_ONLY, NONNEGATIVE, choice, parameter
from lemmata.core.store import storable
from lemmata.core.supervised import Regressor
from lemmata.core.validation import Interval
from lemmata.predict.kernels import standard
from lemmata.predict.kernels.base import Kernel
from lemmata.predict.kernels.tiles import all_rows, refuse_asymmetric, too_large

Array = np.ndarray
ROWS = 1024  # of a kernel matrix with new rows at once
FACTORS = 8  # Cholesky factors that cost less than all eigenvectors


@dataclass(frozen=True)
class KernelSystem:
    """The linear system (D^½ K D^½ + αI) a = D^½ y."""

    K: Array  # (n, n)
    y: Array  # (n, m)
    root: Array | None  # (n,) √w
    kernel: Kernel
    rows: Any
    data: Blocks

    @property
    def weighted(self) -> tuple[Array, Array]:
        if self.root is None:
            return self.K, self.y
        return self.K * np.multiply.outer(self.root, self.root), self.y * self.root[:, None]

    def fingerprint(self) -> str:
        return f"{self.kernel!r} {self.data.fingerprint()}"


@storable
@dataclass(frozen=True)
class DualState:
    """The coefficients, and whether they were solved for."""

    version = 1
    layout: ClassVar = {"dual": "n m"}

    dual: Array
    loss: float
    solved: bool


@dataclass(frozen=True)
class DualRidgeAlgorithm:
    """All coefficients at once: a Cholesky factor for each α, or eigenvectors where there are many of them."""

    draws: ClassVar = False

    alphas: tuple[float, ...]  # one for each output

    def init(self, data: KernelSystem, rng: Any) -> DualState:
        w = 1.0 if data.root is None else data.root[:, None] ** 2
        return DualState(np.zeros_like(data.y), float(np.sum(w * data.y.astype(float) ** 2)), False)

    def step(self, state: DualState, data: KernelSystem) -> DualState:
        K, y = data.weighted
        alphas, dual = np.array(self.alphas), np.empty_like(y)
        distinct = np.unique(alphas)
        if len(distinct) > FACTORS:
            dual[:] = _by_eigenvectors(K, y, alphas)
        else:
            for alpha in distinct:
                dual[:, alphas == alpha] = solve_shifted(K, y[:, alphas == alpha], float(alpha))
        return DualState(*self._evaluate(dual, data), True)

    def _evaluate(self, a: Array, data: KernelSystem) -> tuple[Array, float]:
        """Return c = D^½a and the objective there."""
        c = a if data.root is None else a * data.root[:, None].astype(a.dtype)
        f = data.K @ c
        w = 1.0 if data.root is None else data.root[:, None] ** 2
        errors = np.sum(w * (data.y - f).astype(np.float64) ** 2)
        norms = np.sum(c.astype(np.float64) * f, axis=0) @ np.array(self.alphas)
        return c, float(errors + norms)

    def objective(self, state: DualState) -> float:
        return state.loss

    def attributes(self, state: DualState) -> dict[str, Any]:
        return {"dual": state.dual}

    def finished(self, state: DualState) -> bool:
        return state.solved


def solve_shifted(K: Array, Y: Array, alpha: float) -> Array:
    """Solve (K + αI)C = Y; where that has no Cholesky factor, directions of K within rounding are left out."""
    shifted = K.copy(order="F")  # LAPACK's own order: another one is copied once more
    shifted[np.diag_indices_from(K)] += alpha
    try:
        factor = scipy.linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return _by_eigenvectors(K, Y, np.full(Y.shape[1], alpha))
    return scipy.linalg.cho_solve(factor, Y, check_finite=False)


def _by_eigenvectors(K: Array, Y: Array, alphas: Array) -> Array:
    values, V = scipy.linalg.eigh(K, check_finite=False)
    clear = np.abs(values) > len(K) * np.finfo(K.dtype).eps * np.abs(values).max()
    V, shifted = V[:, clear], values[clear][:, None] + alphas
    parts = np.divide(V.T @ Y, shifted, out=np.zeros_like(shifted), where=shifted != 0)
    dual = V @ parts
    # the part outside the range of K changes no f(x_i), but α > 0 gives it coefficients
    outside = Y - V @ (V.T @ Y)
    return dual + np.divide(outside, alphas, out=np.zeros_like(outside), where=alphas > 0)


class KernelRidge(Regressor):
    """Ridge regression in the feature space of a kernel.

    Minimises Σ w_i (y_i − f(x_i))² + α‖f‖² over f(x) = Σ c_i κ(x_i, x).

    Attributes
    ----------
    dual_coef_ : (n,) or (n, n_outputs)
        c.
    X_fit_ : (n, d)
        The training rows, or K itself for a precomputed kernel.
    kernel_, gamma_ : object, float
        The kernel with numbers for parameters, and its γ (0 where it has none).
    certificate_, trace_, stopped_, n_iter_
    """

    alpha: Any = parameter(1, NONNEGATIVE, "array-like").doc("""
        α, for all outputs or for each (n_outputs,). At 0 the training rows are interpolated, as far
        as K can.""")
    _: KW_ONLY
    kernel: Any = parameter("linear", choice(*standard.KERNELS), callable).doc("""
        κ: "linear", "poly", "rbf", "laplacian", "sigmoid", "cosine", "precomputed" (X is K), an
        object such as ``RBF(0.1) + Linear()``, or a function of two rows.""")
    gamma: Any = parameter(None, NONNEGATIVE, choice(*standard.GAMMAS), None).doc("""
        γ of poly, rbf, laplacian and sigmoid; None and "auto" are 1/n_features, "scale" is
        1/(n_features · Var X).""")
    degree: float = parameter(3, NONNEGATIVE).doc("p of poly, (γxᵀy + c)^p.")
    coef0: float = parameter(1, Interval(Real, None, None, closed="neither")).doc("""
        c of poly and of sigmoid, tanh(γxᵀy + c).""")
    kernel_params: Any = parameter(None, dict, None).doc("Further arguments of a callable kernel.")

    multi_output = True
    claims = KERNEL_RIDGE_CLAIMS
    work = staticmethod(cost_of_kernel_ridge)
    stored: ClassVar[Mapping[str, str | type]] = {
        "dual_coef_": "n | n m",
        "X_fit_": "n d float sparse",
        "kernel_": Kernel,
        "gamma_": "audited",
    }
    # a direct solver: nothing to draw, to wait for or to resume
    random_state, verbose, checkpoint, time_limit = 0, 0, None, None

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        return not self._is_given

    @property
    def _is_given(self) -> bool:
        return isinstance(self.kernel, standard.Precomputed) or (
            isinstance(self.kernel, str) and self.kernel == "precomputed"
        )

    def _algorithm(self, data: Blocks) -> DualRidgeAlgorithm:
        n, dtype = data.shape[0], data.dtype
        why = too_large(n, dtype.itemsize, copies=2)
        if why:
            raise MemoryError(
                f"{why}; use make_pipeline(Nystroem(n_components=…), Ridge()) for so many rows, or pass float32."
            )
        assert data.targets is not None
        outputs = 1 if data.targets.ndim == 1 else data.targets.shape[1]
        alphas = np.atleast_1d(np.asarray(self.alpha, dtype=np.float64))
        if alphas.ndim > 1 or len(alphas) not in (1, outputs):
            raise ValueError(
                f"alpha has shape {np.shape(self.alpha)} and y {outputs} output(s); pass a number, or one for each output."
            )
        if not (np.isfinite(alphas).all() and (alphas >= 0).all()):
            raise ValueError(f"alpha={self.alpha}; pass numbers >= 0.")
        return DualRidgeAlgorithm(tuple(np.broadcast_to(alphas, outputs).tolist()))

    def _problem(self, data: Blocks) -> KernelSystem:
        X = all_rows(data)
        if self._is_given:
            refuse_asymmetric(X)
        kernel = standard.named_kernel(self).fitted(X)
        standard.refuse_overflow(kernel, X)
        assert data.targets is not None
        y = data.targets.reshape(data.shape[0], -1).astype(data.dtype)
        root = None if data.weights is None else np.sqrt(data.weights).astype(data.dtype)
        X = X.copy() if data.in_memory else X  # kept: the user may change theirs
        return KernelSystem(kernel(X), y, root, kernel, X, data)

    def _stop(self):
        return Never()

    def _wants_to_settle(self) -> bool:
        return False

    def _attributes(self, solution: Solution, problem: KernelSystem) -> dict[str, Any]:
        dual = solution.attributes["dual"]
        if not np.isfinite(dual).all():
            raise ValueError(
                f"the coefficients of alpha={self.alpha} are beyond {dual.dtype}; raise alpha, or scale y."
            )
        assert problem.data.targets is not None
        return {
            "dual_coef_": dual.ravel() if problem.data.targets.ndim == 1 else dual,
            "X_fit_": problem.rows,
            "kernel_": problem.kernel,
            "gamma_": float(getattr(problem.kernel, "gamma", None) or 0.0),
        }

    def _title(self, data: Blocks | None) -> str:
        n = len(self.dual_coef_)
        return f"KernelRidge  {n:,} × {self.n_features_in_:,}, {standard.brief(self.kernel_)}, α = {self.alpha}"

    def predict(self, X):
        """f(x) = Σ c_i κ(x_i, x) of every row."""
        check_is_fitted(self)

        def of_block(rows: Any) -> Array:
            starts = range(0, rows.shape[0], ROWS)
            parts = [self._kernel_with_fit(rows[i : i + ROWS]) @ self.dual_coef_ for i in starts]
            return np.concatenate(parts)

        return self._apply(X, of_block)

    def _kernel_with_fit(self, rows: Any) -> Array:
        return rows if self._is_given else self.kernel_(rows, self.X_fit_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_given
        return tags
