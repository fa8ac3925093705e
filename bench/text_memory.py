"""How much memory a long text takes: a file of a gigabyte is read, encoded and its pairs counted, each in a process of its own.

    ./run bench text_memory                 # MEGABYTES=1000

The text is WikiText-2 again and again; of each copy one word in sixteen is replaced by a made-up one, drawn from a million
with frequencies ∝ 1/rank, so that words and pairs go on growing as they do in real text. Peaks are of the whole process, and
beside each stands what the libraries take before any text is read and what the counts themselves take.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from lemmata import data

RARE, EVERY, MIN_COUNT = 10**6, 16, 5
CHILD = """
import json, sys, time
import lemmata
from lemmata import text
from lemmata.embedding import CoOccurrence
from lemmata.embedding.windows import table as tables

def peak():  # of this process alone: ru_maxrss begins with that of its parent
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))

path, count, min_count = sys.argv[1], sys.argv[2] == "count", int(sys.argv[3])
with lemmata.config(compile="always" if count else "never"):
    CoOccurrence.of(text.encode([["a", "b"]]), 5, "harmonic")
largest = [0.0]
if count:
    fill = tables.PairTable._add
    def watched(self, *args):
        fill(self, *args)
        largest[0] = max(largest[0], self.nbytes / 2**20)
    tables.PairTable._add = watched
told = {"start": peak()}
begin = time.perf_counter()
found = text.encode(text.read(path), min_count=min_count)
told |= {"encoded": peak(), "encode_seconds": time.perf_counter() - begin, "tokens": found.n_tokens,
         "words": len(found.vocabulary), "dropped": found.n_dropped}
if count:
    begin = time.perf_counter()
    M = CoOccurrence.of(found, 5, "harmonic").matrix
    told |= {"counted": peak(), "count_seconds": time.perf_counter() - begin, "pairs": M.nnz, "table": largest[0],
             "matrix": (M.data.nbytes + M.indices.nbytes + M.indptr.nbytes) / 2**20}
print(json.dumps(told))
"""


def write_text(path: Path, megabytes: float, seed: int = 0) -> None:
    """Some megabytes of text, a line a paragraph."""
    rng = np.random.default_rng(seed)
    lines = [line.split() for line in data.wikitext_2("train").texts[0].splitlines()]
    flat = np.array([word for line in lines for word in [*line, "\n"]], dtype=object)
    free = np.flatnonzero(flat != "\n")
    rare = 1 / np.arange(1, RARE + 1)
    edges = np.cumsum(rare / rare.sum())
    written = 0
    with path.open("w", encoding="utf-8") as file:
        while written < megabytes * 2**20:
            copy = flat.copy()
            places = rng.choice(free, len(free) // EVERY, replace=False)
            drawn = np.searchsorted(edges, rng.random(len(places)))
            copy[places] = [f"rare{min(i, RARE - 1):x}" for i in drawn.tolist()]
            written += file.write(" ".join(copy.tolist()))


def told_by_child(path: Path, what: str, min_count: int = MIN_COUNT) -> dict:
    """Peaks in MB, seconds and sizes of a process that encodes a file ("encode") and counts its pairs, too ("count")."""
    command = [sys.executable, "-c", CHILD, str(path), what, str(min_count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    megabytes = float(os.environ.get("MEGABYTES", "1000"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.txt"
        begin = time.perf_counter()
        write_text(path, megabytes)
        print(
            f"text of {path.stat().st_size / 2**20:,.0f} MB, written in {time.perf_counter() - begin:.0f} s"
        )
        found = told_by_child(path, "count")
    met, words, entries = found["tokens"] + found["dropped"], found["words"], found["pairs"]
    print(f"  {met:,} words read, {words:,} with min_count={MIN_COUNT}, {entries:,} entries")
    encoding, counting = met / found["encode_seconds"], found["tokens"] / found["count_seconds"]
    print(
        f"  libraries alone                 {found['start']:7.0f} MB\n"
        f"  encoding, at most               {found['encoded']:7.0f} MB   {encoding / 1e3:,.0f} k words/s\n"
        f"  counting pairs, at most         {found['counted']:7.0f} MB   {counting / 1e3:,.0f} k words/s\n"
        f"  of it the counts: tables        {found['table']:7.0f} MB, matrix {found['matrix']:.0f} MB"
    )
    counts = max(found["table"], found["matrix"])
    print(
        f"  → besides the counts            {found['counted'] - counts:7.0f} MB  (target < 300)\n"
    )
