"""The claim that maximum-likelihood weights exist: logistic regression without a penalty on data that may be separable.

    rows aᵢ = yᵢ(xᵢ, 1)         (k classes: (e_y − e_c) ⊗ (xᵢ, 1) for every other class c)

The likelihood has a maximum if and only if no w has Aw ≥ 0, Aw ≠ 0 (Albert & Anderson 1984): along such a w it rises forever.
By Stiemke's theorem exactly one of the two exists: such a w, or u > 0 with Aᵀu = 0. Either is a witness for plain arithmetic:

* u: the fit's own slopes, uᵢ = sᵢσ(−yᵢfᵢ), nearly have Aᵀu = 0. u′ = u − UA(AᵀUA)⁻¹Aᵀu has it exactly, and stays positive if no
  |aᵢᵀ(AᵀUA)⁻¹Aᵀu| reaches 1; half of that is left to rounding.
* w: from a search (a linear programme), its margins Aw compared with the rounding of each, those near 0 counted again in whole
  fractions.

A search that finds nothing proves nothing: within rounding, the claim can't tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.special import expit

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.duality_gap import Point, Risk
from lemmata.audit.kernel.losses import log_softmax
from lemmata.audit.predict.linear import objectives
from lemmata.audit.predict.linear.least_squares import triangle_of

Array = np.ndarray
EPS = float(np.finfo(np.float64).eps)
HALF = 0.5  # of what would turn a multiplier negative; the rest is for rounding
DROP = 64.0  # units of rounding: a column that the others leave no more of is a combination of them
EXACT = 200_000  # products in whole fractions, about a second of them
problem = objectives.problem_of(objectives.logistic_objective)
UNIT = "rows set apart"


def signed_rows(risk: Risk, at: Point) -> tuple[Array, Array]:
    """A, of rows with weight, and u > 0: the slopes of the fit."""
    here = risk.s[:, 0] > 0
    X = risk.rows.columns(np.arange(risk.rows.shape[1]))[here]
    if risk.free:
        X = np.column_stack([X, np.ones(len(X))])
    s, f = risk.s[here, 0], at.f[here]
    if not risk.joint:
        y = risk.y[here, 0]
        return X * y[:, None], s * expit(-y * f[:, 0])
    y, classes = risk.y[here], f.shape[1]
    P = np.exp(log_softmax(f))
    parts, slopes = [], []
    for c in range(classes):
        other = np.flatnonzero(y != c)
        # the weights of class 0 are 0: only differences matter
        A = np.zeros((len(other), classes, X.shape[1]))
        A[np.arange(len(other)), y[other]] = X[other]
        A[:, c] = -X[other]
        parts.append(A[:, 1:].reshape(len(other), -1))
        slopes.append(s[other] * P[other, c])
    return np.vstack(parts), np.concatenate(slopes)


def separate(fit: k.Fit, A: Array, u: Array, search: bool = True) -> tuple[int, Array | None]:
    """Return how many rows a direction sets apart, and the direction; (0, None) if multipliers show that none does.

    Raises CannotTell where neither witness is found.
    """
    norms = np.abs(A).max(axis=0)
    powers = np.exp2(np.round(np.log2(norms[norms > 0])))
    A = A[:, norms > 0] / powers  # exact
    if A.shape[1] == 0 or overlap_shown(A, np.maximum(u, 1e-12 * u.max(initial=0.0))):
        return 0, None
    shown = fit.witness("separating_direction", A) if search else None
    if shown is None:
        raise k.CannotTell("its multipliers do not show it; certify(…, seconds=60) looks further")
    directions, multipliers = shown
    if multipliers is not None and overlap_shown(A, multipliers):
        return 0, None
    for w in directions:
        if apart := rows_apart(A, w):
            whole = np.zeros(len(norms))
            whole[norms > 0] = w / powers
            return apart, whole
    raise k.CannotTell("whether the classes are separable is within rounding")


def overlap_shown(A: Array, u: Array) -> bool:
    """Whether u > 0 can be corrected to Aᵀu = 0 without losing its sign, rounding included."""
    if not (u > 0).all():
        return False
    u = u / u.max()
    B = A * np.sqrt(u)[:, None]
    sizes = np.sqrt(np.einsum("ij,ij->j", B, B))
    if len(B) < B.shape[1] or not (sizes > 0).all():
        return False
    R, order = qr(triangle_of(B / sizes), mode="r", pivoting=True)
    R = R[: B.shape[1]]
    left = np.abs(np.diagonal(R))
    rounding = DROP * EPS * np.sqrt(len(A))
    rank = int((left > rounding).sum())
    if left[rank - 1] < 1e4 * rounding:
        return False  # a direction that is neither there nor not there
    keep = order[:rank]
    if rank < A.shape[1] and not _exact_combinations(A, keep, order[rank:]):
        return False  # what is left of a column might separate the classes
    R, A = R[:rank, :rank], A[:, keep] / sizes[keep]
    residual = A.T @ u
    error = rounding * (np.abs(A).T @ u)
    turned = solve_triangular(R, residual, trans="T")
    change = np.abs(A @ solve_triangular(R, turned))
    inverse = solve_triangular(R, np.eye(rank))
    whitened = A @ inverse
    lengths = np.sqrt(np.einsum("ij,ij->i", whitened, whitened))
    reach = lengths * np.linalg.norm(np.abs(inverse.T) @ error)
    return bool((change + reach).max() <= HALF)


def _exact_combinations(A: Array, keep: Array, others: Array) -> bool:
    """Whether the other columns are combinations of those kept, without any rounding and by short fractions: copies, sums."""
    if len(A) * A.shape[1] * len(others) > EXACT:
        return False
    found = np.linalg.lstsq(A[:, keep], A[:, others], rcond=None)[0]
    for j, shares in zip(others, found.T, strict=True):
        short = [Fraction(float(x)).limit_denominator(1000) for x in shares]
        if any(_exact_sign([*row[keep], row[j]], [*short, Fraction(-1)]) for row in A):
            return False
    return True


def rows_apart(A: Array, w: Array) -> int:
    """Count the rows with aᵢᵀw > 0 for certain, if none has aᵢᵀw < 0 for certain or perhaps; else 0."""
    margins = A @ w
    error = (A.shape[1] + 2) * EPS * (np.abs(A) @ np.abs(w))
    if (margins < -error).any():
        return 0
    near = np.flatnonzero((margins <= error) & (error > 0))
    if near.size * A.shape[1] > EXACT:
        return 0
    exact_w = [Fraction(x) for x in w.tolist()]
    signs = [_exact_sign(A[i], exact_w) for i in near]
    if min(signs, default=0) < 0:
        return 0
    return int((margins > error).sum()) + sum(sign > 0 for sign in signs)


def _exact_sign(a: Iterable[float], w: list[Fraction]) -> int:
    """The sign of aᵀw, without any rounding."""
    terms = (Fraction(float(x)) * y for x, y in zip(a, w, strict=True) if x and y)
    total = sum(terms, Fraction(0))
    return (total > 0) - (total < 0)


# --- the claim --------------------------------------------------------------------------------------------------------


def _size(fit: k.Fit) -> tuple[float, float]:
    (n, d), k = fit.data.shape, max(objectives.outputs(fit) - 1, 1)
    return float(n) * k, float(d + 1) * k


def _judge_penalised(risk: Risk, at: Point) -> k.Evidence:
    """A penalty on w keeps w finite, and two classes keep a free intercept finite: one class alone pushes it forever."""
    classes = at.f.shape[1] if risk.joint else 2
    here = risk.s[:, 0] > 0
    if risk.free and len(np.unique(risk.y[here])) < classes:
        advice = "a class has no row with weight, so nothing stops the intercept: give it weight, or leave the class out"
        return k.at_most(int(here.sum()), 0, advice, UNIT)
    return k.at_most(0, 0, unit=UNIT, note="the penalty keeps them finite, separable or not")


def _is_penalised(fit: k.Fit) -> bool:
    objective = objectives.objective_of(fit, objectives.logistic_objective)
    return bool(np.any(objective.l1) or np.any(objective.l2))


def _cost(fit: k.Fit) -> float:
    n, d = _size(fit)
    return 0.0 if _is_penalised(fit) else 6 * n * d * d


@k.proved(
    "best weights exist: no direction separates the classes, or a penalty keeps the weights finite",
    "Albert & Anderson 1984; ML Logistic Regression",
    needs=(problem,),
    cost=_cost,
)
def weights_exist(fit: k.Fit) -> k.Evidence:
    risk, at = problem(fit)
    if _is_penalised(fit):
        return _judge_penalised(risk, at)
    n, d = _size(fit)
    if n * d > 2e7:
        return k.unknown("the rows are too many for this check, which wants all of them in memory")
    A, u = signed_rows(risk, at)
    apart, direction = separate(fit, A, u, fit.work > 2e3 * n * np.sqrt(n) + n * d * d)
    if direction is None:
        return k.at_most(0, 0, unit=UNIT, note="the classes overlap")
    how = "completely" if apart == len(A) else f"{apart:,} of {len(A):,} margins"
    advice = (
        f"a direction separates the classes ({how}), along which weights grow for ever and standard errors mean nothing: "
        "penalise (C=1), or drop the column that tells the classes apart"
    )
    return k.at_most(apart, 0, advice, UNIT, witness={"direction": direction})
