"""Principal component analysis: the k-dimensional subspace that keeps most of the variance.

    minimise  E‖x − μ − P(x − μ)‖²  over projections P of rank k,      solved by P = CᵀC,  rows of C the k leading
                                                                       eigenvectors of the covariance (CIL Thm 1.4.4)

    >>> from sklearn.datasets import load_digits
    >>> pca = PCA(n_components=10).fit(load_digits().data)
    >>> pca.certificate_.failed
    []

How solver="auto" chooses. Few features (the covariance is formed from one pass of Moments; dense, memmap, streams and dask
alike): `eigh`. Fewer rows than features, dense: `svd`. Sparse with many features, or dense with more features than a
covariance fits: `lanczos` on products with the data, which is never centred or densified in memory.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.subspaces import ITERATIVE_CLAIMS, POWER_CLAIMS, SUBSPACE_CLAIMS
from lemmata.core.blocks import Blocks, is_dask
from lemmata.core.certificate import Fit
from lemmata.core.estimator import COMMON, Model
from lemmata.core.loop import MaxSteps, Never, Settled, Solution, run
from lemmata.core.moments import Gathering, Moments
from lemmata.reduction.covariance import (
    EighAlgorithm,
    GradientAlgorithm,
    Scatter,
    SVDAlgorithm,
    upright,
)

Array = np.ndarray
OVERSAMPLING = 10  # directions beyond k in a random start: what the last of the k would have to wait for otherwise
LANCZOS_BLOCK = 16  # a cache line of float32, which the sparse kernel takes at once; wider blocks need more columns in all
SOLVERS = ("auto", "eigh", "svd", "power", "lanczos", "randomized", "gradient")
DIRECT = ("eigh", "svd")
FORM_BELOW = 4096  # features up to which the covariance is formed: 128 MB in float64
KEEP_MOMENTS_BELOW = 1024  # features up to which a fit keeps its moments (8 MB), so that partial_fit can go on from it
FORM_SPARSE_BELOW = 1024  # sparse Gram products fill up quickly, so the operator pays earlier


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Model):
    """Principal component analysis.

    Finds the projection of rank k that minimises E‖x − μ − P(x − μ)‖².

    Parameters
    ----------
    n_components : int, float in (0, 1) or None, default=None
        k. A float keeps as many components as explain more than that share of the variance; None keeps all.
    solver : {"auto", "eigh", "svd", "power", "lanczos", "randomized", "gradient"}, default="auto"
        eigh, svd: LAPACK on the covariance or on the rows. power: one axis after the other (CIL 1.5.2). lanczos: block
        Krylov. randomized: subspace iteration from a random start. gradient: ascent on the captured variance.
    whiten : bool, default=False
        Divide the scores by their standard deviations.
    max_iter, tol : int, default=1000; float, default=1e-6
        The iterative solvers stop after max_iter steps. tol is, for lanczos, randomized and gradient, the change of the
        captured variance in a step, relative to it; for power the square of an axis's residual relative to λ₁; eigh and svd
        do not use it. It bounds no angle: `principal_axes` measures those.
    random_state : int, RandomState or None
        Where the iterative solvers start.
    verbose, checkpoint, time_limit
        Progress on the terminal; a file to resume from; seconds.

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
    `partial_fit` is exact: it adds up Moments, and solves when a result is first asked for. Weights count rows: weight 2
    is the row twice. Signs are such that the largest entry of every component is positive.
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "n_components": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
            None,
        ],
        "solver": [StrOptions(set(SOLVERS))],
        "whiten": ["boolean"],
        **COMMON,
    }
    accepts_sparse = True
    finds_nonfinite = True
    min_samples = 2
    claims = SUBSPACE_CLAIMS
    stored: ClassVar[dict[str, str | type]] = {
        "components_": "k d",
        "explained_variance_": "k",
        "explained_variance_ratio_": "k",
        "singular_values_": "k",
        "mean_": "d",
        "noise_variance_": "",
        "n_components_": "",
        "n_samples_": "",
        "solver_": str,
        "moments_?": Moments,
    }

    def __init__(
        self,
        n_components=None,
        *,
        solver="auto",
        whiten=False,
        max_iter=1000,
        tol=1e-6,
        random_state=None,
        verbose=0,
        checkpoint=None,
        time_limit=None,
    ):
        self.n_components = n_components
        self.solver = solver
        self.whiten = whiten
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.time_limit = time_limit

    # --- fitting ---

    def _algorithm(self, data: Blocks) -> Any:
        self.__dict__.pop("_gathering", None)  # a fit forgets the batches before it
        self.__dict__.pop("moments_", None)
        self.solver_ = self._chosen_solver(data)
        return self._algorithm_for(self._wanted(*data.shape), self.solver_)

    def _wanted(self, n: int, d: int) -> int | float:
        """n_components as a number, checked against the data."""
        wanted, most = self.n_components, min(n, d)
        if wanted is None:
            return most
        if isinstance(wanted, int | np.integer):
            if wanted > most:
                raise ValueError(
                    f"n_components={wanted} exceeds the smaller side of a {n} × {d} matrix; pass n_components <= {most}."
                )
            return int(wanted)
        return float(wanted)

    def _chosen_solver(self, data: Blocks) -> str:
        n, d = data.shape
        if self.solver == "svd" and (data.sparse or not data.in_memory):
            raise ValueError(
                "solver='svd' needs a dense array in memory; use 'eigh' or 'lanczos', or solver='auto'."
            )
        if self.solver != "auto":
            return self.solver
        if data.in_memory and not data.sparse and n < d and n <= FORM_BELOW:
            return "svd"
        share = self.n_components is None or isinstance(self.n_components, float)
        return "eigh" if share or self._forms(data) else "lanczos"

    def _forms(self, data: Blocks) -> bool:
        return data.shape[1] <= (FORM_SPARSE_BELOW if data.sparse else FORM_BELOW)

    def _algorithm_for(self, k: int | float, solver: str) -> Any:
        if solver == "eigh":
            return EighAlgorithm(k)
        if solver == "svd":
            return SVDAlgorithm(k)
        if isinstance(k, float):
            raise ValueError(
                f"n_components={k} needs the whole spectrum; solver={solver!r} finds leading parts only. Use 'eigh'."
            )
        if solver == "gradient":
            return GradientAlgorithm(k)
        if solver == "power":
            from lemmata.linalg.power import PowerAlgorithm

            # a residual r changes the variance by about r²
            return PowerAlgorithm(k, tol=self.tol**0.5)
        if solver == "lanczos":
            from lemmata.linalg.lanczos import LanczosAlgorithm

            return LanczosAlgorithm(k, block=min(k + OVERSAMPLING, LANCZOS_BLOCK))
        from lemmata.linalg.randomized import RandomizedAlgorithm

        return RandomizedAlgorithm(k, oversampling=OVERSAMPLING)

    def _problem(self, data: Blocks) -> Scatter:
        if self.solver_ == "svd":
            return _centre_only(data)
        return (
            Scatter.formed(data)
            if self.solver_ == "eigh" or self._forms(data)
            else Scatter.implicit(data)
        )

    def _stop(self):
        if self.solver_ in DIRECT:
            return Never()
        rule = self._limited(MaxSteps(self.max_iter))
        # power settles one axis after the other
        return rule if self.solver_ == "power" else Settled(self.tol) | rule

    def _claims(self):
        solver = getattr(self, "solver_", "eigh")
        if solver in DIRECT:
            return SUBSPACE_CLAIMS
        return POWER_CLAIMS if solver == "power" else ITERATIVE_CLAIMS

    def _attributes(self, solution: Solution, problem: Scatter) -> dict[str, Any]:
        found, n = solution.attributes, problem.n
        if not n > 1:
            raise ValueError(
                f"the weights add up to {n:g}: they count rows, and a variance needs more than one; multiply them, for "
                "instance by n / their sum."
            )
        values = np.maximum(np.asarray(found["values"], dtype=np.float64), 0)
        k, d, dtype = len(values), len(problem.mean), problem.dtype
        rows = problem.data.shape[0] if problem.data is not None else n
        left = max(problem.total - values.sum(), 0.0)
        others = min(int(rows), d) - k
        return {
            "components_": np.ascontiguousarray(
                upright(np.asarray(found["vectors"], dtype=dtype)).T
            ),
            "explained_variance_": (values / (n - 1)).astype(dtype),
            "explained_variance_ratio_": (
                values / problem.total if problem.total > 0 else values
            ).astype(dtype),
            "singular_values_": np.sqrt(values).astype(dtype),
            "mean_": problem.mean.astype(dtype),
            "noise_variance_": float(left / others / (n - 1)) if others > 0 else 0.0,
            "n_components_": k,
            "n_samples_": int(rows),
            **(
                {"moments_": problem.moments}
                if problem.moments is not None and d <= KEEP_MOMENTS_BELOW
                else {}
            ),
        }

    def _title(self, data: Blocks | None) -> str:
        n = data.shape[0] if data is not None else self.n_samples_
        kept = f"{np.sum(self.explained_variance_ratio_, dtype=float):.1%} of the variance"
        return f"PCA  {n:,} × {self.n_features_in_:,} → {self.n_components_}, {kept}, solver {self.solver_}"

    # --- one batch after the other ---

    LAZY: ClassVar[tuple[str, ...]] = (
        *(name.removesuffix("?") for name in stored if name != "n_samples_"), "certificate_", "trace_", "stopped_", "n_iter_",
    )  # fmt: skip

    def partial_fit(self, X, y=None, sample_weight=None):
        """Add a batch of rows. The result is that of one fit to all rows, in any order of the batches.

        The axes are solved for when one of them is first asked for, so that a batch costs its moments and nothing else.
        """
        self._validate_params()
        gathering = self.__dict__.get("_gathering") or self._gathering_of_fit()
        first, seen = gathering is None, vars(self).get("n_samples_", 0)
        with self._all_or_nothing():
            data = self._validated(X, sample_weight, reset=first, min_samples=1)
            d = data.shape[1]
            if isinstance(self.n_components, int | np.integer) and self.n_components > d:
                raise ValueError(
                    f"n_components={self.n_components} exceeds the {d} features; pass n_components <= {d}."
                )
            gathering = Gathering() if gathering is None else gathering
            gathering.add(data)
            for name in self.LAZY:
                self.__dict__.pop(name, None)
            self._gathering, self._batch_dtype = gathering, data.dtype
            self.n_samples_ = data.shape[0] + (0 if first else seen)
        return self

    def _gathering_of_fit(self) -> Gathering | None:
        """Where batches after a `fit` go on from: its moments, if it kept them. None for a model not fitted."""
        if "moments_" in vars(self):
            return Gathering(self.moments_)
        if "components_" in vars(self):
            raise ValueError(
                f"this PCA was fitted by fit, which keeps no moments beyond {KEEP_MOMENTS_BELOW} features or without forming "
                "the covariance; use partial_fit from the first batch."
            )
        return None

    def __getattr__(self, name: str):
        """Solve for the axes of the moments gathered by partial_fit, when they are first asked for."""
        if name in type(self).LAZY and "_gathering" in self.__dict__:
            self._solve_gathered()
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _solve_gathered(self) -> None:
        moments, n = self._gathering.total(), self.n_samples_
        if n < 2 or (isinstance(self.n_components, int | np.integer) and self.n_components > n):
            raise NotFittedError(
                f"PCA has seen {n} row(s); n_components={self.n_components} needs more batches."
            )
        with self._all_or_nothing():
            self.solver_ = "eigh"
            problem = Scatter.of_moments(moments, self._batch_dtype)
            solution = run(EighAlgorithm(self._wanted(n, len(moments.mean))), problem, stop=Never())
            attributes = self._attributes(solution, problem) | {
                "n_samples_": n,
                "moments_": moments,
            }
            self._conclude(None, attributes, solution.trace, solution.stopped, 1)

    # --- using it ---

    def transform(self, X):
        """The coordinates of rows in the principal axes."""
        check_is_fitted(self, "components_")
        C, offset = self.components_, self.mean_ @ self.components_.T

        def scores(rows):
            Z = rows @ C.T - offset
            return Z / self._deviations() if self.whiten else Z

        data = self._validated(X, reset=False)
        if is_dask(data.source):
            return data.source.map_blocks(
                scores, chunks=(data.source.chunks[0], (len(C),)), dtype=data.dtype
            )
        if data.in_memory:
            return scores(data.source)
        return np.concatenate([scores(rows) for rows, _ in data])

    def _deviations(self) -> Array:
        """Standard deviations for whitening; a direction without variance is left as it is."""
        deviations = np.sqrt(self.explained_variance_)
        return np.where(deviations > 0, deviations, 1).astype(self.components_.dtype)

    def inverse_transform(self, Z):
        """The rows that have these coordinates: the reconstruction."""
        check_is_fitted(self, "components_")
        Z = np.asarray(Z)
        if Z.ndim != 2 or Z.shape[1] != len(self.components_):
            raise ValueError(
                f"Z has shape {Z.shape}; inverse_transform takes rows of {len(self.components_)} coordinates."
            )
        return (Z * self._deviations() if self.whiten else Z) @ self.components_ + self.mean_

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    # --- as a probabilistic model: x ~ N(μ, Cᵀ diag(λ − σ²) C + σ²I) ---

    def score_samples(self, X) -> Array:
        """The log-likelihood of each row under probabilistic PCA."""
        check_is_fitted(self, "components_")
        X = self._validated(X, reset=False)
        if not X.in_memory:
            return np.concatenate([self._log_likelihood(rows) for rows, _ in X])
        return self._log_likelihood(X.source)

    def _log_likelihood(self, rows) -> Array:
        C, mean = self.components_.astype(np.float64), self.mean_.astype(np.float64)
        k, d = C.shape
        noise = self.noise_variance_
        values = np.maximum(self.explained_variance_.astype(np.float64), noise)
        if values.min() <= 0 or (noise <= 0 and k < d):
            raise ValueError(
                "the data has no variance outside the subspace, so no density exists; keep fewer components."
            )
        Z = rows @ C.T - mean @ C.T
        inside = (Z**2 / values).sum(axis=1) + np.log(values).sum()
        if k == d:
            return -0.5 * (d * np.log(2 * np.pi) + inside)
        squares = (
            rows.multiply(rows).sum(axis=1)
            if sp.issparse(rows)
            else np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        )
        squares = np.asarray(squares).ravel() - 2 * (rows @ mean) + mean @ mean
        outside = (squares - (Z**2).sum(axis=1)) / noise + (d - k) * np.log(noise)
        return -0.5 * (d * np.log(2 * np.pi) + inside + outside)

    def score(self, X, y=None) -> float:
        """The average log-likelihood of the rows."""
        return float(np.mean(self.score_samples(X)))

    def get_covariance(self) -> Array:
        """The covariance of the probabilistic model."""
        check_is_fitted(self, "components_")
        C = self.components_
        extra = np.maximum(self.explained_variance_ - self.noise_variance_, 0)
        return (C.T * extra) @ C + self.noise_variance_ * np.eye(C.shape[1], dtype=C.dtype)

    @classmethod
    def work(cls, fit: Fit) -> float:
        """The covariance and its eigenvectors, the SVD of few rows, or products with the data."""
        (n, d), k, size = fit.data.shape, len(fit.components_), float(fit.data.size)
        solver = fit.get("solver_", "auto")
        forms = d <= (FORM_SPARSE_BELOW if fit.data.sparse else FORM_BELOW)
        if solver in DIRECT or (solver == "auto" and forms):
            return size * min(n, d) + 5 * float(min(n, d)) ** 3
        steps = float(np.max(fit.get("n_iter_", 1))) if solver != "auto" else 7.0
        if forms:
            return size * d + steps * k * float(d) ** 2
        width = {"power": 1, "lanczos": LANCZOS_BLOCK}.get(solver, k + OVERSAMPLING)
        return steps * 2 * size * width

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _centre_only(data: Blocks) -> Scatter:
    """Mean and total scatter for the SVD of the rows, which needs no product with S."""
    X, w = data.source, data.weights
    mean = np.average(X, axis=0, weights=w) if w is not None else X.mean(axis=0, dtype=np.float64)
    if not np.isfinite(mean).all():
        raise ValueError(
            "Input contains NaN or infinity (or numbers too large for its dtype); clean or impute it first."
        )
    centred = X - mean.astype(X.dtype)
    squares = np.einsum("ij,ij->i", centred, centred, dtype=np.float64)
    total = float(squares.sum() if w is None else w @ squares)
    return Scatter(data.total_weight, mean, total, None, X.dtype, data)
