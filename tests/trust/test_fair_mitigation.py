"""Thresholds by group, weights and bounded covariances: what meets a criterion, at what price, and what proves it."""

import re

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
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


def test_an_unfitted_one_says_so():
    with pytest.raises(NotFittedError):
        trust.FairLogisticRegression().predict(np.zeros((2, 2)))


# --- representations --------------------------------------------------------------------------------------------------


def test_after_the_least_change_no_feature_is_correlated_with_the_group():
    X, _, groups = shifted()
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.ones(len(X))])  # no full rank
    hide = trust.Decorrelate().fit(X, groups)
    Z = hide.transform(X)
    for g in range(3):
        np.testing.assert_allclose(Z[groups == g].mean(axis=0), X.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(hide.transform(Z), Z, atol=1e-9)  # a projection
    # another map that hides it: the orthogonal projection off the differences of means
    means = np.array([X[groups == g].mean(axis=0) for g in range(3)]) - X.mean(axis=0)
    _, s, V = np.linalg.svd(means)
    V = V[: (s > 1e-9).sum()]
    assert np.square(Z - X).sum() < np.square((X - X.mean(axis=0)) @ V.T).sum()


def test_no_linear_model_says_more_of_a_decorrelated_group_than_a_constant():
    X, _, groups = shifted(G=2)
    Z = trust.Decorrelate().fit(X, groups).transform(X)
    guess = LogisticRegression(C=np.inf, tol=1e-10).fit(Z, groups)
    np.testing.assert_allclose(np.ptp(guess.decision_function(Z)), 0, atol=1e-6)


def test_what_is_left_of_a_group_is_judged_on_new_rows():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 6000)
    X = rng.standard_normal((6000, 2)) * np.where(groups, 3, 1)[:, None] + groups[:, None]
    hide = trust.Decorrelate().fit(X[:2000], groups[:2000])
    # the means are equal, the variances are not: trees see the group, linear models do not
    assert hide.judge(X[2000:], groups[2000:]).failed == ["group_hidden"]


def test_a_code_hides_the_group_that_an_autoencoder_shows():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 3000)
    inner = rng.standard_normal((3000, 2))
    X = np.column_stack([inner, 3 * groups + 0.3 * rng.standard_normal(3000)]).astype(np.float32)
    known = {"n_components": 2, "layers": (16,), "max_iter": 20, "random_state": 0}
    plain = trust.FairAutoencoder(strength=0, **known).fit(X[:1000], groups[:1000])
    fair = trust.FairAutoencoder(**known).fit(X[:1000], groups[:1000])
    assert plain.judge(X[1000:], groups[1000:]).failed == ["group_hidden"]
    found = fair.judge(X[1000:], groups[1000:])["group_hidden"]
    assert found.verdict != "fails"
    errors = np.square(fair.reconstruct(X[1000:]) - X[1000:])[:, :2].mean()
    assert errors < 0.5  # of a variance of 1
    assert fair.get_feature_names_out().tolist() == ["fairautoencoder0", "fairautoencoder1"]


def test_the_discrepancy_is_that_of_its_definition_and_0_for_equal_codes():
    torch = pytest.importorskip("torch")
    from lemmata.trust.fair.representation import SCALES, discrepancy_of

    z = torch.randn(7, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    a = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    squares = ((z[:, None] - z[None]) ** 2).sum(-1)
    K = sum(1 / (1 + squares / (s * squares.mean())) for s in SCALES)
    own = K[:3, :3].mean() + K[3:, 3:].mean() - 2 * K[:3, 3:].mean()
    assert float(discrepancy_of(z, a)) == pytest.approx(2 * float(own), rel=1e-12)
    assert abs(float(discrepancy_of(torch.cat([z, z]), torch.arange(14) // 7))) < 1e-12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": ["a"] * 30}, "one group only"),
        ({"groups": list("ab")}, "30 rows and 2 groups"),
        ({"strength": -1.0}, "strength=-1.0"),
        ({"n_components": 9}, "n_components=9"),
    ],
)
def test_bad_input_of_representations_is_named(change, message):
    X, _, groups = shifted(30)
    parameters = {name: value for name, value in change.items() if name != "groups"}
    with pytest.raises(ValueError, match=message):
        trust.FairAutoencoder(**parameters).fit(X, change.get("groups", groups))
