"""Names that are imported on first use, and what is said where an optional dependency is missing."""

import subprocess
import sys

import pytest

from lemmata.registry import lazily, require


def test_a_missing_dependency_is_answered_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # what Python finds is that there is none
    with pytest.raises(ModuleNotFoundError, match=r"a network needs torch.*lemmata\[deep\]"):
        require("torch", "deep", what="a network")


def test_what_a_dependency_itself_lacks_is_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import there_is_no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError) as caught:
        require("half_installed", "deep")
    assert caught.value.name == "there_is_no_such_module"


def test_an_unknown_name_is_answered_with_the_one_that_was_meant():
    find, names, _ = lazily("lemmata.nets", {"convnets": "ConvNet"})
    assert names() == ["ConvNet"]
    with pytest.raises(AttributeError, match="did you mean 'ConvNet'"):
        find("ConfNet")


@pytest.mark.parametrize("name", ["GPT", "NeuralClassifier"])
def test_claims_about_networks_and_texts_may_be_imported_in_either_order(name):
    done = subprocess.run([sys.executable, "-c", f"from lemmata import {name}"], capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
