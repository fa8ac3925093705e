"""Neighbours, and whether they can be trusted: digits, noise, records that disagree, half an index.

./run py examples/nearest_neighbours.py
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

import lemmata

# Digits: 64 features, but the rows fill about seven dimensions, so neighbours are near.
X, y = load_digits(return_X_y=True)
model = lemmata.KNeighborsClassifier(5).fit(X[:1200], y[:1200])
print(model.certify(X[:1200], y[:1200]), "\n")
print(f"right on {model.score(X[1200:], y[1200:]):.1%} of the digits it has not seen\n")

# The same pixels with shuffled labels: a model predicts something, the certificate says that it is nothing.
shuffled = np.random.default_rng(0).permutation(y)
noise = lemmata.KNeighborsClassifier(5).fit(X, shuffled).certify(X, shuffled)
print("shuffled labels, what fails:", ", ".join(noise.failed))

# Sixty features of noise: the nearest row is hardly nearer than any.
many = np.random.default_rng(1).standard_normal((400, 60))
print(
    "noise in 60 dimensions, what fails:",
    ", ".join(lemmata.NearestNeighbors().fit(many).certify(many).failed),
)

# Few features, coarse: equal rows with different labels, a floor that no model of these features gets below.
coarse = (X[:, [20, 43]] // 8).astype(float)
floor = lemmata.certify(KNeighborsClassifier(15).fit(coarse, y), coarse, y)["equal_rows_agree"]
print(f"two coarse pixels: {floor.note}\n")

# An index that saw half of the rows answers, and is found out: every query is checked against brute force.
index, half = NearestNeighbors().fit(X), NearestNeighbors().fit(X[::2])


def search_half(rows, k):
    distances, numbers = half.kneighbors(rows, k)
    return distances, 2 * numbers


index.kneighbors = search_half
found = lemmata.certify(index, X)["neighbours_exact"]
print(f"half an index: {found.verdict} ({found.note})\n")

# A smoother instead of a vote: every row has a say, the nearer the more; its bandwidth is chosen by leaving rows out.
x = np.linspace(0, 10, 300)[:, None]
wave = np.sin(x[:, 0]) + 0.3 * np.random.default_rng(2).standard_normal(300)
smoother = lemmata.KernelSmoother().fit(x, wave)
error = np.sqrt(np.mean((smoother.predict(x) - np.sin(x[:, 0])) ** 2))
print(
    f"bandwidth {smoother.bandwidth_:.2f}: off the true curve by {error:.2f}, where the noise is 0.30"
)
