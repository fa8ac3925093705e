"""One pass of collapsed Gibbs sampling over the tokens of a block, compiled.

A token of word w in document d leaves topic o and draws one from

    p_j ∝ (n_dj + α_j) (n_wj + β_wj) / (n_j + Σ_w β_wj)          all counts without this token

Counts are float32 with their priors added, k of them in nb cache lines (simd.py), so that all k products are a dozen
instructions: up to some hundred topics that is faster than to look for the few that matter. The counts are read with the token
in them and only p_o is put right, so a token that stays where it was, as most do, writes nothing.

Measured on AP (0.4M tokens, one core): a pass takes 26 ms with 100 topics and 60 with 500. Lists of the topics of each word, as
in SparseLDA (Yao et al. 2009), took 56 and 74, though they hold 10 and 16 topics: half of the tokens move, so lists change.
"""

from __future__ import annotations

import math

import numpy as np

from lemmata.core.engine import kernel, run_tasks
from lemmata.linalg.simd import LINE, add, at, axpy, empty_lines, fetch, load, multiply, store, zero
from lemmata.topics.lda._lanes import lanes_up_to, running
from lemmata.topics.lda.documents import side_by_side

Array = np.ndarray

AHEAD = 4  # tokens ahead whose counts are prefetched


@kernel(forceinline=True)
def uniform(seed, number):
    """The number-th uniform of a stream in [0, 1): a counter, well stirred (splitmix64)."""
    x = seed + number * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return np.float32(x >> np.uint64(40)) * np.float32(2.0**-24)


@kernel(forceinline=True)
def draw(D, d, W, w, I, unit, where, right, sums, edges, chance):
    """A topic from p_j ∝ D_j W_j I_j, with `right` added to the lane `unit` of line `where`.

    The lines are added up, so that lane l of their sum is what topics l, l + 16, … have together: one line of running sums
    finds the lane, and the sums on the way to it the topic.
    """
    nb, lanes, one = np.uint64(I.shape[0]), np.uint64(I.shape[1]), np.uint64(1)
    sum = zero(I)
    for b in range(nb):
        p = multiply(multiply(load(D, d + b), load(W, w + b)), load(I, b))
        sum = add(sum, axpy(right if b == where else np.float32(0), unit, p))
        store(sums, b, sum)
    edge = running(sum)
    store(edges, np.uint64(0), edge)
    goal = chance * at(edges, lanes - one)
    lane = min(lanes_up_to(edge, goal), lanes - one)
    if lane > 0:
        goal -= at(edges, lane - one)
    topic = lane
    for b in range(nb - one):
        topic += lanes if at(sums, b * lanes + lane) <= goal else np.uint64(0)
    return topic


@kernel(forceinline=True)
def _ask_for(W, words, t, last, nb):
    ahead = np.uint64(words[min(t + np.uint64(AHEAD), last)]) * nb
    for b in range(nb):
        fetch(W, ahead + b)


@kernel
def sample_block(topics, words, indptr, D, W, I, totals, units, sums, edges, k, seed):
    """Draw the topic of every token of a block again; topics, D, W, I and totals are changed in place.

    topics, words : of each token, document by document (indptr)
    D, W : n_dj + α_j and n_wj + β_wj as lines;  totals : n_j + Σ_w β_wj, and I = 1/totals as lines, which are made here
    units : the unit vectors as lines;  sums, edges : buffers of nb lines, and of one
    """
    nb, lanes, one = np.uint64(I.shape[0]), np.uint64(I.shape[1]), np.uint64(1)
    d_flat, w_flat, i_flat = D.reshape(-1), W.reshape(-1), I.reshape(-1)
    last = np.uint64(len(words) - 1)
    for j in range(k):
        i_flat[j] = np.float32(1.0 / totals[j])
    for i in range(np.uint64(len(indptr) - 1)):
        d = np.uint64(i) * nb
        for t in range(np.uint64(indptr[i]), np.uint64(indptr[i + one])):
            w = np.uint64(words[t]) * nb
            _ask_for(W, words, t, last, nb)
            old = np.uint64(topics[t])
            n_d, n_w = at(D, d * lanes + old), at(W, w * lanes + old)
            without = (n_d - np.float32(1)) * (n_w - np.float32(1))
            right = without / np.float32(totals[old] - 1.0) - n_d * n_w * at(I, old)
            unit, where, chance = load(units, old % lanes), old // lanes, uniform(seed, t)
            new = draw(D, d, W, w, I, unit, where, right, sums, edges, chance)
            if new != old and new < k:
                topics[t] = new
                d_flat[d * lanes + old] -= np.float32(1)
                d_flat[d * lanes + new] += np.float32(1)
                w_flat[w * lanes + old] -= np.float32(1)
                w_flat[w * lanes + new] += np.float32(1)
                totals[old] -= 1.0
                totals[new] += 1.0
                i_flat[old] = np.float32(1.0 / totals[old])
                i_flat[new] = np.float32(1.0 / totals[new])


# --- a whole pass -----------------------------------------------------------------------------------------------------


def sample(tokens, topics, documents, words, alpha, beta, seed: int, average, share: float):
    """One pass: topics, n_dj and n_wj after it, and their running averages (documents, words) moved by `share` to them."""
    k, topics = len(alpha), topics.copy()
    alpha, beta = np.asarray(alpha, np.float32)[None], np.asarray(beta, np.float32)
    D, W = _with_prior(documents, alpha), _with_prior(words, beta)
    nb, parts = D.shape[0] // max(len(documents), 1), tokens.parts
    totals = words.sum(axis=0, dtype=np.float64)
    totals += np.float64(beta[0]) * len(words) if len(beta) == 1 else beta.sum(axis=0, dtype=float)
    buffers = [_buffers(nb) for _ in range(parts)]
    streams = np.random.SeedSequence(seed).generate_state(parts * parts, np.uint64)
    for shift in range(parts):
        # apart: cores that share a cache line wait for each other
        mine = [totals.copy() for _ in range(parts)]

        def task(a: int, shift: int = shift, mine: list[Array] = mine) -> None:
            b = (a + shift) % parts
            one = tokens.blocks[a][b]
            here = slice(one.start, one.stop)
            if one.start < one.stop:
                sample_block(
                    topics[here], tokens.words[here], one.indptr, D[one.first * nb : one.last * nb], W,
                    buffers[a][0], mine[a], *buffers[a][1:], np.uint64(k), streams[a * parts + b],
                )  # fmt: skip

        run_tasks(task, parts)
        totals = totals + sum(one - totals for one in mine)
    counted = (
        _without_prior(D, alpha, average[0], share),
        _without_prior(W, beta, average[1], share),
    )
    (documents, moved_documents), (words, moved_words) = counted
    return topics, documents, words, (moved_documents, moved_words)


def _buffers(nb: int) -> tuple[Array, ...]:
    """Memory of a task: 1/totals as lines, unit vectors, sums and edges."""
    inverse, sums = (empty_lines(1, nb, np.float32)[0] for _ in range(2))
    inverse[:] = 0
    lanes = inverse.shape[1]
    units = empty_lines(1, lanes, np.float32)[0]
    units[:] = np.eye(lanes)
    return inverse, units, sums, empty_lines(1, 1, np.float32)[0]


def _with_prior(counts: Array, prior: Array) -> Array:
    """Counts + prior as lines that may be written to."""
    n, k = counts.shape
    nb = -(-k // (LINE // 4))
    lines = empty_lines(n, nb, np.float32).reshape(n, -1)

    def part(rows: slice) -> None:
        np.add(counts[rows], prior[rows] if len(prior) > 1 else prior, out=lines[rows, :k])
        lines[rows, k:] = 0

    side_by_side(part, _row_parts(n))
    return lines.reshape(n * nb, -1)


def _row_parts(n: int) -> list[slice]:
    """Cut rows into parts that are worked on in parallel; their number follows from n alone."""
    step = max(1024, -(-n // 8))
    return [slice(first, first + step) for first in range(0, n, step)]


def _without_prior(lines: Array, prior: Array, average: Array, share: float) -> tuple[Array, Array]:
    """The counts in lines, whole again after so many ±1, and their average moved by `share` towards them."""
    n, k = average.shape
    counts, moved = np.empty((n, k), np.float32), np.empty((n, k), np.float32)
    prior = np.ascontiguousarray(np.broadcast_to(prior, (n if len(prior) > 1 else 1, k)))
    lines = lines.reshape(n, -1)

    def part(rows: slice) -> None:
        mine = prior[rows] if len(prior) > 1 else prior
        _without_prior_into(
            counts[rows], moved[rows], lines[rows], mine, average[rows], np.float32(share)
        )

    side_by_side(part, _row_parts(n))
    return counts, moved


@kernel
def _without_prior_into(counts, moved, lines, prior, average, share):
    several = len(prior) > 1
    for i in range(len(counts)):
        a = i if several else 0
        for j in range(counts.shape[1]):
            count = np.rint(lines[i, j] - prior[a, j])
            counts[i, j] = count
            moved[i, j] = average[i, j] + share * (count - average[i, j])


TABLE = 512  # counts up to here are looked up


def log_rising(counts: Array, prior: Array) -> float:
    """Σ lnΓ(n + a) − lnΓ(a) over all counts n, a their prior: what is not counted adds nothing."""
    prior = np.ascontiguousarray(prior, np.float64)
    if len(prior) == 1:
        distinct = 1 if np.ptp(prior) == 0 else prior.shape[1]
        steps = np.log(np.arange(TABLE)[:, None] + prior[0, :distinct])
        table = np.concatenate([np.zeros((1, distinct)), np.cumsum(steps, axis=0)])
        first = np.ascontiguousarray(prior[0])
        found = side_by_side(
            lambda rows: _looked_up(counts[rows], table, first), _row_parts(len(counts))
        )
    else:
        found = side_by_side(
            lambda rows: _summed_up(counts[rows], prior[rows]), _row_parts(len(counts))
        )
    return float(sum(found))


@kernel
def _looked_up(counts, table, prior):
    total, several = 0.0, table.shape[1] > 1
    for i in range(len(counts)):
        for j in range(counts.shape[1]):
            if counts[i, j] <= 0:
                continue
            n = np.int64(counts[i, j])
            if n > TABLE:
                total += math.lgamma(n + prior[j]) - math.lgamma(prior[j])
            else:
                total += table[n, j if several else 0]
    return total


@kernel
def _summed_up(counts, prior):
    total = 0.0
    for i in range(len(counts)):
        for j in range(counts.shape[1]):
            if counts[i, j] > 0:
                total += math.lgamma(counts[i, j] + prior[i, j]) - math.lgamma(prior[i, j])
    return total
