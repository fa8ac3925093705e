"""Cross-validation with a statement of what its score means.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from lemmata.trust import cross_validate
    >>> found = cross_validate(KNeighborsClassifier(), *load_iris(return_X_y=True))
    >>> round(found.score, 3), found.certificate_["folds_unseen"].verdict
    (0.973, "can't tell")

(Iris has a row that occurs twice.) The score is the average of k models, each fitted to (k − 1)/k of the rows and tested on the
rest. It is about these k models, not about one fitted to all rows, which is usually a little better. The folds are not
independent of each other, so mean ± deviation/√k is no confidence interval, and no unbiased estimate of its variance exists;
what is proved, for folds drawn at random, is that the average is off by no more than a single fold may be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length

from lemmata.audit.trust.comparisons import CROSS_VALIDATION_CLAIMS
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.trust.bounds import checked_risk, interval_of_folds, take
from lemmata.trust.evaluation import plot_intervals
from lemmata.trust.losses import loss_of

Array = np.ndarray


@dataclass(frozen=True, repr=False)
class CrossValidation:
    """The average score of k models, each on rows it has not seen.

    score : the mean of `scores`      scores : (k,) of each fold        spread : their deviation, which is no standard error
    lower, upper : of the average score of these k models on new rows, at confidence 1 − delta
    """

    name: str
    score: float
    scores: Array
    spread: float
    lower: float
    upper: float
    rows: tuple[int, int]  # trained on, tested on: the fewest of a fold
    delta: float
    why: str
    certificate_: Certificate

    def __str__(self) -> str:
        trained, tested = self.rows
        head = f"{self.name} {self.score:.3f}, the average of {len(self.scores)} models fitted to some {trained:,} rows each"
        spread = f"from fold to fold ± {self.spread:.3f}, which is no confidence interval: the folds share rows"
        if self.why:
            return f"{head}\n  on new rows: can't tell ({self.why})\n  {spread}"
        sure = f"{100 * (1 - self.delta):g} %, as for one fold of {tested:,} rows"
        ends = f"on new rows these models average between {self.lower:.3f} and {self.upper:.3f} ({sure})"
        return f"{head}\n  {ends}\n  {spread}"

    __repr__ = __str__

    def plot(self, ax=None):
        """Every fold as a dot, and the average with its interval. Gives the axes."""
        names = [f"fold {i}" for i in range(len(self.scores))] + ["average"]
        nothing = [(math.nan, math.nan)] * len(self.scores)
        ends = [*nothing, (self.lower, self.upper)]
        return plot_intervals(names, [*self.scores, self.score], ends, ax)


def cross_validate(
    model: Any,
    X: Any,
    y: Any,
    cv: Any = 5,
    delta: float = 0.05,
    *,
    groups: Any = None,
    loss: str | Callable | None = None,
    bounds: tuple[float, float] | None = None,
) -> CrossValidation:
    """Fit and test a model on the folds of a splitter of scikit-learn's.

    Parameters
    ----------
    model : an estimator, which is cloned
    cv : int, splitter or iterable of (train, test), default=5
        As scikit-learn takes it: a number of folds (stratified for classifiers), KFold, GroupKFold, TimeSeriesSplit, …
    groups : array, optional
        Which rows belong together, for splitters that use groups.
    delta, loss, bounds : as in `evaluate`
    """
    y = column_or_1d(y)
    check_consistent_length(X, y)
    delta = checked_risk(delta)
    splitter = check_cv(cv, y, classifier=is_classifier(model))
    folds = [tuple(map(np.asarray, fold)) for fold in splitter.split(X, y, groups)]
    judged, losses = loss_of(model, loss, bounds), []
    for train, test in folds:
        fitted = clone(model).fit(take(X, train), y[train])
        losses.append(np.asarray(judged.of(fitted, take(X, test), y[test]), dtype=np.float64))
    found = interval_of_folds(losses, judged.bounds, delta)
    fit = Fit(model, None, y, attributes={"X": X, "folds": folds})
    title = f"{type(model).__name__}  {len(folds)} folds of {len(y):,} rows, {judged.score or judged.name}"
    certificate = check(CROSS_VALIDATION_CLAIMS, fit, title)
    why = found.why or ("a fold was tested on rows it was trained on" if certificate.failed else "")
    scores = np.array([float(part.mean()) for part in losses])
    scores, shown = (1 - scores, found.flip()) if judged.score else (scores, found)
    ends = (-math.inf, math.inf) if why else (shown.lower, shown.upper)
    fewest = min(len(train) for train, _ in folds), min(len(test) for _, test in folds)
    spread = float(scores.std(ddof=1)) if len(scores) > 1 else math.nan
    return CrossValidation(
        judged.score or f"mean {judged.name} loss", shown.mean, scores, spread, *ends, fewest, delta, why, certificate,
    )  # fmt: skip
