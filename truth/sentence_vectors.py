"""Sentences as means of words. Truth: sums written down by hand, altered models, texts without known words, planted losses."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

import numpy as np

from lemmata.core.runs.trace import Trace
from lemmata.embedding import SentenceEmbedding, SentenceVectors, WordVectors
from truth.harness import Case, problems

PROVED = ("attributes_sound", "statements_true", "directions_removed", "largest_removed")


def drawn(seed: int, n: int = 80, known: int = 20, unknown: int = 0) -> list[list[str]]:
    """Sentences of six words, the first of which are frequent; `unknown` of them have no known word."""
    rng = np.random.default_rng(seed)
    p = 1 / np.arange(1, known + 1)
    rows = [[f"w{i}" for i in rng.choice(known, 6, p=p / p.sum())] for _ in range(n - unknown)]
    return rows + [["nothing", "known"]] * unknown


def altered(model, **attributes):
    other = deepcopy(model)
    vars(other).update(attributes)
    return other


@problems(seeds=30, quick=2)
def means_and_altered_means(seed: int) -> Iterator[Case]:
    rng, dtype = np.random.default_rng(seed), (np.float64, np.float32)[seed % 2]
    Z = (rng.normal(size=(20, 6)) + rng.normal(size=6)).astype(dtype)
    words = WordVectors([f"w{i}" for i in range(20)], Z)
    texts = drawn(seed)
    model = SentenceVectors(words, a=0.01, n_removed=1 + seed % 2).fit(texts)
    true = dict.fromkeys((*PROVED, "texts_known"), True)
    yield Case("fitted", model.certify(texts), true, tuple(true))

    C = model.components_
    longer = altered(model, components_=(C * (1.01, 0.98)[seed % 2]).astype(dtype))
    yield Case(
        "directions too long",
        longer.certify(texts),
        {"directions_removed": False},
        ("directions_removed",),
    )
    Q = np.linalg.qr(rng.normal(size=(6, len(C))))[0].T.astype(dtype)
    other = altered(model, components_=np.ascontiguousarray(Q))
    false = {"largest_removed": False, "directions_removed": True, "statements_true": False}
    yield Case("other directions", other.certify(texts), false, tuple(false))
    wrong = altered(model, weights_=np.minimum(model.weights_ * dtype(1.01), 1).astype(dtype))
    yield Case(
        "weights 1 % off", wrong.certify(texts), {"statements_true": False}, ("statements_true",)
    )
    louder = altered(model, singular_values_=model.singular_values_ * dtype(1.01))
    yield Case(
        "singular values off",
        louder.certify(texts),
        {"statements_true": False},
        ("statements_true",),
    )
    false = {"statements_true": False}
    yield Case("other texts", model.certify(drawn(seed + 1000)), false, tuple(false))
    broken = Z.copy()
    broken[seed % 20, 0] = (np.nan, np.inf)[seed % 2]
    false = {"attributes_sound": False}
    yield Case(
        "a number that is none",
        altered(model, embedding_=broken).certify(texts),
        false,
        tuple(false),
    )

    empty = int(rng.integers(2, 40))
    some = SentenceVectors(words).fit(drawn(seed, unknown=empty))
    false = {"texts_known": False, "statements_true": True, "directions_removed": True}
    yield Case(
        f"{empty} of 80 unknown", some.certify(drawn(seed, unknown=empty)), false, tuple(false)
    )


def topical(seed: int, n: int = 150) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    return [[f"t{t}w{i}" for i in rng.integers(0, 8, 8)] for t in rng.integers(0, 4, n)]


@problems(seeds=12, quick=1)
def trained_for_averaging(seed: int) -> Iterator[Case]:
    texts = topical(seed)
    settings = {"min_count": 1, "sample": 0, "random_state": seed}
    model = SentenceEmbedding(8, epochs=15, alpha=0.3, **settings).fit(texts)
    true = dict.fromkeys(("attributes_sound", "statements_true", "beats_frequencies"), True)
    yield Case("trained", model.certify(texts), true, tuple(true))
    untrained = SentenceEmbedding(8, epochs=1, alpha=1e-5, min_alpha=1e-5, **settings).fit(texts)
    false = {"beats_frequencies": False}
    yield Case("not trained", untrained.certify(texts), false, tuple(false))
    rng = np.random.default_rng(seed)
    noise = [[f"w{i}" for i in rng.integers(0, 32, 8)] for _ in range(400)]
    learnt = SentenceEmbedding(4, epochs=4, alpha=0.1, **settings).fit(noise)
    yield Case("sentences of independent words", learnt.certify(noise), false, tuple(false))
    mixed = altered(model, embedding_=rng.permutation(model.embedding_), loss_=0.1)
    yield Case(
        "vectors of other words, and a loss made up", mixed.certify(texts), false, tuple(false)
    )
    false = {"statements_true": False}
    louder = altered(model, loss_=1.1 * model.loss_)
    yield Case("a loss 10 % off", louder.certify(texts), false, tuple(false))
    yield Case("other texts", model.certify(topical(seed + 1000)), false, tuple(false))
    narrow = altered(model, context_embedding_=model.context_embedding_[:, 1:])
    yield Case(
        "two sizes", narrow.certify(texts), {"attributes_sound": False}, ("attributes_sound",)
    )
    falling = np.sort(rng.uniform(1.5, 4.2, 6))[::-1].tolist()
    at = int(rng.integers(1, 6))
    rising = [*falling[:at], falling[at - 1] + 0.2 * falling[0], *falling[at:]]
    for label, losses, fell in (("fell", falling, True), ("rose once by a fifth", rising, False)):
        planted = altered(model, trace_=Trace())
        for loss in losses:
            planted.trace_.append(loss, 0.0)
        yield Case(label, planted.certify(texts), {"loss_fell": fell}, ("loss_fell",))
