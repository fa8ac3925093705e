"""A score with its interval: from rows that a model was not trained on to new rows.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from lemmata.trust import evaluate
    >>> X, X_test, y, y_test = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    >>> found = evaluate(model, X_test, y_test, train=X, train_y=y, target=0.9)
    >>> print(found)
    accuracy 0.958 on 143 rows; on new rows between 0.911 and 0.984 (95 %, Clopper–Pearson)
    >>> found.certificate_.held
    ['rows_unseen', 'enough_rows', 'target_reached', 'better_than_constant']

The interval is about new rows drawn like these, this model as it stands, and a loss whose range was known beforehand. A
model chosen by these rows among several needs `compare`, which pays for the choice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.trust.generalisation import EVALUATION_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check, describe_data
from lemmata.trust.bounds import checked_risk, interval
from lemmata.trust.losses import checked_rows, loss_of


@dataclass(frozen=True, repr=False)
class Evaluation:
    """A score on test rows, the interval of the score on new rows, and the certificate.

    score : accuracy, or the mean loss        lower, upper : of the score on new rows, at confidence 1 − delta
    name : what the score is                  method : which bound gave the interval; "none" where there is none
    n : rows                                  certificate_ : what holds and what does not
    """

    name: str
    score: float
    lower: float
    upper: float
    n: int
    delta: float
    method: str
    why: str
    target: float | None
    certificate_: Certificate

    def __str__(self) -> str:
        head = f"{self.name} {self.score:.3f} on {self.n:,} rows; "
        if self.why:
            return f"{head}on new rows: can't tell ({self.why})"
        ends = f"between {self.lower:.3f} and {self.upper:.3f}"
        text = f"{head}on new rows {ends} ({100 * (1 - self.delta):g} %, {self.method})"
        if "rows_unseen" in self.certificate_.undecided:
            text += f"\n  if none of them was trained on: {self.certificate_['rows_unseen'].note}"
        failed = self.certificate_.failed
        return f"{text}\n  but {', '.join(failed)} failed: see certificate_" if failed else text

    __repr__ = __str__

    def plot(self, ax=None):
        """The score, its interval and the target on one line. Gives the axes."""
        return plot_intervals(
            [self.name], [self.score], [(self.lower, self.upper)], ax, target=self.target
        )


def evaluate(
    model: Any,
    X_test: Any,
    y_test: Any,
    delta: float = 0.05,
    *,
    sample_weight: Any = None,
    loss: str | Callable | None = None,
    bounds: tuple[float, float] | None = None,
    target: float | None = None,
    within: float | None = None,
    train: Any = None,
    train_y: Any = None,
) -> Evaluation:
    """Score a fitted model on rows it was not trained on, with the interval on new rows and claims about both.

    Parameters
    ----------
    model : any fitted estimator with `predict`
    X_test, y_test : rows drawn like those to come, independently of each other and of the model
    delta : float, default=0.05
        δ, the risk that the interval misses the score on new rows.
    sample_weight : array of shape (n_samples,), optional
        Weights w that were fixed before: the interval is Hoeffding's with n = (Σw)²/Σw².
    loss : {"zero_one", "brier", "log", "squared", "absolute"} or a function of (y, prediction) giving a number a row
        By default 0 or 1 for classifiers (the score is the accuracy), squares for others.
    bounds : (low, high), optional
        The least and the largest loss that can occur, known before the rows were seen. Squares, absolute values and logarithms
        have none of their own, and without them nothing can be said about new rows.
    target : float, optional
        The accuracy to reach, or the mean loss not to exceed.
    within : float, default=0.05
        Which half of an interval is narrow enough, as a share of the range.
    train, train_y : the training rows and targets, optional
        Test rows, and rows near to them, are looked for among them: pass them in the form of X_test. Without them nothing is
        claimed about new rows, except for models that keep rows (neighbours, kernels): these are read from the model. The
        classes, or the mean (or median), of the targets are among the constants to beat.
    """
    y, weights = checked_rows(model, X_test, y_test, sample_weight)
    if train is None and saw_in_fit(model, X_test):
        train = X_test
    judged = loss_of(model, loss, bounds)
    attributes = {"X": X_test, "loss": judged, "delta": checked_risk(delta), "target": target}
    attributes |= {"within": within, "train": train, "train_y": train_y}
    fit = Fit(model, None, y, weights, attributes=attributes)
    title = f"{type(model).__name__}  {len(y):,} test rows, {judged.score or judged.name}"
    certificate = check(EVALUATION_CLAIMS, fit, title)
    found = interval(fit)
    shown = found.flip() if judged.score else found
    trained_on = "rows_unseen" in certificate.failed
    why = "these rows were trained on" if trained_on else shown.why
    lower, upper = (-math.inf, math.inf) if why else (shown.lower, shown.upper)
    return Evaluation(
        judged.score or f"mean {judged.name} loss", shown.mean, lower, upper, len(y), float(delta),
        "none" if why else shown.method, why, target, certificate,
    )  # fmt: skip


def saw_in_fit(model: Any, X: Any) -> bool:
    """Whether these are the very rows of a fit of ours: its certificate keeps their digest."""
    if getattr(model, "steps", None) is not None:  # what reaches the last step of a pipeline
        model, X = model[-1], model[:-1].transform(X) if len(model) > 1 else X
    stated = re.search(r"digest \S+", getattr(getattr(model, "certificate_", None), "data", ""))
    if stated is None or not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind != "f":
        return False
    return stated[0] in describe_data(Blocks.of(X))


def plot_intervals(names, scores, ends, ax=None, target: float | None = None):
    """One line per score: the dot and its interval."""
    from lemmata.core.certification.pictures import BLUE, GREY, figure

    if ax is None:
        _, ax = figure(size=(5.0, 0.6 + 0.4 * len(names)))
    for at, (score, (low, high)) in enumerate(zip(scores, ends, strict=True)):
        if np.isfinite([low, high]).all():
            ax.plot([low, high], [at, at], color=BLUE, linewidth=2)
        ax.plot(score, at, "o", color=BLUE)
    if target is not None:
        ax.axvline(target, color=GREY, linestyle="--")
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    return ax
