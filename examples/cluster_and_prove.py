"""Cluster, and ask how good the clustering is: on clusters that are there, on flowers that overlap, on a fit of scikit-learn.

./run py examples/cluster_and_prove.py
"""

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.datasets import load_iris

import lemmata

# Thirty clusters in the plane, well apart. k-means is NP-hard, yet this fit is provably near the best of all.
rng = np.random.default_rng(0)
places = np.stack(np.meshgrid(np.arange(6.0), np.arange(5.0)), axis=-1).reshape(-1, 2)
X = np.repeat(12 * places, 300, axis=0) + rng.normal(size=(9000, 2))
model = lemmata.KMeans(30, random_state=0).fit(X)
proof = model.certify(X)
print(proof, "\n")
print(
    f"proved: at most {proof['certified_near_optimum'].measured:.2%} above the best possible cost\n"
)

# A start from which Lloyd's steps cannot get away: two centres for one cluster, one for two.
stuck = lemmata.KMeans(30, init=np.r_[X[:2], X[300:8700:300]], max_iter=300).fit(X)
print(
    f"a bad start costs {stuck.inertia_ / model.inertia_:.2f} times as much; the certificate sees it:"
)
print("what fails:", ", ".join(stuck.certify(X).failed), "\n")

# Three kinds of iris, of which two overlap: the labels should not be taken at their word.
iris = load_iris().data
print(lemmata.certify(MiniBatchKMeans(3, random_state=0).fit(iris), iris))
