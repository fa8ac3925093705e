"""Rankings. Truth: each user draws one held-out item from a known distribution, so the expected gain is a sum."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import scipy.sparse as sp
from implicit.cpu.als import AlternatingLeastSquares

from lemmata.audit.completion.held_out.ranking import RANKING_CLAIMS
from lemmata.completion import ALS, Observed, certify_factors
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from truth.harness import Case, problems

NAME, UNSEEN = "ranks_above_popularity", "entries_unseen"
ITEMS = 60


class World:
    """Users with tastes: what they chose in training, and what they will choose, p (users, items), 0 for what they have."""

    def __init__(self, seed, users: int, taste: float, fame: float = 1.0):
        rng = np.random.default_rng(seed)
        known_to_all, self.U, self.V = (
            fame * rng.normal(size=ITEMS),
            rng.normal(size=(users, 2)),
            rng.normal(size=(ITEMS, 2)),
        )
        logits = known_to_all + taste * self.U @ self.V.T
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        self.known = rng.random(chances.shape) < 0.5 * chances / chances.mean()
        self.known[:, 0] = False  # nobody has everything
        self.p = np.where(self.known, 0, chances)
        self.p /= self.p.sum(axis=1, keepdims=True)
        self.logits, self.rng = logits, rng
        self.counts = self.known.sum(axis=0).astype(float)

    def ranks(self, scores) -> np.ndarray:
        """The place of every item in each user's list, 0 the first; what is known comes last."""
        order = np.argsort(np.where(self.known, np.inf, -scores), axis=1, kind="stable")
        return np.argsort(order, axis=1)

    def gain(self, scores) -> float:
        """The expected NDCG@10 beyond that of popularity."""
        gains = [
            np.where(ranks < 10, 1 / np.log2(ranks + 2.0), 0)
            for ranks in (self.ranks(scores), self.ranks(np.tile(self.counts, (len(self.p), 1))))
        ]
        return float((self.p * (gains[0] - gains[1])).sum(axis=1).mean())

    def entries(self, test=None) -> tuple[Observed, Observed]:
        """What was chosen in training, and what is chosen next: one item each, unless `test` says which."""
        chosen = (self.p.cumsum(axis=1) > self.rng.random((len(self.p), 1))).argmax(axis=1)
        held = np.zeros(self.p.shape, bool)
        held[np.arange(len(chosen)), chosen] = True
        masks = self.known, held if test is None else test
        train, after = (Observed.of(np.where(mask, 1.0, np.nan)) for mask in masks)
        return train, after

    def certificate(self, scores, test=None, **attributes) -> Certificate:
        """Of factors whose product is `scores`."""
        A, B = self.entries(test)
        factors = {"U_": scores, "V_": np.eye(ITEMS), "feedback": "implicit", **attributes}
        return check(RANKING_CLAIMS, Fit(None, A, B, attributes=factors), "factors")


@problems(seeds=40, quick=1)
def good_and_bad_rankings(seed: int) -> Iterator[Case]:
    world = World(seed, users=400, taste=2.0, fame=3.0)
    for scale in (1.0, 1e150, 1e-150):
        shown = world.certificate(scale * world.logits)
        yield Case(f"the tastes, {scale:g}", shown, {NAME: world.gain(world.logits) > 0}, {NAME})
        noise = scale * world.rng.normal(size=world.p.shape)
        shown = world.certificate(noise)
        yield Case(f"noise, {scale:g}", shown, {NAME: world.gain(noise) > 0}, {NAME})
    # the tastes are better than popularity, also where the entries are no test of them
    truths = {NAME: world.gain(world.logits) > 0, UNSEEN: False}
    yield Case("trained on", world.certificate(world.logits, world.known), truths, {UNSEEN})
    rare = world.rng.random(world.p.shape) < 0.01
    part = (world.known & rare) | (~world.known & rare)
    yield Case("partly trained on", world.certificate(world.logits, part), truths, {UNSEEN})
    yield Case("not trained on", world.certificate(world.logits), {UNSEEN: True}, {UNSEEN})
    turned = world.certificate(-world.logits)
    yield Case("tastes upside down", turned, {NAME: False}, {NAME})
    popular = np.tile(world.counts, (len(world.p), 1))
    for label, scores in (("popularity itself", popular), ("all alike", np.ones(world.p.shape))):
        yield Case(label, world.certificate(scores), {NAME: False})


@problems(seeds=100, quick=1)
def hardly_better_or_worse(seed: int) -> Iterator[Case]:
    """Popularity with a little noise, or a little taste, for few users and for many: an error of 5 % is allowed."""
    for users in (15, 100, 800):
        world = World([seed, users], users, taste=1.0)
        popular, noise = np.log1p(world.counts), world.rng.normal(size=world.p.shape)
        taste = world.U @ world.V.T
        for label, scores in (
            ("noise", popular + 0.3 * noise),
            ("more noise", popular + 1.0 * noise),
            ("taste", popular + 0.1 * taste + 0.3 * noise),
            ("more taste", popular + 0.3 * taste + 0.5 * noise),
        ):
            shown = world.certificate(scores)
            yield Case(f"{label}, {users}", shown, {NAME: world.gain(scores) > 0})


@problems(seeds=100, quick=1)
def users_of_two_kinds(seed: int) -> Iterator[Case]:
    """Some users served much better and the others worse, in groups that come one after the other: the mean decides."""
    world = World(seed, users=300, taste=1.5)
    popular = np.tile(np.log1p(world.counts), (300, 1))
    bad = popular + 2.0 * world.rng.normal(size=popular.shape)
    for share in (0.05, 0.1, 0.2, 0.4):
        served = np.arange(300)[:, None] < share * 300
        scores = np.where(served, world.logits, bad)
        yield Case(f"{share:.0%} first", world.certificate(scores), {NAME: world.gain(scores) > 0})
        scores = np.where(~served, bad, world.logits)[::-1]
        world.p, world.known = world.p[::-1], world.known[::-1]
        yield Case(f"{share:.0%} last", world.certificate(scores), {NAME: world.gain(scores) > 0})
        world.p, world.known = world.p[::-1], world.known[::-1]


@problems(seeds=20, quick=1)
def damped_rankings(seed: int) -> Iterator[Case]:
    """Ratings of items that few have rated are wild: ranked as they are they lose, damped by their counts they win."""
    world = World(seed, users=400, taste=0.7, fame=2.0)
    n = np.maximum(world.counts, 0.5)
    wild = world.logits - world.logits.mean() + 300 * world.rng.normal(size=ITEMS) / n
    for damping in (0.0, 100.0):
        w = world.counts / (world.counts + damping) if damping else np.ones(ITEMS)
        shown = world.certificate(wild, damping_=damping)
        yield Case(f"damping {damping:g}", shown, {NAME: world.gain(w * wild) > 0})


@problems(seeds=12, quick=1)
def fits_of_two_libraries(seed: int) -> Iterator[Case]:
    """ALS on what was chosen, ours and that of `implicit`; healthy, with another user's taste, and upside down."""
    world = World(seed, users=400, taste=2.0, fame=0.5)
    train, test = world.entries()
    ours = ALS(2, feedback="implicit", random_state=seed).fit(train)
    other = AlternatingLeastSquares(factors=2, iterations=10, random_state=seed)
    other.fit(sp.csr_array(world.known.astype(np.float32)), show_progress=False)
    for library, U, V in (
        ("lemmata", ours.U_, ours.V_),
        ("implicit", other.user_factors, other.item_factors),
    ):
        for label, left in (
            ("as it is", U),
            ("of somebody else", np.roll(U, 1, axis=0)),
            ("upside down", -U),
        ):
            shown = certify_factors(train, left, V, 0.01, feedback="implicit", held_out=test)
            scores = np.asarray(left, np.float64) @ np.asarray(V, np.float64).T
            scores[np.ptp(scores, axis=1) == 0] = world.counts  # nobody's taste: what is popular
            yield Case(f"{library}, {label}", shown, {NAME: world.gain(scores) > 0})


# --- ratings ----------------------------------------------------------------------------------------------------------


class Raters(World):
    """Users who have seen what is famous, and who like it or not: half of what they rated is held out, with fresh ratings.

    The rating of an item is its quality and the user's taste for it, with noise; `sign` says whether the famous is liked.
    """

    def __init__(self, seed, users: int, taste: float, quality: float, sign: float, low: float):
        super().__init__(seed, users, 0.0, fame=1.0)
        seen = self.rng.random(self.p.shape) < 0.9 * self.counts / self.counts.max()
        self.known = seen & (self.rng.random(seen.shape) < 0.5)
        self.known[:, 0] = True  # everybody has rated something
        self.held = seen & ~self.known
        fame = (self.counts - self.counts.mean()) / self.counts.std()
        self.counts = self.known.sum(axis=0).astype(float)
        self.means = low + quality * sign * fame + taste * self.U @ self.V.T
        self.train = self.means + self.rng.normal(size=seen.shape)

    def draw(self) -> np.ndarray:
        return self.means + self.rng.normal(size=self.means.shape)

    def ndcg(self, scores, ratings) -> np.ndarray:
        """NDCG@10 of each user's held-out items; NaN for those who liked all or none."""
        means = np.where(self.held, ratings, np.where(self.known, self.train, np.nan))
        liked = self.held & (ratings > np.nanmean(means, axis=1, keepdims=True))
        order = np.argsort(np.where(self.held, -scores, np.inf), axis=1, kind="stable")[:, :10]
        discounts = 1 / np.log2(np.arange(2, 12))
        best = np.r_[np.nan, np.cumsum(discounts)][np.minimum(liked.sum(axis=1), 10)]
        found = np.take_along_axis(liked, order, axis=1) @ discounts / best
        return np.where(liked.sum(axis=1) < self.held.sum(axis=1), found, np.nan)

    def better(self, scores, draws: int = 30) -> bool | None:
        """Whether the mean gain is above 0, over fresh ratings of the held-out items; None where that is not clear."""
        popular, gains = np.tile(self.counts, (len(scores), 1)), []
        for _ in range(draws):
            ratings = self.draw()
            x = self.ndcg(scores, ratings) - self.ndcg(popular, ratings)
            gains.append(float(np.nanmean(x)))
        mean, error = float(np.mean(gains)), float(np.std(gains)) / draws**0.5
        return mean > 0 if abs(mean) > 5 * error else None

    def certificate(self, scores, test=None, **attributes) -> Certificate:
        A, B = (
            Observed.of(np.where(mask, values, np.nan))
            for mask, values in ((self.known, self.train), (self.held, self.draw()))
        )
        factors = {"U_": scores, "V_": np.eye(ITEMS), **attributes}
        return check(RANKING_CLAIMS, Fit(None, A, B, attributes=factors), "factors")


@problems(seeds=30, quick=1)
def ratings_of_what_was_seen(seed: int) -> Iterator[Case]:
    """The famous is liked or disliked, ratings are above or around zero; models that know tastes, do not, or are wrong."""
    for sign, low in ((1.0, 3.0), (-1.0, 3.0), (1.0, 0.0)):
        world = Raters([seed, sign > 0, int(low)], 300, taste=0.7, quality=0.5, sign=sign, low=low)
        popular = np.tile(world.counts, (300, 1))
        for label, scores in (
            ("the truth", world.means),
            ("tastes of others", np.roll(world.means, 1, axis=0)),
            ("upside down", -world.means),
            ("noise", world.rng.normal(size=popular.shape)),
            (
                "popularity and noise",
                popular + popular.std() * world.rng.normal(size=popular.shape),
            ),
            ("a little taste", popular / popular.std() + 0.1 * world.U @ world.V.T),
        ):
            truth = world.better(scores)
            clear = {NAME} if label in ("the truth", "upside down") else ()
            if truth is not None:
                shown = world.certificate(scores)
                yield Case(
                    f"{label}, {sign:g}, {low:g}", shown, {NAME: truth}, clear if sign > 0 else ()
                )
        yield Case("popularity itself", world.certificate(popular), {NAME: False})


@problems(seeds=6, quick=1)
def ratings_fitted_by_three(seed: int) -> Iterator[Case]:
    """Fits of ratings: ours, and cmfrec's where installed; where tastes are strong, popularity has to be behind."""
    world = Raters(seed, 400, taste=1.5, quality=0.3, sign=1.0, low=3.0)
    A, B = (
        Observed.of(np.where(mask, values, np.nan))
        for mask, values in ((world.known, world.train), (world.held, world.draw()))
    )
    ours = ALS(2, random_state=seed).fit(A)
    fits = {"lemmata": (ours.U_, ours.V_, ours.row_bias_, ours.column_bias_)}
    if find_spec("cmfrec"):
        from cmfrec import CMF

        other = CMF(k=2, lambda_=1.0, verbose=False, random_state=seed, nthreads=1)
        other.fit(sp.coo_array((A.values, (A.rows, A.columns)), A.shape))
        fits["cmfrec"] = (other.A_, other.B_, other.user_bias_, other.item_bias_)
    for label, parts in fits.items():
        U, V, b, c = (np.asarray(part, float) for part in parts)
        truth, found = world.better(U @ V.T + c), {"row_bias_": b, "column_bias_": c}
        shown = check(RANKING_CLAIMS, Fit(None, A, B, attributes={"U_": U, "V_": V, **found}), "it")
        yield Case(label, shown, {NAME: truth, UNSEEN: True}, {NAME})
