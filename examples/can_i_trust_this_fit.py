"""I have a fit: can I trust it? Certify it, read what fails, follow the advice, certify again.

./run py examples/can_i_trust_this_fit.py
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import lemmata

X, y = load_breast_cancer(return_X_y=True)

# A fit with defaults warns that it did not converge, and does not say how far off it is. The certificate does.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    theirs = LogisticRegression().fit(X, y)
before = lemmata.certify(theirs, X, y)
print(before, "\n")

# The advice is to bring the columns to one scale. Then the optimum is reached, and proved to be.
scaled = StandardScaler().fit_transform(X)
after = lemmata.certify(LogisticRegression().fit(scaled, y), scaled, y)
print("after scaling, what fails:", ", ".join(after.failed) or "nothing")
after.require("near_optimum")

# How far above the least possible objective each fit is.
gaps = [before["near_optimum"].measured, after["near_optimum"].measured]
figure, axes = plt.subplots(figsize=(5, 2.2), layout="constrained")
axes.barh(["as it came", "columns scaled"], gaps, color=["#b3560f", "#0b5394"])
axes.axvline(before["near_optimum"].bound, color="black", linestyle="--", label="allowed: 0.1 %")
axes.set(xscale="log", xlabel="excess over the best objective, as a share of it")
axes.legend()
