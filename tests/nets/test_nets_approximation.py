"""Constructions of approximation theory keep what their theorems promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata.nets.approximation import (
    Cosines,
    Layers,
    barron_net,
    collapse,
    fitted_rate,
    interpolation_bound,
    linear_region,
    most_regions,
    piecewise_linear_net,
    pruned,
    rectangle_net,
    rectangle_net_2d,
    sample_ball,
)

numbers = st.floats(-50, 50, allow_nan=False).map(lambda x: round(x, 3))


def random_net(rng, widths, activation="relu") -> Layers:
    shapes = list(zip(widths[1:], widths[:-1], strict=True))
    return Layers(
        tuple(rng.standard_normal(shape) / math.sqrt(shape[1]) for shape in shapes),
        tuple(rng.standard_normal(shape[0]) for shape in shapes),
        activation,
    )


# --- piecewise-linear functions ---


@given(st.lists(numbers, min_size=2, max_size=12, unique=True), st.data())
@settings(max_examples=50)
def test_a_relu_net_is_any_piecewise_linear_function(knots, data):
    r = np.sort(knots)
    q = np.array(data.draw(st.lists(numbers, min_size=len(r), max_size=len(r))))
    net = piecewise_linear_net(r, q)
    x = np.concatenate([r, np.linspace(r[0], r[-1], 50)])
    slopes = np.abs(np.diff(q) / np.diff(r))
    scale = np.abs(q).max() + 3 * slopes.sum() * (r[-1] - r[0])
    np.testing.assert_allclose(net(x[:, None])[:, 0], np.interp(x, r, q), atol=1e-14 * (1 + scale))
    assert net.widths == (max(len(r) - 1, 2),)  # a unit per piece
    # beyond the ends it goes on straight
    out = net([[r[0] - 3.0], [r[-1] + 2.0]])[:, 0]
    first, last = (q[1] - q[0]) / (r[1] - r[0]), (q[-1] - q[-2]) / (r[-1] - r[-2])
    expected = [q[0] - 3 * first, q[-1] + 2 * last]
    np.testing.assert_allclose(out, expected, atol=1e-13 * (1 + scale + 3 * slopes.max()))


@pytest.mark.parametrize("pieces", [5, 20, 80])
def test_interpolation_errs_by_at_most_its_bound(pieces):
    knots = np.linspace(0, 3, pieces + 1)
    net, x = piecewise_linear_net(knots, np.sin(2 * knots)), np.linspace(0, 3, 3001)
    error = np.abs(net(x[:, None])[:, 0] - np.sin(2 * x)).max()
    bound = interpolation_bound(curvature=4, spacing=3 / pieces)
    assert 0.8 * bound < error <= bound


# --- linear nets, and ReLU nets where they are linear ---


@given(st.integers(0, 2**20), st.lists(st.integers(1, 6), min_size=2, max_size=5))
@settings(max_examples=40)
def test_linear_nets_collapse_to_one_matrix(seed, widths):
    rng = np.random.default_rng(seed)
    net = random_net(rng, widths, "identity")
    A, c = collapse(net)
    X = rng.standard_normal((7, widths[0]))
    np.testing.assert_allclose(net(X), X @ A.T + c, atol=1e-12)
    assert np.linalg.matrix_rank(A) <= min(widths)


@given(st.integers(0, 2**20), st.lists(st.integers(1, 9), min_size=2, max_size=5))
@settings(max_examples=60)
def test_a_relu_net_is_linear_up_to_its_radius_and_not_beyond(seed, widths):
    rng = np.random.default_rng(seed)
    net = random_net(rng, widths)
    x = rng.standard_normal(widths[0])
    region = linear_region(net, x)
    left = pruned(net, x)
    A, c = collapse(left)
    np.testing.assert_allclose(A, region.matrix, atol=1e-12)
    np.testing.assert_allclose(c, region.offset, atol=1e-12)
    assert left.widths == tuple(int(kept.sum()) for kept in region.active)

    def pattern(points):
        return np.concatenate([layer > 0 for layer in net.activations(points)[:-1]], axis=1)

    if not math.isfinite(region.radius):
        assert len(widths) == 2  # no hidden layer, or units without slope
        return
    steps = rng.standard_normal((200, widths[0]))
    steps *= region.radius * (1 - 1e-9) / np.linalg.norm(steps, axis=1, keepdims=True)
    inside = x + steps * rng.random((200, 1))
    scale = 1e-12 * (1 + np.abs(region.matrix).sum() * (1 + np.abs(inside).max()))
    np.testing.assert_allclose(net(inside), inside @ A.T + c, atol=scale)
    # just beyond, towards the nearest boundary, that unit has changed
    layer, unit = region.nearest
    before = Layers((*net.weights[:layer], net.weights[layer]), net.biases[: layer + 1])
    slope = linear_region(before, x).matrix[unit]
    towards = -np.sign(before(x[None])[0, unit]) * slope / np.linalg.norm(slope)
    beyond = x + towards * region.radius * (1 + 1e-6)
    assert (pattern(x[None]) != pattern(beyond[None])).any()


def test_units_that_never_change_set_no_limit():
    net = Layers((np.zeros((2, 3)), np.ones((1, 2))), (np.array([1.0, -1.0]), np.zeros(1)))
    region = linear_region(net, np.zeros(3))
    assert region.radius == math.inf
    assert region.nearest is None
    on_the_border = Layers((np.eye(1), np.eye(1)), (np.zeros(1), np.zeros(1)))
    assert linear_region(on_the_border, [0.0]).radius == 0


def test_lines_in_general_position_cut_the_plane_into_all_their_regions():
    rng = np.random.default_rng(0)
    m = 5
    net = Layers(
        (rng.standard_normal((m, 2)), np.ones((1, m))), (0.3 * rng.standard_normal(m), np.zeros(1))
    )
    X = np.concatenate([rng.uniform(-s, s, (50_000, 2)) for s in (2, 20)])
    found = np.unique((net.activations(X)[0] > 0) @ 2 ** np.arange(m))
    assert len(found) == most_regions(m, 2) == 16
    assert most_regions(3, 1) == 4


def test_torch_and_back():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    for activation in ("relu", "sigmoid", "tanh", "identity"):
        net = random_net(rng, (4, 6, 5, 2), activation)
        module, X = net.to_torch(), rng.standard_normal((9, 4))
        np.testing.assert_allclose(module(torch.from_numpy(X)).detach().numpy(), net(X), atol=1e-12)
        again = Layers.of_torch(module)
        assert again.activation == activation
        np.testing.assert_array_equal(again(X), net(X))
    module = torch.nn.Sequential(
        torch.nn.Flatten(),
        torch.nn.Linear(4, 3),
        torch.nn.ReLU(),
        torch.nn.Linear(3, 1, bias=False),
    )
    net, x = Layers.of_torch(module), rng.standard_normal(4).astype(np.float32)
    jacobian = torch.autograd.functional.jacobian(module, torch.from_numpy(x)[None])[0, :, 0]
    np.testing.assert_allclose(linear_region(net, x).matrix, jacobian.numpy(), atol=1e-6)


# --- rectangles ---


@given(st.integers(1, 40), st.floats(-3, 3), st.floats(0.5, 4), st.floats(0.3, 3000))
@settings(max_examples=40)
def test_riemann_sums_err_by_at_most_their_bound(pieces, low, length, steepness):
    f, high = (lambda x: np.sin(3 * x) + 0.5 * x), low + length
    made = rectangle_net(f, low, high, pieces, lipschitz=3.5, steepness=steepness)
    assert made.net.widths == (pieces + 1,)
    x = np.linspace(low, high, 5_001)
    x = (x[:-1] + x[1:]) / 2
    error = np.abs(made.net(x[:, None])[:, 0] - f(x)).mean() * length
    # the mean over 5,000 points is that far from the integral: |f − f_k|' ≤ L + w Σ|c|/4
    quadrature = (3.5 + steepness * np.abs(made.net.weights[1]).sum() / 4) * length**2 / 5_000
    assert error <= made.bound + quadrature


def test_the_bound_of_rectangles_is_met_and_falls_with_their_number():
    x = (np.arange(40_000) + 0.5) / 40_000
    errors = []
    for pieces in (4, 16, 64):
        made = rectangle_net(lambda x: 2 * x, 0, 1, pieces, lipschitz=2)
        errors.append(np.abs(made.net(x[:, None])[:, 0] - 2 * x).mean())
        assert made.bound / 4 < errors[-1] <= made.bound
    assert fitted_rate([4, 16, 64], errors) < -0.9


@pytest.mark.parametrize("pieces", [2, 5, 8])
def test_rectangles_of_two_inputs(pieces):
    def f(X):
        return np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1])

    made = rectangle_net_2d(f, -1, 1, pieces, lipschitz=math.sqrt(13))
    assert made.net.widths == (2 * (pieces + 1), pieces**2)
    axis = (np.arange(200) + 0.5) / 100 - 1
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    error = 4 * np.abs(made.net(grid)[:, 0] - f(grid)).mean()
    assert error <= made.bound
    assert made.sigmoids <= made.rectangles
    # away from the edges it is the height of its rectangle, arms of crosses gone
    middles = -1 + (np.arange(pieces) + 0.5) * 2 / pieces
    centres = np.stack(np.meshgrid(middles, middles, indexing="ij"), axis=-1).reshape(-1, 2)
    assert np.abs(made.net(centres)[:, 0] - f(centres)).max() < 0.02


# --- Barron ---


def wave(d: int = 3) -> Cosines:
    rng = np.random.default_rng(d)
    return Cosines(rng.uniform(0.2, 1, 4), rng.standard_normal((4, d)), rng.uniform(0, 6, 4))


@pytest.mark.parametrize("d", [1, 3, 10])
def test_drawn_steps_are_unbiased_and_within_barrons_bound(d):
    f, rng = wave(d), np.random.default_rng(0)
    X = sample_ball(500, d, 1.5, rng)
    nets = [barron_net(f, 20, 1.5, rng) for _ in range(300)]
    values = np.stack([net(X)[:, 0] for net in nets])  # (300, 500)
    errors = ((values - f(X)) ** 2).mean(axis=1)
    slack = 4 * errors.std() / math.sqrt(300)
    assert errors.mean() - slack <= f.bound(20, 1.5)
    assert errors.mean() > 0.01 * f.bound(20, 1.5)  # the bound is of the right size
    # 6,000 steps within ± V: the empirical Bernstein bound (Maurer & Pontil 2009) at δ = 1e-8 per point
    log, V = math.log(2e8), 20 * np.abs(nets[0].weights[1]).max()
    spread = values.std(axis=0) / math.sqrt(300)
    allowed = math.sqrt(2 * log) * spread + 7 * 2 * V * log / (3 * 5999)
    assert (np.abs(values.mean(axis=0) - f(X)) < allowed).all()


def test_the_error_falls_like_one_over_the_root_of_the_width():
    f, rng = wave(5), np.random.default_rng(1)
    X = sample_ball(2000, 5, 1.0, rng)
    widths = [8, 32, 128, 512]

    def error(method, width, draws):
        squares = [
            np.mean((barron_net(f, width, 1.0, rng, method=method)(X)[:, 0] - f(X)) ** 2)
            for _ in range(draws)
        ]
        return math.sqrt(np.mean(squares))

    drawn = [error("drawn", width, 30) for width in widths]
    assert -0.56 < fitted_rate(widths, drawn) < -0.44
    fitted, greedy = error("fitted", 32, 3), error("greedy", 32, 3)
    assert greedy < fitted < drawn[1]


def test_steep_sigmoids_do_as_steps_do():
    f = wave(2)
    step, smooth = (
        barron_net(f, 50, 1.0, np.random.default_rng(3), steepness=s) for s in (math.inf, 1e7)
    )
    X = sample_ball(300, 2, 1.0, np.random.default_rng(4))
    np.testing.assert_allclose(step(X), smooth(X), atol=1e-3)
    flat = Cosines([1.0], [[0.0, 0.0]], [0.3])
    np.testing.assert_allclose(barron_net(flat, 3, 1.0, np.random.default_rng(0))(X)[:, 0], flat(X))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: piecewise_linear_net([0, 0, 1], [1, 2, 3]), "sort them"),
        (lambda: piecewise_linear_net([0], [1]), "at least 2"),
        (lambda: piecewise_linear_net([0, np.nan], [1, 2]), "finite"),
        (lambda: rectangle_net(np.sin, 1, 1, 3, lipschitz=1), "low < high"),
        (lambda: rectangle_net(np.sin, 0, 1, 0, lipschitz=1), "at least 1"),
        (lambda: collapse(piecewise_linear_net([0, 1], [0, 1])), "linear_region"),
        (lambda: linear_region(rectangle_net(np.sin, 0, 1, 2, lipschitz=1).net, [0]), "only ReLU"),
        (lambda: Layers((np.eye(2), np.eye(3)), (np.zeros(2), np.zeros(3))), "layer 2"),
        (lambda: piecewise_linear_net([0, 1], [0, 1])([0.5]), r"rows \(n, 1\)"),
        (lambda: barron_net(wave(), 0, 1.0, np.random.default_rng(0)), "width >= 1"),
        (lambda: Cosines([1.0], [1.0], [0.0]), "K × d"),
    ],
)
def test_bad_input_is_answered(call, message):
    with pytest.raises(ValueError, match=message):
        call()
