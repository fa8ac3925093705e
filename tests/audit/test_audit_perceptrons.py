"""Claims about perceptrons: each holds once and fails once, on our fits and on scikit-learn's."""

import copy

import numpy as np
import pytest
from sklearn import neural_network
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

import lemmata
import lemmata.nets.witness
from lemmata.audit.nets.mlp import MLP_CLAIMS, constant_loss

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X, Y = load_iris(return_X_y=True)
X = StandardScaler().fit_transform(X)
LIBRARIES = {"ours": lemmata, "scikit-learn": neural_network}


@pytest.fixture(params=LIBRARIES)
def library(request):
    return LIBRARIES[request.param]


def fitted(library, kind="Classifier", y=Y, rows=X, **settings):
    settings = {
        "hidden_layer_sizes": (6,),
        "activation": "tanh",
        "solver": "lbfgs",
        "alpha": 0.1,
        **settings,
    }
    return getattr(library, f"MLP{kind}")(random_state=0, **settings).fit(rows, y)


def changed(model, **attributes):
    other = copy.deepcopy(model)
    for name, value in attributes.items():
        setattr(other, name, value)
    return other


def test_a_fit_trained_to_the_end_holds_them_all(library):
    found = lemmata.certify(fitted(library), X, Y)
    assert found.held == [one.name for one in MLP_CLAIMS]


def test_what_was_changed_fails(library):
    model = fitted(library)
    short = [part[:-1] for part in model.intercepts_]
    assert lemmata.certify(changed(model, intercepts_=short), X, Y).failed == ["attributes_sound"]
    assert lemmata.certify(changed(model, n_layers_=4), X, Y).failed == ["attributes_sound"]
    coefs = [1.01 * part for part in model.coefs_]
    assert "statements_true" in lemmata.certify(changed(model, coefs_=coefs), X, Y).failed
    shifted = lemmata.certify(model, X, (Y + 1) % 3)
    assert {"statements_true", "beats_constant"} <= set(shifted.failed)
    turned = changed(model, coefs_=[-part for part in model.coefs_[:1]] + model.coefs_[1:])
    assert {"statements_true", "little_to_gain"} <= set(lemmata.certify(turned, X, Y).failed)


def test_better_weights_are_recomputed_and_never_believed(library, monkeypatch):
    model = fitted(library, max_iter=1)
    found = lemmata.certify(model, X, Y)["little_to_gain"]
    assert (found.verdict, len(found.witness["weights"])) == ("fails", 4 * 6 + 6 * 3 + 6 + 3)
    searches = {
        "holds": lambda fit, *_: [0 * part + 1e3 for part in (*fit.coefs_, *fit.intercepts_)],
        "can't tell": lambda fit, *_: [*fit.coefs_, *fit.intercepts_, fit.coefs_[0]],
    }
    for verdict, search in searches.items():
        monkeypatch.setattr(lemmata.nets.witness, "better_network_weights", search)
        assert lemmata.certify(fitted(library), X, Y)["little_to_gain"].verdict == verdict
    with lemmata.config(searches=False):
        off = lemmata.certify(model, X, Y)["little_to_gain"]
    assert (off.verdict, "switched off" in off.note) == ("can't tell", True)


def test_a_fit_that_hardly_began_has_much_to_gain_in_any_unit(library):
    for unit in (1.0, 1e-3, 1e5):
        early = fitted(library, rows=X * unit, solver="adam", max_iter=1, alpha=0.0)
        assert "little_to_gain" in lemmata.certify(early, X * unit, Y).failed


def test_dead_units_are_counted_and_named_by_layer(library):
    model = fitted(library, hidden_layer_sizes=(6, 5), activation="relu", solver="adam", max_iter=5)
    biases = [part.copy() for part in model.intercepts_]
    biases[1][[0, 3]] = -1e3
    alive = lemmata.certify(model, X, Y)["units_alive"]
    dead = lemmata.certify(changed(model, intercepts_=biases), X, Y)["units_alive"]
    assert dead.measured >= alive.measured + 1
    assert dead.verdict == "fails"
    assert "in layer 2, of 11" in dead.note
    flat = fitted(library, hidden_layer_sizes=(6,), activation="relu")
    assert lemmata.certify(flat, X, Y)["units_alive"].verdict in ("holds", "fails")


def test_the_mean_over_outputs_that_scikit_learn_states_is_read_as_such(library):
    targets = np.stack([X[:, 0], X[:, 1] * X[:, 2]], axis=1)
    model = fitted(library, "Regressor", targets)
    assert lemmata.certify(model, X, targets)["statements_true"].verdict == "holds"


def test_what_cannot_be_known_is_not_said():
    theirs = fitted(neural_network, solver="adam", early_stopping=True)
    found = lemmata.certify(theirs, X, Y)
    assert set(found.undecided) == {"statements_true", "little_to_gain"}
    thinned = fitted(lemmata, solver="adam", dropout=0.2, max_iter=30)
    assert "little_to_gain" in thinned.certify(X, Y).undecided
    parts = lemmata.MLPClassifier((4,), random_state=0).partial_fit(X, Y)
    assert {"statements_true", "little_to_gain"} & set(parts.certify(X, Y).failed) == set()


def test_scores_of_rows_held_out_are_checked():
    model = fitted(
        lemmata, solver="adam", early_stopping=True, max_iter=30, learning_rate_init=0.02
    )
    assert model.certify(X, Y)["statements_true"].verdict == "holds"
    assert "best_validation_score_" in model.certify(X, Y)["statements_true"].note
    other = changed(model, best_validation_score_=model.best_validation_score_ * 0.9)
    assert "statements_true" in other.certify(X, Y).failed


def test_float32_rows_of_a_float64_fit_and_weights_in_any_unit(library):
    w = np.random.default_rng(0).random(150)
    for scale in (1.0, 1e6):
        model = getattr(library, "MLPClassifier")((5,), solver="lbfgs", alpha=0, random_state=0)  # noqa: B009
        model.fit(X, Y, sample_weight=scale * w)
        assert lemmata.certify(model, X, Y, scale * w)["statements_true"].verdict == "holds"
        assert (
            lemmata.certify(model, X.astype("f"), Y, scale * w)["statements_true"].verdict
            == "holds"
        )


def test_the_loss_of_a_constant_is_that_of_the_best_of_many():
    y, s = X[:, :1], np.linspace(1, 2, len(X))
    best = min(0.5 * s @ (y[:, 0] - c) ** 2 / s.sum() for c in np.linspace(-1, 1, 2001))
    assert constant_loss("identity", y, s) == pytest.approx(best, rel=1e-6)
