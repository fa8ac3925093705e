"""A Lasso path with every λ certified, the λ of cross-validation, and what another library's warning is worth.

./run py examples/lasso_path.py
"""

import warnings

import numpy as np
import sklearn.linear_model
from sklearn.datasets import load_diabetes

import lemmata
from lemmata.predict.lasso.cv import LassoCV
from lemmata.predict.lasso.path import LassoPath

X, y = load_diabetes(return_X_y=True)
names = load_diabetes().feature_names

# 1. The path: who enters when, and how far each of the 100 solutions may be from its optimum.
path = LassoPath().fit(X, y)
entry = {
    name: path.alphas_[np.argmax(row != 0)] for name, row in zip(names, path.coefs_, strict=True)
}
print("columns in the order in which they enter, with their λ:")
print(
    "  "
    + ", ".join(f"{name} {entry[name]:.3g}" for name in sorted(entry, key=entry.get, reverse=True))
)
print(
    f"largest duality gap of {len(path.alphas_)} λ's: {path.dual_gaps_.max() / y.var():.1e} of the variance of y\n"
)

# 2. One λ: the least cross-validated error, and the simplest model within one standard error of it.
for rule in ("min", "1se"):
    model = LassoCV(rule=rule).fit(X, y)
    kept = [name for name, w in zip(names, model.coef_, strict=True) if w != 0]
    print(f"rule {rule}: α = {model.alpha_:.3g}, {len(kept)} columns: {', '.join(kept)}")
print(model.certificate_, "\n")

# 3. Another library warns that it has not converged. Is that harmless? Its own weights say so.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    hasty = sklearn.linear_model.Lasso(alpha=0.01, max_iter=5).fit(X, y)
found = lemmata.certify(hasty, X, y)
print("scikit-learn after 5 sweeps, what fails:", ", ".join(found.failed) or "nothing")
