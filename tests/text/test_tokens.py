"""The quick way to split a text into words finds what the regular expression finds."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata.text import Tokenizer
from lemmata.text.words import WORD, WORDS, find_all

SIGNS = st.text(st.one_of(st.characters(max_codepoint=127), st.characters()), max_size=60)


@settings(max_examples=300)
@given(SIGNS | st.text(st.characters(max_codepoint=127), max_size=60))
def test_splitting_is_searching(text):
    for pattern in (WORD, WORDS):
        assert find_all(pattern)(text) == re.findall(pattern, text)
        found = Tokenizer(token_pattern=pattern)(text)
        assert found == re.findall(pattern, text.lower())
