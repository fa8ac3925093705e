"""Denoisers that are known exactly: of a mixture of normals, at every noise level (what a learned one is compared with).

x_0 ~ Σ w_k N(μ_k, Σ_k)   ⟹   x_t ~ Σ w_k N(ᾱ μ_k, C_k),   C_k = ᾱ² Σ_k + β̄² I
E[ξ|x_t] = −β̄ ∇ ln p_t(x_t) = β̄ Σ_k r_k(x_t) C_k⁻¹ (x_t − ᾱ μ_k),   r_k the shares of the modes at x_t
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from lemmata.generate.diffusion.schedules import NoiseSchedule

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class MixtureDenoiser:
    """The best denoiser of a mixture of normals.

    weights : (k,); means : (k, d); covariances : (k, d, d)
    """

    weights: Array
    means: Array
    covariances: Array
    schedule: NoiseSchedule

    def _modes(self, x: Array, t: int) -> tuple[Array, Array]:
        """ln(w_k N(x; ᾱ μ_k, C_k)), (n, k), and C_k⁻¹(x − ᾱ μ_k), (n, k, d)."""
        a, b = self.schedule.alpha_bar[t], self.schedule.beta_bar[t]
        d = self.means.shape[1]
        C = a**2 * self.covariances + b**2 * np.eye(d)
        off = x[:, None] - a * self.means
        slopes = np.linalg.solve(C, off[..., None])[..., 0]
        volume = np.linalg.slogdet(C)[1] + d * np.log(2 * np.pi)
        return np.log(self.weights) - ((off * slopes).sum(axis=2) + volume) / 2, slopes

    def log_prob(self, x: Array, t: int = 0) -> Array:
        """ln p_t of rows, (n,)."""
        return logsumexp(self._modes(x, t)[0], axis=1)

    def score(self, x: Array, t: int) -> Array:
        """∇ ln p_t of rows, (n, d)."""
        logs, slopes = self._modes(x, t)
        shares = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        return -(shares[..., None] * slopes).sum(axis=1)

    def __call__(self, x: Array, t: int) -> Array:
        """E[ξ|x_t = x]."""
        return -self.schedule.beta_bar[t] * self.score(x, t)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        modes = rng.choice(len(self.weights), n, p=self.weights)
        roots = np.linalg.cholesky(self.covariances)
        noise = rng.normal(size=(n, self.means.shape[1], 1))
        return self.means[modes] + (roots[modes] @ noise)[..., 0]
