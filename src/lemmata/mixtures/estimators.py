"""Mixtures of any family of components, fitted by EM, and the Gaussian mixture with scikit-learn's parameters.

    p(x) = Σ_j π_j p(x; θ_j),     maximise  ℓ = Σ_i w_i ln p(x_i)  over π and θ                              (CIL (3.3), (3.5))

    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(200, 2)), rng.normal(size=(100, 2)) + 6])
    >>> model = GaussianMixture(2, random_state=0).fit(X)
    >>> np.sort(model.weights_).round(2), model.certificate_.failed
    (array([0.33, 0.67]), [])
    >>> X[::3, 0] = np.nan                                        # marginalised exactly, not imputed
    >>> np.sort(GaussianMixture(2, random_state=0).fit(X).weights_).round(2)
    array([0.33, 0.67])
    >>> counts = rng.poisson([[2.0]] * 50 + [[30.0]] * 50)
    >>> np.sort(Mixture(2, "poisson", random_state=0).fit(counts).rates_.ravel()).round(0)
    array([ 2., 31.])

Information criteria are in scikit-learn's scale, AIC = −2ℓ + 2κ and BIC = −2ℓ + κ ln n with κ free parameters: twice those of
CIL20 6.4, so with the same minimum.
"""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.mixtures.em import COUNT_MIXTURE_CLAIMS, MIXTURE_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks, is_dask
from lemmata.core.engine import one_blas_thread
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, choice, parameter
from lemmata.core.runs.repeat import Restarts
from lemmata.mixtures.base import STARTS, MixtureModel
from lemmata.mixtures.em import EMAlgorithm
from lemmata.mixtures.expectation import Family, finer, log_of
from lemmata.mixtures.families import FAMILIES, Categorical, Table, family_of
from lemmata.mixtures.gaussians.family import Gaussian, GaussianParameters
from lemmata.mixtures.gaussians.imputing import RandomStream, draw_rows, expected_rows
from lemmata.mixtures.gaussians.shapes import GAUSSIANS, FixedGaussian

NAMES = (*(f"gaussian-{kind}" for kind in GAUSSIANS), *FAMILIES)
GAUSSIAN_ATTRIBUTES = ("means_", "covariances_", "precisions_", "precisions_cholesky_")


class Mixture(MixtureModel):
    """A mixture of components of any family, fitted by EM.

    Maximises Σ_i w_i ln Σ_j π_j p(x_i; θ_j) over π and θ.

    Attributes
    ----------
    weights_ : (k,)
    probabilities_, rates_, or means_, covariances_, precisions_, precisions_cholesky_ : (k, …)
        θ, as the family shows it. n_categories_ (d,) beside the probabilities of categorical components.
    family_ : Family
    converged_, lower_bound_, lower_bounds_ : bool, float, (steps,)
        Whether the best run settled; its mean log-likelihood at the end, and after every step.
    stepwise_ : what `partial_fit` continues from
    certificate_, trace_, stopped_, n_iter_

    Notes
    -----
    Gaussian families take NaN for what is not known, the others sparse matrices (not categorical).
    """

    n_components: int = parameter(1, COUNT).doc("k, the number of components.")
    family: Any = parameter("gaussian-full", choice(*NAMES), Family).doc("""
        "gaussian-full", "-tied", "-diag", "-spherical", "-unit", "-fixed", "bernoulli",
        "categorical", "multinomial" or "poisson"; or an object of lemmata.mixtures.families or
        gaussians, which can have options: Bernoulli(smoothing=1.0).""")
    _: KW_ONLY
    tol: float = common.tol(1e-3).doc("""
        A run ends when a step changes the log-likelihood per row by less than tol nats and further
        ones gain at most 62.5·tol nats for all rows together.""")
    max_iter: int = common.max_iter(100).doc("The most steps of a run.")
    n_init: int = parameter(1, COUNT).doc("""
        Runs from different starts; the one with the highest likelihood is kept.""")
    init_params: str = parameter("kmeans", choice(*STARTS)).doc("""
        Rows belong at first to their cluster of k-means; to the nearest of k seeds; to all
        components, at random; to the nearest of k random rows.""")
    weights_init: Any = parameter(None, "array-like", None).doc("π (k,) to start from.")
    parameters_init: Any = parameter(None, dict, None).doc("""
        θ to start from, as the family names it: {"values": p} (Bernoulli), {"means": …,
        "precisions": …} (Gaussians).""")
    random_state: Any = common.random_state()
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    stored: ClassVar[dict[str, str | type]] = {
        **MixtureModel.stored,
        "probabilities_? rates_? n_categories_? means_?": "audited",
        "covariances_? precisions_? precisions_cholesky_?": np.ndarray,
    }

    def _validate_params(self):
        k, family = self.n_components, self.family
        if isinstance(k, Family) or (isinstance(k, str) and k in NAMES):  # the order of version 0.1
            raise TypeError(
                f"Mixture({k!r}, {family!r}): the number of components comes first now, Mixture({family!r}, family={k!r})."
            )
        super()._validate_params()

    def _family(self) -> Family:
        if isinstance(self.family, str):
            return family_of(self.family.removeprefix("gaussian-"))
        return self.family

    def _initial_parameters(self) -> dict[str, Any]:
        return self.parameters_init or {}

    def _public_attributes(self, weights, params, dtype):
        shown = super()._public_attributes(weights, params, dtype)
        # of a fit to another family
        self._forget("probabilities_", "rates_", "n_categories_", *GAUSSIAN_ATTRIBUTES)
        sizes = getattr(params, "sizes", None)
        return shown if sizes is None else {**shown, "n_categories_": sizes}

    def _claims(self):
        return MIXTURE_CLAIMS if hasattr(self, "means_") else COUNT_MIXTURE_CLAIMS

    def _params(self) -> Any:
        if isinstance(self.family_, Gaussian):
            return _gaussian_parameters(self)
        values = self.rates_ if hasattr(self, "rates_") else self.probabilities_
        return Table(values.astype(np.float64), getattr(self, "n_categories_", None))

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        return not isinstance(self._family(), Gaussian | Categorical)


def _gaussian_parameters(model: Any) -> GaussianParameters:
    parts = (model.means_, model.covariances_, model.precisions_cholesky_)
    return GaussianParameters(*(np.asarray(part, dtype=np.float64) for part in parts))


class GaussianMixture(MixtureModel):
    """A mixture of Gaussians, fitted by EM: scikit-learn's, with sample weights, missing values and partial_fit.

    Maximises Σ_i w_i ln Σ_j π_j N(x_i; μ_j, Σ_j) over π, μ and Σ.

    Attributes
    ----------
    weights_ : (k,)
    means_ : (k, d)
    covariances_, precisions_, precisions_cholesky_ : (k, d, d)
        tied and fixed: (d, d), diag: (k, d), spherical and unit: (k,).
    converged_, lower_bound_, lower_bounds_ : bool, float, (steps,)
        Whether the best run settled; its mean log-likelihood at the end, and after every step. It belongs to the parameters
        shown, not to those one step before as in scikit-learn.
    family_, stepwise_ : objects
        The family of the components; what `partial_fit` continues from.
    certificate_, trace_, stopped_, n_iter_

    Notes
    -----
    NaN in X (or the mask of a masked array) are values that are not known: they are integrated out, in `fit` and wherever rows
    are scored. A row of which nothing is known does not count. Weights count rows: weight 2 is the row twice.
    """

    n_components: int = parameter(1, COUNT).doc("k, the number of components.")
    _: KW_ONLY
    covariance_type: str = parameter("full", choice(*GAUSSIANS)).doc("""
        Each component has its own Σ_j; all share one; diagonal; σ_j² I; Σ = I (CIL 3.1.5); Σ =
        precisions_init⁻¹, not fitted.""")
    tol: float = common.tol(1e-3).doc("""
        Steps that change the log-likelihood per row by less than tol nats are small, as in
        scikit-learn. From there on EM leaps, and ends when further steps gain at most 62.5·tol nats
        for all rows together. 0: plain EM.""")
    reg_covar: float = parameter(1e-6, NONNEGATIVE).doc("""
        ρ, added to the variances: without it a component can shrink onto a point, where the
        likelihood has no bound.""")
    max_iter: int = common.max_iter(100).doc("The most steps of a run.")
    n_init: int = parameter(1, COUNT).doc("""
        Runs from different starts; the one with the highest likelihood is kept.""")
    init_params: str = parameter("kmeans", choice(*STARTS)).doc("""
        Rows belong at first to their cluster of k-means; to the nearest of k seeds; to all
        components, at random; to the nearest of k random rows.""")
    weights_init: Any = parameter(None, "array-like", None).doc("π (k,) to start from.")
    means_init: Any = parameter(None, "array-like", None).doc("μ (k, d) to start from.")
    precisions_init: Any = parameter(None, "array-like", None).doc("""
        Σ⁻¹ to start from, in the shape of covariances_.""")
    random_state: Any = common.random_state()
    warm_start: bool = common.warm_start().doc("""
        A second fit begins where the first ended, with n_init = 1; of other components or features,
        from the start.""")
    verbose: int = common.verbose()
    verbose_interval: int = parameter(10, COUNT).doc("Has no effect: progress is shown as a bar.")
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    min_samples = 2
    accepts_nan = True
    stored: ClassVar[dict[str, str | type]] = {
        **MixtureModel.stored,
        "means_": "audited",
        "covariances_ precisions_ precisions_cholesky_": np.ndarray,
    }

    def _family(self) -> Family:
        kind = self.covariance_type
        if kind == "unit":
            return family_of(kind)
        if kind != "fixed":
            return family_of(kind, reg_covar=float(self.reg_covar))
        precision = np.asarray(
            1.0 if self.precisions_init is None else self.precisions_init, dtype=np.float64
        )
        return FixedGaussian.of_precision(precision)

    def _initial_parameters(self) -> dict[str, Any]:
        fitted = self.covariance_type not in ("unit", "fixed")
        return {"means": self.means_init, "precisions": self.precisions_init if fitted else None}

    def _algorithm(self, data: Blocks) -> EMAlgorithm | Restarts:
        if self.covariance_type == "fixed" and self.precisions_init is None:
            raise ValueError(
                "covariance_type='fixed' keeps the covariance it is given: pass its inverse as precisions_init."
            )
        if self.covariance_type == "unit" and self.precisions_init is not None:
            raise ValueError(
                "covariance_type='unit' has precisions of 1; pass precisions_init with 'fixed' instead."
            )
        return super()._algorithm(data)

    def _params(self) -> GaussianParameters:
        return _gaussian_parameters(self)

    def impute(self, X, draws: int | None = None, random_state=None):
        """The rows with what is not known of them (NaN) filled in, given what is known.

        Parameters
        ----------
        X : what `predict` takes, of shape (n_samples, n_features)
            Any rows, seen in the fit or not; a row of which nothing is known gets the mean of the mixture.
        draws : int, optional
            None: conditional means, the best single guess; they are less spread than values are. An int: so many random
            completions, for statistics whose error should count what is not known (multiple imputation).
        random_state : int, RandomState or None
            Of the draws; None: that of the model.

        Returns
        -------
        (n_samples, n_features), or (draws, n_samples, n_features), in the type of X; known values are what they were
        """
        check_is_fitted(self, "weights_")
        if draws is not None and (
            isinstance(draws, bool) or not isinstance(draws, Integral) or draws < 1
        ):
            raise ValueError(
                f"draws={draws!r}: pass how many completions to draw, or None for conditional means."
            )
        data = self._validate_rows(X, reset=False)
        log_weights = log_of(self.weights_.astype(np.float64))
        family = cast(Gaussian, self.family_)
        mixture = family.components(self._params(), log_weights, np.float64)
        if draws is None and is_dask(data.source):
            return data.source.map_blocks(partial(expected_rows, mixture), dtype=data.dtype)
        blocks = finer(data, len(log_weights))
        with one_blas_thread():
            if draws is None:
                return np.concatenate([expected_rows(mixture, rows) for rows, _ in blocks])
            chosen = self.random_state if random_state is None else random_state
            seed = check_random_state(chosen).randint(2**31, size=4)
            streams = [RandomStream([*seed, draw]) for draw in range(draws)]
            parts = [draw_rows(mixture, rows, streams) for rows, _ in blocks]
        return np.concatenate(parts, axis=1)
