"""Restarts and Path: children with their own traces under one budget."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from core_toys import DATA, Cell, Halving, InPlace, Misbehaving, same_value

from lemmata.core import (
    Diverged,
    MaxSteps,
    Never,
    Path,
    Restarts,
    Seconds,
    Settled,
    StepFailed,
    run,
)

NOISY = Halving(rate=0.9, noise=0.1)


def test_every_restart_is_the_run_it_would_have_been_alone():
    solution = run(Restarts(NOISY, n=4, stop=MaxSteps(6)), DATA, stop=Never(), rng=7)
    assert solution.stopped == "finished"
    assert [len(trace) for trace in solution.children] == [7] * 4
    for seed, result, trace in zip(
        solution.state.seeds, solution.state.results, solution.children, strict=True
    ):
        alone = run(NOISY, DATA, stop=MaxSteps(6), rng=seed)
        assert same_value(alone.state, result)
        assert same_value(alone.trace, trace)


def test_restarts_show_the_child_with_the_lowest_objective():
    solution = run(Restarts(NOISY, n=6, stop=MaxSteps(3)), DATA, stop=Never(), rng=0)
    ends = [trace.last() for trace in solution.children]
    best = solution.state.results[int(np.argmin(ends))]
    np.testing.assert_array_equal(solution.attributes["x_"], best.x)
    assert len(set(ends)) == 6


def test_the_trace_of_the_whole_says_which_child_each_row_belongs_to():
    trace = run(Restarts(NOISY, n=3, stop=MaxSteps(2)), DATA, stop=Never(), rng=0).trace
    np.testing.assert_array_equal(trace.extras["child"], np.repeat([0, 1, 2], 3))
    assert np.isfinite(trace.extras["gradient"]).all()


def test_one_budget_covers_all_children_and_the_best_so_far_is_shown():
    solution = run(Restarts(NOISY, n=100, stop=MaxSteps(5)), DATA, stop=MaxSteps(14), rng=0)
    assert (solution.stopped, len(solution.children), len(solution.state.results)) == (
        "max steps",
        3,
        2,
    )
    assert solution.trace.last() == solution.children[-1].last()
    states = [*solution.state.results, solution.state.state]
    best = int(np.argmin([trace.last() for trace in solution.children]))
    np.testing.assert_array_equal(solution.attributes["x_"], states[best].x)


def test_a_child_has_a_clock_of_its_own():
    restarts = Restarts(Halving(rate=1.0), n=2, stop=Seconds(0.02))
    solution = run(restarts, DATA, stop=Never(), rng=0)
    assert [trace.elapsed >= 0.02 for trace in solution.children] == [True, True]


@dataclass(frozen=True)
class Fragile(Halving):
    """Diverges if the seed in its state is even, at step `at`; at = 0: from the first state on."""

    at: int = 2

    def init(self, data, rng):
        state = super().init(data, rng)
        return replace(state, loss=np.nan) if self.at == 0 and state.seed % 2 == 0 else state

    def step(self, state, data):
        new = super().step(state, data)
        return replace(new, loss=np.nan) if state.seed % 2 == 0 and new.count == self.at else new


@pytest.mark.parametrize("at", [0, 1, 2])
def test_children_that_diverge_are_survived(at):
    solution = run(Restarts(Fragile(at=at), n=8, stop=MaxSteps(3)), DATA, stop=Never(), rng=0)
    lost = [result.seed % 2 == 0 for result in solution.state.results]
    assert solution.stopped == "finished"
    assert 0 < sum(lost) < 8
    assert [len(trace) - 1 for trace in solution.children] == [
        max(at - 1, 0) if gone else 3 for gone in lost
    ]
    assert np.isfinite(solution.trace.objective).all()
    assert np.isfinite(solution.algorithm.objective(solution.state))
    shown = solution.attributes["x_"]
    assert any(
        shown is result.x
        for result, gone in zip(solution.state.results, lost, strict=True)
        if not gone
    )


def test_children_that_are_all_lost_at_once_are_an_error_with_the_childs_hint():
    with pytest.raises(StepFailed, match=r"Restarts: the first objective is nan; lower rate"):
        run(Restarts(Halving(), n=3), np.array([np.nan]), rng=0)


def test_a_child_that_raises_ends_the_whole_with_the_last_good_state():
    with pytest.raises(StepFailed, match="failed at step 3 with ZeroDivisionError") as caught:
        run(Restarts(Misbehaving(how="raise", at=3), n=3), DATA, rng=0)
    assert caught.value.solution.state.state.count == 2


def test_a_child_that_steps_in_place_leaves_the_states_before_it_alone():
    restarts = Restarts(InPlace(poison=3), n=2, stop=MaxSteps(9))
    state = restarts.init(DATA, np.random.default_rng(0))
    after = restarts.step(state, DATA)
    np.testing.assert_array_equal(state.state.x, DATA)
    np.testing.assert_array_equal(after.state.x, DATA / 2)
    solution = run(restarts, DATA, stop=Never(), rng=0)
    for result in solution.state.results:
        assert isinstance(result, Cell)
        np.testing.assert_array_equal(result.x, DATA / 4)


@dataclass(frozen=True)
class Warm(Halving):
    def warm(self, state, data):
        return replace(state, count=0)


def test_a_path_begins_each_child_where_the_one_before_ended():
    path = Path(Warm(), over={"rate": [0.9, 0.5, 0.1]}, stop=MaxSteps(2))
    solution = run(path, DATA, stop=Never(), rng=0)
    first = solution.children[0].objective[0]
    np.testing.assert_allclose(
        solution.state.state.loss, first * (0.9 * 0.5 * 0.1) ** 4, rtol=1e-12
    )
    np.testing.assert_array_equal(solution.attributes["x_"], solution.state.state.x)
    for before, after in zip(solution.children, solution.children[1:], strict=False):
        assert after.objective[0] == before.objective[-1]


def test_a_path_of_an_algorithm_without_warm_starts_begins_anew():
    path = Path(Halving(), over={"rate": [0.9, 0.5]}, stop=MaxSteps(2))
    starts = [trace.objective[0] for trace in run(path, DATA, stop=Never(), rng=0).children]
    assert starts[0] != starts[1]


def test_children_settle_by_their_own_rules():
    solution = run(
        Restarts(Misbehaving(how="stall", at=2), n=2, stop=Settled(1e-9)), DATA, stop=Never(), rng=0
    )
    assert [len(trace) - 1 for trace in solution.children] == [3, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Restarts(NOISY, n=0),
        lambda: Path(NOISY, over={}),
        lambda: Path(NOISY, over={"rate": []}),
        lambda: Path(NOISY, over={"rate": [1], "noise": [1]}),
        lambda: Path(NOISY, over={"ratte": [1]}),
    ],
)
def test_repetitions_of_nothing_or_of_two_things_are_refused(wrong):
    with pytest.raises(ValueError, match=r"n is an int >= 1|Path goes over"):
        wrong()


def test_a_restart_of_restarts_works():
    inner = Restarts(NOISY, n=2, stop=MaxSteps(2))
    solution = run(Restarts(inner, n=2, stop=Never()), DATA, stop=Never(), rng=0)
    assert [len(trace) for trace in solution.children] == [6, 6]
    assert solution.attributes["x_"].shape == DATA.shape


def test_divergence_of_a_single_child_run_is_not_reported_as_divergence_of_the_whole(recwarn):
    run(Restarts(Fragile(at=1), n=4, stop=MaxSteps(3)), DATA, stop=Never(), rng=0)
    assert not [warning for warning in recwarn if issubclass(warning.category, Diverged)]
