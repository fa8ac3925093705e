"""Certify fits made by scikit-learn: a sound one, a careless one, a pipeline, and one with a hidden mistake.

./run py examples/certify_another_library.py
"""

from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lemmata

X = load_digits().data

print(lemmata.certify(PCA(n_components=10).fit(X), X), "\n")

# TruncatedSVD does not centre. Sometimes that is meant; the certificate says what it costs.
print(lemmata.certify(TruncatedSVD(n_components=10, random_state=0).fit(X), X), "\n")

# Of a pipeline the last step is certified, on the data that reaches it.
pipeline = make_pipeline(StandardScaler(), PCA(n_components=10)).fit(X)
found = lemmata.certify(pipeline, X)
print(found.title, "|", found.counts, "| left out:", found.skipped, "\n")

# The classic mistake: a model fitted to scaled data, used on raw data. In a script, require() would raise.
scaled = PCA(n_components=10).fit(X / 16)
found = lemmata.certify(scaled, X)
print("fitted to X / 16, used on X; what fails:", ", ".join(found.failed))
