"""Kernel smoothing (Nadaraya & Watson 1964): every row counts, the nearer the more; the notes' generalisation of k-NN.

    f(x) = Σ_n K(‖x − x_n‖/h) y_n / Σ_n K(‖x − x_n‖/h)            h, the bandwidth, takes the place of k

h small: little bias, much variance; h → ∞: the mean of all. bandwidth="loo" takes the h with the least leave-one-out error

    Σ_i (y_i − f₋ᵢ(x_i))²,       f₋ᵢ: f without row i, whose own term is K(0) y_i

    >>> x = np.linspace(0, 6, 200)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(200)
    >>> model = KernelSmoother(bandwidth="loo").fit(x, y)
    >>> bool(abs(model.predict(x) - np.sin(x[:, 0])).mean() < 0.04)
    True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.predict.neighbours.kernel_smoother import SMOOTHER_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import cost_of_smoother
from lemmata.core.loop import Never
from lemmata.core.parameters import KW_ONLY, POSITIVE, choice, fitted, parameter
from lemmata.core.supervised import Regressor
from lemmata.core.validation import refuse_large
from lemmata.predict.kernels.tiles import all_rows, squared_distances
from lemmata.predict.neighbours.base import KeepRows, forget_missing, like
from lemmata.predict.neighbours.selection import in_blocks

Array = np.ndarray
GRID = 20  # bandwidths that "loo" compares
# rows whose distances bandwidths are chosen from, and the numbers in them
SAMPLE, MOST_NUMBERS = (500, 2**24)

# K as a function of t² = ‖x − x_n‖²/h²; a Gaussian's is shifted by the nearest row's, so that it never vanishes everywhere
SHAPES: dict[str, Callable[[Array], Array]] = {
    "gaussian": lambda t: np.exp(-(t - t.min(axis=1, keepdims=True)) / 2),
    "epanechnikov": lambda t: np.maximum(1 - t, 0),
    "biweight": lambda t: np.maximum(1 - t, 0) ** 2,
    "tricube": lambda t: np.maximum(1 - t**1.5, 0) ** 3,
    "boxcar": lambda t: (t <= 1).astype(np.float64),
}


class KernelSmoother(Regressor):
    """Regression by a weighted mean of all targets, the nearer rows counting more.

    f(x) = Σ K(‖x − x_n‖/h) y_n / Σ K(‖x − x_n‖/h).

    Attributes
    ----------
    bandwidth_ : float
        h.
    bandwidths_, loo_errors_ : (20,) each, with bandwidth="loo"
        The bandwidths compared and their mean squared leave-one-out errors, summed over outputs.
    X_fit_, y_fit_ : (n, d), (n,) or (n, outputs)
    sample_weight_fit_ : (n,), if weights were given
    certificate_, trace_, stopped_, n_iter_

    Notes
    -----
    A row farther than h from all rows gets the target of the nearest one. Weights count rows: weight 2 is the row twice. A
    row is left out with all its copies, equal in X and y, which would tell its target.
    """

    kernel: str = parameter("gaussian", choice(*SHAPES)).doc("""
        K(t): exp(−t²/2), or with support |t| <= 1: 1 − t², (1 − t²)², (1 − |t|³)³, 1.""")
    _: KW_ONLY
    bandwidth: Any = parameter("loo", POSITIVE, choice("loo")).doc("""
        h, in units of X: standardise features of different units. "loo": the best of twenty by
        leave-one-out.""")

    claims = SMOOTHER_CLAIMS
    work = staticmethod(cost_of_smoother)
    multi_output = True
    accepts_sparse = True
    stored: ClassVar[Mapping[str, str | type]] = {
        "X_fit_": "n d sparse",
        "y_fit_": "n numbers | n m numbers",
        "sample_weight_fit_?": "n >=0",
        "bandwidth_ bandwidths_? loo_errors_?": "audited",
    }

    # nothing to draw, to wait for or to resume
    random_state, verbose, checkpoint, time_limit = 0, 0, None, None

    X_fit_: Any = fitted()
    y_fit_: Array = fitted()
    bandwidth_: float = fitted()

    # --- fitting ---

    def _algorithm(self, data: Blocks) -> KeepRows:
        return KeepRows()

    def _stop(self):
        return Never()

    def _attributes(self, solution: Any, problem: Any) -> dict[str, Any]:
        chosen = {"bandwidths_": None, "loo_errors_": None}
        kept = forget_missing(self, {**chosen, **solution.attributes})
        if self.bandwidth != "loo":
            return {**kept, "bandwidth_": float(self.bandwidth)}
        X, y, counts = kept["X_fit_"], kept["y_fit_"], kept.get("sample_weight_fit_")
        bandwidths = candidates(X, counts).astype(X.dtype)
        errors = loo_errors(X, y, counts, self.kernel, bandwidths)
        found = {"bandwidths_": bandwidths, "loo_errors_": errors.astype(X.dtype)}
        best = float(bandwidths[int(np.argmin(found["loo_errors_"]))])
        return {**kept, **found, "bandwidth_": best}

    def _title(self, data: Blocks | None) -> str:
        n, d = self.X_fit_.shape
        return f"KernelSmoother  {n:,} × {d:,}, {self.kernel}, bandwidth {self.bandwidth_:.3g}"

    # --- predicting ---

    def predict(self, X):
        """The weighted mean of all targets, (q,) or (q, outputs)."""
        check_is_fitted(self)
        Q, y = all_rows(self._validate_rows(X, reset=False)), self.y_fit_
        refuse_large(Q)
        Q = like(Q, self.X_fit_)
        counts = getattr(self, "sample_weight_fit_", None)
        found = np.empty((Q.shape[0], *y.shape[1:]))

        def work(here: slice) -> None:
            D = squared_distances(Q[here], self.X_fit_)
            found[here] = smooth(D, y, counts, self.kernel, self.bandwidth_)

        in_blocks(work, Q.shape[0], self.X_fit_.shape[0])
        return found.astype(y.dtype)


def smooth(
    D: Array, y: Array, counts: Array | None, kernel: str, h: float, left_out: Any = None
) -> Array:
    """f at some queries, from their squared distances to all rows. left_out: places in D that do not count."""
    far = D / h**2
    if left_out is not None:
        far[left_out] = np.inf
    W = SHAPES[kernel](far)
    if counts is not None:
        W *= counts
    total = W.sum(axis=1)
    lonely = np.flatnonzero(total == 0)
    if len(lonely):  # no row within h: the nearest that counts
        there = far[lonely] if counts is None else np.where(counts > 0, far[lonely], np.inf)
        W[lonely, there.argmin(axis=1)] = total[lonely] = 1.0
    return np.einsum("q...,q->q...", W @ y, 1 / total)


def candidates(X: Any, counts: Array | None) -> Array:
    """Bandwidths worth comparing: from half the distance of nearest rows to that of the farthest, of some rows that count."""
    numbers = np.arange(X.shape[0]) if counts is None else np.flatnonzero(counts > 0)
    every = -(-len(numbers) // min(SAMPLE, max(2, MOST_NUMBERS // X.shape[1])))
    some = like(X[numbers[::every]], np.zeros(0))
    D = cdist(some, some)  # rows that are equal are at distance 0 here, to the bit
    D = D[first := ~np.triu(D == 0, 1).any(axis=0)][:, first]
    if len(D) < 2:
        raise ValueError(
            f"bandwidth='loo' compares rows, and all of n_samples={X.shape[0]} are equal; pass a bandwidth > 0."
        )
    largest = D.max()
    np.fill_diagonal(D, np.inf)
    # a sample of every m-th row is sparser than all rows
    least = np.median(D.min(axis=1)) / 2 / every ** (1 / X.shape[1])
    return np.geomspace(min(least, largest / 10), largest, GRID)


def loo_errors(X: Any, y: Array, counts: Array | None, kernel: str, bandwidths: Array) -> Array:
    """The mean squared leave-one-out error of every bandwidth. Copies of a row (equal in X and y) are left out with it."""
    n, copies = X.shape[0], copies_of(X, y)
    weights = np.ones(n) if counts is None else counts
    squares: dict[int, Array] = {}

    def work(here: slice) -> None:
        D = squared_distances(X[here], X)
        own = np.arange(len(D)), np.arange(here.start, here.stop)
        out = own if copies is None else copies[here, None] == copies
        errors = [y[here] - smooth(D, y, counts, kernel, float(h), out) for h in bandwidths]
        sums = [weights[here] @ (e.reshape(len(D), -1) ** 2).sum(axis=1) for e in errors]
        squares[here.start] = np.array(sums)

    in_blocks(work, n, n)
    return np.sum([squares[at] for at in sorted(squares)], axis=0) / weights.sum()


def copies_of(X: Any, y: Array) -> Array | None:
    """A number for each row, the same for copies of it; None where there are none."""
    y = np.ascontiguousarray(y.reshape(len(y), -1), dtype=np.float64) + 0.0
    if sp.issparse(X):
        cuts = zip(X.indptr[:-1], X.indptr[1:], y, strict=True)
        keys = [(X.indices[a:b].tobytes(), X.data[a:b].tobytes(), z.tobytes()) for a, b, z in cuts]
        known: dict[Any, int] = {}
        numbers = np.array([known.setdefault(key, len(known)) for key in keys])
    else:
        both = np.ascontiguousarray(np.hstack([np.asarray(X, dtype=np.float64) + 0.0, y]))
        rows = both.view(np.dtype((np.void, both.itemsize * both.shape[1]))).ravel()
        numbers = np.unique(rows, return_inverse=True)[1].ravel()
    return None if numbers.max() == len(numbers) - 1 else numbers
