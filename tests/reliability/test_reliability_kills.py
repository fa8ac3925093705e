"""Killed at any moment, a fit goes on from its checkpoint and ends in the same bits as one that was left alone."""

import os
import random
import signal
import time
import warnings

import numpy as np
import pytest
from small_models import unfitted

import lemmata

RNG = np.random.default_rng(1)
ROWS = RNG.normal(size=(400, 8)) + 3 * RNG.integers(0, 4, (400, 1))
RATINGS = np.where(RNG.random((80, 40)) < 0.3, RNG.integers(1, 6, (80, 40)), np.nan)

# name: (data, settings of a fit of some hundred short steps)
FITS = {
    "KMeans": (ROWS, {"n_clusters": 9, "n_init": 12, "tol": 0.0, "max_iter": 60}),
    "GaussianMixture": (ROWS, {"n_components": 5, "n_init": 2, "tol": 0.0, "max_iter": 60}),
    "ALS": (RATINGS, {"rank": 3, "tol": 0.0, "max_iter": 120}),
    "SoftImpute": (RATINGS, {"tol": 0.0, "max_iter": 120}),
}


def fit(name, path=None):
    data, settings = FITS[name]
    with warnings.catch_warnings(), lemmata.config(certificate=False):
        warnings.simplefilter("ignore")
        return unfitted(name, **settings, checkpoint=path).fit(data)


def bits(model):
    arrays = {k: v for k, v in model.stored_attributes().items() if isinstance(v, np.ndarray)}
    return {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}, model.n_iter_


def killed(name, path, seconds):
    """Fit in a child that is killed so long after its first checkpoint; whether it was still at work."""
    child = os.fork()
    if child == 0:
        try:
            from lemmata.core import Checkpoint

            Checkpoint.__init__.__defaults__ = (1, 30.0)  # write after every step
            fit(name, path)
        finally:
            os._exit(0)
    written, deadline = stamp(path), None
    while deadline is None or time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.WIFEXITED(status), "the child died by itself"
            return False
        if deadline is None and stamp(path) != written:
            deadline = time.monotonic() + seconds
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def stamp(path):
    return os.stat(path).st_mtime_ns if os.path.exists(path) else 0


def rounds(name, tmp_path, seed, kills):
    dice, path, hit = random.Random(seed), str(tmp_path / f"{seed}.ckpt"), 0
    for _ in range(kills):
        hit += killed(name, path, dice.uniform(0.0, 0.06))
    assert os.listdir(tmp_path)
    return fit(name, path), hit


@pytest.mark.parametrize("name", FITS)
def test_a_killed_fit_ends_in_the_same_bits(tmp_path, name):
    whole = fit(name)
    resumed, hit = rounds(name, tmp_path, 0, kills=4)
    assert bits(resumed) == bits(whole)
    assert hit


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 13))
@pytest.mark.parametrize("name", FITS)
def test_a_fit_killed_again_and_again_ends_in_the_same_bits(tmp_path, name, seed):
    resumed, _ = rounds(name, tmp_path, seed, kills=12)
    assert bits(resumed) == bits(fit(name))
    assert not [left for left in os.listdir(tmp_path) if left.endswith(".tmp")]
