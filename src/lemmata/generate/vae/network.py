"""The network of a variational autoencoder and what it is trained by (CIL 5.3).

    z ~ N(0, I),      x | z ~ p(x | G(z))         a decoder G: logits of Bernoullis, or means of normals with one learned σ
    q(z | x) = N(μ(x), L(x) L(x)ᵀ)                an encoder: means and a factor of the covariance

For every q,   ln p(x) ≥ E_q ln p(x|z) − KL(q(z|x) ‖ p(z)) = ELBO          (5.24): its first term is E_q ln p(x|z)
and with k draws ln p(x) ≥ E ln (1/k) Σ_i p(x, z_i)/q(z_i|x) = IWAE_k, which grows with k; IWAE_1 is the ELBO.

    z = μ + L ε,   ε ~ N(0, I):                                    the gradient passes through z (reparameterisation)
    KL = ½ (‖μ‖² + ‖L‖² − m) − Σ_j ln L_jj                         of any triangular L
    diagonal  L = diag(s);   rank r  L Lᵀ = diag(s²) + V Vᵀ;   full  L lower triangular

The mean G(z) is a function of z, x given z is not (5.3.3): with normals σ² weighs the KL against the squared error just as β
does, so it is learned, not set to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lemmata.core.files.encoding import storable
from lemmata.nets.estimators.networks import AutoencoderNet
from lemmata.nets.training.losses import Objective, Terms

LIKELIHOODS = ("bernoulli", "gaussian")
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
    posterior : {"diagonal", "full"} or int
        The covariance of q(z|x); a number r is rank r plus diagonal.
    """

    mean: Tensor
    scale: Tensor
    offset: Tensor
    seen: Tensor

    def __init__(
        self,
        input_shape: Sequence[int],
        n_components: int,
        layers: Sequence[int] = (256,),
        conv: Sequence[int] = (),
        activation: str = "gelu",
        likelihood: str = "bernoulli",
        posterior: str | int = "diagonal",
    ):
        super().__init__()
        shape, m = tuple(input_shape), int(n_components)
        if likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood={likelihood!r}; pass one of {', '.join(LIKELIHOODS)}.")
        sizes: dict[str, Any] = {
            "layers": tuple(layers),
            "conv": tuple(conv),
            "activation": activation,
        }
        self.config = {
            "input_shape": shape, "n_components": m, **sizes, "likelihood": likelihood, "posterior": posterior,
        }  # fmt: skip
        self.shape, self.width, self.likelihood, self.posterior = shape, m, likelihood, posterior
        self.encoder = AutoencoderNet(shape, m + self._n_factors(), **sizes).encoder
        self.decoder = AutoencoderNet(shape, m, **sizes).decoder
        self.log_sigma = nn.Parameter(torch.zeros(()), requires_grad=likelihood == "gaussian")
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("offset", torch.zeros(shape))  # of the logits
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))  # batches, for a warm-up
        last = self.encoder[-1]
        with torch.no_grad():
            last.weight[m:] *= START  # type: ignore[operator, index]

    def _n_factors(self) -> int:
        """Numbers that the encoder gives for L."""
        m = self.width
        if self.posterior == "full":
            return m * (m + 1) // 2
        if self.posterior == "diagonal":
            return m
        if isinstance(self.posterior, int) and 1 <= self.posterior <= m:
            return m * (1 + self.posterior)
        raise ValueError(
            f"posterior={self.posterior!r}; pass 'diagonal', 'full' or a rank from 1 to n_components={m}."
        )

    @property
    def sigma(self) -> Tensor:
        """σ of the normals, in the units of the rows."""
        return self.log_sigma.exp() * self.scale

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """μ (B, m) and L of q(z|x): (B, m) where it is diagonal, else (B, m, m), lower triangular."""
        found = self.encoder((x - self.mean) / self.scale).to(self.log_sigma.dtype)
        m = self.width
        mean, first = found[:, :m], found[:, m : 2 * m].exp()
        if self.posterior == "diagonal":
            return mean, first
        rest = found[:, 2 * m :]
        if self.posterior == "full":
            rows, columns = torch.tril_indices(m, m, -1, device=x.device)
            L = torch.diag_embed(first)
            L[:, rows, columns] = rest
            return mean, L
        V = rest.reshape(len(x), m, -1)
        return mean, torch.linalg.cholesky(torch.diag_embed(first.square()) + V @ V.mT)

    def encode_mean(self, x: Tensor) -> Tensor:
        """μ (B, m): the codes of inputs."""
        return self.encode(x)[0]

    def decode(self, z: Tensor) -> Tensor:
        """(B, *input_shape): the parameters of p(x|z), logits of Bernoullis or means of normals in the units of the rows."""
        found = self.decoder(z).to(self.log_sigma.dtype)
        if self.likelihood == "bernoulli":
            return found + self.offset
        return self.mean + self.scale * found

    def expect(self, z: Tensor) -> Tensor:
        """(B, *input_shape): E(x | z)."""
        found = self.decode(z)
        return found.sigmoid() if self.likelihood == "bernoulli" else found

    def forward(self, x: Tensor) -> Tensor:
        return self.expect(self.encode_mean(x))

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw (n, *input_shape): z from the prior, then x from p(x|z)."""
        like = self.log_sigma
        z = torch.randn(n, self.width, generator=generator, device=like.device, dtype=like.dtype)
        found = self.expect(z)
        if self.likelihood == "bernoulli":
            return torch.bernoulli(found, generator=generator)
        noise = torch.randn(found.shape, generator=generator, device=z.device, dtype=z.dtype)
        return found + self.sigma * noise

    def log_likelihood(self, x: Tensor, z: Tensor) -> Tensor:
        """ln p(x|z): of z (B, m) one number for each row, (B,); of z (k, B, m), k numbers, (k, B)."""
        found = self.decoder(z.reshape(-1, self.width)).to(z.dtype).reshape(*z.shape[:-1], -1)
        if self.likelihood == "bernoulli":
            found = found + self.offset.reshape(-1)
            rows = x.flatten(1).expand_as(found)
            return -F.binary_cross_entropy_with_logits(found, rows, reduction="none").sum(-1)
        # in units of the data's own scale, where numbers are of size 1
        errors = ((x - self.mean) / self.scale).flatten(1) - found
        logs = self.log_sigma + self.scale.log() + 0.5 * math.log(2 * math.pi)
        return -0.5 * (errors * torch.exp(-self.log_sigma)).square().sum(-1) - errors.shape[-1] * logs  # fmt: skip

    def elbo(self, x: Tensor, noise: Tensor) -> Tensor:
        """(B,): ln p(x | μ + Lε) − KL, for ε (B, m)."""
        mean, L = self.encode(x)
        return self.log_likelihood(x, place(mean, L, noise)) - divergences(mean, L)

    def log_weights(self, x: Tensor, noise: Tensor) -> Tensor:
        """(k, B): ln p(x, z)/q(z|x) at z = μ + Lε, for ε (k, B, m)."""
        mean, L = self.encode(x)
        z = place(mean, L, noise)
        prior_over_posterior = 0.5 * (noise.square() - z.square()).sum(-1) + log_det(L)
        return self.log_likelihood(x, z) + prior_over_posterior


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
        x = batch[0]
        beta: float | Tensor = self.beta
        mean, L = net.encode(x)
        noise = torch.randn(mean.shape, generator=rng, device=x.device).to(mean.dtype)
        missed = -net.log_likelihood(x, place(mean, L, noise))
        kl = penalty = divergences(mean, L)
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
        x = batch[0]
        mean, L = net.encode(x)
        shape = self.n_draws, *mean.shape
        noise = torch.randn(shape, generator=rng, device=x.device).to(mean.dtype)
        z = place(mean, L, noise)
        logs = net.log_likelihood(x, z) + 0.5 * (noise.square() - z.square()).sum(-1) + log_det(L)
        bound = torch.logsumexp(logs, 0) - math.log(self.n_draws)
        return Terms(-bound, {"kl": divergences(mean, L)})
