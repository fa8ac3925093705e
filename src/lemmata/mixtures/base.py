"""The base of all mixtures: fitting by EM from one or several starts, learning from batches, scoring rows, criteria, sampling.

A subclass says of which family its components are and which public attributes they are. Everything that is asked of a fitted
mixture is computed from these attributes, by way of l_ij = ln π_j + ln p(x_i; θ_j):

    ln p(x_i) = ln Σ_j exp l_ij  (score_samples),    r_ij = exp l_ij / p(x_i)  (predict_proba),    argmax_j l_ij  (predict)

    >>> from lemmata.core.loop import Solution
    >>> trace = Trace()
    >>> for loss in (3.0, 2.5, 2.499):
    ...     trace.append(loss, 0.0)
    >>> print(SmallGain(1e-2).reason(Solution(None, None, trace)), SmallGain(1e-4).reason(Solution(None, None, trace)))
    settled None
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.mixtures.em import MIXTURE_CLAIMS
from lemmata.core.blocks import Blocks, is_dask
from lemmata.core.certificate import Certificate
from lemmata.core.certification.checking import cost_of_mixture
from lemmata.core.engine import map_reduce, one_blas_thread
from lemmata.core.estimator import Model
from lemmata.core.loop import MaxSteps, Never, Solution, Stop, Stopped, best_run, run, warn_user
from lemmata.core.runs.repeat import Restarts
from lemmata.core.runs.trace import Trace
from lemmata.mixtures.em import EMAlgorithm, StepwiseEM, StepwiseState
from lemmata.mixtures.expectation import Family, finer, log_of, posterior, weigh
from lemmata.mixtures.gaussians.family import Gaussian
from lemmata.mixtures.starting import Centres, Given, Known, RandomMemberships, Seeds, fill_missing

Array = np.ndarray
STARTS = ("kmeans", "k-means++", "random", "random_from_data")
TO_GO = 62.5
LLOYD_STEPS, SETTLED = 100, 1e-4  # of the k-means that EM starts from; EM itself does the rest


@dataclass(frozen=True)
class SmallGain(Stop):
    """The mean log-likelihood changed by less than tol. Absolute, as in scikit-learn: a log-likelihood has no natural zero."""

    tol: float

    def reason(self, solution):
        change = solution.trace.last(back=1) - solution.trace.last()  # NaN before the first step
        return Stopped.SETTLED if abs(change) < self.tol else None


@dataclass(frozen=True)
class Arrived(Stop):
    """A step changed the mean log-likelihood by less than tol, and further ones gain at most TO_GO·tol nats in all.

    A small step alone says little: EM crawls. TO_GO·tol is, at the default tol, half of what `fixed_point` allows.
    """

    tol: float

    def reason(self, solution):
        small = SmallGain(self.tol).reason(solution)
        return small if solution.trace.last("to_go") <= TO_GO * self.tol else None


@dataclass(frozen=True)
class KMeansStart:
    """Every row belongs to its cluster of k-means (CIL20 6.3)."""

    def begin(self, family: Family, k: int, data: Blocks, rough: Any, rng: Any) -> tuple:
        from lemmata.clustering.lloyd import LloydAlgorithm, Points, Still

        solution = run(
            LloydAlgorithm(k),
            Points.of(fill_missing(data, rough)),
            stop=Still(SETTLED) | MaxSteps(LLOYD_STEPS),
            rng=rng,
        )
        return Centres(solution.state.centers).begin(family, k, data, rough, rng)


class MixtureModel(DensityMixin, Model):
    """The base of all mixtures. A subclass says of which family it is, what else was given, and how it shows itself."""

    claims = MIXTURE_CLAIMS
    work = staticmethod(cost_of_mixture)
    stored: ClassVar[dict[str, str | type]] = {
        "weights_": "audited",
        "family_": Family,
        "stepwise_": StepwiseState,
        "converged_": bool,
        "lower_bound_": "any",  # −∞ for a batch of rows that could not be
        "lower_bounds_": list,
    }

    @classmethod
    def restored(cls, parameters, attributes):
        """A model from a file, whose parameters are those of k components of its family."""
        model = super().restored(parameters, attributes)
        k, d, family = len(model.weights_), model.n_features_in_, model.family_
        if type(model._family()) is not type(family):
            raise ValueError(
                f"family_ is a {type(family).__name__}, not the family that the parameters name."
            )
        inverse = getattr(model, "precisions_", np.zeros(0))
        if inverse.size and inverse.shape != model.covariances_.shape:
            raise ValueError(f"precisions_ have shape {inverse.shape}, unlike covariances_.")
        if not np.isfinite(inverse).all():
            raise ValueError("precisions_ hold numbers that are not finite.")
        family.check_parameters(model._params(), k, d)
        family.check_parameters(model.stepwise_.params, k, d)
        return model

    def _family(self) -> Family:
        """The family that the parameters name."""
        raise TypeError(f"{type(self).__name__} defines no _family.")

    def _initial_parameters(self) -> dict[str, Any]:
        """Initial parameters of the components that the user gave."""
        return {}

    def _params(self) -> Any:
        """The parameters of the components, in float64, from the public attributes: changing those changes the model."""
        raise TypeError(f"{type(self).__name__} defines no _params.")

    # --- fitting ---

    def _algorithm(self, data: Blocks) -> EMAlgorithm | Restarts:
        n, k = data.shape[0], self.n_components
        if n < k:
            raise ValueError(
                f"Expected n_samples >= n_components but got n_components = {k}, n_samples = {n}."
            )
        self.family_ = self._family()
        compiled = self.family_.compiles(data, k)
        algorithm = EMAlgorithm(self.family_, k, self._start(), compiled, self.tol)
        return algorithm if self._runs == 1 else Restarts(algorithm, self._runs, self._rule())

    @property
    def _continues(self) -> bool:
        """Whether a fit begins where the last one ended (warm_start)."""
        if not getattr(self, "warm_start", False) or not hasattr(self, "means_"):
            return False
        return self.means_.shape == (self.n_components, self.n_features_in_)

    @property
    def _runs(self) -> int:
        return 1 if self._continues else self.n_init

    def _start(self) -> Any:
        if self._continues:
            return Known(self.weights_.astype(np.float64), self._params())
        named: dict[str, Any] = {"kmeans": KMeansStart(), "random": RandomMemberships()}
        start = named.get(self.init_params) or Seeds(self.init_params)
        given = {
            name: np.asarray(value, dtype=np.float64)
            for name, value in self._initial_parameters().items()
            if value is not None
        }
        weights = self.weights_init
        if weights is None and not given:
            return start
        return Given(None if weights is None else np.asarray(weights, np.float64), given, start)

    def _rule(self) -> Stop:
        """When one run ends."""
        return Arrived(self.tol) | MaxSteps(self.max_iter)

    def _stop(self) -> Stop:
        rule = self._rule() if self._runs == 1 else Never()
        return self._within_time(rule)

    def _describe_unsettled(self, solution: Solution) -> str:
        change = abs(solution.trace.last() - solution.trace.last(back=1))
        return (
            f"{type(self).__name__}: the best run did not converge: at max_iter={self.max_iter} the mean log-likelihood still "
            f"changes by {change:.1e}, tol={self.tol:.0e}. Raise max_iter, or read certificate_."
        )

    def _attributes(self, solution: Solution, problem: Blocks) -> dict[str, Any]:
        best = best_run(solution)
        likelihoods = best.trace.extras["log_likelihood"].tolist()
        return {
            **self._public_attributes(best.state.weights, best.state.params, problem.dtype),
            "stepwise_": StepwiseEM(self.family_).begin(best.state),
            "converged_": best.stopped == Stopped.SETTLED,
            "lower_bound_": likelihoods[-1],
            "lower_bounds_": likelihoods[1:],
        }

    def _public_attributes(self, weights: Array, params: Any, dtype: Any) -> dict[str, Array]:
        """The public attributes of a mixture, in the type of the data."""
        attributes = {"weights_": weights, **self.family_.attributes(params)}
        with np.errstate(over="ignore"):
            shown = {name: np.asarray(value, dtype=dtype) for name, value in attributes.items()}
        for name, value in shown.items():
            if not np.isfinite(value).all():
                raise ValueError(
                    f"{name} does not fit {np.dtype(dtype)}: scale the data, or pass it as float64."
                )
        return shown

    def _title(self, data: Blocks | None) -> str:
        size = f"{self.n_features_in_:,} features"
        if data is not None:
            size = f"{data.shape[0]:,} × {data.shape[1]:,}"
        name, kind = type(self).__name__, self.family_.name
        return f"{name}  {size}, {len(self.weights_)} components ({kind})"

    def fit_predict(self, X, y=None, sample_weight=None) -> Array:
        """Fit, and the most probable component of each row."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    # --- one batch after the other ---

    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn from a batch by stepwise EM (Cappé & Moulines 2009): an approximation, not the fit to all rows together.

        The first batch is fitted like `fit` does (a fitted model continues from there); then the expected statistics of
        each batch are averaged into those so far with weight (t + 2)^−0.6, and an M-step follows. Batches should be alike:
        shuffle the rows. `lower_bounds_` has the mean log-likelihood of each batch before it was learned from.
        """
        self._validate_params()
        with self._all_or_nothing():
            first = not hasattr(self, "stepwise_")
            data = self._validate_rows(X, sample_weight, reset=first)
            if first:
                self._fit_blocks(data)
            else:
                self._learn(data)
        return self

    def _learn(self, data: Blocks) -> None:
        state = StepwiseEM(self.family_).update(self.stepwise_, data)
        if state.log_likelihood == -np.inf:
            warn_user(
                "some rows of this batch had probability 0 before they were learned from (ln p = −∞): fit with smoothing > 0.",
                RuntimeWarning,
            )
        trace = self.trace_.copy() if self.stopped_ == Stopped.BATCHES else Trace()
        trace.append(-state.log_likelihood, trace.elapsed, {"log_likelihood": state.log_likelihood})
        attributes = {
            **self._public_attributes(state.weights, state.params, self.weights_.dtype),
            "stepwise_": state,
            "converged_": False,
            "lower_bound_": state.log_likelihood,
            "lower_bounds_": trace.extras["log_likelihood"].tolist(),
        }
        self._conclude(None, attributes, trace, Stopped.BATCHES, len(trace))

    def certify(self, X, y=None, sample_weight=None, *, seconds=None) -> Certificate:
        check_is_fitted(self)
        data = self._validate_rows(X, sample_weight, reset=False)
        for rows, _ in data:
            self.family_.check(rows)  # the claims do not ask what a fit would have refused
        return self._certificate(data, y, seconds=seconds)

    # --- using it ---

    def _rowwise(self, X, function, width: int | None = None, dtype: Any = None):
        """function(log π_j + log p(x; θ_j)) of every row, as an array, or a dask array where X is one."""
        check_is_fitted(self, "weights_")
        data = self._validate_rows(X, reset=False)
        work = partial(_of_rows, function, self.family_.check, self._scoring(data))
        dtype = data.dtype if dtype is None else dtype
        if is_dask(data.source):
            chunks = (
                {"drop_axis": 1} if width is None else {"chunks": (data.source.chunks[0], (width,))}
            )
            return data.source.map_blocks(work, dtype=dtype, **chunks)
        with one_blas_thread():  # whose number must not show in the bits
            parts = [work(rows) for rows, _ in finer(data, len(self.weights_))]
        return np.concatenate(parts).astype(dtype, copy=False)

    def _scoring(self, data: Blocks) -> Callable[[Any], Array]:
        """log π_j + log p(x; θ_j) as a function of a block, by kernels where all blocks together are worth a compiler."""
        log_weights = log_of(self.weights_.astype(np.float64))
        compiled = self.family_.compiles(data, len(log_weights))
        return self.family_.scoring(self._params(), log_weights, data.dtype, compiled)

    def score_samples(self, X) -> Array:
        """ln p(x) of each row; −∞ where a mixture of counts or codes says that a row cannot be."""
        return self._rowwise(X, _log_density)

    def predict_proba(self, X) -> Array:
        """The memberships r_j(x) = π_j p(x; θ_j) / p(x) of each row (CIL (3.4))."""
        return self._rowwise(
            X, _memberships, len(self.weights_) if hasattr(self, "weights_") else None
        )

    def predict(self, X) -> Array:
        """The most probable component of each row."""
        return self._rowwise(X, _labels, dtype=np.int64)

    def score(self, X, y=None, sample_weight=None) -> float:
        """The mean log-likelihood of the rows, without those of which nothing is known."""
        total, weight = self._log_likelihood(X, sample_weight)
        if not weight > 0:
            raise ValueError("no row has both a weight and a value; there is nothing to score.")
        return total / weight

    def _log_likelihood(self, X, sample_weight=None) -> tuple[float, float]:
        """Σ w ln p(x) and Σ w."""
        check_is_fitted(self, "weights_")
        data = self._validate_rows(X, sample_weight, reset=False)
        work = partial(_sums, self.family_.check, self._scoring(data))
        with one_blas_thread():
            total, weight, lost = map_reduce(work, finer(data, len(self.weights_)), np.zeros(3))
        if lost:
            warn_user(
                f"{int(lost):,} of {data.shape[0]:,} rows have probability 0 under this mixture, and a log-likelihood of −∞: "
                "they hold what no row of the fit had. Fit with smoothing > 0.",
                RuntimeWarning,
            )
        return float(total), float(weight)

    def _n_parameters(self) -> int:
        """κ: the free numbers of the components, and k − 1 weights."""
        return self.family_.n_parameters(self._params()) + len(self.weights_) - 1

    def aic(self, X, sample_weight=None) -> float:
        """Akaike's criterion −2ℓ + 2κ: scikit-learn's scale, twice that of CIL20 6.4. Smaller is better."""
        total, _ = self._log_likelihood(X, sample_weight)
        return -2 * total + 2 * self._n_parameters()

    def bic(self, X, sample_weight=None) -> float:
        """The Bayesian criterion −2ℓ + κ ln n: scikit-learn's scale, twice that of CIL20 6.4. Smaller is better."""
        total, weight = self._log_likelihood(X, sample_weight)
        return -2 * total + self._n_parameters() * float(np.log(weight))

    def sample(self, n_samples: int = 1) -> tuple[Array, Array]:
        """Rows drawn from the fitted mixture, and the component of each; sorted by component."""
        check_is_fitted(self, "weights_")
        if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r}: sample draws an int >= 1 of rows.")
        rng = np.random.default_rng(self._rng())
        weights = self.weights_.astype(np.float64)
        components = np.repeat(
            np.arange(len(weights)), rng.multinomial(n_samples, weights / weights.sum())
        )
        return self.family_.sample(self._params(), components, rng).astype(
            self.weights_.dtype
        ), components

    # --- input ---

    @property
    def accepts_nan(self) -> bool:  # type: ignore[override]
        return isinstance(self._family(), Gaussian)


def _of_rows(function: Callable, check: Callable, joint: Callable, rows: Any) -> Array:
    check(rows)
    return function(joint(rows))


def _log_density(joint: Array) -> Array:
    return posterior(joint)[0]


def _memberships(joint: Array) -> Array:
    return posterior(joint)[1]


def _labels(joint: Array) -> Array:
    return joint.argmax(axis=1)


def _sums(check: Callable, joint: Callable, rows: Any, weights: Array | None) -> Array:
    """Σ w ln p(x), Σ w, and how many rows are impossible; a row of which nothing is known is no row, as in the fit."""
    each = _of_rows(_log_density, check, joint, rows).astype(np.float64)
    known = 1.0 if sp.issparse(rows) else ~np.isnan(rows).all(axis=1)
    weights = np.ones(len(each)) * known if weights is None else weights * known
    lost = np.count_nonzero((each == -np.inf) & (weights > 0))
    return np.array([weigh(weights, each), weights.sum(), lost])
