"""Texts from a language model: one cached step gives the scores of the next token, these functions choose.

    temperature t      p ∝ e^(s/t);  t = 0 is the likeliest token (greedy)
    top-k              only the k likeliest tokens
    top-p              only the likeliest tokens that together have a probability of at least p; after temperature and top-k
    beams b            the b likeliest beginnings are continued by all tokens, and the b likeliest of these kept: deterministic

>>> import numpy as np
>>> scores = np.log([[0.5, 0.3, 0.15, 0.05]])
>>> shape_probabilities(scores, top_p=0.7).round(3).tolist(), shape_probabilities(scores, temperature=0).tolist()
([[0.625, 0.375, 0.0, 0.0]], [[1.0, 0.0, 0.0, 0.0]])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import log_softmax, softmax

from lemmata.language.tokens import EOS

Array = np.ndarray


class Step(Protocol):
    """A model in the middle of some texts."""

    def feed(self, tokens: Array) -> Array:
        """Read more tokens (B, k) of each row; return the scores (B, V) of the next ones."""

    def select(self, rows: Array) -> None:
        """Go on with these rows, in this order; a row may be there several times."""


def check_counts(**given: Any) -> None:
    """Raise ValueError for what is no number of things."""
    for name, value in given.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name}={value!r}; pass a whole number >= 1.")


def check_sampling(temperature: Any, top_k: Any, top_p: Any, n_tokens: int) -> None:
    """Raise ValueError for settings that choose nothing."""
    if not (isinstance(temperature, (int, float)) and 0 <= temperature < math.inf):
        raise ValueError(f"temperature={temperature!r}; pass a number >= 0 (0: the likeliest).")
    if top_k is not None and not (isinstance(top_k, Integral) and int(top_k) >= 1):
        raise ValueError(f"top_k={top_k!r}; pass a whole number >= 1, or None for all {n_tokens:,} tokens.")  # fmt: skip
    if not (isinstance(top_p, (int, float)) and 0 < top_p <= 1):
        raise ValueError(f"top_p={top_p!r}; pass a probability in (0, 1].")


def shape_probabilities(
    scores: Array, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0
) -> Array:
    """(B, V): the probabilities to draw from, of scores (B, V). Of equal scores at the edge, those of lower numbers stay."""
    scores = np.asarray(scores, np.float64)
    if temperature == 0:
        return np.eye(scores.shape[1])[scores.argmax(axis=1)]
    # against the largest first: at t = 1e-300 the others become −∞, and it stays 0
    P = softmax((scores - scores.max(axis=1, keepdims=True)) / temperature, axis=1)
    if top_k is None and top_p == 1:
        return P
    order = np.argsort(-P, axis=1, kind="stable")
    ranked = np.take_along_axis(P, order, axis=1)
    if top_k is not None:
        ranked[:, top_k:] = 0
    whole = ranked.sum(axis=1, keepdims=True)
    before = np.cumsum(ranked, axis=1) - ranked
    ranked[before >= top_p * whole] = 0  # the likeliest is never dropped: before it stands nothing
    np.put_along_axis(P, order, ranked, axis=1)
    return P / P.sum(axis=1, keepdims=True)


def draw_tokens(P: Array, rng: Any) -> Array:
    """(B,): a token of each row, by inverting its distribution."""
    shares = np.cumsum(P, axis=1)
    u = rng.random_sample(len(P))[:, None] * shares[:, -1:]
    return (shares <= u).sum(axis=1)


def continue_rows(
    step: Step,
    first: Array,
    length: int,
    choose: Callable[[Array], Array],
    is_done: Callable[[Array], bool],
) -> list[Array]:
    """The tokens that follow first (B, k): up to `length` in each row, [EOS] or what ends it left out.

    choose : tokens (B,) of scores (B, V)
    is_done : whether the tokens of a row so far end it
    """
    tokens, rows = first, np.arange(len(first))
    found: list[list[int]] = [[] for _ in rows]
    for _ in range(length):
        chosen = choose(step.feed(tokens))
        going = []
        for at, (row, token) in enumerate(zip(rows, chosen, strict=True)):
            if token != EOS:
                found[row].append(int(token))
                if not is_done(np.array(found[row])):
                    going.append(at)
        if not going:
            break
        if len(going) < len(rows):
            step.select(np.array(going))
            rows = rows[going]
        tokens = chosen[going][:, None]
    return [np.array(row, np.int32) for row in found]


class Continuation(NamedTuple):
    """A continuation of a prompt, with its log probability."""

    tokens: Array
    log_prob: float


def search_beams(step: Step, first: Array, length: int, beams: int) -> list[Continuation]:
    """The likeliest continuations of first (1, k) that were found, the best first: of `length` tokens, or ended by [EOS]."""
    logs, runs = np.zeros(1), np.empty((1, 0), np.int64)
    ended: list[Continuation] = []
    tokens = first
    for _ in range(length):
        total = logs[:, None] + log_softmax(np.asarray(step.feed(tokens), np.float64), axis=1)
        best = np.argsort(-total, axis=None, kind="stable")[: 2 * beams]
        rows, words = np.divmod(best, total.shape[1])
        kept: list[tuple[int, int]] = []
        for row, word in zip(rows, words, strict=True):
            if not np.isfinite(total[row, word]):
                continue
            if word == EOS:
                ended.append(Continuation(runs[row].astype(np.int32), float(total[row, word])))
            elif len(kept) < beams:
                kept.append((row, word))
        ended = sorted(ended, key=lambda one: -one.log_prob)[:beams]
        if not kept:
            break
        at, new = np.array(kept).T
        logs = total[at, new]
        runs = np.concatenate([runs[at], new[:, None]], axis=1)
        if len(ended) == beams and ended[-1].log_prob >= logs.max():
            return ended  # no continuation can become more probable
        step.select(at)
        tokens = new[:, None]
    alive = [
        Continuation(run.astype(np.int32), float(log)) for run, log in zip(runs, logs, strict=True)
    ]
    return sorted(ended + alive, key=lambda one: -one.log_prob)[:beams]
