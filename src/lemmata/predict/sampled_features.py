"""Random features whose inner products approximate a kernel, for kernels with infinitely many features.

Nyström              K(x, Z) K(Z, Z)^−½ of q landmarks Z among the rows: exact between landmarks, and K − ΦΦᵀ ⪰ 0
random features      √(2/D) cos(w_jᵀx + b_j), w_j ~ N(0, 2γI), b_j uniform: E φ(x)ᵀφ(y) = exp(−γ‖x − y‖²)

>>> from sklearn.linear_model import Ridge
>>> from sklearn.pipeline import make_pipeline
>>> X = np.random.default_rng(0).uniform(-3, 3, (5000, 1))
>>> model = make_pipeline(Nystroem(gamma=1.0, n_components=30, random_state=0), Ridge(alpha=1e-3))
>>> round(model.fit(X, np.sin(2 * X[:, 0])).score(X, np.sin(2 * X[:, 0])), 3)
1.0
>>> from lemmata.predict.kernels import kernel_error
>>> Z = RBFSampler(gamma=1.0, n_components=2000, random_state=0).fit_transform(X[:50])
>>> kernel_error(RBF(1.0), X[:50], Z).largest < 0.2
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.predict.kernels.feature_maps import NYSTROEM_CLAIMS, RANDOM_FEATURE_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_nystroem, cost_of_random_features
from lemmata.core.engine import one_blas_thread
from lemmata.core.estimator import Model, RowTransformer
from lemmata.core.loop import Never, Solution
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, choice, parameter
from lemmata.core.store import storable
from lemmata.core.validation import Interval
from lemmata.predict.kernels.base import Kernel
from lemmata.predict.kernels.standard import GAMMAS, KERNELS, RBF, Precomputed, brief, named_kernel
from lemmata.predict.kernels.tiles import all_rows

Array = np.ndarray
ROWS = 1024  # of a kernel matrix at once


# --- Nyström ----------------------------------------------------------------------------------------------------------


class _Features(ClassNamePrefixFeaturesOutMixin, RowTransformer, Model):
    """A feature map that takes one step to fit."""

    verbose, checkpoint, time_limit = 0, None, None

    def _stop(self):
        return Never()

    def _wants_to_settle(self) -> bool:
        return False

    def _map(self, X: Any, function: Any) -> Array:
        check_is_fitted(self)
        data = self._validate_rows(X, reset=False)
        with one_blas_thread():
            parts = [
                function(rows[start : start + ROWS])
                for rows, _ in data
                for start in range(0, rows.shape[0], ROWS)
            ]
        return np.concatenate(parts)


@storable
@dataclass(frozen=True)
class LandmarkState:
    """The numbers of the landmarks, and K(Z, Z)^−½ once it is known."""

    version = 1
    layout: ClassVar = {"chosen": "q int >=0 <n", "root?": "q q"}

    chosen: Array
    root: Array | None


@dataclass(frozen=True)
class NystroemAlgorithm:
    """Draw q rows without replacement; K(Z, Z)^−½ from the eigenvectors of K(Z, Z)."""

    n_components: int
    kernel: Kernel

    def init(self, data: Blocks, rng: np.random.Generator) -> LandmarkState:
        weights = data.weights
        p = None if weights is None else weights / weights.sum()
        chosen = rng.choice(data.shape[0], self.n_components, replace=False, p=p)
        return LandmarkState(chosen, None)

    def step(self, state: LandmarkState, data: Blocks) -> LandmarkState:
        Z = _rows_of(data, state.chosen)
        K = self.kernel(Z)
        values, V = scipy.linalg.eigh(K)
        # directions within rounding would come back multiplied by 1/√rounding
        clear = values > len(K) * np.finfo(K.dtype).eps * values[-1]
        V = V[:, clear]
        return LandmarkState(state.chosen, (V / np.sqrt(values[clear])) @ V.T)

    def objective(self, state: LandmarkState) -> float:
        return 0.0  # nothing is minimised

    def attributes(self, state: LandmarkState) -> dict[str, Any]:
        return {"chosen": state.chosen, "root": state.root}

    def finished(self, state: LandmarkState) -> bool:
        return state.root is not None


def _fit_kernel(kernel: Kernel, data: Blocks) -> Kernel:
    """Return the kernel with numbers for parameters; rows are gathered only where one has to be measured on them."""
    try:
        return kernel._without_data(data.shape[1])
    except ValueError:
        return kernel.fitted(all_rows(data))


def _rows_of(data: Blocks, chosen: Array) -> Any:
    """Return some rows of the data, in the order of `chosen`."""
    if data.in_memory:
        return data.source[chosen]
    found, start = {}, 0
    wanted = set(chosen.tolist())
    for rows, _ in data:
        for i in wanted.intersection(range(start, start + rows.shape[0])):
            found[i] = rows[i - start : i - start + 1]
        start += rows.shape[0]
    parts = [found[i] for i in chosen.tolist()]
    return sp.vstack(parts).tocsr() if sp.issparse(parts[0]) else np.concatenate(parts)


class Nystroem(_Features):
    """Features of any kernel from q landmarks among the rows: φ(x) = K(Z, Z)^−½ κ(Z, x).

    φ(x)ᵀφ(y) is the inner product of the projections of the true features onto the span of the landmarks' (Nyström).

    Attributes
    ----------
    components_ : (q, d)
        The landmarks Z.
    component_indices_ : (q,)
        Which rows they are.
    normalization_ : (q, q)
        K(Z, Z)^−½, on the directions above rounding.
    kernel_, gamma_ : object, float
        The kernel with numbers for parameters, and its γ (0 where it has none).
    certificate_, trace_, stopped_, n_iter_
    """

    kernel: Any = parameter("rbf", choice(*KERNELS), callable).doc("""
        κ, as in KernelRidge: a name, an object, or a function of two rows.""")
    _: KW_ONLY
    gamma: Any = parameter(None, NONNEGATIVE, choice(*GAMMAS), None).doc("""
        γ of the kernel; None is 1/n_features.""")
    coef0: Any = parameter(None, Interval(Real, None, None, closed="neither"), None).doc("""
        c of the kernel; None is its own default.""")
    degree: Any = parameter(None, Interval(Real, 1, None, closed="left"), None).doc("""
        p of the kernel; None is its own default.""")
    kernel_params: Any = parameter(None, dict, None).doc("Further arguments of a callable kernel.")
    n_components: int = parameter(100, COUNT).doc("""
        q, the number of landmarks; with fewer rows than that, all of them.""")
    random_state: Any = common.random_state().doc("Which rows are drawn.")
    n_jobs: Any = common.n_jobs()

    claims = NYSTROEM_CLAIMS
    work = staticmethod(cost_of_nystroem)
    stored: ClassVar[Mapping[str, str | type]] = {
        "components_": "q d sparse",
        "component_indices_ normalization_ gamma_": "audited",
        "kernel_": Kernel,
    }

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        return True

    def _algorithm(self, data: Blocks) -> NystroemAlgorithm:
        if isinstance(self.kernel, Precomputed) or self.kernel == "precomputed":
            raise ValueError(
                "kernel='precomputed' knows no rows to draw; pass the rows and a kernel, or use KernelPCA."
            )
        able = data.shape[0] if data.weights is None else int(np.count_nonzero(data.weights))
        kernel = named_kernel(self)
        return NystroemAlgorithm(min(int(self.n_components), able), _fit_kernel(kernel, data))

    def _attributes(self, solution: Solution, problem: Blocks) -> dict[str, Any]:
        found, kernel = solution.attributes, solution.algorithm.kernel
        return {
            "components_": _rows_of(problem, found["chosen"]),
            "component_indices_": found["chosen"],
            "normalization_": found["root"],
            "kernel_": kernel,
            "gamma_": float(getattr(kernel, "gamma", None) or 0.0),
        }

    def _title(self, data: Blocks | None) -> str:
        return f"Nystroem  {self.n_features_in_:,} columns → {len(self.component_indices_):,}, {brief(self.kernel_)}"

    def transform(self, X):
        """φ(x) of every row, (n, q)."""
        N = self.normalization_.T if hasattr(self, "normalization_") else None
        return self._map(X, lambda rows: self.kernel_(rows, self.components_) @ N)

    @property
    def _n_features_out(self) -> int:
        return len(self.component_indices_)


# --- random features --------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class FrequencyState:
    """The frequencies and phases, drawn at the first step."""

    version = 1
    layout: ClassVar = {"weights": "d k", "offsets": "k"}

    weights: Array
    offsets: Array
    seed: int


@dataclass(frozen=True)
class RandomFeaturesAlgorithm:
    """w_j ~ N(0, 2γI): the density whose Fourier transform is exp(−γ‖x‖²) (Bochner)."""

    gamma: float
    n_components: int

    def init(self, data: Blocks, rng: np.random.Generator) -> FrequencyState:
        d = data.shape[1]
        return FrequencyState(np.zeros((d, 0)), np.zeros(0), int(rng.integers(2**62)))

    def step(self, state: FrequencyState, data: Blocks) -> FrequencyState:
        rng, d, D = np.random.default_rng(state.seed), data.shape[1], self.n_components
        W = math.sqrt(2 * self.gamma) * rng.standard_normal((d, D))
        b = rng.uniform(0, 2 * math.pi, D)
        return FrequencyState(W.astype(data.dtype), b.astype(data.dtype), state.seed)

    def objective(self, state: FrequencyState) -> float:
        return 0.0  # nothing is minimised

    def attributes(self, state: FrequencyState) -> dict[str, Any]:
        return {"random_weights_": state.weights, "random_offset_": state.offsets}

    def finished(self, state: FrequencyState) -> bool:
        return len(state.offsets) > 0


class RBFSampler(_Features):
    """Random Fourier features of the Gaussian kernel: φ(x) = √(2/D) cos(Wᵀx + b).

    φ(x)ᵀφ(y) is an average of D independent numbers in [−2, 2] with mean exp(−γ‖x − y‖²): by Hoeffding it is off by more
    than ε with probability at most 2 exp(−Dε²/8).

    Attributes
    ----------
    random_weights_ : (d, D)
        The frequencies, columns of W.
    random_offset_ : (D,)
        The phases b.
    gamma_ : float
        γ as a number.
    certificate_, trace_, stopped_, n_iter_
    """

    _: KW_ONLY
    gamma: Any = parameter(1.0, choice("scale"), NONNEGATIVE).doc("""
        γ; "scale" is 1/(n_features · Var X).""")
    n_components: int = parameter(100, COUNT).doc("D, the number of features.")
    random_state: Any = common.random_state().doc("Which frequencies are drawn.")

    accepts_sparse = True
    claims = RANDOM_FEATURE_CLAIMS
    work = staticmethod(cost_of_random_features)
    stored: ClassVar = {"random_weights_ random_offset_ gamma_": "audited"}

    def _algorithm(self, data: Blocks) -> RandomFeaturesAlgorithm:
        self.gamma_ = float(_fit_kernel(RBF(self.gamma), data).gamma)  # type: ignore[attr-defined]
        return RandomFeaturesAlgorithm(self.gamma_, int(self.n_components))

    def _title(self, data: Blocks | None) -> str:
        d, D = self.random_weights_.shape
        return f"RBFSampler  {d:,} columns → {D:,}, γ = {self.gamma_:.4g}"

    def transform(self, X):
        """φ(x) of every row, (n, D)."""

        def cosines(rows: Any) -> Array:
            out = np.asarray(rows @ self.random_weights_)
            out += self.random_offset_
            np.cos(out, out=out)
            out *= math.sqrt(2 / len(self.random_offset_))
            return out

        return self._map(X, cosines)

    @property
    def _n_features_out(self) -> int:
        return len(self.random_offset_)
