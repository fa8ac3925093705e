"""Convolution and cross-correlation as the notes define them, in one and two dimensions (CIL 4.4.1).

    (f * h)[u] = Σ_t f[t] h[u − t]          convolution
    (h ⋆ f)[u] = Σ_t h[t] f[u + t]          cross-correlation: a sliding inner product, what networks compute
     h ⋆ f     = h̄ * f,  h̄[t] = h[−t]       (4.47)

Arrays begin at index 0 and are zero outside. A layer sums cross-correlations over its input channels (4.49); its transpose is
the adjoint, ⟨Kx, y⟩ = ⟨x, Kᵀy⟩. Convolutions are linear and commute with shifts, and whatever is linear and commutes with
shifts is a convolution: `recover_kernel` finds the kernel of a module from its answer to an impulse.

    >>> convolve([1.0, 2.0, 3.0], [1.0, 1.0])
    array([1., 3., 5., 3.])

These are references, plain NumPy, for reading and for tests; networks use torch's. The notes say "shift invariant" of an
operator with T(f_Δ) = (Tf)_Δ, which is called equivariant today; (4.48) has a stray prime on its last f.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Sizes = int | Sequence[int]


def convolve(f: Any, h: Any) -> Array:
    """(f * h)[u] = Σ_t f[t] h[u − t] for every u where the sum has a term: n + k − 1 values an axis. Any number of axes."""
    f, h = _same_axes(f, h)
    out = np.zeros([n + k - 1 for n, k in zip(f.shape, h.shape, strict=True)])
    for t in np.ndindex(h.shape):  # h[t] adds f, shifted by t
        out[tuple(slice(a, a + n) for a, n in zip(t, f.shape, strict=True))] += h[t] * f
    return out


def correlate(h: Any, f: Any, padding: Sizes = 0, stride: Sizes = 1) -> Array:
    """(h ⋆ f)[u] = Σ_t h[t] f[u + t] at u = −p, −p + s, −p + 2s, … as long as the window stays within p of the array."""
    h, f = _same_axes(h, f)
    padded = np.pad(f, [(p, p) for p in _each(padding, f.ndim, "padding", 0)])
    steps = _each(stride, f.ndim, "stride", 1)
    out = np.zeros([_places(n, k, s) for n, k, s in zip(padded.shape, h.shape, steps, strict=True)])
    for t in np.ndindex(h.shape):
        out += h[t] * padded[_windows(t, out.shape, steps)]
    return out


def layer(x: Any, theta: Any, bias: Any = None, padding: Sizes = 0, stride: Sizes = 1) -> Array:
    """z_i = b_i + Σ_j θ_ij ⋆ x_j, the linear part of (4.49): x is (n, …grid), θ (k, n, …window), the result (k, …grid′)."""
    x, theta = np.asarray(x, dtype=float), np.asarray(theta, dtype=float)
    if theta.ndim != x.ndim + 1 or theta.shape[1] != x.shape[0]:
        raise ValueError(
            f"theta has shape {theta.shape} and x {x.shape}; theta wants (k, {x.shape[0]}, …window) with a window of "
            f"{x.ndim - 1} axes."
        )
    z = np.stack(
        [
            sum(correlate(h, f, padding, stride) for h, f in zip(row, x, strict=True))
            for row in theta
        ]
    )
    return z if bias is None else z + np.reshape(bias, (-1,) + (1,) * (z.ndim - 1))


def transposed_layer(
    y: Any, theta: Any, shape: Sequence[int], padding: Sizes = 0, stride: Sizes = 1
) -> Array:
    """Kᵀy, where Kx = layer(x, theta) for x of this shape: each output is sent back to where it was read.

    The backward pass of a convolution, and the "transposed convolution" that decoders and generators use.
    """
    y, theta = np.asarray(y, dtype=float), np.asarray(theta, dtype=float)
    axes = y.ndim - 1
    pads, steps = _each(padding, axes, "padding", 0), _each(stride, axes, "stride", 1)
    grid = [n + 2 * p for n, p in zip(shape[1:], pads, strict=True)]
    places = [_places(n, k, s) for n, k, s in zip(grid, theta.shape[2:], steps, strict=True)]
    if y.shape != (theta.shape[0], *places):
        raise ValueError(
            f"y has shape {y.shape}; from x of shape {tuple(shape)} this layer makes {(theta.shape[0], *places)}."
        )
    out = np.zeros((shape[0], *grid))
    for t in np.ndindex(theta.shape[2:]):
        taps = theta[(slice(None), slice(None), *t)]  # (k, n): from input channel to output channel
        out[(slice(None), *_windows(t, places, steps))] += np.tensordot(taps, y, axes=(0, 0))
    return out[(slice(None), *(slice(p, p + n) for p, n in zip(pads, shape[1:], strict=True)))]


def _windows(t: Sequence[int], places: Sequence[int], steps: Sequence[int]) -> tuple[slice, ...]:
    """Where tap t of a window stands, for every place of the window."""
    return tuple(slice(a, a + s * (m - 1) + 1, s) for a, m, s in zip(t, places, steps, strict=True))


def _places(n: int, k: int, s: int) -> int:
    if k > n:
        raise ValueError(
            f"a window of {k} does not fit into {n} values; pad more, or use a smaller one."
        )
    return (n - k) // s + 1


def _same_axes(f: Any, h: Any) -> tuple[Array, Array]:
    f, h = np.asarray(f, dtype=float), np.asarray(h, dtype=float)
    if f.ndim != h.ndim or f.ndim < 1 or 0 in f.shape + h.shape:
        raise ValueError(
            f"signal and kernel have shapes {f.shape} and {h.shape}; both need values, and the same number of axes."
        )
    return f, h


def _each(sizes: Sizes, axes: int, name: str, least: int) -> tuple[int, ...]:
    """One number for every axis."""
    found = (sizes,) * axes if isinstance(sizes, int | np.integer) else tuple(sizes)
    if len(found) != axes or any(size < least for size in found):
        raise ValueError(
            f"{name}={sizes}: pass a whole number of {least} or more, or {axes} of them."
        )
    return tuple(int(size) for size in found)


# --- linear and shift-equivariant ⇒ a convolution ---------------------------------------------------------------------


@dataclass(frozen=True)
class RecoveredKernel:
    """The convolution that a module would be if it were one, and how far it is from being it.

    weight : (k, n, …window), in the order of torch's layers: taps of a cross-correlation
    first : the offset u + t − u of the first tap along each axis; −1 for a window of 3 with padding 1
    bias : (k, …grid′), the answer of the module to zeros
    residual : relative error of the convolution on inputs whose answer stays inside the grid: 0 up to rounding if the module
        is linear and shift-equivariant
    border : the same on inputs that reach the edge of the grid; larger than `residual` where padding is no zeros around x
    """

    weight: Array
    first: tuple[int, ...]
    bias: Array
    residual: float
    border: float


def recover_kernel(module: Any, shape: Sequence[int], seed: int = 0) -> RecoveredKernel:
    """The kernel of a torch module that maps (B, n, …grid) to (B, k, …grid′), from its answers to one impulse per channel.

    If T is linear and commutes with shifts, T(Σ f[t] δ_t) = Σ f[t] (Tδ)_{−t} = f * Tδ: its answer to the impulse δ is its
    kernel. Whether T is that is measured: the convolution with this kernel is compared with the module on random inputs.

    shape : (n, …grid), large enough for the whole answer to an impulse in its middle
    """
    import torch

    channels, *grid = shape
    centre = [n // 2 for n in grid]
    answer = _float64_answers(module)
    bias = answer(torch.zeros(1, *shape, dtype=torch.float64))[0]
    if bias.ndim != len(shape):
        raise ValueError(
            f"the module maps {tuple(shape)} to {bias.shape}; a convolution keeps its {len(grid)} grid axes."
        )
    impulses = np.zeros((channels, *shape))
    for j in range(channels):
        impulses[(j, j, *centre)] = 1
    # (k, n, …grid′): h_ij[u − centre]
    h = np.moveaxis(answer(torch.from_numpy(impulses)) - bias, 0, 1)

    inside = [_support(h, axis) for axis in range(2, h.ndim)]  # of u
    weight = h[(slice(None), slice(None), *(slice(a, b) for a, b in inside))]
    weight = np.flip(weight, axis=tuple(range(2, h.ndim)))
    first = tuple(c - (b - 1) for c, (_, b) in zip(centre, inside, strict=True))

    rng = np.random.default_rng(seed)
    # an input at t is answered from t − back to t + ahead
    reach = [(max(0, c - a), max(0, b - 1 - c)) for c, (a, b) in zip(centre, inside, strict=True)]
    errors = []
    for margins in (reach, [(0, 0)] * len(grid)):
        part = [slice(back, n - ahead) for n, (back, ahead) in zip(grid, margins, strict=True)]
        f = np.zeros((2, *shape))
        block = f[(slice(None), slice(None), *part)]
        if min(block.shape[2:]) < 3:  # the impulse itself proves nothing about other places
            raise ValueError(
                f"the answer to an impulse fills a grid of {tuple(grid)}; pass a shape with a larger grid."
            )
        block[...] = rng.standard_normal(block.shape)
        found = answer(torch.from_numpy(f)) - bias
        expected = np.stack([_answers(one, weight, first, h.shape[2:]) for one in f])
        size = float(np.linalg.norm(found))
        errors.append(float(np.linalg.norm(found - expected)) / max(size, 1e-300))
    return RecoveredKernel(weight, first, bias, *errors)


def _float64_answers(module: Any) -> Any:
    """The module as a function of float64 tensors, in inference mode, on a copy."""
    import copy

    import torch

    twin = copy.deepcopy(module).double().eval() if hasattr(module, "parameters") else module

    def answer(x: Any) -> Array:
        with torch.no_grad():
            return twin(x).numpy()

    return answer


def _support(h: Array, axis: int) -> tuple[int, int]:
    """Where along an axis an answer is not zero."""
    others = tuple(a for a in range(h.ndim) if a != axis)
    size = np.abs(h).max(axis=others)
    found = np.flatnonzero(size > 1e-12 * max(size.max(), 1e-300))
    return (
        (int(found[0]), int(found[-1]) + 1)
        if len(found)
        else (h.shape[axis] // 2, h.shape[axis] // 2 + 1)
    )


def _answers(x: Array, weight: Array, first: Sequence[int], grid: Sequence[int]) -> Array:
    """z_i[u] = Σ_j Σ_t θ_ij[t] x_j[u + first + t] for u on the grid; x is zero outside."""
    window = weight.shape[2:]
    before = [max(0, -a) for a in first]
    after = [
        max(0, m - 1 + a + k - n)
        for m, a, k, n in zip(grid, first, window, x.shape[1:], strict=True)
    ]
    wide = np.pad(x, [(0, 0), *zip(before, after, strict=True)])
    begin = [b + a for b, a in zip(before, first, strict=True)]
    cut = tuple(slice(b, b + m + k - 1) for b, m, k in zip(begin, grid, window, strict=True))
    return layer(wide[(slice(None), *cut)], weight)
