"""Fairness, drawn (ML Fairness criteria in classification … Incompatibility results III): laws of people in two groups.

Each entry takes a seed, since what a figure shows should hold for other draws too.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, figure
from lemmata.trust import FairThresholds, fairness

Array = np.ndarray
GROUPS = {"a": BLUE, "b": ORANGE}


@entry("careless-hiring", "ML Limitations of independence")
def careless_hiring(seed: int = 0) -> Any:
    """Hiring one group by merit and the other by lot passes independence.

    Both groups are hired at one rate. Of a those who are good are hired, of b the same number by lot: 4,000 applicants, half of
    them good. Bars are shares, lines their 95 % intervals. Only the errors tell the two apart.
    """
    rng = np.random.default_rng(seed)
    groups, good = rng.choice(["a", "b"], 4000), rng.integers(0, 2, 4000)
    hired = np.where(groups == "a", good, rng.integers(0, 2, 4000))
    found = fairness(good, hired, groups)
    rates = ("acceptance", "TPR", "FPR", "PPV")
    drawing, axes = figure(columns=2, size=(4.0, 2.9))
    for at, (name, colour) in enumerate(GROUPS.items()):
        places = np.arange(len(rates)) + 0.38 * (at - 0.5)
        values = [found.rates[rate][name] for rate in rates]
        axes[0].bar(places, values, 0.36, color=colour, label=f"group {name}")
    axes[0].set_xticks(
        range(len(rates)), ["hired", "of the good", "of the bad", "good of hired"], fontsize=8
    )
    axes[0].set(ylabel="share", ylim=(0, 1.25), title="shares by group")
    axes[0].legend(ncols=2, loc="upper center")
    gaps = found.between("a", "b")
    for at, rate in enumerate(rates):
        gap = gaps[rate]
        axes[1].plot([gap.lower, gap.upper], [at, at], color="black")
        axes[1].plot(gap.gap, at, "o", color="black")
    axes[1].axvspan(-found.within, found.within, color=GREY, alpha=0.3, label="small enough")
    axes[1].set_yticks(range(len(rates)), rates)
    axes[1].set(xlim=(-1, 1), ylim=(3.5, -0.8), xlabel="a minus b, with its interval", title="gaps")
    axes[1].legend(loc="upper left")
    show(
        max(abs(gaps["acceptance"].lower), abs(gaps["acceptance"].upper)) < 0.1,
        "both groups are hired at one rate",
    )
    show(
        gaps["TPR"].lower > 0.1 and gaps["FPR"].upper < -0.1,
        "the good and the bad of b are treated alike, those of a are not",
    )
    return drawing


@entry("calibrated-scores", "ML Calibration and sufficiency")
def calibrated_scores(seed: int = 0) -> Any:
    """A score can mean the same in both groups and still be right for neither.

    The share of y = 1 at each score, for two groups. Left it is the same function of the score in both, but not the score:
    sufficiency without calibration. Right the score is replaced by that share, one map for both groups: calibration follows.
    """
    rng = np.random.default_rng(seed)
    n, edges = 20_000, np.linspace(0, 1, 11)
    groups = rng.choice(["a", "b"], n)
    raw = rng.beta(*np.where(groups == "a", [[2], [3]], [[3], [2]]))
    y = rng.random(n) < raw**2
    drawing, axes = figure(columns=2, size=(3.6, 3.2), sharey=True)
    share = [y[(raw >= low) & (raw <= high)].mean() for low, high in pairwise(edges)]
    scores = {"sufficient": raw, "calibrated": np.interp(raw, (edges[1:] + edges[:-1]) / 2, share)}
    bins = {title: fairness(y, R > 0.5, groups, R).score_bins for title, R in scores.items()}
    unlike = {}
    for ax, (title, found) in zip(axes, bins.items(), strict=True):
        ax.plot([0, 1], [0, 1], color=GREY, linestyle=":", label="P(y = 1 | r) = r")
        many = found.sizes > 100
        meaning = np.where(many, found.meaning, np.nan)
        for name, colour, mark, x, q in zip(
            found.names, GROUPS.values(), "os", found.mean_scores, meaning, strict=True
        ):
            ax.plot(x, q, f"{mark}-", color=colour, label=f"group {name}", ms=4)
        unlike[title] = np.abs(meaning[0] - meaning[1])[many.all(axis=0)].max()
        ax.set(title=title, xlabel="score r")
    axes[0].set_ylabel("P(y = 1 | r)")
    axes[0].legend(loc="upper left")
    show(unlike["sufficient"] < 0.12, "the score means the same in both groups")
    off = {title: found.miscalibration.values() for title, found in bins.items()}
    show(min(off["sufficient"]) > 0.1, "it is far from the share of y = 1")
    show(max(off["calibrated"]) < 0.05, "one map for both groups calibrates it")
    return drawing


def _draw_people(
    rng: np.random.Generator, n: int, base: tuple[float, float], sharp: tuple[float, float]
) -> Any:
    """Groups, outcomes and scores: normal around y, of another width and base rate in each group."""
    codes = rng.integers(0, 2, n)
    y = (rng.random(n) < np.take(base, codes)).astype(int)
    return np.array(["a", "b"])[codes], y, y + rng.standard_normal(n) * np.take(sharp, codes)


@entry("roc-hulls", "ML How to achieve fairness criteria")
def roc_hulls(seed: int = 0) -> Any:
    """Equal errors in both groups lie below both ROC curves.

    ROC curves of one score in two groups, and where each criterion puts them: thresholds of their own are most often right;
    equal TPR lies on one height; equal odds on one point, in the hull of the worse curve.
    """
    groups, y, scores = _draw_people(np.random.default_rng(seed), 4000, (0.5, 0.35), (0.6, 1.0))
    drawing, ax = figure(size=(4.6, 4.0))
    rates, kinds = (
        {},
        (
            ("free", "odds", 1.0, "o"),
            ("equal TPR", "opportunity", 0.0, "s"),
            ("equal odds", "odds", 0.0, "D"),
        ),
    )
    accuracy = {}
    for name, colour in GROUPS.items():
        own = groups == name
        order = np.argsort(-scores[own])
        positive = y[own][order]
        ax.plot(
            np.cumsum(1 - positive) / (1 - positive).sum(),
            np.cumsum(positive) / positive.sum(),
            color=colour,
            label=f"group {name}",
        )
    for label, criterion, slack, mark in kinds:
        fair = FairThresholds(criterion=criterion, slack=slack).fit(scores, y, groups)
        accuracy[label] = fair.accuracy_
        for name, colour in GROUPS.items():
            rates[label, name] = fair.rates_["FPR"][name], fair.rates_["TPR"][name]
            ax.plot(*rates[label, name], mark, color=colour, markeredgecolor="black", ms=7)
        ax.plot(
            [],
            [],
            mark,
            color="white",
            markeredgecolor="black",
            label=f"{label}: right on {fair.accuracy_:.3f}",
        )
    ax.set(xlabel="FPR", ylabel="TPR", xlim=(0, 1), ylim=(0, 1.02))
    ax.legend(loc="lower right")
    show(
        np.allclose(rates["equal odds", "a"], rates["equal odds", "b"], atol=1e-9),
        "equal odds are one point",
    )
    show(
        abs(rates["equal TPR", "a"][1] - rates["equal TPR", "b"][1]) < 1e-9,
        "equal TPR is one height",
    )
    show(
        accuracy["free"] > accuracy["equal TPR"] > accuracy["equal odds"],
        "each criterion costs accuracy",
    )
    return drawing


@entry("incompatible-criteria", "ML Incompatibility results: trade-offs are necessary I & II")
def incompatible_criteria() -> Any:
    """Unlike base rates leave less than two of the three criteria.

    Left the larger of the gaps in acceptance and in PPV or NPV, at random and at its least: never below half of the difference
    of the base rates (black). Right the FPR that equal PPV (0.8) and TPR (0.7) leave to a group.
    """
    rng = np.random.default_rng(0)
    drawing, axes = figure(columns=2, size=(3.7, 3.2))

    def compare(share: Array, q_1: Array, q_0: Array) -> tuple[Array, Array]:
        """Difference of the base rates, and the larger gap, by P(D = 1) and P(Y = 1 | D) of two groups each."""
        p = share * q_1 + (1 - share) * q_0
        return np.abs(p[0] - p[1]), np.abs(np.diff([share, q_1, q_0], axis=1)).max(axis=(0, 1))

    axes[0].plot(*compare(*rng.random((3, 2, 8000))), ".", color=BLUE, ms=1.5, alpha=0.5, label="at random")  # fmt: skip
    g = np.linspace(0, 1, 60)
    # a: all accepted, rightly; b: 1 − g of them accepted, and right on 1 − g of these; nobody else is good
    apart, least = compare(np.array([0 * g + 1, 1 - g]), np.array([0 * g + 1, 1 - g]), np.array([g, 0 * g]))  # fmt: skip
    axes[0].plot(apart, least, "--", color=ORANGE, label="decisions made for it")
    axes[0].plot([0, 1], [0, 0.5], color="black", label="half of the difference")
    axes[0].set(xlabel="difference of the base rates", ylabel="the larger gap", xlim=(0, 1), ylim=(0, 1.45))  # fmt: skip
    axes[0].set_yticks(np.arange(0, 1.1, 0.2))
    axes[0].legend(loc="upper left", markerscale=5)
    rate = np.linspace(0.05, 0.7, 60)
    axes[1].plot(rate, rate / (1 - rate) * (1 - 0.8) / 0.8 * 0.7, color=GREEN)
    axes[1].set(xlabel="base rate of the group", ylabel="FPR", xlim=(0, 0.75), ylim=(0, 0.45))
    drawn_apart, drawn_gap = axes[0].lines[0].get_data()
    show((drawn_gap >= drawn_apart / 2).all(), "both gaps are never below half of the difference")
    show((least <= apart / 2 + apart**2 / 2 + 1e-9).all(), "where base rates differ little, some reach it")  # fmt: skip
    return drawing


@entry("two-reports", "ML Three fundamental fairness criteria")
def two_reports(seed: int = 0) -> Any:
    """Thresholds by group make acceptance equal, and errors not.

    The same scores of 4,000 new people decided by one threshold for all, and by thresholds that 4,000 others had chosen for
    equal acceptance: each rate of each group, with exact intervals for all of them at once.
    """
    groups, y, scores = _draw_people(np.random.default_rng(seed), 8000, (0.6, 0.35), (0.8, 0.8))
    old, new = slice(0, 4000), slice(4000, None)
    fair = FairThresholds(random_state=0).fit(scores[old], y[old], groups[old])
    decisions = {
        "one threshold": scores[new] > 0.5,
        "equal acceptance": fair.predict(scores[new], groups[new]),
    }
    drawing, axes = figure(columns=2, size=(4.0, 2.3), sharex=True)
    found = {}
    for ax, (title, decided) in zip(axes, decisions.items(), strict=True):
        found[title] = fairness(y[new], decided.astype(int), groups[new])
        found[title].plot(rates=("acceptance", "TPR", "FPR", "PPV"), ax=ax)
        ax.set(title=title, xlabel="rate")
    axes[0].get_legend().remove()
    one, equal = (report.between("a", "b") for report in found.values())
    show(one["acceptance"].lower > 0.05, "one threshold accepts more of a")
    show(
        equal["acceptance"].lower < 0 < equal["acceptance"].upper,
        "the other rule accepts as many of both",
    )
    show(equal["TPR"].upper < 0, "and finds fewer of the good ones of a")
    return drawing
