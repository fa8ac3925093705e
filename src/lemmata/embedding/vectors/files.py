"""Files of word vectors: word2vec's text and binary formats, as gensim and fastText write them, and safetensors.

    text         first line "n_words vector_size", then a word and its numbers on every line   (.txt, .vec, and .gz of them);
                 GloVe's own files have no such first line
    binary       the same first line, then each word, a space, and its float32 numbers          (.bin)
    safetensors  "vectors" (n, k), "words" (UTF-8 bytes, a line each), "counts" if known          (.safetensors)

What is read is not trusted: lengths, numbers and words are checked, and the message says where a file is wrong. A safetensors
file is mapped: a vocabulary larger than memory costs only the rows that are read.
"""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.store import write_atomically
from lemmata.embedding.vectors.word_vectors import WordVectors

Array = np.ndarray
FORMATS = {".txt": "text", ".vec": "text", ".bin": "binary", ".safetensors": "safetensors"}
MOST_WORDS = 2**31
MOST_NUMBERS = 2**16  # of one vector
LONGEST_WORD = 2**12  # bytes: a longer one is no word but a file in another format


class UnreadableVectors(ValueError):
    """A file does not hold word vectors in the format it should."""


def _format(path: Path, format: str | None) -> str:
    if format is not None:
        if format not in FORMATS.values():
            raise ValueError(f"format={format!r}: pass 'text', 'binary' or 'safetensors'.")
        return format
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix not in FORMATS:
        raise ValueError(
            f"{path.name} has no known ending; end it in {', '.join(FORMATS)}, or pass format='text' or 'binary'."
        )
    return FORMATS[suffix]


# --- writing ----------------------------------------------------------------------------------------------------------


def write(vectors: WordVectors, path: Any, format: str | None = None) -> None:
    """Write vectors, whole or not at all; the format follows from the ending (.txt, .vec, .bin, .safetensors)."""
    path = Path(path)
    chosen = _format(path, format)
    if chosen == "safetensors":
        content = _as_safetensors(vectors)
    else:
        for word in vectors.words.tolist():
            if not word or any(sign.isspace() for sign in word):
                raise ValueError(
                    f"the word {word!r} is empty or holds white space, which word2vec's formats cannot tell from the next "
                    "word; write safetensors instead."
                )
        content = _as_text(vectors) if chosen == "text" else _as_binary(vectors)
    write_atomically(path, gzip.compress(content, 6) if path.suffix == ".gz" else content)


def _as_text(vectors: WordVectors) -> bytes:
    out = io.StringIO()
    out.write(f"{len(vectors)} {vectors.vector_size}\n")
    for word, row in zip(vectors.words.tolist(), vectors.matrix, strict=True):
        # the shortest text that reads back as the same number
        out.write(f"{word} {' '.join(map(str, row))}\n")
    return out.getvalue().encode()


def _as_binary(vectors: WordVectors) -> bytes:
    out = io.BytesIO()
    out.write(f"{len(vectors)} {vectors.vector_size}\n".encode())
    for word, row in zip(vectors.words.tolist(), vectors.matrix, strict=True):
        out.write(word.encode() + b" " + row.astype("<f4").tobytes())
    return out.getvalue()


def _as_safetensors(vectors: WordVectors) -> bytes:
    from safetensors.numpy import save

    for word in vectors.words.tolist():
        if "\n" in word:
            raise ValueError(
                f"the word {word!r} holds the end of a line; files keep one word a line."
            )
    words = np.frombuffer("\n".join(vectors.words.tolist()).encode(), np.uint8)
    arrays = {"vectors": np.ascontiguousarray(vectors.matrix), "words": words}
    if vectors.counts is not None:
        arrays["counts"] = vectors.counts
    return save(arrays, metadata={"format": "lemmata.word_vectors"})


# --- reading ----------------------------------------------------------------------------------------------------------


def read(path: Any, format: str | None = None, *, limit: int | None = None) -> WordVectors:
    """Read vectors; `limit` takes only the first words of a text or binary file, the most frequent ones as a rule."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    chosen = _format(path, format)
    try:
        if chosen == "safetensors":
            return _map_file(path)
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            line = file.readline(LONGEST_WORD + 64 * MOST_NUMBERS)
            if chosen == "text" and (k := _numbers_after_word(line)):
                n = 1 + sum(1 for _ in file)
                file.seek(0)
            else:
                n, k = _header(line)
            n = n if limit is None else min(n, limit)
            return (_from_text if chosen == "text" else _from_binary)(file, n, k)
    except UnreadableVectors as error:
        raise UnreadableVectors(f"{path}: {error}") from None
    except (EOFError, gzip.BadGzipFile) as error:
        raise UnreadableVectors(f"{path} is damaged or truncated ({error}).") from error


def _numbers_after_word(line: bytes) -> int:
    """How many numbers follow a word, two or more: GloVe's files begin with the first vector; 0 where they do not."""
    parts = line.split()
    try:
        np.array(parts[1:], dtype=np.float64)
    except ValueError:
        return 0
    return len(parts) - 1 if len(parts) > 2 else 0


def _header(line: bytes) -> tuple[int, int]:
    parts = line.split()
    if len(parts) != 2 or not all(part.isdigit() and len(part) < 12 for part in parts):
        raise UnreadableVectors(
            f"its first line is {line[:40]!r}, not the number of words and of numbers in a vector. "
            "Vectors of a text's words come from a model: lemmata fit skipgram TEXT --save v.lemma."
        )
    n, k = map(int, parts)
    if n > MOST_WORDS or not 1 <= k <= MOST_NUMBERS:
        raise UnreadableVectors(f"its first line promises {n:,} vectors of {k:,} numbers.")
    return n, k


def _from_text(file: Any, n: int, k: int) -> WordVectors:
    words, rows = [], []
    for line in range(n):
        raw = file.readline(LONGEST_WORD + 64 * k)
        parts = raw.rstrip(b"\n\r ").rsplit(b" ", k)
        if len(parts) != k + 1:
            what = "it ends" if not raw else f"there are {len(parts) - 1} numbers, not {k},"
            raise UnreadableVectors(f"{what} at line {line + 2} of {n + 1}.")
        words.append(_word(parts[0], line + 2))
        try:
            rows.append(np.array(parts[1:], dtype=np.float32))
        except ValueError:
            raise UnreadableVectors(f"line {line + 2} holds something that is no number.") from None
    matrix = np.stack(rows) if rows else np.empty((0, k), np.float32)
    return _make_vectors(words, matrix)


def _from_binary(file: Any, n: int, k: int) -> WordVectors:
    words, rows = [], []
    buffer, size = b"", 4 * k
    for number in range(n):
        while True:
            place = buffer.find(b" ")
            if place >= 0 and len(buffer) > place + size:
                break
            more = file.read(2**20 + size)
            if not more:
                if place >= 0 and len(buffer) == place + size + 1:
                    break
                raise UnreadableVectors(f"it ends within vector {number + 1:,} of {n:,}.")
            buffer += more
            if (
                place < 0
                and len(buffer) > LONGEST_WORD + size
                and b" " not in buffer[:LONGEST_WORD]
            ):
                raise UnreadableVectors(
                    f"vector {number + 1:,} has a word of {LONGEST_WORD:,} bytes and more."
                )
        # word2vec.c ends each with a line
        words.append(_word(buffer[:place].lstrip(b"\n"), number + 1))
        rows.append(np.frombuffer(buffer, "<f4", k, place + 1).copy())
        buffer = buffer[place + 1 + size :]
    matrix = np.stack(rows) if rows else np.empty((0, k), np.float32)
    return _make_vectors(words, matrix)


def _word(raw: bytes, number: int) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UnreadableVectors(
            f"word {number:,} is not UTF-8: {raw[:40]!r} ({error.reason})."
        ) from None


def _make_vectors(words: list[str], matrix: Array, counts: Array | None = None) -> WordVectors:
    try:
        return WordVectors(words, matrix, counts)  # type: ignore[arg-type]
    except ValueError as error:
        raise UnreadableVectors(str(error)) from None


def _map_file(path: Path) -> WordVectors:
    """The tensors of a file of ours, the vectors as a memory map."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, 2**24):
            raise UnreadableVectors("it is not a safetensors file, or truncated.")
        try:
            header = json.loads(file.read(length))
        except ValueError:
            raise UnreadableVectors("its header is no JSON.") from None
    found: dict[str, Array] = {}
    kinds = {"F32": np.float32, "F64": np.float64, "U8": np.uint8, "I64": np.int64}
    for name in ("vectors", "words", "counts"):
        try:
            entry = header[name] if name != "counts" else header.get(name)
            if entry is None:
                continue
            kind, shape = np.dtype(kinds[entry["dtype"]]), tuple(map(int, entry["shape"]))
            first, last = map(int, entry["data_offsets"])
        except (KeyError, TypeError, ValueError):
            raise UnreadableVectors(f"it holds no {name} of word vectors.") from None
        count = int(np.prod(shape, dtype=object))
        if (
            min(shape, default=0) < 0
            or not 0 <= first <= last <= size - 8 - length
            or last - first != count * kind.itemsize
        ):
            raise UnreadableVectors(f"its {name} lie outside of the file.")
        if count == 0:
            found[name] = np.empty(shape, kind)
        else:
            found[name] = np.memmap(path, kind, "r", 8 + length + first, shape)
    words = _word(found["words"].tobytes(), 1).split("\n") if found["words"].size else []
    counts = np.array(found["counts"]) if "counts" in found else None
    return _make_vectors(words, found["vectors"], counts)
