"""Attacks on models whose worst case is known, with slips that pass for robustness; votes under noise of linear models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from lemmata.audit.trust.robustness import ROBUST_CLAIMS, answer
from lemmata.audit.trust.smoothed_votes import SMOOTHING_CLAIMS
from lemmata.core.certificate import Fit
from lemmata.core.certification.checking import check
from lemmata.trust import Ball, attack
from lemmata.trust.robust.smoothing import SmoothedClassifier
from truth.harness import Case, problems

HAIR = 1e-9


@dataclass(frozen=True)
class Around:
    """A ball and a box, as claims read them."""

    eps: float
    norm: float
    low: Any = None
    high: Any = None


def judge(model, X, y, ball, adversarial, witnesses=None, by_attack=None, **more):
    """Certify rows of somebody's attack; what it states is what the model says, if nothing else is given."""
    witnesses = {"PGD": adversarial} if witnesses is None else witnesses
    wrong = {name: answer(model, rows) != y for name, rows in witnesses.items()}
    stated = {
        "clean": answer(model, X) == y, "fooled": answer(model, adversarial) != y, "by_attack": by_attack or wrong,
    }  # fmt: skip
    known = {"X": X, "ball": ball, "adversarial": adversarial, "witnesses": witnesses, **stated, **more}  # fmt: skip
    return check(ROBUST_CLAIMS, Fit(model, None, y, attributes=known), "attack")


# --- linear models ----------------------------------------------------------------------------------------------------


class LinearLaw:
    """x | y ~ N(yμ, I), y = ±1 with P(1) = share, and a classifier sign(wᵀx + b): every rate is a normal integral."""

    def __init__(self, rng, d):
        self.mean, self.share = rng.standard_normal(d) / np.sqrt(d), float(rng.uniform(0.3, 0.7))
        self.coef_ = (self.mean + 0.3 * rng.standard_normal(d) / np.sqrt(d))[None]
        self.intercept_ = np.array([0.1 * rng.standard_normal()])
        self.classes_ = np.array([-1, 1])

    def draw(self, rng, n):
        y = np.where(rng.random(n) < self.share, 1, -1)
        return y[:, None] * self.mean + rng.standard_normal((n, len(self.mean))), y

    def decision_function(self, X):
        return X @ self.coef_[0] + self.intercept_[0]

    def predict(self, X):
        return np.where(self.decision_function(X) > 0, 1, -1)

    def robust(self, ball):
        """P(y f(x̂) > 0 for all x̂ in the ball)."""
        w = self.coef_[0]
        lost = ball.eps * np.linalg.norm(w, {np.inf: 1, 2: 2, 1: np.inf}[ball.norm])
        sides = [(y * (y * w @ self.mean + self.intercept_[0]) - lost) / np.linalg.norm(w) for y in (-1, 1)]  # fmt: skip
        return float((1 - self.share) * ndtr(sides[0]) + self.share * ndtr(sides[1]))


def farthest(model, X, y, ball, times=1.0):
    """The best perturbation of a linear model: the whole step against the class, clipped to a box (ℓ∞)."""
    v = y[:, None] * model.coef_[0]
    if ball.norm == np.inf:
        step = np.sign(v)
    elif ball.norm == 2:
        step = v / np.linalg.norm(v, axis=1, keepdims=True)
    else:
        step = np.sign(v) * (np.abs(v) == np.abs(v).max(axis=1, keepdims=True))
    rows = X - times * (1 - 1e-12) * ball.eps * step
    return rows if ball.low is None else np.clip(rows, ball.low, ball.high)


@problems(seeds=300, quick=3)
def linear_models(seed):
    """The best attack; one that leaves rows alone, one that does not project, a false rate; a hair beside the true accuracy."""
    rng = np.random.default_rng(seed)
    d, n = int(rng.choice([2, 20])), int(rng.choice([100, 1000]))
    law, norm = LinearLaw(rng, d), (np.inf, 2, 1)[seed % 3]
    X, y = law.draw(rng, n)
    ball = Around(float(rng.uniform(0.02, 0.3)) * (1 if norm == np.inf else d**0.5), norm)
    if seed % 4 == 0:
        X = X.astype(np.float32)
    best, robust = farthest(law, X, y, ball).astype(X.dtype), law.robust(ball)
    asked = {"robust": robust, "class": max(law.share, 1 - law.share)}
    legal = {"perturbations_legal": True, "statements_true": True}
    easy = (*legal, "worst_case_reached")
    for shift in (-HAIR, HAIR):
        found = judge(law, X, y, ball, best, at_least=robust + shift)
        true = {**legal, "worst_case_reached": True, "robust_accuracy": shift < 0}
        yield Case(f"best attack, {shift:g} beside", found, true, easy)
    found = judge(law, X, y, ball, best)
    yield Case("against a class", found, {"robust_accuracy": robust >= asked["class"]})
    far = 0.2 if robust > 0.6 else -0.2
    found = judge(law, X, y, ball, best, at_least=robust - far)
    yield Case("far apart", found, {"robust_accuracy": far > 0}, ("robust_accuracy",) * (n == 1000))
    fooled = law.predict(best) != y
    left = np.flatnonzero(fooled & (law.predict(X) == y))
    if len(left):
        weak = best.copy()
        weak[left[::2]] = X[left[::2]]
        found = judge(law, X, y, ball, weak, at_least=robust + HAIR)
        true = {**legal, "worst_case_reached": False, "robust_accuracy": False}
        yield Case("rows left alone", found, true, ("worst_case_reached",))
        said = fooled.copy()
        said[left[0]] = False
        found = judge(law, X, y, ball, best, by_attack={"PGD": said})
        yield Case("one row stated otherwise", found, {"statements_true": False}, ("statements_true",))  # fmt: skip
    for times in (1.001, 3.0):
        found = judge(law, X, y, ball, farthest(law, X, y, ball, times), at_least=robust - HAIR)
        true = {"perturbations_legal": False, "statements_true": True, "robust_accuracy": True}
        yield Case(f"not projected, {times:g} ε", found, true, ("perturbations_legal",))


@problems(seeds=100, quick=2)
def linear_models_in_a_box(seed):
    """Three classes of scikit-learn in the unit cube, ℓ∞: the ends of the box count; beyond it is illegal."""
    rng = np.random.default_rng(seed)
    d = int(rng.choice([3, 12]))
    X = rng.random((300, d))
    y = (X @ rng.standard_normal((d, 3)) + 0.3 * rng.standard_normal((300, 3))).argmax(axis=1)
    y[:3] = 0, 1, 2
    model = LogisticRegression(C=10).fit(X, y)
    X, y = X[100:], y[100:]
    ball = Around(float(rng.uniform(0.02, 0.3)), np.inf, 0.0, 1.0)
    scores = [np.clip(X - ball.eps * np.sign(model.coef_[y] - w), 0, 1) for w in model.coef_]
    worst = [((rows @ (model.coef_[y] - w).T).diagonal() + model.intercept_[y] - b)
             for rows, w, b in zip(scores, model.coef_, model.intercept_, strict=True)]  # fmt: skip
    worst = np.where(np.arange(3)[:, None] == y, np.inf, worst)
    best = np.stack(scores)[worst.argmin(axis=0), np.arange(len(y))]
    legal = {"perturbations_legal": True, "statements_true": True}
    found = judge(model, X, y, ball, best, exact=worst.min(axis=0))
    yield Case("best attack", found, {**legal, "worst_case_reached": True}, (*legal, "worst_case_reached"))  # fmt: skip
    found = judge(model, X, y, ball, best, exact=worst.min(axis=0) + 1e-6)
    yield Case("margins off", found, {"statements_true": False}, ("statements_true",))
    if (worst.min(axis=0) < 0).any() and not (model.predict(best) == y).all():
        rows = np.where(model.predict(X)[:, None] == y[:, None], X, best)
        if ((model.predict(best) != y) & (model.predict(X) == y)).any():
            found = judge(model, X, y, ball, rows)
            yield Case("no attack", found, {**legal, "worst_case_reached": False}, ("worst_case_reached",))  # fmt: skip
    outside = X - ball.eps * np.sign(model.coef_[y] - model.coef_[(y + 1) % 3])
    if ((outside < 0) | (outside > 1)).any():
        found = judge(model, X, y, ball, outside)
        yield Case("outside the box", found, {"perturbations_legal": False}, ("perturbations_legal",))  # fmt: skip


@dataclass
class Noisy:
    """A linear model that adds noise to its input at every call; a little, or by the place in the batch."""

    law: LinearLaw
    size: float
    by_place: bool = False
    calls: int = 0

    def predict(self, X):
        self.calls += 1
        rng = np.random.default_rng(0 if self.by_place else self.calls)
        return self.law.predict(X + self.size * rng.standard_normal(X.shape))

    @property
    def classes_(self):
        return self.law.classes_


@problems(seeds=60, quick=2)
def two_answers(seed):
    """Noise inside, drawn anew at every call or by the place in the batch: no row proves anything."""
    rng = np.random.default_rng(seed)
    law = LinearLaw(rng, 10)
    X, y = law.draw(rng, 500)
    ball = Around(0.5, 2)
    best = farthest(law, X, y, ball)
    for by_place in (False, True):
        model = Noisy(law, 0.5, by_place)
        certificate = judge(model, X, y, ball, best, at_least=0.05)
        no = dict.fromkeys(("robust_accuracy", "statements_true", "worst_case_reached"), False)
        yield Case("noise by place" if by_place else "noise", certificate, no)
        certificate = judge(model, X, y, ball, best, at_least=0.95)
        yield Case("asked for much", certificate, {"robust_accuracy": True})


# --- networks: slips that pass for robustness --------------------------------------------------------------------------


def train_net(seed, dropout=0.0):
    """A small convolutional network of digits, trained for a second, and rows that it has not seen."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = (X[order] / 16).reshape(-1, 1, 8, 8).astype(np.float32), y[order]
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 24, 3, 2), nn.ReLU(), nn.Flatten(),
        nn.Dropout(dropout), nn.Linear(216, 10),
    )  # fmt: skip
    step = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(12):
        for at in range(0, 1400, 64):
            loss = nn.functional.cross_entropy(
                net(torch.from_numpy(X[at : at + 64])), torch.from_numpy(y[at : at + 64])
            )
            step.zero_grad()
            loss.backward()
            step.step()
    return net.eval(), X[1500:1650], y[1500:1650]


def wrapped(net, change):
    """A module that shows the network changed inputs, or changes what it says."""
    from torch import nn

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            return change(x)

    return Wrapped()


def descend(net, X, y, ball, size, project=True, steps=20):
    """PGD as somebody might write it, on the cross-entropy of float32; `size` makes a step of a gradient."""
    import torch

    x, labels = torch.from_numpy(X), torch.from_numpy(y).long()
    z = x.clone()
    for _ in range(steps):
        z.requires_grad_()
        (g,) = torch.autograd.grad(torch.nn.functional.cross_entropy(net(z), labels), z)
        z = z.detach() + size(g)
        if project:
            z = torch.from_numpy(ball.project(z.flatten(1).numpy(), x.flatten(1).numpy())).reshape(x.shape)  # fmt: skip
    return z.clamp(0, 1).numpy()


@problems(seeds=12, quick=1)
def masked_gradients(seed):
    """Honest networks; gradients cut, inputs rounded, outputs so large that the loss is flat; noise that is drawn inside."""
    import torch

    net, X, y = train_net(seed)
    ball = Ball(float(np.random.default_rng(seed).uniform(0.08, 0.15)))
    honest = {"gradients_not_masked": True, "perturbations_legal": True, "statements_true": True}
    masked = {**honest, "gradients_not_masked": False}

    def under(model, **options):
        return attack(model, X, y, ball, restarts=1, queries=100, **options).certificate_

    yield Case("honest", under(net), honest, tuple(honest))
    # no network of digits is right on 99.9 % of moved rows
    much = {**honest, "robust_accuracy": False}
    yield Case("asked for too much", under(net, at_least=0.999), much, tuple(much))
    yield Case("logits × 1,000", under(wrapped(net, lambda x: 1000 * net(x))), honest, tuple(honest))  # fmt: skip
    cut = wrapped(net, lambda x: net(x.detach()))
    yield Case("zero gradients", under(cut), masked, tuple(masked))
    rounded = wrapped(net, lambda x: net((8 * x).round() / 8))
    yield Case("rounded inputs", under(rounded), masked, tuple(masked))
    noisy = wrapped(net, lambda x: net(x + 0.1 * torch.randn_like(x)))
    no = dict.fromkeys((*honest, "robust_accuracy"), False) | {"perturbations_legal": True}
    yield Case("noise inside", under(noisy, at_least=0.01), no)


@problems(seeds=20, quick=1)
def slips(seed):
    """Attacks of others: none of them projects, steps in ℓ2 that vanish, a flat loss; rates counted in training mode."""
    net, X, y = train_net(seed, dropout=0.5)
    ball, wide = Ball(0.12), Ball(1.0, norm=2)

    def sign(g):
        return 0.02 * g.sign()

    def judged(label, rows, true, around=ball, model=net, **stated):
        return Case(label, judge(model, X, y, around, rows, **stated), true, tuple(true))

    legal = {"perturbations_legal": True, "statements_true": True}
    weak = {**legal, "gradients_not_masked": False}
    yield judged("as it should be", descend(net, X, y, ball, sign), legal)
    far = descend(net, X, y, ball, sign, project=False)
    yield judged("not projected", far, {"perturbations_legal": False, "statements_true": True})
    yield judged("vanishing ℓ2 steps", descend(net, X, y, wide, lambda g: 0.1 * g), weak, wide)
    flat = wrapped(net, lambda x: 1000 * net(x))
    yield judged("a flat loss", descend(flat, X, y, ball, sign), weak, model=flat)
    net.train()
    rows = descend(net, X, y, ball, sign)
    import torch

    with torch.no_grad():
        said = net(torch.from_numpy(rows)).argmax(1).numpy() != y
    yield judged("training mode", rows, {**legal, "statements_true": False}, fooled=said)
    net.eval()


# --- votes under noise ------------------------------------------------------------------------------------------------


@problems(seeds=40, quick=2)
def smoothed(seed):
    """Of a linear model the radius is the distance to the hyperplane: stated less, a little more, by the estimate, by 2σ."""
    rng = np.random.default_rng(seed)
    law, n = LinearLaw(rng, int(rng.choice([2, 30]))), int(rng.choice([100, 1000]))
    X, _ = law.draw(rng, 40)
    sigma = float(rng.choice([0.1, 0.5, 2.0]))
    model = SmoothedClassifier(law, sigma, n, alpha=float(rng.choice([0.001, 0.05])))
    distance = np.abs(law.decision_function(X)) / np.linalg.norm(law.coef_)
    _, honest = model.predict_radius(X)
    said = honest > 0  # the others have no class
    p = ndtr(distance / sigma)
    estimate = rng.binomial(n, p) / n
    at_most = np.minimum(distance, 3 * sigma) + 0.1
    guess = np.where(estimate < 1, sigma * ndtri(np.clip(estimate, 0.5, 1 - 1e-9)), at_most)

    def judge_radii(label, radii, easy=False):
        fit = Fit(model, attributes={"X": X[said], "radius": radii[said]})
        true = bool((radii > distance + 1e-12)[said].mean() <= 0.05)
        certificate = check(SMOOTHING_CLAIMS, fit, "radii")
        return Case(label, certificate, {"radius_certified": true}, ("radius_certified",) * easy)

    yield judge_radii("stated by the model", honest)
    known = np.minimum(distance, 2 * sigma)
    yield judge_radii("nine tenths", 0.5 * known, easy=n == 1000)
    yield judge_radii("a hair less", known * (1 - HAIR))
    yield judge_radii("a hair more", distance * (1 + HAIR) + 1e-9)
    yield judge_radii("estimates without a bound", guess)
    yield judge_radii("twice as far", 2 * distance, easy=False)
    wide = replace_sigma(model, 2 * sigma)
    yield judge_radii("σ twice as large", wide.predict_radius(X)[1])


def replace_sigma(model, sigma):
    """The same classifier with other noise."""
    return SmoothedClassifier(model.model, sigma, model.n, model.alpha)
