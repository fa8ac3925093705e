"""Principal axes through the mean: the attributes of PCA and IncrementalPCA, and batches of rows that add up.

Batches leave their moments behind and nothing else (core/moments.py): n, μ and S of all rows so far are those of one pass over
them, in any order. The eigenvectors of S are found when an attribute is first read, so a batch costs its moments alone.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import NotFittedError

from lemmata.audit.reduction.pca import SUBSPACE_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import rounding
from lemmata.core.engine import one_blas_thread
from lemmata.core.estimator import Model
from lemmata.core.loop import Never, Solution, run
from lemmata.core.moments import Gathering, Moments
from lemmata.core.parameters import fitted
from lemmata.core.validation import is_plain
from lemmata.reduction.axes import GaussianAxes, delete_attributes
from lemmata.reduction.covariance import EighAlgorithm, Scatter, upright
from lemmata.reduction.dimension import MLE

Array = np.ndarray


class PrincipalAxes(GaussianAxes, Model):
    """Base of models whose attributes are the leading eigenpairs of the scatter of the rows."""

    accepts_sparse = True
    finds_nonfinite = True
    min_samples = 2
    claims = SUBSPACE_CLAIMS
    stored: ClassVar[dict[str, str | type]] = {
        "components_ mean_ noise_variance_": "audited",
        "explained_variance_ explained_variance_ratio_ singular_values_": "audited",
        "n_components_ n_samples_": "",
        "solver_": str,
        "moments_?": Moments,
    }
    # features up to which a fit keeps its moments, so that partial_fit can continue from it
    keeps_moments_below: ClassVar[int] = 1024

    n_samples_: int = fitted()
    solver_: str = fitted()
    _gathering: Gathering | None = None  # the batches of partial_fit

    def _algorithm(self, data: Blocks) -> Any:
        self._gathering = None  # a fit forgets the batches before it
        delete_attributes(self, "moments_")
        self.solver_ = "eigh"
        return EighAlgorithm(self._resolve_components(*data.shape))

    def _problem(self, data: Blocks) -> Scatter:
        return Scatter.form(data)

    def _stop(self):
        return Never()

    def _resolve_components(self, n: int, d: int) -> int | float | str:
        """n_components as a number (or a rule by name), checked against the data."""
        wanted, most = self.n_components, min(n, d)
        if wanted is None:
            return most
        if isinstance(wanted, str):
            if wanted == MLE and n < d:
                raise ValueError(
                    f"n_components='mle' needs at least as many rows as features, and these are {n} × {d}; pass a number."
                )
            return wanted
        if isinstance(wanted, int | np.integer):
            if wanted > most:
                raise ValueError(
                    f"n_components={wanted} exceeds the smaller side of a {n} × {d} matrix; pass n_components <= {most}."
                )
            return int(wanted)
        return float(wanted)

    def _attributes(self, solution: Solution, problem: Scatter) -> dict[str, Any]:
        found, n = solution.attributes, problem.n
        rows = problem.data.shape[0] if problem.data is not None else n
        # 300 weights of 1/300 may add up to a little more than 1
        if not n - 1 > rounding(np.float64, rows):
            raise ValueError(
                f"the weights add up to {n:g}: they count rows, and a variance needs more than one; multiply them, for "
                "instance by n / their sum."
            )
        values = np.maximum(np.asarray(found["values"], dtype=np.float64), 0)
        k, d, dtype = len(values), len(problem.mean), problem.dtype
        left = max(problem.total - values.sum(), 0.0)
        others = min(n, d) - k  # weights are repetitions: n is what the rows count in all
        shares = values / problem.total if problem.total > 0 else values
        keeps = problem.moments is not None and d <= self.keeps_moments_below
        vectors = upright(np.asarray(found["vectors"], dtype=dtype))
        return {
            "components_": np.ascontiguousarray(vectors.T),
            "explained_variance_": (values / (n - 1)).astype(dtype),
            "explained_variance_ratio_": shares.astype(dtype),
            "singular_values_": np.sqrt(values).astype(dtype),
            "mean_": problem.mean.astype(dtype),
            "noise_variance_": float(left / others / (n - 1)) if others > 0 else 0.0,
            "n_components_": k,
            "n_samples_": int(rows),
            **({"moments_": problem.moments} if keeps else {}),
        }

    def _title(self, data: Blocks | None) -> str:
        n = data.shape[0] if data is not None else self.n_samples_
        kept = f"{np.sum(self.explained_variance_ratio_, dtype=float):.1%} of the variance"
        return (
            f"{type(self).__name__}  {n:,} × {self.n_features_in_:,} → {self.n_components_}, {kept}, "
            f"solver {self.solver_}"
        )

    # --- one batch after the other ---

    LAZY: ClassVar[tuple[str, ...]] = (
        *(name.removesuffix("?") for names in stored for name in names.split() if name != "n_samples_"),
        "certificate_", "trace_", "stopped_", "n_iter_",
    )  # fmt: skip

    def _add_batch(self, X, sample_weight) -> None:
        """Add the moments of a batch to those before it."""
        self._validate_params()
        gathering = self._gathering or self._gathering_of_fit()
        first, seen = gathering is None, getattr(self, "n_samples_", 0)
        with self._all_or_nothing():
            plain = not first and sample_weight is None and is_plain(self, X, reset=False)
            if plain and X.shape[1] == self.n_features_in_:  # `Gathering` looks for NaN in it
                data = Blocks.of(X)
            else:
                data = self._validate_rows(X, sample_weight, reset=first, min_samples=1)
            d = data.shape[1]
            if isinstance(self.n_components, int | np.integer) and self.n_components > d:
                raise ValueError(
                    f"n_components={self.n_components} exceeds the {d} features; pass n_components <= {d}."
                )
            gathering = Gathering() if gathering is None else gathering
            gathering.add(data)
            delete_attributes(self, *self.LAZY)
            self._gathering, self._batch_dtype = gathering, data.dtype
            self.n_samples_ = data.shape[0] + (0 if first else seen)

    def _gathering_of_fit(self) -> Gathering | None:
        """The moments of a `fit`, if it kept them, from which batches continue. None for a model not fitted."""
        if hasattr(self, "moments_"):
            return Gathering(self.moments_)
        if hasattr(self, "components_"):
            raise ValueError(
                f"this {type(self).__name__} was fitted by fit, which keeps no moments beyond {self.keeps_moments_below} "
                "features or without forming the covariance; use partial_fit from the first batch."
            )
        return None

    def __getattr__(self, name: str):
        """Solve for the axes of the moments gathered by partial_fit, when they are first read."""
        if name in type(self).LAZY and self._gathering is not None:
            self._solve_gathered(self._gathering)
            return object.__getattribute__(self, name)
        return super().__getattr__(name)

    def _solve_gathered(self, gathering: Gathering) -> None:
        moments, n = gathering.total(), self.n_samples_
        if n < 2 or (isinstance(self.n_components, int | np.integer) and self.n_components > n):
            raise NotFittedError(
                f"{type(self).__name__} has seen {n} row(s); n_components={self.n_components} needs more batches."
            )
        with self._all_or_nothing(), one_blas_thread():
            self.solver_ = "eigh"
            problem = Scatter.of_moments(moments, self._batch_dtype)
            solution = run(
                EighAlgorithm(self._resolve_components(n, len(moments.mean))), problem, stop=Never()
            )
            attributes = self._attributes(solution, problem)
            attributes |= {"n_samples_": n, "moments_": moments}
            self._conclude(None, attributes, solution.trace, solution.stopped, 1)
