"""Skip-gram and CBOW over sentences: draws, scores and updates, one occurrence after the other.

An occurrence of a word has an input x and outputs z_j with labels y_j (1: words of its window, 0: negatives) and weights c_j:

    g_j = γ c_j (y_j − σ(xᵀz_j + b_j)),      x ← x + Σ_j g_j z_j,      z_j ← z_j + g_j x,      b_j ← b_j + g_j

all from the values before. A group is what is updated at once: a pair with its own negatives, or the whole window with
negatives that its pairs share. With γ = 0 nothing changes and the loss is all that is left: what trains also measures. Vectors
are rows of whole cache lines, filled up with zeros, which every update leaves zero.

Skip-gram, CBOW and documents differ in what predicts what: a word its window, a window its word, a document its words. An input
that is a sum of rows, x = Σ c_i a_i, is put together once for an occurrence, moved by all of its groups, and what it was moved
by is given to the rows, c_i of it to a_i. The parts of a word have Σ c_i² = 1: then that is exactly what rows moved after every
group would have made of x.

What is drawn depends on the key and on the place of a sentence in the text alone, so neither the cut into chunks nor threads
change it. Threads that train in parallel write the same rows without locks: then the result depends on which was first.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel
from lemmata.linalg.simd import add, axpy, dot, fetch, load, minus, store, zero

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)
REACH = 8.0  # of the table of σ: beyond it σ is 0 or 1 to 3e-4
PAIR, GROUP, OCCURRENCE = 0, 1, 2  # what negatives are drawn for: GROUP is negatives_per="window"
WORD, WINDOW, UNIT = 0, 1, 2  # what predicts: skip-gram, CBOW, documents


# --- draws ------------------------------------------------------------------------------------------------------------


@kernel(forceinline=True)
def mix(x):
    """SplitMix64's output function: 64 bits that look independent for different x."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel(forceinline=True)
def keep_words(ids, first, last, keep, held, state):
    """Write the words of a sentence that are kept; how many, and the generator's next state."""
    count = 0
    for t in range(first, last):
        state += GOLDEN
        if (mix(state) >> HALF) < keep[ids[t]]:
            held[count] = ids[t]
            count += 1
    return count, state


@kernel(forceinline=True)
def draw_negatives(targets, first, count, alias, state):
    """Write so many words drawn from the packed alias table, without a branch, which would be mispredicted half of the time."""
    n = np.uint64(len(alias))
    for j in range(first, first + count):
        state += GOLDEN
        bits = mix(state)
        place = ((bits >> HALF) * n) >> HALF
        entry = alias[place]
        passed = np.uint64(0) - np.uint64((bits & LOW) >= (entry & LOW))  # all ones, or 0
        targets[np.uint64(j)] = np.int64(place ^ ((place ^ (entry >> HALF)) & passed))
    return state


@kernel(forceinline=True)
def reach_of(window, shrink, state):
    """Reach of an occurrence: the window, or a number drawn from 1 to it."""
    if not shrink:
        return window, state
    state += GOLDEN
    return window - np.int64((mix(state) >> HALF) % np.uint64(window)), state


# --- scores and updates -----------------------------------------------------------------------------------------------


@kernel(forceinline=True)
def place_of(score, size):
    """Place of a score in tables of `size` steps over −REACH … REACH: a step, and the share of it that is passed."""
    place = (score + np.float32(REACH)) * (np.float32(size) / np.float32(2 * REACH))
    if not place > np.float32(0):  # NaN, too: it must not lead outside of the table
        return 0, np.float32(0)
    step = min(np.int64(min(place, np.float32(size))), size - 1)
    return step, min(place - np.float32(step), np.float32(1))


@kernel(forceinline=True)
def fetch_rows(Out, targets, first, count, nb):
    """Ask the memory for the rows of some targets."""
    for j in range(first, first + count):
        for block in range(nb):
            fetch(Out, targets[j] * nb + block)


@kernel(forceinline=True)
def fetch_lines(In, lines, count, nb):
    """Ask the memory for the rows that an input is made of."""
    for j in range(count):
        for block in range(nb):
            fetch(In, lines[j] + block)


@kernel(forceinline=True)
def descend(
    In, u, Out, bias, targets, first, count, positives, weight, rate, tables, biased, gains, nb
):
    """One step of a group, the input at line u of In: `positives` targets, then negatives of some weight; its loss."""
    loss = 0.0
    size = tables.shape[1] - 1
    for j in range(count):
        v = targets[np.uint64(first + j)]
        score = dot(In, u, Out, v * nb, nb)
        if biased:
            score += bias[v]
        step, share = place_of(score, size)
        sigma = tables[0, step] + share * (tables[0, step + 1] - tables[0, step])
        # ln(1 + eˢ), beyond the table s; with label 1 the loss is ln(1 + e⁻ˢ) = ln(1 + eˢ) − s
        cost = tables[1, step] + share * (tables[1, step + 1] - tables[1, step])
        cost += max(score - np.float32(REACH), np.float32(0)) + (score - score)  # NaN stays NaN
        if j < positives:
            gains[np.uint64(j)] = rate * (np.float32(1) - sigma)
            loss += cost - score
        else:
            gains[np.uint64(j)] = -rate * weight * sigma
            loss += weight * cost
    for block in range(nb):
        x, change = load(In, u + block), zero(In)
        for j in range(count):
            at = targets[np.uint64(first + j)] * nb + block
            z = load(Out, at)
            change = axpy(gains[np.uint64(j)], z, change)
            store(Out, at, axpy(gains[np.uint64(j)], x, z))
        # read again: of one embedding the input may be an output, too
        store(In, u + block, add(load(In, u + block), change))
    if biased:
        for j in range(count):
            bias[targets[first + j]] += gains[j]
    return loss


# --- what predicts what ---------------------------------------------------------------------------------------------


@kernel(forceinline=True)
def look_around(held, t, count, window, shrink, whole, near, state):
    """Write the words that an occurrence is paired with: those of its window, or of its whole sentence; how many.

    Of a sentence with more than 2R other words, 2R draws of them: each is as likely as any other, and time stays linear.
    """
    if whole:
        others = count - 1
        found = min(others, 2 * window)
        for j in range(found):
            other = np.int64(j)
            if others > found:
                state += GOLDEN
                other = np.int64(((mix(state) >> HALF) * np.uint64(others)) >> HALF)
            near[np.uint64(j)] = held[np.uint64(other + (other >= t))]
        return found, state
    reach, state = reach_of(window, shrink, state)
    found = 0
    for c in range(max(0, t - reach), min(count, t + reach + 1)):
        if c != t:
            near[np.uint64(found)] = held[np.uint64(c)]
            found += 1
    return found, state


@kernel(forceinline=True)
def write_targets(predicted, pairs, alone, negative, alias, targets, state):
    """Each predicted word with negatives of its own, or all of them and then the negatives that they share."""
    at = 0
    for j in range(pairs):
        targets[np.uint64(at)] = predicted[np.uint64(j)]
        at += 1
        if alone:
            state = draw_negatives(targets, at, negative, alias, state)
            at += negative
    if not alone:
        state = draw_negatives(targets, at, negative, alias, state)
    return state


@kernel(forceinline=True)
def list_inputs(words, count, mean, firsts, parts, lines, shares, nb):
    """Write the lines that make up the input, and how much of each: rows of words, or of the parts of words."""
    n = 0
    outer = np.float32(1) / np.float32(count) if mean else np.float32(1)
    for j in range(count):
        w = words[j]
        if len(firsts) == 0:
            lines[n], shares[n] = w * nb, outer
            n += 1
        else:
            share = outer / np.sqrt(np.float32(firsts[w + 1] - firsts[w]))
            for p in range(firsts[w], firsts[w + 1]):
                lines[n], shares[n] = np.int64(parts[p]) * nb, share
                n += 1
    return n


@kernel(forceinline=True)
def gather(In, lines, shares, n, middle, nb):
    """h = Σ share · row, twice: one is moved, the other remembers."""
    for block in range(nb):
        h = zero(In)
        for j in range(n):
            h = axpy(shares[np.uint64(j)], load(In, lines[np.uint64(j)] + block), h)
        store(middle, block, h)
        store(middle, nb + block, h)


@kernel(forceinline=True)
def scatter(In, lines, shares, n, middle, nb):
    """Add what h was moved by to the rows that it is made of."""
    for block in range(nb):
        change = minus(load(middle, block), load(middle, nb + block))
        for j in range(n):
            at = lines[np.uint64(j)] + block
            store(In, at, axpy(shares[np.uint64(j)], change, load(In, at)))


# --- training ---------------------------------------------------------------------------------------------------------


@kernel
def train(
    ids, starts, first, last, position, unit, key, keep, alias, In, Out, bias, nb, firsts, parts, widest, window,
    shrink, whole, source, negative, shared, mean, alpha, least, fall, tables, biased, middle,
):  # fmt: skip
    """Steps over the sentences first … last − 1 of a block that begins at token `position`; their loss and pairs.

    The input is a row of In (`source` WORD: the occurrence's, if words have no parts; UNIT: the sentence's, the block's first
    having number `unit`), or a sum h of rows in `middle` (2·nb lines): a word's parts, or the words of a window (WINDOW).
    """
    held = np.empty(np.max(starts[first + 1 : last + 1] - starts[first:last]), np.int32)
    near, alone_here = np.empty(2 * window, np.int64), np.empty(1, np.int64)
    targets = np.empty(2 * window * (1 + negative), np.int64)
    gains = np.empty(2 * window + negative, np.float32)
    lines, shares = np.empty(widest, np.int64), np.empty(widest, np.float32)
    direct = source == UNIT or (source == WORD and len(firsts) == 0)
    loss, total = 0.0, 0
    for s in range(first, last):
        place = position + starts[s]
        rate = np.float32(max(least, alpha - fall * place))
        state = mix(key + np.uint64(place) * GOLDEN)
        count, state = keep_words(ids, starts[s], starts[s + 1], keep, held, state)
        for t in range(count):
            alone_here[0] = held[t]
            around = 1
            if source != UNIT:
                around, state = look_around(held, t, count, window, shrink, whole, near, state)
                if around == 0:
                    continue
            pairs, predicted = (around, near) if source == WORD else (1, alone_here)
            alone = shared == PAIR
            groups, width = (pairs, 1 + negative) if alone else (1, pairs + negative)
            positives = 1 if alone else pairs
            weight = np.float32(pairs if shared == GROUP else 1)
            total += pairs
            n = 0
            if not direct:
                given, words = (1, alone_here) if source == WORD else (around, near)
                n = list_inputs(words, given, mean, firsts, parts, lines, shares, nb)
                fetch_lines(In, lines, n, nb)
            state = write_targets(predicted, pairs, alone, negative, alias, targets, state)
            fetch_rows(Out, targets, 0, width, nb)
            X, u = In, np.int64(unit + s if source == UNIT else held[t]) * nb
            if not direct:
                gather(In, lines, shares, n, middle, nb)
                X, u = middle, 0
            for g in range(groups):
                if g + 1 < groups:
                    fetch_rows(Out, targets, (g + 1) * width, width, nb)
                loss += descend(
                    X, u, Out, bias, targets, g * width, width, positives, weight, rate, tables, biased, gains, nb
                )  # fmt: skip
            if not direct:
                scatter(In, lines, shares, n, middle, nb)
    return loss, total
