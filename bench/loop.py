"""The loop's own cost per step, with the usual rules and a callback."""

from dataclasses import dataclass

from bench.helpers.harness import compare
from lemmata.core import MaxSteps, Seconds, Settled, run

STEPS = 100_000


@dataclass(frozen=True)
class Shrink:
    """The cheapest algorithm there is."""

    def init(self, data, rng):
        return 1.0

    def step(self, state, data):
        return state * 0.9999

    def objective(self, state):
        return state

    def attributes(self, state):
        return {"x_": state}


def bare():
    state, trace = 1.0, []
    for _ in range(STEPS):
        state *= 0.9999
        trace.append(state)
    return state


def main():
    rules = Settled(1e-12) | MaxSteps(STEPS) | Seconds(600)
    systems = {
        "lemmata": lambda: run(Shrink(), None, stop=rules, callbacks=[lambda solution: None]).state,
        "a bare for loop": bare,
    }
    compare(
        f"{STEPS:,} steps (target: below {20 * STEPS / 1e6:.0f} s, that is 20 µs per step)",
        systems,
        rounds=3,
    )
