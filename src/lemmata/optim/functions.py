"""Functions of any kind as one kind: a point in, the value and the gradient there out.

    as_function(f)              f(x) returns (value, gradient)
    as_function((f, grad))      two functions
    as_function(f, like=x0)     f takes a torch tensor and returns a scalar tensor, if x0 is a tensor: autograd differentiates;
                                so does the batch(w, rows) of a finite sum

    >>> import numpy as np
    >>> f = as_function((lambda x: float(x @ x), lambda x: 2 * x))
    >>> f(np.array([3.0, 4.0]))
    (25.0, array([6., 8.]))

torch is imported only where a tensor is passed. A function that does not return what it should is refused at the first call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Function = Callable[[Array], tuple[float, Array]]


def is_tensor(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "detach")


@dataclass(frozen=True)
class Pair:
    """Two functions, one for the value and one for the gradient."""

    value: Callable[[Array], Any]
    gradient: Callable[[Array], Any]

    def __call__(self, x: Array) -> tuple[float, Array]:
        return float(np.asarray(self.value(x.copy())).item()), np.array(self.gradient(x.copy()))


@dataclass(frozen=True)
class TorchClosure:
    """A function of one tensor, differentiated by autograd; arrays go in and come out."""

    closure: Callable[[Any], Any]
    device: str = "cpu"

    def __call__(self, x: Array) -> tuple[float, Array]:
        import torch

        point = torch.tensor(x, device=self.device, requires_grad=True)
        with torch.enable_grad():
            value = self.closure(point)
            if not is_tensor(value) or value.numel() != 1:
                raise TypeError(
                    f"f returned {_describe(value)} for a tensor; return a tensor with one number, such as a mean loss."
                )
            (gradient,) = torch.autograd.grad(value, point)
        return float(value.detach()), gradient.detach().cpu().numpy()


@dataclass(frozen=True)
class TorchSum:
    """A finite sum whose `batch(w, rows)` takes a tensor and returns the mean loss over rows as a scalar tensor."""

    terms: Any  # with n_terms and batch
    device: str = "cpu"

    @property
    def n_terms(self) -> int:
        return self.terms.n_terms

    def batch(self, w: Array, rows: Array) -> tuple[float, Array]:
        return TorchClosure(lambda tensor: self.terms.batch(tensor, rows), self.device)(w)

    def __call__(self, w: Array) -> tuple[float, Array]:
        return self.batch(w, np.arange(self.n_terms))


class Called:
    """A user's function: it is given points of its own, and what it returns is copied, since it may use its arrays again.

    What else it knows (L, mu, minimum, hessian, n_terms, batch) is passed on.
    """

    # the cost of a call is not known, and what is checked must not depend on a clock: a fixed number
    multiplications = 2**17

    def __init__(self, function: Callable[[Array], Any]):
        self.function, self.calls = function, 0

    def __call__(self, x: Array) -> tuple[float, Array]:
        self.calls += 1
        found = self.function(x.copy())
        if not (isinstance(found, tuple) and len(found) == 2):
            raise TypeError(
                f"f returned {_describe(found)}; return (value, gradient), pass a pair (f, grad), or pass x0 as a torch "
                "tensor for autograd."
            )
        value, gradient = found
        if np.size(value) != 1:
            raise ValueError(f"f returned {_describe(value)} as its value; it must be one number.")
        return float(np.asarray(value).item()), np.array(gradient)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "function":
            raise AttributeError(name)
        return getattr(self.function, name)


def as_function(f: Any, like: Any = None) -> Function:
    """f as a function that returns a value and a gradient; `like` is the point that the run begins at."""
    if isinstance(f, tuple):
        if len(f) != 2 or not all(callable(part) for part in f):
            raise TypeError(
                f"f is a tuple of {len(f)}; pass a pair (f, grad) of functions, or one that returns both."
            )
        return Called(Pair(*f))
    if not callable(f):
        raise TypeError(
            f"f is a {type(f).__name__}; pass a function that returns (value, gradient), or a pair (f, grad)."
        )
    if is_tensor(like) and hasattr(f, "n_terms"):
        return Called(TorchSum(f, str(like.device)))
    if is_tensor(like):
        return Called(TorchClosure(f, str(like.device)))
    # objectives of this package return arrays of their own
    return f if type(f).__module__.startswith("lemmata.optim.") else Called(f)


def as_point(x0: Any) -> Array:
    """x0 as a float array of its own: tensors, lists and whole numbers are accepted."""
    if is_tensor(x0):
        x0 = x0.detach().cpu().numpy()
    x = np.array(x0)
    if x.dtype not in (np.float32, np.float64):
        if x.dtype.kind not in "biuf":
            raise TypeError(f"x0 holds {x.dtype}; pass real numbers.")
        x = x.astype(np.float64)
    if x.size == 0 or not np.isfinite(x).all():
        raise ValueError(
            f"x0 {'is empty' if x.size == 0 else 'contains NaN or infinity'}; pass a finite point to begin at."
        )
    return x


def first_call(function: Function, x: Array) -> tuple[float, Array]:
    """function(x), with a sentence for everything that a function may return instead of a value and a gradient."""
    value, gradient = function(x.copy())
    if gradient.shape != x.shape:
        raise ValueError(
            f"the gradient has shape {gradient.shape}, x0 has shape {x.shape}; they must agree."
        )
    if not math.isfinite(float(value)):
        raise ValueError(f"f(x0) = {float(value)}; begin at a point where f is finite.")
    if not np.isfinite(gradient).all():
        raise ValueError(
            "the gradient at x0 contains NaN or infinity; begin at a point where f is differentiable."
        )
    return float(value), gradient


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" + (f" of shape {tuple(shape)}" if shape else "")


@dataclass(frozen=True)
class Flat:
    """A function of one array as one of (params, data), in the type of the point: what `Descent` calls."""

    function: Function

    def __call__(self, params: tuple[Array, ...], data: Any) -> tuple[float, tuple[Array, ...]]:
        (x,) = params
        value, gradient = self.function(x)
        return float(value), (np.asarray(gradient, dtype=x.dtype),)
