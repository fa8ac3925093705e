"""Neural: the base of estimators that fit a network to rows. Parameters, input of images, training, early stopping, files.

    class Toy(Neural): …                                  defines _network, _loss and `claims`: see its docstring
    class NeuralClassifier(NeuralPredictor, Classifier): …    predicts: supervised.py

Nothing here knows y: a model that reads it (classes to condition on) overrides `_validate_pair`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Certificate
from lemmata.core.estimator import Model
from lemmata.core.loop import MaxSteps, Settled, Solution, Stop, Stopped
from lemmata.core.parameters import (
    COUNT,
    FRACTION,
    KW_ONLY,
    NONNEGATIVE,
    POSITIVE,
    choice,
    fitted,
    parameter,
)
from lemmata.core.runs.trace import Trace
from lemmata.core.supervised import Supervised
from lemmata.nets.estimators import storage
from lemmata.nets.estimators.history import History
from lemmata.nets.estimators.inputs import flatten, run_rows
from lemmata.nets.estimators.storage import Network
from lemmata.nets.training.transfer import Transfer
from lemmata.registry import require

Array = np.ndarray
BATCH = 128  # batch_size="auto", where there are as many rows
STATED = 2000  # rows at most that loss_ is of


class Neural(Model):
    """An estimator that trains a network. A subclass defines

    _network(data) : a function without arguments that makes the module (`functools.partial`), or a module, which is copied
    _loss() : the objective, see training/losses.py: "module" is the network's own `loss(*batch)`
    claims, and in `stored` what files hold besides; every attribute that is a `Network` there is a module here

    and what it is for: `sample`, `transform`, `score_samples`.
    """

    _: KW_ONLY
    optimizer: Any = parameter("adamw", str, callable).doc("""
        "sgd", "heavy_ball", "nesterov", "sign", "adagrad", "rmsprop", "adam", "adamw", "nadam",
        "radam", or a function of (groups, lr).""")
    learning_rate: Any = parameter(None, POSITIVE, None).doc("""
        η; None is the usual one of the optimiser (1e-3 for Adam's family).""")
    weight_decay: float = parameter(0.0, NONNEGATIVE).doc("""
        λ, on matrices and filters; never on biases and normalisations.""")
    optimizer_options: Any = parameter(None, dict, None).doc("""
        Further arguments of the optimiser: {"momentum": 0.95}.""")
    schedule: Any = parameter("constant", str, callable).doc("""
        "constant", "step", "cosine", "one_cycle", or a function of the number of the update that
        gives η.""")
    warmup: float = parameter(0, NONNEGATIVE).doc("""
        Updates in which the rate rises from 0, or, below 1, the share of the run.""")
    batch_size: Any = parameter("auto", COUNT, choice("auto")).doc("""
        Rows in an update; "auto" is 128, or all rows where there are fewer.""")
    accumulate: int = parameter(1, COUNT).doc("""
        Parts in which a batch is worked on, one after the other, to save memory.""")
    clip: Any = parameter(None, POSITIVE, None).doc("The longest gradient that is not shortened.")
    ema: Any = parameter(None, FRACTION, None).doc("""
        Keep a running mean of the weights, e ← β e + (1 − β) w, and use that.""")
    augment: Any = parameter(None, callable, None).doc("""
        Changes a training batch: ``augment(batch, generator)``, see `lemmata.nets.augmentation`.
        """)
    early_stopping: bool = parameter(False, "boolean").doc("""
        Hold rows out, stop when their loss has not fallen for `n_iter_no_change` epochs, and show
        the epoch where it was least.""")
    validation_fraction: float = parameter(0.1, FRACTION).doc("""
        The share of rows held out, if `early_stopping`.""")
    n_iter_no_change: int = parameter(10, COUNT).doc("""
        Epochs without improvement, or with a change below `tol`, that end the fit.""")
    input_shape: Any = parameter(None, tuple, list, None).doc("""
        Of one input, where rows are flat: (1, 28, 28). Arrays of images say it themselves.""")
    precision: str = parameter("auto", choice("auto", "float32", "float64", "bfloat16")).doc("""
        "auto" is that of the rows: float64, else float32 (images, too). "bfloat16" keeps weights in
        float32 and multiplies in eight bits: up to twice as fast where the processor has units for
        it, many times slower where it has not.""")
    layout: str = parameter("auto", choice("auto", "contiguous", "channels_last")).doc("""
        The order of an image's numbers in memory; "auto" is channels last for networks with 2-d
        convolutions.""")
    device: Any = parameter("auto", str).doc("""
        The device of torch, such as "cpu" or "cuda"; "auto" chooses one.""")
    warm_start: bool = common.warm_start().doc("Begin at the weights of the last fit.")
    transfer: Any = parameter(None, Transfer, None).doc("""
        `Transfer(…)`: weights of another network to begin at, layers that are frozen or slow.""")
    callbacks: Any = parameter(None, list, tuple, None).doc("""
        Each is called with the `Solution` so far after every step: an epoch, or some 2 s of a
        longer one.""")
    max_iter: int = common.max_iter(100).doc("Epochs at most.")
    tol: float = common.tol(0.0).doc("""
        Settled when the training loss changes by less than this share of it in `n_iter_no_change`
        epochs in a row; 0: never, all epochs are made.""")
    random_state: Any = common.random_state()
    verbose: int = common.verbose()
    checkpoint: Any = common.checkpoint()
    time_limit: Any = common.time_limit()

    min_samples = 2
    usual_batch: ClassVar[int] = BATCH
    more_claims: ClassVar[tuple[Any, ...]] = ()  # those of `certify` alone
    networks: ClassVar[tuple[str, ...]] = ("net",)  # parameters that may be modules, in files, too
    not_stored: ClassVar[tuple[str, ...]] = ("transfer",)  # parameters that files leave out
    stored: ClassVar[Mapping[str, str | type]] = {
        "module_": Network,
        "input_shape_": tuple,
        "loss_": "",
        "validation_rows_?": "v int >=0",
        "best_validation_score_?": "any",
        "precision_?": str,
    }
    module_: Any = fitted()
    input_shape_: tuple[int, ...] = fitted()
    _partial: tuple[Any, Any, Trace] = fitted()  # training, state and trace of partial_fit
    _apply = Supervised._apply

    # --- fitting ---

    def _network(self, data: Blocks | None) -> Any:
        """The network to train: a module, or a function that makes one; of a file that does not say more, data is None."""
        raise TypeError(f"{type(self).__name__} does not define its network.")

    def _begin_with(self, make: Any) -> Any:
        """The network of the last fit in a warm start, else what makes a new one."""
        torch = require("torch", "deep", what=type(self).__name__)
        warm = self.warm_start and isinstance(getattr(self, "module_", None), torch.nn.Module)
        if warm or self.transfer is None:
            return self.module_ if warm else make
        return partial(self.transfer.begin, make)

    def _training(self, net: Any, rows: int) -> Any:
        """The algorithm of these parameters for a network and so many rows."""
        from lemmata.nets.training.algorithm import Training

        auto = self.batch_size == "auto"
        return Training(
            net, self._loss(), optimizer=self.optimizer, learning_rate=self.learning_rate,
            weight_decay=self.weight_decay, optimizer_options=self._optimizer_options(), schedule=self._rate_schedule,
            warmup=self.warmup, epochs=self.max_iter, batch_size=min(self.usual_batch, rows) if auto else self.batch_size,
            accumulate=self.accumulate, clip=self.clip, ema=self.ema, augment=self.augment, score=self._score(),
            precision=self.precision, layout=self.layout, device=self.device, batches_per_step="auto", rule=self._rule(),
            rates={} if self.transfer is None else self.transfer.rates,
        )  # fmt: skip

    @property
    def _rate_schedule(self) -> Any:
        """Of the learning rate; a model whose `schedule` is another one says which."""
        return self.schedule

    def _algorithm(self, data: Blocks) -> Any:
        n = data.shape[0]
        return self._training(self._network(data), n - self._n_held_out(n))

    def _n_held_out(self, n: int) -> int:
        """Number of rows for early stopping, which are not trained on."""
        if not self.early_stopping:
            return 0
        held = max(1, round(self.validation_fraction * n))
        if held >= n:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} leaves none of the {n} rows to learn from."
            )
        return held

    def _problem(self, data: Blocks) -> Any:
        from lemmata.nets.data.batches import Rows, as_data

        data = self._weight_rows(data)
        whole = as_data(data, self.input_shape_)
        if not self.early_stopping:
            return whole
        if not isinstance(whole, Rows):
            raise ValueError(
                "early_stopping needs rows that can be fetched in any order: an array or a mapped file, not a stream."
            )
        learn, held = self._split(data)
        return whole.subset(learn).with_validation(whole.subset(held))

    def _weight_rows(self, data: Blocks) -> Blocks:
        return data

    def _split(self, data: Blocks) -> tuple[Array, Array]:
        """Numbers of the rows to train on and of those held out: the same for the same seed and number of rows."""
        n = data.shape[0]
        seed = int(self.random_state) if isinstance(self.random_state, Integral) else 0
        order = np.random.default_rng((seed, n)).permutation(n)
        held = self._n_held_out(n)
        return np.sort(order[held:]), np.sort(order[:held])

    def _stop(self) -> Stop:
        from lemmata.nets.training import devices
        from lemmata.nets.training.running import ByEpoch, NoValidationGain

        rule: Stop = Settled(self.tol, self.n_iter_no_change) | MaxSteps(self.max_iter)
        if self.early_stopping:
            rule = NoValidationGain(self.n_iter_no_change) | rule
        rule = self._within_time(ByEpoch(rule))
        return devices.Together(rule) if devices.share().size > 1 else rule

    def _callbacks(self) -> list[Any]:
        from lemmata.core.runs.checkpoint import Checkpoint
        from lemmata.nets.training.devices import SharedCheckpoint

        usual = [
            SharedCheckpoint(one.path, model=self) if isinstance(one, Checkpoint) else one
            for one in super()._callbacks()
        ]
        return [*(self.callbacks or ()), *usual]

    def _attributes(self, solution: Solution, problem: Any) -> dict[str, Any]:
        found = {"n_iter_": max(solution.state.epoch, 1), "precision_": solution.state.precision}
        return {**solution.attributes, **found}

    def _conclude(
        self, data: Any, attributes: dict[str, Any], trace: Trace, stopped: str | None, steps: int
    ) -> None:
        self.module_ = attributes["module_"]
        self._forget("validation_rows_", "best_validation_score_", "precision_")
        stated = {} if data is None else self._statements(data)
        super()._conclude(data, {**attributes, **stated}, trace, stopped, steps)

    def _statements(self, data: Blocks) -> dict[str, Any]:
        """The numbers that a fit states about its rows."""
        held = {"validation_rows_": self._split(data)[1]} if self.early_stopping else {}
        return {"loss_": self._stated_loss(data), **held}

    def _stated_loss(self, data: Blocks) -> float:
        """The mean of what is minimised, over rows that stand for all (`rows_to_state`), with the draws of seed 0."""
        from lemmata.nets.data.batches import Rows

        some, targets, weights = rows_to_state(data)
        parts = (some,) if targets is None else (some, targets)
        problem = Rows(*parts, weights=weights, shape=self.input_shape_)
        training = replace(self._training(self.module_, len(some)), measure="evaluated", ema=None)
        return training.init(problem, np.random.default_rng(0)).loss

    def partial_fit(self, X, y=None, sample_weight=None):
        """Train one epoch on these rows, continuing the last call (weights and memory of the optimiser)."""
        with self._all_or_nothing():
            self._validate_params()
            data = self._validate_pair(X, y, sample_weight, reset=not hasattr(self, "module_"))
            self._train_one_epoch(data)
        return self

    def _train_one_epoch(self, data: Blocks) -> None:
        from lemmata.nets.data.batches import as_data

        problem = as_data(self._weight_rows(data), self.input_shape_)
        first = not hasattr(self, "_partial")
        training, state, trace = self._start_training(data, problem) if first else self._partial
        state = training.step(state, problem)
        while state.batch:
            state = training.step(state, problem)
        trace = trace.copy()
        trace.append(state.loss, trace.elapsed, training.extras(state))
        self._partial = training, state, trace
        self.module_ = training.module(state)
        attributes = {"module_": self.module_, "loss_": self._stated_loss(data)}
        self._conclude(None, attributes, trace, Stopped.BATCHES, len(trace) - 1)

    def _start_training(self, data: Blocks, problem: Any) -> tuple[Any, Any, Trace]:
        """Start from the weights of a fit, if there was one, or from new ones."""
        n = data.shape[0]
        net = self.module_ if hasattr(self, "module_") else self._network(data)
        training = self._training(net, n)
        training = replace(training, batch_size=min(training.batch_size, n))
        state = training.init(problem, np.random.default_rng(self._rng()))
        trace = Trace()
        trace.append(state.loss, 0.0, training.extras(state))
        return training, state, trace

    # --- certificate ---

    def certify(
        self, X, y=None, sample_weight=None, *, X_test=None, y_test=None, seconds=None
    ) -> Certificate:
        """Check every claim about this fit on X, usually the training data, and on rows that it was not fitted to.

        X_test : rows drawn like X, independently of it; without them, claims about new rows use those that
            early stopping held out, or can't tell
        y, y_test : where the model reads them
        seconds : float, optional
            Time limit; claims that need more stay *not checked*. By default five times the work of the fit.
        """
        check_is_fitted(self)
        data = self._validate_pair(X, y, sample_weight, reset=False)
        test = None if X_test is None else self._validate_pair(X_test, y_test, reset=False)
        from lemmata.nets.certifying import certify_network
        from lemmata.nets.training.devices import own_draws

        with own_draws():
            return certify_network(self, data, test, seconds=seconds)

    def _certificate(self, data: Any, y=None, **options: Any) -> Certificate:
        """Check the claims; they draw from torch's generator, too, so that threads take turns."""
        from lemmata.nets.training.devices import own_draws

        with own_draws():
            return super()._certificate(data, y, **options)

    # --- input ---

    def _validate_rows(
        self, X, sample_weight=None, reset: bool = True, min_samples: int | None = None
    ) -> Blocks:
        given = None if self.input_shape is None else tuple(int(size) for size in self.input_shape)
        rows, shape = flatten(X, given if reset else self.input_shape_, fitted=not reset)
        data = super()._validate_rows(rows, sample_weight, reset=reset, min_samples=min_samples)
        if reset:
            self.input_shape_ = (data.shape[1],) if shape is None else shape
            if math.prod(self.input_shape_) != data.shape[1]:
                raise ValueError(
                    f"X has {data.shape[1]} features, but input_shape={self.input_shape_} has {math.prod(self.input_shape_)}."
                )
        return data

    # --- output ---

    def _outputs(self, rows: Array) -> Array:
        """(m, outputs) of the network for flat rows, in their dtype."""
        return self._run_network(rows, self.input_shape_)

    def _run_network(self, rows: Array, shape: tuple[int, ...], method: str = "__call__") -> Array:
        """Outputs of a method of the network for rows of this shape, flat and in their dtype."""
        from lemmata.nets.training.devices import choose_device

        module = self.module_.to(choose_device(self.device)).eval()
        return run_rows(getattr(module, method), rows, shape, like=next(module.parameters()))

    @property
    def history_(self) -> History:
        """The table of epochs: loss, validation loss and score, learning rate, seconds."""
        from lemmata.nets.training.running import epochs_of

        return History.of(epochs_of(self.trace_))

    def _title(self, data: Any) -> str:
        size = sum(parameter.numel() for parameter in self.module_.parameters())
        rows = f"{data.shape[0]:,} × {' × '.join(map(str, self.input_shape_))}, " if data else ""
        return f"{type(self).__name__}  {rows}{type(self.module_).__name__} of {size:,} weights"

    @classmethod
    def work(cls, fit: Any) -> float:
        """Forward and backward are three passes, of a multiplication for every weight and row."""
        size = sum(parameter.numel() for parameter in fit.module_.parameters())
        return 3.0 * fit.get("n_iter_", 1) * fit.data.shape[0] * size

    # --- files ---

    def stored_parameters(self) -> dict[str, Any]:
        """The parameters as a file can hold them: classes, modules and functions by name."""
        parameters = {**self.get_params(deep=False), **dict.fromkeys(self.not_stored)}
        return {name: storage.to_stored(value) for name, value in parameters.items()}

    def stored_attributes(self) -> dict[str, Any]:
        found = super().stored_attributes()
        networks = {name for name, (kind, _) in self._shapes().items() if kind is Network}
        return found | {name: Network.of(found[name]) for name in networks & found.keys()}

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Model:
        """A model from a file. Functions that only training needs are left out; a network of another class has to be passed."""
        require("torch", "deep", what=cls.__name__)
        found = storage.restore_parameters(parameters, cls.networks)
        options = {name: found.pop(name) for name in list(found) if "__" in name}
        model: Any = super().restored(found, attributes)
        model.set_params(**options)
        model._check_restored(attributes)
        for name, (kind, _) in cls._shapes().items():
            if kind is Network and name in attributes:
                setattr(model, name, model._rebuild(attributes[name]))
        return model

    def _check_restored(self, attributes: dict[str, Any]) -> None:
        """Raise ValueError unless the network of a file takes the rows that the model states."""
        shape, width = self.input_shape_, self.n_features_in_
        if not all(isinstance(n, int) and n > 0 for n in shape) or math.prod(shape) != width:
            raise ValueError(f"input_shape_ is {shape}, for rows of {width} numbers.")
        stated = (attributes["module_"].config or {}).get("input_shape", shape)
        if tuple(np.atleast_1d(stated)) != tuple(shape):
            raise ValueError(f"its network is for inputs of shape {stated}, not {shape}.")

    def _rebuild(self, network: Network) -> Any:
        """The module of a file: networks of ours know their arguments, others are made as in a fit."""
        from lemmata.nets.training.devices import own_draws

        if network.config is not None:
            return network.build()
        net = self._network(None)
        with own_draws():
            return network.build(net() if isinstance(net, partial) else copy.deepcopy(net))

    # --- for subclasses ---

    def _loss(self) -> Any:
        """The loss to minimise: a name, a function of outputs and targets, or an objective."""
        raise TypeError(f"{type(self).__name__} defines no loss.")

    def _score(self) -> Any:
        return None

    def _rule(self) -> Any:
        """Return the rule by which a batch becomes an update, see training/rules.py."""
        from lemmata.nets.training.rules import LossDescent

        return LossDescent()

    def _optimizer_options(self) -> dict[str, Any]:
        return self.optimizer_options or {}


def rows_to_state(data: Blocks) -> tuple[Array, Array | None, Array | None]:
    """Rows, targets and weights for what a fit states: all, or a draw of STATED among those of positive weight, which
    follows from the number of rows alone."""
    n, w = data.shape[0], data.weights
    some = np.arange(n)
    if n > STATED:
        able = some if w is None else np.flatnonzero(w)
        some = np.sort(np.random.default_rng(n).permutation(able)[:STATED])
    found, start = [], 0
    for rows, _ in data:
        here = some[(some >= start) & (some < start + rows.shape[0])] - start
        if len(here):
            found.append(np.asarray(rows[here]))
        start += rows.shape[0]
    targets = None if data.targets is None else data.targets[some]
    return np.concatenate(found), targets, None if w is None else np.asarray(w)[some]
