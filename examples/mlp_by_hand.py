"""A perceptron with gradients derived by hand, trained on digits, and what a certificate says if it is stopped too early.

./run py examples/mlp_by_hand.py
"""

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier as TheirClassifier

import lemmata
from lemmata.nets import MLP

X, y = load_digits(return_X_y=True)
X = (X - X[:1200].mean(axis=0)) / 16  # centred: a ReLU sees both sides of zero
train, test = slice(0, 1200), slice(1200, None)

# --- backpropagation is the gradient: a small step downhill gains what it promises -------------------------------------

net = MLP((64, 32, 16, 10), activation="gelu", loss="softmax")
theta = net.start(np.random.default_rng(0))
value, gradient = net.value_and_gradient(theta, X[train], y[train])
step = 1e-5 * gradient
gained = value - net.value(theta - step, X[train], y[train])
print(f"{net.n_parameters:,} parameters; promised {step @ gradient:.4e}, gained {gained:.4e}")
forward, backward = net.multiplications(n=1200)
print(f"backward multiplies {backward / forward:.2f} times as often as forward")

# --- training ----------------------------------------------------------------------------------------------------------

model = lemmata.MLPClassifier(
    (32,), max_iter=100, learning_rate_init=0.01, tol=1e-3, random_state=0
)
model.fit(X[train], y[train])
print(f"accuracy on digits not seen: {model.score(X[test], y[test]):.3f}")
print(model.certify(X[train], y[train]))

# --- stopped too early, by scikit-learn ---------------------------------------------------------------------------------

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    early = TheirClassifier((32,), max_iter=3, random_state=0).fit(X[train], y[train])
print(
    "scikit-learn after 3 epochs, what fails:", *lemmata.certify(early, X[train], y[train]).failed
)
