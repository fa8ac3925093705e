"""The multi-layer perceptron by hand (CIL 4.1, 4.2): forward keeps the values that backward, a recurrence, needs.

    h₀ = x,   zₖ = hₖ₋₁Θₖ + bₖ,   hₖ = φ(zₖ) for k < L,   ψ(x) = z_L                      rows are samples: Θₖ is nₖ₋₁ × nₖ

    δ_L = ∂ℓ/∂ψ          squared  ψ − y   (4.21)        logistic  −yσ(−yψ), y = ±1   (4.22)        softmax  p(ψ) − e_y
    ∂ℓ/∂Θₖ = hₖ₋₁ᵀδₖ,   ∂ℓ/∂bₖ = Σ δₖ                   over the rows                                            (4.18)
    δₖ₋₁ = Jₖᵀδₖ = (δₖΘₖᵀ) ⊙ φ′(zₖ₋₁)                   for k = L, …, 2                            (4.19), (4.24), (4.25)

The notes' δₖ is the slope by hₖ, after the activation; here it is that by zₖ, before it; the products are the same.
Forward multiplies n·Σ nₖ₋₁nₖ times in its matrix products and backward at most twice as often, whatever the depth
(`multiplications`).

    >>> net = MLP((2, 3, 1), activation="tanh", loss="squared")
    >>> theta = net.start(np.random.default_rng(0))
    >>> X, y = np.array([[1.0, 2.0], [0.0, -1.0]]), np.array([[1.0], [0.0]])
    >>> value, gradient = net.value_and_gradient(theta, X, y)
    >>> step = 1e-6 * gradient                                         # a small step downhill gains what the gradient predicts
    >>> bool(np.isclose(value - net.value(theta - step, X, y), step @ gradient, rtol=1e-4))
    True

All parameters are one vector θ: every Θₖ, then every bₖ; `layers(θ)` are views of it. Nothing here draws, stops or stores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, ndtr, xlogy

from lemmata.core.engine import run_tasks

Array = np.ndarray
Layers = tuple[list[Array], list[Array]]  # (Θ₁ … Θ_L), (b₁ … b_L)
DEEP = 5  # hidden layers after which Xavier's variance has made signals 2⁵ times as small
AT_ONCE = 2**18  # numbers in the widest layer of a block of rows
# multiplications of forward from which two threads share the rows; below, handing over costs more (measured: digits)
SIDE_BY_SIDE = 2**22


# --- activations ------------------------------------------------------------------------------------------------------


class Activation(NamedTuple):
    """φ and its slope. Both work in place, so that an epoch allocates nothing."""

    # (z, slope): z becomes φ(z); slope becomes φ′(z) where h = φ(z) does not determine it
    into: Callable[[Array, Array | None], Any]
    times_slope: Callable[[Array, Array, Array | None], Any]  # (δ, h, slope): δ ← δ ⊙ φ′
    init: str  # whose variance keeps signals alive: "he" where half of the units are off, else "xavier"
    keeps_slope: bool = False  # whether φ′ is computed on the way forward


def _softplus(z: Array, slope: Array | None) -> None:
    np.logaddexp(0, z, out=z)


def _gelu(z: Array, slope: Array | None) -> None:
    """zΦ(z), with the slope Φ(z) + zΦ′(z)."""
    normal = ndtr(z)
    if slope is not None:
        np.exp(-0.5 * z * z, out=slope)
        slope *= z.dtype.type(1 / np.sqrt(2 * np.pi))
        slope *= z
        slope += normal
    z *= normal


def _times_tanh_slope(delta: Array, h: Array, slope: Array | None) -> None:
    delta *= 1 - h * h


def _times_sigmoid_slope(delta: Array, h: Array, slope: Array | None) -> None:
    """σ′ = σ(1 − σ) (4.14)."""
    delta *= h
    delta *= 1 - h


ACTIVATIONS = {
    "identity": Activation(lambda z, slope: z, lambda delta, h, slope: delta, "xavier"),
    "logistic": Activation(lambda z, slope: expit(z, out=z), _times_sigmoid_slope, "xavier"),
    "tanh": Activation(lambda z, slope: np.tanh(z, out=z), _times_tanh_slope, "xavier"),
    "relu": Activation(
        lambda z, slope: np.maximum(z, 0, out=z),
        lambda delta, h, slope: np.multiply(delta, h > 0, out=delta),  # χ of (4.24)
        "he",
    ),
    # log(1 + eᶻ), whose slope σ(z) is 1 − e^−h
    "softplus": Activation(_softplus, lambda delta, h, slope: np.multiply(delta, -np.expm1(-h), out=delta), "he"),
    "gelu": Activation(_gelu, lambda delta, h, slope: np.multiply(delta, slope, out=delta), "he", True),  # type: ignore[arg-type]
}  # fmt: skip


# --- losses -----------------------------------------------------------------------------------------------------------


class OutputLoss(NamedTuple):
    """ℓ(ψ, y) of each row, and δ_L = ∂ℓ/∂ψ. Neither loses digits where a row is fitted well."""

    of_rows: Callable[[Array, Array], Array]  # (ψ, y) -> (n,); ψ stays as it is
    error_into: Callable[[Array, Array], Any]  # ψ becomes δ_L
    output: str  # the function from ψ to a prediction, as scikit-learn calls it


def _squared_error(scores: Array, y: Array) -> Array:
    residual = scores - y
    return 0.5 * np.einsum("ij,ij->i", residual, residual)


def _logistic(scores: Array, y: Array) -> Array:
    """−log σ(yψ) = log(1 + e^(−yψ)), of every output."""
    return np.logaddexp(0, -y * scores).sum(axis=1)


def _logistic_error_into(scores: Array, y: Array) -> None:
    """−yσ(−yψ)."""
    scores *= -y
    expit(scores, out=scores)
    scores *= -y


def _softmax(scores: Array, y: Array) -> Array:
    """log Σ e^(ψ_j − ψ_y): the largest exponential is set apart, so that a loss of 1e-20 is not 0."""
    rows = np.arange(len(scores))
    over = scores - scores[rows, y][:, None]
    top = over.argmax(axis=1)
    most = over[rows, top]
    over -= most[:, None]
    np.exp(over, out=over)
    over[rows, top] = 0
    return most + np.log1p(over.sum(axis=1))


def _softmax_error_into(scores: Array, y: Array) -> None:
    """p_j for the others, and minus their sum for y: 1 − p_y without cancellation."""
    rows = np.arange(len(scores))
    softmax_into(scores)
    scores[rows, y] = 0
    scores[rows, y] = -scores.sum(axis=1)


def softmax_into(scores: Array) -> Array:
    """Scores become probabilities e^ψ/Σe^ψ."""
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def _poisson(scores: Array, y: Array) -> Array:
    """Half of the deviance of counts y from the rate e^ψ."""
    return (xlogy(y, y) - y * scores - y + np.exp(scores)).sum(axis=1)


def _poisson_error_into(scores: Array, y: Array) -> None:
    np.exp(scores, out=scores)
    scores -= y


LOSSES = {
    "squared": OutputLoss(
        _squared_error, lambda scores, y: np.subtract(scores, y, out=scores), "identity"
    ),
    "logistic": OutputLoss(_logistic, _logistic_error_into, "logistic"),
    "softmax": OutputLoss(_softmax, _softmax_error_into, "softmax"),
    "poisson": OutputLoss(_poisson, _poisson_error_into, "exp"),
}


# --- the network ------------------------------------------------------------------------------------------------------


class Workspace:
    """Inputs and outputs of every layer, which backward needs; the arrays are reused for every batch."""

    def __init__(self, net: MLP, rows: int, dtype: Any, dropout: float = 0.0):
        self.dropout = dropout
        hidden = [(rows, m) for m in net.sizes[1:-1]]
        self.h = [np.empty(shape, dtype) for shape in (*hidden, (rows, net.sizes[-1]))]  # φ(zₖ), ψ
        self.delta = [np.empty(shape, dtype) for shape in hidden]
        self.slope = [np.empty(shape, dtype) if net.phi.keeps_slope else None for shape in hidden]
        self.mask = [np.empty(shape, dtype) for shape in hidden] if dropout else []
        self.dropped = [np.empty(shape, dtype) for shape in hidden] if dropout else []
        self.inputs: list[Any] = []  # of each layer: x, h₁, h₂, …, or what dropout left of them
        self.masked = False  # whether it left something out


def product(A: Any, B: Array, out: Array) -> None:
    """out ← AB: every multiplication of matrices in this file. A may be sparse."""
    if sp.issparse(A):
        out[...] = A @ B
    else:
        np.matmul(A, B, out=out)


@dataclass(frozen=True)
class MLP:
    """ψ = z_L(… φ(z₁(x))): layers of these sizes, from the inputs to the outputs, with one activation between them.

    Parameters
    ----------
    sizes : (n₀, n₁, …, n_L)
        Without numbers between the first and the last, a linear model.
    activation : one of ACTIVATIONS
    loss : one of LOSSES
        Targets: "squared", "poisson" (n, n_L) numbers; "logistic" (n, n_L) of ±1; "softmax" (n,) places from 0 to n_L − 1.
    """

    sizes: tuple[int, ...]
    activation: str = "relu"
    loss: str = "squared"

    def __post_init__(self):
        for name, known in (("activation", ACTIVATIONS), ("loss", LOSSES)):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is not known; pass {', '.join(map(repr, known))}."
                )
        if len(self.sizes) < 2 or min(self.sizes) < 1:
            raise ValueError(
                f"sizes={self.sizes}: pass the number of inputs, of units of each layer, and of outputs, all >= 1."
            )

    @cached_property
    def phi(self) -> Activation:
        return ACTIVATIONS[self.activation]

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """The shapes of Θ₁ … Θ_L."""
        return list(pairwise(self.sizes))

    @property
    def n_weights(self) -> int:
        """Number of weights, which come first among the parameters; the rest are biases."""
        return sum(n * m for n, m in self.shapes)

    @property
    def n_parameters(self) -> int:
        return self.n_weights + sum(self.sizes[1:])

    def layers(self, theta: Array) -> Layers:
        """(Θ₁ … Θ_L), (b₁ … b_L) as views of θ."""
        ends = np.cumsum([*(n * m for n, m in self.shapes), *self.sizes[1:]])
        parts = np.split(theta, ends[:-1])
        L = len(self.shapes)
        weights = [part.reshape(shape) for part, shape in zip(parts[:L], self.shapes, strict=True)]
        return weights, parts[L:]

    def start(self, rng: np.random.Generator, init: str = "auto", dtype: Any = np.float64) -> Array:
        """Random weights, biases 0. "xavier": variance 2/(nₖ₋₁ + nₖ). "he": 2/nₖ₋₁, which keeps h² alive where φ halves it.

        "auto": He's where φ halves h² more than DEEP times, for hidden layers; else Xavier's, which is smaller where layers
        widen, and whose nets predicted better at the depths that tables want (docs/measured/nets/mlp.md).
        """
        L = len(self.shapes)
        deep = self.phi.init == "he" and L - 1 > DEEP
        kinds = (
            ["he" if deep else "xavier"] * (L - 1) + ["xavier"] if init == "auto" else [init] * L
        )
        variances = [
            2 / n if kind == "he" else 2 / (n + m)
            for kind, (n, m) in zip(kinds, self.shapes, strict=True)
        ]
        drawn = [
            np.sqrt(variance) * rng.standard_normal(n * m)
            for variance, (n, m) in zip(variances, self.shapes, strict=True)
        ]
        return np.concatenate([*drawn, np.zeros(sum(self.sizes[1:]))]).astype(dtype)

    def multiplications(self, n: int) -> tuple[int, int]:
        """Those of the matrix products of forward and of backward, for n rows: a constant apart, whatever the depth."""
        each = [n * a * b for a, b in self.shapes]
        return sum(each), sum(each) + sum(each[1:])  # the gradient with respect to x is not needed

    def n_parts(self, n: int) -> int:
        """Into how many parts n rows are cut that threads work on: by the work alone, so that threads change no bit."""
        return 2 if self.multiplications(n)[0] >= SIDE_BY_SIDE else 1

    # --- forward and backward ---

    def forward(
        self, layers: Layers, x: Any, kept: Workspace, rng: np.random.Generator | None = None
    ) -> Array:
        """ψ(x), (n, n_L), a view of the workspace. With `rng`, hidden units drop out: h ← h·mask/(1 − p), so that E h stays."""
        h, n = x, x.shape[0]
        kept.inputs, kept.masked = [x], rng is not None
        for k, (weights, bias) in enumerate(zip(*layers, strict=True)):
            z = kept.h[k][:n]
            product(h, weights, z)
            z += bias
            if k < len(self.shapes) - 1:
                slope = kept.slope[k]
                self.phi.into(z, None if slope is None else slope[:n])
                h = z if rng is None else _drop(z, kept, k, rng)
                kept.inputs.append(h)
        return z

    def backward(self, layers: Layers, kept: Workspace, delta: Array, gradient: Layers) -> None:
        """∂/∂Θₖ and ∂/∂bₖ into `gradient`, from δ_L back to δ₁ (4.19)."""
        weights, n = layers[0], len(delta)
        for k in reversed(range(len(weights))):
            product(kept.inputs[k].T, delta, gradient[0][k])  # hₖ₋₁ᵀδₖ
            np.sum(delta, axis=0, out=gradient[1][k])
            if k > 0:
                before = kept.delta[k - 1][:n]
                product(delta, weights[k].T, before)  # δₖΘₖᵀ
                if kept.masked:
                    before *= kept.mask[k - 1][:n]
                slope = kept.slope[k - 1]
                self.phi.times_slope(
                    before, kept.h[k - 1][:n], None if slope is None else slope[:n]
                )
                delta = before

    # --- the whole function ---

    def scores(self, layers: Layers, X: Any) -> Array:
        """ψ of every row."""
        kept = Workspace(self, X.shape[0], layers[0][0].dtype)
        return self.forward(layers, X, kept)

    def sum_of_losses(
        self,
        layers: Layers,
        X: Any,
        y: Array,
        weights: Array | None = None,
        among: Array | None = None,
    ) -> float:
        """Σ sᵢℓᵢ of all rows, or of those `among` them, some at a time, added up in double precision."""
        n = X.shape[0] if among is None else len(among)
        step = max(1, min(AT_ONCE // max(self.sizes[1:]), -(-n // self.n_parts(n))))
        sums = np.zeros(-(-n // step))

        def work(block: int) -> None:
            some = slice(block * step, (block + 1) * step)
            rows = some if among is None else among[some]
            x = X[rows]
            kept = Workspace(self, x.shape[0], layers[0][0].dtype)
            with np.errstate(over="ignore", invalid="ignore"):  # of this thread
                losses = LOSSES[self.loss].of_rows(self.forward(layers, x, kept), y[rows])
                sums[block] = (
                    losses.sum(dtype=np.float64) if weights is None else weights[rows] @ losses
                )

        run_tasks(work, len(sums))
        return float(sums.sum())

    def value(
        self, theta: Array, X: Any, y: Array, weights: Array | None = None, alpha: float = 0.0
    ) -> float:
        """(Σ sᵢℓᵢ + ½α ΣΘ²)/Σs: biases are not penalised."""
        total = X.shape[0] if weights is None else float(np.sum(weights))
        W = theta[: self.n_weights]
        penalty = 0.5 * alpha * float(np.vdot(W, W))
        return (self.sum_of_losses(self.layers(theta), X, y, weights) + penalty) / total

    def value_and_gradient(
        self, theta: Array, X: Any, y: Array, weights: Array | None = None, alpha: float = 0.0
    ) -> tuple[float, Array]:
        """`value` and its gradient, all rows at once."""
        total = X.shape[0] if weights is None else float(np.sum(weights))
        layers, gradient = self.layers(theta), np.empty_like(theta)
        kept, loss = Workspace(self, X.shape[0], theta.dtype), LOSSES[self.loss]
        scores = self.forward(layers, X, kept)
        losses = loss.of_rows(scores, y)
        value = float(losses.sum(dtype=np.float64) if weights is None else weights @ losses)
        loss.error_into(scores, y)  # δ_L
        scores *= (1 / total) if weights is None else (weights / total).astype(theta.dtype)[:, None]
        self.backward(layers, kept, scores, self.layers(gradient))
        W = theta[: self.n_weights]
        gradient[: self.n_weights] += (alpha / total) * W
        return (value + 0.5 * alpha * float(np.vdot(W, W))) / total, gradient


def _drop(h: Array, kept: Workspace, k: int, rng: np.random.Generator) -> Array:
    """h·mask/(1 − p) into another array: the slope of φ is that of h itself."""
    mask, dropped = kept.mask[k][: len(h)], kept.dropped[k][: len(h)]
    rng.random(dtype=mask.dtype, out=mask)
    np.greater_equal(mask, kept.dropout, out=mask, casting="unsafe")
    mask *= mask.dtype.type(1 / (1 - kept.dropout))
    return np.multiply(h, mask, out=dropped)
