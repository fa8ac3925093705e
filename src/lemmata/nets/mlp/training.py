"""Training of a perceptron: epochs of mini-batches with any optimiser, or L-BFGS on all rows, as algorithms of the loop.

    F(θ) = 1/S Σ sᵢ ℓ(ψ(xᵢ), yᵢ)  +  B/2S · α ΣΘ²                       S = Σ sᵢ, B batches an epoch (L-BFGS: 1), biases free

    for a batch M:   θ ← step(θ, n/(|M|S) · (Σ_M sᵢ∇ℓᵢ + αΘ))           whose mean over the batches of an epoch is ∇F

Without weights the factor is 1/|M|: scikit-learn's step, in which the penalty is divided by the rows of a *batch*. (With
weights scikit-learn divides by those of the batch, whose mean is not ∇F, and by 0 where a batch has none.) The order of epoch e
and the units that drop out of a batch follow from the seed in the state, from e and from the batch, so a run that was resumed
is the run that was not. The loss in a state is F at its own parameters, without dropout; scikit-learn's is the mean over the
batches on the way there.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split

from lemmata.core.blocks import Blocks
from lemmata.core.engine import run_tasks
from lemmata.core.files.layout import check_alike
from lemmata.core.loop import Solution, Stop, Stopped
from lemmata.core.store import storable
from lemmata.nets.mlp.network import LOSSES, MLP, Layers, Workspace
from lemmata.nets.mlp.steps import InPlaceStep

Array = np.ndarray
NONE = np.empty(0, np.int64)
LEAST_RATE = 1e-6  # below it, learning_rate="adaptive" gives up, as in scikit-learn


@dataclass(frozen=True)
class Sample:
    """Rows in memory (or mapped), targets as the loss wants them, weights."""

    blocks: Blocks
    X: Any  # an array or a CSR matrix
    y: Array
    weights: Array | None

    @property
    def shape(self) -> tuple[int, int]:
        return self.blocks.shape

    @property
    def dtype(self) -> Any:
        return self.blocks.dtype

    def fingerprint(self) -> str:
        return self.blocks.fingerprint()

    def some(self, rows: Array) -> Sample:
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, X=self.X[rows], y=self.y[rows], weights=weights)


@storable
@dataclass(frozen=True)
class MLPState:
    """Parameters after some epochs, the objective there, and all that the next epoch depends on."""

    version = 2  # before, Adam's slots were means, not sums
    layout: ClassVar[dict[str, str | type]] = {
        "theta": "P",
        "best_theta": "Q",
        "slots": tuple,
        "held_out": "v int >=0 <n",
        "updates seed epoch waited": "int >=0",
        "rate": ">0",
        "loss": "",
        "score best best_loss": "any",
    }

    theta: Array  # (P,)
    slots: tuple[Array, ...]  # what the optimiser remembers, (P,) each
    updates: int  # steps of the optimiser
    seed: int
    epoch: int
    rate: float  # η of the next epoch, for the optimisers that take it
    loss: float  # F at θ, of the rows that are trained on
    score: float  # of the rows held out; NaN without early stopping
    best: float  # the lowest loss, or the highest score, of the epochs so far
    waited: int  # epochs since it was last bettered by tol
    held_out: Array  # (v,) rows held out for early stopping
    best_theta: Array  # (P,) where the score was highest; (0,) without early stopping
    best_loss: float  # F there


@dataclass(frozen=True)
class NoProgress(Stop):
    """Neither loss nor score has become better by tol for more than so many epochs."""

    epochs: float

    def reason(self, solution: Solution) -> str | None:
        return Stopped.SETTLED if solution.state.waited > self.epochs else None


@dataclass(frozen=True)
class MLPAlgorithm:
    """Epochs of mini-batches. A step copies the parameters once and then works in place.

    Parameters
    ----------
    net : MLP
    optimizer : InPlaceStep
    batch_size : int
    alpha : float
        The ridge on weights; biases are free.
    rate, schedule, power_t
        η, and how it changes from epoch to epoch: "constant", "invscaling" (η/(samples seen + 1)^power_t) or "adaptive" (a
        fifth of it whenever `patience` epochs brought no progress of tol).
    dropout : float
        The probability with which a hidden unit is left out of a step.
    validation : float
        The share of rows held out; 0 without early stopping.
    """

    net: MLP
    optimizer: InPlaceStep
    batch_size: int
    alpha: float = 0.0
    rate: float = 1e-3
    schedule: str = "constant"
    power_t: float = 0.5
    shuffle: bool = True
    dropout: float = 0.0
    validation: float = 0.0
    classifies: bool = False
    tol: float = 1e-4
    patience: float = 10
    init_kind: str = "auto"
    start: Array | None = None

    hint: ClassVar[str] = "lower learning_rate_init, or scale the columns of X to a common size"

    # --- init and step ---

    @property
    def sizes(self) -> dict[str, int]:
        return {"P": self.net.n_parameters, "Q": self.net.n_parameters if self.validation else 0}

    def check_state(self, state: MLPState, data: Sample) -> None:
        """ValueError where the optimiser of a state from a file remembers what it does not here."""
        check_alike(self.optimizer.slots(state.theta), state.slots)

    def init(self, data: Sample, rng: np.random.Generator) -> MLPState:
        seed = int(rng.integers(2**63))
        drawn = self.net.start(rng, self.init_kind, data.dtype)
        theta = drawn if self.start is None else self.start.astype(data.dtype)
        held_out = self._hold_out(data, seed) if self.validation else NONE
        nothing = -math.inf if self.validation else math.inf
        best_theta = theta if self.validation else theta[:0]
        state = MLPState(
            theta, self.optimizer.slots(theta), 0, seed, 0, self.rate, math.nan, math.nan, nothing, 0,
            held_out, best_theta, math.nan,
        )  # fmt: skip
        loss = self._loss(theta, data, held_out)
        return replace(state, loss=loss, best_loss=loss)

    def _hold_out(self, data: Sample, seed: int) -> Array:
        """Rows that are not trained on; as many of each class as there are, where there is one label a row."""
        every = np.arange(data.shape[0])
        labels = data.y if self.classifies and data.y.ndim == 1 else None
        if self.classifies and data.y.shape[1:] == (1,):
            labels = data.y[:, 0]
        _, held = train_test_split(
            every, test_size=self.validation, stratify=labels, random_state=seed % 2**32
        )
        if len(held) < 2:
            raise ValueError(
                f"validation_fraction={self.validation} of {len(every)} rows is {len(held)}; two or more are needed to "
                "measure a score: raise it, or fit without early_stopping."
            )
        return np.sort(held)

    def step(self, state: MLPState, data: Sample) -> MLPState:
        rows = _training_rows(data.shape[0], state.held_out)
        if self.shuffle:
            rows = rows[np.random.default_rng([state.seed, state.epoch]).permutation(len(rows))]
        theta, slots = state.theta.copy(), tuple(slot.copy() for slot in state.slots)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # the loop reports it
            slots, updates = self._epoch(theta, slots, state, data, rows)
            loss = self._loss(theta, data, state.held_out)
            score = self._score(theta, data, state.held_out) if self.validation else math.nan
        return self._after(state, theta, slots, updates, loss, score, len(rows))

    def _epoch(self, theta, slots, state: MLPState, data: Sample, rows: Array):
        """Steps through the rows, a batch at a time; writes into theta and slots."""
        net, size, count = self.net, self.batch_size, state.updates
        most = min(size, len(rows))
        step = -(-most // (1 if self.dropout else net.n_parts(most)))
        gradients = [np.empty_like(theta) for _ in range(0, most, step)]
        layers, slopes = net.layers(theta), [net.layers(one) for one in gradients]
        kept = [Workspace(net, step, theta.dtype, self.dropout) for _ in gradients]
        x = None if data.blocks.sparse else np.empty((most, data.shape[1]), data.dtype)
        total = len(rows) if data.weights is None else float(data.weights[rows].sum())
        for first in range(0, len(rows), size):
            chosen = rows[first : first + size]
            batch = data.X[chosen] if x is None else _gather(data.X, chosen, x[: len(chosen)])
            rng = np.random.default_rng([state.seed, state.epoch, first]) if self.dropout else None
            scale = len(rows) / (len(chosen) * total)
            weights = None if data.weights is None else data.weights[chosen]
            y, parts = data.y[chosen], -(-len(chosen) // step)

            def work(part: int, batch=batch, y=y, weights=weights, scale=scale, rng=rng) -> None:
                some = slice(part * step, (part + 1) * step)
                mine = None if weights is None else weights[some]
                self._gradient_into(
                    slopes[part], layers, batch[some], y[some], mine, scale, kept[part], rng
                )

            run_tasks(work, parts)
            for other in gradients[1:parts]:
                gradients[0] += other
            slots = self.optimizer.step_into(
                theta, gradients[0], slots, count, state.rate, self.alpha * scale, net.n_weights
            )
            count += 1
        return slots, count

    def _gradient_into(
        self, slopes: Layers, layers: Layers, x, y, weights, scale, kept, rng
    ) -> None:
        """scale · Σ sᵢ∇ℓᵢ of some rows."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # of this thread
            delta = self.net.forward(layers, x, kept, rng)
            LOSSES[self.net.loss].error_into(delta, y)
            delta *= scale if weights is None else (scale * weights).astype(delta.dtype)[:, None]
            self.net.backward(layers, kept, delta, slopes)

    def _after(self, state, theta, slots, updates, loss, score, n) -> MLPState:
        """The next state: what is best so far, how long ago that was, and the rate of the next epoch."""
        stopping = bool(self.validation)
        value = score if stopping else loss
        better = value > state.best if stopping else value < state.best
        # scikit-learn's two comparisons: a gain of exactly tol is progress
        stuck = value < state.best + self.tol if stopping else value > state.best - self.tol
        waited, rate, epoch = state.waited + 1 if stuck else 0, state.rate, state.epoch + 1
        if self.schedule == "invscaling":
            rate = self.rate / (epoch * n + 1) ** self.power_t
        elif self.schedule == "adaptive" and waited > self.patience and rate > LEAST_RATE:
            rate, waited = rate / 5, 0
        keep = stopping and better
        return MLPState(
            theta, slots, updates, state.seed, epoch, rate, loss, score, value if better else state.best, waited,
            state.held_out, theta if keep else state.best_theta, loss if keep else state.best_loss,
        )  # fmt: skip

    # --- the objective ---

    def _loss(self, theta: Array, data: Sample, held_out: Array) -> float:
        rows = _training_rows(data.shape[0], held_out) if len(held_out) else None
        n = data.shape[0] - len(held_out)
        weights = data.weights
        total = n if weights is None else float((weights if rows is None else weights[rows]).sum())
        batches = -(-n // self.batch_size)
        W = theta[: self.net.n_weights].astype(np.float64)
        losses = self.net.sum_of_losses(self.net.layers(theta), data.X, data.y, weights, rows)
        return (losses + 0.5 * self.alpha * batches * float(W @ W)) / total

    def _score(self, theta: Array, data: Sample, held_out: Array) -> float:
        """Accuracy, or R², of the rows held out; NaN if their predictions overflow."""
        held = data.some(held_out)
        scores = self.net.scores(self.net.layers(theta), held.X)
        if not np.isfinite(scores).all():
            return math.nan
        if not self.classifies:
            found = np.exp(scores) if self.net.loss == "poisson" else scores
            return float(r2_score(held.y, found, sample_weight=held.weights))
        labels = (
            scores.argmax(axis=1) if self.net.loss == "softmax" else np.where(scores > 0, 1, -1)
        )
        truth = held.y if self.net.loss == "softmax" else held.y.astype(int)
        return float(accuracy_score(truth, labels, sample_weight=held.weights))

    # --- what the loop and the estimator read ---

    def objective(self, state: MLPState) -> float:
        return state.loss

    def extras(self, state: MLPState) -> dict[str, float]:
        found = {"rate": state.rate}
        return {**found, "score": state.score} if self.validation else found

    def attributes(self, state: MLPState) -> dict[str, Any]:
        """The parameters of the best epoch under early stopping, else of the last."""
        if self.validation:
            return _layer_attributes(self.net, state.best_theta, state.best_loss)
        return _layer_attributes(self.net, state.theta, state.loss)


def _layer_attributes(net: MLP, theta: Array, loss: float) -> dict[str, Any]:
    weights, biases = ([part.copy() for part in parts] for parts in net.layers(theta))
    return {"coefs_": weights, "intercepts_": biases, "loss_": loss}


def _training_rows(n: int, held_out: Array) -> Array:
    return np.delete(np.arange(n), held_out) if len(held_out) else np.arange(n)


def _gather(X: Array, rows: Array, out: Array) -> Array:
    return np.take(X, rows, axis=0, out=out, mode="clip")  # the default mode copies twice


# --- all rows at once -------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class MLPQuasiNewtonState:
    """Where SciPy ended, and the objective at each of its own steps."""

    version = 1
    layout: ClassVar[dict[str, str | type]] = {"theta": "P", "loss": "", "curve": "t"}

    theta: Array
    loss: float
    curve: Array  # (steps + 1,)
    word: str = ""  # why it ended; "" before its start


@dataclass(frozen=True)
class MLPQuasiNewton:
    """SciPy's L-BFGS-B as one step, with scikit-learn's rules: its memory cannot be handed out between two of its steps."""

    net: MLP
    alpha: float
    tol: float
    max_iter: int
    max_fun: int
    time_limit: float | None = None
    init_kind: str = "auto"
    start: Array | None = None

    hint: ClassVar[str] = "scale the columns of X to a common size"

    def identity(self) -> Any:
        """Itself without the time limit: a run with a longer one may resume its checkpoint."""
        return replace(self, time_limit=None)

    @property
    def sizes(self) -> dict[str, int]:
        return {"P": self.net.n_parameters}

    def init(self, data: Sample, rng: np.random.Generator) -> MLPQuasiNewtonState:
        drawn = self.net.start(rng, self.init_kind, data.dtype)
        theta = drawn if self.start is None else self.start.astype(data.dtype)
        loss, _ = self._function(theta, data)
        return MLPQuasiNewtonState(theta, loss, np.array([loss]))

    def _function(self, theta: Array, data: Sample) -> tuple[float, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            return self.net.value_and_gradient(theta, data.X, data.y, data.weights, self.alpha)

    def step(self, state: MLPQuasiNewtonState, data: Sample) -> MLPQuasiNewtonState:
        from scipy.optimize import minimize

        begin, dtype = time.perf_counter(), data.dtype
        curve, last, word = [state.loss], (state.theta, state.loss), ""

        def flat(z: Array) -> tuple[float, Array]:
            value, gradient = self._function(z.astype(dtype, copy=False), data)
            return value, gradient.astype(np.float64)

        def after(intermediate_result: Any) -> None:
            nonlocal last, word
            last = intermediate_result.x.astype(dtype), float(intermediate_result.fun)
            curve.append(last[1])
            if self.time_limit is not None and time.perf_counter() - begin >= self.time_limit:
                word = Stopped.OUT_OF_TIME
                raise StopIteration

        options = {"maxiter": self.max_iter, "maxfun": self.max_fun, "gtol": self.tol}
        try:
            found = minimize(
                flat, state.theta.astype(np.float64), jac=True, method="L-BFGS-B", callback=after, options=options
            )  # fmt: skip
            word = word or (Stopped.MAX_STEPS if found.status == 1 else Stopped.SETTLED)
        except KeyboardInterrupt:
            word = Stopped.INTERRUPTED
        loss = self._function(last[0], data)[0] if dtype != np.float64 else last[1]
        return MLPQuasiNewtonState(last[0], loss, np.array([*curve[:-1], loss]), str(word))

    def finished(self, state: MLPQuasiNewtonState) -> bool:
        return bool(state.word)

    def objective(self, state: MLPQuasiNewtonState) -> float:
        return state.loss

    def attributes(self, state: MLPQuasiNewtonState) -> dict[str, Any]:
        return _layer_attributes(self.net, state.theta, state.loss)
