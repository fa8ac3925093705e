"""Bad input of every kind to every model: an error with a message, or a sound model; never a crash, never half a fit."""

import os
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from small_models import COUNTS, data_of, targets, unfitted

import lemmata
from lemmata import registry
from lemmata.core import StepFailed


def spoilt(row, column, value):
    X = COUNTS.copy()
    X[row, column] = value
    return X


def malformed(format, part, at, value):
    X = sp.csr_array(COUNTS).asformat(format)
    getattr(X, part)[at] = value
    return X


def mapped_and_cut(folder):
    path = folder / "cut.npy"
    np.save(path, np.tile(COUNTS, (200, 1)))
    X = np.load(path, mmap_mode="r")
    os.truncate(path, 4096)
    return X


BAD = {
    "NaN": lambda folder: spoilt(7, 3, np.nan),
    "infinity": lambda folder: spoilt(7, 3, np.inf),
    "nothing": lambda folder: np.empty((0, 6)),
    "no columns": lambda folder: np.empty((6, 0)),
    "a vector": lambda folder: COUNTS[0],
    "three axes": lambda folder: COUNTS[None],
    "text": lambda folder: np.full((9, 6), "a"),
    "complex": lambda folder: COUNTS.astype(complex),
    "objects": lambda folder: np.full((9, 6), None, dtype=object),
    "one row": lambda folder: COUNTS[:1],
    "constant": lambda folder: np.ones((30, 6)),
    "subnormal": lambda folder: COUNTS * 5e-324,
    "huge": lambda folder: COUNTS * 1e308,
    "a number": lambda folder: 5,
    "a word": lambda folder: "data.csv",
    "pointer beyond": lambda folder: malformed("csr", "indptr", 5, 10**6),
    "pointers fall": lambda folder: malformed("csc", "indptr", 3, 0),
    "index beyond": lambda folder: malformed("csr", "indices", 7, 4000),
    "negative index": lambda folder: malformed("bsr", "indices", 7, -3),
    "a file cut off": mapped_and_cut,
}
MUST_FAIL = {
    "infinity", "nothing", "no columns", "a vector", "three axes", "text", "complex", "objects", "a number", "a word",
    "pointer beyond", "pointers fall", "index beyond", "negative index", "a file cut off",
}  # fmt: skip


def message_of(work):
    """What the error says, None if there was none."""
    with warnings.catch_warnings(), np.errstate(all="ignore"), lemmata.config(certificate=False):
        warnings.simplefilter("ignore")
        try:
            work()
        except (ValueError, TypeError, StepFailed) as error:
            return str(error)
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", registry.MODELS)
def test_bad_input_ends_in_a_message_or_in_a_sound_model(tmp_path, name):
    accepted = []
    for what, make in BAD.items():
        model = unfitted(name)
        X = make(tmp_path)
        told = message_of(lambda: model.fit(X, *targets(model, X)))  # noqa: B023
        if told is not None:
            assert 0 < len(told) < 3000, what
            # nothing is half-fitted
            assert [k for k in vars(model) if k.endswith("_") and k[0] != "_"] == [], what
            continue
        accepted.append(what)
        for attribute, value in model.stored_attributes().items():
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                assert np.isfinite(value).all(), (what, attribute)
    a_series = {"a vector"} if name == "AR" else set()
    assert set(accepted).isdisjoint(MUST_FAIL - a_series)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", registry.MODELS)
def test_a_failed_fit_leaves_the_model_as_it_was(name):
    with lemmata.config(certificate=False):
        model, X = unfitted(name), data_of(name)
        model.fit(X, *targets(model, X))
        before = {k: id(v) for k, v in vars(model).items()}
        with pytest.raises((ValueError, TypeError)):
            model.fit(np.full((60, 6), np.inf), *targets(model, X))
        assert {k: id(v) for k, v in vars(model).items()} == before
