"""No target but numbers or labels is accepted by a model that predicts; extreme ones give numbers, or an error with words."""

import numpy as np
import pytest
import test_estimators as common
import test_text_estimators as of_texts
from test_variants import fitted, rows

from lemmata.core.supervised import Classifier

PREDICTING = [name for name in common.MODELS if hasattr(common.made(name), "predict")]
PREDICTING = [
    name for name in PREDICTING if common.targets(common.made(name), rows(name)) is not None
]
OF_NUMBERS = [name for name in PREDICTING if not isinstance(common.made(name), Classifier)]
LARGEST = np.finfo(float).max


def put(value, dtype=None):
    def changed(y):
        y = y.astype(dtype or y.dtype)
        y[3] = value
        return y

    return changed


NEVER = {
    "None": lambda y: None,
    "a dict": lambda y: {"a": 1},
    "a word": lambda y: "yes",
    "one row short": lambda y: y[:-1],
    "empty": lambda y: y[:0],
    "three axes": lambda y: y[:, None, None],
    "complex": lambda y: np.arange(len(y)) * 1j,
    "NaN": lambda y: np.where(np.arange(len(y)) == 3, np.nan, np.arange(len(y)) % 2),
    "infinity": lambda y: np.where(np.arange(len(y)) == 3, np.inf, np.arange(len(y)) % 2),
}
NO_LABELS = {
    "no label": put(None, object),
    "NaN among words": put(np.nan, object),
    "words and numbers": put(1, object),
    "arrays": put([], object),
    "fractions": lambda y: np.linspace(0.1, 0.9, len(y)),
}
NO_NUMBERS = {
    "words": lambda y: np.full(len(y), "a"),
    "objects": lambda y: np.full(len(y), object()),
    "no number": put(None, object),
    "−infinity": put(-np.inf),
}


def attempt(make):
    """What a ValueError says, or what is made."""
    try:
        with np.errstate(all="ignore"):
            return "", make()
    except ValueError as refused:
        return str(refused), None


@pytest.mark.parametrize("name", PREDICTING)
def test_what_is_no_target_is_refused_with_words(name):
    X = rows(name)
    y = common.targets(common.made(name), X)
    more = NO_NUMBERS if name in OF_NUMBERS else NO_LABELS
    for what, change in {**NEVER, **more}.items():
        model = common.made(name)
        with pytest.raises((ValueError, TypeError)) as refused:
            model.fit(X, change(y))
        assert len(str(refused.value)) > 20, what
        assert not hasattr(model, "n_features_in_"), what


@pytest.mark.parametrize("name", [name for name in PREDICTING if name not in OF_NUMBERS])
def test_one_class_is_refused_by_name_or_predicted(name):
    X = rows(name)
    words, found = attempt(lambda: fitted(name, X, np.full(len(X), "only")).predict(X))
    assert "class" in words if words else set(found) == {"only"}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_constant_targets_of_any_size_give_finite_numbers_or_a_valueerror_with_words(name):
    X = rows(name)
    few = {"max_iter": 3} if name.startswith(("Neural", "MLP")) else {}
    for value in (0.0, 1e-300, 1e150, LARGEST, -LARGEST):
        y = np.full(len(X), value)
        words, found = attempt(lambda y=y: fitted(name, X, y, **few).predict(X))
        assert len(words) > 20 if words else np.isfinite(found).all(), value


def test_texts_are_given_labels():
    for name in of_texts.MODELS:
        model = of_texts.made(name)
        if hasattr(model, "predict"):
            texts, y = of_texts.topical(n=15)
            for bad in (None, y[:-1], [*y[:-1], None], [*y[:-1], np.nan], [1j] * len(y)):
                with pytest.raises((ValueError, TypeError), match=r".{20}"):
                    of_texts.made(name).fit(texts, bad)
