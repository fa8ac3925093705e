"""A Gaussian mixture of flowers of which a fifth of the numbers are missing, and how many kinds there are.

./run py examples/mixture_with_holes.py
"""

import numpy as np
from sklearn.datasets import load_iris
from sklearn.impute import SimpleImputer
from sklearn.metrics import adjusted_rand_score

import lemmata

X, kinds = load_iris(return_X_y=True)
holes = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)

# What is missing is integrated out of the likelihood; nothing is made up.
model = lemmata.GaussianMixture(3, n_init=10, random_state=0).fit(holes)
print(model.certificate_, "\n")

filled = SimpleImputer().fit_transform(holes)
careless = lemmata.GaussianMixture(3, n_init=10, random_state=0).fit(filled)
whole = lemmata.GaussianMixture(3, n_init=10, random_state=0).fit(X)
for name, labels in (
    ("complete data", whole.predict(X)),
    ("holes marginalised", model.predict(holes)),
    ("holes filled with means", careless.predict(filled)),
):
    print(
        f"agreement with the true kinds, {name + ':':<25} {adjusted_rand_score(kinds, labels):.2f}"
    )

# What were they? Conditional means are the best guess; draws show how sure one can be.
gone = np.isnan(holes)
guess, draws = model.impute(holes), model.impute(holes, draws=50, random_state=0)
columns = np.broadcast_to(np.nanmean(holes, axis=0), X.shape)
for name, values in (("conditional means", guess), ("means of the columns", columns)):
    print(f"error of {name + ':':<25} {np.sqrt(np.mean((values - X)[gone] ** 2)):.2f} cm")
inside = np.abs(guess - X)[gone] <= 2 * draws.std(axis=0)[gone]
print(f"within two deviations of the draws: {inside.mean():.0%} of the values")

# How many components? BIC along the path; path.plot() draws it.
path = lemmata.mixtures.select(X, range(1, 7), random_state=0)
print(f"\n{path}\n\nbest by BIC: {path.best_k} components")
