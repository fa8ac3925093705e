"""What all tests share: a cache folder of their own."""

import os
import signal
import tempfile

import pytest

os.environ.setdefault("LEMMATA_CACHE", os.path.join(tempfile.gettempdir(), "lemmata-test-cache"))


@pytest.fixture
def hears_ctrl_c():
    """For Popen(preexec_fn=…): a test run in the background ignores SIGINT, and its children would inherit that."""
    return lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
