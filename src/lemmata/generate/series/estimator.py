"""Autoregressive processes: a series predicted from its last q values, with forecasts, spectrum and exact likelihood.

    x_t − μ = Σ_{i ≤ q} a_i (x_{t−i} − μ) + z_t,    z_t ~ N(0, σ²)

Of all processes with given autocovariances μ_0 … μ_q this is the one of most entropy (CIL Thm 5.1.1, Burg's; the notes have q
and k for the same number, and moments are those of the centred process).

    >>> truth = AR(2).from_coefficients([1.2, -0.5])
    >>> x = truth.sample(1, length=5000, random_state=0)[0]
    >>> model = AR(2).fit(x)
    >>> model.coef_.round(1), round(float(np.abs(model.poles_).max()), 1)
    (array([ 1.2, -0.5]), 0.7)
    >>> model.forecast(3).mean.shape
    (3,)
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.stats import norm
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.generate.series import AR_CLAIMS, YULE_WALKER_CLAIMS
from lemmata.core import common
from lemmata.core.certificate import Certificate, Statement
from lemmata.core.loop import Never, Solution
from lemmata.core.parameters import COUNT, KW_ONLY, WHOLE, choice, parameter
from lemmata.generate.series.data import ModelOfSeries, Series
from lemmata.generate.series.likelihood import (
    MostLikely,
    innovations,
    log_likelihoods,
    relative_variances,
    step_down,
    step_up,
)  # fmt: skip
from lemmata.generate.series.moments import LaggedProducts
from lemmata.generate.series.recursions import Burg, ConditionalLeastSquares, YuleWalker

Array = np.ndarray
METHODS: dict[str, Any] = {
    "yule-walker": YuleWalker, "burg": Burg, "ols": ConditionalLeastSquares, "mle": MostLikely,
}  # fmt: skip


class Forecast(NamedTuple):
    """The mean of values to come, and an interval of each of them."""

    mean: Array  # (steps,)
    lower: Array
    upper: Array


class AR(ModelOfSeries):
    """An autoregressive process of order q, fitted to a series or several.

    Minimises the one-step error of x_t − μ = Σ a_i (x_{t−i} − μ) + z_t in the sense of `method`.

    Attributes
    ----------
    coef_ : (q,)
        a_1 … a_q.
    mean_, variance_ : float
        μ and σ².
    autocovariance_ : (q + 1,)
        Those of the data: Σ (x_t − μ)(x_{t+k} − μ) / n, all lags divided by n.
    criterion_ : (max_order + 1,)
        AIC or BIC of each order, where the order was chosen.
    history_ : (q,)
        The last values of the last series, which `forecast` continues.
    n_samples_ : int
        Values of all series together.
    certificate_, trace_, stopped_, n_iter_

    Examples
    --------
    >>> x = np.sin(np.arange(200)) + 0.1 * np.random.default_rng(0).normal(size=200)
    >>> AR("bic", method="burg").fit(x).coef_.shape[0] >= 2
    True
    """

    order: Any = parameter("aic", WHOLE, choice("aic", "bic")).doc("""
        q; or the criterion that chooses it, from 0 to `max_order`.""")
    _: KW_ONLY
    method: str = parameter("yule-walker", choice(*METHODS)).doc("""
        "yule-walker": the process with the autocovariances of the data; "burg": least errors
        forwards and backwards, better on short series; "ols": regression on q predecessors and a
        constant, which may explode; "mle": the most likely stationary process. A criterion chooses
        the order by the errors of "yule-walker" or, for the other methods, of "burg".""")
    max_order: Any = parameter(None, COUNT, None).doc("""
        The largest order that a criterion may choose; None: 10 log₁₀ n, as R's `ar`.""")
    missing: str = parameter("raise", choice("raise", "cut")).doc("""
        What to do with NaN: refuse, or cut the series in two.""")
    max_iter: int = common.max_iter(1000).doc("Has no effect: a step makes the order one larger.")
    tol: float = common.tol(0.0).doc("Has no effect: each order is solved for exactly.")
    random_state: Any = common.random_state().doc("Has no effect in `fit`: nothing is drawn.")
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = AR_CLAIMS
    stored: ClassVar[dict[str, str | type]] = {
        "coef_ mean_ variance_ autocovariance_": "audited",
        "criterion_?": "c",
        "history_": "q",
        "n_samples_": "int >=1",
    }

    @property
    def _least_length(self) -> int:
        return int(self.order) if isinstance(self.order, Integral) else 1

    def _fit_blocks(self, data: Series) -> None:  # type: ignore[override]
        most = self._largest_order(data)
        mean = sum(float(rows.sum(dtype=np.float64)) for rows in data.groups) / data.size
        groups = [LaggedProducts.of(rows, most, mean) for rows in data.groups]
        moments = sum(groups[1:], groups[0])
        if not np.isfinite(moments.products).all():
            raise ValueError("the products of these values overflow: scale the series.")
        self._forget("criterion_")
        order = most
        if isinstance(self.order, str):
            self.criterion_ = self._score_orders(moments, most)
            order = int(np.argmin(self.criterion_))
        self._fit_by(METHODS[self.method](order), data, moments)  # type: ignore[arg-type]

    def _largest_order(self, data: Series) -> int:
        if isinstance(self.order, Integral):
            return int(self.order)
        most = self.max_order or int(10 * np.log10(data.size))
        return max(min(most, data.shortest - 1), 0)

    def _score_orders(self, moments: LaggedProducts, most: int) -> Array:
        """n ln σ²_q + (2 or ln n)(q + 2) for q = 0 … most: q coefficients, the mean and the variance."""
        algorithm = (YuleWalker if self.method == "yule-walker" else Burg)(most)
        state, n = algorithm.init(moments, None), float(moments.counts[0])
        while not algorithm.finished(state) and state.variances[-1] > 0:
            state = algorithm.step(state, moments)
        variances = np.maximum(state.variances, np.finfo(float).tiny)
        price = 2.0 if self.order == "aic" else np.log(n)
        return n * np.log(variances) + price * (np.arange(len(variances)) + 2)

    def _stop(self):
        return self._within_time(Never())

    def _attributes(self, solution: Solution, problem: LaggedProducts) -> dict[str, Any]:
        found = dict(solution.attributes)
        q = len(found["coef_"])
        centred = problem.about(problem.mean)
        return found | {"autocovariance_": centred.autocovariance[: q + 1]}

    def _conclude(self, data: Any, attributes: dict[str, Any], trace, stopped, steps) -> None:
        q = len(attributes["coef_"])
        history = np.array(data.last[len(data.last) - q :], dtype=np.float64)
        attributes = attributes | {"history_": history, "n_samples_": data.size}
        super()._conclude(data, attributes, trace, stopped, steps)

    def _claims(self) -> tuple[Statement, ...]:
        return YULE_WALKER_CLAIMS if self.method == "yule-walker" else AR_CLAIMS

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Any:
        """A process from what a file holds: there is one autocovariance more than coefficients."""
        model: Any = super().restored(parameters, attributes)
        if len(model.autocovariance_) != len(model.coef_) + 1:
            raise ValueError("autocovariance_ and coef_ do not fit together.")
        return model

    def _title(self, data: Any) -> str:
        of = f"  {data.shape[0]:,} series, {data.size:,} values" if data is not None else ""
        return f"AR({len(self.coef_)}){of}, {self.method}"

    def certify(  # type: ignore[override]
        self, X, y=None, *, X_test=None, seconds: float | None = None
    ) -> Certificate:
        """Check every claim about this process on X, usually the series it was fitted to.

        X_test : later values, or other series of the same kind; only with them is `intervals_cover` decided
        """
        check_is_fitted(self)
        data = self._validate_rows(X, reset=False)
        test = None if X_test is None else self._validate_rows(X_test, reset=False)
        return self._certificate(data, y, seconds=seconds, attributes={"X_test": test})

    # --- using it ---

    def from_coefficients(self, coef, mean: float = 0.0, variance: float = 1.0) -> AR:
        """Set the process instead of fitting it, to draw from it or to forecast; there is no certificate."""
        self.coef_ = np.array(coef, dtype=np.float64)
        self.mean_, self.variance_ = float(mean), float(variance)
        self.history_, self.n_features_in_ = np.full(len(self.coef_), self.mean_), 1
        return self

    @property
    def poles_(self) -> Array:
        """The zeros of z^q − Σ a_i z^(q−i), (q,): inside the unit circle where the process is stationary."""
        return np.roots(np.concatenate([[1.0], -self.coef_]))

    def spectrum(self, frequencies) -> Array:
        """S(ω) = σ² / |1 − Σ a_k e^(−ikω)|² at frequencies ω in radians per step: Σ_δ μ_δ e^(−iδω)."""
        check_is_fitted(self)
        lags = np.arange(1, len(self.coef_) + 1)
        turn = np.exp(-1j * np.multiply.outer(np.asarray(frequencies, dtype=np.float64), lags))
        return self.variance_ / np.abs(1 - turn @ self.coef_) ** 2

    def forecast(self, steps: int = 1, X=None, level: float = 0.95) -> Forecast:
        """Predict the values that follow a series (by default the one fitted), each with an interval of this level."""
        check_is_fitted(self)
        if not isinstance(steps, Integral) or steps < 1:
            raise ValueError(f"steps={steps!r} is not accepted; pass a whole number >= 1.")
        if not 0 < level < 1:
            raise ValueError(f"level={level!r} is not accepted; pass a number between 0 and 1.")
        q = len(self.coef_)
        past = self.history_ if X is None else Series.of(X).last
        if len(past) < q:
            raise ValueError(f"a forecast needs the last {q} values; X has {len(past)}.")
        last = np.asarray(past[len(past) - q :], float)
        ahead = np.concatenate([last - self.mean_, np.zeros(steps)])
        for t in range(q, q + steps):
            ahead[t] = self.coef_ @ ahead[t - q : t][::-1]
        # of a shock, step by step
        grows = lfilter([1.0], np.append(1.0, -self.coef_), np.eye(1, steps)[0])
        spread = norm.ppf(0.5 + level / 2) * np.sqrt(self.variance_ * np.cumsum(grows**2))
        mean = self.mean_ + ahead[q:]
        return Forecast(mean, mean - spread, mean + spread)

    def sample(self, n_samples: int = 1, *, length: int = 100, random_state=None) -> Array:
        """Draw stationary series of the process, (n_samples, length)."""
        check_is_fitted(self)
        rng, q = check_random_state(random_state), len(self.coef_)
        reflection = step_down(self.coef_)
        if reflection is None:
            raise ValueError("the process is not stationary: it has no series to draw.")
        noise = rng.normal(size=(n_samples, max(length, q))) * np.sqrt(self.variance_)
        first, whole = noise[:, :q].copy(), np.append(1.0, -self.coef_)
        for t, lower in enumerate(step_up(reflection)[:q]):  # exactly
            first[:, t] *= np.sqrt(relative_variances(reflection)[t])
            first[:, t] += first[:, :t] @ lower[::-1]
        if q:  # the shocks after zeros that these values stand for
            noise[:, :q] = lfilter(whole, [1.0], first, axis=1)
        return self.mean_ + lfilter([1.0], whole, noise, axis=1)[:, :length]

    def residuals(self, X) -> list[Array]:
        """One-step errors of each series, the first q by autoregressions of lower order."""
        check_is_fitted(self)
        groups = self._validate_rows(X, reset=False).groups
        return [row for rows in groups for row in innovations(rows, self.coef_, self.mean_)[0]]

    def score_samples(self, X) -> Array:
        """ln p of each series, exactly, (n_series,)."""
        check_is_fitted(self)
        groups = self._validate_rows(X, reset=False).groups
        parts = [log_likelihoods(rows, self.coef_, self.mean_, self.variance_) for rows in groups]
        return np.concatenate(parts)

    def score(self, X, y=None) -> float:
        """The mean of ln p per value."""
        return float(self.score_samples(X).sum() / self._validate_rows(X, reset=False).size)
