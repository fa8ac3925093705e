"""Claims about autoregressive processes, from coef_ (a), mean_ (μ), variance_ (σ²) and the series.

A process x_t − μ = Σ a_i (x_{t−i} − μ) + z_t is stationary if and only if stepping its order down, a ← (a + κā)/(1 − κ²) with
κ its last coefficient, meets no |κ| ≥ 1 (Schur and Cohn); the κ are its reflection coefficients. From them follow the variance
of the process, μ_0 = σ² Π 1/(1 − κ²), and its autocovariances. None of this needs a solver, nor the roots of a polynomial,
which lose half of their digits where two meet.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import chi2, norm

from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.kernel.concentration import clopper_pearson

Array = np.ndarray
RISK = 0.05
LAGS = 20  # at which residuals are looked at
WHITE = 0.2  # an autocorrelation that matters: 4 % of the variance could be predicted
LEVEL, COVERED = 0.95, 0.9  # of one-step intervals: what they say, and what is asked of new values
POINTS = 2**20  # of a spectrum, at most

SOUND = attributes_sound({"coef_": "q", "mean_": "", "variance_": ">=0", "autocovariance_?": "p"})


# --- the process ------------------------------------------------------------------------------------------------------


def reflections(a: Array) -> tuple[Array, float]:
    """Return the reflection coefficients, up to the first that is not inside (−1, 1), and the largest |κ| met."""
    a, found = np.asarray(a, dtype=np.float64), []
    while len(a):
        found.append(kappa := float(a[-1]))
        if not abs(kappa) < 1:
            break
        a = (a[:-1] + kappa * a[:-1][::-1]) / (1 - kappa**2)
    return np.array(found[::-1]), float(np.abs(found).max(initial=0.0))


def autocovariances(a: Array, variance: float) -> Array | None:
    """μ_0 … μ_q of a stationary process, by Levinson's recursion backwards; None where it is not stationary."""
    kappas, largest = reflections(a)
    if largest >= 1:
        return None
    left = variance / np.prod(1 - kappas**2)
    found, lower = [left], np.zeros(0)
    for kappa in kappas:
        past = np.array(found[:0:-1])
        found.append(float(kappa * left + lower @ past) if len(lower) else kappa * left)
        lower = np.append(lower - kappa * lower[::-1], kappa)
        left *= 1 - kappa**2
    return np.array(found)


def errors_of(groups: Any, a: Array, mean: float) -> list[Array]:
    """One-step errors of every value that has q predecessors, series by series."""
    q, found = len(a), []
    for rows in groups:
        Y = np.asarray(rows, dtype=np.float64) - mean
        if Y.shape[1] > q:
            e = Y[:, q:].copy()
            for i in range(q):
                e -= a[i] * Y[:, q - 1 - i : Y.shape[1] - 1 - i]
            found += list(e)
    return found


def _cost(fit: k.Fit) -> float:
    return float(fit.data.size) * (len(np.ravel(fit.coef_)) + 2.0 * LAGS)


@k.fact(cost=_cost)
def residuals(fit: k.Fit) -> list[Array]:
    return errors_of(fit.data.groups, np.ravel(fit.coef_), float(fit.mean_))


# --- claims -----------------------------------------------------------------------------------------------------------


def _measure(fit: k.Fit) -> dict[str, float | None]:
    """mean_, autocovariance_ and n_samples_ of the series."""
    values = [np.asarray(rows, dtype=np.float64) for rows in fit.data.groups]
    n = sum(rows.size for rows in values)
    mean = math.fsum(float(rows.sum()) for rows in values) / n
    size = max(float(np.abs(rows).max()) for rows in values)
    slack = k.rounding(np.float64, n)
    found: dict[str, float | None] = {}
    if fit.get("n_samples_") is not None:
        found["n_samples_"] = 0.0 if fit.n_samples_ == n else math.inf
    if fit.get("method") != "ols":  # its mean is that of its equation
        found["mean_"] = discrepancy(fit.mean_, mean, size, slack)
    found["variance_"] = _check_variance(fit, values, slack)
    history = fit.get("history_")
    if history is not None:
        last = values[-1][-1]
        same = np.array_equal(np.ravel(history), last[len(last) - np.size(history) :])
        found["history_"] = 0.0 if same else math.inf
    if (stated := fit.get("autocovariance_")) is not None:
        true = measure_autocovariances(values, mean, np.size(stated))
        scale = true[0] + slack * size**2
        found["autocovariance_"] = discrepancy(np.ravel(stated), true, scale, slack)
    return found


def _check_variance(fit: k.Fit, values: list[Array], slack: float) -> float | None:
    """σ² as each method has it: μ_0 Π(1 − κ²) of the recursions, else the mean square of the errors."""
    a, mean, stated = np.ravel(fit.coef_), float(fit.mean_), float(fit.variance_)
    kappas, largest = reflections(a)
    n, method = sum(rows.size for rows in values), fit.get("method")
    power = measure_autocovariances(values, mean, 1)[0]
    squares = sum(float(e @ e) for e in errors_of(values, a, mean))
    if method in ("yule-walker", "burg"):
        return discrepancy(stated, power * np.prod(1 - kappas**2), power, slack)
    if method == "ols":
        count = sum(len(rows) * (rows.shape[1] - len(a)) for rows in values)
        return discrepancy(stated, squares / count, power, slack)
    if method != "mle" or largest >= 1:
        return None
    r, lower = 1 / np.cumprod((1 - kappas**2)[::-1])[::-1], np.zeros(0)
    for t, kappa in enumerate(kappas):  # the first values, by autoregressions of lower order
        first = [rows[:, t] - mean - (rows[:, :t] - mean) @ lower[::-1] for rows in values]
        squares += sum(float(e @ e) for e in first) / r[t]
        lower = np.append(lower - kappa * lower[::-1], kappa)
    return discrepancy(stated, squares / n, power, slack)


def measure_autocovariances(groups: Any, mean: float, count: int) -> Array:
    """Σ (x_t − μ)(x_{t+k} − μ) / n of the series, k < count."""
    found, values = np.zeros(count), [np.asarray(rows, dtype=np.float64) - mean for rows in groups]
    for lag in range(count):
        pairs = ((rows[:, : max(rows.shape[1] - lag, 0)], rows[:, lag:]) for rows in values)
        found[lag] = sum(float(np.einsum("st,st->", *pair)) for pair in pairs)
    return found / sum(rows.size for rows in values)


TRUE = statements_true(_measure, k.passes(LAGS), unchecked="criterion_")


@k.statistical(
    f"no autocorrelation of the one-step errors exceeds {WHITE:g}, at lags 1 to {LAGS}",
    "CIL 5.1.2; Bartlett 1946",
    confidence=1 - RISK,
    needs=(residuals,),
)
def residuals_white(fit: k.Fit) -> k.Evidence:
    """All intervals at once; their deviations are the larger of Bartlett's 1/√n and those of products that vary together."""
    parts = [e - e.mean() for e in residuals(fit)]
    n = sum(len(e) for e in parts)
    total = sum(float(e @ e) for e in parts)
    lags = [lag for lag in range(1, LAGS + 1) if any(len(e) > lag for e in parts)]
    if n < 3 * LAGS or not total > 0:
        return k.unknown(f"{n:,} errors are too few, or all are 0")

    def add_products(rows: list[Array]) -> Array:
        return np.array([sum(e[lag:] @ e[:-lag] for e in rows if len(e) > lag) for lag in lags])

    r, varies = add_products(parts) / total, add_products([e**2 for e in parts])
    deviation = np.maximum(np.sqrt(varies) / total, 1 / math.sqrt(n))
    wide = float(norm.ppf(1 - RISK / (2 * len(lags)))) * deviation
    statistic = n * (n + 2) * float((r**2 / (n - np.array(lags))).sum())
    free = max(len(lags) - len(np.ravel(fit.coef_)), 1)
    note = f"Ljung–Box {statistic:.3g}, p {chi2.sf(statistic, free):.2g}"
    upper, lower = float((np.abs(r) + wide).max()), float((np.abs(r) - wide).max())
    advice = "what is left can be predicted: raise order, or remove trend and season first"
    if upper <= WHITE:
        return k.at_most(upper, WHITE, unit="at most", note=note)
    if lower > WHITE:
        worst = lags[int(np.argmax(np.abs(r) - wide))]
        return k.at_most(lower, WHITE, advice, unit=f"lag {worst}, at least", note=note)
    return k.unknown(f"between {max(lower, 0):.2g} and {upper:.2g} on {n:,} errors; {note}")


@k.proved(
    "the process is stationary: all poles lie inside the unit circle", "CIL (5.4); Schur 1917"
)
def stationary(fit: k.Fit) -> k.Evidence:
    a = np.ravel(np.asarray(fit.coef_, dtype=np.float64))
    largest = reflections(a)[1]
    slack = k.rounding(np.float64, len(a) + 1)
    if abs(largest - 1) <= slack:
        return k.unknown("a reflection coefficient is ±1 to rounding: a pole on the unit circle")
    radius = float(np.abs(np.roots(np.append(1.0, -a))).max(initial=0.0))
    advice = "it explodes or wanders: take differences of the series, or use method='burg'"
    note = f"largest pole {radius:.4g}"
    return k.at_most(largest, 1 - slack, advice, unit="largest |κ|", note=note)


@k.proved(
    "the process has the autocovariances of the series, at lags 0 to q",
    "CIL (5.5), Thm 5.1.1",
    cost=k.passes(LAGS),
)
def moments_reproduced(fit: k.Fit) -> k.Evidence:
    a, variance = np.ravel(fit.coef_), float(fit.variance_)
    own = autocovariances(a, variance)
    if own is None:
        return k.unknown("the process is not stationary and has no autocovariances")
    data = measure_autocovariances(fit.data.groups, float(fit.mean_), len(own))
    # the recursion loses what 1/(1 − κ²) gains
    kappas = reflections(a)[0]
    bound = k.rounding(np.float64, fit.data.size) / float(np.prod(1 - kappas**2))
    error = float(np.abs(own - data).max() / max(abs(data[0]), np.finfo(float).tiny))
    advice = "coef_ or variance_ are not those of these series, or of another method"
    return k.at_most(error, bound, advice, unit="error / variance")


@k.proved(
    "its entropy rate is the most that any process with the moments autocovariance_ has",
    "CIL Thm 5.1.1 (Burg)",
)
def most_entropy(fit: k.Fit) -> k.Evidence:
    """½ ln 2πe + (1/4π) ∫ ln S dω over (−π, π), S from coef_ and variance_, against ½ ln(2πe det T_{q+1} / det T_q)."""
    a, variance = np.ravel(fit.coef_), float(fit.variance_)
    moments = fit.get("autocovariance_")
    if moments is None or reflections(a)[1] >= 1 or not variance > 0:
        return k.unknown("the process is not stationary, or its moments are not stated")
    T = np.ravel(moments)[np.abs(np.subtract.outer(np.arange(len(a) + 1), np.arange(len(a) + 1)))]
    inner = np.linalg.slogdet(T[:-1, :-1]) if len(a) else (1.0, 0.0)
    signs, logs = zip(np.linalg.slogdet(T), inner, strict=True)
    if min(signs) <= 0:
        return k.unknown("the Toeplitz matrix of the autocovariances is not positive definite")
    most = 0.5 * (math.log(2 * math.pi * math.e) + logs[0] - logs[1])
    before, points = math.inf, 256
    while points <= POINTS:
        logs_of_filter = np.log(np.abs(np.fft.fft(np.append(1.0, -a), points)) ** 2)
        rate = 0.5 * (math.log(2 * math.pi * math.e * variance) - float(logs_of_filter.mean()))
        if abs(rate - before) <= 1e-12 * max(1.0, abs(rate)):
            break
        before, points = rate, 2 * points
    else:
        return k.unknown(f"the integral of ln S has not settled on {POINTS:,} frequencies")
    bound = k.rounding(np.float64, len(a) + 1) * max(float(np.linalg.cond(T)), 1.0) + 1e-11
    advice = "variance_ is not the one that these moments have"
    return k.at_most(abs(rate - most), bound, advice, unit="|difference|, nats")


@k.statistical(
    f"at least {COVERED:.0%} of new values lie in their one-step interval of {LEVEL:.0%}",
    "CIL 5.1.2",
    confidence=1 - RISK,
    cost=_cost,
)
def intervals_cover(fit: k.Fit) -> k.Evidence:
    if (test := fit.get("X_test")) is None:
        raise k.CannotTell("no new values: pass certify(X, X_test=…)")
    wide = float(norm.ppf(0.5 + LEVEL / 2)) * math.sqrt(float(fit.variance_))
    parts = errors_of(test.groups, np.ravel(fit.coef_), float(fit.mean_))
    errors = np.concatenate([np.zeros(0), *parts])
    if not len(errors):
        return k.unknown(f"no new value has {len(np.ravel(fit.coef_))} predecessors")
    inside, n = int((np.abs(errors) <= wide).sum()), len(errors)
    lower, upper = (float(end) for end in clopper_pearson(inside, n, RISK))
    note = f"{inside:,} of {n:,} covered, intervals ± {wide:.3g}"
    advice = "the errors are larger than in training: new conditions, heavy tails, or too many parameters"
    if upper < COVERED:
        return k.at_least(upper, COVERED, advice, unit="share at most", note=note)
    if lower < COVERED:
        return k.unknown(f"{note}: too few to tell")
    return k.at_least(lower, COVERED, unit="share at least", note=note)


AR_CLAIMS = (SOUND, TRUE, residuals_white, stationary, intervals_cover)
YULE_WALKER_CLAIMS = (*AR_CLAIMS[:4], moments_reproduced, most_entropy, intervals_cover)


def autoregression_of(model: Any) -> dict[str, Any]:
    """Return the attributes of statsmodels' AutoReg with a constant, or without."""
    fitted = model.model
    if fitted.trend not in ("n", "c") or fitted.seasonal or fitted.exog is not None:
        raise ValueError(
            "only AutoReg with trend='n' or 'c', without seasons and exog, is certified."
        )
    numbers, lags = np.asarray(model.params, dtype=np.float64), list(fitted.ar_lags or [])
    a = np.zeros(max(lags, default=0))
    a[[lag - 1 for lag in lags]] = numbers[len(numbers) - len(lags) :]
    constant = float(numbers[0]) if fitted.trend == "c" else 0.0
    return {
        "coef_": a, "mean_": constant / (1 - float(a.sum())), "variance_": float(model.sigma2), "method": "ols",
        "n_features_in_": 1,
    }  # fmt: skip
