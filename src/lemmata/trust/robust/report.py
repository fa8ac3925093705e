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

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length

from lemmata.audit.trust.robustness import ROBUST_CLAIMS
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.trust.bounds import clopper_pearson
from lemmata.trust.robust.ball import Perturbations
from lemmata.trust.robust.black_box import (
    MOST_DIRECTIONS,
    DifferencedTarget,
    attack_by_squares,
    walk_along_border,
)
from lemmata.trust.robust.gradient import Strongest, fgsm, pgd
from lemmata.trust.robust.linear import proved_radii, read_dense_net, worst_case
from lemmata.trust.robust.scores import LinearTarget, Target, places_of, read_target
from lemmata.trust.robust.transfer import attack_by_transfer

Array = np.ndarray


@dataclass(frozen=True)
class AttackOptions:
    """What attacks may spend. `queries` is per row, of attacks that do not see gradients."""

    restarts: int = 5
    queries: int = 5_000
    steps: int = 50
    surrogate: Any = None
    seed: int = 0
    pool: Any = field(default=None, repr=False, compare=False)  # all rows, to learn from

    def __post_init__(self):
        for name in ("restarts", "queries", "steps"):
            given = getattr(self, name)
            if not isinstance(given, (int, np.integer)) or given < 1:
                raise ValueError(f"{name}={given!r}: pass a whole number >= 1.")


Search = Callable[[Target, Array, Array, Perturbations, AttackOptions], Strongest]


def _climb_on(on: str) -> Search:
    return lambda target, X, y, ball, use: pgd(
        target, X, y, ball, steps=use.steps, restarts=use.restarts, on=on, rng=use.seed, full_steps=on == "margin"
    )  # fmt: skip


def _climb_by_differences(
    target: Target, X: Array, y: Array, ball: Perturbations, use: AttackOptions
) -> Strongest:
    each = min(X.shape[1], MOST_DIRECTIONS) + 1
    steps = max(1, min(use.steps, use.queries // each - 1))
    blind = DifferencedTarget(target, ball, use.seed)
    return pgd(blind, X, y, ball, steps=steps, rng=use.seed, full_steps=False)


# by name; rows that one attack fooled are left out by the next
ATTACKS: dict[str, Search] = {
    "fgsm": lambda target, X, y, ball, use: fgsm(target, X, y, ball),
    "pgd-margin": _climb_on("margin"),
    "pgd-loss": _climb_on("loss"),
    "differences": _climb_by_differences,
    "square": lambda target, X, y, ball, use: attack_by_squares(target, X, y, ball, use.queries, use.seed),
    "transfer": lambda target, X, y, ball, use: attack_by_transfer(
        target, X, y, ball, use.pool, surrogate=use.surrogate, steps=use.steps, rng=use.seed
    ),
    "boundary": lambda target, X, y, ball, use: walk_along_border(
        target, X, y, ball, use.pool, use.queries, use.seed
    ),
}  # fmt: skip
WHITE_BOX = ("fgsm", "pgd-margin", "pgd-loss")  # those that need gradients


def standard_attacks(target: Target) -> tuple[str, ...]:
    """Return the attacks that suit what is known of a model."""
    if target.white:
        return ("pgd-margin", "pgd-loss", "square", "transfer")
    return ("boundary", "transfer") if target.decides_only else ("differences", "square", "transfer")  # fmt: skip


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
        """(n,) ℓ2 radii in which a dense ReLU net provably says y; None of other models."""
        if (net := read_dense_net(self.model)) is None:
            return None
        classes = getattr(self.model, "classes_", np.arange(max(2, len(net.biases[-1]))))
        return proved_radii(net, self._rows, places_of(self.y, np.asarray(classes)))

    @property
    def _rows(self) -> Array:
        return self.X.reshape(len(self.X), -1)

    def certify_rows(self, eps: float) -> Array | None:
        """(n,) bool: which rows are right all over the ball of this radius, proved; None where nothing proves it."""
        if self.exact is not None:
            target = read_target(self.model, self._rows, self.X.shape[1:])
            assert isinstance(target, LinearTarget)
            places = places_of(self.y, target.classes)
            ball = self.ball.with_eps(eps)
            return worst_case(target.W, target.b, self._rows, places, ball)[0] > 0
        reach = eps * (math.sqrt(self._rows.shape[1]) if self.ball.norm == math.inf else 1)
        return None if self.radius is None else self.radius > reach

    def over(self, radii: Sequence[float]) -> list[tuple[float, float, float]]:
        """Attack again at other ε: (ε, the share that withstood, the share proved), NaN where nothing is proved."""
        standing, found = np.flatnonzero(self.clean), []
        for eps in sorted(radii):
            if len(standing):  # a witness in a small ball is one in a larger ball, too
                again = attack(
                    self.model, self.X[standing], self.y[standing], self.ball.with_eps(eps), tuple(self.by_attack),
                    **{name: getattr(self.options, name) for name in ("restarts", "queries", "steps", "surrogate")},
                )  # fmt: skip
                standing = standing[~again.fooled]
            proved = self.certify_rows(eps)
            share = math.nan if proved is None else float(proved.mean())
            found.append((float(eps), len(standing) / len(self.y), share))
        return found

    def plot(self, radii: Sequence[float] | None = None, ax: Any = None) -> Any:
        """Draw accuracy against ε, attacked (an upper bound, with its 95 % interval) and proved. Gives the axes."""
        from lemmata.core.certification.pictures import BLUE, GREEN, figure

        ax = figure()[1] if ax is None else ax
        tried = np.linspace(0, self.ball.eps, 6).tolist() if radii is None else radii
        eps, attacked, proved = (np.array(one) for one in zip(*self.over(tried), strict=True))
        n = len(self.y)
        low, high = np.array([clopper_pearson(round(rate * n), n) for rate in attacked]).T
        ax.fill_between(eps, low, high, color=BLUE, alpha=0.2, linewidth=0)
        ax.plot(eps, attacked, "o-", color=BLUE, label="withstood the attacks")
        if not np.isnan(proved).all():
            ax.plot(eps, proved, "s--", color=GREEN, label="proved")
        norm = "∞" if self.ball.norm == math.inf else int(self.ball.norm)
        ax.set(xlabel=f"ε (ℓ{norm})", ylabel="accuracy", ylim=(0, 1))
        ax.legend(frameon=False)
        return ax

    def show(self, n: int = 8, ax: Any = None) -> Any:
        """Draw fooled images: as they were, what was added, and what the model saw. Gives the axes."""
        from lemmata.core.certification.pictures import figure, image_grid

        if self.X.ndim < 3:
            raise ValueError(
                f"X has shape {self.X.shape}: only images, (n, height, width) or (n, channels, height, width), can be shown."
            )
        some = np.flatnonzero(self.clean & self.fooled)[:n]
        before, after = (
            part[some].reshape(len(some), -1, *part.shape[-2:]).mean(1) for part in (self.X, self.adversarial)
        )  # fmt: skip
        ax = figure(size=(0.7 * max(len(some), 1), 2.2))[1] if ax is None else ax
        span = np.abs(after - before).max(initial=1e-12)
        images = np.concatenate([before, 0.5 + 0.5 * (after - before) / span * np.ptp(before), after])  # fmt: skip
        if len(some):
            image_grid(ax, images, len(some))
        return ax

    @cached_property
    def certificate_(self) -> Certificate:
        """The claims, checked when they are first asked for."""
        known = {one.name: getattr(self, one.name) for one in fields(self)}
        fit = Fit(self.model, None, self.y, attributes={**known, "radius": self.radius})
        return check(ROBUST_CLAIMS, fit, self._title())

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
    options = AttackOptions(restarts, queries, steps, surrogate, random_state, rows)
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
    adversarial, waiting, exact = rows.copy(), np.flatnonzero(clean), None
    if isinstance(target, LinearTarget):
        exact, _ = worst_case(target.W, target.b, rows, places, ball)
    by_attack, witnesses, queries = {}, {}, {}
    for name in names:
        target.asked, found, fooled = 0, rows.copy(), np.zeros(len(rows), dtype=bool)
        if len(waiting):
            best = ATTACKS[name](target, rows[waiting], places[waiting], ball, options)
            found[waiting] = best.rows
            fooled[waiting] = target.decide(found[waiting]) != places[waiting]
        adversarial[fooled] = found[fooled]
        waiting = waiting[~fooled[waiting]]
        if exact is not None and name in WHITE_BOX:  # no attack finds what is not there
            waiting = waiting[exact[waiting] <= 0]
        by_attack[name], witnesses[name] = fooled, found.reshape(-1, *shape)
        queries[name] = target.asked
    return Robustness(
        target.model, rows.reshape(-1, *shape), y, ball, adversarial.reshape(-1, *shape),
        target.decide(adversarial) != places, clean, by_attack, witnesses, queries, exact, options, at_least,
    )  # fmt: skip
