"""The door for y: labels of any kind, targets that travel with their rows, and what is refused."""

import re
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import DataConversionWarning

import lemmata
from lemmata.core import PROVED, Blocks, Never, at_most, claim
from lemmata.core.supervised import Classifier, Regressor, class_weights, encode


@claim("the mean is that of y", kind=PROVED, source="by definition")
def mean_of_y(fit):
    w = np.ones(len(fit.y)) if fit.weights is None else fit.weights
    return at_most(abs(fit.mean_ - np.average(fit.y, weights=w)), 1e-12)


@dataclass(frozen=True)
class MeanAlgorithm:
    draws: ClassVar[bool] = False

    def init(self, data, rng):
        return None

    def step(self, state, data):
        parts = [
            (np.sum(y if w is None else w * y), len(y) if w is None else w.sum())
            for _, y, w in data.triples()
        ]
        return sum(part[0] for part in parts) / sum(part[1] for part in parts)

    def finished(self, state):
        return state is not None

    def objective(self, state):
        return 0.0

    def attributes(self, state):
        return {"mean_": float(state)}


class Mean:
    claims = (mean_of_y,)
    random_state, verbose, checkpoint, time_limit, max_iter, tol = 0, 0, None, None, 1, 0.0
    _parameter_constraints: ClassVar[dict] = {}

    def _algorithm(self, data):
        return MeanAlgorithm()

    def _stop(self):
        return Never()

    def predict(self, X):
        return self._apply(X, lambda rows: np.full(rows.shape[0], self.mean_))


class MeanRegressor(Mean, Regressor):
    pass


class MeanClassifier(Mean, Classifier):
    class_weight = None


def rows(n=7):
    return np.arange(2.0 * n).reshape(n, 2)


def test_targets_travel_with_their_rows_through_every_cut():
    X, y, w = rows(11), np.arange(11.0), np.linspace(1, 2, 11)
    data = Blocks.of(X).weighted(w).with_targets(y).recut(3)
    cut = list(data.triples())
    assert [len(part[0]) for part in cut] == [3, 3, 3, 2]
    for part, targets, weights in cut:
        np.testing.assert_array_equal(part[:, 0], 2 * targets)
        np.testing.assert_array_equal(weights, w[targets.astype(int)])


def test_a_checkpoint_knows_another_y():
    data = Blocks.of(rows())
    marks = {data.with_targets(y).fingerprint() for y in (np.zeros(7), np.ones(7), np.arange(7.0))}
    assert len(marks | {data.fingerprint()}) == 4


@pytest.mark.parametrize("X", [rows(), [rows()[:3], rows()[3:]]], ids=["array", "stream"])
def test_the_certificate_of_a_fit_reads_y(X):
    model = MeanRegressor().fit(X, np.arange(7.0), np.arange(1.0, 8.0))
    assert model.certificate_.held == ["mean_of_y"]
    assert model.certify(X, np.arange(7.0), np.arange(1.0, 8.0)).held == ["mean_of_y"]
    assert model.certify(X, np.arange(7.0)).failed == ["mean_of_y"]
    assert model.predict(X).shape == (7,)


@pytest.mark.parametrize("columns", [0, 3])
def test_answers_about_a_dask_array_have_the_shape_of_those_about_an_array(columns):
    da = pytest.importorskip("dask.array")
    model = MeanRegressor().fit(rows(), np.arange(7.0))

    def answer(X):
        total = np.asarray(X).sum(axis=1)
        return np.stack([total] * columns, axis=1) if columns else total

    lazy = model._apply(da.from_array(rows(), chunks=(3, 1)), answer)
    assert isinstance(lazy, da.Array)
    np.testing.assert_array_equal(lazy.compute(), model._apply(rows(), answer))


def test_what_is_no_target_is_refused_and_nothing_is_half_fitted():
    X, y = rows(), np.arange(7.0)
    model = MeanRegressor()
    for bad, message in (
        (None, "requires y"),
        (y[:5], "inconsistent numbers of samples"),
        (np.where(y == 3, np.nan, y), "Input y contains NaN"),
        (np.where(y == 3, np.inf, y), "Input y contains infinity"),
        (np.ones((7, 2)), "1d array"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, bad)
        assert not hasattr(model, "n_features_in_")
    with pytest.warns(DataConversionWarning):
        model.fit(X, y[:, None])
    with pytest.raises(ValueError, match="requires y"):
        model.certify(X)


@pytest.mark.parametrize(
    "labels",
    [(0, 1), (-1, 1), (False, True), ("no", "yes"), (2.0, 3.0), (np.int8(-128), np.int8(127))],
    ids=str,
)
def test_labels_of_any_type_become_places_and_come_back(labels):
    y = np.array(labels)[[0, 1, 1, 0, 1, 0, 1]]
    model = MeanClassifier().fit(rows(), y)
    assert model.classes_.tolist() == sorted(np.array(labels).tolist())
    assert model.mean_ == pytest.approx(4 / 7)
    assert model.certify(rows(), y).held == ["mean_of_y"]


@pytest.mark.parametrize(
    ("y", "warns"),
    [
        (np.arange(40) % 3, False),
        (np.arange(40), True),
        (np.arange(40) > 7, False),
        (np.arange(40.0) % 3, False),
        (np.arange(40.0) / 7, "Unknown label type"),
        ((np.arange(40) % 3)[:, None], "column-vector"),
        (np.zeros((40, 2), int), "1d array"),
    ],
)
def test_labels_pass_or_are_refused_as_by_scikit_learn(y, warns):
    """Whole numbers take a shorter way through the door: the same warnings, the same places."""
    from sklearn.linear_model import LogisticRegression

    X, found = np.random.default_rng(0).normal(size=(40, 2)), []
    for model in (MeanClassifier(), LogisticRegression()):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                found.append(model.fit(X, y).classes_.tolist())
            except ValueError as error:
                found.append(str(error)[:24])
        words = " ".join(str(one.message) for one in heard) + str(found[-1])
        if isinstance(warns, str):
            assert warns in words
        else:
            assert ("50%" in words) == warns
    assert found[0] == found[1]


def test_objects_are_labels_too():
    y = np.array(["b", "a", "b", "a", "a", "b", "b"], dtype=object)
    assert MeanClassifier().fit(rows(), y).classes_.tolist() == ["a", "b"]


def test_one_class_and_strange_labels_are_refused():
    with pytest.raises(ValueError, match="one class only"):
        MeanClassifier().fit(rows(), np.zeros(7))
    model = MeanClassifier().fit(rows(), list("abababa"))
    with pytest.raises(ValueError, match="label 'z', which the model was not fitted to"):
        model.certify(rows(), list("abzbaba"))
    with pytest.raises(ValueError, match="Unknown label type"):
        MeanClassifier().fit(rows(), np.linspace(0, 1, 7))


@given(st.lists(st.integers(-3, 3), min_size=1), st.booleans())
def test_encoding_is_the_inverse_of_indexing(values, as_text):
    y = np.array([str(v) for v in values]) if as_text else np.array(values)
    classes = np.unique(y)
    np.testing.assert_array_equal(classes[encode(y, classes)], y)
    np.testing.assert_array_equal(classes[encode(y.astype(object), classes.astype(object))], y)


def test_balanced_classes_weigh_the_same_and_weights_count_rows():
    places, w = np.array([0, 0, 0, 1, 2, 2]), np.array([1.0, 2.0, 1.0, 4.0, 1.0, 1.0])
    classes = np.array(["a", "b", "c"])
    factors = class_weights("balanced", classes, places, w)
    totals = np.bincount(places, w * factors[places])
    np.testing.assert_allclose(totals, w.sum() / 3)
    np.testing.assert_array_equal(class_weights({"b": 5.0}, classes, places), [1, 5, 1])
    with pytest.raises(ValueError, match="names the class 'd'"):
        class_weights({"d": 5.0}, classes, places)


def test_errors_name_the_class_that_was_called_and_numbers_as_numbers():
    X = np.arange(20.0).reshape(10, 2)
    with pytest.raises(TypeError, match=r"^Ridge.fit\(\) missing 1 required"):
        lemmata.Ridge().fit(X)
    with pytest.raises(ValueError, match="Got 0 instead"):
        lemmata.PCA(np.int64(0)).fit(X)
    with pytest.raises(ValueError, match=r"l1_ratio=\[3.0\] is not"):
        lemmata.ElasticNetCV(l1_ratio=[np.float64(3)]).fit(X, X[:, 0])


@pytest.mark.parametrize(
    ("model", "call"), [(lemmata.PCA(), "fit(X)"), (lemmata.Lasso(), "fit(X, y)")]
)
def test_an_attribute_of_a_fit_says_what_to_call_first(model, call):
    for name in ("certificate_", "coef_"):
        with pytest.raises(AttributeError, match=re.escape(f"has no {name}: call {call} first")):
            getattr(model, name)
        assert not hasattr(model, name)
    fitted = lemmata.Lasso().fit(np.eye(9), np.arange(9.0))
    # a property has its own words
    for one, name, words in [
        (model, "strange", "no attribute 'strange'"),
        (fitted, "strange_", "no attribute 'strange_'"),
        (lemmata.SVC(), "coef_", "linear kernel"),
    ]:
        with pytest.raises(AttributeError, match=words):
            getattr(one, name)
