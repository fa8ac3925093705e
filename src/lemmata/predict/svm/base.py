"""Base of SVC and SVR: validation, the kernel, the fit and f(x) = Σ β_i κ(x_i, x) + b."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_svm
from lemmata.core.engine import worth_compiling
from lemmata.core.loop import Solution
from lemmata.core.parameters import KW_ONLY, NONNEGATIVE, POSITIVE, choice, fitted, parameter
from lemmata.core.supervised import Supervised
from lemmata.core.validation import Interval
from lemmata.predict.kernels import standard
from lemmata.predict.kernels.base import Kernel
from lemmata.predict.kernels.tiles import all_rows, refuse_asymmetric
from lemmata.predict.svm.problem import Duals, MachineDual
from lemmata.predict.svm.smo import OutOfSteps, SMOAlgorithm

Array = np.ndarray
NAMES = {"linear", "poly", "rbf", "sigmoid", "precomputed"}
# Σ (variables)² of all machines up to which K is formed whole and NumPy's loops do the work
SMALL = 2**23
ROWS = 1024  # of a kernel matrix with new rows at once


class SupportVectors(Supervised):
    """A function Σ β_i κ(x_i, x) + b of some training rows x_i, found by SMO on the dual."""

    _: KW_ONLY
    kernel: Any = parameter("rbf", choice(*NAMES), callable).doc("""
        κ. An object such as ``RBF(0.1) + Linear()`` (lemmata.predict.kernels) keeps its own
        parameters; a function takes two matrices of rows and returns K; "precomputed": X is K.""")
    degree: float = parameter(3, NONNEGATIVE).doc("p of poly, (γxᵀy + c)^p.")
    gamma: Any = parameter("scale", choice(*standard.GAMMAS), NONNEGATIVE).doc("""
        γ of rbf, poly and sigmoid; "scale" is 1/(n_features · Var X), "auto" 1/n_features.""")
    coef0: float = parameter(0.0, Interval(Real, None, None, closed="neither")).doc("""
        c of poly and sigmoid.""")
    tol: float = parameter(1e-3, POSITIVE)
    C: float = parameter(1.0, POSITIVE)
    shrinking: bool = parameter(True, "boolean").doc("""
        Has no effect: working sets leave out what shrinking would.""")
    cache_size: float = parameter(200, POSITIVE).doc("""
        Megabytes of rows of K that are kept; the fit needs no n × n matrix.""")
    verbose: int = common.verbose(False)
    max_iter: int = parameter(-1, Interval(Integral, -1, None, closed="left")).doc("""
        The most steps of SMO (changes of a pair of multipliers) of a machine; -1 for no limit.""")
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    stored: ClassVar[Mapping[str, str | type]] = {
        "support_": "s int >=0",
        "support_vectors_": "v w float sparse",
        "n_support_": "c int >=0",
        "dual_coef_": "h s",
        "intercept_ gamma_": "audited",
        "kernel_": Kernel,
        "fit_status_": "int >=0 <=1",
        "shape_fit_": tuple,
    }
    random_state = 0
    work = staticmethod(cost_of_svm)
    support_: Array = fitted()
    support_vectors_: Any = fitted()
    n_support_: Array = fitted()
    dual_coef_: Array = fitted()
    intercept_: Array = fitted()
    kernel_: Kernel = fitted()
    shape_fit_: tuple[int, int] = fitted()

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        return not self._is_given

    @property
    def _is_given(self) -> bool:
        return isinstance(self.kernel, standard.Precomputed) or (
            isinstance(self.kernel, str) and self.kernel == "precomputed"
        )

    # --- fitting ---

    def _machines(self, data: Blocks) -> tuple[MachineDual, ...]:
        """Return the dual problems of the data."""
        raise NotImplementedError

    def _work(self, data: Blocks) -> float:
        """Return Σ (variables)² of all machines."""
        raise NotImplementedError

    def _order(self, data: Blocks) -> Array:
        """Return the rows in an order in which those of a machine stand together."""
        return np.arange(data.shape[0])

    def _validate_pair(self, X, y, sample_weight=None, reset=True, new_classes=True) -> Blocks:
        if self._is_given and sp.issparse(X):
            raise TypeError("Sparse precomputed kernels are not supported; pass X.toarray().")
        return super()._validate_pair(X, y, sample_weight, reset, new_classes)

    def _algorithm(self, data: Blocks) -> SMOAlgorithm:
        if self.max_iter == 0:
            raise ValueError(
                "max_iter=0 leaves nothing to fit; pass -1 for no limit, or a number >= 1."
            )
        most = np.iinfo(np.int64).max if self.max_iter == -1 else int(self.max_iter)
        compiled = worth_compiling(self._work(data), above=SMALL)
        return SMOAlgorithm(float(self.tol), most, compiled)

    def _problem(self, data: Blocks) -> Duals:
        X = all_rows(data)
        kernel = self._kernel()
        if self._is_given:
            refuse_asymmetric(X)
        kernel = kernel.fitted(X)
        standard.refuse_overflow(kernel, X)
        machines = self._machines(data)
        together = sum(one.size**2 for one in machines) <= SMALL
        order = self._order(data)
        return Duals(
            X, kernel, machines, float(self.cache_size), together, float(self.tol), order, data
        )

    def _kernel(self) -> Kernel:
        if isinstance(self.kernel, Kernel):
            return self.kernel
        if callable(self.kernel):
            return standard.MatrixFunction(self.kernel)
        return standard.kernel_of(
            self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0
        )

    def _stop(self):
        return self._within_time(OutOfSteps())

    def _callbacks(self) -> list[Any]:
        from lemmata.core.runs.progress import Progress

        bar = Progress(type(self).__name__, total=None)
        return [bar if isinstance(one, Progress) else one for one in super()._callbacks()]

    def _describe_unsettled(self, solution: Solution) -> str:
        left = max(one.violation for one in solution.state.machines)
        return (
            f"{type(self).__name__} made max_iter={self.max_iter} steps and optimality is violated by {left:.1e} > "
            f"tol={self.tol:.0e}: raise max_iter, scale the columns (StandardScaler), or read certificate_."
        )

    def _attributes(self, solution: Solution, problem: Duals) -> dict[str, Any]:
        states = solution.attributes["machines"]
        betas, intercepts = [], []
        for machine, one in zip(problem.machines, states, strict=True):
            G = machine.gradient(one.field)
            intercepts.append(machine.intercept(one.beta, G))
            betas.append(machine.by_member(_balance(one.beta, machine)))
        support, counts, coefficients = self._arrange(problem, betas)
        given = isinstance(problem.kernel, standard.Precomputed)
        return {
            "support_": support,
            "support_vectors_": np.empty((0, 0)) if given else problem.X[support],
            "n_support_": counts,
            "dual_coef_": coefficients,
            "intercept_": np.array(intercepts),
            "kernel_": problem.kernel,
            "gamma_": float(getattr(problem.kernel, "gamma", None) or 0.0),
            "fit_status_": int(any(one.violation > self.tol for one in states)),
            "shape_fit_": tuple(map(int, problem.data.shape)),
            "steps_": np.array([one.steps for one in states]),
        }

    def _arrange(self, problem: Duals, betas: list[Array]) -> tuple[Array, Array, Array]:
        """Return (support_, n_support_, dual_coef_) from the β of every machine."""
        raise NotImplementedError

    def _title(self, data: Blocks | None) -> str:
        n, d = self.shape_fit_
        return (
            f"{type(self).__name__}  {n:,} × {d:,}, C = {self.C:g}, {standard.brief(self.kernel_)}, "
            f"{len(self.support_):,} support vectors"
        )

    # --- predicting ---

    def _values(self, rows: Any) -> Array:
        """b + Σ_s κ(x, x_s) c_s for the columns c of (n_SV, p) coefficients."""
        coefficients = self._coefficients()
        out = np.empty((rows.shape[0], coefficients.shape[1]))
        for start in range(0, len(out), ROWS):
            some = slice(start, start + ROWS)
            out[some] = self._kernel_with_support(rows[some]) @ coefficients
        return out + self.intercept_

    def _kernel_with_support(self, rows: Any) -> Array:
        if self._is_given:
            return rows[:, self.support_]
        return self.kernel_(rows, self.support_vectors_)

    @property
    def coef_(self) -> Array:
        """w of every machine, (machines, d): kernel="linear" only."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        w = self.support_vectors_.T @ self._coefficients()
        return np.ascontiguousarray(np.asarray(w).T)

    def _coefficients(self) -> Array:
        return self.dual_coef_.T

    @classmethod
    def restored(cls, parameters, attributes):
        model = super().restored(parameters, attributes)
        X, (n, d) = model.support_vectors_, model.shape_fit_
        # a regression has one machine, as two classes have
        k = len(getattr(model, "classes_", ())) or 2
        counts = (len(model.dual_coef_), len(model.intercept_), len(model.n_support_))
        if counts != (k - 1, k * (k - 1) // 2, k if hasattr(model, "classes_") else 1):
            raise ValueError(f"the coefficients are not those of the machines of {k} classes.")
        expected = (0, 0) if model._is_given else (len(model.support_), d)
        if X.shape != expected:
            raise ValueError(f"support_vectors_ is not a matrix of shape {expected}.")
        if model.support_.max(initial=-1) >= n or d != model.n_features_in_:
            raise ValueError("the support vectors are not those of a fit.")
        return model

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_given
        return tags


def _balance(beta: Array, machine: MachineDual) -> Array:
    """Return β with 1ᵀβ = 0 to the last bit but one: the rounding error goes to the variable farthest from its bounds."""
    rest = float(np.sum(beta))
    if rest == 0 or not np.isfinite(rest):
        return beta
    room = np.minimum(beta - machine.lo, machine.hi - beta)
    place = int(room.argmax())
    if room[place] <= abs(rest):
        return beta
    beta = beta.copy()
    beta[place] -= rest
    return beta
