"""Measurements of a run: one row per state, the first state (step 0) included.

>>> trace = Trace()
>>> for loss in (4.0, 2.0, 2.5):
...     trace.append(loss, seconds=0.0, extras={"gradient": loss / 2})
>>> trace.step, trace.objective
(array([0, 1, 2]), array([4. , 2. , 2.5]))
>>> trace.largest_rise                       # 0.5 of 4
0.125
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import numpy as np

from lemmata.core.store import storable

NAN = float("nan")


def decay_rate(logs: np.ndarray, least: int = 3) -> float:
    """The factor per step by which numbers with these logarithms shrink; NaN where fewer than `least` rows show it.

    Fitted to the lower half of their decades: at first every mode takes part (the numbers may even grow), at the end only the
    slowest one does.
    """
    if len(logs) < least:
        return NAN
    above = np.flatnonzero(logs > (logs.max() + logs[-1]) / 2)
    tail = logs[above[-1] + 1 :] if above.size else logs[:0]
    if len(tail) < least:
        return NAN
    return float(np.exp(np.polyfit(np.arange(len(tail)), tail, 1)[0]))


@storable
class Trace:
    """Objective, seconds and extra measurements of every step, as arrays."""

    version = 1

    def __init__(self):
        self._objective = array("d")
        self._seconds = array("d")
        self._extras: dict[str, array] = {}

    def __len__(self) -> int:
        return len(self._objective)

    def __contains__(self, name: str) -> bool:
        """Whether the run measured an extra of this name."""
        return name in self._extras

    def append(
        self, objective: float, seconds: float, extras: Mapping[str, float] | None = None
    ) -> None:
        """Add a row. A measurement not made at some step is NaN there."""
        for name, value in (extras or {}).items():
            if name not in self._extras:
                self._extras[name] = array("d", [NAN] * len(self))
            self._extras[name].append(value)
        self._objective.append(objective)
        self._seconds.append(seconds)
        for column in self._extras.values():
            if len(column) < len(self):
                column.append(NAN)

    def truncate(self, length: int) -> None:
        """Forget the rows from `length` on."""
        for column in (self._objective, self._seconds, *self._extras.values()):
            del column[length:]

    def copy(self) -> Trace:
        trace = Trace()
        trace._objective, trace._seconds = self._objective[:], self._seconds[:]
        trace._extras = {name: column[:] for name, column in self._extras.items()}
        return trace

    @property
    def step(self) -> np.ndarray:
        return np.arange(len(self))

    @property
    def objective(self) -> np.ndarray:
        return np.array(self._objective)

    @property
    def seconds(self) -> np.ndarray:
        return np.array(self._seconds)

    @property
    def extras(self) -> dict[str, np.ndarray]:
        return {name: np.array(column) for name, column in self._extras.items()}

    @property
    def elapsed(self) -> float:
        """Seconds from the start of the run to the last row."""
        return self._seconds[-1] if self._seconds else 0.0

    def last(self, name: str = "objective", back: int = 0) -> float:
        """The newest value of a column, or the one `back` rows before it; NaN if there is none."""
        column = self._objective if name == "objective" else self._extras.get(name, ())
        return column[-1 - back] if len(column) > back else NAN

    @property
    def largest_rise(self) -> float:
        """The largest increase of the objective from one step to the next, as a share of its largest magnitude.

        Relative to the whole run rather than to the step, because the rounding error of a sum follows the size of its
        terms: near a minimum of zero the terms are still as large as the data.
        """
        values = self.objective
        scale = np.abs(values).max(initial=0.0)
        rises = np.diff(values)
        return float(max(rises.max(initial=0.0), 0.0) / scale) if scale > 0 else 0.0

    def plot(self, ax=None):
        """Draw the objective against the step; on a log scale where it is positive and spans a decade."""
        import matplotlib.pyplot as plt

        from lemmata.core.certification.pictures import BLUE

        if ax is None:
            _, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
        values = self.objective
        ax.plot(self.step, values, color=BLUE, marker="o" if len(self) < 40 else None, markersize=3)
        if values.size and values.min() > 0 and values.max() > 10 * values.min():
            ax.set_yscale("log")
        ax.set(xlabel="step", ylabel="objective")
        return ax

    def to_fields(self) -> dict:
        """The columns as arrays, for files and copies."""
        return {"objective": self.objective, "seconds": self.seconds, "extras": self.extras}

    @classmethod
    def from_fields(cls, fields: Mapping) -> Trace:
        trace = cls()
        trace._objective, trace._seconds = _column(fields["objective"]), _column(fields["seconds"])
        trace._extras = {str(name): _column(values) for name, values in fields["extras"].items()}
        columns = (trace._seconds, *trace._extras.values())
        if any(len(column) != len(trace) for column in columns):
            raise ValueError("the columns of a trace have different lengths.")
        return trace

    def __repr__(self) -> str:
        return f"Trace({len(self)} rows, objective {self.last():.6g}, {self.elapsed:.2f} s)"


def _column(values: np.ndarray) -> array:
    if values.dtype != np.float64 or values.ndim != 1:
        raise ValueError(
            f"a column of a trace is a row of float64, not {values.dtype} of shape {values.shape}."
        )
    return array("d", values.tobytes())
