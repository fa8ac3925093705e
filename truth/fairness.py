"""Decisions drawn from laws whose rates are known: gaps of 0 and beside the limit, groups of 5 to 5,000 people."""

from __future__ import annotations

from copy import copy

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import lemmata
from lemmata.trust import FairLogisticRegression, FairThresholds, certify_thresholds, fairness
from truth.harness import Case, problems

HAIR = 1e-9
SIZES = (5, 30, 200, 1000, 5000)
GAPS = ("independence", "separation", "sufficiency", "criteria_compatible")
EQUALISED = {"parity": ["acceptance"], "odds": ["TPR", "FPR"], "opportunity": ["TPR"]}


def draw(rng, sizes, accept, base):
    """Outcomes and decisions that know nothing of each other: TPR = FPR = acceptance, PPV = 1 − NPV = base rate."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    y = rng.random(len(groups)) < np.asarray(base)[groups]
    return y, rng.random(len(groups)) < np.asarray(accept)[groups], groups


def truths(accept, base, within):
    apart, bases = np.ptp(accept) <= within, np.ptp(base)
    return dict(zip(GAPS, map(bool, (apart, apart, bases <= within, bases <= 2 * within)), strict=True))  # fmt: skip


@problems(seeds=400, quick=4)
def a_hair_beside(seed):
    """Two groups whose rates are `within` apart, ∓ a hair; rates near 0 and in the middle; weights of their own."""
    rng = np.random.default_rng(seed)
    within, sizes = float(rng.choice([0.02, 0.1, 0.3])), rng.choice(SIZES, 2)
    times = (
        2 - seed % 2
    )  # base rates: at the limit of sufficiency, or of the compatibility of criteria
    weights = rng.uniform(0.2, 3.0, sizes.sum()) if seed % 4 == 0 else None
    for shift in (-HAIR, HAIR):
        low = rng.choice([0.0, 0.02, rng.uniform(0, 1 - within)])
        accept = rng.permutation([low, low + within + shift])
        low = rng.choice([0.0, rng.uniform(0, 1 - times * within)])
        base = rng.permutation([low, low + times * (within + shift)])
        # as numbers the shift may vanish: the truth is by construction
        true = truths([0, within + shift], [0, times * (within + shift)], within)
        y, decisions, groups = draw(rng, sizes, accept, base)
        found = fairness(
            *(y, decisions, groups), sample_weight=weights, within=within, positive=True
        )
        yield Case(f"{sizes}, {shift:g} beside {within}", found.certificate_, true)


@problems(seeds=300, quick=2)
def many_groups(seed):
    """Six groups of very different sizes, treated alike, or one of them a hair beyond the limit: the largest gap is biased."""
    rng = np.random.default_rng(seed)
    sizes = (3175, 2103, 509, 343, 31, 11)
    level, within = rng.uniform(0.05, 0.85), 0.1
    y, decisions, groups = draw(rng, sizes, 6 * [level], 6 * [level])
    found = fairness(y, decisions, groups, within=within)
    yield Case("alike", found.certificate_, truths([0], [0], within))
    for shift in (-HAIR, HAIR):
        rates = np.full(6, level)
        rates[rng.integers(6)] += within + shift
        y, decisions, groups = draw(rng, sizes, rates, rates)
        found = fairness(y, decisions, groups, within=within)
        true = truths([0, within + shift], [0, within + shift], within)
        yield Case(f"{shift:g} beside", found.certificate_, true)


@problems(seeds=40, quick=1)
def far_apart(seed):
    """Many people, gaps of 0 and of 0.3: these have to be decided."""
    rng = np.random.default_rng(seed)
    for gap in (0.0, 0.3):
        y, decisions, groups = draw(rng, (4000, 3000), (0.4, 0.4 + gap), (0.3, 0.3 + gap))
        true = truths([0, gap], [0, gap], 0.1)
        yield Case(f"gap {gap}", fairness(y, decisions, groups).certificate_, true, easy=GAPS)


@problems(seeds=200, quick=2)
def scores(seed):
    """Scores calibrated, off by `within` ∓ a hair, or by far; calibrated ones of unlike groups, which cannot be separated."""
    rng = np.random.default_rng(seed)
    n, within = int(rng.choice([60, 500, 6000])), 0.1
    groups, R = rng.integers(0, 2, n), rng.uniform(0.35, 0.65, n)
    signs = rng.choice([-1, 1], (2, 10))[groups, (10 * R).astype(int)]
    for off in (0.0, within - HAIR, within + HAIR, 0.3):
        y = rng.random(n) < R + off * signs
        found = fairness(y, R > 0.5, groups, R, within=within)
        easy = ("calibrated_by_group",) if n == 6000 and off in (0.0, 0.3) else ()
        yield Case(f"off by {off:g}", found.certificate_, {"calibrated_by_group": off <= within}, easy)  # fmt: skip
    groups = np.repeat([0, 1], 3000)
    R = np.where(rng.random(6000) < np.where(groups == 0, 0.2, 0.8), 0.8, 0.2)
    y = rng.random(6000) < R  # TPR 0.5 and 0.94, PPV and NPV 0.8 in both, base rates 0.32 and 0.68
    true = {name: name in ("sufficiency", "calibrated_by_group") for name in (*GAPS, "calibrated_by_group")}  # fmt: skip
    found = fairness(y, R > 0.5, groups, R)
    yield Case("calibrated, not to be separated", found.certificate_, true, easy=true)


@problems(seeds=100, quick=2)
def copied_rows(seed):
    """A few people many times: their gap says nothing about others. The scores, or the features, show it."""
    rng = np.random.default_rng(seed)
    y, decisions, groups = draw(rng, (15, 15), (0.5, 0.5), (0.5, 0.5))
    X, again = rng.standard_normal((30, 3)), np.tile(np.arange(30), 100)
    true = {"independence": True, "separation": True, "sufficiency": True}
    parts = y[again], decisions[again], groups[again]
    yield Case("features", fairness(*parts, X=X[again]).certificate_, true)
    R = rng.random(30)
    yield Case("scores", fairness(*parts, R[again]).certificate_, {**true, "calibrated_by_group": False})  # fmt: skip


@problems(seeds=60, quick=1)
def hidden_groups(seed):
    """Features that say nothing of the group, a little (right on 60 % ∓ a hair), or much."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([400, 4000]))
    for right, hidden in ((0.5, True), (0.6 - HAIR, True), (0.6 + HAIR, False), (0.8, False)):
        groups = rng.random(n) < 0.3
        # more of noise would make the classifier worse than the best one, and 60 % a matter of how much
        X = ((rng.random(n) < right) == groups).astype(float)[:, None]
        if hidden:
            X = np.column_stack([X, rng.standard_normal(n)])
        y, decisions = rng.random((2, n)) < 0.5
        easy = ("group_hidden",) if n == 4000 and right in (0.5, 0.8) else ()
        found = fairness(y, decisions, groups, X=X)
        yield Case(f"right on {right:g}", found.certificate_, {"group_hidden": hidden}, easy)


@problems(seeds=60, quick=1)
def trained_on(seed):
    """Nearest neighbours make no error on their own rows, whatever they do to others: labels here are noise in group 1."""
    rng = np.random.default_rng(seed)
    X, groups = rng.standard_normal((1200, 4)), rng.integers(0, 2, 1200)
    y = np.where(groups == 1, rng.random(1200) < 0.5, X[:, 0] > 0)
    X[:, 1] = 10 * groups
    model = KNeighborsClassifier(1).fit(X[:600], y[:600])
    own = lemmata.certify(model, X[:600], y[:600], groups=groups[:600])
    yield Case("own rows", own, {"people_unseen": False, "separation": False}, easy=("people_unseen",))  # fmt: skip
    new = lemmata.certify(model, X[600:], y[600:], groups=groups[600:])
    true = {"people_unseen": True, "separation": False}
    yield Case("new rows", new, true, easy=true)


@problems(seeds=40, quick=2)
def threshold_rules(seed):
    """Rules of a linear programme, with and without its multipliers; rules of others that miss the best, or the criterion."""
    rng = np.random.default_rng(seed)
    n, G = int(rng.choice([60, 600])), int(rng.integers(2, 5))
    groups = np.concatenate([np.repeat(np.arange(G), 4), rng.integers(0, G, n - 4 * G)])
    y = rng.random(n) < rng.uniform(0.2, 0.8, G)[groups]
    y[: 4 * G] = np.tile([0, 1, 0, 1], G)
    scores = y + rng.uniform(0.5, 2, G)[groups] * rng.standard_normal(n)
    if seed % 2:
        scores = scores.round(1)
    criterion = ("parity", "odds", "opportunity")[seed % 3]
    slack = float(rng.choice([0.0, 0.05]))
    w = rng.uniform(0.2, 3, n) if seed % 4 == 0 else None
    claim = ("thresholds_optimal",)

    def judge(label, rules, true, multipliers=None):
        found = certify_thresholds(
            rules, scores, y, groups, criterion, slack, sample_weight=w, multipliers=multipliers
        )
        return Case(label, found, dict.fromkeys(claim, true), claim)

    def solve(slack):
        return FairThresholds(None, criterion, slack).fit(scores, y, groups, w)

    best, loose = solve(slack), solve(1.0)
    yield judge("best", best.rules_, True, best.multipliers_)
    yield judge("best, without a proof", best.rules_, True)
    yield judge("best, wrong multipliers", best.rules_, True, rng.standard_normal(best.multipliers_.shape))  # fmt: skip
    gap = max(np.ptp(list(loose.rates_[rate].values())) for rate in EQUALISED[criterion])
    if gap > slack + 1e-6:
        yield judge("criterion missed", loose.rules_, False, best.multipliers_)
    nobody = dict.fromkeys(best.rules_, (np.array([np.inf]), np.ones(1)))
    right = np.average(y == 0, weights=w)
    if best.accuracy_ > right + 1e-6:
        yield judge("nobody", nobody, False)
        half = {
            name: (np.append(t, np.inf), np.append(s, 0.01) / 1.01)
            for name, (t, s) in best.rules_.items()
        }
        yield judge("a little worse", half, False, best.multipliers_)


@problems(seeds=40, quick=2)
def bounded_fits(seed):
    """Bounded covariances: solved, by scikit-learn where the bound is idle; moved, scaled, or fitted without the bound."""
    rng = np.random.default_rng(seed)
    n, G = int(rng.choice([100, 1000])), int(rng.integers(2, 5))
    groups = rng.integers(0, G, n)
    X = rng.standard_normal((n, 4)) + rng.standard_normal((G, 4))[groups]
    y = X @ rng.standard_normal(4) + rng.standard_normal(n) > 0
    y[:2] = False, True
    w = rng.uniform(0.2, 3, n) if seed % 4 == 0 else None
    criterion, bound = ("parity", "odds")[seed % 2], float(rng.choice([0.0, 0.02]))
    C = float(rng.choice([0.1, 1.0, 100.0]))
    rows, claim = (X, y, groups, w), ("bounded_fit_optimal",)
    fair = FairLogisticRegression(criterion, bound, C).fit(*rows)
    free = FairLogisticRegression(criterion, 1e3, C).fit(*rows)
    yield Case("solved", fair.certificate_, dict.fromkeys(claim, True), claim)
    theirs = LogisticRegression(C=C, tol=1e-10, max_iter=1000).fit(X, y, w)

    def judge(label, model, coef, true, **changed):
        other = copy(model)
        vars(other).update(coef_=coef, **changed)
        return Case(label, other.certify(*rows), dict.fromkeys(claim, true), claim)

    yield judge("scikit-learn, idle bound", free, theirs.coef_, True, intercept_=theirs.intercept_)
    if np.abs(fair.coef_).max() > 0.05:
        yield judge("scaled", fair, 0.9 * fair.coef_, False)
    yield judge("moved", fair, fair.coef_ + 0.05 * rng.standard_normal(4), False)
    yield judge("without the bound", fair, free.coef_, False, intercept_=free.intercept_)
