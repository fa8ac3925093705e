"""Mixtures whose truth is known: clusters far apart, one cloud cut in pieces, collapses, saddles, runs cut short, tampering."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture as Theirs

import lemmata
from lemmata.audit.kernel.claims import Fit
from lemmata.audit.mixtures.climbs import fixed_point
from lemmata.audit.mixtures.em_steps import pass_work
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import check
from lemmata.mixtures import Bernoulli, GaussianMixture, Mixture, Multinomial, Poisson
from truth.harness import Case, problems

Array = np.ndarray
KINDS = ("full", "tied", "diag", "spherical")
SCALES = (1.0, 1e-150, 1e150, 1e3)


def clusters(rng: Any, n: int = 150, d: int = 3, k: int = 3, distance: float = 8.0) -> Array:
    """k Gaussian clusters of n rows each, centres at mutual distance √2·distance, deviations between ½ and 1."""
    widths = rng.uniform(0.5, 1.0, size=(k, d))
    rows = [rng.normal(size=(n, d)) * widths[j] + distance * np.eye(k, d)[j] for j in range(k)]
    return rng.permutation(np.concatenate(rows))


def fitted(model: Any, X: Array, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, **more)


def certificate(model: Any, X: Any, y: Any = None, weights: Any = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lemmata.certify(model, X, y, weights)


GOOD = (
    "attributes_sound", "statements_true", "bound_is_tight", "fixed_point", "no_ascent_nearby", "enough_rows",
    "no_collapsed_component", "memberships_clear", "worth_its_components",
)  # fmt: skip


DATA = (
    "as it is",
    "other unit",
    "float32 rows",
    "float32",
    "weighted",
    "theirs",
    "holes",
    "stream",
)


@problems(seeds=48, quick=1)
def clear_clusters(seed: int) -> Iterator[Case]:
    """Three clusters far apart, k = 3: everything is true, in any unit and type, for either library."""
    rng = np.random.default_rng(seed)
    X = clusters(rng, d=int(rng.integers(3, 6)))
    kind, how, n = KINDS[seed // 8 % 4], DATA[seed % 8], len(X)
    if how == "other unit":
        X = SCALES[seed // 8 % 4] * X
    if how == "holes":
        X[rng.random(X.shape) < 0.1] = np.nan
    w = rng.uniform(0.5, 1.5, n) * 10.0 ** rng.integers(-9, 9) if how == "weighted" else None
    library = Theirs if how == "theirs" else GaussianMixture
    options = {"tol": 1e-9, "max_iter": 1000, "random_state": 0, "reg_covar": 0.0, "n_init": 3}
    rows = X.astype(np.float32) if how == "float32" else X
    model = fitted(
        library(3, covariance_type=kind, **options),
        rows,
        **({} if w is None else {"sample_weight": w}),
    )
    shown: Any = rows
    if how == "float32 rows":
        shown = X.astype(np.float32)
    elif how == "stream":
        shown = [X[:200], X[:0], X[200:]]
    # rows of which the telling feature is missing have no clear label, and their patterns take work
    unclear = (
        ("memberships_clear", "no_ascent_nearby", "worth_its_components") if how == "holes" else ()
    )
    truths = {name: True for name in GOOD if name not in unclear}
    told = certificate(model, shown, weights=w)
    easy = tuple(truths)
    if library is GaussianMixture:
        truths["likelihood_never_fell"] = True
    yield Case(f"{how}, {kind}", told, truths, easy)


@problems(seeds=24, quick=1)
def counting_components(seed: int) -> Iterator[Case]:
    """Two clear groups of rows that count, for every family; and one group cut in two."""
    rng = np.random.default_rng(seed)
    z = rng.permutation(np.repeat([0, 1], 150))
    names = (
        "attributes_sound",
        "statements_true",
        "bound_is_tight",
        "fixed_point",
        "no_ascent_nearby",
        "enough_rows",
    )
    options = {"tol": 1e-10, "max_iter": 2000, "random_state": 0, "n_init": 3}
    p = np.where(z[:, None] == (np.arange(16) < 8), 0.9, 0.1)
    profiles = np.array([[0.4, 0.3, 0.2, 0.05, 0.05], [0.05, 0.05, 0.2, 0.3, 0.4]])
    data = {
        "bernoulli": rng.random(p.shape) < p,
        "categorical": np.where(
            rng.random((300, 12)) < 0.8, 2 * z[:, None], rng.integers(3, size=(300, 12))
        ),
        "multinomial": rng.multinomial(40, profiles[z]),
        "poisson": rng.poisson(np.array([[2.0, 12.0, 4.0], [12.0, 1.0, 4.0]])[z]),
    }
    for family in [list(data)[seed % 4]]:
        X = data[family].astype(np.float64)
        model = fitted(Mixture(2, family, **options), X)
        truths = dict.fromkeys((*names, "memberships_clear", "worth_its_components"), True)
        yield Case(family, certificate(model, X), {**truths, "likelihood_never_fell": True}, truths)
        wrong = copy.deepcopy(model)
        wrong.lower_bound_ += 1e-3
        yield Case(
            f"{family}, bound shifted",
            certificate(wrong, X),
            {"statements_true": False},
            ["statements_true"],
        )
        name = "rates_" if family == "poisson" else "probabilities_"
        setattr(wrong, name, -getattr(model, name))
        yield Case(
            f"{family}, negative",
            certificate(wrong, X),
            {"attributes_sound": False},
            ["attributes_sound"],
        )
        # one group: the second component is made of noise
        lone = X[z == 0]
        cut = fitted(Mixture(2, family, **options), lone)
        yield Case(
            f"one group of {family}", certificate(cut, lone), {"worth_its_components": False}
        )
        # a row that holds what no row of the fit had, with and without pseudo-counts
        column = np.zeros((len(X), 1))
        seen = np.hstack([X, column])
        other = np.hstack([X, column])
        other[0, -1] = 1.0
        for smoothing in (0.0, 0.2):
            kinds = {"bernoulli": Bernoulli, "multinomial": Multinomial, "poisson": Poisson}
            if family not in kinds:
                continue
            model = fitted(Mixture(2, kinds[family](smoothing=smoothing), **options), seen)
            for where, rows, possible in (("seen", seen, True), ("unseen", other, smoothing > 0)):
                yield Case(
                    f"{family}, smoothing {smoothing}, {where}",
                    certificate(model, rows),
                    {"every_row_possible": possible},
                    ["every_row_possible"],
                )
    for family in [(Bernoulli, Multinomial, Poisson)[seed // 4 % 3](smoothing=1.0)]:
        X = data[family.name.lower()].astype(np.float64)
        smoothed = fitted(Mixture(2, family, **options), X)
        yield Case(
            f"smoothed {family.name}", certificate(smoothed, X), dict.fromkeys(names, True), names
        )


def _tampered(model: Any, name: str, value: Any) -> Any:
    other = copy.deepcopy(model)
    setattr(other, name, value)
    return other


@problems(seeds=10, quick=1)
def tampering(seed: int) -> Iterator[Case]:
    """A sound fit of either library, of which one number was changed."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed // 2 % 4]
    X = clusters(rng, n=80, distance=rng.uniform(2, 6))
    for library in [(GaussianMixture, Theirs)[seed % 2]]:
        model = fitted(library(3, covariance_type=kind, random_state=0, max_iter=500), X)
        yield Case(
            "untouched",
            certificate(model, X),
            dict.fromkeys(("attributes_sound", "statements_true", "bound_is_tight"), True),
        )
        nan = model.means_.copy()
        nan[1, 0] = np.nan
        unsound = {
            "means_": [nan, model.means_[:2], model.means_[:, :2]],
            "covariances_": [
                -model.covariances_,
                model.covariances_[..., None],
                np.nan * model.covariances_,
            ],
            "weights_": [2 * model.weights_, -model.weights_, model.weights_[:2]],
            "precisions_": [np.inf * model.precisions_],
        }
        for name, values in unsound.items():
            for i, value in enumerate(values):
                yield Case(
                    f"{name} {i}",
                    certificate(_tampered(model, name, value), X),
                    {"attributes_sound": False},
                    ["attributes_sound"],
                )
        if kind in ("full", "tied"):
            crooked = model.covariances_.copy()
            crooked[..., 0, 1] += 0.1
            yield Case(
                "crooked",
                certificate(_tampered(model, "covariances_", crooked), X),
                {"attributes_sound": False},
                ["attributes_sound"],
            )
        untrue = {
            "precisions_": 1.01 * model.precisions_,
            "precisions_cholesky_": 1.001 * model.precisions_cholesky_,
            "lower_bound_": model.lower_bound_ + 0.01,
            "covariances_": 1.05 * model.covariances_,
            "converged_": not model.converged_,
        }
        for name, value in untrue.items():
            if name == "converged_" and library is GaussianMixture:
                continue
            yield Case(
                f"untrue {name}",
                certificate(_tampered(model, name, value), X),
                {"statements_true": False},
                ["statements_true"],
            )
        yield Case(
            "other rows",
            certificate(model, X + 1.0),
            {"statements_true": False},
            ["statements_true"],
        )
        wide = _tampered(model, "precisions_cholesky_", 0.8 * model.precisions_cholesky_)
        yield Case(
            "predicts with other widths",
            certificate(wide, X),
            {"bound_is_tight": False},
            ["bound_is_tight"],
        )
        if library is GaussianMixture:
            fell = copy.deepcopy(model)
            fell.trace_.append(fell.trace_.last() + 1e-6, 0.0, {"price": 0.0})
            yield Case(
                "a fall",
                certificate(fell, X),
                {"likelihood_never_fell": False},
                ["likelihood_never_fell"],
            )
            yield Case(
                "no fall",
                certificate(model, X),
                {"likelihood_never_fell": True},
                ["likelihood_never_fell"],
            )


# --- arrival ----------------------------------------------------------------------------------------------------------


def _to_go(model: Any, X: Array) -> float:
    """Nats that a very long run from these parameters still gains."""
    given = {
        "weights_init": model.weights_,
        "means_init": model.means_,
        "precisions_init": model.precisions_,
    }
    longer = GaussianMixture(
        len(model.weights_), covariance_type=model.covariance_type, reg_covar=model.reg_covar, tol=1e-13,
        max_iter=8000, **given,
    )  # fmt: skip
    fitted(longer, X)
    return len(X) * (
        longer.lower_bound_
        - float(Theirs.score(model, X) if isinstance(model, Theirs) else model.score(X))
    )


@problems(seeds=45, quick=1)
def runs_cut_short(seed: int) -> Iterator[Case]:
    """Runs that ended at all kinds of tol; the truth is what a very long run from there gains. Near the bound none is asked."""
    rng = np.random.default_rng(seed)
    kind, library = KINDS[seed % 4], (GaussianMixture, Theirs)[seed // 4 % 2]
    n, d = int(rng.integers(40, 400)), int(rng.integers(1, 4))
    k, start = int(rng.integers(2, 4)), ("kmeans", "random_from_data")[seed // 8 % 2]
    X = clusters(rng, n=n, d=d, k=2, distance=rng.uniform(0.0, 5.0))
    options = {
        "covariance_type": kind,
        "max_iter": 5000,
        "random_state": seed,
        "init_params": start,
    }
    for tol in [(1e-2, 1e-3, 1e-4, 1e-5, 1e-7)[seed % 5]]:
        model = fitted(library(k, tol=tol, **options), X)
        left = _to_go(model, X)
        if not 0.06 < left < 0.25:
            told = certificate(model, X)
            yield Case(
                f"{kind} tol={tol:g}, {left:.2g} nats",
                told,
                {"fixed_point": left <= 0.125},
                ["fixed_point"],
            )


@problems(seeds=40, quick=1)
def one_step_and_a_rate(seed: int) -> Iterator[Case]:
    """Runs that a hurried check believes or not: at all kinds of tol, and from means that were moved after the run."""
    rng = np.random.default_rng(seed)
    kind, k = KINDS[seed % 4], int(rng.integers(2, 4))
    X = clusters(rng, n=int(rng.integers(100, 600)), d=3, k=2, distance=rng.uniform(0.0, 5.0))
    tol = (1e-2, 1e-3, 1e-4, 1e-5, 1e-7)[seed % 5]
    run = GaussianMixture(k, covariance_type=kind, tol=tol, max_iter=5000, random_state=seed)
    model, moved = fitted(run, X), copy.deepcopy(run)
    if not run.trace_.extras["to_go"][-1] <= 0.125:
        return  # the run itself says that it did not arrive: a hurried check says nothing
    moved.means_ = model.means_ + 0.2 * rng.standard_normal(model.means_.shape)
    for label, one in (("as it is", model), ("moved", moved)):
        left, fit = _to_go(one, X), Fit(one, Blocks.of(X), trace=one.trace_)
        if not 0.06 < left < 0.25:
            told = check((fixed_point,), fit, label, work=0.9 * pass_work(fit))
            truths = {"fixed_point": left <= 0.125}
            yield Case(f"{label}, {kind} tol={tol:g}, {left:.2g} nats", told, truths)


@problems(seeds=40, quick=1)
def exact_fixed_points(seed: int) -> Iterator[Case]:
    """Arrived to the last digit, with singular information: more components than the data can tell."""
    rng = np.random.default_rng(seed)
    X = clusters(rng, n=100, d=2, k=2, distance=6.0)
    model = fitted(GaussianMixture(2, tol=1e-13, max_iter=5000, random_state=0, reg_covar=0.0), X)
    # one component twice: a saddle, exactly a fixed point
    half = np.r_[model.weights_[0], model.weights_[1] / 2, model.weights_[1] / 2]
    given = {
        "weights_init": half,
        "means_init": model.means_[[0, 1, 1]],
        "precisions_init": model.precisions_[[0, 1, 1]],
    }
    twice = fitted(GaussianMixture(3, tol=1e-9, max_iter=2, reg_covar=0.0, **given), X)
    yield Case(
        "twice the same",
        certificate(twice, X),
        {"fixed_point": True, "no_ascent_nearby": False},
        ["fixed_point", "no_ascent_nearby"],
    )
    yield Case(
        "once",
        certificate(model, X),
        {"fixed_point": True, "no_ascent_nearby": True},
        ["fixed_point", "no_ascent_nearby"],
    )
    # all components at the mean of the data, of two clusters
    C = np.cov(X.T, bias=True)
    given = {
        "weights_init": [0.5, 0.5],
        "means_init": np.tile(X.mean(axis=0), (2, 1)),
        "precisions_init": np.tile(np.linalg.inv(C), (2, 1, 1)),
    }
    stuck = fitted(Theirs(2, tol=1e-9, max_iter=5, reg_covar=0.0, **given), X)
    yield Case(
        "both at the mean",
        certificate(stuck, X),
        {"fixed_point": True, "no_ascent_nearby": False},
        ["fixed_point", "no_ascent_nearby"],
    )


# --- shapes -----------------------------------------------------------------------------------------------------------


@problems(seeds=24, quick=1)
def collapses(seed: int) -> Iterator[Case]:
    """A component on one spot, on d rows, in a plane; and sound ones that are narrow, small or far away."""
    rng = np.random.default_rng(seed)
    X = clusters(rng, n=60, k=3)
    spot = np.concatenate([X, np.full((20, 3), 30.0)])
    claim = "no_collapsed_component"
    regs = (1e-9, 1e-6, 1e-3, 1e-1, 1.0)
    for kind in [("full", "diag", "spherical")[seed % 3]]:
        for reg in (regs[seed % 5], regs[(seed + 2) % 5]):
            model = fitted(
                Theirs(4, covariance_type=kind, reg_covar=reg, n_init=3, random_state=0), spot
            )
            if (model.predict(spot[-20:]) == model.predict(spot[:-20])[:, None]).any():
                continue  # this component has other rows too
            yield Case(f"spot {kind} {reg:g}", certificate(model, spot), {claim: False}, [claim])
    tied = fitted(Theirs(4, covariance_type="tied", n_init=3, random_state=0), spot)
    yield Case("spot tied", certificate(tied, spot), {claim: True}, [claim])
    inside = np.concatenate([X, np.repeat(X[:1], 30, axis=0)])
    for reg in [(1e-6, 1e-3, 1e-2)[seed % 3]]:
        given = {
            "means_init": [X[0], *(8 * np.eye(3))],
            "precisions_init": np.stack([np.eye(3) / reg, *3 * [np.eye(3)]]),
            "weights_init": [0.15, 0.25, 0.3, 0.3],
        }
        model = fitted(Theirs(4, reg_covar=reg, **given), inside)
        yield Case(
            f"spot inside a cluster {reg:g}", certificate(model, inside), {claim: False}, [claim]
        )
    d = int(rng.integers(2, 8))
    few = np.concatenate([rng.normal(size=(300, d)), rng.normal(size=(d, d)) + 40])
    for reg in [(1e-6, 1e-2, 1.0)[seed % 3]]:
        model = fitted(Theirs(2, reg_covar=reg, random_state=0), few)
        yield Case(
            f"d rows, {reg:g}",
            certificate(model, few),
            {claim: False, "enough_rows": False},
            [claim, "enough_rows"],
        )
    for width in [(1.0, 1e-3, 1e-5)[seed % 3]]:
        narrow = np.concatenate([rng.normal(size=(200, 3)), 20 + width * rng.normal(size=(100, 3))])
        for reg in (1e-12, 1e-6):
            model = fitted(Theirs(2, reg_covar=reg, random_state=0), narrow)
            yield Case(
                f"narrow {width:g}, {reg:g}",
                certificate(model, narrow),
                {claim: True, "enough_rows": True},
                [claim, "enough_rows"],
            )
    plane = np.hstack([X, X[:, :1] - X[:, 1:2]])
    yield Case(
        "in a plane",
        certificate(fitted(Theirs(3, random_state=0), plane), plane),
        {claim: False},
        [claim],
    )


# --- labels and components --------------------------------------------------------------------------------------------


def _matched_error(model: Any, X: Array, z: Array) -> float:
    """The share of rows that get another label than they should, after the best matching."""
    from scipy.optimize import linear_sum_assignment

    labels = model.predict(X)
    k = max(int(labels.max()), int(z.max())) + 1
    table = np.zeros((k, k))
    np.add.at(table, (labels, z), 1)
    return 1 - table[linear_sum_assignment(-table)].sum() / len(X)


@problems(seeds=50, quick=1)
def labels(seed: int) -> Iterator[Case]:
    """The truth: the share of 20,000 fresh rows whose label is that of their component. One cloud has no true labels."""
    rng = np.random.default_rng(seed)
    claim = "memberships_clear"
    for n, d, k in [((300, 2, 3), (150, 8, 3), (400, 20, 3), (2000, 2, 2), (90, 5, 2))[seed % 5]]:
        cloud = rng.normal(size=(n, d))
        model = fitted(Theirs(k, random_state=seed), cloud)
        yield Case(f"one cloud {n} × {d}", certificate(model, cloud), {claim: False})
    pairs = ((300, 2, 1.5), (300, 2, 3.0), (600, 3, 5.0), (60, 10, 3.0), (200, 4, 4.0))
    for n, d, distance in [pairs[seed % 5]]:
        z, fresh_z = rng.integers(2, size=n), rng.integers(2, size=20_000)
        where = distance * np.eye(1, d)
        X, fresh = (rng.normal(size=(len(t), d)) + t[:, None] * where for t in (z, fresh_z))
        model = fitted(
            (Theirs, GaussianMixture)[seed // 5 % 2](
                2, random_state=seed, n_init=2, tol=1e-6, max_iter=1000
            ),
            X,
        )
        error = _matched_error(model, fresh, fresh_z)
        easy = [claim] if distance == 5.0 or distance == 1.5 else []
        if not 0.03 < error < 0.07:
            yield Case(
                f"two at {distance}, {n} × {d}, {error:.1%} wrong",
                certificate(model, X),
                {claim: error <= 0.05},
                easy,
            )


@problems(seeds=60, quick=1)
def numbers_of_components(seed: int) -> Iterator[Case]:
    """k clear clusters and one component more, as many, one fewer than there are."""
    rng = np.random.default_rng(seed)
    claim = "worth_its_components"
    for d, k in [((1, 1), (3, 1), (6, 1), (2, 3), (4, 3))[seed % 5]]:
        n = int(rng.integers(100, 400))
        z = rng.integers(k, size=n)
        X = (
            rng.normal(size=(n, d)) + 7 * np.eye(k, d)[z] * (k > 1)
            if d >= k
            else rng.normal(size=(n, d)) + 7 * z[:, None]
        )
        kind = KINDS[(seed // 5) % 4]
        spare = fitted(Theirs(k + 1, covariance_type=kind, random_state=seed, n_init=2), X)
        yield Case(
            f"{k} clusters in {d}, k = {k + 1}, {kind}", certificate(spare, X), {claim: False}
        )
        if k > 1:
            model = fitted(Theirs(k, covariance_type=kind, random_state=seed, n_init=4), X)
            yield Case(
                f"{k} clusters in {d}, {kind}", certificate(model, X), {claim: True}, [claim]
            )
    cloud = rng.normal(size=(300, 12))
    yield Case(
        "one cloud, k = 2",
        certificate(fitted(Theirs(2, random_state=0), cloud), cloud),
        {claim: False},
        [claim],
    )


@problems(seeds=36, quick=1)
def fresh_rows(seed: int) -> Iterator[Case]:
    """The truth: the gap on 50,000 more rows."""
    rng = np.random.default_rng(seed)
    claim = "fresh_rows_as_likely"
    for n, d, k in [((60, 10, 2), (2000, 3, 2), (200, 4, 2))[seed % 3]]:
        X, Y, more = (rng.normal(size=(m, d)) for m in (n, 2000, 50_000))
        model = fitted((Theirs, GaussianMixture)[seed // 5 % 2](k, random_state=0), X)
        gap = (model.score(X) - model.score(more)) / d
        if not 0.07 < gap < 0.13:
            yield Case(
                f"{n} × {d}, gap {gap:.2g}",
                certificate(model, X, Y),
                {claim: gap <= 0.1},
                [claim] if n != 200 else [],
            )


@problems(seeds=48, quick=1)
def rare_rows(seed: int) -> Iterator[Case]:
    """One row in 3,000 is a thousand deviations away; five components of 40 rows memorise them.

    The truth: the gap on 200,000 rows, cut as the sentence says.
    """
    rng = np.random.default_rng(seed)
    claim = "fresh_rows_as_likely"

    def draw(n: int) -> Array:
        far = 1000.0 * (rng.random((n, 1)) < 1 / 3000)
        return rng.normal(size=(n, 2)) + far

    n, k = ((40, 5), (300, 2), (1000, 2), (3000, 2))[seed % 4]
    X, Y = draw(n), draw((200, 2000)[seed // 4 % 2])
    model = fitted((Theirs, GaussianMixture)[seed // 8 % 2](k, random_state=0), X)
    seen, fresh = model.score_samples(X), model.score_samples(draw(200_000))
    middle = np.median(seen)
    cut = [np.clip((logs - middle) / 2, -5, 5).mean() for logs in (seen, fresh)]
    told = certificate(model, X, Y)
    yield Case(f"{len(X)} and {len(Y)} rows", told, {claim: bool(cut[0] - cut[1] <= 0.1)})


def ring(n: int, blobs: int, rng: Any) -> Array:
    """Blobs on a circle, six deviations from one to the next."""
    turn = 2 * np.pi * rng.integers(blobs, size=n) / blobs
    radius = 3 / np.sin(np.pi / blobs)
    return radius * np.column_stack([np.cos(turn), np.sin(turn)]) + rng.normal(size=(n, 2))


@problems(seeds=60, quick=1)
def rings(seed: int) -> Iterator[Case]:
    """Two blobs to a component, which may be any two neighbours; five blobs in two; as many components as blobs.

    The truth is that of symmetry: turned by a blob, the best fit is as good, and only with k blobs the same.
    """
    rng = np.random.default_rng(seed)
    claim, n = "memberships_clear", (300, 900, 4000)[seed % 3]
    blobs, k = ((6, 3), (8, 4), (5, 2), (4, 2), (4, 4))[seed % 5]
    X = ring(n, blobs, rng)
    model = fitted((Theirs, GaussianMixture)[seed // 5 % 2](k, random_state=seed, n_init=5), X)
    easy = [claim] if blobs == k else []
    yield Case(f"{blobs} blobs, k = {k}", certificate(model, X), {claim: blobs == k}, easy)
