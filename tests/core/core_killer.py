"""Kills runs with SIGKILL, for test_core_checkpoint.py: python core_killer.py FOLDER, and [problem, seed, moment] as JSON.

Forks a child that fits with a checkpoint, kills it, forks the next, until one comes to its end; then compares what that
one found with a run never killed; the counts of all are printed as JSON. A moment is "random" (the parent kills after a random
time) or a point inside the writing of a checkpoint at which the child kills itself.
"""

import json
import os
import random
import signal
import stat
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from core_toys import Halving, same_run

from lemmata.core import Checkpoint, MaxSteps, Never, Restarts, Solution, run, store
from lemmata.core import Path as ParameterPath

STEPS = 48
DATA = np.linspace(-1, 1, 4_000)  # 32 kB a checkpoint, so that killing hits the writing as well


@dataclass(frozen=True)
class Slow(Halving):
    """Halving that takes a millisecond a step."""

    def step(self, state, data):
        time.sleep(1e-3)
        return super().step(state, data)

    def warm(self, state, data):
        return state


PROBLEMS = {
    "plain": (Slow(rate=0.9, noise=0.1), MaxSteps(STEPS)),
    "restarts": (Restarts(Slow(rate=0.9, noise=0.1), n=3, stop=MaxSteps(STEPS // 3)), Never()),
    "path": (
        ParameterPath(Slow(noise=0.1), over={"rate": [0.9, 0.5, 0.1]}, stop=MaxSteps(STEPS // 3)),
        Never(),
    ),
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(moment: str, after: int) -> None:
    """Make this process kill itself inside the checkpoint it writes after `after` others."""
    seen = 0
    fsync, replace = os.fsync, os.replace

    def counted_fsync(handle):
        if seen == after and stat.S_ISREG(os.fstat(handle).st_mode):
            if moment == "half written":
                os.ftruncate(handle, os.fstat(handle).st_size // 2)
                die()
            if moment == "written":
                die()
        fsync(handle)

    def counted_replace(source, target):
        nonlocal seen
        if moment == "flushed" and seen == after:
            die()
        replace(source, target)
        if moment == "renamed" and seen == after:
            die()
        seen += 1

    os.fsync, os.replace = counted_fsync, counted_replace


def kill(folder: Path, problem: str, seed: int, moment: str) -> dict:
    folder.mkdir()
    algorithm, stop = PROBLEMS[problem]
    path, dice = folder / "run.ckpt", random.Random(seed)
    kills = temporaries = 0
    while True:
        pid = os.fork()
        if pid == 0:
            if moment != "random":
                arm(moment, after=dice.randrange(1, 12))
            solution = run(
                algorithm, DATA, stop=stop, callbacks=[Checkpoint(path, every=1)], rng=seed
            )
            assert solution.stopped in ("max steps", "finished")
            os._exit(0)
        if moment == "random":
            # longer and longer: on a busy machine too it ends
            time.sleep(dice.uniform(0.0, 0.02 * 1.2**kills))
            os.kill(pid, signal.SIGKILL)
        dice.random()
        _, status = os.waitpid(pid, 0)
        temporaries += len(list(folder.glob(".*.tmp")))
        if os.WIFEXITED(status):
            break
        kills += 1
    assert os.WEXITSTATUS(status) == 0
    content = store.read(path, Checkpoint.KIND)
    killed = Solution(algorithm, content["state"], content["trace"])
    whole = run(algorithm, DATA, stop=stop, rng=seed)
    return {
        "kills": kills,
        "temporaries": temporaries,
        "same": same_run(killed, whole),
        "rows": len(killed.trace),
        "left": sorted(file.name for file in folder.iterdir()),
    }


if __name__ == "__main__":
    whole = Path(sys.argv[1])
    asked = enumerate(json.load(sys.stdin))
    print(json.dumps([kill(whole / str(number), *one) for number, one in asked]))
