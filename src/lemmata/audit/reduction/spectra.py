"""Second moments of rows about a centre, and their eigenvalues: the facts that claims about principal axes compare.

    S = Σ p (x − c)(x − c)ᵀ,      p = w/Σw the weights as shares,  c the model's mean_

in float64. Rows with numbers of extreme size are divided by the largest (a power of two, so nothing is rounded): no square
overflows at 1e200, none vanishes at 1e−200, and no unit of weights matters. `Around` is what products with k components tell,
`Spectrum` what all eigenvalues tell. Up to DENSE features S is formed and LAPACK finds them all. Beyond it Lanczos bounds what
the components leave out, (I − P)S(I − P), from below and, with a stated risk, from above (kernel/lanczos.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from lemmata.audit.kernel.claims import PRODUCTS as PER_PASS
from lemmata.audit.kernel.claims import CannotTell, Fit, fact, passes, rounding
from lemmata.audit.kernel.lanczos import RISK, largest_eigenvalue
from lemmata.core.blocks import Blocks

Array = np.ndarray

DENSE = 3000  # features up to which S is formed (72 MB) and LAPACK finds all its eigenvalues
# numbers of dense rows that are kept scaled and centred, so that claims share these passes (8 MB each)
SMALL = 2**20
CACHED = 2**16  # numbers of more rows that are worked on at once
THIN = 128  # features up to which S is formed in the pass that measures mean and squares: it costs few passes more
EXTREME = 2.0**150  # numbers beyond it, or all below its inverse, are scaled
# multiplications that form S at once: less than what a handful of passes over so few rows takes
CHEAP = 2**23
PRODUCTS = 80  # of Lanczos beyond it: with a million features ε is 1.2 %
EIGH = 1  # d³ of work that a full eigendecomposition takes: 4.5 times as many multiplications, at the speed of BLAS


@dataclass(frozen=True)
class ScaledRows:
    """The rows of a fit, scaled, with their weights as shares; iterating gives the blocks."""

    data: Blocks
    scale: float  # what the rows are divided by
    mean: Array  # (d,) of the scaled rows
    centre: Array  # (d,) the model's mean_, scaled alike
    square: float  # Σ p‖x‖², not centred
    eps: float  # of the coarser of the two float types, that of the rows and that of the model
    copied: bool  # whether the rows come in a coarser type than the model, so that it was not fitted to these numbers
    formed: Array | None = None  # S, of rows of few features
    centred: Array | None = None  # x − c of all rows, scaled, where they are few
    shares: Array | None = None  # and their p

    def __iter__(self) -> Iterator[tuple[Any, Array]]:
        for rows, shares in shares_of(self.data):
            yield (rows if self.scale == 1 else rows * (1 / self.scale)), shares

    @property
    def shift(self) -> Array:
        return self.mean - self.centre

    def product(self, V: Array | None = None) -> Array:
        """S V, or S itself."""
        if self.formed is not None:
            return self.formed if V is None else self.formed @ V
        if self.centred is not None and self.shares is not None:
            X, p = self.centred, self.shares
            if V is None and self.data.weights is None:
                return X.T @ X * p[0]
            return X.T @ ((X if V is None else X @ V) * p[:, None])
        width = len(self.mean) if V is None else V.shape[1]
        found = np.zeros((len(self.mean), width))
        for rows, p in self:
            found += scatter(rows, p, self.centre, V)
        return found

    @property
    def noise(self) -> float:
        """The error of a variance of these rows by rounding: of n-term sums of squares, and of the rows themselves.

        Rows that were rounded to another type than they were fitted in moved by eps‖x‖, and with them √λ by as much.
        """
        own = rounding(np.float64, max(self.data.shape))
        spread = max(self.square - float(self.mean @ self.mean), 0.0)
        coarse = (2 * self.eps if self.copied else 0.0) * math.sqrt(spread * self.square)
        return own * (self.square if self.data.sparse else spread) + coarse


def cost_of_products(fit: Fit, columns: float) -> float:
    """Multiply the rows with so many columns, in a pass that centres them."""
    return float(fit.data.size) * (1 + columns / PER_PASS)


def _is_thin(fit: Fit) -> bool:
    data = fit.data
    return not data.sparse and data.shape[1] <= THIN and data.size > SMALL


@fact(
    cost=lambda fit: passes(3)(fit) + _is_thin(fit) * cost_of_products(fit, fit.data.shape[1] / 2)
)
def scaled_rows(fit: Fit) -> ScaledRows:
    """Scale the rows and measure them about the model's mean: the first pass over the data."""
    data, d = fit.data, fit.data.shape[1]
    largest = 0.0
    for rows, _ in data:
        numbers = rows.data if sp.issparse(rows) else rows
        if numbers.size:
            largest = max(largest, float(numbers.max()), -float(numbers.min()))
    centre = np.asarray(fit.get("mean_", np.zeros(d)), dtype=np.float64)
    largest = max(largest, float(np.abs(centre).max(initial=0.0)))
    extreme = not 1 / EXTREME < largest < EXTREME and 0 < largest < math.inf
    scale = min(math.ldexp(1.0, math.frexp(largest)[1]), math.ldexp(1.0, 1023)) if extreme else 1.0
    kinds = (data.dtype, np.asarray(fit.components_).dtype)
    theirs, own = (float(np.finfo(one if one.kind == "f" else float).eps) for one in kinds)
    rows = ScaledRows(data, scale, np.zeros(d), centre / scale, 0.0, max(theirs, own), theirs > own)
    return _measure_thin(rows) if _is_thin(fit) else _measure(rows)


def _measure(rows: ScaledRows) -> ScaledRows:
    """Find mean and squares; few dense rows are kept centred."""
    data, mean, square = rows.data, np.zeros(len(rows.mean)), 0.0
    centred = shares = None
    for block, p in rows:
        mean += p @ block
        square += float(p @ squares(block))
        if data.n_blocks == 1 and data.size <= SMALL and not data.sparse:
            centred, shares = block - rows.centre, p
    return replace(rows, mean=mean, square=square, centred=centred, shares=shares)


def _measure_thin(rows: ScaledRows) -> ScaledRows:
    """Form S, and find the mean and squares from it: Σ p‖x‖² = tr S + 2 cᵀ(x̄ − c) + ‖c‖²."""
    c, S, shift = rows.centre, np.zeros((len(rows.mean),) * 2), np.zeros(len(rows.mean))
    for block, p in rows:
        S += scatter(block, p, c)
        shift += p @ block - p.sum() * c
    square = float(np.trace(S) + 2 * c @ shift + c @ c)
    return replace(rows, mean=c + shift, square=max(square, 0.0), formed=S)


def shares_of(data: Blocks) -> Iterator[tuple[Any, Array]]:
    """Rows in float64 with their shares of the total weight: blocks, dense ones cut so that what is made of them is cached."""
    total = data.total_weight
    for rows, weights in data:
        n, d = rows.shape
        p = np.full(n, 1 / total) if weights is None else np.asarray(weights) / total
        whole = sp.issparse(rows) or data.size <= SMALL
        step = max(n, 1) if whole else max(CACHED // d, 256)
        for start in range(0, n, step):
            part = rows[start : start + step]
            yield part.astype(np.float64, copy=False), p[start : start + step]


def squares(rows: Any) -> Array:
    """‖x‖² of every row."""
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", rows, rows)


def scatter(rows: Any, p: Array, centre: Array, V: Array | None = None) -> Array:
    """Σ p(x−c)(x−c)ᵀV (V = I if not given). Sparse rows are centred without becoming dense."""
    if not sp.issparse(rows):
        centred = rows - centre
        if V is None and len(p) and p.min() == p.max():
            return centred.T @ centred * p[0]
        if V is None:
            centred *= np.sqrt(p)[:, None]
            return centred.T @ centred
        return centred.T @ ((centred @ V) * p[:, None])
    if V is None:
        cross = np.outer(p @ rows, centre)
        gram = (rows.T @ rows.multiply(p[:, None]).tocsr()).toarray()
        return gram - cross - cross.T + p.sum() * np.outer(centre, centre)
    projected = (rows @ V - centre @ V) * p[:, None]
    return rows.T @ projected - np.outer(centre, projected.sum(axis=0))


# --- along the components ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Around:
    """S seen from k components: variance along each, what they leave out, and how far from eigenvectors they are."""

    C: Array  # (k, d), float64
    SC: Array  # (d, k) S Cᵀ
    total: float  # tr S
    noise: float
    dtype: Any = np.float64  # of the components as they are stored
    n: int = 1  # rows

    @property
    def moved(self) -> float:
        """‖E‖ of the rounding of all rows in a solver that works in the components' float type."""
        return rounding(self.dtype, max(self.n, self.C.shape[1])) * math.sqrt(self.total)

    @property
    def gram(self) -> Array:
        return self.C @ self.C.T

    @property
    def inner(self) -> Array:
        """C S Cᵀ"""
        M = self.C @ self.SC
        return (M + M.T) / 2

    @property
    def error(self) -> float:
        """Σ p‖y − CᵀCy‖² of y = x − c: ‖y‖² − 2 yᵀCᵀCy + yᵀCᵀ(CCᵀ)Cy, as orthonormality is not taken for granted."""
        M = self.inner
        return self.total - 2 * float(np.trace(M)) + float(np.sum(self.gram * M))


def _is_cheap(fit: Fit) -> bool:
    d = fit.data.shape[1]
    return d <= DENSE and float(fit.data.size) * d <= CHEAP


def _cost_of_scatter(fit: Fit) -> float:
    d = fit.data.shape[1]
    return 0.0 if d > DENSE or _is_thin(fit) else cost_of_products(fit, d / 2)


@fact(cost=_cost_of_scatter, needs=(scaled_rows,))
def whole_scatter(fit: Fit) -> Array:
    """Form S as a matrix, up to DENSE features."""
    return scaled_rows(fit).product()


def _cost_of_around(fit: Fit) -> float:
    if whole_scatter in fit.facts or _is_thin(fit):
        return float(np.asarray(fit.components_).size)
    columns = fit.data.shape[1] if _is_cheap(fit) else 2 * len(fit.components_)
    return cost_of_products(fit, columns)


@fact(cost=_cost_of_around, needs=(scaled_rows,))
def around(fit: Fit) -> Around:
    """Multiply the data twice with each component; not at all where S was formed already, or is formed at once."""
    rows, C = scaled_rows(fit), np.asarray(fit.components_, dtype=np.float64)
    forms = _is_cheap(fit) or rows.formed is not None or whole_scatter in fit.facts
    S = whole_scatter(fit) if forms else None
    SC = rows.product(C.T) if S is None else S @ C.T
    if rows.data.sparse:
        total = max(rows.square - float(rows.mean @ rows.mean), 0.0)
        total += float(rows.shift @ rows.shift)
    elif S is None:
        total = float(sum(p @ squares(block - rows.centre) for block, p in rows))
    else:
        total = float(np.trace(S))
    dtype = np.asarray(fit.components_).dtype
    return Around(C, SC, total, rows.noise, dtype, fit.data.shape[0])


def variation(fit: Fit) -> Around:
    """The same. Raises CannotTell where the data does not vary."""
    facts = around(fit)
    if facts.total <= facts.noise:
        raise CannotTell("the data does not vary")
    return facts


# --- all directions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spectrum:
    """The eigenvalues of S as far as they are known, and directions that go with them.

    Whole: all of them, by LAPACK. Otherwise those of S within a space that contains the components, each a
    bound from below of the eigenvalue of its rank, and `ceiling`, which bounds every direction outside the components.
    """

    values: Array  # descending
    vectors: Array  # (d, m), orthonormal
    whole: bool
    ceiling: float  # ≥ λ_max((I − P)S(I − P)), up to RISK; not used if whole
    lowest: float  # no eigenvalue lies below, up to RISK
    seen: float  # the smallest variance of a direction seen
    risk: float = 0.0  # that what is stated here is wrong
    away: float = 0.0  # ‖S − W‖ at most, where another matrix W was decomposed (kept_moments.py)

    def slack(self, facts: Around) -> float:
        """Bound how far the error of C and the least error, both found of W, are from those of S, together.

        With B = I − CᵀC they are tr(BSB) and the least tr(PS) over projections P of rank d − k: off by ‖B²‖·‖S − W‖ and
        √(d − k)·‖S − W‖ at most.
        """
        G, (k, d) = facts.gram, facts.C.shape
        B = math.sqrt(max(d - 2 * float(np.trace(G)) + float(np.sum(G * G)), 0.0))
        longest = max(1.0, float(np.linalg.norm(G - np.eye(k))))
        return (longest * B + math.sqrt(max(d - k, 0))) * self.away


def _cost_of_spectrum(fit: Fit) -> float:
    """d³ to solve S, or the products of Lanczos."""
    d, k = fit.data.shape[1], len(fit.components_)
    if d <= DENSE:
        return EIGH * float(d) ** 3
    products = 2 * float(fit.data.size) * (PRODUCTS + 2 * k / PER_PASS)
    return products + float(d) * (2 * PRODUCTS**2 + 4 * k * PRODUCTS)


@fact(cost=_cost_of_spectrum, needs=(whole_scatter,))
def spectrum(fit: Fit) -> Spectrum:
    """Find the eigenvalues of S; claims that compare them with the components need `around` too."""
    if fit.data.shape[1] <= DENSE:
        return whole_spectrum(whole_scatter(fit))
    return leading_spectrum(scaled_rows(fit).product, around(fit))


@fact(
    cost=lambda fit: 0.0 if fit.data.shape[1] <= DENSE else _cost_of_around(fit), needs=(spectrum,)
)
def both(fit: Fit) -> tuple[Around, Spectrum]:
    """Find the spectrum and what the components see of it, S first: then the rows need not be multiplied with them.

    Raises CannotTell where the data does not vary.
    """
    found = spectrum(fit)
    return variation(fit), found


def whole_spectrum(S: Array) -> Spectrum:
    """All eigenvalues of a symmetric matrix."""
    values, vectors = scipy.linalg.eigh(S, driver="evd", check_finite=False)
    lowest = float(values[0])
    return Spectrum(values[::-1], vectors[:, ::-1], True, math.nan, lowest, lowest)


def leading_spectrum(
    product: Callable[[Array], Array], facts: Around, positive: bool = True
) -> Spectrum:
    """The eigenvalues of S in the components and where S leads from them, and a ceiling of the others, from products S V.

    positive : whether S is known to be positive semidefinite
    """
    Q, _ = np.linalg.qr(facts.C.T)
    SQ = product(Q)

    def times(v: Array) -> Array:
        v = product((v - Q @ (Q.T @ v))[:, None])[:, 0]
        return v - Q @ (Q.T @ v)

    top = largest_eigenvalue(times, len(Q), most=PRODUCTS)
    more = np.column_stack([SQ, top.vector])  # type: ignore[list-item]
    for _ in range(2):  # once leaves a rounding error of the size of what was removed
        more, _ = np.linalg.qr(more - Q @ (Q.T @ more))
    basis = np.column_stack([Q, more])[:, : len(Q)]
    M = basis.T @ np.column_stack([SQ, product(more)])[:, : len(Q)]
    values, turn = scipy.linalg.eigh((M + M.T) / 2)
    missed = top.largest_excess(positive)
    lowest = 0.0 if positive else top.lowest - missed
    ceiling, seen = top.value + missed + facts.noise, min(top.lowest, float(values[0]))
    return Spectrum(values[::-1], basis @ turn[:, ::-1], False, ceiling, lowest, seen, 2 * RISK)
