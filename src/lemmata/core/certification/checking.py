"""Checking claims one by one, within a budget: a multiple of what the fit cost, model by model.

    certificate = check((attributes_sound, orthonormal, …), Fit(model, data), "PCA  1,797 × 64", work=1e9)
    certificate.holds, certificate.failed, certificate["orthonormal"].measured

Cheap claims come first, until the budget is spent; what is left is *not checked*. The budget counts work, not seconds, so
that a certificate says the same everywhere. What a fit cost is a formula of the data and public attributes, so it serves other
libraries' fits of the same model as well, and stands here rather than in the model, so that nobody who certifies one of those
has to load our solver.
"""

from __future__ import annotations

import hashlib
import math
import platform
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from lemmata.audit.kernel.claims import (
    BROKEN,
    FAILS,
    LEAST_BUDGET,
    PER_SECOND,
    Claim,
    Fit,
    Statement,
)
from lemmata.core.certificate import INTERRUPTED, Certificate
from lemmata.core.engine import main_share
from lemmata.core.loop import Interrupted, warn_user

# what `certify(X)` may cost, as a multiple of the fit, if that is more than LEAST_BUDGET
TIMES_THE_FIT = 5
# main claims that a convex problem was solved: where one fails, the solver did not arrive, and `fit` warns
OPTIMALITY = (
    "near_optimum",
    "path_near_optimum",
    "near_pca_optimum",
    "most_variance",
    "normal_equations",
    "first_order_point",
    "fixed_point",
    "near_fixed_point",
)
SOUND = "attributes_sound"  # the first claim of every certificate: where it fails, no other can be checked


# Inside `fit`, claims may cost so many multiplications (some ten milliseconds) or this share of the fit's own, if that is more.
# The products of a fit run at some 40 multiplications per nanosecond on this machine's two cores, the plain passes of claims at
# one: 0.2 % of the work is up to a tenth of the time.
# The main claim may cost a share of the fit's time, `config(main_share=0.2)`.
IN_FIT = 2**24
SHARE_OF_FIT = 0.002
LEAST_MAIN = 4e7  # what the main claim may cost, however quick the fit was
# multiplications of a fit in the time of one of a claim: between 1 (k-means, SMO) and 5 (PCA), as measured
RATE_OF_FITS = 1.5


def budget(work: Callable[[Fit], float], fit: Fit) -> float:
    """Multiplications that `certify(X)` may spend: a multiple of what the fit took, as `work` counts it."""
    try:
        took = float(work(fit))
    except Exception:  # there is no data, or the attributes are not sound: a claim says so
        took = 0.0
    return max(LEAST_BUDGET, TIMES_THE_FIT * took)  # in this order, NaN is the least


def shares_in_fit(usual: float) -> tuple[float, float]:
    """Multiplications that `fit` may spend on all claims, and on the main one, of a fit that `certify` has so many for."""
    took = usual / TIMES_THE_FIT
    work = max(IN_FIT, SHARE_OF_FIT * took)
    return work, max(work, LEAST_MAIN, main_share() * took / RATE_OF_FITS)


def check(
    statements: Iterable[Statement],
    fit: Fit,
    title: str,
    *,
    work: float = math.inf,
    lead: float = 0.0,
    seconds: float | None = None,
    usual: float = LEAST_BUDGET,
    progress: Callable[[str], Any] | None = None,
) -> Certificate:
    """Check claims on a fit, the cheap ones first, until the budget is spent; the rest is *not checked*.

    Parameters
    ----------
    work : float
        Multiplications that all checks together may take. `attributes_sound` is checked whatever it is.
    lead : float
        Multiplications that the main claim alone may take, where that is more: it comes before the cheap ones.
    seconds : float, optional
        A budget in time instead: no check begins that would take longer than what is left of it.
    usual : float
        What `certify(X)` may spend, to name the call that would check the rest.
    progress : callable, optional
        Is told the name of every claim before it is checked.

    Ctrl-C ends the checking, not the program: what was checked stays checked.
    """
    if seconds is not None and not seconds >= 0:
        raise ValueError(f"seconds={seconds!r}: pass a number >= 0.")
    statements = tuple(statements)
    end = math.inf if seconds is None else time.perf_counter() + seconds
    lead = lead if seconds is None else 0.0
    found: dict[str, Claim] = {}
    waiting, spent, stop, data = list(statements), 0.0, "", ""
    main, fit.work = main_claim(statements), max(work, lead) if seconds is None else math.inf
    prices: dict[str, float] = {}
    known = -1
    try:
        while waiting and not stop:
            left = work - spent if seconds is None else (end - time.perf_counter()) * PER_SECOND
            # a fact that one check asked for is free for others, so prices are asked again, unless all can be paid anyway
            all_paid = known >= 0 and sum(prices[one.name] for one in waiting) <= left
            if len(fit.facts) != known and not all_paid:
                known = len(fit.facts)
                prices = {one.name: one.price(fit) for one in waiting}
            leads = main not in found and prices.get(main, math.inf) <= max(left, lead)
            one = min(
                waiting,
                key=lambda one: (
                    one.name != SOUND,
                    one.name != main or not leads,
                    prices[one.name],
                ),
            )
            first = leads and one.name == main
            price = prices[one.name] if len(fit.facts) == known else one.price(fit)
            if one.name != SOUND and price > max(left, 0.0) and not first:
                break  # the others cost no less
            fit.work = max(left, lead) if first else left
            if progress is not None:
                progress(one.name)
            found[one.name] = one(fit)
            waiting.remove(one)
            spent += 0.0 if first and price > left else price
            if one.name == SOUND and found[SOUND].verdict in (FAILS, BROKEN):
                stop = f"{SOUND} {found[SOUND].verdict}"
        data = describe_data(fit.data) if fit.has_data else ""
    except KeyboardInterrupt:
        stop = INTERRUPTED
    for one in sorted(waiting, key=lambda one: one.price(fit)):
        spent += one.price(fit)
        found[one.name] = one.put_off(stop or _call_for(spent, usual, seconds, fit))
    claims = tuple(found[statement.name] for statement in statements)
    return Certificate(
        title, claims, fit.stopped or "", data, describe_versions(), trace=fit.trace, main=main
    )


def main_claim(statements: tuple[Statement, ...]) -> str:
    """Return the name of the main claim: by convention the third, after the two that begin every certificate."""
    begins = len(statements) > 2 and statements[0].name == SOUND
    return statements[2].name if begins else ""


def describe_distance(model: Any, unsettled: str) -> str:
    """Say that a run did not settle, or that the main claim, of an optimum, fails and by how much; "" where it arrived."""
    certificate = model.certificate_
    found = certificate[certificate.main] if certificate.main in OPTIMALITY else None
    if found is None or found.verdict != FAILS:
        return unsettled
    text = unsettled or f"{type(model).__name__} did not arrive ({model.stopped_}): {found.advice}."
    return f"{text} {found.name} fails: {found.numbers}."


@lru_cache(maxsize=256)
def put_off(statements: tuple[Statement, ...]) -> tuple[Claim, ...]:
    """Return claims that nobody has checked yet."""
    return tuple(one.put_off("run certify(X) for it") for one in statements)


def warn_interrupted(certificate: Certificate) -> None:
    """Say once that Ctrl-C ended the checking; the fit itself is kept."""
    if certificate.interrupted:
        warn_user(
            f"{certificate.title}: the checking of claims was interrupted; the fit is kept, run certify(X) for the rest.",
            Interrupted,
        )


def _call_for(work: float, usual: float, seconds: float | None, fit: Fit) -> str:
    """The call that would do this much work: of our models a method, of others' fits `lemmata.certify`."""
    names = ("X" if hasattr(fit.model, "certify") else "model, X") + (
        ", y" if fit.y is not None else ""
    )
    if work <= usual or not fit.has_data:
        return f"run certify({names}) for it"
    if math.isinf(work):
        return "too expensive on this data"
    more = max(math.ceil(work / PER_SECOND), math.ceil(2 * (seconds or 0)))
    return f"run certify({names}, seconds={more}) for it"


# --- data and versions ------------------------------------------------------------------------------------------------
#
#     1,797 × 64 float64, digest 5d2f0e6c1b7a9348 of 32 evenly spaced rows
#
# A certificate must not cost a pass over the data, so the digest is one of evenly spaced rows or entries where the data is
# larger than SAMPLED, and says so. It distinguishes data that differ everywhere (scaled, sorted, another split).

SAMPLED = 2**14  # bytes that are read: some twenty microseconds, 1 % of the quickest fits


def describe_data(data: Any) -> str:
    """Shape, type, weights and a digest of rows (Blocks) or entries (of a sparse or partly known matrix)."""
    if not hasattr(data, "shape"):
        return ""
    n, m = data.shape
    parts = [f"{n:,} × {m:,} {data.dtype}"]
    weights = getattr(data, "weights", None)
    if weights is not None:
        parts.append(f"weights of sum {float(np.sum(weights, dtype=np.float64)):.6g}")
    parts.append(_digest(data, weights))
    targets = getattr(data, "targets", None)
    if targets is not None:
        places = _choose_evenly(len(targets), targets.itemsize * targets[:1].size)
        parts.append(f"targets {_hash([targets[places]])}")
    return ", ".join(parts)


def _digest(data: Any, weights: np.ndarray | None) -> str:
    source = getattr(data, "source", None)
    if isinstance(source, np.ndarray):
        places = _choose_evenly(len(source), source.shape[1] * source.itemsize)
        arrays = [_narrow(source[places]), *([] if weights is None else [weights[places]])]
        told = "all rows" if len(places) == len(source) else f"{len(places):,} evenly spaced rows"
        return f"digest {_hash(arrays)} of {told}"
    entries = _entries(data, source)
    if entries is None:
        return "a stream of rows, no digest"
    places = _choose_evenly(len(entries[0]), sum(part.itemsize for part in entries))
    arrays = [part[places] for part in entries]
    if weights is not None:
        arrays.append(weights[_choose_evenly(len(weights), weights.itemsize)])
    told = f"{len(places):,} evenly spaced ones of " if len(places) < len(entries[0]) else ""
    return f"digest {_hash(arrays)} of {told}{len(entries[0]):,} entries"


def _entries(data: Any, source: Any) -> tuple[np.ndarray, ...] | None:
    """Columns and values of a sparse matrix, or of one whose other entries are not known; None for a stream."""
    if hasattr(source, "indptr"):
        return source.indices, source.data
    order = getattr(data, "by_row", ())
    arrays = tuple(part for part in order if isinstance(part, np.ndarray))[1:]
    return arrays if len(arrays) == 2 and len(arrays[0]) == len(arrays[1]) else None


def _choose_evenly(count: int, size: int) -> np.ndarray:
    """As many evenly spaced places as SAMPLED bytes allow."""
    return np.linspace(0, count - 1, num=min(count, max(SAMPLED // max(size, 1), 1))).astype(
        np.intp
    )


def _narrow(rows: np.ndarray) -> np.ndarray:
    """Evenly spaced columns of rows so long that one alone exceeds SAMPLED."""
    return rows[:, _choose_evenly(rows.shape[1], rows.itemsize)] if rows.nbytes > SAMPLED else rows


def _hash(arrays: list[np.ndarray]) -> str:
    found = hashlib.blake2b(digest_size=8)
    for array in arrays:
        found.update(f"{array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data if array.size else b"")
    return found.hexdigest()


@lru_cache(maxsize=1)
def describe_versions() -> str:
    """lemmata 0.1.0, numpy …, scipy …, scikit-learn …, python …"""
    from importlib.metadata import version

    import scipy

    from lemmata import __version__

    numbers = {"lemmata": __version__, "numpy": np.__version__, "scipy": scipy.__version__}
    numbers |= {"scikit-learn": version("scikit-learn"), "python": platform.python_version()}
    return ", ".join(f"{name} {number}" for name, number in numbers.items())


# --- what fits cost, in multiplications ---

# k-means: starts of n_init="auto" where the start is not drawn with care, as in scikit-learn
MANY_STARTS = 10
MINI_BATCH_STARTS = 3

AS_QUERIES = (
    1000  # rows that a check may ask neighbours about; what such a fit costs is next to nothing
)


def count_steps(fit: Fit, usual: int = 1) -> float:
    """Return n_iter_, the largest of several."""
    return float(np.max(fit.get("n_iter_", usual)))


def cost_of_steps(fit: Fit) -> float:
    """Count one look at every number per step."""
    return count_steps(fit) * fit.data.size


# --- completion -------------------------------------------------------------------------------------------------------


def cost_of_sweeps(fit: Fit, sweeps: float) -> float:
    """Count sweeps of least squares: k²/2 per entry and side by SIMD, four at a time; k³/3 per row."""
    entries, k = fit.data.n_observed, np.shape(fit.U_)[1]
    return sweeps * (entries * k * (k + 4) / 4 + sum(fit.data.shape) * k**3 / 3)


def cost_of_als(fit: Fit) -> float:
    """Count sweeps; cmfrec says how many as niter, implicit as iterations."""
    sweeps = fit.get("n_iter_") or fit.get("niter") or fit.get("iterations") or 1
    return cost_of_sweeps(fit, float(np.max(sweeps)))


# --- clusters, mixtures, parts ----------------------------------------------------------------------------------------


def cost_of_kmeans(fit: Fit) -> float:
    return _cost_of_starts(fit, MANY_STARTS)


def cost_of_mini_batch_kmeans(fit: Fit) -> float:
    return _cost_of_starts(fit, MINI_BATCH_STARTS)


def _cost_of_starts(fit: Fit, many: int) -> float:
    """Count sweeps over the rows, seeding, and distances to all centres a step; kernels (and bounds, which rule most distances
    out) take a tenth of the time that plain code takes for a multiplication."""
    starts, init = fit.get("n_init", 1), fit.get("init", "k-means++")
    if isinstance(starts, str):
        careless = callable(init) or (isinstance(init, str) and init == "random")
        starts = many if careless else 1
    centres = len(fit.cluster_centers_)
    return float(fit.data.size) * (40 + starts * centres * (2 + count_steps(fit) / 10))


def cost_of_mixture(fit: Fit) -> float:
    """Count n k (d²/7 + 2d + 10) per step with correlations, n k (1.5 d + 10) without, as measured; a start is five steps."""
    k, m = len(fit.weights_), float(fit.data.size) / max(fit.data.shape[0], 1)
    correlated = fit.get("covariance_type") in ("tied", "fixed")
    dense = np.ndim(fit.get("covariances_")) == 3 or correlated
    per_row = 0.15 * m**2 + 2 * m + 10 if dense else 1.5 * m + 10
    steps = count_steps(fit) + 5
    return steps * float(fit.get("n_init", 1)) * fit.data.shape[0] * k * per_row


def cost_of_nmf(fit: Fit) -> float:
    return cost_of_steps(fit) * 2 * len(fit.components_)


# --- linear models ----------------------------------------------------------------------------------------------------


def cost_of_least_squares(fit: Fit) -> float:
    """Count the smaller system and its factor, or products with the data."""
    small = float(min(fit.data.shape))
    if fit.get("solver_") == "cg":
        return 4.0 * count_steps(fit) * fit.data.size
    return float(fit.data.size) * small + small**3


def cost_of_ridge_cv(fit: Fit) -> float:
    """Count the smaller system, its eigenvectors, and the rows in their axes."""
    small = float(min(fit.data.shape))
    return 2 * float(fit.data.size) * small + 9 * small**3


def cost_of_robust_regression(fit: Fit) -> float:
    """Count one weighted Gram matrix a step."""
    return count_steps(fit) * fit.data.size * (fit.data.shape[1] + 2)


def cost_of_lasso(fit: Fit) -> float:
    """Count some passes over the data, and the sweeps."""
    return 10.0 * fit.data.size


def cost_of_lasso_cv(fit: Fit) -> float:
    """Count the paths of the folds."""
    return 100.0 * fit.data.size


def cost_of_logistic_regression(fit: Fit) -> float:
    """Count a pass for each step, and a Hessian or two."""
    return (count_steps(fit) + fit.data.shape[1]) * fit.data.size


def cost_of_linear_svc(fit: Fit) -> float:
    """Count a pass for each step, and a Hessian or two for each problem."""
    k = len(np.atleast_2d(fit.get("coef_", 1)))
    return (count_steps(fit) + k * fit.data.shape[1]) * fit.data.size


# --- kernels, neighbours, networks ------------------------------------------------------------------------------------


def cost_of_svm(fit: Fit) -> float:
    """Count about the rows of K that a fit looks at: those of the support vectors, and as many again."""
    n, d = fit.shape_fit_
    return 2.0 * len(fit.support_) * n * (10 + (d if d != n else 0))


def cost_of_kernel_ridge(fit: Fit) -> float:
    n, d = fit.data.shape
    return float(n) ** 2 * (d + n / 3)


def cost_of_nystroem(fit: Fit) -> float:
    q = len(fit.component_indices_)
    return float(q) ** 2 * (fit.data.shape[1] + 10 * q)


def cost_of_random_features(fit: Fit) -> float:
    return float(np.size(fit.random_weights_))


def cost_of_neighbours(fit: Fit) -> float:
    return min(fit.data.shape[0], AS_QUERIES) * float(fit.data.size)


def cost_of_smoother(fit: Fit) -> float:
    """Count the distances of all pairs of rows, and kernels of them for every bandwidth that was compared."""
    (n, d), compared = fit.data.shape, fit.get("bandwidths_")
    rows = min(n, AS_QUERIES) if compared is None else n
    return rows * float(n) * (d + 30 * np.size(compared))


def cost_of_perceptron(fit: Fit) -> float:
    """Count three products with every weight, for each row of each epoch."""
    weights = sum(np.size(part) for part in fit.coefs_)
    return 3.0 * count_steps(fit) * fit.data.shape[0] * weights


def cost_of_topics(fit: Fit) -> float:
    """Count eight multiplications for each topic, word and pass, as measured: most are draws or logarithms."""
    passes = float(np.max(fit.get("n_iter_", 1))) * float(fit.get("n_chains", 1))
    return 8.0 * len(fit.components_) * passes * fit.data.size
