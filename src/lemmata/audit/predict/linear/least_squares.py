"""Claims about least squares and ridge regression: the normal equations hold, and what they leave open.

    minimise  ½ Σ sᵢ (yᵢ − xᵢᵀw − b)²,          Xᵀ S r = 0 at the minimum          (the weighted means are taken off first)

Residuals that no column correlates with are the whole of optimality here. What the data leaves open is a matter of the columns:
directions v with Xv = 0 (to rounding) move w and not the predictions, and nearly so where the condition number is large. Both
are measured with columns scaled to length 1, since units are arbitrary. Rows that pull the fit by themselves are named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import discrepancy, statements_true
from lemmata.audit.kernel.duality_gap import Point, Risk
from lemmata.audit.predict.linear import chosen_penalty as chosen
from lemmata.audit.predict.linear import near_optimum as near
from lemmata.audit.predict.linear import objectives

Array = np.ndarray
LARGE_PART = 1e-3  # of the weights: where rounding alone may leave more than this, nothing is said of the shortest
EXPLAINED = 1e-3  # of the residuals of a constant prediction: the least that residuals count
CORRELATION = 1e-4  # a column that correlates so with the residuals explains 1e-8 of them
WIDEST = 2000  # columns that are decomposed
# numbers: larger tables are decomposed by their Gram matrix, which squares the condition number
IN_MEMORY = 2**22
CLEAR = 1e-3  # of the largest: a Gram matrix knows singular values above it to five digits, whatever rounding does
CONDITION = 100.0  # Belsley, Kuh & Welsch 1980: 30 to 100 is strong, beyond is severe collinearity
COOK = 1.0  # Cook 1977: such a row moves the weights to the edge of their 50 % confidence region
FAR = 4.0  # standard deviations: the residuals that are called outliers
PART = 0.1  # of an undetermined direction: columns with less are not named
problem = objectives.problem_of(objectives.least_squares_objective)


# --- facts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """The centred, weighted columns, scaled to length 1: singular values (falling), right vectors, lengths, means."""

    values: Array  # (q,)
    vectors: Array  # (d, d), one per column; the last ones belong to 0
    lengths: Array  # (d,) before scaling
    mean: Array
    precise: float  # singular values below this, of the largest, may be rounding

    @property
    def relative(self) -> Array:
        """All d of them, of the largest."""
        full = np.zeros(len(self.vectors))
        full[: len(self.values)] = self.values
        top = full.max(initial=0.0)
        return full / top if top > 0 else full


def _cost_of_columns(fit: k.Fit) -> float:
    n, d = fit.data.shape
    return math.inf if d > WIDEST else 3.0 * n * d * min(n, d) + 9.0 * min(n, d) ** 2 * d


@k.fact(cost=_cost_of_columns, needs=(problem,))
def columns_of(fit: k.Fit) -> Columns:
    risk, _ = problem(fit)
    (n, d), s = risk.rows.shape, risk.s[:, 0]
    mean = risk.rows.adjoint(s[:, None])[:, 0] / s.sum() if risk.free else np.zeros(d)
    if n * d <= IN_MEMORY and n <= d:
        return _decompose(risk, mean, fit.data.dtype)
    G = np.zeros((d, d))
    for here, rows in risk.rows.blocks():
        Z = (rows.toarray() if hasattr(rows, "toarray") else rows) - mean
        Z *= np.sqrt(s[here, None])
        G += Z.T @ Z
    lengths = _lengths(np.sqrt(np.diagonal(G)), mean, s)
    safe = np.where(lengths > 0, lengths, 1.0)
    squares, vectors = np.linalg.eigh(G / np.outer(safe, safe))
    values = np.sqrt(np.maximum(squares[::-1], 0.0))
    lost, least = math.sqrt(k.rounding(np.float64, n)), k.rounding(fit.data.dtype, n)
    if n * d <= IN_MEMORY and not values[-1] > CLEAR * values[0]:
        return _decompose(risk, mean, fit.data.dtype)
    return Columns(values, vectors[:, ::-1], lengths, mean, least if n * d <= IN_MEMORY else lost)


def _decompose(risk: Risk, mean: Array, dtype: Any) -> Columns:
    """The singular values of the rows themselves: those of their squares have lost half of the digits."""
    (n, d), s = risk.rows.shape, risk.s[:, 0]
    Z = (risk.rows.columns(np.arange(d)) - mean) * np.sqrt(s)[:, None]
    lengths = _lengths(np.linalg.norm(Z, axis=0), mean, s)
    Z /= np.where(lengths > 0, lengths, 1.0)
    Z = triangle_of(Z)
    values, vectors = np.linalg.svd(Z, full_matrices=n < d)[1:]
    return Columns(values, vectors.T, lengths, mean, k.rounding(dtype, max(n, d)))


def triangle_of(Z: Array) -> Array:
    """R of Z = QR, a block of rows that stays in the cache after the other: it has Z's singular values and right vectors.

    Z itself where it has few rows.
    """
    if len(Z) <= 2 * Z.shape[1]:
        return Z
    R, step = Z[:0], max(4 * Z.shape[1], 2**16 // Z.shape[1])
    for start in range(0, len(Z), step):
        R = np.asarray(np.linalg.qr(np.concatenate([R, Z[start : start + step]]), mode="r"))
    return R


def _lengths(lengths: Array, mean: Array, s: Array) -> Array:
    """0 for a column whose deviations from its mean are rounding."""
    least = 64 * np.finfo(float).eps * np.abs(mean) * math.sqrt(s.sum())
    return np.where(lengths > least, lengths, 0.0)


def _rounding_of_directions(risk: Risk, found: Columns) -> Array:
    """Σⱼ|vⱼ| ‖xⱼ‖/‖xⱼ − mⱼ‖ of every singular direction: columns far from 0 keep few digits of their deviations."""
    whole = np.sqrt(risk.column_squares)
    far = np.divide(whole, found.lengths, out=np.zeros_like(whole), where=found.lengths > 0)
    return np.abs(found.vectors.T) @ far / max(float(found.values.max(initial=0.0)), 1e-300)


def name_of(fit: k.Fit, j: int) -> str:
    """A column by its name, where it has one."""
    names = fit.get("names_", fit.get("feature_names_in_"))
    return f"{names[j]!r}" if names is not None and j < len(names) else f"column {j}"


def first_few(names: Any, most: int = 5) -> str:
    """List the first of these names and count the rest."""
    listed = ", ".join(map(str, names[:most]))
    return listed if len(names) <= most else f"{listed} and {len(names) - most} more"


def _columns(fit: k.Fit, some: Array) -> str:
    return first_few([name_of(fit, int(j)) for j in some])


def _rows(some: Array) -> str:
    return f"{'row' if len(some) == 1 else 'rows'} {first_few(some)}"


# --- claims -----------------------------------------------------------------------------------------------------------


@k.proved(
    "the normal equations hold: no column correlates with the residuals by more than 1e-4 (1e-7 of a constant prediction's)",
    "ML Least Squares",
    needs=(problem,),
    cost=lambda fit: float(fit.data.size) * (objectives.outputs(fit) + 2),
)
def normal_equations(fit: k.Fit) -> k.Evidence:
    """cos(xⱼ, r), the residuals and columns centred where there is an intercept, which the sum of the residuals must match too.

    With w ≥ 0, a column whose weight is 0 may only correlate negatively. Residuals below a thousandth of those of a constant
    (R² of six nines) count as that thousandth: what is next to nothing correlates with anything.
    """
    risk, at = problem(fit)
    s, n = risk.s, len(risk.s)
    total = np.sqrt((s * np.square(risk.y - at.f)).sum(axis=0))
    total = np.maximum(total, EXPLAINED * np.sqrt(2 * risk.null_value()))
    lean, sizes, whole = near.column_slopes(risk, at, *risk.centred_columns)
    # what the residuals are the rounded difference of
    reach = (whole[: len(at.W)] * np.abs(at.W)).sum(axis=0) + np.sqrt((s * risk.y**2).sum(axis=0))
    blur = k.rounding(near.dtype_of(fit), n) * reach
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(sizes * total > 0, lean / (sizes * total), 0.0)
        # relative to the residuals' own rounding where that is larger than 1e-4 of them, and to that of sums far from 0
        bound = np.maximum(CORRELATION, np.where(total > 0, blur / total, 0.0))
        bound = np.maximum(
            bound, np.where(sizes > 0, k.rounding(np.float64, n) * whole / sizes, 0.0)
        )
    worst = j, _ = np.unravel_index(int(np.argmax(found / bound)), found.shape)
    if bound.max() >= 0.5:
        why = "residuals or columns are rounding: the fit is exact to the digits they have"
        return k.unknown(why, found[worst])
    name = "the constant" if j == len(at.W) else name_of(fit, int(j))
    advice = f"{name} correlates most: use an exact solver, lower tol, or pass the fit's weights"
    return k.at_most(found[worst], bound[worst], advice, unit="|cos(column, residuals)|")


@k.proved(
    "the data determines every weight: no column is a combination of others",
    "ML Least Squares",
    needs=(columns_of,),
)
def weights_determined(fit: k.Fit) -> k.Evidence:
    risk, _ = problem(fit)
    found = columns_of(fit)
    relative, d = found.relative, len(found.lengths)
    open_ = relative <= found.precise
    missing = int(open_.sum())
    # where σ is small beside what the numbers of its columns were rounded by, they may have been combinations
    blur = np.maximum(
        found.precise, k.rounding(fit.data.dtype) * _rounding_of_directions(risk, found)
    )
    between = (relative > found.precise) & (relative <= 100 * blur)
    if between.any() or (missing and found.precise > 1e-10):
        least = f"{relative.min():.1e} of the largest"
        return k.unknown(f"some directions are within rounding: smallest singular value {least}")
    involved = np.abs(found.vectors[:, open_]).max(axis=1, initial=0.0) > PART
    constant = np.flatnonzero((found.lengths == 0) & involved) if risk.free else np.zeros(0, int)
    others = np.setdiff1d(np.flatnonzero(involved), constant)
    which = [f"{_columns(fit, constant)} constant"] if constant.size else []
    which += [f"{_columns(fit, others)} combinations of each other"] if others.size else []
    advice = f"{'; '.join(which)}: drop one of each, or use Ridge; predictions on such rows are not affected"
    if d > len(risk.s) - risk.free:
        advice = f"{d} columns for {len(risk.s)} rows: use Ridge or Lasso, or fewer columns"
    return k.at_most(missing, 0, advice, unit="undetermined directions")


@k.rule_of_thumb(
    "columns are not nearly collinear: their condition number is at most 100",
    "Belsley, Kuh & Welsch 1980",
    needs=(columns_of,),
)
def well_conditioned(fit: k.Fit) -> k.Evidence:
    """σ_max/σ_min of the columns scaled to length 1. Never holds where some direction is not determined at all."""
    found, unit = columns_of(fit), "σ_max/σ_min"
    kept = found.relative[found.relative > found.precise]
    if kept.size == 0:
        return k.unknown("no column varies")
    missing, condition = len(found.lengths) - kept.size, 1 / kept.min()
    if missing and condition <= CONDITION:
        why = f"{missing} of {len(found.lengths)} directions are not determined at all, see weights_determined"
        return k.unknown(f"{why}; of the others {unit} is {condition:.3g}", condition, unit)
    v = np.abs(found.vectors[:, kept.size - 1])
    names = _columns(fit, np.argsort(-v)[: max(2, int((v > 0.3).sum()))])
    advice = f"{names} nearly cancel: their single weights mean little; drop one, or use Ridge"
    return k.at_most(condition, CONDITION, advice, unit)


@k.proved("of all best weights these are the shortest", "ML Least Squares", needs=(columns_of,))
def minimum_norm(fit: k.Fit) -> k.Evidence:
    """The part of w along directions that leave every prediction as it is: of the columns as they are, not scaled."""
    risk, at = problem(fit)
    if risk.positive:
        return k.unknown("not promised for weights that are kept nonnegative")
    found, unit = columns_of(fit), "part that could go"
    open_ = found.relative <= found.precise
    if not open_.any():
        return k.at_most(0, 0, unit=unit, note="the best weights are unique")
    # Z D⁻¹ v = 0 for the scaled columns, so D⁻¹v is a null direction of Z
    safe = np.where(found.lengths > 0, found.lengths, 1.0)
    null = np.linalg.qr(found.vectors[:, open_] / safe[:, None])[0]
    part, size = np.linalg.norm(null.T @ at.W, axis=0), np.linalg.norm(at.W, axis=0)
    share = float(np.max(np.divide(part, size, out=np.zeros_like(part), where=size > 0)))
    kept = found.relative[~open_]
    loss = 1.0 / kept.min() if kept.size else 1.0
    bound = max(1e-6, 100 * loss * k.rounding(near.dtype_of(fit), np.size(fit.coef_)))
    if bound > LARGE_PART:
        why = "some columns are so nearly combinations of others that rounding hides the shortest weights"
        return k.unknown(why, share, unit)
    advice = "use a solver by SVD (numpy.linalg.lstsq), or drop columns: other weights predict these rows as well"
    return k.at_most(share, bound, advice, unit)


@k.rule_of_thumb(
    "no row alone moves the weights far: Cook's distances are at most 1",
    "Cook 1977",
    needs=(columns_of,),
    cost=lambda fit: float(fit.data.shape[0]) * fit.data.shape[1] ** 2,
)
def no_row_dominates(fit: k.Fit) -> k.Evidence:
    """Dᵢ = tᵢ² hᵢ/(p(1 − hᵢ)), t the standardised residual and h the leverage; rows with |t| > 4 are named as well."""
    risk, at = problem(fit)
    found, s = columns_of(fit), risk.s[:, 0]
    kept = np.flatnonzero(found.relative > found.precise)
    p, n = len(kept) + int(risk.free), int((s > 0).sum())
    if n <= p + 1:
        return k.unknown(f"{n} rows for {p} weights leave no residuals to judge by")
    R = risk.y - at.f
    spread = np.sqrt((risk.s * R**2).sum(axis=0) / (n - p))
    if not (spread > 0).all():
        return k.unknown("the residuals are 0")
    h = leverages(risk, found, kept)
    with np.errstate(divide="ignore", invalid="ignore"):
        t2 = s[:, None] * np.square(R / spread) / (1 - h)[:, None]
        cook = np.where(h[:, None] < 1 - 1e-10, t2 * (h / (1 - h))[:, None] / p, 0.0).max(axis=1)
    far = np.flatnonzero((np.sqrt(t2).max(axis=1) > FAR) & (h < 1 - 1e-10))
    far = far[np.argsort(-t2.max(axis=1)[far])]
    alone = np.flatnonzero(h >= 1 - 1e-10)
    note = f"beyond {FAR:g} standard deviations: {_rows(far)}" if far.size else ""
    if alone.size:
        note = f"{note}; fitted exactly, whatever their y: {_rows(alone)}".removeprefix("; ")
    worst = np.argsort(-cook)
    advice = f"look at {_rows(worst[cook[worst] > COOK])}; refit without, or use RobustRegression"
    return k.at_most(cook[worst[0]], COOK, advice, unit="Cook's distance", note=note)


def leverages(risk: Risk, found: Columns, kept: Array) -> Array:
    """hᵢ = sᵢ/Σs + sᵢ|x̃ᵢV/σ|², x̃ the centred row."""
    s = risk.s[:, 0]
    turn = found.vectors[:, kept] / found.values[kept]
    turn = turn / np.where(found.lengths > 0, found.lengths, 1.0)[:, None]
    h, shift = np.empty(len(s)), found.mean @ turn
    for here, rows in risk.rows.blocks():
        inside = rows @ turn - shift
        h[here] = s[here] * np.einsum("ij,ij->i", inside, inside)
    return h + s / s.sum() if risk.free else h


# --- what is stated ---------------------------------------------------------------------------------------------------


def _statements(fit: k.Fit) -> dict[str, float]:
    """rank_ and singular_ are those of √s(X − x̄), unscaled, as scikit-learn has them."""
    risk, at = problem(fit)
    found: dict[str, float] = {}
    singular, rank, squares = fit.get("singular_"), fit.get("rank_"), fit.get("residual_squares_")
    if fit.get("n_samples_") is not None:
        counts = np.ones(fit.data.shape[0]) if fit.weights is None else np.asarray(fit.weights)
        found["n_samples_"] = discrepancy(fit.n_samples_, (counts > 0).sum(), 1.0, 0.5)
    if squares is not None:
        found["residual_squares_"] = _squares_error(fit, risk, at, squares)
    if singular is None and rank is None:
        return found
    columns = columns_of(fit)
    Z = (columns.vectors[:, : len(columns.values)] * columns.values).T * columns.lengths
    true = np.linalg.svd(Z, compute_uv=False) * risk.rows.scale
    eps = np.finfo(near.dtype_of(fit)).eps
    # those of a Gram matrix are right to √eps of the largest
    slack = 1e-4 * true + 8 * math.sqrt(eps) * true.max(initial=0.0)
    if singular is not None:
        stated = np.asarray(singular, dtype=np.float64)
        if stated.ndim == 1 and len(stated) <= len(true):
            full = np.zeros(len(true))
            full[: len(stated)] = stated
            found["singular_"] = discrepancy(full, true, slack, 1.0) if true.any() else 0.0
        else:
            found["singular_"] = math.inf
    if rank is not None:
        top = true.max(initial=0.0)
        sure = int((true > 10 * math.sqrt(eps) * top).sum())
        perhaps = int((true > 0.01 * eps * top).sum())
        found["rank_"] = 0.0 if sure <= int(np.max(rank)) <= perhaps else math.inf
    return found


def _squares_error(fit: k.Fit, risk: Risk, at: Point, stated: Any) -> float:
    """Σ s r² of every output, in the squared unit of y; rounding of y itself is forgiven."""
    true = (risk.s * np.square(risk.y - at.f)).sum(axis=0)
    eps = k.rounding(near.dtype_of(fit), len(risk.s))
    sizes = np.sqrt(risk.column_squares)
    reach = sizes @ np.abs(at.W) + np.sqrt((risk.s * np.square(risk.y)).sum(axis=0))
    stated = np.ravel(np.asarray(stated, dtype=np.float64)) / risk.unit / risk.unit
    return discrepancy(stated, true, 1e-4 * true + np.square(eps * reach) + 1e-300, 1.0)


def _cost_of_statements(fit: k.Fit) -> float:
    stated = fit.get("singular_") is not None or fit.get("rank_") is not None
    return k.price_of(fit, k.free, (columns_of,)) if stated else 0.0


TRUE = statements_true(_statements, cost=_cost_of_statements)
LEAST_SQUARES_CLAIMS = (
    near.SOUND, TRUE, normal_equations, weights_determined, well_conditioned, minimum_norm, no_row_dominates,
)  # fmt: skip
RIDGE_CLAIMS = near.claims_about(objectives.ridge_objective)
SCORES_TRUE = statements_true(chosen.left_out_statements, cost=chosen.left_out_cost)
RIDGE_CV_CLAIMS = (chosen.SOUND, SCORES_TRUE, *RIDGE_CLAIMS[2:], chosen.alpha_inside)
