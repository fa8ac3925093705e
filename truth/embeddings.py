"""Models of words. Truth: texts of which every word and pair is counted by hand, altered models, planted runs and scores."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from importlib.util import find_spec
from typing import Any

import numpy as np

import lemmata
from lemmata.core.runs.trace import Trace
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
    louder = deepcopy(model)
    louder.loss_ = 1.1 * model.loss_
    false = {"statements_true": False}
    yield Case("a loss 10 % off", louder.certify(texts), false, tuple(false))
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
    rng, Z = np.random.default_rng(seed), model.embedding_
    altered = {
        "embedding_": rng.normal(size=Z.shape).astype(np.float32) * Z.std(),
        "context_embedding_": model.context_embedding_[::-1].copy(),
        "counts_": model.counts_[::-1].copy(),
    }
    for name, value in altered.items():
        other = deepcopy(model)
        setattr(other, name, value)
        yield Case(f"another {name}", other.certify(text), false, tuple(false))
    longer = deepcopy(model)
    longer.components_ = 1.05 * model.components_
    false = {"orthonormal_basis": False}
    yield Case("directions that are too long", longer.certify(text), false, tuple(false))
    other = deepcopy(model)
    Q = np.linalg.qr(rng.normal(size=(model.components_.shape[1], 3)))[0].T
    other.components_ = Q.astype(np.float32)
    false = {"most_variance": kept(text, Q) <= 1.01, "orthonormal_basis": True}
    yield Case("directions drawn at random", other.certify(text), false, tuple(false))


# --- the optimum of negative sampling ---------------------------------------------------------------------------------


def pairs_by_hand(texts: list[list[str]], words: list[str], window: int) -> np.ndarray:
    """Σ (R − Δ + 1)/R over pairs, one by one: what reaches drawn from 1 … R see on average where no word is dropped."""
    places, N = {word: at for at, word in enumerate(words)}, np.zeros((len(words),) * 2)
    for sentence in texts:
        ids = [places[word] for word in sentence]
        for s, w in enumerate(ids):
            for t in range(max(0, s - window), min(len(ids), s + window + 1)):
                if t != s:
                    N[w, ids[t]] += (window - abs(s - t) + 1) / window
    return N


def noise_pairs(N: np.ndarray, counts: np.ndarray, model: Any) -> np.ndarray:
    q = counts.astype(float) ** model.ns_exponent
    apart = (
        N if hasattr(model, "wv") else 0.0
    )  # gensim leaves a negative out that is the word itself
    return model.negative * (N.sum(axis=1, keepdims=True) - apart) * q / q.sum()


def loss_of(S: np.ndarray, N: np.ndarray, M: np.ndarray) -> float:
    return float((N * np.logaddexp(0, -S) + M * np.logaddexp(0, S)).sum())


def truths_of(S: np.ndarray, N: np.ndarray, M: np.ndarray) -> dict[str, bool]:
    """Whether scores beat frequencies, and whether they follow the information of pairs."""
    alone = loss_of(np.broadcast_to(np.log(N.sum(axis=0) / M.sum(axis=0)), N.shape), N, M)
    found = {"beats_frequencies": loss_of(S, N, M) <= alone}
    met = (N > 0) & (M > 1e-9)
    a, b, w = S[met], np.log(N[met] / M[met]), N[met] / N[met].sum()
    a, b = a - w @ a, b - w @ b
    correlation = (w @ (a * b)) / max(np.sqrt((w @ a**2) * (w @ b**2)), 1e-300)
    if abs(correlation - 0.3) > 0.02:
        found["follows_information"] = bool(correlation >= 0.3)
    return found


def planted(model: SkipGram, S: np.ndarray) -> SkipGram:
    """The model with these scores: vectors as long as there are words."""
    other = deepcopy(model)
    other.embedding_, other.context_embedding_ = np.eye(len(S)), np.ascontiguousarray(S.T)
    other.biases_ = np.zeros(len(S))
    return other


@problems(seeds=15, quick=1)
def scores_and_their_optimum(seed: int) -> Iterator[Case]:
    """Between the best scores and those of frequencies alone the loss is convex: towards the best it falls."""
    rng = np.random.default_rng(seed)
    texts = [[*one, "and"] for one in topical(seed, topics=4)]
    exponent, negative = (0.75, 1.0, 0.0)[seed % 3], (5, 2)[seed % 2]
    settings = {"min_count": 1, "sample": 0, "ns_exponent": exponent, "negative": negative}
    model = SkipGram(6, epochs=20, alpha=0.05, random_state=seed, **settings).fit(texts)
    N = pairs_by_hand(texts, model.feature_names_in_.tolist(), 5)
    M = noise_pairs(N, model.counts_, model)
    best = np.log(np.maximum(N, 1e-9) / M)
    alone = np.broadcast_to(np.log(N.sum(axis=0) / M.sum(axis=0)), N.shape)
    own = model.embedding_.astype(float) @ model.context_embedding_.T.astype(float)
    scores = {
        "as trained": own,
        "nothing": np.zeros_like(N),
        "rows of other words": own[rng.permutation(len(own))],
        "far too large": 20 * own,
        "at the optimum": best,
        "a step towards it": alone + 0.01 * (best - alone),
        "a step away": alone - 0.01 * (best - alone),
        "noise": rng.normal(size=N.shape),
        "the optimum and noise": best + rng.normal(size=N.shape),
    }
    for label, S in scores.items():
        true = truths_of(S, N, M)
        if label == "nothing":
            true["follows_information"] = False
        yield Case(label, planted(model, S).certify(texts), true, tuple(true))
    contrast, odds = deepcopy(model), np.log(M / N.sum(axis=1, keepdims=True))
    contrast.objective = "nce"  # scores are log-probabilities
    for label, S in (("as trained", own), ("noise", scores["noise"]), ("not shifted", own - odds)):
        true = truths_of(S, N, M)
        yield Case(f"NCE, {label}", planted(contrast, S + odds).certify(texts), true, tuple(true))
    told = deepcopy(model)
    told.ns_exponent = 3.0
    true = truths_of(own, N, noise_pairs(N, model.counts_, told))
    yield Case("another exponent", told.certify(texts), true, tuple(true))


@problems(seeds=10, quick=1)
def dropped_words(seed: int) -> Iterator[Case]:
    """Frequent words are dropped: pairs are the mean over many draws of the windows, which settles all but close calls."""
    from lemmata.embedding.windows.sampling import keep_probabilities

    rng = np.random.default_rng(seed)
    texts = [[word for one in sentence for word in (one, "and")] for sentence in topical(seed)]
    kept = {"min_count": 1, "sample": 0.05, "random_state": seed}
    good = SkipGram(6, epochs=20, alpha=0.05, **kept).fit(texts)
    poor = SkipGram(6, epochs=1, alpha=1e-4, min_alpha=0.0, **kept).fit(texts)
    words, keep = good.feature_names_in_.tolist(), keep_probabilities(good.counts_, 0.05)
    share, N = dict(zip(words, keep.tolist(), strict=True)), 0.0
    for _ in range(20):
        left = [[word for word in one if rng.random() < share[word]] for one in texts]
        N = N + pairs_by_hand(left, words, 5) / 20
    M = noise_pairs(N, good.counts_, good)
    alone = loss_of(np.broadcast_to(np.log(N.sum(axis=0) / M.sum(axis=0)), N.shape), N, M)
    for label, model in (("trained", good), ("hardly trained", poor)):
        S = model.embedding_.astype(float) @ model.context_embedding_.T.astype(float)
        if abs(loss_of(S, N, M) / alone - 1) > 0.03:
            true = {"beats_frequencies": loss_of(S, N, M) < alone}
            if abs(loss_of(S, N, M) / alone - 1) > 0.1:  # a thousand pairs can tell
                true["pairs_learned"] = true["beats_frequencies"]
            yield Case(label, model.certify(texts), true, tuple(true))


@problems(seeds=10, quick=1)
def fits_of_gensim(seed: int) -> Iterator[Case]:
    if find_spec("gensim") is None:
        return
    from gensim.models import Word2Vec

    texts = topical(seed, topics=4)
    for label, epochs, alpha in (("trained", 30, 0.05), ("hardly trained", 1, 1e-3)):
        model = Word2Vec(
            texts, vector_size=6, sg=1, sample=0, min_count=1, workers=1, seed=seed + 1, epochs=epochs,
            alpha=alpha, min_alpha=min(alpha, 1e-4), ns_exponent=(0.75, 1.0)[seed % 2],
        )  # fmt: skip
        words, counts = model.wv.index_to_key, np.asarray(model.wv.expandos["count"])
        N = pairs_by_hand(texts, words, 5)
        M = noise_pairs(N, counts, model)
        S = model.wv.vectors.astype(float) @ model.syn1neg.T.astype(float)
        true = {**truths_of(S, N, M), "statements_true": True}
        yield Case(label, lemmata.certify(model, texts), true, tuple(true))
        model.syn1neg = model.syn1neg[np.random.default_rng(seed).permutation(len(words))]
        other = truths_of(model.wv.vectors.astype(float) @ model.syn1neg.T.astype(float), N, M)
        yield Case(
            f"{label}, contexts shuffled", lemmata.certify(model, texts), other, tuple(other)
        )
    false = {"statements_true": False}
    yield Case("another text", lemmata.certify(model, topical(seed + 1000)), false, tuple(false))
