"""Experiments are thousands of small fits, none of which reads its certificate."""

import pytest

import lemmata


@pytest.fixture(autouse=True)
def without_certificates():
    with lemmata.config(certificate=False):
        yield
