"""Claims about a model under attack: an attack is a search, and what is claimed rests on the rows that it hands over.

    robust accuracy   P(f(x̂) = y for every x̂ with ‖x̂ − x‖ ≤ ε in the box)

A row x̂ in the ball and the box on which the model errs is a proof against one row; their count bounds the robust accuracy
from above, however they were found. No attack bounds it from below: one that finds nothing may be weak. Bounds from below come
from the closed form of a linear model, the linear piece of a dense ReLU net, and votes under noise (randomized smoothing). Rows
are draws, so both counts become bounds on new rows (Clopper–Pearson).

Where a model gives one input two answers, no row proves anything and nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import discrepancy, statements_true
from lemmata.audit.kernel.concentration import clopper_pearson
from lemmata.audit.trust import smoothed_votes, worst_case
from lemmata.audit.trust.generalisation import RISK, condition_of, rows_unseen

Array = np.ndarray

MISSED = 0.01  # of the rows that others fool: what an attack by gradients may miss
POINTS = 32  # random points around each row
AT_ONCE = 512  # rows
SOURCE = "ML Adversarial ML"


# --- what the model answers -------------------------------------------------------------------------------------------


def answer(model: Any, X: Array) -> Array:
    """Return the class of every row; a torch module is asked in evaluation mode, its largest output is the class."""
    if hasattr(model, "predict"):
        return np.asarray(model.predict(X))
    scores = _outputs(model, X)
    return (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)


def _outputs(model: Any, X: Array) -> Array:
    import torch

    modes = [(part, part.training) for part in model.modules()]
    like = next(model.parameters(), torch.zeros(()))
    try:
        model.eval()
        with torch.no_grad():
            rows = np.ascontiguousarray(X)  # torch takes no negative strides
            parts = [model(torch.as_tensor(rows[at : at + AT_ONCE]).to(like)).double().cpu().numpy()
                     for at in range(0, len(X), AT_ONCE)]  # fmt: skip
    finally:
        for part, mode in modes:
            part.training = mode
    scores = np.concatenate(parts)
    return scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores


def scores_of(model: Any, X: Array) -> Array | None:
    """Return what the model says besides its classes, as numbers; None where it says nothing."""
    for name in ("decision_function", "predict_proba"):
        if hasattr(model, name):
            return np.asarray(getattr(model, name)(X), np.float64)
    return None if hasattr(model, "predict") else _outputs(model, X)


def find_two_answers(model: Any, X: Array) -> str:
    """Say where the model answers one input in two ways: asked again, or in other company. Empty where it does not."""
    first = answer(model, X)
    if (first != answer(model, X)).any():
        return "the model gives one input two classes, asked twice"
    if (first != answer(model, X[::-1])[::-1]).any():
        return "the class of an input depends on the rows that come with it"
    scores = scores_of(model, X)
    if scores is not None:
        again, size = scores_of(model, X), max(float(np.abs(scores).max()), 1e-300)
        if not np.abs(scores - again).max() <= 1e-9 * size:
            return "the model gives one input two scores, asked twice"
    return ""


# --- the rows of an attack --------------------------------------------------------------------------------------------


def excess_of(ball: Any, X: Array, rows: Any) -> Array:
    """Return by how much every row leaves ball or box, in units of the rounding it may have: at most 1 is legal."""
    X, given = np.asarray(X), np.asarray(rows)
    if given.shape != X.shape:
        return np.full(len(X), np.inf)
    x, z = (part.reshape(len(X), -1).astype(np.float64) for part in (X, given))
    # a row in float32 is as near to x + δ as its numbers allow
    coarse = given.dtype == np.float32 or bool((z == z.astype(np.float32)).all())
    unit = 4 * np.finfo(np.float32 if coarse else np.float64).eps
    order = {np.inf: np.inf, 2.0: 2, 1.0: 1}[float(ball.norm)]
    slack = np.linalg.norm(unit * (np.abs(x) + np.abs(z)), order, axis=1)
    slack = slack + unit * np.sqrt(x.shape[1]) * ball.eps + np.finfo(float).tiny
    with np.errstate(invalid="ignore"):
        over = (np.linalg.norm(z - x, order, axis=1) - ball.eps) / slack
        low, high = worst_case.end_of(ball.low, -np.inf), worst_case.end_of(ball.high, np.inf)
        finite = [float(np.abs(end).max()) for end in (low, high) if np.isfinite(end).all()]
        for beyond in (low - z, z - high):
            over = np.maximum(over, beyond.max(axis=1) / (unit * (max(finite, default=0.0) or 1.0)))
    return np.where(np.isfinite(z).all(axis=1), np.maximum(over, 0.0), np.inf)


@dataclass(frozen=True)
class UnderAttack:
    """The answers of a model, asked again: at the rows and at what each attack made of them."""

    classes: Array  # (n,) the answers at X
    clean: Array  # (n,) right at X
    # by attack, and "" for `adversarial`: (n,) the answer there is wrong, by how much the row is illegal
    wrong: Mapping[str, Array]
    excess: Mapping[str, Array]
    places: Array  # (n,) of y among the classes of the model, −1 where it has no such class
    two_answers: str

    @property
    def proved_wrong(self) -> Array:
        """(n,) rows that the model gets wrong at X, or at a legal row of some attack."""
        return ~self.clean | self.fooled_by(self.wrong)

    def fooled_by(self, names: Any) -> Array:
        found = np.zeros(len(self.clean), bool)
        for name in names:
            found |= self.clean & self.wrong[name] & (self.excess[name] <= 1)
        return found


@k.fact(cost=k.free)
def under_attack(fit: k.Fit) -> UnderAttack:
    """Ask the model again."""
    X, y = np.asarray(fit.X), np.asarray(fit.y)
    rows = {"": fit.adversarial, **(fit.get("witnesses") or {})}
    classes = answer(fit.model, X)
    excess = {name: excess_of(fit.ball, X, one) for name, one in rows.items()}
    wrong, two = {}, find_two_answers(fit.model, X)
    for name, one in rows.items():
        usable = np.isfinite(excess[name])
        wrong[name] = np.zeros(len(X), bool)
        if usable.any():
            wrong[name][usable] = answer(fit.model, np.asarray(one)[usable]) != y[usable]
    if not two and np.isfinite(excess[""]).all():
        two = find_two_answers(fit.model, np.asarray(fit.adversarial))
    known = list(getattr(fit.model, "classes_", range(int(y.max()) + 1 if y.dtype.kind in "iu" else 0)))  # fmt: skip
    places = np.array([known.index(one) if one in known else -1 for one in y.tolist()], int)
    return UnderAttack(classes, classes == y, wrong, excess, places, two)


def asked_once(fit: k.Fit) -> UnderAttack:
    """Return the answers. Raises CannotTell where one input gets two."""
    found = under_attack(fit)
    if found.two_answers:
        raise k.CannotTell(f"{found.two_answers}: no row proves anything about it")
    return found


@k.proved("every row of every attack is in the ball and in the box", SOURCE)
def perturbations_legal(fit):
    """‖x̂ − x‖ ≤ ε and low ≤ x̂ ≤ high, to the rounding of the rows' type."""
    excess = {name: float(over.max(initial=0.0)) for name, over in under_attack(fit).excess.items()}
    worst = max(excess, key=lambda name: excess[name])
    count = int((under_attack(fit).excess[worst] > 1).sum())
    of = worst or "the strongest attack"
    advice = f"{count:,} rows of {of} are illegal: project after every step"
    return k.at_most(excess[worst], 1.0, advice, unit="beyond / rounding")


def _statement_errors(fit: k.Fit) -> dict[str, float | None]:
    """Rates by counting again; margins and radii where they can be recomputed. 0 or a count of wrong rows."""
    found = asked_once(fit)
    errors: dict[str, float | None] = {"clean": _count_false(fit.clean, found.clean)}
    errors["fooled"] = _count_false(fit.fooled, found.wrong[""], found.clean)
    for name, stated in (fit.get("by_attack") or {}).items():
        if name in found.wrong:
            errors[name] = _count_false(stated, found.wrong[name], found.clean)
    if fit.get("exact") is not None:
        known = linear_worst_case(fit)
        errors["exact"] = None if known is None else discrepancy(fit.exact, known[0], known[1], 1.0)
    if fit.get("radius") is not None and not smoothed_votes.is_smoothed(fit.model):
        known = dense_worst_case(fit)
        over = None if known is None else np.asarray(fit.radius) - known * (1 + 1e-6) - 1e-12
        errors["radius"] = None if over is None else float((over > 0).sum())
    return errors


def _count_false(stated: Any, true: Array, clean: Array | None = None) -> float:
    """Count the rows that are stated otherwise; of rows that are wrong from the start, all or none count as fooled."""
    stated = np.asarray(stated)
    if stated.shape != true.shape or stated.dtype.kind != "b":
        return np.inf
    if clean is None:
        return 2.0 * int((stated != true).sum())
    rest = stated[~clean]
    return 2.0 * int((stated != true)[clean].sum() + min(rest.sum(), (~rest).sum()))


# --- where the worst case is known ------------------------------------------------------------------------------------


def _is_what_it_says(fit: k.Fit, scores_of: Any) -> bool:
    """Whether a formula decides as the model does: at X, and where attacks led. Near ties are left out."""
    classes = np.asarray(getattr(fit.model, "classes_", np.arange(2**15)))
    for X in (np.asarray(fit.X), np.asarray(fit.adversarial)):
        flat = X.reshape(len(X), -1).astype(np.float64)
        if not np.isfinite(flat).all():
            return False
        scores = scores_of(flat)
        best = np.sort(scores, axis=1)
        sure = best[:, -1] - best[:, -2] > 1e-5 * np.abs(scores).max()
        if (classes[scores.argmax(axis=1)] != answer(fit.model, X))[sure].any():
            return False
    return True


@k.fact(cost=k.free)
def linear_worst_case(fit: k.Fit) -> tuple[Array, Array] | None:
    """Return the least margins over the ball and their rounding; None where the model is not linear, or answers otherwise."""
    known = worst_case.linear_map_of(fit.model)
    if known is None or not _is_what_it_says(fit, lambda X: X @ known[0].T + known[1]):
        return None
    return worst_case.linear_margins(*known, fit.X, under_attack(fit).places, fit.ball)


@k.fact(cost=k.free)
def dense_worst_case(fit: k.Fit) -> Array | None:
    """Return ℓ2 radii in which a dense ReLU net keeps the true class; None of other models, or where it answers otherwise."""
    layers = worst_case.dense_layers_of(fit.model)
    if layers is None or not _is_what_it_says(fit, lambda X: worst_case.dense_scores(layers, X)):
        return None
    return worst_case.dense_radii(layers, fit.X, under_attack(fit).places)


@k.proved("the attack fools exactly the rows that the closed form does", SOURCE)
def worst_case_reached(fit):
    """Linear models only: a row can be fooled where min_j (w_y − w_j)ᵀx + b_y − b_j − ε‖w_y − w_j‖_* < 0; ties are left out."""
    found, known = asked_once(fit), linear_worst_case(fit)
    if known is None:
        return k.unknown("a closed form is known of linear models only")
    margins, error = known
    fooled = found.proved_wrong
    missed = int(((margins < -error) & ~fooled).sum())
    beyond = int(((margins > error) & fooled).sum())
    note = f"closed form {np.mean(margins < 0):.3f} wrong, attack {np.mean(fooled):.3f}"
    advice = "rows were fooled beyond the closed form: the model is not what it says"
    if missed:
        advice = "the attack is too weak: more steps or restarts"
    return k.at_most(missed + beyond, 0, advice, unit="rows apart", note=note)


# --- new rows ---------------------------------------------------------------------------------------------------------


def proved_rows(fit: k.Fit) -> tuple[Array, str, float] | None:
    """Return which rows are right all over the ball, by what, and at which risk for each; None where nothing proves it."""
    found = asked_once(fit)
    if (known := linear_worst_case(fit)) is not None:
        return known[0] > known[1], "closed form", 0.0
    reach = smoothed_votes.reach_of(fit.ball, int(np.prod(np.shape(fit.X)[1:])))
    if smoothed_votes.is_smoothed(fit.model):
        radii = smoothed_votes.certify_again(fit.model, np.asarray(fit.X), found.classes)
        by = "votes under fresh noise, were there no end of them"
        return found.clean & (radii >= reach), by, float(fit.model.alpha)
    radii = dense_worst_case(fit)
    return None if radii is None else (radii > reach, "linear pieces of the net", 0.0)


@k.statistical(
    "on new rows, whatever the perturbation, right as often as was asked for, or as the most frequent class",
    f"{SOURCE}; Clopper–Pearson",
    confidence=1 - RISK,
)
def robust_accuracy(fit):
    """Attacked rows bound it from above, proved rows from below; half of the risk is for the share of the classes."""
    found = asked_once(fit)
    flat = fit.X if np.ndim(fit.X) == 2 else np.asarray(fit.X).reshape(len(fit.y), -1)
    train = fit.get("train")  # of a torch module this is a method
    known = {"X": flat, "train": None if callable(train) else train}
    judged = rows_unseen.check(k.Fit(fit.model, None, fit.y, attributes=known))
    condition = condition_of(flat, len(fit.y), judged)
    n, delta, asked = len(found.clean), RISK, fit.get("at_least")
    share = 2 * delta if asked is not None else delta  # clopper_pearson halves it: one end is used
    upper = clopper_pearson(int((~found.proved_wrong).sum()), n, share)[1]
    _, counts = np.unique(fit.y, return_counts=True)
    low, high, what = asked, asked, "the share asked for"
    if asked is None:
        low = max(clopper_pearson(int(c), n, delta / len(counts))[0] for c in counts)
        high = max(clopper_pearson(int(c), n, delta)[1] for c in counts)
        what = "the most frequent class"
    compared = f"compared with {what}; {condition}".rstrip("; ")
    if upper < low:
        advice = "train against the attack (AdversarialTraining), or ask for a smaller ε"
        note = f"{np.mean(~found.proved_wrong):.3f} of these rows withstand; {compared}"
        return k.at_least(upper, low, advice, unit="at most", note=note)
    if (proof := proved_rows(fit)) is None:
        why = "an attack that finds nothing proves no bound from below"
        return k.unknown(f"at most {upper:.3f}; {why}")
    rows, by, risk = proof
    if risk == 0 and (rows & found.proved_wrong).any():
        why = "calls safe were fooled: the model is not what it says"
        return k.unknown(f"rows that the {by} {why}")
    lower = clopper_pearson(int(rows.sum()), n, share)[0] - risk
    if lower >= high:
        return k.at_least(lower, high, unit="at least", note=f"by {by}; {compared}")
    ends = f"{what} has {low:.3f} to {high:.3f}"
    return k.unknown(f"between {lower:.3f} ({by}) and {upper:.3f}; {ends}")


# --- do the gradients show the way? -----------------------------------------------------------------------------------


def is_white(name: str) -> bool:
    """Whether an attack goes by gradients, by its name."""
    return name.lower().startswith(("fgsm", "pgd"))


def random_points(ball: Any, X: Array, seed: int) -> Array:
    """Return a point on the ball around every row, clipped to the box: corners for ℓ∞, directions for ℓ2, an axis for ℓ1."""
    rng, x = np.random.default_rng(seed), X.reshape(len(X), -1)
    if float(ball.norm) == np.inf:
        step = ball.eps * rng.choice([-1.0, 1.0], x.shape)
    elif float(ball.norm) == 2:
        step = rng.standard_normal(x.shape)
        step *= ball.eps / np.linalg.norm(step, axis=1, keepdims=True)
    else:
        step = np.zeros(x.shape)
        step[np.arange(len(x)), rng.integers(0, x.shape[1], len(x))] = ball.eps * rng.choice([-1.0, 1.0], len(x))  # fmt: skip
    low, high = worst_case.end_of(ball.low, -np.inf), worst_case.end_of(ball.high, np.inf)
    points = np.clip(x + 0.999 * step, low, high)
    return points.reshape(X.shape).astype(X.dtype)


@k.rule_of_thumb(
    "random points, other attacks or a smaller ε fool at most 1 % of the rows where gradients do not, and these are 0 on at "
    "most 1 %; for ε = the whole range at most 1 % withstand",
    f"{SOURCE}; Athalye, Carlini & Wagner 2018",
)
def gradients_not_masked(fit):
    """Rows that were fooled without gradients are witnesses of what gradients missed; so is any row of another class for
    ε = the whole range, within which all of X lies."""
    found, names = asked_once(fit), list(fit.get("witnesses") or {})
    white = [name for name in names if is_white(name)]
    if not white:
        return k.unknown("no attack by gradients was made")
    hit, n = found.fooled_by(white), len(found.clean)
    X, y = np.asarray(fit.X), np.asarray(fit.y)
    missed = {name: found.fooled_by([name]) & ~hit for name in names if not is_white(name)}
    around = np.zeros(n, bool)
    for seed in range(POINTS):
        points = random_points(fit.ball, X, seed)
        around |= (answer(fit.model, points) != y) & (excess_of(fit.ball, X, points) <= 1)
    missed["random points"] = found.clean & around & ~hit
    for what, eps in (("half of ε", fit.ball.eps / 2), ("the whole range", _whole(fit.ball, X))):
        ball = replace(fit.ball, eps=eps)
        rows = fit.witness("attack_by_gradients", ball)
        if rows is None:
            continue
        there = (answer(fit.model, rows) != y) & (excess_of(ball, X, rows) <= 1) & found.clean
        if what == "half of ε":
            missed[what] = there & ~hit
        else:  # rows of another class lie within: something fools this one
            reachable = np.array([(found.classes != one).any() for one in y.tolist()])
            missed[what] = found.clean & reachable & ~there
    worst = max(missed, key=lambda name: missed[name].sum())
    advice = f"{worst} shows it: add attacks without gradients; the rate is an upper bound only"
    share = float(missed[worst].mean())
    if share > MISSED:
        return k.at_most(share, MISSED, advice, unit="rows missed", note=worst, kind=k.PROVED,
                         witness={"rows": np.flatnonzero(missed[worst])})  # fmt: skip
    slopes = fit.witness("input_gradients")
    if slopes is None:
        return k.unknown(f"{share:.3f} of the rows missed, and nobody looked at gradients")
    flat = ~np.asarray(slopes).reshape(n, -1).any(axis=1) & found.clean
    if flat.mean() > MISSED:
        advice = "gradients are 0 where the model is right: they show no way; attack without them"
        return k.at_most(float(flat.mean()), MISSED, advice, unit="rows without a gradient")
    return k.at_most(max(share, float(flat.mean())), MISSED, unit="rows missed")


def _whole(ball: Any, X: Array) -> float:
    """ε at which the ball around every row holds all rows."""
    width = np.ptp(X.reshape(len(X), -1).astype(np.float64), axis=0)
    order = {np.inf: np.inf, 2.0: 2, 1.0: 1}[float(ball.norm)]
    return float(np.linalg.norm(width, order)) * (1 + 1e-6)


ROBUST_CLAIMS = (
    perturbations_legal,
    statements_true(_statement_errors, cost=k.free, unchecked="queries"),
    robust_accuracy,
    worst_case_reached,
    gradients_not_masked,
    smoothed_votes.radius_certified,
)
