"""MLPClassifier and MLPRegressor: agreement with scikit-learn's, resuming, early stopping, weights, files, bad input."""

import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import neural_network
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.preprocessing import StandardScaler

import lemmata
from lemmata import MLPClassifier, MLPRegressor
from lemmata.core import Diverged, MaxSteps, run
from lemmata.nets.mlp import MLPQuasiNewton, network
from lemmata.optim import Adam, Cosine

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
CLASSIFIERS = (MLPClassifier, neural_network.MLPClassifier)
REGRESSORS = (MLPRegressor, neural_network.MLPRegressor)


def scaled(load, rows=None):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X)[:rows], y[:rows]


def from_the_same_weights(classes, X, y, sample_weight=None, **parameters):
    """Ours and scikit-learn's, trained from the weights that scikit-learn draws."""
    ours, theirs = (
        one(warm_start=True, shuffle=False, random_state=0, **{**parameters, "max_iter": 1})
        for one in classes
    )
    theirs.fit(X, y)
    drawn = np.random.default_rng(0)
    coefs = [0.3 * drawn.standard_normal(part.shape) for part in theirs.coefs_]
    intercepts = [0.1 * drawn.standard_normal(part.shape) for part in theirs.intercepts_]
    with lemmata.config(certificate=False):
        for model in (ours.fit(X, y), theirs):
            model.coefs_ = [part.copy() for part in coefs]
            model.intercepts_ = [part.copy() for part in intercepts]
            model.t_ = 0  # scikit-learn's warm start counts on
            model.set_params(**parameters)
            model.fit(X, y, sample_weight=sample_weight)
    return ours, theirs


def assert_same_layers(ours, theirs, rtol=1e-7):
    for mine, other in zip(
        ours.coefs_ + ours.intercepts_, theirs.coefs_ + theirs.intercepts_, strict=True
    ):
        assert_allclose(mine, other, rtol=rtol, atol=rtol)


# --- agreement with scikit-learn --------------------------------------------------------------------------------------


NESTEROV = {"solver": "sgd", "learning_rate_init": 0.05}
HEAVY = {"solver": "sgd", "nesterovs_momentum": False, "momentum": 0.5, "learning_rate": "invscaling"}  # fmt: skip


@pytest.mark.parametrize(
    ("activation", "settings"),
    [
        ("identity", NESTEROV),
        ("relu", NESTEROV),
        ("logistic", HEAVY),
        ("tanh", HEAVY),
        ("relu", {"solver": "adam"}),
        ("logistic", {"solver": "adam"}),
    ],
    ids=["identity-nesterov", "relu-nesterov", "logistic-heavy", "tanh-heavy", "relu-adam", "logistic-adam"],
)  # fmt: skip
def test_the_same_batches_give_the_weights_of_scikit_learn(activation, settings):
    settings = {
        **settings,
        "activation": activation,
        "hidden_layer_sizes": (7, 5),
        "batch_size": 40,
        "max_iter": 5,
    }
    for classes, (X, y) in (
        (CLASSIFIERS, scaled(load_iris)),
        (CLASSIFIERS, scaled(load_breast_cancer, 130)),
        (
            REGRESSORS,
            (scaled(load_diabetes, 130)[0], np.random.default_rng(0).normal(size=(130, 2))),
        ),
    ):
        ours, theirs = from_the_same_weights(classes, X, y, alpha=0.5, **settings)
        # Adam's ε is added before the correction there, and after it here
        assert_same_layers(ours, theirs, 1e-4 if settings["solver"] == "adam" else 1e-8)
        assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-3)
        assert (ours.out_activation_, ours.n_layers_, ours.n_outputs_) == (
            theirs.out_activation_, theirs.n_layers_, theirs.n_outputs_,
        )  # fmt: skip


@pytest.mark.parametrize("weighted", [False, True])
def test_lbfgs_takes_the_steps_of_scikit_learn(weighted):
    X, y = scaled(load_iris)
    s = np.random.default_rng(0).random(len(X)) if weighted else None
    for classes, targets in ((CLASSIFIERS, y), (REGRESSORS, X[:, 0] * X[:, 1] + y)):
        ours, theirs = from_the_same_weights(
            classes, X, targets, s, solver="lbfgs", hidden_layer_sizes=(6,), activation="tanh", alpha=0.1, max_iter=25
        )  # fmt: skip
        assert ours.n_iter_ == theirs.n_iter_
        assert_allclose(ours.loss_, theirs.loss_, rtol=1e-7)
        assert_same_layers(ours, theirs, 1e-4)
        assert len(ours.loss_curve_) == ours.n_iter_ == len(ours.trace_) - 1


def test_counts_are_fitted_by_their_deviance_as_there():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    ours, theirs = from_the_same_weights(
        REGRESSORS, X, y, loss="poisson", solver="lbfgs", hidden_layer_sizes=(5,), activation="tanh", max_iter=20
    )  # fmt: skip
    assert_allclose(ours.loss_, theirs.loss_, rtol=1e-6)
    assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-2)
    assert ours.out_activation_ == theirs.out_activation_ == "exp"


def test_several_labels_at_once_are_logistic_outputs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    Y = (X[:, :3] + 0.2 * rng.normal(size=(150, 3)) > 0).astype(int)
    ours, theirs = from_the_same_weights(
        CLASSIFIERS, X, Y, solver="lbfgs", hidden_layer_sizes=(5,), max_iter=15
    )
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)
    assert ours.predict(X).shape == Y.shape
    assert ours.score(X, Y) > 0.8
    assert ours.certify(X, Y)["statements_true"].verdict == "holds"
    with pytest.raises(ValueError, match="columns of labels"):
        ours.certify(X, Y[:, :2])


def test_probabilities_and_their_logarithms_agree_and_never_are_minus_infinity():
    X, y = scaled(load_iris)
    for labels in (y, y == 2):
        model = MLPClassifier((5,), solver="lbfgs", alpha=0, max_iter=60, random_state=0).fit(
            30 * X, labels
        )
        p, logs = model.predict_proba(30 * X), model.predict_log_proba(30 * X)
        assert_allclose(p.sum(axis=1), 1)
        assert_allclose(np.exp(logs), p, atol=1e-12)
        assert np.isfinite(logs).all()
        assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(30 * X))


# --- how a run goes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": "sgd", "learning_rate": "adaptive", "tol": 0.1, "n_iter_no_change": 1},
        {"early_stopping": True, "solver": "rmsprop"},
        {"solver": Adam(Cosine(1e-2, steps=100))},
        {"solver": "lbfgs"},
    ],
    ids=["adaptive", "early stopping", "cosine", "lbfgs"],
)
def test_a_fit_that_was_stopped_goes_on_to_the_same_bits(settings, tmp_path):
    X, y = scaled(load_digits, 300)
    settings = {"hidden_layer_sizes": (8,), "batch_size": 64, "random_state": 3, **settings}
    whole = MLPClassifier(max_iter=8, **settings).fit(X, y)
    path = tmp_path / "run.ckpt"
    first = 8 if settings.get("solver") == "lbfgs" else 3
    MLPClassifier(max_iter=first, checkpoint=path, **settings).fit(X, y)
    resumed = MLPClassifier(max_iter=8, checkpoint=path, **settings).fit(X, y)
    for mine, other in zip(
        resumed.coefs_ + resumed.intercepts_, whole.coefs_ + whole.intercepts_, strict=True
    ):
        assert mine.tobytes() == other.tobytes()
    assert resumed.loss_curve_ == whole.loss_curve_
    with pytest.raises(ValueError, match=r"alpha: 0\.0001 in the checkpoint, 1\.0 now"):
        MLPClassifier(max_iter=8, checkpoint=path, **{**settings, "alpha": 1.0}).fit(X, y)


def test_early_stopping_keeps_the_best_epoch_and_says_which_rows_it_looked_at():
    X, y = scaled(load_digits, 500)
    model = MLPClassifier(
        (20,), early_stopping=True, n_iter_no_change=3, learning_rate_init=0.02, random_state=1
    ).fit(X, y)
    held = model.validation_rows_
    assert len(held) == 50
    assert np.bincount(y[held]).min() >= 4  # stratified
    assert_allclose(accuracy_score(y[held], model.predict(X[held])), model.best_validation_score_)
    assert model.best_validation_score_ == max(model.validation_scores_)
    assert len(model.validation_scores_) == model.n_iter_ < 200
    assert model.best_loss_ is None
    assert model.stopped_ == "settled"
    best = int(np.argmax(model.validation_scores_))
    assert model.loss_ == model.loss_curve_[best]
    R = MLPRegressor(
        hidden_layer_sizes=(5,),
        early_stopping=True,
        max_iter=20,
        learning_rate_init=0.01,
        random_state=0,
    ).fit(X, y)
    held = R.validation_rows_
    assert_allclose(r2_score(y[held], R.predict(X[held])), R.best_validation_score_)


def test_progress_that_ends_lowers_the_rate_to_a_fifth_and_at_last_stops():
    X, y = scaled(load_iris)
    model = MLPClassifier(
        (4,), solver="sgd", learning_rate="adaptive", learning_rate_init=0.1, tol=0.05, n_iter_no_change=1, random_state=0
    ).fit(X, y)  # fmt: skip
    rates = model.trace_.extras["rate"]
    steps = rates[1:] / rates[:-1]
    assert set(np.round(steps, 12)) == {1.0, 0.2}
    assert model.stopped_ == "settled"
    assert rates[-1] <= 1e-6


def test_a_run_that_leaves_the_finite_numbers_is_undone_and_says_what_to_change():
    X, y = scaled(load_diabetes)
    with pytest.warns(Diverged, match="learning_rate_init"):
        model = MLPRegressor(solver="sgd", learning_rate_init=1e6, random_state=0).fit(X, y)
    assert model.stopped_ == "diverged"
    assert all(np.isfinite(part).all() for part in model.coefs_)


def test_batches_that_come_one_by_one_are_epochs_of_one_optimiser(tmp_path):
    X, y = scaled(load_digits, 400)
    whole = MLPClassifier((10,), max_iter=6, shuffle=False, tol=0, random_state=0).fit(X, y)
    parts = MLPClassifier((10,), shuffle=False, random_state=0)
    for _ in range(6):
        parts.partial_fit(X, y, classes=np.arange(10))
    assert_same_layers(parts, whole, 1e-12)
    assert parts.stopped_ == "batches"
    assert (parts.n_iter_, parts.t_) == (6, 6 * 400)
    assert_allclose(parts.loss_curve_, whole.loss_curve_, rtol=1e-12)
    assert parts.certificate_["attributes_sound"].verdict == "holds"
    some = MLPClassifier((10,), random_state=0).partial_fit(
        X[:50], np.zeros(50, int), classes=[0, 7]
    )
    assert_array_equal(some.classes_, [0, 7])
    with pytest.raises(ValueError, match="label 3"):
        some.partial_fit(X[:2], [0, 3])
    with pytest.raises(ValueError, match="not the same as on last call"):
        some.partial_fit(X[:2], [0, 7], classes=[0, 8])
    assert not hasattr(MLPClassifier(solver="lbfgs"), "partial_fit")


def test_one_step_of_the_algorithm_is_one_epoch_and_leaves_the_state_alone():
    X, y = scaled(load_iris)
    model = MLPClassifier((4,), batch_size=30, random_state=0)
    data = model._validate_pair(X, y)
    algorithm, sample = model._algorithm(data), model._problem(data)
    state = run(algorithm, sample, stop=MaxSteps(2), rng=0).state
    assert (state.epoch, state.updates) == (2, 10)


# --- the objective ----------------------------------------------------------------------------------------------------


def test_weight_decay_leaves_biases_alone():
    """Targets of 5 on rows of 0: the bias is all that helps, and α must not hold it back."""
    X, y = np.zeros((50, 2)), np.full(50, 5.0) + np.linspace(-1, 1, 50)
    model = MLPRegressor(hidden_layer_sizes=(), solver="lbfgs", alpha=1e6, random_state=0).fit(X, y)
    assert_allclose(model.intercepts_[0], 5.0, rtol=1e-5)
    assert_allclose(model.coefs_[0], 0.0, atol=1e-6)


def test_a_network_without_hidden_layers_is_ridge_and_logistic_regression():
    X, y = scaled(load_diabetes)
    flat = MLPRegressor(
        hidden_layer_sizes=(), solver="lbfgs", alpha=3.0, tol=1e-8, max_iter=2000, random_state=0
    ).fit(X, y)
    ridge = lemmata.Ridge(alpha=3.0).fit(X, y)
    assert_allclose(flat.coefs_[0][:, 0], ridge.coef_, rtol=1e-3, atol=1e-3)
    labels = y > 150
    flat = MLPClassifier(
        (), solver="lbfgs", alpha=3.0, tol=1e-8, max_iter=2000, random_state=0
    ).fit(X, labels)
    logistic = lemmata.LogisticRegression(C=1 / 3).fit(X, labels)
    assert_allclose(flat.coefs_[0][:, 0], logistic.coef_[0], rtol=1e-3, atol=1e-4)


def test_weights_of_rows_and_classes_are_repetitions():
    X, y = scaled(load_iris)
    settings = {"hidden_layer_sizes": (4,), "solver": "lbfgs", "max_iter": 15, "random_state": 0}
    s = np.where(y == 1, 3, 1)
    repeated = MLPClassifier(**settings).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    weighted = MLPClassifier(**settings).fit(X, y, sample_weight=s)
    by_class = MLPClassifier(**settings, class_weight={1: 3}).fit(X, y)
    assert_same_layers(weighted, repeated, 1e-5)
    assert_same_layers(by_class, weighted, 1e-9)
    few = np.r_[np.arange(50), np.arange(50, 60), np.arange(100, 150)]
    counts = np.bincount(y[few])
    balanced = MLPClassifier(**settings, class_weight="balanced").fit(X[few], y[few])
    as_rows = MLPClassifier(**settings).fit(
        X[few], y[few], sample_weight=(110 / (3 * counts))[y[few]]
    )
    assert_same_layers(balanced, as_rows, 1e-9)
    for model, weights in ((by_class, None), (weighted, s)):
        assert model.certify(X, y, weights)["statements_true"].verdict == "holds"


def test_batches_without_weight_are_no_division_by_zero():
    X, y = scaled(load_iris)
    s = np.where(np.arange(150) < 10, 0.0, 1.0)
    model = MLPClassifier((4,), batch_size=10, shuffle=False, max_iter=5, random_state=0).fit(
        X, y, sample_weight=s
    )
    assert np.isfinite(model.loss_)


def test_a_file_gives_the_model_back_and_refuses_layers_that_do_not_fit(tmp_path):
    X, y = scaled(load_iris)
    model = MLPClassifier((4, 3), max_iter=5, early_stopping=True, random_state=0).fit(X, y)
    lemmata.save(model, tmp_path / "m.lemma")
    back = lemmata.load(tmp_path / "m.lemma")
    assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.validation_scores_ == model.validation_scores_
    model.coefs_[1] = model.coefs_[1][:-1]
    lemmata.save(model, tmp_path / "bad.lemma")
    with pytest.raises(ValueError, match="a layer of 4 inputs has weights"):
        lemmata.load(tmp_path / "bad.lemma")


# --- quality ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("load", [load_digits, load_breast_cancer, load_iris])
def test_defaults_predict_as_well_as_scikit_learns(load):
    from sklearn.model_selection import cross_val_score

    X, y = scaled(load)

    def mean(one):
        return np.mean([cross_val_score(one(random_state=s), X, y, cv=5).mean() for s in range(3)])

    ours, theirs = map(mean, CLASSIFIERS)
    assert ours > theirs - 0.01


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_layer_sizes": (5, 0)}, "hidden_layer_sizes"),
        ({"hidden_layer_sizes": (2.5,)}, "hidden_layer_sizes"),
        ({"solver": "adamw"}, "solver='adamw' is neither one of adagrad"),
        ({"solver": 3}, "nor an optimiser of lemmata.optim"),
        ({"early_stopping": True, "validation_fraction": 0.001}, "test_size|two or more"),
    ],
)
def test_impossible_parameters_are_refused(settings, message):
    X, y = scaled(load_iris)
    with pytest.raises(ValueError, match=message):
        MLPClassifier(**settings).fit(X, y)


def test_other_slips_are_told():
    X, y = scaled(load_iris)
    with pytest.warns(UserWarning, match="batch_size=500 exceeds the 150 rows"):
        MLPClassifier((3,), batch_size=500, max_iter=2).fit(X, y)
    model = MLPClassifier((3,), max_iter=2, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="has weights of shapes"):
        model.set_params(hidden_layer_sizes=(4,)).fit(X, y)
    with pytest.raises(ValueError, match="has weights of shapes"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="same classes"):
        model.set_params(hidden_layer_sizes=(3,)).fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="early_stopping=True"):
        MLPClassifier(early_stopping=True).partial_fit(X, y)
    with pytest.raises(ValueError, match="pass y >= 0"):
        MLPRegressor("poisson").fit(X, y - 1.0)
    with pytest.raises(ValueError, match="sample_weight for an indicator"):
        MLPClassifier(class_weight="balanced").fit(
            X, np.eye(3, dtype=int)[y] | np.eye(3, dtype=int)[y - 1]
        )
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        MLPClassifier((3,), max_iter=2).fit(X, y)
    assert [w.category for w in heard] == [ConvergenceWarning]


def test_lbfgs_refuses_a_first_step_that_is_too_long(monkeypatch):
    """A line through columns of hundreds: its loss curves by 10⁵, and a first step of length 1 is far beyond the minimum."""
    x = 300 * np.linspace(-1, 1, 40)
    X, y = x[:, None], 0.01 * x + 1
    tried, of = [], MLPQuasiNewton._function

    def watched(self, theta, data):
        found = of(self, theta, data)
        tried.append(found[0])
        return found

    monkeypatch.setattr(MLPQuasiNewton, "_function", watched)
    options = {"hidden_layer_sizes": (), "solver": "lbfgs", "alpha": 0.0, "tol": 1e-10}
    model = MLPRegressor(max_iter=500, random_state=0, **options).fit(X, y)
    steps = model.trace_.objective
    assert max(tried) > steps[0] > steps[-1]
    assert model.trace_.largest_rise == 0
    assert_allclose([model.coefs_[0][0, 0], model.intercepts_[0][0]], [0.01, 1.0], rtol=1e-4)


def test_rows_of_a_batch_are_shared_by_threads_without_changing_a_bit(monkeypatch):
    X, y = load_digits(return_X_y=True)
    fit = partial(MLPClassifier((20,), max_iter=3, batch_size=100, random_state=0).fit, X / 16, y)
    whole = fit().loss_
    monkeypatch.setattr(network, "SIDE_BY_SIDE", 1000)
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        found.append(fit().coefs_[0])
    assert_array_equal(*found)
    assert_allclose(fit().loss_, whole, rtol=1e-9)
