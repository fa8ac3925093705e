"""K-SVD: atoms one after the other, each with the numbers that codes give it (Aharon, Elad & Bruckstein 2006).

    minimise  ½ Σ_i w_i ‖x_i − z_iD‖²      over atoms of unit length and codes with ‖z_i‖₀ ≤ s

Codes by OMP. Then, for atom j and the rows I that use it, E = X_I − Z_ID + z_Ij d_j is what it has to explain: the best pair
of an atom and its numbers is the leading singular pair of E. One alternation towards it (Rubinstein 2008), d ∝ Eᵀ(w∘z), z =
Ed, cannot raise the error either and costs a fraction. OMP is greedy and can be worse than the code a row had: the better of
the two is kept, so the objective never rises. Missing values are filled in by the codes at hand, which majorises the error
over what is known (as in EM).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lemmata.core.store import storable
from lemmata.reduction.sparse_coding.coding import (
    CHUNK,
    Coder,
    TrainingRows,
    fill_missing,
    starting_atoms,
)
from lemmata.reduction.sparse_coding.omp import Codes, pursue

Array = np.ndarray
ALIKE = 0.99  # |cosine| of atoms that say the same


@storable
@dataclass(frozen=True)
class KSVDState:
    """Atoms, and the codes of all rows by place."""

    version = 1
    layout: ClassVar = {"D": "k d", "index": "n s int >=-1 <k", "value": "n s", "loss": ">=0"}

    D: Array  # (k, d)
    index: Array  # (n, s), −1 where unused
    value: Array  # (n, s)
    loss: float  # ½ Σ w‖x − zD‖² / Σ w at these


@dataclass(frozen=True)
class KSVDAlgorithm:
    n_components: int
    coder: Coder
    start: Any = None  # (k, d)

    hint = "scale the data, or look for extreme values in it"

    def init(self, data: TrainingRows, rng: np.random.Generator) -> KSVDState:
        D = starting_atoms(data, self.n_components, self.start, rng)
        codes = self._codes(data, D)
        return self._at(D, codes, _errors(data, codes, D), data)

    def step(self, state: KSVDState, data: TrainingRows) -> KSVDState:
        D, old = improve_atoms_and_codes(data, state.D, Codes(state.index, state.value))
        codes, errors = self._recode(data, D, old)
        best = self._at(D, codes, errors, data)
        return self._without_doubles(best, errors, data)

    def _recode(self, data: TrainingRows, D: Array, old: Codes) -> tuple[Codes, Array]:
        """OMP's codes, or the old ones of rows that they serve better; and the squared errors."""
        new = self._codes(data, D)
        was, now = _errors(data, old, D), _errors(data, new, D)
        keep = (was < now)[:, None]
        index = np.where(keep, old.index, new.index)
        value = np.where(keep, old.value, new.value)
        return Codes(index, value), np.minimum(was, now)

    def _without_doubles(self, best: KSVDState, errors: Array, data: TrainingRows) -> KSVDState:
        """Atoms that double others move to rows that are coded worst, if that does not cost more than it gains."""
        doubles = np.flatnonzero(np.tril(np.abs(best.D @ best.D.T), -1).max(axis=1) > ALIKE)
        if len(doubles) == 0:
            return best
        D = best.D.copy()
        move_to_worst(D, list(doubles), errors, np.nan_to_num(data.X), data.weights)
        codes = self._codes(data, D)
        other = self._at(D, codes, _errors(data, codes, D), data)
        return other if other.loss < best.loss else best

    def _codes(self, data: TrainingRows, D: Array) -> Codes:
        most = self.coder.n_nonzero
        parts = [
            pursue(np.asarray(data.X[i : i + CHUNK]), D, most, self.coder.alpha, data.compiled)
            for i in range(0, len(data.X), CHUNK)
        ]
        index, value = (
            np.concatenate(all) for all in zip(*((p.index, p.value) for p in parts), strict=True)
        )
        return Codes(index, value)

    def _at(self, D: Array, codes: Codes, errors: Array, data: TrainingRows) -> KSVDState:
        w = data.weights
        loss = 0.5 * float(np.average(errors, weights=w))
        return KSVDState(D, codes.index, codes.value, loss)

    def objective(self, state: KSVDState) -> float:
        return state.loss

    def attributes(self, state: KSVDState) -> dict[str, Any]:
        return {"components_": state.D}


def _errors(data: TrainingRows, codes: Codes, D: Array) -> Array:
    """‖x − zD‖² of every row, over what is known of it."""
    found = np.empty(len(data.X))
    for start in range(0, len(found), CHUNK):
        part = slice(start, start + CHUNK)
        X = np.asarray(data.X[part])
        R = np.nan_to_num(X - Codes(codes.index[part], codes.value[part]).rebuilt(D))
        found[part] = np.einsum("ij,ij->i", R, R, dtype=np.float64)
    return found


def improve_atoms_and_codes(data: TrainingRows, D: Array, codes: Codes) -> tuple[Array, Codes]:
    """One sweep over the atoms; unused ones move to the rows that are coded worst."""
    X, rebuilt = np.asarray(data.X), codes.rebuilt(D)
    R = fill_missing(X, rebuilt) - rebuilt
    D, value, s = D.copy(), codes.value.copy(), codes.index.shape[1]
    weights = None if data.weights is None else data.weights.astype(X.dtype)
    flat = codes.index.ravel()
    order = np.argsort(flat, kind="stable")
    ends = np.searchsorted(flat[order], np.arange(len(D) + 1))
    idle = []
    for j in range(len(D)):
        places = order[ends[j] : ends[j + 1]]
        rows, at = places // s, places % s
        z = value[rows, at]
        weighted = z if weights is None else weights[rows] * z
        if not weighted.any():
            idle.append(j)
            continue
        E = R[rows] + z[:, None] * D[j]
        d = weighted @ E
        length = np.linalg.norm(d)
        if length == 0:
            continue
        D[j] = d / length
        value[rows, at] = E @ D[j]
        R[rows] = E - value[rows, at][:, None] * D[j]
    if idle:
        R = np.where(np.isnan(X), 0, R)
        move_to_worst(D, idle, np.einsum("ij,ij->i", R, R), np.nan_to_num(X), weights)
    return D, Codes(codes.index, value)


def move_to_worst(
    D: Array, atoms: list[int], errors: Array, X: Array, weights: Array | None
) -> None:
    """Atoms become the rows whose squared errors are largest; where there is no error, they stay."""
    if weights is not None:
        errors = np.where(weights > 0, errors, 0)
    for j, i in zip(atoms, np.argsort(-errors, kind="stable"), strict=False):
        length = np.linalg.norm(X[i])
        if errors[i] > 0 and length > 0:
            D[j] = X[i] / length
