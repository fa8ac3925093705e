"""Learn from 1,300 digits without a label, then see what 50 labels are worth: beside pixels, and the untrained network.

./run py examples/learn_without_labels.py
"""

from sklearn.datasets import load_digits

from lemmata import SimCLR
from lemmata.nets import NeuralClassifier
from lemmata.nets.augmentation import Compose, CropResize, Noise, Rotate
from lemmata.selfsup import probe, sensitivity

X, y = load_digits(return_X_y=True)
X = (X / 16).reshape(-1, 1, 8, 8).astype("float32")
train, test = slice(0, 1300), slice(1300, None)

# What should not matter: where a digit is cut, how it slants, noise. A mirror does matter, a 2 would be no digit.
views = Compose([CropResize((0.5, 1.0)), Rotate(15), Noise(0.1)])
settings = {"regions": 2, "net_options": {"widths": (16, 32)}, "batch_size": 100, "random_state": 0}
model = SimCLR(views=views, max_iter=20, **settings).fit(X[train])
print(model.certificate_, "\n")

# Is it better than nothing? Pixels, and a network that never saw an image, are strong.
for labels in (50, 1000):
    print(probe(model, X[train], y[train], X[test], y[test], labels=labels))
found = model.certify(X[train], y[train], X_test=X[test], y_test=y[test])
for claim in ("views_found", "probe_beats_pixels", "probe_beats_untrained"):
    print(f"{claim}: {found[claim].verdict}")

# What do its features still see?
changes = {"crops": CropResize((0.5, 1.0)), "slants": Rotate(15), "noise": Noise(0.1), "half turns": Rotate(180)}  # fmt: skip
for name, turned in sensitivity(model, X[test], changes).items():
    print(f"{name:<12} turn features by 1 − cos = {turned:.3f}")

# Fine-tuning goes on from there; with so few labels, the probe of frozen features above does better.
tuned = NeuralClassifier(model.encoder_, max_iter=60, batch_size=10, random_state=0)
tuned.fit(X[:50], y[:50])
print(f"\nfine-tuned on 50 labels: {tuned.score(X[test], y[test]):.3f} of new digits are right")
