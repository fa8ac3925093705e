"""Two coins thrown in turns that nobody saw: right steps, half steps, steps that fall, posteriors that are none."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from scipy.special import xlogy
from scipy.stats import binom

from lemmata.mixtures import run_em
from truth.harness import Case, problems


def joint(x, theta):
    return np.log(theta[0]) + binom.logpmf(x[:, None], 10, theta[1])


def right_e(x, theta):
    total = np.logaddexp.reduce(joint(x, theta), axis=1)
    return np.exp(joint(x, theta) - total[:, None]), total.sum()


def right_m(x, q, theta):
    return q.mean(axis=0), (x @ q) / (10 * q.sum(axis=0))


def bound(x, q, theta):
    return float((q * joint(x, theta)).sum() - xlogy(q, q).sum())


@problems(seeds=60, quick=2)
def coins(seed: int) -> Iterator[Case]:
    """Sevens of ten throws of one of two coins."""
    rng = np.random.default_rng(seed)
    true = np.array([0.4, 0.6]), np.sort(rng.uniform(0.1, 0.9, 2))
    x = rng.binomial(10, true[1][rng.choice(2, 60, p=true[0])]).astype(float)
    start = np.array([0.5, 0.5]), rng.uniform(0.2, 0.8, 2)

    def half_m(x, q, theta):
        new = right_m(x, q, theta)
        return theta[0], 0.5 * (
            theta[1] + new[1]
        )  # concave in each part: half of the way is no lower

    def falling_m(x, q, theta):
        return theta[0], 0.5 * (theta[1] + right_m(x, q, theta)[1][::-1].mean() ** 4)

    def sharp_e(x, theta):
        q, value = right_e(x, theta)
        q = q**3 / (q**3).sum(axis=1, keepdims=True)
        return q, value

    def high_e(x, theta):
        q, value = right_e(x, theta)
        return q, value + 1e-3

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for label, e, m in (
            ("right", right_e, right_m),
            ("half", right_e, half_m),
            ("falling", right_e, falling_m),
            ("sharp", sharp_e, right_m),
            ("stated too high", high_e, right_m),
        ):
            found = run_em(e, m, x, start, bound=bound, max_iter=30)
            values = [right_e(x, theta)[1] for theta in _path(e, m, x, start, found.n_iter_)]
            fall = float(np.max(-np.diff(values), initial=0.0))
            truth = {}
            if not 1e-13 < fall < 1e-6:
                truth["likelihood_never_fell"] = fall <= 1e-13
            apart = abs(bound(x, found.q_, found.theta_) - right_e(x, found.theta_)[1])
            apart = max(apart, 1e-3 * (label == "stated too high"))
            if not 1e-9 < apart < 1e-6:
                truth["bound_is_tight"] = apart <= 1e-9
            assert found.certificate_ is not None
            yield Case(label, found.certificate_, truth, list(truth))


def _path(e, m, x, theta, steps):
    """The parameters of every step, made again."""
    yield theta
    for _ in range(steps):
        theta = m(x, e(x, theta)[0], theta)
        yield theta
