"""True files of every kind: models and variants of tests/conformance, networks, checkpoints half-way; for tools/forge.py."""

from __future__ import annotations

import copy
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import lemmata
from lemmata.core import Checkpoint, MaxSteps, run

ASKED = "predict predict_proba decision_function transform inverse_transform score_samples kneighbors recommend sample"
ASKED += " nearest words topics partial_fit coefficients_at translate completed forecast spectrum residuals bound"
GENERATIVE: list[tuple[str, dict]] = [
    *(
        ("NormalizingFlow", {"recipe": recipe})
        for recipe in ("spline", "planar", "sylvester", "affine")
    ),
    ("NormalizingFlow", {"partition": "random"}),
    ("VAE", {"posterior": "full"}),
    ("VAE", {"likelihood": "gaussian", "posterior": 1, "beta_warmup": 2}),
    *(("AR", {"method": method}) for method in ("burg", "ols", "mle")),
    ("AR", {"order": "bic", "method": "burg"}),
]
Use = Callable[[Path], Callable[[], Any]]  # opens a file, and gives what to do with it then


class Source(NamedTuple):
    """A true file and its use."""

    name: str
    kind: str
    mode: str  # of compiling
    raw: bytes
    use: Use


def sources(
    folder: Path, only: list[str], modes: tuple[str, ...] = ("always", "never")
) -> Iterator[Source]:
    """Every true file, or those with one of some words in their names, opened and used once: children need not compile."""
    for name in ("conformance", "core"):  # as tests/conformance/conftest.py does
        sys.path.insert(0, str(Path(__file__).parents[1] / name))
    path = folder / "true"
    for mode in modes:
        with lemmata.config(compile=mode):
            for label, make in {**_models(), **_algorithms()}.items():
                if not only or any(word in label for word in only):
                    yield from checked(label, make(path), path, mode)


def checked(
    name: str, files: Iterator[tuple[str, Use]], path: Path, mode: str = "never"
) -> Iterator[Source]:
    """Files at a path, each opened and used once."""
    for kind, use in files:
        source = Source(name, kind, mode, path.read_bytes(), use)
        found = attempt(source, path)
        assert found[0] == "works", (name, kind, mode, found)
        yield source


def _models() -> dict[str, Callable[[Path], Iterator[tuple[str, Use]]]]:
    rows, texts = import_module("test_variants"), import_module("test_text_estimators")
    fits = [(name, more, rows.rows(name, more), rows.common) for name, more in rows.EVERY]
    images = np.random.default_rng(0).normal(size=(40, 1, 8, 8))
    for name, more in (
        ("NeuralClassifier", {"net": "ConvNet"}),
        ("NeuralClassifier", {"net": "ResNet"}),
        ("NeuralClassifier", {"net__widths": (8, 8, 8), "optimizer": "adamw"}),
        ("Autoencoder", {"n_components": 2, "conv": (4,)}),
        ("VAE", {"n_components": 2, "conv": (4,)}),
    ):
        fits.append((name, {**more, "max_iter": 2}, images, rows.common))
    fits += [(name, more, rows.rows(name), rows.common) for name, more in GENERATIVE]
    fits += [(name, {}, texts.topical(n=15)[0], texts) for name in texts.MODELS]
    fits.append(("Alignment", {}, ([f"w{i}" for i in range(40)], rows.rows("PCA")), None))
    return {
        f"{name} {' '.join(f'{k}={v}' for k, v in more.items())}": lambda path, f=fit: _fit(
            path, *f
        )
        for fit in fits
        for name, more in [fit[:2]]
    }


def _fit(path: Path, name: str, settings: dict, X: Any, suite: Any) -> Iterator[tuple[str, Use]]:
    make = suite.made if suite else lambda name, **more: getattr(lemmata, name)(**more)
    y = [] if suite else [X]
    if hasattr(make(name), "predict") and suite:
        labels = getattr(suite, "topical", lambda n: (X, None))(n=15)[1]
        y = [labels if labels is not None else suite.targets(make(name), X.reshape(len(X), -1))]
    y = [one for one in y if one is not None]
    yield from files_of(path, lambda **more: make(name, **settings, **more), X, y)


def files_of(path: Path, make: Callable[..., Any], X: Any, y: list) -> Iterator[tuple[str, Use]]:
    """The file of a model, and its checkpoint half-way."""
    model = make().fit(X, *y)
    lemmata.save(model, path)
    known = []
    for step in ASKED.split():
        with suppress(Exception):  # not a method of this model
            _ask(model, step, X, y)
            known.append(step)

    def opened(path: Path) -> Callable[[], Any]:
        model = lemmata.load(path)
        return lambda: ([_ask(model, step, X, y) for step in known], lemmata.save(model, path))

    yield "model", opened
    if "checkpoint" in model.get_params():
        path.unlink()
        with _killed_early():
            make(checkpoint=path).fit(X, *y)
        yield "checkpoint", lambda path: lambda: make(checkpoint=path).fit(X, *y)


def _ask(model: Any, step: str, X: Any, y: list) -> None:
    model = copy.deepcopy(model) if step == "partial_fit" else model
    given = {"partial_fit": [X, *y], "sample": [3], "recommend": [0], "coefficients_at": [0.5]}
    given |= {"forecast": [3], "spectrum": [[0.1, 0.2]], "bound": [X, 2]}
    given |= {"words": [], "topics": [], "completed": []}
    if step in ("nearest", "translate"):
        given[step] = [X[0][0]]
    elif step == "inverse_transform":
        given[step] = [model.transform(X)]
    getattr(model, step)(*given.get(step, [X]))


@contextmanager
def _killed_early() -> Iterator[None]:
    """Checkpoints are written after each of the first two steps, and never again."""
    write = Checkpoint._write

    def early(self: Checkpoint, solution: Any) -> None:
        if solution.step <= 2:
            write(self, solution)

    with mock.patch.multiple(Checkpoint, _write=early, __call__=early):
        yield


def _algorithms() -> dict[str, Callable[[Path], Iterator[tuple[str, Use]]]]:
    def make(path: Path, problem: Any) -> Iterator[tuple[str, Use]]:
        def go(path: Path, steps: int) -> None:
            stop, files = MaxSteps(steps), [Checkpoint(path)]
            run(problem.algorithm(), problem.easy(np.float64), stop=stop, callbacks=files, rng=0)

        path.unlink(missing_ok=True)
        go(path, 2)
        yield "state", lambda path: lambda: go(path, 5)

    problems = import_module("problems").PROBLEMS
    return {one.name: lambda path, problem=one: make(path, problem) for one in problems}


def _raised_by_us(error: Exception) -> bool:
    """Whether a line of ours raised it and said why, rather than one of NumPy below it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return "/lemmata/" in last.filename and (last.line or "").startswith("raise")


def attempt(source: Source, path: Path) -> tuple[str, str]:
    """Open a file and use it, in this process: the outcome, and the error."""
    outcome = "refused"
    try:
        used = source.use(path)
        outcome = "error"
        used()
    except MemoryError as error:
        return "memory", repr(error)
    except Exception as error:
        # a checkpoint is opened by the fit that goes on with it, which names it
        refused = isinstance(error, ValueError) and (
            outcome == "refused" or str(path) in str(error) or _raised_by_us(error)
        )
        return "refused" if refused else "error", f"{type(error).__name__}: {error}"[:300]
    return "works", ""
