"""Is it fair? Decisions of a scikit-learn pipeline by group, what the group's absence is worth, and thresholds that are fair.

./run py examples/is_it_fair.py
"""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lemmata
from lemmata.trust import FairThresholds, fairness, reweigh

# Applicants of two groups: skill is what counts, the postcode gives the group away, b was seldom hired in the past.
rng = np.random.default_rng(0)
n = 12_000
group = rng.choice(["a", "b"], n, p=[0.6, 0.4])
skill = rng.standard_normal(n)
postcode = (group == "b") + 0.4 * rng.standard_normal(n)
hired = (skill - 0.8 * (group == "b") + 0.7 * rng.standard_normal(n) > 0).astype(int)
X = np.column_stack([skill, postcode])  # the group is left out
train, tune, new = slice(0, 4000), slice(4000, 8000), slice(8000, None)

model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[train], hired[train])
found = lemmata.certify(
    model, X[train], hired[train], X_test=X[new], y_test=hired[new], groups=group[new]
)
print(found)
print("left out, and still there:", found["group_hidden"].numbers, "\n")

# The gaps, for all pairs and rates of a criterion at once.
for name, gap in fairness(hired[new], model.predict(X[new]), group[new]).between("a", "b").items():
    print(f"  {name:10} {gap}")

# After training: a threshold for each group, by a linear programme that proves itself, and what the criterion costs.
fair = FairThresholds(model, "parity", random_state=0).fit(X[tune], hired[tune], group[tune])
print("\n", fair.certificate_, sep="")
print("accuracy for gaps of 0, 0.1, 0.2, 1:", fair.cost_curve([0, 0.1, 0.2, 1]).round(3))
judged = fair.judge(X[new], hired[new], group[new])
print("independence on new rows:", judged.certificate_["independence"].verdict)
print("criteria_compatible:", judged.certificate_["criteria_compatible"].numbers, "\n")

# Before training: weights under which the past hired both groups alike. They change the model, and promise nothing.
weights = reweigh(hired[train], group[train])
other = make_pipeline(StandardScaler(), LogisticRegression())
other.fit(X[train], hired[train], logisticregression__sample_weight=weights)
gap = fairness(hired[new], other.predict(X[new]), group[new]).between("a", "b")["acceptance"]
print("acceptance after reweighing:", gap)
