"""Diffusion models that were fitted: against the exact score, exact likelihoods, and what was asked for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

import lemmata
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import FAILS, HOLDS
from lemmata.generate import VAE, Cascade, Diffusion, Latent
from lemmata.generate.diffusion.exact import MixtureDenoiser
from lemmata.generate.diffusion.likelihood import divergence, log_density, lower_bound
from lemmata.generate.diffusion.schedules import make_schedule
from lemmata.generate.diffusion.targets import TARGETS
from lemmata.nets import TimedMLP

FEW = {"width": 32, "random_state": 0, "steps": 200}
IMAGES = (load_digits().images[:160, None] / 16).astype(np.float32)
DIGITS = load_digits().target[:160]


@pytest.fixture(scope="module")
def mixture():
    """A mixture of two normals in the units of its own deviation, its best denoiser, and a model that learned from draws."""
    schedule, rng = make_schedule("cosine", 200), np.random.default_rng(0)
    means, spread = np.array([[-0.9, -0.5], [0.9, 0.5]]), np.eye(2) * [0.06, 0.4]
    best = MixtureDenoiser(np.array([0.5, 0.5]), means, np.array([spread, spread]), schedule)
    X = best.draw(2000, rng).astype(np.float32)
    with lemmata.config(certificate=False):
        return best, Diffusion(max_iter=25, batch_size=64, **FEW).fit(X), X


@pytest.fixture(scope="module")
def pictures():
    with lemmata.config(certificate=False):
        model = Diffusion(width=8, max_iter=2, steps=50, random_state=0)
        return model.fit(IMAGES, DIGITS)


def test_the_learned_score_is_near_the_exact_one(mixture):
    """What the model misses of E[ξ|x_t] is a tenth of what the best linear denoiser misses, or less."""
    best, model, X = mixture
    net, rng = model.module_, np.random.default_rng(1)
    mean, scale = net.mean.double().numpy(), net.scale.double().numpy()
    rows = best.draw(1000, rng)
    unit = MixtureDenoiser(
        best.weights, (best.means - mean) / scale, best.covariances / np.outer(scale, scale), best.schedule
    )  # fmt: skip
    z, C = (rows - mean) / scale, np.cov(((X - mean) / scale).T)
    missed, linear = 0.0, 0.0
    for t in (60, 90, 120, 150):
        a, b = best.schedule.alpha_bar[t], best.schedule.beta_bar[t]
        x = a * z + b * rng.normal(size=z.shape)
        exact = unit(x, t)
        with torch.no_grad():
            found = net.noise(torch.from_numpy(x).float(), torch.full((1000,), t))[0].numpy()
        wiener = b * np.linalg.solve(a**2 * C + b**2 * np.eye(2), x.T).T
        missed += np.square(found - exact).sum() / a**2
        linear += np.square(wiener - exact).sum() / a**2
    assert missed < 0.1 * linear


def test_a_fit_states_what_is_true_and_its_claims_hold(mixture):
    model, X = mixture[1], mixture[2]
    found = model.certify(
        X, X_test=mixture[0].draw(1500, np.random.default_rng(2)).astype(np.float32)
    )
    names = (
        "beats_linear_denoiser noise_adds_up starts_from_noise likelihood_settled beats_independent"
    )
    for name in [*names.split(), "statements_true"]:
        assert found[name].verdict == HOLDS, found[name]
    # a thousand draws are too few for more
    assert not {"passes_for_data", "modes_covered", "not_copied"} & set(found.failed)
    spoilt = Diffusion(**model.get_params())
    spoilt.__dict__.update(model.__dict__)
    spoilt.predicts = "noise"  # its v is read as noise
    again = spoilt._certificate(Blocks.of(X))
    assert [again[name].verdict for name in ("statements_true", "beats_linear_denoiser")] == [
        FAILS
    ] * 2


# --- likelihoods ------------------------------------------------------------------------------------------------------


def normal_denoiser(schedule, C):
    """E[ξ|x_t] of N(0, C), as a function of tensors."""
    C = torch.from_numpy(C)

    def predict(x, t):
        a, b = float(schedule.alpha_bar[t]), float(schedule.beta_bar[t])
        return b * torch.linalg.solve(a**2 * C + b**2 * torch.eye(len(C)).double(), x.T).T

    return predict


C = np.array([[0.5, 0.3], [0.3, 1.2]])


def test_the_flow_has_the_likelihood_of_normal_rows_to_second_order():
    schedule = make_schedule("cosine", 4000)
    x = np.random.default_rng(0).multivariate_normal(np.zeros(2), C, 20)
    exact = multivariate_normal(np.zeros(2), C).logpdf(x)
    predict = normal_denoiser(schedule, C)
    found = [
        log_density(torch.from_numpy(x), predict, schedule, n)[0].numpy() for n in (10, 50, 100)
    ]
    errors = [np.abs(one - exact).max() for one in found]
    assert errors[0] > 0.1  # nats: few steps are wrong
    assert 3 < errors[1] / errors[2] < 5
    np.testing.assert_allclose(
        (4 * found[2] - found[1]) / 3, exact, atol=errors[2] / 2
    )  # what is left without h²


def test_probes_estimate_the_divergence_without_bias():
    schedule, x = make_schedule("cosine", 100), torch.randn(3, 2, dtype=torch.float64)
    predict = normal_denoiser(schedule, C)
    exact = divergence(lambda x: predict(x, 40), x, None)[1]
    # all four sign vectors, each once: their mean is the trace
    signs = torch.tensor([[s, t] for s in (-1.0, 1.0) for t in (-1.0, 1.0)]).double()[:, None]
    by_probes = divergence(lambda x: predict(x, 40), x, signs)[1]
    torch.testing.assert_close(by_probes.mean(0), exact[0])


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_bound_is_ln_p_where_the_chain_is_exact_and_below_it_elsewhere(share):
    """Of N(0, I) the chain with σ = β is exact, so that its bound is ln p; with the least σ it is not."""
    schedule, n = make_schedule("cosine", 30), 4000
    x = torch.full((n, 1), 0.7, dtype=torch.float64)
    exact = -0.5 * 0.49 - 0.5 * np.log(2 * np.pi)

    def predict(x, t):
        return torch.from_numpy(schedule.beta_bar)[t][:, None] * x, share

    found = lower_bound(x, predict, schedule, 30, np.random.default_rng(0)).numpy()
    error = 5 * found.std() / np.sqrt(n)
    gap = exact - found.mean()
    assert abs(gap) < error if share == 1 else gap > error


def test_a_learned_variance_tightens_the_bound():
    """One column is N(0, 1), which wants σ = β, the other ±1, which wants less in the middle: each number has its own."""
    rng = np.random.default_rng(0)
    X = np.stack([rng.normal(size=800), rng.choice([-1.0, 1.0], 800)], 1).astype(np.float32)
    with lemmata.config(certificate=False):
        model = Diffusion(width=32, steps=8, variance="learned", max_iter=40, batch_size=64, random_state=0).fit(X)  # fmt: skip
    net, z = model.module_, torch.from_numpy(X[:800])

    def bound(share):
        def predict(x, t):
            found, learned = net.noise(x, t)
            return found, learned if share is None else share

        with torch.no_grad():
            z0 = net.standardise(z)[0]
            return lower_bound(z0, predict, net.schedule, 8, np.random.default_rng(1)).mean().item()

    assert bound(None) > max(bound(0.0), bound(1.0), bound(0.5))


# --- drawing ----------------------------------------------------------------------------------------------------------


def test_samples_repeat_follow_their_number_and_stay_in_range(pictures):
    drawn = pictures.sample(3, y=7, steps=5, random_state=1)
    assert drawn.shape == (3, 1, 8, 8)
    assert drawn.dtype == np.float32
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    assert np.array_equal(drawn, pictures.sample(3, y=7, steps=5, random_state=1))
    walk = pictures.trajectory(3, y=7, steps=5, random_state=1)
    np.testing.assert_array_equal(np.clip(walk[-1], 0, 1), drawn)
    for sampler in ("ddim", "ancestral", "euler-maruyama"):
        assert pictures.sample(2, y=[1, 2], steps=5, sampler=sampler, random_state=0).shape[0] == 2


def test_in_painting_keeps_what_is_known(pictures):
    known = np.zeros((2, 1, 8, 8), bool)
    known[..., :4] = True
    found = pictures.inpaint(IMAGES[:2], known, y=DIGITS[:2], steps=5, random_state=0)
    np.testing.assert_array_equal(found[known], IMAGES[:2][known])
    assert (found[~known] != IMAGES[:2][~known]).any()
    holes = np.where(known, IMAGES[:2], np.float32(9))
    again = pictures.inpaint(holes, known, y=DIGITS[:2], steps=5, random_state=0)
    assert np.array_equal(found, again)


def test_guidance_moves_draws_away_from_the_other_class():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1500)
    X = (rng.normal(size=(1500, 1)) + y[:, None]).astype(np.float32)
    with lemmata.config(certificate=False):
        model = Diffusion(max_iter=30, **FEW).fit(X, y)
    plain, guided = (
        model.sample(400, y=1, steps=20, guidance=w, random_state=0).mean() for w in (0, 3)
    )
    assert abs(plain - 1) < 0.25
    assert guided > plain + 0.5


@pytest.mark.parametrize("kind", TARGETS)
def test_every_target_trains_and_is_saved(kind, tmp_path):
    model = Diffusion(predicts=kind, max_iter=3, schedule="linear", **FEW).fit(
        IMAGES[:, 0, 3], DIGITS
    )
    assert model.certificate_["statements_true"].verdict == HOLDS
    lemmata.save(model, tmp_path / "m.lemma")
    again = lemmata.load(tmp_path / "m.lemma")
    assert np.array_equal(again.sample(2, random_state=3), model.sample(2, random_state=3))
    assert np.array_equal(again.bound(IMAGES[:4, 0, 3]), model.bound(IMAGES[:4, 0, 3]))


def test_a_denoiser_of_ones_own_is_copied_and_has_to_fit():
    own = TimedMLP((8,), width=16)
    model = Diffusion(own, max_iter=1, steps=20, random_state=0).fit(IMAGES[:, 0, 3])
    assert model.module_.net is not own
    with pytest.raises(ValueError, match="the denoiser gives"):
        Diffusion(TimedMLP((8,), 3, width=16), max_iter=1).fit(IMAGES[:, 0, 3])


# --- codes and cascades -----------------------------------------------------------------------------------------------


def test_codes_are_diffused_and_decoded(tmp_path):
    vae = VAE(2, layers=(16,), likelihood="gaussian", max_iter=2, random_state=0)
    with pytest.raises(NotFittedError, match="this VAE is not fitted yet"):
        Latent(vae).fit(IMAGES)
    latent = Latent(vae.fit(IMAGES), Diffusion(max_iter=3, **FEW)).fit(IMAGES, DIGITS)
    assert latent.sample(4, y=2, steps=5, random_state=0).shape == (4, 1, 8, 8)
    assert latent.certificate_.main == "beats_linear_denoiser"
    latent.save(tmp_path / "codes")
    again, asked = Latent.load(tmp_path / "codes"), {"y": 2, "steps": 5, "random_state": 0}
    assert np.array_equal(again.sample(4, **asked), latent.sample(4, **asked))
    with pytest.raises(TypeError, match="a str has no transform"):
        Latent("vae").fit(IMAGES)


def test_a_cascade_draws_large_images_from_small_ones(tmp_path):
    stage = Diffusion(width=8, max_iter=1, steps=20, random_state=0)
    found = Cascade([stage, stage]).fit(IMAGES, DIGITS)
    assert [one.input_shape_ for one in found.stages_] == [(1, 4, 4), (2, 8, 8)]
    drawn = found.sample(3, steps=4, random_state=0)
    assert drawn.shape == (3, 1, 8, 8)
    assert np.array_equal(drawn, found.sample(3, steps=4, random_state=0))
    found.save(tmp_path)
    again = Cascade.load(tmp_path)
    assert np.array_equal(drawn, again.sample(3, steps=4, random_state=0))
    with pytest.raises(ValueError, match="multiples of 16"):
        Cascade([stage] * 3).fit(IMAGES)


# --- of others --------------------------------------------------------------------------------------------------------


class Scheduler:
    """What diffusers' schedulers show."""

    class config:
        prediction_type = "epsilon"

    def __init__(self, alpha_bar):
        self.alphas_cumprod = torch.from_numpy(alpha_bar**2)


def test_a_pair_of_diffusers_is_recognised(mixture):
    best, X = mixture[0], mixture[2].astype(np.float64)

    def model(x, t):  # its times count from 0
        return (torch.from_numpy(best(x.double().numpy(), t + 1)),)

    pair, new = (
        (model, Scheduler(best.schedule.alpha_bar[1:])),
        best.draw(1500, np.random.default_rng(5)),
    )
    assert lemmata.certify(pair, X, X_test=new)["beats_linear_denoiser"].verdict == HOLDS
    wrong = (model, Scheduler(np.sqrt(best.schedule.alpha_bar[1:])))
    assert lemmata.certify(wrong, X, X_test=new)["beats_linear_denoiser"].verdict == FAILS


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda m: m.sample(0), "n_samples=0; pass a whole number >= 1"),
        (lambda m: m.sample(2, steps=0), "steps=0; pass a whole number >= 1"),
        (lambda m: m.sample(2, sampler="rk4"), "sampler='rk4'; pass 'ancestral'"),
        (lambda m: m.sample(2, guidance=-1), "guidance=-1; pass a number >= 0"),
        (lambda m: m.sample(2, y="cat"), "cat"),
        (lambda m: m.sample(2, given=np.zeros((2, 1, 8, 8))), "to a Diffusion with given=0: leave it out"),
        (lambda m: m.inpaint(IMAGES[:2], np.ones((2, 8))), "known is float64 of shape"),
        (lambda m: Diffusion(max_iter=1).fit(np.zeros((20, 1, 6, 6), np.float32)), "6 × 6 cannot be halved twice"),
        (lambda m: Diffusion(schedule=[0.9, 0.95], max_iter=1).fit(IMAGES[:, 0, 3]), "ᾱ at step 2 is 0.95, after"),
        (lambda m: Diffusion(steps=0).fit(IMAGES[:, 0, 3]), "'steps' parameter of Diffusion"),
        (lambda m: Diffusion(given=1).fit(IMAGES), "given=1 of rows of shape"),
        (lambda m: Diffusion(max_iter=1, **FEW).fit(IMAGES[:, 0, 3]).sample(1, guidance=1.0), "guidance=1 needs classes"),
    ],
)  # fmt: skip
def test_bad_input_says_what_is_accepted(act, message, pictures):
    with pytest.raises(ValueError, match=message):
        act(pictures)
