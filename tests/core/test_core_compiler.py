"""Compiled where it pays, and where no cache can be written too."""

import os
import subprocess
import sys

import pytest

import lemmata
from lemmata.core.engine import worth_compiling


def test_the_size_decides_unless_the_user_does():
    assert worth_compiling(11, above=10)
    assert not worth_compiling(10, above=10)
    with lemmata.config(compile="never"):
        assert not worth_compiling(1e30, above=10)
    with lemmata.config(compile="always"):
        assert worth_compiling(0, above=10)


def test_a_mode_that_does_not_exist_is_refused(monkeypatch):
    with (
        pytest.raises(ValueError, match="auto, always, never"),
        lemmata.config(compile="sometimes"),
    ):
        pass
    monkeypatch.setenv("LEMMATA_COMPILE", "sometimes")
    with pytest.raises(ValueError, match="LEMMATA_COMPILE='sometimes'"):
        worth_compiling(1, above=0)


def run_kernel(before="", **environment):
    """A small kernel of ours, in a process of its own."""
    code = f"{before}from lemmata.completion.sgd._kernels import below; print(int(below(7, 5)) < 5)"
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, env={**os.environ, **environment},
    )  # fmt: skip


def test_compiling_is_announced_once_and_loading_is_not(tmp_path):
    first, again = (run_kernel(NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first.stdout == again.stdout == "True\n"
    assert first.stderr.count("compiling once") == 1
    assert "lemmata warm" in first.stderr
    assert again.stderr == ""


def test_kernels_compile_where_nothing_can_be_cached():
    """numba looks for a folder in several places; none is left here, as on a read-only file system."""
    none = (
        "from numba.core import caching; caching.FunctionCache._impl_class._locator_classes = []; "
    )
    found = run_kernel(before=none)
    assert found.stdout == "True\n"
    assert "NUMBA_CACHE_DIR" in found.stderr
