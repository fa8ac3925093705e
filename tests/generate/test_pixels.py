"""PixelCNN and WaveNet: exact probabilities in every scanning order, cached drawing, and bad input."""

import itertools

import numpy as np
import pytest

import lemmata
from lemmata import PixelCNN, WaveNet
from lemmata.data import DataNotFound, digits, spoken_digits

torch = pytest.importorskip("torch")

from lemmata.generate.pixels import CausalNet  # noqa: E402

SMALL = {"channels": 8, "n_blocks": 2, "hidden": 16, "learning_rate": 0.02, "random_state": 0}


def shaken(shape, levels, grid, **more):
    """A network with large random weights, in float64."""
    torch.manual_seed(0)
    net = CausalNet(shape, levels, grid, channels=6, hidden=8, **more).double()
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.5 * torch.randn_like(weight))
    return net.eval()


NETS = [
    ((1, 2, 3), 2, (2, 3), {}, None),
    ((1, 2, 3), 2, (2, 3), {}, [3, 0, 5, 1, 4, 2]),
    ((2, 2, 2), 2, (2, 4), {"kernel": 5}, [0, 4, 1, 5, 2, 6, 3, 7]),  # two channels in turn
    ((1, 5), 3, (1, 5), {"dilations": (1, 2)}, None),
    ((1, 2, 2), 3, (2, 2), {"n_classes": 2}, None),
]


def all_images(net):
    found = list(itertools.product(range(net.config["n_levels"]), repeat=len(net.order)))
    return net.values(torch.tensor(found))


@pytest.mark.parametrize(("shape", "levels", "grid", "more", "order"), NETS)
def test_probabilities_of_all_images_add_up_to_one_in_every_order(shape, levels, grid, more, order):
    net = shaken(shape, levels, grid, **more)
    if order is not None:
        net.order.copy_(torch.tensor(order))
    with torch.no_grad():
        images = all_images(net)
        logs = net.log_prob(images)
        assert logs.exp().sum().item() == pytest.approx(1, abs=1e-12)
        # the logits where a number stands are those that its probability is made of
        given = () if not more.get("n_classes") else (torch.zeros(len(images), dtype=torch.long),)
        shares = net(images, *given).log_softmax(1).flatten(2)
        places = torch.bucketize(images.flatten(1), net.levels[:-1] + 0.5)
        found = shares.gather(1, places[:, None]).sum((1, 2))
        torch.testing.assert_close(found, net.log_prob(images, *given))


@pytest.mark.parametrize(("shape", "levels", "grid", "more", "order"), NETS)
def test_cached_drawing_is_the_naive_loop(shape, levels, grid, more, order):
    net, n = shaken(shape, levels, grid, **more), 40
    T = len(net.order)
    u = torch.rand(n, T, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    y = torch.arange(n) % 2 if more.get("n_classes") else None
    naive = torch.zeros(n, T, dtype=torch.long)
    with torch.no_grad():
        for t in range(T):
            shares = net.logits(naive, y)[:, t].softmax(1).cumsum(1)
            naive[:, t] = (shares < u[:, t, None]).sum(1)
        assert torch.equal(net.draw(u, y), naive)
        assert len(torch.unique(naive, dim=0)) > 2


@pytest.mark.parametrize("kind", ["raster", "columns", "drawn"])
def test_a_number_depends_on_the_earlier_ones_in_its_window_and_on_no_others(kind):
    """(5.6) in each order: two blocks of 3 × 3 see two columns to each side and three rows up, of this row three numbers."""
    places = np.arange(49)
    orders = {"columns": places.reshape(7, 7).T.ravel(), "drawn": np.random.default_rng(0).permutation(49)}  # fmt: skip
    net = shaken((1, 7, 7), 2, (7, 7), kernel=3, dilations=(1, 1))
    net.order.copy_(torch.from_numpy(orders.get(kind, places)))
    images = torch.zeros(50, 1, 7, 7, dtype=torch.float64)
    images[1:].view(49, 49)[:] = torch.eye(49)[
        net.order
    ]  # of image s the number s in scanning order is another
    with torch.no_grad():
        found = net(images).flatten(2)[:, :, net.order]
    moved = (found[1:] != found[0]).any(1).numpy()  # (s, t)
    row, column = places // 7, places % 7
    up, right = np.subtract.outer(-row, -row), np.subtract.outer(column, column)
    above = (up >= 1) & (up <= 3) & (np.abs(right) <= 2)
    np.testing.assert_array_equal(moved, above | ((up == 0) & (right <= -1) & (right >= -3)))


def test_draws_occur_as_often_as_the_network_says():
    net = shaken((1, 2, 2), 2, (2, 2))
    with torch.no_grad():
        images = all_images(net)
        expected = net.log_prob(images).exp().numpy()
        drawn = net.sample(20_000, torch.Generator().manual_seed(0))
    keys = drawn.flatten(1).long() @ torch.tensor([8, 4, 2, 1])
    counts = np.bincount(keys.numpy(), minlength=16)
    spread = np.sqrt(20_000 * expected * (1 - expected))
    assert (np.abs(counts - 20_000 * expected) < 5 * spread + 1).all()


def markov_images(n, seed, flip=0.25, side=5):
    """Pixels that are the exclusive or of the left and the upper one, flipped by chance: entropy known exactly."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, side, side)) < flip).astype(np.int64)
    for i in range(side):
        for j in range(side):
            left, up = X[:, i, j - 1] if j else 0, X[:, i - 1, j] if i else 0
            X[:, i, j] ^= left ^ up
    entropy = -side * side * (flip * np.log(flip) + (1 - flip) * np.log(1 - flip))
    return X, entropy


def test_a_planted_markov_source_is_learned_to_its_entropy():
    X, entropy = markov_images(1500, 0)
    new, _ = markov_images(1000, 1)
    model = PixelCNN(**SMALL, max_iter=6, batch_size=64).fit(X)
    independent = 25 * np.log(2)  # nearly: each pixel by itself is almost fair
    loss = -model.score(new)
    assert entropy - 0.3 < loss < entropy + 0.3 < independent - 2
    assert model.bits_per_dim(new) == pytest.approx(loss / 25 / np.log(2))
    assert set(model.certificate_.held) >= {"beats_independent", "causal", "statements_true"}
    found = model.certify(X)
    assert "no_blind_spot" in found.held
    assert "mass_one" in found.undecided  # 2^25 images
    drawn = model.sample(500, random_state=0)[:, 0].astype(np.int64)
    errors = drawn[:, 1:, 1:] ^ drawn[:, 1:, :-1] ^ drawn[:, :-1, 1:]
    assert abs(errors.mean() - 0.25) < 0.03
    new[3, 1, 1] = 2
    with pytest.raises(ValueError, match=r"X\[3, 6\] is 2, which is none of the 2 levels"):
        model.score_samples(new)


def test_inpainting_keeps_what_is_known_and_follows_from_what_comes_before():
    X, _ = markov_images(1000, 0, flip=0.02)
    model = PixelCNN(**SMALL, max_iter=6, batch_size=64).fit(X)
    new, _ = markov_images(300, 1, flip=0.02)
    known = np.zeros(new.shape, bool)
    known[:, :3] = True
    hidden = np.where(known, new, 99)  # what is not known may be anything
    found = model.inpaint(hidden, known, random_state=0)[:, 0]
    assert (found[known] == new[known]).all()
    errors = found[:, 3:, 1:].astype(int) ^ found[:, 3:, :-1].astype(int) ^ found[:, 2:-1, 1:].astype(int)  # fmt: skip
    assert errors.mean() < 0.06
    assert (model.inpaint(new, known, random_state=0)[:, 0] == found).all()
    with pytest.raises(ValueError, match="bools of X's shape"):
        model.inpaint(new, known[:2])


def test_classes_orders_channels_and_bytes_come_back_as_they_came(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat(["dark", "light"], 100)
    X = np.where(rng.random((200, 2, 3, 5)) < 0.1, 128, 0)
    X[y == "light", 0] += 64
    X = X.astype(np.uint8)
    model = PixelCNN(**SMALL, max_iter=8, order="columns").fit(X, y)
    assert model.levels_.dtype == np.uint8
    drawn = model.sample(60, y="light", random_state=0)
    assert drawn.shape == (60, 2, 3, 5)
    assert drawn.dtype == np.uint8
    assert np.median(drawn[:, 0]) == 64
    assert np.median(drawn[:, 1]) == 0
    assert model.score(X, y) > model.score(X) > model.score(X, y[::-1])
    assert model.certify(X, y)["statements_true"].verdict == "holds"
    assert model.certify(X, y[::-1])["statements_true"].verdict == "fails"
    assert model.certify(X)["statements_true"].verdict == "can't tell"
    lemmata.save(model, tmp_path / "m.lemma")
    back = lemmata.load(tmp_path / "m.lemma")
    assert (back.sample(3, random_state=1) == model.sample(3, random_state=1)).all()
    assert "causal" in model.certificate_.held
    with pytest.raises(ValueError, match="label 'blue'"):
        model.sample(2, y="blue")


def test_early_stopping_keeps_a_small_set_from_being_learned_by_heart():
    X = (digits().X.reshape(-1, 8, 8) > 7).astype(np.float32)
    settings = {**SMALL, "channels": 16, "max_iter": 30, "schedule": "constant", "batch_size": 16}
    with lemmata.config(certificate=False):
        stopped = PixelCNN(**settings, early_stopping=True, n_iter_no_change=3).fit(X[:100])
        whole = PixelCNN(**settings).fit(X[:100])
    assert stopped.n_iter_ < 30
    assert stopped.score(X[600:1000]) > whole.score(X[600:1000]) + 0.5


@pytest.mark.parametrize(
    ("model", "X", "message"),
    [
        (PixelCNN(), np.random.default_rng(0).normal(size=(20, 4, 4)), "varies continuously"),
        (PixelCNN(), 1e9 + np.arange(64.0).reshape(4, 4, 4) % 2, "too close for float32"),
        (PixelCNN(levels=[0, 1]), np.arange(64).reshape(4, 4, 4) % 3, r"X\[0, 2\] is 2, which is none"),
        (PixelCNN(), [np.zeros((1, 4, 4)), np.zeros((1, 4, 5))], r"X\[1\] has shape \(1, 4, 5\)"),
        (PixelCNN(order=[0, 0, 1]), np.arange(48).reshape(12, 2, 2) % 2, "no permutation of the 4 pixels"),
        (PixelCNN(kernel=4), np.arange(48).reshape(12, 2, 2) % 2, "odd number"),
        (WaveNet(4), np.zeros((8, 2, 2)), r"pass sequences"),
    ],
)  # fmt: skip
def test_bad_input_is_named(model, X, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X)


def test_levels_of_a_fit_hold_for_every_later_call():
    X = np.random.default_rng(0).integers(0, 256, (40, 3, 4)).astype(np.float32)
    with lemmata.config(certificate=False):
        model = PixelCNN(channels=4, n_blocks=1, max_iter=1, warm_start=True).fit(X / 255)
    assert len(model.levels_) == 256
    with pytest.raises(ValueError, match="none of the 256 levels from 0 to 1 "):
        model.score_samples(X)
    with pytest.raises(ValueError, match="other levels than the last fit"):
        model.fit(X % 2)
    model.score_samples(X.astype(np.uint8))  # bytes are read as numbers from 0 to 1


def test_predicting_bounds_bytes_and_not_rows():
    """1,000 rows of 784 pixels and 256 levels would hold 0.8 GB of logits; no tensor on the way may exceed 64 MB."""
    from lemmata.nets.training.counting import BYTES, Operations

    X = np.random.default_rng(0).integers(0, 256, (1000, 8, 32)).astype(np.uint8)
    with lemmata.config(certificate=False):
        model = PixelCNN(channels=4, n_blocks=1, hidden=4, max_iter=1, test_fraction=0.0, random_state=0)  # fmt: skip
        model.fit(X[:64])
        with Operations() as counted:
            model.score_samples(X)
    assert counted.largest <= 1.05 * BYTES


def test_sounds_are_rounded_by_the_mu_law():
    try:
        X = spoken_digits("train", samples=1000).X[:, ::4]
    except DataNotFound:
        pytest.skip("no data")
    model = WaveNet(32, channels=8, n_blocks=4, max_iter=6, learning_rate=0.01, random_state=0).fit(X)  # fmt: skip
    steps = np.diff(model.levels_)
    assert steps[0] > 20 * steps[15]
    assert "beats_independent" in model.certificate_.held
    drawn = model.sample(3, random_state=0)
    assert drawn.shape == (3, 250)
    assert np.isin(drawn, model.levels_).all()
