"""The loop, tried with algorithms that behave in every way an algorithm can: a fault here is a fault everywhere."""

import re
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from core_toys import DATA, Direct, Halving, InPlace, Misbehaving

from lemmata.core import (
    Diverged,
    Interrupted,
    MaxSteps,
    Never,
    Progress,
    Restarts,
    Seconds,
    Settled,
    SmallGradient,
    StepFailed,
    Stop,
    run,
)
from lemmata.core.loop import AnyOf


class Recorder:
    """A callback that notes what it is told."""

    def __init__(self):
        self.log = []

    def start(self, solution):
        self.log.append(("start", solution.step, solution.stopped))

    def __call__(self, solution):
        self.log.append(("step", solution.step, solution.stopped))

    def finish(self, solution):
        self.log.append(("finish", solution.step, solution.stopped))


# --- ends -------------------------------------------------------------------------------------------------------------


def test_a_run_makes_the_steps_it_is_asked_for_and_its_trace_begins_with_the_first_state():
    solution = run(Halving(), DATA, stop=MaxSteps(7), rng=0)
    assert (solution.stopped, solution.step, solution.state.count, len(solution.trace)) == (
        "max steps",
        7,
        7,
        8,
    )
    start = Halving().init(DATA, np.random.default_rng(0))
    np.testing.assert_array_equal(
        solution.trace.objective, [start.loss * 0.25**k for k in range(8)]
    )
    np.testing.assert_array_equal(solution.attributes["x_"], start.x * 0.5**7)
    assert solution.note == ""


def test_no_step_is_made_when_the_rule_is_true_at_the_start():
    assert run(Halving(), DATA, stop=MaxSteps(0), rng=0).step == 0


def test_without_a_rule_a_run_ends_after_a_hundred_steps():
    assert run(Halving(), DATA, rng=0).step == 100


def test_a_stalled_run_settles_and_patience_waits_longer():
    stalled = Misbehaving(how="stall", at=3)
    assert run(stalled, DATA, stop=Settled(1e-9) | MaxSteps(50), rng=0).step == 4
    patient = run(stalled, DATA, stop=Settled(1e-9, patience=5) | MaxSteps(50), rng=0)
    assert (patient.stopped, patient.step) == ("settled", 8)


def test_settled_at_zero_is_settled_and_tol_zero_switches_the_rule_off():
    zero = np.zeros(3)
    start = Halving().init(zero, np.random.default_rng(0))
    at_rest = type(start)(zero, 0, 0, 0.0)
    assert (
        run(Halving(), zero, stop=Settled(1e-9) | MaxSteps(9), start=at_rest).stopped == "settled"
    )
    assert run(Halving(), zero, stop=Settled(0) | MaxSteps(9), start=at_rest).stopped == "max steps"


def test_a_rising_objective_is_recorded_but_does_not_stop_the_run():
    solution = run(Misbehaving(how="rise", at=3), DATA, stop=MaxSteps(5), rng=0)
    assert solution.stopped == "max steps"
    rise = 1e6 + 3 - solution.trace.objective[2]
    assert solution.trace.largest_rise == pytest.approx(rise / (1e6 + 5), rel=1e-12)


def test_an_algorithm_that_is_finished_ends_the_run_under_any_rule():
    assert (run(Direct(), DATA, stop=Never(), rng=0).stopped, run(Direct(), DATA, rng=0).step) == (
        "finished",
        1,
    )


def test_a_run_that_never_ends_by_itself_ends_with_its_budget():
    started = time.perf_counter()
    solution = run(Halving(rate=1.0), DATA, stop=Seconds(0.05), rng=0)
    assert solution.stopped == "out of time"
    assert 0.05 <= solution.trace.elapsed <= time.perf_counter() - started
    assert (np.diff(solution.trace.seconds) >= 0).all()


def test_a_step_under_way_is_finished_before_the_budget_ends_the_run(monkeypatch):
    now = [0.0]

    class Slow(Halving):
        def step(self, state, data):
            now[0] += 3
            return super().step(state, data)

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    assert run(Slow(), DATA, stop=Seconds(1), rng=0).step == 1


def test_a_small_gradient_stops_a_run_and_needs_an_algorithm_that_reports_one():
    solution = run(Halving(), DATA, stop=SmallGradient(1e-3) | MaxSteps(99), rng=0)
    assert solution.stopped == "small gradient"
    assert solution.trace.extras["gradient"][-1] <= 1e-3 < solution.trace.extras["gradient"][-2]
    with pytest.raises(StepFailed, match="SmallGradient needs an algorithm whose extras report"):
        run(InPlace(), DATA, stop=SmallGradient(1e-3))


def test_rules_combine_with_or_and_the_first_that_is_true_speaks():
    rule = Settled(1e-3) | MaxSteps(5) | Seconds(60)
    assert isinstance(rule, AnyOf)
    assert len(rule.rules) == 3
    assert len((rule | (MaxSteps(2) | Never())).rules) == 5
    assert run(Halving(), DATA, stop=rule, rng=0).stopped == "max steps"
    with pytest.raises(TypeError):
        rule | 5


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Settled(float("nan")),
        lambda: Settled(-1.0),
        lambda: Settled(1e-3, patience=0),
        lambda: MaxSteps(-1),
        lambda: Seconds(0),
        lambda: Seconds(float("nan")),
        lambda: SmallGradient(float("nan")),
    ],
)
def test_rules_that_could_never_work_are_refused(wrong):
    with pytest.raises(ValueError, match=r">=? [01]"):
        wrong()


def test_a_rule_of_ones_own_needs_only_a_reason():
    class Third(Stop):
        def reason(self, solution):
            return "third time" if solution.step == 3 else None

    assert run(Halving(), DATA, stop=Third() | MaxSteps(9), rng=0).stopped == "third time"
    with pytest.raises(StepFailed, match="Stop does not say when to stop"):
        run(Halving(), DATA, stop=Stop())


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["nan", "inf", "-inf"])
def test_a_non_finite_objective_ends_the_run_at_once_with_the_last_good_state(how):
    with pytest.warns(
        Diverged,
        match=r"not finite at step 4; the state after step 3 is kept. To fix it, lower rate\.",
    ):
        solution = run(Misbehaving(how=how, at=4), DATA, stop=MaxSteps(50), rng=0)
    assert (solution.stopped, solution.step, solution.state.count) == ("diverged", 3, 3)
    assert np.isfinite(solution.trace.objective).all()
    assert "step 4" in solution.note


def test_a_first_state_that_is_not_finite_is_an_error_with_a_hint():
    with pytest.raises(StepFailed, match=r"the first objective is nan; lower rate"):
        run(Halving(), np.array([1.0, np.nan]), rng=0)


def test_a_step_that_raises_hands_over_the_last_good_state_and_the_cause():
    with pytest.raises(
        StepFailed, match=r"Misbehaving failed at step 3 with ZeroDivisionError: one over"
    ) as caught:
        run(Misbehaving(how="raise", at=3), DATA, rng=0)
    solution = caught.value.solution
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert (solution.stopped, solution.step, solution.state.count) == ("failed", 2, 2)


def test_extras_that_are_not_numbers_leave_no_torn_row_in_the_trace():
    class Torn(Halving):
        def extras(self, state):
            return {"gradient": 1.0, "name": 2.0 if state.count < 2 else "two"}

    with pytest.raises(StepFailed) as caught:
        run(Torn(), DATA, rng=0)
    trace = caught.value.solution.trace
    assert (len(trace), {len(column) for column in trace.extras.values()}) == (2, {2})


@pytest.mark.parametrize("how", ["nan", "raise"])
@pytest.mark.parametrize("poison", [1, 3])
def test_an_algorithm_that_steps_in_place_keeps_its_last_good_state(how, poison):
    if how == "nan":
        with pytest.warns(Diverged):
            solution = run(InPlace(poison, how), DATA)
    else:
        with pytest.raises(StepFailed) as caught:
            run(InPlace(poison, how), DATA)
        solution = caught.value.solution
    np.testing.assert_array_equal(solution.state.x, DATA * 0.5 ** (poison - 1))


def test_a_warm_start_goes_on_from_a_state_and_never_changes_it():
    half = run(Halving(noise=0.1), DATA, stop=MaxSteps(4), rng=0)
    whole = run(Halving(noise=0.1), DATA, stop=MaxSteps(9), rng=0)
    rest = run(Halving(noise=0.1), DATA, stop=MaxSteps(5), start=half.state)
    np.testing.assert_array_equal(rest.state.x, whole.state.x)
    np.testing.assert_array_equal(rest.trace.objective, whole.trace.objective[4:])

    start = InPlace().init(DATA, None)
    run(InPlace(), DATA, start=start)
    np.testing.assert_array_equal(start.x, DATA)


def test_errors_of_init_reach_the_user_as_they_are():
    class Picky(Halving):
        def init(self, data, rng):
            raise ValueError("rank=9 exceeds the smaller side")

    with pytest.raises(ValueError, match="rank=9"):
        run(Picky(), DATA)


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


def test_ctrl_c_inside_a_step_keeps_the_state_and_says_so():
    with pytest.warns(Interrupted, match="was interrupted; the state after step 2 is kept"):
        solution = run(Misbehaving(how="ctrl-c", at=3), DATA, rng=0)
    assert (solution.stopped, solution.step, solution.state.count) == ("interrupted", 2, 2)


def test_ctrl_c_at_any_point_of_the_driver_leaves_state_and_trace_in_step():
    """Interrupt after every k-th line the driver executes: rows of the trace always belong to the kept state."""
    seen, inner = set(), ("until_stopped", "_advance", "_reason", "_call", "append")
    for moment in range(1, 400, 3):
        count, begun = 0, False

        def tracer(frame, event, argument):
            nonlocal count, begun
            if frame.f_globals.get("__name__") not in (
                "lemmata.core.loop",
                "lemmata.core.runs.trace",
            ):
                return None
            begun = begun or frame.f_code.co_name == "until_stopped"
            if begun and event == "line" and frame.f_code.co_name in inner:
                count += 1
                if count == moment:  # noqa: B023
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return tracer

        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                solution = run(
                    Halving(), DATA, stop=MaxSteps(12), callbacks=[lambda solution: None], rng=0
                )
        finally:
            sys.settrace(before)
        seen.add(solution.stopped)
        assert solution.state.count == solution.step
        assert solution.trace.last() == solution.state.loss
        assert (
            len(solution.trace.extras["gradient"])
            == len(solution.trace.seconds)
            == len(solution.trace)
        )
    assert "interrupted" in seen


def test_a_real_sigint_returns_a_usable_model_and_a_message(hears_ctrl_c):
    script = textwrap.dedent(
        """
        import sys, time
        import numpy as np
        sys.path.insert(0, sys.argv[1])
        from core_toys import DATA, Halving
        from lemmata.core import MaxSteps, run

        class Slow(Halving):
            def step(self, state, data):
                time.sleep(0.02)
                return super().step(state, data)

        def ready(solution):
            if solution.step == 2:
                print("ready", flush=True)

        solution = run(Slow(), DATA, stop=MaxSteps(3000), callbacks=[ready], rng=0)
        print(solution.stopped, solution.step == solution.state.count, np.isfinite(solution.attributes["x_"]).all())
        """
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    child = subprocess.Popen(command, preexec_fn=hears_ctrl_c, **pipes)
    assert child.stdout.readline().strip() == "ready"
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 0, err
    assert out.split() == ["interrupted", "True", "True"]
    assert "Slow was interrupted; the state after step" in err


# --- callbacks --------------------------------------------------------------------------------------------------------


def test_callbacks_hear_of_the_start_every_step_and_the_end():
    heard, plain = Recorder(), []
    run(
        Halving(),
        DATA,
        stop=MaxSteps(2),
        callbacks=[heard, lambda solution: plain.append(solution.step)],
        rng=0,
    )
    assert heard.log == [
        ("start", 0, None),
        ("step", 1, None),
        ("step", 2, None),
        ("finish", 2, "max steps"),
    ]
    assert plain == [1, 2]


@pytest.mark.parametrize(
    ("how", "word"), [("nan", "diverged"), ("raise", "failed"), ("ctrl-c", "interrupted")]
)
@pytest.mark.filterwarnings("ignore")
def test_callbacks_hear_how_a_broken_run_ended(how, word):
    heard = Recorder()
    try:
        run(Misbehaving(how=how, at=2), DATA, callbacks=[heard], rng=0)
    except StepFailed:
        assert how == "raise"
    assert heard.log[-1] == ("finish", 1, word)


def test_callbacks_finish_even_when_the_process_is_told_to_exit():
    heard = Recorder()
    with pytest.raises(SystemExit):
        run(Misbehaving(how="exit", at=2), DATA, callbacks=[heard], rng=0)
    assert heard.log[-1] == ("finish", 1, "failed")


def test_a_callback_that_raises_stops_the_run_with_its_name_and_the_state():
    def full_disk(solution):
        if solution.step == 2:
            raise OSError("no space left")

    heard = Recorder()
    with pytest.raises(
        StepFailed, match="stopped after step 2, because its callback full_disk failed with OSError"
    ) as e:
        run(Halving(), DATA, callbacks=[full_disk, heard], rng=0)
    assert e.value.solution.state.count == e.value.solution.step == 2
    assert heard.log[-1] == ("finish", 2, "failed")


def test_a_callback_that_cannot_finish_costs_neither_the_solution_nor_the_other_callbacks():
    class Broken(Recorder):
        def finish(self, solution):
            raise OSError("no space left")

    heard = Recorder()
    with pytest.raises(StepFailed, match="its callback Broken failed with OSError") as caught:
        run(Halving(), DATA, stop=MaxSteps(3), callbacks=[Broken(), heard], rng=0)
    assert caught.value.solution.state.count == 3
    assert heard.log[-1][0] == "finish"

    with pytest.raises(StepFailed, match="failed at step 2 with ZeroDivisionError") as caught:
        run(Misbehaving(how="raise", at=2), DATA, callbacks=[Broken()], rng=0)
    assert "no space left" in caught.value.__notes__[0]


def test_a_callback_that_cannot_start_lets_the_others_finish():
    class Broken:
        def start(self, solution):
            raise OSError("no terminal")

    heard = Recorder()
    with pytest.raises(StepFailed, match="Broken failed with OSError: no terminal"):
        run(Halving(), DATA, callbacks=[heard, Broken()], rng=0)
    assert [entry[0] for entry in heard.log] == ["start", "finish"]


def test_warnings_point_at_the_line_that_called_the_library():
    with pytest.warns(Diverged) as caught:
        run(Misbehaving(), DATA, rng=0)
    assert caught[0].filename == __file__


# --- progress ---------------------------------------------------------------------------------------------------------


def test_progress_is_silent_where_there_is_no_terminal(capfd):
    run(Halving(), DATA, callbacks=[Progress("toy", total=100)], rng=0)
    assert capfd.readouterr() == ("", "")


def test_progress_shows_the_steps_and_ends_complete_when_it_is_told_to_draw(capfd, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    run(Halving(), DATA, stop=MaxSteps(5), callbacks=[Progress("toy", total=100, show=True)], rng=0)
    out, err = capfd.readouterr()
    assert out == ""
    assert "toy" in err
    assert "5/5" in err
    assert "max steps" in err


class CtrlC(Halving):
    """Ctrl-C at step 4."""

    def step(self, state, data):
        if state.count == 3:
            raise KeyboardInterrupt
        return super().step(state, data)


def on_a_terminal(monkeypatch):
    for name, value in (("TERM", "xterm"), ("FORCE_COLOR", "1"), ("COLUMNS", "160")):
        monkeypatch.setenv(name, value)


def plain(text):
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def times_left(monkeypatch, wrapped, steps):
    """What the bar says after each of so many steps of 0.11 s by the clock that it is given."""
    on_a_terminal(monkeypatch)
    now, seen = [0.0], []

    def tick(solution):
        now[0] += 0.11

    progress = Progress("toy", total=1000, show=True, clock=lambda: now[0])
    show = lambda solution: seen.append(progress._bar.tasks[0].fields["left"])  # noqa: E731
    run(wrapped, DATA, stop=MaxSteps(steps), callbacks=[tick, progress, show], rng=0)
    return seen


def test_progress_shows_the_time_that_is_left_at_most(monkeypatch):
    # 999 and 998 steps of 0.11 s
    assert times_left(monkeypatch, Halving(), 2) == ["≤ 1 min 50 s left"] * 2


def test_the_time_left_of_several_runs_is_that_of_all_of_them(monkeypatch):
    many = Restarts(Halving(), n=100, stop=MaxSteps(1000))
    assert times_left(monkeypatch, many, 2) == ["≤ 3 h 3 min left"] * 2  # 100,000 steps of 0.11 s


@pytest.mark.filterwarnings("ignore")
def test_an_interrupted_bar_looks_interrupted(capfd, monkeypatch):
    on_a_terminal(monkeypatch)
    run(CtrlC(), DATA, callbacks=[Progress("toy", total=100, show=True)], rng=0)
    err = plain(capfd.readouterr().err)
    assert "interrupted after step 3" in err
    assert "3/100" in err.splitlines()[-2]  # and not full
    run(Misbehaving(), DATA, callbacks=[Progress("toy", total=100, show=True)], rng=0)
    assert "diverged after step" in plain(capfd.readouterr().err)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (40, "40 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_times_are_written_in_the_two_units_that_matter(seconds, text):
    from lemmata.core.runs.progress import _duration

    assert _duration(seconds) == text


# --- the trace --------------------------------------------------------------------------------------------------------


def test_the_largest_rise_of_a_falling_run_is_zero():
    assert run(Halving(), DATA, rng=0).trace.largest_rise == 0.0


def test_a_trace_can_be_copied_cut_and_drawn():
    import matplotlib as mpl

    mpl.use("Agg")
    trace = run(Halving(), DATA, stop=MaxSteps(5), rng=0).trace
    copy = trace.copy()
    copy.truncate(2)
    assert (len(trace), len(copy), len(copy.extras["gradient"])) == (6, 2, 2)
    axes = trace.plot()
    assert axes.get_yscale() == "log"
    assert "6 rows" in repr(trace)


def test_a_measurement_that_begins_late_is_missing_before():
    from lemmata.core import Trace

    trace = Trace()
    trace.append(1.0, 0.0)
    trace.append(0.5, 0.1, {"late": 3.0})
    trace.append(0.4, 0.2)
    np.testing.assert_array_equal(trace.extras["late"], [np.nan, 3.0, np.nan])
    assert np.isnan(trace.last("never measured"))
    assert trace.last(back=2) == 1.0
    assert np.isnan(trace.last(back=3))
