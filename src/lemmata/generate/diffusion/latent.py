"""Latent: diffusion of codes instead of pixels (CIL 5.5.3; Rombach et al. 2022).

    x ─ encoder ─ z        z_T ~ N(0, I) ─ sampler ─ z ─ decoder ─ x

An autoencoder that is fitted already compresses; a diffusion model learns how its codes are spread, which for a VAE is not
quite the prior, so that its draws are nearer to the data than those of the VAE itself, and as cheap as the codes are short.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from lemmata.core import store
from lemmata.core.certificate import Certificate
from lemmata.generate.diffusion.estimator import Diffusion

Array = np.ndarray
PARTS = ("autoencoder.lemma", "diffusion.lemma")


class Latent(BaseEstimator):
    """A diffusion model of the codes of an autoencoder.

    Parameters
    ----------
    autoencoder : a fitted VAE or Autoencoder, or whatever has transform and inverse_transform
    diffusion : Diffusion, default=Diffusion()
        It is copied, and fitted to the codes.

    Attributes
    ----------
    diffusion_ : Diffusion
    certificate_ : what holds of `diffusion_`, about codes
    """

    def __init__(self, autoencoder: Any, diffusion: Any = None):
        self.autoencoder, self.diffusion = autoencoder, diffusion

    def fit(self, X: Any, y: Any = None) -> Latent:
        """Encode the rows and fit the diffusion model to their codes, with classes y where they are passed."""
        model = Diffusion() if self.diffusion is None else clone(self.diffusion)
        self.diffusion_ = model.fit(self._encode(X), y)
        self.certificate_ = self.diffusion_.certificate_
        return self

    def sample(self, n_samples: int = 1, y: Any = None, **options: Any) -> Array:
        """Draw codes and decode them; options are those of `Diffusion.sample`. Images come as images."""
        check_is_fitted(self, "diffusion_")
        rows = self.autoencoder.inverse_transform(self.diffusion_.sample(n_samples, y, **options))
        return rows.reshape(n_samples, *getattr(self.autoencoder, "input_shape_", rows.shape[1:]))

    def certify(self, X: Any, y: Any = None, *, X_test: Any = None, **options: Any) -> Certificate:
        """Check every claim about `diffusion_` on the codes of these rows."""
        check_is_fitted(self, "diffusion_")
        test = None if X_test is None else self._encode(X_test)
        return self.diffusion_.certify(self._encode(X), y, X_test=test, **options)

    def save(self, folder: Any) -> None:
        """Write both parts into a folder, which is made where it is missing."""
        check_is_fitted(self, "diffusion_")
        Path(folder).mkdir(parents=True, exist_ok=True)
        for part, name in ((self.autoencoder, PARTS[0]), (self.diffusion_, PARTS[1])):
            store.save(part, Path(folder) / name)

    @classmethod
    def load(cls, folder: Any) -> Latent:
        """The model that `save` wrote into a folder."""
        autoencoder, diffusion = (store.load(Path(folder) / name) for name in PARTS)
        found = cls(autoencoder, clone(diffusion))
        found.diffusion_, found.certificate_ = diffusion, diffusion.certificate_
        return found

    def _encode(self, X: Any) -> Array:
        name = type(self.autoencoder).__name__
        for method in ("transform", "inverse_transform"):
            if not hasattr(self.autoencoder, method):
                raise TypeError(f"a {name} has no {method}; pass a fitted VAE or Autoencoder.")
        try:
            check_is_fitted(self.autoencoder)
        except NotFittedError as error:
            raise NotFittedError(
                f"this {name} is not fitted yet: fit it to X first, Latent(vae.fit(X))."
            ) from error
        return np.asarray(self.autoencoder.transform(X))
