"""Gaussian mixtures against scikit-learn: EM steps from the same start, memory, and what missing values cost.

Each section can be called alone, and at another size: python -c "import bench.mixtures as b; b.steps(['full'])"
"""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.mixture import GaussianMixture as SklearnMixture

from bench.helpers.blobs import blobs, some_rows
from bench.helpers.harness import add_clocks, compare, share_added, time_call, typical_seconds
from lemmata import GaussianMixture

SIZE = (200_000, 16, 16)  # rows, features, components
STEPS = 10
TARGETS = {"full": 5.0, "diag": 3.0, "tied": None, "spherical": None}
DTYPES = (np.float64, np.float32)
HOLES = 0.1  # share of the entries that are missing


def start(X, k, kind):
    """Some rows as means, the variances of all rows for every component, equal weights."""
    d, inverse = X.shape[1], 1 / X.var(axis=0, dtype=np.float64)
    precisions = {
        "full": np.broadcast_to(np.diag(inverse), (k, d, d)),
        "tied": np.diag(inverse),
        "diag": np.broadcast_to(inverse, (k, d)),
        "spherical": np.full(k, inverse.mean()),
    }[kind].astype(X.dtype)
    weights = np.full(k, 1 / k, X.dtype)
    return {"means_init": some_rows(X, k), "precisions_init": precisions, "weights_init": weights}


def fit(model, X, k, kind, given):
    """A fixed number of EM steps. What is given says everything, so `init_params` only must not cost anything."""
    settings = {"max_iter": STEPS, "tol": 0.0, "init_params": "random_from_data", "random_state": 0}
    return model.set_params(n_components=k, covariance_type=kind, **settings, **given).fit(X)


def likelihood(X, kind, model):
    """The mean log-likelihood by scikit-learn's formulas in float64, whoever fitted the model."""
    judge = SklearnMixture(len(model.weights_), covariance_type=kind)
    for name in ("weights_", "means_", "covariances_", "precisions_cholesky_"):
        setattr(judge, name, np.asarray(getattr(model, name), np.float64))
    return float(judge.score(X.astype(np.float64)))


def steps(kinds=tuple(TARGETS), dtypes=DTYPES, rounds=3):
    """Seconds per EM step, of a whole fit divided by its steps, and the likelihood reached."""
    n, d, k = SIZE
    for kind in kinds:
        for dtype in dtypes:
            X = blobs(n, d, k, spread=1.5, dtype=dtype)
            given = start(X, k, kind)
            systems, seen = add_clocks(
                {
                    "scikit-learn": lambda X=X, c=kind, g=given: fit(SklearnMixture(), X, k, c, g),
                    "lemmata": lambda X=X, c=kind, g=given: fit(GaussianMixture(), X, k, c, g),
                }
            )
            work = f"{kind}, {n:,} × {d}, {k} components, {np.dtype(dtype).name}: {STEPS} EM steps"
            quality = partial(likelihood, X, kind)
            compare(
                f"{work}; quality mean log-likelihood",
                systems,
                quality,
                target=TARGETS[kind],
                rounds=rounds,
            )
            each = ", ".join(
                f"{name} {1e3 * typical_seconds(seconds) / STEPS:.1f} ms"
                for name, seconds in seen.items()
            )
            print(f"  a step: {each}\n", flush=True)


def peak_memory(kinds=("full", "diag")):
    """What fits take beside the data at their peak."""
    n, d, k = SIZE
    X = blobs(n, d, k, spread=1.5, dtype=np.float64)
    print(
        f"memory beyond the input ({X.nbytes / 2**20:.0f} MB), {n:,} × {d}, {k} components, float64"
    )
    for kind in kinds:
        for name, model in {"lemmata": GaussianMixture(), "scikit-learn": SklearnMixture()}.items():
            time_call(partial(fit, model, X, k, kind, start(X, k, kind)))  # libraries are loaded
            share, added = share_added(partial(fit, model, X, k, kind, start(X, k, kind)), X)
            wanted = "  (target < 15 %)" if name == "lemmata" else ""
            print(
                f"  {f'{name} {kind}':<34}+{added:5.0f} MB, {100 * share:.1f} %{wanted}", flush=True
            )
    print()


def missing(kinds=("full", "diag"), dtypes=DTYPES):
    """A step with every tenth entry missing, against one without holes; nobody else does this."""
    n, d, k = SIZE
    for kind in kinds:
        for dtype in dtypes:
            X = blobs(n, d, k, spread=1.5, dtype=dtype)
            given = start(X, k, kind)
            whole = min(
                time_call(partial(fit, GaussianMixture(), X, k, kind, given))[0] for _ in range(3)
            )
            X[np.random.default_rng(2).random(X.shape) < HOLES] = np.nan
            holes = min(
                time_call(partial(fit, GaussianMixture(), X, k, kind, given))[0] for _ in range(3)
            )
            print(
                f"{kind}, {n:,} × {d}, {k} components, {np.dtype(dtype).name}, {100 * HOLES:.0f} % missing: "
                f"{1e3 * holes / STEPS:.1f} ms a step, {holes / whole:.1f} times one without holes",
                flush=True,
            )
    print()


def main():
    steps()
    peak_memory()
    missing()
