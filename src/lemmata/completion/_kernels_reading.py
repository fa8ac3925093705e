"""Kernels that read text: records of cells, decimal numbers, and names that are counted as they are met."""

import numpy as np

from lemmata.core.compiler import kernel

NEWLINE, QUOTE, BLANK, RETURN, TAB = 10, 34, 32, 13, 9
ODD_NUMBER, NO_LABEL = 1, 2  # flags of a record
STRAY_QUOTE = -1

SHORT = 7  # bytes of a name that fit into its key
_BASIS, _PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)  # of FNV-1a
_GOLDEN = np.uint64(11400714819323198485)  # 2⁶⁴/φ, Knuth's multiplier
_ONE, _BYTE, _HALF, _TOP, _LONG = (
    np.uint64(1),
    np.uint64(8),
    np.uint64(32),
    np.uint64(56),
    np.uint64(1 << 63),
)
_POWERS = 10.0 ** np.arange(23)  # exact in float64


@kernel
def split_records(buffer, first, sep, width, wanted, starts, ends, values, flags):
    """Write where the wanted cells (user, item, rating) of whole records lie, and the rating as a number, into the arrays.

    Returns how many records there were, where the next one begins, and, if that one cannot be read, how many cells it has
    (0: it is not whole or there was no room; STRAY_QUOTE: text follows a closing quote). Blank lines are passed over.
    """
    size, record, at, length = len(buffer), 0, first, len(sep)
    while at < size and record < len(values):
        begin, cell = at, 0
        while True:
            if buffer[at] == QUOTE:
                quoted, start = True, at + 1
                end = _closing_quote(buffer, start)
                at = _next_cell(buffer, end + 1, sep)
                if end < 0 or at >= size:
                    return record, begin, 0
                if _trimmed_end(buffer, end + 1, at) > end + 1:
                    return record, begin, STRAY_QUOTE
            else:
                quoted, start, at = False, at, _next_cell(buffer, at, sep)
                if at >= size:
                    return record, begin, 0
                end = _trimmed_end(buffer, start, at)
                while start < end and (buffer[start] == BLANK or buffer[start] == TAB):
                    start += 1
            for k in range(3):
                if wanted[k] == cell:
                    starts[k, record], ends[k, record] = start, end
            cell += 1
            if buffer[at] == NEWLINE:
                at += 1
                break
            at += length
            if at >= size:
                return record, begin, 0
        if cell == 1 and start == end and not quoted:
            continue
        if cell != width:
            return record, begin, cell
        fine, values[record] = _number(buffer, starts[2, record], ends[2, record])
        flags[record] = 0 if fine else ODD_NUMBER
        if starts[0, record] == ends[0, record] or starts[1, record] == ends[1, record]:
            flags[record] |= NO_LABEL
        record += 1
    return record, at, 0


@kernel(inline="always")
def _next_cell(buffer, at, sep):
    """Where the cell ends: at a separator or a line's end."""
    head, length, size = sep[0], len(sep), len(buffer)
    while at < size:
        byte = buffer[at]
        if byte == NEWLINE:
            break
        if byte == head:
            same = at + length <= size
            for k in range(1, length):
                same = same and buffer[at + k] == sep[k]
            if same:
                break
        at += 1
    return at


@kernel
def _closing_quote(buffer, at):
    """The quote that ends a quoted cell, −1 if it is not in the buffer; a doubled one stands for itself."""
    while at + 1 < len(buffer):
        if buffer[at] == QUOTE:
            if buffer[at + 1] != QUOTE:
                return at
            at += 1
        at += 1
    return -1


@kernel(inline="always")
def _trimmed_end(buffer, start, end):
    while end > start and (
        buffer[end - 1] == BLANK or buffer[end - 1] == RETURN or buffer[end - 1] == TAB
    ):
        end -= 1
    return end


@kernel
def _number(buffer, at, end):
    """Whether the cell is a plain decimal number, and that number, rounded as float() rounds it.

    With at most 15 digits both their whole and the power of ten are exact in float64, so that one division rounds once.
    """
    negative = at < end and buffer[at] == 45
    if at < end and (buffer[at] == 45 or buffer[at] == 43):
        at += 1
    whole, digits, behind, point = 0, 0, 0, False
    while at < end:
        byte = buffer[at]
        if byte == 46 and not point:
            point = True
        elif 48 <= byte <= 57:
            whole = 10 * whole + (byte - 48)
            digits += 1
            if point:
                behind += 1
        else:
            return False, np.nan
        if digits > 15:
            return False, np.nan
        at += 1
    if digits == 0:
        return False, np.nan
    number = whole / _POWERS[behind]
    return True, -number if negative else number


@kernel
def count_names(buffer, starts, ends, first, codes, slots, keys, bounds, arena, n_names):
    """Write the number of each cell's name into codes, new names getting the next number and their bytes into the arena.

    A hash table with open addressing: slots hold numbers of names or −1 and keys beside them; name k is
    arena[bounds[k]:bounds[k + 1]]. Returns where it stopped (before the end if there is no room for another name) and how
    many names there are.
    """
    mask = np.uint64(len(slots) - 1)
    for t in range(first, len(codes)):
        start, end = starts[t], ends[t]
        used = bounds[n_names]
        if (
            2 * (n_names + 1) > len(slots)
            or n_names + 2 > len(bounds)
            or used + end - start > len(arena)
        ):
            return t, n_names
        key = _key(buffer, start, end)
        slot = _slot(key, mask)
        while True:
            code = slots[slot]
            if code < 0:
                code = n_names
                for at in range(start, end):
                    arena[used + at - start] = buffer[at]
                bounds[n_names + 1] = used + end - start
                slots[slot], keys[slot] = code, key
                n_names += 1
                break
            if keys[slot] == key and (
                end - start <= SHORT
                or _same(buffer, start, end, arena, bounds[code], bounds[code + 1])
            ):
                break
            slot = (slot + _ONE) & mask
        codes[t] = code
    return len(codes), n_names


@kernel(inline="always")
def _key(buffer, start, end):
    """64 bits that tell short cells apart for sure (their bytes and their length) and long ones mostly (FNV-1a)."""
    key = np.uint64(0) if end - start <= SHORT else _BASIS
    if end - start <= SHORT:
        for at in range(start, end):
            key = (key << _BYTE) | np.uint64(buffer[at])
        return key | (np.uint64(end - start) << _TOP)
    for at in range(start, end):
        key = (key ^ np.uint64(buffer[at])) * _PRIME
    return key | _LONG


@kernel(inline="always")
def _slot(key, mask):
    key = (key ^ (key >> _HALF)) * _GOLDEN
    return (key ^ (key >> _HALF)) & mask


@kernel(inline="always")
def _same(buffer, start, end, arena, low, high):
    if end - start != high - low:
        return False
    same = True
    for k in range(end - start):
        same &= buffer[start + k] == arena[low + k]
    return same


@kernel
def fill_slots(slots, keys, old_slots, old_keys):
    """Put what is in a table into a larger, empty one."""
    mask = np.uint64(len(slots) - 1)
    for t in range(len(old_slots)):
        if old_slots[t] >= 0:
            slot = _slot(old_keys[t], mask)
            while slots[slot] >= 0:
                slot = (slot + _ONE) & mask
            slots[slot], keys[slot] = old_slots[t], old_keys[t]
