"""Models whose risk is a formula, on rows drawn from the law it speaks of: how often intervals and choices are wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from lemmata.trust import (
    GaussianClasses,
    RegressionLaw,
    bias_variance,
    compare,
    cross_validate,
    evaluate,
)
from truth.harness import Case, problems

LAW = GaussianClasses([[0.0, 0.0], [2.0, 0.0]])


class Line:
    """Says class 1 where ⟨x, direction⟩ > threshold: a Gaussian tail on either side is its risk."""

    classes_ = np.arange(2)

    def __init__(self, angle: float, threshold: float, flipped: bool = False):
        self.direction = np.array([math.cos(angle), math.sin(angle)])
        self.threshold, self.flipped = threshold, flipped

    def predict(self, X: Any) -> np.ndarray:
        return ((X @ self.direction > self.threshold) ^ self.flipped).astype(int)

    @property
    def accuracy(self) -> float:
        middle = LAW.means @ self.direction
        wrong = (ndtr(middle[0] - self.threshold) + ndtr(self.threshold - middle[1])) / 2
        return float(wrong if self.flipped else 1 - wrong)


class Guess:
    """Predicts the number p for a y that is 1 with probability 0.3: its mean absolute error is 0.3(1 − p) + 0.7p."""

    def __init__(self, p: float):
        self.p = p

    def predict(self, X: Any) -> np.ndarray:
        return np.full(len(X), self.p)

    @property
    def loss(self) -> float:
        return 0.3 * (1 - self.p) + 0.7 * self.p


@problems(seeds=600, quick=3)
def scores(seed):
    """A target just above and just below the truth: one verdict in twenty may be wrong. Exact, betting, weighted intervals."""
    rng = np.random.default_rng(seed)
    n = (15, 60, 300)[seed % 3]
    X, y = LAW.sample(n, rng)
    known = {"train": LAW.sample(100, rng)[0]}
    model = Line(rng.uniform(0, 1.2), rng.uniform(0.5, 1.5))
    weights = rng.uniform(0.2, 3.0, n)
    for name, w in (("plain", None), ("weighted", weights)):
        for shift in (-1e-9, 1e-9):
            found = evaluate(model, X, y, sample_weight=w, target=model.accuracy + shift, **known)
            yield Case(
                f"{name}, {shift:g} beside", found.certificate_, {"target_reached": shift < 0}
            )
    guess = Guess(rng.uniform(0.05, 0.95))
    numbers = (rng.random(n) < 0.3).astype(float)
    for shift in (-1e-9, 1e-9):
        found = evaluate(
            guess, X, numbers, loss="absolute", bounds=(0, 1), target=guess.loss + shift, **known
        )
        yield Case(f"betting, {shift:g} beside", found.certificate_, {"target_reached": shift > 0})


@problems(seeds=120, quick=1)
def verdicts(seed):
    """Many rows and few; targets far away; models better and worse than a constant; rows trained on, or not."""
    rng = np.random.default_rng(seed)
    X, y = LAW.sample(800, rng)
    good, bad = Line(0.1, 1.0), Line(0.1, 1.0, flipped=True)
    yes = {
        "target_reached": True,
        "better_than_constant": True,
        "enough_rows": True,
        "rows_unseen": True,
    }
    known = {"train": LAW.sample(400, rng)[0]}
    found = evaluate(good, X, y, target=0.7, **known)
    yield Case("good", found.certificate_, yes, easy=yes)
    no = {"target_reached": False, "better_than_constant": False}
    found = evaluate(bad, X, y, target=0.7, **known)
    yield Case("worse than a constant", found.certificate_, no, easy=no)
    found = evaluate(good, X[:20], y[:20], target=0.7, **known)
    yield Case(
        "few rows",
        found.certificate_,
        {"enough_rows": False, "better_than_constant": True},
        easy=("enough_rows",),
    )
    level = Line(math.pi / 2, rng.uniform(-1, 1))  # sees nothing: its risk is that of guessing
    found = evaluate(level, X[:200], y[:200], **known)
    yield Case("no better than guessing", found.certificate_, {"better_than_constant": False})
    neighbours = KNeighborsClassifier(1).fit(X[:400], y[:400])
    for label, rows, unseen in (
        ("trained on", slice(300, 500), False),
        ("not trained on", slice(400, 600), True),
    ):
        found = evaluate(neighbours, X[rows], y[rows])
        yield Case(label, found.certificate_, {"rows_unseen": unseen}, easy=("rows_unseen",))
    some = rng.choice(
        40, 400
    )  # forty rows, again and again: as many draws as there are different rows
    whole = np.round(20 * X[some])  # the same, of whole numbers
    for label, rows, seen in (
        ("copies", X[some], known["train"]),
        ("whole", whole, 20 * known["train"]),
    ):
        line = good if label == "copies" else Line(0.1, 20.0)
        found = evaluate(line, rows, y[some], target=0.985, train=seen)
        truths = {"target_reached": good.accuracy >= 0.985, "enough_rows": False}
        yield Case(label, found.certificate_, truths)
    coarse = np.round(X)  # rows repeat by chance
    found = evaluate(good, coarse[400:], y[400:], train=coarse[:400])
    yield Case("repeated by chance", found.certificate_, {"rows_unseen": True})


def _disguise(X: np.ndarray, rng: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Test rows that are training rows, and the training rows in the form in which they are given."""
    half, order = X[: len(X) // 2], np.roll(np.arange(X.shape[1]), 1)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    return {
        "six decimals": (X.round(6), X),
        "three decimals": (half.round(3), X),
        "moved by 1e-12": (half + 1e-12, X),
        "float32": (half.astype(np.float32).astype(float) + 1e-9, X),
        "jitter": (X + 1e-3 * X.std(axis=0) * rng.standard_normal(X.shape), X),
        "inches": (X, 2.54 * X),
        "standardised": (X, scaled),
        "standardised, part": (half, scaled),
        "another order": (half, X[:, order]),
        "another order, inches": (X.round(6), 2.54 * X[:, order]),
    }


TABLES = {
    "normal": lambda rng, n: 5 + 3 * rng.standard_normal((n, 5)),
    "wide": lambda rng, n: rng.standard_normal((n, 30)) + np.arange(30),
    "skewed": lambda rng, n: np.exp(1.5 * rng.standard_normal((n, 3))),
    "clusters": lambda rng, n: (
        rng.integers(0, 3, (n, 1)) * [9.0, 4.0, 1.0] + 0.1 * rng.standard_normal((n, 3))
    ),
    "pixels": lambda rng, n: rng.integers(0, 17, (n, 20)) * (rng.random((n, 20)) < 0.5),
    "counts": lambda rng, n: rng.poisson(1.0, (n, 5)),
    "binary": lambda rng, n: rng.integers(0, 2, (n, 8)),
    "classes and a number": lambda rng, n: np.c_[rng.integers(0, 3, (n, 3)), rng.random(n)],
    # of one column some numbers are equal by chance
    "a column of four decimals": lambda rng, n: (5 + 3 * rng.standard_normal((n, 1))).round(4),
}


@problems(seeds=54, quick=2)
def disguises(seed):
    """A tree on coin flips, tested on rows it was trained on, rounded, moved, in other units or another order; and on new rows.

    Tables of whole numbers repeat rows by chance: there nobody can tell, but no new row may be accused.
    """
    rng = np.random.default_rng(seed)
    name = list(TABLES)[seed % len(TABLES)]
    n = (80, 300, 1200)[seed // len(TABLES) % 3]
    X, new = (TABLES[name](rng, n).astype(float) for _ in range(2))
    y = rng.integers(0, 2, n)
    tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    claim, often = "rows_unseen", name in ("counts", "binary", "a column of four decimals")
    found = evaluate(tree, new, rng.integers(0, 2, n), train=X, train_y=y).certificate_
    truths = {claim: True, "better_than_constant": False}
    yield Case(f"{name}, new", found, truths, easy=() if often else (claim,))
    no = {claim: False, "enough_rows": False, "better_than_constant": False}
    fine = () if often or name in ("pixels", "classes and a number") else (claim,)
    for how, (rows, known) in _disguise(X, rng).items():
        certain = fine if how in ("six decimals", "moved by 1e-12", "float32", "jitter") else ()
        found = evaluate(tree, rows, y[: len(rows)], train=known, train_y=y).certificate_
        yield Case(f"{name}, {how}", found, no, easy=certain)


@problems(seeds=60, quick=1)
def constants(seed):
    """Constant models where classes, or means, of train and test differ; and a model that sees something."""
    rng = np.random.default_rng(seed)
    X, y = LAW.sample(2400, rng)
    train_y = (rng.random(400) < 0.2).astype(int)  # class 0 is frequent in training, class 1 here
    kept = (y == 1) | (rng.random(2400) < 0.3)
    X, y, name = X[kept], y[kept], "better_than_constant"
    known = {"train": X[1000:], "train_y": train_y}
    X, y = X[:1000], y[:1000]
    always = DummyClassifier(strategy="constant", constant=1).fit(X, y)
    found = evaluate(always, X, y, **known).certificate_
    yield Case("a class", found, {name: False})
    found = evaluate(Guess(0.75), X, y, loss="squared", bounds=(0, 1), **known).certificate_
    yield Case("a number", found, {name: False})
    found = evaluate(Line(0.1, 0.6), X, y, **known).certificate_
    yield Case("a line", found, {name: True}, easy=(name,))


@problems(seeds=400, quick=3)
def choices(seed):
    """Eight lines near each other, or two, or thirty on few rows: the chosen one is the best, or near it, or neither."""
    rng = np.random.default_rng(seed)
    K, n, spread = ((8, 400, 0.5), (2, 150, 1.0), (30, 20, 1.2), (3, 3000, 0.6))[seed % 4]
    models = {
        i: Line(rng.uniform(-spread, spread), 1 + rng.uniform(-spread, spread)) for i in range(K)
    }
    X, y = LAW.sample(n, rng)
    known = {"train": LAW.sample(100, rng)[0]}
    found = compare(models, X, y, **known)
    best = max(model.accuracy for model in models.values())
    regret = best - models[found.chosen].accuracy
    truths = {"good_choice": regret <= 0.05, "best_alone": regret == 0}
    yield Case(f"{K} of {n} rows", found.certificate_, truths)
    twins = {
        "one": models[0],
        "two": Line(-math.atan2(*models[0].direction[::-1]), models[0].threshold),
    }
    found = compare(twins, X, y, **known)  # the mirror image has the same risk: neither is better
    yield Case("equally good", found.certificate_, {"best_alone": False, "good_choice": True})


@problems(seeds=30, quick=1)
def candidates(seed):
    """Neighbours that have, or have not, seen the rows on which they are compared."""
    X, y = LAW.sample(300, seed)
    models = {k: KNeighborsClassifier(k).fit(X[:200], y[:200]) for k in (1, 15)}
    name = "candidates_unseen"
    for label, rows, unseen in (
        ("trained on", slice(100, 300), False),
        ("not", slice(200, 300), True),
    ):
        found = compare(models, X[rows], y[rows])
        yield Case(label, found.certificate_, {name: unseen}, easy=(name,))
    lines = {"a": Line(0.1, 1.0), "b": Line(0.2, 1.0)}
    found = compare(lines, X[200:], y[200:], train=X[:200])
    yield Case("rows given", found.certificate_, {name: True}, easy=(name,))


@problems(seeds=20, quick=1)
def folds(seed):
    """Splitters that keep their sides apart, and others."""
    X, y = LAW.sample(60, seed)
    model, name = KNeighborsClassifier(3), "folds_unseen"
    found = cross_validate(model, X, y)
    yield Case("five folds", found.certificate_, {name: True}, easy=(name,))
    rows = np.random.default_rng(seed).permutation(60)
    leaking = [(rows[:45], rows[40:]), (rows[15:], rows[:15])]
    found = cross_validate(model, X, y, cv=leaking)
    yield Case("a fold that overlaps", found.certificate_, {name: False}, easy=(name,))
    twice = np.r_[X, X[:10]]
    found = cross_validate(model, twice, np.r_[y, y[:10]])
    yield Case("rows copied", found.certificate_, {name: False})
    found = cross_validate(model, np.r_[X, X.round(6)], np.r_[y, y])
    yield Case("all rows copied, rounded", found.certificate_, {name: False})


class Liar(RegressionLaw):
    """States another noise than it has."""

    def noise_variance(self, X):
        return np.full(len(X), 4 * self.noise**2)


class Shifted(RegressionLaw):
    """States another mean than it has."""

    def mean(self, X):
        return super().mean(X) + 0.5

    def targets(self, X, rng=None):
        return super().targets(X, rng) - 0.5


@problems(seeds=60, quick=1)
def decompositions(seed):
    """Laws that are what they state, and laws that are not."""
    name = "adds_up"
    settings = {"n": 20, "repeats": 25, "test_size": 200, "random_state": seed}
    for cls, truth in ((RegressionLaw, True), (Liar, False), (Shifted, False)):
        law = cls(lambda X: np.sin(3 * X[:, 0]), noise=0.3)
        found = bias_variance(LinearRegression(), law, **settings)
        yield Case(cls.__name__, found.certificate_, {name: truth}, easy=(name,))
