"""Text of others on a terminal: control characters written out, long text cut.

Labels, column names, file names and titles of certificates are whatever their authors wrote. Escape sequences in them could
move the cursor, rename the window or hide a line; the characters that begin them, and those that turn the direction of
writing, are shown as Python writes them.
"""

from __future__ import annotations

import re

# C0 but for tab and newline, DEL and C1, and what turns or breaks a line: bidirectional controls, line and paragraph separators
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]"
)
LONGEST = 1200  # characters of a message: some 12 lines
NUMPY_SCALAR = re.compile(r"\bnp\.(?:u?int\d+|float\d+|bool|str)_?\(([^()]*)\)")


def printable(text: str) -> str:
    """Return text with every control character written out; tabs and newlines stay.

    >>> print(printable("a\\x1b[2Jb\\x9b31m"))
    a\\x1b[2Jb\\x9b31m
    """
    return UNPRINTABLE.sub(_write_out, text)


def _write_out(found: re.Match) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def one_line(text: str) -> str:
    """Text that cannot begin a line of its own."""
    return printable(" ".join(text.split()) if "\n" in text or "\t" in text else text)


def shorten(text: str, most: int = LONGEST) -> str:
    """Return text cut in the middle: its subject stands at its beginning, the advice at its end.

    >>> shorten("x" * 1000, most=21)
    'xxxxxxxxxx…xxxxxxxxxx'
    """
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def name_plainly(error: BaseException) -> None:
    """Write NumPy's numbers in the message of an error as numbers: 0, not np.int64(0)."""
    error.args = tuple(
        NUMPY_SCALAR.sub(r"\1", part) if isinstance(part, str) else part for part in error.args
    )
