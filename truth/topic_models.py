"""Topic models with a prior. Truth: planted models, altered fits, chains that were drawn, gains on many fresh documents."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import deepcopy
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.decomposition import LatentDirichletAllocation

import lemmata
from lemmata.core.runs.trace import Trace
from lemmata.topics import LDA, perplexity, unigram
from truth.harness import Case, problems

Array = np.ndarray


def planted(seed: int, n=160, m=40, k=3, length=50, alpha=0.3, spread=0.15):
    """Documents of a known model, as many to test it, and the model."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(m, spread), k)

    def draw(n: int) -> Array:
        theta = rng.dirichlet(np.full(k, alpha), n)
        return rng.multinomial(length, theta @ phi).astype(float)

    return draw(n), draw(n), phi, draw


def model_of(phi: Array, alpha: float, N: Array, theta: Array | None = None) -> LDA:
    """An LDA with these topics, as counts that add up to the words of N."""
    model = LDA(len(phi), max_iter=1, random_state=0).fit(N)
    beta = model.topic_word_prior_
    shares = phi * np.full((len(phi), 1), 1 / len(phi))
    totals = shares.sum(axis=0)
    model.components_ = beta + N.sum(axis=0) * np.where(totals > 0, shares / np.where(totals > 0, totals, 1), 0)  # fmt: skip
    model.doc_topic_prior_ = np.full(len(phi), alpha)
    if theta is not None:
        model.doc_topic_ = theta
    return model


def altered(model: Any, **attributes: Any) -> Any:
    other = deepcopy(model)
    for name, value in attributes.items():
        setattr(other, name, value)
    return other


def lacking(N: Array, model: LDA) -> float:
    """By how much the mixtures lack the best ones, over what they may lack: 0.05 nats a token and 1 a document."""
    phi, alpha = model.topic_word_, model.doc_topic_prior_

    def value(theta: Array) -> float:
        return float((N * np.log(theta @ phi))[N > 0].sum() + (alpha * np.log(theta)).sum())

    theta = np.tile(alpha / alpha.sum(), (len(N), 1))
    for _ in range(1000):
        theta = alpha + theta * ((N / (theta @ phi)) @ phi.T)
        theta /= theta.sum(axis=1, keepdims=True)
    return (value(theta) - value(model.doc_topic_)) / (0.05 * N.sum() + len(N))


@problems(seeds=8, quick=1)
def fits_and_altered_fits(seed: int) -> Iterator[Case]:
    N, *_ = planted(seed)
    for method in ("gibbs", "batch"):
        model = LDA(3, learning_method=method, max_iter=60, tol=0.0, random_state=seed).fit(N)
        truth = {"attributes_sound": True, "statements_true": True}
        share = lacking(N, model)
        if not 0.8 < share < 1.2:
            truth["documents_fitted"] = share <= 1
        if method == "batch":
            truth["bound_never_fell"] = True
        yield Case(method, model.certify(N), truth, tuple(truth))
        rolled = altered(model, doc_topic_=np.roll(model.doc_topic_, 1, axis=0))
        truth = {"documents_fitted": lacking(N, rolled) <= 1}
        if method == "batch":
            truth["statements_true"] = False
        yield Case("another document's mixture", rolled.certify(N), truth, tuple(truth))
        false = {"statements_true": False}
        more = altered(model, components_=1.001 * model.components_)
        yield Case("counts 0.1 % off", more.certify(N), false, tuple(false))
        prior = altered(model, doc_topic_prior_=1.5 * model.doc_topic_prior_)
        yield Case("another prior", prior.certify(N), false, tuple(false))
        if method == "gibbs":
            chain = altered(model, chain_log_likelihoods_=1.1 * model.chain_log_likelihoods_)
            yield Case("another chain", chain.certify(N), false, tuple(false))
        turned = altered(model, components_=np.roll(model.components_, 1, axis=1))
        yield Case("words renamed", turned.certify(N), false, tuple(false))
        heavier = altered(model, doc_topic_=1.01 * model.doc_topic_)
        unsound = {"attributes_sound": False}
        yield Case("mixtures of sum 1.01", heavier.certify(N), unsound, tuple(unsound))
    louder = altered(model, lower_bound_=0.999 * model.lower_bound_)
    yield Case("bound 0.1 % off", louder.certify(N), false, tuple(false))
    fallen = altered(model, trace_=Trace())
    for loss in (3.0, 2.0, 2.001, 1.9):
        fallen.trace_.append(loss * N.sum(), 0.0)
    falls = {"bound_never_fell": False}
    yield Case("a run that fell", fallen.certify(N), falls, tuple(falls))
    batches = LDA(3, learning_method="online", max_iter=5, random_state=seed).fit(N)
    sound = {"attributes_sound": True}
    yield Case("online", batches.certify(N), sound, tuple(sound))


@problems(seeds=15, quick=1)
def few_documents_and_twins(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    N, _, phi, _ = planted(seed, n=80, m=60, k=4, length=100)
    theta = rng.dirichlet(np.full(4, 0.3), 80)
    model = model_of(phi, 0.3, N, theta)
    model.components_ = 1e3 * phi + model.topic_word_prior_
    truth = {"topics_supported": True, "topics_distinct": True}
    yield Case("as planted", model.certify(N), truth, tuple(truth))
    alone = np.full((80, 4), 1e-9)
    alone[:, :3] = theta[:, :3] + theta[:, 3:] / 3
    alone[rng.integers(80)] = [1e-9, 1e-9, 1e-9, 1]
    lonely = altered(model, doc_topic_=alone / alone.sum(axis=1, keepdims=True))
    false = {"topics_supported": False}
    yield Case("a topic of one document", lonely.certify(N), false, tuple(false))
    twins = altered(model, components_=model.components_[[0, 1, 2, 2]] * [[1], [1], [1], [7]])
    false = {"topics_distinct": False}
    yield Case("a topic twice", twins.certify(N), false, tuple(false))


@problems(seeds=60, quick=1)
def chains_that_agree_or_not(seed: int) -> Iterator[Case]:
    """Log-likelihoods drawn as autoregressions, of one mean or several."""
    rng = np.random.default_rng(seed)
    N, *_ = planted(0, n=20)
    model = LDA(2, max_iter=1, random_state=0).fit(N)

    def certified(offsets: Array, drift: float = 0.0, moves: float = 1.0, memory: float = 0.3):
        draws, n = [], 100
        for offset in offsets:
            x = rng.standard_normal(n)
            for t in range(1, n):
                x[t] = memory * x[t - 1] + np.sqrt(1 - memory**2) * x[t]
            draws.append(-1e5 + moves * x + offset + drift * np.linspace(0, 1, n))
        return altered(model, chain_log_likelihoods_=np.array(draws)).certify(N)

    yes, no = {"chains_agree": True}, {"chains_agree": False}
    c = int(rng.integers(2, 6))
    yield Case("one mode", certified(np.zeros(c)), yes, tuple(yes))
    yield Case("one mode, slowly", certified(np.zeros(c), memory=0.9), yes)
    apart = np.zeros(c)
    apart[0] = 3.0
    yield Case("one chain three deviations off", certified(apart), no, tuple(no))
    yield Case("all still climb", certified(np.zeros(c), drift=6.0), no)
    modes = 5.0 * rng.permutation(c)  # modes of one height look the same, which the claim says
    yield Case("a mode each", certified(modes), no, tuple(no))
    yield Case("stuck", certified(np.arange(c), moves=0.0), no, tuple(no))


def gain(model: Any, train: Array, fresh: Array) -> tuple[float, float]:
    """Nats a document over the unigram on many fresh documents: mean and standard error."""
    found = perplexity(model, fresh, particles=10, runs=2).log_likelihoods
    gains = found - perplexity(unigram(train), fresh).log_likelihoods
    return float(gains.mean()), float(gains.std() / np.sqrt(len(gains)))


@problems(seeds=25, quick=1)
def held_out_documents(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    N, test, phi, draw = planted(seed, n=120, length=30)
    fresh = draw(500)
    shuffled = shuffle(N, rng)
    weak = 0.03 * phi + 0.97 * phi.mean(axis=0)
    candidates = {
        "the true topics": model_of(phi, 0.3, N),
        "fitted": LDA(3, max_iter=60, random_state=seed).fit(N),
        "words renamed": model_of(phi[:, rng.permutation(phi.shape[1])], 0.3, N),
        "topics that say nothing": model_of(weak, 0.3, N),
        "fitted to shuffled words": LDA(12, max_iter=20, topic_word_prior=1e-3, random_state=seed).fit(shuffled),
        "fitted to ten documents": LDA(5, max_iter=60, random_state=seed).fit(N[:10]),
    }  # fmt: skip
    for label, model in candidates.items():
        train = N[:10] if label.endswith("ten documents") else N
        mean, error = gain(model, train, fresh)
        if abs(mean) < 4 * error:
            continue
        truth = {"beats_unigram": mean > 0}
        easy = tuple(truth) if abs(mean) > 5 else ()
        yield Case(label, model.certify(train, X_test=test), truth, easy)
    # documents that were fitted to are no test, whatever they say
    certificate = candidates["fitted to shuffled words"].certify(shuffled, X_test=shuffled)
    yield Case("its own documents", certificate, {"beats_unigram": False})


def shuffle(N: Array, rng: np.random.Generator) -> Array:
    """The same words, in documents at random: there are no topics."""
    words = rng.permutation(np.repeat(np.arange(N.shape[1]), N.sum(axis=0).astype(int)))
    parts = np.split(words, np.cumsum(N.sum(axis=1).astype(int))[:-1])
    return np.array([np.bincount(part, minlength=N.shape[1]) for part in parts], float)


# --- other libraries --------------------------------------------------------------------------------------------------

HEALTHY = {
    "attributes_sound": True,
    "topics_supported": True,
    "topics_distinct": True,
    "beats_unigram": True,
}


@problems(seeds=8, quick=1)
def fits_of_scikit_learn(seed: int) -> Iterator[Case]:
    N, test, *_ = planted(seed)
    renamed = np.random.default_rng(seed).permutation(N.shape[1])
    for method in ("batch", "online"):
        model = LatentDirichletAllocation(
            3, learning_method=method, max_iter=15, random_state=seed, doc_topic_prior=0.3
        ).fit(N)
        states = {"statements_true": True} if method == "batch" else {}
        found = lemmata.certify(model, N, X_test=test)
        yield Case(method, found, HEALTHY | states, ("attributes_sound", *states))
        broken = altered(model, components_=model.components_[:, renamed])
        truth = {"beats_unigram": False} | dict.fromkeys(states, False)
        found = lemmata.certify(broken, N, X_test=test)
        yield Case(f"{method}, words renamed", found, truth, tuple(truth))
        broken = altered(model, components_=model.components_[[0, 1, 1]])
        truth = {"topics_distinct": False}
        yield Case(f"{method}, a topic twice", lemmata.certify(broken, N), truth, tuple(truth))


@problems(seeds=8, quick=0)  # tests/audit/test_topic_claims.py has one of each
def fits_of_gensim(seed: int) -> Iterator[Case]:
    if not find_spec("gensim"):
        return
    from gensim.models import LdaModel

    N, test, *_ = planted(seed)
    renamed = np.random.default_rng(seed).permutation(N.shape[1])

    def corpus(rows: Array, names: Array) -> list:
        return [[(int(names[w]), float(row[w])) for w in np.flatnonzero(row)] for row in rows]

    plain = np.arange(N.shape[1])
    words = {int(w): f"w{w}" for w in plain}  # words that nobody uses are words, too
    model = LdaModel(corpus(N, plain), 3, words, passes=10, random_state=seed, alpha=[0.3] * 3)
    found = lemmata.certify(model, corpus(N, plain), X_test=corpus(test, plain))
    yield Case("gensim", found, HEALTHY, ("attributes_sound",))
    found = lemmata.certify(model, corpus(N, renamed), X_test=corpus(test, renamed))
    yield Case("words renamed", found, {"beats_unigram": False}, ("beats_unigram",))


@problems(seeds=8, quick=0)
def fits_of_tomotopy(seed: int) -> Iterator[Case]:
    if not find_spec("tomotopy"):
        return
    import tomotopy

    N, test, *_ = planted(seed)

    def texts(rows: Array) -> list[list[str]]:
        return [[f"w{w}" for w in np.repeat(np.arange(len(row)), row.astype(int))] for row in rows]

    model = tomotopy.LDAModel(k=3, seed=seed, alpha=0.3)
    for words in texts(N):
        model.add_doc(words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.train(100, workers=1)
    found = lemmata.certify(model, texts(N), X_test=texts(test))
    truth = HEALTHY | {"statements_true": True}
    yield Case("tomotopy", found, truth, ("attributes_sound", "statements_true"))
    found = lemmata.certify(model, texts(N[:-20]), X_test=texts(test))
    truth = {"statements_true": False}
    yield Case("other documents", found, truth, tuple(truth))
