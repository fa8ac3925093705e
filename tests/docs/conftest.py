"""The site, which tests of its pages and of its looks in a browser read."""

import fcntl
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # tools/ stands next to tests/


@pytest.fixture(scope="session")
def site():
    """The folder of the built site; examples are shown, not run. It is built once, whatever the number of workers."""
    pytest.importorskip("sphinx")
    from tools.site.__main__ import SITE, build

    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        if lock.read() != run:
            lock.truncate(0)
            assert build(quick=True) == 0
            lock.write(run)
    return SITE
