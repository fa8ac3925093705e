"""Experiments are thousands of small fits, none of which reads its certificate; their figures need not be laid out."""

import pytest
from matplotlib.layout_engine import ConstrainedLayoutEngine

import lemmata


@pytest.fixture(autouse=True)
def without_certificates():
    with lemmata.config(certificate=False):
        yield


@pytest.fixture(autouse=True)
def without_layout(monkeypatch):
    """Numbers, not places, are compared; to find places for axes takes half of the time of saving a figure."""
    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", lambda self, figure: None)
