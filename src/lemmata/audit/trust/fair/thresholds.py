"""The claim about thresholds by group: no others, mixed as one likes, meet the criterion and are right more often.

    maximise  Σ_g A_g(r_g)     over a rule r_g for each group, with  |q_kg(r_g) − c_k| ≤ slack/2  for some c_k in [0, 1]

A is the share of all rows that are decided rightly, q_k the rates that the criterion equalises. For any multipliers m_kg

    best  ≤  Σ_g max_t [A_g(t) − Σ_k m_kg q_kg(t)]  +  slack/2 Σ|m_kg|  +  Σ_k max(0, Σ_g m_kg)

over all thresholds t of the group, since a mixture is no better than its best part: any m is a proof, however it was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.audit.kernel import claims as k

Array = np.ndarray

EQUALISED = {"parity": ("acceptance",), "opportunity": ("TPR",), "odds": ("TPR", "FPR")}
CLOSE = 1e-9  # of all rows


@dataclass(frozen=True)
class GroupCurve:
    """Rules "accept where score ≥ t" of one group: t falls from ∞, where nobody is accepted, to the least score."""

    t: Array
    right: Array  # share of all rows that are in this group and decided rightly
    rates: dict[str, Array]  # acceptance, TPR, FPR; NaN where not defined

    @classmethod
    def of(cls, scores: Array, y: Array, w: Array, total: float) -> GroupCurve:
        order = np.argsort(-scores, kind="stable")
        scores, w, y = scores[order], w[order], y[order]
        # accept whole groups of equal scores
        ends: Any = np.flatnonzero(np.append(np.diff(scores) != 0, True)) if len(scores) else []
        true, false = (
            np.concatenate([[0.0], np.cumsum(w * part)[ends]]) for part in (y == 1, y == 0)
        )
        right = true + (false[-1] - false)
        sums = {"acceptance": true + false, "TPR": true, "FPR": false}
        with np.errstate(invalid="ignore"):
            rates = {name: values / values[-1] for name, values in sums.items()}
        return cls(np.concatenate([[np.inf], scores[ends]]), right / total, rates)

    def at(self, thresholds: Array) -> Array:
        """Places of thresholds: the rule that accepts the same rows."""
        return np.searchsorted(-self.t, -np.asarray(thresholds), side="right") - 1


def curves_of(scores: Array, y: Array, codes: Array, G: int, w: Array | None) -> list[GroupCurve]:
    """Return the curve of every group."""
    w = np.ones(len(y)) if w is None else np.asarray(w, np.float64)
    rows = [np.flatnonzero(codes == g) for g in range(G)]
    return [GroupCurve.of(scores[at], y[at], w[at], float(w.sum())) for at in rows]


def upper_bound(curves: list[GroupCurve], criterion: str, slack: float, m: Array) -> float:
    """Return what no rules exceed that meet the criterion, by multipliers m of shape (rates, groups)."""
    best = slack / 2 * np.abs(m).sum() + np.maximum(m.sum(axis=1), 0).sum()
    for g, curve in enumerate(curves):
        q = np.array([curve.rates[name] for name in EQUALISED[criterion]])
        best += (curve.right - m[:, g] @ q).max()
    return float(best)


def judge_rules(curves: list[GroupCurve], names, criterion: str, rules) -> tuple[float, float]:
    """Return the share decided rightly, and the largest gap of the rates to equalise. Raises ValueError for no rules."""
    right, reached = 0.0, []
    for name, curve in zip(names, curves, strict=True):
        thresholds, shares = (np.asarray(part, np.float64) for part in rules[name])
        if not (shares >= 0).all() or not abs(shares.sum() - 1) <= 1e-12:
            raise ValueError(f"the shares of the thresholds of {name!r} are no probabilities")
        at = curve.at(thresholds)
        right += float(shares @ curve.right[at])
        reached.append([float(curve.rates[rate][at] @ shares) for rate in EQUALISED[criterion]])
    return right, float(np.ptp(reached, axis=0).max())


@k.proved(
    "the rules meet the criterion on these rows, and no others that do, mixed as one likes, are right on 1e-9 more of them",
    "ML How to achieve fairness criteria; weak duality",
)
def thresholds_optimal(fit):
    """The duality gap; where the multipliers prove nothing, others are asked for, or rules that are better."""
    curves = curves_of(fit.scores, fit.y, fit.codes, len(fit.names), fit.weights)
    known = fit.criterion, fit.slack
    right, apart = judge_rules(curves, fit.names, fit.criterion, fit.rules)
    if apart - fit.slack > CLOSE:
        advice = "set thresholds that equalise the rates on these rows"
        return k.at_most(apart - fit.slack, CLOSE, advice, unit="gap beyond slack")
    best = np.inf
    for multipliers, others in _proofs(fit):
        best = min(best, upper_bound(curves, *known, np.asarray(multipliers)))
        note = f"right on {right:.6f} of these rows; at most {best:.6f} is possible"
        if best - right <= CLOSE:
            return k.at_most(best - right, CLOSE, unit="gap", note=note)
        if others is not None:
            better, gap = judge_rules(curves, fit.names, fit.criterion, others)
            if gap - fit.slack <= CLOSE and better - right > CLOSE:
                advice = f"other thresholds are right on {better:.6f}: FairThresholds finds them"
                return k.at_most(better - right, CLOSE, advice, unit="short of", note=note)
    return k.unknown(f"right on {right:.6f} of these rows; nothing shows that it is the most")


def _proofs(fit):
    """Multipliers, and rules that may be better: those of the fit, then what a search finds."""
    if fit.get("multipliers") is not None:
        yield fit.multipliers, None
    found = fit.witness("better_rules")
    if found is not None:
        yield found[1], found[0]


THRESHOLD_CLAIMS = (thresholds_optimal,)
