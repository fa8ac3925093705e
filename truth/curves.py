"""Ellipses whose parameters are known: fits, parameters moved away, nearest points moved away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from lemmata.audit.optim.curves import CURVE_CLAIMS
from lemmata.core.certificate import Fit
from lemmata.core.certification.checking import check
from lemmata.core.runs.trace import Trace
from lemmata.optim import ellipse, fit_ellipse
from truth.harness import Case, problems


@problems(seeds=40, quick=1)
def ellipses(seed: int) -> Iterator[Case]:
    """Half axes 1 to 4, with noise or without; a parameter that is 10 % off, a fifth of the places elsewhere."""
    rng = np.random.default_rng(seed)
    theta = np.r_[
        rng.normal(size=2), rng.uniform(2.5, 4), rng.uniform(1, 2), rng.uniform(-1.5, 1.5)
    ]
    noise = (0.0, 0.05)[seed % 2]
    X = ellipse(rng.random(60), theta) + noise * rng.normal(size=(60, 2))
    found = fit_ellipse(X)
    both = {"nearest_found": True, "parameters_settled": True}
    yield Case("fit", found.certificate_, both | {"never_longer": True}, ["nearest_found"])
    larger = replace(found, theta_=found.theta_ * [1, 1, 1.1, 1.1, 1])
    yield Case("larger", _check(larger), {"parameters_settled": False}, ["parameters_settled"])
    t = found.t_.copy()
    t[::5] += 0.3
    elsewhere = replace(found, t_=t % 1.0)
    yield Case("elsewhere", _check(elsewhere), {"nearest_found": False}, ["nearest_found"])
    trace = Trace()
    for value in (*found.trace_.objective, 2 * found.trace_.objective[0] + 1):
        trace.append(value, 0.0, {})
    yield Case("a rise", _check(found, trace), {"never_longer": False})


def _check(found, trace=None):
    return check(CURVE_CLAIMS, Fit(found, trace=trace), "curve")
