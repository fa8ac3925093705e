"""I have data: which model? Look into a file, take a proposal, fit it, and compare it with another on new rows.

./run py examples/which_model_for_my_file.py
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

import lemmata
from lemmata.trust import compare

flowers = load_iris()
kinds = flowers.target_names[flowers.target]
path = Path(tempfile.mkdtemp()) / "flowers.csv"
rows = [",".join(map(str, (*row, kind))) for row, kind in zip(flowers.data, kinds, strict=True)]
path.write_text("\n".join(["length,width,petal_length,petal_width,kind", *rows]) + "\n")

# What is in the file, and which models suit it? `lemmata which flowers.csv --target kind` prints the same.
for column in lemmata.data.inspect_file(path).columns:
    print(f"{column.name}: {column.kind}, {column.distinct} different values")
suggested = lemmata.data.suggest_models(path, target="kind")
for one in suggested:
    print(f"{one.model}: {one.why}")

# The first two, fitted to half of the rows. Which is better on rows that neither has seen, and is that more than chance?
order = np.random.default_rng(0).permutation(150)
train, test = order[:75], order[75:]
X, y = flowers.data, kinds
models = [getattr(lemmata, one.model)().fit(X[train], y[train]) for one in suggested[:2]]
found = compare(models, X[test], y[test])
print(found)

figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
for kind, marker in zip(flowers.target_names, "os^", strict=True):
    axes.scatter(*X[y == kind, 2:].T, marker=marker, s=18, label=kind)
wrong = models[0].predict(X[test]) != y[test]
axes.scatter(*X[test][wrong][:, 2:].T, s=120, facecolors="none", edgecolors="black", label="wrong")
axes.set(xlabel="petal length, cm", ylabel="petal width, cm")
axes.legend()
