"""The best of K models, and how much the choice can have cost.

    R(chosen) ≤ min R + 2ε        if no average loss is off by more than ε = R √(ln(4K/δ)/2n)

Every average is within ε of its risk, so the chosen one's risk is at most its average + ε, which is at most the best one's
average + ε, which is at most the best risk + 2ε. Row by row the models mostly agree, and bets on their differences are sharper.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from lemmata.trust import compare
    >>> X, X_val, y, y_val = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
    >>> models = {depth: DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, y) for depth in (1, 3)}
    >>> found = compare({"always": DummyClassifier().fit(X, y), **models}, X_val, y_val)
    >>> found.chosen, found.told_apart
    (3, ['always'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.trust.comparisons import COMPARISON_CLAIMS
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.trust.bounds import checked_risk, compare_losses
from lemmata.trust.evaluation import plot_intervals
from lemmata.trust.losses import checked_rows, loss_of

Array = np.ndarray


@dataclass(frozen=True, repr=False)
class Comparison:
    """Which of K models is best on new rows, as far as these rows tell.

    chosen : the name of the one with the least average loss      best : that model
    scores : accuracies, or average losses, by name               eps : none of them is off by more
    regret : the chosen one's risk is at most this above the least        told_apart : the names it is better than, for sure
    """

    chosen: Any
    best: Any
    scores: dict[Any, float]
    eps: float
    regret: float
    told_apart: list[Any]
    n: int
    delta: float
    higher_is_better: bool
    certificate_: Certificate

    def __str__(self) -> str:
        sure = 100 * (1 - self.delta)
        head = f"{self.chosen!s} is best on {self.n:,} rows; "
        if self.certificate_.failed:
            head += "on new ones: can't tell (these rows were trained on)"
        else:
            head += f"no other is better by more than {self.regret:.3g} on new ones ({sure:g} %)"
        if "candidates_unseen" in self.certificate_.undecided:
            head += ", if none was trained on"
        lines = [head]
        order = sorted(self.scores, key=lambda name: self.scores[name])
        width = max(len(str(name)) for name in order)
        for name in reversed(order) if self.higher_is_better else order:
            word = "worse" if name in self.told_apart else "not told apart"
            word = "chosen" if name == self.chosen else word
            lines.append(f"  {name!s:{width}}  {self.scores[name]:.4f} ± {self.eps:.3f}  {word}")
        return "\n".join(lines)

    __repr__ = __str__

    def plot(self, ax=None):
        """Every score with its ± ε. Gives the axes."""
        names = list(self.scores)
        ends = [(self.scores[name] - self.eps, self.scores[name] + self.eps) for name in names]
        ax = plot_intervals(list(map(str, names)), list(self.scores.values()), ends, ax)
        ax.get_yticklabels()[names.index(self.chosen)].set_fontweight("bold")
        return ax


def compare(
    models: Mapping[Any, Any] | Iterable[Any],
    X_val: Any,
    y_val: Any,
    delta: float = 0.05,
    *,
    sample_weight: Any = None,
    loss: str | Callable | None = None,
    bounds: tuple[float, float] | None = None,
    within: float | None = None,
    train: Any = None,
) -> Comparison:
    """Pick the best of K fitted models on rows that none of them has seen.

    Parameters
    ----------
    models : dict of name and fitted model, or a list of models
    X_val, y_val : rows that were not trained on
    delta : float, default=0.05
        δ, the risk that the guarantee fails, for all models together.
    sample_weight, loss, bounds : as in `evaluate`
        A loss without a range is refused: no guarantee exists.
    within : float, default=0.05
        The regret that is small enough, as a share of the range.
    train : the training rows, optional
        These rows, and rows near to them, are looked for among them, and where models keep rows. Where neither is there,
        nothing is claimed about new rows.
    """
    named = dict(models) if isinstance(models, Mapping) else _name_models(list(models))
    if not named:
        raise ValueError("models is empty; pass at least one fitted model.")
    y, weights = checked_rows(next(iter(named.values())), X_val, y_val, sample_weight)
    judged = loss_of(next(iter(named.values())), loss, bounds)
    if judged.bounds is None:
        raise ValueError(
            f"the {judged.name} loss has no range of its own, and without one no choice has a guarantee; pass "
            "bounds=(low, high), the losses that can occur."
        )
    L = np.array([np.asarray(judged.of(model, X_val, y), np.float64) for model in named.values()])
    if ((judged.bounds[0] > L) | (judged.bounds[1] < L)).any():
        raise ValueError(
            f"losses between {L.min():.4g} and {L.max():.4g} are outside of bounds={judged.bounds}; pass the range of all "
            "losses that can occur."
        )
    found = compare_losses(L, judged.bounds, checked_risk(delta), weights)
    names = list(named)
    attributes = {"losses": L, "bounds": judged.bounds, "delta": float(delta), "within": within}
    attributes |= {"models": named, "X": X_val, "train": train}
    fit = Fit(None, None, y, weights, attributes=attributes)
    title = f"{len(names)} candidates  {len(y):,} rows, {judged.score or judged.name}"
    scores = 1 - found.means if judged.score else found.means
    return Comparison(
        names[found.chosen], named[names[found.chosen]], dict(zip(names, map(float, scores), strict=True)), found.eps,
        found.regret, [names[i] for i in np.flatnonzero(found.behind > 0)], len(y), float(delta), bool(judged.score),
        check(COMPARISON_CLAIMS, fit, title),
    )  # fmt: skip


def _name_models(models: list[Any]) -> dict[str, Any]:
    """Name models by their classes, numbered where they repeat."""
    names = [type(model).__name__ for model in models]
    numbered = [f"{name} {i}" if names.count(name) > 1 else name for i, name in enumerate(names)]
    return dict(zip(numbered, models, strict=True))
