"""Texts classified by the sum of their vectors. Truth: losses recomputed word by word; labels told by words or not."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

import numpy as np

from lemmata.core.runs.trace import Trace
from lemmata.embedding import FastTextClassifier
from truth.harness import Case, problems


def planted(seed: int, n: int = 120, told: float = 0.4) -> tuple[list[str], np.ndarray]:
    """Texts of ten words, each with the probability `told` one of its class's own."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    y[:3] = range(3)
    texts = []
    for label in y:
        own = rng.random(10) < told
        words = np.where(
            own,
            [f"own{label}x{j}" for j in rng.integers(6, size=10)],
            [f"common{j}" for j in rng.integers(50, size=10)],
        )
        texts.append(" ".join(words.tolist()))
    return texts, y


def loss_by_hand(model: FastTextClassifier, texts: list[str], y: np.ndarray) -> float:
    """The mean loss with runs looked up one text after the other."""
    losses = []
    for text, label in zip(texts, y, strict=True):
        z = np.zeros(len(model.classes_))
        place = {word: i for i, word in enumerate(model.features_.vocabulary)}
        words = [place[word] for word in set(text.split())]
        # one word is no run, so that row f of a text of one word is a_f itself
        z = model.vectors_[words].astype(float).sum(axis=0) / np.sqrt(len(words)) @ model.coef_.T
        z = z + model.intercept_
        rival = np.delete(z, label).max()
        losses.append(
            max(0.0, 1 + rival - z[label]) if model.loss == "hinge" else np.log(np.exp(z - z[label]).sum())
        )  # fmt: skip
    return float(np.mean(losses))


def fell(trace: Trace) -> bool:
    losses = np.asarray(trace.objective)
    return bool(np.diff(losses).max() <= 0.01 * losses.max())


@problems(seeds=20, quick=2)
def learnt_and_altered(seed: int) -> Iterator[Case]:
    texts, y = planted(seed)
    loss = "hinge" if seed % 2 else "softmax"
    model = FastTextClassifier(word_ngrams=1, loss=loss, epochs=6, random_state=seed).fit(texts, y)
    by_hand = loss_by_hand(model, texts, y)
    shares = np.bincount(y) / len(y)
    best = min(1, 2 * (1 - shares.max())) if seed % 2 else -float(shares @ np.log(shares))
    true = {"attributes_sound": True, "statements_true": abs(model.loss_ - by_hand) < 1e-4}
    true |= {"beats_one_answer": by_hand <= 0.99 * best, "loss_fell": fell(model.trace_)}
    yield Case("learnt", model.certify(texts, y), true, tuple(true))
    for name, more in (("loss too high", 1e-3), ("loss too low", -min(1e-3, by_hand / 2))):
        if abs(more) < 1e-5:
            continue
        told = deepcopy(model)
        told.loss_ += more
        false = {"statements_true": False}
        yield Case(name, told.certify(texts, y), false, tuple(false))
    other = deepcopy(model)
    other.vectors_ = np.roll(model.vectors_, 1, axis=0)
    yield Case("vectors of other words", other.certify(texts, y), {"statements_true": False})
    broken = deepcopy(model)
    broken.coef_ = model.coef_ * np.nan
    yield Case("weights that are no numbers", broken.certify(texts, y), {"attributes_sound": False})


@problems(seeds=20, quick=1)
def nothing_learnt(seed: int) -> Iterator[Case]:
    texts, y = planted(seed)
    idle = FastTextClassifier(learning_rate=1e-7, epochs=1, random_state=seed).fit(texts, y)
    false = {"beats_one_answer": False}
    yield Case("steps of no length", idle.certify(texts, y), false, tuple(false))
    model = FastTextClassifier(epochs=6, random_state=seed).fit(texts, y)
    wrong = (y + 1) % 3
    yield Case("labels of other texts", model.certify(texts, wrong), {**false, "statements_true": False})  # fmt: skip
    risen = deepcopy(model)
    risen.trace_ = Trace()
    for loss in (1.0, 0.5, 0.6):
        risen.trace_.append(loss, 0.0)
    yield Case("a loss that rose", risen.certify(texts, y), {"loss_fell": False}, ("loss_fell",))
