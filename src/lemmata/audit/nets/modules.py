"""Looking at a network without touching it: its inputs, and a copy in double precision.

Claims about a `torch.nn.Module` are checked on a copy: on the CPU, in float64, where differences of 1e-10 can be told from
rounding. Every call starts from the same parameters, the same buffers and the same seed, so that two calls differ by what was
changed and by nothing else. A module that still gives two answers to one question (it draws from NumPy, it counts its calls)
cannot be examined, and the claims say so. PyTorch is imported inside of functions: without networks nobody needs it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import numpy as np

from lemmata.audit.kernel.claims import Evidence, Fit, fact, free, unknown

Array = np.ndarray

REPEATS = 1e-12  # of the largest output: what two calls with one seed may differ by


class CannotRun(Exception):
    """The copy does not run, or not twice alike: the claims about it can't tell. The text says why."""


def undecided_where_it_cannot_run(check: Callable[[Fit], Evidence]) -> Callable[[Fit], Evidence]:
    """A claim about a module that does not run in float64, or not twice alike, is undecided rather than broken."""

    @wraps(check)
    def guarded(fit: Fit) -> Evidence:
        try:
            return check(fit)
        except CannotRun as why:
            return unknown(str(why))

    return guarded


# --- inputs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Examples:
    """What forward is called with: `module(*args, **named)`. Tensors with as many rows as the first one are cut by rows.

    Square masks (T × T, by a name that ends in "mask" and does not speak of padding) belong to all rows, like numbers.
    """

    args: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> int | str:
        """The place or the name of the first tensor, in which rows are counted."""
        items: list[tuple[Any, Any]] = [*enumerate(self.args), *self.named.items()]
        return next(key for key, value in items if _is_tensor(value))

    def __getitem__(self, key: int | str) -> Any:
        return self.args[key] if isinstance(key, int) else self.named[key]

    @property
    def first(self) -> Any:
        return self[self.key]

    @property
    def shape(self) -> tuple[int, int]:
        n = int(self.first.shape[0])
        return n, int(self.first.numel() // max(n, 1))

    @property
    def size(self) -> int:
        return int(self.first.numel())

    @property
    def dtype(self) -> str:
        return str(self.first.dtype).removeprefix("torch.")

    @property
    def source(self) -> Array:
        """The rows as a table, for the digest of a certificate."""
        first = self.first.detach().cpu()
        if first.is_floating_point():
            first = first.double()
        return first.reshape(self.shape).numpy()

    def rows(self, places: Any) -> Examples:
        """Some of the rows."""
        n = self.shape[0]

        def cut(name: str, value: Any) -> Any:
            if not _is_tensor(value) or value.dim() == 0 or value.shape[0] != n:
                return value
            square = value.dim() == 2 and value.shape[0] == value.shape[1]
            if square and name.endswith("mask") and "padding" not in name:
                return value
            return value[places]

        named = {name: cut(name, value) for name, value in self.named.items()}
        return Examples(tuple(cut("", value) for value in self.args), named)

    def swap(self, key: int | str, tensor: Any) -> Examples:
        """The same call with other content."""
        if isinstance(key, str):
            return Examples(self.args, {**self.named, key: tensor})
        return Examples((*self.args[:key], tensor, *self.args[key + 1 :]), self.named)

    def map(self, function: Callable[[Any], Any]) -> Examples:
        """Every tensor changed by a function."""
        one = lambda value: function(value) if _is_tensor(value) else value  # noqa: E731
        named = {name: one(value) for name, value in self.named.items()}
        return Examples(tuple(map(one, self.args)), named)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def spaced(n: int, most: int) -> Array:
    """Up to so many evenly spaced rows."""
    return np.unique(np.linspace(0, n - 1, num=min(n, most)).astype(np.intp))


def examples_of(fit: Fit, most: int | None = None) -> Examples:
    """Rows in the form in which the module takes them, evenly spaced: those of a certified module, or a table of a model's."""
    data = fit.data
    places = np.arange(data.shape[0]) if most is None else spaced(data.shape[0], most)
    if isinstance(data, Examples):
        return data if len(places) == data.shape[0] else data.rows(places)
    return unflatten(fit, rows_of(data, places))


def rows_of(data: Any, places: Array) -> Array:
    """Rows of Blocks by their numbers, ascending."""
    found, start = [], 0
    for rows, _ in data:
        here = places[(places >= start) & (places < start + rows.shape[0])] - start
        if len(here):
            part = rows[here]
            found.append(np.asarray(part.toarray() if hasattr(part, "toarray") else part))
        start += rows.shape[0]
    return np.concatenate(found)


def unflatten(fit: Fit, rows: Array) -> Examples:
    """A table of rows as the tensor that the module of an estimator takes."""
    import torch

    shape = tuple(int(side) for side in fit.get("input_shape_", rows.shape[1:]))
    return Examples((torch.from_numpy(np.ascontiguousarray(rows)).reshape(len(rows), *shape),))


# --- the copy ---------------------------------------------------------------------------------------------------------


@contextmanager
def in_double(seed: int) -> Iterator[None]:
    """New tensors are float64 and noise comes from this seed; the settings and the generator of the user stay as they were."""
    import torch

    usual = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]):
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_default_dtype(usual)


def flat(output: Any) -> list[Any]:
    """The tensors of numbers in what a module returned: a tensor, or a tuple, list or dict of them."""
    if _is_tensor(output):
        return [output] if output.is_floating_point() else []
    if isinstance(output, Mapping):
        output = list(output.values())
    if isinstance(output, list | tuple):
        return [tensor for part in output for tensor in flat(part)]
    return []


class Copy:
    """A deep copy of a module in float64 on the CPU, which every call finds as the first one did."""

    def __init__(self, module: Any):
        import torch

        try:
            self.module = copy.deepcopy(module).to("cpu").double()
        except Exception as error:
            raise CannotRun(f"the module cannot be copied: {_line(error)}") from error
        for parameter, mine in zip(module.parameters(), self.module.parameters(), strict=True):
            for hook in (parameter._backward_hooks or {}).values():  # a copy leaves them behind
                mine.register_hook(hook)
        self.parameters = dict(self.module.named_parameters())
        if any(torch.is_complex(parameter) for parameter in self.parameters.values()):
            raise CannotRun("the module has complex parameters, which are not examined")
        self.modes: dict[bool, bool] = {}
        self._start = [(tensor, tensor.detach().clone()) for tensor in self._tensors()]

    def _tensors(self) -> list[Any]:
        return [*self.module.parameters(), *self.module.buffers()]

    def reset(self, buffers_only: bool = False) -> None:
        """Parameters and buffers as they were."""
        import torch

        with torch.no_grad():
            for tensor, start in self._start:
                if not (buffers_only and tensor.requires_grad):
                    tensor.copy_(start)

    def call(self, examples: Examples, training: bool = False, seed: int = 0) -> Any:
        """What the module returns, from its first buffers and this seed; gradients flow if they are on."""
        self.reset(buffers_only=True)
        self.module.train(training)
        # a copy of the input each time: some modules change it in place
        double = examples.map(lambda x: x.double() if x.is_floating_point() else x)
        double = double.map(lambda x: x.clone())
        with in_double(seed):
            try:
                return self.module(*double.args, **double.named)
            except Exception as error:
                mode = " in training mode" if training else ""
                raise CannotRun(
                    f"the module does not run in float64{mode}: {_line(error)}"
                ) from error

    def outputs(self, examples: Examples, training: bool = False, seed: int = 0) -> list[Any]:
        """Every tensor of numbers that the module returns."""
        found = flat(self.call(examples, training, seed))
        if not found:
            raise CannotRun("the module returns no tensor of real numbers")
        return found

    def output(self, examples: Examples, training: bool = False, seed: int = 0) -> Any:
        """The first tensor that the module returns, without gradients."""
        import torch

        with torch.no_grad():
            return self.outputs(examples, training, seed)[0].double()

    def require_repeatable(self, examples: Examples, training: bool) -> None:
        """The same question twice has to get the same answer."""
        if training not in self.modes:
            first, second = (self.output(examples, training) for _ in range(2))
            self.modes[training] = difference(first, second) <= REPEATS
        if not self.modes[training]:
            mode = "training" if training else "evaluation"
            raise CannotRun(f"two calls on the same input differ in {mode} mode, at the same seed")

    def runs_in_training(self, examples: Examples) -> bool:
        """Whether it runs in training mode on these rows (batch norm needs two of them)."""
        try:
            self.output(examples, training=True)
        except CannotRun:
            return False
        return True


def difference(a: Any, b: Any) -> float:
    """The largest |a − b| over the largest |a|; what became NaN or infinite, or of another shape, is infinitely far."""
    if a.shape != b.shape:
        return math.inf
    if a.numel() == 0:
        return 0.0
    same = (a == b) | (a.isnan() & b.isnan())
    if bool(same.all()):
        return 0.0
    far = float((a - b).abs()[~same].max())
    scale = float(a[a.isfinite()].abs().max()) if bool(a.isfinite().any()) else 0.0
    return far / scale if math.isfinite(far) and scale > 0 else math.inf


def _line(error: Exception) -> str:
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text[:160]}"


@fact(cost=free)
def shared_copy(fit: Fit) -> Copy:
    """Return the copy that the claims of one certificate share, as the last of them left it."""
    return Copy(fit.module_)


def copy_of(fit: Fit) -> Copy:
    """Return the copy with parameters and buffers as they were."""
    found = shared_copy(fit)
    found.reset()
    return found


def counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' if n != 1 else ''}"
