"""Randomized smoothing: the class that most noisy copies of a row get, with a radius in which nothing changes it.

    g(x) = argmax_c P(f(x + σξ) = c),  ξ ~ N(0, I)        g(x̂) = g(x) where ‖x̂ − x‖₂ < σΦ⁻¹(p̲)

(Cohen, Rosenfeld & Kolter 2019). A few draws choose the class; n others, which did not, bound p from below (Clopper–Pearson):
the radius is right with probability 1 − α. Where p̲ ≤ ½ the classifier abstains. f may be anything with `predict`.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> smooth = SmoothedClassifier(LogisticRegression().fit(X, X[:, 0] > 0), sigma=0.5, n=2000)
    >>> w, b = smooth.model.coef_[0], smooth.model.intercept_[0]
    >>> classes, radii = smooth.predict_radius(X[:20])
    >>> distance = abs(X[:20] @ w + b) / np.linalg.norm(w)         # of a linear f the radius at p is exactly this
    >>> bool((radii <= distance).all()), bool((radii > 0.75 * np.minimum(distance, 1)).mean() > 0.8)
    (True, True)
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.trust.smoothed_votes import SMOOTHING_CLAIMS
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.checking import check
from lemmata.trust.bounds import checked_risk, clopper_pearson

Array = np.ndarray

BATCH = 16_384  # noisy rows at once
CHOOSING = 0.1  # of n: the draws that choose the class


class SmoothedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier by votes under Gaussian noise: a class with an ℓ2 radius, or an abstention.

    The noise of a row is drawn by its numbers, so that one input has one answer whatever comes with it.

    Parameters
    ----------
    model : a fitted classifier; or one that `fit` trains on noisy rows
        Classifiers that never saw noise get most of it wrong.
    sigma : float, default=0.25
        σ, the standard deviation of the noise in units of X: larger radii, fewer right answers.
    n : int, default=1000
        Draws for each row. The largest radius is σΦ⁻¹(α^(1/n)).
    alpha : float, default=0.001
        α, the risk that a radius is too large.
    abstention : optional
        The answer of `predict` where the votes cannot tell: by default −1, or less where −1 is a class; "" among words.
    random_state : int, default=0
        Of the noise.

    classes_, base_ : the classes, and the classifier that votes
    """

    def __init__(self, model, sigma=0.25, n=1000, alpha=0.001, abstention=None, random_state=0):
        self.model = model
        self.sigma = sigma
        self.n = n
        self.alpha = alpha
        self.abstention = abstention
        self.random_state = random_state

    def fit(self, X: Any, y: Any, copies: int = 4) -> SmoothedClassifier:
        """Train a clone of the model on noisy copies of the rows; one that is fitted already needs no `fit`."""
        self._check_parameters()
        X, y = np.asarray(X), np.asarray(y)
        noise = np.random.default_rng(self.random_state).standard_normal((copies, *X.shape))
        noisy = (X + self.sigma * noise).astype(X.dtype if X.dtype.kind == "f" else float)
        self.trained_ = clone(self.model).fit(noisy.reshape(-1, *X.shape[1:]), np.tile(y, copies))
        return self

    def _check_parameters(self) -> None:
        if not 0 < self.sigma < np.inf:
            raise ValueError(f"sigma={self.sigma!r}, the deviation of the noise: pass a number above 0.")  # fmt: skip
        if not (int(self.n) == self.n and self.n >= 10):
            raise ValueError(f"n={self.n!r} draws for each row: pass a whole number >= 10.")
        if not checked_risk(self.alpha) < 0.5:
            raise ValueError(f"alpha={self.alpha!r}, the risk of a radius: pass a number below 0.5.")  # fmt: skip

    @property
    def base_(self) -> Any:
        base = getattr(self, "trained_", self.model)
        if not hasattr(base, "predict"):
            raise TypeError(f"a {type(base).__name__} has no predict: pass a classifier.")
        try:
            if not hasattr(base, "classes_"):
                check_is_fitted(base)
        except NotFittedError:
            raise NotFittedError(
                f"the {type(base).__name__} to be smoothed is not fitted: fit it, or this classifier, on noisy rows."
            ) from None
        return base

    def __sklearn_is_fitted__(self) -> bool:
        try:
            return self.base_ is not None
        except NotFittedError:
            return False

    @property
    def classes_(self) -> Array:
        return np.asarray(self.base_.classes_)

    def _votes(self, X: Array, draws: int, part: int) -> Array:
        """Votes (n, classes) of rows; the numbers of a row, and the part, choose its noise."""
        classes, base = self.classes_, self.base_
        votes, each = np.zeros((len(X), len(classes)), int), max(BATCH // draws, 1)
        for at in range(0, len(X), each):
            rows = X[at : at + each]
            rngs = [self._rng_of(x, part) for x in rows]
            for start in range(0, draws, BATCH):
                size = (min(BATCH, draws - start), *X.shape[1:])
                noise = np.stack([rng.standard_normal(size) for rng in rngs])
                noisy = (rows[:, None] + self.sigma * noise).astype(X.dtype)
                said = np.searchsorted(classes, base.predict(noisy.reshape(-1, *X.shape[1:])))
                for row, found in zip(votes[at:], said.reshape(len(rows), -1), strict=False):
                    row += np.bincount(found, minlength=len(classes))
        return votes

    def _rng_of(self, x: Array, part: int) -> np.random.Generator:
        digest = hashlib.blake2b(np.ascontiguousarray(x).tobytes(), digest_size=16).digest()
        seed = [int(self.random_state), part, *np.frombuffer(digest, np.uint32).tolist()]
        return np.random.default_rng(seed)

    def predict_radius(self, X: Any) -> tuple[Array, Array]:
        """Return the class of every row, and the radius in which it stays; 0 where the classifier abstains."""
        self._check_parameters()
        X = np.asarray(X)
        if X.dtype.kind != "f":
            X = X.astype(np.float64)
        if not np.isfinite(X).all():
            raise ValueError("X holds NaN or infinity; pass finite numbers.")
        choosing = max(int(CHOOSING * self.n), 10)
        chosen = self._votes(X, choosing, 0).argmax(axis=1)
        hits = self._votes(X, int(self.n), 1)[np.arange(len(X)), chosen]
        # one end of the interval is used, so it has the whole risk
        least = np.asarray(clopper_pearson(hits, np.full(len(X), self.n), 2 * self.alpha)[0])
        return self.classes_[chosen], np.where(least > 0.5, self.sigma * ndtri(least), 0.0)

    def predict(self, X: Any) -> Array:
        """Return the class of every row, or `abstention`."""
        silence, known = self.abstention, self.classes_.tolist()
        if silence is None:
            silence = "" if self.classes_.dtype.kind in "USO" else min(-1, int(min(known)) - 1)
        if silence in known:
            raise ValueError(f"abstention={silence!r} is one of the classes: pass another value.")
        classes, radii = self.predict_radius(X)
        return np.where(radii > 0, classes, silence)

    def certify(self, X: Any) -> Certificate:
        """Count the votes of these rows again with fresh draws: `radius_certified`."""
        X = np.asarray(X)
        fit = Fit(self, attributes={"X": X, "radius": self.predict_radius(X)[1]})
        title = f"SmoothedClassifier  {len(X):,} rows, σ = {self.sigma:g}, {self.n:,} draws"
        return check(SMOOTHING_CLAIMS, fit, title)
