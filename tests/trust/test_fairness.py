"""Rates by group, intervals of their differences, and claims about fairness."""

import re
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

import lemmata
from lemmata import data, trust
from lemmata.audit.trust.fair.counts import RATES, GroupCounts, Rate
from lemmata.audit.trust.fair.gaps import gaps_between
from lemmata.trust.fair.counts import check_people, encode_groups
from lemmata.trust.fair.scores import ScoreBins


def people(n=3000, accept=(0.5, 0.5), base=(0.5, 0.5), seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, len(accept), n)
    draw = (rng.random(n) < np.asarray(rates)[groups] for rates in (base, accept))
    return *draw, np.array(list("abcdef"))[groups]


# --- counts and rates -------------------------------------------------------------------------------------------------


def test_counts_of_blocks_add_up_to_the_whole_whichever_groups_a_block_has():
    y, decisions, groups = people(500, (0.2, 0.5, 0.7), (0.3, 0.6, 0.9))
    weights = np.random.default_rng(1).uniform(size=500)

    def counts(rows, w):
        found = check_people(y[rows], decisions[rows], groups[rows], positive=True)
        return GroupCounts.of(found.names, found.codes, found.y, found.decisions, w)

    for w in (None, weights):
        cuts = (0, 3, 100, 101, 500)
        parts = [counts(slice(a, b), None if w is None else w[a:b]) for a, b in pairwise(cuts)]
        total, whole = sum(parts, GroupCounts()), counts(slice(None), w)
        order = [total.names.index(name) for name in whole.names]
        np.testing.assert_allclose(total.sums[order], whole.sums, rtol=1e-12)
        np.testing.assert_allclose(total.squares[order], whole.squares, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_rates_are_the_conditional_means_that_they_are_named_after(weighted):
    y, d, groups = people(800, (0.2, 0.7), (0.3, 0.6))
    w = np.random.default_rng(2).uniform(size=800) if weighted else None
    found = trust.rates_by_group(y, d, sensitive_features=groups, sample_weight=w)
    here = groups == "b"
    for name, mean_of, among in (
        ("acceptance", d, here), ("TPR", d, here & y), ("FPR", d, here & ~y), ("PPV", y, here & d),
        ("NPV", ~y, here & ~d), ("accuracy", y == d, here), ("base rate", y, here),
    ):  # fmt: skip
        mean = np.average(mean_of[among], weights=None if w is None else w[among])
        assert found[name]["b"] == pytest.approx(mean, abs=1e-14)
    assert set(found) == set(RATES)


def test_metrics_of_fairlearn_are_the_largest_gaps_and_least_ratios():
    y, d, groups = people(800, (0.2, 0.7, 0.4), (0.3, 0.6, 0.5))
    rates = trust.rates_by_group(y, d, sensitive_features=groups)
    values = {name: np.array(list(of.values())) for name, of in rates.items()}
    known = {"sensitive_features": groups}
    gap = np.ptp(values["acceptance"])
    assert trust.demographic_parity_difference(y, d, **known) == pytest.approx(gap)
    odds = max(np.ptp(values["TPR"]), np.ptp(values["FPR"]))
    assert trust.equalized_odds_difference(y, d, **known) == pytest.approx(odds)
    ratio = min(values[name].min() / values[name].max() for name in ("TPR", "FPR"))
    assert trust.equalized_odds_ratio(y, d, **known) == pytest.approx(ratio)
    assert trust.equal_opportunity_difference(y, d, **known) == pytest.approx(np.ptp(values["TPR"]))


def test_several_columns_are_judged_by_their_intersections():
    codes, names = encode_groups({"sex": ["f", "m", "m", "f"], "age": [1, 2, 1, 1]})
    assert [names[at] for at in codes] == ["f & 1", "m & 2", "m & 1", "f & 1"]
    both = np.array([["f", 1], ["m", 2], ["m", 1], ["f", 1]], dtype=object)
    assert np.array_equal(encode_groups(both)[0], codes)


# --- intervals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "m", "p", "q"),
    [(6, 9, 0.1, 0.4), (12, 7, 0.0, 0.2), (5, 20, 0.5, 0.5), (11, 16, 0.9, 0.97)],
)
def test_bounds_of_differences_are_wrong_as_seldom_as_they_say_by_the_whole_law(n, m, p, q):
    """All outcomes of both groups, each with its probability: no sampling."""
    for delta in (0.05, 0.002):
        missed = 0.0
        for i in range(n + 1):
            for j in range(m + 1):
                rate = Rate(*np.array([[i, j], [n, m], [n, m]], float))
                if gaps_between(rate, delta).lower[0, 1] > p - q:
                    missed += binom.pmf(i, n, p) * binom.pmf(j, m, q)
        assert missed <= delta


def test_bounds_are_as_sharp_as_the_normal_one_for_many_rows():
    rate = Rate(*np.array([[40_000, 30_000], [100_000, 100_000], [100_000, 100_000]], float))
    error = np.sqrt((0.4 * 0.6 + 0.3 * 0.7) / 100_000)
    half = 0.1 - gaps_between(rate, 0.025).lower[0, 1]
    assert 1.96 * error < half < 1.15 * 1.96 * error


def test_a_group_without_draws_is_unknown():
    found = gaps_between(Rate(*np.array([[0, 3], [0, 10], [0, 10]], float)), 0.05)
    assert found.lower[0, 1] == found.lower[1, 0] == -1


# --- claims -----------------------------------------------------------------------------------------------------------


def test_equal_groups_hold_and_careless_hiring_passes_independence_alone():
    y, _, groups = people(8000, base=(0.5, 0.5))
    careless = np.where(groups == "a", y, np.random.default_rng(3).random(8000) < 0.5)
    found = trust.fairness(y, careless, groups)
    assert found.certificate_["independence"].verdict == "holds"
    assert found.certificate_["separation"].verdict == "fails"
    assert found.certificate_["sufficiency"].verdict == "fails"
    assert found.certificate_["criteria_compatible"].verdict == "holds"
    alike = trust.fairness(*people(8000))
    assert {"independence", "separation", "sufficiency"} <= set(alike.certificate_.held)


def test_small_groups_are_named_with_the_rows_it_would_take():
    y, d, groups = people(4000)
    groups = groups.astype(object)
    groups[:7] = "few"
    note = trust.fairness(y, d, groups).certificate_["independence"].note
    assert "'few' 7" in note
    assert "136 would do" in note  # (1.645/0.1)²/2


def test_a_group_without_positives_has_no_tpr():
    y, d, groups = people(4000)
    found = trust.fairness(y & (groups == "a"), d, groups).certificate_["separation"]
    assert found.verdict == "can't tell"
    assert "TPR is not defined: 'b' has no rows with y = 1" in found.note


@pytest.mark.parametrize("seed", range(3))
def test_incompatibility_in_numbers_on_any_table(seed):
    rng = np.random.default_rng(seed)
    for table in rng.dirichlet(np.full(4, 0.4), (300, 2)).reshape(-1, 2, 2, 2):
        counts = GroupCounts(("a", "b"), table)
        v = {name: counts.rate(name).values for name in RATES}
        gap = {name: abs(a - b) for name, (a, b) in v.items()}
        assert gap["acceptance"] + max(gap["PPV"], gap["NPV"]) >= gap["base rate"] - 1e-12
        J = abs(v["TPR"][1] - v["FPR"][1])
        assert gap["acceptance"] + max(gap["TPR"], gap["FPR"]) >= gap["base rate"] * J - 1e-12
        odds = v["base rate"] / (1 - v["base rate"])
        fpr = odds * (1 - v["PPV"]) / v["PPV"] * v["TPR"]
        np.testing.assert_allclose(fpr, v["FPR"], rtol=1e-6, atol=1e-9)


def test_unlike_base_rates_exclude_independence_with_sufficiency():
    y, d, groups = people(4000, base=(0.2, 0.7))
    found = trust.fairness(y, d, groups).certificate_["criteria_compatible"]
    assert found.verdict == "fails"
    assert "proved" in found.note


def test_weights_widen_the_intervals_and_bare_weights_of_one_give_hoeffding():
    y, d, groups = people(3000)
    plain = trust.fairness(y, d, groups).between("a", "b")["acceptance"]
    weighted = trust.fairness(y, d, groups, sample_weight=np.ones(3000)).between("a", "b")["acceptance"]  # fmt: skip
    assert weighted.gap == pytest.approx(plain.gap)
    assert weighted.lower < plain.lower < plain.gap < plain.upper < weighted.upper


def test_the_group_behind_the_features_is_found():
    y, d, groups = people(2000)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((2000, 2))
    proxy = np.column_stack([noise, (groups == "a") + 0.5 * rng.standard_normal(2000)])
    assert trust.fairness(y, d, groups, X=proxy).certificate_["group_hidden"].verdict == "fails"
    assert trust.fairness(y, d, groups, X=noise).certificate_["group_hidden"].verdict == "holds"
    with lemmata.config(searches=False):
        found = trust.fairness(y, d, groups, X=noise).certificate_["group_hidden"]
    assert found.verdict == "can't tell"


# --- models -----------------------------------------------------------------------------------------------------------


def test_certify_judges_any_model_with_predict():
    rng = np.random.default_rng(0)
    X, groups = rng.standard_normal((1500, 3)), rng.integers(0, 2, 1500)
    X[:, 1] += groups
    y = (X[:, 0] + X[:, 1] > 0.5).astype(int)
    new = {"X_test": X[500:], "y_test": y[500:], "groups": groups[500:]}
    for model in (make_pipeline(StandardScaler(), LogisticRegression()), LinearSVC(), DummyClassifier()):  # fmt: skip
        found = lemmata.certify(model.fit(X[:500], y[:500]), X[:500], y[:500], **new)
        assert found["people_unseen"].verdict == "holds"
        told = {one.name: one.verdict for one in found}
        assert told["independence"] == ("holds" if isinstance(model, DummyClassifier) else "fails")
    own = lemmata.certify(KNeighborsClassifier(1).fit(X, y), X, y, groups=groups)
    assert own.failed == ["people_unseen"]
    assert own.held == []


def test_tables_of_words_are_judged_too():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    groups = rng.choice(["p", "q"], 3000)
    job = np.where(rng.random(3000) < 0.9, groups, "r")
    X = pandas.DataFrame({"job": job, "x": rng.standard_normal(3000)})
    X["town"] = pandas.Categorical(rng.choice(["u", "v"], 3000))
    y = (X["x"] + (job == "p") > 0.5).astype(int)
    model = make_pipeline(FunctionTransformer(lambda X: X[["x"]] + 0), LogisticRegression())
    model.fit(X[:1000], y[:1000])
    known = {"X_test": X[1000:], "y_test": y[1000:], "groups": groups[1000:]}
    found = lemmata.certify(model, X[:1000], y[:1000], **known)
    assert found.broken == []
    assert found["people_unseen"].verdict == "holds"
    assert found["group_hidden"].verdict == "fails"


def test_calibration_is_judged_where_a_model_gives_probabilities():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((9000, 2))
    y = rng.random(9000) < 1 / (1 + np.exp(-X[:, 0]))
    model = LogisticRegression().fit(X[:1000], y[:1000])
    found = lemmata.certify(model, X[1000:], y[1000:], groups=rng.integers(0, 2, 8000))
    assert found["calibrated_by_group"].verdict == "holds"
    assert "if none of these rows was trained on" in found["calibrated_by_group"].note


def test_scores_in_tenths_add_up_and_cannot_be_alike_where_base_rates_are_not():
    rng = np.random.default_rng(2)
    codes, y = rng.integers(0, 3, 900), rng.integers(0, 2, 900)
    R = rng.beta(1 + 2 * codes, 2)  # some tenths of some groups are empty
    whole, names = ScoreBins.of(("a", "b", "c"), codes, y, R), ("a", "b", "c")
    halves = [ScoreBins.of(names, codes[at], y[at], R[at]) for at in (slice(400), slice(400, None))]
    for part in ("sizes", "hits", "scores"):
        np.testing.assert_allclose(getattr(sum(halves[1:], halves[0]), part), getattr(whole, part))
    for (a, b), apart in whole.distances.items():
        i, j = names.index(a), names.index(b)
        unlike = np.nansum(whole.shares[j] * np.abs(whole.meaning[i] - whole.meaning[j]))
        assert 0 < apart <= 1
        assert apart + unlike >= abs(whole.base_rates[i] - whole.base_rates[j])
    report = trust.fairness(y, R > 0.5, codes, R)
    assert report.score_bins.miscalibration == pytest.approx(
        dict(zip("012", whole.miscalibration.values(), strict=True))
    )
    assert "total variation" in str(report)
    assert trust.fairness(y, R > 0.5, codes, 2 * R).score_bins is None


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": ["a", None, "b"]}, "1 missing labels"),
        ({"groups": [1.0, float("nan"), 2.0]}, "1 missing labels"),
        ({"groups": ["a", "b"]}, "inconsistent"),
        ({"decisions": [0.2, 0.7, 0.1]}, "pass decisions, not scores"),
        ({"scores": [0.1, float("nan"), 0.2]}, "scores holds NaN"),
        ({"within": 0}, "within=0"),
        ({"delta": 1}, "delta=1"),
        ({"positive": "yes"}, "'yes' is not among the classes 0, 1"),
        ({"sample_weight": [-1, 1, 1]}, "negative"),
        ({"y": [], "decisions": [], "groups": []}, "there are no rows"),
    ],
)
def test_bad_input_is_named(change, message):
    given = {"y": [0, 1, 1], "decisions": [0, 1, 0], "groups": ["a", "b", "a"], **change}
    with pytest.raises(ValueError, match=re.escape(message)):
        trust.fairness(**given)


def test_one_group_and_scores_that_are_no_probabilities_cannot_be_judged():
    y, d, groups = people(400)
    assert "one group only" in trust.fairness(y, d, np.ones(400)).certificate_["independence"].note
    found = trust.fairness(y, d, groups, scores=np.linspace(-3, 3, 400)).certificate_
    assert "no probabilities" in found["calibrated_by_group"].note


def test_certify_refuses_what_has_no_decisions():
    X = np.random.default_rng(0).standard_normal((50, 3))
    with pytest.raises(TypeError, match="has no predict"):
        lemmata.certify(lemmata.PCA(2).fit(X), X, np.ones(50), groups=np.ones(50))
    with pytest.raises(ValueError, match="pass y"):
        lemmata.certify(DummyClassifier().fit(X, np.ones(50)), X, groups=np.ones(50))


# --- real data --------------------------------------------------------------------------------------------------------


def test_compas_after_the_filter_of_propublica():
    try:
        people = data.compas()
    except data.DataNotFound as error:
        pytest.skip(str(error))
    assert people.X.shape == (6172, 8)
    found = trust.fairness(people.y, people.X[:, -1] > 4, people.groups["race"])
    gaps = found.between("African-American", "Caucasian")
    measured = {name: round(gap.gap, 3) for name, gap in gaps.items()}
    assert measured["acceptance"] == 0.245
    assert (measured["TPR"], measured["FPR"], measured["PPV"]) == (0.212, 0.203, 0.055)
    assert measured["base rate"] == 0.132
    assert min(gaps[name].lower for name in ("acceptance", "TPR", "FPR")) > 0.1
    assert gaps["PPV"].lower < 0.1 < gaps["PPV"].upper
    assert found.certificate_.failed == ["independence", "separation"]
    assert "African-American" in str(found)
    assert len(found.plot().get_yticks()) == 6


def test_adult_has_both_parts_and_its_groups_apart():
    try:
        train, test = data.adult("train"), data.adult("test")
    except data.DataNotFound as error:
        pytest.skip(str(error))
    assert (len(train), train.y.sum(), len(test), test.y.sum()) == (32_561, 7841, 16_281, 3846)
    assert train.features == test.features
    assert not any(name.startswith(("sex", "race")) for name in train.features)
    assert (train.groups["sex"] == "Female").sum() == 10_771
