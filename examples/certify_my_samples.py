"""Are these samples any good, and are they copies? A certificate for rows, whoever drew them.

./run py examples/certify_my_samples.py
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KernelDensity

import lemmata
from lemmata.generate import Samples, frechet_distance

X = np.random.default_rng(0).permutation(load_digits().data)
train, new = X[:1200], X[1200:]
names = ("passes_for_data", "modes_covered", "not_copied")

# A kernel density draws a training row and adds noise: little noise copies, much noise blurs. Normal rows have no modes.
mean, covariance = train.mean(axis=0), np.cov(train.T)
generators = {
    f"noise {width}": KernelDensity(bandwidth=width).fit(train).sample(1200, random_state=0)
    for width in (0.1, 1.0, 4.0)
}
generators["a normal"] = np.random.default_rng(1).multivariate_normal(mean, covariance, 1200)

usual = frechet_distance(train[:597], new)
print(f"{'':12}{'Fréchet':>9}   " + "  ".join(f"{name:16}" for name in names))
print(f"{'data':12}{usual:9.1f}")
for label, rows in generators.items():
    found = lemmata.certify(Samples(rows), train, X_test=new)
    verdicts = "  ".join(f"{found[name].verdict:16}" for name in names)
    print(f"{label:12}{frechet_distance(rows[:597], new):9.1f}   {verdicts}")

# The Fréchet distance likes copies best. What the certificate says of them:
copies = lemmata.certify(Samples(generators["noise 0.1"]), train, X_test=new)
print("\n", copies["not_copied"].note, "\n", copies["not_copied"].advice)
