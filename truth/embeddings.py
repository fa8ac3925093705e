"""Vectors of words. Truth: texts of which every word is counted by hand, altered models, planted runs."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

import numpy as np

from lemmata.core.trace import Trace
from lemmata.embedding import PMI, SkipGram
from lemmata.embedding.pmi.matrix import information
from lemmata.embedding.windows.cooccurrence import CoOccurrence
from lemmata.text.encoded import encode
from truth.harness import Case, problems


def topical(seed: int, n: int = 60, topics: int = 3, words: int = 5) -> list[list[str]]:
    """Sentences of eight words, each of one topic."""
    rng = np.random.default_rng(seed)
    return [[f"t{t}w{i}" for i in rng.integers(0, words, 8)] for t in rng.integers(0, topics, n)]


def with_losses(model: SkipGram, losses: tuple[float, ...]) -> SkipGram:
    """The model as if its run had measured these losses."""
    planted = deepcopy(model)
    planted.trace_ = Trace()
    for loss in losses:
        planted.trace_.append(loss, 0.0)
    return planted


@problems(seeds=20, quick=1)
def fits_and_altered_fits(seed: int) -> Iterator[Case]:
    texts = topical(seed)
    model = SkipGram(6, min_count=1, epochs=3, alpha=0.02, random_state=seed).fit(texts)
    sound = {"attributes_sound": True, "statements_true": True}
    yield Case("trained", model.certify(texts), sound, tuple(sound))
    yield Case(
        "other text",
        model.certify(topical(seed + 1000)),
        {"statements_true": False},
        ("statements_true",),
    )
    more = deepcopy(model)
    more.counts_ = model.counts_.copy()
    more.counts_[(0, -1)[seed % 2]] += (1, -1)[seed % 2]  # they still fall from word to word
    yield Case(
        "one word miscounted", more.certify(texts), {"statements_true": False}, ("statements_true",)
    )
    broken = deepcopy(model)
    broken.embedding_ = model.embedding_.copy()
    broken.embedding_[seed % 15, 0] = (np.nan, np.inf)[seed % 2]
    yield Case(
        "a number that is none",
        broken.certify(texts),
        {"attributes_sound": False},
        ("attributes_sound",),
    )
    narrow = deepcopy(model)
    narrow.context_embedding_ = model.context_embedding_[:, 1:]
    yield Case(
        "vectors of two sizes",
        narrow.certify(texts),
        {"attributes_sound": False},
        ("attributes_sound",),
    )


@problems(seeds=20, quick=1)
def runs_that_fell_and_rose(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    texts = topical(seed)
    model = SkipGram(6, min_count=1, epochs=1, random_state=seed).fit(texts)
    falling = tuple(np.sort(rng.uniform(1.5, 4.2, 6))[::-1].tolist())
    at = int(rng.integers(1, 6))
    rising = (*falling[:at], falling[at - 1] + 0.2 * falling[0], *falling[at:])
    for label, losses, fell in (("fell", falling, True), ("rose once by a fifth", rising, False)):
        certificate = with_losses(model, losses).certify(texts)
        yield Case(label, certificate, {"loss_fell": fell}, ("loss_fell",))
    wild = SkipGram(6, min_count=1, epochs=6, alpha=50.0, min_alpha=50.0, random_state=seed).fit(
        texts
    )
    rose = bool((np.diff(wild.trace_.objective) > 0.05 * wild.trace_.objective.max()).any())
    if rose:
        yield Case(
            "a rate far too large", wild.certify(texts), {"loss_fell": False}, ("loss_fell",)
        )


def kept(text, components: np.ndarray) -> float:
    """‖M − MCᵀC‖² over the least that any so many directions leave, by LAPACK's decomposition of the whole M."""
    M = information(CoOccurrence.of(text, 5, "linear").matrix, exponent=0.75).toarray()
    C = components.astype(float)
    least = (np.linalg.svd(M, compute_uv=False)[len(C) :] ** 2).sum()
    return float(((M - M @ C.T @ C) ** 2).sum() / least)


@problems(seeds=20, quick=1)
def factorised_information(seed: int) -> Iterator[Case]:
    text = encode(topical(seed, n=200))
    model = PMI(3, min_count=1, random_state=seed).fit(text)
    true = {"attributes_sound": True, "statements_true": True, "orthonormal_basis": True}
    true["most_variance"] = kept(text, model.components_) <= 1.01
    yield Case("factorised", model.certify(text), true, tuple(true))
    louder = deepcopy(model)
    louder.singular_values_ = 1.01 * model.singular_values_
    false = {"statements_true": False}
    yield Case("singular values 1 % off", louder.certify(text), false, tuple(false))
    longer = deepcopy(model)
    longer.components_ = 1.05 * model.components_
    false = {"orthonormal_basis": False}
    yield Case("directions that are too long", longer.certify(text), false, tuple(false))
    rng, other = np.random.default_rng(seed), deepcopy(model)
    Q = np.linalg.qr(rng.normal(size=(model.components_.shape[1], 3)))[0].T
    other.components_ = Q.astype(np.float32)
    false = {"most_variance": kept(text, Q) <= 1.01, "orthonormal_basis": True}
    yield Case("directions drawn at random", other.certify(text), false, tuple(false))
