"""Nothing that a model states can be changed unnoticed: NaN, another sign, one per cent more.

A certificate notices if a claim fails or breaks that did not before. What it need not notice is listed with its reason.
"""

import copy
import functools
import warnings

import numpy as np
import pytest
from test_estimators import MODELS, SETTINGS

from lemmata import registry

TAMPERS = {
    "NaN": lambda x: x * np.nan,
    "another sign": lambda x: -x,
    "1 % more": lambda x: x * np.asarray(x).dtype.type(1.01),
    "one number 1 % more": lambda x: (
        np.where(np.abs(x) == np.abs(x).max(), x * 1.01, x) if np.size(x) > 1 else x
    ),
}
SAME = "changes nothing: the sign of an axis is free"
RUN = "says how the run went, nothing about the result"
EXCEPTIONS: dict[tuple[str, str, str], str] = {
    ("PCA", "components_", "another sign"): SAME,
}


@functools.cache
def fitted(name):
    """A fit, its data, and what its certificate complains about as it is."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5)) * [5.0, 3.0, 1.0, 0.5, 0.1] + 2.0
    model = registry.model_class(name)(**{**SETTINGS[name], "random_state": 0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.fit(X).certify(X)
    return model, X, {*found.failed, *found.broken}


def floats(model):
    """The names of the stored public attributes that are floats or arrays of them."""
    for name, value in model.stored_attributes().items():
        if (
            isinstance(value, (float, np.floating, np.ndarray))
            and np.asarray(value).dtype.kind == "f"
        ):
            yield name


@pytest.mark.parametrize("name", MODELS)
def test_the_two_first_claims_hold_on_an_honest_fit(name):
    model, X, complaints = fitted(name)
    found = model.certify(X)
    assert [item.name for item in found][:2] == ["attributes_sound", "statements_true"]
    assert not {"attributes_sound", "statements_true"} & complaints
    assert found["attributes_sound"].verdict == "holds"


@pytest.mark.parametrize("how", TAMPERS)
@pytest.mark.parametrize("name", MODELS)
def test_no_number_can_be_changed_unnoticed(name, how):
    model, X, complaints = fitted(name)
    unnoticed = []
    for attribute in floats(model):
        value = getattr(model, attribute)
        tampered = TAMPERS[how](value)
        if np.array_equal(value, tampered) or (name, attribute, how) in EXCEPTIONS:
            continue  # zeros
        other = copy.copy(model)
        setattr(other, attribute, tampered)
        if not notices(other, X, complaints):
            unnoticed.append(attribute)
    assert not unnoticed


def notices(model, X, complaints):
    """Whether the two first claims notice, which is quick, or any other."""
    claims = model._claims()
    for some in (claims[:2], claims):
        model._claims = lambda some=some: some
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = model.certify(X)
        if {*found.failed, *found.broken} - complaints:
            assert not found.holds
            return True
    return False


@pytest.mark.parametrize("exception", EXCEPTIONS, ids=map(" ".join, EXCEPTIONS))
def test_exceptions_are_needed(exception):
    name, attribute, how = exception
    model, X, complaints = fitted(name)
    other = copy.copy(model)
    setattr(other, attribute, TAMPERS[how](getattr(model, attribute)))
    assert not notices(other, X, complaints)
