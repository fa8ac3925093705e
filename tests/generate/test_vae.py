"""Variational autoencoders against closed forms: linear decoders with normals have an exact posterior and likelihood."""

import copy

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits

import lemmata
from lemmata import PCA, VAE
from lemmata.generate.vae import ImportanceWeightedBound, PenalisedBound, VAENet
from lemmata.generate.vae.network import divergences, log_det, place

POSTERIORS = ("diagonal", 1, "full")
BENT = ("planar", "sylvester")
SIGMA = 0.4


def linear_rows(n, seed=0, d=6):
    """Rows of a plane with noise, and the covariance they are drawn with."""
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(1).normal(size=(2, d)) * [[1.5], [0.8]]
    return rng.normal(size=(n, 2)) @ W + SIGMA * rng.normal(size=(n, d)) + 3


@pytest.fixture(scope="module")
def X():
    return linear_rows(2000)


@pytest.fixture(scope="module")
def linear(X):
    settings = {"layers": (), "activation": "identity", "learning_rate": 0.02, "batch_size": 256}
    return VAE(2, **settings, max_iter=100, random_state=0).fit(X)


@pytest.fixture(scope="module")
def pixels():
    return (load_digits().images > 7).astype(np.float32)


@pytest.fixture(scope="module")
def binary(pixels):
    return VAE(6, layers=(64,), max_iter=25, learning_rate=5e-3, random_state=0).fit(pixels)


def decoder_of(model):
    """W (d, m), b and σ of a linear decoder."""
    net, m = model.module_, model.n_components_
    with torch.no_grad():
        b = net.decode(torch.zeros(1, m).to(net.mean))[0].numpy()
        W = (net.decode(torch.eye(m).to(net.mean)).numpy() - b).T
    return W, b, net.sigma.item()


# --- the network ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_the_kl_and_the_density_of_q_agree_with_draws(posterior):
    torch.manual_seed(0)
    net = VAENet((4,), 3, layers=(8,), likelihood="gaussian", posterior=posterior).double()
    with torch.no_grad():
        net.encoder[-1].weight[3:] *= 10
    x = torch.randn(2, 4, dtype=torch.float64)
    mean, L = (part.detach() for part in net.encode(x))
    noise = torch.randn(200_000, 2, 3, dtype=torch.float64)
    z = place(mean, L, noise)
    full = torch.diag_embed(L) if L.ndim == 2 else L
    log_q = torch.stack(
        [
            torch.distributions.MultivariateNormal(mean[i], scale_tril=full[i]).log_prob(z[:, i])
            for i in range(2)
        ],
        1,
    )
    log_p = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1)
    draws = log_q - log_p
    error = (draws.mean(0) - divergences(mean, L)).abs() / (draws.std(0) / len(z) ** 0.5)
    assert error.max() < 5
    ours = 0.5 * (noise.square() - z.square()).sum(-1) + log_det(L)
    torch.testing.assert_close(ours, log_p - log_q)
    with torch.no_grad():
        likelihood = net.log_likelihood(x, z[:3])
        torch.testing.assert_close(net.log_weights(x, noise[:3]), likelihood + ours[:3])
        normal = torch.distributions.Normal(net.decode(z[0]), net.sigma)
    torch.testing.assert_close(likelihood[0], normal.log_prob(x).sum(-1))


@pytest.mark.parametrize("posterior", BENT)
def test_bent_posteriors_know_their_density(posterior):
    """ln p(z)/q(z|x) by the map from ε to z itself: its Jacobian by autograd."""
    torch.manual_seed(0)
    net = VAENet((4,), 3, layers=(8,), likelihood="gaussian", posterior=posterior).double()
    with torch.no_grad():
        net.encoder[-1].weight[3:] *= 10
    x, noise = (torch.randn(2, 5, n, dtype=torch.float64)[0] for n in (4, 3))
    encoded = tuple(part.detach() for part in net.encode(x))
    z, ratio = net.draw(encoded, noise)
    normal = torch.distributions.Normal(0.0, 1.0)
    for i in range(5):
        one = tuple(part[i : i + 1] for part in encoded)
        J = torch.autograd.functional.jacobian(
            lambda e, one=one: net.draw(one, e[None])[0][0], noise[i]
        )
        log_q = normal.log_prob(noise[i]).sum() - torch.linalg.slogdet(J)[1]
        torch.testing.assert_close(ratio[i], normal.log_prob(z[i]).sum() - log_q)


def test_reparameterised_gradients_are_those_of_the_score_function():
    torch.manual_seed(0)
    net = VAENet((3,), 2, layers=(4,), likelihood="bernoulli").double()
    x = torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64)
    n = 100_000
    mean = torch.tensor([[0.3, -0.5]], dtype=torch.float64).expand(n, 2).clone().requires_grad_()
    scale = torch.tensor([[0.7, 1.2]], dtype=torch.float64).expand(n, 2).clone().requires_grad_()
    noise = torch.randn(n, 2, dtype=torch.float64)
    f = net.log_likelihood(x.expand(n, 3), place(mean, scale, noise))
    through = torch.cat(torch.autograd.grad(f.sum(), (mean, scale)), 1)  # a draw of ∇ E f each
    z = place(mean, scale, noise).detach()
    log_q = torch.distributions.Normal(mean, scale).log_prob(z).sum()
    score = torch.cat(torch.autograd.grad(log_q, (mean, scale)), 1) * (f - f.mean())[:, None]
    score = score.detach()
    difference = through.mean(0) - score.mean(0)
    error = ((through.var(0) + score.var(0)) / n).sqrt()
    assert (difference.abs() / error).max() < 5
    assert through.var(0).sum() < score.var(0).sum()  # why the first is used
    assert through.mean(0).norm() > 20 * error.norm()


def test_objectives_are_what_they_are_called():
    torch.manual_seed(0)
    net = VAENet((5,), 2, layers=(6,)).double().eval()
    x = (torch.rand(7, 5) < 0.5).double()

    def value(objective):
        return objective(net, (x,), torch.Generator().manual_seed(0))

    plain = value(PenalisedBound())
    kl, missed = plain.numbers["kl"], plain.numbers["reconstruction"]
    noise = torch.randn(7, 2, generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(-plain.losses, net.elbo(x, noise))
    torch.testing.assert_close(value(PenalisedBound(beta=3.0)).losses, missed + 3 * kl)
    torch.testing.assert_close(value(PenalisedBound(free_bits=50.0)).losses, missed + 100)
    torch.testing.assert_close(value(PenalisedBound(free_bits=1e-9)).losses, plain.losses)
    many = value(ImportanceWeightedBound(200)).losses
    assert many.mean() < plain.losses.mean()
    net.train()
    rising = [value(PenalisedBound(2.0, warm_up=4)).losses for _ in range(6)]
    for at, beta in enumerate((0.5, 1.0, 1.5, 2.0, 2.0, 2.0)):
        torch.testing.assert_close(rising[at], missed + beta * kl)
    net.eval()
    torch.testing.assert_close(value(PenalisedBound(2.0, warm_up=400)).losses, missed + 2 * kl)


# --- linear decoders --------------------------------------------------------------------------------------------------


def test_a_linear_vae_is_probabilistic_pca(X, linear):
    W, _, sigma = decoder_of(linear)
    trained = np.delete(X, linear.test_rows_, axis=0)
    pca = PCA(2).fit(trained)
    Q = np.linalg.qr(W)[0]
    cosines = np.linalg.svd(Q.T @ pca.components_.T)[1]
    assert np.degrees(np.arccos(np.minimum(cosines, 1))).max() < 1
    values = np.linalg.eigvalsh(np.cov(trained.T, bias=True))
    assert abs(sigma**2 / values[:-2].mean() - 1) < 0.02
    found = linear.certify(X, X_test=linear_rows(3000, 5), seconds=60)
    assert found["linear_optimum"].measured < 0.01
    sure = ("bound_adds_up", "units_active", "bounds_ordered", "prior_met", "linear_optimum")
    assert {found[name].verdict for name in (*sure, "beats_independent")} == {"holds"}


def test_bounds_are_below_the_exact_likelihood_and_close_with_draws(X, linear, pixels, binary):
    W, b, sigma = decoder_of(linear)
    exact = multivariate_normal(b, W @ W.T + sigma**2 * np.eye(6)).logpdf(X)
    for k, most in ((1, 0.2), (5, 0.005), (100, 0.001)):
        gap = exact - linear.bound(X, k)
        error = gap.std() / len(gap) ** 0.5
        assert -5 * error < gap.mean() < most
        assert error < most
    # of single rows: Markov's inequality for exp(bound) / p(x)
    assert ((linear.bound(X, 20) - exact) > 3).mean() <= np.exp(-3)
    assert np.array_equal(linear.bound(X), linear.bound(X, random_state=0))
    assert not np.array_equal(linear.bound(X), linear.bound(X, random_state=1))
    gain = binary.bound(pixels, 50) - binary.bound(pixels)
    assert gain.mean() > 5 * gain.std() / len(gain) ** 0.5
    assert linear.score(X) == pytest.approx(linear.bound(X).mean())


def test_the_amortisation_gap_is_small(X, linear):
    """q(z|x) against the best diagonal q for that x, both exactly: linear decoders with normals."""
    W, b, sigma = decoder_of(linear)
    with torch.no_grad():
        mean, s = (part.numpy() for part in linear.module_.encode(torch.from_numpy(X)))
    precision = np.eye(2) + W.T @ W / sigma**2
    best_mean = (X - b) @ W @ np.linalg.inv(precision).T / sigma**2

    def elbo(mean, s):
        missed = np.square(X - b - mean @ W.T).sum(1) + np.square(s) @ np.square(W).sum(0)
        kl = 0.5 * (mean**2 + s**2 - 1 - 2 * np.log(s)).sum(1)
        return -0.5 * missed / sigma**2 - kl

    best = elbo(best_mean, np.broadcast_to(np.diag(precision) ** -0.5, mean.shape))
    gap = best - elbo(mean, s)
    assert gap.min() > -1e-9
    assert gap.mean() < 0.02


# --- using ------------------------------------------------------------------------------------------------------------


def test_the_bound_is_the_elbo_whatever_was_trained(pixels):
    settings = {"layers": (16,), "max_iter": 2, "random_state": 0}
    for more in ({"beta": 4.0}, {"beta_warmup": 40}, {"free_bits": 1.0}, {"n_draws": 3}):
        model = VAE(3, **settings, **more).fit(pixels)
        found = model.certify(pixels)
        assert found["bound_adds_up"].verdict == found["statements_true"].verdict == "holds"
        assert found["bounds_ordered"].verdict == "holds"
        if "beta_warmup" not in more:
            assert abs(model.loss_ + model.bound_) > 0.3
    for more, words in (
        ({"n_draws": 2, "beta": 2.0}, "no KL to weigh"),
        ({"free_bits": 0.1, "posterior": "full"}, "code by code"),
        ({"posterior": 9}, "a rank from 1 to n_components=3"),
        ({"n_components": 65}, "exceeds n_features=64"),
    ):
        with pytest.raises(ValueError, match=words):
            VAE(**{"n_components": 3, **more}).fit(pixels)


@pytest.mark.parametrize("posterior", [*POSTERIORS[1:], *BENT])
def test_richer_posteriors_train_and_are_certified(X, posterior):
    settings = {"layers": (), "activation": "identity", "learning_rate": 0.02, "batch_size": 256}
    model = VAE(2, posterior=posterior, **settings, max_iter=15, random_state=0).fit(X)
    found = model.certify(X, seconds=60)
    assert found["bound_adds_up"].verdict == found["bounds_ordered"].verdict == "holds"
    liar = copy.deepcopy(model)
    with torch.no_grad():  # other codes than those that bound_ is of
        liar.module_.encoder[-1].bias[-1] += 1
    assert liar.certify(X)["statements_true"].verdict == "fails"


def test_classes_condition_the_decoder(pixels):
    y = load_digits().target
    model = VAE(3, layers=(32,), max_iter=15, learning_rate=1e-2, random_state=0).fit(pixels, y)
    found = model.certify(pixels, y, seconds=60)
    sure = ("beats_independent", "bound_adds_up", "bounds_ordered", "statements_true")
    assert {found[name].verdict for name in sure} == {"holds"}
    for digit in (0, 1):  # the right class explains its pixels best, and is drawn
        rows = pixels[y == digit]
        given = [model.bound(rows, 10, y=np.full(len(rows), c)).mean() for c in range(10)]
        assert np.argmax(given) == digit
        drawn = model.sample(300, digit, 0).mean(axis=0)[0]
        assert np.abs(drawn - rows.mean(axis=0)).mean() < 0.08
    with pytest.raises(ValueError, match=r"label 12.* it knows 0, 1"):
        model.sample(1, 12)
    assert model.transform(pixels).shape == (len(pixels), 3)
    assert model.bound(pixels, y=y).mean() > model.bound(pixels).mean()


def test_images_are_drawn_coded_and_walked_between(pixels, binary):
    assert binary.likelihood_ == "bernoulli"
    drawn = binary.sample(500, random_state=0)
    assert drawn.shape == (500, 1, 8, 8)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert np.abs(drawn.mean(0) - pixels.mean(0)).mean() < 0.08
    codes = binary.transform(pixels)
    assert codes.shape == (len(pixels), 6)
    again = binary.inverse_transform(codes)
    assert again.min() >= 0
    assert again.max() <= 1
    walk = binary.interpolate(pixels[0], pixels[1], 5)
    np.testing.assert_allclose(walk[[0, -1]], again[:2], atol=1e-5)
    found = binary.certificate_
    assert {found[name].verdict for name in ("beats_independent", "bound_adds_up")} == {"holds"}
    conv = VAE(2, conv=(4,), layers=(16,), max_iter=1, random_state=0).fit(pixels)
    assert conv.sample(2, random_state=0).shape == (2, 1, 8, 8)
    assert conv.certificate_["bound_adds_up"].verdict == "holds"


def test_draws_of_a_linear_vae_have_its_moments(X, linear):
    drawn = linear.sample(20_000, random_state=0)
    W, b, sigma = decoder_of(linear)
    C = W @ W.T + sigma**2 * np.eye(6)
    np.testing.assert_allclose(drawn.mean(0), b, atol=5 * np.sqrt(C.max() / len(drawn)))
    np.testing.assert_allclose(np.cov(drawn.T), C, atol=0.06 * C.max())


def test_the_bar_counts_all_steps_of_an_epoch(X):
    from lemmata.core.loop import MaxSteps, run
    from lemmata.core.runs.progress import Progress
    from lemmata.nets.training.algorithm import Training
    from lemmata.nets.training.running import ByEpoch

    net = VAENet((6,), 2, layers=(4,), likelihood="gaussian").double()
    training = Training(net, PenalisedBound(), batch_size=250, batches_per_step=2, epochs=3)
    bar = Progress("toy", total=3, show=True)
    done = run(training, X, stop=ByEpoch(MaxSteps(3)), callbacks=[bar], rng=0)
    assert done.step == bar.total == 12  # three epochs of eight batches


def test_a_file_and_a_resumed_run_are_the_same_model(X, tmp_path):
    X = X[:300]
    settings = {"layers": (8,), "max_iter": 6, "beta_warmup": 10, "random_state": 0}
    whole = VAE(2, **settings).fit(X)
    assert whole.module_.seen == 18  # 270 rows in batches of 128
    lemmata.save(whole, tmp_path / "m.lemma")
    again = lemmata.load(tmp_path / "m.lemma")
    assert np.array_equal(again.bound(X, 5), whole.bound(X, 5))
    assert np.array_equal(again.sample(3, random_state=1), whole.sample(3, random_state=1))

    seen = []

    def interrupt(solution):
        seen.append(solution.step)
        if len(seen) == 3:
            raise KeyboardInterrupt

    settings |= {"checkpoint": tmp_path / "c", "callbacks": [interrupt]}
    with pytest.warns(UserWarning, match="interrupted"):
        VAE(2, **settings).fit(X)
    resumed = VAE(2, **settings).fit(X)
    assert resumed.bound_ == whole.bound_


def test_numbers_that_no_bernoulli_has_are_named(pixels, binary):
    X = pixels.reshape(len(pixels), -1)[:50].copy()
    X[7, 3] = 16
    with pytest.raises(ValueError, match=r"X\[7, 3\] is 16.* 1 are outside"):
        VAE(2, likelihood="bernoulli").fit(X)
    with pytest.raises(ValueError, match=r"X\[7, 3\] is 16"):
        binary.bound(X)
    assert VAE(2, layers=(4,), max_iter=1).fit(X).likelihood_ == "gaussian"
    with pytest.raises(ValueError, match="n_samples=0"):
        binary.bound(pixels, 0)
    with pytest.raises(ValueError, match="codes have shape"):
        binary.inverse_transform(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="n_steps=1"):
        binary.interpolate(pixels[0], pixels[1], 1)
    assert not hasattr(binary, "score_samples")


# --- claims that fail -------------------------------------------------------------------------------------------------


def test_lies_and_collapse_are_found(pixels, binary):
    flat = pixels.reshape(len(pixels), -1)
    liar = copy.deepcopy(binary)
    liar.bound_ += 1.0
    assert "statements_true" in liar.certify(flat).failed

    class AveragedKL(VAE):
        def _bounds(self, rows, k, seed, places=None):
            with torch.no_grad():
                kl = divergences(*self.module_.encode(torch.from_numpy(rows).reshape(-1, 1, 8, 8)))
            return super()._bounds(rows, k, seed, places) + kl.numpy() * (
                1 - 1 / self.n_components_
            )

    liar = copy.deepcopy(binary)
    liar.__class__ = AveragedKL
    assert {"bound_adds_up", "bounds_ordered"} <= set(liar.certify(flat, seconds=60).failed)
    asleep = copy.deepcopy(binary)
    with torch.no_grad():
        asleep.module_.encoder[-1].weight[[1, 4]] = 0
    found = asleep.certify(flat)["units_active"]
    assert found.verdict == "fails"
    assert "2 of 6 collapsed: 1, 4" in found.note
