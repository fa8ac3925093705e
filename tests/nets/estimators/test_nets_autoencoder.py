"""The non-linear autoencoder: PCA where it is linear, better where the data is curved, and told so by its certificate."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from lemmata import PCA, Autoencoder
from lemmata.nets import AutoencoderNet

QUICK = {"layers": (24,), "learning_rate": 0.01, "batch_size": 32, "random_state": 0}


def arc(n: int, seed: int = 0, noise: float = 0.02) -> np.ndarray:
    """Three quarters of a circle, turned into 5 dimensions."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 1.5 * np.pi, n)
    turn = np.linalg.qr(np.random.default_rng(9).normal(size=(5, 5)))[0][:2]
    flat = np.column_stack([np.cos(t), np.sin(t)]) @ turn
    return 3 * flat + noise * rng.normal(size=(n, 5)) + 1.0


def plane(n: int, seed: int = 0, noise: float = 0.2) -> np.ndarray:
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(np.random.default_rng(8).normal(size=(6, 6)))[0][:2]
    return rng.normal(size=(n, 2)) * [3, 2] @ turn + noise * rng.normal(size=(n, 6))


def pca_error(X: np.ndarray, m: int, Y: np.ndarray | None = None) -> float:
    """Half the mean squared distance of rows from PCA's plane, by an SVD of the rows."""
    mean = X.mean(axis=0)
    V = np.linalg.svd(X - mean, full_matrices=False)[2][:m]
    D = (X if Y is None else Y) - mean
    return 0.5 * float(np.square(D - D @ V.T @ V).sum(axis=1).mean())


@pytest.fixture(scope="module")
def curved():
    X = arc(300)
    return X, Autoencoder(1, max_iter=40, **QUICK).fit(X)


def test_linear_layers_find_the_error_of_pca_and_never_less():
    X = plane(200)
    least = pca_error(X, 2)
    model = Autoencoder(
        2, layers=(7,), activation="identity", max_iter=100, learning_rate=0.05, batch_size=32, random_state=0
    ).fit(X)  # fmt: skip
    assert least * (1 - 1e-9) <= model.loss_ <= 1.01 * least


def test_a_curve_is_told_by_one_number_and_a_plane_not_better_than_by_pca(curved):
    X, model = curved
    assert model.loss_ < 0.1 * pca_error(X, 1)
    certificate = model.certify(X, X_test=arc(300, seed=1))
    assert certificate.held[-2:] == ["beats_pca", "beats_pca_on_new_rows"]
    np.testing.assert_allclose(certificate["beats_pca"].measured, model.loss_ / pca_error(X, 1))
    X = plane(300)
    flat = Autoencoder(2, max_iter=5, **QUICK).fit(X)
    assert "beats_pca" in flat.certify(X).failed


def test_a_network_that_learnt_its_rows_by_heart_is_told_so():
    X, new = (np.random.default_rng(seed).normal(size=(n, 8)) for seed, n in ((0, 16), (1, 400)))
    model = Autoencoder(1, layers=(64, 64), max_iter=200, learning_rate=0.01, random_state=0).fit(X)
    found = model.certify(X, X_test=new, seconds=60)
    assert "beats_pca" in found.held
    assert "beats_pca_on_new_rows" in found.failed
    assert -model.score(new) * 4 > pca_error(X, 1, new)


def test_new_rows_have_to_be_new_and_to_be_there(curved):
    X, model = curved
    assert "X_test" in str(model.certify(X)["beats_pca_on_new_rows"].note)
    assert "trained on" in str(model.certify(X, X_test=X)["beats_pca_on_new_rows"].note)


def test_the_interface_is_that_of_pca(curved):
    X, model = curved
    Z = model.transform(X)
    assert Z.shape == (300, 1)
    np.testing.assert_array_equal(model.inverse_transform(Z), model.reconstruct(X))
    error = np.square(X - model.reconstruct(X)).mean()
    np.testing.assert_allclose(-model.score(X), error)
    np.testing.assert_allclose(model.loss_, 0.5 * 5 * error)
    assert list(model.get_feature_names_out()) == ["autoencoder0"]
    assert len(model.history_["loss"]) >= 40
    assert set(PCA(1).fit(X).get_feature_names_out()) == {"pca0"}


def test_what_is_tampered_with_is_noticed(curved):
    X, model = curved
    for change in (
        lambda m: setattr(m, "loss_", 1.01 * m.loss_),
        lambda m: setattr(m, "n_components_", 2),
        lambda m: m.module_.mean.add_(0.1),
        lambda m: m.module_.decoder[-1].bias.data.add_(0.05),
    ):
        other = copy.deepcopy(model)
        change(other)
        assert {"attributes_sound", "statements_true"} & set(other.certify(X).failed)
    spoilt = copy.deepcopy(model)
    spoilt.module_.encoder[1].weight.data[0, 0] = np.nan
    assert "attributes_sound" in spoilt.certify(X).failed


@pytest.mark.parametrize("size", [1e-150, 1e145])
def test_numbers_of_any_size_are_learnt_alike(size):
    X = arc(200)
    one, other = (Autoencoder(1, max_iter=8, **QUICK).fit(X * s) for s in (1.0, size))
    ratio = other.reconstruct(X * size) / size
    np.testing.assert_allclose(ratio, one.reconstruct(X), rtol=1e-6, atol=1e-6)
    assert other.certify(X * size)["beats_pca"].verdict == one.certify(X)["beats_pca"].verdict


def test_weights_count_rows():
    X, w = arc(120), np.zeros(120)
    w[:60] = 2.0
    model = Autoencoder(1, max_iter=30, **QUICK).fit(X, sample_weight=w)
    expected = 0.5 * np.square(X - model.reconstruct(X)).sum(axis=1)[:60].mean()
    np.testing.assert_allclose(model.loss_, expected)
    found = model.certify(X, sample_weight=w)["beats_pca"]
    np.testing.assert_allclose(found.measured, expected / pca_error(X[:60], 1))


def test_images_by_convolutions_of_any_size():
    import torch

    rng = np.random.default_rng(0)
    for height, width in ((8, 8), (7, 10)):
        X = rng.random((40, height, width)).astype(np.float32)
        model = Autoencoder(3, layers=(16,), conv=(4, 6), max_iter=2, random_state=0).fit(X)
        assert model.input_shape_ == (1, height, width)
        assert model.transform(X).shape == (40, 3)
        assert model.reconstruct(X).shape == (40, height * width)
    net = AutoencoderNet((2, 9, 12), 3, layers=(), conv=(5,))
    x = torch.rand(4, 2, 9, 12)
    assert net(x).shape == x.shape
    net.double()
    x = x.double()
    torch.testing.assert_close(net.residual(x), (net(x) - x) / net.scale)


def test_a_batch_at_a_time(curved):
    X, _ = curved
    model = Autoencoder(1, schedule="constant", **QUICK)
    losses = [model.partial_fit(X).loss_ for _ in range(15)]
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Autoencoder(9).fit(arc(20)), "n_components=9 exceeds n_features=5"),
        (lambda: Autoencoder(1, conv=True).fit(arc(20)), "needs images"),
        (lambda: Autoencoder(1, layers=(0,)).fit(arc(20)), "ints >= 1"),
        (lambda: Autoencoder(1, activation="step").fit(arc(20)), "activation"),
        (lambda: Autoencoder(1, max_iter=1).fit(arc(20)).inverse_transform(arc(20)), "codes have"),
        (lambda: Autoencoder(1, max_iter=1).fit(arc(20)).transform(plane(20)), "6 features"),
    ],
)
def test_bad_input_is_answered(call, message):
    with pytest.raises(ValueError, match=message):
        call()
