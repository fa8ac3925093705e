"""Does the fit exist? Maximum likelihood of classes that a line separates, and what the certificate says about it.

./run py examples/does_the_fit_exist.py
"""

import warnings

import numpy as np
from sklearn import linear_model
from sklearn.datasets import load_iris

import lemmata
from lemmata import LogisticRegression

X, y = load_iris(return_X_y=True)
setosa, virginica = y == 0, y[50:] == 2

# A line separates setosa from the rest: every longer w is more likely, so there are no most likely weights. A solver stops
# somewhere all the same, at whatever its tolerance happens to be.
print("setosa against the rest, no penalty")
for tol in (1e-2, 1e-4, 1e-6):
    model = LogisticRegression(C=np.inf, tol=tol).fit(X, setosa)
    print(
        f"  tol {tol:.0e}: |w| = {np.linalg.norm(model.coef_):6.1f}, training accuracy {model.score(X, setosa):.2f}"
    )
print(model.certify(X, setosa), "\n")

# Other libraries' fits have the same defect and do not say so; the certificate does.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    theirs = linear_model.LogisticRegression(C=np.inf).fit(X, setosa)
print(
    "scikit-learn's fit:",
    ", ".join(lemmata.certify(theirs, X, setosa).failed) or "nothing fails",
    "\n",
)

# Versicolor and virginica overlap: here the weights exist, and the certificate says that too.
model = LogisticRegression(C=np.inf).fit(X[50:], virginica)
print("virginica against versicolor, no penalty")
print(model.certify(X[50:], virginica), "\n")

# What to do about it: a penalty, however small, has one answer.
model = LogisticRegression(C=100).fit(X, setosa)
print(
    f"setosa with C = 100: |w| = {np.linalg.norm(model.coef_):.1f};",
    model.certify(X, setosa).counts,
)
