"""How good is it really? A score with its interval, the best of several models, cross-validation, bias and variance.

./run py examples/how_good_is_it_really.py
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import lemmata
from lemmata.trust import (
    GaussianClasses,
    RegressionLaw,
    bias_variance,
    compare,
    cross_validate,
    evaluate,
    samples_needed,
)

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
model = make_pipeline(StandardScaler(), SVC()).fit(X_train, y_train)

# First: did the solver arrive? The duality gap answers for a fit of any library.
print(lemmata.certify(model, X_train, y_train)["near_optimum"].numbers, "\n")

# Then: what will it do on new rows?
found = evaluate(model, X_test, y_test, train=X_train, train_y=y_train, target=0.9)
print(found)
print(found.certificate_, "\n")

# The same call on rows that were trained on says so, instead of giving a better number.
print(evaluate(model, X_train, y_train, train=X_train), "\n")

# Which of several? The choice is made on the same rows, so it has a price.
candidates = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
    "svm": make_pipeline(StandardScaler(), SVC()),
    "15 neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(15)),
    "stump": DecisionTreeClassifier(max_depth=1),
}
fitted = {name: one.fit(X_train, y_train) for name, one in candidates.items()}
print(compare(fitted, X_test, y_test, train=X_train), "\n")
print(f"rows to know four accuracies to ± 0.02: {samples_needed(0.02, K=4):,}\n")

print(cross_validate(make_pipeline(StandardScaler(), SVC()), X, y), "\n")

# Where the error comes from, on a law that we know: few neighbours follow the noise, many smooth the curve away.
law = RegressionLaw(lambda rows: np.sin(4 * rows[:, 0]), noise=0.3)
for k in (1, 5, 30):
    print(f"{k:2} neighbours:", bias_variance(KNeighborsRegressor(k), law, n=60, random_state=0))

# And the best that anybody can do there.
risk, _ = GaussianClasses([[0.0, 0.0], [2.0, 0.0]]).risk()
print(
    f"\ntwo Gaussian classes two deviations apart: no classifier is wrong less often than {risk:.4f}"
)
