"""How robust is it? Attacks on a scikit-learn model and on a torch module, what they prove, and what training and votes change.

./run py examples/how_robust_is_it.py
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import nn

from lemmata import NeuralClassifier
from lemmata.trust import AdversarialTraining, Ball, SmoothedClassifier, attack

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)  # pixels between 0 and 1: the box
train, new = slice(0, 1400), slice(1400, 1600)

# A linear model: the worst case has a closed form, so the attack can be compared with the truth.
linear = LogisticRegression(max_iter=300).fit(X[train], y[train])
found = attack(linear, X[new], y[new], Ball(0.05), queries=200)
print(found)
print("what fails:", ", ".join(found.certificate_.failed) or "nothing")
print("(ε, withstood, proved):", found.over([0.0, 0.02, 0.05]), "\n")

# A network, as it is and trained on the worst perturbations that PGD finds.
budget = {"restarts": 1, "steps": 20, "queries": 200}
for name, loss in (
    ("standard", "cross_entropy"),
    ("robust", AdversarialTraining(Ball(0.1), steps=3)),
):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model = NeuralClassifier(net, loss=loss, max_iter=25, learning_rate=3e-3, random_state=0)
    module = model.fit(X[train], y[train]).module_  # a torch module would do as well
    found = attack(module, X[new], y[new], Ball(0.1), at_least=0.6, **budget)
    claim = found.certificate_["robust_accuracy"]
    print(f"{name}: {found.accuracy:.2f}, attacked {found.robust_accuracy:.2f}; at least 0.6 {claim.verdict}")  # fmt: skip

# An attack is an upper bound, however many rows withstand. Votes under noise give a lower one.
noisy = X[train] + 0.25 * np.random.default_rng(0).standard_normal(X[train].shape)
votes = SmoothedClassifier(LogisticRegression(max_iter=300).fit(noisy, y[train]), sigma=0.25, n=500)
classes, radii = votes.predict_radius(X[new][:100])
right = classes == y[new][:100]
print("\nright and certified to ℓ2 0, 0.25, 0.5:", *(np.mean(right & (radii > r)) for r in (0, 0.25, 0.5)))  # fmt: skip
print("radii, counted again:", votes.certify(X[new][:100])["radius_certified"].verdict)
