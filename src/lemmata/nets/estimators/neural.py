"""What estimators of networks share: the door for images, the training, early stopping, outputs.

class NeuralClassifier(Neural, Classifier): …        says how many outputs the network has, its loss, and what outputs mean
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Certificate
from lemmata.core.loop import MaxSteps, Settled, Solution, Stop, Stopped
from lemmata.core.trace import Trace
from lemmata.lazy import require
from lemmata.nets.estimators.files import NeuralFiles
from lemmata.nets.estimators.history import History
from lemmata.nets.estimators.inputs import flattened

Array = np.ndarray

AT_ONCE = 1024  # rows that are predicted together
BATCH = 128  # batch_size="auto", where there are as many rows


class Neural(NeuralFiles):
    """What both share: the network, the door for images, the training, the files."""

    min_samples = 2
    _partial: tuple[Any, Any, Trace]  # training, state and trace of the batches so far

    # --- fitting ---

    def _training(self, rows: int, epochs: int) -> Any:
        """The algorithm that the parameters stand for, on so many rows."""
        require("torch", "deep", what=type(self).__name__)
        from lemmata.nets.training.algorithm import Training

        auto = self.batch_size == "auto"
        return Training(
            self._net(self.input_shape_), self._loss(), optimizer=self.optimizer, learning_rate=self.learning_rate,
            weight_decay=self.weight_decay, optimizer_options=self.optimizer_options or {}, schedule=self.schedule,
            warmup=self.warmup, epochs=epochs, batch_size=min(BATCH, rows) if auto else self.batch_size,
            accumulate=self.accumulate, clip=self.clip, ema=self.ema, augment=self.augment, score=self._score(),
            precision=self.precision, layout=self.layout, device=self.device,
        )  # fmt: skip

    def _algorithm(self, data: Blocks) -> Any:
        rows = data.shape[0] - self._held_out(data.shape[0])
        return self._training(rows, self.max_iter)

    def _held_out(self, n: int) -> int:
        """Rows that early stopping looks at and training does not."""
        if not self.early_stopping:
            return 0
        held = max(1, round(self.validation_fraction * n))
        if held >= n:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} leaves none of the {n} rows to "
                "learn from."
            )
        return held

    def _problem(self, data: Blocks) -> Any:
        from lemmata.nets.data.batches import Rows, as_data

        data = self._weighted(data)
        whole = as_data(data, self.input_shape_)
        if not self.early_stopping:
            return whole
        if not isinstance(whole, Rows):
            raise ValueError(
                "early_stopping needs rows that can be fetched in any order: an array or a "
                "mapped file, not a stream."
            )
        learn, held = self._split(data)
        return whole.subset(learn).with_validation(whole.subset(held))

    def _weighted(self, data: Blocks) -> Blocks:
        return data

    def _split(self, data: Blocks) -> tuple[Array, Array]:
        """Which rows are learnt from and which are held out: the same for the same seed and number of rows."""
        n = data.shape[0]
        seed = int(self.random_state) if isinstance(self.random_state, Integral) else 0
        order = np.random.default_rng((seed, n)).permutation(n)
        held = self._held_out(n)
        return np.sort(order[held:]), np.sort(order[:held])

    def _stop(self) -> Stop:
        from lemmata.nets.training import distributed
        from lemmata.nets.training.algorithm import NoImprovement

        rule: Stop = Settled(self.tol, self.n_iter_no_change) | MaxSteps(self.max_iter)
        if self.early_stopping:
            rule = NoImprovement(self.n_iter_no_change) | rule
        rule = self._limited(rule)
        return distributed.Together(rule) if distributed.share().size > 1 else rule

    def _callbacks(self) -> list[Any]:
        from lemmata.core.checkpoint import Checkpoint
        from lemmata.nets.training.distributed import SharedCheckpoint

        usual = [
            SharedCheckpoint(one.path, model=self) if isinstance(one, Checkpoint) else one
            for one in super()._callbacks()
        ]
        return [*(self.callbacks or ()), *usual]

    def _attributes(self, solution: Solution, problem: Any) -> dict[str, Any]:
        return {**solution.attributes, "precision_": solution.state.precision}

    def _conclude(
        self,
        data: Any,
        attributes: Mapping[str, Any],
        trace: Trace,
        stopped: str | None,
        steps: int,
    ) -> None:
        self.module_ = attributes["module_"]
        rest = {name: value for name, value in attributes.items() if name != "module_"}
        for name in ("validation_rows_", "best_validation_score_", "precision_"):
            self.__dict__.pop(name, None)
        if data is not None:
            rest["loss_"] = self._stated_loss(data)
            if self.early_stopping:
                held = self._split(data)[1]
                rest["validation_rows_"] = held
                if (score := self._score_of(data, held)) is not None:
                    rest["best_validation_score_"] = score
        super()._conclude(data, {"module_": self.module_, **rest}, trace, stopped, steps)

    def _stated_loss(self, data: Blocks) -> float:
        """The mean loss over rows: log loss of classes, squared loss of numbers."""
        total = weight = 0.0
        for rows, y, weights in data.triples():
            losses = self._row_losses(self._outputs(rows), y)
            total += float(losses.sum() if weights is None else losses @ weights)
            weight += len(losses) if weights is None else float(weights.sum())
        return total / weight

    def _score_of(self, data: Blocks, held: Array) -> float | None:
        """What `score` says of the rows held out; None of a single number, which has no R², and without targets."""
        if data.targets is None:
            return None
        first, parts = 0, []
        for rows, y, weights in data.triples():
            here = held[(held >= first) & (held < first + len(y))] - first
            w = np.ones(len(here)) if weights is None else weights[here]
            parts.append((self._outputs(rows[here]), y[here], w))
            first += len(y)
        outputs, y, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self._held_out_score(outputs, y, weights) if weights.any() else None

    def partial_fit(self, X, y, sample_weight=None):
        """One epoch over these rows, from where the last call ended (weights, memory of the optimiser and all)."""
        with self._all_or_nothing():
            self._validate_params()
            first = not hasattr(self, "_partial")
            data = self._validated_pair(X, y, sample_weight, reset=not hasattr(self, "module_"))
            training, state, trace = self._begun(data) if first else self._partial
            problem = self._problem_of_batch(data)
            state = training.step(state, problem)
            trace = trace.copy()
            trace.append(state.loss, trace.elapsed, training.extras(state))
            self._partial = training, state, trace
            attributes = {
                **training.attributes(state),
                "loss_": self._batch_loss(training, state, data),
            }
            self._conclude(None, attributes, trace, Stopped.BATCHES, len(trace) - 1)
        return self

    def _problem_of_batch(self, data: Blocks) -> Any:
        from lemmata.nets.data.batches import as_data

        return as_data(self._weighted(data), self.input_shape_)

    def _batch_loss(self, training: Any, state: Any, data: Blocks) -> float:
        """The loss on the rows of the last call."""
        self.module_ = training.module(state)
        return self._stated_loss(data)

    def _begun(self, data: Blocks) -> tuple[Any, Any, Trace]:
        """Training from the weights of a fit, if there was one, or from the first."""
        training = self._training(data.shape[0], self.max_iter)
        net = self.module_ if hasattr(self, "module_") else training.net
        training = replace(training, net=net, batch_size=min(training.batch_size, data.shape[0]))
        rng = np.random.default_rng(self._rng())
        state = training.init(self._problem_of_batch(data), rng)
        trace = Trace()
        trace.append(state.loss, 0.0, training.extras(state))
        return training, state, trace

    # --- certificate ---

    def certify(
        self, X, y=None, sample_weight=None, *, X_test=None, y_test=None, seconds=None
    ) -> Certificate:
        """Check every claim about this fit on X and y, usually the training data, and on rows that it was not fitted to.

        X_test, y_test : rows drawn like X, independently of it; without them, what is said of new rows rests on those that
            early stopping held out, or can't tell
        seconds : float, optional
            How long that may take; claims that need more stay *not checked*. By default five times the work of the fit.
        """
        from lemmata.nets.certifying import certify_network
        from lemmata.nets.training.seeding import own_draws

        check_is_fitted(self)
        if (X_test is None) != (y_test is None):
            raise ValueError("pass X_test and y_test together.")
        data = self._validated_pair(X, y, sample_weight, reset=False)
        test = None if X_test is None else self._validated_pair(X_test, y_test, reset=False)
        with own_draws():
            return certify_network(self, data, test, seconds=seconds)

    def _certificate(self, data: Any, y=None, **options: Any) -> Certificate:
        """Claims draw from torch's generator, too: threads take turns."""
        from lemmata.nets.training.seeding import own_draws

        with own_draws():
            return super()._certificate(data, y, **options)

    # --- input ---

    def _validated(
        self, X, sample_weight=None, reset: bool = True, min_samples: int | None = None
    ) -> Blocks:
        asked = None if self.input_shape is None else tuple(int(size) for size in self.input_shape)
        wanted = asked if reset else self.input_shape_
        rows, shape = flattened(X, wanted, fitted=not reset)
        data = super()._validated(rows, sample_weight, reset=reset, min_samples=min_samples)
        if reset:
            self.input_shape_ = (data.shape[1],) if shape is None else shape
            if math.prod(self.input_shape_) != data.shape[1]:
                raise ValueError(
                    f"X has {data.shape[1]} features, but input_shape={self.input_shape_} has "
                    f"{math.prod(self.input_shape_)}."
                )
        return data

    # --- output ---

    def _outputs(self, rows: Array) -> Array:
        """(m, outputs) of the network for flat rows, in their dtype."""
        return self._through(rows, self.input_shape_)

    def _through(self, rows: Array, shape: tuple[int, ...], half: str = "forward") -> Array:
        """What the network, or a method of it, makes of rows that have this shape, flat and in their dtype."""
        import torch

        from lemmata.nets.training.precision import choose_device

        module = self.module_.to(choose_device(self.device)).eval()
        like = next(module.parameters())
        found = []
        with torch.no_grad():
            for start in range(0, max(len(rows), 1), AT_ONCE):
                some = torch.from_numpy(np.ascontiguousarray(rows[start : start + AT_ONCE]))
                some = some.to(like.device, like.dtype).reshape(-1, *shape)
                out = module(some) if half == "forward" else getattr(module, half)(some)
                found.append(out.cpu().numpy().astype(rows.dtype).reshape(len(some), -1))
        return np.concatenate(found)

    @property
    def history_(self) -> History:
        """The table of epochs: loss, validation loss and score, learning rate, seconds."""
        return History.of(self.trace_)

    def _title(self, data: Any) -> str:
        size = sum(parameter.numel() for parameter in self.module_.parameters())
        rows = f"{data.shape[0]:,} × {' × '.join(map(str, self.input_shape_))}, " if data else ""
        return f"{type(self).__name__}  {rows}{type(self.module_).__name__} of {size:,} weights"

    @classmethod
    def work(cls, fit: Any) -> float:
        """Forward and backward are three passes, of a multiplication for every weight and row."""
        size = sum(parameter.numel() for parameter in fit.module_.parameters())
        return 3.0 * fit.get("n_iter_", 1) * fit.data.shape[0] * size

    # --- for subclasses ---

    def _loss(self) -> Any:
        """What is minimised: a name, a function of outputs and targets, or an objective."""
        return self.loss

    def _score(self) -> Any:
        return None

    def _row_losses(self, outputs: Array, y: Array) -> Array:
        raise TypeError(f"{type(self).__name__} does not say what its loss is.")

    def _held_out_score(self, outputs: Array, y: Array, weights: Array) -> float | None:
        return None
