"""What all tests share: a cache folder of their own, files that need not survive a power cut, and property-based tests that
a landing repeats.

Hypothesis draws other examples in every run, so that many runs find what one does not. Where CI is set the examples follow from
the tests alone: a landing then passes or fails for what it changed. No example has a deadline: a
busy machine is no bug.
"""

import gc
import os
import signal
import tempfile

import hypothesis
import pytest
from _pytest.doctest import DoctestModule

os.environ.setdefault("LEMMATA_CACHE", os.path.join(tempfile.gettempdir(), "lemmata-test-cache"))
# workers of a Dask cluster are forks of a process that has loaded Dask: 5 s of work less
os.environ.setdefault("DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD", "forkserver")

no_clock = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("local", **no_clock)
hypothesis.settings.register_profile("landing", **no_clock, derandomize=True)
hypothesis.settings.load_profile("landing" if os.environ.get("CI") else "local")


def pytest_collectstart(collector):
    """No garbage is looked for while tests are collected: what is imported stays."""
    gc.disable()


def pytest_collection_finish(session):
    """It is looked for again, but not among modules and fourteen thousand tests, and seldom: a fourteenth of all work less."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path, parent):
    """Docstrings of tests hold no examples, so they are not searched for any."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


def _written(handle):
    """os.fsync without the disk: 4 ms less for every file that a test writes. A killed process loses nothing by it."""
    os.fstat(handle)  # of an open file


os.fsync = _written


@pytest.fixture
def hears_ctrl_c():
    """For Popen(preexec_fn=…): a test run in the background ignores SIGINT, and its children would inherit that."""
    return lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
