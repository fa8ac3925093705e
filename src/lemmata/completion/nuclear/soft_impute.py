"""Completion with the nuclear norm as penalty: soft-impute.

    minimise  F(X) = ½‖Π_Ω(A − X)‖² + λ‖X‖_*           over all n × m matrices X                            (CIL 2.5.2)

A convex problem without a rank: large λ make X = 0 (from λ = σ₁(Π_Ω A) on), smaller ones let in one direction after the other.
Two descents of F take turns in every step, X = PΣQᵀ being kept as its factors:

* a proximal gradient step, X ← shrink_λ(X + Π_Ω(A − X)) (CIL (2.40); Mazumder, Hastie & Tibshirani 2010). It finds the rank:
  what the residual R = Π_Ω(A − X) has outside of X, followed by a few probe vectors, enters where it exceeds λ, and what has
  become too weak leaves. Within matrices whose rows lie in span(Q̂), Q̂ = [Q, probes], the step is exact, C = shrink_λ(ZQ̂),
  X ← CQ̂ᵀ, and X is one of them: F cannot rise, however rough the probes are.
* a sweep of alternating least squares (sweeps.py) on U = P√Σ, V = Q√Σ. Since ‖X‖_* = min ½‖U‖² + ½‖V‖² over UVᵀ = X (with
  equality for these balanced factors), ½‖Π_Ω(A − UVᵀ)‖² + ½λ(‖U‖² + ‖V‖²) touches F here and lies above it elsewhere: no rise
  either. At the rank found, sweeps settle where accelerated gradients (FISTA) still need many steps: 14 against 46 to 67 on
  2000 × 2000.

A second penalty ½γ‖X‖_F² (CIL24 2.2, there γ‖B‖_F) draws large singular values as well: the proximal step divides by 1 + γ
after shrinking.

λ itself comes down from σ₁(Π_Ω A) by halves, so that X never holds more directions than it needs (state.level; its loss
is F at its level, and lowering the level lowers F). That the end is the global optimum is for the duality gap to say.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 2)) @ rng.normal(size=(2, 100))
    >>> A = np.where(rng.random(X.shape) < 0.4, X, np.nan)
    >>> model = SoftImpute(reg=0.01, centre="none", random_state=0).fit(A)
    >>> len(model.singular_values_), bool(np.abs(model.complete() - X).max() < 0.01), model.certificate_.failed
    (2, True, [])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from lemmata.audit.completion.factors import SOFT_IMPUTE_CLAIMS
from lemmata.completion.als.algorithm import by_rule
from lemmata.completion.base import CompletionModel
from lemmata.completion.centring import BIAS_REG, HOW, Offsets, centre
from lemmata.completion.nuclear.levels import HeldOut, SettledAtReg
from lemmata.completion.nuclear.sparse_lowrank import (
    known_entries,
    leading_svd,
    residual,
    residual_squares,
    thin_svd,
)
from lemmata.completion.nuclear.sweeps import sweep
from lemmata.completion.observed import Observed
from lemmata.core import common
from lemmata.core.certificate import Fit
from lemmata.core.certification.checking import cost_of_sweeps
from lemmata.core.loop import MaxSteps, Seconds, Solution, Stop, Stopped, run, warn_user
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, POSITIVE, choice, parameter
from lemmata.core.runs.repeat import Path
from lemmata.core.store import storable
from lemmata.linalg.randomized import orthonormalise, signs

Array = np.ndarray

PROBES = 8  # directions outside of X that are followed; doubled while all of them exceed the level
ROUNDS = 2  # of subspace iteration per step at λ; one on the way there (MovieLens small: 21 steps, with one at λ 25)
HELD_OUT = 0.1  # of the entries, to choose reg="auto"
LOWEST = 1e-6  # of σ₁: the least λ that "auto" looks at


@storable
@dataclass(frozen=True)
class SoftImputeState:
    """X = P diag(s) Qᵀ, the level of λ it belongs to, and the directions that may enter next."""

    version = 1
    layout: ClassVar = {"P": "n r", "s": "r >=0", "Q": "d r", "probes": "d e", "level": ">=0"}

    P: Array  # (n, r) orthonormal
    s: Array  # (r,) descending
    Q: Array  # (m, r)
    probes: Array  # (m, e) right vectors outside of X
    level: float  # λ on its way down to `reg`
    crowded: int  # 1: every probe exceeded the level, so there may be more to come before it falls
    loss: float  # ½‖Π_Ω(A − X)‖² + level · ‖X‖_* + ½γ‖X‖²
    steps: int  # with the seed it gives every step its own random numbers
    seed: int

    @property
    def factors(self) -> tuple[Array, Array]:
        """U and V with X = UVᵀ and UᵀU = VᵀV = diag(s)."""
        root = np.sqrt(self.s)
        return self.P * root, self.Q * root


@dataclass(frozen=True)
class SoftImputeAlgorithm:
    """One step: lower the level, let directions in and out by a proximal step, one sweep of least squares.

    Parameters
    ----------
    reg : float
        λ > 0.
    max_rank : int, optional
        At most so many directions. If it binds, the problem is no longer convex; the loss still never rises.
    decline : float, default=0.5
        What the level is multiplied with in each step, until it is `reg`.
    ridge : float, default=0
        γ ≥ 0.
    """

    reg: float
    max_rank: int | None = None
    decline: float = 0.5
    ridge: float = 0.0

    hint = "look for extreme values among the entries, or scale them"

    def init(self, A: Observed, rng: np.random.Generator) -> SoftImputeState:
        """X = 0, which is the optimum for every λ ≥ σ₁(Π_Ω A)."""
        n, m = A.shape
        seed = int(rng.integers(2**62))
        found = leading_svd(known_entries(A), min(PROBES, n, m), passes=2, extra=0, rng=seed)
        P, s, Q = np.zeros((n, 0), A.dtype), np.zeros(0, A.dtype), np.zeros((m, 0), A.dtype)
        level = max(self.reg, float(found.s[0]))
        return self._at(A, (P, s, Q), np.ascontiguousarray(found.Vt.T), level, 0, 0, seed)

    def warm(self, state: SoftImputeState, A: Observed) -> SoftImputeState:
        """Go on from the solution for another λ. A smaller one is reached by steps; F at the level stays what it was."""
        if self.reg <= state.level:
            return state
        return self._at(
            A, (state.P, state.s, state.Q), state.probes, self.reg, 0, state.steps, state.seed
        )

    def step(self, state: SoftImputeState, A: Observed) -> SoftImputeState:
        level = state.level if state.crowded else max(self.reg, self.decline * state.level)
        X, probes, crowded = self._shrunk(state, A, level)
        if len(X[1]):
            X = sweep(A, X, level, self.ridge)
        return self._at(A, X, probes, level, crowded, state.steps + 1, state.seed)

    def _shrunk(
        self, state: SoftImputeState, A: Observed, level: float
    ) -> tuple[tuple, Array, int]:
        """shrink_level(X + R) among the matrices with rows in the span of Q and of the probes; new probes; crowded?"""
        P, s, Q = state.P, state.s, state.Q
        R = residual(A, *state.factors)
        outside, found = probe(R, P, Q, state.probes, rounds=ROUNDS if level == self.reg else 1)
        basis = orthonormalise(np.hstack([Q, outside]))
        C, values, Wt = thin_svd(R @ basis + P @ (s[:, None] * (Q.T @ basis)))
        rank = int(np.count_nonzero(values > level))
        crowded = int(len(found) > 0 and found[-1] > level)
        if self.max_rank is not None and rank >= self.max_rank:
            rank, crowded = self.max_rank, 0
        Y = basis @ Wt.T
        width = 2 * outside.shape[1] if crowded else max(PROBES, 2 * (rank - len(s)))
        probes = self._fill(Y[:, rank:], min(width, min(A.shape) - rank), state)
        kept = (values[:rank] - values.dtype.type(level)) / values.dtype.type(1 + self.ridge)
        return (C[:, :rank], kept, Y[:, :rank]), probes, crowded

    @staticmethod
    def _fill(probes: Array, width: int, state: SoftImputeState) -> Array:
        """The first `width` probes, the missing ones random."""
        rng, missing = (
            np.random.default_rng((state.seed, state.steps)),
            max(width - probes.shape[1], 0),
        )
        fresh = rng.standard_normal((len(probes), missing)) / np.sqrt(len(probes))
        return np.ascontiguousarray(np.hstack([probes[:, :width], fresh.astype(probes.dtype)]))

    def _at(self, A, X, probes, level, crowded, steps, seed) -> SoftImputeState:
        P, s, Q = X
        state = SoftImputeState(P, s, Q, probes, float(level), crowded, 0.0, steps, seed)
        penalty = level * float(s.sum(dtype=np.float64))
        if self.ridge:
            penalty += 0.5 * self.ridge * float(np.square(s, dtype=np.float64).sum())
        return replace(state, loss=0.5 * residual_squares(A, *state.factors) + penalty)

    def objective(self, state: SoftImputeState) -> float:
        return state.loss

    def extras(self, state: SoftImputeState) -> dict[str, float]:
        return {"level": state.level, "rank": float(len(state.s))}

    def attributes(self, state: SoftImputeState) -> dict[str, Any]:
        U, V = state.factors
        flip = signs(V) if len(state.s) else np.ones(0, V.dtype)
        return {
            "U_": U * flip,
            "V_": V * flip,
            "singular_values_": state.s,
            "reg_": float(state.level),
            "ridge_": float(self.ridge),
        }


def probe(R: Any, P: Array, Q: Array, vectors: Array, rounds: int) -> tuple[Array, Array]:
    """Right singular vectors of (I − PPᵀ) R (I − QQᵀ) and their values, strongest first, by rounds that begin at `vectors`.

    At an optimum R = λPQᵀ + W with PᵀW = 0 and WQ = 0, and what W has above λ is what X lacks.
    """
    values = np.zeros(0)
    if vectors.shape[1]:
        for _ in range(rounds):
            Y = R @ vectors
            T = R.T @ orthonormalise(Y - P @ (P.T @ Y))
            vectors, values, _ = thin_svd(T - Q @ (Q.T @ T))
    return vectors, values


# --- which λ ----------------------------------------------------------------------------------------------------------


def chosen_reg(
    A: Observed,
    max_rank: int | None = None,
    time_limit: float | None = None,
    ridge: float = 0.0,
) -> float:
    """λ by a tenth of the entries: as the level falls, the held-out error falls and then rises (noise enters)."""
    if A.n_observed < 2 / HELD_OUT:
        # too few entries to hold any out: σ₁ ≤ ‖Π_Ω A‖
        return 0.5 * float(np.linalg.norm(A.values)) or 1.0
    train, test = A.local.split(HELD_OUT, seed=0)
    rng = np.random.default_rng(0)
    start = SoftImputeAlgorithm(1e-300, max_rank, decline=np.sqrt(0.5), ridge=ridge)
    state = start.init(train, rng)
    if state.level <= 1e-300:
        return 1.0  # all entries are zero, and so is X for every λ
    rule: Stop = (chooser := HeldOut(test)) | MaxSteps(1000)
    rule = rule if time_limit is None else rule | Seconds(time_limit)
    run(replace(start, reg=LOWEST * state.level), train, stop=rule, start=state)
    # noise puts σ₁ ∝ √(entries) into the residual, and λ has to keep it out
    return chooser.level * float(np.sqrt(A.n_observed / train.n_observed))


class SoftImpute(CompletionModel):
    """Matrix completion with a nuclear-norm penalty: convex, no rank to choose, solved to a certified gap.

    Minimises ½‖Π_Ω(A − X)‖² + λ‖X‖_* + ½γ‖X‖_F² over all matrices X, which are kept as UVᵀ and never formed.

    Attributes
    ----------
    U_, V_ : arrays (n, r) and (m, r)
        P√Σ and Q√Σ of X = PΣQᵀ; r is the rank found, 0 included.
    singular_values_ : array (r,)
        Of X, descending.
    reg_ : float
        λ; larger than `reg` only if the run was stopped before λ had come down.
    ridge_ : float
        γ.
    mean_, row_bias_, column_bias_, row_scale_, column_scale_ : float, (n,), (m,), (n,), (m,)
        What was taken out.
    observed_, n_features_in_, n_iter_, trace_, stopped_, certificate_

    Examples
    --------
    >>> import numpy as np
    >>> A = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, -1.0, 2.0])
    >>> A[0, 1] = np.nan
    >>> SoftImpute(reg=0.001, centre="none").fit(A).predict([0], [1]).round(1)
    array([-1.])
    """

    reg: Any = parameter("auto", choice("auto"), None, POSITIVE).doc("""
        λ > 0. X = 0 from σ₁(Π_Ω A) on; without noise the error is proportional to λ. "auto" holds a
        tenth of the entries out and takes the λ with the least error there, for a fraction of the
        price of the fit; None: the rule of ``ALS(reg=None, reg_weighting="plain")``, without
        trials. Both follow the unit of the data: 10·X has 10 times the λ.""")
    _: KW_ONLY
    ridge: float = parameter(0.0, NONNEGATIVE).doc("""
        γ ≥ 0 of a second penalty ½γ‖X‖_F² (CIL24 2.2): every singular value is divided by 1 + γ
        after λ is taken off it, the large ones too. It has no unit.""")
    max_rank: Any = parameter(None, COUNT, None).doc("""
        At most so many singular values. None leaves the rank to λ, and only then the problem is
        convex.""")
    centre: str = parameter("both", choice(*HOW)).doc("""
        What is taken out before, and put back at prediction (CIL 2.1.4). The penalty draws X to 0,
        which is no rating: "none" is for data that is about 0, or of low rank without offsets.""")
    centre_reg: float = parameter(BIAS_REG, NONNEGATIVE).doc("""
        So many average entries are added to every row and column before its offset is taken, as in
        `MeanRatings`; 0: plain means, with which rows of one or two entries are offset by their
        noise.""")
    max_iter: int = common.max_iter(300).doc("""
        The most steps, those included in which λ comes down from σ₁.""")
    tol: float = common.tol(1e-7).doc("""
        Settled when the objective changes by at most this share of it in two steps in a row, both
        at the last λ; 0: never.""")
    random_state: Any = common.random_state().doc("""
        Of the probes that look for further directions; the result depends on it only within `tol`.
        """)
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = SOFT_IMPUTE_CLAIMS
    stored: ClassVar = {**CompletionModel.stored, "singular_values_ reg_ ridge_?": "audited"}
    patience = 2  # a direction that has just entered gains little in its first step

    def _algorithm(self, data: Any) -> SoftImputeAlgorithm:
        max_rank = None if self.max_rank is None else min(int(self.max_rank), *data.shape)
        return SoftImputeAlgorithm(self._reg(data, max_rank), max_rank, ridge=float(self.ridge))

    def _reg(self, data: Any, max_rank: int | None) -> float:
        if self.reg is None:
            return by_rule(data.local, "plain", implicit=False).reg
        if self.reg != "auto":
            return float(self.reg)
        left = self._seconds_left()
        seconds = None if left is None else left / 2  # the other half is for the fit itself
        return chosen_reg(self._problem(data), max_rank, seconds, float(self.ridge))

    def _problem(self, data: Any) -> Observed:
        return data if self.centre == "none" else self._taken_out(data).remove_from(data)

    def _taken_out(self, data: Any) -> Offsets:
        return centre(data.local, self.centre, float(self.centre_reg))

    def _own_offsets(self, data: Observed, others: Array, side: str) -> tuple[Array, Array]:
        """Offsets of a new row: as many average entries are added as were in the fit."""
        bias, spread = super()._own_offsets(data, others, side)
        counts = data.row_counts
        return bias * (counts / np.maximum(counts + self.centre_reg, 1)).astype(bias.dtype), spread

    def _stop(self) -> Stop:
        return self._within_time(self._stop_at_reg())

    def _stop_at_reg(self) -> Stop:
        return SettledAtReg(self.tol, self.patience) | MaxSteps(self.max_iter)

    def _attributes(self, solution: Solution, problem: Observed) -> dict[str, Any]:
        return {**solution.attributes, **self._set_offsets(self._taken_out(self.observed_))}

    @classmethod
    def work(cls, fit: Fit) -> float:
        """A sweep per step, and products with the probes."""
        steps = float(fit.get("n_iter_", 1))
        return cost_of_sweeps(fit, steps) + super().work(fit)

    def _fold_reg(self, counts: Array) -> Array:
        """λ: with balanced factors a new row solves the same ridge regression as the old ones."""
        return np.full(len(counts), self.reg_)

    def _fold_scale(self) -> Array:
        """The ridge of a factor is λ + γs, as VᵀV = diag(s)."""
        return np.sqrt(1 + getattr(self, "ridge_", 0.0) / self.reg_ * self.singular_values_)

    def path(self, X: Any, regs: Sequence[float]) -> list[SoftImpute]:
        """A fitted model for every λ of `regs`, each begun where the one before ended; falling λ are fastest.

        The models have this one's other parameters; this one stays as it is. `time_limit` is that of all together: models that
        it leaves no time for are not in the list, and a warning says so.
        """
        models = [clone(self).set_params(reg=float(reg)) for reg in regs]
        if not models:
            raise ValueError("path goes over at least one reg; got none.")
        with self._all_or_nothing():
            for model in models:
                data = model._checked_data(X)
            first, problem = models[0]._algorithm(data), models[0]._problem(data)
            values = [float(reg) for reg in regs]
            path = Path(first, {"reg": values}, stop=self._stop_at_reg())
            most = MaxSteps(len(models) * (self.max_iter + 1))
            found = run(path, problem, stop=self._within_time(most), rng=self._rng())
        state = found.state
        ends = state.results if state.ended else (*state.results, state.state)
        for index, (result, trace) in enumerate(zip(ends, state.traces, strict=True)):
            last = found.stopped if index == len(state.results) else None
            solution = Solution(path.child(index), result, trace, last)
            models[index]._end_of_path(solution, data)
        if len(ends) < len(models):
            warn_user(
                f"time_limit={self.time_limit} ended the path after {len(ends)} of {len(models)} values of reg.",
                UserWarning,
            )
        return models[: len(ends)]

    def _checked_data(self, X: Any) -> Observed:
        self._validate_params()
        return self._validate_rows(X)

    def _end_of_path(self, solution: Solution, data: Any) -> None:
        """The attributes and the certificate of a run on a path."""
        self.observed_ = data.local
        stopped = solution.stopped or self._stop_at_reg().reason(solution) or Stopped.FINISHED
        self._conclude(
            data, self._attributes(solution, data), solution.trace, stopped, solution.step
        )
