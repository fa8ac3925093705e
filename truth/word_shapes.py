"""Vectors of words by their shape. Truth: shapes that are planted, numbers of them by brute force, maps that are undone."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from importlib.util import find_spec
from typing import Any

import numpy as np

import lemmata
from lemmata.embedding import PMI, SkipGram, WordVectors
from truth.harness import Case, problems

Array = np.ndarray
SHAPES = ("directions_spread", "dimensions_used", "frequency_apart")
NEAR = 0.1  # of a threshold: closer than that, no case says what is true
BOUNDS = {"directions_spread": 0.5, "dimensions_used": 0.1, "frequency_apart": 0.1}


def measured(vectors: Array, counts: Array) -> dict[str, float]:
    """The three numbers from all cosines, singular values and a least-squares fit."""
    vectors = vectors.astype(float)
    n, k = vectors.shape
    sizes = np.linalg.norm(vectors, axis=1)
    u = vectors / np.where(sizes > 0, sizes, 1)[:, None]
    cosines = u @ u.T
    cosines[np.ix_(sizes == 0, sizes == 0)] = 1
    mean = (cosines.sum() - np.trace(cosines)) / (n * (n - 1))
    s = np.linalg.svd(u - u.mean(axis=0), compute_uv=False) ** 2
    p = s[s > 1e-12 * n] / max(s.sum(), 1e-300)
    used = float(np.exp(-(p * np.log(p)).sum())) if len(p) else 0.0
    design = np.column_stack([np.ones(n), np.log(counts)])
    rest = u - design @ np.linalg.lstsq(design, u, rcond=None)[0]
    explained = 1 - (rest**2).sum() / max(s.sum(), 1e-300)
    return {
        "directions_spread": float(mean),
        "dimensions_used": used / min(k, n - 1),
        "frequency_apart": float(explained),
    }


def truths(vectors: Array, counts: Array) -> dict[str, bool]:
    """Which claims are true, but for those whose number is near its threshold."""
    found = {}
    for name, value in measured(vectors, counts).items():
        bound = BOUNDS[name]
        if abs(value - bound) > NEAR * bound:
            found[name] = value >= bound if name == "dimensions_used" else value <= bound
    if measured_spread(vectors) < 1e-6:
        found.pop("frequency_apart", None)  # there is no spread to explain
    return found


def measured_spread(vectors: Array) -> float:
    sizes = np.linalg.norm(vectors.astype(float), axis=1, keepdims=True)
    return float(np.ptp(vectors / np.where(sizes > 0, sizes, 1), axis=0).max())


def zipf(n: int) -> Array:
    return np.maximum(60_000 / np.arange(1, n + 1), 5).astype(int)


def shapes(seed: int) -> Iterator[tuple[str, Array, Array]]:
    """Labels, vectors and counts, healthy and broken."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(100, 400)), int(rng.integers(10, 60))
    Z, counts = rng.normal(size=(n, k)), zipf(n)
    x = np.log(counts) - np.log(counts).mean()
    axis = rng.normal(size=k)
    axis /= np.linalg.norm(axis)
    yield "round", Z, counts
    yield "topics", Z[rng.integers(0, 12, n)] + 0.7 * Z, counts
    yield "lengths by frequency", Z * counts[:, None], counts
    yield "plus a common direction", Z + rng.uniform(2, 6) * np.sqrt(k) * axis, counts
    yield "plus a weak one", Z + 0.4 * np.sqrt(k) * axis, counts
    yield "one vector", np.tile(Z[:1], (n, 1)), counts
    yield "zeros", np.zeros((n, k)), counts
    yield "one vector and rounding", np.tile(Z[:1], (n, 1)) * (1 + 1e-9 * rng.normal(size=(n, k))), counts  # fmt: skip
    yield "two opposite ones", np.sign(Z[:, :1]) * axis + 1e-3 * Z / np.sqrt(k), counts
    yield "a plane", Z[:, :2] @ rng.normal(size=(2, k)), counts
    yield "frequency along a direction", Z + 2 * np.sqrt(k) * np.outer(x, axis), counts
    yield "frequency along it, weakly", Z + 0.05 * np.sqrt(k) * np.outer(x, axis), counts
    yield "never met more than twice", Z.astype(np.float32) * np.float32(1e-20), counts


def forms(words: list[str], vectors: Array, counts: Array) -> list[Any]:
    """The same vectors as several libraries hold them."""
    found: list[Any] = [WordVectors(words, vectors, counts), (words, vectors, counts)]
    if find_spec("gensim") is not None:
        from gensim.models import KeyedVectors

        keyed = KeyedVectors(vectors.shape[1], count=0, dtype=np.float32)
        keyed.add_vectors(words, vectors.astype(np.float32))
        for word, count in zip(words, counts.tolist(), strict=True):
            keyed.set_vecattr(word, "count", count)
        found.append(keyed)
    return found


@problems(seeds=30, quick=1)
def planted_shapes(seed: int) -> Iterator[Case]:
    for at, (label, vectors, counts) in enumerate(shapes(seed)):
        words = [f"w{i}" for i in range(len(vectors))]
        choices = forms(words, vectors, counts)
        true = truths(vectors, counts)
        yield Case(label, lemmata.certify(choices[(seed + at) % len(choices)]), true, tuple(true))


def topical(seed: int, n: int = 250, topics: int = 5, words: int = 12) -> list[list[str]]:
    """Sentences of eight words, each of one topic, whose first words are the most frequent."""
    rng = np.random.default_rng(seed)
    places = np.minimum(rng.geometric(0.25, (n, 8)) - 1, words - 1)
    return [[f"t{t}w{i}" for i in row] for t, row in zip(rng.integers(0, topics, n), places, strict=True)]  # fmt: skip


@problems(seeds=15, quick=1)
def trained_and_hardly_trained(seed: int) -> Iterator[Case]:
    texts = topical(seed)
    healthy = {"epochs": 15, "alpha": 0.05}
    model = SkipGram(12, min_count=1, random_state=seed, **healthy).fit(texts)
    fits = [("trained", model), ("factors", PMI(12, min_count=1, random_state=seed).fit(texts))]
    if find_spec("gensim") is not None:
        from gensim.models import Word2Vec

        common = {"vector_size": 12, "min_count": 1, "workers": 1, "seed": seed + 1}
        fits.append(("gensim's", Word2Vec(texts, sg=1, **healthy, **common)))
        fits.append(("gensim's CBOW", Word2Vec(texts, epochs=2, **common)))
    for label, fit in fits:
        vectors, counts = (
            (fit.wv.vectors, np.asarray(fit.wv.expandos["count"]))
            if hasattr(fit, "wv")
            else (fit.embedding_, fit.counts_)
        )
        true = truths(np.asarray(vectors), counts)
        yield Case(label, lemmata.certify(fit, texts), true, tuple(true))


def kept_neighbours(X: Array, Z: Array, n: int = 10) -> float:
    """The share of nearest words that stay when X is balanced, from the singular values of all scores."""
    U, s, _ = np.linalg.svd(X.astype(float) @ Z.astype(float).T)
    other = U[:, : X.shape[1]] * np.sqrt(s[: X.shape[1]])
    lists = []
    for part in (X.astype(float), other):
        u = part / np.linalg.norm(part, axis=1, keepdims=True)
        cosines = u @ u.T - 9 * np.eye(len(u))
        lists.append(np.argsort(-cosines, axis=1)[:, :n])
    return float(np.mean([len(set(a) & set(b)) / n for a, b in zip(*lists, strict=True)]))


@problems(seeds=15, quick=1)
def free_maps(seed: int) -> Iterator[Case]:
    """Scores that stay as they are under maps of the vectors: of words in groups, and of words without any."""
    rng = np.random.default_rng(seed)
    texts = topical(seed)
    name = "nearest_words_determined"
    common = {"min_count": 1, "epochs": 15, "alpha": 0.05, "random_state": seed}
    model = SkipGram(12, **common).fit(texts)
    tied = SkipGram(12, tied=True, **common).fit(texts)
    yield Case("one embedding", tied.certify(texts), {name: True}, (name,))
    loose = [rng.normal(size=model.embedding_.shape) for _ in range(2)]
    groups = model.embedding_.astype(float), model.context_embedding_.astype(float)
    for kind, (X, Z) in (("groups", groups), ("no groups", loose)):
        for power in (0.0, 0.5, 2.0, 4.0):
            A = np.linalg.qr(rng.normal(size=(12, 12)))[0] * np.logspace(0, power, 12)
            ours, theirs = X @ A, Z @ np.linalg.inv(A).T
            kept = kept_neighbours(ours, theirs)
            if abs(kept - 0.5) > 0.05:
                changed = altered(model, ours, theirs)
                true = {name: kept >= 0.5}
                yield Case(
                    f"{kind}, stretched by 10^{power}", changed.certify(texts), true, (name,)
                )


def altered(model: SkipGram, X: Array, Z: Array) -> SkipGram:
    other = deepcopy(model)
    other.embedding_, other.context_embedding_ = X, Z
    return other


# --- analogies --------------------------------------------------------------------------------------------------------


def countries(seed: int, noise: float, pull: float, n: int = 80) -> tuple[list[str], Array, Any]:
    """Lands and towns: a town is its land plus `pull` times one vector, and noise. Questions are drawn by the third."""
    rng = np.random.default_rng(seed)
    base, offset = rng.normal(size=(n, 25)), rng.normal(size=25)
    towns = base + pull * offset + noise * rng.normal(size=(n, 25))
    words = [f"{what}{i}" for what in ("land", "town") for i in range(n)]

    def questions(many: int) -> list[tuple[str, str, str, str]]:
        pairs = (rng.choice(n, 2, replace=False) for _ in range(many))
        return [(f"land{i}", f"town{i}", f"land{j}", f"town{j}") for i, j in pairs]

    return words, np.concatenate([base, towns]), questions


def gain_of_all(vectors: Array) -> float:
    """The gain over all questions among n lands and their towns."""
    n = len(vectors) // 2
    u = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    i, j = np.nonzero(~np.eye(n, dtype=bool))
    gain = 0.0
    for sign, queries in ((1, u[n + i] - u[i] + u[j]), (-1, u[j])):
        cosines = queries @ u.T
        for given in (i, n + i, j):
            cosines[np.arange(len(i)), given] = -9
        gain += sign * float((cosines.argmax(axis=1) == n + j).mean())
    return gain


@problems(seeds=30, quick=1)
def questions_like_these(seed: int) -> Iterator[Case]:
    """Truth: the gain over all ordered pairs, which is what questions are drawn from."""
    name, n = "analogies_solved", 80
    kinds = {"parallel": (0.1, 3.0), "near": (0.8, 0.0), "random": (9.0, 0.0), "mixed": (0.7, 0.8)}
    for label, (noise, pull) in kinds.items():
        words, vectors, questions = countries(seed, noise, pull, n)
        gain = gain_of_all(vectors)
        certificate = lemmata.certify((words, vectors), analogies=questions(400))
        yield Case(label, certificate, {name: gain > 0}, (name,) if abs(gain) > 0.3 else ())


@problems(seeds=40, quick=1)
def questions_of_few_pairs(seed: int) -> Iterator[Case]:
    """16 pairs drawn from 120, and the 240 questions among them: some pairs are parallel, of others the words are near.

    Truth: the gain over all questions among the 120.
    """
    name, n, rng = "analogies_solved", 120, np.random.default_rng(seed)
    words = [f"{what}{i}" for what in ("land", "town") for i in range(n)]
    for share in (0.0, 0.56, 0.57, 0.58, 0.59, 1.0):
        base, offset = rng.normal(size=(n, 50)), rng.normal(size=50)
        parallel = np.arange(n)[:, None] < share * n
        towns = base + np.where(parallel, 6 * offset, 1.5 * rng.normal(size=(n, 50)))
        vectors, drawn = np.concatenate([base, towns]), rng.choice(n, 16, replace=False)
        pairs = [(a, c) for a in drawn for c in drawn if a != c]
        asked = [(f"land{a}", f"town{a}", f"land{c}", f"town{c}") for a, c in pairs]
        truths, label = {name: gain_of_all(vectors) > 0}, f"{100 * share:g} % parallel"
        found = lemmata.certify((words, vectors), analogies=asked)
        yield Case(label, found, truths, (name,) if share == 1 else ())
