"""Eight numbers per digit: a non-linear autoencoder against PCA, and what the certificate says of both.

python examples/autoencode_digits.py
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import lemmata
from lemmata import PCA, Autoencoder

X = load_digits().data[np.random.default_rng(0).permutation(1797)] / 16
X, new = X[:1200], X[1200:]

axes = PCA(8).fit(X)
model = Autoencoder(8, max_iter=20, learning_rate=0.01, random_state=0).fit(X)
print(model.certify(X, X_test=new))

for name, rows in (("training rows", X), ("new rows", new)):
    linear = np.square(rows - axes.inverse_transform(axes.transform(rows))).mean()
    print(
        f"{name}: mean squared error of PCA {linear:.4f}, of the network {-model.score(rows):.4f}"
    )

# without activations a network cannot do better than PCA, however long it is trained; the certificate says that, too
flat = Autoencoder(8, activation="identity", max_iter=20, learning_rate=0.01, random_state=0).fit(X)
found = flat.certify(X)["beats_pca"]
print(f"linear layers: error / PCA's = {found.measured:.3f}, beats_pca {found.verdict}")

with tempfile.TemporaryDirectory() as folder:
    lemmata.save(model, Path(folder) / "digits.lemma")
    again = lemmata.load(Path(folder) / "digits.lemma")
    same = np.array_equal(again.transform(new), model.transform(new))
    print(f"loaded: {type(again).__name__}, the same codes: {same}")
