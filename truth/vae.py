"""Variational autoencoders of known truth: linear decoders with exact posteriors, codes that do nothing, false bounds."""

from __future__ import annotations

import copy

import numpy as np
import torch

from lemmata import VAE
from truth.harness import Case, problems

LINEAR = {"layers": (), "activation": "identity", "learning_rate": 0.02, "batch_size": 64}
D, M, N, NEW = 5, 2, 400, 2500


class AveragedKL(VAE):
    """A common slip: the KL is averaged over the code instead of summed."""

    def _bounds(self, rows, k, seed, places=None):
        x = torch.from_numpy(np.ascontiguousarray(rows)).to(self.module_.mean)
        with torch.no_grad():
            mean, s = self.module_.encode(x.reshape(-1, *self.input_shape_))
        kl = 0.5 * (mean**2 + s**2 - 1 - 2 * s.log()).sum(1).double().numpy()
        return super()._bounds(rows, k, seed, places) + kl * (1 - 1 / self.n_components_)


def changed(model: VAE, change=None, kind: type = VAE) -> VAE:
    model = copy.deepcopy(model)
    model.__class__ = kind
    with torch.no_grad():
        if change is not None:
            change(model.module_)
    return model


def set_exact(net, W, b, sigma) -> None:
    """Make a network the model x ~ N(Wz + b, σ²I) with its exact posterior, whose covariance is diagonal for orthogonal W."""
    M_inverse = np.linalg.inv(W.T @ W + sigma**2 * np.eye(W.shape[1]))
    m = W.shape[1]
    net.mean.zero_()
    net.scale.fill_(1.0)
    net.log_sigma.fill_(float(np.log(sigma)))
    encoder, decoder = net.encoder[-1], net.decoder[0]
    decoder.weight.copy_(torch.from_numpy(W))
    decoder.bias.copy_(torch.from_numpy(b))
    encoder.weight.zero_()
    encoder.weight[:m] = torch.from_numpy(M_inverse @ W.T)
    encoder.bias[:m] = torch.from_numpy(-M_inverse @ W.T @ b)
    encoder.bias[m:] = torch.from_numpy(0.5 * np.log(sigma**2 * np.diag(M_inverse)))


@problems(seeds=12, quick=1)
def linear_models(seed):
    """The truth itself, a trained one, a hurried one, and each with something wrong."""
    rng = np.random.default_rng(seed)
    sigma, b = rng.uniform(0.2, 0.6), 3 * rng.normal(size=D)
    W = np.linalg.qr(rng.normal(size=(D, M)))[0] * rng.uniform(1, 3, M)

    def draw(n):
        return rng.normal(size=(n, M)) @ W.T + b + sigma * rng.normal(size=(n, D))

    X, new = draw(N), draw(NEW)
    exact = VAE(M, **LINEAR, max_iter=1, random_state=seed, test_fraction=0.0).fit(X)
    with torch.no_grad():
        set_exact(exact.module_, W, b, sigma)
    exact.bound_ = float(exact.bound(X).mean())
    # the likelihood of N rows gains half a nat for each of its D + DM + 1 numbers, some 0.02 nats per row
    true = {"attributes_sound": True, "statements_true": True, "bound_adds_up": True, "bounds_ordered": True,
            "units_active": True, "prior_met": True, "beats_independent": True}  # fmt: skip
    yield Case("exact", certify(exact, X, new), {**true, "linear_optimum": True}, easy=true)
    trained = VAE(M, **LINEAR, max_iter=60, random_state=seed).fit(X)
    honest = dict.fromkeys(("statements_true", "bound_adds_up", "bounds_ordered"), True)
    yield Case("trained", certify(trained, X, new), honest, easy=honest)
    hurried = VAE(M, **LINEAR, max_iter=1, random_state=seed).fit(X)
    found = {**honest, "linear_optimum": False}
    yield Case("hurried", certify(hurried, X, new), found, easy=found)
    averaged = changed(exact, kind=AveragedKL)
    averaged.bound_ = float(averaged.bound(X).mean())
    found = {"statements_true": False, "bound_adds_up": False, "bounds_ordered": False}
    yield Case("averaged KL", certify(averaged, X, new), found, easy=found)
    liar = changed(exact)
    liar.bound_ += 0.1
    yield Case("lying bound", certify(liar, X, new), {"statements_true": False}, easy=("statements_true",))  # fmt: skip
    # q(z|x) eight times too wide: a poor bound, but one
    wide = changed(exact, lambda net: net.encoder[-1].bias[M:].add_(np.log(8)))
    yield Case("stale bound", certify(wide, X, new), {"statements_true": False}, easy=("statements_true",))  # fmt: skip
    wide.bound_ = float(wide.bound(X).mean())
    yield Case("wide posterior", certify(wide, X, new), honest, easy=("bound_adds_up",))
    far = changed(exact, lambda net: net.encoder[-1].bias[:M].add_(1.0))
    yield Case("far from the prior", certify(far, X, new), {"prior_met": False}, easy=("prior_met",))  # fmt: skip


@problems(seeds=8, quick=1)
def idle_codes(seed):
    """A decoder that ignores z, beside one that uses it: binary rows of two groups, and of none."""
    rng = np.random.default_rng(100 + seed)

    def draw(n, groups):
        share = np.where(rng.random((n, 1)) < 0.5, 0.75, 0.25) if groups else np.full((n, 1), 0.5)
        return (rng.random((n, 24)) < share).astype(np.float32)

    X, new = draw(600, True), draw(1500, True)
    settings = {"layers": (16,), "max_iter": 30, "learning_rate": 0.01, "random_state": seed}
    model = VAE(2, **settings).fit(X)
    good = {"beats_independent": True, "bound_adds_up": True, "statements_true": True}
    yield Case("groups", certify(model, X, new), good, easy=good)

    def silence(net):
        net.decoder[-1].weight.zero_()
        net.encoder[-1].weight.zero_()

    idle = changed(model, silence)
    idle.bound_ = float(idle.bound(X).mean())
    # nothing but columns: at most what independent ones give, minus the KL
    found = {"units_active": False, "bound_adds_up": True, "beats_independent": False}
    yield Case("ignores z", certify(idle, X, new), found, easy=("units_active", "bound_adds_up"))
    broken = changed(model, lambda net: net.decoder[-1].bias[0].fill_(np.nan))
    yield Case("a NaN", certify(broken, X, new), {"attributes_sound": False}, easy=("attributes_sound",))  # fmt: skip
    X, new = draw(600, False), draw(1500, False)
    model = VAE(2, **settings).fit(X)
    # the true law has independent columns: no model is better for most rows by more than its luck
    yield Case("no groups", certify(model, X, new), {"beats_independent": False})


def certify(model, X, new):
    return model.certify(X, X_test=new, seconds=60)
