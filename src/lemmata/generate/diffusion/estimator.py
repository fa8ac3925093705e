"""Diffusion: rows from noise, by a network that learned to remove a little of it at a time (CIL 5.5; ML "Diffusion models").

    minimise  E ‖F(ᾱ_t x_0 + β̄_t ξ, t) − target‖²       over a denoiser F, by draws of a row, a time t and noise ξ

The loss is a regression, so nothing can collapse; what the denoiser learned is compared with the best linear one.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = (rng.choice([-1.0, 1.0], 1500)[:, None] + 0.1 * rng.normal(size=(1500, 2))).astype(np.float32)     # two points
    >>> model = Diffusion(width=32, max_iter=60, test_fraction=0.5, random_state=0).fit(X)
    >>> drawn = model.sample(200, steps=20, random_state=0)
    >>> bool((np.abs(np.abs(drawn) - 1) < 0.5).mean() > 0.9), "beats_linear_denoiser" in model.certificate_.held
    (True, True)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lemmata.audit.generate.denoiser_density import DIFFUSION_MORE_CLAIMS
from lemmata.audit.generate.diffusion import DIFFUSION_CLAIMS
from lemmata.core import common
from lemmata.core.blocks import Blocks
from lemmata.core.estimator import Model
from lemmata.core.parameters import (
    COUNT,
    FRACTION,
    KW_ONLY,
    NONNEGATIVE,
    POSITIVE,
    SHARE,
    choice,
    parameter,
)
from lemmata.core.validation import Interval
from lemmata.generate.base import Generative, check_count, check_known
from lemmata.generate.diffusion.samplers import check_options
from lemmata.generate.diffusion.schedules import NAMES, make_schedule
from lemmata.generate.diffusion.targets import TARGETS
from lemmata.nets.estimators.neural import rows_to_state
from lemmata.registry import require

Array = np.ndarray
EXACT, PROBES = 64, 8  # columns up to which a divergence is exact; probes beyond
SHARES = {"posterior": 0.0, "beta": 1.0, "learned": 0.0}
BOUND_DRAWS = 16
AT_ONCE = 256  # rows
OF_SMALL = 4  # multiplications of small products in the time of one of a plain pass


class Estimates(NamedTuple):
    """ln p of rows, and the standard errors that the probes of a divergence leave in them."""

    values: Array
    errors: Array


class Diffusion(Generative):
    """A denoiser trained at all levels of noise, and the samplers that lead back from noise to rows.

    Minimises E ‖F(ᾱ_t x_0 + β̄_t ξ, t) − target‖² over F, t uniform on 1 … T; x_0 in units of the rows' deviation.

    Attributes
    ----------
    module_ : DiffusionNet
        The trained network: `module_(x, t, labels)` predicts the target from x_t, in units of the deviation.
    alpha_bar_ : array of shape (T + 1,)
        ᾱ_0 = 1, …, ᾱ_T, amplitudes.
    loss_ : float
        The mean error of the prediction, by number, at the draws of seed 0 of a time and noise for each row; of more than
        2,000 rows, of so many drawn ones.
    classes_ : array
        Of fits with y.
    test_rows_ : array
        Numbers of the rows that were kept from training.
    input_shape_, history_, n_features_in_, n_iter_, trace_, stopped_, certificate_
    """

    denoiser: Any = parameter(None, None, callable, before="optimizer").doc("""
        F, a module that is called with (x_t, t), t = 1 … T, with classes (x_t, t, labels), the label n_classes
        for none; it is copied. None: a `UNet` for images, a `TimedMLP` for tables and codes.""")
    _: KW_ONLY
    schedule: Any = parameter("cosine", choice(*NAMES), "array-like", before="optimizer").doc("""
        Of the noise: "cosine", "linear" (DDPM's), "constant" (the same α in every step), or an array
        of amplitudes ᾱ_1 … ᾱ_T.""")  # fmt: skip
    predicts: str = parameter("v", choice(*TARGETS), before="optimizer").doc("""
        The target: "v" is ᾱξ − β̄x_0, "noise" ξ, "x0" the row, "score" ∇ ln p(x_t), learned as β̄ times
        it.""")
    steps: int = parameter(1000, Interval(Integral, 2, None, closed="left"), before="optimizer").doc("""
        T, noise levels; of an array of ᾱ its length.""")  # fmt: skip
    width: Any = parameter(None, COUNT, None, before="optimizer").doc("""
        Channels of the U-Net at full size (None: 32), or units of the perceptron (None: 128).""")
    variance: Any = parameter("posterior", choice(*SHARES), SHARE, before="optimizer").doc("""
        σ_t² of the chain, in ancestral sampling and in `bound`: "posterior" is the least (exact for one
        point), "beta" the largest (exact for N(0, I)), a number lies between in ln σ², and
        "learned" is a diagonal Σ(x; t).""")  # fmt: skip
    drop_classes: float = parameter(0.1, FRACTION, before="optimizer").doc("""
        The share of rows that are learned without their class, for guidance.""")
    given: int = parameter(0, NONNEGATIVE, Integral, before="optimizer").doc("""
        The number of channels, at the end of each image, that are given and not drawn.""")
    learning_rate: Any = parameter(2e-3, POSITIVE, None)
    rate_schedule: str = parameter(
        "cosine", str, callable
    ).doc("""
        Of the learning rate: it falls to 0 over `max_iter` epochs; see `NeuralClassifier` for others.""")
    ema: Any = parameter(0.999, FRACTION, None)
    max_iter: int = common.max_iter(100).doc("Epochs at most.")

    claims = DIFFUSION_CLAIMS
    more_claims = DIFFUSION_MORE_CLAIMS
    networks: ClassVar[tuple[str, ...]] = ("denoiser",)
    stored: ClassVar[Mapping[str, str | type]] = {
        **Generative.stored,
        "loss_": "audited",
        "alpha_bar_": "audited",
    }

    # --- fitting ---

    def _network(self, data: Blocks | None) -> Any:
        require("torch", "deep", what=type(self).__name__)
        schedule = make_schedule(self.schedule, int(self.steps))
        shape = tuple(self.input_shape_)
        self._require_given_channels()
        sizes = {
            "input_shape": shape, "steps": schedule.steps, "predict": self.predicts, "given": int(self.given),
            "n_classes": self._n_classes, "learned": self.variance == "learned",
        }  # fmt: skip
        from lemmata.generate.diffusion.network import build, require_same

        make = partial(build, self.denoiser, self.width, sizes)
        if data is None:
            return make
        numbers = {**self._units(data), "log_sigma": np.log(schedule.noise_ratio[1:])}
        found = self._begin_filled(make, numbers, data)
        if not isinstance(found, partial):
            require_same(found, sizes, numbers["log_sigma"])
        return found

    def _units(self, data: Blocks) -> dict[str, Any]:
        """Mean and deviation of each column; of images, of all their numbers, and the range that draws are cut to."""
        mean, scale = self._mean_and_scale(data)
        if len(self.input_shape_) < 3:
            return {"mean": mean, "scale": scale}
        middle = float(mean.mean())
        spread = math.sqrt(float(np.mean(scale**2 + (mean - middle) ** 2)))
        cut = math.prod(self._drawn_shape)
        ends = [(float(rows[:, :cut].min()), float(rows[:, :cut].max())) for rows, _ in data]
        low, high = min(a for a, _ in ends), max(b for _, b in ends)
        return {"mean": middle, "scale": spread, "ends": [low, high]}

    def _loss(self) -> Any:
        from lemmata.generate.diffusion.network import Denoising

        return Denoising(float(self.drop_classes))

    @property
    def _rate_schedule(self) -> Any:
        return self.rate_schedule

    def _statements(self, data: Blocks) -> dict[str, Any]:
        schedule = make_schedule(self.schedule, int(self.steps))
        return {**super()._statements(data), "alpha_bar_": schedule.alpha_bar}

    def _stated_loss(self, data: Blocks) -> float:
        rows, places, weights = rows_to_state(data)
        from lemmata.generate.diffusion.network import prediction_errors

        rng, T = np.random.default_rng(0), self.module_.config["steps"]
        times = 1 + (rng.permutation(len(rows)) * T) // len(rows)
        net, found = self._ready_module(), []
        for start in range(0, len(rows), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            some = None if places is None else places[part]
            found.append(prediction_errors(net, self._tensor(rows[part]), times[part], some, rng))
        return float(np.average(np.concatenate(found), weights=weights))

    def _tensor(self, rows: Array) -> Any:
        import torch

        like = self.module_.log_sigma
        x = torch.from_numpy(np.ascontiguousarray(rows)).to(like.device, like.dtype)
        return x.reshape(-1, *self.input_shape_)

    @classmethod
    def work(cls, fit: Any) -> float:
        """Forward and backward are three passes of every row that was trained on."""
        return 3.0 * fit.get("n_iter_", 1) * fit.data.shape[0] * fit.row_work / OF_SMALL

    @property
    def row_work(self) -> float:
        """Multiplications of the denoiser for a row, in products."""
        from lemmata.generate.diffusion.network import count_products

        return count_products(self.module_)

    @property
    def draw_work(self) -> float:
        return 100 * self.row_work

    @property
    def density_work(self) -> float:
        d = math.prod(self._drawn_shape)
        return 50 * self.row_work * (2 + 3 * (d if d <= EXACT else PROBES))

    # --- drawing ---

    def sample(  # type: ignore[override]
        self,
        n_samples: int = 1,
        y: Any = None,
        steps: int = 50,
        sampler: str = "heun",
        guidance: float = 0.0,
        random_state: Any = None,
        given: Any = None,
    ) -> Array:
        """Draw rows, in the shape and the units of X; images are cut to the range of the training rows.

        Parameters
        ----------
        n_samples : int, default=1
        y : label, or array of labels (n_samples,), optional
            Of models that were fitted with classes: those to draw from. None draws them by their shares.
        steps : int, default=50
            Noise levels to stop at on the way, all T at most. "heun" runs the network twice a step.
        sampler : {"heun", "ddim", "ancestral", "euler-maruyama"}, default="heun"
            See samplers.py. The first two follow the flow, without noise on the way; "ancestral" is the chain of CIL 5.5.3.
        guidance : float, default=0.0
            w ≥ 0: draws of a class become more alike and more of that class. It is no law of the data any more.
        random_state : int, RandomState or None
            As of the other models.
        given : array of shape (n_samples, given, H, W), optional
            The channels that are given, in the units of X.
        """
        options = self._options(steps, sampler, guidance)
        return self._draw(n_samples, y, random_state, given, **options)

    def trajectory(
        self,
        n_samples: int = 1,
        y: Any = None,
        steps: int = 50,
        sampler: str = "heun",
        guidance: float = 0.0,
        random_state: Any = None,
    ) -> Array:
        """(steps + 1, n_samples, …): x_T, and where the samples stand at each level on the way, in the units of X."""
        import torch

        options = self._options(steps, sampler, guidance)
        rng, generator = self._generators(random_state)
        labels = self._places_to_draw(n_samples, y, rng)
        net = self._ready_module()
        with torch.no_grad():
            walk = net.walk(net.start(n_samples, generator), generator, labels, **options)
            return torch.stack([net.mean + net.scale * x for _, x in walk]).cpu().numpy()

    def inpaint(
        self,
        X: Any,
        known: Any,
        y: Any = None,
        steps: int = 50,
        sampler: str = "ancestral",
        guidance: float = 0.0,
        random_state: Any = None,
    ) -> Array:
        """Draw what is not known of rows: at every level, what is known takes its place with the noise of that level.

        The denoiser sees what is known, but earlier steps did not: draws are near P(unknown | known), not from it.

        Parameters
        ----------
        X : rows; what is not known may be anything
        known : array of bool, of the shape of X
        y : classes of the rows, of models that were fitted with classes
        steps, sampler, guidance, random_state : as of `sample`
        """
        import torch

        check_is_fitted(self)
        options = self._options(steps, sampler, guidance)
        X, known = check_known(X, known)
        if self.given:
            raise ValueError("channels are given: use sample(given=…).")
        data = self._validate_rows(np.where(known, X, 0).astype(X.dtype), reset=False)
        rows = np.concatenate([np.asarray(part) for part, _ in data])
        rng, generator = self._generators(random_state)
        labels, net = self._places_to_draw(len(rows), y, rng), self._ready_module()
        keep = torch.from_numpy(known.reshape(-1, *self.input_shape_)).to(net.log_sigma.device)
        drawn = net.complete(self._tensor(rows), keep, generator, labels, **options)
        return np.where(known, X, drawn.cpu().numpy().astype(rows.dtype).reshape(X.shape))

    def _options(self, steps: int, sampler: str, guidance: float) -> dict[str, Any]:
        """Arguments of the network's walk. ValueError for those that it cannot take."""
        check_is_fitted(self)
        found = check_options(steps, sampler, guidance, self._has_classes)
        found["steps"] = min(found["steps"], len(self.alpha_bar_) - 1)
        return {**found, "share": self._share}

    @property
    def _share(self) -> float:
        """The place of ln σ² between its least and its largest value."""
        return float(SHARES.get(self.variance, self.variance))

    # --- likelihood ---

    def bound(
        self, X: Any, n_samples: int = BOUND_DRAWS, random_state: Any = 0, y: Any = None
    ) -> Array:
        """(n,): a lower bound of ln p(x) of the chain (`variance`), in nats, by draws of levels and noise: the ELBO.

        Parameters
        ----------
        X : rows
        n_samples : int, default=16
            Levels for each row, spread evenly over all; the bound holds on average over the draws.
        random_state : int, RandomState or None, default=0
        y : classes of the rows, of models that were fitted with classes: then it bounds ln p(x|y)
        """
        import torch

        check_is_fitted(self)
        draws = check_count("n_samples", n_samples)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31))
        net, found = self._ready_module(), []
        for rows, places in self._parts(X, y):
            labels = None if places is None else torch.from_numpy(places)
            with torch.no_grad():
                part = net.elbo(self._tensor(rows), labels, draws, self._share, rng)
            found.append(part.double().cpu().numpy())
        return np.concatenate(found)

    def score_samples(
        self, X: Any, y: Any = None, steps: int = 50, n_probes: int | None = None
    ) -> Array:
        """(n,): ln p(x), with classes y ln p(x|y), by the probability-flow ODE; see `estimate_density` for its errors."""
        found = self.estimate_density(X, y, steps, n_probes).values
        return found.astype(self.module_.scale.cpu().numpy().dtype)

    def estimate_density(
        self,
        X: Any,
        y: Any = None,
        steps: int = 50,
        n_probes: int | None = None,
        random_state: Any = 0,
    ) -> Estimates:
        """Return ln p(x) of the law that "heun" and "ddim" draw from in the limit of many steps, and its standard errors.

        Parameters
        ----------
        X, y : rows, and their classes for ln p(x|y); without them ln Σ p(y) p(x|y)
        steps : int, default=50
            Of Heun's solver, evenly spaced in the logarithm of the noise. Ask again with twice as many.
        n_probes : int, optional
            Random signs by which the divergence is estimated. None: exact up to 64 columns (as many backward passes a step),
            8 probes beyond. Errors are 0 where it is exact.
        random_state : int, RandomState or None, default=0
            Of the probes.
        """
        self._options(steps, "heun", 0.0)
        from lemmata.generate.diffusion.network import densities

        d, net, probes = math.prod(self._drawn_shape), self._ready_module(), None
        if n_probes is not None or d > EXACT:
            rng, count = check_random_state(random_state), n_probes or PROBES
            probes = rng.choice([-1.0, 1.0], (count, 1, *self._drawn_shape))
        found = [
            densities(net, self._tensor(rows), places, steps, probes)
            for rows, places in self._parts(X, y)
        ]
        return Estimates(*map(np.concatenate, zip(*found, strict=True)))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The mean bound of the rows, `bound(X)`, with classes given y; higher is better."""
        check_is_fitted(self)
        data = self._validate_pair(X, y, sample_weight, reset=False)
        known = y if self._has_classes else None
        return float(np.average(self.bound(X, y=known), weights=data.weights))

    def _parts(self, X: Any, y: Any) -> Iterator[tuple[Array, Array | None]]:
        """Flat rows with the places of their classes, AT_ONCE at a time."""
        if y is not None:
            self._refuse_classes()
        data = self._validate_pair(X, y, reset=False)
        start = 0
        for rows, _ in data.recut(AT_ONCE):
            places = None if data.targets is None else data.targets[start : start + len(rows)]
            start += len(rows)
            yield np.asarray(rows), places

    # --- files ---

    @classmethod
    def restored(cls, parameters: dict[str, Any], attributes: dict[str, Any]) -> Model:
        """A model from a file, whose network has to be one of these levels, classes and target."""
        model: Any = super().restored(parameters, attributes)
        net = model.module_
        stated = {"predict": model.predicts, "n_classes": model._n_classes, "given": model.given}
        config = getattr(net, "config", {})
        known = type(net).__name__ == "DiffusionNet" and all(config.get(k) == v for k, v in stated.items())  # fmt: skip
        if not known or not np.allclose(net.schedule.alpha_bar, model.alpha_bar_, atol=1e-5):
            raise ValueError("its network is no denoiser of these levels, classes and target.")
        return model
