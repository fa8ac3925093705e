"""Claims about learned dictionaries, recomputed from rows, atoms and codes (CIL20 10).

    minimise  Σ_i w_i (½‖x_i − z_iD‖² + α‖z_i‖₁)   or with ‖z_i‖₀ ≤ s,      over codes z_i and atoms of unit length

Without a bound on the lengths of atoms the penalty says nothing: codes could shrink while atoms grow. The problem is not
convex: a fit is a first guess at best, and what can be checked is what it is worth. The best subspace of m dimensions (the
leading singular vectors; Eckart & Young) also keeps m numbers a row, the same m axes for all rows: a dictionary that does no
better was not needed.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import never_rose
from lemmata.audit.reduction import sparse_codes as codes
from lemmata.audit.reduction.coded_rows import row_codes, type_of, unit_atoms

AGAIN = 0.9  # |cosine| of an atom that was found again
SHARE = 0.8  # of the atoms that another start should find again
NEVER_IN_FIT = 2.0**25  # a refit costs more than `fit` may spend on claims, whatever its size


@claims.proved("every atom has unit length", "CIL20 10; Mairal et al. 2010, (4)")
def atoms_normalised(fit: claims.Fit):
    D = np.asarray(fit.components_, np.float64)
    off = np.abs(np.linalg.norm(D, axis=1) - 1)
    advice = "divide atoms by their lengths and multiply codes by them; penalties then mean what they say"
    return claims.at_most(
        off.max(initial=0.0), claims.rounding(type_of(fit), D.shape[1]), advice, "|‖d‖ − 1|"
    )


@claims.proved(
    "the codes lose no more than the best subspace with as many dimensions as a code has numbers",
    "CIL20 10; CIL Thm 1.4.4",
    cost=lambda fit: float(fit.data.size) * fit.data.shape[1] + 10.0 * fit.data.shape[1] ** 3,
    needs=(row_codes,),
)
def beats_pca(fit: claims.Fit):
    """Σ w‖x − zD‖² over Σ_{j>m} σ_j², m the mean number of atoms of a code, rounded up. No row is centred for either."""
    found = row_codes(fit)
    if found.holes.any():
        return claims.unknown("no subspace is the best of rows with holes in closed form")
    m = int(np.ceil(found.weights @ found.counts / found.weights.sum() - 1e-9))
    S = np.zeros((fit.data.shape[1],) * 2)
    for rows, weights in fit.data:
        X = np.asarray(rows, np.float64) / found.unit
        S = S + (X.T @ X if weights is None else (X.T * weights) @ X)
    values = np.maximum(np.linalg.eigvalsh(S)[::-1], 0.0)
    lost, whole = float(values[m:].sum()), float(values.sum())
    mine = float(found.weights @ found.errors**2)
    # an eigenvalue errs by √d·eps·λ₁, and so does a residual of the sum of all
    doubt = 4 * claims.rounding(type_of(fit), np.shape(S)[0]) * whole
    advice = f"PCA with {m} components keeps more: learn longer, or use it"
    if abs(mine - lost) <= doubt:
        return claims.unknown(f"both lose nothing but rounding with {m} numbers a row")
    return claims.at_most(
        mine / lost if lost > 0 else np.inf, 1.0, advice, f"error / PCA's with {m}"
    )


def _rounding_of_steps(fit: claims.Fit) -> float:
    if fit.get("method") != "ksvd":
        raise claims.CannotTell("promised of method='ksvd' only")
    return claims.rounding(type_of(fit), fit.data.size if fit.has_data else 2**20)


def _squares_of_rows(fit: claims.Fit) -> float:
    """½ Σ w‖x‖², holes left out: where atoms meet every row, rounding is that of the rows."""
    if not fit.has_data:
        return 0.0
    return 0.5 * sum(
        float((np.ones(len(rows)) if w is None else w) @ np.nansum(np.square(rows, dtype=float), 1))
        for rows, w in fit.data
    )


# K-SVD with codes that are kept where OMP finds no better ones. MOD and mini-batches promise nothing of the kind.
OBJECTIVE_NEVER_ROSE = never_rose(
    "the objective never rose",
    "CIL20 10",
    _rounding_of_steps,
    "rounding spoiled the run: fit float64 rows",
    name="objective_never_rose",
    size=_squares_of_rows,
    cost=claims.passes(),
)


def _refit_work(fit: claims.Fit) -> float:
    (n, d), k = fit.data.shape, len(fit.components_)
    steps = min(float(np.max(fit.get("n_iter_", 10))), 100.0)
    return max(NEVER_IN_FIT, steps * float(n) * k * (d + 10.0) / 10)


@claims.rule_of_thumb(
    "another start finds at least 80 % of the atoms again (|cosine| at least 0.9)",
    "CIL20 10",
    cost=_refit_work,
)
def atoms_repeatable(fit: claims.Fit):
    """The estimator itself is fitted once more from another random_state; atoms of the two fits are matched one to one."""
    if not fit.has("random_state") or fit.get("dict_init") is not None:
        return claims.unknown("the fit says nothing about where it started")
    again = fit.witness("atoms_of_another_start")
    if again is None:
        return claims.unknown("it takes another fit, and none was made")
    cosines = np.abs(unit_atoms(fit.components_) @ unit_atoms(again).T)
    rows, columns = linear_sum_assignment(-cosines)
    share = float(np.mean(cosines[rows, columns] >= AGAIN))
    advice = "read atoms as one choice of many: fewer of them, more rows, or more passes"
    return claims.at_least(share, SHARE, advice, "share of atoms", witness={"components_": again})


_ATOMS = (atoms_normalised, codes.atoms_distinct, beats_pca)
# codes of so many atoms
COUNTED_CLAIMS = (codes.SOUND, codes.TRUE, codes.fitted_on_support, *_ATOMS)
PENALISED_CLAIMS = (codes.SOUND, codes.TRUE, codes.near_optimum, *_ATOMS)  # ℓ1 codes
PLAIN_CLAIMS = (codes.SOUND, codes.TRUE, *_ATOMS)
MORE_CLAIMS = (OBJECTIVE_NEVER_ROSE, atoms_repeatable)  # in `certify` only
