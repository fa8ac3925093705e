"""A network as a list of matrices, and its linear regions (CIL 4.1.2, 4.2.4).

    z_l = W_l x_{l−1} + b_l,    x_l = φ(z_l),    the last layer without φ

φ = identity: the net is x ↦ W_L ⋯ W_1 x + c, one matrix whatever the depth (`collapse`). φ = ReLU: at a point, the units
with z ≤ 0 give 0 and can be cut away, which leaves a linear net (`pruned`, CIL (4.24)):

    A = W_L diag(χ_{L−1}) W_{L−1} ⋯ diag(χ_1) W_1,        χ_l = 1[z_l > 0]

It stays this linear map as long as no unit changes its sign. In there z_lj(x') = α_lj·x' + β_lj is affine too, so the set of
such x' is an intersection of half-spaces, and from x to its border it is exactly min |z_lj(x)| / ‖α_lj‖ (`linear_region`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, inf
from typing import Any

import numpy as np
from scipy.special import expit

from lemmata.registry import require

Array = np.ndarray

ACTIVATIONS = {
    "identity": lambda z: z,
    "relu": lambda z: np.maximum(z, 0.0),
    "sigmoid": expit,
    "step": lambda z: (z > 0).astype(np.float64),  # a sigmoid of infinite steepness
    "tanh": np.tanh,
}


@dataclass(frozen=True)
class Layers:
    """A dense network in float64: matrices (out, in) and biases (out,), as `torch.nn.Linear` keeps them."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activation: str = "relu"  # of all layers but the last

    def __post_init__(self):
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation={self.activation!r}; there are {', '.join(ACTIVATIONS)}.")
        if not self.weights or len(self.weights) != len(self.biases):
            raise ValueError(
                f"{len(self.weights)} matrices and {len(self.biases)} biases; pass as many of both, at least one."
            )
        object.__setattr__(self, "weights", tuple(np.array(W, np.float64) for W in self.weights))
        object.__setattr__(self, "biases", tuple(np.array(b, np.float64) for b in self.biases))
        width = self.weights[0].shape[-1]
        for l, (W, b) in enumerate(zip(self.weights, self.biases, strict=True), 1):
            if W.ndim != 2 or W.shape[1] != width or b.shape != W.shape[:1]:
                raise ValueError(
                    f"layer {l} has a matrix {W.shape} and a bias {b.shape} for {width} inputs; "
                    f"they have to be (out, {width}) and (out,)."
                )
            width = W.shape[0]

    @property
    def n_inputs(self) -> int:
        return self.weights[0].shape[1]

    @property
    def widths(self) -> tuple[int, ...]:
        """Units of the hidden layers."""
        return tuple(len(b) for b in self.biases[:-1])

    def __call__(self, X) -> Array:
        """(n, outputs) of rows (n, inputs)."""
        return self.activations(X)[-1]

    def activations(self, X) -> list[Array]:
        """The output of every layer, the last without φ."""
        X = self._rows(X)
        found, phi = [], ACTIVATIONS[self.activation]
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            X = phi(X @ W.T + b)
            found.append(X)
        return [*found, X @ self.weights[-1].T + self.biases[-1]]

    def _rows(self, X) -> Array:
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.n_inputs:
            raise ValueError(f"X has shape {X.shape}; this net takes rows (n, {self.n_inputs}).")
        return X

    def to_torch(self):
        """The same net as a `torch.nn.Sequential` in float64."""
        torch = require("torch", "deep", what="Layers.to_torch")
        kinds = {"relu": torch.nn.ReLU, "sigmoid": torch.nn.Sigmoid, "tanh": torch.nn.Tanh}
        if self.activation not in (*kinds, "identity"):
            raise ValueError(
                f"torch has no module for {self.activation!r}: build the net with sigmoids instead."
            )
        parts: list[Any] = []
        for W, b in zip(self.weights, self.biases, strict=True):
            linear = torch.nn.Linear(W.shape[1], W.shape[0], dtype=torch.float64)
            with torch.no_grad():
                linear.weight.copy_(torch.from_numpy(W))
                linear.bias.copy_(torch.from_numpy(b))
            parts += (
                [linear] if self.activation == "identity" else [linear, kinds[self.activation]()]
            )
        return torch.nn.Sequential(*(parts if self.activation == "identity" else parts[:-1]))

    @classmethod
    def of_torch(cls, module) -> Layers:
        """A `Sequential` of `Linear` layers with one kind of activation between them; `Flatten`, `Dropout` are left out."""
        torch = require("torch", "deep", what="Layers.of_torch")
        kinds = {torch.nn.ReLU: "relu", torch.nn.Sigmoid: "sigmoid", torch.nn.Tanh: "tanh"}
        skipped = (torch.nn.Flatten, torch.nn.Dropout, torch.nn.Identity, torch.nn.Sequential)
        weights, biases, found = [], [], []
        for part in (p for p in module.modules() if not isinstance(p, skipped)):
            if isinstance(part, torch.nn.Linear):
                W = part.weight.detach().double().cpu().numpy()
                weights.append(W)
                biases.append(
                    np.zeros(len(W))
                    if part.bias is None
                    else part.bias.detach().double().cpu().numpy()
                )
                found.append("identity")
            elif type(part) in kinds and found and found[-1] == "identity":
                found[-1] = kinds[type(part)]
            else:
                raise ValueError(
                    f"the module has a {type(part).__name__} where Linear layers with ReLU, Sigmoid or Tanh between "
                    "them are read."
                )
        if not found or found[-1] != "identity" or len(set(found[:-1])) > 1:
            raise ValueError(
                f"the layers end in {found}; read are nets with the same activation after every Linear layer but the last."
            )
        return cls(tuple(weights), tuple(biases), found[0])


def collapse(net: Layers) -> tuple[Array, Array]:
    """(A, c) with net(x) = Ax + c, for a net without activations: depth adds nothing (CIL 4.1.2)."""
    if net.activation != "identity" and len(net.weights) > 1:
        raise ValueError(
            f"a net with {net.activation} is not linear; linear_region gives its linear map at a point."
        )
    A, c = np.eye(net.n_inputs), np.zeros(net.n_inputs)
    for W, b in zip(net.weights, net.biases, strict=True):
        A, c = W @ A, W @ c + b
    return A, c


@dataclass(frozen=True)
class LinearRegion:
    """The linear map that a ReLU net is around a point: x' ↦ matrix x' + offset while ‖x' − x‖ < radius."""

    matrix: Array  # (outputs, inputs)
    offset: Array  # (outputs,)
    active: tuple[Array, ...]  # χ of every hidden layer
    radius: float  # from the point to the nearest place where a unit changes its sign; inf if there is none
    nearest: tuple[int, int] | None  # that unit: (hidden layer, unit), counted from 0


def linear_region(net: Layers, x: Sequence[float] | Array) -> LinearRegion:
    """The linear map that a ReLU net is at x, and how far around x. A unit at exactly 0 is inactive, and the radius then 0."""
    _check_relu(net)
    x = net._rows(np.reshape(x, (1, -1)))[0]
    A, c = np.eye(net.n_inputs), np.zeros(net.n_inputs)
    active, radius, nearest = [], inf, None
    for l, (W, b) in enumerate(zip(net.weights[:-1], net.biases[:-1], strict=True)):
        A, c = W @ A, W @ c + b  # z_l as an affine function of the input
        z, slopes = A @ x + c, np.linalg.norm(A, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            distances = np.where(slopes > 0, np.abs(z) / slopes, inf)  # slope 0: it never changes
        if distances.size and distances.min() < radius:
            radius, nearest = float(distances.min()), (l, int(distances.argmin()))
        active.append(z > 0)
        A, c = A * active[-1][:, None], c * active[-1]
    W, b = net.weights[-1], net.biases[-1]
    return LinearRegion(W @ A, W @ c + b, tuple(active), radius, nearest)


def pruned(net: Layers, x: Sequence[float] | Array) -> Layers:
    """The linear net left of a ReLU net at x when its inactive units are cut away (CIL 4.2.4)."""
    _check_relu(net)
    active = linear_region(net, x).active
    weights, biases, inputs = [], [], np.ones(net.n_inputs, dtype=bool)
    for W, b, kept in zip(
        net.weights, net.biases, (*active, np.ones(len(net.biases[-1]), dtype=bool)), strict=True
    ):
        weights.append(W[np.ix_(kept, inputs)])
        biases.append(b[kept])
        inputs = kept
    return Layers(tuple(weights), tuple(biases), "identity")


def _check_relu(net: Layers) -> None:
    if net.activation != "relu" and len(net.weights) > 1:
        raise ValueError(
            f"the net has activation {net.activation!r}; only ReLU nets are linear around a point."
        )


def most_regions(width: int, n_inputs: int) -> int:
    """Number of pieces into which m hyperplanes can cut ℝᵈ: Σ_{k ≤ d} C(m, k), reached in general position (Zaslavsky 1975).

    The linear regions of a ReLU net with one hidden layer of m units.
    """
    return sum(comb(width, k) for k in range(n_inputs + 1))
