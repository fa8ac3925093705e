"""Claims about kernel PCA, checked on the data by plain code.

Everything is recomputed in float64 from the rows and the public attributes: `eigenvectors_` α (n × k), `eigenvalues_` λ,
`X_fit_` and the kernel's parameters; kernel_matrices.py says what a kernel is. So the claims certify scikit-learn's KernelPCA
with any kernel it has as well as ours.

With weights w, p = w/Σw, D = diag(w) and K̃ = (I − 1pᵀ) K (I − p1ᵀ) the promises are: D K̃ α = λ α; the coordinates
z = K̃ α/√λ have mean 0 and scatter diag(λ); what they leave out is the least that k directions can leave out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.predict.kernels import kernel_matrices
from lemmata.audit.predict.kernels.grams import (
    cost_of_entry,
    difference,
    gamma_of,
    kernel_by_rules,
    kernel_used,
)
from lemmata.audit.predict.rows import refuse_other_rows, whole
from lemmata.audit.reduction.principal_axes import compare_axes, compare_error
from lemmata.audit.reduction.sampling_error import GROUPS, LEVEL, Turn, judge_turn, stretches, turn
from lemmata.audit.reduction.spectra import EIGH, Spectrum, squares

Array = np.ndarray
SAMPLE = 300  # rows whose kernel matrix is tested for being positive semidefinite
HINT = 100  # rows whose distances a better γ is read off
FEW = 10  # rows below which no effective rank tells anything
CLEAR = 100  # an eigenvalue this many times its rounding has coordinates good to a percent
CORRELATION = 0.01
ROWS, VECTORS = (
    200,
    50,
)  # that are tried as eigenvectors: a tenth of the kernel matrix of 2,000 rows
DIGITS = 1e-4  # stated numbers are true to four digits


# --- what the attributes have to be -----------------------------------------------------------------------------------


def _disagreements(fit: claims.Fit) -> Iterator[str]:
    rows = fit.get("X_fit_")
    if rows is None or getattr(rows, "ndim", 0) != 2 or rows.shape[0] != len(fit.eigenvectors_):
        yield f"X_fit_ does not have the {len(fit.eigenvectors_):,} rows of eigenvectors_"
    elif not np.isfinite((rows.data if sp.issparse(rows) else np.asarray(rows)).sum()):
        yield "X_fit_ has numbers that are not finite"


SOUND = attributes_sound(
    {
        "eigenvalues_": "k >=0 falling",
        "eigenvectors_": "n k",
        "gamma_?": ">=0",
        "offset_?": "k",
        "X_transformed_fit_?": "n k",
        "dual_coef_?": "n d",
    },
    _disagreements,
)


def _statements(fit: claims.Fit) -> Mapping[str, float]:
    """Each stated number against its definition.

    eigenvalues_ : the Rayleigh quotients of the eigenvectors
    eigenvectors_ : of unit length, αᵀD⁻¹α = 1
    offset_ (ours) : (Kp)ᵀα/√λ, what centring takes off a new row
    X_fit_ : the rows
    gamma_, kernel_ : the number asked for, 1/d, or 1/(d·Var X); the kernel of that name
    X_transformed_fit_, dual_coef_ : the coordinates of the rows, and the ridge regression of the rows on them
    """
    rows = whole(fit.data)
    found = {} if kernel_matrices.is_given(fit) else {"X_fit_": difference(fit.X_fit_, rows)}
    found |= kernel_used(fit)
    if fit.get("gamma_") is not None:
        found["gamma_"] = discrepancy(fit.gamma_, _gamma(fit, rows), abs(float(fit.gamma_)), 1e-6)
    try:
        known = kernel_matrices.facts(fit)
    except claims.CannotTell:
        if rows.shape[0] != len(fit.eigenvectors_):
            found["eigenvectors_"] = np.inf
        return found
    lengths = np.einsum("ij,ij->i", known.around.C, known.around.C)
    found["eigenvectors_"] = discrepancy(np.sqrt(lengths), np.ones(len(lengths)), 1.0, DIGITS)
    true = np.diagonal(known.around.inner) / lengths
    error = DIGITS * np.abs(true) + known.noise
    found["eigenvalues_"] = discrepancy(known.values, true, error, 1.0)
    if fit.get("offset_") is not None:
        stated = np.asarray(fit.offset_, dtype=np.float64)[np.asarray(fit.eigenvalues_) > 0]
        alpha = np.sqrt(known.weights)[:, None] * known.vectors
        true = known.means @ alpha / np.sqrt(known.values)
        sizes = np.abs(known.means) @ np.abs(alpha) / np.sqrt(known.values)
        # entries of K err by √d terms each, their means by √n more
        own = claims.rounding(fit.offset_.dtype, rows.shape[0] * rows.shape[1])
        error = DIGITS * np.abs(true) + own * sizes
        found["offset_"] = discrepancy(stated / np.sqrt(known.unit), true, error, 1.0)
    if fit.get("dual_coef_") is not None:
        found |= _preimages(fit, known, rows)
    return found


def _gamma(fit: claims.Fit, rows: Any) -> float:
    named = isinstance(fit.kernel, str)
    asked = fit.get("gamma") if named else getattr(fit.get("kernel_"), "gamma", fit.get("gamma"))
    if named and fit.kernel == "linear" and asked == "scale":
        asked = "auto"
    return gamma_of(asked, rows)


def _preimages(fit: claims.Fit, known: kernel_matrices.Facts, rows: Any) -> dict[str, float]:
    """The ridge Σ w‖x − k(z)ᵀC‖² + α tr(CᵀKC), K the kernel of the coordinates z: what it gives back for the rows, KC.

    C = D^½(D^½KD^½ + αI)⁻¹D^½X; compared where K shows it, since its small eigenvalues leave C itself open.
    """
    Z, C = (np.asarray(x, np.float64) for x in (fit.X_transformed_fit_, fit.dual_coef_))
    kept = np.asarray(fit.eigenvalues_) > 0
    true = known.coordinates * np.sqrt(known.unit)
    slack = DIGITS * np.abs(true).max() + np.sqrt(known.unit) * known.noise / np.sqrt(known.values)
    found = {"X_transformed_fit_": discrepancy(Z[:, kept], true, slack, 1.0)}
    K, X = kernel_matrices.kernel_matrix(fit, Z, Z), np.asarray(rows, dtype=np.float64)
    root = np.sqrt(known.weights * known.heaviest)[:, None]
    values, V = np.linalg.eigh(root * K * root.T)
    own = claims.rounding(fit.dual_coef_.dtype, len(K))
    clear = values + fit.alpha > own * values[-1]
    V = V[:, clear] / (values[clear] + fit.alpha) @ (V[:, clear].T @ (root * X))
    given, expected = K @ C, K @ (root * V)
    slack = DIGITS * np.abs(X).max() + own * float(values[-1]) * float(np.abs(C).max())
    found["dual_coef_"] = discrepancy(given, expected, slack, 1.0)
    return found


TRUE = statements_true(_statements, needs=(kernel_matrices.facts,))


# --- claims -----------------------------------------------------------------------------------------------------------


def _cost_of_rows(fit: claims.Fit) -> float:
    (n, d), k = fit.data.shape, len(fit.eigenvalues_)
    if n <= min(kernel_matrices.DENSE, kernel_matrices.MOST):  # what other claims need as well
        return claims.price_of(fit, claims.free, (kernel_matrices.facts,))
    return float(min(n, ROWS)) * n * cost_of_entry(d + min(k, VECTORS))


@claims.proved(
    "up to 50 vectors are eigenvectors of the centred kernel matrix to 1 %, on up to 200 of its rows",
    "CIL 1.4.3",
    cost=_cost_of_rows,
)
def eigenvectors_solved(fit):
    """The root mean square of √w(Kα − c) − λα/√w over rows drawn at random, relative to that of λα/√w over all rows.

    K̃α = Kα − c, one number c for all rows where 1ᵀα = 0: the one that fits best, so that no row of K but these is needed.
    Whether these eigenvectors are the leading ones is for `most_variance` and `principal_axes`.
    """
    rows, n = whole(fit.data), fit.data.shape[0]
    values, alpha = (np.asarray(x, np.float64) for x in (fit.eigenvalues_, fit.eigenvectors_))
    refuse_other_rows(len(alpha), n)
    if not (values > 0).any():
        return claims.unknown("no eigenvalue is above zero")
    kept = np.flatnonzero(values > 0)
    kept = kept[_spread(len(kept), VECTORS)]
    w = np.ones(n) if fit.weights is None else np.asarray(fit.weights, dtype=np.float64)
    root, values = np.sqrt(w), values[kept]
    a = kernel_matrices.divide(alpha[:, kept], root[:, None])
    alpha = alpha[:, kept] - np.outer(w / w.sum(), alpha[:, kept].sum(axis=0))
    drawn = np.sort(np.random.default_rng(0).choice(n, min(n, ROWS), replace=False))
    if n <= min(kernel_matrices.DENSE, kernel_matrices.MOST):
        K = kernel_matrices.facts(fit).kernel[drawn]
    else:
        K = np.asarray(kernel_matrices.kernel_matrix(fit, rows[drawn], rows), dtype=np.float64)
    own = np.abs(K[np.arange(len(drawn)), drawn])
    unit = kernel_matrices.unit_of(float(own.max()))
    heavy, values = root[drawn, None], values / unit
    off = heavy * ((K / unit) @ alpha) - values * a[drawn]
    off -= heavy * ((heavy * off).sum(axis=0) / np.square(heavy).sum())
    sizes = values * np.sqrt(np.mean(np.square(a), axis=0))
    share = np.sqrt(np.mean(np.square(off), axis=0)) / np.maximum(sizes, np.finfo(float).tiny)
    dtype = max((fit.eigenvectors_.dtype, fit.data.dtype), key=lambda one: np.finfo(one).eps)
    noise = claims.rounding(dtype, n) * float(values.max())
    noise += (
        n * kernel_matrices.entry_error(fit, rows, dtype) * float((w[drawn] * own).max()) / unit
    )
    clear = values > CLEAR * noise
    if not clear.any():
        return claims.unknown("every eigenvalue is near rounding")
    advice = "the solver has not converged, or this is another kernel: lower tol, or use eigen_solver='dense'"
    return claims.at_most(float(share[clear].max()), CORRELATION, advice, "residual / λ")


@claims.proved(
    "vector i is within 1° of the eigenvector i of the centred kernel matrix, for every i",
    "CIL 1.4.3; Davis & Kahan 1970",
    needs=(kernel_matrices.spectrum,),
)
def principal_axes(fit):
    return compare_axes(kernel_matrices.facts(fit).around, kernel_matrices.spectrum(fit))


@claims.proved(
    "the coordinates of the rows have mean 0, variances λ/n and no correlation, to 1 %",
    "CIL 1.4.2",
    needs=(kernel_matrices.facts,),
)
def uncorrelated(fit):
    """[1/√n, Z/√λ] has orthonormal columns, Z being what the model's own X_fit_ gives for the rows."""
    known = kernel_matrices.facts(fit)
    clear = known.values > CLEAR * known.noise
    if not clear.any():
        return claims.unknown("every eigenvalue is near rounding")
    Z = _coordinates(fit, known)[:, clear] / np.sqrt(known.values[clear])
    ones = np.full(len(Z), 1 / np.sqrt(known.weights.sum()))
    basis = np.column_stack([ones, Z]) * np.sqrt(known.weights)[:, None]
    error = float(np.abs(basis.T @ basis - np.eye(basis.shape[1])).max())
    advice = (
        "the embedding is not that of these rows: X_fit_, eigenvectors_ or eigenvalues_ do not belong together, or the solver "
        "has not converged; lower tol, or fit again"
    )
    return claims.at_most(error, CORRELATION, unit="|corr − I|", advice=advice)


def _coordinates(fit: claims.Fit, known: kernel_matrices.Facts) -> Array:
    """The coordinates that `transform` gives the rows: from X_fit_, which is the data unless it was changed."""
    rows, basis = whole(fit.data), fit.X_fit_
    if kernel_matrices.is_given(fit) or difference(basis, rows) <= 1:
        return known.coordinates
    alpha = np.sqrt(known.weights)[:, None] * known.vectors
    inside = kernel_matrices.kernel_matrix(fit, basis, basis) / known.unit @ known.p
    across = kernel_matrices.kernel_matrix(fit, rows, basis) / known.unit
    centred = across - (across @ known.p)[:, None] - inside + known.p @ inside
    return centred @ alpha / np.sqrt(known.values)


@claims.proved(
    "its error in feature space is within 1 % of the least that so many directions have",
    "CIL Prop. 1.4.1, Thm 1.4.4",
    needs=(kernel_matrices.spectrum,),
)
def most_variance(fit):
    """The projection onto span{Φ̃ᵀα} captures tr(G⁻¹ VᵀV), G = aᵀMa and V = Ma: no orthonormality is assumed."""
    known = kernel_matrices.facts(fit)
    if known.around.total <= known.own_noise:
        return claims.unknown("the centred kernel matrix is zero to rounding")
    if kernel_matrices.spectrum(fit).seen < -len(known.M) * known.own_noise:
        return claims.unknown("the kernel matrix is not semidefinite: there is no feature space")
    scaled = known.vectors / np.sqrt(known.values)
    V = known.around.SC / np.sqrt(known.values)
    captured = float(np.trace(np.linalg.lstsq(scaled.T @ V, V.T @ V, rcond=None)[0]))
    return compare_error(known.around.total - captured, known.around, kernel_matrices.spectrum(fit))


@claims.rule_of_thumb(
    "every kept eigenvalue is above rounding error", "CIL Thm 1.4.7", needs=(kernel_matrices.facts,)
)
def above_rounding(fit):
    known = kernel_matrices.facts(fit)
    values = np.asarray(fit.eigenvalues_, dtype=np.float64) / known.unit / known.heaviest
    good = int(np.sum(values > known.noise))
    advice = f"keep n_components <= {good}; or use float64, centre the columns, or raise a very small gamma"
    least, bound = values.min() / values.max(), known.noise / values.max()
    return claims.at_least(least, bound, advice, unit="smallest λ / λ₁")


@claims.rule_of_thumb(
    "the effective rank is at most half that of the identity: rows resemble others, not themselves alone",
    "ML Kernel trick",
    needs=(kernel_matrices.facts,),
)
def informative(fit):
    """The effective rank (Σλ)²/Σλ² of K̃. It is n − 1 where K is the identity; a kernel that generalises stays far below."""
    known = kernel_matrices.facts(fit)
    n, total = int(np.sum(known.weights > 0)), known.around.total
    size = float(np.einsum("ij,ij->", known.M, known.M))
    if n < FEW or total <= known.noise or size <= 0:
        return claims.unknown(f"needs {FEW} rows that differ")
    rank, most = total**2 / size, (n - 1) / 2
    advice = "" if rank <= most else _advise_kernel(fit)
    return claims.at_most(rank, most, advice, unit="effective rank")


def _advise_kernel(fit: claims.Fit) -> str:
    """Suggest γ = 1 / median ‖x − y‖² over a sample of rows, for kernels that have a γ of distances."""
    other = "the rows are nearly orthogonal in feature space: choose another kernel, or scale the columns"
    if "rbf" not in (fit.kernel, type(fit.kernel).__name__.lower()):
        return other
    rows = whole(fit.data)
    rows = rows[_spread(rows.shape[0], HINT)].astype(np.float64)
    rows = rows.toarray() if sp.issparse(rows) else rows - rows.mean(axis=0)
    square = squares(rows)
    distances = (square[:, None] + square - 2 * rows @ rows.T)[np.triu_indices(len(rows), 1)]
    middle = float(np.median(distances))
    hint = "lower gamma (one over the median squared distance is {:.2g})"
    return f"K is close to the identity: {hint.format(1 / middle)}" if middle > 0 else other


def _cost_of_turn(fit: claims.Fit) -> float:
    n, q = fit.data.shape[0], len(fit.eigenvalues_) + 1
    if n > kernel_matrices.MOST:
        return 0.0
    return float(GROUPS) * q * n * (n if n > kernel_matrices.DENSE else n / GROUPS)


@claims.statistical(
    "sampling turns the subspace by at most 30° on average",
    "CIL 1.4.2; Anderson 1963",
    confidence=LEVEL,
    cost=_cost_of_turn,
    needs=(kernel_matrices.spectrum,),
)
def subspace_determined(fit):
    """The angle that is expected between this subspace and that of the law the rows came from (see sampling_error.py)."""
    known = kernel_matrices.facts(fit)
    found, k, n = kernel_matrices.spectrum(fit), len(known.values), len(known.M)
    if len(found.values) <= k or found.values[k] <= n * known.own_noise:
        return claims.unknown("no variance is left outside: nothing tells how the subspace turns")
    if known.values[-1] <= CLEAR * known.noise:
        return claims.unknown("the last eigenvalue kept is near rounding")
    away = "the vectors are {:.0f}° away from the leading ones themselves: use eigen_solver='dense'"
    turn_of = partial(_sampling_turn, known, found, k)
    return judge_turn(fit, known.around, found, known.own_noise, turn_of, away)


def _sampling_turn(known: kernel_matrices.Facts, found: Spectrum, k: int, numbers: Array) -> Turn:
    """`turn` in feature space. Means over a group deviate by Φ̃ᵀt, t = (p restricted to the group and normed − p)∘z_i: along the
    known axes by their coordinates' products with t, beyond them by what is left of ‖Φ̃ᵀt‖² = tᵀK̃t."""
    total, root = known.weights.sum(), np.sqrt(known.weights)[:, None]
    count = len(found.values) if found.whole else k + 1
    values = np.maximum(found.values[:count], 0)
    # coordinates of the rows: z_j = √λ_j u_j/√w
    Z = kernel_matrices.divide(found.vectors[:, :count], root) * np.sqrt(values)
    q = min(k + 1, count)

    # the whole sample's means are taken off those of each group, whose rows are consecutive
    p = known.p
    weighted = p[:, None] * Z[:, :q]
    everywhere = Z.T @ weighted

    def deviations() -> Iterator[tuple[float, Array, Array]]:
        for start, stop in stretches(numbers):
            share = float(p[start:stop].sum())
            if share == 0:
                continue
            inside = Z[start:stop].T @ weighted[start:stop] / share - everywhere
            beyond = np.zeros(q)
            if not found.whole:
                T = -weighted
                T[start:stop] += weighted[start:stop] / share
                scaled = kernel_matrices.divide(T, root)
                norms = np.einsum("ij,ij->j", scaled, known.M @ scaled)
                beyond = np.maximum(norms - np.sum(inside**2, axis=0), 0)
            yield share, inside, beyond

    ceiling = None if found.whole else found.ceiling / total
    return turn(deviations(), values / total, k, known.own_noise / total, ceiling)


def _cost_of_sample(fit: claims.Fit) -> float:
    return 0.0 if kernel_by_rules(fit) else EIGH * float(min(fit.data.shape[0], SAMPLE)) ** 3


@claims.proved(
    "the kernel matrix of up to 300 rows is positive semidefinite",
    "ML Mercer's condition",
    cost=_cost_of_sample,
    needs=(kernel_matrices.facts,),
)
def positive_semidefinite(fit):
    """No inner product gives a negative eigenvalue, and principal blocks of a psd matrix are psd."""
    known, rows = kernel_matrices.facts(fit), whole(fit.data)
    if kernel_by_rules(fit):
        note = "by the rules that kernels are made by, for all inputs"
        return claims.at_least(0, 0, unit="λ_min / |λ|_max", note=note)
    sample, dtype = _spread(rows.shape[0], SAMPLE), np.dtype(np.float64)
    if kernel_matrices.is_given(fit):
        K, dtype = rows[np.ix_(sample, sample)], np.asarray(rows[:0]).dtype
    elif known.kernel is None:
        K = kernel_matrices.kernel_matrix(fit, rows[sample], rows[sample])
    else:
        K = known.kernel[np.ix_(sample, sample)]
    bound = -claims.rounding(dtype, len(sample) * rows.shape[1])
    least = _least_eigenvalue(np.asarray(K, dtype=np.float64) / known.unit, bound)
    note = f"{SAMPLE:,} of the rows" if len(known.M) > SAMPLE else ""
    advice = "distances in feature space can be negative: use another kernel (poly: coef0 >= 0; not sigmoid)"
    return claims.at_least(least, bound, advice, unit="λ_min / |λ|_max", note=note)


def _least_eigenvalue(K: Array, least: float) -> float:
    """λ_min over the largest |λ|, or a bound from below if that is above `least` already.

    Where K + sI = LLᵀ + E has a Cholesky factor, λ_min ≥ −s − ‖E‖: a tenth of the work of eigenvalues. |λ|_max ≥ max |K_ii|.
    """
    largest = float(np.abs(np.diagonal(K)).max())
    shifted = K.copy()
    np.fill_diagonal(shifted, np.diagonal(K) - least / 4 * largest)
    with suppress(np.linalg.LinAlgError):
        L = np.linalg.cholesky(shifted)
        bound = least / 4 - float(np.linalg.norm(shifted - L @ L.T)) / (largest or np.nan)
        if bound >= least:
            return bound
    values = np.linalg.eigvalsh(K)
    return float(values[0] / max(np.abs(values).max(), np.finfo(float).tiny))


def _spread(n: int, most: int) -> Array:
    """Up to `most` row numbers, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


_EIGENVALUES = (above_rounding, informative, subspace_determined, positive_semidefinite)
KERNEL_CLAIMS = (
    SOUND,
    TRUE,
    eigenvectors_solved,
    most_variance,
    principal_axes,
    uncorrelated,
    *_EIGENVALUES,
)
