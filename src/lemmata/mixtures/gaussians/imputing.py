"""Unknown values of rows: their conditional means under a Gaussian mixture, and draws of them.

    E[x_m | x_o] = Σ_j r_j(x_o) (μ_jm + Σ_jmo Σ_joo⁻¹ (x_o − μ_jo)),           r_j(x_o) ∝ π_j N(x_o; μ_jo, Σ_joo)

A draw is a component j with probability r_j(x_o), then a row from N(E_j[x_m | x_o], Cov_j[x_m | x_o]). The mean is the best
single guess (in squares), but means are less spread than values are: statistics of imputed rows want draws, and several.

    >>> from lemmata.mixtures.gaussians import FullGaussian
    >>> params = FullGaussian().of(np.array([[1.0, 2.0]]), np.array([[[1.0, 0.5], [0.5, 1.0]]]))
    >>> mixture = FullGaussian().components(params, np.zeros(1), np.float64)
    >>> expected_rows(mixture, np.array([[3.0, np.nan], [np.nan, np.nan]]))
    array([[3., 3.],
           [1., 2.]])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lemmata.mixtures.expectation import posterior
from lemmata.mixtures.gaussians.components import Components

Array = np.ndarray


def expected_rows(mixture: Components, rows: Array) -> Array:
    """The rows with every NaN replaced by its conditional mean."""
    gone = np.isnan(rows)
    some = gone.any(axis=1)
    if not some.any():
        return rows.copy()
    Z, R = _memberships(mixture, rows[some])
    guess = np.zeros_like(Z)
    for j, which, mean, _ in mixture.conditionals(Z):
        guess[which] += R[which, j, None] * mean
    return _with(rows, some, gone, mixture.centre + mixture.scale * guess)


def draw_rows(mixture: Components, rows: Array, streams: Sequence[RandomStream]) -> Array:
    """So many copies of the rows, every NaN replaced by a value drawn given what is known of its row: (draws, n, d)."""
    gone = np.isnan(rows)
    some = gone.any(axis=1)
    drawn = [rng.of(len(rows), rows.shape[1]) for rng in streams]
    out = np.repeat(rows[None], len(streams), axis=0)
    if not some.any():
        return out
    Z, R = _memberships(mixture, rows[some])
    chance, noise = (np.stack(part)[:, some] for part in zip(*drawn, strict=True))
    component = np.minimum((chance[..., None] >= R.cumsum(axis=1)).sum(axis=2), R.shape[1] - 1)
    guess = np.empty_like(noise)
    for j, which, mean, colour in mixture.conditionals(Z):
        draw, mine = np.nonzero(component[:, which] == j)
        guess[draw, which[mine]] = mean[mine] + colour(mine, noise[draw, which[mine]])
    out[:, some] = np.where(gone[some], mixture.centre + mixture.scale * guess, out[:, some])
    return out


class RandomStream:
    """The random numbers of one draw, row after row: they do not depend on how rows are cut into blocks."""

    def __init__(self, seed: Sequence[int]):
        self.chances, self.noises = (np.random.default_rng([*seed, part]) for part in (0, 1))

    def of(self, n: int, d: int) -> tuple[Array, Array]:
        """For the next n rows: a uniform number each, and d normal ones."""
        return self.chances.random(n), self.noises.standard_normal((n, d))


def _memberships(mixture: Components, rows: Array) -> tuple[Array, Array]:
    """Rows in standard units, and r_j(x_o) (n, k); of a row of which nothing is known, π_j."""
    Z = mixture.standard(rows)
    return Z, posterior(mixture.marginal(Z) + mixture.log_weights)[1]


def _with(rows: Array, some: Array, gone: Array, guess: Array) -> Array:
    out = rows.copy()
    out[some] = np.where(gone[some], guess, rows[some])
    return out
