"""Files of ours that a user's journey enters: those in which a function runs. Importing a module is not entering it.

    python -m tools.journeys            how many, for each journey, each in a process of its own
    python -m tools.journeys kmeans     and which

The data are made up and small, so the plain twins of kernels run; a journey on large data enters the kernels instead.
"""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse  # noqa: F401  loaded once for all journeys
import sklearn.base  # noqa: F401

SOURCE = Path(__file__).parent.parent / "src" / "lemmata"


def recommender() -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    path = Path(tempfile.mkdtemp()) / "ratings.csv"
    users, items = rng.integers(0, 60, 900), rng.integers(0, 40, 900)
    rows = {(u, i): rng.integers(1, 6) for u, i in zip(users, items, strict=True)}
    lines = [f"{u},{i},{r}" for (u, i), r in rows.items()]
    path.write_text("\n".join(["user,item,rating", *lines]) + "\n")

    def journey() -> None:
        import lemmata

        ratings = lemmata.completion.Observed.from_file(path)
        model = lemmata.ALS(rank=3, random_state=0).fit(ratings)
        str(model.certificate_)
        lemmata.save(model, path.with_suffix(".lemma"))
        model.recommend(1, n=3)

    return journey


def kmeans() -> Callable[[], Any]:
    X = np.random.default_rng(0).normal(size=(300, 4))

    def journey() -> None:
        import lemmata

        str(lemmata.KMeans(3, random_state=0).fit(X).certify(X))

    return journey


def certify() -> Callable[[], Any]:
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import scale

    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    model = LogisticRegression().fit(X, y)

    def journey() -> None:
        import lemmata

        str(lemmata.certify(model, X, y))

    return journey


def skipgram() -> Callable[[], Any]:
    words = np.random.default_rng(0).integers(0, 30, (60, 12))
    texts = [" ".join(f"word{w}" for w in line) for line in words]

    def journey() -> None:
        import lemmata
        from lemmata.text import encode

        corpus = encode(texts, min_count=1)
        model = lemmata.SkipGram(8, epochs=2, random_state=0).fit(corpus)
        model.vectors_.nearest("word1")

    return journey


def network() -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 1, 8, 8)).astype(np.float32), rng.integers(0, 2, 60)
    path = Path(tempfile.mkdtemp()) / "net.lemma"

    def journey() -> None:
        import lemmata
        from lemmata.nets import ConvNet

        model = lemmata.NeuralClassifier(ConvNet, max_iter=2, random_state=0).fit(X, y)
        str(model.certificate_)
        lemmata.save(model, path)

    return journey


JOURNEYS = {one.__name__: one for one in (recommender, kmeans, certify, skipgram, network)}


def files_entered(journey: Callable[[], Any]) -> list[str]:
    """Run it once and note the files of ours in which a function was called."""
    entered: set[str] = set()

    def note(frame: Any, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename
        if (
            event == "call"
            and name.startswith(str(SOURCE))
            and name not in entered
            and not _imports(frame)
        ):
            entered.add(name)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        journey()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(str(Path(one).relative_to(SOURCE)) for one in entered)


def _imports(frame: Any) -> bool:
    """Whether a call only defines something: the body of a module or a class, or what such a body calls."""
    while frame is not None:
        in_body = not frame.f_code.co_flags & inspect.CO_OPTIMIZED
        if in_body and frame.f_code.co_filename.startswith(str(SOURCE)):
            return True
        frame = frame.f_back
    return False


def main() -> None:
    asked = sys.argv[1:]
    for name in asked or JOURNEYS:
        apart(lambda name=name: show(name, whole=bool(asked)))


def show(name: str, *, whole: bool) -> None:
    found = files_entered(JOURNEYS[name]())
    print(*(found if whole else ()), f"{name}: {len(found)} files", sep="\n")


def apart(work: Callable[[], Any]) -> None:
    """Do it in a fork that has not loaded lemmata yet: what one journey keeps in caches is no help to the next."""
    child = os.fork()
    if not child:
        work()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main()
