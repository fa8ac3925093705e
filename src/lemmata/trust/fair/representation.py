"""Representations that hide the group, for any model to learn from: a linear map, and an autoencoder (Zemel et al. 2013).

    Decorrelate       x ↦ x − Σ^½ U Uᵀ Σ^−½ (x − μ),   U = orth(Σ^−½ cov(x, 1[a = k]))
    FairAutoencoder   minimise  mean((x̂ − x)/s)² + strength Σ_k MMD²(codes of group k, codes of the others)

The first is the least change, in mean squares, after which no feature is correlated with the group (Belrose et al. 2023): all
groups have one mean, and no linear model with a convex loss says more of the group than a constant. Others may. The second asks
for more, that the codes have one law, by a kernel between rows of a batch:

    MMD² = E k(z, z′) + E k(w, w′) − 2 E k(z, w),        k(z, w) = Σ_s (1 + ‖z − w‖²/s)⁻¹,   0 only for equal laws

Neither needs the group where it is used. `judge(X, groups)` says what a fresh classifier finds on new rows: `group_hidden`.

    >>> rng = np.random.default_rng(0)
    >>> groups, noise = rng.integers(0, 2, 4000), rng.standard_normal((4000, 3))
    >>> X = noise + groups[:, None] * [2, 1, 0]
    >>> hide = Decorrelate().fit(X[:2000], groups[:2000])
    >>> hide.judge(X[2000:], groups[2000:]).held
    ['group_hidden']
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from lemmata.audit.trust.fair.fairness import CODE_CLAIMS
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.registry import require
from lemmata.trust.bounds import checked_risk
from lemmata.trust.fair.counts import check_people, encode_groups

Array = np.ndarray

TINY = 1e-10  # of the largest variance: what counts as none
SCALES = (0.1, 1.0, 10.0)  # s of the kernel, times the mean squared distance of the batch
LEAST_ROWS = 2  # of a group in a batch, to be compared


class GroupHiding(TransformerMixin, BaseEstimator):
    """A transformer that was fitted with groups, and is judged by what its output still says of them."""

    def _check_groups(self, X: Array, groups: Any) -> tuple[Array, tuple[str, ...]]:
        codes, names = encode_groups(groups)
        if len(codes) != len(X):
            raise ValueError(f"{len(X):,} rows and {len(codes):,} groups: pass a label for each row.")  # fmt: skip
        if len(names) < 2:
            raise ValueError(f"groups holds one group only, {names[0]!r}: there is nothing to hide.")  # fmt: skip
        return codes, names

    def judge(self, X: Any, groups: Any, delta: float = 0.05) -> Certificate:
        """Train a fresh classifier to tell the groups from half of these new rows, transformed, and count it on the others."""
        code = self.transform(X)
        people = check_people(np.zeros(len(code), int), np.zeros(len(code), int), groups)
        known = {
            "names": people.names, "codes": people.codes, "decisions": people.decisions, "X": code,
            "delta": checked_risk(delta),
        }  # fmt: skip
        title = f"{type(self).__name__}  {len(code):,} rows, {len(people.names)} groups"
        return check(CODE_CLAIMS, Fit(None, None, people.y, attributes=known), title)


class Decorrelate(GroupHiding):
    """The least linear change after which no feature is correlated with the group.

    mean_ : (d,)        removed_ : (d, k) directions Σ^½U        reads_ : (k, d) what is read along them, UᵀΣ^−½
    """

    def fit(self, X: Any, groups: Any) -> Decorrelate:
        X = validate_data(self, X, dtype=np.float64)
        codes, names = self._check_groups(X, groups)
        self.mean_ = X.mean(axis=0)
        centred = X - self.mean_
        variances, axes = np.linalg.eigh(centred.T @ centred / len(X))
        kept = variances > TINY * max(variances.max(), np.finfo(float).tiny)
        root, axes = np.sqrt(variances[kept]), axes[:, kept]
        member = codes[:, None] == np.arange(len(names) - 1)  # the last is what the others are not
        C = centred.T @ (member - member.mean(axis=0)) / len(X)
        whitened = axes.T @ C / root[:, None]
        U, strength, _ = np.linalg.svd(whitened, full_matrices=False)
        U = U[:, strength > TINY]
        self.removed_, self.reads_ = (axes * root) @ U, ((axes / root) @ U).T
        return self

    def transform(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return X - ((X - self.mean_) @ self.reads_.T) @ self.removed_.T


class FairAutoencoder(ClassNamePrefixFeaturesOutMixin, GroupHiding):
    """Codes of m numbers from which rows can be rebuilt, and the group as little as possible.

    Parameters
    ----------
    n_components : int, default=2
        m, the width of the code.
    strength : float, default=10
        Weight of the squared MMD between each group and the others; at 0 this is an autoencoder.
    layers : tuple of int, default=(64,)
        Units of the encoder; the decoder has them in reverse.
    max_iter, learning_rate, batch_size, random_state
        Epochs, Adam's rate, rows of a batch (groups are compared within it), and of weights and batches.

    module_ : the network        loss_curve_ : the objective of every epoch
    """

    def __init__(
        self, n_components=2, strength=10.0, layers=(64,), max_iter=60, learning_rate=3e-3, batch_size=256,
        random_state=None,
    ):  # fmt: skip
        self.n_components = n_components
        self.strength = strength
        self.layers = layers
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X: Any, groups: Any) -> FairAutoencoder:
        require("torch", "deep", what="FairAutoencoder")
        from lemmata.nets.estimators.autoencoder import build_filled
        from lemmata.nets.estimators.networks import AutoencoderNet
        from lemmata.nets.training import Training, train

        X = validate_data(self, X, dtype=np.float32)
        codes, _ = self._check_groups(X, groups)
        if not 0 <= self.strength < np.inf:
            raise ValueError(f"strength={self.strength!r}: pass a number >= 0.")
        if not 1 <= self.n_components <= X.shape[1]:
            raise ValueError(f"n_components={self.n_components!r}: pass a whole number from 1 to {X.shape[1]}.")  # fmt: skip
        mean = X.mean(axis=0, dtype=np.float64)
        numbers = {"mean": mean, "scale": max(float((X - mean).std()), np.finfo(np.float32).tiny)}
        make = partial(AutoencoderNet, X.shape[1:], self.n_components, tuple(self.layers))
        training = Training(
            partial(build_filled, make, numbers, False), hide_groups(float(self.strength)), optimizer="adam",
            learning_rate=self.learning_rate, batch_size=min(int(self.batch_size), len(X)), epochs=int(self.max_iter),
        )  # fmt: skip
        solution = train(training, (X, codes.astype(np.int64)), rng=self.random_state)
        self.module_, self.loss_curve_ = training.module(solution.state), solution.trace.objective
        return self

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def transform(self, X: Any) -> Array:
        """(n, m): the codes."""
        return self._run(X, "encode")

    def reconstruct(self, X: Any) -> Array:
        """(n, d): the rows as the codes tell them."""
        return self._run(X, "forward")

    def _run(self, X: Any, what: str) -> Array:
        check_is_fitted(self)
        import torch

        X = validate_data(self, X, dtype=np.float32, reset=False)
        with torch.no_grad():
            return getattr(self.module_.eval(), what)(torch.from_numpy(X)).numpy()


def hide_groups(strength: float) -> Any:
    """Return the objective: reconstruction, and MMD² between each group of the batch and the others."""
    from lemmata.nets.training.losses import Terms, objective

    def loss(net: Any, batch: Any, rng: Any) -> Any:
        x, groups = batch
        rebuilt = net.residual(x).square().flatten(1).mean(1)
        apart = discrepancy_of(net.encode(x), groups)
        return Terms(rebuilt + strength * apart, {"apart": apart.detach().expand(len(x))})

    found = objective(loss)
    found.compares_rows = True
    return found


def discrepancy_of(z: Any, groups: Any) -> Any:
    """Return Σ_k MMD²(z of group k, z of the others), a tensor; groups of one row are left out."""
    from torch import cdist

    squares = cdist(z, z).square()
    unit = squares.detach().mean().clamp(min=1e-12)
    K = sum((1 + squares / (s * unit)).reciprocal() for s in SCALES)
    total = z.new_zeros(())
    for group in groups.unique():
        own = groups == group
        if min(own.sum(), (~own).sum()) >= LEAST_ROWS:
            w = own.to(z) / own.sum() - (~own).to(z) / (~own).sum()
            total = total + w @ K @ w
    return total
