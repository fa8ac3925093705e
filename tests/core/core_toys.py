"""Toy algorithms that behave well, rise, stall, raise, leave the finite numbers, never end or work in place."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from lemmata.core import storable


@storable
@dataclass(frozen=True)
class ToyState:
    """A vector, how often it was stepped, and the seed of its noise."""

    version = 1

    x: np.ndarray
    count: int
    seed: int
    loss: float


@dataclass(frozen=True)
class Halving:
    """x ← rate·x + noise; the loss is |x|². Random inside its steps, from the state alone."""

    rate: float = 0.5
    noise: float = 0.0
    hint = "lower rate"

    def init(self, data, rng):
        x = rng.standard_normal(len(data)) + data
        return ToyState(x, 0, int(rng.integers(2**31)), float(x @ x))

    def step(self, state, data):
        rng = np.random.default_rng([state.seed, state.count])
        x = self.rate * state.x + self.noise * rng.standard_normal(state.x.size)
        return ToyState(x, state.count + 1, state.seed, float(x @ x))

    def objective(self, state):
        return state.loss

    def extras(self, state):
        return {"gradient": 2 * float(np.linalg.norm(state.x))}

    def attributes(self, state):
        return {"x_": state.x}


@dataclass(frozen=True)
class Misbehaving(Halving):
    """Halving until step `at`, then what `how` says."""

    at: int = 3
    how: str = "nan"

    def step(self, state, data):
        new = super().step(state, data)
        if new.count < self.at:
            return new
        if self.how == "raise":
            raise ZeroDivisionError("one over nothing")
        if self.how == "ctrl-c":
            raise KeyboardInterrupt
        if self.how == "exit":
            raise SystemExit(3)
        value = {
            "nan": math.nan,
            "inf": math.inf,
            "-inf": -math.inf,
            "rise": 1e6 + new.count,
            "stall": 7.0,
        }[self.how]
        return replace(new, loss=value)


@dataclass(frozen=True)
class Direct(Halving):
    """Done after one step."""

    def finished(self, state):
        return state.count >= 1


class Cell:
    """A mutable state."""

    def __init__(self, x, count=0):
        self.x, self.count = x, count


@dataclass(frozen=True)
class InPlace:
    """Steps that overwrite their state, as deep learning does; at step `poison` it ruins it."""

    poison: int = 10**9
    how: str = "nan"

    def init(self, data, rng):
        return Cell(np.array(data, dtype=float))

    def step(self, state, data):
        state.x *= 0.5
        state.count += 1
        if state.count >= self.poison:
            state.x[:] = np.nan
            if self.how == "raise":
                raise ArithmeticError("poisoned")
        return state

    def objective(self, state):
        return float(state.x @ state.x)

    def snapshot(self, state):
        return Cell(state.x.copy(), state.count)

    def attributes(self, state):
        return {"x_": state.x}


DATA = np.arange(1.0, 6.0)


def same_run(one, other):
    """Two solutions agree to the bit in everything but the clock."""
    return same_value(one.state, other.state) and same_value(one.trace, other.trace)


def same_value(one, other):
    """Equal to the bit, NaN equal to NaN; the seconds of traces aside."""
    from dataclasses import fields, is_dataclass

    from lemmata.core import Trace

    if type(one) is not type(other):
        return False
    if isinstance(one, Trace):
        return same_value([one.objective, one.extras], [other.objective, other.extras])
    if is_dataclass(one):
        return all(same_value(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, dict):
        return list(one) == list(other) and all(same_value(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same_value, one, other))
    return one == other or (one != one and other != other)
