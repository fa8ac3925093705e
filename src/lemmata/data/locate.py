"""Locate data sets: in a folder of the user's, our cache, or the net; always checked against a SHA-256 sum.

    LEMMATA_DATA    a folder with one sub-folder per data set (fashion-mnist/train-images-idx3-ubyte.gz, …)
    LEMMATA_CACHE   what lemmata keeps for itself: downloads and the marks of files already checked

The sum is that of the content: of a .gz file, of what is inside it, because recompressing does not change the data. Nothing
is downloaded unless the caller asks for it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

from lemmata.core.store import write_atomically

BYTES_AT_ONCE = 2**20
TIMEOUT = 30.0  # seconds without a byte before a download is given up


class DataNotFound(FileNotFoundError):
    """A data set is not on this machine; the message says what was looked for, where, and what to do."""


class DataDamaged(ValueError):
    """A file does not have the content that its checksum promises."""


@dataclass(frozen=True)
class File:
    """A file of a data set: size in bytes and SHA-256 of its content (unpacked, if .gz), and its address if known."""

    name: str
    size: int
    sha256: str
    url: str | None = None


@dataclass(frozen=True)
class Source:
    """A data set on disk: its folder, what the reader should know, and its files."""

    folder: str
    description: str
    origin: str
    terms: str
    files: tuple[File, ...]

    def file(self, name: str) -> File:
        return next(file for file in self.files if file.name == name)

    def find(self, name: str, *, download: bool = False) -> Path:
        """The path of a file of this set, its content checked."""
        file = self.file(name)
        places = [base / self.folder / name for base in _bases()]
        for path in places:
            if path.is_file():
                _check_once(path, file)
                return path
        if download and file.url is not None:
            return _download(file, places[-1])
        raise DataNotFound(self._missing(file, places))

    def _missing(self, file: File, places: list[Path]) -> str:
        looked = " and ".join(str(path) for path in places)
        unset = "" if data_folder() else " The environment variable LEMMATA_DATA is not set."
        size = f"{file.size / 1e6:.1f} MB"
        fetch = f", or pass download=True to fetch it from {file.url} ({size})" if file.url else ""
        return (
            f"{self.folder}/{file.name} was not found; looked for {looked}.{unset} "
            f"Point LEMMATA_DATA to a folder that holds {self.folder}/{file.name}{fetch}. Its origin: {self.origin}."
        )


def data_folder() -> Path | None:
    """The user's folder of data sets, from LEMMATA_DATA."""
    found = os.environ.get("LEMMATA_DATA")
    return Path(found).expanduser() if found else None


def cache_folder() -> Path:
    """Where lemmata keeps downloads: LEMMATA_CACHE, or the usual place of the platform."""
    if found := os.environ.get("LEMMATA_CACHE"):
        return Path(found).expanduser()
    if sys.platform == "win32":
        local = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        return local / "lemmata" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "lemmata"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lemmata"


def _bases() -> list[Path]:
    folder, cache = data_folder(), cache_folder() / "data"
    return [cache] if folder is None else [folder, cache]


# --- checking ---------------------------------------------------------------------------------------------------------


def content_sha256(path: Path) -> str:
    """SHA-256 of what a file holds; of a .gz file, of what is inside."""
    sha = hashlib.sha256()
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        while chunk := file.read(BYTES_AT_ONCE):
            sha.update(chunk)
    return sha.hexdigest()


def _check_once(path: Path, file: File) -> None:
    """Raise DataDamaged unless the content is right. A file that passed is not read again until its size or time changes."""
    status = path.stat()
    mark = (
        cache_folder() / "checked" / hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]
    )
    proof = f"{status.st_size} {status.st_mtime_ns} {file.sha256}"
    if _text_of(mark) == proof:
        return
    try:
        found = content_sha256(path)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataDamaged(f"{path} is not a whole gzip file ({error}); fetch it again.") from error
    if found != file.sha256:
        raise DataDamaged(
            f"{path} has SHA-256 {found} where {file.sha256} is expected: "
            "it is damaged or another version; fetch it again."
        )
    _write_if_possible(mark, proof)


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _write_if_possible(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError:
        pass  # a cache that cannot be written costs time, nothing else


# --- fetching ---------------------------------------------------------------------------------------------------------


def _download(file: File, path: Path) -> Path:
    """Fetch a file to a path: whole and with the right content, or not at all."""
    from http.client import HTTPException
    from urllib.request import urlopen

    assert file.url is not None
    try:
        with urlopen(file.url, timeout=TIMEOUT) as response:
            # bounded: a server may send without end
            content = _unpack(response.read(2 * file.size + BYTES_AT_ONCE), file)
    # URLError, refused connections and time-outs are all OSErrors
    except (OSError, HTTPException) as error:
        raise DataNotFound(
            f"{path.name} could not be fetched from {file.url}: {error}. Check the network."
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise DataDamaged(
            f"{file.url} gave {len(content):,} bytes with SHA-256 {found}, expected were {file.size:,} bytes with "
            f"{file.sha256}; nothing was kept. Try again, or get the set from its origin."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(
        path, gzip.compress(content, compresslevel=6, mtime=0) if path.suffix == ".gz" else content
    )
    return path


def _unpack(raw: bytes, file: File) -> bytes:
    if raw[:2] != b"\x1f\x8b":
        return raw
    try:
        # a small file may unpack to a huge one
        return gzip.GzipFile(fileobj=io.BytesIO(raw)).read(file.size + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataDamaged(
            f"{file.url} broke off or is damaged ({error}); nothing was kept. Try again."
        ) from error
