"""Models under scikit-learn's names find what scikit-learn finds, or are nearer to the minimum of the same objective."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn import linear_model as theirs
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import normalize, scale
from sklearn.svm import SVC as TheirSVC

import lemmata

IRIS = load_iris(return_X_y=True)
CANCER = scale(load_breast_cancer().data), load_breast_cancer().target
DATA = pytest.mark.parametrize(("X", "y"), [IRIS, CANCER], ids=["iris", "cancer"])


def fit(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data)


# --- ridge, Huber -----------------------------------------------------------------------------------------------------


@DATA
@pytest.mark.parametrize("settings", [{}, {"class_weight": "balanced", "fit_intercept": False}])
def test_ridge_of_signs_is_scikit_learns(X, y, settings):
    ours = lemmata.RidgeClassifier(**settings).fit(X, y)
    other = theirs.RidgeClassifier(**settings).fit(X, y)
    assert_allclose(ours.coef_, np.atleast_2d(other.coef_), atol=1e-9)
    assert_allclose(ours.decision_function(X), other.decision_function(X), atol=1e-9)
    assert (ours.predict(X) == other.predict(X)).all()
    assert not ours.certify(X, y).failed
    assert not lemmata.certify(other, X, y).failed


def test_weights_of_a_ridge_classifier_count_rows_and_a_wrong_one_is_seen():
    X, y = IRIS
    s = np.arange(len(y)) % 3
    ours = lemmata.RidgeClassifier(class_weight={0: 3.0}).fit(X, y, s)
    assert_allclose(ours.coef_, theirs.RidgeClassifier(class_weight={0: 3.0}).fit(X, y, s).coef_)
    ours.coef_ = 1.1 * ours.coef_
    assert "near_optimum" in ours.certify(X, y, s).failed


def test_huber_is_scikit_learns_at_its_minimum():
    X, y = load_diabetes(return_X_y=True)
    ours = lemmata.HuberRegressor().fit(X, y)
    other = theirs.HuberRegressor(max_iter=100_000, tol=1e-10).fit(X, y)
    assert_allclose(ours.predict(X), other.predict(X), atol=0.02 * ours.scale_)
    assert ours.scale_ == pytest.approx(other.scale_, rel=1e-3)
    assert (ours.outliers_ == other.outliers_).mean() > 0.99
    with pytest.warns(ConvergenceWarning, match="^HuberRegressor reached max_iter=1 "):
        begun = lemmata.HuberRegressor(max_iter=1, warm_start=True).fit(X, y)
    begun.set_params(max_iter=100).fit(X, y)
    assert_allclose(begun.coef_, ours.coef_, rtol=1e-4)


# --- classes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("legacy", [False, True])
@DATA
def test_the_penalty_chosen_is_scikit_learns(X, y, legacy):
    settings = {"Cs": [0.01, 0.1, 1.0], "cv": 3, "l1_ratios": (0.0,), "tol": 1e-8}
    settings["scoring"] = "neg_log_loss"
    X = scale(X)
    ours = lemmata.LogisticRegressionCV(**settings).fit(X, y)
    other = fit(theirs.LogisticRegressionCV(**settings, use_legacy_attributes=legacy), X, y)
    assert (ours.C_, ours.l1_ratio_) == (np.ravel(other.C_)[0], np.ravel(other.l1_ratio_)[0])
    if not legacy:
        assert ours.coefs_paths_.shape == other.coefs_paths_.shape
        assert_allclose(ours.coefs_paths_, other.coefs_paths_, atol=5e-3)
        assert_allclose(ours.scores_, other.scores_, atol=1e-4)
    assert_allclose(ours.predict_proba(X), other.predict_proba(X), atol=1e-3)
    assert ours.score(X, y) == pytest.approx(other.score(X, y), abs=1e-4)
    for model in (ours, other):
        assert not lemmata.certify(model, X, y).failed
    ours.C_ = float(ours.Cs_[0])
    assert "statements_true" in ours.certify(X, y).failed


def test_a_lasso_may_be_chosen_with_weights_and_classes_balanced():
    X, y = CANCER
    s = 1.0 + np.arange(len(y)) % 2
    settings = {"Cs": 3, "cv": 3, "l1_ratios": (0.5, 1.0), "class_weight": "balanced"}
    model = lemmata.LogisticRegressionCV(**settings).fit(X, y, s)
    assert model.scores_.shape == (3, 2, 3)
    same = {"C": model.C_, "l1_ratio": model.l1_ratio_, "class_weight": "balanced"}
    assert_allclose(model.coef_, lemmata.LogisticRegression(**same).fit(X, y, s).coef_, atol=1e-6)
    assert not model.certify(X, y, s).failed
    with pytest.raises(ValueError, match="refit=True"):
        lemmata.LogisticRegressionCV(refit=False).fit(X, y)


@pytest.mark.parametrize("loss", ["hinge", "log_loss", "squared_hinge", "squared_error"])
@DATA
def test_the_minimum_of_scikit_learns_objective_is_reached(X, y, loss):
    X = scale(X) / 3
    settings = {"loss": loss, "alpha": 0.01, "class_weight": "balanced"}
    steps = {"learning_rate": "adaptive", "max_iter": 300, "tol": None, "random_state": 0}
    ours = lemmata.SGDClassifier(**settings, **steps).fit(X, y)
    other = theirs.SGDClassifier(**settings, **steps).fit(X, y)
    assert not ours.certify(X, y).failed
    # steps end near it: within 6 % of the largest weight
    assert np.abs(ours.coef_ - other.coef_).max() < 0.06 * np.abs(ours.coef_).max()
    assert (ours.predict(X) == other.predict(X)).mean() > 0.92
    # and the claim, which is asked of their fit too, sees a worse one
    other.coef_ = 2 * other.coef_
    assert "near_optimum" in lemmata.certify(other, X, y).failed


def test_what_sgd_cannot_do_is_refused_and_probabilities_add_up():
    X, y = IRIS
    with pytest.raises(ValueError, match="has no penalty='l1'"):
        lemmata.SGDClassifier(penalty="l1").fit(X, y)
    with pytest.raises(AttributeError, match="no attribute 'predict_proba'"):
        lemmata.SGDClassifier().fit(X, y).predict_proba(X)
    model = lemmata.SGDClassifier("log_loss", penalty="elasticnet", alpha=1e-3).fit(X, y)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


# --- probabilities of machines ----------------------------------------------------------------------------------------


@DATA
def test_probabilities_are_scikit_learns_within_the_noise_of_their_folds(X, y):
    def probabilities(cls, seed):
        return fit(cls(probability=True, random_state=seed), X, y).predict_proba(X)

    peers = [probabilities(TheirSVC, seed) for seed in range(4)]
    noise = max(np.abs(one - peers[0]).mean() for one in peers[1:])
    ours = probabilities(lemmata.SVC, 0)
    assert min(np.abs(ours - one).mean() for one in peers) <= 1.5 * noise + 1e-3
    assert_allclose(ours.sum(axis=1), 1)
    assert (ours == probabilities(lemmata.SVC, 0)).all()
    assert (ours != probabilities(lemmata.SVC, 1)).any()


def test_probabilities_of_rows_left_out_are_calibrated_and_stored(tmp_path):
    X, y = CANCER
    model = lemmata.SVC(probability=True, random_state=0)
    p = cross_val_predict(model, X, y, cv=3, method="predict_proba")[:, 1]
    assert abs(p.mean() - y.mean()) < 0.02
    assert -np.mean(np.log(np.where(y, p, 1 - p))) < 0.12
    lemmata.save(model.fit(X, y), tmp_path / "m.lemma")
    again = lemmata.load(tmp_path / "m.lemma")
    assert_allclose(again.predict_log_proba(X), model.predict_log_proba(X))
    given = lemmata.SVC(kernel="precomputed", probability=True, random_state=0)
    K = model.kernel_(X, X)
    assert_allclose(given.fit(K, y).predict_proba(K), model.predict_proba(X), atol=1e-3)
    assert not hasattr(model.set_params(probability=False).fit(X, y), "probA_")
    with pytest.raises(AttributeError, match="no attribute 'predict_proba'"):
        model.predict_proba(X)
    with pytest.raises(ValueError, match="two rows of each class"):
        lemmata.SVC(probability=True).fit(X[:9], np.arange(9) == 0)


@pytest.mark.parametrize("name", ["LogisticRegression", "LinearSVC"])
@pytest.mark.parametrize("classes", [2, 5])
def test_on_short_sparse_columns_the_solver_stops_where_the_claim_about_slopes_holds(name, classes):
    """Rows of unit length over many rare words, as tf-idf makes them: ‖x_j‖ is far below √n."""
    rng = np.random.default_rng(0)
    words = sp.random_array((1500, 3000), density=0.01, rng=rng, format="csr")
    X = normalize(words)
    y = (X @ rng.normal(size=(3000, classes)) + 0.1 * rng.normal(size=(1500, classes))).argmax(
        axis=1
    )
    found = getattr(lemmata, name)().fit(X, y).certify(X, y)
    assert {"near_optimum", "first_order_point"} <= set(found.held), found
