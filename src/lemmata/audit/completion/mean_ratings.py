"""Claims about offsets of rows and columns (MeanRatings), checked on the known entries by plain code.

    F(b, c) = ½ Σ_Ω (a_ij − μ − b_i − c_j)² + ½ λ (‖b‖² + ‖c‖²)                                             (CIL 2.1.4)

**How much better could they be?** F is a quadratic with Hessian H, so other offsets lower it by ½ gᵀH⁻¹g at most, g the
gradient. With one side alone H is diagonal; with both and λ > 0, H ≽ λ.

**How much noise would they explain?** If the N values were thrown on the known places at random (noise of any distribution
is), a projection M onto p offsets, beside the mean, would explain a share R² = xᵀMx / xᵀx of the centred values x. Over all
orders of the values its mean is p/(N − 1), and its variance follows from the moments of the values and D = Σ M_ii² (Pitman
1938); by Cantelli it exceeds its mean by t standard deviations with probability at most 1/(1 + t²). Shrunken offsets explain
less.
"""

from __future__ import annotations

import math

import numpy as np

from lemmata.audit.completion.held_out.error import held_out_error
from lemmata.audit.completion.identifiability.known_entries import connected_observations
from lemmata.audit.completion.statements import FACTORS, precision
from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true

Array = np.ndarray
GAIN = 1e-6  # of the objective
RISK = 0.01


class OffsetErrors:
    """The errors that offsets leave, in units of the largest entry, so that no square of 1e±150 is lost."""

    def __init__(self, fit: claims.Fit):
        A = fit.data
        largest = float(np.abs(A.values).max(initial=0.0))
        self.unit = largest if 0 < largest < np.inf else 1.0
        self.values = A.values.astype(np.float64) / self.unit
        self.mean = float(fit.mean_) / self.unit
        b, c = (np.asarray(x, np.float64) / self.unit for x in (fit.row_bias_, fit.column_bias_))
        self.fitted = self.mean + b[A.rows] + c[A.columns]
        self.errors = self.values - self.fitted
        self.reg = float(fit.reg_)
        # whose each entry is, how many entries each row or column has, and its offset
        both = {"rows": (A.rows, A.row_counts, b), "columns": (A.columns, A.column_counts, c)}
        self.sides = [both[name] for name in both if fit.by in ("both", name)]
        self.others = [both[name][2] for name in both if fit.by not in ("both", name)]

    @property
    def objective(self) -> float:
        penalty = sum(float(offset @ offset) for _, _, offset in self.sides)
        return 0.5 * float(self.errors @ self.errors) + 0.5 * self.reg * penalty

    def slopes(self) -> list[tuple[Array, Array]]:
        """Σ e − λb of every row that has an offset, then of every column, and the sizes Σ(|a| + |x|) + λ|b| of its terms."""
        sizes = np.abs(self.values) + np.abs(self.fitted) + abs(self.mean)
        return [
            (
                np.bincount(who, self.errors, len(counts)) - self.reg * offset,
                np.bincount(who, sizes, len(counts)) + self.reg * np.abs(offset),
            )
            for who, counts, offset in self.sides
        ]


@claims.fact(cost=claims.passes(10))
def offsets(fit: claims.Fit) -> OffsetErrors:
    return OffsetErrors(fit)


# --- what is stated ---------------------------------------------------------------------------------------------------


def _statements(fit: claims.Fit) -> dict[str, float]:
    """μ is the mean of the entries, and every offset solves its own equation; offsets not asked for are 0."""
    at, tolerance = offsets(fit), claims.rounding(precision(fit), terms=fit.data.n_observed)
    size = float(np.abs(at.values).mean()) if len(at.values) else 1.0
    mean = float(at.values.mean()) if len(at.values) else 0.0
    found = {"mean_": discrepancy(at.mean, mean, size, tolerance)}
    slopes = at.slopes()
    if slopes:
        # the solver of both at once stops at 1e-12 of all equations together, which may be much for a short row
        whole = 1e-10 * math.sqrt(sum(float(terms @ terms) for _, terms in slopes)) / tolerance
        found["row_bias_, column_bias_"] = max(
            discrepancy(slope, np.zeros(len(slope)), terms + whole, tolerance)
            for slope, terms in slopes
        )
    for offset in at.others:
        wrong = discrepancy(offset, np.zeros(len(offset)), 0.0, 1.0)
        found["offsets that were not asked for"] = wrong
    for name in ("row_scale_", "column_scale_"):  # nothing is scaled
        if fit.has(name):
            scale = getattr(fit, name)
            found[name] = discrepancy(scale, np.ones(np.shape(scale)), 0.0, 1.0)
    if fit.has("reg"):
        found["reg_"] = discrepancy(fit.reg_, fit.reg, fit.reg, claims.rounding(np.float64))
    return found


OFFSETS_SOUND = attributes_sound(FACTORS)
OFFSETS_TRUE = statements_true(_statements, needs=(offsets,))


# --- claims -----------------------------------------------------------------------------------------------------------


@claims.proved(
    "no other offsets lower the objective by more than 1e-6 of it",
    "CIL 2.1.4, Prop. 2.2.2",
    needs=(offsets,),
)
def best_offsets(fit):
    """½ gᵀH⁻¹g; with D the diagonal of H: ½ gᵀD⁻¹g for one side, for both between ¼ gᵀD⁻¹g (H ≼ 2D) and ‖g‖²/2λ (H ≽ λ)."""
    at = offsets(fit)
    counts = [side[1] + at.reg for side in at.sides]
    slopes = [slope for slope, _ in at.slopes()]
    if not slopes:  # μ is all there is, and has no penalty
        counts, slopes = [np.array([len(at.errors)])], [at.errors.sum(keepdims=True)]
    gain = 0.5 * sum(
        float((g**2 / np.where(h > 0, h, 1)).sum()) for g, h in zip(slopes, counts, strict=True)
    )
    rounded = (claims.rounding(precision(fit), terms=4) ** 2) * float(at.values @ at.values)
    scale = at.objective + rounded / GAIN  # a gain that rounding the offsets explains is none
    advice = "report this: the equations are linear and have a solution"
    note, kind = "", claims.PROVED
    least = most = gain
    if len(slopes) == 2:
        squares = sum(float(g @ g) for g in slopes)
        least, most = gain / 2, squares / (2 * at.reg) if at.reg > 0 else np.inf
    if least > GAIN * scale or most <= GAIN * scale:
        gain = least if least > GAIN * scale else most
    else:
        note = "as if rows and columns did not interact: reg is too small for a bound"
        kind = claims.RULE_OF_THUMB
    share = gain / scale if gain > 0 else 0.0
    return claims.at_most(share, GAIN, advice, unit="gain", note=note, kind=kind)


@claims.proved("every row and column that has an offset has an entry", "CIL (2.6), 2.2.1")
def an_entry_each(fit):
    both = {"rows": fit.data.row_counts, "columns": fit.data.column_counts}
    counts = [both[name] for name in both if fit.by in ("both", name)]
    fewest = min((int(part.min()) for part in counts), default=fit.data.n_observed)
    empty = sum(int((part == 0).sum()) for part in counts)
    note = f"{empty:,} have none; they count as average" if empty else ""
    advice = "nothing is known of them: leave them out, or do not rely on them"
    return claims.at_least(fewest, 1, advice, "fewest", note)


@claims.statistical(
    "the offsets explain more than offsets of pure noise would",
    "CIL 2.1.4; Pitman 1938, Cantelli",
    needs=(offsets,),
    confidence=1 - RISK,
)
def beyond_noise(fit):
    """R² against the mean and variance that it has over all orders of the values (see above)."""
    at = offsets(fit)
    N = len(at.values)
    free = sum(int((counts > 0).sum()) - 1 for _, counts, _ in at.sides)
    x = at.values - at.values.mean()
    total = float(x @ x)
    if free == 0 or total <= claims.rounding(np.float64, N) ** 2 * float(at.values @ at.values):
        why = "there are no offsets but the mean" if free == 0 else "there is nothing to explain"
        return claims.unknown(why)
    if N - 1 - free <= 0 or N < 4:
        return claims.unknown(f"{free:,} offsets for {N:,} entries: no entry is left to tell by")
    share = 1 - float(at.errors @ at.errors) / total
    usual = free / (N - 1)
    spread = math.sqrt(max(_variance(x, free, D) for D in _leverages(at, free)))
    bound = usual + math.sqrt(1 / RISK - 1) * spread
    advice = f"{free:,} offsets for {N:,} entries tell little: try by='columns', 'rows' or 'global', or raise reg"
    if share > bound:
        return claims.at_least(share, bound, advice, unit="R²")
    if share <= usual:
        note, kind = "no more than noise does on average", claims.RULE_OF_THUMB
        return claims.at_least(share, usual, advice, unit="R²", note=note, kind=kind)
    noise = f"noise explains {usual:.3g} on average, and seldom {bound:.3g}"
    return claims.unknown(f"R² {share:.3g}; {noise}")


def _leverages(at: OffsetErrors, free: int) -> tuple[float, ...]:
    """D = Σ M_ii²: of one side, M_ii = 1/n_i − 1/N; of both, something between p²/N and p."""
    if len(at.sides) == 2:
        return free**2 / len(at.values), float(free)
    counts = at.sides[0][1]
    counts = counts[counts > 0].astype(np.float64)
    return (float((counts * (1 / counts - 1 / len(at.values)) ** 2).sum()),)


def _variance(x: Array, p: int, D: float) -> float:
    """Variance of xᵀMx / xᵀx over all orders of N centred numbers x, M a projection of rank p with M1 = 0 and Σ M_ii² = D.

    E (xᵀMx)² = Σ M_ij M_kl E x_i x_j x_k x_l: which indices coincide decides the second factor, and sums of M over each
    pattern follow from M1 = 0 and M² = M. With m₂, m₄ the mean square and fourth power of x:

        i = j = k = l        D                       m₄
        pairs                p² + 2p − 3D            (N m₂² − m₄) / (N − 1)
        three alike          −4D                     −m₄ / (N − 1)
        two alike            12D − 2p² − 4p          (2m₄ − N m₂²) / (N − 1)(N − 2)
        none                 p² + 2p − 6D            (3N m₂² − 6m₄) / (N − 1)(N − 2)(N − 3)
    """
    N = float(len(x))
    scaled = x / np.abs(x).max()
    m2, m4 = float((scaled**2).mean()), float((scaled**4).mean())
    square = (
        D * m4
        + (p**2 + 2 * p - 3 * D) * (N * m2**2 - m4) / (N - 1)
        + 4 * D * m4 / (N - 1)
        + (12 * D - 2 * p**2 - 4 * p) * (2 * m4 - N * m2**2) / ((N - 1) * (N - 2))
        + (p**2 + 2 * p - 6 * D) * (3 * N * m2**2 - 6 * m4) / ((N - 1) * (N - 2) * (N - 3))
    )
    return max(square - (p * m2 * N / (N - 1)) ** 2, 0.0) / (N * m2) ** 2


_OFFSETS = (OFFSETS_SOUND, OFFSETS_TRUE, best_offsets, an_entry_each, beyond_noise)
ONE_SIDED_CLAIMS = (*_OFFSETS, held_out_error)
MEAN_RATINGS_CLAIMS = (*_OFFSETS, connected_observations, held_out_error)
