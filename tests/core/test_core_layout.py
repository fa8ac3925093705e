"""The specification of stored values: what fits passes, what does not is named."""

from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

from lemmata import registry
from lemmata.audit.kernel.attributes import entries, parse
from lemmata.core.files import encoding
from lemmata.core.files.layout import bounding_letters, check_layout, check_state, check_stored

GOOD = [
    (np.ones((2, 3)), "k d"),
    (np.ones((2, 3), np.float32), "k d >=0 <=1"),
    (np.array([1, 2]), "k numbers"),
    (np.array([1, 2]), "k int >0"),
    (np.array(["a", "b"]), "k text"),
    (np.array(["a", "b"], dtype=object), "k text"),
    (np.array([1.0, np.nan]), "k nan >=0"),
    (np.array([np.inf, -np.inf]), "k any"),
    (np.empty((0, 3)), "n d"),
    (3, "int >=1"),
    (np.int32(3), "int >=1"),
    (2.5, ""),
    (-np.inf, "any"),
    (np.array([0.5, 0.5 + 1e-16]), "k sum=1 <=1"),
    (np.array([2.0, 1.0, 1.0]), "k falling"),
    (np.array([2, 0, 1]), "n int >=0 <n distinct"),
    (2**63, "int >=1"),
    (sp.csr_array(np.eye(3)), "3 d sparse >=0"),
    (np.ones((2, 2, 2)), np.ndarray),
    (sp.csr_array(np.eye(3)), object),
    ("word", str),
]


@pytest.mark.parametrize(("value", "spec"), GOOD, ids=str)
def test_what_fits_its_specification_passes(value, spec):
    assert check_stored("a", value, spec, {"d": 3}) is None  # raises if not


BAD = [
    (np.ones((2, 4)), "k d", r"a has shape \(2, 4\), but d = 3 elsewhere"),
    (np.ones(3), "k d", "not an array with 2 axes"),
    ([1.0], "k", "not an array with 1 axes"),
    (np.array([True]), "k", "an array of bool, not of float32 or float64"),
    (np.array([1.0]), "k int", "an array of float64, not of whole numbers"),
    (np.array([1.0]), "k text", "not of text"),
    (np.array(["a"]), "k numbers", "not of numbers"),
    (np.array([1j]), np.ndarray, "not of numbers"),
    (np.array([[0.0, np.nan]]), "k 2", "a contains NaN: the first in row 0, column 1"),
    (np.array([0.0, np.inf]), "k nan", "a contains infinity"),
    (np.array([[[np.nan]]]), np.ndarray, "a contains NaN"),
    (sp.csr_array([[np.inf]]), object, "a contains infinity"),
    (np.array([-1e-9]), "k >=0", "not >= 0"),
    (np.array([0.0]), "k >0", "not > 0"),
    (np.array([1.5]), "k >=0 <=1", "not <= 1"),
    (0, "int >=1", "not >= 1"),
    (np.array([0.5, 0.6]), "k sum=1", "not sum 1"),
    (np.array([1.0, 2.0]), "k falling", "not falling"),
    (np.ones(2, np.uint64), "k int", "array of uint64"),
    (10**400, "", "more than 64 bits"),
    (2**64, "int >=1", "more than 64 bits"),
    (np.array([1, 0, 1]), "n int >=0 <n distinct", "not distinct"),
    (np.ones(2, np.float16), "k float", "not of float32 or float64"),
    (np.ones(2, int), "k", "an array of int64, not of float32"),
    (np.ones((3, 3)), "p 2", r"not an array with 2 axes \(p 2\)"),
    (True, "", "a is a bool, not a number"),
    (1.5, "int", "a is a float, not a whole number"),
    (np.nan, "", "a is NaN"),
    (np.inf, "nan", "a is infinite"),
    (3, str, "a is a int, not a str"),
]


@pytest.mark.parametrize(("value", "spec", "message"), BAD, ids=str)
def test_what_does_not_is_named(value, spec, message):
    with pytest.raises(ValueError, match=message):
        check_stored("a", value, spec, {"d": 3})


def test_a_sparse_matrix_whose_parts_do_not_fit_is_refused():
    X = sp.csr_array(np.eye(3))
    X.indices = np.array([0, 1, 9], X.indices.dtype)  # a column beyond the last
    with pytest.raises(ValueError, match="a is a malformed CSR matrix"):
        check_stored("a", X, "n d sparse", {})


@dataclass(frozen=True)
class Inner:
    layout: ClassVar = {"x": "k d"}

    x: np.ndarray


@dataclass(frozen=True)
class Outer:
    layout: ClassVar = {"weights": "k", "maybe?": "d", "inner": Inner}

    weights: np.ndarray
    maybe: np.ndarray | None
    inner: Inner
    others: tuple = ()


def test_objects_inside_of_objects_share_their_letters_and_results_only_those_of_the_data():
    fine = Outer(np.ones(2), None, Inner(np.ones((2, 3))), (Inner(np.ones((5, 3))), 7))
    check_layout(fine, {"d": 3})
    with pytest.raises(ValueError, match=r"Outer.inner.x has shape \(4, 3\), but k = 2"):
        check_layout(Outer(np.ones(2), None, Inner(np.ones((4, 3)))), {})
    with pytest.raises(ValueError, match=r"Outer.inner.x .* d = 5 elsewhere"):
        check_layout(Outer(np.ones(2), np.ones(5), Inner(np.ones((2, 3)))), {})
    with pytest.raises(ValueError, match=r"Outer.others.x .* d = 3 elsewhere"):
        check_layout(Outer(np.ones(2), None, Inner(np.ones((2, 3))), (Inner(np.ones((5, 4))),)), {})


def models():
    return [getattr(import_module(entry.module), name) for name, entry in registry.MODELS.items()]


def test_every_table_is_written_in_these_words():
    tables = [entries(getattr(cls, "layout", {})) for cls in encoding._STORABLE.values()]
    tables += [model._shapes() for model in models()]  # KeyError: "audited", but not in the audit
    assert sum(map(len, tables)) > 400
    for table in tables:
        for spec, _ in table.values():
            assert isinstance(spec, type) or all(map(parse, np.atleast_1d(spec)))


def test_a_letter_that_bounds_numbers_is_a_size_of_its_table_or_of_the_data():
    """Nobody would look at the numbers otherwise: a bound without a size says nothing."""
    every = [(cls, [spec for spec, _ in cls._shapes().values()]) for cls in models()]
    every += [(cls, getattr(cls, "layout", {}).values()) for cls in encoding._STORABLE.values()]
    bounded = 0
    for cls, specs in every:
        seen = {"n", "d"} if cls.__name__.endswith("State") else {"d"}
        for spec in (one for one in specs if isinstance(one, str)):
            letters = bounding_letters({"": spec})
            assert letters <= seen, (cls, spec)
            seen |= {axis for shape in parse(spec) for axis in shape.axes}
            bounded += len(letters)
    assert bounded >= 5


@dataclass(frozen=True)
class Places:
    layout: ClassVar = {"x": "k int <z"}

    x: np.ndarray


class Placing:
    def init(self, data, rng) -> Places:
        return Places(np.arange(3))


def test_a_bound_of_a_state_has_to_be_known_in_its_run():
    state, algorithm = Placing().init(None, 0), Placing()
    with pytest.raises(TypeError, match="nobody knows the size z"):
        check_state(algorithm, state, None)
    algorithm.sizes = {"z": 3}
    check_state(algorithm, state, None)
    algorithm.sizes = {"z": 2}
    with pytest.raises(ValueError, match="not < 2"):
        check_state(algorithm, state, None)
