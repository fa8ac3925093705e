"""A long text needs memory for its words and a block or two, not for itself."""

import subprocess
import sys

import numpy as np
import pytest

CHILD = """
import sys
from lemmata import text
from lemmata.text import encoded
encoded.IN_MEMORY = 2**20
def peak():  # of this process alone: ru_maxrss begins with that of its parent
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))
text.encode([["a", "b"]])
start = peak()
found = text.encode(text.read(sys.argv[1]), min_count=5)
total = sum(int(ids.sum()) for ids, _ in found)
print(found.n_tokens + found.n_dropped, peak() - start)
"""


@pytest.mark.slow
def test_a_text_of_two_hundred_megabytes_takes_less_than_a_hundred(tmp_path):
    rng = np.random.default_rng(0)
    words = np.array([f"word{i:x}" for i in range(50_000)], dtype=object)
    path = tmp_path / "long.txt"
    n = 0
    with path.open("w") as file:
        while file.tell() < 200 * 2**20:
            line = words[(50_000 * rng.random(10**6) ** 3).astype(int)]
            file.writelines(" ".join(part) + "\n" for part in line.reshape(-1, 50))
            n += line.size
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True
    )
    tokens, added = done.stdout.split()
    assert int(tokens) == n
    assert float(added) < 100
