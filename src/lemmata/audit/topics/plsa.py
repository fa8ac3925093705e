"""Claims about topics fitted by maximum likelihood (pLSA), recomputed from counts and public attributes.

With p_dw = Σ_z θ_dz φ_zw (`doc_topic_`, `components_`) and N the counts,

    ℓ = Σ_dw N_dw ln p_dw,        g_dz = Σ_w N_dw φ_zw / p_dw = ∂ℓ/∂θ_dz,        θ_dᵀ g_d = s_d, the tokens of document d

ℓ is concave in θ, so its tangent bounds what another mixture of the same topics could gain: max_z g_dz − s_d nats for document
d. It is not concave in θ and φ together, and the factors need not be unique: whenever φ_a − εφ_b ≥ 0 (or θ_b − δθ_a ≥ 0),
topic b can be taken out of topic a and given to the documents instead, without changing any p_dw.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.topics.nmf.facts import entry_products
from lemmata.audit.topics.nmf.uniqueness import judge_unique
from lemmata.audit.topics.runs import never_fell

Array = np.ndarray
NATS = 0.05  # a token that documents may lose: 5 % of its probability
# what the mean of a document's θ may lack besides: a draw of θ lacks (topics it has − 1)/2
NATS_A_DOCUMENT = 1.0
FEWEST = 5  # documents that a topic should live on
APART = 0.1  # of their probability by which two topics should differ
SEARCH = 99  # steps of EM, at most, that decide what the tangent leaves open
FITTING = 20  # steps of EM that a search for mixtures which a model does not state may take


def off_the_simplex(fit: claims.Fit, name: str, what: str) -> Iterator[str]:
    """The worst row of an attribute, if it does not sum to 1."""
    P = np.asarray(fit.get(name), dtype=np.float64)
    off = np.abs(P.sum(axis=1) - 1)
    worst = int(off.argmax())
    if off[worst] > claims.rounding(np.asarray(fit.get(name)).dtype, P.shape[1]):
        yield f"{what} {worst} of {name} sums to {P[worst].sum():.6g}, not to 1"


def _unsound(fit: claims.Fit) -> Iterator[str]:
    for name, what in (("components_", "topic"), ("doc_topic_", "document")):
        if fit.get(name) is not None:
            yield from off_the_simplex(fit, name, what)


SOUND = attributes_sound(
    {
        "components_": "k d >=0 <=1",
        "doc_topic_?": "n k >=0 <=1",
        "log_likelihood_?": "",
        "topic_tokens_?": "k >=0",
    },
    more=_unsound,
)


def topic_word(fit: claims.Fit) -> Array:
    """p(word | topic): `components_`, or where they are counts (of a model with a prior) their rows over their sums."""
    rows = np.asarray(fit.components_, np.float64)
    if fit.get("doc_topic_prior_") is None:
        return rows
    totals = rows.sum(axis=1, keepdims=True)
    return rows / np.where(totals > 0, totals, 1)


class LikelihoodFacts:
    """ℓ, the bound on what documents could gain, and expected tokens of each topic in each document, in one pass.

    With a prior α of topics in documents, `value` is ℓ + Σ_dz α_z ln θ_dz, as concave as ℓ, and the gain is of that. Its
    best θ is a mean of counts, α_z more of each (audit/topics/mixtures.py).
    """

    def __init__(self, fit: claims.Fit, theta: Array):
        self.loglik = self.gain = self.tokens = self.prior = 0.0
        phi, first, shares, added = topic_word(fit), 0, [], []
        alpha = np.zeros(len(phi)) + np.asarray(fit.get("doc_topic_prior_", 0.0), np.float64)
        for rows, weights in fit.data:
            N = sp.csr_array(rows, dtype=np.float64)
            if weights is not None:
                N = sp.csr_array(sp.diags_array(np.asarray(weights, np.float64)) @ N)
            mine = theta[first : first + N.shape[0]]
            first += N.shape[0]
            p = entry_products(N, mine, phi)
            seen = N.data > 0
            with np.errstate(divide="ignore"):
                self.loglik += float(np.dot(N.data[seen], np.log(p[seen])))
            Q = N.copy()
            Q.data = np.where(seen & (p > 0), N.data / np.maximum(p, 1e-300), 0.0)
            g = Q @ phi.T
            lengths = np.asarray(N.sum(axis=1)).ravel()
            pseudo = np.multiply.outer(np.ones(len(mine)) if weights is None else weights, alpha)
            with np.errstate(divide="ignore", invalid="ignore"):
                slopes = g + np.where(pseudo > 0, pseudo / mine, 0.0)
                self.prior += float(np.where(pseudo > 0, pseudo * np.log(mine), 0.0).sum())
            self.gain += float(
                (slopes.max(axis=1, initial=0.0) - lengths - pseudo.sum(axis=1)).clip(min=0).sum()
            )
            self.tokens += float(lengths.sum())
            shares.append(g * mine)
            added.append(pseudo)
        self.shares, self.pseudo = np.concatenate(shares), np.concatenate(added)  # n_dz, (n, k)

    @property
    def value(self) -> float:
        return self.loglik + self.prior


def _work(fit: claims.Fit) -> float:
    steps = FITTING if fit.get("doc_topic_") is None else 1
    return claims.passes(4.0 * len(fit.components_) * steps)(fit)


@claims.fact(cost=_work)
def mixture_facts(fit: claims.Fit) -> LikelihoodFacts | None:
    """Return the facts at the mixtures of the model, or where it has a prior and states none at mixtures that were found.

    None where the mixtures are not those of these documents, or better ones than those found might be far better.
    """
    theta, prior = fit.get("doc_topic_"), fit.get("doc_topic_prior_")
    if theta is not None:
        own = len(theta) == fit.data.shape[0]
        return LikelihoodFacts(fit, np.asarray(theta, np.float64)) if own else None
    if prior is None:
        return None
    found = _at(fit, fit.witness("fitted_mixtures"))
    if found is None or found.gain > NATS * found.tokens + NATS_A_DOCUMENT * len(found.shares):
        return None
    return found


def _at(fit: claims.Fit, theta: Array | None) -> LikelihoodFacts | None:
    """Return the facts at mixtures that were searched for; None where they are no mixtures of these documents."""
    shape = fit.data.shape[0], len(fit.components_)
    if theta is None or theta.shape != shape or not (theta >= 0).all():
        return None
    off = np.abs(theta.sum(axis=1) - 1).max(initial=0.0)
    return LikelihoodFacts(fit, theta) if off <= claims.rounding(theta.dtype, shape[1]) else None


NO_MIXTURES = "the model states no mixtures, and none were found that are near the best"
OTHER = "doc_topic_ is not that of these documents: pass those that were fitted to"


def _statement_errors(fit: claims.Fit) -> dict[str, float]:
    found = mixture_facts(fit)
    if found is None:
        return {"doc_topic_": np.inf}
    dtype = np.asarray(fit.components_).dtype
    # a float32 probability errs by eps, and its logarithm by as much, whatever its size
    scale = abs(found.loglik) + found.tokens
    close = claims.rounding(dtype, fit.data.size)
    errors = {"log_likelihood_": discrepancy(fit.log_likelihood_, found.loglik, scale, close)}
    # after batches, words of documents that are gone are among them
    if fit.get("topic_tokens_") is not None and fit.get("stopped_") != "batches":
        tokens = found.shares.sum(axis=0)
        errors["topic_tokens_"] = discrepancy(fit.topic_tokens_, tokens, found.tokens, close)
    return errors


TRUE = statements_true(_statement_errors, needs=(mixture_facts,))


# of the tempered likelihood where EM was tempered
likelihood_never_fell = never_fell(
    "the likelihood never fell", "CIL 3.2.3", name="likelihood_never_fell"
)


@claims.proved(
    "with these topics, no other mixtures of the documents gain more than 0.05 nats a token",
    "CIL 3.2.3; concavity of the likelihood in θ",
    needs=(mixture_facts,),
)
def documents_fitted(fit: claims.Fit):
    return judge_mixtures(fit)


def judge_mixtures(fit: claims.Fit, nats_a_document: float = 0.0):
    """The tangent bounds the gain from above, mixtures that were found bound it from below: between the two, a search decides.

    The tangent at any mixtures bounds what the best are worth, so those that a search returns tighten both ends.
    """
    found = None if fit.get("doc_topic_") is None else mixture_facts(fit)
    if found is None:
        return claims.unknown(OTHER)
    advice = "run longer (raise max_iter, lower tol), or transform the documents again"
    unit = "nats a token"
    if not np.isfinite(found.value):
        return claims.at_most(
            np.inf, NATS, "a word of the documents has probability 0: fit it again", unit
        )
    theta = np.asarray(fit.doc_topic_, np.float64)
    # what a document may gain anyway, counted as tokens
    tokens = max(found.tokens + nats_a_document / NATS * len(theta), 1e-300)

    def bounds(here: LikelihoodFacts) -> tuple[float, float]:
        gained = (here.value - found.value) / tokens
        return gained, gained + here.gain / tokens

    def is_settled(here: LikelihoodFacts) -> bool:
        gained, most = bounds(here)
        return most <= NATS or gained > NATS

    here: LikelihoodFacts | None = found
    if not is_settled(found):
        affordable = fit.work / max(4.0 * len(fit.components_) * fit.data.size, 1.0)
        steps = int(min(SEARCH, max(affordable, 0.0)))
        theta = fit.witness("better_mixtures", found, theta, steps, is_settled)
        here = _at(fit, theta)
    gained, most = bounds(here or found)
    if most <= NATS:
        return claims.at_most(most, NATS, advice, f"{unit}, at most", witness={"mixtures": theta})
    if gained > NATS:
        return claims.at_most(
            gained, NATS, advice, f"{unit}, at least", witness={"mixtures": theta}
        )
    return claims.unknown(f"between {gained:.2g} and {most:.2g} nats a token")


@claims.proved(
    "no other topics give every word of every document the same probability",
    "CIL 3.2.5; Laurberg et al. 2008",
    cost=lambda fit: (
        float(len(fit.components_)) ** 2
        * (fit.components_.shape[1] + len(fit.get("doc_topic_", ())))
    ),
)
def topics_determined(fit: claims.Fit):
    """A pair of topics of which one can be taken out of the other is a witness against it, and the number is how much of a
    topic's probability then goes elsewhere; a document and a word of its own for every topic prove it (uniqueness.py)."""
    theta, phi = fit.get("doc_topic_"), np.asarray(fit.components_, np.float64)
    if theta is None:
        return claims.unknown("the mixtures of the documents are not there")
    return judge_unique(
        np.asarray(theta, np.float64),
        phi,
        unit="probability moved",
        advice="read topics as one choice of many: fewer topics, or a prior (LDA) that prefers sparse ones",
        shear="part of topic {b} can be taken out of topic {a}: every probability stays what it is",
        alone="every topic has a document and a word of its own",
        between="no pair of topics shows it, and not every topic has a document and a word of its own",
    )


@claims.rule_of_thumb(
    "every topic is spread over at least five documents", "CIL 3.2.2", needs=(mixture_facts,)
)
def topics_supported(fit: claims.Fit):
    """(Σ_d n_dz)²/Σ_d n_dz² of the expected tokens n_dz of topic z: as many documents as would share it evenly."""
    found = mixture_facts(fit)
    if found is None:
        searched = fit.get("doc_topic_") is None and fit.get("doc_topic_prior_") is not None
        return claims.unknown(NO_MIXTURES if searched else OTHER)
    n = found.shares
    squares = (n**2).sum(axis=0)
    support = n.sum(axis=0) ** 2 / np.where(squares > 0, squares, np.inf)
    z = int(support.argmin())
    advice = f"topic {z} is that of a few documents: ask for fewer topics"
    return claims.at_least(float(support[z]), FEWEST, advice, f"documents of topic {z}")


@claims.rule_of_thumb(
    "any two topics differ in at least a tenth of their probability",
    "CIL 3.2.2",
    cost=lambda fit: float(len(fit.components_)) ** 2 * fit.components_.shape[1],
)
def topics_distinct(fit: claims.Fit):
    phi = topic_word(fit)
    if len(phi) < 2:
        return claims.unknown("there is one topic only")
    apart = np.array([[0.5 * np.abs(a - b).sum() for b in phi] for a in phi])
    np.fill_diagonal(apart, np.inf)
    a, b = np.unravel_index(int(apart.argmin()), apart.shape)
    advice = f"topics {a} and {b} say the same: ask for fewer topics"
    return claims.at_least(float(apart.min()), APART, advice, "total variation")


LATENT_SEMANTICS_CLAIMS = (
    SOUND, TRUE, documents_fitted, likelihood_never_fell, topics_determined, topics_supported, topics_distinct,
)  # fmt: skip
