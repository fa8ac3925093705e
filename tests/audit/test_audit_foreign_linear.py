"""Linear fits of other libraries: the objective is theirs, what is not known is refused by name."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import (
    ElasticNetCV,
    LassoCV,
    LinearRegression,
    LogisticRegression,
    RidgeCV,
    SGDClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from lemmata import certify

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(0).integers(0, 4, 442) + 0.0


def near(model, X, y, w=None):
    return certify(model, X, y, w)["near_optimum"].verdict


def test_cross_validated_fits_of_scikit_learn(diabetes):
    X, y = diabetes
    for model in (
        LassoCV(alphas=20),
        ElasticNetCV(l1_ratio=[0.2, 0.9], alphas=20),
        RidgeCV(np.logspace(-3, 3, 13)),
    ):
        found = certify(model.fit(X, y), X, y)
        assert {"near_optimum", "first_order_point", "statements_true"} <= set(found.held)


LOSSES = ["log_loss", "squared_hinge", "modified_huber", "squared_error"]


@pytest.mark.parametrize("loss", LOSSES)
def test_sgd_with_patience_reaches_the_objective_named(wine, loss):
    """A mean over rows plus α: with another scaling the fit would be far off."""
    X, y = wine
    settings = {"alpha": 0.3, "learning_rate": "adaptive", "eta0": 0.002, "tol": 1e-7}
    model = SGDClassifier(loss=loss, max_iter=20_000, random_state=0, **settings, penalty="elasticnet")  # fmt: skip
    model.fit(X, y)
    assert near(model, X, y) == "holds"
    model.alpha *= 2
    assert near(model, X, y) == "fails"


def test_sgd_by_default_is_off_and_the_certificate_says_by_how_much(wine):
    X, y = wine
    found = certify(SGDClassifier(random_state=0).fit(X, y), X, y)["near_optimum"]
    assert found.verdict == "fails"
    assert "at least" in found.note


@pytest.mark.parametrize("loss", ["perceptron", "huber", "epsilon_insensitive"])
def test_losses_without_a_best_fit_are_refused(wine, loss):
    X, y = wine
    with pytest.raises(ValueError, match=r"least at w = 0|regresses on ±1"):
        certify(SGDClassifier(loss=loss).fit(X, y), X, y)


@pytest.mark.parametrize("weighted", [None, "balanced", {0: 3.0, 2: 0.2}])
def test_class_weights_are_those_of_scikit_learn(wine, weighted):
    X, y = wine
    w = np.random.default_rng(0).random(len(y)) + 0.1
    models = [
        LogisticRegression(class_weight=weighted, C=0.1, tol=1e-8, max_iter=1000),
        LinearSVC(class_weight=weighted, C=0.01, tol=1e-8, dual=False),
    ]
    for model in models:
        model.fit(X, y, sample_weight=w)
        assert near(model, X, y, w) == "holds"
        assert near(model, X, y) == "fails"  # without its weights
    two = y != 1
    binary = LogisticRegression(class_weight=weighted, solver="liblinear", C=0.1, tol=1e-8)
    assert near(binary.fit(X[two], y[two], w[two]), X[two], y[two], w[two]) == "holds"


def test_crammer_and_singer_minimise_something_else(wine):
    X, y = wine
    with pytest.raises(ValueError, match="crammer_singer"):
        certify(LinearSVC(multi_class="crammer_singer", C=0.01).fit(X, y), X, y)


def test_a_pipeline_is_certified_by_its_last_step(diabetes):
    X, y = diabetes
    model = make_pipeline(StandardScaler(), LassoCV(alphas=10)).fit(X, y)
    assert certify(model, X, y).title.startswith("sklearn LassoCV")


def test_labels_of_any_type(wine):
    X, y = wine
    names = np.array(["barolo", "grignolino", "barbera"])[y]
    model = LogisticRegression(tol=1e-8, max_iter=1000).fit(X, names)
    assert near(model, X, names) == "holds"
    with pytest.raises(ValueError, match="merlot"):
        certify(model, X, np.where(names == "barolo", "merlot", names))


def test_what_is_asked_for_is_y(diabetes):
    X, y = diabetes
    with pytest.raises(ValueError, match="need y"):
        certify(LinearRegression().fit(X, y), X)


# --- other libraries --------------------------------------------------------------------------------------------------


def test_celer(diabetes):
    X, y = diabetes
    celer = pytest.importorskip("celer")
    judged_by_their_own_objective(
        [celer.Lasso(0.1), celer.Lasso(0.01, weights=np.arange(1.0, 11.0)), celer.ElasticNet(0.1, l1_ratio=0.5)], X, y
    )  # fmt: skip


@pytest.mark.slow  # skglm compiles for minutes
def test_skglm(diabetes):
    X, y = diabetes
    skglm = pytest.importorskip("skglm")
    factors = np.arange(1.0, 11.0)
    models = [skglm.Lasso(0.1), skglm.ElasticNet(0.1), skglm.WeightedLasso(0.01, weights=factors)]
    judged_by_their_own_objective(models, X, y)
    labels = (y > 140).astype(int)
    sparse = skglm.SparseLogisticRegression(0.001).fit(X, labels)
    assert near(sparse, X, labels) == "holds"


def judged_by_their_own_objective(models, X, y):
    for model in models:
        model.fit(X, y)
        assert near(model, X, y) == "holds", model
        model.coef_ = model.coef_ * 1.3
        assert near(model, X, y) == "fails", model


def test_statsmodels(diabetes, weights):
    sm = pytest.importorskip("statsmodels.api")
    X, y = diabetes
    Z = sm.add_constant(X)
    assert certify(sm.OLS(y, Z).fit(), Z, y).failed == []
    assert certify(sm.WLS(y, Z, weights=weights + 1).fit(), Z, y).failed == []
    labels = (y > 140).astype(float)
    found = certify(sm.Logit(labels, Z).fit(disp=0), Z, labels)
    assert {"near_optimum", "first_order_point", "weights_exist"} <= set(found.held)
    hurried = sm.Logit(labels, Z).fit(disp=0, maxiter=1, warn_convergence=False)
    assert near(hurried, Z, labels) == "fails"


@pytest.mark.filterwarnings("ignore:The design matrix", "ignore:X has feature names")
def test_statsmodels_names_its_columns(diabetes):
    sm = pytest.importorskip("statsmodels.api")
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    Z = sm.add_constant(X).assign(again=X["bmi"])
    found = certify(sm.OLS(y, Z).fit(), Z, y)["weights_determined"]
    assert found.verdict == "fails"
    assert "'bmi'" in found.advice


def test_what_statsmodels_minimises_otherwise_is_refused(diabetes):
    sm = pytest.importorskip("statsmodels.api")
    X, y = diabetes
    Z, labels = sm.add_constant(X), (y > 140).astype(float)
    with pytest.raises(ValueError, match="GLS"):
        certify(sm.GLS(y, Z).fit(), Z, y)
    with pytest.raises(ValueError, match="Probit"):
        certify(sm.Probit(labels, Z).fit(disp=0), Z, labels)
