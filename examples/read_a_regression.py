"""Read a regression: what its weights are worth, which rows decide it, and whether to trust it.

python examples/read_a_regression.py
"""

import numpy as np
from sklearn.datasets import load_diabetes

import lemmata

data = load_diabetes(as_frame=True)
X, y = data.data, data.target

# The table of statsmodels from scikit-learn's estimator
model = lemmata.LinearRegression().fit(X, y)
print(model.summary(), "\n")

# Standard errors that do not assume the same noise everywhere
plain, robust = model.inference(), model.inference(X, y, covariance="HC3")
worst = np.argmax(robust.standard_errors / plain.standard_errors)
was, now = (found.standard_errors[worst] for found in (plain, robust))
print(f"HC3 changes the error of {plain.names[worst]} most: {was:.1f} → {now:.1f}")


# Rows that move the fit
influence = model.influence(X, y)
print(f"rows with the largest Cook's distance: {influence.largest(3).tolist()}")

# What the next patient may be expected to have
middle, low, high = model.predict_interval(X[:1])[0]
print(
    f"the first patient: {middle:.0f}, with 95 % between {low:.0f} and {high:.0f}; it was {y[0]:.0f}\n"
)

# What theory says about this fit
print(model.certificate_, "\n")

# The same question asked three more ways
ridge = lemmata.RidgeCV(np.geomspace(1e-4, 10, 50)).fit(X, y)
tukey = lemmata.RobustRegression(loss="tukey", random_state=0).fit(X, y)
print(
    f"ridge chose alpha = {ridge.alpha_:.4f} by leaving every row out once: error {-ridge.best_score_:.0f}"
)
print(f"Tukey's loss names {tukey.outliers_.sum()} outliers")
print(
    f"the weight of bmi: least squares {model.coef_[2]:.0f}, ridge {ridge.coef_[2]:.0f}, Tukey {tukey.coef_[2]:.0f}"
)
