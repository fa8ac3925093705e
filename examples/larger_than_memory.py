"""PCA of a file that need not fit in memory, of batches, and of sparse data.

./run py examples/larger_than_memory.py
"""

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import lemmata

rng = np.random.default_rng(0)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "rows.npy"
    np.save(
        path,
        rng.standard_normal((50_000, 40), dtype=np.float32)
        * np.linspace(3, 1, 40, dtype=np.float32),
    )

    # A memory-mapped file is read block by block, once.
    rows = np.load(path, mmap_mode="r")
    mapped = lemmata.PCA(n_components=3).fit(rows)

    # Batches in any order give the same answer: moments add up exactly.
    batched = lemmata.PCA(n_components=3)
    for batch in np.array_split(rows, 20)[::-1]:
        batched.partial_fit(batch)

print(
    "largest difference of the components:",
    float(abs(mapped.components_ - batched.components_).max()),
)

# Sparse rows are centred implicitly, never made dense.
sparse = sp.random_array((20_000, 5_000), density=0.002, rng=rng, format="csr", dtype=np.float32)
model = lemmata.PCA(n_components=5, random_state=0).fit(sparse)
print(model.certificate_)
