"""Cascade: images from small to large, each stage given what the one before drew (CIL Fig. 5.12; Ho et al. 2022).

    x_1 ~ p(x_1) at H/2^(K−1),    x_k ~ p(x_k | enlarged x_{k−1}),    … at H

Most of the work is done where images are small. A stage learns from pooled images, which are cleaner than those that it is
given later, so a little noise is added to both.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lemmata.core import store
from lemmata.generate.diffusion.estimator import Diffusion

Array = np.ndarray
NUMBERS = "cascade.json"


class Cascade(BaseEstimator):
    """Diffusion models from low to high resolution, each twice as large as the one before.

    Parameters
    ----------
    stages : list of Diffusion, from small to large
        They are copied; all but the first are given the enlarged image as channels.
    noise : float, default=0.1
        Deviation of the noise on what a stage is given, in units of the deviation of the pixels.

    Attributes
    ----------
    stages_ : list of Diffusion, fitted
    certificates_ : list of their certificates
    """

    def __init__(self, stages: Sequence[Any], noise: float = 0.1):
        self.stages, self.noise = stages, noise

    def fit(self, X: Any, y: Any = None) -> Cascade:
        """Fit every stage to the images (n, H, W) or (n, C, H, W) at its size, with classes y where they are passed."""
        X = np.asarray(X)
        X = X[:, None] if X.ndim == 3 else X
        halvings = len(self.stages) - 1
        side = 4 * 2**halvings
        if halvings < 0 or not all(isinstance(one, Diffusion) for one in self.stages):
            raise ValueError("stages is no list of Diffusion models; pass one or more, small images first.")  # fmt: skip
        if X.ndim != 4 or X.shape[2] % side or X.shape[3] % side:
            raise ValueError(
                f"X has shape {X.shape}; {halvings + 1} stages, each of a U-Net that halves images twice, take (n, channels, "
                f"height, width) with sides that are multiples of {side}."
            )
        X = X.astype(np.float32) / 255 if X.dtype == np.uint8 else X.astype(np.float32)
        sizes = [X]
        for _ in range(halvings):
            sizes.insert(0, _halve(sizes[0]))
        self.spread_ = float(X.std())
        rng, self.stages_ = np.random.default_rng(0), []
        for k, images in enumerate(sizes):
            stage = clone(self.stages[k])
            if k:
                given = self._blur(_double(sizes[k - 1]), rng)
                images = np.concatenate([images, given], axis=1)
                stage.set_params(given=X.shape[1])
            self.stages_.append(stage.fit(images, y))
        self.certificates_ = [stage.certificate_ for stage in self.stages_]
        return self

    def sample(self, n_samples: int = 1, y: Any = None, random_state: Any = None, **options: Any) -> Array:  # fmt: skip
        """Draw images, (n, C, H, W); options are those of `Diffusion.sample`, for every stage."""
        check_is_fitted(self, "stages_")
        rng = check_random_state(random_state)
        first, *others = self.stages_
        if y is None and hasattr(first, "classes_"):  # every stage draws the same classes
            shares = first.module_.shares.double().cpu().numpy()
            y = rng.choice(first.classes_, n_samples, p=shares / shares.sum())
        x = first.sample(n_samples, y, random_state=rng.randint(2**31), **options)
        for stage in others:
            given = self._blur(_double(x), np.random.default_rng(rng.randint(2**31)))
            x = stage.sample(n_samples, y, random_state=rng.randint(2**31), given=given, **options)
        return x

    def save(self, folder: Any) -> None:
        """Write every stage into a folder, which is made where it is missing."""
        check_is_fitted(self, "stages_")
        Path(folder).mkdir(parents=True, exist_ok=True)
        for k, stage in enumerate(self.stages_):
            store.save(stage, Path(folder) / f"{k}.lemma")
        numbers = {"stages": len(self.stages_), "noise": self.noise, "spread": self.spread_}
        store.write_atomically(Path(folder) / NUMBERS, json.dumps(numbers).encode())

    @classmethod
    def load(cls, folder: Any) -> Cascade:
        """The model that `save` wrote into a folder."""
        numbers = json.loads((Path(folder) / NUMBERS).read_text())
        stages = [store.load(Path(folder) / f"{k}.lemma") for k in range(numbers["stages"])]
        found = cls([clone(stage) for stage in stages], numbers["noise"])
        found.stages_, found.spread_ = stages, float(numbers["spread"])
        found.certificates_ = [stage.certificate_ for stage in stages]
        return found

    def _blur(self, images: Array, rng: np.random.Generator) -> Array:
        noise = rng.standard_normal(images.shape, dtype=np.float32)
        return images + self.noise * self.spread_ * noise


def _halve(images: Array) -> Array:
    """Means of squares of 2 × 2 pixels."""
    n, C, H, W = images.shape
    return images.reshape(n, C, H // 2, 2, W // 2, 2).mean(axis=(3, 5))


def _double(images: Array) -> Array:
    return images.repeat(2, axis=2).repeat(2, axis=3)
