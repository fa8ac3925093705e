"""Is a ConvergenceWarning harmless? The duality gap of scikit-learn's Lasso says so, or by how much it is off.

./run py examples/certify_a_lasso.py
"""

import warnings

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LogisticRegression

import lemmata

X, y = load_diabetes(return_X_y=True)

for steps in (2, 5, 50):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", ConvergenceWarning)
        model = Lasso(alpha=0.01, max_iter=steps).fit(X, y)
    found = lemmata.certify(model, X, y)["near_optimum"]
    print(
        f"max_iter={steps}: {'a warning' if heard else 'no warning'}; {found.verdict}: {found.numbers}"
    )
    if found.note:
        print(f"    {found.note}")

# The whole certificate, with what to do.
print("\n", lemmata.certify(Lasso(alpha=0.01).fit(X, y), X, y), "\n")

# Somebody changed a weight by one per cent: the objective hardly notices, its slope does.
model = Lasso(alpha=0.5).fit(X, y)
model.coef_ = model.coef_ * np.where(np.arange(10) == 2, 1.01, 1.0)
print("one per cent more of bmi; what fails:", ", ".join(lemmata.certify(model, X, y).failed))

# Without a penalty, logistic weights may not exist at all: nothing warns, and they are as large as the loop had time for.
high = (y > 140).astype(int)
tell_tale = np.column_stack([X, np.where(high == 1, np.arange(len(y)) % 3, 0)])
model = LogisticRegression(C=np.inf, max_iter=1000).fit(tell_tale, high)
print("\n", lemmata.certify(model, tell_tale, high)["weights_exist"].advice)
