"""Pairs in windows, counted in hash tables: keys w·v + u, one small table for each of SHARDS parts of all keys.

A table of all pairs is far larger than the caches, and to look a pair up there is to wait for memory. So the pairs of a block
are dealt to shards first, in the order of the text; then each shard adds its own to its own table, which stays in the cache
meanwhile. Shards run in parallel. Every sum is added up in the order of the text, whatever the number of threads.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.engine import kernel

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
    """The slot of a key in a table, or the empty slot where it belongs: cells 2i and 2i + 1 are its key and its sum."""
    size = len(cells) // 2
    mixed = np.uint64(key) * MIXER
    mixed = (mixed ^ (mixed >> FOLD)) * MIXER_2
    slot = np.int64(((mixed >> HALF) * np.uint64(size)) >> HALF)
    while cells[2 * slot] != FREE and cells[2 * slot] != key:
        slot += 1
        if slot == size:
            slot = np.int64(0)
    return 2 * slot


@kernel(forceinline=True)
def key_of(w, u, v, ordered):
    """Key of a pair; of unordered pairs the smaller number comes first."""
    if ordered or w < u:
        return w * v + u
    return u * v + w


@kernel
def count_shards_into(counts, ids, starts, first, last, window, v, ordered):
    """Count the pairs of the sentences first … last − 1 in each shard."""
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


# --- the matrix -------------------------------------------------------------------------------------------------------


@kernel
def count_rows_into(counts, cells, v):
    """Count the entries of a table in each row."""
    for i in range(0, len(cells), 2):
        if cells[i] != FREE:
            counts[cells[i] // v] += 1


@kernel
def unpack_into(rows, columns, values, ends, bucket_of, cells, v):
    """The entries of a table by the bucket that their row belongs to; `ends`, zeros, becomes where each bucket ends."""
    sums = cells.view(np.float64)
    for i in range(0, len(cells), 2):
        if cells[i] != FREE:
            ends[bucket_of[cells[i] // v]] += 1
    total = 0
    for b in range(len(ends)):
        ends[b], total = total, total + ends[b]  # where it begins, which moves on to its end
    for i in range(0, len(cells), 2):
        if cells[i] != FREE:
            row = cells[i] // v
            place = ends[bucket_of[row]]
            ends[bucket_of[row]] += 1
            rows[place], columns[place], values[place] = row, cells[i] - row * v, sums[i + 1]


@kernel
def group_into(out_keys, out_others, out_values, places, low, keys, others, values):
    """Entries by rising key, those of one key in their old order: key low + i begins at places[i], which is spent."""
    for i in range(len(keys)):
        place = places[keys[i] - low]
        places[keys[i] - low] += 1
        out_keys[place], out_others[place], out_values[place] = keys[i], others[i], values[i]


@kernel
def count_left_into(counts, rows, columns):
    """Count the entries that row u of U + Uᵀ has left of its diagonal, for entries of U on its diagonal and right of it."""
    for i in range(len(rows)):
        if columns[i] != rows[i]:
            counts[columns[i]] += 1


@kernel
def mirror_into(indices, values, left, right, first, ends, columns, sums):
    """Add the rows first, first + 1, … of U to U + Uᵀ, from the last to the first; row first + i of U ends at ends[i].

    Of row w the entries left of its diagonal end at left[w], the others at right[w], both without those that were written.
    """
    i = len(columns) - 1
    for w in range(first + len(ends) - 1, first - 1, -1):
        begin = ends[w - first - 1] if w > first else 0
        while i >= begin:
            u, value = columns[i], sums[i]
            if u == w:
                value *= 2
            else:
                left[u] -= 1
                indices[left[u]], values[left[u]] = w, value
            right[w] -= 1
            indices[right[w]], values[right[w]] = u, value
            i -= 1
