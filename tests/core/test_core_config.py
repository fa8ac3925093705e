"""Settings of the process: a fit without checks."""

import os
import subprocess
import sys

import numpy as np
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import lemmata
from lemmata.core.engine import as_sent, checks_in_fit, sent_along

X = np.random.default_rng(0).normal(size=(60, 4))


def test_without_certificates_nothing_is_checked_and_nothing_holds():
    with lemmata.config(certificate=False):
        off = lemmata.PCA(2).fit(X).certificate_
    on = lemmata.PCA(2).fit(X).certificate_
    assert off.not_checked == [claim.name for claim in on]
    assert not off.holds
    assert on.held


def test_the_setting_ends_with_its_block_also_after_an_error_and_nests():
    with pytest.raises(KeyError), lemmata.config(certificate=False):
        raise KeyError
    with lemmata.config(certificate=False):
        with lemmata.config(certificate=True):
            assert lemmata.PCA(2).fit(X).certificate_.held
        assert not lemmata.PCA(2).fit(X).certificate_.held
    assert lemmata.PCA(2).fit(X).certificate_.held


def test_processes_started_inside_have_the_setting():
    code = "import lemmata, numpy as np; print(lemmata.PCA(1).fit(np.eye(3)).certificate_.held)"
    with lemmata.config(certificate=False):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
    assert done.stdout.strip() == "[]"
    assert "LEMMATA_CERTIFICATE" not in os.environ


def test_a_setting_that_is_no_bool_is_refused():
    with pytest.raises(TypeError, match="pass True or False"), lemmata.config(certificate="no"):
        pass


def held_in_pipeline(pipeline):
    return clone(pipeline).fit(X)[0].certificate_.held


def test_workers_that_run_already_get_the_setting_with_the_model():
    pipeline = make_pipeline(lemmata.PCA(2))
    with Parallel(n_jobs=2) as workers:
        on = workers(delayed(held_in_pipeline)(pipeline) for _ in range(2))
        with lemmata.config(certificate=False):
            off = workers(delayed(held_in_pipeline)(pipeline) for _ in range(2))
        again = workers(delayed(held_in_pipeline)(pipeline) for _ in range(2))
    assert off == [[], []]
    assert on == again
    assert on[0]


def test_settings_that_come_back_or_from_a_file_change_nothing():
    with lemmata.config(certificate=False):
        settings = sent_along()
    for sender in (os.getpid(), 1_234_567):
        with as_sent({**settings, "sender": sender}):
            assert checks_in_fit()
    assert set(sent_along()) <= {"sender"}


def test_a_worker_that_was_started_inside_does_not_keep_the_setting():
    get_reusable_executor().shutdown(wait=True)
    pipeline = make_pipeline(lemmata.PCA(2))
    with Parallel(n_jobs=2) as workers:
        with lemmata.config(certificate=False):
            off = workers(delayed(held_in_pipeline)(pipeline) for _ in range(2))
        on = workers(delayed(held_in_pipeline)(pipeline) for _ in range(2))
    assert off == [[], []]
    assert all(on)


def test_a_model_that_came_back_from_a_worker_does_not_remember_the_setting():
    with Parallel(n_jobs=2) as workers:
        with lemmata.config(certificate=False):
            [back] = workers([delayed(clone)(lemmata.PCA(2))])
        assert workers([delayed(held_in_pipeline)(make_pipeline(back))])[0]
