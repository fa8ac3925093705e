"""Autoregression of order 20 on 10⁶ values beside statsmodels: ./run bench ar

Quality is minus log10 of the largest difference from statsmodels' coefficients by the same method.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bench.helpers.harness import compare
from lemmata import AR, config

ORDER, LENGTH = 20, 10**6
TARGETS = {"yule-walker": 3.0, "burg": 4.0, "ols": 50.0}


def main() -> None:
    from statsmodels.regression.linear_model import burg, yule_walker
    from statsmodels.tsa.ar_model import AutoReg

    warnings.simplefilter("ignore", FutureWarning)
    process = AR(3).from_coefficients([0.5, -0.3, 0.4], mean=2.0)
    x = process.sample(1, length=LENGTH, random_state=0)[0]
    peers: dict[str, Any] = {
        "yule-walker": lambda: yule_walker(x, ORDER, method="mle")[0],
        "burg": lambda: burg(x, ORDER)[0],
        "ols": lambda: AutoReg(x, ORDER).fit().params[1:],
    }
    for method, peer in peers.items():
        known = peer()

        def fit(method: str = method) -> Any:
            return AR(ORDER, method=method).fit(x).coef_

        def fit_alone(method: str = method) -> Any:
            with config(certificate=False):
                return AR(ORDER, method=method).fit(x).coef_

        systems = {"lemmata": fit_alone, "lemmata, certified": fit, "statsmodels": peer}
        compare(
            f"AR({ORDER}) by {method}, {LENGTH:,} values", systems,
            lambda a, known=known: -float(np.log10(np.abs(a - known).max() + 1e-17)), target=TARGETS[method],
        )  # fmt: skip


if __name__ == "__main__":
    main()
