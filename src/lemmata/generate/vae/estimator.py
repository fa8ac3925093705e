"""The variational autoencoder (CIL 5.3; Kingma & Welling 2014).

    maximise  E_q ln p(x|z) − KL(q(z|x) ‖ N(0, I))        over a decoder p(x|z) and an encoder q(z|x), by draws of z

A code of m numbers like `Autoencoder`'s, but with a density: codes are spread like the prior, so new rows are drawn by decoding
draws from it, and `bound` says how probable a row is at least. With linear maps and normals the optimum is probabilistic PCA,
which the certificate compares with.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = (rng.random((400, 12)) < np.where(rng.random((400, 1)) < 0.5, 0.9, 0.1)).astype(np.float32)    # all or nothing
    >>> model = VAE(1, layers=(16,), max_iter=40, learning_rate=0.01, random_state=0).fit(X)
    >>> model.likelihood_, model.sample(3, random_state=0).shape
    ('bernoulli', (3, 12))
    >>> independent = 12 * np.log(0.5)                                       # ln p where columns know nothing of each other
    >>> bool(model.bound(X).mean() > independent + 2), bool(model.bound(X, 50).mean() >= model.bound(X).mean())
    (True, True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.generate.bounds import VAE_CLAIMS, VAE_MORE_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.estimator import Model, RowTransformer
from lemmata.core.parameters import COUNT, KW_ONLY, NONNEGATIVE, as_in, choice, parameter
from lemmata.core.runs.trace import Trace
from lemmata.generate.base import Generative, check_count
from lemmata.nets.estimators.autoencoder import (
    Autoencoder,
    check_code_network,
    check_codes,
    code_sizes,
    typical_scale,
)
from lemmata.nets.estimators.neural import rows_to_state
from lemmata.registry import require

Array = np.ndarray

AT_ONCE = 2**22  # numbers of decoded rows that are held at a time


class VAE(ClassNamePrefixFeaturesOutMixin, RowTransformer, Generative):
    """Encoder and decoder networks around a code of m normal numbers: draws, codes, and a bound on ln p(x).

    Maximises E_q ln p(x|z) − β KL(q(z|x) ‖ N(0, I)); at β = 1 that is a lower bound of ln p(x), the ELBO.

    Attributes
    ----------
    module_ : VAENet
        The trained network: `encode(x)` gives means and factors of the covariances of q(z|x), `decode(z)` the parameters
        of p(x|z).
    likelihood_ : {"bernoulli", "gaussian"}
    n_components_ : int
    bound_ : float
        The mean ELBO, in nats, of the training rows (of more than 2,000, of so many drawn ones), as `bound` gives it.
    loss_ : float
        The mean of what is minimised, on the same rows; −bound_ up to the draws, unless beta, free_bits or n_draws changed it.
    input_shape_ : tuple
    test_rows_ : array
        Numbers of the rows that were kept from training.
    history_ : History
        A table of epochs: loss, kl, reconstruction (−ln p(x|z)), learning rate, seconds.
    n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    n_components: int = as_in(Autoencoder, "n_components")
    _: KW_ONLY
    likelihood: str = parameter(
        "auto", choice("auto", "bernoulli", "gaussian"), before="optimizer"
    ).doc("""
        p(x|z). "bernoulli": numbers from 0 to 1; "gaussian": normals with one learned σ; "auto" is
        the first where all are 0 or 1.""")
    posterior: Any = parameter(
        "diagonal", choice("diagonal", "full", "planar", "sylvester"), COUNT, before="optimizer"
    ).doc("""
        q(z|x): a normal of such a covariance, a number r is rank r plus diagonal; "planar" and
        "sylvester": a diagonal one bent by four maps whose parameters the encoder gives.""")
    layers: Any = as_in(Autoencoder, "layers", (256,))
    conv: Any = as_in(Autoencoder, "conv")
    activation: str = as_in(Autoencoder, "activation").doc("""
        "identity" is the linear VAE, whose optimum is probabilistic PCA.""")
    beta: float = parameter(1.0, NONNEGATIVE, before="optimizer").doc("""
        β, the weight of the KL. Above 1 what is trained is a looser bound, below 1 none; `bound` is
        the ELBO all the same.""")
    beta_warmup: int = parameter(0, NONNEGATIVE, before="optimizer").doc("""
        Batches in which β rises from 0: codes are in use before they cost anything.""")
    free_bits: float = parameter(0.0, NONNEGATIVE, before="optimizer").doc("""
        λ, nats of each code that cost nothing: the penalty is Σ_j max(λ, KL_j) of each row. Needs
        posterior="diagonal".""")
    n_draws: int = parameter(1, COUNT, before="optimizer").doc("""
        k; above 1 the importance-weighted bound of k draws is trained instead of the ELBO.""")
    max_iter: int = common.max_iter(100).doc("Epochs at most.")
    learning_rate: Any = as_in(Autoencoder, "learning_rate")
    schedule: Any = as_in(Autoencoder, "schedule")

    claims = VAE_CLAIMS
    more_claims = VAE_MORE_CLAIMS
    stored: ClassVar[Mapping[str, str | type]] = {
        **Generative.stored,
        "n_components_": "audited",
        "bound_": "audited",
        "likelihood_": str,
    }

    # --- fitting ---

    def _network(self, data: Blocks | None) -> Any:
        require("torch", "deep", what=type(self).__name__)
        assert data is not None
        from lemmata.generate.vae.network import VAENet

        likelihood = self.likelihood
        if likelihood == "bernoulli":
            _refuse_outside(data)
        elif likelihood == "auto":
            binary = all(bool(((rows == 0) | (rows == 1)).all()) for rows, _ in data)
            likelihood = "bernoulli" if binary else "gaussian"
        sizes = {**code_sizes(self), "likelihood": likelihood, "posterior": self.posterior}
        make = partial(VAENet, self.input_shape_, **sizes, n_classes=self._n_classes)
        mean, scales = self._mean_and_scale(data)
        # half a row of each kind more, so that no logit is infinite
        ones = (mean * data.shape[0] + 0.5) / (data.shape[0] + 1)
        offset = np.log(ones) - np.log1p(-ones) if likelihood == "bernoulli" else 0 * mean
        numbers = {"mean": mean, "scale": typical_scale(scales), "offset": offset}
        return self._begin_filled(make, numbers, data)

    def _loss(self) -> Any:
        from lemmata.generate.vae.network import ImportanceWeightedBound, PenalisedBound

        changed = self.beta != 1 or self.beta_warmup or self.free_bits
        if self.n_draws > 1 and changed:
            raise ValueError(
                f"n_draws={self.n_draws} trains the importance-weighted bound, which has no KL to weigh: leave beta, "
                "beta_warmup and free_bits at 1, 0 and 0, or pass n_draws=1."
            )
        if self.free_bits and self.posterior != "diagonal":
            raise ValueError(
                f"free_bits={self.free_bits} are counted code by code, and the KL of posterior={self.posterior!r} is no "
                "such sum: pass posterior='diagonal'."
            )
        if self.n_draws > 1:
            return ImportanceWeightedBound(int(self.n_draws))
        return PenalisedBound(float(self.beta), int(self.beta_warmup), float(self.free_bits))

    def _conclude(
        self, data: Any, attributes: dict[str, Any], trace: Trace, stopped: str | None, steps: int
    ) -> None:
        config = attributes["module_"].config
        known = {"n_components_": config["n_components"], "likelihood_": config["likelihood"]}
        super()._conclude(data, {**attributes, **known}, trace, stopped, steps)

    def _statements(self, data: Blocks) -> dict[str, Any]:
        rows, _, weights = rows_to_state(data)
        bound = float(np.average(self._bounds(rows, 1, 0), weights=weights))
        return {**super()._statements(data), "bound_": bound}

    def _validate_rows(
        self, X, sample_weight=None, reset: bool = True, min_samples: int | None = None
    ) -> Blocks:
        data = super()._validate_rows(X, sample_weight, reset, min_samples)
        if not reset and self.likelihood_ == "bernoulli":
            _refuse_outside(data)
        return data

    # --- using ---

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def transform(self, X) -> Array:
        """(n, m): the mean of q(z|x), the code of every row."""
        return self._apply(
            X, lambda rows: self._run_network(rows, self.input_shape_, "encode_mean")
        )

    def inverse_transform(self, X) -> Array:
        """(n, d): E(x | z) of codes; with classes, their mean by p(y)."""
        return self._run_network(check_codes(self, X), (self.n_components_,), "expect")

    def interpolate(self, first, last, n_steps: int = 8) -> Array:
        """(n_steps, d): rows on the way from one row to another, E(x|z) at codes on the line between theirs.

        The ends are the reconstructions of the two rows.
        """
        check_is_fitted(self)
        check_count("n_steps", n_steps, least=2)
        ends = [np.asarray(row).reshape(1, *self.input_shape_) for row in (first, last)]
        a, b = self.transform(np.concatenate(ends))
        t = np.linspace(0, 1, int(n_steps), dtype=a.dtype)[:, None]
        return self.inverse_transform((1 - t) * a + t * b)

    def bound(self, X, n_samples: int = 1, random_state: Any = 0, y: Any = None) -> Array:
        """(n,): a lower bound of ln p(x) for every row, in nats, by draws of z; of continuous numbers p is a density.

        Parameters
        ----------
        X : rows
        n_samples : int, default=1
            k. With 1, the ELBO: ln p(x|z) at one draw minus the exact KL. Above, the importance-weighted bound of k
            draws, which is closer to ln p(x); both are below it on average over the draws.
        random_state : int, RandomState or None, default=0
        y : classes of the rows, of models that were fitted with classes: then it bounds ln p(x|y)
        """
        check_is_fitted(self)
        k, data = check_count("n_samples", n_samples), self._validate_pair(X, y, reset=False)
        seed = int(check_random_state(random_state).randint(2**31)) if random_state != 0 else 0
        rows = np.concatenate([np.asarray(part) for part, _ in data])
        return self._bounds(rows, k, seed, data.targets)

    def score(self, X, y=None, sample_weight=None) -> float:
        """The mean ELBO of the rows, `bound(X)`, with classes given y; higher is better."""
        check_is_fitted(self)
        data = self._validate_pair(X, y, sample_weight, reset=False)
        rows = np.concatenate([np.asarray(part) for part, _ in data])
        return float(np.average(self._bounds(rows, 1, 0, data.targets), weights=data.weights))

    def _bounds(self, rows: Array, k: int, seed: int, places: Array | None = None) -> Array:
        """Bounds of flat rows; the draws are those of NumPy's generator, row by row, whatever the parts."""
        import torch

        net = self._ready_module()
        like, m = next(net.parameters()), net.width
        rng, found = np.random.default_rng(seed), []
        step = max(1, AT_ONCE // (rows.shape[1] * k))
        with torch.no_grad():
            for start in range(0, len(rows), step):
                some = torch.from_numpy(np.ascontiguousarray(rows[start : start + step]))
                x = some.to(like.device, like.dtype).reshape(-1, *self.input_shape_)
                y = None if places is None else torch.from_numpy(places[start : start + step])
                draws = rng.standard_normal((len(some), k, m)).transpose(1, 0, 2)
                noise = torch.from_numpy(np.ascontiguousarray(draws)).to(x)
                if k == 1:
                    part = net.elbo(x, noise[0], y).double()
                else:
                    logs = net.log_weights(x, noise, y).double()
                    part = torch.logsumexp(logs, 0) - math.log(k)
                found.append(part.cpu().numpy())
        return np.concatenate(found)

    # --- files ---

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Model:
        """A model from a file, whose network has to be a VAE of the width and likelihood it states."""
        model: Any = super().restored(parameters, attributes)
        check_code_network(model, "VAE", likelihood=model.likelihood_)
        return model


def _refuse_outside(data: Blocks) -> None:
    """ValueError for numbers that are not from 0 to 1: which, where."""
    start = 0
    for rows, _ in data:
        rows = np.asarray(rows)
        wrong = (rows < 0) | (rows > 1)
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise ValueError(
                f"likelihood='bernoulli' takes numbers from 0 to 1; X[{start + i}, {j}] is {rows[i, j]:g}, and {wrong.sum():,} "
                "are outside in these rows. Divide by the largest level, compare with a threshold, or use 'gaussian'."
            )
        start += len(rows)
