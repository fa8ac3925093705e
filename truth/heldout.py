"""Held-out entries. Truth: the capped gain over the mean, averaged over all entries from which the held-out ones are drawn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lemmata.audit.completion.held_out.error import entries_unseen, held_out_error
from lemmata.completion import MeanRatings, Observed, SingularValueProjection
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from truth.harness import Case, problems

NAME, UNSEEN = "held_out_error", "entries_unseen"
SHAPE = (150, 120)


def split(seed: int, train: float, tests: int) -> tuple[np.ndarray, np.ndarray]:
    """Places to train on, and a random choice among all others."""
    rng = np.random.default_rng(seed)
    known = rng.random(SHAPE) < train
    rest = np.flatnonzero(~known)
    test = np.zeros(known.size, bool)
    test[rng.choice(rest, tests, replace=False)] = True
    return known, test.reshape(SHAPE)


def certificate(values, known, test, predicted) -> Certificate:
    """Of factors whose product is `predicted`."""
    P, s, Qt = np.linalg.svd(predicted, full_matrices=False)
    A, B = (Observed.of(np.where(mask, values, np.nan)) for mask in (known, test))
    factors = {"U_": P * np.sqrt(s), "V_": Qt.T * np.sqrt(s)}
    return check((entries_unseen, held_out_error), Fit(None, A, B, attributes=factors), "factors")


def better(values, known, predicted) -> bool:
    seen = values[known].astype(np.float64)
    width = seen.max() - seen.min()
    losses = [
        np.minimum(((values - x) / width)[~known] ** 2, 1).mean() for x in (predicted, seen.mean())
    ]
    return bool(losses[0] < losses[1])


def planted(seed: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Ratings of 1 to 5 in tenths, and what made them."""
    rng = np.random.default_rng(seed)
    signal = 3 + rng.uniform(-1, 1, (SHAPE[0], 2)) @ rng.uniform(-1, 1, (2, SHAPE[1]))
    return np.clip(signal + noise * rng.normal(size=SHAPE), 1, 5).round(1), signal


@problems(seeds=40, quick=2)
def good_and_bad_predictions(seed: int) -> Iterator[Case]:
    values, signal = planted(seed, noise=0.2)
    rng = np.random.default_rng([seed, 1])
    known, test = split(seed, 0.3, 800)
    for scale, dtype in (
        (1.0, np.float64),
        (1e150, np.float64),
        (1e-150, np.float64),
        (1.0, np.float32),
    ):
        v, x = (scale * values).astype(dtype), scale * signal
        shown = certificate(v, known, test, x)
        yield Case(f"the signal, {scale:g}", shown, {NAME: better(v, known, x)}, {NAME})
        wild = scale * (3 + 2 * rng.normal(size=SHAPE))
        shown = certificate(v, known, test, wild)
        yield Case(f"noise, {scale:g}", shown, {NAME: better(v, known, wild)}, {NAME})
    shown = certificate(values, known, test, 1000 * np.sign(signal - 3))
    yield Case("±1000", shown, {NAME: False}, {NAME})
    # the signal is better than the mean, also where the entries are no test of it
    truth = {NAME: better(values, known, signal)}
    for label, places, unseen in (
        ("not trained on", test, True),
        ("trained on", known, False),
        ("partly trained on", test | (known & (rng.random(SHAPE) < 0.01)), False),
    ):
        shown = certificate(values, known, places, signal)
        yield Case(label, shown, {**truth, UNSEEN: unseen}, {UNSEEN})


@problems(seeds=100, quick=1)
def hardly_better_or_worse(seed: int) -> Iterator[Case]:
    """The mean with a little noise, or a little signal, on few and on many entries: an error of 5 % is allowed."""
    values, signal = planted(seed, noise=0.5)
    rng = np.random.default_rng([seed, 2])
    for tests in (50, 400, 4000):
        known, test = split([seed, tests], 0.3, tests)
        mean = values[known].mean()
        for label, x in (
            ("noise", mean + 0.1 * rng.normal(size=SHAPE)),
            ("signal", mean + 0.1 * (signal - 3) + 0.1 * rng.normal(size=SHAPE)),
            ("rarely wrong", np.where(rng.random(SHAPE) < 0.02, 5.0, mean + 0.1 * (signal - 3))),
        ):
            shown = certificate(values, known, test, x)
            yield Case(f"{label}, {tests}", shown, {NAME: better(values, known, x)})


@problems(seeds=40, quick=1)
def heavy_tails(seed: int) -> Iterator[Case]:
    """One entry in 2,000 is 100, in training or not: the range is that of training, and errors beyond it are capped."""
    rng = np.random.default_rng(seed)
    values, signal = planted(seed, noise=0.2)
    rare = rng.random(SHAPE) < 1 / 2000
    values = np.where(rare, 100.0, values)
    known, test = split(seed, 0.2, 1000)
    yield Case(
        "rare", certificate(values, known, test, signal), {NAME: better(values, known, signal)}
    )
    values = rng.standard_t(1.5, SHAPE)
    noise = rng.standard_t(1.5, SHAPE)
    yield Case("t", certificate(values, known, test, noise), {NAME: better(values, known, noise)})


@problems(seeds=10, quick=1)
def fitted_models(seed: int) -> Iterator[Case]:
    """Our own fits: a rank that fits the signal, and one that fits the noise."""
    values, _ = planted(seed, noise=0.3)
    known, test = split(seed, 0.3, 1500)
    X, Y = (np.where(mask, values, np.nan) for mask in (known, test))
    for model in (
        SingularValueProjection(2, centre="global"),
        SingularValueProjection(12, centre="global", max_iter=200, tol=0),
        MeanRatings(reg=5.0),
    ):
        model.fit(X)
        truth = better(values, known, model.complete(keep_known=False))
        yield Case(type(model).__name__, model.certify(X, Y), {NAME: truth})
