"""The centred kernel matrix of rows, D^½ (I − 1pᵀ) K (I − p1ᵀ) D^½: what kernel PCA takes the eigenvectors of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.core.blocks import Blocks
from lemmata.core.engine import run_tasks
from lemmata.predict.kernels.base import Kernel
from lemmata.predict.kernels.standard import Precomputed

Array = np.ndarray
ROWS = 1024  # of a kernel matrix with new rows at once
PRODUCT_ROWS = 512  # of the kernel matrix that a task multiplies


@dataclass(frozen=True)
class CentredGram:
    """D^½ K̃ D^½ of the training rows, as a matrix and as an operator, with what new rows need."""

    matrix: Array  # (n, n)
    mean: Array  # (n,) Kp: the inner products of the φ(x_i) with their mean
    total: float  # its trace
    scale: float  # the largest w κ(x, x)
    root: Array | None  # (n,) √w
    rows: Any  # (n, d)
    kernel: Kernel
    data: Blocks

    @classmethod
    def of(cls, kernel: Kernel, data: Blocks, copy: bool = True) -> CentredGram:
        X = data.source if data.in_memory else _gather(data)
        given = isinstance(kernel, Precomputed)
        if copy and data.in_memory and not given:
            X = X.copy()  # kept, even if the user changes theirs
        kernel = kernel.fitted(X)
        with np.errstate(over="ignore", invalid="ignore"):
            K = kernel(X)
            w = np.ones(len(K)) if data.weights is None else data.weights
            scale = float(np.max(w * kernel.diagonal(X)))
        if given:
            _refuse_asymmetric(K)
            X = K  # what is left of it, centred, is kept as X_fit_
        p, root = w / w.sum(), None if data.weights is None else np.sqrt(w)
        blocks = [slice(i, i + ROWS) for i in range(0, len(K), ROWS)]
        mean = _means(K, p, blocks)
        if not np.isfinite(mean).all():
            raise ValueError(
                f"{kernel!r} gives numbers beyond {K.dtype} on this data; scale the columns, or lower degree."
            )
        _centre(K, p, mean, blocks)
        # an error that all means have in common adds up to n of them in an eigenvalue
        rest = _means(K, p, blocks)
        if len(K) * float(np.abs(rest).max()) > float(np.finfo(K.dtype).eps) * scale:
            _centre(K, p, rest, blocks)
        if root is not None:
            for here in blocks:
                K[here] *= np.multiply.outer(root[here], root)
        return cls(K, mean, float(np.trace(K, dtype=np.float64)), scale, root, X, kernel, data)

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.matrix), len(self.matrix))

    @property
    def dtype(self) -> np.dtype:
        return self.matrix.dtype

    @property
    def rounding(self) -> float:
        """Error of an eigenvalue by rounding: entries of K err by √d·eps·κ(x, x), a matrix of such errors has norm √n."""
        size = np.sqrt(len(self.matrix) * self.rows.shape[1])
        return float(np.finfo(self.dtype).eps) * size * self.scale

    def __matmul__(self, V: Array) -> Array:
        """Some rows at a time on our own threads: the same bits for any number of them."""
        out = np.empty((len(self.matrix), *V.shape[1:]), np.result_type(self.dtype, V.dtype))

        def multiply(task: int) -> None:
            here = slice(task * PRODUCT_ROWS, (task + 1) * PRODUCT_ROWS)
            np.matmul(self.matrix[here], V, out=out[here])

        run_tasks(multiply, -(-len(out) // PRODUCT_ROWS))
        return out

    def fingerprint(self) -> str:
        return f"{self.kernel!r} {self.data.fingerprint()}"


def _means(K: Array, p: Array, blocks: list[slice]) -> Array:
    """Kp in float64."""
    return np.concatenate([K[here].astype(np.float64, copy=False) @ p for here in blocks])


def _centre(K: Array, p: Array, mean: Array, blocks: list[slice]) -> None:
    """(I − 1pᵀ) K (I − p1ᵀ) in place: the same is taken off rows and columns, so that K stays symmetric to the last bit."""
    half = mean - p @ mean / 2
    for here in blocks:
        K[here] -= np.add.outer(half[here], half)


def _refuse_asymmetric(K: Array) -> None:
    largest = float(np.abs(K).max(initial=0.0))
    apart = max(
        float(np.abs(K[i : i + ROWS] - K[:, i : i + ROWS].T).max()) for i in range(0, len(K), ROWS)
    )
    if not apart <= np.sqrt(np.finfo(K.dtype).eps) * largest:
        raise ValueError(
            f"kernel='precomputed' and K is not symmetric (K and its transpose differ by {apart:.2g}); pass (K + K.T) / 2."
        )


def _gather(data: Blocks) -> Any:
    parts = [rows for rows, _ in data]
    return sp.vstack(parts).tocsr() if sp.issparse(parts[0]) else np.concatenate(parts)
