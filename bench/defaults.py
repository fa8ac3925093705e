"""Ratings that nobody tuned for: our defaults against those of Surprise and cmfrec, and "auto" against tuned peers.

Four sets, in the units 0.5–5, 1–5, 0–10 and 0.5–4; three random splits of each, a tenth of the entries held out. Every model
sees the training entries alone, and its predictions are cut to their range. What is tuned is tuned on a tenth of the first
split's training entries, and fitted to all of them.

    ./run bench defaults                               all four sets; peers are tuned on the three small ones
    ./run py -m bench.defaults filmtrust tuned         one of them, and one of its two tables ("defaults" or "tuned")
    ./run py -m bench.defaults movielens_1m            one, with everything: of the large one, some hours
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from bench.helpers.harness import run_quietly
from lemmata import data
from lemmata.completion import ALS, MeanRatings, Observed, SGDFactorization, SoftImpute

SETS = ("movielens_small", "movietweetings", "filmtrust", "movielens_1m")
SPLITS = 3
SMALL = 200_000  # ratings up to which peers are tuned, which takes minutes
SMALLEST = 50_000  # up to which SVD++ and neighbours run, which take minutes a fit, or gigabytes
PARTS = ("defaults", "tuned")

Predictor = Callable[[Observed], np.ndarray]


# --- systems: training entries -> a function that predicts entries --------------------------------------------------------


def ours(model: Any) -> Callable[[Observed], Predictor]:
    def fit(train: Observed) -> Predictor:
        fitted = model().fit(train)
        return lambda test: fitted.predict(test.rows, test.columns)

    return fit


def surprise(make: Callable[[], Any]) -> Callable[[Observed], Predictor]:
    def fit(train: Observed) -> Predictor:
        algorithm = make().fit(trainset(train))

        def predict(test: Observed) -> np.ndarray:
            places = zip(test.rows.tolist(), test.columns.tolist(), strict=True)
            return np.array([algorithm.predict(str(i), str(j), clip=False).est for i, j in places])

        return predict

    return fit


def trainset(A: Observed) -> Any:
    """Surprise's own container; what has no entry is unknown to it."""
    from surprise import Trainset

    rows, columns = (np.flatnonzero(counts) for counts in (A.row_counts, A.column_counts))
    inner = np.zeros(A.shape[0], int), np.zeros(A.shape[1], int)
    inner[0][rows], inner[1][columns] = np.arange(len(rows)), np.arange(len(columns))
    by_user, by_item = defaultdict(list), defaultdict(list)
    places = inner[0][A.rows].tolist(), inner[1][A.columns].tolist(), A.values.tolist()
    for i, j, a in zip(*places, strict=True):
        by_user[i].append((j, a))
        by_item[j].append((i, a))
    names = ({str(name): place for place, name in enumerate(kept)} for kept in (rows, columns))
    scale = float(A.values.min()), float(A.values.max())
    return Trainset(by_user, by_item, len(rows), len(columns), A.n_observed, scale, *names)


def cmfrec(**settings: Any) -> Callable[[Observed], Predictor]:
    def fit(train: Observed) -> Predictor:
        from cmfrec import CMF

        model = CMF(verbose=False, nthreads=1, random_state=1, **settings)
        model.fit(sp.coo_matrix(train.csr()))

        def predict(test: Observed) -> np.ndarray:
            x = model.predict(test.rows, test.columns)
            # it predicts items without ratings worse than any constant does; they get what is known without them
            own = model.glob_mean_ + np.asarray(model.user_bias_)[test.rows]
            return np.where(train.column_counts[test.columns] > 0, x, own)

        return predict

    return fit


def defaults(n_observed: int) -> dict[str, Callable[[Observed], Predictor]]:
    from surprise import SVD, BaselineOnly, KNNBaseline, SVDpp

    systems = {
        "lemmata ALS()": ours(lambda: ALS(random_state=0)),
        "lemmata SGDFactorization()": ours(lambda: SGDFactorization(random_state=0)),
        "lemmata SoftImpute()": ours(lambda: SoftImpute(random_state=0)),
        "lemmata MeanRatings()": ours(MeanRatings),
        "Surprise SVD()": surprise(lambda: SVD(random_state=0)),
        "Surprise BaselineOnly()": surprise(lambda: BaselineOnly(verbose=False)),
        "cmfrec CMF()": cmfrec(),
    }
    if n_observed <= SMALLEST:
        systems["Surprise KNNBaseline()"] = surprise(lambda: KNNBaseline(verbose=False))
        systems["Surprise SVDpp()"] = surprise(lambda: SVDpp(random_state=0))
    return systems


def tuned_svd(train: Observed) -> tuple[str, Callable[[Observed], Predictor]]:
    """Surprise's SVD with 100 factors, the best of twelve settings on a tenth of the training entries."""
    from surprise import SVD

    def system(lr: float, reg: float, epochs: int) -> Callable[[Observed], Predictor]:
        return surprise(lambda: SVD(100, n_epochs=epochs, lr_all=lr, reg_all=reg, random_state=0))

    grid = itertools.product((0.005, 0.01), (0.05, 0.08, 0.12), (30, 60))
    return best_of("Surprise SVD, tuned", {setting: system(*setting) for setting in grid}, train)


def tuned_cmfrec(train: Observed) -> tuple[str, Callable[[Observed], Predictor]]:
    # six numbers: of the two biases, the two factors, and what is not used here
    plain = [
        {"k": k, "lambda_": [own, own, reg, reg, reg, reg]}
        for k in (10, 40)
        for reg in (5.0, 10.0, 15.0, 25.0)
        for own in (3.0, reg)
    ]
    scaled = [
        {"k": k, "lambda_": reg, "scale_lam": True}
        for k in (10, 40)
        for reg in (0.05, 0.1, 0.2, 0.4)
    ]
    grid = {str(one): cmfrec(**one) for one in plain + scaled}
    return best_of("cmfrec CMF, tuned", grid, train)


def best_of(
    name: str, grid: dict[Any, Callable[[Observed], Predictor]], train: Observed
) -> tuple[str, Callable[[Observed], Predictor]]:
    inner, validation = train.split(0.1, seed=100)
    errors = {
        setting: error(fitted(fit, inner), inner, validation) for setting, fit in grid.items()
    }
    best = min(errors, key=errors.__getitem__)
    return f"{name} {best}", grid[best]


# --- the tables -------------------------------------------------------------------------------------------------------


def fitted(fit: Callable[[Observed], Predictor], train: Observed) -> Predictor:
    return run_quietly(lambda: fit(train))


def error(predict: Predictor, train: Observed, test: Observed) -> float:
    low, high = float(train.values.min()), float(train.values.max())
    return float(np.sqrt(np.mean((np.clip(predict(test), low, high) - test.values) ** 2)))


def entries(name: str) -> Observed:
    A = Observed.of(getattr(data, name)())
    return Observed(A.by_row, A.by_column, A.shape)  # positions are labels enough


def table(title: str, systems: dict[str, Any], splits: list[tuple[Observed, Observed]]) -> None:
    """RMSE on every split, the mean, and what each of our systems has over the best peer, with its standard error."""
    found, times = {}, {}
    for name, fit in systems.items():
        begin = time.process_time()
        found[name] = np.array([error(fitted(fit, train), train, test) for train, test in splits])
        times[name] = (time.process_time() - begin) / len(splits)
    print(title)
    for name, errors in sorted(found.items(), key=lambda item: item[1].mean()):
        shown = "  ".join(f"{one:.4f}" for one in errors)
        print(f"  {name:<72}{errors.mean():.4f}  ({shown})  {times[name]:7.1f} s of CPU a fit")
    peers = {name: errors for name, errors in found.items() if not name.startswith("lemmata")}
    best = min(peers, key=lambda name: peers[name].mean())
    for name in (name for name in systems if name.startswith("lemmata")):
        differences = found[name] - found[best]
        spread = differences.std(ddof=1) / np.sqrt(len(splits))
        verdict = "better" if differences.mean() < 0 else "WORSE"
        print(
            f"  → {name} {verdict} than {best}: {differences.mean():+.4f} ± {spread:.4f} (one standard error)"
        )
    print(flush=True)


def main(asked: tuple[str, ...] = ()) -> None:
    parts = [part for part in PARTS if part in asked] or PARTS
    names = [name for name in asked if name not in PARTS]
    for name in names or SETS:
        try:
            A = entries(name)
        except data.DataNotFound:
            print(f"{name}: not on this machine (LEMMATA_DATA)\n")
            continue
        splits = [A.split(test=0.1, seed=seed) for seed in range(SPLITS)]
        what = (
            f"{name}, {A.n_observed:,} ratings {A.values.min():g}–{A.values.max():g}: held-out RMSE"
        )
        if "defaults" in parts:
            table(f"{what}, defaults", defaults(A.n_observed), splits)
        if "tuned" in parts and (name in names or A.n_observed <= SMALL):
            tuned = {
                'lemmata ALS("auto", "auto")': ours(lambda: ALS("auto", "auto", random_state=0))
            }
            tuned |= dict([tuned_svd(splits[0][0]), tuned_cmfrec(splits[0][0])])
            table(f"{what}, tuned", tuned, splits)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
