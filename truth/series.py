"""Autoregressive processes. Truth: the process that a series was drawn from, and so the errors that a fit leaves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import toeplitz

import lemmata
from lemmata import AR
from lemmata.audit.generate.series import autocovariances
from truth.harness import Case, problems

WHITE, STATIONARY, COVER = "residuals_white", "stationary", "intervals_cover"
MOMENTS, ENTROPY, TRUE = "moments_reproduced", "most_entropy", "statements_true"
LAGS = 20


def is_white(truth: AR, fitted: AR) -> bool:
    """Whether the errors that the fitted coefficients leave in the true process have no autocorrelation above 0.2."""
    r = list(autocovariances(truth.coef_, truth.variance_))
    while len(r) < 60:
        q = len(truth.coef_)
        r.append(float(truth.coef_ @ np.array(r[: -q - 1 : -1])) if q else 0.0)
    e = np.append(1.0, -fitted.coef_)
    T, n = toeplitz(r), len(e)
    at = [float(e @ T[:n, lag : lag + n] @ e) for lag in range(LAGS + 1)]
    return max(abs(value) for value in at[1:]) <= 0.2 * at[0]


def draw(rng, q: int) -> AR:
    """Draw a stationary process of order q, by its reflection coefficients."""
    from lemmata.generate.series.likelihood import step_up

    return AR(q).from_coefficients(step_up(rng.uniform(-0.8, 0.8, size=q))[-1], rng.normal())


@problems(seeds=40, quick=4)
def known_processes(seed: int) -> Iterator[Case]:
    """Processes of order 0 to 4, fitted with too low, right and high orders by each method; statsmodels' where installed."""
    rng = np.random.default_rng(seed)
    truth = draw(rng, int(rng.integers(0, 5)))
    x = truth.sample(1, length=6000, random_state=seed)[0]
    for method in ("yule-walker", "burg", "ols", "mle"):
        order = int(rng.integers(0, 6))
        model = AR(order, method=method).fit(x[:4000])
        asked = {WHITE: is_white(truth, model), STATIONARY: True, TRUE: True}
        if method == "yule-walker":
            asked |= {MOMENTS: True, ENTROPY: True}
        yield Case(f"{method}({order})", model.certify(x[:4000], X_test=x[4000:]), asked)


@problems(seeds=40, quick=4)
def intervals(seed: int) -> Iterator[Case]:
    """New values of the same process, of a louder one, of heavy tails; the share inside is known, or counted on 10⁶ values."""
    rng = np.random.default_rng(seed)
    x = draw(rng, 2).sample(1, length=3000, random_state=seed)[0]
    model = AR(2, method="burg").fit(x)
    for label, scale, df in (
        ("same", 1.0, 0),
        ("louder", 1.6, 0),
        ("much louder", 3.0, 0),
        ("tails", 1.0, 2),
    ):
        noise = rng.standard_t(df, size=10**5) if df else rng.normal(size=10**5)
        z = np.sqrt(model.variance_) * scale * noise
        inside = float((np.abs(z) <= 1.959964 * np.sqrt(model.variance_)).mean())
        if abs(inside - 0.9) < 0.005:
            continue
        new = np.zeros(1500)
        for t in range(2, 1500):
            new[t] = model.coef_ @ new[t - 2 : t][::-1] + z[t]
        shown = model.certify(x, X_test=new + model.mean_)
        yield Case(label, shown, {COVER: inside >= 0.9}, {COVER} if label != "tails" else ())


@problems(seeds=20, quick=2)
def broken(seed: int) -> Iterator[Case]:
    """Explosive and unit-root regressions, σ² or a coefficient changed, statsmodels' fits."""
    from statsmodels.tsa.ar_model import AutoReg

    rng = np.random.default_rng(seed)
    x = draw(rng, 2).sample(1, length=2000, random_state=seed)[0]
    for label, name, factor in (("σ² doubled", "variance_", 2.0), ("a changed", "coef_", 0.9)):
        model = AR(2).fit(x)
        setattr(model, name, getattr(model, name) * factor)
        # ∫ ln |1 − Σ a e^(−ikω)|² = 0 of a stationary process: the rate follows σ² alone
        wrong = {MOMENTS: False, TRUE: False, ENTROPY: name == "coef_"}
        yield Case(label, model.certify(x), wrong, {MOMENTS})
    growing = np.cumprod(np.full(150, 1.04)) + 0.01 * rng.normal(size=150)
    yield Case(
        "explosive",
        AR(1, method="ols").fit(growing).certify(growing),
        {STATIONARY: False},
        {STATIONARY},
    )
    for q, order in ((2, 2), (3, 0)):
        truth = draw(rng, q)
        x = truth.sample(1, length=4000, random_state=seed)[0]
        theirs = AutoReg(x, order).fit()
        ours = AR(order).from_coefficients(theirs.params[1:])
        shown = lemmata.certify(theirs, x)
        yield Case(
            f"statsmodels({order})",
            shown,
            {WHITE: is_white(truth, ours), STATIONARY: True, TRUE: True},
        )
