"""Compress the digits, read the certificate, choose k at a gap of the spectrum, save and load.

./run py examples/reduce_digits.py
"""

import tempfile
from pathlib import Path

import numpy as np

import lemmata

X = lemmata.data.digits().X
print(f"{X.shape[0]} images of {X.shape[1]} pixels\n")

# 10 directions: how good are they, and does the sample determine them?
pca = lemmata.PCA(n_components=10).fit(X)
print(pca.certificate_, "\n")

# As many as explain 90 % of the variance.
most = lemmata.PCA(n_components=0.9).fit(X)
print(f"90 % of the variance needs {most.n_components_} of {X.shape[1]} directions")

# The same subspace learnt by gradient descent: a linear autoencoder cannot do better (CIL Thm 1.4.4).
network = lemmata.LinearAutoencoder(n_components=10, random_state=0).fit(X)
lost = np.mean((X - pca.inverse_transform(pca.transform(X))) ** 2)
learnt = np.mean((X - network.inverse_transform(network.transform(X))) ** 2)
print(
    f"mean squared error per pixel: PCA {lost:.4f}, autoencoder {learnt:.4f} after {network.n_iter_} steps"
)

# A file holds the model with its certificate; reading it executes nothing.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "digits.lemma"
    lemmata.save(pca, path)
    again = lemmata.load(path)
print("loaded:", again.certificate_.title)
