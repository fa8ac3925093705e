"""Progress on the terminal: one line that shows how far a fit, or the check of its claims, has come. Silent elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from lemmata.core.certification.showing import printable
from lemmata.core.loop import Solution, Stopped

CUT_OFF = {str(word) for word in (Stopped.INTERRUPTED, Stopped.DIVERGED, Stopped.FAILED)}


class Progress:
    """Callback that draws a rich progress line on stderr, at most ten times a second.

    Parameters
    ----------
    title : str
    total : int, optional
        The largest number of steps, of one child if there are several. Most runs settle before it, so that the time left is
        an upper bound.
    show : bool, optional
        Draw or not; by default only if stderr is a terminal.
    clock : callable, default=time.monotonic
        Where the seconds come from.
    """

    def __init__(
        self,
        title: str = "",
        total: int | None = None,
        show: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.title, self.total, self.clock = title, total, clock
        self.show = _on_terminal() if show is None else show
        self._bar: Any = None
        self._task: Any = None
        self._next = 0.0
        self._began = 0.0
        self._first = 0  # the step that a resumed run began at

    def start(self, solution: Solution) -> None:
        if not self.show:
            return
        self._bar = _bar(_text("objective {task.fields[objective]}"), _text("{task.fields[left]}"))
        self._began, self._first = self.clock(), solution.step
        if self.total is not None and hasattr(solution.algorithm, "count"):
            self.total *= solution.algorithm.count()  # so many runs, or steps in an epoch
        self._bar.start()
        self._task = self._bar.add_task(
            printable(self.title),
            total=self.total,
            objective=f"{solution.trace.last():.6g}",
            left="",
        )

    def __call__(self, solution: Solution) -> None:
        if self._bar is not None and self.clock() >= self._next:
            self._next = self.clock() + 0.1
            self._show(solution, left=self._remaining(solution.step))

    def finish(self, solution: Solution) -> None:
        """The last line stays: full and with its reason if the run ended by its rules, where it was if it was cut off."""
        if self._bar is None:
            return
        word = str(solution.stopped or "")
        if word in CUT_OFF:
            self._show(solution, left=f"[bold red]{word}[/] after step {solution.step:,}")
        else:
            # a run that settled early is done, not at a tenth
            self._show(solution, total=max(solution.step, 1), left=word)
        self._bar.stop()
        self._bar = None

    def _remaining(self, step: int) -> str:
        """The time that the steps up to `total` would take at the speed so far."""
        done = step - self._first
        if self.total is None or done < 1 or step >= self.total:
            return ""
        seconds = (self.clock() - self._began) / done * (self.total - step)
        return f"≤ {_duration(seconds)} left"

    def _show(self, solution: Solution, **more: Any) -> None:
        objective = f"{solution.trace.last():.6g}"
        self._bar.update(self._task, completed=solution.step, objective=objective, **more)


class Checking:
    """Shows which claim is being checked, while it is; leaves nothing behind.

    with Checking("PCA", total=9) as bar:
        check(claims, fit, title, progress=bar)
    """

    def __init__(self, title: str, total: int, show: bool | None = None):
        self.title, self.total = printable(title), total
        self.show = _on_terminal() if show is None else show
        self._bar: Any = None

    def __enter__(self) -> Checking:
        if self.show:
            self._bar = _bar(transient=True)
            self._bar.start()
            self._task = self._bar.add_task(f"checking {self.title}", total=self.total)
            self._begun = False
        return self

    def __call__(self, name: str) -> None:
        """The check of this claim begins; that of the one before is done."""
        if self._bar is not None:
            words = f"checking {self.title}: {name}"
            self._bar.update(self._task, description=words, advance=int(self._begun))
            self._begun = True

    def __exit__(self, *error: Any) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _bar(*more: Any, transient: bool = False) -> Any:
    """A rich bar on stderr: what is done, how much of it, for how long, and more columns."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    what = TextColumn("{task.description}", markup=False)  # a title is text, whatever is in it
    columns = (what, BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(), *more)
    return Bar(*columns, console=Console(stderr=True), transient=transient)


def _text(format: str) -> Any:
    from rich.progress import TextColumn

    return TextColumn(format)


def _duration(seconds: float) -> str:
    """A time to wait, in the two units that matter: 40 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 59.5:
        return f"{max(round(seconds), 1)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
