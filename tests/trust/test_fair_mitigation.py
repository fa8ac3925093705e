"""Thresholds by group, weights and bounded covariances: what meets a criterion, at what price, and what proves it."""

import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from lemmata import trust
from lemmata.trust.fair.thresholds import find_best_in_windows


def scored(n=400, G=3, seed=0, digits=None):
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.repeat(np.arange(G), 2), rng.integers(0, G, n - 2 * G)])
    y = (rng.random(n) < np.linspace(0.2, 0.8, G)[groups]).astype(int)
    y[: 2 * G] = np.tile([0, 1], G)
    scores = y * np.linspace(1, 2, G)[groups] + rng.standard_normal(n)
    return scores if digits is None else scores.round(digits), y, groups


RATES = {"parity": ["acceptance"], "opportunity": ["TPR"], "odds": ["TPR", "FPR"]}


@pytest.mark.parametrize("criterion", RATES)
@pytest.mark.parametrize("slack", [0.0, 0.07])
def test_rules_meet_the_criterion_and_nothing_is_better(criterion, slack):
    for seed in range(3):
        scores, y, groups = scored(seed=seed, digits=1 if seed else None)
        fair = trust.FairThresholds(None, criterion, slack).fit(scores, y, groups)
        for rate in RATES[criterion]:
            assert np.ptp(list(fair.rates_[rate].values())) <= slack + 1e-9
        assert fair.certificate_.held == ["thresholds_optimal"]
        accepted = fair.predict_proba(scores, groups)[:, 1]
        right = np.where(y == 1, accepted, 1 - accepted).mean()
        assert right == pytest.approx(fair.accuracy_, abs=1e-12)


def test_without_a_criterion_it_is_the_best_threshold_of_each_group():
    scores, y, groups = scored()
    fair = trust.FairThresholds(slack=1.0).fit(scores, y, groups)
    best = 0
    for g in np.unique(groups):
        s, t = scores[groups == g], y[groups == g]
        best += max(int(((s >= at) == t).sum()) for at in [*s, np.inf])
    assert fair.accuracy_ == pytest.approx(best / len(y), abs=1e-12)


def test_the_price_falls_with_the_slack_and_is_concave():
    scores, y, groups = scored()
    fair = trust.FairThresholds().fit(scores, y, groups)
    cost = fair.cost_curve(np.linspace(0, 1, 9))
    assert (np.diff(cost) >= -1e-12).all()
    assert (np.diff(cost, 2) <= 1e-12).all()


@pytest.mark.parametrize("criterion", ["parity", "opportunity"])
def test_rules_without_chance_are_the_best_of_all_thresholds(criterion):
    scores, y, groups = scored(n=30, G=2, seed=4)
    fair = trust.FairThresholds(None, criterion, 0.1, randomised=False).fit(scores, y, groups)
    rate = RATES[criterion][0]

    def try_all(g):
        s, t = scores[groups == g], y[groups == g]
        for at in [*s, np.inf]:
            d = s >= at
            yield (d.mean() if rate == "acceptance" else d[t == 1].mean()), (d == t).sum()

    best = max(a + b for p, a in try_all(0) for q, b in try_all(1) if abs(p - q) <= 0.1 + 1e-12)
    assert fair.accuracy_ == pytest.approx(best / len(y), abs=1e-12)
    assert set(fair.predict(scores, groups)) <= {0, 1}
    mixed = trust.FairThresholds(None, criterion, 0.1).fit(scores, y, groups)
    assert fair.accuracy_ <= mixed.accuracy_ + 1e-12


def test_windows_find_the_best_in_each():
    q, right = np.sort(np.random.default_rng(0).random(37)), np.random.default_rng(1).random(37)
    starts = np.linspace(-0.1, 1.1, 23)
    for at, start in zip(find_best_in_windows(q, right, starts, 0.13), starts, strict=True):
        inside = np.flatnonzero((q >= start) & (q <= start + 0.13))
        assert at == (-1 if not len(inside) else inside[right[inside].argmax()])


def test_rules_of_others_fail_where_better_ones_exist_or_the_criterion_is_missed():
    scores, y, groups = scored()
    best = trust.FairThresholds().fit(scores, y, groups)
    known = {"scores": scores, "y": y, "groups": groups}
    assert trust.certify_thresholds(best.rules_, **known).held == ["thresholds_optimal"]
    nobody = dict.fromkeys(best.rules_, (np.array([np.inf]), np.ones(1)))
    found = trust.certify_thresholds(nobody, **known)["thresholds_optimal"]
    assert found.verdict == "fails"
    assert "other thresholds are right" in found.advice
    loose = trust.FairThresholds(slack=1.0).fit(scores, y, groups)
    found = trust.certify_thresholds(loose.rules_, **known)["thresholds_optimal"]
    assert found.verdict == "fails"
    assert found.unit == "gap beyond slack"


def test_decisions_of_a_model_are_judged_on_new_rows():
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], 12_000)
    X = rng.standard_normal((12_000, 3)) + (groups == "a")[:, None]
    y = np.where(X[:, 0] + rng.standard_normal(12_000) > 0.5, "yes", "no")
    model = LogisticRegression().fit(X[:2000], y[:2000])
    known, new = slice(2000, 6000), slice(6000, None)
    assert "independence" in trust.fairness(y[new], model.predict(X[new]), groups[new]).certificate_.failed  # fmt: skip
    fair = trust.FairThresholds(model, random_state=0).fit(X[known], y[known], groups[known])
    assert set(fair.predict(X[new], groups[new])) == {"no", "yes"}
    judged = fair.judge(X[new], y[new], groups[new])
    assert "independence" in judged.certificate_.held


@pytest.mark.parametrize(
    ("parameters", "change", "message"),
    [
        ({"criterion": "equality"}, {}, "criterion='equality' is not known"),
        ({"slack": -0.1}, {}, "slack=-0.1"),
        ({"criterion": "odds", "randomised": False}, {}, "odds has two"),
        ({"criterion": "odds"}, {"y": [0, 0, 0, 1]}, "group 'a' has no row with y = 1"),
        ({}, {"X": np.zeros((4, 2))}, "scores of shape (4, 2)"),
    ],
)
def test_bad_input_of_thresholds_is_named(parameters, change, message):
    given = {"X": [0.1, 0.2, 0.3, 0.4], "y": [0, 1, 0, 1], "groups": list("aabb"), **change}
    with pytest.raises(ValueError, match=re.escape(message)):
        trust.FairThresholds(**parameters).fit(**given)


def test_groups_unseen_in_fit_are_named():
    fair = trust.FairThresholds().fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1], list("aabb"))
    with pytest.raises(ValueError, match="groups 'c' were not there in fit"):
        fair.predict([0.1], ["c"])


# --- before training --------------------------------------------------------------------------------------------------


def test_reweighed_rows_have_one_base_rate_and_the_weight_that_each_group_had():
    _, y, groups = scored()
    own = np.random.default_rng(0).uniform(size=len(y))
    for w in (None, own):
        found = trust.reweigh(y, groups, w)
        rates = [np.average(y[groups == g], weights=found[groups == g]) for g in range(3)]
        np.testing.assert_allclose(rates, np.average(y, weights=w), rtol=1e-12)
        given = np.ones(len(y)) if w is None else w
        np.testing.assert_allclose(np.bincount(groups, found), np.bincount(groups, given))
    with pytest.raises(ValueError, match="group 'b' has no row with y = 0"):
        trust.reweigh([0, 1, 1], list("aab"))


# --- while training ---------------------------------------------------------------------------------------------------


def shifted(n=900, G=3, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, G, n)
    X = rng.standard_normal((n, 4)) + 0.5 * groups[:, None] * [1, 1, 0, 0]
    return X, (X.sum(axis=1) + rng.standard_normal(n) > 1).astype(int), groups


@pytest.mark.parametrize("criterion", ["parity", "odds"])
@pytest.mark.parametrize("bound", [0.0, 0.03])
def test_covariances_keep_the_bound_and_the_gap_is_closed(criterion, bound):
    X, y, groups = shifted()
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y))
    fair = trust.FairLogisticRegression(criterion, bound).fit(X, y, groups, weights)
    assert fair.certificate_.held == ["bounded_fit_optimal"]
    f = fair.decision_function(X)
    for rows in [y >= 0] if criterion == "parity" else [y == 0, y == 1]:
        w = np.where(rows, weights, 0)
        for g in range(2):
            centred = (groups == g) - np.average(groups == g, weights=w)
            assert abs((w * centred) @ f) / weights.sum() <= bound + 1e-9


def test_an_idle_bound_leaves_logistic_regression():
    X, y, groups = shifted()
    free = trust.FairLogisticRegression(bound=100.0, C=0.5).fit(X, y, groups)
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(free.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(free.predict_proba(X), theirs.predict_proba(X), atol=1e-6)


def test_less_covariance_costs_loss_and_narrows_the_gap_of_new_people():
    X, y, groups = shifted(6000, G=2)
    gaps = []
    for bound in (0.0, 100.0):
        fair = trust.FairLogisticRegression(bound=bound).fit(X[:3000], y[:3000], groups[:3000])
        judged = fair.judge(X[3000:], y[3000:], groups[3000:])
        gaps.append(abs(judged.between("0", "1")["acceptance"].gap))
    assert gaps[0] < 0.05 < 0.1 < gaps[1]


def test_altered_coefficients_are_noticed():
    X, y, groups = shifted()
    fair = trust.FairLogisticRegression().fit(X, y, groups)
    fair.coef_ = fair.coef_ + 0.1
    assert fair.certify(X, y, groups).failed == ["bounded_fit_optimal"]


@pytest.mark.parametrize("parameters", [{"criterion": "both"}, {"bound": -1}, {"C": 0}])
def test_bad_parameters_of_the_bounded_fit_are_named(parameters):
    (name,) = parameters
    with pytest.raises(ValueError, match=f"{name}="):
        trust.FairLogisticRegression(**parameters).fit(*shifted(30))
