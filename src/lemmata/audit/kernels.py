"""What theory promises about kernel PCA, checked on the data by plain code.

Everything is recomputed in float64 from the rows and the public attributes: `eigenvectors_` α (n × k), `eigenvalues_` λ,
`X_fit_` and the kernel's parameters. The kernel matrix comes from scikit-learn's `pairwise_kernels`, some rows at a time, so
the claims certify scikit-learn's KernelPCA with any kernel it has as well as ours, and share no code with a solver.

With weights w, p = w/Σw, D = diag(w) and K̃ = (I − 1pᵀ) K (I − p1ᵀ) the promises are: D K̃ α = λ α; the coordinates
z = K̃ α/√λ have mean 0 and scatter diag(λ); what they leave out is tr(DK̃) − Σλ.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.metrics.pairwise import pairwise_kernels

from lemmata.audit.subspaces import ANGLE
from lemmata.core.certificate import (
    RULE_OF_THUMB,
    Evidence,
    Fit,
    at_least,
    at_most,
    claim,
    passes,
    rounding,
    unknown,
)
from lemmata.predict.kernels import too_large

Array = np.ndarray
ROWS = 512  # of the kernel matrix at once
DENSE = 300  # rows up to which LAPACK finds what the subspace left out; beyond it ARPACK finds
TAIL = 20  # axes of it
SAMPLE = 300  # rows whose kernel matrix is tested for being positive semidefinite
FEW = 10  # rows below which no effective rank tells anything
CLEAR = 100  # an eigenvalue this many times its rounding has coordinates good to a percent


class Gram:
    """κ between two sets of rows, as a fitted model's parameters define it."""

    def __init__(self, fit: Fit, rows: Any, columns: Any):
        self.kernel, self.fit = fit.kernel, fit
        # the rows are those of K
        self.given = isinstance(self.kernel, str) and self.kernel == "precomputed"
        self.rows, self.columns = _float64(rows), _float64(columns)
        if self.kernel == "rbf" and not sp.issparse(rows) and not sp.issparse(columns):
            # distances stay as they are, and far from 0 they keep their digits
            centre = self.columns.mean(axis=0)
            self.rows, self.columns = self.rows - centre, self.columns - centre

    def __call__(self, i: Any) -> Array:
        """Rows i of the kernel matrix."""
        rows = self.rows[i]
        if self.given:
            return rows
        if isinstance(self.kernel, str):
            given = {name: getattr(self.fit, name) for name in ("degree", "coef0")} | {
                "gamma": self.fit.gamma_
            }
            metric = "poly" if self.kernel == "polynomial" else self.kernel
            return pairwise_kernels(rows, self.columns, metric=metric, filter_params=True, **given)
        if self.fit.has("kernel_"):  # one of our kernel objects: it is its own definition
            return np.asarray(self.fit.kernel_(rows, self.columns))
        return pairwise_kernels(
            rows, self.columns, metric=self.kernel, **(self.fit.kernel_params or {})
        )

    def blocks(self):
        for start in range(0, self.rows.shape[0], ROWS):
            here = slice(start, min(start + ROWS, self.rows.shape[0]))
            yield here, self(here)

    def __matmul__(self, V: Array) -> Array:
        return np.concatenate([K @ V for _, K in self.blocks()])


@dataclass(frozen=True)
class Audit:
    """The facts that the claims compare, from one pass over the kernel matrix. Components with λ = 0 are left out."""

    gram: Gram
    weights: Array  # (n,)
    values: Array  # (k,) the λ > 0 that the model states
    alpha: Array  # (n, k)
    K_alpha: Array  # (n, k) K̃ α
    means: Array  # (n,) Kp
    diagonal: Array  # (n,) K̃_ii = ‖φ(x_i) − φ̄‖²
    total: float  # tr(DK̃)
    squares: float  # ‖D^½ K̃ D^½‖²_F
    noise: float  # what rounding puts into an eigenvalue

    @property
    def p(self) -> Array:
        return self.weights / self.weights.sum()

    @property
    def coordinates(self) -> Array:
        return self.K_alpha / np.sqrt(self.values)


def audit(fit: Fit) -> Audit | str:
    """The facts about a fit, computed once per certificate, or why they cannot be had."""
    if "audit" not in fit.memory:
        fit.memory["audit"] = _audit(fit)
    return fit.memory["audit"]


def _audit(fit: Fit) -> Audit | str:
    if fit.data is None:
        return "there is no data to check it on"
    rows, alpha = _whole(fit.data), np.asarray(fit.eigenvectors_, dtype=np.float64)
    if rows.shape[0] != len(alpha):
        return f"the fit was to {len(alpha):,} rows and these are {rows.shape[0]:,}: pass the training data"
    values = np.asarray(fit.eigenvalues_, dtype=np.float64)
    if not np.any(values > 0):
        return "no eigenvalue is above zero"
    alpha, values, gram, n = (
        alpha[:, values > 0],
        values[values > 0],
        Gram(fit, rows, rows),
        len(alpha),
    )
    weights = np.ones(n) if fit.weights is None else np.asarray(fit.weights, dtype=np.float64)
    p = weights / weights.sum()
    products, diagonal, squares = np.empty((n, len(values) + 1)), np.empty(n), 0.0
    for here, K in gram.blocks():
        products[here] = K @ np.column_stack([alpha, p])
        diagonal[here] = K[np.arange(len(K)), np.arange(here.start, here.stop)]
        squares += weights[here] @ (K * K) @ weights
    means, middle = products[:, -1], float(p @ products[:, -1])
    dtype, largest = np.asarray(fit.eigenvectors_).dtype, np.abs(weights * diagonal).max()
    return Audit(
        gram=gram,
        weights=weights,
        values=values,
        alpha=alpha,
        K_alpha=_centred(products[:, :-1], means, p @ products[:, :-1], middle, alpha),
        means=means,
        diagonal=diagonal - 2 * means + middle,
        total=float(weights @ (diagonal - 2 * means + middle)),
        squares=squares - 2 * weights.sum() * (weights @ means**2) + (weights.sum() * middle) ** 2,
        # LAPACK errs by √n·eps·λ₁; an error in one row's products reaches all its entries of K, hence n and not √n here
        noise=rounding(dtype, n) * values.max() + n * _entry_error(gram, dtype) * largest,
    )


def _entry_error(gram: Gram, dtype: Any, kernel: Any = None) -> float:
    """By how many κ(x, x) an entry of K may err: the rounding of a d-term product, times what the kernel makes of it."""
    if gram.given:
        return rounding(dtype)
    kernel = (
        (gram.fit.kernel_ if gram.fit.has("kernel_") else gram.kernel) if kernel is None else kernel
    )
    if hasattr(kernel, "left"):
        return _entry_error(gram, dtype, kernel.left) + _entry_error(gram, dtype, kernel.right)
    name, d = kernel if isinstance(kernel, str) else type(kernel).__name__, gram.columns.shape[1]
    # −γ‖x − y‖² is a float64 sum of terms of size γ‖x‖², for float32 rows too
    if name in (
        "rbf",
        "RBF",
    ):
        square = np.max(
            _squares(gram.rows if sp.issparse(gram.rows) else gram.rows - gram.rows.mean(axis=0))
        )
        return rounding(dtype, d) + 4 * getattr(kernel, "gamma", gram.fit.gamma_) * float(
            square
        ) * rounding(np.float64, d)
    if name in ("poly", "polynomial", "Polynomial"):
        return float(getattr(kernel, "degree", gram.fit.degree)) * rounding(dtype, d)
    return rounding(dtype, d)


def _squares(rows: Any) -> Array:
    return (
        np.asarray(rows.multiply(rows).sum(axis=1))
        if sp.issparse(rows)
        else np.einsum("ij,ij->i", rows, rows)
    )


def _centred(product: Array, row_means: Array, inner: Array, middle: float, V: Array) -> Array:
    """(K − r1ᵀ − 1mᵀ + middle·11ᵀ) V from KV: r the row means, inner = mᵀV the column means times V."""
    sums = V.sum(axis=0)
    return product - np.outer(row_means, sums) - inner + middle * sums


def _whole(data: Any) -> Any:
    """All rows in memory."""
    if data.in_memory:
        return data.source
    parts = [rows for rows, _ in data]
    return sp.vstack(parts).tocsr() if sp.issparse(parts[0]) else np.concatenate(parts)


def _float64(X: Any) -> Any:
    return sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)


def audited(check: Callable[[Fit, Audit], Evidence]) -> Callable[[Fit], Evidence]:
    """A claim that compares facts of the audit; it can't tell where there is none."""

    @functools.wraps(check)
    def with_facts(fit: Fit) -> Evidence:
        facts = audit(fit)
        return unknown(facts) if isinstance(facts, str) else check(fit, facts)

    return with_facts


# --- claims -----------------------------------------------------------------------------------------------------------


@claim(
    "each coefficient vector is an eigenvector of the centred kernel matrix",
    kind=RULE_OF_THUMB,
    source="CIL 1.4.3",
)
@audited
def principal_axes(fit, facts):
    counted = facts.weights > 0
    root = np.sqrt(facts.weights[counted])[:, None]
    residuals = root * facts.K_alpha[counted] - facts.values * facts.alpha[counted] / root
    worst = np.linalg.norm(residuals, axis=0).max() / facts.values.max()
    advice = "not converged, turned within their subspace, or of other data: use eigen_solver='dense', lower tol, fit anew"
    bound = max(facts.noise / facts.values.max(), float(fit.tol))
    return at_most(worst, bound, unit="|DK̃α − λα| / λ₁", advice=advice)


@claim(
    "the coordinates are centred and uncorrelated with variances λ/n",
    kind=RULE_OF_THUMB,
    source="CIL 1.4.2",
)
@audited
def uncorrelated(fit, facts):
    """[1/√n, Z/√λ] has orthonormal columns, Z being what the model's own X_fit_ gives for the rows."""
    clear = facts.values > CLEAR * facts.noise
    if not clear.any():
        return unknown("every eigenvalue is near rounding")
    Z = _coordinates(fit, facts)[:, clear] / np.sqrt(facts.values[clear])
    basis = (
        np.column_stack([np.full(len(Z), 1 / np.sqrt(facts.weights.sum())), Z])
        * np.sqrt(facts.weights)[:, None]
    )
    error = np.abs(basis.T @ basis - np.eye(basis.shape[1])).max()
    # z errs by noise/√λ, so an entry of ZᵀZ/λ by 2·noise/λ; the tolerance of an iterative solver acts the same way
    bound = 2 * (facts.noise + float(fit.tol) * facts.values.max()) / facts.values[clear].min()
    advice = "the embedding is not that of these rows: X_fit_, eigenvectors_ or eigenvalues_ do not belong together; fit anew"
    return at_most(error, bound, unit="|corr − I|", advice=advice)


def _coordinates(fit: Fit, facts: Audit) -> Array:
    """Where `transform` puts the rows: from X_fit_, which is the data unless somebody changed it."""
    rows, basis = _whole(fit.data), fit.X_fit_
    if facts.gram.given or (rows.shape == basis.shape and _equal(rows, basis)):
        return facts.coordinates
    if basis.shape[0] != len(facts.alpha):
        return np.full(facts.alpha.shape, np.inf)
    V = np.column_stack([facts.alpha, facts.p])
    inside = Gram(fit, basis, basis) @ V
    across = Gram(fit, rows, basis) @ V
    product = _centred(
        across[:, :-1],
        across[:, -1],
        inside[:, -1] @ facts.alpha,
        facts.p @ inside[:, -1],
        facts.alpha,
    )
    return product / np.sqrt(facts.values)


def _equal(A: Any, B: Any) -> bool:
    if sp.issparse(A) or sp.issparse(B):
        return abs(sp.csr_array(A) - sp.csr_array(B)).sum() == 0
    return bool(np.array_equal(A, B))


@claim(
    "the error in feature space is the tail of the spectrum",
    kind=RULE_OF_THUMB,
    source="CIL Prop. 1.4.1",
)
@audited
def error_is_spectral_tail(fit, facts):
    """The projection onto span{Φ̃ᵀα} captures tr(G⁻¹ VᵀV), G = αᵀK̃α and V = D^½K̃α: no orthonormality is assumed."""
    if facts.total <= facts.noise:
        return unknown("the centred kernel matrix is zero to rounding")
    scaled = facts.alpha / np.sqrt(facts.values)
    V = np.sqrt(facts.weights)[:, None] * facts.coordinates
    captured = np.trace(
        np.linalg.lstsq(scaled.T @ facts.K_alpha / np.sqrt(facts.values), V.T @ V, rcond=None)[0]
    )
    gap = abs(captured - facts.values.sum()) / facts.total
    # with K̃α = λα + e an axis captures |K̃α|²/λ = λ + 2αᵀe + |e|²/λ
    error = np.sum(2 * facts.noise + facts.noise**2 / facts.values)
    bound = max(error / facts.total, float(fit.tol))
    return at_most(
        gap,
        bound,
        unit="|error − tail| / total",
        advice="eigenvalues_ are not those of this data: fit anew",
    )


@claim("every kept eigenvalue stands above rounding", kind=RULE_OF_THUMB, source="CIL Thm 1.4.7")
@audited
def above_rounding(fit, facts):
    values = np.asarray(fit.eigenvalues_, dtype=np.float64)
    good = int(np.sum(values > facts.noise))
    advice = f"keep n_components <= {good}; or use float64, centre the columns, or raise a very small gamma"
    return at_least(values.min(), facts.noise, unit="smallest λ", advice=advice)


@claim("rows resemble others, not themselves alone", kind=RULE_OF_THUMB, source="ML Kernels")
@audited
def informative(fit, facts):
    """The effective rank (Σλ)²/Σλ² of K̃. It is n − 1 where K is the identity; a kernel that generalises stays far below."""
    n = int(np.sum(facts.weights > 0))
    if n < FEW or facts.total <= facts.noise or facts.squares <= 0:
        return unknown(f"needs {FEW} rows that differ")
    hint = _median_gamma(fit, facts)
    advice = (
        f"K is close to the identity: lower gamma (one over the median squared distance is {hint:.2g})"
        if hint is not None
        else "the rows are nearly orthogonal in feature space: choose another kernel, or scale the columns"
    )
    return at_most(
        facts.total**2 / facts.squares, (n - 1) / 2, unit="effective rank", advice=advice
    )


def _median_gamma(fit: Fit, facts: Audit) -> float | None:
    """1 / median ‖x − y‖² over a sample of rows, for kernels that have a γ of distances."""
    if not (fit.kernel == "rbf" or type(fit.kernel).__name__ == "RBF"):
        return None
    rows = facts.gram.rows[_spread(len(facts.weights), SAMPLE)]
    rows = rows.toarray() if sp.issparse(rows) else rows
    square = _squares(rows)
    distances = (square[:, None] + square - 2 * rows @ rows.T)[np.triu_indices(len(rows), 1)]
    middle = float(np.median(distances))
    return 1 / middle if middle > 0 else None


@claim("the sample determines the subspace", kind=RULE_OF_THUMB, source="CIL 1.4.2", cost=passes())
@audited
def subspace_determined(fit, facts):
    """The angle that sampling alone puts between this subspace and that of the law the rows came from.

    To first order axis i leaves the subspace along axis j by ⟨u_i, (Ĉ − C)u_j⟩/(λ_i − λ_j), whose variance over samples of n
    rows is E[z_i²z_j²]/(n (λ_i − λ_j)²). The sum over i ≤ k < j is E‖sin Θ‖²; it explodes as the gap λ_k − λ_{k+1} closes.
    Axes beyond the first TAIL left out count as if their eigenvalues stood at the last of these.
    """
    n, k, total = len(facts.weights), len(facts.values), facts.weights.sum()
    if facts.total - facts.values.sum() <= n * facts.noise:
        return at_most(
            0.0,
            ANGLE,
            unit="expected angle°",
            note="all directions are kept, nothing is left to determine",
        )
    why = too_large(n, itemsize=8)
    if why:
        return unknown(why)
    values, tail = _left_out(facts)
    following = values[0] if len(values) else 0.0
    lost = facts.diagonal - np.sum(facts.coordinates**2, axis=1) - np.sum(tail**2, axis=1)
    lost[lost <= rounding(np.float64, n) * np.abs(facts.diagonal).max()] = 0
    outside = np.column_stack([tail**2, lost])
    moments = (facts.coordinates**2 * facts.p[:, None]).T @ outside  # (k, j) E[z_i² z_j²]
    gaps = (facts.values[:, None] - np.append(values, values[-1:] if len(values) else 0.0)) / total
    with np.errstate(divide="ignore", invalid="ignore"):
        # Σp²: 1/n
        turn = np.where(moments > 0, moments / np.maximum(gaps, 0) ** 2, 0).sum() * np.sum(
            facts.p**2
        )
    angle = np.degrees(np.arcsin(min(np.sqrt(turn), 1.0)))
    advice = (
        f"λ_{k} = {facts.values.min():.3g} and λ_{k + 1} = {following:.3g} are too close for {n:,} rows: "
        + (
            "a larger eigenvalue was left out; use eigen_solver='dense'"
            if following > facts.values.min() + facts.noise
            else "choose n_components at a larger gap, or do not read the axes"
        )
    )
    return at_most(
        angle, ANGLE, unit="expected angle°", advice=advice, note="an expectation, to first order"
    )


def _left_out(facts: Audit) -> tuple[Array, Array]:
    """The largest eigenvalues of D^½K̃D^½ outside the model's subspace, and the coordinates of the rows on their axes."""
    n, root = len(facts.weights), np.sqrt(facts.weights)[:, None]
    basis, _ = np.linalg.qr(_divided(facts.alpha, root))
    K = np.empty((n, n))
    for here, rows in facts.gram.blocks():
        K[here] = rows

    def product(V: Array) -> Array:
        V = V.reshape(n, -1)
        V = V - basis @ (basis.T @ V)
        U = K @ (root * V - np.outer(facts.p, np.sum(root * V, axis=0)))  # K (I − p1ᵀ) D^½ V
        U = root * (U - facts.p @ U)
        return U - basis @ (basis.T @ U)

    count = min(TAIL, n - basis.shape[1])
    if n <= DENSE or count >= n - 1:
        M = product(np.eye(n))
        values, vectors = scipy.linalg.eigh((M + M.T) / 2)
        values, vectors = (
            values[::-1][: n - basis.shape[1]],
            vectors[:, ::-1][:, : n - basis.shape[1]],
        )
    else:
        operator = LinearOperator((n, n), matvec=product, matmat=product, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(n)
        values, vectors = eigsh(operator, count, which="LA", v0=start, tol=1e-4)
        values, vectors = values[::-1], vectors[:, ::-1]
    values = np.maximum(values, 0)
    return values, _divided(vectors, root) * np.sqrt(values)


def _divided(V: Array, root: Array) -> Array:
    """D^−½ V; rows that do not count are 0."""
    return np.divide(V, root, out=np.zeros_like(V), where=root > 0)


@claim(
    "the kernel matrix is positive semidefinite",
    kind=RULE_OF_THUMB,
    source="ML Mercer",
    cost=passes(),
)
@audited
def positive_semidefinite(fit, facts):
    """No inner product gives a negative eigenvalue. On a sample of rows: principal blocks of a psd matrix are psd."""
    sample = _spread(len(facts.weights), SAMPLE)
    values = np.linalg.eigvalsh(np.asarray(facts.gram(sample))[:, sample])
    worst = values[0] / max(np.abs(values).max(), np.finfo(float).tiny)
    terms = len(sample) * facts.gram.columns.shape[1]
    note = f"on {len(sample):,} of the rows" if len(sample) < len(facts.weights) else ""
    advice = "distances in feature space can be negative: use another kernel (poly: coef0 >= 0; not sigmoid)"
    return at_least(
        worst, -rounding(np.float64, terms), unit="λ_min / |λ|_max", advice=advice, note=note
    )


def _spread(n: int, most: int) -> Array:
    """Up to `most` row numbers, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


KERNEL_CLAIMS = (
    principal_axes,
    uncorrelated,
    error_is_spectral_tail,
    above_rounding,
    informative,
    subspace_determined,
    positive_semidefinite,
)
