"""A network under examination: its inputs, a copy in double precision, and the cost of running it.

Claims about a `torch.nn.Module` are checked on a copy: on the CPU, in float64, where a difference of 1e-10 is more than
rounding. Every call starts from the same parameters, the same buffers and the same seed, so that two calls differ only by
what was changed. A module whose outputs still differ between two calls on the same input (it draws from NumPy, it counts
its calls) cannot be examined, and the claims are undecided. PyTorch is imported inside functions: the package works
without it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lemmata.audit.kernel.claims import CannotTell, Fit, fact, free

Array = np.ndarray

REPEATS = 1e-12  # of the largest output: what two calls with one seed may differ by
BATCH = 256  # rows in a call
MOST, BYTES = 1024, 2**26  # rows that are evaluated together, and bytes of the largest tensor
BLAS = 0.1  # a multiplication inside a matrix product, in units of one in a plain pass
CALL = 2e4  # the cost of calling a layer besides its products: some twenty microseconds


# --- inputs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Examples:
    """The arguments of forward: `module(*args, **named)`. Tensors with as many rows as the first one are cut by rows.

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

    def batches(self) -> Iterator[Examples]:
        """All rows, BATCH at a time."""
        import torch

        for places in torch.arange(self.shape[0]).split(BATCH):
            yield self.rows(places)

    def swap(self, key: int | str, tensor: Any) -> Examples:
        """The same call with another tensor in one place."""
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
    tensor = torch.from_numpy(np.ascontiguousarray(rows)).reshape(len(rows), *shape)
    tokens = getattr(fit.get("module_"), "reads_tokens", False)  # nothing lies between two of them
    return Examples((tensor.long() if tokens else tensor,))


# --- the copy ---------------------------------------------------------------------------------------------------------


@contextmanager
def in_double(seed: int) -> Iterator[None]:
    """New tensors are float64 and noise comes from this seed; the settings and the generator of the user stay as they were."""
    import torch

    usual = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]):
        torch.set_default_dtype(torch.float64)
        # of the CPU, where the copy is; torch.manual_seed would print a stack for every other device
        torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_default_dtype(usual)


def tensors_in(values: Any) -> list[Any]:
    """The tensors in a tensor, or in nested tuples, lists and dicts of them."""
    if _is_tensor(values):
        return [values]
    if isinstance(values, Mapping):
        values = list(values.values())
    if isinstance(values, list | tuple):
        return [tensor for part in values for tensor in tensors_in(part)]
    return []


def floats_in(values: Any) -> list[Any]:
    """The tensors of real numbers among them."""
    return [tensor for tensor in tensors_in(values) if tensor.is_floating_point()]


class Copy:
    """A deep copy of a module in float64 on the CPU; every call starts from the same state."""

    def __init__(self, module: Any):
        import torch

        try:
            self.module = copy.deepcopy(module).to("cpu").double()
        except Exception as error:
            raise CannotTell(f"the module cannot be copied: {_line(error)}") from error
        for parameter, mine in zip(module.parameters(), self.module.parameters(), strict=True):
            for hook in (parameter._backward_hooks or {}).values():  # a copy leaves them behind
                mine.register_hook(hook)
        self.parameters = dict(self.module.named_parameters())
        if any(torch.is_complex(parameter) for parameter in self.parameters.values()):
            raise CannotTell("the module has complex parameters, which are not examined")
        self.modes: dict[bool, bool] = {}
        tensors = (*self.module.parameters(), *self.module.buffers())
        self._start = [(tensor, tensor.detach().clone()) for tensor in tensors]

    def reset(self, buffers_only: bool = False) -> None:
        """Parameters and buffers as they were."""
        import torch

        with torch.no_grad():
            for tensor, start in self._start:
                if not (buffers_only and tensor.requires_grad):
                    tensor.copy_(start)

    def call(self, examples: Examples, training: bool = False, seed: int = 0) -> Any:
        """Return the output of the module, from its first buffers and this seed; gradients flow if they are on."""
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
                why = f"the module does not run in float64{mode}: {_line(error)}"
                raise CannotTell(why) from error

    def outputs(self, examples: Examples, training: bool = False, seed: int = 0) -> list[Any]:
        """Every tensor of numbers that the module returns."""
        found = floats_in(self.call(examples, training, seed))
        if not found:
            raise CannotTell("the module returns no tensor of real numbers")
        return found

    def values(self, examples: Examples, training: bool = False, seed: int = 0) -> list[Any]:
        """Every tensor that the module returns, in float64 and without gradients."""
        import torch

        with torch.no_grad():
            return [tensor.double() for tensor in self.outputs(examples, training, seed)]

    def output(self, examples: Examples, training: bool = False, seed: int = 0) -> Any:
        """The first of them."""
        return self.values(examples, training, seed)[0]

    def require_repeatable(self, examples: Examples, training: bool) -> None:
        """Raise CannotTell where two calls on the same input differ."""
        if training not in self.modes:
            first, second = (self.values(examples, training) for _ in range(2))
            pairs = zip(first, second, strict=True)
            self.modes[training] = all(difference(a, b) <= REPEATS for a, b in pairs)
        if not self.modes[training]:
            mode = "training" if training else "evaluation"
            raise CannotTell(f"two calls on the same input differ in {mode} mode, at the same seed")

    def modes_that_run(self, examples: Examples) -> Iterator[bool]:
        """Evaluation mode (False), and training mode (True) where it runs; both checked to be repeatable."""
        for training in (False, True):
            if not training or self.runs_in_training(examples):
                self.require_repeatable(examples, training)
                yield training

    def runs_in_training(self, examples: Examples) -> bool:
        """Whether it runs in training mode on these rows (batch norm needs two of them)."""
        try:
            self.output(examples, training=True)
        except CannotTell:
            return False
        return True


def difference(a: Any, b: Any) -> float:
    """The largest |a − b| over the largest |a|; infinite where shapes differ, or numbers became NaN or infinite."""
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


def count_of(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' if n != 1 else ''}"


# --- costs ------------------------------------------------------------------------------------------------------------


def watch(run: Callable[[], Any], look: Callable[[Any, Any, Any], None]) -> None:
    """Run something, and show every tensor function that it calls: look(function, arguments, result)."""
    from torch.overrides import TorchFunctionMode

    class Watch(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            look(function, (*args, *(kwargs or {}).values()), result)
            return result

    with Watch():
        run()


def rows_at_once(run: Callable[[Any], Any], x: Any) -> int:
    """Number of rows to run together, MOST at most: so many that no tensor on the way exceeds BYTES, by the first row."""
    sizes = [1]

    def look(function: Any, given: Any, result: Any) -> None:
        sizes.extend(one.numel() * one.element_size() for one in tensors_in(result))

    watch(lambda: run(x[:1]), look)
    return max(1, min(MOST, BYTES // max(sizes)))


def products_of(own: Copy, examples: Examples) -> float:
    """Multiplications in the matrix products and convolutions of a call.

    A linear map of P outputs with n weights each takes P·n, a convolution likewise, a matrix product as many as its
    result has numbers times the length of the sums.
    """
    import torch
    import torch.nn.functional as F

    matrix = {torch.matmul, torch.mm, torch.bmm, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.bmm}  # fmt: skip
    total = 0.0

    def look(function: Any, given: Any, result: Any) -> None:
        nonlocal total
        tensors, size = tensors_in(given), sum(x.numel() for x in tensors_in(result))
        if function in matrix:
            total += size * tensors[0].shape[-1]
        elif function is F.scaled_dot_product_attention:
            total += 2.0 * tensors[0].numel() * tensors[1].shape[-2]
        elif function is F.multi_head_attention_forward:
            weights = sum(x.numel() for x in tensors if isinstance(x, torch.nn.Parameter))
            query, key = tensors[:2]  # (T, B, d)
            total += query.numel() / query.shape[-1] * weights + 2.0 * query.numel() * key.shape[0]
        elif function is not F.embedding:
            maps = [x for x in tensors if isinstance(x, torch.nn.Parameter) and x.dim() >= 2]
            total += sum(size * math.prod(one.shape[1:]) for one in maps[:1])

    watch(lambda: own.output(examples), look)
    for layer in own.module.modules():
        if isinstance(layer, torch.nn.RNNBase):  # one call, and a step for every position
            weights = sum(parameter.numel() for parameter in layer.parameters())
            first = examples.first
            total += weights * math.prod(first.shape[:2] if first.dim() > 1 else first.shape)
    return total


@fact(cost=free)
def row_and_call_cost(fit: Fit) -> tuple[float, float]:
    """Return the cost of a row forward, its products; and that of a call besides, its layers."""
    rows, own = examples_of(fit, 2), copy_of(fit)
    products = products_of(own, rows) / rows.shape[0]
    weights = sum(parameter.numel() for parameter in own.parameters.values())
    return BLAS * max(products, weights), CALL * sum(1 for _ in own.module.modules())


def forwards(
    calls: Callable[[Fit], float] | float, rows: int | None = None
) -> Callable[[Fit], float]:
    """The cost of so many calls of the module on so many rows each; by default on all."""

    def cost(fit: Fit) -> float:
        times = calls(fit) if callable(calls) else calls
        row, call = row_and_call_cost(fit)
        return times * ((fit.data.shape[0] if rows is None else rows) * row + call)

    return cost
