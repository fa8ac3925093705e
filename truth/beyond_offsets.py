"""Factors against offsets. Truth: the expected gain in squared error over ridge offsets at the held-out places, mean over rows.

The expectation of every entry is known, and noise adds the same to both squared errors, so the truth is a sum over places.
Offsets are fitted here once more, by solving their normal equations.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import scipy.sparse as sp

import lemmata
from lemmata.audit.completion.held_out.offsets import beats_offsets
from lemmata.completion import ALS, MeanRatings, Observed, SoftImpute, certify_factors
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from truth.harness import Case, problems

NAME = "beats_offsets"


class World:
    """Ratings around 5: offsets, factors of a given size, and noise, of which held-out entries of a row may share some."""

    def __init__(self, seed, taste: float, n=200, m=120, density=0.25, noise=1.0, shared=0.0):
        rng = np.random.default_rng(seed)
        self.offsets = 5 + rng.uniform(-1.2, 1.2, (n, 1)) + rng.uniform(-1.2, 1.2, m)
        factors = rng.uniform(-1, 1, (n, 2)) @ rng.uniform(-1, 1, (2, m))
        self.expected = self.offsets + taste * factors
        popular = rng.uniform(0.2, 1.8, (n, 1)) * rng.uniform(0.2, 1.8, m)
        drawn = rng.random((n, m)) / popular
        self.known, self.held = drawn < 0.8 * density, (drawn >= 0.8 * density) & (drawn < density)
        self.values = self.expected + noise * rng.uniform(-1, 1, (n, m))
        moods = shared * rng.choice([-1.0, 1.0], (n, 1))
        self.values = np.where(self.held, self.values + moods, self.values)
        ends = [
            self.values.argmin(),
            self.values.argmax(),
        ]  # known, so that no held-out value is cut
        self.known.ravel()[ends], self.held.ravel()[ends] = True, False
        self.rng = rng

    @property
    def entries(self) -> tuple[Observed, Observed]:
        train, test = (
            Observed.of(np.where(mask, self.values, np.nan)) for mask in (self.known, self.held)
        )
        return train, test

    def plain(self) -> np.ndarray:
        """Ridge offsets of the training entries, dense."""
        n = len(self.known)
        mean = self.values[self.known].mean()
        K = self.known.astype(float)
        left = np.block([
            [np.diag(K.sum(1) + 3), K],
            [K.T, np.diag(K.sum(0) + 3)],
        ])  # fmt: skip
        rest = np.where(self.known, self.values - mean, 0)
        found = np.linalg.solve(left, np.r_[rest.sum(1), rest.sum(0)])
        return mean + found[:n, None] + found[n:]

    def gains(self, predicted) -> tuple[bool, bool]:
        """Whether it is better for the average row, and for the average entry, in expectation."""
        x = np.where(
            self.held, (self.plain() - self.expected) ** 2 - (predicted - self.expected) ** 2, 0
        )
        counts = self.held.sum(axis=1)
        rows = (x.sum(axis=1)[counts > 0] / counts[counts > 0]).mean()
        return bool(rows > 0), bool(x.sum() > 0)

    def better(self, predicted) -> bool:
        return self.gains(predicted)[0]

    def certificate(self, predicted, scale=1.0, dtype=np.float64) -> Certificate:
        """Of factors whose product is `predicted`, of ratings in other units."""
        P, s, Qt = np.linalg.svd(predicted, full_matrices=False)
        root = np.sqrt(scale * s)
        A, B = (
            Observed.of((scale * np.where(mask, self.values, np.nan)).astype(dtype))
            for mask in (self.known, self.held)
        )
        return check((beats_offsets,), Fit(None, A, B, attributes={"U_": P * root, "V_": Qt.T * root}), "factors")  # fmt: skip


@problems(seeds=40, quick=1)
def good_and_bad_factors(seed: int) -> Iterator[Case]:
    world = World(seed, taste=2.0)
    noise = world.plain() + world.rng.normal(size=world.known.shape)
    for scale, dtype in ((1.0, np.float64), (1e140, np.float64), (1e-140, np.float64), (1.0, np.float32)):  # fmt: skip
        for label, x in (("truth", world.expected), ("offsets and noise", noise)):
            shown = world.certificate(x, scale, dtype)
            yield Case(f"{label}, {scale:g}", shown, {NAME: world.better(x)}, {NAME})
    yield Case("offsets themselves", world.certificate(world.plain()), {NAME: False})
    wild = 1e3 * np.sign(world.expected - 5)
    yield Case("±1000", world.certificate(wild), {NAME: False}, {NAME})
    truth = {NAME: world.better(world.expected)}  # also where some entries are no test of it
    world.held |= world.known & (world.rng.random(world.held.shape) < 0.01)
    yield Case("partly trained on", world.certificate(world.expected), truth)


@problems(seeds=100, quick=1)
def hardly_better_or_worse(seed: int) -> Iterator[Case]:
    """A little of the truth beside a little noise, for few rows and for many: an error of 5 % is allowed."""
    for n in (30, 200, 800):
        world = World([seed, n], taste=1.0, n=n)
        noise, plain = world.rng.normal(size=world.known.shape), world.plain()
        for size in (0.05, 0.2, 0.5):
            for share in (0.0, 0.1, 0.3):
                x = plain + share * (world.expected - plain) + size * noise
                yield Case(f"{n} rows, {size:g}, {share:g}", world.certificate(x), {NAME: world.better(x)})  # fmt: skip


@problems(seeds=150, quick=1)
def moods(seed: int) -> Iterator[Case]:
    """All held-out entries of a row are off by the same: as many draws as rows, not as entries."""
    world = World(seed, taste=0.0, n=60, m=150, density=0.5, noise=0.3, shared=1.0)
    plain = world.plain()
    for size in (0.1, 0.3):
        x = plain + size * world.rng.choice([-1.0, 1.0], (60, 1)) * (1 - 1e-3)
        yield Case(f"a guess per row, {size:g}", world.certificate(x), {NAME: world.better(x)})


@problems(seeds=100, quick=1)
def few_wild_rows(seed: int) -> Iterator[Case]:
    """Better for most rows and much worse for few, or the reverse: the mean decides."""
    world = World(seed, taste=1.5, n=300)
    plain = world.plain()
    for share, wrong in ((0.02, 6.0), (0.05, 3.0), (0.3, 1.0)):
        few = world.rng.random((300, 1)) < share
        for label, where in (("few wrong", few), ("few right", ~few)):
            x = np.where(where, plain + wrong * world.rng.choice([-1, 1], plain.shape), world.expected)  # fmt: skip
            yield Case(f"{label}, {share:g}", world.certificate(x), {NAME: world.better(x)})


@problems(seeds=15, quick=1)
def fitted_models(seed: int) -> Iterator[Case]:
    """Our own fits, of ratings with factors and without: too little of a penalty fits noise, and offsets win."""
    for taste in (0.0, 3.0):
        world = World([seed, int(taste)], taste, n=300)
        train, test = world.entries
        for label, model in (
            ("ALS(5)", ALS(5, random_state=seed)),
            ("ALS(5, 0.01)", ALS(5, 0.01, random_state=seed, tol=1e-2)),
            ("SoftImpute(reg=2)", SoftImpute(reg=2.0)),
        ):
            model.fit(train)
            truth = world.better(model.complete(keep_known=False))
            easy = {NAME} if "0.01" in label or (taste and "ALS(5)" in label) else set()
            yield Case(f"{label}, taste {taste:g}", model.certify(train, test, seconds=60), {NAME: truth}, easy)  # fmt: skip
    assert NAME not in [one.name for one in MeanRatings().fit(train).certify(train, test)]


@problems(seeds=10, quick=1)
def fits_of_other_libraries(seed: int) -> Iterator[Case]:
    """cmfrec's factors and Surprise's, where installed: of ratings with factors, and of ratings that offsets explain."""
    for taste, reg in ((3.0, 3.0), (0.0, 0.1)):
        world = World([seed, int(taste)], taste, n=600, m=80, density=0.4)
        train, test = world.entries
        if find_spec("cmfrec"):
            shown, predicted = of_cmfrec(train, test, reg, seed)
            yield Case(f"cmfrec, taste {taste:g}", shown, {NAME: world.better(predicted)}, {NAME})
        if find_spec("surprise"):
            shown, predicted = of_surprise(train, test, reg / 60, seed)
            yield Case(f"Surprise, taste {taste:g}", shown, {NAME: world.better(predicted)}, {NAME})


def of_cmfrec(train, test, reg, seed) -> tuple[Certificate, np.ndarray]:
    from cmfrec import CMF

    model = CMF(k=3, lambda_=reg, verbose=False, nthreads=1, random_state=seed)
    model.fit(sp.coo_matrix(train.csr()))
    offsets = model.glob_mean_ + model.user_bias_[:, None] + model.item_bias_
    return lemmata.certify(model, train, test, seconds=60), offsets + model.A_ @ model.B_.T


def of_surprise(train, test, reg, seed) -> tuple[Certificate, np.ndarray]:
    from surprise import SVD

    from bench.defaults import trainset

    places = trainset(train)
    model = SVD(5, n_epochs=100, lr_all=0.02, reg_all=reg, random_state=seed).fit(places)
    (U, V), (b, c) = [np.zeros((size, 5)) for size in train.shape], map(np.zeros, train.shape)
    for counts, factors, offsets, found, bias in (
        (train.row_counts, U, b, model.pu, model.bu),
        (train.column_counts, V, c, model.qi, model.bi),
    ):  # what has no entry is unknown to it
        factors[counts > 0], offsets[counts > 0] = found, bias
    own = {"mean": places.global_mean, "row_bias": b, "column_bias": c}
    shown = certify_factors(train, U, V, reg, **own, held_out=test, seconds=60)
    return shown, places.global_mean + b[:, None] + c + U @ V.T
