"""Pairs in windows, counted in hash tables: keys w·v + u, one small table for each of SHARDS parts of all keys.

A table of all pairs is far larger than the caches, and to look a pair up there is to wait for memory. So the pairs of a block
are dealt to shards first, in the order of the text; then each shard adds its own to its own table, which stays in the cache
meanwhile. Shards run side by side. Every sum is added up in the order of the text, whatever the number of threads.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.compiler import kernel

SHARDS = 256  # a power of two, see TOP
TOP = np.uint64(56)  # the shift that leaves the 8 highest bits
HALF, FOLD = np.uint64(32), np.uint64(29)
MIXER, MIXER_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
FREE = -1  # the key of an empty slot
STEPS = 10  # bits of a dealt pair that hold its distance − 1; the key is above them
LONGEST_WINDOW = 2**STEPS - 1
MOST_WORDS = 2**26  # so that a key has 63 − STEPS bits at most


@kernel(forceinline=True)
def shard_of(key):
    return np.int64((np.uint64(key) * MIXER) >> TOP)


@kernel(forceinline=True)
def slot_of(cells, key):
    """Where a key stands in a table, or the empty slot where it belongs: cells 2i and 2i + 1 are its key and its sum."""
    size = len(cells) // 2
    mixed = np.uint64(key) * MIXER
    mixed = (mixed ^ (mixed >> FOLD)) * MIXER_2
    slot = np.int64(((mixed >> HALF) * np.uint64(size)) >> HALF)
    while cells[2 * slot] != FREE and cells[2 * slot] != key:
        slot += 1
        if slot == size:
            slot = 0
    return 2 * slot


@kernel(forceinline=True)
def key_of(w, u, v, ordered):
    """Of unordered pairs the smaller number comes first."""
    if ordered or w < u:
        return w * v + u
    return u * v + w


@kernel
def count_shards_into(counts, ids, starts, first, last, window, v, ordered):
    """How many pairs of the sentences first … last − 1 belong to each shard."""
    for sentence in range(first, last):
        end = starts[sentence + 1]
        for s in range(starts[sentence], end):
            w = np.int64(ids[s])
            for t in range(s + 1, min(s + 1 + window, end)):
                counts[shard_of(key_of(w, np.int64(ids[t]), v, ordered))] += 1


@kernel
def deal_into(dealt, places, ids, starts, first, last, window, v, ordered):
    """Write the pairs of sentences, each at the next place of its shard: key and distance in one number."""
    for sentence in range(first, last):
        end = starts[sentence + 1]
        for s in range(starts[sentence], end):
            w = np.int64(ids[s])
            for t in range(s + 1, min(s + 1 + window, end)):
                key = key_of(w, np.int64(ids[t]), v, ordered)
                shard = shard_of(key)
                dealt[places[shard]] = (key << STEPS) | (t - s - 1)
                places[shard] += 1


@kernel
def add_into(cells, used, most, dealt, begin, end, g):
    """Add dealt pairs to a table until it has `most` keys. (the first pair not added, keys in use)"""
    sums = cells.view(np.float64)
    for i in range(begin, end):
        key = dealt[i] >> STEPS
        slot = slot_of(cells, key)
        if cells[slot] == FREE:
            if used == most:
                return i, used
            cells[slot] = key
            used += 1
        sums[slot + 1] += g[dealt[i] & LONGEST_WINDOW]
    return end, used


@kernel
def move_into(cells, old):
    """Put the entries of one table into another, empty one."""
    for i in range(0, len(old), 2):
        if old[i] != FREE:
            slot = slot_of(cells, old[i])
            cells[slot], cells[slot + 1] = old[i], old[i + 1]


@kernel
def unpack_into(rows, columns, values, cells, v):
    """The entries of a table, in the order of its slots."""
    sums = cells.view(np.float64)
    n = 0
    for i in range(0, len(cells), 2):
        if cells[i] != FREE:
            rows[n], columns[n], values[n] = cells[i] // v, cells[i] % v, sums[i + 1]
            n += 1


@kernel
def count_into(counts, keys):
    for key in keys:
        counts[key] += 1


@kernel
def group_into(out_keys, out_others, out_values, places, keys, others, values):
    """Entries by rising key, those of one key in their old order; `places` says where each key begins, and is spent.

    out_keys may be empty: where keys begin tells them.
    """
    kept = len(out_keys) > 0
    for i in range(len(keys)):
        key = keys[i]
        place = places[key]
        places[key] += 1
        if kept:
            out_keys[place] = key
        out_others[place], out_values[place] = others[i], values[i]


@kernel
def mirror_into(indices, values, below, above, starts, columns, sums):
    """U + Uᵀ of a U whose rows have their diagonal and what is right of it: in row w from below[w] on what is left of the
    diagonal, from above[w] on the rest; both are spent."""
    for w in range(len(starts) - 1):
        for i in range(starts[w], starts[w + 1]):
            u, value = columns[i], sums[i]
            if u == w:
                value *= 2
            else:
                indices[below[u]], values[below[u]] = w, value
                below[u] += 1
            indices[above[w]], values[above[w]] = u, value
            above[w] += 1
