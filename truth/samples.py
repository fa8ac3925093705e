"""Planted samples: fresh draws of a mixture, shifted, blurred, without a mode, copied from training rows, of a wrong class.

The law is a mixture of five normals in four columns, in a ring, so that what is true of each kind of sample is known: by
construction (copies, modes), or from 40,000 draws (how far apart the best classifier can tell them: the ratio of densities).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import logsumexp

import lemmata
from lemmata.generate import Samples
from truth.harness import Case, problems

MODES, COLUMNS, SPREAD = 5, 4, 0.35
ROWS = 2000
CLAIMS = ("passes_for_data", "modes_covered", "not_copied")
CENTRES = np.zeros((MODES, COLUMNS))
CENTRES[:, 0] = 3 * np.cos(2 * np.pi * np.arange(MODES) / MODES)
CENTRES[:, 1] = 3 * np.sin(2 * np.pi * np.arange(MODES) / MODES)


def _draw(rng: np.random.Generator, n: int, shares=None, spread: float = SPREAD):
    """(rows, modes) of the mixture, with these shares of its modes."""
    modes = rng.choice(MODES, n, p=shares)
    return CENTRES[modes] + spread * rng.normal(size=(n, COLUMNS)), modes


def _log_density(rows: np.ndarray, shares=None, spread: float = SPREAD, shift: float = 0.0):
    shares = np.full(MODES, 1 / MODES) if shares is None else np.asarray(shares)
    squares = ((rows[:, None] - shift - CENTRES) ** 2).sum(axis=2) / (2 * spread**2)
    with np.errstate(divide="ignore"):
        return logsumexp(np.log(shares) - squares, axis=1) - COLUMNS * np.log(spread)


def _told_apart(rng: np.random.Generator, **law) -> float:
    """The share of rows that the best classifier gets right, from 40,000 draws."""
    shift = law.pop("shift", 0.0)
    real, drawn = _draw(rng, 20_000)[0], _draw(rng, 20_000, **law)[0] + shift
    right = [_log_density(rows) > _log_density(rows, **law, shift=shift) for rows in (real, drawn)]
    return float((right[0].mean() + 1 - right[1].mean()) / 2)


@problems(seeds=30, quick=1)
def draws(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    (X, _), (new, _) = _draw(rng, ROWS), _draw(rng, ROWS)
    laws = {
        "fresh draws": {},
        "a mode missing": {"shares": [0.25] * 4 + [0.0]},
        "a mode at a tenth of its share": {"shares": [0.245] * 4 + [0.02]},
        "a mode at half of its share": {"shares": [0.225] * 4 + [0.1]},
        "blurred": {"spread": 0.5},
        "shifted": {"shift": 0.5},
        "hardly shifted": {"shift": 0.05},
    }
    for label, law in laws.items():
        shift = law.get("shift", 0.0)
        rows = _draw(rng, ROWS, **{key: law[key] for key in law if key != "shift"})[0] + shift
        truths = {"not_copied": True}
        best = _told_apart(rng, **law)
        if (
            abs(best - 0.6) > 0.01
        ):  # a mode missing is told apart 60 % of the time, which is the bound itself
            truths["passes_for_data"] = best < 0.6
        if (
            "shift" not in law
        ):  # cells of k-means divide modes, and lose rows to each other in a shift
            shares = law.get("shares", [1 / MODES])
            truths["modes_covered"] = MODES * shares[-1] >= 0.25
        easy = CLAIMS if label == "fresh draws" else ()
        yield Case(label, lemmata.certify(Samples(rows), X, X_test=new, seconds=60), truths, easy)


@problems(seeds=30, quick=1)
def copies(seed: int) -> Iterator[Case]:
    """A share of the samples is taken from the training rows, with a little noise; the others are honest."""
    rng = np.random.default_rng(seed)
    (X, _), (new, _) = _draw(rng, ROWS), _draw(rng, ROWS)
    for share, noise in ((1.0, 0.0), (1.0, 0.05), (0.5, 0.02), (0.1, 0.0)):
        rows = _draw(rng, ROWS)[0]
        taken = rng.choice(ROWS, round(share * ROWS), replace=False)
        rows[: len(taken)] = X[taken] + noise * rng.normal(size=(len(taken), COLUMNS))
        found = lemmata.certify(Samples(rows), X, X_test=new, seconds=60)
        easy = ("not_copied",) if share >= 0.5 else ()
        yield Case(f"{share:.0%} copied, noise {noise}", found, {"not_copied": False}, easy)
    for share in (0.0, 0.3):  # far from all rows a few of them are nearest to many samples
        rows = _draw(rng, ROWS, spread=3.0)[0]
        rows[: round(share * ROWS)] = X[: round(share * ROWS)]
        found = lemmata.certify(Samples(rows), X, X_test=new, seconds=60)
        yield Case(f"far away, {share:.0%} copied", found, {"not_copied": share == 0})
    few = _draw(rng, 200)[
        0
    ]  # new rows, a tenth of the training rows: little is seen, and nothing wrong is said
    for share in (0.0, 0.3):
        rows = _draw(rng, ROWS)[0]
        rows[: round(share * ROWS)] = X[: round(share * ROWS)]
        found = lemmata.certify(Samples(rows), X, X_test=few, seconds=60)
        yield Case(f"few new rows, {share:.0%} copied", found, {"not_copied": share == 0})
    found = lemmata.certify(Samples(_draw(rng, ROWS)[0]), X, X_test=X[::2], seconds=60)
    yield Case("test rows that were trained on", found, dict.fromkeys(CLAIMS, False))


@problems(seeds=30, quick=1)
def conditional(seed: int) -> Iterator[Case]:
    """Samples with the class they were asked for, always or mostly."""
    rng = np.random.default_rng(seed)
    (X, y), (new, new_y), (rows, modes) = (_draw(rng, ROWS) for _ in range(3))
    for share in (0.0, 0.02, 0.1, 0.5):
        asked = modes.copy()
        wrong = rng.choice(ROWS, round(share * ROWS), replace=False)
        asked[wrong] = (asked[wrong] + 1) % MODES
        found = lemmata.certify(Samples(rows, asked), X, y, X_test=new, y_test=new_y, seconds=60)
        easy = ("classes_obeyed",) if share in (0.0, 0.5) else ()
        truths = {"classes_obeyed": share <= 0.05, "modes_covered": True}
        yield Case(f"{share:.0%} of the wrong class", found, truths, easy)
