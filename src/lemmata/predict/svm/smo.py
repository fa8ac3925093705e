"""Support vector machines by decomposition: a working set of variables at a time, SMO within it.

    W ← the variables whose gradients violate the optimality conditions most, and those of the last W that are free
    solve  min ½ βᵀKβ + cᵀβ  over β_W alone, by SMO on the q × q block K_WW          (second-order choice of pairs)
    Kβ ← Kβ + K_{·W} Δβ_W                                                            (float32 rows, float64 sums)

until  max {G_i : β_i can fall} − min {G_i : β_i can rise} ≤ tol,  G = Kβ + c: LIBSVM's rule. LIBSVM's W has two variables and
its rows come one by one; 512 at a time turn rows into matrix products (Joachims 1998; Wen et al. 2018, ThunderSVM). Keeping
free variables in W matters most: without them the same pairs undo each other (10,000 rows, C = 10: 3,300 sets against 300).

Where K is small it is formed whole and W is everything; a step is then a round of SMO on every machine that is not done, and
Newton's method on the free variables (`newton.py`) where a round is not enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import thread_time
from typing import Any, ClassVar

import numpy as np

from lemmata.core.engine import one_blas_thread, pick, run_tasks, worth_compiling
from lemmata.core.loop import Solution, Stop, Stopped
from lemmata.core.store import storable
from lemmata.predict.svm.newton import free_newton
from lemmata.predict.svm.problem import Duals, MachineDual
from lemmata.predict.svm.row_cache import RowCache

Array = np.ndarray
WORKING = 512  # variables of a working set
KEPT = 5 / 8  # of it, at most, that stay from the last one
SUBTOL = 0.1  # a working set is solved until its violation is this share of the whole one
# where K is whole: steps of SMO before Newton's method has a look at the free variables, then as many as there were before,
# and multiplications of Newton's method for each variable of such a step: it takes as long
ROUND, BALANCE = 400, 16
BLOCK_ROWS = 64  # of K_WW that a task reads
FIELD_ROWS = 4096  # of Kβ that a task updates
PATIENCE = 8  # steps of SMO for each variable before Newton's method is asked for help
NEWTON = 30  # of its steps in a row
ROUNDS = 10  # of both on one working set
REFINED = 5  # times at most that Kβ is computed once more in float64
# of CPU by NumPy's loops on whole matrices in this process, after which numba is loaded, which takes about as long, and longer
# where nothing is cached on disk: a grid on hundreds of rows ends before. Both loops give the same bits.
SECONDS = 1.2
_waited = [0.0]


@storable
@dataclass(frozen=True)
class MachineState:
    """The state of one machine."""

    version = 1
    layout: ClassVar = {"beta": "v", "field": "m", "last": "w int >=0 <v"}

    beta: Array  # (v,)
    field: Array  # (m,) Kβ
    last: Array  # (w,) the last working set
    steps: int  # of SMO
    violation: float
    loss: float  # ½ βᵀKβ + cᵀβ
    refined: int  # how often Kβ was computed once more in float64


@storable
@dataclass(frozen=True)
class SMOState:
    """All machines; those before the current one are done."""

    version = 1

    machines: tuple[MachineState, ...]


@dataclass(frozen=True)
class SMOAlgorithm:
    """Decomposition for one or several machines, or SMO on a whole kernel matrix where the data says so."""

    draws: ClassVar = False
    hint: ClassVar = "scale the columns, or lower C"

    tol: float
    max_steps: int  # of SMO, for each machine
    compiled: bool

    def init(self, data: Duals, rng) -> SMOState:
        empty = np.zeros(0, np.int64)
        return SMOState(
            tuple(
                MachineState(
                    np.zeros(one.size), np.zeros(len(one.members)), empty, 0, np.inf, 0.0, 0
                )
                for one in data.machines
            )
        )

    def check_state(self, state: SMOState, data: Duals) -> None:
        """ValueError where a state from a file is not that of these machines."""
        found = [(len(one.beta), len(one.field)) for one in state.machines]
        if found != [(machine.size, len(machine.members)) for machine in data.machines]:
            raise ValueError("the state is that of a fit to other data.")

    def step(self, state: SMOState, data: Duals) -> SMOState:
        if data.together:
            moved = [
                one if self.done(one) else self._step_whole(one, machine, data.block(machine))
                for one, machine in zip(state.machines, data.machines, strict=True)
            ]
            return SMOState(tuple(moved))
        at = next(p for p, one in enumerate(state.machines) if not self.done(one))
        with one_blas_thread():  # its last bits depend on the number of threads
            better = self._step_one(state.machines[at], data.machines[at], data, at)
        return SMOState((*state.machines[:at], better, *state.machines[at + 1 :]))

    def done(self, one: MachineState) -> bool:
        return one.violation <= self.tol or one.steps >= self.max_steps

    def finished(self, state: SMOState) -> bool:
        return all(one.violation <= self.tol for one in state.machines)

    def objective(self, state: SMOState) -> float:
        return float(sum(one.loss for one in state.machines))

    def extras(self, state: SMOState) -> dict[str, float]:
        return {"violation": float(max(one.violation for one in state.machines))}

    def attributes(self, state: SMOState) -> dict[str, Any]:
        return {"machines": state.machines}

    @property
    def _loops(self) -> Any:
        return pick(self.compiled, "lemmata.predict.svm")

    # --- one working set of one machine ---

    def _step_one(
        self, one: MachineState, machine: MachineDual, data: Duals, at: int
    ) -> MachineState:
        loops, cache = self._loops, data.cache(at)
        beta, field = one.beta.copy(), one.field.copy()
        G = machine.gradient(field)
        W = choose(beta, G, machine, one.last, min(WORKING, cache.capacity))
        slots = _slots(cache, machine.of[W])
        K = _gather(loops, cache.rows, slots, machine.of[W])
        b, limits = beta[W], (machine.lo[W], machine.hi[W])
        tol = max(self.tol, SUBTOL * violation(beta, G, machine))
        most = self.max_steps - one.steps
        steps, gap = loops.solve_into(b, G[W], K, *limits, tol, min(PATIENCE * len(W), most))
        if gap > tol and steps < most:
            K = cache.block(machine.of[W])
            steps += self._insist(b, G[W] + K @ (b - beta[W]), K, limits, tol, most - steps)
        change = b - beta[W]
        beta[W] = b
        _add_rows(loops, field, cache.rows, slots, change)
        made = one.steps + int(steps)
        moved = _with_loss(replace(one, beta=beta, field=field, last=W, steps=made), machine)
        if self.done(moved) and self._is_blurred(moved, cache.scale) and moved.refined < REFINED:
            exact = cache.field(machine.by_member(beta))
            moved = _with_loss(replace(moved, field=exact, refined=moved.refined + 1), machine)
        return moved

    def _insist(
        self, b: Array, g: Array, K: Array, limits: tuple[Array, Array], tol: float, most: int
    ) -> int:
        """Continue a working set that SMO is slow on, in float64, alternating with Newton's method; return the steps made."""
        made, gap = 0, np.inf
        for _ in range(ROUNDS):
            if gap <= tol or made >= most:
                break
            made += free_newton(b, g, K, *limits, most=min(NEWTON, most - made))
            some = min(PATIENCE * len(b), most - made)
            steps, gap = self._loops.solve_into(b, g, K, *limits, tol, some)
            made += int(steps)
        return made

    def _is_blurred(self, one: MachineState, scale: float) -> bool:
        """Whether float32 rows may put a tenth of tol into a gradient Σ β_i K_ij: errors of eps/2·max K_ii, of any sign."""
        noise = np.finfo(np.float32).eps / 2 * scale * np.linalg.norm(one.beta)
        return bool(noise > 0.1 * self.tol)

    # --- a machine on its whole kernel matrix ---

    def _step_whole(self, one: MachineState, machine: MachineDual, K: Array) -> MachineState:
        """A round of SMO, then, if that was not enough, Newton's method on the free variables."""
        if one.steps == 0 and machine.size > len(machine.members):
            one = start_at_bounds(one, machine, K)
        beta, G = one.beta.copy(), machine.gradient(one.field)
        left = min(max(ROUND, one.steps), self.max_steps - one.steps)
        compiled = self.compiled or worth_compiling(_waited[0], above=SECONDS)
        loops, began = pick(compiled, "lemmata.predict.svm"), thread_time()
        K = np.ascontiguousarray(K)  # numba would compile once more for another layout
        steps, gap = loops.solve_into(beta, G, K, machine.lo, machine.hi, self.tol, left)
        _waited[0] += 0.0 if compiled else thread_time() - began
        made = one.steps + int(steps)
        if gap > self.tol and made < self.max_steps:
            some, work = self.max_steps - made, BALANCE * float(left) * len(beta)
            made += free_newton(beta, G, K, machine.lo, machine.hi, some, work)
        field = G[: len(one.field)] - machine.c[: len(one.field)]
        return _with_loss(replace(one, beta=beta, field=field, steps=made), machine)


@dataclass(frozen=True)
class OutOfSteps(Stop):
    """Every machine is solved or has made all the steps it may."""

    def reason(self, solution: Solution) -> str | None:
        algorithm = solution.algorithm
        done = all(map(algorithm.done, solution.state.machines))
        return Stopped.MAX_STEPS if done else None


def start_at_bounds(one: MachineState, machine: MachineDual, K: Array) -> MachineState:
    """Begin a regression where cᵀβ is least, all β but one at their bounds, unless the objective is lower at 0.

    With a small C that is the solution, or near it, for which steps of SMO take a pair of multipliers at a time.
    """
    order = np.argsort(machine.c, kind="stable")
    room = (machine.hi - machine.lo)[order]
    raised = np.clip(-machine.lo.sum() - (np.cumsum(room) - room), 0.0, room)
    beta = np.empty_like(one.beta)
    beta[order] = np.where(raised == room, machine.hi[order], machine.lo[order] + raised)
    of_each = machine.by_member(beta)
    field, slope = K @ of_each, float(machine.c @ beta)
    return replace(one, beta=beta, field=field) if of_each @ field <= -2 * slope else one


def violation(beta: Array, G: Array, machine: MachineDual) -> float:
    """By how much a gradient that can fall exceeds one that can rise."""
    least = np.min(G, where=beta < machine.hi, initial=np.inf)
    most = np.max(G, where=beta > machine.lo, initial=-np.inf)
    return max(float(most - least), 0.0)


def choose(beta: Array, G: Array, machine: MachineDual, last: Array, size: int) -> Array:
    """The working set: what of the last one is free, then those that most want to rise and to fall, half and half."""
    kept = last[(beta[last] > machine.lo[last]) & (beta[last] < machine.hi[last])]
    kept = kept[max(0, len(kept) - int(KEPT * size)) :]  # the latest to enter
    half = (size - len(kept)) // 2
    rising, falling = (
        np.where(beta < machine.hi, G, np.inf),
        np.where(beta > machine.lo, -G, np.inf),
    )
    rising[kept] = falling[kept] = np.inf
    up = _least(rising, half)
    falling[up] = np.inf
    return np.concatenate([kept, up, _least(falling, half)])


def _least(values: Array, k: int) -> Array:
    """The places of the k least numbers that are finite."""
    found = np.argpartition(values, k)[:k] if k < len(values) else np.arange(len(values))
    return found[np.isfinite(values[found])]


def _with_loss(one: MachineState, machine: MachineDual) -> MachineState:
    """Return the state with its violation and loss."""
    G, of_each = machine.gradient(one.field), machine.by_member(one.beta)
    loss = 0.5 * float(of_each @ one.field) + float(machine.c @ one.beta)
    return replace(one, violation=violation(one.beta, G, machine), loss=loss)


def _slots(cache: RowCache, wanted: Array) -> Array:
    """Where the rows of variables stand; two variables of a regression share one."""
    rows, of_each = np.unique(wanted, return_inverse=True)
    return cache.slots(rows)[of_each]


def _gather(loops: Any, rows: Array, slots: Array, columns: Array) -> Array:
    """Copy K_WW from cached rows, some of its rows per task."""
    q = len(slots)
    K = np.empty((q, q), np.float32)

    def gather(task: int) -> None:
        start = task * BLOCK_ROWS
        loops.gather_into(K, rows, slots, columns, start, min(start + BLOCK_ROWS, q))

    run_tasks(gather, -(-q // BLOCK_ROWS))
    return K


def _add_rows(loops: Any, field: Array, rows: Array, slots: Array, change: Array) -> None:
    """Kβ ← Kβ + K_{·W} Δβ, some thousand entries per task."""
    moved = change != 0
    slots, change = slots[moved], change[moved]

    def add(task: int) -> None:
        start = task * FIELD_ROWS
        stop = min(start + FIELD_ROWS, len(field))
        loops.add_rows_into(field, start, stop, rows, slots, change)

    run_tasks(add, -(-len(field) // FIELD_ROWS))
