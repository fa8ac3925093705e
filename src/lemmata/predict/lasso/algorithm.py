"""Working sets: solve over few columns, check all of them, add those that are missing.

    1. minimise P over the entered columns E, from their Gram matrix (subproblem.py)
    2. V = X̃ᵀR for all other columns: one pass over the data for several problems (λ's of a path, targets) at once
    3. the duality gap over *all* columns (duality.py): at most tol·‖ỹ‖² → this problem is solved, whatever E is
    4. otherwise the columns with |v_j| > l1_j enter, the worst first

A path goes from large λ to small, each from an extrapolation of the two solutions before it: between the λ's at which the
support changes, w is linear in λ. Columns that the gap proves to be zero (gap-safe) are skipped for that λ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lemmata.core.engine import one_blas_thread, pick, worth_compiling
from lemmata.core.loop import Stop, Stopped
from lemmata.core.store import storable
from lemmata.predict.lasso.design import SIDE_BY_SIDE
from lemmata.predict.lasso.duality import above_rounding, duality, may_be_nonzero
from lemmata.predict.lasso.problem import Regression
from lemmata.predict.lasso.subproblem import (
    Enough,
    GramQuadratic,
    Reached,
    gaps_of,
    guess_path,
)

Array = np.ndarray
# n·d + d²·(number of problems): below it NumPy's sweeps end before a compiler would
KERNELS_ABOVE = 2**21
BLOCK = 8  # problems of a path that share a pass
AHEAD = 0.5  # of the strong rule's λ − λ′: how much a correlation is expected to grow from one block to the next
INSIDE = 0.3  # of the gap to reach, within the entered columns
# so many columns' products with each other cost as much as the pass over d: k² = PASS · d
PASS = 75.0
# The share of P that the gap may be, whatever tol says. What is certified is a share of P, and slopes, whose squares are like
# gaps; on the dense path of bench/lasso.py it costs 128 sweeps more than none, and no pass.
SHARE = 2.5e-7
# a problem: to do, certified (or at its rounding), out of sweeps
OPEN, SOLVED, EXHAUSTED = (0.0, 1.0, 2.0)


class Exhausted(Stop):
    """Every problem is solved or has used up its sweeps."""

    def reason(self, solution):
        return None if (solution.state.done == OPEN).any() else Stopped.MAX_STEPS


@storable
@dataclass(frozen=True)
class ElasticNetState:
    """All problems, target by target, λ by λ; those not yet begun are at 0."""

    version = 1
    layout: ClassVar = {
        "coefs": "p d",
        "losses gaps done": "p",
        "sweeps": "p int >=0",
        "order": "e int >=0 <d",
        "cuts": "c int >=0 <=e",
        "waiting": "m int >=0 <d",
    }

    coefs: Array  # (P, d)
    losses: Array  # (P,) P(w) of each
    gaps: Array  # (P,) P − D with the best dual point known, 0 before there is one
    sweeps: Array  # (P,)
    done: Array  # (P,) OPEN, SOLVED or EXHAUSTED
    order: Array  # the entered columns
    cuts: Array  # how many there were after each entry
    waiting: Array  # columns that enter next


@dataclass(frozen=True)
class ElasticNetAlgorithm:
    """Minimise P for every target and every λ.

    alphas : α's, falling; tol : the gap to reach, in units of ‖ỹ‖²; max_iter : sweeps per problem
    """

    draws: ClassVar = False
    hint: ClassVar = "scale the columns of X"

    alphas: tuple[float, ...]
    l1_ratio: float = 1.0
    positive: bool = False
    tol: float = 1e-4
    max_iter: int = 1000
    screening: bool = True
    share: float = SHARE  # of P
    polish: bool = True  # whether a solution is the optimum of its signs where that is cheap

    def in_fold(self, share: float) -> ElasticNetAlgorithm:
        """The same to a gap of that share of P, without a polish: coefficients that only predict."""
        return replace(self, share=share, polish=False)

    # --- the driver's four ---

    def init(self, data: Regression, rng: Any) -> ElasticNetState:
        d, P = data.shape[1], len(self.alphas) * data.Y.shape[1]
        coefs = np.zeros((P, d))
        none = np.empty(0, np.int64)
        if data.start is not None:
            coefs[:: len(self.alphas)] = data.start * data.usable
        smooth = self.l1_ratio == 0 or self.alphas[-1] == 0  # then no coefficient stays 0
        if data.fits_at_once or smooth:  # no pass over the data is ever needed
            waiting = np.flatnonzero(data.usable)
        else:
            waiting = np.flatnonzero(coefs.any(axis=0))
            V = data.at_zero
            size = (V if self.positive else np.abs(V)).max(axis=1)
            score = np.where(data.usable, self._score(size, data), -np.inf)
            last = self.alphas[min(self._width(data), len(self.alphas)) - 1] * self.l1_ratio
            waiting = np.union1d(waiting, best_columns(score, last, self._affordable(data, 0) // 2))
        losses = np.repeat(0.5 * data.yy, len(self.alphas))
        state = ElasticNetState(
            coefs, losses, losses.copy(), np.zeros(P, np.int64), np.zeros(P), none, none, waiting
        )  # fmt: skip
        return state if data.start is None else self._with_losses(state, data)

    def step(self, state: ElasticNetState, data: Regression) -> ElasticNetState:
        if data.design.size < SIDE_BY_SIDE:
            return self._round(state, data)
        with one_blas_thread():  # our own threads cut the columns: results do not follow BLAS's
            return self._round(state, data)

    def objective(self, state: ElasticNetState) -> float:
        return float(state.losses.sum())

    def finished(self, state: ElasticNetState) -> bool:
        return bool((state.done == SOLVED).all())

    def extras(self, state: ElasticNetState) -> dict[str, float]:
        return {"gap": float(state.gaps.max()), "entered": len(state.order)}

    def attributes(self, state: ElasticNetState) -> dict[str, Any]:
        return {"coefs": state.coefs, "gaps": state.gaps, "sweeps": state.sweeps}

    # --- one round ---

    def _round(self, state: ElasticNetState, data: Regression) -> ElasticNetState:
        entered = data.entered
        entered.replay(state.order, tuple(state.cuts.tolist()))
        entered.enter(state.waiting[entered.place[state.waiting] < 0])
        everything = len(entered) == int(data.usable.sum())
        open_problems = np.flatnonzero(state.done == OPEN)
        block = open_problems[: 64 if everything else self._width(data)]
        coefs, losses, gaps, sweeps, done = (
            part.copy()
            for part in (state.coefs, state.losses, state.gaps, state.sweeps, state.done)
        )
        kernels, H = self._kernels(data), []
        q, factor = np.ascontiguousarray(entered.q.T), data.factor[entered.order]
        known = {}
        if (
            everything
            and not self.polish
            and kernels.SIGNS_FIRST
            and self.alphas[-1] * self.l1_ratio > 0
        ):
            known = self._guess(data, block, coefs, q[0], factor)
        for p in block:
            reached = known.get(p) or GramQuadratic(
                entered.G, q[self._target_of(p)], *self._penalties(p, factor), self._yy(data, p), self.positive, kernels,
            ).minimise(
                self._start(coefs, p)[entered.order],
                self._enough(data, p).times(1.0 if everything else INSIDE),
                max(self.max_iter - int(sweeps[p]), 1), self._before(coefs, p, entered.order), self.polish,
            )  # fmt: skip
            coefs[p] = 0.0
            coefs[p, entered.order] = reached.w
            sweeps[p] += reached.sweeps
            H.append(reached.h)
            if everything:  # the entered columns are all there are
                losses[p] = reached.loss
                gaps[p] = above_rounding(reached.gap, reached.loss, len(data.Y))
                done[p] = self._verdict(data, p, reached.loss, reached.gap, sweeps[p], True)
        order, cuts = entered.order, np.array(entered.cuts, np.int64)
        new = ElasticNetState(coefs, losses, gaps, sweeps, done, order, cuts, np.empty(0, np.int64))
        return new if everything else self._look_at_all(new, data, block, H)

    def _guess(self, data: Regression, block: Array, coefs: Array, q: Array, factor: Array) -> dict:
        """The problems of a fold that guesses of their signs solve; the others begin at their guess, in `coefs`."""
        entered, yy = data.entered, self._yy(data, block[0])
        alphas = np.array([self.alphas[p % len(self.alphas)] for p in block])[:, None]
        L1, L2 = alphas * self.l1_ratio * factor, alphas * (1 - self.l1_ratio) * factor
        start = self._start(coefs, block[0])[entered.order]
        S = start.nonzero()[0]
        W = guess_path(entered.G, q, L1, L2, self.positive, S, np.sign(start[S]))
        losses, gaps, H = gaps_of(entered.G, q, W, L1, L2, yy, self.positive)
        coefs[np.ix_(block, entered.order)] = W
        enough = self._enough(data, block[0])
        return {
            p: Reached(W[i], H[i], 1, losses[i], gaps[i])
            for i, p in enumerate(block)
            if enough.is_reached(losses[i], gaps[i])
        }

    def _look_at_all(self, new: ElasticNetState, data: Regression, block: Array, H: list[Array]):
        """Steps 2 to 4: correlations of all columns, gaps, and which columns enter next."""
        entered, targets = data.entered, self._target_of(block)
        R = entered.residuals(new.coefs[np.ix_(block, entered.order)], targets)
        V = data.design.correlate(R)  # (d, b)
        V[entered.order] = np.stack(H, axis=1)
        V[data.factor == 0] = 0.0
        outside = data.usable & (entered.place < 0)
        missing = np.full(len(V), -np.inf)
        for i, p in enumerate(block):
            w, v, (l1, l2) = new.coefs[p], V[:, i], self._penalties(p, data.factor)
            found = duality(w, R[:, i], data.Y[:, targets[i]], v, l1, l2, self.positive)
            new.losses[p] = found.primal
            new.gaps[p] = above_rounding(found.gap, found.primal, len(data.Y))
            late = outside & ((v if self.positive else np.abs(v)) > l1)
            if self.screening:
                alive = may_be_nonzero(found, v - l2 * w, data.design.norms, l1, l2, self.positive)
                late = late & alive if (late & alive).any() else late
            new.done[p] = self._verdict(
                data, p, found.primal, found.gap, new.sweeps[p], not late.any()
            )
            if new.done[p] == OPEN:
                missing[late] = np.maximum(missing[late], self._score(v, data)[late] - l1[late])
        waiting = best_columns(missing, -np.inf, 2 * self._affordable(data, len(entered)))
        if not len(waiting):
            waiting = self._next_columns(new, data, V[:, -1], block[-1], outside)
        return replace(new, waiting=waiting)

    def _next_columns(self, state, data, v, p, outside) -> Array:
        """Columns that the next λ's of this path will probably need."""
        rest = np.flatnonzero(state.done == OPEN)[: self._width(data)]
        rest = rest[self._target_of(rest) == self._target_of(p)]
        if not len(rest):
            return np.empty(0, np.int64)
        now, then = (self.alphas[i % len(self.alphas)] * self.l1_ratio for i in (p, rest[-1]))
        score = np.where(outside, self._score(v, data), -np.inf)
        return best_columns(
            score, then - AHEAD * (now - then), self._affordable(data, len(state.order))
        )

    # --- formulas ---

    def _target_of(self, p: Any) -> Any:
        return p // len(self.alphas)

    def _yy(self, data: Regression, p: int) -> float:
        return float(data.yy[self._target_of(p)])

    def _enough(self, data: Regression, p: int) -> Enough:
        """scikit-learn's rule, gap ≤ tol·‖ỹ‖², and a share of P: ‖ỹ‖² says little where the fit is close."""
        yy = self._yy(data, p)
        return Enough(self.tol * yy, self.share, 0.5 * yy / 1000)

    def _verdict(self, data, p, loss: float, gap: float, sweeps: int, complete: bool) -> float:
        """Whether a problem is solved; `complete`: no column is missing, so that what is left is rounding."""
        if self._enough(data, p).is_reached(loss, gap):
            return SOLVED
        if sweeps >= self.max_iter:
            return EXHAUSTED
        return SOLVED if complete else OPEN

    def _score(self, v: Array, data: Regression) -> Array:
        """|v_j| per unit of penalty, v_j where only w ≥ 0 counts."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (v if self.positive else np.abs(v)) / data.factor

    def _width(self, data: Regression) -> int:
        """Number of problems that share a pass; sparse passes are cheap beside the sweeps of λ's that come too early."""
        return BLOCK // 2 if data.design.sparse else BLOCK

    def _penalties(self, p: int, factor: Array) -> tuple[Array, Array]:
        alpha = self.alphas[p % len(self.alphas)]
        return alpha * self.l1_ratio * factor, alpha * (1 - self.l1_ratio) * factor

    def _affordable(self, data: Regression, k: int) -> int:
        """Number of columns that cost as much to enter as one pass over all."""
        return max(32, int(np.sqrt(PASS * data.shape[1] + k * k)) - k)

    def _start(self, coefs: Array, p: int) -> Array:
        """Where to begin: where it was, or on the line through the two solutions before it."""
        k = p % len(self.alphas)
        if k == 0 or coefs[p].any():
            return coefs[p]
        before = coefs[p - 1]
        if k == 1:
            return before
        a, b, c = (self.alphas[i] for i in (k - 2, k - 1, k))
        if not a > b:
            return before
        ahead = before + (before - coefs[p - 2]) * ((b - c) / (a - b))
        return np.where(ahead * before > 0, ahead, 0.0)

    def _before(self, coefs: Array, p: int, order: Array) -> tuple[Array, float] | None:
        """The solution at the λ before, over the entered columns, and the ratio of both λ's; None where l2 differs."""
        k = p % len(self.alphas)
        if k == 0 or self.l1_ratio < 1 or not self.alphas[k] > 0:
            return None
        return coefs[p - 1][order], self.alphas[k - 1] / self.alphas[k]

    def _kernels(self, data: Regression) -> Any:
        n, d = data.shape
        work = data.design.size + float(min(n, d)) ** 2 * len(self.alphas)
        return pick(worth_compiling(work, above=KERNELS_ABOVE), "lemmata.predict.lasso")

    def _with_losses(self, state: ElasticNetState, data: Regression) -> ElasticNetState:
        """The losses of a warm start."""
        entered = data.entered
        entered.enter(np.flatnonzero(state.coefs.any(axis=0)))
        everyone = range(len(state.losses))
        R = entered.residuals(state.coefs[:, entered.order], self._target_of(np.array(everyone)))
        losses = 0.5 * np.einsum("ij,ij->j", R, R)
        for p in everyone:
            l1, l2 = self._penalties(p, data.factor)
            losses[p] += l1 @ np.abs(state.coefs[p]) + 0.5 * l2 @ state.coefs[p] ** 2
        return replace(
            state, losses=losses, order=entered.order, cuts=np.array(entered.cuts, np.int64)
        )


def best_columns(score: Array, least: float, most: int) -> Array:
    """Columns with a score above `least`, at most this many, in the order of the data."""
    found = np.flatnonzero(score > least)
    if len(found) > most:
        found = found[np.argpartition(-score[found], most)[:most]]
    return np.sort(found)
