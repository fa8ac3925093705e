"""The data every installation has."""

import ast
import sys
import time
from dataclasses import FrozenInstanceError
from inspect import cleandoc
from pathlib import Path

import numpy as np
import pytest

from lemmata.data import Dataset, Ratings, digits, docstrings
from lemmata.data import embedded as module


def test_the_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    data = digits()
    assert data.X.shape == (1797, 64)
    assert np.array_equal(data.X, load_digits().data)
    assert np.array_equal(data.y, load_digits().target)
    assert data.image == (8, 8)
    assert len(data.names) == 10
    assert len(data.features) == 64


def test_changing_the_digits_does_not_change_the_next_ones():
    digits().X[:] = 0
    assert digits().X.max() == 16


def test_a_dataset_says_what_it_is_and_cannot_be_rebound():
    data = digits()
    lines = repr(data).splitlines()
    assert lines[0] == "digits: 1,797 × 64 float64, 10 classes"
    assert "CC BY 4.0" in lines[-1]
    with pytest.raises(FrozenInstanceError):
        data.X = None


def test_a_dataset_has_numbers_or_texts_and_as_many_labels():
    about = {"name": "toy", "description": "", "source": "", "terms": ""}
    with pytest.raises(ValueError, match="either numbers"):
        Dataset(**about)
    with pytest.raises(ValueError, match="3 samples but 2 labels"):
        Dataset(**about, X=np.zeros((3, 1)), y=np.zeros(2))


def test_ratings_say_how_full_they_are():
    one = np.zeros(1, dtype=np.int32)
    ratings = Ratings(
        name="toy", description="", source="", terms="", user=one, item=one, rating=np.ones(1), user_ids=np.array([7]),
        item_ids=np.array([3, 4]), titles=("a", "b"), genres=((), ()),
    )  # fmt: skip
    assert ratings.shape == (1, 2)
    assert repr(ratings).startswith("toy: 1 ratings of 2 items by 1 users (50.0% of all pairs)")


def test_docstrings_come_from_four_packages_fast_without_imports_and_repetitions():
    docstrings.cache_clear()
    before, start = set(sys.modules), time.process_time()
    corpus = docstrings()
    assert time.process_time() - start < 3.0
    loaded = set(sys.modules) - before
    assert not [name for name in loaded if name.startswith(("numpy.", "scipy.", "sklearn."))]
    assert docstrings() is corpus
    assert corpus.names == ("numpy", "python", "scipy", "sklearn")
    assert (np.bincount(corpus.y, minlength=4) > 500).all()
    assert len(set(corpus.texts)) == len(corpus)
    assert min(map(len, corpus.texts)) >= 200
    assert (np.diff(corpus.y) >= 0).all()


def test_a_longer_minimum_keeps_a_part_of_the_documents(monkeypatch):
    every = docstrings()
    monkeypatch.setattr(module, "PACKAGES", ("numpy",))  # the first of them
    longer = docstrings.__wrapped__(min_length=1000)
    known = [text for text, label in zip(every.texts, every.y, strict=True) if label == 0]
    assert set(longer.texts) == {text for text in known if len(text) >= 1000}


def test_the_pattern_finds_what_the_parser_finds():
    total, wrong = 0, set()
    for package in module.PACKAGES:
        paths = sorted(module._source_files(package))
        for i in np.random.default_rng(0).choice(len(paths), size=20, replace=False):
            source = Path(paths[i]).read_text(encoding="utf-8", errors="replace")
            expected = _parsed(source)
            total += len(expected)
            wrong |= set(module.docstrings_in(source, min_length=200)) ^ expected
    assert total > 250
    assert len(wrong) <= total / 100  # 1 in 7,838 over all files of the pinned versions


def _parsed(source):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = [
        ast.get_docstring(node, clean=False)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, kinds)
    ]
    return {cleandoc(doc) for doc in docs if doc and len(cleandoc(doc)) >= 200}


def test_docstrings_in_copes_with_comments_raw_strings_and_other_quotes():
    source = '''# a comment
r"""Module \\alpha."""
def f(x: int = 3) -> dict:   # why
    # note

    \'\'\'Says "hello".\'\'\'
    text = """not a docstring"""
    table = {"key":
        """nor this"""}
class A:
    """Line one.

    Line two
        indented
    """
'''
    assert list(module.docstrings_in(source)) == [
        "Module \\alpha.",
        'Says "hello".',
        "Line one.\n\nLine two\n    indented",
    ]
