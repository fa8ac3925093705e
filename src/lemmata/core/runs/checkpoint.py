"""Checkpoints: a killed run goes on where it was, bit for bit.

    run(algorithm, data, callbacks=[Checkpoint("als.ckpt", every=5)])      # run it again after a crash: it resumes

A checkpoint belongs to one algorithm (with its parameters), one data set and one seed; that of a model also to its class and
to all of its parameters (files/owner.py). Stopping rules are not part of that, so a finished run can be continued with a larger
budget. A file that belongs to something else is refused.
"""

from __future__ import annotations

import time
from numbers import Integral
from pathlib import Path
from typing import Any

from lemmata.core import store
from lemmata.core.certification.showing import printable
from lemmata.core.files.encoding import stored_name
from lemmata.core.files.layout import check_state
from lemmata.core.files.owner import STOPPING, differences, owner_of
from lemmata.core.loop import Solution
from lemmata.core.runs.trace import Trace


def _identity(algorithm: Any) -> Any:
    """Identify the owner of a checkpoint: the algorithm with its parameters, or what it says itself."""
    return algorithm.identity() if hasattr(algorithm, "identity") else algorithm


class Checkpoint:
    """Callback that writes the state to `path` at the start, every so many steps or seconds, and at the end.

    Parameters
    ----------
    path : str or Path
    every : int, optional
        Write after every `every` steps.
    seconds : float, default=30
        Write when the last writing is this long ago (used if `every` is not given).
    model : Model, optional
        Whose class and parameters belong to the owner.
    """

    KIND = "checkpoint"

    def __init__(self, path, every: int | None = None, seconds: float = 30.0, *, model: Any = None):
        if every is not None and every < 1:
            raise ValueError(
                f"every={every} steps makes no sense; pass an int >= 1, or None to write by the clock."
            )
        self.path, self.every, self.seconds = Path(path), every, seconds
        self._model = {} if model is None else owner_of(model)
        self._owner: dict[str, Any] = {}
        self._last = time.monotonic()
        self._written = -1

    def resume(self, algorithm: Any, data: Any, rng: Any):
        """The state and trace in the file, or None if there is no file yet."""
        self._owner = {
            "algorithm": f"{stored_name(type(algorithm))} {store.digest(_identity(algorithm))}",
            "data": data.fingerprint() if hasattr(data, "fingerprint") else store.digest(data),
            "seed": str(int(rng)) if isinstance(rng, Integral) else "",
            **getattr(
                algorithm, "marks", dict
            )(),  # further parts that it is made of: {"network": …}
            **self._model,
        }
        self._last, self._written = time.monotonic(), -1
        store.remove_leftovers(self.path)
        if not self.path.exists():
            return None
        content = store.read(self.path, self.KIND)
        owner = content.get("owner")
        if (
            not isinstance(owner, dict)
            or any(what != "parameters" and type(mark) is not str for what, mark in owner.items())
            or not isinstance(content.get("trace"), Trace)
            or "state" not in content
        ):
            raise store.StoreError(
                f"{self.path} is damaged: a checkpoint holds an owner, a state and a trace."
            )
        self._refuse_other(owner)
        state, trace = content["state"], content["trace"]
        try:  # a state of other sizes than the data's would lead compiled code astray
            check_state(algorithm, state, data)
            state = getattr(algorithm, "resume_state", lambda state: state)(state)
        except Exception as error:  # as in store.read_from: a forged state can trip any check
            raise store.StoreError(
                f"{self.path} is damaged: its state does not fit this data ({error})"
            ) from error
        self._written = len(trace) - 1
        return state, trace

    def _refuse_other(self, owner: dict[str, Any]) -> None:
        """Raise ValueError that says what is not this run's."""
        other = [
            what
            for what, mark in self._owner.items()
            if what != "parameters" and owner.get(what) != mark
        ]
        why: list[str] = []
        if self._model:
            before, now = self._parameters(owner), self._model["parameters"]
            why = differences(before, now)
            if "model" in other:
                other, why = (
                    ["model"],
                    [f"{owner.get('model')} in the checkpoint, {self._model['model']} now"],
                )
            elif why:  # the rest follows from them
                other = [self._model["model"]]
            elif other:  # there are algorithms in which they do more than end a run
                why = differences(before, now, STOPPING)
        if other:
            shown = printable(f" ({'; '.join(why)})") if why else ""
            raise ValueError(
                f"the checkpoint {self.path} belongs to another {' and '.join(other)}{shown}; "
                "delete it to start again, or give this run a path of its own."
            )

    def _parameters(self, owner: dict[str, Any]) -> dict[str, list[str]]:
        """The parameters of the model that wrote the file."""
        found = owner.get("parameters")
        if found is None:
            raise ValueError(
                f"the checkpoint {self.path} does not say which parameters its model had: it was written by an earlier "
                "lemmata, or by a run without a model; delete it to start again, or finish it with what wrote it."
            )
        pairs = list(found.values()) if isinstance(found, dict) else [None]
        if not all(
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(one, str) for one in pair)
            for pair in pairs
        ) or not all(isinstance(name, str) for name in found):
            raise store.StoreError(f"{self.path} is damaged: its parameters are not texts.")
        return found

    def start(self, solution: Solution) -> None:
        """Write at once: a folder that cannot be written to, or a state that cannot be stored, shows now, not in an hour."""
        if solution.step != self._written:
            self._write(solution)

    def __call__(self, solution: Solution) -> None:
        due = time.monotonic() - self._last >= self.seconds
        if due if self.every is None else solution.step % self.every == 0:
            self._write(solution)

    def finish(self, solution: Solution) -> None:
        if solution.step != self._written:
            self._write(solution)

    def _write(self, solution: Solution) -> None:
        store.write(
            self.path,
            self.KIND,
            {"owner": self._owner, "state": solution.state, "trace": solution.trace},
        )
        self._last, self._written = time.monotonic(), solution.step
