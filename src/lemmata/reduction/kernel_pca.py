"""Kernel PCA: principal components in the feature space of a kernel, which is never entered.

    maximise  Σ_i w_i (uᵀφ̃(x_i))²   over orthonormal u in feature space,          φ̃(x) = φ(x) − Σ_i p_i φ(x_i),  p = w/Σw

An optimal u lies in the span of the φ̃(x_i): u = Φ̃ᵀα/√λ (a part outside changes no term; ML Representer theorem). Inner
products of centred features are K̃ = (I − 1pᵀ) K (I − p1ᵀ), and with D = diag(w) the problem of CIL Thm 1.4.4 becomes

    D^½ K̃ D^½ a = λ a,     α = D^½ a,     z(x) = uᵀφ̃(x) = k̃(x)ᵀα/√λ,     variance of z = λ/Σw

Since 1ᵀα = 1ᵀDK̃α/λ = 0 (the rows of DK̃ add up to zero), centring a new row k(x) = (κ(x, x_i)) leaves k(x)ᵀα up to a
constant: z(x) = (k(x) − Kp)ᵀα/√λ. Without weights D = I and p = 1/n.

    >>> from sklearn.datasets import make_circles
    >>> X, inner = make_circles(200, factor=0.3, noise=0.05, random_state=0)
    >>> z = KernelPCA(n_components=1, kernel="rbf", gamma=2.0).fit_transform(X)[:, 0]
    >>> bool(z[inner == 1].min() > z[inner == 0].max() or z[inner == 1].max() < z[inner == 0].min())
    True
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, check_is_fitted

from lemmata.audit.reduction.kernel_pca import KERNEL_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.reduction_costs import cost_of_kernel_pca
from lemmata.core.engine import one_blas_thread
from lemmata.core.estimator import Model, RowTransformer
from lemmata.core.loop import MaxSteps, Never, Solution
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, WHOLE, choice, parameter
from lemmata.core.validation import Interval
from lemmata.linalg.lanczos import LanczosAlgorithm
from lemmata.linalg.randomized import RandomizedAlgorithm
from lemmata.predict.kernels.base import Kernel
from lemmata.predict.kernels.standard import GAMMAS, KERNELS, Precomputed, kernel_of
from lemmata.predict.kernels.tiles import too_large
from lemmata.reduction.axes import delete_attributes
from lemmata.reduction.centred_gram import ROWS, CentredGram
from lemmata.reduction.covariance import EighAlgorithm, upright

Array = np.ndarray
MOST_PRODUCTS = 1000  # of lanczos
QUICK = 7  # products of randomized, as in scikit-learn
LANCZOS_ABOVE = 800  # rows; below it LAPACK needs less than 0.1 s
# columns multiplied at once: as fast as one, and finds eigenvalues that repeat up to 8 times
BLOCK = 8
# λ/λ₁ that counts as 0, as in scikit-learn
ZERO = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-7}


class KernelPCA(ClassNamePrefixFeaturesOutMixin, RowTransformer, Model):
    """Principal component analysis in the feature space of a kernel.

    Finds the k directions that keep most of Σ w‖φ(x) − φ̄‖², φ the feature map of the kernel, from the n × n kernel matrix.
    Parameters and attributes are those of scikit-learn's KernelPCA.

    Attributes
    ----------
    eigenvalues_ : (k,)
        λ, descending; λ/Σw is the variance of a coordinate.
    eigenvectors_ : (n, k)
        α. Without weights, of unit length.
    offset_ : (k,)
        (Kp)ᵀα/√λ: what centring takes off the coordinates of a new row.
    X_fit_ : (n, d)
    kernel_ : Kernel
        With every parameter a number.
    gamma_ : float
        γ as a number, whether the kernel has one or not.
    X_transformed_fit_, dual_coef_ : (n, k), (n, d)
        With fit_inverse_transform.
    solver_ : str
        What "auto" chose.
    certificate_, trace_, stopped_, n_iter_

    Notes
    -----
    The fit holds the n × n matrix (float32: 4n² bytes), LAPACK a second one; it refuses if that exceeds 60 % of the machine's
    memory. `transform` needs 1024 rows of it. Weights count rows: weight 2 is the row twice. As in scikit-learn the ridge
    of the pre-images has no intercept, so a linear kernel gives back centred rows; use PCA there.
    """

    n_components: Any = parameter(None, COUNT, None).doc("""
        k. None keeps every direction with an eigenvalue above zero.""")
    _: KW_ONLY
    kernel: Any = parameter("linear", choice(*KERNELS), callable).doc("""
        κ; an object such as ``0.5 * RBF(0.1) + Linear()`` (lemmata.predict.kernels), or a function
        of two rows. "precomputed": X is the kernel matrix of the rows, and `transform` takes the
        kernel between new rows and those.""")
    gamma: Any = parameter(None, NONNEGATIVE, choice(*GAMMAS), None).doc("""
        γ of poly, rbf and sigmoid; None and "auto" are 1/n_features, "scale" is 1/(n_features · Var
        X).""")
    degree: float = parameter(3, Interval(Real, 1, None, closed="left")).doc("""
        p of poly, (γxᵀy + c)^p.""")
    coef0: float = parameter(1, Interval(Real, None, None, closed="neither")).doc("""
        c of poly and of sigmoid, tanh(γxᵀy + c).""")
    kernel_params: Any = parameter(None, dict, None).doc("Further arguments of a callable kernel.")
    alpha: float = parameter(1.0, NONNEGATIVE).doc("The ridge of the pre-images.")
    fit_inverse_transform: bool = parameter(False, "boolean").doc("""
        Also learn pre-images for `inverse_transform`, by kernel ridge regression from the
        coordinates to the rows.""")
    eigen_solver: str = parameter(
        "auto", choice("auto", "dense", "lanczos", "arpack", "randomized")
    ).doc("""
        dense: LAPACK. lanczos: block Krylov on products with the matrix; "arpack" is another word
        for it. randomized: subspace iteration. "auto" takes lanczos for more than 800 rows and at
        most a twentieth of that many components.""")
    tol: float = common.tol(0).doc("""
        lanczos stops when every residual |K̃a − λa| is at most tol · λ₁ (others: not used); 0 means
        rounding. It bounds no angle: `principal_axes` measures those.""")
    max_iter: Any = parameter(None, COUNT, None).doc("The most products of lanczos; None is 1000.")
    iterated_power: Any = parameter("auto", choice("auto"), WHOLE).doc("""
        randomized: this many products after the first; "auto" is 7.""")
    remove_zero_eig: bool = parameter(False, "boolean").doc("""
        Drop directions with eigenvalue zero; else their coordinate is 0. n_components=None always
        drops them.""")
    random_state: Any = common.random_state().doc("Where lanczos and randomized start.")
    copy_X: bool = common.copy_X().doc("""
        False keeps X itself as X_fit_ instead of a copy of it; then do not change it.""")
    n_jobs: Any = common.n_jobs()
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    min_samples = 2
    claims = KERNEL_CLAIMS
    work = staticmethod(cost_of_kernel_pca)
    stored: ClassVar[Mapping[str, str | type]] = {
        "eigenvalues_ eigenvectors_ offset_ gamma_": "audited",
        "X_transformed_fit_? dual_coef_?": "audited",
        "X_fit_": "n d float sparse",
        "kernel_": Kernel,
        "solver_": str,
    }

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        # pre-images are dense rows, and so is a kernel matrix
        return not self.fit_inverse_transform and not self._is_given

    @property
    def _is_given(self) -> bool:
        return isinstance(self.kernel, Precomputed) or self.kernel == "precomputed"

    # --- fitting ---

    def _algorithm(self, data: Blocks) -> Any:
        n = data.shape[0]
        if self._is_given and self.fit_inverse_transform:
            raise ValueError(
                "fit_inverse_transform learns rows, and kernel='precomputed' knows none; pass False, or the rows and a kernel."
            )
        k = n if self.n_components is None else int(self.n_components)
        if k > n:
            raise ValueError(
                f"n_components={k} exceeds the {n} rows, which span no more; pass n_components <= {n - 1}."
            )
        few = n > LANCZOS_ABOVE and k <= n // 20
        self.solver_ = {"auto": "lanczos" if few else "dense", "arpack": "lanczos"}.get(
            self.eigen_solver, self.eigen_solver
        )
        why = too_large(n, data.dtype.itemsize, copies=2 if self.solver_ == "dense" else 1)
        if why:
            raise MemoryError(
                f"{why}; fit a sample of the rows (transform takes the others), pass float32, or use "
                "eigen_solver='lanczos', which needs no second copy."
            )
        delete_attributes(self, "X_transformed_fit_", "dual_coef_")
        if self.solver_ == "dense":
            return EighAlgorithm(k)
        if self.solver_ == "randomized":
            return RandomizedAlgorithm(k)
        # a product with K̃ errs by √n·eps·λ₁
        tol = max(float(self.tol), float(np.finfo(data.dtype).eps) * np.sqrt(n))
        return LanczosAlgorithm(k, block=BLOCK, tol=tol)

    def _problem(self, data: Blocks) -> CentredGram:
        return CentredGram.of(self._kernel(), data, copy=self.copy_X)

    def _kernel(self) -> Kernel:
        if isinstance(self.kernel, Kernel):
            if self.gamma is not None:
                raise ValueError(
                    f"gamma={self.gamma} is given twice: {self.kernel!r} has its own; leave gamma=None."
                )
            return self.kernel
        if callable(self.kernel):
            return kernel_of(self.kernel, **(self.kernel_params or {}))
        return kernel_of(self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    def _stop(self):
        if self.solver_ == "dense":
            return Never()
        if self.solver_ == "randomized":
            steps = QUICK if self.iterated_power == "auto" else int(self.iterated_power)
        else:
            steps = MOST_PRODUCTS if self.max_iter is None else self.max_iter
        return self._within_time(MaxSteps(steps))

    def _wants_to_settle(self) -> bool:
        return self.solver_ == "lanczos"  # tol = 0 means rounding here

    def _attributes(self, solution: Solution, problem: CentredGram) -> dict[str, Any]:
        found, dtype, root = solution.attributes, problem.dtype, problem.root
        values = np.array(found["values"], dtype=np.float64)
        vectors = np.asarray(found["vectors"], dtype=dtype)
        if values[0] <= problem.rounding:
            raise ValueError(
                f"{problem.kernel!r} sees no difference between the rows (largest eigenvalue {values[0]:.2g}, "
                f"rounding {problem.rounding:.2g}): they are equal, or gamma is too small for them."
            )
        values[values <= max(ZERO[dtype] * values[0], problem.rounding)] = 0
        if self.remove_zero_eig or self.n_components is None:
            vectors, values = vectors[:, values > 0], values[values > 0]
        alpha = _duals(vectors, root).astype(dtype)
        asked = self.gamma if isinstance(self.gamma, Real) else 1 / problem.rows.shape[1]
        offset, values = (problem.mean @ _scale(alpha, values)).astype(dtype), values.astype(dtype)
        attributes = {
            "eigenvalues_": values,
            "eigenvectors_": alpha,
            "offset_": offset,
            "X_fit_": problem.rows,
            "kernel_": problem.kernel,
            "gamma_": float(getattr(problem.kernel, "gamma", asked)),
        }
        if self.fit_inverse_transform:
            Z = _coordinates(problem.rows, problem.kernel, problem.rows, alpha, values, offset)
            attributes |= self._preimages(Z, problem)
        return attributes

    def _preimages(self, Z: Array, problem: CentredGram) -> dict[str, Array]:
        """The ridge regression min Σ w‖x − k(z)ᵀC‖² + α tr(CᵀKC) of the rows on their coordinates z."""
        K, X = problem.kernel(Z), problem.rows
        if problem.root is not None:
            K *= np.multiply.outer(problem.root, problem.root)
            X = X * problem.root[:, None]
        dual = _ridge(K, X, self.alpha)
        dual = dual if problem.root is None else dual * problem.root[:, None]
        return {"X_transformed_fit_": Z, "dual_coef_": dual.astype(problem.dtype, copy=False)}

    def _title(self, data: Blocks | None) -> str:
        n, k = self.eigenvectors_.shape
        return f"KernelPCA  {n:,} × {self.n_features_in_:,} → {k}, {self.kernel_!r}, solver {self.solver_}"

    # --- using it ---

    def transform(self, X):
        """The coordinates of rows on the principal directions, `(k(x) − Kp)ᵀα/√λ`."""
        check_is_fitted(self)
        data = self._validate_rows(X, reset=False)
        with one_blas_thread():
            model = self.kernel_, self.X_fit_, self.eigenvectors_, self.eigenvalues_, self.offset_
            parts = [_coordinates(rows, *model) for rows, _ in data]
        return np.concatenate(parts)

    def fit_transform(self, X, y=None, sample_weight=None):
        """Fit, and the coordinates of the rows; without weights these are √λ·α, at no further cost."""
        self.fit(X, y, sample_weight)
        if sample_weight is not None:
            return self.transform(X)
        return self.eigenvectors_ * np.sqrt(self.eigenvalues_)

    def inverse_transform(self, X):
        """Rows with about these coordinates: the pre-images that the ridge regression predicts."""
        check_is_fitted(self)
        if not hasattr(self, "dual_coef_"):
            raise NotFittedError(
                "no pre-images were learned; fit with fit_inverse_transform=True for inverse_transform."
            )
        X = check_array(X, dtype=[np.float64, np.float32])
        if X.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has {X.shape[1]} columns; inverse_transform takes rows of {self._n_features_out} coordinates."
            )
        with one_blas_thread():
            parts = [
                self.kernel_(X[i : i + ROWS], self.X_transformed_fit_) @ self.dual_coef_
                for i in range(0, len(X), ROWS)
            ]
        return np.concatenate(parts)

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_given
        return tags


def _duals(a: Array, root: Array | None) -> Array:
    """α = D^½a with 1ᵀα = 0 and signs that do not depend on chance."""
    n = len(a)
    if root is None:
        alpha, p = upright(a), np.full(n, 1 / n)
    else:  # signs by the coordinates a/√w: those of a row and of its copies agree
        coordinates = np.divide(a, root[:, None], out=np.zeros(a.shape), where=root[:, None] > 0)
        alpha, p = upright(coordinates) * root[:, None] ** 2, root**2 / np.sum(root**2)
    # rounding leaves 1ᵀα up to eps·λ₁/λ, and new rows would multiply it with κ/√λ; K̃p = 0, so taking it out is harmless
    return alpha - np.outer(p, alpha.sum(axis=0, dtype=np.float64))


def _ridge(K: Array, X: Array, alpha: float) -> Array:
    """(K + αI)⁻¹X; directions of K within rounding carry nothing where α does not cover them either."""
    shifted = K.copy()
    shifted[np.diag_indices_from(K)] += alpha
    try:
        return scipy.linalg.cho_solve(scipy.linalg.cho_factor(shifted, overwrite_a=True), X)
    except scipy.linalg.LinAlgError:
        values, V = scipy.linalg.eigh(K)
        clear = values > len(K) * np.finfo(K.dtype).eps * values[-1]
        V = V[:, clear]
        return V @ ((V.T @ X) / (values[clear] + alpha)[:, None])


def _scale(alpha: Array, values: Array) -> Array:
    """α/√λ, and 0 for a direction without variance."""
    with np.errstate(divide="ignore"):
        return alpha * np.where(values > 0, 1 / np.sqrt(values), 0).astype(alpha.dtype)


def _coordinates(
    rows: Any, kernel: Kernel, basis: Any, alpha: Array, values: Array, offset: Array
) -> Array:
    """z(x) of every row, some rows at a time, by the kernel with the rows of the fit."""
    scaled, starts = _scale(alpha, values), range(0, rows.shape[0], ROWS)
    return np.concatenate([kernel(rows[i : i + ROWS], basis) @ scaled - offset for i in starts])
