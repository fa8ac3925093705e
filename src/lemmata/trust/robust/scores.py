"""Scores of any classifier, and their gradients by the input: what an attacker knows.

    margin of a row   m(x) = s_y(x) − max_{j ≠ y} s_j(x)         the row is fooled where m < 0

White boxes give v ↦ Σ_j v_j ∇s_j(x): torch modules and `Neural*` by autograd, in evaluation mode, restored after; by formula
linear models, `SVC` and `MLPClassifier` (ours and scikit-learn's). A formula is used only where it gives what the model says
of these rows. All else is a black box: scores from `decision_function`, `predict_proba`, or none, and each row asked about is
counted.

The notes' slip: of y ℓ′(y g) ≤ 0 only ℓ′ ≤ 0 is true, for y = −1 the other factor changes the sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

Array = np.ndarray
# (scores (n, K), labels) → v (n, K): how much of the gradient of each score is wanted
Weigh = Callable[[Array, Array], Array]

AT_ONCE = 256  # rows that a network is asked about together
FORMULA_AT_ONCE = 4096


# --- which gradient ---------------------------------------------------------------------------------------------------


def margins(scores: Array, y: Array) -> Array:
    """Return s_y − max_{j ≠ y} s_j of every row."""
    rows = np.arange(len(y))
    others = scores.copy()
    others[rows, y] = -np.inf
    return scores[rows, y] - others.max(axis=1)


def toward_runner_up(scores: Array, y: Array) -> Array:
    """Weigh the scores so that −m grows: the best other class against the label."""
    others = scores.copy()
    others[np.arange(len(y)), y] = -np.inf
    return toward_class(scores, np.column_stack([y, others.argmax(axis=1)]))


def toward_class(scores: Array, pairs: Array) -> Array:
    """Weigh one class, pairs[:, 1], against the label, pairs[:, 0]."""
    rows, v = np.arange(len(pairs)), np.zeros(scores.shape)
    v[rows, pairs[:, 1]] = 1
    v[rows, pairs[:, 0]] -= 1
    return v


def toward_loss(scores: Array, y: Array) -> Array:
    """Weigh the scores so that the cross-entropy grows: p − e_y over 1 − p_y, which is the softmax of the others, minus e_y.

    Steps have a fixed length, so the factor does not matter; without it, nothing vanishes where the model is sure.
    """
    rows = np.arange(len(y))
    v = np.array(scores, dtype=np.float64)
    v[rows, y] = -np.inf
    v -= v.max(axis=1, keepdims=True)
    np.exp(v, out=v)
    v /= v.sum(axis=1, keepdims=True)
    v[rows, y] = -1
    return v


# --- targets ----------------------------------------------------------------------------------------------------------


class Target:
    """A classifier as an attacker sees it: rows are flat, (n, d); labels are places in `classes`; `asked` counts rows."""

    white = False  # whether it gives gradients
    decides_only = False  # whether its scores are 1 of the class that it says, 0 of the others
    at_once = FORMULA_AT_ONCE

    def __init__(self, model: Any, classes: Array, shape: tuple[int, ...]):
        self.model, self.classes, self.shape, self.asked = model, classes, shape, 0

    def _scores(self, Z: Array) -> Array:
        raise TypeError(f"{type(self).__name__} defines no scores.")

    def _pull(self, Z: Array, y: Array, weigh: Weigh) -> tuple[Array, Array]:
        raise TypeError(f"{type(self).__name__} gives no gradients.")

    def ready(self) -> Any:
        """Return a context in which the model may be asked."""
        return nullcontext()

    def agrees(self, rows: Array) -> bool:
        """Compare the formula with the model's own scores."""
        own = np.asarray(self.model.decision_function(rows.reshape(len(rows), *self.shape)))
        return np.allclose(self._scores(rows), _two_columns(own), rtol=1e-4, atol=1e-6)

    def _parts(self, n: int) -> Iterator[slice]:
        self.asked += n
        yield from (slice(at, at + self.at_once) for at in range(0, n, self.at_once))

    def scores(self, Z: Array) -> Array:
        """Return the score of every class, (n, K)."""
        return _check(np.concatenate([self._scores(Z[part]) for part in self._parts(len(Z))]))

    def pull(self, Z: Array, y: Array, weigh: Weigh) -> tuple[Array, Array]:
        """Return the scores and Σ_j v_j ∇s_j, (n, d), for the v that `weigh` makes of them."""
        found = [self._pull(Z[part], y[part], weigh) for part in self._parts(len(Z))]
        scores, G = found[0] if len(found) == 1 else map(np.concatenate, zip(*found, strict=True))
        return _check(scores), _check(G, "gradients")

    def decide(self, Z: Array) -> Array:
        """Return the places of the classes that the model itself says."""
        self.asked += len(Z)
        said = np.asarray(self.model.predict(Z.reshape(len(Z), *self.shape)))
        return places_of(said, self.classes)


def _check(found: Array, what: str = "scores") -> Array:
    if not math.isfinite(found.min()) or not math.isfinite(found.max()):
        raise ValueError(f"the model gives {what} that are not finite; an attack cannot follow them.")  # fmt: skip
    return found


def places_of(labels: Any, classes: Array) -> Array:
    """Return the places of labels among the classes; ValueError names labels that the model does not know."""
    labels = column_or_1d(np.asarray(labels))
    order = np.argsort(classes)
    at = order[np.minimum(np.searchsorted(classes, labels, sorter=order), len(classes) - 1)]
    if len(unknown := np.unique(labels[classes[at] != labels])):
        raise ValueError(
            f"y holds {unknown[:5].tolist()}, which the model does not know; its classes are {classes[:10].tolist()}"
            f"{' …' if len(classes) > 10 else ''}."
        )
    return at


class ModuleTarget(Target):
    """A torch module from (n, *shape) to one score for each class, or to one logit for two."""

    white, at_once = True, AT_ONCE

    def __init__(self, model: Any, classes: Array | None, shape: tuple[int, ...], module: Any):
        import torch

        self.module = module
        like = next(module.parameters(), torch.zeros(0))
        self.device, self.dtype = like.device, like.dtype
        super().__init__(model, np.arange(0) if classes is None else classes, shape)

    def ready(self) -> Any:
        return evaluating(self.module)

    def count_classes(self, rows: Array) -> None:
        """Learn from one row how many classes a plain module has."""
        self.classes = np.arange(self._scores(rows[:1]).shape[1])

    def _tensor(self, Z: Array) -> Any:
        import torch

        x = torch.as_tensor(np.ascontiguousarray(Z)).to(self.device, self.dtype)
        return x.reshape(-1, *self.shape)

    def _outputs(self, x: Any) -> Any:
        out = self.module(x)
        if out.ndim != 2 or not out.is_floating_point():
            raise ValueError(
                f"the module gives {tuple(out.shape)} for {len(x)} rows; attacks need a score per class, (n, classes)."
            )
        return out

    def _scores(self, Z: Array) -> Array:
        import torch

        with torch.no_grad():
            return _two_columns(self._outputs(self._tensor(Z)).double().cpu().numpy())

    def _pull(self, Z: Array, y: Array, weigh: Weigh) -> tuple[Array, Array]:
        import torch

        with torch.enable_grad():
            x = self._tensor(Z).requires_grad_()
            out = self._outputs(x)
            scores = _two_columns(out.detach().double().cpu().numpy())
            v = weigh(scores, y)
            if out.shape[1] == 1:
                v = (v[:, [1]] - v[:, [0]]) / 2
            if not out.requires_grad:  # the module cuts the graph itself
                return scores, np.zeros_like(Z)
            (found,) = torch.autograd.grad(out, x, torch.as_tensor(v).to(out), allow_unused=True)
        G = np.zeros_like(Z) if found is None else found.reshape(len(Z), -1).cpu().numpy()
        return scores, G.astype(Z.dtype, copy=False)

    def decide(self, Z: Array) -> Array:
        if self.model is not self.module:
            return super().decide(Z)
        return self.scores(Z).argmax(axis=1)


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Put a module into evaluation mode, and every part of it back into its own mode after."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def _two_columns(scores: Array) -> Array:
    """Scores −s/2, s/2 of a single one, of which s > 0 says the second class: the margin is then ±s."""
    scores = scores.reshape(len(scores), -1)
    return np.hstack([-scores / 2, scores / 2]) if scores.shape[1] == 1 else scores


class LinearTarget(Target):
    """s = Wx + b."""

    white = True

    def __init__(self, model: Any, classes: Array, shape: tuple[int, ...]):
        super().__init__(model, classes, shape)
        given = model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_
        W = np.atleast_2d(np.asarray(given, dtype=np.float64))
        b = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), len(W))
        self.W: Array = np.vstack([-W, W]) / 2 if len(W) == 1 else W
        self.b: Array = np.hstack([-b, b]) / 2 if len(W) == 1 else b

    def _scores(self, Z: Array) -> Array:
        return Z @ self.W.T + self.b

    def _pull(self, Z: Array, y: Array, weigh: Weigh) -> tuple[Array, Array]:
        scores = self._scores(Z)
        return scores, (weigh(scores, y) @ self.W).astype(Z.dtype)


class PerceptronTarget(Target):
    """ψ = z_L(… φ(z₁(x))), and back: δ ← (δΘᵀ) ⊙ φ′ down to the input."""

    white = True

    def agrees(self, rows: Array) -> bool:
        own = self.model.predict_proba(rows.reshape(len(rows), *self.shape))
        return np.allclose(softmax(self._scores(rows), axis=1), own, rtol=1e-3, atol=1e-6)

    def _forward(self, Z: Array) -> tuple[Array, list[tuple[Array, Array | None]]]:
        from lemmata.nets.mlp.network import ACTIVATIONS

        phi, h, kept = ACTIVATIONS[self.model.activation], np.asarray(Z, dtype=np.float64), []
        for k, (W, b) in enumerate(zip(self.model.coefs_, self.model.intercepts_, strict=True)):
            h = h @ W + b
            if k < len(self.model.coefs_) - 1:
                slope = np.empty_like(h) if phi.keeps_slope else None
                phi.into(h, slope)
                kept.append((h, slope))
        return h, kept

    def _scores(self, Z: Array) -> Array:
        return _two_columns(self._forward(Z)[0])

    def _pull(self, Z: Array, y: Array, weigh: Weigh) -> tuple[Array, Array]:
        from lemmata.nets.mlp.network import ACTIVATIONS

        psi, kept = self._forward(Z)
        scores = _two_columns(psi)
        v = weigh(scores, y)
        delta = (v[:, [1]] - v[:, [0]]) / 2 if psi.shape[1] == 1 else v
        for W, (h, slope) in zip(self.model.coefs_[:0:-1], reversed(kept), strict=True):
            delta = delta @ W.T
            ACTIVATIONS[self.model.activation].times_slope(delta, h, slope)
        return scores, (delta @ self.model.coefs_[0].T).astype(Z.dtype)


class KernelTarget(Target):
    """The duels f = Dk(x) + b of an SVC: s = ±f/2 of two classes; of more, the votes, with Σ_j tanh f_ij for their gradient.

    rbf  k = e^{−γ‖x − s‖²},  −2γk(x − s)        poly  k = (γxᵀs + r)^p,  pγ(…)^{p−1}s        sigmoid  k = tanh(…),  γ(1 − k²)s
    """

    white = True

    def __init__(self, model: Any, classes: Array, shape: tuple[int, ...]):
        super().__init__(model, classes, shape)
        dense = getattr(model.support_vectors_, "toarray", lambda: model.support_vectors_)
        self.S = np.asarray(dense(), dtype=np.float64)
        self.gamma = float(getattr(model, "gamma_", getattr(model, "_gamma", 0)))
        beta, K = np.asarray(model.dual_coef_), len(classes)
        ends = np.cumsum([0, *model.n_support_])
        self.D, self.b = beta, np.asarray(model.intercept_)
        self.sides = np.array([[-0.5], [0.5]])  # (K, duels): whom a positive duel speaks for
        if K > 2:
            pairs = [(i, j) for i in range(K) for j in range(i + 1, K)]
            self.D, self.sides = np.zeros((len(pairs), len(self.S))), np.zeros((K, len(pairs)))
            for at, (i, j) in enumerate(pairs):
                for one, other, sign in ((i, j - 1, 1), (j, i, -1)):
                    own = slice(ends[one], ends[one + 1])
                    self.D[at, own], self.sides[one, at] = beta[other, own], sign

    def agrees(self, rows: Array) -> bool:
        if len(self.classes) == 2:
            return super().agrees(rows)
        own, c = self.model.decision_function(rows), self._fight(rows)[0] @ self.sides.T
        return np.allclose(own - np.rint(own), c / (3 * (np.abs(c) + 1)), rtol=1e-3, atol=1e-5)

    def _fight(self, Z: Array) -> tuple[Array, Array, Array]:
        """Return (f, k, ∂k by its argument: by −γ‖x − s‖² of rbf, by γxᵀs of the others)."""
        inner, model = np.asarray(Z, dtype=np.float64) @ self.S.T, self.model
        if model.kernel == "rbf":
            far = np.square(Z).sum(1, keepdims=True) + np.square(self.S).sum(1) - 2 * inner
            k = slope = np.exp(-self.gamma * np.maximum(far, 0))
        elif model.kernel == "linear":
            k, slope = inner, np.full_like(inner, 1 / (self.gamma or 1))
        else:
            inner = self.gamma * inner + model.coef0
            power, k = model.degree, np.tanh(inner)
            slope = 1 - k**2
            if model.kernel == "poly":
                k, slope = inner**power, power * inner ** (power - 1)
        return k @ self.D.T + self.b, k, slope

    def _scores(self, Z: Array) -> Array:
        two = len(self.classes) == 2
        return self._fight(Z)[0] @ self.sides.T if two else self.model.decision_function(Z)

    def _pull(self, Z: Array, y: Array, weigh: Weigh) -> tuple[Array, Array]:
        f, _, slope = self._fight(Z)
        two = len(self.classes) == 2
        scores = f @ self.sides.T if two else self.model.decision_function(Z)
        duels = weigh(scores, y) @ self.sides
        v = (duels if two else duels * (1 - np.tanh(f) ** 2)) @ self.D * slope * (self.gamma or 1)
        if self.model.kernel == "rbf":
            return scores, (2 * (v @ self.S - v.sum(axis=1, keepdims=True) * Z)).astype(Z.dtype)
        return scores, (v @ self.S).astype(Z.dtype)


class BlackBox(Target):
    """A classifier that answers: `decision_function`, `predict_proba`, or only `predict`."""

    def __init__(self, model: Any, classes: Array, shape: tuple[int, ...], rows: Array):
        super().__init__(model, classes, shape)
        self.method = None
        for name in ("decision_function", "predict_proba"):
            try:
                found = np.asarray(getattr(model, name)(rows.reshape(len(rows), *shape)))
            except AttributeError:  # some classes have it only with certain parameters
                continue
            found = _two_columns(found)
            if found.shape == (len(rows), len(classes)) and (found.argmax(1) == self.decide(rows)).all():  # fmt: skip
                self.method = name
                break
        self.decides_only, self.asked = self.method is None, 0

    def _scores(self, Z: Array) -> Array:
        if self.method is None:
            said = places_of(self.model.predict(Z.reshape(len(Z), *self.shape)), self.classes)
            return np.eye(len(self.classes))[said]
        found = np.asarray(getattr(self.model, self.method)(Z.reshape(len(Z), *self.shape)))
        return _two_columns(found.astype(np.float64))


# --- which target -----------------------------------------------------------------------------------------------------


def _votes_are_read(model: Any) -> bool:
    shown = len(model.classes_) == 2 or model.decision_function_shape == "ovr"
    return model.kernel in ("linear", "rbf", "poly", "sigmoid") and shown


# what a model must have for a formula, and when it suits
FORMULAS: tuple[tuple[type[Target], str, Callable[[Any], bool]], ...] = (
    (KernelTarget, "support_vectors_ dual_coef_ n_support_ kernel decision_function", _votes_are_read),
    (PerceptronTarget, "coefs_ intercepts_ activation out_activation_ predict_proba",
     lambda model: model.out_activation_ == "softmax" or model.n_outputs_ == 1),
    (LinearTarget, "coef_ intercept_ decision_function", lambda model: True),
)  # fmt: skip


def read_target(model: Any, rows: Array, shape: tuple[int, ...]) -> Target:
    """Return the target for a fitted model that takes rows (n, d) as (n, *shape); some are asked about, to check a formula."""
    if hasattr(model, "modules") and hasattr(model, "eval"):  # a torch module
        module = ModuleTarget(model, None, shape, model)
        with module.ready():
            module.count_classes(rows)
        return module
    if isinstance(model, type) or not hasattr(model, "predict"):
        raise TypeError(f"{model!r:.80} has no predict: pass a fitted classifier or a torch module.")  # fmt: skip
    if hasattr(model, "get_params"):
        check_is_fitted(model)
    some = rows[:64]
    if not hasattr(model, "classes_"):
        said = np.asarray(model.predict(rows.reshape(len(rows), *shape)))
        raise TypeError(
            f"a {type(model).__name__} has no classes_, and says {said[:3].tolist()}: pass a classifier."
        )
    classes = np.asarray(model.classes_)
    if hasattr(model, "module_") and hasattr(model, "input_shape_"):
        size = math.prod(model.input_shape_)
        if size == rows.shape[1]:
            return ModuleTarget(model, classes, tuple(model.input_shape_), model.module_)
    for formula, needs, suits in FORMULAS:
        try:
            if all(hasattr(model, name) for name in needs.split()) and suits(model):
                target = formula(model, classes, shape)
                if target.agrees(some):
                    return target
        except (ValueError, AttributeError, TypeError, IndexError):
            continue  # it only looks like one of these
    return BlackBox(model, classes, shape, some)
