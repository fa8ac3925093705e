"""evaluate, compare and cross_validate: their numbers, what they refuse, and what they say of it."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GroupKFold, TimeSeriesSplit, train_test_split
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import lemmata
from lemmata import trust


@pytest.fixture(scope="module")
def cancer():
    return train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)


@pytest.fixture(scope="module")
def logistic(cancer):
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(cancer[0], cancer[2])


# --- one model --------------------------------------------------------------------------------------------------------


def test_accuracy_has_the_exact_interval(cancer, logistic):
    _, X_test, _, y_test = cancer
    found = trust.evaluate(logistic, X_test, y_test)
    hits = int((logistic.predict(X_test) == y_test).sum())
    exact = binomtest(hits, len(y_test)).proportion_ci(0.95, method="exact")
    assert (found.score, found.lower, found.upper) == pytest.approx((hits / len(y_test), exact.low, exact.high))  # fmt: skip
    assert "Clopper–Pearson" in str(found)
    assert found.plot().get_yticklabels()[0].get_text() == "accuracy"


def test_rows_that_are_passed_again_and_again_narrow_no_interval(cancer, logistic):
    X, X_test, _, y_test = cancer
    again = np.tile(np.arange(10), 50)
    found = trust.evaluate(logistic, X_test[again], y_test[again], target=0.9, train=X)
    assert "490 of 500 rows are copies" in str(found)
    assert {"enough_rows", "target_reached"} <= set(found.certificate_.undecided)
    chosen = trust.compare({"a": logistic, "b": logistic}, X_test[again], y_test[again])
    assert "good_choice" in chosen.certificate_.undecided


def test_rows_that_were_trained_on_void_the_interval(cancer):
    X, X_test, y, y_test = cancer
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    honest = trust.evaluate(forest, X_test, y_test, train=X)
    assert honest.certificate_["rows_unseen"].verdict == "holds"
    found = trust.evaluate(forest, X, y, train=X)
    assert found.certificate_.failed == ["rows_unseen"]
    assert (found.lower, found.upper) == (-np.inf, np.inf)
    assert "trained on" in str(found)


@pytest.mark.parametrize(
    "model",
    [
        KNeighborsClassifier(),
        make_pipeline(StandardScaler(), KNeighborsClassifier()),
        SVC(),
        make_pipeline(StandardScaler(), SVC(C=0.1)),
    ],
    ids=str,
)
def test_models_that_keep_rows_are_asked_for_them(model, cancer):
    X, X_test, y, y_test = cancer
    model.fit(X, y)
    assert "rows_unseen" in trust.evaluate(model, X, y).certificate_.failed
    assert "rows_unseen" not in trust.evaluate(model, X_test, y_test).certificate_.failed


def test_our_fits_know_their_training_rows_by_their_digest(cancer):
    X, X_test, y, y_test = cancer
    for model in (
        lemmata.LogisticRegression(),
        make_pipeline(StandardScaler(), lemmata.LogisticRegression()),
    ):
        model.fit(X, y)
        assert trust.evaluate(model, X, y).certificate_.failed == ["rows_unseen"]
        found = trust.evaluate(model, X_test, y_test)
        assert found.certificate_["rows_unseen"].verdict == "can't tell"  # some of them may be
        assert "if none of them was trained on" in str(found)


def test_unbounded_losses_say_nothing_about_new_rows():
    X, X_test, y, y_test = train_test_split(
        *load_diabetes(return_X_y=True), test_size=0.6, random_state=0
    )
    model = LinearRegression().fit(X, y)
    found = trust.evaluate(model, X_test, y_test)
    assert (found.upper, found.method) == (np.inf, "none")
    assert "can't tell" in str(found)
    assert not found.certificate_.failed
    # a range that was known beforehand: these scores are between 25 and 346
    known = trust.evaluate(
        model, X_test, y_test, loss="absolute", bounds=(0, 346 - 25), train=X, train_y=y, target=60.0
    )  # fmt: skip
    assert known.lower < known.score < known.upper < 60
    assert {"target_reached", "better_than_constant"} <= set(known.certificate_.held)
    assert "outside" in trust.evaluate(model, X_test, y_test, bounds=(0, 10)).why


def test_losses_by_name_and_by_function(cancer, logistic):
    _, X_test, _, y_test = cancer
    brier = trust.evaluate(logistic, X_test, y_test, loss="brier")
    own = trust.evaluate(logistic, X_test, y_test, loss=lambda y, f: y != f, bounds=(0, 1))
    assert brier.upper < 0.2
    assert own.score == pytest.approx(1 - trust.evaluate(logistic, X_test, y_test).score)
    assert trust.evaluate(logistic, X_test, y_test, loss="log").why
    with pytest.raises(ValueError, match="loss='hinge' is not known"):
        trust.evaluate(logistic, X_test, y_test, loss="hinge")


def test_targets_and_constants(cancer, logistic):
    X, X_test, y, y_test = cancer
    name, known = "better_than_constant", {"train": X, "train_y": y}
    for target, verdict in ((0.85, "holds"), (0.999, "fails")):
        found = trust.evaluate(logistic, X_test, y_test, target=target, **known)
        assert found.certificate_["target_reached"].verdict == verdict
    always = DummyClassifier().fit(X, y)
    found = trust.evaluate(always, X_test, y_test, **known)
    assert found.certificate_[name].verdict == "can't tell"
    wrong = DummyClassifier(strategy="constant", constant=0).fit(X, y)
    found = trust.evaluate(wrong, X, y, train=X_test, train_y=y_test)
    assert found.certificate_[name].verdict == "fails"
    mean = DummyRegressor().fit(X, y)
    found = trust.evaluate(mean, X_test, y_test, bounds=(0, 1), **known)
    assert found.certificate_[name].verdict == "can't tell"


def test_a_constant_is_not_better_than_constants_where_frequencies_changed(cancer):
    X, X_test, y, y_test = cancer
    often = np.flatnonzero(y_test == 0)
    rows, known = np.r_[often, np.flatnonzero(y_test)[:5]], {"train": X, "train_y": y}
    model = DummyClassifier(strategy="constant", constant=0).fit(X, y)  # class 1 is the usual one
    for found in (
        trust.evaluate(model, X_test[rows], y_test[rows], **known),
        trust.evaluate(DummyRegressor(strategy="constant", constant=0.1).fit(X, y), X_test[rows],
                       y_test[rows], bounds=(0, 1), **known),
    ):  # fmt: skip
        assert found.certificate_["better_than_constant"].verdict != "holds"


def test_nothing_is_said_of_new_rows_where_nobody_knows_that_they_are_new(cancer, logistic):
    _, X_test, _, y_test = cancer
    found = trust.evaluate(logistic, X_test, y_test, target=0.85).certificate_
    assert found.undecided == ["rows_unseen", "enough_rows", "target_reached", "better_than_constant"]  # fmt: skip
    assert "train=X_train" in found["enough_rows"].note


def test_weights_frames_and_texts(cancer, logistic):
    _, X_test, _, y_test = cancer
    weights = np.linspace(0.1, 2, len(y_test))
    found = trust.evaluate(logistic, X_test, y_test, sample_weight=weights)
    right = logistic.predict(X_test) == y_test
    assert found.score == pytest.approx(np.average(right, weights=weights))
    assert found.method == "Hoeffding, Σw²"
    frame = pd.DataFrame(X_test, columns=[f"x{i}" for i in range(30)])
    named = DecisionTreeClassifier(random_state=0).fit(frame, y_test)
    assert "rows_unseen" in trust.evaluate(named, frame, y_test, train=frame).certificate_.failed
    texts = [f"{word} film {i}" for i in range(20) for word in ("good", "bad")]
    labels = np.tile(["yes", "no"], 20)
    model = make_pipeline(CountVectorizer(), MultinomialNB()).fit(texts, labels)
    assert trust.evaluate(model, texts, labels, train=texts).certificate_.failed == ["rows_unseen"]


def test_bad_input_is_named(cancer, logistic):
    _, X_test, _, y_test = cancer
    with pytest.raises(ValueError, match="inconsistent numbers"):
        trust.evaluate(logistic, X_test, y_test[:-1])
    with pytest.raises(ValueError, match="sample_weight"):
        trust.evaluate(logistic, X_test, y_test, sample_weight=-np.ones(len(y_test)))
    with pytest.raises(ValueError, match="low < high"):
        trust.evaluate(logistic, X_test, y_test, bounds=(1, 0))
    with pytest.raises(ValueError, match="delta"):
        trust.evaluate(logistic, X_test, y_test, delta=5)


# --- several models ---------------------------------------------------------------------------------------------------


def test_the_best_is_picked_with_a_guarantee(cancer, logistic):
    X, X_test, y, y_test = cancer
    models = {"logistic": logistic, "always": DummyClassifier().fit(X, y)}
    found = trust.compare(models, X_test, y_test, train=X)
    assert (found.chosen, found.best, found.told_apart) == ("logistic", logistic, ["always"])
    assert "best_alone" in found.certificate_.held
    assert 0 <= found.regret <= 2 * found.eps
    assert "logistic is best" in str(found)
    assert found.plot() is not None
    same = trust.compare([logistic, logistic], X_test, y_test)
    assert list(same.scores) == ["Pipeline 0", "Pipeline 1"]
    assert same.certificate_["best_alone"].verdict == "can't tell"


def test_a_choice_without_a_range_is_refused(cancer):
    X, X_test, y, y_test = cancer
    models = [LinearRegression().fit(X, y), DummyRegressor().fit(X, y)]
    with pytest.raises(ValueError, match="no range of its own"):
        trust.compare(models, X_test, y_test)
    with pytest.raises(ValueError, match="outside of bounds"):
        trust.compare(models, X_test, y_test, bounds=(0, 0.01))
    assert trust.compare(models, X_test, y_test, bounds=(0, 4)).chosen == "LinearRegression"
    with pytest.raises(ValueError, match="models is empty"):
        trust.compare([], X_test, y_test)


# --- folds ------------------------------------------------------------------------------------------------------------


def test_cross_validation_is_scikit_learns_with_a_statement():
    from sklearn.model_selection import cross_val_score

    X, y = load_breast_cancer(return_X_y=True)
    tree = DecisionTreeClassifier(random_state=0)
    found = trust.cross_validate(tree, X, y)
    np.testing.assert_allclose(found.scores, cross_val_score(tree, X, y))
    assert found.certificate_["folds_unseen"].verdict == "holds"
    assert found.score - found.lower == pytest.approx(trust.hoeffding(113))
    assert "no confidence interval" in str(found)
    assert found.plot() is not None


def test_any_splitter_and_what_leaks():
    X, y = load_iris(return_X_y=True)
    model, groups = KNeighborsClassifier(), np.repeat(np.arange(15), 10)
    assert len(trust.cross_validate(model, X, y, GroupKFold(5), groups=groups).scores) == 5
    rows = np.random.default_rng(0).permutation(150)
    assert len(trust.cross_validate(model, X[rows], y[rows], TimeSeriesSplit(3)).scores) == 3
    leak = [(rows[:100], rows[50:])]
    found = trust.cross_validate(model, X, y, leak)
    assert found.certificate_.failed == ["folds_unseen"]
    assert found.why


def test_a_choice_among_models_that_have_seen_the_rows_is_none(cancer):
    X, X_test, y, y_test = cancer
    models = {k: KNeighborsClassifier(k).fit(X, y) for k in (1, 9)}
    found = trust.compare(models, X, y)
    assert found.chosen == 1  # which knows them by heart
    assert found.certificate_.failed == ["candidates_unseen"]
    assert "can't tell" in str(found)
    assert (
        trust.compare(models, X_test, y_test).certificate_["candidates_unseen"].verdict == "holds"
    )
