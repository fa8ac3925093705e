"""Claims about sentences as means of word vectors: s = (1/n) Σ c_w z_w, less what lies along the removed directions u.

    t = s − Cᵀ C s            C: the removed directions as rows (`components_`)

What is left has nothing along them if C Cᵀ = I, and they hold Σ_s ‖C s‖², of which the best that so many directions can hold is
the sum of the largest eigenvalues of Σ s sᵀ (Eckart and Young, not centred).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lemmata.audit.embedding.skipgram import loss_fell, softplus
from lemmata.audit.embedding.skipgram import statement_errors as counts_errors
from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true

Array = np.ndarray
KNOWN = 0.99  # of the texts
BELOW = 0.99  # of the loss of frequencies alone
ASKED = 2**12  # targets
AT_ONCE = 2**21  # scores


def sentences(fit: claims.Fit):
    """s of every text, block by block, in double precision."""
    vectors = np.asarray(fit.embedding_, np.float64)
    weights = np.asarray(fit.weights_, np.float64)
    for ids, starts in fit.data:
        rows = np.zeros((len(starts) - 1, vectors.shape[1]))
        sizes = np.diff(starts)
        np.add.at(rows, np.repeat(np.arange(len(sizes)), sizes), weights[ids, None] * vectors[ids])
        yield rows / np.maximum(sizes, 1)[:, None]


def _work(fit: claims.Fit) -> float:
    size = np.shape(fit.embedding_)[1]
    return float(fit.data.size) * size * 4 + float(fit.data.shape[0]) * size**2


@claims.fact(cost=_work)
def scatter(fit: claims.Fit) -> Array:
    """Return Σ s sᵀ."""
    k = np.shape(fit.embedding_)[1]
    return sum((rows.T @ rows for rows in sentences(fit)), np.zeros((k, k)))


def statement_errors(fit: claims.Fit) -> dict[str, float]:
    """Counts and texts without words, which are whole numbers; weights and singular values, to rounding."""
    counts, empty = np.zeros(len(fit.counts_), np.int64), 0
    for ids, starts in fit.data:
        counts += np.bincount(ids, minlength=len(counts))
        empty += int((np.diff(starts) == 0).sum())
    unit = claims.rounding(np.asarray(fit.weights_).dtype)
    frequency = counts / max(counts.sum(), 1)
    weights = np.ones(len(counts)) if fit.method == "mean" else fit.a / (fit.a + frequency)
    errors = {
        "counts_": 2.0 * float(np.abs(counts - np.asarray(fit.counts_)).max(initial=0)),
        "n_empty_": 2.0 * abs(empty - int(fit.n_empty_)),
        "weights_": discrepancy(fit.weights_, weights, 1.0, unit),
    }
    C = np.asarray(fit.components_, np.float64)
    if len(C):
        S = scatter(fit)
        held, stated = (
            np.einsum("ij,jk,ik->i", C, S, C),
            np.asarray(fit.singular_values_, np.float64),
        )
        # σ² is known to the rounding of the whole of S
        unit = claims.rounding(np.asarray(fit.embedding_).dtype, len(S))
        errors["singular_values_"] = discrepancy(stated**2, held, float(np.trace(S)), unit)
    return errors


@claims.proved(
    "what is left of a sentence has nothing along the removed directions", "CIL 1.3.3", cost=_work
)
def directions_removed(fit: claims.Fit):
    """The largest |C t| / ‖s‖ over sentences; the bound is for t in the precision of the vectors."""
    C = np.asarray(fit.components_, np.float64)
    if not len(C):
        return claims.unknown("no direction is removed")
    worst = 0.0
    for rows in sentences(fit):
        along = rows @ C.T
        left = along - along @ (C @ C.T)
        sizes = np.linalg.norm(rows, axis=1)
        worst = max(
            worst, float((np.abs(left).max(axis=1) / np.where(sizes > 0, sizes, 1)).max(initial=0))
        )
    bound = claims.rounding(np.asarray(fit.components_).dtype, C.shape[1])
    return claims.at_most(worst, bound, "fit again: components_ were altered", unit="|C t| / ‖s‖")


@claims.proved(
    "no other directions hold more of the sentences than the removed ones",
    "CIL Thm 2.3.4",
    needs=(scatter,),
)
def largest_removed(fit: claims.Fit):
    """1 − tr(C S Cᵀ) / (the largest eigenvalues of S), S = Σ s sᵀ formed again."""
    C = np.asarray(fit.components_, np.float64)
    if not len(C):
        return claims.unknown("no direction is removed")
    S = scatter(fit)
    best = float(np.linalg.eigvalsh(S)[::-1][: len(C)].sum())
    if not best > 0:
        return claims.unknown("all sentences are 0")
    gap = 1 - float(np.einsum("ij,jk,ik->", C, S, C)) / best
    bound = claims.rounding(np.asarray(fit.components_).dtype, len(S))
    return claims.at_most(gap, bound, "pass the training texts, or fit again on these", unit="gap")


@claims.rule_of_thumb(
    "at least 99 % of the texts have a known word", "ML Text Representation", cost=claims.passes(1)
)
def texts_known(fit: claims.Fit):
    """Texts without one are zeros: nothing is known of them."""
    empty = sum(int((np.diff(starts) == 0).sum()) for _, starts in fit.data)
    share = 1 - empty / max(fit.data.shape[0], 1)
    advice = "pass vectors of more of these texts' words, or the tokenizer of their training"
    return claims.at_least(share, KNOWN, advice, unit="share", note=f"{empty:,} are zeros")


WORDS = {"embedding_": "d k", "counts_": "d int >=0", "weights_": "d >=0 <=1"}
REMOVED = {"components_": "r k", "singular_values_": "r >=0", "n_empty_": "int >=0"}
SOUND = attributes_sound({**WORDS, **REMOVED})
TRUE = statements_true(statement_errors, needs=(scatter,), unchecked="embedding_")
SENTENCE_CLAIMS = (SOUND, TRUE, texts_known, directions_removed, largest_removed)


# --- vectors that were trained to be averaged -------------------------------------------------------------------------


def drawn_from(counts: Array, sample: float, exponent: float) -> tuple[Array, Array]:
    """The probability that an occurrence of each word is kept, and q ∝ countsᵅ, the distribution of negatives."""
    counts = np.maximum(np.asarray(counts, np.float64), 0)
    share, used = counts / counts.sum(), counts > 0
    ratio = sample / np.where(used, share, 1)
    keep = np.minimum(1, np.sqrt(ratio) + ratio) if sample > 0 else np.ones(len(counts))
    q = np.where(used, np.where(used, counts, 1) ** exponent, 0.0)
    return keep, q / q.sum()


def frequencies_alone(counts: Array, sample: float, exponent: float, negative: int) -> float:
    """The least loss per target of scores that know no sentence, b_v: targets of shares p, negatives r q_v each.

    A score s for v costs p_v ln(1 + e⁻ˢ) + r q_v ln(1 + eˢ), least at eˢ = p_v/(r q_v).
    """
    counts = np.maximum(np.asarray(counts, np.float64), 0)
    keep, q = (part[counts > 0] for part in drawn_from(counts, sample, exponent))
    p = counts[counts > 0] * keep
    p, noise = p / p.sum(), negative * q
    return float((p * np.log1p(noise / p) + noise * np.log1p(p / noise)).sum())


def targets_of(fit: claims.Fit, keep: Array, step: int):
    """Every step-th target v with its input h, block by block; which words are dropped is drawn once."""
    X, rng = np.asarray(fit.embedding_, np.float64), np.random.default_rng(0)
    for ids, starts in fit.data:
        ids, n = np.asarray(ids, np.int64), len(starts) - 1
        sentence = np.repeat(np.arange(n), np.diff(starts))
        kept = rng.random(len(ids)) < keep[ids]
        sizes = np.bincount(sentence[kept], minlength=n)
        sums = sp.csr_array((np.ones(kept.sum()), (sentence[kept], ids[kept])), (n, len(X))) @ X
        if fit.targets == "words":
            at, v = sentence[kept][::step], ids[kept][::step]
            at, v = at[sizes[at] > 1], v[sizes[at] > 1]
            yield v, (sums[at] - X[v]) / (sizes[at] - 1)[:, None]
            continue
        for shift in (-1, 1):
            near = rng.random(len(ids)) < keep[ids]
            at, v = sentence[near][::step] + shift, ids[near][::step]
            inside = (at >= 0) & (at < n)
            inside[inside] = sizes[at[inside]] > 0
            at, v = at[inside], v[inside]
            yield v, sums[at] / sizes[at][:, None]


def loss_of_targets(fit: claims.Fit) -> tuple[float, int]:
    """The mean over some ASKED targets of ln(1 + e^−⟨h, z_v⟩) + r Σ_u q_u ln(1 + e^⟨h, z_u⟩), and how many they were."""
    keep, q = drawn_from(fit.counts_, float(fit.sample), float(fit.ns_exponent))
    Z = np.asarray(fit.context_embedding_, np.float64)
    total, n, rows = 0.0, 0, max(1, AT_ONCE // len(Z))
    for v, H in targets_of(fit, keep, -(-fit.data.n_tokens // ASKED) or 1):
        for first in range(0, len(v), rows):
            S = H[first : first + rows] @ Z.T
            own = S[np.arange(len(S)), v[first : first + rows]]
            total += float(softplus(-own).sum() + fit.negative * (softplus(S) @ q).sum())
        n += len(v)
    return total / max(n, 1), n


def _cost_of_targets(fit: claims.Fit) -> float:
    v, k = np.shape(fit.context_embedding_)
    targets = ASKED if fit.targets == "words" else 2.0 * ASKED
    scores = min(float(fit.data.n_tokens), targets) * v
    return 2.0 * fit.data.n_tokens * k + scores * (k / claims.PRODUCTS + 5)  # as measured


@claims.rule_of_thumb(
    "the expected loss of some 4,000 targets is at least 1 % below what word frequencies alone reach",
    "ML Text Representation",
    cost=_cost_of_targets,
)
def beats_frequencies(fit: claims.Fit):
    """The loss of evenly spaced words of the text over the least that scores of words without their sentence reach."""
    if not np.sum(fit.counts_) > 0:
        return claims.unknown("no word was met")
    loss, n = loss_of_targets(fit)
    if not n:
        return claims.unknown("no sentence has a word to predict")
    best = frequencies_alone(fit.counts_, fit.sample, fit.ns_exponent, fit.negative)
    advice = "little was learned from sentences: raise epochs or alpha, or pass more text"
    note = f"{n:,} targets: {loss:.4g}, frequencies {best:.4g}"
    return claims.at_most(loss / best, BELOW, advice, unit="share of frequencies' loss", note=note)


VECTORS = "embedding_ context_embedding_"
SOUND_VECTORS = attributes_sound({VECTORS: "d k", "counts_": "d int >=0 falling", "loss_": ">=0"})
TRUE_COUNTS = statements_true(counts_errors, cost=claims.passes(1), unchecked=VECTORS)
AVERAGED_CLAIMS = (SOUND_VECTORS, TRUE_COUNTS, beats_frequencies, loss_fell)
