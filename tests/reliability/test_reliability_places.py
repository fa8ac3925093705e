"""Where results are written: only regular files are ever replaced; pipes and devices are refused and stay what they are."""

import os
import stat

import numpy as np
import pytest
from cli_invoke import invoke
from small_models import ROWS, fitted, unfitted

import lemmata
from lemmata import atlas
from lemmata.core.store import write_atomically
from lemmata.data.write import write_matrix


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "x.csv"
    np.savetxt(path, ROWS, delimiter=",")
    return path


WRITERS = {
    "save": lambda path: lemmata.save(fitted("PCA"), path),
    "report": lambda path: fitted("PCA").certificate_.report(path),
    "a checkpoint": lambda path: unfitted("KMeans", checkpoint=str(path)).fit(ROWS),
    "bytes": lambda path: write_atomically(path, b"x"),
    "csv": lambda path: write_matrix(path.rename(path.with_suffix(".csv")), ROWS, list("abcdef")),
    "npy": lambda path: write_matrix(path.rename(path.with_suffix(".npy")), ROWS, list("abcdef")),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_pipe_is_refused_and_stays_a_pipe(tmp_path, write):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises((OSError, ValueError), match="regular file"):
        write(path)
    (left,) = tmp_path.iterdir()
    assert stat.S_ISFIFO(left.stat().st_mode)


def test_a_link_to_a_device_or_a_pipe_is_refused_as_well(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    for name in ("link", "null"):
        with pytest.raises(OSError, match="no regular file"):
            write_atomically(tmp_path / name, b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert (tmp_path / "link").is_symlink()


def test_a_pipe_that_takes_the_place_of_a_file_at_the_last_moment_is_not_replaced(
    tmp_path, monkeypatch
):
    path, fsync = tmp_path / "m", os.fsync

    def swap(handle):
        if not path.exists():
            os.mkfifo(path)
        return fsync(handle)

    monkeypatch.setattr(os, "fsync", swap)
    with pytest.raises(OSError, match="no regular file"):
        write_atomically(path, b"x")
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert [found.name for found in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("option", ["--save", "--report"])
def test_the_command_line_refuses_before_it_fits(tmp_path, table, option):
    os.mkfifo(tmp_path / "pipe")
    told = invoke("fit", "pca", table, option, tmp_path / "pipe", code=1)
    assert "regular file" in told
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_results_and_pictures_are_refused_too(tmp_path, table):
    lemmata.save(fitted("PCA"), tmp_path / "m.lemma")
    for name in ("z.csv", "z.npy", "demo.png", "eigendigits.png"):
        os.mkfifo(tmp_path / name)
    for name in ("z.csv", "z.npy"):
        invoke("transform", tmp_path / "m.lemma", table, "--out", tmp_path / name, code=1)
    assert "regular file" in invoke("demo", "--out", tmp_path / "demo.png", code=1)
    assert "regular file" in invoke("atlas", "eigendigits", "--out", tmp_path, code=1)
    with pytest.raises(OSError, match="regular file"):
        atlas.entries()["eigendigits"].perform(tmp_path)
    for name in ("z.csv", "z.npy", "demo.png", "eigendigits.png"):
        assert stat.S_ISFIFO((tmp_path / name).stat().st_mode)
