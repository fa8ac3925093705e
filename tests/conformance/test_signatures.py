"""Every model is called as it was before its parameters were declared once: names, order, kinds, defaults."""

import inspect
import json
from pathlib import Path

import pytest

from lemmata import registry

BEFORE = json.loads((Path(__file__).parent / "signatures.json").read_text())


@pytest.mark.parametrize("name", BEFORE)
def test_a_signature_is_what_it_was(name):
    assert str(inspect.signature(registry.model_class(name))) == BEFORE[name]
