"""Certificates of many fits in one file, to see that a change which only moves code leaves them equal to the byte.

    python -m tools.snapshot write FILE [--part conformance foreign truth] [--only mixtures KMeans] [--jobs 2]
    python -m tools.snapshot compare FILE [the same]      run again, print what differs, exit 1 if something does

conformance: every model of tests/conformance on an easy and on a hopeless problem, as `fit` and as `certify` leave it
foreign:     fits of scikit-learn and other libraries through `lemmata.certify`
truth:       every case of truth/ with the seeds of `./run test`

Seeds are fixed, BLAS, numba and torch have one thread, and versions are left out. `--only` takes names of packages
(mixtures), of models (KMeans), of subjects of truth/ (partitions) or of its suites (partitions.planted).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import lemmata
from lemmata import registry

ROOT = Path(__file__).parents[1]
PARTS = ("conformance", "foreign", "truth")
Task = Callable[[], Iterator[tuple[str, Any]]]  # gives labels and certificates
rng = np.random.default_rng


def package_of(name: str) -> str:
    return registry.MODELS[name].module.split(".")[1]


# --- conformance ------------------------------------------------------------------------------------------------------


def conformance() -> dict[tuple[str, ...], Task]:
    """{(what it may be asked for by, …, the model): its certificates}."""
    for folder in ("conformance", "core"):  # as tests/conformance/conftest.py does
        sys.path.insert(0, str(ROOT / "tests" / folder))
    rows, texts = import_module("test_estimators"), import_module("test_text_estimators")
    found: dict[tuple[str, ...], Task] = {}
    for name in rows.MODELS:
        found[package_of(name), name] = partial(_of_rows, rows, name)
    for name in texts.MODELS:
        found[package_of(name), name] = partial(_of_texts, texts, name)
    return found


def _of_rows(suite: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The fits of test_estimators.py: its settings, other solvers, float32, and the hopeless problem."""
    X = suite.suited(name, rng(0).normal(size=(40, 5)) * [5.0, 3.0, 1.0, 0.5, 0.1] + 2.0)
    others = [more for family, more in suite.FAMILIES if family == name]
    for more in ({}, *others):
        yield from _both(suite.made(name, **more), X, suite.targets(suite.made(name), X), str(more))
    single = X.astype(np.float32)
    yield from _both(suite.made(name), single, suite.targets(suite.made(name), single), "float32")
    draw = rng(0)
    X = suite.suited(name, draw.normal(size=(suite.ROWS.get(name, 20), 50)))
    if name in suite.COMPLETION:
        X = np.where(draw.random(X.shape) < 0.05, X, np.nan)
    model = suite.made(name, **suite.HOPELESS[name])
    y = suite.targets(model, X)
    yield from _both(model, X, None if y is None else draw.permutation(y), "hopeless")


def _of_texts(suite: Any, name: str) -> Iterator[tuple[str, Any]]:
    lists, y = suite.topical()
    noise = [[f"w{i}" for i in row] for row in rng(0).integers(0, 90, (60, 8))]
    for label, more, X in (("{}", {}, lists), ("hopeless", suite.HOPELESS, noise)):
        model = suite.fit(suite.made(name, **more), X, y)
        yield f"{label} fit", model.certificate_
        yield f"{label} certify", suite.certify(model, X, y)


def _both(model: Any, X: Any, y: Any, label: str) -> Iterator[tuple[str, Any]]:
    model.fit(X, y)
    yield f"{label} fit", model.certificate_
    yield f"{label} certify", model.certify(X, y)


# --- other libraries --------------------------------------------------------------------------------------------------

ATOMS = rng(3).normal(size=(8, 5))
ATOMS /= np.linalg.norm(ATOMS, axis=1, keepdims=True)
COUNTS = ("LDA", "NMF")
# what scikit-learn's fits are made with besides random_state=0; several lines for several kinds of fits
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "PCA": [{"n_components": 2}],
    "IncrementalPCA": [{"n_components": 2}],
    "KernelPCA": [{"n_components": 2, "kernel": "rbf"}, {"n_components": 2}],
    "SparseCoder": [
        {"dictionary": ATOMS, "transform_n_nonzero_coefs": 2},
        {"dictionary": ATOMS, "transform_algorithm": "lasso_cd", "transform_alpha": 0.1},
    ],
    "DictionaryLearning": [{"n_components": 4, "max_iter": 5}],
    "MiniBatchDictionaryLearning": [{"n_components": 4, "max_iter": 5}],
    "KMeans": [{"n_clusters": 3, "n_init": 1}, {"n_clusters": 3, "n_init": 1, "max_iter": 1}],
    "MiniBatchKMeans": [{"n_clusters": 3, "n_init": 1}],
    "GaussianMixture": [
        {"n_components": 2, "covariance_type": kind} for kind in ("full", "tied", "diag", "spherical")
    ],
    "LatentDirichletAllocation": [{"n_components": 2}],
    "NMF": [{"n_components": 2}, {"n_components": 2, "solver": "mu", "init": "random"}],
    "MiniBatchNMF": [{"n_components": 2}],
    "Lasso": [{"alpha": 0.1}, {"alpha": 0.1, "max_iter": 1}],
    "ElasticNet": [{"alpha": 0.1}],
    "LassoCV": [{"cv": 3, "alphas": 5}],
    "ElasticNetCV": [{"cv": 3, "alphas": 5}],
    "LogisticRegression": [
        {}, {"max_iter": 1}, {"C": np.inf}, {"l1_ratio": 1.0, "solver": "liblinear"},
    ],
    "SGDClassifier": [{"loss": "log_loss"}, {}],
    "LinearSVC": [{}, {"loss": "hinge", "max_iter": 5}],
    "SVC": [{}, {"kernel": "linear", "C": 0.1}],
    "Nystroem": [{"n_components": 3}],
    "MLPClassifier": [{"hidden_layer_sizes": (8,), "max_iter": 60}],
    "MLPRegressor": [{"hidden_layer_sizes": (8,), "max_iter": 60}],
}  # fmt: skip


def foreign() -> dict[tuple[str, ...], Task]:
    found: dict[tuple[str, ...], Task] = {}
    for ours, entry in registry.MODELS.items():
        for theirs in entry.counterparts:
            if theirs.startswith("sklearn."):
                key = package_of(ours), ours, theirs
                found[key] = partial(_of_sklearn, ours, theirs)
    return found | OTHERS


def _of_sklearn(ours: str, theirs: str) -> Iterator[tuple[str, Any]]:
    from sklearn.base import is_classifier, is_regressor

    module, _, name = theirs.rpartition(".")
    cls = getattr(import_module(module), name)
    X = rng(0).normal(size=(60, 5)) * [5.0, 3.0, 1.0, 0.5, 0.1] + 2.0
    if ours in COUNTS:
        X = np.floor(np.abs(X))
    y = X @ np.arange(1.0, 6.0) + rng(1).normal(size=60) * 5
    for more in SETTINGS.get(name, [{}]):
        model = cls(**more)
        if "random_state" in model.get_params():
            model.set_params(random_state=0)
        target: Any = y if is_regressor(model) else None
        if is_classifier(model):
            target = np.where(y > np.median(y), "yes", "no")
        label = ", ".join(f"{key}={value}" for key, value in more.items() if key != "dictionary")
        yield label, lemmata.certify(model.fit(X, target), X, target)


def _of_composites() -> Iterator[tuple[str, Any]]:
    from sklearn.cluster import KMeans
    from sklearn.compose import ColumnTransformer
    from sklearn.decomposition import PCA
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = rng(0).normal(size=(60, 5)) * [5.0, 3.0, 1.0, 0.5, 0.1]
    y = X @ np.arange(1.0, 6.0) + rng(1).normal(size=60)
    kmeans = KMeans(2, n_init=1, random_state=0)
    parts = ColumnTransformer([("pca", PCA(2), [0, 1, 2]), ("kmeans", kmeans, [3, 4])])
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]})
    for model in (make_pipeline(StandardScaler(), PCA(2)), parts, search):
        yield type(model).__name__, lemmata.certify(model.fit(X, y), X, y)


def _of_statsmodels() -> Iterator[tuple[str, Any]]:
    import statsmodels.api as sm

    Z = sm.add_constant(rng(0).normal(size=(80, 3)))
    y = Z @ np.arange(4.0) + rng(1).normal(size=80)
    for model, target in ((sm.OLS, y), (sm.WLS, y), (sm.Logit, (y > 0) * 1.0)):
        fit = model(target, Z).fit(disp=0) if model is sm.Logit else model(target, Z).fit()
        yield model.__name__, lemmata.certify(fit, Z, target)


def _of_implicit() -> Iterator[tuple[str, Any]]:
    import scipy.sparse as sp
    from implicit.cpu.als import AlternatingLeastSquares

    from lemmata.completion import certify_factors

    A = sp.random_array((30, 20), density=0.3, format="csr", rng=rng(0))
    exact = {"use_cg": False, "dtype": np.float64, "random_state": 0, "num_threads": 1}
    for rounds in (1, 200):
        model = AlternatingLeastSquares(3, iterations=rounds, **exact)
        model.fit(A, show_progress=False)
        yield f"{rounds} rounds", lemmata.certify(model, A)
    yield "factors", certify_factors(A, model.user_factors, model.item_factors, 0.1)


def _of_words() -> Iterator[tuple[str, Any]]:
    from gensim.models import Word2Vec

    lists = [[f"t{t}w{i}" for i in rng(t).integers(0, 6, 8)] for t in range(60)]
    model = Word2Vec(lists, vector_size=4, min_count=1, sg=1, workers=1, seed=0, epochs=3)
    yield "Word2Vec", lemmata.certify(model, lists)
    yield "vectors", lemmata.certify(model.wv)
    yield "pair", lemmata.certify(([f"w{i}" for i in range(90)], rng(0).normal(size=(90, 4))))


def _of_modules() -> Iterator[tuple[str, Any]]:
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    X = rng(0).normal(size=(40, 5)).astype(np.float32)
    yield "Sequential", lemmata.certify(module, X, (X[:, 0] > 0) * 1, loss="cross_entropy")


OTHERS: dict[tuple[str, ...], Task] = {
    ("core", "composites"): _of_composites,
    ("predict", "statsmodels"): _of_statsmodels,
    ("completion", "implicit"): _of_implicit,
    ("embedding", "gensim"): _of_words,
    ("nets", "torch"): _of_modules,
}


# --- truth ------------------------------------------------------------------------------------------------------------


def truth() -> dict[tuple[str, ...], Task]:
    """Every suite with the seeds of `./run test`, or one where it has none there."""
    from truth.harness import suites

    return {(one.subject, one.name): partial(_of_suite, one) for one in suites()}


def _of_suite(suite: Any) -> Iterator[tuple[str, Any]]:
    for seed in range(max(suite.quick, 1)):
        for at, case in enumerate(suite.make(seed)):
            yield f"seed {seed}, {at}, {case.label}", case.certificate


# --- running and comparing --------------------------------------------------------------------------------------------


def tasks(part: str) -> dict[tuple[str, ...], Task]:
    return {"conformance": conformance, "foreign": foreign, "truth": truth}[part]()


def run(part: str, key: tuple[str, ...]) -> tuple[dict[str, Any], float]:
    """The certificates of one task as plain dicts, and the seconds it took."""
    begin = time.perf_counter()
    found: dict[str, Any] = {}
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - what other libraries draw from
    import_module("torch").manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for label, certificate in tasks(part)[key]():
                found[label] = plain(certificate)
        except Exception as error:
            found["raised"] = f"{type(error).__name__}: {error}"
            print(*key, found["raised"], file=sys.stderr)
    return found, time.perf_counter() - begin


def plain(certificate: Any) -> dict[str, Any]:
    """`to_dict()` without versions, the claims by name and in their order."""
    found = certificate.to_dict()
    found.pop("versions")
    return found | {"claims": {one.pop("name"): one for one in found["claims"]}}


def collect(parts: list[str], only: list[str], jobs: int) -> dict[str, Any]:
    """{part: {task: {label: certificate}}}, with the time of each part on stderr."""
    os.environ |= {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    found: dict[str, Any] = {}
    for part in parts:
        begin = time.perf_counter()
        keys = [key for key in tasks(part) if not only or {*key} & {*only}]
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            done = list(pool.map(run, [part] * len(keys), keys))
        found[part] = {" ".join(key[1:]): one for key, (one, _) in zip(keys, done, strict=True)}
        slow = sorted(zip([seconds for _, seconds in done], keys, strict=True), reverse=True)[:5]
        told = ", ".join(f"{key[-1]} {seconds:.0f} s" for seconds, key in slow)
        print(f"{part}: {time.perf_counter() - begin:.0f} s ({told})", file=sys.stderr, flush=True)
    # an object without a name of its own says where it is: suites call cases so
    return json.loads(re.sub(r" at 0x[0-9a-f]+", " at 0x…", json.dumps(found)))


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """One line per value that differs: where, before, after."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        if repr(before) != repr(after):
            yield f"{path}: {before!r} -> {after!r}"
        return
    common = [key for key in before if key in after]
    if common != [key for key in after if key in before]:
        yield f"{path}: another order: {common} -> {[key for key in after if key in before]}"
    for key in {**before, **after}:
        where = f"{path} / {key}" if path else key
        if key in common:
            yield from differences(before[key], after[key], where)
        else:
            yield f"{where}: {'gone' if key in before else 'new'}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.snapshot", description=__doc__)
    parser.add_argument("command", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--part", nargs="+", choices=PARTS, help="all, or those of the file")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    stored = json.loads(asked.file.read_text()) if asked.command == "compare" else {}
    found = collect(asked.part or list(stored or PARTS), asked.only, asked.jobs)
    if asked.command == "write":
        asked.file.write_text(json.dumps(found, indent=1, ensure_ascii=False))
        return 0
    kept = {part: stored.get(part, {}) for part in found}
    for part in kept if asked.only else ():
        kept[part] = {key: one for key, one in kept[part].items() if key in found[part]}
    lines = list(differences(kept, found))
    print(*lines, f"{len(lines)} differences", sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
