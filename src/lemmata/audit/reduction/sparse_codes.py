"""Claims about sparse codes, recomputed from rows, atoms and the codes themselves (CIL20 9).

Atoms d_j of unit length, G = DDᵀ, coherence μ = max_{i≠j}|G_ij|, Babel function μ₁(m) = the largest sum of m numbers |G_ij|
of one row, i ≠ j (so μ₁(m) ≤ mμ). Gershgorin: ‖vD‖² ≥ (1 − μ₁(m − 1))‖v‖² for every v with at most m numbers that are not zero.

**Uniqueness** (Donoho & Elad 2003; Donoho, Elad & Temlyakov 2006). Let ‖x − zD‖ = ε with s atoms, and z′ be as short and as
close. Then z − z′ has at most 2s atoms and ‖(z − z′)D‖ ≤ 2ε, so ‖z − z′‖ ≤ 2ε/√(1 − μ₁(2s − 1)): with ε = 0 the code is the
only one wherever μ₁(2s − 1) < 1, which s < ½(1 + 1/μ) implies.

**Exact recovery** (Tropp 2004). If ‖D_S⁺d_j‖₁ < 1 for all j ∉ S, OMP finds every code on S from its exact row. If not, x in
the span of S with D_S x = sign(D_S⁺d_j) is a witness: |d_jᵀx| ≥ 1 = max_S|d_iᵀx|, so OMP's first atom may be j.

**Duality.** The residual, scaled until no atom correlates with it by more than α, bounds min ½‖x − zD‖² + α‖z‖₁ from below.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.fft

from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.claims import Fit, at_most, proved, rounding, rule_of_thumb, unknown
from lemmata.audit.reduction import coded_rows
from lemmata.audit.reduction.coded_rows import CodedRows, dual_values, row_codes, type_of

Array = np.ndarray
GAP = 1e-3  # of ½‖x‖²: what an ℓ1 code may be above the least
MISSED = 1e-6  # of ‖x‖²: what a fit on the same atoms may gain
OTHER = 0.01  # of a code: how far another one as short and as close may be
ALIKE = 0.99  # |cosine| of atoms that say the same
SEARCHED = 40  # rows in which another code is looked for


def _zero_atoms(fit: Fit) -> Iterator[str]:
    D = np.asarray(fit.components_)
    for j in np.flatnonzero(~D.any(axis=1)):
        yield f"atom {j} is zero"


SOUND = attributes_sound(
    {"components_": "k d", "loss_?": ">=0", "n_nonzero_?": ">=0"}, more=_zero_atoms
)


def _statement_errors(fit: Fit) -> dict[str, float]:
    if not fit.has("loss_"):
        return {}
    errors: dict[str, float] = {}
    dtype, given = type_of(fit), fit.get("dictionary")
    D = np.asarray(fit.components_, np.float64)
    if isinstance(given, str) and given == "haar":
        own = rounding(dtype, D.shape[1])
        errors["components_"] = discrepancy(D @ D.T, np.eye(len(D)), 1, own)
    elif given is not None:
        named = isinstance(given, str)
        true = scipy.fft.dct(np.eye(D.shape[1]), norm="ortho", axis=0) if named else given
        errors["components_"] = discrepancy(D, true, np.abs(D).max(), rounding(dtype))
    found = row_codes(fit)
    total = found.weights.sum()
    loss = found.weights @ found.losses / total * found.unit**2
    scale = found.weights @ found.sizes**2 / total * found.unit**2 + loss
    errors["loss_"] = discrepancy(fit.loss_, loss, scale, rounding(dtype, found.D.shape[1]))
    mean, own = found.weights @ found.counts / total, rounding(float, len(found.counts))
    errors["n_nonzero_"] = discrepancy(fit.n_nonzero_, mean, max(mean, 1e-300), own)
    return errors


TRUE = statements_true(_statement_errors, needs=(row_codes,))


def _shares(found: CodedRows, parts: Array) -> Array:
    """Numbers per row as a share of ‖x‖²; 0 where x is 0 and so are they."""
    squares = found.sizes**2
    alone = np.where(parts > 0, np.inf, 0)
    return np.where(squares > 0, parts / np.where(squares > 0, squares, 1), alone)


# --- codes that minimise something ------------------------------------------------------------------------------------


@proved(
    "no other code of a row has an ℓ1 objective lower by more than 0.1 % of ½‖x‖²",
    "ML L₁-Regularization; weak duality",
    needs=(row_codes,),
)
def near_optimum(fit: Fit):
    """The gap bounds it from above. Where that is not enough, a search finds a better code (fails) or bound (holds)."""
    found = row_codes(fit)
    most = 2 * _shares(found, found.gaps)
    # P and D are sums of d products each
    doubt = 4 * rounding(type_of(fit), found.D.shape[1])
    advice = "raise transform_max_iter, or lower tol"
    open_rows = np.flatnonzero(most > GAP)
    if len(open_rows) == 0:
        return at_most(most.max(initial=0.0), GAP, advice, "gap / ½‖x‖², at most")
    chosen = open_rows[np.argsort(-most[open_rows], kind="stable")[:SEARCHED]]
    positive = bool(fit.get("positive_code", False))
    X = _rows_again(fit, chosen) / found.unit
    witness = fit.witness("better_codes", X, found.raw, found.penalty, positive)
    if witness is None:
        return unknown(f"up to {most.max():.2g} of ½‖x‖²: no better code or bound was searched for")
    codes, residuals = witness
    better = _objectives(X, found.raw, found.penalty, positive, codes)
    bound = _bounds(X, found.raw, found.penalty, positive, residuals)
    here = found.losses[chosen]
    gained = 2 * (here - better) / found.sizes[chosen] ** 2
    if gained.max() > GAP + doubt:
        i = int(gained.argmax())
        better_code = {"row": int(chosen[i]), "code": codes[i] * found.unit}
        return at_most(gained[i], GAP, advice, "gap / ½‖x‖², at least", witness=better_code)
    most[chosen] = np.minimum(most[chosen], 2 * (here - bound) / found.sizes[chosen] ** 2)
    if most.max() <= GAP:
        proof = {"rows": chosen, "residuals": residuals * found.unit}
        return at_most(most.max(), GAP, advice, "gap / ½‖x‖², at most", witness=proof)
    return unknown(f"between {max(gained.max(), 0):.2g} and {most.max():.2g} of ½‖x‖²")


def _rows_again(fit: Fit, chosen: Array) -> Array:
    parts, start = [], 0
    order = np.sort(chosen)
    for rows, _ in fit.data:
        here = order[(order >= start) & (order < start + rows.shape[0])] - start
        parts.append(np.asarray(rows[here], np.float64))
        start += rows.shape[0]
    X = np.concatenate(parts)
    return X[np.argsort(np.argsort(chosen))]


def _objectives(X: Array, D: Array, alpha: float, positive: bool, Z: Array) -> Array:
    """½‖x − zD‖² + α‖z‖₁ of each row over what is known of it; infinite where z may not be negative and is."""
    R = np.where(np.isnan(X), 0.0, X - Z @ D)
    values = 0.5 * np.einsum("ij,ij->i", R, R) + alpha * np.abs(Z).sum(axis=1)
    return np.where((Z < 0).any(axis=1) & positive, np.inf, values)


def _bounds(X: Array, D: Array, alpha: float, positive: bool, U: Array) -> Array:
    """Below the ℓ1 objective of every code of each row, by any vectors U, scaled into the dual."""
    known = ~np.isnan(X)
    x, U = np.where(known, X, 0.0), np.where(known, U, 0.0)
    H = U @ D.T
    tops = (H if positive else np.abs(H)).max(axis=1, initial=0.0)
    return dual_values(np.einsum("ij,ij->i", U, U), np.einsum("ij,ij->i", x, U), tops, alpha)


@proved(
    "with the atoms it uses, no other code is closer to its row by more than 1e-6 of ‖x‖²",
    "CIL20 9; normal equations",
    needs=(row_codes,),
)
def fitted_on_support(fit: Fit):
    """‖P_S r‖² = (D_S r)ᵀ G_SS⁺ (D_S r): what least squares on the same atoms would take from the squared error."""
    found = row_codes(fit)
    advice = "code the rows again: these numbers are no least-squares fit on their atoms"
    return at_most(_shares(found, found.gains).max(initial=0.0), MISSED, advice, "share of ‖x‖²")


# --- is there another code? -------------------------------------------------------------------------------------------


def babel(G: Array, most: int) -> Array:
    """μ₁(0), …, μ₁(most) of unit atoms: the largest sum of m off-diagonal |G_ij| of one row."""
    off = np.abs(G)
    np.fill_diagonal(off, 0)
    sorted_rows = -np.sort(-off, axis=1)[:, :most]
    sums = np.cumsum(sorted_rows, axis=1).max(axis=0, initial=0.0)
    full = np.concatenate([[0.0], sums])
    return np.concatenate([full, np.full(max(0, most + 1 - len(full)), full[-1])])


def _unique_work(fit: Fit) -> float:
    n, d, k, s = coded_rows.sizes_of(fit)
    searches = min(SEARCHED, n) * s * s * (k * d + s * s * d)
    return 3.0 * k * k * d + searches


@proved(
    "no other code of as few atoms comes as close to its row, but for 1 % of the code",
    "CIL20 9; Donoho & Elad 2003; Donoho, Elad & Temlyakov 2006",
    cost=_unique_work,
    needs=(row_codes,),
)
def unique_sparsest(fit: Fit):
    """2ε/√(1 − μ₁(2s − 1)) over ‖z‖, the largest over the rows; ‖z‖ counts numbers of unit atoms. *Fails* shows another
    code.
    """
    found = row_codes(fit)
    mu = babel(found.G, 2 * int(found.counts.max(initial=0)))
    room = 1 - mu[np.maximum(2 * found.counts - 1, 0)] - rounding(float, found.D.shape[1])
    errors = found.errors + rounding(type_of(fit), found.D.shape[1]) * found.sizes
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = 2 * errors / np.sqrt(np.maximum(room, 1e-300)) / found.norms
    apart = np.where(room > 0, apart, np.inf)
    apart = np.where(found.counts == 0, 0.0, np.where(found.holes, np.inf, apart))
    worst = float(apart.max(initial=0.0))
    coherence = float(mu[1]) if len(mu) > 1 else 0.0
    note = f"coherence {coherence:.3g}: unique up to {_most_unique(found.G)} atoms where the error is 0"
    advice = "allow fewer atoms a row, or take a dictionary of lower coherence"
    unit = "distance / ‖z‖, at most"
    if worst <= OTHER:
        return at_most(worst, OTHER, advice, unit, note)
    open_rows = np.flatnonzero((apart > OTHER) & ~found.holes)
    step = max(1, len(open_rows) // SEARCHED)
    other, shown = _another(fit, found, open_rows[::step][:SEARCHED])
    if other > OTHER:
        return at_most(other, OTHER, advice, "distance / ‖z‖, at least", note, witness=shown)
    decided = 1 - np.count_nonzero(apart > OTHER) / len(apart)
    return unknown(f"proved for {100 * decided:.3g} % of the rows, no other code found; {note}")


def _most_unique(G: Array) -> int:
    """The largest s with μ₁(2s − 1) < 1."""
    mu = babel(G, 2 * len(G))
    return int(np.count_nonzero(mu[1 : 2 * len(G) : 2] < 1))


def _another(fit: Fit, found: CodedRows, rows: Array) -> tuple[float, dict[str, Any]]:
    """The distance of the furthest code that was found as short and as close; its row, and itself."""
    if len(rows) == 0:
        return 0.0, {}
    X, Z = _signals(fit, found, rows), np.zeros((len(rows), len(found.D)))
    for z, i in zip(Z, rows, strict=True):
        z[found.supports[i]] = found.values[i]
    sizes = rounding(float, X.shape[1]) * found.sizes[rows]
    close = found.errors[rows] * (1 + 1e-9) + sizes
    others = fit.witness("other_codes", X, found.D, Z, close)
    if others is None:
        return 0.0, {}
    furthest, shown = 0.0, {}
    for x, z, other, most, i in zip(X, Z, others, close, rows, strict=True):
        near = np.linalg.norm(x - other @ found.D) <= most
        apart = float(np.linalg.norm(other - z) / found.norms[i])
        if near and np.count_nonzero(other) <= found.counts[i] and apart > furthest:
            code = other * found.unit / np.where(found.alive, found.lengths, 1)
            furthest, shown = apart, {"row": int(i), "code": code}
    return furthest, shown


def _signals(fit: Fit, found: CodedRows, rows: Array) -> Array:
    """Some rows again, or the centred target of a regression."""
    if not fit.has("regression_"):
        return _rows_again(fit, rows) / found.unit
    y = np.asarray(fit.y, np.float64).reshape(1, -1)
    return y - y.mean() if fit.get("fit_intercept", True) else y


def _recovery_work(fit: Fit) -> float:
    n, d, k, s = coded_rows.sizes_of(fit)
    return 1.0 * k * k * d + float(n) * s * s * (k + 10 * s)


@proved(
    "‖D_S⁺d‖₁ < 1 for every atom d outside of the atoms S of a code: OMP finds every code on them",
    "CIL20 9; Tropp 2004",
    cost=_recovery_work,
    needs=(row_codes,),
)
def exact_recovery(fit: Fit):
    """The largest ‖D_S⁺d_j‖₁ over the supports of all rows. Above 1, some exact row on S misleads OMP at its first atom."""
    found = row_codes(fit)
    if found.holes.any():
        return unknown("rows with holes have atoms of their own; pass rows without")
    distinct = {tuple(S): i for i, S in enumerate(found.supports) if len(S)}
    rows, worst = np.array(sorted(distinct.values()), dtype=int), 0.0
    width = len(found.D) * float(found.counts.max(initial=1))
    for part in coded_rows.blocks_of(rows, width):
        index, there = coded_rows.pad_supports([found.supports[i] for i in part])
        G = found.grams(index, there)
        values, V = np.linalg.eigh(G)
        if values.min() <= rounding(float, len(found.D)) * values.max():
            worst = np.inf  # the atoms of a code depend on each other
            break
        cross = np.where(there[:, :, None], found.G[index], 0.0)  # (m, s, k)
        inner = np.einsum("mst,mt,mut,muk->msk", V, 1 / values, V, cross, optimize=True)
        ones = np.abs(inner).sum(axis=1)
        np.put_along_axis(ones, np.where(there, index, index[:, :1]), 0.0, axis=1)
        worst = max(worst, float(ones[:, found.alive].max(initial=0.0)))
    advice = "OMP may go astray on these atoms: allow fewer a row, or lower the coherence"
    bound = 1 - rounding(float, found.D.shape[1])
    return at_most(worst, bound, advice, "max ‖D_S⁺d‖₁")


# --- atoms ------------------------------------------------------------------------------------------------------------


@rule_of_thumb(
    "no two atoms are alike (|cosine| above 0.99), and no atom is left out of all codes",
    "CIL20 10; Aharon, Elad & Bruckstein 2006",
    cost=lambda fit: float(len(fit.components_)) ** 2 * np.shape(fit.components_)[1],
    needs=(row_codes,),
)
def atoms_distinct(fit: Fit):
    """The number of atoms that are the double of an earlier one, or part of no code of these rows."""
    found = row_codes(fit)
    doubles = np.tril(np.abs(found.G), -1).max(axis=1, initial=0.0) > ALIKE
    dead = found.used <= 0
    note = f"{int(dead.sum())} unused, {int(doubles.sum())} doubles"
    advice = "ask for fewer atoms, or fit from another random_state"
    return at_most(float((doubles | dead).sum()), 0, advice, "atoms", note)


@rule_of_thumb(
    "no two atoms are alike (|cosine| above 0.99)",
    "CIL20 9",
    cost=lambda fit: float(len(fit.components_)) ** 2 * np.shape(fit.components_)[1],
)
def atoms_apart(fit: Fit):
    """The coherence of the dictionary."""
    D = coded_rows.unit_atoms(fit.components_)
    G = np.abs(D @ D.T)
    np.fill_diagonal(G, 0)
    i, j = np.unravel_index(int(G.argmax()), G.shape)
    advice = f"atoms {i} and {j} say nearly the same: leave one out"
    return at_most(float(G.max(initial=0.0)), ALIKE, advice, "coherence")


CODER_CLAIMS = (SOUND, TRUE, fitted_on_support, unique_sparsest, exact_recovery, atoms_apart)
PENALISED_CODER_CLAIMS = (SOUND, TRUE, near_optimum, atoms_apart)
PLAIN_CODER_CLAIMS = (SOUND, TRUE, atoms_apart)
