"""Encoders in training: targets, stopped runs, collapses, probes, pipelines, fine-tuning, files; and what is refused."""

import numpy as np
import pytest
import torch
from cli_invoke import invoke
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from torch import nn

import lemmata
from lemmata import BYOL, LogisticRegression, SimCLR, VICReg
from lemmata.nets import ConvNet, NeuralClassifier
from lemmata.nets.augmentation import Noise
from lemmata.nets.data.batches import Rows
from lemmata.nets.training.algorithm import Training
from lemmata.selfsup import FeatureNet, JointEmbedding, Views, probe, sensitivity
from lemmata.selfsup.objectives import Bootstrap, Contrast, VarianceCovariance

METHODS = [SimCLR, BYOL, VICReg]
DATA = load_digits()
IMAGES, Y = (DATA.images[:, None] / 16).astype("float32"), DATA.target
SMALL = {"regions": 2, "net_options": {"widths": (8, 16)}, "hidden": 32, "batch_size": 100, "random_state": 0}  # fmt: skip
NOISE = Views(Noise(0.1), Noise(0.1))


def joint(**more):
    torch.manual_seed(0)
    return JointEmbedding(FeatureNet(ConvNet((1, 8, 8), 1, widths=(4, 8)), 2), 6, hidden=16, **more)


def updates(objective, net, n=400, **more):
    """A training and its data, of noise as views."""
    data = Rows(IMAGES[:n].reshape(n, -1), shape=(1, 8, 8))
    return Training(net, objective, learning_rate=0.01, batch_size=100, epochs=4, **more), data


OBJECTIVES = {
    "contrast": (Contrast(NOISE), {}),
    "bootstrap": (Bootstrap(NOISE), {"predictor": True, "momentum": 0.9}),
    "variance": (VarianceCovariance(NOISE), {}),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_run_resumed_equals_one_never_stopped_to_the_bit(name):
    objective, parts = OBJECTIVES[name]
    training, data = updates(objective, joint(**parts))
    state = training.init(data, np.random.default_rng(0))
    states = [state := training.step(state, data) for _ in range(3)]
    again, data = updates(objective, joint(**parts))
    resumed = again.step(again.step(states[0], data), data)
    for key, value in states[-1].model.items():
        assert_array_equal(resumed.model[key], value, err_msg=key)


def test_the_target_is_a_running_mean_of_the_weights_and_learns_nothing_itself():
    net, rng = joint(predictor=True, momentum=0.9), torch.Generator().manual_seed(0)
    x = torch.from_numpy(IMAGES[:50])
    before = [w.clone() for w in net.target.parameters()]
    Bootstrap(NOISE)(net, (x,), rng).losses.mean().backward()
    assert all(w.grad is None for w in net.target.parameters())
    assert all(w.grad is not None for w in net.predictor.parameters())
    with torch.no_grad():
        for w in net.encoder.parameters():
            w.add_(1.0)
    net.updated()
    online = [*net.encoder.parameters(), *net.projector.parameters()]
    for old, now, weight in zip(before, net.target.parameters(), online, strict=True):
        assert_allclose(now.numpy(), 0.9 * old.numpy() + 0.1 * weight.detach().numpy(), rtol=1e-5, atol=1e-6)  # fmt: skip


def test_the_target_follows_in_training_once_an_update():
    seen = []

    class Counted(JointEmbedding):
        def updated(self):
            seen.append(1)
            super().updated()

    torch.manual_seed(0)
    net = Counted(FeatureNet(ConvNet((1, 8, 8), 1, widths=(4,)), 2), 6, hidden=16, predictor=True, momentum=0.9)  # fmt: skip
    training, data = updates(Bootstrap(NOISE), net, accumulate=2)
    training.step(training.init(data, np.random.default_rng(0)), data)
    assert len(seen) == 4  # 400 rows, 100 in an update, in two parts each


@pytest.mark.parametrize("cls", [SimCLR, VICReg])
def test_losses_that_compare_rows_refuse_parts_of_batches(cls):
    with pytest.raises(ValueError, match="compares the rows of a batch"):
        cls(**SMALL, accumulate=2).fit(IMAGES[:300])


@pytest.mark.parametrize("cls", METHODS)
def test_features_agree_between_views_and_do_not_collapse(cls):
    options = {**SMALL, "views": Noise(0.2)}
    model = cls(**options, max_iter=6).fit(IMAGES[:1000])
    assert "not_collapsed" in model.certificate_.held
    # the loss after training is below that of the first epoch, on views drawn again
    assert model.loss_ < model.trace_.objective[1]
    h = model.transform(IMAGES[1000:])
    h /= np.linalg.norm(h, axis=1, keepdims=True)
    # ‖a − b‖² = 2 − 2 cos: views of a row are nearer than different rows are
    assert model.alignment_ < 0.5 * 2 * (1 - np.square(h.mean(axis=0)).sum())


def test_without_its_variance_term_vicreg_contracts():
    model = VICReg(**SMALL, variance=0.0, covariance=0.0, max_iter=25, learning_rate=0.02).fit(IMAGES[:600])  # fmt: skip
    assert model.trace_.extras["spread"][-1] < 0.1
    healthy = VICReg(**SMALL, max_iter=3).fit(IMAGES[:600])
    assert healthy.trace_.extras["spread"][-1] > 0.5
    assert healthy.certificate_["not_collapsed"].verdict == "holds"


def test_transform_leaves_the_projector_aside_and_fits_into_a_pipeline():
    pipe = make_pipeline(SimCLR(**SMALL, max_iter=3), LogisticRegression())
    with pytest.warns(UserWarning, match="y is ignored"):
        SimCLR(**SMALL, max_iter=1).fit(IMAGES[:200], Y[:200])
    pipe.fit(IMAGES[:1000], Y[:1000])
    assert pipe.score(IMAGES[1000:], Y[1000:]) > 0.75
    model = pipe[0]
    assert model.transform(IMAGES[:7]).shape == (7, model.n_outputs_) == (7, 64)
    assert model.project(IMAGES[:7]).shape == (7, 64)
    with torch.no_grad():
        expected = model.module_.projector.eval()(torch.from_numpy(model.transform(IMAGES[:7])))
    assert_allclose(model.project(IMAGES[:7]), expected.numpy(), atol=1e-5)
    assert len(model.get_feature_names_out()) == 64


def test_encoders_are_fine_tuned_and_stay_as_they_were(tmp_path):
    model = SimCLR(**SMALL, max_iter=3).fit(IMAGES[:1000])
    before = model.transform(IMAGES[:5])
    tuned = NeuralClassifier(model.encoder_, max_iter=20, learning_rate=0.01, random_state=0).fit(
        IMAGES[:300], Y[:300]
    )
    assert tuned.score(IMAGES[1000:], Y[1000:]) > 0.6
    assert_array_equal(model.transform(IMAGES[:5]), before)
    moved = tuned.module_[0](torch.from_numpy(IMAGES[:5])).detach().numpy()
    assert np.abs(moved - before).max() > 1e-3
    lemmata.save(tuned, tmp_path / "t.lemma")
    assert_array_equal(lemmata.load(tmp_path / "t.lemma").predict(IMAGES), tuned.predict(IMAGES))


class Own(nn.Module):
    """Somebody else's encoder."""

    def __init__(self, width=12):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU())

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize("net", [None, "ResNet", Own()], ids=["ConvNet", "ResNet", "own"])
def test_files_give_the_same_features(tmp_path, net):
    options = {**SMALL, "net": net, "net_options": None if net else SMALL["net_options"]}
    model = BYOL(**options, max_iter=1).fit(IMAGES[:200])
    lemmata.save(model, tmp_path / "e.lemma")
    if isinstance(net, Own):  # code is not in a file: the class has to be there
        with pytest.raises(Exception, match=r"Own|module"):
            lemmata.load(tmp_path / "e.lemma")
        return
    loaded = lemmata.load(tmp_path / "e.lemma")
    assert_array_equal(loaded.transform(IMAGES[:9]), model.transform(IMAGES[:9]))
    assert loaded.certificate_.held == model.certificate_.held


def test_probes_stand_beside_pixels_and_the_untrained_network():
    model = SimCLR(**SMALL, max_iter=2).fit(IMAGES[:1000])
    train, test = slice(0, 1000), slice(1000, None)
    for kind in ("linear", "neighbours"):
        found = probe(model, IMAGES[train], Y[train], IMAGES[test], Y[test], kind=kind, labels=300)
        widths = {row.name: row.width for row in found.rows}
        assert widths == {"features": 64, "raw input": 64, "untrained": 64}
        for row in found.rows:
            assert row.interval[0] < row.accuracy < row.interval[1]
        assert "300 labels" in str(found)
    # the gain over itself is nothing
    data = IMAGES[train], Y[train], IMAGES[test], Y[test]
    itself = probe(model, *data, labels=200, untrained=model.encoder_).rows[2]
    assert itself.gain[0] <= 0 <= itself.gain[1]
    # of several draws of labels, the mean and the deviation; all labels have one draw
    rows = probe(model, *data, labels=50, draws=3).rows
    assert all(row.deviation > 0 and row.interval[0] < row.accuracy < row.interval[1] for row in rows)  # fmt: skip
    assert probe(model, *data, draws=2).rows[0].deviation == 0
    bad = {"kind": "forest"}, "linear, neighbours"
    for more, words in (bad, ({"labels": 1}, "from 2 to"), ({"draws": 0}, "pass 1 or more")):
        with pytest.raises(ValueError, match=words):
            probe(model, *data, **more)
    with pytest.raises(ValueError, match="one label for each"):
        probe(model, IMAGES[train], Y[:7], IMAGES[test], Y[test])


def test_sensitivity_is_zero_without_a_change_and_grows_with_it():
    model = SimCLR(**SMALL, max_iter=1).fit(IMAGES[:300])
    found = sensitivity(model, IMAGES[:100], {"none": Noise(0.0), "some": Noise(0.1), "more": Noise(0.5)})  # fmt: skip
    assert abs(found["none"]) < 1e-6
    assert found["none"] < found["some"] < found["more"]


# --- bad input ----------------------------------------------------------------------------------------------------------


def nan_step(batch, generator):
    return batch * float("nan")


def fit(cls):
    return cls(**SMALL, max_iter=1).fit(IMAGES[:200])


BAD = {
    "a minimum of": lambda cls: cls(**SMALL).fit(IMAGES[:1]),
    "pass batch_size >= 2": lambda cls: cls(**{**SMALL, "batch_size": 1}).fit(IMAGES[:100]),
    "exceeds the 90 rows": lambda cls: cls(**{**SMALL, "batch_size": 500}).fit(IMAGES[:100]),
    "images have one size": lambda cls: cls(**SMALL).fit([np.zeros((1, 8, 8)), np.zeros((1, 9, 8))] * 50),
    "channels": lambda cls: fit(cls).transform(np.moveaxis(IMAGES, 1, 3)),
    "a view has the shape of the batch": lambda cls: cls(**SMALL, views=lambda x, rng: x[:, :, :4]).fit(IMAGES[:200]),
    "views: nan_step gives numbers": lambda cls: cls(**SMALL, views=nan_step).fit(IMAGES[:200]),
    "views=": lambda cls: cls(**SMALL, views=(Noise(), Noise(), Noise())).fit(IMAGES[:200]),
    "pass regions from 1 to 2": lambda cls: cls(**{**SMALL, "regions": 3}).fit(IMAGES[:200]),
    "net is a module": lambda cls: cls(**{**SMALL, "net": Own()}).fit(IMAGES[:200]),
    "count alike; leave it out": lambda cls: fit(cls).certify(IMAGES[:200], sample_weight=Y[:200]),
    "one label for each": lambda cls: fit(cls).certify(IMAGES[:200], Y[:10]),
}  # fmt: skip


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_answered_in_words(words):
    with pytest.raises(ValueError, match=words):
        BAD[words](VICReg)


def test_the_step_of_a_composition_that_gives_nan_is_named():
    from lemmata.nets.augmentation import Compose

    with pytest.raises(ValueError, match="views: nan_step gives"):
        BYOL(**SMALL, views=Compose([Noise(0.1), nan_step])).fit(IMAGES[:200])


@pytest.mark.parametrize("temperature", [0.0, -0.1, float("nan")])
def test_a_temperature_is_positive(temperature):
    with pytest.raises(ValueError, match="temperature"):
        SimCLR(**SMALL, temperature=temperature).fit(IMAGES[:200])


def test_a_batch_that_a_stopping_rule_holds_out_may_leave_one_row():
    # 210 rows: 21 are tested, 101 held out, so that batches of 50 leave one
    options = {**SMALL, "batch_size": 50, "early_stopping": True, "max_iter": 2}
    model = SimCLR(**options, validation_fraction=101 / 210).fit(IMAGES[:210])
    assert len(model.validation_rows_) == 101


def test_a_shell_learns_from_images_and_gives_their_features(tmp_path):
    data, model, out = tmp_path / "images.npz", tmp_path / "e.lemma", tmp_path / "z.npy"
    np.savez(data, images=IMAGES[:200, 0], labels=Y[:200])  # the only array of images is taken
    given = ("-s", "max_iter=1", "-s", "regions=1", "-s", "batch_size=50")
    assert "not_collapsed" in invoke("fit", "simclr", data, *given, "--save", model)
    invoke("transform", model, data, "--out", out)
    assert_array_equal(np.load(out), lemmata.load(model).transform(IMAGES[:200]))


def test_sounds_have_views_of_their_own_length():
    t = np.arange(600) / 600
    sounds = np.stack([np.sin(2 * np.pi * (5 + i % 40) * t) for i in range(60)])[:, None].astype("float32")  # fmt: skip
    options = {"net_options": {"widths": (4, 8)}, "regions": 2, "batch_size": 20, "max_iter": 1}
    model = SimCLR(**options, random_state=0).fit(sounds)
    assert model.transform(sounds).shape == (60, 16)
    assert "statements_true" in model.certify(sounds).held
