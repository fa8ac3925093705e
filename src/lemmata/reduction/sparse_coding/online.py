"""Online dictionary learning: a batch of rows, its ℓ1 codes, and a sweep over the atoms (Mairal, Bach, Ponce & Sapiro 2010).

    minimise  E[½‖x − zD‖² + α‖z‖₁]  over atoms of unit length;      what is past is known by A = Σ zzᵀ and B = Σ zᵀx alone:

    d_j ← u/‖u‖,   u = b_j − Σ_{i≠j} A_ji d_i          the best unit vector for ½tr(DᵀAD) − tr(DᵀB), the other atoms fixed

Old codes belong to old atoms, so that they fade: in the first batches quickly (weight ∝ t), later over one pass through the
rows. A step is "atoms, then codes of the next batch": the objective in a state is that of its atoms on a batch that they
were not made from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.core.engine import pick
from lemmata.core.loop import Solution, Stop, Stopped
from lemmata.core.store import storable
from lemmata.reduction.sparse_coding.coding import (
    AtomSums,
    Coder,
    TrainingRows,
    find_unused,
    starting_atoms,
)

Array = np.ndarray


@storable
@dataclass(frozen=True)
class OnlineAtomsState:
    """Atoms, the statistics that they were made of, and those of the next batch."""

    version = 2
    layout: ClassVar[dict[str, Any]] = {
        "D": "k d",
        "past batch": AtomSums,
        "number seed per_pass": "int >=0",
        "running counted": ">=0",
        "last before": "any",
    }

    D: Array
    past: AtomSums  # of all batches before this one, faded
    batch: AtomSums  # of this batch, at these atoms
    number: int  # of this batch
    seed: int  # of the order of rows
    running: float  # objective of the pass under way, and its weight
    counted: float
    last: float  # mean objective of the last whole pass, of the one before
    before: float
    per_pass: int = 0  # batches of a pass; 0: not known before the next step

    @classmethod
    def upgrade(cls, fields: dict[str, Any], version: int) -> dict[str, Any]:
        """Version 1 did not say how many batches a pass has."""
        return {**fields, "per_pass": 0}


@dataclass(frozen=True)
class Passes(Stop):
    """Stop after so many passes, or before if the mean objective of two in a row differs by at most tol of it."""

    most: int
    tol: float

    def reason(self, solution: Solution) -> str | None:
        state = solution.state
        if state.number and state.per_pass and state.number % state.per_pass == 0:
            gained = state.before - state.last
            if np.isfinite(state.before) and self.tol > 0 and gained <= self.tol * state.last:
                return Stopped.SETTLED
            if state.number >= self.most * state.per_pass:
                return Stopped.MAX_STEPS
        return None


@dataclass(frozen=True)
class OnlineAtomsAlgorithm:
    n_components: int
    coder: Coder
    batch_size: int
    shuffle: bool = True
    start: Any = None

    hint = "scale the data, or look for extreme values in it"

    def init(self, data: TrainingRows, rng: np.random.Generator) -> OnlineAtomsState:
        D = starting_atoms(data, self.n_components, self.start, rng)
        seed = int(rng.integers(2**62))
        batch, past, per_pass = self._codes(data, D, seed, 0), AtomSums.none(D), self.per_pass(data)
        return OnlineAtomsState(D, past, batch, 0, seed, 0.0, 0.0, np.inf, np.inf, per_pass)

    def per_pass(self, data: TrainingRows) -> int:
        return -(-data.shape[0] // self.batch_size)

    def _codes(self, data: TrainingRows, D: Array, seed: int, number: int) -> AtomSums:
        """Code batch `number`; every pass has an order of its own."""
        n, per_pass = data.shape[0], self.per_pass(data)
        at = number % per_pass * self.batch_size
        chosen: Any = slice(at, at + self.batch_size)
        if self.shuffle and per_pass > 1:
            chosen = np.sort(
                np.random.default_rng([seed, number // per_pass]).permutation(n)[chosen]
            )
        X, weights = data.part(chosen)
        return AtomSums.of(X, weights, D, self.coder, data.compiled)

    def step(self, state: OnlineAtomsState, data: TrainingRows) -> OnlineAtomsState:
        t, per_pass = state.number, self.per_pass(data)
        share = min(t / (t + 2), 1 - 1 / (per_pass + 1))
        past = state.past.fade(share) + state.batch
        past = replace(past, costs=state.batch.costs)
        D, past = improve(state.D, past, state.batch, data.compiled)
        batch = self._codes(data, D, state.seed, t + 1)
        running = state.running + state.batch.costs.loss
        counted = state.counted + state.batch.costs.weight
        last, before = state.last, state.before
        if (t + 1) % per_pass == 0:
            last, before = running / counted if counted > 0 else 0.0, last
            running = counted = 0.0
        sums = running, counted, last, before
        return OnlineAtomsState(D, past, batch, t + 1, state.seed, *sums, per_pass)

    def objective(self, state: OnlineAtomsState) -> float:
        """Mean objective of this batch at these atoms."""
        return state.batch.costs.mean_loss

    def attributes(self, state: OnlineAtomsState) -> dict[str, Any]:
        return {"components_": state.D, "sums_": state.past}


def improve(
    D: Array, past: AtomSums, batch: AtomSums, compiled: bool, sweeps: int = 1
) -> tuple[Array, AtomSums]:
    """Sweep over the atoms; an unused one starts again at the row of the batch that is coded worst."""
    D = D.copy()
    least = D.dtype.type(1e-10 * np.diag(past.A).max(initial=0))
    kernels = pick(compiled, "lemmata.reduction.sparse_coding")
    for _ in range(sweeps):
        kernels.improve_atoms_into(D, past.A, past.B, least)
    idle, length = find_unused(past.A), np.linalg.norm(batch.worst)
    if len(idle) and batch.misfit > 0 and length > 0:
        j = idle[0]
        D[j] = batch.worst / length
        A, B = past.A.copy(), past.B.copy()
        A[j], A[:, j], B[j] = 0, 0, 0
        past = replace(past, A=A, B=B)
    return D, past
