"""The kernels of `_kernels_reading.py` in NumPy, for files that are read before a compiler would have started."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray

NEWLINE, QUOTE, BLANK, RETURN, TAB, POINT, PLUS, MINUS, ZERO = 10, 34, 32, 13, 9, 46, 43, 45, 48
ODD_NUMBER, NO_LABEL = 1, 2  # flags of a record
STRAY_QUOTE = -1
MOST_DIGITS = 15  # their whole is exact in float64
_POWERS = 10.0 ** np.arange(23)


def split_records(buffer, first, sep, width, wanted, starts, ends, values, flags):
    """Write where the wanted cells of whole records lie, and the rating as a number; see the kernel of this name."""
    text = buffer[first:]
    walk = _walked if (text == QUOTE).any() else _split
    room = starts.shape[1]
    count, after, cells = walk(text, sep, width, wanted, starts, ends, room)
    starts[:, :count] += first
    ends[:, :count] += first
    here = starts[:, :count], ends[:, :count]
    fine, values[:count] = _numbers(buffer, here[0][2], here[1][2])
    flags[:count] = np.where(fine, 0, ODD_NUMBER)
    flags[:count] |= np.where((here[0][:2] == here[1][:2]).any(axis=0), NO_LABEL, 0).astype(
        np.uint8
    )
    return count, first + after, cells


# --- records without quotes: all lines at once --------------------------------------------------------------------------


def _split(text, sep, width, wanted, starts, ends, room):
    stops = np.flatnonzero(text == NEWLINE)
    if not len(stops):
        return 0, 0, 0
    begins = np.concatenate([[0], stops[:-1] + 1])
    seps = _places(text[: stops[-1]], sep)
    cells = np.bincount(np.searchsorted(stops, seps), minlength=len(stops)) + 1
    alone = np.flatnonzero(cells == 1)
    low, high = _trimmed(text, begins[alone], stops[alone])
    blank = np.zeros(len(stops), dtype=bool)
    blank[alone[low == high]] = True
    # the lines up to the first that is ragged, or for which there is no room
    ragged = np.flatnonzero((cells != width) & ~blank)
    last = ragged[0] if len(ragged) else len(stops)
    full = np.cumsum(~blank)
    last = min(last, int(np.searchsorted(full, room, side="right")) if full[-1] > room else last)
    lines = np.flatnonzero(~blank[:last])
    inside = seps[np.isin(np.searchsorted(stops, seps), lines)].reshape(len(lines), width - 1)
    for k, column in enumerate(wanted):
        low = begins[lines] if column == 0 else inside[:, column - 1] + len(sep)
        high = stops[lines] if column == width - 1 else inside[:, column]
        starts[k, : len(lines)], ends[k, : len(lines)] = _trimmed(text, low, high)
    whole = last == len(stops)
    after = stops[-1] + 1 if whole else begins[last]
    stuck = not whole and len(ragged) and last == ragged[0] and len(lines) < room
    return len(lines), int(after), int(cells[last]) if stuck else 0


def _places(text, sep):
    """Where separators begin; of those that overlap, as a reader from left to right meets them."""
    found = text[: len(text) - len(sep) + 1] == sep[0]
    for k in range(1, len(sep)):
        found = found & (text[k : len(text) - len(sep) + 1 + k] == sep[k])
    places = np.flatnonzero(found)
    if len(sep) == 1 or not (np.diff(places) < len(sep)).any():
        return places
    kept, free = [], 0
    for place in places.tolist():
        if place >= free:
            kept.append(place)
            free = place + len(sep)
    return np.array(kept, dtype=np.int64)


def _trimmed(text, low, high):
    """Cells without the blanks around them: behind also carriage returns."""
    low, high = low.copy(), high.copy()
    behind = _before(text, high)
    if ((behind == BLANK) | (behind == RETURN) | (behind == TAB))[low < high].any():
        space = (text == BLANK) | (text == RETURN) | (text == TAB)
        last = np.maximum.accumulate(np.where(space, -1, np.arange(len(text))))
        high = np.maximum(np.where(high > 0, last[np.maximum(high, 1) - 1] + 1, 0), low)
    ahead = text[np.minimum(low, len(text) - 1)]
    if ((ahead == BLANK) | (ahead == TAB))[low < high].any():
        space = (text == BLANK) | (text == TAB)
        places = np.where(space, len(text), np.arange(len(text)))
        first = np.minimum.accumulate(places[::-1])[::-1]
        low = np.minimum(first[np.minimum(low, len(text) - 1)], high)
    return low, high


def _before(text, high):
    return text[np.maximum(high, 1) - 1]


# --- records with quotes: one by one --------------------------------------------------------------------------------------


def _walked(text, sep, width, wanted, starts, ends, room):
    raw, mark, at, record = text.tobytes(), sep.tobytes(), 0, 0
    while at < len(raw) and record < room:
        cells, after = _record(raw, at, mark)
        if cells is None:
            return record, at, after
        if len(cells) == 1 and cells[0][0] == cells[0][1] and not cells[0][2]:
            at = after
            continue
        if len(cells) != width:
            return record, at, len(cells)
        for k, column in enumerate(wanted):
            starts[k, record], ends[k, record] = cells[column][:2]
        record, at = record + 1, after
    return record, at, 0


def _record(raw: bytes, at: int, sep: bytes) -> tuple[Any, int]:
    """The cells (start, end, quoted) of the record that begins here, and where the next one does; None if it cannot be read."""
    cells, size = [], len(raw)
    while True:
        quoted, start = raw[at : at + 1] == b'"', at
        if quoted:
            start = at + 1
            end = _closing_quote(raw, start)
            if end < 0:
                return None, 0
            at = _next_cell(raw, end + 1, sep)
            if at < 0:
                return None, 0
            if raw[end + 1 : at].rstrip(b" \r\t"):
                return None, STRAY_QUOTE
        else:
            at = _next_cell(raw, at, sep)
            if at < 0:
                return None, 0
            end = start + len(raw[start:at].rstrip(b" \r\t"))
            start = end - len(raw[start:end].lstrip(b" \t"))
        cells.append((start, end, quoted))
        if raw[at] == NEWLINE:
            return cells, at + 1
        at += len(sep)
        if at >= size:
            return None, 0


def _next_cell(raw: bytes, at: int, sep: bytes) -> int:
    """Where the cell ends: at a separator or a line's end; −1 if neither is there."""
    line = raw.find(b"\n", at)
    cell = raw.find(sep, at, len(raw) if line < 0 else line + len(sep) - 1)
    return line if cell < 0 else cell


def _closing_quote(raw: bytes, at: int) -> int:
    """The quote that ends a quoted cell; a doubled one stands for itself."""
    while True:
        at = raw.find(b'"', at)
        if at < 0 or at + 1 >= len(raw):
            return -1
        if raw[at + 1] != QUOTE:
            return at
        at += 2


# --- numbers and names ------------------------------------------------------------------------------------------------


def _numbers(buffer, start, end):
    """Which cells are plain decimal numbers, and those numbers, rounded as float() rounds them."""
    n = len(start)
    first = buffer[np.minimum(start, len(buffer) - 1)]
    filled = start < end
    negative = filled & (first == MINUS)
    at = start + (negative | (filled & (first == PLUS)))
    whole, digits, behind = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    point, fine = np.zeros(n, bool), end - at <= MOST_DIGITS + 1
    longest = int((end - at)[fine].max(initial=0))
    for k in range(longest):
        byte = buffer[np.minimum(at + k, len(buffer) - 1)].astype(np.int64)
        here = at + k < end
        digit = here & (byte >= ZERO) & (byte <= ZERO + 9)
        dot = here & (byte == POINT) & ~point
        fine &= ~here | digit | dot
        whole = np.where(digit & fine, 10 * whole + (byte - ZERO), whole)
        digits += digit
        behind += digit & point
        point |= dot
    fine &= (digits > 0) & (digits <= MOST_DIGITS)
    number = whole / _POWERS[np.minimum(behind, MOST_DIGITS)]
    return fine, np.where(fine, np.where(negative, -number, number), np.nan)


class Names:
    """Names numbered in the order in which they are met."""

    def __init__(self):
        self.known: dict[bytes, int] = {}

    def codes(self, text: Array, starts: Array, ends: Array) -> Array:
        raw, known = text.tobytes(), self.known
        cells = zip(starts.tolist(), ends.tolist(), strict=True)
        codes = [known.setdefault(raw[start:end], len(known)) for start, end in cells]
        return np.array(codes, dtype=np.int32)

    def names(self) -> list[bytes]:
        return list(self.known)
