"""Forks and threads: a model that was used in a process can be used in its children, and in many threads at once."""

import os
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from small_models import data_of, targets, unfitted

import lemmata
from lemmata import registry
from lemmata.embedding.base import EmbeddingModel


def bits(array):
    """The bits of an array; of words what they are, not where they lie."""
    array = np.asarray(array)
    return array.tolist() if array.dtype == object else array.tobytes()


def fit_and_use(name):
    """Bits of a fit and of the first thing that one does with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = unfitted(name)
        model.fit(data_of(name), *targets(model, data_of(name)))
        if isinstance(model, EmbeddingModel):
            used = model.embedding_
        elif name == "Alignment":
            used = model.rotation_
        elif hasattr(model, "recommend"):
            used = model.recommend([0, 1], 2).scores
        else:
            used = getattr(model, "predict", getattr(model, "transform", np.asarray))(data_of(name))
    arrays = {k: v for k, v in model.stored_attributes().items() if isinstance(v, np.ndarray)}
    parts = used if isinstance(used, list) else [used]  # labels of the words of each text
    return {name: bits(array) for name, array in arrays.items()}, [*map(bits, parts)]


def in_a_fork(work, seconds=60.0):
    """Do something in a forked child; whether it ended well and said the same."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hung"


def check(name):
    here = fit_and_use(name)
    assert in_a_fork(lambda: fit_and_use(name) == here) == 0
    # a child of a child, as pools of pools have
    assert in_a_fork(lambda: in_a_fork(lambda: fit_and_use(name) == here) == 0) == 0
    with ThreadPoolExecutor(4) as pool:
        assert all(found == here for found in pool.map(fit_and_use, [name] * 8))
    assert in_a_fork(lambda: fit_and_use(name) == here) == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["PCA", "KMeans", "GaussianMixture", "ImputedSVD", "ALS"])
def test_used_models_survive_forks_and_threads(name):
    with lemmata.config(certificate=False):
        check(name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["always", "never"])
@pytest.mark.parametrize("name", registry.MODELS)
def test_every_model_survives_forks_and_threads_compiled_or_not(name, mode):
    with lemmata.config(compile=mode):
        check(name)
