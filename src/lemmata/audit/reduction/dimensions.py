"""Claims about the number of components, where a rule chose it: the reason for it, from all variances of the rows.

    knee        the variance after the last component lies far below the line from the first variance to the last
    parallel    the last component varies more than that of rows with independent columns, the next one does not

Both are rules of thumb: a knee is a matter of taste, and the noise of parallel analysis is normal and as large as all variance.
"""

from __future__ import annotations

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.reduction.pca import SUBSPACE_CLAIMS
from lemmata.audit.reduction.spectra import spectrum, whole_scatter

Array = np.ndarray
BEND = 0.3  # below the line, in a unit square; ten variances of which each is half of the one before bend by 0.54
CLOSE = 1e-6  # of two bends that are as good as equal
DRAWS = 19  # the largest of them is passed by one draw of noise in twenty


def _variances(fit: k.Fit) -> tuple[Array, int]:
    """Return the variances of which none is 0 for want of rows, and the number of components."""
    found, kept = spectrum(fit), len(np.asarray(fit.components_))
    if not found.whole:
        raise k.CannotTell("too many features to know all variances")
    n, d = fit.data.shape
    values = np.maximum(found.values[: max(min(n - 1, d), 1)], 0.0)
    if kept >= len(values):
        raise k.CannotTell("all directions are kept: there is no next one")
    return values, kept


@k.rule_of_thumb(
    "the spectrum has a knee, after the last component", "CIL20 2.3.2", needs=(spectrum,)
)
def knee_clear(fit):
    """How far the first variance that is left out lies below the line from the first to the last, which are 1 apart."""
    values, kept = _variances(fit)
    fall = values[0] - values[-1]
    if fall <= k.rounding(np.float64, len(values)) * values[0]:
        return k.unknown("all variances are equal: there is no line to be below of")
    below = 1 - np.linspace(0, 1, len(values)) - (values - values[-1]) / fall
    first, best = float(below[kept]), int(below.argmax())
    note = f"variance {kept} is {values[kept - 1]:.3g}, the next {values[kept]:.3g}"
    least, advice = BEND, "the spectrum falls evenly: use 'parallel', or a share of the variance"
    if below[best] > first + CLOSE:
        least = float(below[best])
        advice = f"the farthest point is number {best + 1}: n_components={max(best, 1)}"
    return k.at_least(first, least, advice, "below the line", note)


@k.rule_of_thumb(
    f"its last component varies more than in {DRAWS} draws of rows with independent columns, the next one does not",
    "Horn 1965",
    cost=lambda fit: (DRAWS + 1.0) * float(fit.data.shape[1]) ** 3,
    needs=(spectrum, whole_scatter),
)
def above_chance(fit):
    """The least of λ_k / noise_k and noise_{k+1} / λ_{k+1}, the noise being the largest of all draws."""
    values, kept = _variances(fit)
    n = float(fit.data.total_weight)
    freedom = round(n) - 1
    own, rng = np.diagonal(whole_scatter(fit)) * n / freedom, np.random.default_rng(0)
    noise = np.max([_draw(own, freedom, rng) for _ in range(DRAWS)], axis=0)[: len(values)] / n
    ratios = values / np.maximum(noise, np.finfo(float).tiny)
    note = f"component {kept} has {ratios[kept - 1]:.3g} of the noise, the next {ratios[kept]:.3g}"
    above = ratios > 1
    right = int(np.argmin(above)) if not above.all() else len(above)
    advice = (
        f"as many as vary more than noise: {right}" if right else "nothing varies more than noise"
    )
    inverse = 1 / max(float(ratios[kept]), np.finfo(float).tiny)
    return k.at_least(
        min(float(ratios[:kept].min()), inverse), 1.0, advice, "times the noise, or less", note
    )


def _draw(variances: Array, freedom: int, rng: np.random.Generator) -> Array:
    """Return the eigenvalues of a scatter of independent normal columns with these variances, by Bartlett's triangle."""
    d = len(variances)
    A = rng.standard_normal((d, min(freedom, d)))
    if freedom >= d:
        A = np.tril(A, -1) + np.diag(np.sqrt(rng.chisquare(freedom - np.arange(d))))
    return np.linalg.svd(np.sqrt(variances)[:, None] * A, compute_uv=False) ** 2


KNEE_CLAIMS = (*SUBSPACE_CLAIMS, knee_clear)
PARALLEL_CLAIMS = (*SUBSPACE_CLAIMS, above_chance)
