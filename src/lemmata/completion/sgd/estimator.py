"""Biased matrix factorisation by stochastic gradient steps over single entries (ML "Matrix Factorization").

    minimise  ½ Σ_Ω (a_ij − μ − b_i − c_j − u_iᵀv_j)²  +  ½ λ Σ_Ω (‖u_i‖² + ‖v_j‖² + b_i² + c_j²)

over U: n × k, V: m × k and the biases; μ is the mean of the known entries. Both sums run over the known entries, so a row with
n_i of them has the penalty λn_i, as in ALS with counts, and every term is one entry's own. A step looks at one of them, with
e = a_ij − μ − b_i − c_j − u_iᵀv_j:

    u_i ← (u_i + γe v_j) / (1 + γλ),      v_j ← (v_j + γe u_i) / (1 + γλ),      b_i ← (b_i + γe) / (1 + γλ),  c_j likewise

that is u_new = u − γ(λu_new − e v), a gradient step with the penalty taken at its end: it has the same fixed points as the
usual u + γ(e v − λu), differs from it by O(γ²), and no λ makes it unstable.

A step touches one row and one column. So rows and columns are cut into P groups each, and an epoch is P rounds of P blocks that
share neither: threads work on them without locks, and the result is the same for any number of threads (DSGD, Gemulla et al.
2011). P is fixed, and the order inside a block is drawn again in each epoch.

γ is chosen by the bold driver: an epoch that would raise the objective is undone and γ halved, after any other γ grows by 5 %.
So it shrinks when only noise is left, and the objective falls from epoch to epoch.

On the notes: their loss is a mean over Ω in one place and a sum in another; we use the sum. Their λ_w ‖W‖² is not a sum over
entries, hence has no step of its own for a single entry; spread evenly over the entries of a row it would be λ_w / n_i.

    >>> rng = np.random.default_rng(0)
    >>> A = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 40)) + 3
    >>> X = np.where(rng.random(A.shape) < 0.7, A, np.nan)
    >>> model = SGDFactorization(rank=3, reg=1e-4, random_state=0).fit(X)
    >>> bool(np.abs(model.complete() - A).max() < 0.05), "never_rose" in model.certificate_.held
    (True, True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from lemmata.audit.completion.factors import SCHEDULED_SGD_CLAIMS, SGD_CLAIMS
from lemmata.completion.als.algorithm import Penalty, by_rule, in_order, split_reg, stretch
from lemmata.completion.base import CompletionModel, Folded, check_rank
from lemmata.completion.centring import Offsets
from lemmata.completion.observed import Entries, Observed
from lemmata.completion.rows.solver import RowSolver
from lemmata.completion.sgd.blocked_entries import BlockedEntries, in_rounds
from lemmata.core import common
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, POSITIVE, SHARE, choice, parameter
from lemmata.core.store import storable

Array = np.ndarray

# the bold driver's first γ; three times more or less costs it an epoch or two
FIRST_RATE = {"sgd": 0.05, "adam": 0.01}
GROWTH, CUT = 1.05, 0.5  # of the bold driver (Gemulla et al. 2011)
TRIES = 10  # epochs undone in one step before it gives up: γ is then a thousandth, and the loop hears "no change"
REMEMBERED = 5  # numbers that Adam keeps of a row besides its momentum (_kernels.remember)
# standard deviation at the start; larger ones are noise that has to be unlearnt
FIRST_FACTORS = 0.1


# --- the algorithm ----------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class SGDFactorizationState:
    """Factors and biases of the standardised entries x, and what the next epoch needs."""

    version = 1
    layout: ClassVar = {
        "U": "n k",
        "V": "d k",
        "b": "n",
        "c": "d",
        "mean": "",
        "scale": ">0",
        "rate": ">0",
        "memory": ("n k", "d k", f"n {REMEMBERED}", f"d {REMEMBERED}"),
    }

    U: Array  # (n, k)
    V: Array  # (m, k)
    b: Array  # (n,) zeros without biases
    c: Array  # (m,)
    # Adam's momenta of U and V, and what it remembers of rows and columns; empty for sgd
    memory: tuple[Array, ...]
    mean: float
    scale: float
    rate: float  # γ of the next epoch
    epoch: int  # epochs made so far, with those undone: the number that the next epoch's order is drawn with
    seed: int
    loss: float  # the objective at these factors, in the units of the data

    @property
    def arrays(self) -> tuple[Array, ...]:
        return (self.U, self.V, self.b, self.c, *self.memory)


@dataclass(frozen=True)
class SGDFactorizationAlgorithm:
    """Epochs of single steps over blocks. Parameters as those of `SGDFactorization`; learning_rate None is "auto".

    The penalty of a row with n_i entries is λ n_i^weighted on its factors, and the same on its bias, or κ = bias_reg. With
    x = (a − μ)/σ, u = √σ u' and b = σ b' the objective is σ² times that of x with λ/σ on factors and λ or κ on biases.
    """

    rank: int
    reg: float
    biases: bool = True
    optimizer: str = "sgd"
    learning_rate: float | None = None
    decay: float = 0.75
    weighted: float = 1.0
    bias_reg: float | None = None

    hint: ClassVar[str] = (
        "lower learning_rate or leave it at 'auto', or look for extreme values in the data"
    )

    def check_state(self, state: SGDFactorizationState, data: BlockedEntries) -> None:
        """ValueError where a state from a file remembers what this optimizer does not, or less."""
        if bool(state.memory) != (self.optimizer == "adam"):
            raise ValueError(f"it has {len(state.memory)} memories of {self.optimizer}.")
        if {one.dtype for one in state.arrays} != {data.x.dtype}:  # kernels take them for one type
            raise ValueError(f"its factors are not all {data.x.dtype}, as the entries are.")

    def init(self, data: BlockedEntries, rng: np.random.Generator) -> SGDFactorizationState:
        sizes, dtype = data.shape, data.x.dtype
        U, V = (
            (
                FIRST_FACTORS
                * rng.standard_normal((len(counts), self.rank))
                * (counts > 0)[:, None]
            ).astype(dtype)
            for counts in data.counts  # what has no entries is never visited: it stays 0, and is predicted by the offsets
        )
        b, c = (np.zeros(size, dtype) for size in sizes)
        widths = (self.rank, REMEMBERED) if self.optimizer == "adam" else ()
        memory = tuple(np.zeros((size, width), dtype) for width in widths for size in sizes)
        seed, loss = int(rng.integers(2**62)), self._loss(data, *data.put_in_place((U, V, b, c)))
        rate = FIRST_RATE[self.optimizer] if self.learning_rate is None else self.learning_rate
        return SGDFactorizationState(U, V, b, c, memory, data.mean, data.scale, rate, 0, seed, loss)

    def step(self, state: SGDFactorizationState, data: BlockedEntries) -> SGDFactorizationState:
        if self.learning_rate is not None:
            new = self._after_epoch(state, data)
            return replace(new, rate=self.learning_rate / (1 + new.epoch) ** self.decay)
        for _ in range(TRIES):
            new = self._after_epoch(state, data)
            if new.loss <= state.loss:
                return replace(new, rate=GROWTH * state.rate)
            state = replace(state, rate=CUT * state.rate, epoch=new.epoch)
        return state

    def objective(self, state: SGDFactorizationState) -> float:
        return state.loss

    def extras(self, state: SGDFactorizationState) -> dict[str, float]:
        return {"learning_rate": state.rate, "epoch": float(state.epoch)}

    def attributes(self, state: SGDFactorizationState) -> dict[str, Any]:
        """In the units of the data."""
        root, scale = (
            state.b.dtype.type(factor) for factor in (math.sqrt(state.scale), state.scale)
        )
        factors = {"U_": root * state.U, "V_": root * state.V}
        return {
            **factors,
            "mean_": state.mean,
            "row_bias_": scale * state.b,
            "column_bias_": scale * state.c,
        }

    def _after_epoch(
        self, state: SGDFactorizationState, data: BlockedEntries
    ) -> SGDFactorizationState:
        """One step for each entry, with the rate of the state."""
        from lemmata.completion.sgd._kernels import adapt, descend

        rng = np.random.default_rng([state.seed, state.epoch])
        rounds, key = data.rounds(rng), rng.integers(2**63, dtype=np.uint64)
        work = data.put_in_place(state.arrays)
        kernel: Any = adapt if self.optimizer == "adam" else descend
        penalties = self._penalties(data)
        if self.optimizer == "sgd":
            penalties = [1 / (1 + part.dtype.type(state.rate) * part) for part in penalties]
        rest = (state.rate, *penalties, self.biases, self.rank)
        steps = partial(kernel, *data.entries, key, *work, *rest)
        in_rounds(steps, rounds, len(data.x) * self.rank)
        U, V, b, c, *memory = data.put_back(work, state.arrays)
        loss = self._loss(data, *work[:4])
        return replace(
            state, U=U, V=V, b=b, c=c, memory=tuple(memory), epoch=state.epoch + 1, loss=loss
        )

    def _penalties(self, data: BlockedEntries) -> list[Array]:
        """Shares of one entry of each row, and of each column, in the penalty of its factors and of its bias, in units of x."""
        out = []
        for counts in (data.row_counts, data.column_counts):
            n = np.maximum(counts, 1).astype(np.float64)
            factors = self.reg * n ** (self.weighted - 1)
            biases = factors if self.bias_reg is None else self.bias_reg / n
            out.append(np.column_stack([factors / data.scale, biases]).astype(data.x.dtype))
        return out

    def _loss(self, data: BlockedEntries, U: Array, V: Array, b: Array, c: Array) -> float:
        """The objective in the units of the data; everything by place."""
        from lemmata.completion.sgd._kernels import squared_errors_into

        sums = np.zeros(data.groups**2)
        errors = partial(squared_errors_into, sums, *data.entries, U, V, b, c)
        in_rounds(errors, [np.arange(len(sums))], len(data.x) * self.rank)
        total = sums.sum()
        sides = ((U, b, data.row_counts), (V, c, data.column_counts))
        for (F, bias, counts), reg in zip(sides, self._penalties(data), strict=True):
            # a step too long: the loss says so by being infinite
            with np.errstate(over="ignore", invalid="ignore"):
                factors = reg[:, 0] * np.einsum("ij,ij->i", F, F, dtype=np.float64)
                total += (factors + reg[:, 1] * np.square(bias, dtype=np.float64)) @ counts
        return 0.5 * data.scale**2 * float(total)


class SGDFactorization(CompletionModel):
    """Low-rank completion of a partly known matrix by stochastic gradient steps over single entries.

    Minimises ½ Σ_Ω (a_ij − μ − b_i − c_j − u_iᵀv_j)² + ½ Σ_i (λ_i ‖u_i‖² + κ_i b_i²) + ½ Σ_j (λ_j ‖v_j‖² + κ_j c_j²), the
    objective of ALS, over U (n × k), V (m × k) and the biases b and c. An epoch costs about 8k flops per entry, where a sweep
    of ALS costs 2k².

    Attributes
    ----------
    U_, V_ : arrays (n, k), (m, k)
        The factors, turned so that the first matters most.
    mean_, row_bias_, column_bias_ : μ, b and c
    reg_, weighted_reg_, reg_ratio_ : numbers
        λ, the power of the number of entries that it is multiplied with: λ_i = λ n_i^weighted_reg_, and λ of rows over that of
        columns.
    bias_reg_, weighted_bias_reg_ : numbers
        κ and its power.
    loss_ : float
        The objective.
    observed_, row_scale_, column_scale_, n_features_in_, n_iter_, trace_, stopped_, certificate_
        `trace_` has `learning_rate` (γ of the next epoch) and `epoch` (with those undone) among its extras.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[5, 4, np.nan, 1], [4, np.nan, 1, 1], [1, 1, np.nan, 5], [np.nan, 1, 5, 4.0]])
    >>> model = SGDFactorization(rank=1, reg=0.05, max_iter=200, random_state=0).fit(X)
    >>> model.predict([0, 3], [2, 0]).round()
    array([1., 1.])
    """

    rank: int = parameter(20, COUNT).doc("""
        k, the number of factors; at most the smaller side of the matrix.""")
    reg: Any = parameter(None, NONNEGATIVE, tuple, None).doc("""
        None: the rule of ``ALS(reg=None)``, λ_i = λ√n_i with λ in units of the deviation of the
        data, κ_i = 3; ten times the data have ten times the predictions. A number is the penalty of
        every entry on its factors and biases, λ_i = κ_i = λn_i, in the units of the data. A pair is (λ of
        rows, λ of columns), as in ``ALS``. At 0
        nothing but the small start keeps rows with fewer than k entries from fitting noise.""")
    _: KW_ONLY
    biases: bool = parameter(True, "boolean").doc("""
        Whether μ, b_i and c_j are part of the model. Without them nothing is removed from the data.
        """)
    optimizer: str = parameter("sgd", choice(*FIRST_RATE)).doc("""
        "sgd": plain steps, without momentum. "adam": steps along a running mean of a row's
        gradients, divided by their running size: about half the epochs, each of which takes four
        times as long. Both minimise the same objective.""")
    learning_rate: Any = parameter("auto", choice("auto"), POSITIVE).doc("""
        γ, for values divided by their standard deviation. "auto": the bold driver; an epoch that
        would raise the objective is undone and γ halved, after any other γ grows by 5 %. A number
        is taken as it is: too large a one diverges.""")
    decay: float = parameter(0.75, SHARE).doc("""
        With a number γ, the steps of epoch t = 0, 1, … are γ / (1 + t)^decay. Above ½ their noise
        dies out, 0 keeps γ.""")
    max_iter: int = common.max_iter(50).doc("The most epochs (those undone are not counted).")
    tol: float = common.tol(1e-4).doc("""
        Settled when an epoch changes the objective, penalties included, by less than this share of
        it, twice in a row.""")
    random_state: Any = common.random_state()
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    claims = SGD_CLAIMS
    stored: ClassVar = {
        **CompletionModel.stored,
        "reg_ reg_ratio_? weighted_reg_ bias_reg_ weighted_bias_reg_ loss_": "audited",
    }
    patience = 2  # one epoch may stand still because the bold driver undid it TRIES times over

    def _algorithm(self, data: Any) -> SGDFactorizationAlgorithm:
        check_rank(self.rank, data)
        rate = None if self.learning_rate == "auto" else float(self.learning_rate)
        rule = (
            Penalty(split_reg(self.reg)[0], 1.0)
            if self.reg is not None
            else by_rule(data.local, "root", False)
        )
        return SGDFactorizationAlgorithm(
            int(self.rank),
            float(rule.reg),
            bool(self.biases),
            self.optimizer,
            rate,
            float(self.decay),
            rule.weighted,
            rule.bias_reg,
        )

    def _problem(self, data: Any) -> BlockedEntries:
        return BlockedEntries.of(data.local, centred=bool(self.biases))

    def _attributes(self, solution, problem: BlockedEntries) -> dict[str, Any]:
        shown = solution.attributes
        U, V = in_order(shown["U_"], shown["V_"], *problem.counts)
        ratio = 1.0 if self.reg is None else split_reg(self.reg)[1]
        U, V = stretch(U, V, ratio)
        ones = np.ones(len(U), U.dtype), np.ones(len(V), V.dtype)
        offsets = Offsets(shown["mean_"], shown["row_bias_"], shown["column_bias_"], *ones)
        algorithm = solution.algorithm
        alike = algorithm.bias_reg is None  # biases and factors
        numbers = {
            "reg_": algorithm.reg,
            "reg_ratio_": ratio,
            "weighted_reg_": algorithm.weighted,
            "bias_reg_": algorithm.reg if alike else algorithm.bias_reg,
            "weighted_bias_reg_": algorithm.weighted if alike else 0.0,
            "loss_": solution.state.loss,
        }
        return {"U_": U, "V_": V, **self._set_offsets(offsets), **numbers}

    def _claims(self):
        return SGD_CLAIMS if self.learning_rate == "auto" else SCHEDULED_SGD_CLAIMS

    def _title(self, data: Any) -> str:
        title = super()._title(data)
        return (
            title
            if data is None
            else f"{title}, reg {self.reg_:.3g} × {_power(self.weighted_reg_)}, {self.optimizer}"
        )

    def _fold(self, data: Observed, transposed: bool = False) -> Folded:
        """Factors and bias of new rows, from one least-squares problem each: where steps over their entries would settle."""
        ratio = getattr(self, "reg_ratio_", 1.0)
        U, V = stretch(self.U_, self.V_, 1 / ratio)
        V, bias = (U, self.row_bias_) if transposed else (V, self.column_bias_)
        indptr, indices, values = data.by_row
        solver = RowSolver(
            self.reg_,
            weighted=float(self.weighted_reg_),
            bias=bool(self.biases),
            bias_reg=None if self.weighted_bias_reg_ else float(self.bias_reg_),
        )
        W, _ = solver(
            Entries(indptr, indices, values.astype(V.dtype, copy=False)),
            V,
            V.dtype.type(self.mean_) + bias,
        )
        b = np.ascontiguousarray(W[:, -1]) if self.biases else np.zeros(len(W), V.dtype)
        own, _ = stretch(W[:, : V.shape[1]], V, 1 / ratio if transposed else ratio)
        return Folded(np.ascontiguousarray(own), b, np.ones(len(W), V.dtype))

    def _fold_reg(self, counts: Array) -> Array:
        return self.reg_ * getattr(self, "reg_ratio_", 1.0) ** 0.5 * counts**self.weighted_reg_


def _power(weighted: float) -> str:
    return "counts" if weighted == 1 else "√counts" if weighted == 0.5 else "1"
