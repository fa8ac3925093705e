"""Thresholds by group that meet a criterion and are right as often as possible (Hardt, Price & Srebro 2016).

    maximise  share decided rightly      over mixtures of thresholds for each group,  gaps of the criterion's rates ≤ slack

A mixture of thresholds is a point in the hull of the group's ROC curve, and both the accuracy and all rates are linear there: a
linear programme over the corners of the hulls. Its multipliers prove that nothing better exists; they also say what the
criterion costs.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> groups, y = np.repeat(["a", "b"], 1000), rng.random(2000) < np.repeat([0.3, 0.6], 1000)
    >>> scores = y + rng.standard_normal(2000)
    >>> fair = FairThresholds(criterion="parity").fit(scores, y, groups)
    >>> fair.certificate_.held
    ['thresholds_optimal']
    >>> accepted = fair.predict_proba(scores, groups)[:, 1]
    >>> bool(abs(accepted[groups == "a"].mean() - accepted[groups == "b"].mean()) < 1e-9)
    True
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.trust.fair.counts import (
    EQUALISED,
    THRESHOLD_CLAIMS,
    GroupCurve,
    check_people,
    curves_of,
    encode_groups,
)
from lemmata.trust.fair.report import Fairness, fairness

Array = np.ndarray
Rule = tuple[Array, Array]  # thresholds, and the share of each


class FairThresholds(BaseEstimator):
    """Decisions by a threshold for each group, where needed by one of two with a chance, that meet a criterion of fairness.

    Parameters
    ----------
    model : a fitted classifier, or None
        Its decision_function, or else predict_proba, ranks the rows. Without one, X is the scores.
    criterion : {"parity", "odds", "opportunity"}, default="parity"
        What is equal in all groups: acceptance (independence), TPR and FPR (separation), or TPR.
    slack : float, default=0
        How far apart these rates may be.
    randomised : bool, default=True
        Without chance, each group has one threshold ("parity" and "opportunity" only): usually with some slack.
    random_state : int or None
        Of the chances in `predict`.

    rules_ : {group: (thresholds, shares)}        multipliers_ : prices of the criterion
    accuracy_, rates_ : of the rows of the fit        certificate_ : thresholds_optimal; None without chance
    """

    def __init__(self, model=None, criterion="parity", slack=0.0, randomised=True, random_state=None):  # fmt: skip
        self.model = model
        self.criterion = criterion
        self.slack = slack
        self.randomised = randomised
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any, sample_weight: Any = None) -> FairThresholds:
        """Find the thresholds on rows that the model was not trained on: scores of training rows are better than others."""
        self._check_parameters()
        scores = self._scores(X)
        people = check_people(y, y, groups, scores, sample_weight)
        curves = curves_of(scores, people.y, people.codes, len(people.names), people.weights)
        for rate in EQUALISED[self.criterion]:
            for name, curve in zip(people.names, curves, strict=True):
                if np.isnan(curve.rates[rate]).any():
                    kind = "y = 1" if rate == "TPR" else "y = 0"
                    raise ValueError(
                        f"group {name!r} has no row with {kind}, so its {rate} is not defined: leave it out, or merge it "
                        "with another."
                    )
        classes = np.unique(np.asarray(y))
        self.classes_ = classes if len(classes) == 2 else np.array([0, 1])
        self._curves, self.groups_ = curves, people.names
        rules, self.multipliers_ = self._solve(self.slack)
        self.rules_: dict[str, Rule] = dict(zip(people.names, rules, strict=True))
        self.accuracy_ = self._accuracy(rules)
        self.rates_ = {
            rate: {name: float(rule[1] @ curve.rates[rate][curve.at(rule[0])])
                   for name, curve, rule in zip(people.names, curves, rules, strict=True)}
            for rate in ("acceptance", "TPR", "FPR")
        }  # fmt: skip
        self.certificate_ = None
        if self.randomised:
            self.certificate_ = certify_thresholds(
                self.rules_, scores, y, groups, self.criterion, self.slack,
                sample_weight=sample_weight, multipliers=self.multipliers_,
            )  # fmt: skip
        return self

    def _check_parameters(self) -> None:
        if self.criterion not in EQUALISED:
            raise ValueError(
                f"criterion={self.criterion!r} is not known; pass one of {', '.join(EQUALISED)}."
            )
        if not 0 <= self.slack <= 1:
            raise ValueError(f"slack={self.slack!r}, a gap of rates: pass a number from 0 to 1.")
        if self.criterion == "odds" and not self.randomised:
            raise ValueError(
                "randomised=False finds thresholds for one rate, and odds has two: pass randomised=True."
            )

    def _scores(self, X: Any) -> Array:
        if self.model is None:
            scores = np.asarray(X, dtype=np.float64)
            if scores.ndim == 2 and scores.shape[1] == 1:
                scores = scores.ravel()
        else:
            check_is_fitted(self.model)
            rank = getattr(self.model, "decision_function", None)
            scores = rank(X) if rank is not None else self.model.predict_proba(X)[:, 1]
        if np.ndim(scores) != 1:
            raise ValueError(
                f"scores of shape {np.shape(scores)}: pass a model of two classes, or one score for each row."
            )
        return np.asarray(scores, dtype=np.float64)

    def _solve(self, slack: float) -> tuple[list[Rule], Array | None]:
        if self.randomised:
            return solve_programme(self._curves, self.criterion, slack)
        return search_windows(self._curves, EQUALISED[self.criterion][0], slack), None

    def _accuracy(self, rules: list[Rule]) -> float:
        return sum(
            float(shares @ curve.right[curve.at(t)])
            for curve, (t, shares) in zip(self._curves, rules, strict=True)
        )

    # --- in use ---

    def cost_curve(self, slacks: Any) -> Array:
        """Return the accuracy on the rows of the fit for each slack: what the criterion costs."""
        check_is_fitted(self)
        return np.array([self._accuracy(self._solve(float(slack))[0]) for slack in slacks])

    def predict_proba(self, X: Any, groups: Any) -> Array:
        """Return the chances of both decisions, the rule of each group applied to its rows."""
        check_is_fitted(self)
        scores = self._scores(X)
        codes, names = encode_groups(groups)
        if len(codes) != len(scores):
            raise ValueError(f"{len(scores):,} rows and {len(codes):,} groups: pass a label for each row.")  # fmt: skip
        if unseen := [name for name in names if name not in self.rules_]:
            raise ValueError(
                f"groups {', '.join(map(repr, unseen))} were not there in fit, which knows {', '.join(map(repr, self.rules_))}."
            )
        accepted = np.zeros(len(scores))
        for g, name in enumerate(names):
            rows, (thresholds, shares) = codes == g, self.rules_[name]
            accepted[rows] = (scores[rows][:, None] >= thresholds) @ shares
        return np.column_stack([1 - accepted, accepted])

    def predict(self, X: Any, groups: Any) -> Array:
        """Decide; where a group has several thresholds, one is drawn for each row."""
        accepted = self.predict_proba(X, groups)[:, 1]
        draws = np.random.default_rng(self.random_state).random(len(accepted))
        return self.classes_[(draws < accepted).astype(int)]

    def judge(self, X: Any, y: Any, groups: Any, **options: Any) -> Fairness:
        """Judge the decisions on new rows: rates that were equal on the rows of the fit are so on others only roughly."""
        return fairness(y, self.predict(X, groups), groups, **options)


# --- with chance: a linear programme ----------------------------------------------------------------------------------


def solve_programme(curves: list[GroupCurve], criterion: str, slack: float) -> tuple[list[Rule], Array]:  # fmt: skip
    """Shares of the corners of every hull, and c for each rate: sparse, so that a group has two or three thresholds."""
    rates, corners = EQUALISED[criterion], [find_corners(one) for one in curves]
    pairs = list(zip(curves, corners, strict=True))
    sizes = [len(at) for at in corners]
    G, K, n = len(sizes), len(rates), sum(sizes)
    group = np.repeat(np.arange(G), sizes)
    above = np.zeros((K * G, n + K))  # q_kg − c_k
    for kind, rate in enumerate(rates):
        q = np.concatenate([one.rates[rate][at] for one, at in pairs])
        above[kind * G + group, np.arange(n)] = q
        above[kind * G : (kind + 1) * G, n + kind] = -1
    one_each = np.zeros((G, n + K))
    one_each[group, np.arange(n)] = 1
    right = np.concatenate([one.right[at] for one, at in pairs])
    objective = np.concatenate([-right, np.zeros(K)])
    within = np.vstack([above, -above]), np.full(2 * K * G, slack / 2)
    found = linprog(objective, *within, one_each, np.ones(G), bounds=(0, 1), method="highs")
    if found.status != 0:  # accepting nobody is always feasible
        raise RuntimeError(f"the linear programme was not solved: {found.message}")
    shares, rules = np.clip(found.x[:n], 0, None), []
    for g, (curve, at) in enumerate(pairs):
        own = shares[group == g]
        used = np.flatnonzero(own > 1e-12)
        rules.append((curve.t[at[used]], own[used] / own[used].sum()))
    up, down = -found.ineqlin.marginals.reshape(2, K, G)
    return rules, up - down


def find_corners(curve: GroupCurve) -> Array:
    """Places of the corners of the hull above the ROC curve, from accepting nobody to accepting everybody."""
    rates = curve.rates
    x, z = rates["FPR"], rates["TPR"]
    if np.isnan(x).any() or np.isnan(z).any():  # one class only: acceptance is all there is
        return np.array([0, len(curve.t) - 1])
    hull: list[int] = []
    for i in range(len(x)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (x[b] - x[a]) * (z[i] - z[a]) < (z[b] - z[a]) * (x[i] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return np.array(hull)


# --- without: the best threshold of each group in every window of the rate --------------------------------------------


def search_windows(curves: list[GroupCurve], rate: str, slack: float) -> list[Rule]:
    """Return one threshold for each group: the best of those whose rates are in one window, over all windows."""
    starts = np.unique(np.concatenate([one.rates[rate] for one in curves]))
    total, places = np.zeros(len(starts)), []
    for curve in curves:
        at = find_best_in_windows(curve.rates[rate], curve.right, starts, slack)
        total += np.where(at < 0, -np.inf, curve.right[at])
        places.append(at)
    best = int(total.argmax())  # accepting everybody, or nobody, is always there
    return [(one.t[[at[best]]], np.ones(1)) for one, at in zip(curves, places, strict=True)]


def find_best_in_windows(q: Array, right: Array, starts: Array, width: float) -> Array:
    """Places of the largest `right` among q in [start, start + width], q rising; −1 where there is none."""
    first = np.searchsorted(q, starts - 1e-12)
    last = np.searchsorted(q, starts + width + 1e-12)  # one beyond
    levels = [np.arange(len(q))]  # best of 1, 2, 4, … in a row
    while 2 ** len(levels) <= len(q):
        step, before = 2 ** (len(levels) - 1), levels[-1]
        a, b = before[:-step], before[step:]
        levels.append(np.where(right[a] >= right[b], a, b))
    found = np.full(len(starts), -1)
    for i in np.flatnonzero(last > first):
        level = int(last[i] - first[i]).bit_length() - 1
        a, b = levels[level][first[i]], levels[level][last[i] - 2**level]
        found[i] = a if right[a] >= right[b] else b
    return found


# --- thresholds of anybody --------------------------------------------------------------------------------------------


def certify_thresholds(
    rules: dict[str, Rule], scores: Any, y: Any, groups: Any, criterion: str = "parity", slack: float = 0.0, *,
    sample_weight: Any = None, multipliers: Any = None,
) -> Certificate:  # fmt: skip
    """Check whether rules {group: (thresholds, shares)}, whoever found them, meet a criterion and are the best that do."""
    people = check_people(y, y, groups, scores, sample_weight)
    if missing := [name for name in people.names if name not in rules]:
        raise ValueError(f"there is no rule for {', '.join(map(repr, missing))}.")
    attributes = {
        "scores": people.scores, "codes": people.codes, "names": people.names, "criterion": criterion,
        "slack": float(slack), "rules": rules, "multipliers": multipliers,
    }  # fmt: skip
    fit = Fit(None, None, people.y, people.weights, attributes=attributes)
    title = f"thresholds  {len(people.y):,} rows, {len(people.names)} groups, {criterion}"
    return check(THRESHOLD_CLAIMS, fit, title)
