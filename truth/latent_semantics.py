"""Topics by maximum likelihood. Truth: mixtures refitted by a convex solver, factors that are known, altered models."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

import numpy as np
from scipy.optimize import minimize

from lemmata.core.runs.trace import Trace
from lemmata.topics import PLSA
from truth.harness import Case, problems


def planted(seed: int, n=60, m=40, k=3, length=80, pure=False) -> tuple[np.ndarray, ...]:
    """Expected or drawn counts of a known model; `pure`: every topic has a document and a word of its own."""
    rng = np.random.default_rng(seed)
    theta, phi = rng.dirichlet(np.full(k, 0.3), n), rng.dirichlet(np.full(m, 0.3), k)
    if pure:
        theta[:k], phi[:, :k] = np.eye(k), np.eye(k) * 0.1
        phi /= phi.sum(axis=1, keepdims=True)
        return length * theta @ phi, theta, phi
    return rng.multinomial(length, theta @ phi).astype(float), theta, phi


def best_gain(N: np.ndarray, theta: np.ndarray, phi: np.ndarray) -> float:
    """How many nats a token the best mixtures of these topics gain, by SLSQP from three starts."""
    gained, k = 0.0, len(phi)
    for row, here in zip(N, theta, strict=True):
        seen = row > 0

        def cost(t, row=row, seen=seen):
            return -float(row[seen] @ np.log(np.maximum(t @ phi[:, seen], 1e-300)))

        starts = (here, np.full(k, 1 / k))
        ends = [
            minimize(cost, x, bounds=[(0, 1)] * k, method="SLSQP",
                     constraints={"type": "eq", "fun": lambda t: t.sum() - 1}).fun
            for x in starts
        ]  # fmt: skip
        gained += max(cost(here) - min(ends), 0.0)
    return gained / N.sum()


@problems(seeds=12, quick=1)
def fits_and_altered_fits(seed: int) -> Iterator[Case]:
    N, *_ = planted(seed)
    model = PLSA(3, max_iter=2000, tol=1e-9, random_state=seed).fit(N)
    healthy = {"attributes_sound": True, "statements_true": True, "likelihood_never_fell": True}
    yield Case(
        "long run",
        model.certify(N),
        {**healthy, "documents_fitted": True},
        (*healthy, "documents_fitted"),
    )
    short = PLSA(3, max_iter=2, tol=0.0, random_state=seed).fit(N)
    gain = best_gain(N, short.doc_topic_, short.components_)
    if gain > 0.06 or gain < 0.04:
        yield Case("two steps", short.certify(N), {**healthy, "documents_fitted": gain <= 0.05})
    mixed = deepcopy(model)
    mixed.doc_topic_ = np.roll(model.doc_topic_, 1, axis=0)
    gain = best_gain(N, mixed.doc_topic_, mixed.components_)
    truth = {"statements_true": False, "documents_fitted": gain <= 0.05}
    yield Case("another document's mixture", mixed.certify(N), truth, tuple(truth))
    louder = deepcopy(model)
    louder.log_likelihood_ *= 0.999
    yield Case(
        "likelihood 0.1 % off", louder.certify(N), {"statements_true": False}, ("statements_true",)
    )
    fuller = deepcopy(model)
    fuller.topic_tokens_ = model.topic_tokens_ * [1.01, 1, 1]
    yield Case(
        "words of a topic 1 % off",
        fuller.certify(N),
        {"statements_true": False},
        ("statements_true",),
    )
    batches = deepcopy(model).partial_fit(N[::2])
    truth = {"attributes_sound": True, "statements_true": True}
    yield Case("after a batch", batches.certify(N[::2]), truth, tuple(truth))
    yield Case(
        "after a batch, other documents", batches.certify(N[1::2]), {"statements_true": False}
    )
    fallen = deepcopy(model)
    fallen.trace_ = Trace()
    for loss in (3.0, 2.0, 2.01, 1.9):
        fallen.trace_.append(loss * N.sum(), 0.0)
    yield Case(
        "a run that fell",
        fallen.certify(N),
        {"likelihood_never_fell": False},
        ("likelihood_never_fell",),
    )
    heavier = deepcopy(model)
    heavier.components_ = 1.01 * model.components_
    yield Case(
        "topics of sum 1.01", heavier.certify(N), {"attributes_sound": False}, ("attributes_sound",)
    )


@problems(seeds=25, quick=1)
def known_factors(seed: int) -> Iterator[Case]:
    """`topics_determined` is true by construction where every topic has a document and a word of its own."""
    N, theta, phi = planted(seed, pure=True)
    model = PLSA(3, max_iter=1, tol=0.0, random_state=seed).fit(N)

    def known(theta, phi) -> PLSA:
        one = deepcopy(model)
        one.doc_topic_, one.components_ = theta, phi
        p = np.maximum(theta @ phi, 1e-300)
        one.log_likelihood_ = float((N * np.log(p))[N > 0].sum())
        one.topic_tokens_ = None  # of the fit, not of these
        return one

    truth = {"topics_determined": True, "statements_true": True, "documents_fitted": True}
    yield Case("pure documents and anchors", known(theta, phi).certify(N), truth, tuple(truth))
    share = 0.2
    held = phi.copy()
    held[0] = (1 - share) * phi[0] + share * phi[1]  # topic 1 can be taken out of topic 0 again
    truth = {"topics_determined": False}
    yield Case("a topic within a topic", known(theta, held).certify(N), truth, tuple(truth))
    spread = 0.8 * theta + 0.2 / 3
    yield Case("every document of every topic", known(spread, phi).certify(N), truth, tuple(truth))


@problems(seeds=25, quick=1)
def few_documents_and_twins(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    N, theta, phi = planted(seed, n=80, m=60, k=4, length=200)
    model = PLSA(4, max_iter=1, tol=0.0, random_state=seed).fit(N)
    model.doc_topic_, model.components_ = theta, phi
    truth = {"topics_supported": True, "topics_distinct": True}
    yield Case("as planted", model.certify(N), truth, tuple(truth))
    lonely = deepcopy(model)
    own = np.zeros((80, 1))
    own[rng.integers(80)] = 1
    lonely.doc_topic_ = np.hstack([theta[:, :3] + theta[:, 3:] / 3, np.zeros((80, 1))]) * (1 - own)
    lonely.doc_topic_[:, 3:] = own
    yield Case(
        "a topic of one document",
        lonely.certify(N),
        {"topics_supported": False},
        ("topics_supported",),
    )
    twins = deepcopy(model)
    twins.components_ = phi[[0, 1, 2, 2]]
    yield Case("a topic twice", twins.certify(N), {"topics_distinct": False}, ("topics_distinct",))
