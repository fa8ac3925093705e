"""Kernel machines with their proof: a support vector machine, somebody else's, regression, and many rows.

./run py examples/kernel_machines.py
"""

import warnings

import numpy as np
from sklearn import svm
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import lemmata
from lemmata.predict import mercer
from lemmata.predict.kernel_ridge import KernelRidge
from lemmata.predict.kernels import RBF, Linear, Polynomial, Sigmoid, feature_map, kernel_error
from lemmata.predict.sampled_features import Nystroem
from lemmata.predict.svm.estimators import SVC

# Two half moons: the dual gives a lower bound on every machine's objective, so the gap says how much better one could be.
X, y = make_moons(400, noise=0.2, random_state=0)
model = SVC(C=10, gamma=1.0).fit(X, y)
print(model.certify(X, y), "\n")

# scikit-learn's machine, stopped too early: its warning says "not converged", the certificate says by how much.
cancer = load_breast_cancer()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    early = svm.SVC(kernel="linear", max_iter=200).fit(cancer.data, cancer.target)
found = lemmata.certify(early, cancer.data, cancer.target)
print("scikit-learn after 200 steps:", found["near_optimum"].numbers)
print("what fails:", ", ".join(found.failed), "\n")

# Columns of very different size, on which SMO alone needs 100,000 steps and more: Newton on the free variables does not.
ours = SVC(kernel="linear").fit(cancer.data, cancer.target)
print(f"lemmata needs {ours.steps_[0]:,} steps on the same rows\n")

# Kernels are objects. Is a sum of products still one? By closure rules, on all inputs; a sigmoid is not, with a witness.
for kernel in (RBF(0.5) * Linear() + Polynomial(degree=2), Sigmoid(gamma=2.0, coef0=-1.0)):
    evidence = mercer(kernel, X)
    print(f"{kernel!r}: {evidence.verdict}, {evidence.note} (λ_min = {evidence.measured:.2g})")

# Where features are finite they can be written down, and kernel ridge regression is ridge regression on them.
kernel = Polynomial(degree=2, gamma=1.0)
target = X[:, 0] ** 2 - X[:, 1]
dual = KernelRidge(alpha=0.1, kernel=kernel).fit(X, target).predict(X)
Phi = feature_map(kernel, X)
primal = Ridge(alpha=0.1, fit_intercept=False).fit(Phi, target).predict(Phi)
print(f"\nprimal and dual of ridge regression differ by {np.abs(dual - primal).max():.1e}")

# 50,000 rows: K would take 20 GB. A hundred landmarks are enough for this curve, and their error is measured.
rng = np.random.default_rng(0)
rows = rng.uniform(-3, 3, (50_000, 2))
values = np.sin(2 * rows[:, 0]) * rows[:, 1] + 0.1 * rng.standard_normal(len(rows))
near = make_pipeline(Nystroem(gamma=0.5, n_components=200, random_state=0), Ridge(alpha=1e-2))
print(
    f"R² on 50,000 rows: {near.fit(rows, values).score(rows, values):.4f} (the noise allows {1 - 0.01 / values.var():.4f})"
)
print(kernel_error(RBF(0.5), rows[:2000], near[0].transform(rows[:2000])))
