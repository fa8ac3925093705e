"""Searches for mixtures of topics and for non-negative coefficients, where a model states none or poor ones.

What is found here is checked in audit/topics and never believed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lemmata.audit.kernel.claims import Fit
from lemmata.audit.topics.nmf.facts import Numbers, ScaledBlock, known_sums, pulls_of
from lemmata.audit.topics.plsa import FITTING, LikelihoodFacts

Array = np.ndarray
SWEEPS = 400  # over one W at most


def better_mixtures(
    fit: Fit,
    facts: LikelihoodFacts,
    theta: Array,
    steps: int,
    settled: Callable[[LikelihoodFacts], bool],
) -> Array:
    """Return mixtures at least as likely as θ, by so many steps of EM or until they settle the question."""
    for _ in range(steps):
        theta = _climb(facts, theta)
        facts = LikelihoodFacts(fit, theta)
        if settled(facts):
            break
    return theta


def fitted_mixtures(fit: Fit) -> Array:
    """Return mixtures of documents under a model with a prior, by steps of EM from its mean."""
    alpha = np.asarray(fit.doc_topic_prior_, np.float64)
    theta = np.tile(alpha / alpha.sum(), (fit.data.shape[0], 1))
    for _ in range(FITTING):
        theta = _climb(LikelihoodFacts(fit, theta), theta)
    return theta


def _climb(facts: LikelihoodFacts, theta: Array) -> Array:
    """Return mixtures that are at least as likely: a step of EM."""
    counts = facts.shares + facts.pseudo
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1), theta)


# --- non-negative factors ---------------------------------------------------------------------------------------------


def coefficients(fit: Fit, numbers: Numbers) -> Array:
    """Return a W ≥ 0 for the components of a fit, as good as some hundred sweeps make it."""
    solve = _shares if numbers.divergence else _sweeps
    return np.concatenate([solve(numbers, block) for _, block in numbers])


def _gram_rows(block: ScaledBlock, H: Array) -> Array:
    """HHᵀ, (k, k), or over the known columns of every row, (n, k, k)."""
    if block.mask is None:
        return H @ H.T
    k, out = len(H), np.empty((block.X.shape[0], len(H), len(H)))
    for a in range(k):
        out[:, a] = block.mask @ (H[a] * H).T
    return out


def _sweeps(numbers: Numbers, block: ScaledBlock) -> Array:
    """Co-ordinate descent from 0, until nothing moves."""
    H, G = numbers.H, _gram_rows(block, numbers.H)
    P = np.asarray(block.X @ H.T)
    W = np.zeros_like(P)
    for _ in range(SWEEPS):
        moved = 0.0
        for z in range(len(H)):
            down = W @ G[:, z] if G.ndim == 2 else np.einsum("ir,ir->i", W, G[:, z])
            c = (G[z, z] if G.ndim == 2 else G[:, z, z]) + numbers.l2_W[z]
            slope = P[:, z] - numbers.l1_W[z] - numbers.l2_W[z] * W[:, z] - down
            new = np.maximum(W[:, z] + np.where(c > 0, slope / np.where(c > 0, c, 1), 0), 0)
            moved = max(moved, float((np.abs(new - W[:, z]) * np.sqrt(c)).max(initial=0.0)))
            W[:, z] = new
        if moved <= 1e-10 * np.abs(P).max(initial=0.0):
            break
    return W


def _shares(numbers: Numbers, block: ScaledBlock) -> Array:
    """The multiplicative rule from a constant W, until nothing moves."""
    H, slope = numbers.H, known_sums(block, numbers.H) + numbers.l1_W
    w = np.ones(slope.shape)
    for _ in range(SWEEPS):
        up, _, _ = pulls_of(block, w, H)
        counts, l2 = w * up, numbers.l2_W
        root = slope + np.sqrt(slope**2 + 4 * l2 * counts)
        new = 2 * counts / np.where(root > 0, root, 1)
        moved = float(np.abs((new - w) * slope).sum())
        w = new
        if moved <= 1e-9 * float((w * slope).sum()):
            break
    return w
