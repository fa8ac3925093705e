"""Statements of an LDA fit: topics as counts, mixtures, priors, and a bound on the likelihood. Recomputed from the documents.

**Words add up.** `components_` are expected counts of words in topics, β more of each. Gibbs sampling and variational EM give
every token to topics in shares that sum to 1, so whatever the topics are,

    Σ_z (components_zw − β_zw) = N_w, how often word w occurs              (not after online batches, which forget)

**The bound** of variational EM, with q(θ_d) = Dirichlet(γ_d) and φ the rows of `components_` over their sums, is

    L = Σ_d E ln p(θ_d | α)/q(θ_d) + Σ_dw N_dw ln Σ_z exp(E ln θ_dz) φ_zw   ≤   ln p(w | φ, α),        E ln θ = ψ(γ) − ψ(Σγ)

and γ_d sums to A + T_d, so it follows from `doc_topic_`: γ_d = (A + T_d) θ_d.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, psi

from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.claims import Fit, passes, rounding
from lemmata.audit.topics.nmf.facts import entry_products
from lemmata.audit.topics.plsa import off_the_simplex, topic_word

Array = np.ndarray
PRIOR = 0.1  # α where none is asked for


def _unsound(fit: Fit) -> Iterator[str]:
    rows = np.asarray(fit.components_, np.float64).sum(axis=1)
    if (rows <= 0).any():
        yield f"topic {int(rows.argmin())} has no word"
    prior = fit.get("topic_word_prior_")
    if prior is not None:
        beta, shape = np.asarray(prior, np.float64), np.asarray(fit.components_).shape
        if beta.shape not in ((), shape) or not (np.isfinite(beta) & (beta > 0)).all():
            yield "topic_word_prior_ should be a number above 0, or one for each word of each topic"
    if fit.get("doc_topic_") is not None:
        yield from off_the_simplex(fit, "doc_topic_", "document")


SOUND = attributes_sound(
    {
        "components_": "k d >=0",
        "doc_topic_prior_": "k >0",
        "doc_topic_?": "n k >=0 <=1",
        "chain_log_likelihoods_?": "c p",
        "lower_bound_?": "",
    },
    more=_unsound,
)


def adds_up(fit: Fit) -> bool:
    """Return whether the topics of this fit are those of all documents, once each."""
    stated = fit.get("words_add_up_")
    return fit.get("learning_method") in ("gibbs", "batch") if stated is None else bool(stated)


def _statement_errors(fit: Fit) -> dict[str, float | None]:
    errors: dict[str, float | None] = {}
    components = np.asarray(fit.components_)
    prior = fit.get("topic_word_prior_")
    if adds_up(fit) and prior is not None:
        wide = components.astype(np.float64)
        beta = np.broadcast_to(np.asarray(prior, np.float64), wide.shape)
        words = (wide - beta).sum(axis=0)
        # averages of Gibbs samples are kept in float32
        sampled = fit.get("learning_method") == "gibbs" and fit.get("words_add_up_") is None
        close = rounding(np.float32 if sampled else components.dtype, len(wide))
        close = max(close, float(fit.get("words_tolerance_", 0.0)))
        errors["components_"] = discrepancy(words, word_totals(fit), wide.sum(axis=0), close)
    if fit.get("words_add_up_") is None:  # ours
        # means of θ over passes, which no model keeps
        errors |= {"doc_topic_": None} | _prior_stated(fit) | _chains_stated(fit)
    theta = fit.get("doc_topic_")
    if theta is not None and len(theta) != fit.data.shape[0]:
        return {**errors, "doc_topic_": np.inf}
    if fit.get("lower_bound_") is not None and theta is not None:
        errors.pop("doc_topic_", None)
        bound, tokens = variational_bound(fit)
        close = rounding(components.dtype, fit.data.size)
        scale = abs(bound) + tokens
        errors["lower_bound_"] = discrepancy(fit.lower_bound_, bound, scale, close)
    return errors


def _prior_stated(fit: Fit) -> dict[str, float | None]:
    """α as asked for; one that was learned follows from counts of topics that no model keeps."""
    asked, stated = fit.get("doc_topic_prior"), np.asarray(fit.doc_topic_prior_)
    if isinstance(asked, str):
        return {"doc_topic_prior_": None}
    true = np.broadcast_to(np.asarray(PRIOR if asked is None else asked, np.float64), stated.shape)
    return {"doc_topic_prior_": discrepancy(stated, true, true, rounding(stated.dtype))}


def _chains_stated(fit: Fit) -> dict[str, float | None]:
    """ln p(w, z) of the passes kept, beside the trace, which has them negated; of several chains it has one."""
    chains = fit.get("chain_log_likelihoods_")
    if chains is None:
        return {}
    if fit.trace is None or len(chains) > 1:
        return {"chain_log_likelihoods_": None}
    told = -np.asarray(fit.trace.objective)[-np.shape(chains)[1] :]
    return {"chain_log_likelihoods_": discrepancy(chains[0], told, np.abs(told), 1e-9)}


def word_totals(fit: Fit) -> Array:
    """Number of occurrences of each word, documents weighted, (m,)."""
    totals = np.zeros(fit.data.shape[1])
    for rows, weights in fit.data:
        N = sp.csr_array(rows, dtype=np.float64)
        w = np.ones(N.shape[0]) if weights is None else np.asarray(weights, np.float64)
        totals += N.T @ w
    return totals


def variational_bound(fit: Fit) -> tuple[float, float]:
    """L at the γ that follows from doc_topic_, and the number of tokens."""
    phi, alpha = topic_word(fit), np.asarray(fit.doc_topic_prior_, np.float64)
    theta, first, bound, tokens = np.asarray(fit.doc_topic_), 0, 0.0, 0.0
    for rows, weights in fit.data:
        N = sp.csr_array(rows, dtype=np.float64)
        mine = theta[first : first + N.shape[0]].astype(np.float64)
        first += N.shape[0]
        lengths = np.asarray(N.sum(axis=1)).ravel()
        gamma = np.maximum(mine * (alpha.sum() + lengths)[:, None], 1e-300)
        logs = psi(gamma) - psi(gamma.sum(axis=1, keepdims=True))
        found = gammaln(alpha.sum()) - gammaln(alpha).sum() - gammaln(gamma.sum(axis=1))
        found += (gammaln(gamma) + (alpha - gamma) * logs).sum(axis=1)
        p = entry_products(N, np.exp(logs), phi)
        owner = np.repeat(np.arange(N.shape[0]), np.diff(N.indptr))
        parts = N.data * np.log(np.maximum(p, 1e-300))
        found += np.bincount(owner, parts, minlength=N.shape[0])
        w = np.ones(len(found)) if weights is None else np.asarray(weights, np.float64)
        bound += float(w @ found)
        tokens += float(w @ lengths)
    return bound, tokens


def _cost(fit: Fit) -> float:
    bounded = fit.get("lower_bound_") is not None and fit.get("doc_topic_") is not None
    return passes(4.0 * len(fit.components_) if bounded else 2.0)(fit)


TRUE = statements_true(_statement_errors, cost=_cost)
