"""history_: a table of epochs, read off the trace of a run.

>>> from lemmata.core import Trace
>>> trace = Trace()
>>> for loss in (0.7, 0.4):
...     trace.append(loss, seconds=1.5, extras={"rate": 0.1})
>>> history = History.of(trace)
>>> history["loss"], history[-1]["loss"]
(array([0.7, 0.4]), 0.4)
>>> print(history)
 epoch    loss    rate  seconds
     0     0.7     0.1      1.5
     1     0.4     0.1      1.5
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from lemmata.core.runs.trace import Trace

COLUMNS = ("loss", "validation_loss", "validation_score", "rate", "seconds")


class History(Mapping):
    """One row per epoch, the state before the first (epoch 0) included; a mapping from names of columns to arrays."""

    def __init__(self, columns: Mapping[str, np.ndarray]):
        self.columns = dict(columns)

    @classmethod
    def of(cls, trace: Trace) -> History:
        known = {"loss": trace.objective, "seconds": trace.seconds, **trace.extras}
        found = {"epoch": trace.step, **{name: known[name] for name in COLUMNS if name in known}}
        return cls(found)

    def __getitem__(self, key: Any) -> Any:
        """A column by its name, or a row by its number as a dict."""
        if isinstance(key, str):
            return self.columns[key]
        return {name: values[key].item() for name, values in self.columns.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        """Columns, as of any mapping."""
        return len(self.columns)

    def to_frame(self) -> Any:
        """A pandas DataFrame, where pandas is there."""
        from lemmata.registry import require

        return require("pandas", "test", what="history_.to_frame()").DataFrame(self.columns)

    def __str__(self) -> str:
        widths = [max(len(name), 6) for name in self]
        lines = ["  ".join(f"{name:>{width}}" for name, width in zip(self, widths, strict=True))]
        for row in zip(*self.columns.values(), strict=True):
            lines.append("  ".join(f"{x:>{w}.4g}" for x, w in zip(row, widths, strict=True)))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{name}</th>" for name in self)
        rows = "".join(
            "<tr>" + "".join(f"<td>{value:.4g}</td>" for value in row) + "</tr>"
            for row in zip(*self.columns.values(), strict=True)
        )
        return f"<table><tr>{heads}</tr>{rows}</table>"
