"""Skip-gram and CBOW in NumPy, by mini-batches: for small texts, which are trained before a compiler would have begun.

Pairs of all windows are drawn at once and cut into batches; a batch is one gradient step from the values before it, summed over
its pairs, as if they had come one after the other from the same vectors. A word that stands in many of them would be moved too
far: where its rates in a batch add up to more than PULL, they are divided to add up to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

Array = np.ndarray
LARGEST, SMALLEST = 1024, 16  # pairs of a batch
PULL = 1.0  # the curvature of a term is ‖x‖²/4 at most, so a sum of 1 is stable up to ‖x‖² = 8
DENSE = 2**17  # entries of a matrix that is cheaper to fill than to list


@dataclass(frozen=True)
class Occurrences:
    """Inputs and what they predict: pair p is (centre[owner[p]], context[p])."""

    centre: Array  # (occurrences,) word of each, or document
    owner: Array  # (pairs,) which occurrence a pair belongs to, rising
    context: Array  # (pairs,)
    sizes: Array  # (occurrences,) pairs of each, >= 1


@dataclass(frozen=True)
class KeptWords:
    """The words of some sentences that are kept."""

    words: Array  # (n,)
    sentence: Array  # (n,) rising


def keep_words(ids: Array, starts: Array, keep: Array, rng: np.random.Generator) -> KeptWords:
    """Drop frequent words."""
    kept = rng.random(len(ids)) < keep[ids]
    sentence = np.repeat(np.arange(len(starts) - 1), np.diff(starts))[kept]
    return KeptWords(ids[kept].astype(np.int64), sentence)


def draw_windows(
    kept: KeptWords, window: int, shrink: bool, rng: np.random.Generator
) -> Occurrences:
    """Draw how far each occurrence looks, and list the pairs."""
    words, sentence, n = kept.words, kept.sentence, len(kept.words)
    reach = rng.integers(1, window + 1, n) if shrink else np.full(n, window)
    owners, contexts = [], []
    places = np.arange(n)
    for offset in (*range(-window, 0), *range(1, window + 1)):
        other = places + offset
        inside = (other >= 0) & (other < n) & (abs(offset) <= reach)
        inside[inside] = sentence[other[inside]] == sentence[inside]
        owners.append(places[inside])
        contexts.append(words[other[inside]])
    owner, context = np.concatenate(owners), np.concatenate(contexts)
    order = np.argsort(owner, kind="stable")
    return _list_occurrences(words, owner[order], context[order])


def draw_sentences(kept: KeptWords, most: int, rng: np.random.Generator) -> Occurrences:
    """Each occurrence with all other words of its sentence, or `most` draws of them if they are more."""
    words, (_, firsts, sizes) = kept.words, np.unique(kept.sentence, return_index=True, return_counts=True)  # fmt: skip
    first, others = np.repeat(firsts, sizes), np.repeat(sizes - 1, sizes)
    drawn = np.minimum(others, most)
    owner = np.repeat(np.arange(len(words)), drawn)
    which = np.arange(len(owner)) - np.repeat(np.cumsum(drawn) - drawn, drawn)
    many = (others > most)[owner]
    which[many] = rng.integers(0, others[owner[many]])
    which += which >= owner - first[owner]  # not itself
    return _list_occurrences(words, owner, words[first[owner] + which])


def draw_documents(kept: KeptWords, unit: int) -> Occurrences:
    """Each sentence, a document that begins with number `unit`, with each of its words."""
    n = len(kept.words)
    return Occurrences(kept.sentence + unit, np.arange(n), kept.words, np.ones(n, np.int64))


def _list_occurrences(words: Array, owner: Array, context: Array) -> Occurrences:
    used, owner, sizes = np.unique(owner, return_inverse=True, return_counts=True)
    return Occurrences(words[used], owner, context, sizes)


def batch_size(n_words: int, rate: float) -> int:
    """Number of pairs that are taken from the same vectors: the larger a step, the fewer."""
    return int(np.clip(0.1 * n_words / max(rate, 1e-3), SMALLEST, LARGEST))


def limit_rates(rates: Array) -> Array:
    """Factors for the steps of words whose rates add up to these sums, (words, 1)."""
    return (PULL / np.maximum(rates, PULL))[:, None]


def gather_rows(words: Array, rows: Array, values: Array, n_words: int) -> Any:
    """A matrix (words, rows of a batch) with these values, equal places added up: its product moves rows to their words."""
    n_rows = int(rows[-1]) + 1
    if n_words * n_rows <= DENSE:
        flat = np.bincount(words * n_rows + rows, values, minlength=n_words * n_rows)
        return flat.reshape(n_words, n_rows).astype(
            np.float32 if values.dtype == np.float32 else float
        )
    return sp.csr_array((values, (words, rows)), shape=(n_words, n_rows))


def sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))


@dataclass
class BatchSteps:
    """One pass over drawn windows. With rate 0 it only measures."""

    vectors: Array  # (n, k), changed in place: of words, of words and parts, or of documents
    outputs: Array  # (v, k), changed in place; the same array of one embedding
    biases: Array | None
    table: Any  # AliasTable
    negative: int
    rng: np.random.Generator
    alpha: float = 0.025  # the largest rate
    # CSR (n, words): how much of each vector is in a word; None: vectors are words
    shares: Any = None

    def _input_shares(self, centre: Array, rows: Array, values: Array) -> Any:
        """The share of each vector in the inputs of a batch, (n, batch)."""
        if self.shares is None:
            return gather_rows(centre, rows, values, len(self.vectors))
        return self.shares @ gather_rows(centre, rows, values, self.shares.shape[1])

    def skipgram(self, found: Occurrences, shared: str, rates: Any) -> tuple[float, int]:
        """The loss of all pairs, each at its own time, and how many there are."""
        loss, n = 0.0, len(found.owner)
        size = batch_size(len(self.outputs), self.alpha)
        for first in range(0, n, size):
            owner = found.owner[first : first + size]
            centre, context = found.centre[owner], found.context[first : first + size]
            if shared == "pair":
                negatives = self.table.draw(self.rng, (len(owner), self.negative))
                weights = np.ones(negatives.shape, self.vectors.dtype)
            else:  # drawn once for an occurrence; a pair carries its share of their weight
                _, which = np.unique(owner, return_inverse=True)
                drawn = self.table.draw(self.rng, (which[-1] + 1, self.negative))
                negatives = drawn[which]
                share = 1.0 if shared == "window" else 1 / found.sizes[owner]
                weights = np.broadcast_to(np.reshape(share, (-1, 1)), negatives.shape)
                weights = weights.astype(self.vectors.dtype)
            inputs = self._input_shares(centre, np.arange(len(owner)), np.ones(len(owner)))
            loss += self._step(inputs, context, negatives, weights, rates(first / n))
        return loss, n

    def cbow(self, found: Occurrences, mean: bool, rates: Any) -> tuple[float, int]:
        loss, n = 0.0, len(found.centre)
        size = batch_size(len(self.outputs), self.alpha)
        ends = np.concatenate([[0], np.cumsum(found.sizes)])
        for first in range(0, n, size):
            last = min(first + size, n)
            context = found.context[ends[first] : ends[last]]
            sizes = found.sizes[first:last]
            share = np.repeat(1 / sizes if mean else np.ones(len(sizes)), sizes)
            rows = np.repeat(np.arange(last - first), sizes)
            inputs = self._input_shares(context, rows, share)
            negatives = self.table.draw(self.rng, (last - first, self.negative))
            weights = np.ones(negatives.shape, self.vectors.dtype)
            centre = found.centre[first:last]
            loss += self._step(inputs, centre, negatives, weights, rates(first / n))
        return loss, n

    @np.errstate(all="ignore")  # a rate too large: the loss says so
    def _step(
        self, inputs: Any, positives: Array, negatives: Array, weights: Array, rate: float
    ) -> float:
        """inputs (n, batch) says which vectors, and how much of each, are a row's input."""
        kind = self.vectors.dtype
        X = (inputs.T @ self.vectors).astype(kind)  # (B, k)
        targets = np.column_stack([positives, negatives])
        Z = self.outputs[targets]  # (B, 1 + r, k)
        scores = np.einsum("bk,bjk->bj", X, Z)
        if self.biases is not None:
            scores = scores + self.biases[targets]
        labels = np.zeros(scores.shape, kind)
        labels[:, 0] = 1
        c = np.column_stack([np.ones(len(weights), kind), weights])
        losses = np.logaddexp(0, np.where(labels > 0, -scores, scores).astype(np.float64))
        if rate > 0:
            rates = rate * c
            g = (rates * (labels - sigmoid(scores))).astype(kind)
            flat = targets.ravel()
            outer = limit_rates(np.bincount(flat, rates.ravel(), minlength=len(self.outputs)))
            # the diagonal that is above inputs · diag(rates) · inputsᵀ: its rows' sums
            inner = limit_rates(inputs @ (rates.sum(axis=1) * np.asarray(inputs.sum(axis=0))))
            rows = np.repeat(np.arange(len(X)), targets.shape[1])
            chosen = gather_rows(flat, rows, g.ravel(), len(self.outputs))
            change = np.einsum("bj,bjk->bk", g, Z)
            self.outputs += (outer * (chosen @ X)).astype(kind)
            self.vectors += (inner * (inputs @ change)).astype(kind)
            if self.biases is not None:
                sums = np.bincount(flat, g.ravel(), minlength=len(self.biases))
                self.biases += (outer[:, 0] * sums).astype(kind)
        return float((c * losses).sum())
