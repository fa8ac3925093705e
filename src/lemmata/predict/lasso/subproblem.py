"""The elastic net over the entered columns, from their Gram matrix alone.

    minimise  f(w) = ½wᵀGw − qᵀw + Σ l1_j|w_j| + ½ Σ l2_j w_j²

Sweeps of coordinate descent find the signs s of the solution and often its value. Where columns are so alike that sweeps
do not end, the optimum of the signs found is solved for at once,

    (G_SS + diag l2_S) w_S = q_S − l1_S ∘ s_S                    S: the non-zero coordinates,

and w moves there, or as far as the first sign change: f is quadratic in between and falls all the way. Where G_SS is singular
(more signs than rows), a small multiple of ½‖w − w_now‖² is added, a proximal step, which falls as well.

From w = 0 and a small λ, a few larger λ's are solved roughly on the way: the support then grows to its size from below, instead
of shrinking to it from thousands of coordinates that all moved in the first sweep. Where all that takes too many sweeps, the
exact path is followed instead (homotopy.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv

from lemmata.predict.lasso.homotopy import LARGEST, Piece, follow

Array = np.ndarray
INNER = 4  # sweeps over the non-zero coordinates between two over all
DIRECT = 24  # so few coordinates need no way from larger λ's
STRIDE = 3.0  # the ratio of two λ's on the way from w = 0
ROUGH = 1e-3  # the gap to reach on that way, of ‖y‖²
HUGE = 1e6  # a solution so much larger than w is one of rounding
EXACT = 1e-12  # of ‖y‖²: a gap that needs no polish
GUESSES = 6  # sets of signs that are tried before a sweep
SAME = 1e-9  # of l1: what rounding may add to a correlation
PROXIMAL = 1e-8  # of the largest curvature, where G_SS is singular


class Enough(NamedTuple):
    """The gap to reach: at most `gap`, and at most `share` of P, where P counts as `least` if it is less."""

    gap: float
    share: float
    least: float

    def is_reached(self, loss: float, gap: float) -> bool:
        return gap <= min(self.gap, self.share * max(loss, self.least))

    def times(self, factor: float) -> Enough:
        return Enough(factor * self.gap, factor * self.share, self.least)


class Reached(NamedTuple):
    """Where the descent ended."""

    w: Array
    h: Array  # q − Gw
    sweeps: int
    loss: float
    gap: float
    over: bool = True  # small enough, or no coordinate moves any more


class GramQuadratic(NamedTuple):
    """The quadratic part, the penalties, and the kernels that minimise their sum."""

    G: Array
    q: Array
    l1: Array
    l2: Array
    yy: float
    positive: bool
    kernels: Any

    def value(self, w: Array, h: Array) -> float:
        """f(w), with h = q − Gw: ½wᵀGw − qᵀw = −½ wᵀ(q + h)."""
        return float(-0.5 * (w @ (self.q + h)) + self.l1 @ np.abs(w) + 0.5 * (self.l2 @ (w * w)))

    def _times(self, w: Array) -> Array:
        """Gw, from the rows of the non-zero coordinates where they are few."""
        S = w.nonzero()[0]
        return w[S] @ self.G[S] if 4 * len(S) < len(w) else self.G @ w

    def minimise(
        self,
        w: Array,
        enough: Enough,
        most: int,
        before: tuple[Array, float] | None = None,
        polish: bool = True,
    ) -> Reached:
        """From w on, until the duality gap over these columns is small enough or `most` sweeps were made.

        before : the solution for `t` times this l1 and the same l2, and t > 1, if there is one
        polish : whether the optimum of the signs found is taken where that is cheap
        """
        if not len(w):
            return Reached(w, self.q, 0, 0.5 * self.yy, 0.0)
        if not self.l1.any() and not self.positive:
            return self._solve_smooth(w)
        reached = self._begin(w, enough, most)
        if not reached.over and reached.sweeps < most:
            reached = self._follow(before, enough, most, reached.sweeps)
        return self._polish(reached) if reached.over and polish else reached

    def _begin(self, w: Array, enough: Enough, most: int) -> Reached:
        """Try sweeps first, from w or through larger λ's; or follow the exact path."""
        followed = bool((self.l1 > 0).all())
        soon = min(most, self.kernels.SOON) if followed else most
        if w.any() or len(w) <= DIRECT:
            return self._descend(w.copy(), enough, soon, 0)
        if self.kernels.FOLLOWS and followed:
            return self._follow(None, enough, most, 0)
        start, spent = self._approach(enough, soon)
        return self._descend(start, enough, max(soon, min(spent + 1, most)), spent)

    def _polish(self, reached: Reached) -> Reached:
        """The optimum of the signs found instead of a point near it, where that is cheap and keeps the signs."""
        if reached.gap <= EXACT * self.yy or np.count_nonzero(reached.w) > LARGEST:
            return reached
        w, certain = self._step_to_signed_optimum(reached.w)
        h = self.q - self.G @ w
        loss, gap = self.kernels.gap_of(self.q, w, h, self.l1, self.l2, self.yy, self.positive)
        if not (certain and gap < reached.gap):
            return reached
        return Reached(w, h, reached.sweeps, loss, gap)

    def _follow(self, before, enough: Enough, most: int, spent: int) -> Reached:
        """Along the exact path, from the solution before if there is one, and then sweeps for what rounding has left."""
        start = None
        if before is not None and before[0].any():
            S = before[0].nonzero()[0]
            start = Piece(S.tolist(), np.sign(before[0][S]).tolist(), before[1])
        G, q, l1, l2, _, positive, _ = self
        w, events = follow(G, q, l1, l2, positive, most - spent - 1, start)
        return self._descend(w, enough, most, spent + events)

    def _approach(self, enough: Enough, most: int) -> tuple[Array, int]:
        """From 0 through larger λ's; where that leads, and the sweeps it took."""
        w, spent = np.zeros(len(self.q)), 0
        size = self.q if self.positive else np.abs(self.q)
        bound = self.l1 > 0
        ratio = float((size[bound] / self.l1[bound]).max(initial=0.0))
        rough = Enough(max(ROUGH * self.yy, enough.gap), 1.0, self.yy)
        while (ratio := ratio / STRIDE) > STRIDE and spent < most - 1:
            larger = self._replace(l1=ratio * self.l1)
            w, _, spent, *_ = larger._descend(w, rough, most - 1, spent)
        return w, spent

    def _descend(self, w: Array, enough: Enough, most: int, sweeps: int) -> Reached:
        """Alternate sweeps and steps to the optimum of the signs they found; w is written to."""
        G, q, l1, l2, yy, positive, kernels = self
        h = q - self._times(w)
        patience = 1
        while True:
            portion = patience * (kernels.FEW + int(kernels.PER_SIGN * np.count_nonzero(w)))
            made, loss, gap, over = kernels.descend(
                G, q, w, h, l1, l2, yy, positive, *enough, min(portion, most - sweeps), INNER
            )
            sweeps += made
            if over or sweeps >= most:
                return Reached(w, h, sweeps, loss, gap, over)
            moved, certain = self._step_to_signed_optimum(w)
            rest = q - G @ moved
            if certain or self.value(moved, rest) < self.value(w, h):
                w, h, patience = moved, rest, 1
                sweeps += 1
            else:
                patience *= 4  # rounding is in the way: sweeps alone

    def _step_to_signed_optimum(self, w: Array) -> tuple[Array, bool]:
        """w moved towards the optimum of its signs, as far as they stay, and whether f is certain to fall."""
        S = w.nonzero()[0]
        if not len(S):
            return w, False
        now = w[S]
        signs = np.sign(now)
        best, certain = solve_shifted(
            self.G.take(S, 0).take(S, 1), self.l2[S], self.q[S] - self.l1[S] * signs, now
        )
        moved = w.copy()
        turning = best * signs < 0
        if not turning.any():
            moved[S] = best
            return moved, certain
        shares = now[turning] / (now[turning] - best[turning])
        share = float(shares.min())
        moved[S] += share * (best - now)
        moved[S[turning][shares <= share]] = 0.0
        return moved, certain

    def _solve_smooth(self, w: Array) -> Reached:
        """Without an ℓ1 part: one system of equations."""
        best, _ = solve_shifted(self.G.copy(), self.l2, self.q, w)
        # once more for what rounding has left: columns of different scales
        left = self.q - self.G @ best - self.l2 * best
        best = best + solve_shifted(self.G.copy(), self.l2, left, np.zeros_like(w))[0]
        h = self.q - self.G @ best
        loss, gap = self.kernels.gap_of(self.q, best, h, self.l1, self.l2, self.yy, self.positive)
        return Reached(best, h, 1, loss, gap)


def guess_path(G: Array, q: Array, L1: Array, L2: Array, positive: bool, S: Array, signs: Array):
    """W (p, k), for penalties L1 and L2 (p, k) that fall: at each the optimum of signs that begin with those before it.

    A coordinate whose sign would turn leaves, one whose correlation exceeds its bound enters, and the optimum is solved for
    again, a few times at most: what is found is a solution where its duality gap says so.
    """
    W = np.zeros(L1.shape)
    for w, l1, l2 in zip(W, L1, L2, strict=True):
        limit = l1 * (1 + SAME)
        for _ in range(GUESSES):
            h = q
            if len(S):
                A = G.take(S, 0)
                block = A.take(S, 1)
                block.flat[:: len(S) + 1] += l2.take(S)
                _, best, failed = dposv(block, q.take(S) - l1.take(S) * signs, overwrite_a=1)
                if failed:
                    break
                stays = best * signs > 0
                if not stays.all():
                    S, signs = S[stays], signs[stays]
                    continue
                w[:] = 0.0
                w[S] = best
                h = q - best @ A
            late = (h if positive else np.abs(h)) > limit
            late[S] = False
            more = late.nonzero()[0]
            if not len(more):
                break
            S, signs = np.concatenate([S, more]), np.concatenate([signs, np.sign(h[more])])
    return W


def gaps_of(G: Array, q: Array, W: Array, L1: Array, L2: Array, yy: float, positive: bool):
    """P(w) and its duality gap for every row of W, and H = q − WG: the formulas of `gap_of`, all rows at once."""
    H = q - W @ G
    second = np.einsum("pj,pj->p", L2, W * W)
    wq = W @ q
    rr = np.maximum(yy - wq - np.einsum("pj,pj->p", W, H), 0.0)
    V = H - L2 * W
    size = V if positive else np.abs(V)
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = np.where(size > 0, L1 / size, np.inf).min(axis=1)
        yr, norm = yy - wq, rr + second
        c = np.clip(np.where(norm > 0, yr / norm, 1.0), 0.0, limit)
        primal = 0.5 * rr + np.einsum("pj,pj->p", L1, np.abs(W)) + 0.5 * second
        dual = c * yr - 0.5 * c * c * norm
        over = np.maximum((H if positive else np.abs(H)) - L1, 0.0)
        fenchel = yr - 0.5 * rr - (over * over / (2 * L2)).sum(axis=1)
    dual = np.where((L2 > 0).all(axis=1), np.maximum(dual, fenchel), dual)
    return primal, primal - dual, H


def solve_shifted(A: Array, l2: Array, b: Array, now: Array) -> tuple[Array, bool]:
    """(A + diag l2) w = b by Cholesky, and True; where that is singular, w near `now`, and False. Writes into A."""
    A.flat[:: len(A) + 1] += l2
    _, best, failed = dposv(A, b)
    size = np.abs(now).max()
    if not failed and (size == 0 or np.abs(best).max() < HUGE * size):
        return best, True
    shift = PROXIMAL * float(A.diagonal().max())
    A.flat[:: len(A) + 1] += shift
    _, best, failed = dposv(A, b + shift * now)
    return (now if failed or not np.isfinite(best).all() else best), False
