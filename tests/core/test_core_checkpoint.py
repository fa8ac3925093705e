"""A killed run goes on where it was, bit for bit; and a checkpoint knows whose it is."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from core_toys import DATA, Halving, InPlace, Misbehaving, same_run

from lemmata.core import (
    Blocks,
    Checkpoint,
    Diverged,
    MaxSteps,
    Never,
    Restarts,
    Settled,
    StepFailed,
    StoreError,
    run,
    storable,
    store,
)
from lemmata.core import Path as Walk

NOISY = Halving(rate=0.9, noise=0.1)


KILLED = [
    *(("plain", 3, "random"), ("restarts", 4, "random"), ("path", 5, "random")),
    *(("plain", 5, moment) for moment in ("half written", "written", "flushed", "renamed")),
]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Reports of all these runs, by one process that has imported lemmata once."""
    command = [sys.executable, str(Path(__file__).with_name("core_killer.py"))]
    command.append(str(tmp_path_factory.mktemp("killed")))
    asked = json.dumps(KILLED)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return dict(zip(KILLED, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("how", KILLED[:3], ids=str)
def test_runs_killed_at_random_moments_and_resumed_equal_a_run_never_killed(killed, how):
    report = killed[how]
    # 48 steps of a millisecond; the first two are killed after at most 20 and 24
    assert report["kills"] >= 2
    assert report["same"]
    assert report["left"] == ["run.ckpt"]


@pytest.mark.parametrize("how", KILLED[3:], ids=str)
def test_runs_killed_inside_the_writing_of_a_checkpoint_resume_as_well(killed, how):
    report = killed[how]
    assert report["kills"] >= 3
    # one each, cleared by the next run
    assert report["temporaries"] == (0 if how[2] == "renamed" else report["kills"])
    assert report["same"]
    assert report["left"] == ["run.ckpt"]


@pytest.mark.parametrize("stopped_after", range(0, 13, 3))
@pytest.mark.parametrize(
    "algorithm", [NOISY, Restarts(NOISY, n=3, stop=Settled(1e-3) | MaxSteps(4))]
)
def test_a_run_stopped_and_continued_with_a_larger_budget_equals_one_run(
    tmp_path, algorithm, stopped_after
):
    path = tmp_path / "a.ckpt"
    run(algorithm, DATA, stop=MaxSteps(stopped_after), callbacks=[Checkpoint(path)], rng=1)
    resumed = run(algorithm, DATA, stop=MaxSteps(13), callbacks=[Checkpoint(path)], rng=1)
    assert same_run(resumed, run(algorithm, DATA, stop=MaxSteps(13), rng=1))


def test_a_finished_run_resumed_is_finished_and_the_file_is_left_alone(tmp_path):
    path = tmp_path / "a.ckpt"
    run(NOISY, DATA, stop=MaxSteps(5), callbacks=[Checkpoint(path)], rng=1)
    before = path.stat().st_mtime_ns, path.read_bytes()
    again = run(NOISY, DATA, stop=MaxSteps(5), callbacks=[Checkpoint(path)], rng=1)
    assert again.step == 5
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before


def test_the_clock_of_a_resumed_run_goes_on_counting(tmp_path):
    path = tmp_path / "a.ckpt"
    first = run(NOISY, DATA, stop=MaxSteps(5), callbacks=[Checkpoint(path)], rng=1)
    rest = run(NOISY, DATA, stop=MaxSteps(9), callbacks=[Checkpoint(path)], rng=1)
    assert rest.trace.seconds[6] >= first.trace.elapsed
    assert (np.diff(rest.trace.seconds) >= 0).all()


def test_a_checkpoint_is_written_every_so_many_steps(tmp_path, monkeypatch):
    steps = []
    write = store.write
    monkeypatch.setattr(
        store,
        "write",
        lambda path, kind, content: (
            steps.append(len(content["trace"]) - 1),
            write(path, kind, content),
        ),
    )
    run(NOISY, DATA, stop=MaxSteps(10), callbacks=[Checkpoint(tmp_path / "a.ckpt", every=4)], rng=1)
    assert steps == [0, 4, 8, 10]
    steps.clear()
    run(
        NOISY,
        DATA,
        stop=MaxSteps(10),
        callbacks=[Checkpoint(tmp_path / "b.ckpt", seconds=3600)],
        rng=1,
    )
    assert steps == [0, 10]
    steps.clear()
    run(
        NOISY, DATA, stop=MaxSteps(3), callbacks=[Checkpoint(tmp_path / "c.ckpt", seconds=0)], rng=1
    )
    assert steps == [0, 1, 2, 3]


def test_a_diverged_run_leaves_its_last_good_state_in_the_file(tmp_path):
    path = tmp_path / "a.ckpt"
    for _ in range(2):  # the second time from the file: it diverges at the same step
        with pytest.warns(Diverged, match="not finite at step 4"):
            run(Misbehaving(at=4), DATA, callbacks=[Checkpoint(path)], rng=0)
    content = store.read(path, Checkpoint.KIND)
    assert content["state"].count == len(content["trace"]) - 1 == 3


def test_torn_rows_never_reach_the_file(tmp_path):
    @dataclass(frozen=True)
    class Torn(Halving):
        def extras(self, state):
            return {"a": 1.0, "b": "two" if state.count == 3 else 2.0}

    with pytest.raises(StepFailed):
        run(Torn(), DATA, callbacks=[Checkpoint(tmp_path / "a.ckpt")], rng=0)
    content = store.read(tmp_path / "a.ckpt", Checkpoint.KIND)
    assert content["state"].count == len(content["trace"]) - 1 == 2


# --- whose it is ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "data", "seed", "whose"),
    [
        (Halving(rate=0.8, noise=0.1), DATA, 1, "another algorithm"),
        (Misbehaving(rate=0.9, noise=0.1), DATA, 1, "another algorithm"),
        (Restarts(NOISY, n=2), DATA, 1, "another algorithm"),
        (NOISY, DATA + 1e-12, 1, "another data"),
        (NOISY, DATA.astype(np.float32), 1, "another data"),
        (NOISY, DATA, 2, "another seed"),
        (NOISY, DATA, np.int64(2), "another seed"),
        (Halving(), DATA[:3], 2, "another algorithm and data and seed"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused_and_left_alone(
    tmp_path, algorithm, data, seed, whose
):
    path = tmp_path / "a.ckpt"
    run(NOISY, DATA, stop=MaxSteps(3), callbacks=[Checkpoint(path)], rng=1)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"belongs to {whose}; delete it to start again"):
        run(algorithm, data, callbacks=[Checkpoint(path)], rng=seed)
    assert path.read_bytes() == before


def test_a_seed_is_the_same_seed_whatever_its_integer_type(tmp_path):
    path = tmp_path / "a.ckpt"
    run(NOISY, DATA, stop=MaxSteps(3), callbacks=[Checkpoint(path)], rng=np.int64(1))
    assert run(NOISY, DATA, stop=MaxSteps(4), callbacks=[Checkpoint(path)], rng=1).step == 4


def rule(steps):
    return Settled(1e-3) | MaxSteps(steps)


def results_of(solution):
    state = solution.state
    return same_parts(
        [solution.algorithm.best(state), state.results, [t.objective for t in state.traces]]
    )


def same_parts(value):
    arrays = {}
    return store.encode(value, arrays), {key: array.tobytes() for key, array in arrays.items()}


@pytest.mark.parametrize("first", [1, 3, 7, None])
def test_children_with_a_larger_budget_go_on_where_they_ended(tmp_path, first):
    """Stopped early or not, killed while they go on or not: what comes out is the run that had the large budget at once."""
    whole = run(Restarts(NOISY, n=3, stop=rule(9)), DATA, stop=Never(), rng=1)
    path = tmp_path / "a.ckpt"
    outer = Never() if first is None else MaxSteps(first)
    checkpoint = [Checkpoint(path, every=1)]
    run(Restarts(NOISY, n=3, stop=rule(2)), DATA, stop=outer, callbacks=checkpoint, rng=1)
    larger = Restarts(NOISY, n=3, stop=rule(9))
    for more in (3, 4, 11):  # interrupted three times on its way
        run(larger, DATA, stop=MaxSteps((first or 9) + more), callbacks=checkpoint, rng=1)
    found = run(larger, DATA, stop=Never(), callbacks=checkpoint, rng=1)
    assert results_of(found) == results_of(whole)
    assert same_parts(found.attributes) == same_parts(whole.attributes)
    again = run(larger, DATA, stop=Never(), callbacks=checkpoint, rng=1)
    assert again.step == found.step


def test_children_under_a_smaller_budget_keep_what_they_have(tmp_path):
    path = tmp_path / "a.ckpt"
    one = run(
        Restarts(NOISY, n=2, stop=rule(6)), DATA, stop=Never(), callbacks=[Checkpoint(path)], rng=1
    )
    two = run(
        Restarts(NOISY, n=2, stop=rule(3)), DATA, stop=Never(), callbacks=[Checkpoint(path)], rng=1
    )
    assert results_of(two) == results_of(one)
    with pytest.raises(ValueError, match="another algorithm"):
        run(Restarts(NOISY, n=3, stop=rule(6)), DATA, callbacks=[Checkpoint(path)], rng=1)


def test_the_rule_of_a_path_decides_where_its_children_begin_so_another_is_another_algorithm(
    tmp_path,
):
    path = tmp_path / "a.ckpt"
    over = {"noise": [0.1, 0.2]}
    run(Walk(NOISY, over, rule(4)), DATA, stop=Never(), callbacks=[Checkpoint(path)], rng=1)
    with pytest.raises(ValueError, match="another algorithm"):
        run(Walk(NOISY, over, rule(5)), DATA, stop=Never(), callbacks=[Checkpoint(path)], rng=1)


@storable
@dataclass(frozen=True)
class Sized:
    layout: ClassVar = {"centers": "k d", "counts?": "k >=0"}

    centers: np.ndarray
    counts: np.ndarray | None


class Sizing:
    """Counts up, with a state whose arrays have sizes."""

    def init(self, data, rng):
        return Sized(np.zeros((3, data.shape[1])), None)

    def step(self, state, data):
        return Sized(state.centers + 1, np.ones(3))

    def objective(self, state):
        return -float(state.centers.sum())

    def attributes(self, state):
        return {}

    def identity(self):
        return "sizing"


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (Sized(np.zeros((3, 2)), None), "d = 4 elsewhere"),
        (Sized(np.zeros((3, 4)), np.ones(2)), "k = 3 elsewhere"),
        (Sized(np.zeros((3, 4)), -np.ones(3)), "not >= 0"),
        (Sized(np.full((3, 4), np.nan), None), "contains NaN"),
        (Sized(np.zeros(4), None), "not an array with 2 axes"),
        (Sized(np.zeros((3, 4), bool), None), "not of float32"),
    ],
)
def test_a_forged_state_that_does_not_fit_the_data_is_refused(tmp_path, state, message):
    path, X = tmp_path / "a.ckpt", np.ones((5, 4))
    run(Sizing(), X, stop=MaxSteps(2), callbacks=[Checkpoint(path)], rng=1)
    assert run(Sizing(), X, stop=MaxSteps(3), callbacks=[Checkpoint(path)], rng=1).step == 3
    content = store.read(path, "checkpoint")
    store.write(path, "checkpoint", {**content, "state": state})
    with pytest.raises(store.StoreError, match=message):
        run(Sizing(), X, stop=MaxSteps(5), callbacks=[Checkpoint(path)], rng=1)


def test_a_step_that_fails_after_a_resumption_is_a_valueerror_that_names_the_file(tmp_path):
    path = tmp_path / "a.ckpt"
    run(Misbehaving(at=3, how="raise"), DATA, stop=MaxSteps(2), callbacks=[Checkpoint(path)], rng=1)
    with pytest.raises(ValueError, match=r"one over nothing.*which may be damaged") as failure:
        run(Misbehaving(at=3, how="raise"), DATA, callbacks=[Checkpoint(path)], rng=1)
    assert isinstance(failure.value, StepFailed)
    assert failure.value.solution.step == 2
    assert str(path) in str(failure.value)
    with pytest.raises(StepFailed) as failure:
        run(Misbehaving(at=3, how="raise"), DATA, rng=1)
    assert not isinstance(failure.value, ValueError)


def test_blocks_of_equal_content_are_the_same_data(tmp_path):
    @dataclass(frozen=True)
    class OnBlocks(Halving):
        def init(self, data, rng):
            return super().init(np.concatenate([rows.ravel() for rows, _ in data]), rng)

    path, X = tmp_path / "a.ckpt", np.arange(12.0).reshape(6, 2)
    run(OnBlocks(), Blocks.of(X), stop=MaxSteps(2), callbacks=[Checkpoint(path)], rng=1)
    assert (
        run(
            OnBlocks(),
            Blocks.of(X.copy(order="F")),
            stop=MaxSteps(3),
            callbacks=[Checkpoint(path)],
            rng=1,
        ).step
        == 3
    )
    with pytest.raises(ValueError, match="another data"):
        run(OnBlocks(), Blocks.of(X, weights=np.ones(6)), callbacks=[Checkpoint(path)], rng=1)


# --- whose it is, of models -----------------------------------------------------------------------------------------------


def reporting(**parameters):
    """A model that only has parameters and a run."""

    class Reporting:
        def get_params(self, deep):
            return {"alpha": 1.0, "max_iter": 5, "tol": 0.1, "random_state": 1, **parameters}

    return Reporting()


def resumed(path, algorithm=NOISY, data=DATA, **parameters):
    callbacks = [Checkpoint(path, model=reporting(**parameters))]
    return run(algorithm, data, stop=MaxSteps(3), callbacks=callbacks, rng=1)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"alpha": 2.0}, r"alpha: 1\.0 in the checkpoint, 2\.0 now"),
        ({"beta": None}, "beta: absent in the checkpoint, None now"),
        ({"alpha": "\x1b[2J"}, r"alpha: 1\.0 in the checkpoint, '\\x1b\[2J' now"),
        ({"alpha": "a" * 1000}, r"alpha: 1\.0 in the checkpoint, str now"),
        ({"alpha": 2.0, "tol": 0.5, "random_state": None}, r"alpha: .* now; random_state: 1 in the checkpoint, None now"),
    ],
)  # fmt: skip
def test_a_checkpoint_of_another_parameter_is_refused_by_name(tmp_path, parameters, says):
    path = tmp_path / "a.ckpt"
    resumed(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"belongs to another Reporting \({says}\); delete it"):
        resumed(path, **parameters)
    assert path.read_bytes() == before


def test_rules_that_stop_a_run_are_named_only_where_they_do_more(tmp_path):
    path = tmp_path / "a.ckpt"
    resumed(path)
    resumed(path, max_iter=9, tol=0.0, time_limit=3.0, verbose=2, checkpoint="elsewhere")
    with pytest.raises(
        ValueError, match=r"another algorithm \(tol: 0\.1 in the checkpoint, 0\.2 now\)"
    ):
        resumed(path, Halving(rate=0.8), tol=0.2)
    with pytest.raises(ValueError, match="another algorithm;"):
        resumed(path, Halving(rate=0.8))
    with pytest.raises(ValueError, match="another data;"):
        resumed(path, data=DATA + 1)


def test_a_checkpoint_of_another_model_is_refused_even_with_the_same_parameters(tmp_path):
    path = tmp_path / "a.ckpt"
    resumed(path)
    content = store.read(path, Checkpoint.KIND)
    owner = {**content["owner"], "model": "Lasso"}
    store.write(path, Checkpoint.KIND, {**content, "owner": owner})
    with pytest.raises(
        ValueError, match=r"another model \(Lasso in the checkpoint, Reporting now\)"
    ):
        resumed(path)


def test_a_checkpoint_from_before_parameters_were_noted_is_refused_in_a_sentence_of_its_own(
    tmp_path,
):
    path = tmp_path / "a.ckpt"
    run(NOISY, DATA, stop=MaxSteps(2), callbacks=[Checkpoint(path)], rng=1)
    with pytest.raises(
        ValueError, match=r"does not say which parameters .* earlier lemmata.*delete"
    ):
        resumed(path)
    # which a run without a model does not ask about
    assert run(NOISY, DATA, stop=MaxSteps(3), callbacks=[Checkpoint(path)], rng=1).step == 3


@pytest.mark.parametrize("parameters", [3, {"alpha": "1.0"}, {"alpha": ["1.0"]}, {"alpha": [1, 2]}])
def test_parameters_of_the_wrong_kind_are_a_damaged_file(tmp_path, parameters):
    path = tmp_path / "a.ckpt"
    resumed(path)
    content = store.read(path, Checkpoint.KIND)
    owner = {**content["owner"], "parameters": parameters}
    store.write(path, Checkpoint.KIND, {**content, "owner": owner})
    with pytest.raises(StoreError, match="its parameters are not texts"):
        resumed(path)


# --- damaged and impossible -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_checkpoint_is_refused_with_a_clear_error(tmp_path, share):
    path = tmp_path / "a.ckpt"
    run(NOISY, DATA, stop=MaxSteps(3), callbacks=[Checkpoint(path)], rng=1)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(StoreError, match=r"a\.ckpt: .*(truncated|damaged)"):
        run(NOISY, DATA, callbacks=[Checkpoint(path)], rng=1)


@pytest.mark.parametrize(
    "content", [{}, {"owner": 3, "state": 1, "trace": 2}, {"owner": {}, "state": 1, "trace": [1]}]
)
def test_a_checkpoint_with_the_wrong_parts_is_refused(tmp_path, content):
    store.write(tmp_path / "a.ckpt", Checkpoint.KIND, content)
    with pytest.raises(StoreError, match="a checkpoint holds an owner, a state and a trace"):
        run(NOISY, DATA, callbacks=[Checkpoint(tmp_path / "a.ckpt")], rng=1)


def test_a_folder_that_does_not_exist_shows_at_the_first_step_not_after_an_hour(tmp_path):
    with pytest.raises(StepFailed, match=r"after step 0.*there is no folder"):
        run(NOISY, DATA, callbacks=[Checkpoint(tmp_path / "nowhere" / "a.ckpt")], rng=1)


def test_a_state_that_cannot_be_stored_shows_before_the_first_step(tmp_path):
    with pytest.raises(
        StepFailed, match=r"after step 0.*state'\] is a Cell, which a lemmata file cannot hold"
    ):
        run(InPlace(), DATA, callbacks=[Checkpoint(tmp_path / "a.ckpt")])


def test_an_algorithm_whose_parameters_have_no_content_is_named(tmp_path):
    @dataclass(frozen=True)
    class WithFunction(Halving):
        kernel: object = None

    with pytest.raises(StoreError, match=r"WithFunction\.kernel is a function"):
        run(WithFunction(kernel=lambda x: x), DATA, callbacks=[Checkpoint(tmp_path / "a.ckpt")])


def test_every_has_to_be_a_number_of_steps(tmp_path):
    with pytest.raises(ValueError, match=r"every=0 steps makes no sense; pass an int >= 1"):
        Checkpoint(tmp_path / "a", every=0)


def test_leftovers_of_other_files_are_left_alone(tmp_path):
    (tmp_path / ".a.ckpt.12345678.tmp").write_bytes(b"half a checkpoint")
    (tmp_path / ".b.ckpt.12345678.tmp").write_bytes(b"somebody else's")
    run(NOISY, DATA, stop=MaxSteps(1), callbacks=[Checkpoint(tmp_path / "a.ckpt")], rng=1)
    assert sorted(file.name for file in tmp_path.iterdir()) == [".b.ckpt.12345678.tmp", "a.ckpt"]
