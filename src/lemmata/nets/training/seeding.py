"""torch's generator, borrowed: what is drawn inside of a training follows from its own seed, and everybody else's draws
go on as they were.

    with own_draws():
        torch.manual_seed(…)        # initialisation, dropout

There is one global generator in a process. Threads that train at the same time take turns with it, a step each, since
two of them would get each other's numbers. A forked child gets a lock of its own; and one thread, if the parent had
worked with several: those of OpenMP do not survive a fork, and waiting for them would never end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_turn = threading.RLock()
_worked = False  # whether threads of OpenMP may be there


@contextmanager
def own_draws() -> Iterator[None]:
    """Draw from torch's generator and leave it as it was found."""
    global _worked
    _worked = _worked or torch.get_num_threads() > 1
    with _turn, torch.random.fork_rng():
        yield


def _in_a_child() -> None:
    global _turn
    _turn = threading.RLock()
    if _worked:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_child)
