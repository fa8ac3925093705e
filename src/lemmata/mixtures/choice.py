"""The number of components: fit a mixture for each and compare information criteria.

    AIC = −2 ℓ + 2 κ        BIC = −2 ℓ + κ ln n        ℓ the log-likelihood of all rows, κ the number of free parameters

The smallest wins. This is scikit-learn's scale, twice that of CIL20 6.4, so the order is the same. For a given k the
log-likelihood alone always prefers more components, and EM may end in a worse local maximum for a larger k: ask the model for
several starts (`n_init`).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(80, 2)) + centre for centre in ([0, 0], [9, 0], [0, 9])])
    >>> path = select(X, range(1, 6), random_state=0)
    >>> path.best_k
    3
    >>> print(path)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

Array = np.ndarray
CRITERIA = ("bic", "aic")


@dataclass(frozen=True)
class Selection:
    """The path: one row per number of components, the fitted models, and which of them is best."""

    k: Array  # numbers of components, ascending
    log_likelihood: Array  # of all rows
    n_parameters: Array
    aic: Array
    bic: Array
    models: tuple[Any, ...]
    criterion: str

    @property
    def index(self) -> int:
        """The row of the best model; of equals the one with fewest components."""
        return int(np.argmin(getattr(self, self.criterion)))

    @property
    def best(self) -> Any:
        """The best fitted model."""
        return self.models[self.index]

    @property
    def best_k(self) -> int:
        return int(self.k[self.index])

    @property
    def table(self) -> dict[str, Array]:
        """The columns, ready for pandas.DataFrame."""
        return {
            name: getattr(self, name)
            for name in ("k", "log_likelihood", "n_parameters", "aic", "bic")
        }

    def __str__(self) -> str:
        lines = [f"{'k':>4}  {'log-likelihood':>16}  {'parameters':>10}  {'AIC':>14}  {'BIC':>14}"]
        for i in range(len(self.k)):
            cells = f"{self.k[i]:>4}  {self.log_likelihood[i]:>16.2f}  {self.n_parameters[i]:>10}"
            mark = f"  ← best by {self.criterion.upper()}" if i == self.index else ""
            lines.append(f"{cells}  {self.aic[i]:>14.2f}  {self.bic[i]:>14.2f}{mark}")
        return "\n".join(lines)

    __repr__ = __str__

    def plot(self, ax=None):
        """Draw both criteria against the number of components, each with its minimum marked (CIL20 Fig. 6.7)."""
        from matplotlib.ticker import MaxNLocator

        from lemmata.core.certification.pictures import BLUE, GREY, ORANGE, figure

        if ax is None:
            _, ax = figure(size=(5.0, 3.4))
        for name, colour, marker in (("aic", BLUE, "o"), ("bic", ORANGE, "s")):
            values = getattr(self, name)
            low = int(np.argmin(values))
            label = f"{name.upper()}, least at k = {self.k[low]}"
            ax.plot(self.k, values, color=colour, marker=marker, markersize=4, label=label)
            ring = {"marker": "o", "markersize": 11, "fillstyle": "none", "linestyle": "none"}
            ax.plot(self.k[low], values[low], color=colour, **ring)
        ax.axvline(self.best_k, color=GREY, linewidth=0.8, linestyle=":")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        ax.set(xlabel="number of components k", ylabel="criterion (smaller is better)")
        ax.legend(frameon=False, fontsize=10)
        return ax


def select(
    X: Any,
    components: Iterable[int] = range(1, 11),
    *,
    criterion: str = "bic",
    model: Any = None,
    random_state: Any = None,
    sample_weight: Array | None = None,
) -> Selection:
    """Fit a mixture for each number of components and return the path.

    Parameters
    ----------
    X : what the model's `fit` takes
    components : ints, default=range(1, 11)
    criterion : {"bic", "aic"}, default="bic"
        BIC finds the true number as n grows; AIC predicts better and keeps more components.
    model : estimator with n_components, default=GaussianMixture(n_init=3)
        Cloned for each k, so it stays as it is. scikit-learn's GaussianMixture can be passed too.
    random_state : int, RandomState or None
        Given to every clone, unless None.
    sample_weight : (n_samples,), optional
    """
    if criterion not in CRITERIA:
        raise ValueError(f"criterion={criterion!r}; known are {', '.join(CRITERIA)}.")
    numbers = sorted({_whole(k) for k in components})
    if not numbers:
        raise ValueError(
            "components is empty; pass the numbers of components to compare, like range(1, 11)."
        )
    if model is None:
        from lemmata.mixtures.estimators import GaussianMixture

        model = GaussianMixture(n_init=3)
    if not hasattr(model, "bic"):
        raise TypeError(
            f"a {type(model).__name__} has no likelihood to compare; select takes mixtures."
        )
    weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
    models, rows = [], []
    for k in numbers:
        fitted = clone(model).set_params(
            n_components=k, **({} if random_state is None else {"random_state": random_state})
        )
        fitted.fit(X, **weighted)
        models.append(fitted)
        likelihood, n = _log_likelihood(fitted, X, weighted)
        free = fitted._n_parameters()
        rows.append((likelihood, free, 2 * (free - likelihood), free * np.log(n) - 2 * likelihood))
    likelihoods, free, aics, bics = np.array(rows).T
    return Selection(
        np.array(numbers), likelihoods, free.astype(int), aics, bics, tuple(models), criterion
    )


def _whole(k: Any) -> int:
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
        raise ValueError(f"components holds {k!r}; numbers of components are ints >= 1.")
    return int(k)


def _log_likelihood(fitted: Any, X: Any, weighted: dict[str, Any]) -> tuple[float, float]:
    """The log-likelihood of all rows, and their number; rows of which nothing is known are none."""
    if hasattr(fitted, "_log_likelihood"):
        return fitted._log_likelihood(X, **weighted)
    return len(X) * fitted.score(X), len(X)
