"""Experiments are thousands of small fits, none of which reads its certificate; their figures need not be laid out."""

import matplotlib
import pytest
from matplotlib.layout_engine import ConstrainedLayoutEngine

import lemmata


@pytest.fixture(autouse=True)
def without_certificates():
    with lemmata.config(certificate=False):
        yield


@pytest.fixture(autouse=True)
def without_layout(monkeypatch):
    """Numbers, not pixels, are compared: to lay out axes and to draw finely takes most of the time of saving a figure."""
    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", lambda self, figure: None)
    monkeypatch.setitem(matplotlib.rcParams, "savefig.dpi", 30)
