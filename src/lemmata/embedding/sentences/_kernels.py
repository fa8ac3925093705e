"""Means of words that predict words: one pass over sentences, one target after the other.

    h = mean of inputs,      g_j = γ (y_j − σ(hᵀz_j)),      h ← h + Σ_j g_j z_j,      z_j ← z_j + g_j h

`train_words`: target t is a word of the sentence, h the mean of the n − 1 others. What a target moves h by, δ_t, goes to each
of them, δ_t/(n − 1). So with H = Σ x and D = Σ_(t' < t) δ_t', the mean that target t sees is (H + D − x_t − D/(n − 1))/(n −
1), and at the end word j is x_j + (Σ δ − δ_j)/(n − 1): a sentence costs n steps, not n², and for words that stand in it once
these are exactly the steps made one by one.

`train_neighbours`: targets are the words of the sentences before and after, h the mean of all words of this one.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel
from lemmata.embedding.skipgram._kernels import (
    GOLDEN,
    descend,
    draw_negatives,
    fetch_rows,
    keep_words,
    mix,
)
from lemmata.linalg.simd import add, axpy, load, minus, store, zero


@kernel
def train_words(
    ids, starts, first, last, position, key, keep, alias, In, Out, nb, negative, alpha, least, fall, tables, bias,
    middle, moved,
):  # fmt: skip
    """Sentences first … last − 1 of a block that begins at token `position`: their loss and number of targets.

    middle : 3·nb lines (h, H, D); moved : nb lines for each word of the longest sentence
    """
    held = np.empty(np.max(starts[first + 1 : last + 1] - starts[first:last]), np.int32)
    targets = np.empty(1 + negative, np.int64)
    gains = np.empty(1 + negative, np.float32)
    loss, total = 0.0, 0
    for s in range(first, last):
        place = position + starts[s]
        rate = np.float32(max(least, alpha - fall * place))
        state = mix(key + np.uint64(place) * GOLDEN)
        count, state = keep_words(ids, starts[s], starts[s + 1], keep, held, state)
        if count < 2:
            continue
        share = np.float32(1) / np.float32(count - 1)
        for block in range(nb):
            sums = zero(In)
            for t in range(count):
                sums = add(sums, load(In, np.int64(held[t]) * nb + block))
            store(middle, nb + block, sums)
            store(middle, 2 * nb + block, zero(In))
        for t in range(count):
            targets[0] = held[t]
            state = draw_negatives(targets, 1, negative, alias, state)
            fetch_rows(Out, targets, 0, 1 + negative, nb)
            u = np.int64(held[t]) * nb
            for block in range(nb):
                others = minus(load(middle, nb + block), load(In, u + block))
                others = axpy(np.float32(1) - share, load(middle, 2 * nb + block), others)
                h = axpy(share, others, zero(In))
                store(middle, block, h)
                store(moved, t * nb + block, h)
            loss += descend(
                middle, 0, Out, bias, targets, 0, 1 + negative, 1, np.float32(1), rate, tables, False, gains, nb
            )  # fmt: skip
            for block in range(nb):
                change = minus(load(middle, block), load(moved, t * nb + block))
                store(moved, t * nb + block, change)
                store(middle, 2 * nb + block, add(load(middle, 2 * nb + block), change))
        for t in range(count):
            u = np.int64(held[t]) * nb
            for block in range(nb):
                change = minus(load(middle, 2 * nb + block), load(moved, t * nb + block))
                store(In, u + block, axpy(share, change, load(In, u + block)))
        total += count
    return loss, total


@kernel
def train_neighbours(
    ids, starts, first, last, position, key, keep, alias, In, Out, nb, negative, alpha, least, fall, tables, bias,
    middle, moved,
):  # fmt: skip
    """The same with the words of the sentences before and after as targets; a sentence without words has no neighbours."""
    n = len(starts) - 1
    low, high = max(0, first - 1), min(n, last + 1)
    longest = np.max(starts[low + 1 : high + 1] - starts[low:high])
    held, near = np.empty(longest, np.int32), np.empty(longest, np.int32)
    targets = np.empty(1 + negative, np.int64)
    gains = np.empty(1 + negative, np.float32)
    loss, total = 0.0, 0
    for s in range(first, last):
        place = position + starts[s]
        rate = np.float32(max(least, alpha - fall * place))
        state = mix(key + np.uint64(place) * GOLDEN)
        count, state = keep_words(ids, starts[s], starts[s + 1], keep, held, state)
        if count == 0:
            continue
        share = np.float32(1) / np.float32(count)
        for block in range(nb):
            h = zero(In)
            for t in range(count):
                h = axpy(share, load(In, np.int64(held[t]) * nb + block), h)
            store(middle, block, h)
            store(middle, nb + block, h)
        for other in (s - 1, s + 1):
            if other < 0 or other >= n:
                continue
            found, state = keep_words(ids, starts[other], starts[other + 1], keep, near, state)
            total += found
            for t in range(found):
                targets[0] = near[t]
                state = draw_negatives(targets, 1, negative, alias, state)
                fetch_rows(Out, targets, 0, 1 + negative, nb)
                loss += descend(
                    middle, 0, Out, bias, targets, 0, 1 + negative, 1, np.float32(1), rate, tables, False, gains, nb
                )  # fmt: skip
        for block in range(nb):
            change = minus(load(middle, block), load(middle, nb + block))
            for t in range(count):
                at = np.int64(held[t]) * nb + block
                store(In, at, axpy(share, change, load(In, at)))
    return loss, total
