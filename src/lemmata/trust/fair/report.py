"""Rates by group with intervals for all pairs at once, and claims about new people.

>>> import numpy as np
>>> from lemmata.trust import fairness
>>> rng = np.random.default_rng(0)
>>> groups, y = rng.choice(["a", "b"], 4000), rng.integers(0, 2, 4000)
>>> careless = np.where(groups == "a", y, rng.integers(0, 2, 4000))   # b is hired by a coin, at the same rate
>>> found = fairness(y, careless, groups)
>>> found.certificate_["independence"].verdict, found.certificate_["separation"].verdict
('holds', 'fails')
>>> found.between("a", "b")["TPR"].gap > 0.4
True
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lemmata.audit.trust.fair.fairness import FAIRNESS_CLAIMS
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.trust.bounds import checked_risk
from lemmata.trust.evaluation import saw_in_fit
from lemmata.trust.fair.counts import RATES, Gaps, GroupCounts, People, check_people, gaps_at_once
from lemmata.trust.fair.scores import ScoreBins

# rates that one claim judges together, hence at once
FAMILIES = (("acceptance",), ("TPR", "FPR"), ("PPV", "NPV"), ("accuracy",), ("base rate",))


@dataclass(frozen=True)
class RateGap:
    """The difference of a rate between two groups, with its interval for all pairs and all rates of its criterion at once."""

    gap: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.gap:+.3f} ({self.lower:+.3f} to {self.upper:+.3f})"


@dataclass(frozen=True, repr=False)
class Fairness:
    """Rates by group, their differences with intervals, and what holds of new people.

    groups : names        rates : {"acceptance": {group: rate}, "TPR": …}        between(a, b) : the gap of each rate
    counts : rows by group, outcome and decision        certificate_ : independence, separation, sufficiency, …
    score_bins : what scores mean in each tenth, and how far apart those of two groups are; None without probabilities
    """

    counts: GroupCounts
    within: float
    delta: float
    positive: Any
    certificate_: Certificate
    score_bins: ScoreBins | None = None

    @property
    def groups(self) -> tuple[str, ...]:
        return self.counts.names

    @property
    def rates(self) -> dict[str, dict[str, float]]:
        return {name: self._by_group(self.counts.rate(name).values) for name in RATES}

    def _by_group(self, values: np.ndarray) -> dict[str, float]:
        return dict(zip(self.groups, values.tolist(), strict=True))

    @cached_property
    def _gaps(self) -> dict[str, Gaps]:
        found: dict[str, Gaps] = {}
        for rates in FAMILIES:
            found |= gaps_at_once(self.counts, rates, self.delta)
        return found

    def between(self, a: str, b: str) -> dict[str, RateGap]:
        """Return rate of a minus rate of b, by rate."""
        for name in (a, b):
            if name not in self.groups:
                raise ValueError(f"there is no group {name!r}; there are {', '.join(self.groups)}.")
        i, j = self.groups.index(a), self.groups.index(b)
        return {
            name: RateGap(*(float(part[i, j]) for part in (one.observed, one.lower, one.upper)))
            for name, one in self._gaps.items()
        }

    def __str__(self) -> str:
        wide = max(map(len, self.groups))
        lines = [" " * (wide + 2) + f"{'rows':>9}  " + "  ".join(f"{name:>10}" for name in RATES)]
        table = np.array([self.counts.rate(name).values for name in RATES]).T
        for name, rows, row in zip(self.groups, self.counts.rows, table, strict=True):
            cells = "  ".join(f"{'-' if np.isnan(rate) else f'{rate:.3f}':>10}" for rate in row)
            lines.append(f"  {name:{wide}}{rows:>9,.0f}  {cells}")
        if self.score_bins is not None and len(self.groups) > 1:
            apart = self.score_bins.distances
            a, b = max(apart, key=lambda pair: apart[pair])
            lines.append(
                f"  scores of {a!r} and {b!r}: total variation {apart[a, b]:.3f}, in tenths"
            )
        return "\n".join([*lines, str(self.certificate_)])

    __repr__ = __str__

    def plot(self, rates: tuple[str, ...] = ("acceptance", "TPR", "FPR", "PPV", "NPV"), ax=None):
        """Each rate of each group with its exact interval, groups and rates at once. Gives the axes."""
        from lemmata.core.certification.pictures import figure
        from lemmata.trust.bounds import clopper_pearson, hoeffding

        if ax is None:
            _, ax = figure(size=(6.0, 1.0 + 0.4 * len(self.groups)))
        G = len(self.groups)
        share = self.delta / (G * len(rates))
        for at, name in enumerate(rates):
            rate = self.counts.rate(name)
            for g in np.flatnonzero(rate.draws > 0):
                value, y = rate.values[g], g + 0.12 * (at - len(rates) / 2)
                if self.counts.weighted:
                    half = hoeffding(rate.size[g], share)
                    ends = max(value - half, 0), min(value + half, 1)
                else:
                    ends = clopper_pearson(rate.hits[g], rate.draws[g], share)
                ax.plot(ends, [y, y], color=f"C{at}", linewidth=2)
                ax.plot(value, y, "o", color=f"C{at}", label=name if g == 0 else None)
        ax.set_yticks(range(G), self.groups)
        ax.set_ylim(G - 0.5, -0.5)
        ax.set_xlim(0, 1)
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        return ax


def fairness(
    y: Any, decisions: Any, groups: Any, scores: Any = None, sample_weight: Any = None, within: float = 0.1, *,
    delta: float = 0.05, positive: Any = None, X: Any = None,
) -> Fairness:  # fmt: skip
    """Judge decisions on people in groups, with intervals and claims about new people.

    Parameters
    ----------
    y : what turned out to be true        decisions : what was decided; rows that the decider was not trained on
    groups : a label for each row, or several columns (their intersections are judged)
    scores : probabilities of y = positive, optional
        For calibration by group, and how far apart the scores of groups are.
    sample_weight : array of shape (n_samples,), optional
        Weights that were fixed before: the intervals are Hoeffding's.
    within : float, default=0.1
        Which gap between two groups is small enough.
    delta : float, default=0.05
        The risk that a claim, or any interval of one criterion, is wrong.
    positive : the class that counts as accepted, default the larger of two
        Of more classes, the one to be judged against the rest.
    X : the features, optional
        For `group_hidden`: do they give the group away? Rows that are copies of others are looked for, too.
    """
    people = check_people(y, decisions, groups, scores, sample_weight, positive)
    return _judge(people, float(within), checked_risk(delta), {"X": X}, "decisions")


def _judge(people: People, within: float, delta: float, more: dict[str, Any], of: str) -> Fairness:
    if not 0 < within < 1:
        raise ValueError(f"within={within!r}, the gap that is small enough: pass a number between 0 and 1.")  # fmt: skip
    attributes: dict[str, Any] = {
        "names": people.names, "codes": people.codes, "decisions": people.decisions, "scores": people.scores,
        "within": within, "delta": delta, **more,
    }  # fmt: skip
    fit = Fit(None, None, people.y, people.weights, attributes=attributes)
    counts = GroupCounts.of(people.names, people.codes, people.y, people.decisions, people.weights)
    title = f"{of}  {len(people.y):,} rows, {len(people.names)} groups"
    certificate, R, bins = check(FAIRNESS_CLAIMS, fit, title), people.scores, None
    if R is not None and R.min() >= 0 and R.max() <= 1:
        bins = ScoreBins.of(people.names, people.codes, people.y, R, people.weights)
    return Fairness(counts, within, delta, people.positive, certificate, bins)


def judge_model(
    model: Any, X: Any, y: Any, groups: Any, sample_weight: Any = None, within: float = 0.1, *,
    delta: float = 0.05, positive: Any = None, train: Any = None,
) -> Fairness:  # fmt: skip
    """Judge the decisions of a fitted model with `predict` on rows that it was not trained on.

    train : the training rows, optional
        The rows are looked for among them. Without them, and of models that keep none, the claims say that they rest on it.
    """
    if not hasattr(model, "predict"):
        raise TypeError(f"a {type(model).__name__} has no predict, so there are no decisions to judge.")  # fmt: skip
    if y is None:
        raise ValueError("whether decisions are fair depends on what was true: pass y.")
    people = check_people(y, model.predict(X), groups, None, sample_weight, positive)
    scores, classes = None, list(getattr(model, "classes_", ()))
    if hasattr(model, "predict_proba") and people.positive in classes:
        scores = model.predict_proba(X)[:, classes.index(people.positive)]
    people = People(**{**vars(people), "scores": scores})
    if train is None and saw_in_fit(model, X):
        train = X
    more = {"X": X, "fitted": model, "train": train}
    return _judge(people, float(within), checked_risk(delta), more, type(model).__name__)


def certify_groups(model: Any, request: Any, groups: Any) -> Certificate:
    """Check the claims about fairness of a model, for `lemmata.certify(model, X, y, groups=A)`.

    X and y are rows that the model was not trained on; with X_test and y_test these are, and X are the training rows.
    """
    given = [name for name in ("loss", "properties", "analogies") if getattr(request, name) is not None]  # fmt: skip
    if given:
        raise ValueError(f"claims about fairness take no {given[0]}; leave it out, or leave out groups.")  # fmt: skip
    X, y, train = request.X, request.y, None
    if request.X_test is not None:
        X, y, train = request.X_test, request.y_test, X
    if X is None:
        raise TypeError(
            f"certify({type(model).__name__}, groups=…) lacks its rows: pass X and y that the model was not trained on."
        )
    return judge_model(model, X, y, groups, request.sample_weight, train=train).certificate_
