"""Bits per pixel that may be compared: probabilities of levels, a flow's upper bound, and a density that is no bits at all.

./run py examples/honest_bits.py
"""

import numpy as np
from sklearn.datasets import load_digits

from lemmata import NormalizingFlow

images = load_digits().images  # 8 × 8 pixels of 17 levels, 0 to 16
order = np.random.default_rng(0).permutation(len(images))
train, test = images[order[:1400]], images[order[1400:]]

# Independent pixels: a histogram of the levels of each, half a count added. A model has to be below it.
bits = 0.0
for i, j in np.ndindex(8, 8):
    counts = np.bincount(train[:, i, j].astype(int), minlength=17) + 0.5
    bits -= np.log2(counts / counts.sum())[test[:, i, j].astype(int)].mean() / 64
print(f"independent pixels: {bits:.2f} bits/dim, exactly")

# A flow is a density. Pixels are drawn from their cells, x + u, u uniform in [0, 1): then −log2 p(x + u) is on average at
# least −log2 P(x), so its bits are an upper bound, which more draws bring closer.
settings = {"n_transforms": 4, "widths": (32, 32), "learning_rate": 2e-3, "random_state": 0}
flow = NormalizingFlow("glow", max_iter=8, **settings).fit(train)
one, ten = flow.bits_per_dim(test), flow.bits_per_dim(test, n_samples=10)
print(f"Glow, 8 epochs: at most {one:.2f} bits/dim by one draw of u, at most {ten:.2f} by ten")
assert ten < one < bits

# The same pixels without cells: the density grows without bound on levels, and its "bits" go wherever the training goes.
careless = NormalizingFlow("glow", levels=None, max_iter=8, **settings).fit(train)
print(f"without cells: {-careless.score(test) / 64 / np.log(2):.2f} 'bits', of nothing")
try:
    careless.bits_per_dim(test)
except ValueError as error:
    print(error)
