"""Attack a classifier on rows, and say what was found: adversarial rows, rates by attack and ε, and claims about new rows.

>>> from sklearn.datasets import load_digits
>>> from sklearn.linear_model import LogisticRegression
>>> from lemmata.trust import Ball, attack
>>> X, y = load_digits(return_X_y=True)
>>> model = LogisticRegression(max_iter=500).fit(X[:1000] / 16, y[:1000])
>>> found = attack(model, X[1000:1100] / 16, y[1000:1100], Ball(0.05))
>>> found.accuracy, found.robust_accuracy
(0.99, 0.87)
>>> bool((found.fooled == (found.exact < 0)).all())                  # a linear model: the worst case is known
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length

from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.trust.bounds import clopper_pearson
from lemmata.trust.robust.ball import Perturbations
from lemmata.trust.robust.gradient import Strongest, fgsm, pgd
from lemmata.trust.robust.linear import worst_case
from lemmata.trust.robust.scores import LinearTarget, Target, places_of, read_target

Array = np.ndarray


@dataclass(frozen=True)
class AttackOptions:
    """What attacks may spend. `queries` is per row, of attacks that do not see gradients."""

    restarts: int = 5
    queries: int = 5_000
    steps: int = 50
    surrogate: Any = None
    seed: int = 0

    def __post_init__(self):
        for name in ("restarts", "queries", "steps"):
            given = getattr(self, name)
            if not isinstance(given, (int, np.integer)) or given < 1:
                raise ValueError(f"{name}={given!r}: pass a whole number >= 1.")


Search = Callable[[Target, Array, Array, Perturbations, AttackOptions], Strongest]


def _climb_on(on: str) -> Search:
    return lambda target, X, y, ball, options: pgd(
        target, X, y, ball, steps=options.steps, restarts=options.restarts, on=on, rng=options.seed,
        full_steps=on == "margin",
    )  # fmt: skip


# by name; rows that one attack fooled are left out by the next
ATTACKS: dict[str, Search] = {
    "fgsm": lambda target, X, y, ball, options: fgsm(target, X, y, ball),
    "pgd-margin": _climb_on("margin"),
    "pgd-loss": _climb_on("loss"),
}
WHITE_BOX = ("fgsm", "pgd-margin", "pgd-loss")  # those that need gradients


def standard_attacks(target: Target) -> tuple[str, ...]:
    """Return the attacks that suit what is known of a model."""
    return ("pgd-margin", "pgd-loss")


@dataclass(frozen=True, repr=False)
class Robustness:
    """Perturbations of rows that fool a model, and what follows for new rows.

    model, X (n, …), y (n,), ball : what was attacked, in which ball
    adversarial : (n, …), the strongest row found in each ball; X itself where none fools the model, or x does already
    clean : (n,) bool, right without an attack           fooled : (n,) bool, the model is wrong on `adversarial`
    by_attack : name → (n,) bool, which rows it fooled; attacks run in this order, each on the rows that none before it fooled
    witnesses : name → (n, …), the strongest perturbations by each, whether they fool or not
    queries : name → rows that the model was asked about, with or without gradient
    exact : (n,) the least margin in the ball, of a linear model; else None
    radius : (n,) proved ℓ2 radii of a dense ReLU net; else None
    certificate_ : claims about these rows and new ones
    """

    model: Any
    X: Array
    y: Array
    ball: Perturbations
    adversarial: Array
    fooled: Array
    clean: Array
    by_attack: Mapping[str, Array]
    witnesses: Mapping[str, Array]
    queries: Mapping[str, int]
    exact: Array | None = None
    options: AttackOptions = AttackOptions()
    at_least: float | None = None

    @property
    def accuracy(self) -> float:
        """The share of rows that are right without an attack."""
        return float(self.clean.mean())

    @property
    def robust_accuracy(self) -> float:
        """The share of rows that no attack fooled: at most this share is robust."""
        return float((~self.fooled).mean())

    @property
    def rates(self) -> dict[str, float]:
        """The share of rows still right after each attack, in their order."""
        right, found = self.clean.copy(), {}
        for name, fooled in self.by_attack.items():
            right &= ~fooled
            found[name] = float(right.mean())
        return found

    @cached_property
    def radius(self) -> Array | None:
        """(n,) or None."""
        return None

    @cached_property
    def certificate_(self) -> Certificate:
        """The claims, checked when they are first asked for."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        fit = Fit(self.model, None, self.y, attributes={**known, "radius": self.radius})
        claims = import_module("lemmata.audit.trust.robustness").ROBUST_CLAIMS
        return check(claims, fit, self._title())

    def _title(self) -> str:
        return f"{type(self.model).__name__} under attack in {self.ball}  {len(self.y):,} rows"

    def __str__(self) -> str:
        wide = max(map(len, ("no attack", *self.rates)))
        lines = [self._title()]
        for name, rate in {"no attack": self.accuracy, **self.rates}.items():
            low, high = clopper_pearson(round(rate * len(self.y)), len(self.y))
            asked = f"{self.queries[name]:>12,} queries" if name in self.queries else ""
            lines.append(f"  {name:{wide}}  right {rate:.3f} ({low:.3f} to {high:.3f}){asked}")
        return "\n".join(lines)

    __repr__ = __str__


def attack(
    model: Any,
    X: Any,
    y: Any,
    ball: Perturbations,
    attacks: str | Sequence[str] = "standard",
    *,
    restarts: int = 5,
    queries: int = 5_000,
    steps: int = 50,
    surrogate: Any = None,
    at_least: float | None = None,
    random_state: int = 0,
) -> Robustness:
    """Search for perturbations of rows, in a ball and the box of inputs, that fool a classifier.

    Parameters
    ----------
    model : a fitted classifier with `classes_`, or a torch module that gives a score per class (labels are then 0, 1, …)
        Its own decisions say who is fooled. Modules are put into evaluation mode, and back after.
    X : (n, d) or images (n, …), as the model takes them; rows that it was not trained on
    y : (n,) the true labels
    ball : Ball(eps, norm, low, high)
    attacks : "standard", or names of ATTACKS
        "standard" with gradients: PGD on the margin and on the loss, square attack, transfer; with scores: finite
        differences, square attack, transfer; with decisions alone: boundary attack, transfer.
    restarts : random starts of PGD        steps : of each climb
    queries : of each row, for attacks without gradients
    surrogate : a fitted model to attack instead, for transfer; by default one is trained on the answers of `model`
    at_least : the robust accuracy that is asked for, which the claim `robust_accuracy` then judges
    """
    if not isinstance(ball, Perturbations):
        raise TypeError(f"ball is a {type(ball).__name__}; pass Ball(eps, norm=inf | 2 | 1, low=0, high=1).")  # fmt: skip
    if at_least is not None and not 0 < at_least < 1:
        raise ValueError(f"at_least={at_least!r}: pass a share between 0 and 1.")
    rows = ball.check_rows(X)
    check_consistent_length(rows, y)
    shape = tuple(np.shape(X)[1:])
    options = AttackOptions(restarts, queries, steps, surrogate, random_state)
    target = read_target(model, rows, shape)
    if len(target.classes) < 2:
        raise ValueError(f"the model knows one class only, {target.classes.tolist()}: nothing can fool it.")  # fmt: skip
    places = places_of(y, target.classes)
    chosen = standard_attacks(target) if isinstance(attacks, str) and attacks == "standard" else attacks  # fmt: skip
    chosen = _check_names((chosen,) if isinstance(chosen, str) else tuple(chosen), target)
    with target.ready():
        return _run(target, rows, places, ball, chosen, options, np.asarray(y), shape, at_least)


def _check_names(names: tuple[str, ...], target: Target) -> tuple[str, ...]:
    for name in names:
        if name not in ATTACKS:
            raise ValueError(f"attack {name!r} is not known; there are {', '.join(ATTACKS)}, and 'standard'.")  # fmt: skip
        if name in WHITE_BOX and not target.white:
            raise ValueError(
                f"{name} needs gradients, and a {type(target.model).__name__} gives none; pass attacks='standard'."
            )
    return names


def _run(
    target: Target, rows: Array, places: Array, ball: Perturbations, names: tuple[str, ...],
    options: AttackOptions, y: Array, shape: tuple[int, ...], at_least: float | None,
) -> Robustness:  # fmt: skip
    clean = target.decide(rows) == places
    adversarial, waiting = rows.copy(), np.flatnonzero(clean)
    by_attack, witnesses, queries = {}, {}, {}
    for name in names:
        target.asked, found, fooled = 0, rows.copy(), np.zeros(len(rows), dtype=bool)
        if len(waiting):
            found[waiting] = ATTACKS[name](
                target, rows[waiting], places[waiting], ball, options
            ).rows
            fooled[waiting] = target.decide(found[waiting]) != places[waiting]
        adversarial[fooled] = found[fooled]
        waiting = waiting[~fooled[waiting]]
        by_attack[name], witnesses[name] = fooled, found.reshape(-1, *shape)
        queries[name] = target.asked
    exact = None
    if isinstance(target, LinearTarget):
        exact, _ = worst_case(target.W, target.b, rows, places, ball)
    return Robustness(
        target.model, rows.reshape(-1, *shape), y, ball, adversarial.reshape(-1, *shape),
        target.decide(adversarial) != places, clean, by_attack, witnesses, queries, exact, options, at_least,
    )  # fmt: skip
