"""Progress on the terminal: one line that shows how far a fit, or the check of its claims, has come. Silent elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from lemmata.core.loop import Solution


class Progress:
    """Callback that draws a rich progress line on stderr, at most ten times a second.

    Parameters
    ----------
    title : str
    total : int, optional
        The largest number of steps, if there is one.
    show : bool, optional
        Draw or not; by default only if stderr is a terminal.
    """

    def __init__(self, title: str = "", total: int | None = None, show: bool | None = None):
        self.title, self.total = title, total
        self.show = _on_terminal() if show is None else show
        self._bar: Any = None
        self._task: Any = None
        self._next = 0.0

    def start(self, solution: Solution) -> None:
        if not self.show:
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("objective {task.fields[objective]}"),
            TimeElapsedColumn(),
        )
        self._bar = Bar(*columns, console=Console(stderr=True), transient=False)
        self._bar.start()
        self._task = self._bar.add_task(
            self.title, total=self.total, objective=f"{solution.trace.last():.6g}"
        )

    def __call__(self, solution: Solution) -> None:
        if self._bar is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.1
            self._show(solution)

    def finish(self, solution: Solution) -> None:
        if self._bar is not None:
            # a run that settled early is done, not at a tenth
            self._show(solution, total=solution.step)
            self._bar.stop()
            self._bar = None

    def _show(self, solution: Solution, **more: Any) -> None:
        self._bar.update(
            self._task, completed=solution.step, objective=f"{solution.trace.last():.6g}", **more
        )


class Checking:
    """Shows which claim is being checked, while it is; leaves nothing behind.

    with Checking("PCA", total=9) as bar:
        check(claims, fit, title, progress=bar)
    """

    def __init__(self, title: str, total: int, show: bool | None = None):
        self.title, self.total = title, total
        self.show = _on_terminal() if show is None else show
        self._bar: Any = None

    def __enter__(self) -> Checking:
        if self.show:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(),
            )  # fmt: skip
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
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


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
