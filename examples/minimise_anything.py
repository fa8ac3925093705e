"""Minimise a function of one's own, read what is proved of the result, put it on a set, and check what SciPy found.

./run py examples/minimise_anything.py
"""

import numpy as np
from scipy.optimize import minimize as scipy_minimize
from sklearn.datasets import load_breast_cancer

from lemmata import optim

# Logistic regression on 569 tumours. The formula is known, so L and μ hold everywhere and the rate is a theorem.
X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
loss = optim.Logistic(X, y, reg=0.1)
found = optim.minimize(loss, np.zeros(30), method="gd")
print(found, "\n")
print(found.certificate_, "\n")

# A function that is only called: steps back off by themselves, and the same claims are rules of thumb.
valley = optim.minimize(optim.Rosenbrock(), [-1.2, 1.0], method="newton")
print(f"Rosenbrock by Newton: {valley.n_iter_} steps to {valley.x.round(8)}")

# Weights of a portfolio: the simplex is a projection away.
rng = np.random.default_rng(0)
returns = rng.normal(0.01, 0.05, (250, 6)) * [1, 2, 1, 0.5, 1, 3]
risk = optim.Quadratic(np.cov(returns.T), b=0.5 * returns.mean(axis=0))
weights = optim.minimize(risk, np.full(6, 1 / 6), constraint=optim.Simplex(), tol=1e-9)
print("portfolio:", weights.x.round(3), "|", weights.certificate_["projected_gradient_small"].note)

# A saddle point, and the noise that leaves it.


def double_well(x):
    return float((x[0] ** 2 - 1) ** 2 / 4 + x[1] ** 2 / 2), np.array([x[0] ** 3 - x[0], x[1]])


stays = optim.minimize(double_well, [0.0, 1.0], method="gd")
leaves = optim.minimize(double_well, [0.0, 1.0], method="noisy")
print(f"gd ends at {stays.x.round(3)}: {stays.certificate_.failed}; noisy at {leaves.x.round(3)}")

# Another library's result, with a gradient that was derived with a slip: the penalty is missing.


def slipped(w):
    value, gradient = loss(w)
    return value, gradient - 0.1 * w


theirs = scipy_minimize(slipped, np.ones(30), jac=True)
checked = optim.certify_minimum(slipped, theirs)
print("what fails:", checked.failed[0])
