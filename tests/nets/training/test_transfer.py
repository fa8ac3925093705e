"""Transfer: weights of another network, frozen layers, rates by layer; nothing of it in files."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import lemmata
from lemmata.nets import NeuralClassifier, Training, Transfer
from lemmata.nets.training.optimisers import make_optimizer

X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
SMALL = {"net__widths": (8,), "max_iter": 2, "batch_size": 20, "random_state": 0}


@pytest.fixture(scope="module")
def source():
    with lemmata.config(certificate=False):
        return NeuralClassifier(**SMALL).fit(X, Y)


def fit(transfer, **more):
    with lemmata.config(certificate=False):
        return NeuralClassifier(**{**SMALL, **more}, transfer=transfer).fit(X, Y)


def weights(model):
    return {name: one.numpy().copy() for name, one in model.module_.state_dict().items()}


@pytest.mark.parametrize("kind", ["model", "module", "path"])
def test_training_begins_at_the_weights_of_the_source(source, kind, tmp_path):
    lemmata.save(source, tmp_path / "m.lemma")
    given = {"model": source, "module": source.module_, "path": tmp_path / "m.lemma"}[kind]
    model = fit(Transfer(given, rates={"*": 0.0, list(weights(source))[-1]: 1.0}))
    old, new = weights(source), weights(model)
    same = [np.array_equal(old[name], new[name]) for name in old]
    assert all(same[:-1])
    assert not same[-1]


def test_a_layer_of_another_shape_is_new_and_the_rest_is_taken(source):
    with lemmata.config(certificate=False):
        three = NeuralClassifier(
            **{**SMALL, "max_iter": 1}, learning_rate=1e-12, transfer=Transfer(source)
        )
        three.fit(X, np.arange(60) % 3)
    old, new = weights(source), weights(three)
    names = [name for name in old if old[name].shape == new[name].shape]
    assert 0 < len(names) < len(old)
    assert all(np.allclose(old[name], new[name], atol=1e-9) for name in names)


def test_a_factor_scales_the_steps_of_its_weights_alone():
    net = torch.nn.Linear(3, 2)
    before = {name: w.detach().clone() for name, w in net.named_parameters()}
    training = Training(net, "cross_entropy", "sgd", 0.5, batch_size=60, rates={"weight": 0.25})
    plain = Training(net, "cross_entropy", "sgd", 0.5, batch_size=60)
    steps = []
    for one in (training, plain):
        state = one.init((X[:, :3], Y), np.random.default_rng(0))
        steps.append(
            {
                name: w - before[name].numpy()
                for name, w in one.step(state, (X[:, :3], Y)).model.items()
            }
        )
    assert_allclose(steps[0]["weight"], 0.25 * steps[1]["weight"], rtol=1e-4)
    assert_allclose(steps[0]["bias"], steps[1]["bias"], rtol=1e-6)


def test_frozen_weights_get_no_gradient_and_no_group():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    groups = make_optimizer("adamw", net, 0.1, 0.01, {}, {"0.*": 0.5}).param_groups
    assert sorted(group["factor"] for group in groups) == [0.5, 0.5, 1.0, 1.0]
    assert {group["weight_decay"] for group in groups} == {0.0, 0.01}


def test_a_model_is_saved_without_its_source(source, tmp_path):
    model = fit(Transfer(source))
    lemmata.save(model, tmp_path / "m.lemma")
    back = lemmata.load(tmp_path / "m.lemma")
    assert back.transfer is None
    assert np.array_equal(back.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("transfer", "error", "message"),
    [
        (lambda s: Transfer(np.ones(3)), TypeError, "without a network"),
        (lambda s: Transfer(torch.nn.Conv2d(1, 1, 3)), ValueError, "no weight of the source"),
        (lambda s: Transfer(s, rates={"layer9.*": 0.1}), ValueError, "'layer9.*', which is no weight"),
        (lambda s: Transfer(s, rates={"*": -1}), ValueError, "finite number >= 0"),
        (lambda s: Transfer(s, rates={"*": 0}), ValueError, "no weight to train"),
        (lambda s: 3, ValueError, "transfer"),
    ],
)  # fmt: skip
def test_what_cannot_be_transferred_is_refused(source, transfer, error, message):
    with pytest.raises(error, match=message):
        fit(transfer(source))
