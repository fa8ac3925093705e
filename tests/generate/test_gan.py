"""Adversarial networks: games solved by hand, densities whose best discriminator is known, and what a fit promises."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import nn

import lemmata
from lemmata import GAN
from lemmata.generate.gan import (
    Adversarial,
    DCDiscriminator,
    DCGenerator,
    DiracGAN,
    GANNet,
    ImageTranslator,
    best_discriminator,
    bilinear,
    game_value,
    jensen_shannon,
    step_matrix,
)
from lemmata.generate.gan.losses import discriminator_loss, generator_loss, slope_penalty
from lemmata.generate.gan.theory import METHODS, normal
from lemmata.nets import Training, train
from lemmata.nets.training.losses import NonFiniteLoss
from lemmata.nets.training.rules import Alternating, Extragradient, Synchronous
from lemmata.optim import saddle_point

RNG = np.random.default_rng(0)
QUICK = {"max_iter": 3, "random_state": 0, "batch_size": 64}


def two_groups(n, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return (np.where(y, 3, -3)[:, None] * [1, 0] + rng.normal(size=(n, 2))).astype(dtype), y


def fit(*args, X=None, y=None, **more):
    with lemmata.config(certificate=False):
        return GAN(*args, **{**QUICK, **more}).fit(two_groups(200)[0] if X is None else X, y)


# --- games ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [0.1, 0.7, 1.5])
def test_a_step_of_each_method_on_the_bilinear_game_has_the_modulus_that_theory_says(eta):
    expected = {
        "synchronous": math.sqrt(1 + eta**2),
        "alternating": 1.0,
        "extragradient": math.sqrt(1 - eta**2 + eta**4),
    }
    for method, modulus in expected.items():
        columns = []
        for z in np.eye(4):  # the step is linear: its matrix, column by column
            run = {"method": method, "step_size": eta, "max_iter": 1, "tol": 1e-300}
            found = saddle_point(bilinear, z[:2], z[2:], **run)
            columns.append(np.concatenate([found.x, found.y]))
        M = np.array(columns).T
        np.testing.assert_allclose(abs(np.linalg.eigvals(M)), modulus, rtol=1e-10)
        J = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.eye(2), np.zeros((2, 2))]])
        np.testing.assert_allclose(step_matrix(J, eta, method), M, atol=1e-14)


def radii(method, r1, eta=0.2, steps=400):
    """Distance from the saddle point of the Dirac-GAN after each of some steps."""
    x, y, found = np.full(1, 1e-4), np.full(1, 1e-4), []
    for _ in range(steps):
        end = saddle_point(DiracGAN(r1), x, y, method=method, step_size=eta, max_iter=1, tol=1e-300)
        x, y = end.x, end.y
        found.append(math.hypot(x[0], y[0]))
    return np.array(found)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("r1", [0.0, 0.6])  # from ½ on the eigenvalues are real: no spiral
def test_the_dirac_gan_diverges_circles_or_converges_at_its_linearised_rate(method, r1):
    J = DiracGAN(r1).jacobian()
    rate = abs(np.linalg.eigvals(step_matrix(J, 0.2, method))).max()
    found = radii(method, r1)
    assert found[-1] / found[199] == pytest.approx(rate**200, rel=0.1)  # an ellipse is no circle
    if r1 == 0:
        assert (rate > 1 + 1e-4, rate < 1 - 1e-4) == {
            "synchronous": (True, False),
            "alternating": (False, False),
            "extragradient": (False, True),
        }[method]
    else:
        assert rate < 0.99


def test_slopes_of_the_dirac_gan_are_those_of_its_value():
    game, x, y, h = DiracGAN(0.3), np.array([0.7]), np.array([-1.2]), 1e-6
    _, dx, dy = game(x, y)
    assert dx[0] == pytest.approx((game(x + h, y)[0] - game(x - h, y)[0]) / (2 * h), rel=1e-8)
    assert dy[0] == pytest.approx((game(x, y + h)[0] - game(x, y - h)[0]) / (2 * h), rel=1e-8)
    zero = np.zeros(1)
    points = (zero + h, zero), (zero, zero + h)
    found = [[game(*at)[k][0] / h for at in points] for k in (1, 2)]
    np.testing.assert_allclose(np.array(found) * [[1], [-1]], game.jacobian(), atol=1e-6)


class Dirac(nn.Module):
    """The Dirac-GAN as networks: a generator that ignores its noise, a linear discriminator."""

    latent = given = 0

    def __init__(self):
        super().__init__()
        self.generator, self.discriminator = Point(), nn.Linear(1, 1, bias=False)
        with torch.no_grad():
            self.discriminator.weight.fill_(0.4)

    def standardise(self, x):
        return x

    def split(self, x):
        return x, None

    def score(self, x, y=None, given=None):
        return self.discriminator(x)[:, 0]


class Point(nn.Module):
    def __init__(self):
        super().__init__()
        self.at = nn.Parameter(torch.full((1, 1), 0.9))

    def forward(self, z, y=None, given=None):
        return self.at.expand(len(z), 1)


@pytest.mark.parametrize("method", METHODS)
def test_networks_play_the_dirac_gan_as_saddle_point_does(method):
    rule = {"synchronous": Synchronous(), "alternating": Alternating()}.get(method, Extragradient())
    options = {"optimizer": "sgd", "learning_rate": 0.3, "batch_size": 4, "rule": rule}
    training = Training(lambda: Dirac().double(), Adversarial("saturating", r1=0.2), **options)
    end = train(training, np.zeros((4, 1)), epochs=6, rng=0).state.model
    theirs = saddle_point(
        DiracGAN(0.2), np.array([0.9]), np.array([0.4]), method=method, step_size=0.3, max_iter=6, tol=1e-300
    )  # fmt: skip
    np.testing.assert_allclose(end["generator.at"].ravel(), theirs.x, rtol=1e-6)  # 0.9 was float32
    np.testing.assert_allclose(end["discriminator.weight"].ravel(), theirs.y, rtol=1e-6)


# --- densities --------------------------------------------------------------------------------------------------------


def test_the_divergence_of_two_densities_is_that_of_closed_forms():
    p = normal(0.0)
    assert jensen_shannon(p, p, [(-12, 12)]) == pytest.approx(0, abs=1e-14)
    assert game_value(p, normal(80.0), [(-12, 12), (68, 92)]) == pytest.approx(0, abs=1e-12)
    # uniform on [0, 1] and on [½, 3/2]: KL to the middle is half of ln 2 each
    one, other = (
        lambda x, a=a: np.where((x >= a) & (x <= a + 1), 0.0, -np.inf) for a in (0.0, 0.5)
    )
    with np.errstate(invalid="ignore"):
        found = jensen_shannon(one, other, [(0, 0.5), (0.5, 1), (1, 1.5)])
    assert found == pytest.approx(math.log(2) / 2, rel=1e-12)
    # a rotation of the plane changes nothing: two normals a distance apart, in one dimension and two
    flat = jensen_shannon(p, normal(2.0), [(-12, 14)])
    a, b = multivariate_normal([0, 0]), multivariate_normal([math.sqrt(2)] * 2)
    plane = jensen_shannon(a.logpdf, b.logpdf, [((-10, 12), (-10, 12))], panels=6)
    assert plane == pytest.approx(flat, rel=1e-8)


def test_no_discriminator_has_a_higher_value_than_the_best():
    """(5.32), (5.35): drawn from both densities, with the losses that are trained."""
    p, q, rng = normal(0.0), normal(1.5, 0.7), np.random.default_rng(0)
    x, g = rng.normal(size=200_000), 1.5 + 0.7 * rng.normal(size=200_000)
    best = best_discriminator(p, q)

    def value(logit):
        real, fake = (torch.from_numpy(logit(rows)) for rows in (x, g))
        return -discriminator_loss("saturating", real, fake).numpy()

    def log_odds(rows):
        return p(rows) - q(rows)

    np.testing.assert_allclose(np.exp(best(x) + np.logaddexp(p(x), q(x))), np.exp(p(x)), rtol=1e-9)
    found = value(log_odds)
    error = 4 * found.std() / math.sqrt(len(x))
    assert found.mean() == pytest.approx(game_value(p, q, [(-10, 10)]), abs=error)
    for other in (lambda u: 0 * u, lambda u: 1.3 * log_odds(u), lambda u: log_odds(u) + 0.5):
        assert value(other).mean() < found.mean()


# --- losses -----------------------------------------------------------------------------------------------------------


def test_the_losses_are_their_formulas():
    f = torch.linspace(-4, 4, 9, dtype=torch.float64)
    pi = torch.sigmoid(f)
    torch.testing.assert_close(generator_loss("saturating", f), 0.5 * (1 - pi).log())
    torch.testing.assert_close(generator_loss("non-saturating", f), -0.5 * pi.log())
    both = discriminator_loss("non-saturating", f, f + 1)
    torch.testing.assert_close(both, -0.5 * (pi.log() + (1 - torch.sigmoid(f + 1)).log()))
    f.requires_grad_()
    names = "saturating", "non-saturating", "wasserstein"
    far = [torch.autograd.grad(generator_loss(name, f)[0], f)[0][0] for name in names]
    # where π is near 0 the slope vanishes, and (5.38) keeps it
    assert [round(float(slope), 2) for slope in far] == [-0.01, -0.49, -0.5]


def test_the_gradient_of_r1_is_that_of_its_value():
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    x = torch.randn(7, 3, dtype=torch.float64)

    def penalty(*weights):
        named = dict(zip(dict(net.named_parameters()), weights, strict=True))
        run = torch.func.functional_call
        return slope_penalty(lambda rows: run(net, named, (rows,))[:, 0], x)[1].mean()

    weights = tuple(net.parameters())
    assert torch.autograd.gradcheck(penalty, weights)
    linear = nn.Linear(3, 1).double()  # f = wᵀx + b: the slope is w
    slopes = slope_penalty(lambda rows: linear(rows)[:, 0], x)[1]
    torch.testing.assert_close(slopes, linear.weight.square().sum().expand(7))
    (grad,) = torch.autograd.grad(slopes.mean(), linear.weight)
    torch.testing.assert_close(grad, 2 * linear.weight)
    with torch.no_grad():  # measuring
        assert not slope_penalty(lambda rows: linear(rows)[:, 0], x)[1].requires_grad


# --- the estimator ----------------------------------------------------------------------------------------------------


def test_an_undisturbed_game_learns_two_groups_and_its_certificate_says_so():
    X, _ = two_groups(3000)
    model = GAN(max_iter=25, random_state=0).fit(X)
    found = model.certificate_
    assert found.main == "modes_covered"
    assert {"modes_covered", "players_alive", "attributes_sound"} <= set(found.held)
    assert {"generator", "discriminator", "data_right", "samples_right"} <= set(model.trace_.extras)
    S = model.sample(1000, random_state=1)
    assert 0.3 < (S[:, 0] > 0).mean() < 0.7
    assert np.array_equal(S, model.sample(1000, random_state=1))


def test_classes_are_obeyed_by_both_players():
    X, y = two_groups(3000)
    names = np.array(["left", "right"])[y]
    model = GAN(embedding=3, max_iter=15, random_state=0).fit(X, names)
    for name, sign in (("left", -1), ("right", 1)):
        assert (sign * model.sample(300, y=name, random_state=0)[:, 0] > 0).mean() > 0.95
    assert "classes_obeyed" in model.certify(X, names).held
    with pytest.raises(ValueError, match="middle"):
        model.sample(1, y="middle")


@pytest.mark.parametrize("game", METHODS)
def test_a_game_that_was_stopped_goes_on_to_the_same_bits(tmp_path, game):
    X, y = two_groups(200)
    settings = {"game": game, "random_state": 0, "batch_size": 64}
    with lemmata.config(certificate=False):
        whole = GAN(**settings, max_iter=4).fit(X, y)
        for epochs in (2, 4):
            part = GAN(**settings, max_iter=epochs, checkpoint=tmp_path / "run").fit(X, y)
    for name, tensor in whole.module_.state_dict().items():
        assert torch.equal(tensor, part.module_.state_dict()[name]), name


def test_models_are_saved_with_their_players(tmp_path):
    X = RNG.normal(size=(120, 1, 9, 8)).astype(np.float32)
    y = RNG.integers(0, 3, 120)
    own = {
        "generator": DCGenerator(67, (1, 9, 8), 8),
        "discriminator": DCDiscriminator((4, 9, 8), 8),
    }
    for more in ({"spectral": True, "embedding": 2}, own):
        model = fit(X=X, y=y, max_iter=1, **more)
        lemmata.save(model, tmp_path / "m.lemma")
        back = lemmata.load(tmp_path / "m.lemma")
        S = model.sample(5, random_state=0)
        assert S.shape == (5, 1, 9, 8)
        assert np.array_equal(back.sample(5, random_state=0), S)
        assert X.min() <= S.min() <= S.max() <= X.max()  # tanh over the range of the data
        again = fit(X=X, y=y, max_iter=1, **more)
        assert np.array_equal(again.sample(5, random_state=0), S)


class Own(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.map = nn.Linear(inputs, outputs)

    def forward(self, x):
        return self.map(x)


def test_players_of_ones_own_are_passed_again_where_a_file_is_read(tmp_path):
    model = fit(Own(5, 2), Own(2, 1), latent=5, max_iter=1)
    lemmata.save(model, tmp_path / "m.lemma")
    with pytest.raises(ValueError, match="Own, which is not"):
        lemmata.load(tmp_path / "m.lemma")
    back = lemmata.load(tmp_path / "m.lemma", generator=Own(5, 2), discriminator=Own(2, 1))
    assert np.array_equal(back.sample(4, random_state=0), model.sample(4, random_state=0))


def test_given_channels_stand_in_both_players_and_are_not_made(monkeypatch):
    """The channel to make is the negative of the one given."""
    tones = np.ones((1, 6, 6), np.float32) * RNG.normal(size=(400, 1, 1, 1)).astype(np.float32)
    X = np.concatenate([-tones, tones], 1)
    players = ImageTranslator((5, 6, 6), 1, 8), DCDiscriminator((2, 6, 6), 8)
    model = fit(*players, X=X, given=1, latent=4, max_iter=25, learning_rate=4e-3)
    S = model.sample(50, given=tones[:50], random_state=0)
    assert S.shape == (50, 1, 6, 6)
    assert np.corrcoef(S.ravel(), tones[:50].ravel())[0, 1] < -0.5
    monkeypatch.setattr("lemmata.generate.base.DRAWN", 1)  # row by row
    S = model.sample(50, given=tones[:50], random_state=0)
    assert np.corrcoef(S.ravel(), tones[:50].ravel())[0, 1] < -0.5
    with pytest.raises(
        ValueError, match=r"given has shape \(\); pass images of shape \(5, 1, 6, 6\)"
    ):
        model.sample(5)
    with pytest.raises(ValueError, match="given=0: leave it out"):
        model.set_params(given=0).sample(5, given=tones[:5])


def test_columns_of_any_unit_are_learned_alike_and_constant_ones_stay():
    X, _ = two_groups(200, dtype=np.float64)
    X = np.c_[X, np.full(200, 7.0)]
    one, other = (fit(X=X * unit) for unit in (1.0, 2.0**400))
    S = one.sample(20, random_state=0)
    assert (S[:, 2] == 7).all()
    np.testing.assert_allclose(other.sample(20, random_state=0), S * 2.0**400, rtol=1e-9)


def test_spectral_normalisation_bounds_the_slope_of_each_layer():
    net = GANNet((3,), 4, spectral=True).train()
    for _ in range(200):
        net.score(torch.zeros(2, 3))
    weights = [m.weight for m in net.discriminator.modules() if isinstance(m, nn.Linear)]
    for weight in weights:
        assert torch.linalg.matrix_norm(weight.detach(), 2) == pytest.approx(1, rel=1e-3)


# --- claims and bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["always data", "always 0", "always right"])
def test_a_discriminator_that_does_not_err_is_reported(answer):
    class Stuck(nn.Module):
        """Of rows whose first number says where they are from."""

        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            constant = {"always data": 5.0, "always 0": 0.0}.get(answer)
            sign = torch.where(x[:, 0].abs() < 50, 5.0, -5.0)
            return self.w * x[:, 0] + (sign if constant is None else torch.full_like(sign, constant))  # fmt: skip

    class Far(Own):
        def forward(self, x):
            return super().forward(x) + 100

    settings = {"learning_rate": 1e-9, "max_iter": 8, "random_state": 0, "r1": 0.0, "latent": 3}
    X = two_groups(600)[0]
    found = GAN(Far(3, 2), Stuck(), **settings).fit(X).certificate_
    assert "players_alive" in found.failed


def refused(message, *args, **more):
    with pytest.raises((ValueError, TypeError), match=message):
        fit(*args, **{"max_iter": 1, **more})


def test_what_does_not_fit_is_said():
    refused(r"the generator gives \(3,\) for rows of shape \(2,\)", Own(16, 3))
    refused(r"the generator does not take its inputs, \(16,\)", Own(9, 2))
    refused(
        "the discriminator gives .64, 2.|the discriminator gives .2, 2. for 2 rows", None, Own(2, 2)
    )
    refused("the discriminator does not take its inputs", None, Own(3, 1))
    refused("generator is a str; pass a torch.nn.Module", "dcgan")
    refused("early_stopping=True needs a loss that says which state is better", early_stopping=True)
    refused(r"given=1 of rows of shape \(2,\)", given=1)
    refused("game", game="simultaneous")
    refused("r1", r1=-1.0)
    with pytest.raises(ValueError, match="y was given to a GAN that has no classes"):
        fit(max_iter=1).sample(3, y=0)


def test_a_player_that_gives_nan_is_named():
    class Root(nn.Module):
        def forward(self, x):
            return (x - 100).sqrt()

    broken = nn.Sequential(nn.Linear(2, 1), Root())
    with pytest.raises(NonFiniteLoss, match=r"is 'discriminator\.net\.1' \(Root\)"):
        fit(None, broken, r1=0.0, max_iter=1)
