"""The network of a variational autoencoder and what it is trained by (CIL 5.3).

    z ~ N(0, I),      x | z ~ p(x | G(z))         a decoder G: logits of Bernoullis, or means of normals with one learned σ
    q(z | x) = N(μ(x), L(x) L(x)ᵀ)                an encoder: means and a factor of the covariance

For every q,   ln p(x) ≥ E_q ln p(x|z) − KL(q(z|x) ‖ p(z)) = ELBO          (5.24): its first term is E_q ln p(x|z)
and with k draws ln p(x) ≥ E ln (1/k) Σ_i p(x, z_i)/q(z_i|x) = IWAE_k, which grows with k; IWAE_1 is the ELBO.

    z = μ + L ε,   ε ~ N(0, I):                                    the gradient passes through z (reparameterisation)
    KL = ½ (‖μ‖² + ‖L‖² − m) − Σ_j ln L_jj                         of any triangular L
    diagonal  L = diag(s);   rank r  L Lᵀ = diag(s²) + V Vᵀ;   full  L lower triangular
    planar    diagonal, then four times z ← z + u φ(⟨θ,z⟩ + b);  Sylvester  z ← z + Q R φ(R̃ Qᵀz + b), Q = I or its mirror
              u, θ, b, R, R̃ come from the encoder, ⟨u,θ⟩ and r_ii r̃_ii > −1; ln q(z|x) − ln p(z) at the draw replaces the KL

With classes y the decoder is given y, the encoder is not: x | z, y ~ p(x | G(z, y)). Then p(x|z) = Σ_y p(y) p(x|z, y).

The mean G(z) is a function of z, x given z is not (5.3.3): with normals σ² weighs the KL against the squared error just as β
does, so it is learned, not set to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lemmata.core.files.encoding import storable
from lemmata.generate.base import sum_over_classes
from lemmata.generate.flows.transforms import keep_invertible
from lemmata.nets.estimators.networks import AutoencoderNet
from lemmata.nets.training.losses import Objective, Terms

LIKELIHOODS = ("bernoulli", "gaussian")
MAPS = 4  # of a planar or Sylvester posterior
START = 0.1  # of the encoder's weights for L: at first, covariances hardly depend on x


class VAENet(nn.Module):
    """Encoder q(z|x), decoder p(x|z) and the prior N(0, I).

    Parameters
    ----------
    input_shape : tuple
        Of one input: (d,), (C, H, W).
    n_components : int
        m, the width of the code.
    layers, conv, activation
        As of `AutoencoderNet`; the decoder mirrors the encoder.
    likelihood : {"bernoulli", "gaussian"}
    posterior : {"diagonal", "full", "planar", "sylvester"} or int
        q(z|x): a normal of such a covariance, a number r is rank r plus diagonal; or one that maps bend.
    n_classes : int, default=0
    """

    mean: Tensor
    scale: Tensor
    offset: Tensor
    seen: Tensor
    stored_layout: ClassVar = {"shares": "c >=0 sum=1"}
    shares: Tensor

    def __init__(
        self,
        input_shape: Sequence[int],
        n_components: int,
        layers: Sequence[int] = (256,),
        conv: Sequence[int] = (),
        activation: str = "gelu",
        likelihood: str = "bernoulli",
        posterior: str | int = "diagonal",
        n_classes: int = 0,
    ):
        super().__init__()
        shape, m = tuple(input_shape), int(n_components)
        if likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood={likelihood!r}; pass one of {', '.join(LIKELIHOODS)}.")
        sizes: dict[str, Any] = {"layers": tuple(layers), "conv": tuple(conv)}
        sizes["activation"] = activation
        self.config = {
            "input_shape": shape, "n_components": m, **sizes, "likelihood": likelihood, "posterior": posterior,
            "n_classes": n_classes,
        }  # fmt: skip
        self.shape, self.width, self.likelihood, self.posterior = shape, m, likelihood, posterior
        self.n_classes = n_classes
        self.encoder = AutoencoderNet(shape, m + self._n_factors(), **sizes).encoder
        self.decoder = AutoencoderNet(shape, m + n_classes, **sizes).decoder
        self.log_sigma = nn.Parameter(torch.zeros(()), requires_grad=likelihood == "gaussian")
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("offset", torch.zeros(shape))  # of the logits
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))  # batches, for a warm-up
        if n_classes:
            self.register_buffer("shares", torch.full((n_classes,), 1.0 / n_classes))
        last: Any = self.encoder[-1]
        with torch.no_grad():
            last.weight[m:] *= START
            if posterior in ("planar", "sylvester"):
                last.bias[2 * m :].normal_(0, m**-0.5)

    def _n_factors(self) -> int:
        """Numbers that the encoder gives for L."""
        m = self.width
        if self.posterior == "full":
            return m * (m + 1) // 2
        if self.posterior == "diagonal":
            return m
        if self.posterior in ("planar", "sylvester"):
            return m + MAPS * (2 * m + 1 if self.posterior == "planar" else 2 * m * m + m)
        if isinstance(self.posterior, int) and 1 <= self.posterior <= m:
            return m * (1 + self.posterior)
        raise ValueError(
            f"posterior={self.posterior!r}; pass 'diagonal', 'full', 'planar', 'sylvester', or a rank from 1 to "
            f"n_components={m}."
        )

    @property
    def sigma(self) -> Tensor:
        """σ of the normals, in the units of the rows."""
        return self.log_sigma.exp() * self.scale

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        """μ (B, m) and L of q(z|x): (B, m) where it is diagonal, else (B, m, m), lower triangular.

        Of planar and Sylvester posteriors, besides, A (B, K, m, r), C (B, K, r, m) and b (B, K, r) of the maps z + A φ(Cz + b).
        """
        found = self.encoder((x - self.mean) / self.scale).to(self.log_sigma.dtype)
        m = self.width
        mean, first, rest = found[:, :m], found[:, m : 2 * m].exp(), found[:, 2 * m :]
        if self.posterior == "diagonal":
            return mean, first
        if self.posterior in ("planar", "sylvester"):
            return mean, first, *self._maps(rest.reshape(len(x), MAPS, -1))
        if self.posterior == "full":
            rows, columns = torch.tril_indices(m, m, -1, device=x.device)
            L = torch.diag_embed(first)
            L[:, rows, columns] = rest
            return mean, L
        V = rest.reshape(len(x), m, -1)
        return mean, torch.linalg.cholesky(torch.diag_embed(first.square()) + V @ V.mT)

    def _maps(self, given: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        m = self.width
        if self.posterior == "planar":
            free, theta, b = given.split((m, m, 1), 2)
            return keep_invertible(free, theta)[..., None], theta[..., None, :], b
        both, b = given.split((2 * m * m, m), 2)
        R, R_tilde = both.unflatten(2, (2, m, m)).unbind(2)
        R, R_tilde = (
            part.triu(1) + torch.diag_embed(torch.tanh(part.diagonal(dim1=-2, dim2=-1)))
            for part in (R, R_tilde)
        )
        mirror = torch.arange(MAPS, device=b.device)[:, None, None] % 2 == 1
        return torch.where(mirror, R.flip(2), R), torch.where(mirror, R_tilde.flip(3), R_tilde), b

    def draw(self, encoded: tuple[Tensor, ...], noise: Tensor) -> tuple[Tensor, Tensor]:
        """z of q(z|x) at ε, (B, m) or (k, B, m), and ln p(z)/q(z|x) there."""
        mean, L, *maps = encoded
        z, volume = place(mean, L, noise), log_det(L)
        for A, C, b in zip(*(part.unbind(1) for part in maps), strict=True):
            value = torch.tanh((C @ z[..., None])[..., 0] + b)
            z = z + (A @ value[..., None])[..., 0]
            slopes = (C * A.mT).sum(-1)  # the diagonal of CA, which is triangular
            volume = volume + torch.log1p((1 - value * value) * slopes).sum(-1)
        return z, 0.5 * (noise.square() - z.square()).sum(-1) + volume

    def divergence(self, encoded: tuple[Tensor, ...], ratio: Tensor) -> Tensor:
        """KL(q(z|x) ‖ p(z)), (B,): in closed form, or, of posteriors that maps bend, −ln p(z)/q(z|x) at the draw."""
        return divergences(*encoded) if len(encoded) == 2 else -ratio

    def encode_mean(self, x: Tensor) -> Tensor:
        """μ (B, m): the codes of inputs."""
        return self.encode(x)[0]

    def _run_decoder(self, z: Tensor, y: Tensor | None) -> Tensor:
        if y is not None:
            z = torch.cat([z, F.one_hot(y, self.n_classes).to(z)], -1)
        return self.decoder(z).to(self.log_sigma.dtype)

    def decode(self, z: Tensor, y: Tensor | None = None) -> Tensor:
        """(B, *input_shape): the parameters of p(x|z, y), logits of Bernoullis or means of normals in the units of the rows."""
        found = self._run_decoder(z, y)
        if self.likelihood == "bernoulli":
            return found + self.offset
        return self.mean + self.scale * found

    def expect(self, z: Tensor, y: Tensor | None = None) -> Tensor:
        """(B, *input_shape): E(x | z, y); without y E(x | z)."""
        if y is None and self.n_classes:
            places = (torch.full((len(z),), c, device=z.device) for c in range(self.n_classes))
            return sum(p * self.expect(z, y) for p, y in zip(self.shares, places, strict=True))
        found = self.decode(z, y)
        return found.sigmoid() if self.likelihood == "bernoulli" else found

    def forward(self, x: Tensor) -> Tensor:
        return self.expect(self.encode_mean(x))

    def sample(
        self, n: int, generator: torch.Generator | None = None, y: Tensor | None = None
    ) -> Tensor:
        """Draw (n, *input_shape): z from the prior, then x from p(x|z, y)."""
        like = self.log_sigma
        z = torch.randn(n, self.width, generator=generator, device=like.device, dtype=like.dtype)
        if y is None and self.n_classes:
            y = torch.multinomial(self.shares, n, True, generator=generator)
        found = self.expect(z, y)
        if self.likelihood == "bernoulli":
            return torch.bernoulli(found, generator=generator)
        noise = torch.randn(found.shape, generator=generator, device=z.device, dtype=z.dtype)
        return found + self.sigma * noise

    def log_likelihood(self, x: Tensor, z: Tensor, y: Tensor | None = None) -> Tensor:
        """ln p(x|z, y): of z (B, m) one number for each row, (B,); of z (k, B, m), k numbers, (k, B). Without y ln p(x|z)."""
        if y is None and self.n_classes:
            return sum_over_classes(lambda x, y: self.log_likelihood(x, z, y), x, self.shares)
        given = None if y is None else y.expand(z.shape[:-1]).reshape(-1)
        found = self._run_decoder(z.reshape(-1, self.width), given).reshape(*z.shape[:-1], -1)
        if self.likelihood == "bernoulli":
            found = found + self.offset.reshape(-1)
            rows = x.flatten(1).expand_as(found)
            return -F.binary_cross_entropy_with_logits(found, rows, reduction="none").sum(-1)
        # in units of the data's own scale, where numbers are of size 1
        errors = ((x - self.mean) / self.scale).flatten(1) - found
        logs = self.log_sigma + self.scale.log() + 0.5 * math.log(2 * math.pi)
        return -0.5 * (errors * torch.exp(-self.log_sigma)).square().sum(-1) - errors.shape[-1] * logs  # fmt: skip

    def elbo(self, x: Tensor, noise: Tensor, y: Tensor | None = None) -> Tensor:
        """(B,): ln p(x|z) − KL at the z of ε (B, m)."""
        encoded = self.encode(x)
        z, ratio = self.draw(encoded, noise)
        return self.log_likelihood(x, z, y) - self.divergence(encoded, ratio)

    def log_weights(self, x: Tensor, noise: Tensor, y: Tensor | None = None) -> Tensor:
        """(k, B): ln p(x, z)/q(z|x) at the z of ε (k, B, m)."""
        z, ratio = self.draw(self.encode(x), noise)
        return self.log_likelihood(x, z, y) + ratio


def place(mean: Tensor, L: Tensor, noise: Tensor) -> Tensor:
    """z = μ + Lε."""
    return mean + (L * noise if L.ndim == 2 else (L @ noise[..., None])[..., 0])


def log_det(L: Tensor) -> Tensor:
    """ln det L, (B,)."""
    return (L if L.ndim == 2 else L.diagonal(dim1=-2, dim2=-1)).log().sum(-1)


def divergences(mean: Tensor, L: Tensor) -> Tensor:
    """KL(N(μ, LLᵀ) ‖ N(0, I)), (B,): summed over the code, not averaged."""
    return 0.5 * (mean.square().sum(-1) + L.square().flatten(1).sum(-1) - mean.shape[1]) - log_det(L)  # fmt: skip


# --- objectives -------------------------------------------------------------------------------------------------------


@storable
@dataclass(frozen=True)
class PenalisedBound(Objective):
    """−ln p(x|z) + β KL, by one draw of z; at β = 1 and without the rest, minus the ELBO.

    beta : β; above 1 the bound is looser, below 1 it is none
    warm_up : batches in which β rises from 0 while the network learns; it is measured at the last β
    free_bits : λ, nats of each code that cost nothing: Σ_j max(λ, KL_j), row by row
    """

    beta: float = 1.0
    warm_up: int = 0
    free_bits: float = 0.0

    def __call__(self, net: nn.Module, batch: Sequence[Tensor], rng: torch.Generator) -> Terms:
        assert isinstance(net, VAENet)
        x, *y = batch
        beta: float | Tensor = self.beta
        mean, L, *_ = encoded = net.encode(x)
        noise = torch.randn(mean.shape, generator=rng, device=x.device).to(mean.dtype)
        z, ratio = net.draw(encoded, noise)
        missed = -net.log_likelihood(x, z, *y)
        kl = penalty = net.divergence(encoded, ratio)
        if self.free_bits:
            each = 0.5 * (mean.square() + L.square() - 1) - L.log()
            penalty = each.clamp(min=self.free_bits).sum(-1)
        if self.warm_up and net.training:
            net.seen += 1
            beta = beta * (net.seen / self.warm_up).clamp(max=1.0).to(x.dtype)
        return Terms(missed + beta * penalty, {"kl": kl, "reconstruction": missed})


@storable
@dataclass(frozen=True)
class ImportanceWeightedBound(Objective):
    """−ln (1/k) Σ_i p(x, z_i)/q(z_i|x) of k draws (Burda et al. 2016)."""

    n_draws: int = 5

    def __call__(self, net: nn.Module, batch: Sequence[Tensor], rng: torch.Generator) -> Terms:
        assert isinstance(net, VAENet)
        x, *y = batch
        shape = self.n_draws, len(x), net.width
        noise = torch.randn(shape, generator=rng, device=x.device).to(net.log_sigma.dtype)
        encoded = net.encode(x)
        z, ratio = net.draw(encoded, noise)
        bound = torch.logsumexp(net.log_likelihood(x, z, *y) + ratio, 0) - math.log(self.n_draws)
        return Terms(-bound, {"kl": net.divergence(encoded, ratio.mean(0))})
