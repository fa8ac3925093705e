"""The one path of every fit, walked with a toy: the weighted mean, found by gradient descent."""

import copy
import inspect
import pickle
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import lemmata
from lemmata.core import (
    PROVED,
    RULE_OF_THUMB,
    Blocks,
    Diverged,
    Interrupted,
    MaxSteps,
    StepFailed,
    Stopped,
    at_most,
    claim,
    common,
    map_reduce,
    passes,
    rounding,
    storable,
    validation,
)
from lemmata.core.certification import checking
from lemmata.core.estimator import Model
from lemmata.core.parameters import KW_ONLY, parameter


@storable
@dataclass(frozen=True)
class MeanState:
    x: np.ndarray
    mean: np.ndarray
    loss: float


@dataclass(frozen=True)
class MeanAlgorithm:
    """x ← x + rate (μ − x), from a random x; the loss is |x − μ|². Above rate 2 it diverges."""

    rate: float
    breaks_at: int = 0

    def init(self, data, rng):
        def total(rows, weights):
            return np.asarray(
                (rows if weights is None else sp.diags_array(weights) @ rows).sum(axis=0)
            )

        mean = map_reduce(total, data, 0.0) / data.total_weight
        return self._at(
            rng.standard_normal(data.shape[1]).astype(data.dtype), mean.astype(data.dtype)
        )

    def step(self, state, data):
        if self.breaks_at:
            raise ArithmeticError("broken")
        with np.errstate(over="ignore", invalid="ignore"):
            return self._at(
                state.x + state.x.dtype.type(self.rate) * (state.mean - state.x), state.mean
            )

    def _at(self, x, mean):
        return MeanState(x, mean, float(((x - mean) ** 2).sum()))

    def objective(self, state):
        return state.loss

    def attributes(self, state):
        return {"center_": state.x}


@claim("the centre is the mean", kind=PROVED, source="toy")
def is_mean(fit):
    total = sum(np.asarray(rows.sum(axis=0)) for rows, _ in fit.data)
    return at_most(
        np.abs(fit.center_ - total / fit.data.shape[0]).max(), 1e-3, advice="raise max_iter"
    )


@claim("it never rose", kind=PROVED, source="toy", about="run")
def never_rose(fit):
    return at_most(fit.trace.largest_rise, rounding(fit.center_.dtype))


@claim("something dear", kind=RULE_OF_THUMB, source="toy", cost=passes(200))
def dear(fit):
    if fit.model.interrupts:
        raise KeyboardInterrupt
    return at_most(0, 1)


class MeanModel(Model):
    """The toy."""

    rate: float = parameter(0.5, float).doc("How far a step goes.")
    _: KW_ONLY
    breaks_at: int = parameter(0, int)
    max_iter: int = common.max_iter()
    tol: float = common.tol(1e-9)
    random_state: object = common.random_state()
    verbose: int = common.verbose()
    checkpoint: object = common.checkpoint()
    time_limit: object = common.time_limit()

    interrupts = False  # whether Ctrl-C is pressed while the dear claim is checked
    claims = (is_mean, never_rose, dear)
    stored = {"center_": "d"}  # noqa: RUF012
    accepts_sparse = True

    def _algorithm(self, data):
        if data.shape[1] > 100:
            raise ValueError("more than 100 features; pass fewer.")
        return MeanAlgorithm(self.rate, self.breaks_at)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(40, 3)) + np.array([1, 2, 3])


def settled_model(**parameters):
    return MeanModel(**{"tol": 0.0, "max_iter": 60, "random_state": 0, **parameters})


# --- fitting ----------------------------------------------------------------------------------------------------------


def test_a_fit_has_attributes_a_trace_a_reason_and_a_certificate(X):
    model = settled_model().fit(X)
    np.testing.assert_allclose(model.center_, X.mean(axis=0), rtol=1e-12)
    assert (model.n_features_in_, model.n_iter_, model.stopped_, len(model.trace_)) == (
        3,
        60,
        "max steps",
        61,
    )
    assert model.certificate_.held == ["is_mean", "never_rose", "dear"]
    headline = str(model.certificate_).splitlines()[0]
    assert " ".join(headline.split()) == "MeanModel 40 × 3 3 hold · stopped: max steps, 60 steps"
    assert model.stopped_ is Stopped.MAX_STEPS
    assert model.certificate_.trace is model.trace_
    assert model.certificate_.data.startswith("40 × 3 float64, digest ")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_form_of_the_data_gives_the_same_fit(tmp_path, X, dtype):
    da = pytest.importorskip("dask.array")
    X = X.astype(dtype)
    X.tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", dtype=dtype, mode="r", shape=X.shape)
    whole = settled_model().fit(X).center_
    assert whole.dtype == dtype
    for form in (
        np.asfortranarray(X),
        sp.csr_array(X),
        sp.csc_matrix(X),
        mapped,
        [X[:7], X[7:]],
        da.from_array(X, chunks=9),
    ):
        center = settled_model().fit(form).center_
        assert center.dtype == dtype
        np.testing.assert_allclose(center, whole, rtol=rounding(dtype, 40) * 8)


def test_weights_count_rows_and_bad_ones_are_refused(X):
    times = np.arange(40) % 3
    repeated = settled_model().fit(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(
        settled_model().fit(X, sample_weight=times).center_, repeated.center_, rtol=1e-12
    )
    for wrong, message in (
        (np.ones(39), "sample_weight.shape"),
        (-np.ones(40), "[Nn]egative"),
        ([np.nan] * 40, "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            settled_model().fit(X, sample_weight=wrong)


def test_dear_claims_are_put_off_in_fit_and_certify_pays(monkeypatch, X):
    monkeypatch.setattr(checking, "IN_FIT", 1000)
    assert (
        settled_model().fit(X).certificate_.not_checked == []
    )  # 2 % of the least budget are enough
    monkeypatch.setattr(checking, "SHARE_OF_FIT", 1e-9)
    model = settled_model().fit(X)
    assert model.certificate_.not_checked == ["dear"]
    assert model.certificate_["dear"].note == "run certify(X) for it"
    assert model.certify(X).holds
    assert model.certify(X, seconds=0).not_checked == ["dear"]
    # what the model says of its work sets the budget
    monkeypatch.setattr(checking, "LEAST_BUDGET", 0.0)
    assert model.certify(X).not_checked == []  # 5 × 60 steps × 120 numbers
    monkeypatch.setattr(checking, "TIMES_THE_FIT", 1)
    assert model.certify(X).not_checked == ["dear"]


def test_ctrl_c_while_claims_are_checked_keeps_the_finished_fit_and_warns_once(monkeypatch, X):
    monkeypatch.setattr(MeanModel, "interrupts", True)
    with pytest.warns(
        Interrupted, match="the checking of claims was interrupted; the fit is kept"
    ) as seen:
        model = settled_model().fit(X)
    assert len(seen) == 1
    assert seen[0].filename == __file__
    np.testing.assert_allclose(model.center_, X.mean(axis=0), rtol=1e-12)
    assert (model.stopped_, model.certificate_.held) == ("max steps", ["is_mean", "never_rose"])
    assert model.certificate_.not_checked == ["dear"]
    with pytest.warns(Interrupted):
        assert model.certify(X).interrupted
    monkeypatch.setattr(MeanModel, "interrupts", False)
    assert model.certify(X).holds


def test_a_certificate_of_spoilt_attributes_has_a_title_all_the_same(monkeypatch, X):
    monkeypatch.setattr(MeanModel, "_title", lambda self, data: f"{self.center_[0]:.3f}")
    model = settled_model().fit(X)
    model.center_ = None
    found = model.certify(X)
    assert found.title == "MeanModel"
    assert found.broken == ["is_mean", "never_rose"]


def test_certify_measures_on_the_data_it_is_given(X):
    model = settled_model().fit(X)
    assert model.certify(X + 1).failed == ["is_mean"]
    with pytest.raises(ValueError, match="X has 2 features, but MeanModel is expecting 3 features"):
        model.certify(X[:, :2])
    with pytest.raises(ValueError, match="X has 2 features, but MeanModel is expecting 3 features"):
        model.certify([X[:, :2]])
    with pytest.raises(NotFittedError):
        MeanModel().certify(X)


# --- a fit that fails -------------------------------------------------------------------------------------------------


def bad_fits():
    good = np.ones((4, 3))
    nan = np.array([[1.0, np.nan, 2.0]] * 4)
    yield "NaN", {}, nan, "NaN"
    yield "infinity", {}, np.full((3, 2), np.inf), "infinity"
    yield "NaN in sparse", {}, sp.csr_array(nan), "NaN"
    yield "NaN in a stream", {}, [good, nan], "NaN"
    yield "text", {}, np.array([["a", "b"]]), "could not convert|dtype"
    yield "complex", {}, good * 1j, "[Cc]omplex"
    yield "no rows", {}, np.empty((0, 3)), r"0 sample\(s\)"
    yield "no rows in a stream", {}, [np.empty((0, 3))], r"0 sample\(s\)"
    yield "no columns in a stream", {}, [np.empty((3, 0))], r"0 feature\(s\)"
    yield "no columns", {}, np.empty((3, 0)), r"0 feature\(s\)"
    yield "one dimension", {}, np.ones(3), "Expected 2D array"
    yield "a generator", {}, (block for block in [good]), "only once"
    yield "changing width", {}, [good, good[:, :2]], "a block has 2 features"
    yield "a wrong parameter", {"max_iter": 0}, good, "max_iter"
    yield "a wrong tol", {"tol": float("nan")}, good, "tol"
    yield "a wrong time limit", {"time_limit": 0}, good, "time_limit"
    yield "parameters that do not fit the data", {}, np.ones((3, 101)), "more than 100 features"
    yield (
        "a step that raises",
        {"breaks_at": 1},
        good,
        "failed at step 1 with ArithmeticError: broken",
    )
    yield "a checkpoint nowhere", {"checkpoint": "/nowhere/at/all"}, good, "there is no folder"


BAD = {name: rest for name, *rest in bad_fits()}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("fitted", [False, True])
def test_a_fit_that_fails_leaves_the_model_as_it_was(X, name, fitted):
    parameters, data, message = (
        BAD[name] if name != "a generator" else ({}, (part for part in [X]), "only once")
    )
    model = settled_model(**({} if fitted else parameters))
    if fitted:
        model.fit(X)
        model.set_params(**parameters)
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError, StepFailed), match=message):
        model.fit(data)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is value for key, value in before.items())


def test_mapped_files_with_nan_are_refused_too(tmp_path, X):
    X[35, 1] = np.nan
    X.tofile(tmp_path / "x")
    with pytest.raises(ValueError, match="NaN"):
        settled_model().fit(np.memmap(tmp_path / "x", dtype=float, mode="r", shape=X.shape))


def test_a_failing_step_hands_over_the_last_good_state(X):
    with pytest.raises(StepFailed) as caught:
        settled_model(breaks_at=1).fit(X)
    assert caught.value.solution.attributes["center_"].shape == (3,)


def test_a_diverging_fit_keeps_the_last_finite_state_and_warns(X):
    with pytest.warns(Diverged, match=r"Mean diverged: the objective was not finite at step \d+"):
        model = settled_model(rate=1e200).fit(X)
    assert model.stopped_ == "diverged"
    assert np.isfinite(model.center_).all()
    assert "is_mean" in model.certificate_.failed


def test_rows_that_all_count_nothing_are_refused(X):
    with pytest.raises((ValueError, StepFailed)), np.errstate(all="ignore"):
        settled_model().fit(X, sample_weight=np.zeros(40))


def test_an_interruption_before_the_first_step_leaves_the_model_as_it_was(monkeypatch, X):
    def interrupted(self, state, data):
        raise KeyboardInterrupt

    model = settled_model().fit(X)
    before = dict(vars(model))
    monkeypatch.setattr(MeanAlgorithm, "step", interrupted)
    with pytest.raises(KeyboardInterrupt, match="nothing to keep"), pytest.warns(Interrupted):
        model.fit(X + 1)
    assert all(vars(model)[key] is value for key, value in before.items())
    assert vars(model).keys() == before.keys()


def test_what_fits_inside_of_a_fit_shares_its_clock_and_its_rollback(monkeypatch, X):
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    model, other = settled_model(time_limit=10), settled_model(time_limit=10)
    assert model._seconds_left() == 10
    with model._all_or_nothing():
        now[0] += 2
        with model._all_or_nothing(), other._all_or_nothing():
            now[0] += 1
            assert model._within_time(MaxSteps(3)).rules[1].limit == 7
            assert other._seconds_left() == 9
        with pytest.raises(ZeroDivisionError), model._all_or_nothing():
            model.center_ = setattr(model, "scale_", 3) or 1 / 0
        assert not hasattr(model, "scale_")
        assert not hasattr(model, "center_")
        assert model._seconds_left() == 7
        for one in (
            copy.copy(model),
            copy.deepcopy(model),
            pickle.loads(pickle.dumps(model)),
            clone(model),
        ):
            assert one._seconds_left() == 10  # no fit of it is under way
        # a limit that is used up still ends by the rule, after the step under way
        now[0] += 1e9
        assert model._within_time(MaxSteps(3)).rules[1].limit == 1e-9
    assert model._seconds_left() == 10


# --- the common parameters --------------------------------------------------------------------------------------------


def test_reaching_max_iter_warns_at_the_users_line_with_the_numbers(X):
    with pytest.warns(
        ConvergenceWarning,
        match=r"MeanModel reached max_iter=2 with relative change .* > tol=1e-09",
    ) as seen:
        MeanModel(max_iter=2, random_state=0).fit(X)
    assert seen[0].filename == __file__


def test_settling_does_not_warn(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert MeanModel(tol=0.9, random_state=0).fit(X).stopped_ == "settled"


def test_a_time_limit_ends_the_fit(X):
    began = (
        time.perf_counter()
    )  # the limit is one of the whole fit, the checking of the data included
    model = MeanModel(tol=0.0, max_iter=10**9, time_limit=0.05, random_state=0).fit(X)
    assert time.perf_counter() - began >= 0.05
    assert model.stopped_ == "out of time"
    assert model.trace_.elapsed > 0


def test_random_state_is_an_int_a_state_or_nothing(X):
    def start(random_state):
        return MeanModel(tol=0.0, max_iter=1, random_state=random_state).fit(X).trace_.objective[0]

    assert start(3) == start(3) == start(np.int64(3)) != start(4)
    assert start(np.random.RandomState(3)) == start(np.random.RandomState(3))
    shared = np.random.RandomState(3)
    assert start(shared) != start(shared)
    assert start(None) != start(None)
    with pytest.raises(ValueError, match="random_state"):
        start("seed")


def test_verbose_is_silent_where_there_is_no_terminal(X, capfd):
    settled_model(verbose=1).fit(X)
    assert capfd.readouterr() == ("", "")


def test_a_checkpoint_resumes_a_fit_to_the_bit(tmp_path, X):
    for seed in (0, None):
        path = tmp_path / f"{seed}.ckpt"
        settled_model(max_iter=7, checkpoint=path, random_state=seed).fit(X)
        resumed = settled_model(max_iter=20, checkpoint=str(path), random_state=seed).fit(X)
        assert (resumed.n_iter_, len(resumed.trace_)) == (20, 21)
        if seed == 0:
            whole = settled_model(max_iter=20).fit(X)
            assert resumed.center_.tobytes() == whole.center_.tobytes()
            assert resumed.trace_.objective.tobytes() == whole.trace_.objective.tobytes()
            with pytest.raises(ValueError, match="belongs to another data"):
                settled_model(checkpoint=path).fit(X + 1)


def test_cloning_leaves_the_fit_behind(X):
    model = clone(settled_model(rate=0.25).fit(X))
    assert (model.rate, hasattr(model, "center_")) == (0.25, False)


def test_refitting_forgets_the_names_of_the_features_before(X):
    import pandas as pd

    model = settled_model().fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    for form in (X, [X], Blocks.of(X)):
        model.fit(pd.DataFrame(X, columns=["a", "b", "c"])).fit(form)
        assert not hasattr(model, "feature_names_in_")


def outcome(door):
    """What a door lets through, or what it says."""
    try:
        found = door()
    except (ValueError, TypeError) as error:
        return type(error), str(error)
    return found.source.dtype, found.source.strides, found.source.tobytes()


HOLE = np.array([[1.0, np.nan], [np.inf, 2.0]])
PLAIN_OR_NOT = {
    "C order": np.arange(6.0).reshape(3, 2),
    "F order, float32": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(3, 2)),
    "every second row": np.arange(12.0).reshape(6, 2)[::2],
    "read-only": np.broadcast_to(1.5, (3, 2)),
    "big-endian": np.arange(6, dtype=">f8").reshape(3, 2),
    "whole numbers": np.arange(6).reshape(3, 2),
    "half precision": np.ones((3, 2), np.float16),
    "no rows": np.empty((0, 2)),
    "no columns": np.empty((3, 0)),
    "other width": np.ones((3, 5)),
    "one axis": np.ones(3),
    "a matrix of old": np.matrix(np.ones((3, 2))),
    "NaN": HOLE[:1],
    "infinity": HOLE[1:],
    "squares overflow": np.full((3, 2), 1e308),
}


@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize("case", PLAIN_OR_NOT)
def test_plain_arrays_pass_the_door_as_scikit_learns_own_would_let_them(monkeypatch, case, reset):
    rows, found = PLAIN_OR_NOT[case], []
    for short in (True, False):
        model = settled_model().fit(np.random.default_rng(0).normal(size=(9, 2)))
        if not short:
            monkeypatch.setattr(validation, "is_plain", lambda *_: False)
        found.append(
            (outcome(partial(model._validate_rows, rows, reset=reset)), model.n_features_in_)
        )
    assert found[0] == found[1]


def test_blocks_are_data_like_any_other_and_stay_as_they_are(X):
    data = Blocks.of(X)
    model = settled_model().fit(data, sample_weight=np.arange(40.0))
    assert data.weights is None
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.certify(Blocks.of(X[:, :2]))


def test_a_real_sigint_during_fit_returns_a_fitted_model(hears_ctrl_c):
    script = textwrap.dedent(
        """
        import sys, time
        import numpy as np
        sys.path.insert(0, sys.argv[1])
        import test_core_estimator as toys

        step = toys.MeanAlgorithm.step
        def slow(self, state, data):
            print("ready", flush=True)
            time.sleep(0.05)
            return step(self, state, data)
        toys.MeanAlgorithm.step = slow
        X = np.random.default_rng(0).normal(size=(40, 3))
        model = toys.MeanModel(tol=0.0, max_iter=10_000, random_state=0).fit(X)
        print(model.stopped_, model.center_.shape, len(model.certificate_))
        """
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    child = subprocess.Popen(command, preexec_fn=hears_ctrl_c, **pipes)
    for _ in range(3):
        assert child.stdout.readline().strip() == "ready"
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert out.splitlines()[-1] == "interrupted (3,) 3"
    assert "was interrupted; the state after step" in err


# --- files ------------------------------------------------------------------------------------------------------------


def parts(X):
    model = settled_model().fit(X)
    return model.get_params(), model.stored_attributes()


def test_a_model_is_restored_from_its_parts(X):
    parameters, attributes = parts(X)
    assert attributes["certificate_"].trace is None  # it is the model's, which is written once
    model = MeanModel.restored(parameters, attributes)
    assert model.certificate_.trace is model.trace_
    assert model.stopped_ is Stopped.MAX_STEPS
    assert (
        MeanModel.restored(parameters, {**attributes, "stopped_": "max steps"}).stopped_
        is Stopped.MAX_STEPS
    )
    assert MeanModel.restored(parameters, {**attributes, "stopped_": "tired"}).stopped_ == "tired"
    np.testing.assert_array_equal(model.center_, settled_model().fit(X).center_)
    assert model.certify(X).failed == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p, a: p.update(nonsense=1), "unknown parameter 'nonsense'"),
        (lambda p, a: p.update(max_iter="many"), "max_iter"),
        (lambda p, a: p.update(tol=float("nan")), "tol"),
        (lambda p, a: a.update(fit=1), "unknown attribute 'fit'"),
        (lambda p, a: a.update(__class__=1), "unknown attribute '__class__'"),
        (lambda p, a: a.pop("center_"), "the attribute center_ is missing"),
        (lambda p, a: a.pop("certificate_"), "the attribute certificate_ is missing"),
        (
            lambda p, a: a.update(center_=np.ones(4)),
            r"center_ has shape \(4,\), but d = 3 elsewhere",
        ),
        (lambda p, a: a.update(center_=np.ones((3, 1))), "center_ is not an array with 1 axes"),
        (lambda p, a: a.update(center_=[1.0, 2.0, 3.0]), "center_ is not an array"),
        (
            lambda p, a: a.update(center_=np.array(["a", "b", "c"])),
            "center_ is an array of <U1, not of float32 or float64",
        ),
        (
            lambda p, a: a.update(feature_names_in_=np.ones(3)),
            "feature_names_in_ is an array of float64, not of text",
        ),
        (lambda p, a: a.update(trace_="trace"), "trace_ is a str, not a Trace"),
        (lambda p, a: a.update(n_iter_="many"), "n_iter_ is a str, not a whole number"),
        (lambda p, a: a.update(n_iter_=True), "n_iter_ is a bool, not a whole number"),
        (lambda p, a: a.update(stopped_=None), "stopped_ is a NoneType, not a str"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(X, change, message):
    parameters, attributes = parts(X)
    change(parameters, attributes)
    with pytest.raises(ValueError, match=message):
        MeanModel.restored(parameters, attributes)


def test_an_unknown_parameter_brings_the_one_that_was_meant():
    with pytest.raises(
        TypeError, match=r"PCA has no parameter 'n_component'; did you mean 'n_components'\?"
    ):
        lemmata.PCA(n_component=2)
    with pytest.raises(TypeError, match="KMeans has no parameter 'zzz'; it has n_clusters, "):
        lemmata.KMeans(zzz=1)


@pytest.mark.parametrize("name", ["PCA", "KMeans", "GaussianMixture", "ALS"])
def test_signatures_stay_explicit(name):
    model = getattr(lemmata, name)
    assert sorted(inspect.signature(model).parameters) == sorted(model().get_params(deep=False))


@pytest.mark.parametrize("name", ["PCA", "KMeans", "KernelPCA"])
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_what_is_not_finite_is_named_with_its_place(name, value, word):
    X = np.random.default_rng(0).normal(size=(20, 3))
    X[7, 2] = value
    with pytest.raises(ValueError, match=f"contains {word}: the first in row 7, column 2"):
        getattr(lemmata, name)(2).fit(X)


def test_the_box_in_a_notebook_shows_the_verdict_and_links_to_the_docs():
    model = lemmata.PCA(2)
    assert "certificate: " not in model._repr_mimebundle_()["text/html"]
    model.fit(np.random.default_rng(0).normal(size=(30, 4)))
    box = model._repr_mimebundle_()["text/html"]
    assert "certificate: " in box
    assert "hold" in box
    assert "docs/reduction.md" in box


def test_an_argument_of_100_kb_is_not_repeated():
    with pytest.raises(ValueError, match="'tol'") as error:
        lemmata.PCA(tol="x" * 100_000).fit(np.eye(3))
    assert len(str(error.value)) < 2000


@pytest.mark.parametrize(
    ("name", "parameter"), [("PCA", "n_components"), ("KMeans", "n_clusters"), ("PCA", "tol")]
)
def test_a_truth_value_is_no_number(name, parameter):
    with pytest.raises(ValueError, match=f"{name}: {parameter}=True is a bool; pass a number"):
        getattr(lemmata, name)(**{parameter: True}).fit(np.eye(3))
