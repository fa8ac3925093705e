"""Perceptron: the base of MLPClassifier and MLPRegressor. Network and algorithm of the parameters, attributes of the result."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.metaestimators import available_if

from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_perceptron
from lemmata.core.files.layout import check_stored
from lemmata.core.loop import MaxSteps, Never, Solution, Stop, Stopped, run, warn_user
from lemmata.core.parameters import (
    COUNT,
    FRACTION,
    KW_ONLY,
    NONNEGATIVE,
    POSITIVE,
    SHARE,
    choice,
    fitted,
    parameter,
)
from lemmata.core.runs.trace import Trace
from lemmata.core.supervised import Supervised
from lemmata.core.validation import Interval
from lemmata.nets.mlp import training
from lemmata.nets.mlp.network import ACTIVATIONS, LOSSES, MLP
from lemmata.nets.mlp.steps import NAMED, step_for

Array = np.ndarray
SOLVERS = {"adam", "sgd", "lbfgs", *NAMED}
AUTO_BATCH = 200  # scikit-learn's


@dataclass(frozen=True)
class OptimizerMemory:
    """State of `partial_fit` besides the weights: memory and rate of the optimiser, and the place in the order of the seed."""

    slots: tuple[Array, ...]
    updates: int
    rate: float
    seed: int
    epoch: int


def _is_stochastic(model: Any) -> bool:
    if model.solver == "lbfgs":
        raise AttributeError(
            "partial_fit is one epoch of mini-batches, and solver='lbfgs' takes all rows; choose 'adam' or 'sgd'."
        )
    return True


class Perceptron(Supervised):
    """A multi-layer perceptron; a subclass defines its targets and their loss."""

    hidden_layer_sizes: Any = parameter((100,), "array-like", COUNT).doc("""
        The units of each hidden layer; () is a linear model.""")
    activation: str = parameter("relu", choice(*ACTIVATIONS)).doc("""
        φ, of the hidden layers. "logistic" is the notes' sigmoid.""")
    _: KW_ONLY
    solver: Any = parameter("adam", choice(*SOLVERS), object).doc("""
        "adam", "sgd" (with `momentum`), "lbfgs" (all rows at once, SciPy's), or another by name:
        "gd" (all rows are the batch), "heavy-ball", "averaged-momentum", "nesterov", "adagrad",
        "rmsprop", "adam-cil", "signsgd"; or an object with its own rates: ``Adam(Cosine(1e-2,
        steps=1000))``.""")
    alpha: float = parameter(0.0001, NONNEGATIVE).doc("""
        α, the ridge on weights; biases bear none. It is divided by the rows of a batch, as in
        scikit-learn.""")
    batch_size: Any = parameter("auto", choice("auto"), COUNT).doc("""
        Rows of a step; "auto": 200, or all if there are fewer.""")
    learning_rate: str = parameter("constant", choice("constant", "invscaling", "adaptive")).doc("""
        How the rate of solver="sgd" changes: not, as 1/(rows seen)^power_t, or to a fifth where
        progress ends.""")
    learning_rate_init: float = parameter(0.001, POSITIVE).doc("""
        The rate η of all solvers but "lbfgs".""")
    power_t: float = parameter(0.5, NONNEGATIVE).doc('The exponent of learning_rate="invscaling".')
    max_iter: int = common.max_iter(200).doc('Epochs; steps of "lbfgs".')
    shuffle: bool = parameter(True, "boolean").doc("Whether every epoch has an order of its own.")
    random_state: Any = common.random_state().doc("""
        Draws the weights at the start, the orders, the rows held out and the units dropped.""")
    tol: float = common.tol(1e-4).doc("""
        Settled when the loss (early_stopping: the score of rows held out) was not bettered by tol
        for more than `n_iter_no_change` epochs; "lbfgs": no entry of the gradient exceeds it.""")
    verbose: int = common.verbose(False)
    warm_start: bool = common.warm_start().doc("Start from the weights of the fit before.")
    momentum: float = parameter(0.9, SHARE).doc('The momentum of solver="sgd".')
    nesterovs_momentum: bool = parameter(True, "boolean").doc("""
        For solver="sgd": where the gradient of a step with momentum is taken.""")
    early_stopping: bool = parameter(False, "boolean").doc("""
        Hold rows out, stop when their score stays, and keep the weights of the best epoch.""")
    validation_fraction: float = parameter(0.1, FRACTION).doc("The share of rows held out.")
    beta_1: float = parameter(0.9, Interval(Real, 0, 1, closed="left")).doc("""
        "adam": how long gradients are remembered.""")
    beta_2: float = parameter(0.999, Interval(Real, 0, 1, closed="left")).doc("""
        "adam": how long their squares are remembered.""")
    epsilon: float = parameter(1e-8, POSITIVE).doc('"adam": added to the root of the squares.')
    n_iter_no_change: float = parameter(10, Interval(Real, 1, None, closed="both")).doc("""
        Epochs without improvement by `tol` that end the fit.""")
    max_fun: int = parameter(15000, COUNT).doc('Calls of the function by "lbfgs".')
    dropout: float = parameter(0.0, Interval(Real, 0, 1, closed="left")).doc("""
        The probability p with which each hidden unit is left out of a step; what stays is divided
        by 1 − p.""")
    init: str = parameter("auto", choice("auto", "he", "xavier")).doc("""
        The variance of the first weights: Xavier's 2/(n_in + n_out) or He's 2/n_in. "auto": He's in
        networks of more than five hidden layers of relu, softplus or gelu, which would halve the
        signal at every layer; else Xavier's.""")
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    accepts_sparse = True
    work = staticmethod(cost_of_perceptron)
    stored: ClassVar[dict[str, str | type]] = {
        "loss_ t_": "audited",
        "coefs_ intercepts_ loss_curve_": list,
        "best_loss_ best_validation_score_ validation_scores_ validation_rows_": object,
        "n_layers_": "int >=2",
        "n_outputs_": "int >=1",
        "out_activation_": str,
    }

    coefs_: list[Array] = fitted()
    intercepts_: list[Array] = fitted()
    classifies: ClassVar[bool] = False
    _memory: OptimizerMemory | None = None

    # --- for subclasses ---

    def _loss_name(self, targets: Array) -> str:
        raise TypeError(f"{type(self).__name__} defines no loss.")

    def _n_outputs(self, targets: Array) -> int:
        return 1 if targets.ndim == 1 else targets.shape[1]

    def _loss_targets(self, targets: Array, dtype: Any) -> Array:
        return targets.astype(dtype).reshape(len(targets), -1)

    # --- the problem ---

    def _net(self, data: Blocks) -> MLP:
        assert data.targets is not None
        hidden = np.ravel(np.asarray(self.hidden_layer_sizes))
        if hidden.size and (hidden.dtype.kind not in "iu" or hidden.min() < 1):
            raise ValueError(
                f"hidden_layer_sizes={self.hidden_layer_sizes!r}: pass the number of units of each hidden layer, all >= 1."
            )
        sizes = (data.shape[1], *map(int, hidden), self._n_outputs(data.targets))
        return MLP(sizes, self.activation, self._loss_name(data.targets))

    def _problem(self, data: Blocks) -> training.Sample:
        data = self._weight_rows(data)
        targets = data.targets
        assert targets is not None
        whole = data.source if isinstance(data.source, np.ndarray) or data.sparse else None
        if whole is None:  # a stream or a dask array: batches are drawn from all rows
            parts = [rows for rows, _ in data]
            if any(map(sp.issparse, parts)):
                data = Blocks.of(sp.vstack(parts), data.weights).with_targets(targets)
                whole = data.source
            else:
                whole = np.concatenate(parts)
        return training.Sample(data, whole, self._loss_targets(targets, data.dtype), data.weights)

    def _weight_rows(self, data: Blocks) -> Blocks:
        """The rows with the weights of the loss."""
        return data

    def _batch_size(self, n: int) -> int:
        if self.solver == "gd":
            return n
        if self.batch_size == "auto":
            return min(AUTO_BATCH, n)
        if self.batch_size > n:
            warn_user(
                f"batch_size={self.batch_size} exceeds the {n} rows that are trained on; all of them are one batch.",
                UserWarning,
            )
        return min(int(self.batch_size), n)

    def _algorithm(self, data: Blocks) -> training.MLPAlgorithm | training.MLPQuasiNewton:
        net, start = self._net(data), self._start(data)
        if self.solver == "lbfgs":
            rest = None if self.time_limit is None else self._time_left()
            return training.MLPQuasiNewton(
                net, float(self.alpha), float(self.tol), int(self.max_iter), int(self.max_fun), rest, self.init, start
            )  # fmt: skip
        if (
            self.solver not in SOLVERS
            if isinstance(self.solver, str)
            else not _is_optimizer(self.solver)
        ):
            raise ValueError(
                f"solver={self.solver!r} is neither one of {', '.join(sorted(SOLVERS))} nor an optimiser of lemmata.optim."
            )
        validation = float(self.validation_fraction) if self.early_stopping else 0.0
        n = data.shape[0] - (math.ceil(validation * data.shape[0]) if validation else 0)
        schedule = self.learning_rate if self.solver == "sgd" else "constant"
        return training.MLPAlgorithm(
            net, step_for(self), self._batch_size(max(n, 1)), float(self.alpha), float(self.learning_rate_init), schedule,
            float(self.power_t), bool(self.shuffle), float(self.dropout), validation, self.classifies, float(self.tol),
            float(self.n_iter_no_change), self.init, start,
        )  # fmt: skip

    def _time_left(self) -> float:
        rule = self._within_time(Never())
        return rule.rules[-1].limit  # type: ignore[attr-defined]

    def _start(self, data: Blocks) -> Array | None:
        """The parameters of the fit before, if they are to be used."""
        return self._theta(data) if self.warm_start and hasattr(self, "coefs_") else None

    def _theta(self, data: Blocks) -> Array:
        wanted, found = self._net(data).shapes, [part.shape for part in self.coefs_]
        if wanted != found:
            raise ValueError(
                f"the fit before has weights of shapes {found}, and these parameters and data need {wanted}; "
                "fit with warm_start=False once."
            )
        return np.concatenate([part.ravel() for part in (*self.coefs_, *self.intercepts_)])

    def _stop(self) -> Stop:
        if self.solver == "lbfgs":
            return Never()
        return self._within_time(
            training.NoProgress(float(self.n_iter_no_change)) | MaxSteps(self.max_iter)
        )

    # --- the result ---

    def _attributes(self, solution: Solution, problem: training.Sample) -> dict[str, Any]:
        state, net = solution.state, solution.algorithm.net
        shown = {
            **solution.attributes, "n_layers_": len(net.sizes), "n_outputs_": net.sizes[-1],
            "out_activation_": LOSSES[net.loss].output,
        }  # fmt: skip
        if isinstance(state, training.MLPQuasiNewtonState):
            curve, scores = state.curve[1:].tolist(), None
            self._memory = None
            shown |= {"t_": len(curve) * problem.shape[0], "validation_rows_": None}
        else:
            curve = solution.trace.objective[1:].tolist()
            scores = solution.trace.extras["score"][1:].tolist() if self.early_stopping else None
            self._memory = OptimizerMemory(
                state.slots, state.updates, state.rate, state.seed, state.epoch
            )
            n = problem.shape[0] - len(state.held_out)
            shown |= {
                "t_": state.epoch * n,
                "validation_rows_": state.held_out if self.early_stopping else None,
            }
        least = min(curve, default=float(shown["loss_"]))
        return {
            **shown, "loss_curve_": curve, "best_loss_": None if scores else least, "validation_scores_": scores,
            "best_validation_score_": max(scores) if scores else None,
        }  # fmt: skip

    def _fit_blocks(self, data: Blocks) -> None:
        if self.solver != "lbfgs":
            super()._fit_blocks(data)
            return
        # one step is the whole run of SciPy: its own steps are the trace that people read
        algorithm, problem = self._algorithm(data), self._problem(data)
        solution = run(
            algorithm, problem, stop=Never(), callbacks=self._callbacks(), rng=self._rng()
        )
        state = solution.state
        if solution.stopped == Stopped.INTERRUPTED or not state.word:
            raise KeyboardInterrupt(
                "interrupted before the first step was done; there is nothing to keep."
            )
        trace = Trace()
        steps = len(state.curve) - 1
        for step, value in enumerate(state.curve):  # as if all of them took the same time
            trace.append(float(value), solution.trace.elapsed * step / max(steps, 1))
        stopped = Stopped(state.word)
        self._conclude(data, self._attributes(solution, problem), trace, stopped, steps)
        unsettled = stopped == Stopped.MAX_STEPS and self._wants_to_settle()
        shown = replace(solution, trace=trace)
        self._warn_of_distance(self._describe_unsettled(shown) if unsettled else "")

    def _describe_unsettled(self, solution: Solution) -> str:
        return (
            f"{type(self).__name__} reached max_iter={self.max_iter} while its loss ({solution.trace.last():.3g}) still fell "
            f"by more than tol={self.tol:.0e}: raise max_iter or learning_rate_init, scale the columns, or read certificate_."
        )

    # --- batches that come one after the other ---

    def _one_epoch(self, data: Blocks) -> None:
        """Train one epoch on these rows."""
        if self.early_stopping:
            raise ValueError("partial_fit does not support early_stopping=True")
        first = not hasattr(self, "coefs_")
        algorithm = self._algorithm(data)
        assert isinstance(algorithm, training.MLPAlgorithm)
        if not first:
            algorithm = replace(algorithm, start=self._theta(data))
        problem = self._problem(data)
        state = algorithm.init(problem, np.random.default_rng(self._rng()))
        kept = None if first else self._memory
        if kept is not None and len(kept.slots) == len(state.slots):
            state = replace(
                state, slots=tuple(slot.astype(state.theta.dtype) for slot in kept.slots), updates=kept.updates,
                rate=kept.rate, seed=kept.seed, epoch=kept.epoch,
            )  # fmt: skip
        solution = run(algorithm, problem, stop=MaxSteps(1), start=state)
        if solution.stopped == Stopped.DIVERGED:
            raise ValueError(
                "this epoch left the finite numbers and is undone: lower learning_rate_init, or scale the columns of X."
            )
        attributes = self._attributes(solution, problem)
        assert isinstance(solution.state, training.MLPState)
        if not first:
            attributes["t_"] = self.t_ + data.shape[0]
            attributes["loss_curve_"] = [*self.loss_curve_, attributes["loss_"]]
            attributes["best_loss_"] = min(attributes["loss_curve_"])
        batches = self.n_iter_ if not first and self.stopped_ == Stopped.BATCHES else 0
        self._conclude(None, attributes, solution.trace, Stopped.BATCHES, batches + 1)

    # --- output ---

    def _scores(self, rows: Any) -> Array:
        """ψ of a block."""
        sizes = (len(self.coefs_[0]), *(part.shape[1] for part in self.coefs_))
        net, dtype = MLP(sizes, self.activation, "squared"), self.coefs_[0].dtype
        with np.errstate(over="ignore", invalid="ignore"):
            return net.scores((self.coefs_, self.intercepts_), rows.astype(dtype, copy=False))

    # --- files ---

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Any:
        """A model from a file, whose layers have to fit each other."""
        model: Any = super().restored(parameters, attributes)
        _check_layers(model.coefs_, model.intercepts_, model.n_features_in_, model.n_outputs_)
        if len(model.coefs_) != model.n_layers_ - 1:
            raise ValueError(f"n_layers_ is {model.n_layers_} for {len(model.coefs_)} coefs_.")
        outputs = len(getattr(model, "classes_", range(model.n_outputs_)))
        if model.n_outputs_ != outputs and (model.n_outputs_, outputs) != (1, 2):
            raise ValueError(f"it has {model.n_outputs_} outputs for {outputs} classes.")
        check_stored("loss_curve_", np.asarray(model.loss_curve_), "t any", {})
        return model


def _check_layers(coefs: list[Any], intercepts: list[Any], width: int, n_outputs: int) -> None:
    """Raise ValueError unless the layers follow each other from so many inputs to so many outputs."""
    if len(coefs) != len(intercepts):
        raise ValueError(f"there are {len(coefs)} coefs_ and {len(intercepts)} intercepts_.")
    for W, b in zip(coefs, intercepts, strict=True):
        for part, axes in ((W, 2), (b, 1)):
            if not isinstance(part, np.ndarray) or part.dtype.kind != "f" or part.ndim != axes:
                raise ValueError("coefs_ are matrices and intercepts_ vectors of floats.")
            if not np.isfinite(part).all():
                raise ValueError("coefs_ or intercepts_ hold numbers that are not finite.")
        if W.shape[0] != width or b.shape != W.shape[1:]:
            raise ValueError(f"a layer of {width} inputs has weights {W.shape}, biases {b.shape}.")
        width = W.shape[1]
    if width != n_outputs:
        raise ValueError(f"the last layer has {width} units, and n_outputs_ is {n_outputs}.")


def _is_optimizer(solver: Any) -> bool:
    return hasattr(solver, "init") and hasattr(solver, "step") and hasattr(solver, "step_size")


stochastic_only = available_if(_is_stochastic)
