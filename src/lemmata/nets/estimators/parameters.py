"""The parameters of every estimator of a network, and the network that they stand for: `net`, with net__width and its like."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

from lemmata.core.borrowed import Interval, StrOptions
from lemmata.core.parameters import COMMON
from lemmata.core.supervised import Supervised
from lemmata.lazy import require
from lemmata.nets.estimators.networks import find

POSITIVE = Interval(Real, 0, None, closed="neither")
COUNT = Interval(Integral, 1, None, closed="left")
CONSTRAINTS: dict[str, list] = {
    **COMMON,
    "net": "no_validation",  # type: ignore[dict-item]
    "loss": [str, callable, None],
    "optimizer": [str, callable],
    "learning_rate": [POSITIVE, None],
    "weight_decay": [Interval(Real, 0, None, closed="left")],
    "optimizer_options": [dict, None],
    "schedule": [str, callable],
    "warmup": [Interval(Real, 0, None, closed="left")],
    "batch_size": [COUNT, StrOptions({"auto"})],
    "accumulate": [COUNT],
    "clip": [POSITIVE, None],
    "ema": [Interval(Real, 0, 1, closed="neither"), None],
    "augment": [callable, None],
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "n_iter_no_change": [COUNT],
    "input_shape": [tuple, list, None],
    "precision": [StrOptions({"auto", "float32", "float64", "bfloat16"})],
    "layout": [StrOptions({"auto", "contiguous", "channels_last"})],
    "device": [str],
    "warm_start": ["boolean"],
    "callbacks": [list, tuple, None],
}


class NeuralParameters(Supervised):
    """What is passed, kept as it is; and the network to train."""

    _parameter_constraints: ClassVar[dict[str, list]] = CONSTRAINTS
    parts: ClassVar[tuple[str, ...]] = ("net",)  # parameters that have parameters: net__width
    module_: Any

    def __init__(
        self,
        net=None,
        *,
        loss=None,
        optimizer="adamw",
        learning_rate=None,
        weight_decay=0.0,
        optimizer_options=None,
        schedule="constant",
        warmup=0,
        batch_size="auto",
        accumulate=1,
        clip=None,
        ema=None,
        augment=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        input_shape=None,
        precision="auto",
        layout="auto",
        device="auto",
        warm_start=False,
        callbacks=None,
        max_iter=100,
        tol=0.0,
        random_state=None,
        verbose=0,
        checkpoint=None,
        time_limit=None,
        **net_parameters,
    ):
        self.net, self.loss = net, loss
        self.optimizer, self.learning_rate, self.weight_decay = (
            optimizer,
            learning_rate,
            weight_decay,
        )
        self.optimizer_options, self.schedule, self.warmup = optimizer_options, schedule, warmup
        self.batch_size, self.accumulate, self.clip, self.ema = batch_size, accumulate, clip, ema
        self.augment, self.early_stopping = augment, early_stopping
        self.validation_fraction, self.n_iter_no_change = validation_fraction, n_iter_no_change
        self.input_shape, self.precision, self.layout = input_shape, precision, layout
        self.device, self.warm_start, self.callbacks = device, warm_start, callbacks
        self.max_iter, self.tol, self.random_state = max_iter, tol, random_state
        self.verbose, self.checkpoint, self.time_limit = verbose, checkpoint, time_limit
        for name, value in net_parameters.items():
            setattr(self, name, value)

    # --- parameters of the network: net__width ---

    def get_params(self, deep=True):
        own = {name: value for name, value in vars(self).items() if name.startswith("net__")}
        return {**super().get_params(deep=deep), **own}

    def set_params(self, **params):
        for name in [name for name in params if name.startswith("net__")]:
            setattr(self, name, params.pop(name))
        super().set_params(**params)
        return self

    def _net_parameters(self) -> dict[str, Any]:
        own = self.get_params(deep=False)
        return {k.removeprefix("net__"): v for k, v in own.items() if k.startswith("net__")}

    def _net(self, input_shape: tuple[int, ...]) -> Any:
        """The network to train: a module, or a function that makes one."""
        torch = require("torch", "deep", what=type(self).__name__)
        extra = self._net_parameters()
        if self.warm_start and hasattr(self, "module_"):
            return self.module_
        if isinstance(self.net, torch.nn.Module):
            if extra:
                raise ValueError(
                    f"net__{next(iter(extra))} is given, but net is a module that is built "
                    "already; pass its class."
                )
            return self.net
        cls = find(self.net) if isinstance(self.net, str) else self.net
        if isinstance(self.net, str) and not (
            isinstance(cls, type) and issubclass(cls, torch.nn.Module)
        ):
            raise ValueError(
                f"net={self.net!r} is not the name of a network of lemmata.nets; pass its class."
            )
        if cls is None:
            from lemmata.nets.estimators.feedforward import FeedForward

            cls = FeedForward
        if not callable(cls):
            raise TypeError(
                f"net is a {type(cls).__name__}; pass a torch.nn.Module, a class of them, or None."
            )
        return partial(_build, cls, input_shape, self._n_outputs(), extra)

    def _n_outputs(self) -> int:
        raise TypeError(f"{type(self).__name__} does not say how many outputs its network has.")


def _build(cls: Any, input_shape: tuple[int, ...], n_outputs: int, extra: dict[str, Any]) -> Any:
    try:
        return cls(input_shape, n_outputs, **extra)
    except (TypeError, IndexError, RuntimeError) as error:
        raise ValueError(
            f"net was called as {getattr(cls, '__name__', cls)}({input_shape}, {n_outputs}, "
            f"{extra or ''}…): {error}."
        ) from error
