"""Fill in what is missing: a table with holes goes in, a table without goes out, as with scikit-learn's imputers."""

import numpy as np
from sklearn.impute import SimpleImputer

import lemmata

X = lemmata.data.digits().X
hidden = np.random.default_rng(0).random(X.shape) < 0.6
holes = np.where(hidden, np.nan, X)


def error(filled):
    return float(np.sqrt(np.mean((filled - X)[hidden] ** 2)))


print(
    f"column means:         {error(SimpleImputer(keep_empty_features=True).fit_transform(holes)):.2f}"
)
model = lemmata.ALS(rank=12, reg=40.0, reg_weighting="plain", random_state=0).fit(holes)
print(f"low rank, {model.stopped_}:    {error(model.complete()):.2f}")
print(model.certificate_)

# the convex problem has one optimum, and the certificate proves how near this fit is to it
convex = lemmata.SoftImpute(reg=40.0, centre="columns").fit(holes)
print(f"nuclear norm, rank {len(convex.singular_values_)}: {error(convex.complete()):.2f}")
print(convex.certificate_["least_penalised"].numbers)
