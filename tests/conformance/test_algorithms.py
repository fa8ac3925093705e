"""What every algorithm promises, checked on its own easy and hopeless problem (problems.py)."""

import warnings
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from core_toys import same_run
from problems import PROBLEMS

from lemmata.core import (
    Checkpoint,
    Diverged,
    MaxSteps,
    StepFailed,
    Trace,
    blocks,
    rounding,
    run,
    store,
)

DTYPES = [np.float32, np.float64]


@pytest.fixture(params=PROBLEMS, ids=[problem.name for problem in PROBLEMS])
def problem(request):
    return request.param


def states(problem, data, steps=6, seed=0):
    """The first states of a run, as the driver would make them."""
    algorithm = problem.algorithm()
    state = algorithm.init(data, np.random.default_rng(seed))
    finished = getattr(algorithm, "finished", lambda state: False)
    for _ in range(steps):
        yield algorithm, state
        if finished(state):
            return
        state = algorithm.step(state, data)
    yield algorithm, state


def bits(state):
    """Everything in a state, as JSON and bytes; the clocks of traces aside."""
    arrays = {}
    content = store.encode(state, arrays)
    return content, {key: array.tobytes() for key, array in arrays.items()}


def floats(value, name="state"):
    """(field of the state, array) for every float array inside."""
    if isinstance(value, Trace):
        return
    if is_dataclass(value):
        for field in fields(value):
            yield from floats(getattr(value, field.name), field.name if name == "state" else name)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from floats(item, name)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield name, value


@pytest.mark.parametrize(("seed", "dtype"), enumerate(DTYPES))
def test_states_keep_their_promises(problem, seed, dtype):
    """The loss in a state is the loss recomputed; a step leaves its input alone; float32 in gives float32 states;
    attributes of any state are a usable model.
    """
    data, seen = problem.easy(dtype), []
    # but for vectors of doubles by design
    single = dtype == np.float32 and problem.name not in ("toy", "Restarts", "Path")
    for algorithm, state in states(problem, data, seed=seed):
        seen.append((algorithm.objective(state), problem.recompute(state, data)))
        before = bits(state)
        algorithm.step(state, data)
        shown = algorithm.attributes(state)
        algorithm.objective(state)
        assert bits(state) == before
        assert shown
        assert all(np.isfinite(array).all() for _, array in floats(list(shown.values())))
        for name, array in floats(state):
            assert not single or array.dtype == dtype or name in problem.wide, name
    scale = max(abs(loss) for pair in seen for loss in pair)
    kind = np.float32 if problem.single else dtype
    for claimed, true in seen:
        # a loss is a sum of some hundred products of numbers that are themselves such sums
        assert abs(claimed - true) <= 16 * rounding(kind, terms=256) * scale


def test_stopped_and_resumed_is_never_stopped_and_a_seed_repeats_a_run(problem, tmp_path):
    def go(stop=problem.stop, **more):
        return run(problem.algorithm(), problem.easy(np.float64), stop=stop, rng=5, **more)

    whole = go()
    assert same_run(go(), whole)
    file = Checkpoint(tmp_path / "stopped.ckpt")
    for steps in (0, 1, 4):  # stopped three times on its way
        go(MaxSteps(steps), callbacks=[file])
    assert same_run(go(callbacks=[file]), whole)


@pytest.mark.parametrize(
    "problem", [p for p in PROBLEMS if p.threaded], ids=lambda problem: problem.name
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_thread_gives_the_bits_of_eight(problem, dtype, monkeypatch):
    monkeypatch.setattr(blocks, "rows_per_block", lambda n, d, itemsize: 7)
    monkeypatch.setattr(blocks, "MAX_ROWS", 7)
    runs = []
    for threads in (1, 8):
        monkeypatch.setenv("LEMMATA_THREADS", str(threads))
        runs.append(run(problem.algorithm(), problem.easy(dtype), stop=problem.stop, rng=0))
    assert same_run(*runs)


def test_a_hopeless_problem_never_ends_in_a_silent_wrong_answer(problem):
    """It raises in plain words, or warns, or the numbers of the run say that it did not get there."""
    raised, solution = "", None
    with warnings.catch_warnings(record=True) as heard, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            solution = run(problem.algorithm(), problem.hopeless(), stop=problem.stop, rng=0)
        except (StepFailed, ValueError) as error:
            raised = str(error)
    warned = any(issubclass(warning.category, Diverged) for warning in heard)
    assert len(raised) > 20 or warned or problem.says_so(solution)
