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

# How many components? BIC along the path; path.plot() draws it.
path = lemmata.mixtures.select(X, range(1, 7), random_state=0)
print(f"\n{path}\n\nbest by BIC: {path.best_k} components")
