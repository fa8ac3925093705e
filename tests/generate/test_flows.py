"""Normalizing flows: determinants by the lemmas of the notes, inverses, the affine flow's optimum, certificates."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import lemmata
from lemmata.generate import Density, NormalizingFlow

torch = pytest.importorskip("torch")
from lemmata.generate.flows import (  # noqa: E402
    ActNorm,
    AdditiveCoupling,
    AffineCoupling,
    AffineMap,
    Conv1x1,
    Flow,
    Planar,
    SplineCoupling,
    StandardNormal,
    Sylvester,
)
from lemmata.generate.flows.estimator import make_image_transforms  # noqa: E402
from lemmata.nets.estimators.storage import Network  # noqa: E402

MAPS = {
    "affine": lambda d: AffineMap(d, shuffle=True),
    "diagonal": lambda d: AffineMap(d, diagonal=True),
    "actnorm": ActNorm,
    "planar": Planar,
    "sylvester": lambda d: Sylvester(d, d - 1),
    "additive": lambda d: AdditiveCoupling(d, (8,), turn=1),
    "affine coupling": lambda d: AffineCoupling(d, (8,), partition="random"),
    "spline": lambda d: SplineCoupling(d, (8,), turn=1, bound=2.0),
}


@pytest.fixture
def arc():
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 3, 1500)
    return np.column_stack([np.cos(t), np.sin(t)]) + 0.1 * rng.normal(size=(1500, 2))


def steep(make, d):
    """A map in float64 with weights far from those it begins with."""
    torch.manual_seed(0)
    found = make(d).double()
    with torch.no_grad():
        for weight in found.parameters():
            weight.add_(0.7 * torch.randn_like(weight))
    return found


def jacobian(function, row):
    return torch.autograd.functional.jacobian(lambda x: function(x[None])[0][0], row)


@pytest.mark.parametrize("kind", MAPS)
def test_maps_invert_and_know_their_determinant(kind):
    found = steep(MAPS[kind], 5)
    z = 2 * torch.randn(200, 5, dtype=torch.float64)
    with torch.no_grad():
        x, there = found(z)
        again, back = found.inverse(x)
    torch.testing.assert_close(again, z, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(back, -there, rtol=1e-9, atol=1e-9)
    for row, stated in zip(z[:4], there, strict=False):
        true = torch.linalg.slogdet(jacobian(found, row))[1]
        assert math.isclose(float(true), float(stated), abs_tol=1e-9)
    # through the equations that are solved, too: gradients of the inverse are those of the map
    torch.testing.assert_close(
        jacobian(found.inverse, x[0]) @ jacobian(found, z[0]), torch.eye(5, dtype=torch.float64)
    )


@pytest.mark.parametrize("recipe", ["glow", "realnvp"])
def test_flows_of_images_invert_for_each_class_and_know_their_determinant(recipe):
    torch.manual_seed(0)
    parts = make_image_transforms(recipe, (2, 4, 4), 2, (6,), classes=3)
    flow = Flow(parts, StandardNormal((2, 4, 4)), 3).double()
    x, y = torch.randn(6, 2, 4, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2])
    with torch.no_grad():
        flow.begin((x, y))
        for weight in flow.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
        z, log_det = flow.inverse(x, y)
        torch.testing.assert_close(flow(z, y)[0], x, rtol=1e-9, atol=1e-9)
        assert (flow.inverse(x, y.roll(1))[0] - z).abs().max() > 1e-3  # the class matters
        each = [flow.log_prob(x, torch.full_like(y, c)) for c in range(3)]
        mixed = torch.logsumexp(torch.stack(each), 0) - math.log(3)
        torch.testing.assert_close(flow.log_prob(x), mixed)
    J = torch.autograd.functional.jacobian(
        lambda row: flow.inverse(row.reshape(1, 2, 4, 4), y[:1])[0].flatten(), x[0].flatten()
    )
    assert math.isclose(float(torch.linalg.slogdet(J)[1]), float(log_det[0]), abs_tol=1e-9)


def test_a_convolution_of_one_pixel_begins_as_a_rotation_and_actnorm_with_moments_of_the_batch():
    torch.manual_seed(0)
    conv, norm = Conv1x1(5).double(), ActNorm(5).double()
    x = 3 + 2 * torch.randn(64, 5, 3, 4, dtype=torch.float64)
    with torch.no_grad():
        A = conv(torch.eye(5, dtype=torch.float64)[:, :, None, None])[0][:, :, 0, 0]
        torch.testing.assert_close(A @ A.T, torch.eye(5, dtype=torch.float64), rtol=0, atol=1e-6)
        norm.begin_at(x)
        z = norm.inverse(x)[0]
        assert z.mean((0, 2, 3)).abs().max() < 1e-12
        # (5.17) and (5.18): pq times both sums
        norm.log_scale += 0.1
        both = conv(norm(z)[0])[1] + norm(z)[1]
        sums = conv.log_scale.sum() + norm.log_scale.sum()
        assert math.isclose(float(both[0]), float(12 * sums), rel_tol=1e-12)


def test_the_determinants_are_those_of_the_lemmas():
    planar, sylvester, affine = (steep(MAPS[kind], 5) for kind in ("planar", "sylvester", "affine"))
    z = torch.randn(1, 5, dtype=torch.float64)
    with torch.no_grad():
        # Lemma 5.2.2, Corollary 5.2.3
        slope = 1 - torch.tanh(z @ planar.theta + planar.bias) ** 2
        matrix = torch.eye(5, dtype=torch.float64) + slope * torch.outer(planar.u, planar.theta)
        assert math.isclose(float(torch.det(matrix)), float(planar(z)[1].exp()), rel_tol=1e-12)
        # Lemma 5.2.4: n × n and m × m
        Q, R, R_tilde = torch.linalg.qr(sylvester.basis)[0], sylvester.R, sylvester.R_tilde
        slopes = 1 - torch.tanh(z @ Q @ R_tilde.T + sylvester.bias)[0] ** 2
        wide = torch.eye(5, dtype=torch.float64) + Q @ R @ torch.diag(slopes) @ R_tilde @ Q.T
        assert math.isclose(float(torch.det(wide)), float(sylvester(z)[1].exp()), rel_tol=1e-12)
        # Lemma 5.2.5: |det PLU| is that of the diagonal
        A = affine(torch.eye(5, dtype=torch.float64))[0] - affine.shift
        assert math.isclose(float(torch.det(A).abs()), float(affine(z)[1].exp()), rel_tol=1e-12)


@pytest.mark.parametrize("c", [-0.999, 5.0, -1.5])
def test_planar_maps_stay_invertible_whatever_the_weights(c):
    found = Planar(3).double()
    with torch.no_grad():
        found.theta.copy_(torch.tensor([1.0, 0, 0]))
        found.free.copy_(torch.tensor([10 * c, 1.0, 1.0]))
        assert float(found.u @ found.theta) > -1
        z = 3 * torch.randn(500, 3, dtype=torch.float64)
        torch.testing.assert_close(found.inverse(found(z)[0])[0], z, rtol=1e-6, atol=1e-6)


def test_the_affine_flow_is_the_normal_density_of_mean_and_covariance():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3)) + [1.0, 20.0, -3.0]
    best = multivariate_normal(X.mean(axis=0), np.cov(X.T, bias=True)).logpdf(X).mean()
    settings = {"test_fraction": 0, "batch_size": 200, "max_iter": 300, "learning_rate": 0.05}
    one, three = (
        NormalizingFlow("affine", n_transforms=L, random_state=0, **settings).fit(X) for L in (1, 3)
    )
    assert best - 1e-6 < one.score(X) <= best + 1e-9
    assert best - 1e-4 < three.score(X) <= best + 1e-9  # more layers gain nothing (5.2.3)
    with torch.no_grad():  # x = Az + μ: covariance AAᵀ
        map_ = one.module_.forward
        mean = map_(torch.zeros(1, 3, dtype=torch.float64))[0]
        A = (map_(torch.eye(3, dtype=torch.float64))[0] - mean).T.numpy()
    np.testing.assert_allclose(mean[0], X.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(A @ A.T, np.cov(X.T, bias=True), rtol=0.01)


def test_expectations_are_means_over_draws(arc):
    flow = NormalizingFlow("spline", max_iter=15, random_state=0).fit(arc)
    drawn = flow.sample(20_000, random_state=1)
    # (5.8), against the density itself summed over a grid
    at = np.linspace(-3, 3, 301)
    grid = np.stack(np.meshgrid(at, at, indexing="ij"), -1).reshape(-1, 2)
    p = np.exp(flow.score_samples(grid)) * (at[1] - at[0]) ** 2
    assert abs(p.sum() - 1) < 0.01
    np.testing.assert_allclose(drawn.mean(axis=0), p @ grid, atol=0.03)
    np.testing.assert_allclose((drawn**2).mean(axis=0), p @ grid**2, atol=0.03)


def test_a_fit_says_that_it_beats_independent_columns_and_survives_a_file(arc, tmp_path):
    flow = NormalizingFlow(max_iter=15, random_state=0).fit(arc)
    assert {"beats_independent", "inverts", "log_det_true"} <= set(flow.certificate_.held)
    assert flow.certify(arc)["mass_one"].verdict == "holds"
    assert len(flow.test_rows_) == 150
    lemmata.save(flow, tmp_path / "flow.lemma")
    again = lemmata.load(tmp_path / "flow.lemma")
    np.testing.assert_array_equal(again.score_samples(arc), flow.score_samples(arc))
    np.testing.assert_array_equal(again.sample(5, random_state=3), flow.sample(5, random_state=3))


@pytest.mark.parametrize("order", [[0, 0], [0, 2], [-1, 0], [0.0, 1.0]])
def test_an_order_of_columns_in_a_file_is_a_permutation(order):
    found = Network.of(Flow([AffineMap(2, shuffle=True)], StandardNormal(2)))
    found.build()
    found.tensors["transforms.0.order"] = np.array(order)
    with pytest.raises(ValueError, match=r"transforms\.0\.order"):
        found.build()


def test_a_flow_without_a_density_at_its_base_is_refused():
    with pytest.raises(ValueError, match="base is a NoneType; give it log_prob"):
        Flow([AffineMap(2)], None)


def test_rows_for_testing_are_not_trained_on(arc):
    """Other numbers in the rows that are kept apart change nothing."""
    settings = {"max_iter": 2, "random_state": 0, "early_stopping": True}
    flow = NormalizingFlow(**settings).fit(arc)
    changed = arc.copy()
    changed[flow.test_rows_] += 7
    again = NormalizingFlow(**settings).fit(changed)
    np.testing.assert_array_equal(again.score_samples(arc), flow.score_samples(arc))
    assert not set(flow.test_rows_) & set(flow.validation_rows_)


def test_classes_are_learned_apart_and_unknown_ones_refused(tmp_path):
    rng = np.random.default_rng(0)
    places = rng.choice(3, size=900, p=[0.5, 0.3, 0.2])
    centres = np.array([[0.0, 0], [3, 0], [0, 3]])
    X, y = centres[places] + 0.3 * rng.normal(size=(900, 2)), np.array(["a", "b", "c"])[places]
    settings = {"n_transforms": 3, "widths": (32,), "max_iter": 15, "random_state": 0}
    flow = NormalizingFlow(**settings).fit(X, y)
    assert {"beats_independent", "inverts", "log_det_true"} <= set(flow.certificate_.held)
    assert flow.certify(X, y)["statements_true"].verdict == "holds"
    assert "statements_true" not in flow.certify(X).held  # loss_ is of rows given their classes
    for label, centre in zip("abc", centres, strict=True):
        np.testing.assert_allclose(flow.sample(500, label, 0).mean(axis=0), centre, atol=0.15)
    drawn = flow.sample(3000, random_state=1)
    assert abs((np.abs(drawn - centres[0]).max(axis=1) < 1.5).mean() - 0.5) < 0.05
    given = np.stack([flow.score_samples(X, np.full(900, label)) for label in "abc"])
    shares = np.bincount(places) / 900
    np.testing.assert_allclose(
        flow.score_samples(X), np.log(shares @ np.exp(given)), rtol=1e-9, atol=1e-9
    )
    assert (given.argmax(axis=0) == places).mean() > 0.97
    for call in (lambda: flow.sample(2, "d"), lambda: flow.score_samples(X[:1], ["d"])):
        with pytest.raises(ValueError, match=r"'d'.* it knows 'a', 'b', 'c'"):
            call()
    with pytest.raises(ValueError, match="n_samples=3 of them"):
        flow.sample(3, ["a", "b"])
    with pytest.raises(ValueError, match="continuous, which is no class"):
        NormalizingFlow(max_iter=1).fit(X, X[:, 0])
    assert not hasattr(NormalizingFlow(max_iter=1, conditional=False).fit(X, y), "classes_")
    lemmata.save(flow, tmp_path / "m.lemma")
    again = lemmata.load(tmp_path / "m.lemma")
    np.testing.assert_array_equal(again.sample(4, "b", 3), flow.sample(4, "b", 3))


def test_independent_columns_are_not_beaten():
    X = np.random.default_rng(0).normal(size=(600, 2))
    flow = NormalizingFlow(max_iter=5, random_state=0).fit(X)
    assert "beats_independent" not in flow.certificate_.held


def test_units_are_those_of_the_rows(arc):
    """Densities of rows in other units differ by the units alone."""
    flow, scaled = (
        NormalizingFlow(max_iter=3, random_state=0).fit(X) for X in (arc, arc * [64.0, 0.5] + 8)
    )
    shift = math.log(64 * 0.5)
    np.testing.assert_allclose(
        scaled.score_samples(arc * [64.0, 0.5] + 8) + shift, flow.score_samples(arc), atol=1e-6
    )


def test_transforms_of_ones_own_are_taken_and_one_without_inverse_is_named(arc):
    parts = [Planar(2), ActNorm(2), AffineMap(2)]
    flow = NormalizingFlow(parts, max_iter=2, random_state=0).fit(arc)
    assert bool(flow.module_.transforms[1].begun)
    assert not parts[1].begun
    assert {"inverts", "log_det_true", "planar_invertible"} <= set(flow.certificate_.held)
    with pytest.raises(ValueError, match="transform 1 of the flow, Tanh, has no inverse"):
        Flow([Planar(2), torch.nn.Tanh()], StandardNormal(2))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"precision": "bfloat16"}, "log-determinants"),
        ({"recipe": "glow"}, "is of images"),
        ({"test_fraction": 1.0}, "rows to learn from"),
    ],
)
def test_what_cannot_be_is_refused(arc, settings, says):
    with pytest.raises(ValueError, match=says):
        NormalizingFlow(**settings).fit(arc)


def test_samples_are_drawn_in_parts_and_repeat(arc):
    flow = NormalizingFlow("affine", max_iter=1, random_state=0).fit(arc.astype(np.float32))
    drawn = flow.sample(100_000)
    assert drawn.shape == (100_000, 2)
    assert drawn.dtype == np.float32
    np.testing.assert_array_equal(drawn, flow.sample(100_000))
    for wrong in (0, 2.5, True):
        with pytest.raises(ValueError, match="n_samples"):
            flow.sample(wrong)
    with pytest.raises(ValueError, match="no classes"):
        flow.sample(1, y=[1])
    with pytest.raises(ValueError, match="vary continuously"):
        flow.bits_per_dim(arc)


def test_bits_of_levels_bound_those_of_the_mass_of_a_cell():
    """A flow of 2 × 2 images of 2 levels: P(x) of all 16 by the mean density over each cell, against bits_per_dim."""
    rng = np.random.default_rng(0)
    images = (rng.random((600, 1)) < 0.5) * np.ones(4) + 2.0  # all or nothing, levels 2 and 3
    images = np.where(rng.random((600, 4)) < 0.1, 5 - images, images).reshape(-1, 1, 2, 2)
    settings = {"n_transforms": 4, "widths": (8,), "max_iter": 10, "random_state": 0}
    flow = NormalizingFlow("glow", **settings).fit(images)
    assert flow.levels_.tolist() == [2, 3]
    assert set(np.unique(flow.sample(50))) == {2, 3}
    assert {"inverts", "log_det_true", "statements_true"} <= set(flow.certify(images, seconds=60).held)  # fmt: skip
    cell = rng.random((20_000, 4))
    all_images = 2.0 + (np.arange(16)[:, None] >> np.arange(4) & 1)
    mass = {}
    for image in all_images:
        rows = (image + cell).reshape(-1, 1, 2, 2)
        mass[tuple(image)] = np.exp(flow.score_samples(rows)).mean()  # δ = 1
    assert 0.97 < sum(mass.values()) < 1.01
    true = np.mean([-np.log2(mass[tuple(row)]) / 4 for row in images.reshape(-1, 4)])
    one, many = flow.bits_per_dim(images), flow.bits_per_dim(images, n_samples=50)
    assert true - 0.01 < many < one  # upper bounds, closer with every draw
    assert many < true + 0.05 < 0.95  # and below independent pixels, which take one bit each
    images[3, 0, 1, 0] = 2.5
    with pytest.raises(ValueError, match=r"X\[3, 2\] is 2.5, which is none of the 2 levels"):
        flow.bits_per_dim(images)
    with pytest.raises(ValueError, match="pad them to even sides"):
        NormalizingFlow("glow").fit(np.zeros((5, 3, 3)))


def test_levels_and_unseen_masses_are_not_compared():
    rng = np.random.default_rng(0)
    law = multivariate_normal(np.zeros(3), np.eye(3) * 0.5 + 0.5)
    X, new = law.rvs(400, random_state=0), law.rvs(300, random_state=1)
    found = lemmata.certify(Density(law.logpdf), X, X_test=new)["beats_independent"]
    assert found.verdict == "can't tell"
    assert "mass" in found.note
    levels = rng.integers(4, size=(400, 2)) + 0.0
    flow = NormalizingFlow(max_iter=2, random_state=0).fit(levels)
    found = flow.certificate_["beats_independent"]
    assert found.verdict == "can't tell"
    with pytest.raises(TypeError, match="function of rows"):
        Density(3)


def test_distributions_of_torch_are_recognised():
    X, new = (
        np.random.default_rng(seed).normal(size=(400, 2)) @ [[1, 0], [0.9, 0.4]] for seed in (0, 1)
    )
    base = torch.distributions.Independent(
        torch.distributions.Normal(torch.zeros(2), torch.ones(2)), 1
    )
    law = torch.distributions.MultivariateNormal(torch.zeros(2), torch.tensor(np.cov(X.T)).float())
    assert "beats_independent" in lemmata.certify(law, X, X_test=new).held
    bent = torch.distributions.TransformedDistribution(
        base, [torch.distributions.AffineTransform(0.0, torch.tensor([1.35, 0.4]), event_dim=1)]
    )
    found = lemmata.certify(bent, X, X_test=new)
    assert {"inverts", "log_det_true", "mass_one"} <= set(found.held)
    assert "beats_independent" not in found.held  # it is independent columns
    uniform = torch.distributions.Independent(
        torch.distributions.Uniform(torch.zeros(2).double(), torch.ones(2).double()), 1
    )
    logit = torch.distributions.SigmoidTransform().inv
    logistic = torch.distributions.TransformedDistribution(uniform, [logit])
    assert {"inverts", "log_det_true"} <= set(lemmata.certify(logistic, X, X_test=new).held)


def test_flows_of_other_libraries_are_recognised_by_their_names():
    """zuko's, normflows' and nflows' classes, as far as they are used: a map that states its determinant, or another."""
    X = np.random.default_rng(0).normal(size=(300, 2)) * [2.0, 0.5]
    scale = torch.tensor([2.0, 0.5], dtype=torch.float64)
    own = StandardNormal(2)

    class Map(torch.nn.Module):
        def __init__(self, lie):
            super().__init__()
            self.log_det = scale.log().sum() + lie
            self.q0 = self._distribution = own

        def forward_and_log_det(self, z):
            return z * scale, self.log_det.expand(len(z))

        def inverse_and_log_det(self, x):
            return x / scale, -self.log_det.expand(len(x))

        def log_prob(self, x):
            z, log_det = self.inverse_and_log_det(x)
            return own.log_prob(z) + log_det

    class ToNoise:
        def __init__(self, map_):
            self.forward, self.inverse = map_.inverse_and_log_det, map_.forward_and_log_det

    class Lazy(Map):
        def forward(self):
            base = torch.distributions.Independent(torch.distributions.Normal(scale * 0, scale / scale), 1)  # fmt: skip
            shift = torch.distributions.AffineTransform(0.0, scale, event_dim=1)
            return torch.distributions.TransformedDistribution(base, [shift])

    def named(name, kind, lie):
        package, _, own_name = name.rpartition(".")
        found = type(own_name, (kind,), {"__module__": package})(lie)
        found._transform = ToNoise(found)
        return found

    for name, kind in (
        ("normflows.core.NormalizingFlow", Map), ("nflows.flows.base.Flow", Map), ("zuko.lazy.LazyDistribution", Lazy),
    ):  # fmt: skip
        found = lemmata.certify(named(name, kind, 0.0), X, seconds=60)
        assert {"inverts", "log_det_true", "mass_one"} <= set(found.held), name
        if kind is Map:
            found = lemmata.certify(named(name, kind, 0.5), X, seconds=60)
            assert {"log_det_true", "mass_one"} <= set(found.failed), name
