"""Backpropagation by hand: against differences, the notes' own code, torch's autograd, and a count of multiplications."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit

from lemmata.nets import MLP
from lemmata.nets.mlp import network as mlp
from lemmata.nets.mlp.network import ACTIVATIONS, LOSSES, Workspace
from lemmata.nets.mlp.steps import NAMED, InPlaceAdam, Momentum, Pure
from lemmata.optim import Adam, HeavyBall, Nesterov

HIDDEN = {1: (), 2: (5,), 3: (5, 4), 4: (5, 4, 3)}


def targets(loss, n, m, rng):
    return {
        "squared": lambda: rng.normal(size=(n, m)),
        "poisson": lambda: rng.poisson(2.0, size=(n, m)).astype(float),
        "logistic": lambda: rng.choice([-1.0, 1.0], size=(n, m)),
        "softmax": lambda: rng.integers(m, size=n),
    }[loss]()


def drawn(activation, loss, depth=2, seed=0, n=9):
    """A network, its parameters (biases too), rows, targets, weights."""
    rng = np.random.default_rng(seed)
    net = MLP((4, *HIDDEN[depth], 3), activation, loss)
    theta = net.start(rng)
    theta[net.n_weights :] = 0.3 * rng.normal(size=theta.size - net.n_weights)
    return net, theta, rng.normal(size=(n, 4)), targets(loss, n, 3, rng), rng.random(n) + 0.1


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", HIDDEN)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_gradient_is_that_of_central_differences(activation, loss, depth):
    net, theta, X, y, s = drawn(activation, loss, depth)
    _, gradient = net.value_and_gradient(theta, X, y, s, alpha=0.3)
    rng, h = np.random.default_rng(1), 1e-5
    for _ in range(5):
        v = rng.normal(size=theta.size)
        # no ReLU changes sides in so short a step: checked, since differences would mix two slopes
        signs = [np.sign(_pre_activations(net, theta + t * v, X)) for t in (-h, 0.0, h)]
        assert (signs[0] == signs[1]).all()
        assert (signs[1] == signs[2]).all()
        up, down = (net.value(theta + t * v, X, y, s, alpha=0.3) for t in (h, -h))
        # f‴h²/6 and rounding of f over h are some 1e-9 here
        assert_allclose((up - down) / (2 * h), gradient @ v, rtol=2e-7, atol=2e-8)


def _pre_activations(net, theta, X):
    kept = Workspace(MLP(net.sizes, "identity", "squared"), len(X), float)
    weights, biases = net.layers(theta)
    h, found = X, []
    for W, b in zip(weights[:-1], biases[:-1], strict=True):
        z = h @ W + b
        found.append(z.ravel())
        net.phi.into(z, kept.slope[0] if net.phi.keeps_slope and kept.slope else None)
        h = z
    return np.concatenate(found) if found else np.zeros(1)


@pytest.mark.parametrize("activation", ["logistic", "tanh", "relu", "softplus", "gelu"])
@pytest.mark.parametrize("loss", LOSSES)
def test_torchs_autograd_gives_the_same_gradient(activation, loss):
    torch = pytest.importorskip("torch")
    F = torch.nn.functional
    phi = {
        "logistic": torch.sigmoid, "tanh": torch.tanh, "relu": F.relu, "softplus": F.softplus, "gelu": F.gelu,
    }[activation]  # fmt: skip
    net, theta, X, y, _ = drawn(activation, loss, depth=4)
    value, gradient = net.value_and_gradient(theta, X, y)
    parts = [
        torch.tensor(part, requires_grad=True) for layer in net.layers(theta) for part in layer
    ]
    h, L = torch.tensor(X), len(parts) // 2
    for k in range(L):
        h = h @ parts[k] + parts[L + k]
        h = phi(h) if k < L - 1 else h
    t = torch.tensor(y)
    found = {
        "squared": lambda: 0.5 * ((h - t) ** 2).sum(),
        "logistic": lambda: F.softplus(-t * h).sum(),
        "softmax": lambda: F.cross_entropy(h, t, reduction="sum"),
        "poisson": lambda: (torch.exp(h) - t * h - t + torch.xlogy(t, t)).sum(),
    }[loss]() / len(X)
    found.backward()
    assert_allclose(value, found.item(), rtol=1e-12)
    assert_allclose(
        gradient, np.concatenate([p.grad.numpy().ravel() for p in parts]), rtol=1e-9, atol=1e-13
    )


# --- the notes --------------------------------------------------------------------------------------------------------


class MLP3:
    """CIL 4.1.4, in its own notation: columns are samples, and there are no biases."""

    def __init__(self, theta, beta):
        self.theta, self.beta = theta, beta  # (m, n), (1, m)

    def forward(self, x):
        hid = expit(self.theta @ x)
        return {"hid": hid, "out": self.beta @ hid}

    def gradient(self, f, x, y):
        delta, hid = f["out"] - y, f["hid"]
        outer = np.outer(self.beta.T, delta)
        return {"bet": delta @ hid.T, "tet": (outer * (hid - hid * hid)) @ x.T}


def test_mlp3_of_the_notes_takes_the_same_steps():
    rng = np.random.default_rng(0)
    n, m, s, eta = 3, 6, 40, 0.5
    notes = MLP3(rng.uniform(-1 / n, 1 / n, (m, n)), rng.uniform(-1 / m, 1 / m, (1, m)))
    X = rng.normal(size=(s, n))
    y = np.sin(X[:, :1]) + X[:, 1:2]
    net = MLP((n, m, 1), "logistic", "squared")
    theta = np.concatenate([notes.theta.T.ravel(), notes.beta.ravel(), np.zeros(m + 1)])
    free = slice(0, net.n_weights)
    for _ in range(30):
        f = notes.forward(X.T)
        g = notes.gradient(f, X.T, y.T)
        notes.beta = notes.beta - eta / s * g["bet"]
        notes.theta = notes.theta - eta / s * g["tet"]
        theta[free] -= eta * net.value_and_gradient(theta, X, y)[1][free]
    weights, _ = net.layers(theta)
    assert_allclose(weights[0], notes.theta.T, rtol=1e-10)
    assert_allclose(weights[1], notes.beta.T, rtol=1e-10)


def test_one_row_has_the_gradient_of_4_10_and_4_11():
    rng = np.random.default_rng(1)
    Theta, beta, x, y = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3), 0.7
    a = Theta @ x
    residual = beta @ expit(a) - y
    by_beta = residual / (1 + np.exp(-a))  # (4.10)
    # (4.11)
    by_theta = (residual / (1 + np.exp(-a)) * beta / (1 + np.exp(a)))[:, None] * x
    net = MLP((3, 4, 1), "logistic", "squared")
    theta = np.concatenate([Theta.T.ravel(), beta, np.zeros(5)])
    weights, _ = net.layers(net.value_and_gradient(theta, x[None], np.array([[y]]))[1])
    assert_allclose(weights[1][:, 0], by_beta, rtol=1e-12)
    assert_allclose(weights[0].T, by_theta, rtol=1e-12)


def test_error_signals_are_products_of_jacobi_matrices():
    """(4.19) with the matrices written out: δ₀ = J₁ᵀ … J_Lᵀδ_L is the slope by the input."""
    net, theta, X, y, _ = drawn("tanh", "squared", depth=4, n=1)
    weights, biases = net.layers(theta)
    h, jacobi = X[0], []
    for k, (W, b) in enumerate(zip(weights, biases, strict=True)):
        z = h @ W + b
        h = z if k == 3 else np.tanh(z)
        jacobi.append((W if k == 3 else W * (1 - h**2)).T)
    delta = h - y[0]
    for J in reversed(jacobi):
        delta = J.T @ delta

    def loss_at(x):
        return net.value(theta, x[None], y)

    slopes = [(loss_at(X[0] + 1e-6 * e) - loss_at(X[0] - 1e-6 * e)) / 2e-6 for e in np.eye(4)]
    assert_allclose(delta, slopes, rtol=1e-7)
    # the slope by Θ₁ᵀ is that by z₁ times the input, and that by x is Θ₁ times it
    gradient = net.layers(net.value_and_gradient(theta, X, y)[1])
    assert_allclose(weights[0] @ gradient[1][0], delta, rtol=1e-10)


def test_the_logistic_error_is_4_22():
    psi, y = np.array([[-3.0], [0.5], [40.0], [40.0]]), np.array([[1.0], [-1.0], [1.0], [-1.0]])
    found = psi.copy()
    LOSSES["logistic"].error_into(found, y)
    assert_allclose(found, -y * expit(-y * psi), rtol=1e-15)


@given(st.lists(st.integers(1, 30), min_size=2, max_size=7), st.integers(1, 40))
@settings(max_examples=40)
def test_backward_multiplies_at_most_twice_as_often_as_forward(sizes, n):
    net = MLP(tuple(sizes), "tanh", "squared")
    made = {"forward": 0, "backward": 0}
    real = mlp.product

    def counting(A, B, out):
        made[now] += A.shape[0] * A.shape[1] * B.shape[1]
        real(A, B, out)

    theta = np.zeros(net.n_parameters)
    layers, kept = net.layers(theta), Workspace(net, n, float)
    mlp.product = counting
    try:
        now = "forward"
        delta = net.forward(layers, np.zeros((n, sizes[0])), kept)
        now = "backward"
        net.backward(layers, kept, delta, net.layers(np.empty_like(theta)))
    finally:
        mlp.product = real
    assert (made["forward"], made["backward"]) == net.multiplications(n)
    assert made["forward"] <= made["backward"] <= 2 * made["forward"]


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_losses_keep_their_digits_where_a_row_is_fitted_well_or_missed_by_far():
    far = np.array([[60.0, 0.0, -5.0]])
    assert_allclose(
        LOSSES["softmax"].of_rows(far, np.array([0])), np.exp(-60) + np.exp(-65), rtol=1e-12
    )
    assert_allclose(LOSSES["softmax"].of_rows(1e4 * far, np.array([1])), 6e5)
    delta = far.copy()
    LOSSES["softmax"].error_into(delta, np.array([0]))
    assert_allclose(delta, [[-(np.exp(-60) + np.exp(-65)), np.exp(-60), np.exp(-65)]], rtol=1e-12)
    sure = np.array([[60.0], [-1e4]])
    assert_allclose(
        LOSSES["logistic"].of_rows(sure, np.array([[1.0], [1.0]])), [np.exp(-60), 1e4], rtol=1e-12
    )


def test_float32_stays_float32_and_sparse_rows_are_rows():
    net, theta, X, y, s = drawn("gelu", "softmax", depth=3)
    X[X < 0] = 0
    value, gradient = net.value_and_gradient(theta, X, y, s)
    narrow = net.value_and_gradient(theta.astype("f"), X.astype("f"), y, s.astype("f"))
    assert narrow[1].dtype == np.float32
    assert_allclose(narrow[1], gradient, rtol=2e-4, atol=2e-6)
    sparse = net.value_and_gradient(theta, sp.csr_array(X), y, s)
    assert_allclose(sparse[0], value, rtol=1e-13)
    assert_allclose(sparse[1], gradient, rtol=1e-12, atol=1e-14)


def test_units_drop_out_with_their_probability_and_their_mean_stays():
    net = MLP((2, 400, 1), "tanh", "squared")
    rng = np.random.default_rng(0)
    theta, X = net.start(rng), np.array([[1.0, -2.0]])
    layers, p, times = net.layers(theta), 0.3, 400
    kept = Workspace(net, 1, float, dropout=p)
    whole = net.scores(layers, X)[0, 0]
    seen = [net.forward(layers, X, kept, np.random.default_rng([1, t]))[0, 0] for t in range(times)]
    h = np.tanh(X @ layers[0][0])[0] * layers[0][1][:, 0]
    deviation = np.sqrt(p / (1 - p) * (h**2).sum())  # of Σ h·mask/(1 − p): Bernoulli's
    assert abs(np.mean(seen) - whole) < 4 * deviation / np.sqrt(times)
    assert_allclose(np.std(seen), deviation, rtol=4 / np.sqrt(2 * times))
    net.forward(layers, X, kept, np.random.default_rng(0))
    # 400 units, four deviations
    assert abs((kept.inputs[1] == 0).mean() - p) < 4 * np.sqrt(p * (1 - p) / 400)


def test_the_gradient_of_a_thinned_network_is_that_of_its_own_loss():
    net, theta, X, y, _ = drawn("logistic", "squared", depth=3)

    def at(point):
        kept = Workspace(net, len(X), float, dropout=0.4)
        layers = net.layers(point)
        out = net.forward(layers, X, kept, np.random.default_rng(5))
        value = LOSSES["squared"].of_rows(out, y).sum()
        LOSSES["squared"].error_into(out, y)
        gradient = np.empty_like(point)
        net.backward(layers, kept, out, net.layers(gradient))
        return value, gradient

    v = np.random.default_rng(2).normal(size=theta.size)
    slope = (at(theta + 1e-5 * v)[0] - at(theta - 1e-5 * v)[0]) / 2e-5
    assert_allclose(slope, at(theta)[1] @ v, rtol=1e-7)


@pytest.mark.parametrize(("init", "variance"), [("he", 2 / 400), ("xavier", 2 / 700)])
def test_first_weights_have_the_variance_of_he_or_xavier(init, variance):
    weights, biases = MLP((400, 300, 1), "relu").layers(
        MLP((400, 300, 1)).start(np.random.default_rng(0), init)
    )
    # a sample variance of 120,000 normals errs by √(2/n)
    assert_allclose(weights[0].var(), variance, rtol=4 * np.sqrt(2 / 120_000))
    assert not any(part.any() for part in biases)


def test_hes_variance_keeps_a_deep_relu_signal_and_xaviers_halves_it():
    rng, sizes = np.random.default_rng(0), (200,) * 12
    X, power = rng.normal(size=(50, 200)), {}
    for init in ("he", "xavier", "auto"):
        net = MLP(sizes, "relu")
        out = net.scores(net.layers(net.start(np.random.default_rng(1), init)), X)
        power[init] = float((out**2).mean())
    assert 0.3 < power["he"] / 2 < 3  # the last layer has no φ, so that 2/n doubles
    assert power["xavier"] < 2e-3
    assert power["auto"] > 0.1


# --- steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("inplace", "pure"),
    [
        (InPlaceAdam(0.8, 0.95, 1e-6), Adam(0.1, 0.8, 0.95, 1e-6)),
        (Momentum(0.7, nesterov=False), HeavyBall(0.1, 0.7)),
        (Momentum(0.7, nesterov=True), Nesterov(0.1, 0.7)),
    ],
    ids=["adam", "heavy ball", "nesterov"],
)
def test_steps_in_place_are_those_of_optim(inplace, pure, dtype, monkeypatch):
    monkeypatch.setattr("lemmata.nets.mlp.steps.PIECE", 7)  # several pieces, and weights end in one
    rng = np.random.default_rng(0)
    theta = rng.normal(size=40).astype(dtype)
    x, memory = theta.copy(), pure.init((theta,))
    slots = inplace.slots(theta)
    for count in range(6):
        g = rng.normal(size=40).astype(dtype)
        whole = g + np.where(np.arange(40) < 25, dtype(0.2) * x, 0).astype(dtype)
        (x,), memory = pure.step(memory, (x,), (whole,))
        slots = inplace.step_into(theta, g, slots, count, 0.1, 0.2, 25)
        assert theta.dtype == dtype
        assert_allclose(theta, x, rtol=300 * np.finfo(dtype).eps, atol=30 * np.finfo(dtype).eps)


def test_every_named_optimiser_lowers_the_loss_and_none_decays_biases():
    class Parameters:
        learning_rate_init, momentum, beta_1, beta_2 = 0.01, 0.9, 0.9, 0.99

    net, start, X, y, _ = drawn("tanh", "squared", depth=3, n=50)
    for name, make in NAMED.items():
        theta, step = start.copy(), Pure(make(Parameters))
        slots = step.slots(theta)
        for count in range(30):
            _, g = net.value_and_gradient(theta, X, y)
            slots = step.step_into(theta, g, slots, count, 0.01, 0.0, net.n_weights)
        assert net.value(theta, X, y) < net.value(start, X, y), name
    for step in (InPlaceAdam(), Momentum(), Pure(HeavyBall(0.1))):
        theta = np.ones(6)
        step.step_into(theta, np.zeros(6), step.slots(theta), 0, 0.1, 0.5, 4)
        assert (theta[:4] < 1).all()
        assert (theta[4:] == 1).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((3, 2), "sine"), "activation='sine' is not known"),
        (((3, 2), "relu", "hinge"), "loss='hinge'"),
        (((3,),), "pass the number of inputs"),
        (((3, 0, 1),), ">= 1"),
    ],
)
def test_impossible_networks_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MLP(*arguments)
