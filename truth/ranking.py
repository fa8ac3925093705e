"""Rankings. Truth: each user draws one held-out item from a known distribution, so the expected gain is a sum."""

from __future__ import annotations

from collections.abc import Iterator

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
        factors = {"U_": scores, "V_": np.eye(ITEMS), **attributes}
        return check(RANKING_CLAIMS, Fit(None, A, B, attributes=factors), "factors")


@problems(seeds=40, quick=2)
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


@problems(seeds=100, quick=4)
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


@problems(seeds=100, quick=4)
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
