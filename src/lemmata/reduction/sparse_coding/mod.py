"""MOD, the method of optimal directions: all atoms at once, by least squares on the codes (Engan, Aase & Husøy 1999).

    Z by OMP,      D = argmin Σ_i w_i ‖x_i − z_iD‖² = A⁻¹B,      A = Σ w zzᵀ,  B = Σ w zᵀx;      atoms made unit, codes
    scaled back

The statistics add up, so a pass over blocks is enough. Coding again is greedy: unlike K-SVD, the objective may rise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from lemmata.core.store import storable
from lemmata.reduction.sparse_coding import coding

Array = np.ndarray


@storable
@dataclass(frozen=True)
class MODState:
    version = 1
    layout: ClassVar[dict[str, Any]] = {"D": "k d", "sums": coding.AtomSums}

    D: Array  # (k, d)
    sums: coding.AtomSums  # of all rows, coded with these atoms


@dataclass(frozen=True)
class MODAlgorithm:
    n_components: int
    coder: coding.Coder
    start: Any = None

    hint = "scale the data, or look for extreme values in it"

    def init(self, data: coding.TrainingRows, rng: np.random.Generator) -> MODState:
        D = coding.starting_atoms(data, self.n_components, self.start, rng)
        return MODState(D, data.sums(D, self.coder))

    def step(self, state: MODState, data: coding.TrainingRows) -> MODState:
        D = best_atoms(state.sums, state.D)
        return MODState(D, data.sums(D, self.coder))

    def objective(self, state: MODState) -> float:
        return state.sums.costs.mean_loss

    def attributes(self, state: MODState) -> dict[str, Any]:
        return {"components_": state.D, "sums_": state.sums}


def best_atoms(sums: coding.AtomSums, D: Array) -> Array:
    """A⁻¹B, made unit. Atoms that no code uses, or that come out as zero, stay; one of them moves to the row coded worst."""
    idle, k = coding.find_unused(sums.A), len(D)
    A, B = sums.A.astype(np.float64), sums.B.astype(np.float64)
    A[idle, idle] = A[idle, idle] + 1.0
    ridge = 1e-10 * np.trace(A) / k  # codes that always come together leave their sum alone
    found = scipy.linalg.solve(A + ridge * np.eye(k), B, assume_a="pos")
    lengths = np.linalg.norm(found, axis=1)
    fine = lengths > 0
    fine[idle] = False
    new = D.copy()
    new[fine] = (found[fine] / lengths[fine, None]).astype(D.dtype)
    length = np.linalg.norm(sums.worst)
    if len(idle) and sums.misfit > 0 and length > 0:
        new[idle[0]] = sums.worst / length
    return new
