"""Parts of faces: what non-negative factors find, what PCA would lose less of, and how far the certificate goes.

python examples/parts_of_faces.py
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF as SklearnNMF

import lemmata
from lemmata.data import DataNotFound, olivetti_faces
from lemmata.topics import NMF

try:
    faces = olivetti_faces().X.reshape(-1, 64, 64)
    X = 1 - faces.reshape(-1, 32, 2, 32, 2).mean(axis=(2, 4)).reshape(
        len(faces), -1
    )  # ink on paper
except DataNotFound:
    X = load_digits().data.astype(np.float32) / 16
X = X[:300]

model = NMF(16, max_iter=100, tol=1e-4).fit(X)
print(model.certify(X))
blank = (model.components_ < 0.01 * model.components_.max(axis=1, keepdims=True)).mean()
print(f"{100 * blank:.0f} % of the pixels of a part are blank\n")

# a third of the pixels is lost: only what is known counts
known = np.random.default_rng(0).random(X.shape) > 1 / 3
torn = np.where(known, X, np.nan)
filled = NMF(16, max_iter=30, tol=1e-4, random_state=0).fit(torn)
guess = filled.inverse_transform(filled.doc_topic_)
error = np.linalg.norm((guess - X)[~known]) / np.linalg.norm(X[~known])
print(f"error of the pixels that were never seen: {100 * error:.0f} % of their size")

# somebody else's fit, certified as it stands
theirs = SklearnNMF(16, init="nndsvda", max_iter=100).fit(X)
print(lemmata.certify(theirs, X))
