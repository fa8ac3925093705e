"""The base of estimators without y: a toy density is fitted, resumed and certified; modules inside of modules in files."""

import numpy as np
import pytest
import torch
from torch import nn

from lemmata.audit.kernel.attributes import attributes_sound
from lemmata.audit.nets.stated import unsound_network
from lemmata.core.blocks import Blocks
from lemmata.nets import Autoencoder, NeuralClassifier, Terms
from lemmata.nets.estimators import storage
from lemmata.nets.estimators.neural import Neural, rows_to_state
from lemmata.nets.estimators.storage import Network
from lemmata.nets.training import counting

RNG = np.random.default_rng(0)
X = 3 + 2 * RNG.normal(size=(300, 2))


class Offset(nn.Module):
    """x ↦ x + b, a transform inside of another network's config."""

    def __init__(self, width: int):
        super().__init__()
        self.config = {"width": width}
        self.b = nn.Parameter(torch.zeros(width))


class Normal(nn.Module):
    """ln N(x; Σ b, s²) with its own loss."""

    refuses_bfloat16 = "a log-density is a small difference of large numbers"

    def __init__(self, input_shape: tuple[int, ...], transforms: list[nn.Module]):
        super().__init__()
        self.config = {"input_shape": tuple(input_shape), "transforms": list(transforms)}
        self.transforms, self.log_scale = nn.ModuleList(transforms), nn.Parameter(torch.zeros(()))

    def log_prob(self, x):
        z = (x - sum(one.b for one in self.transforms)) / self.log_scale.exp()
        return -(0.5 * z.square() + self.log_scale + 0.5 * np.log(2 * np.pi)).sum(1)

    def loss(self, x):
        return Terms(-self.log_prob(x), {"scale": self.log_scale.exp()})


class ToyDensity(Neural):
    """Normals with one variance, by gradient."""

    claims = (attributes_sound({"loss_": ""}, unsound_network),)

    def _network(self, data):
        width = self.input_shape_[0]
        return self._begin_with(lambda: Normal(self.input_shape_, [Offset(width), Offset(width)]))

    def _loss(self):
        return "module"

    def score_samples(self, X):
        return self._apply(X, lambda rows: self._run_network(rows, self.input_shape_, "log_prob")[:, 0])  # fmt: skip


def toy(**more):
    options = {"max_iter": 30, "learning_rate": 0.05, "batch_size": 50, "random_state": 0}
    return ToyDensity(**{**options, **more})


def true_loss():
    """−ln N(x; x̄, s²) per row with the best s, which is what the fit approaches."""
    return np.log(2 * np.pi * np.square(X - X.mean(0)).mean()) + 1


def test_a_model_without_y_trains_states_its_loss_and_scores():
    model = toy().fit(X)
    assert model.n_iter_ == 30
    np.testing.assert_allclose(model.loss_, -model.score_samples(X).mean(), rtol=1e-12)
    assert 0 < model.loss_ - true_loss() < 0.05
    assert list(model.history_) == ["epoch", "loss", "rate", "seconds"]
    np.testing.assert_allclose(model.trace_.last("scale"), np.exp(model.module_.log_scale.item()), rtol=0.05)  # fmt: skip
    assert model.certificate_["attributes_sound"].verdict == "holds"
    assert model.certify(X, X_test=X + 1)["attributes_sound"].verdict == "holds"
    stopped = toy(early_stopping=True, max_iter=5).fit(X)
    assert len(stopped.validation_rows_) == 30
    assert "validation_loss" in stopped.history_
    with pytest.raises(ValueError, match="a small difference of large numbers"):
        toy(precision="bfloat16").fit(X)
    again = toy(warm_start=True, max_iter=1).fit(X)
    assert again.fit(X).loss_ < toy(max_iter=1).fit(X).loss_


def test_epochs_are_counted_and_resumed_where_steps_are_shorter(tmp_path, monkeypatch):
    whole = toy(max_iter=4).fit(X)
    monkeypatch.setattr(counting, "STEP", 2e-4)
    path, seen = tmp_path / "run", []

    def interrupt(solution):
        seen.append(solution.step)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted"):
        cut = toy(max_iter=4, checkpoint=path, callbacks=[interrupt]).fit(X)
    assert (cut.stopped_, cut.n_iter_) == ("interrupted", 1)
    model = toy(max_iter=4, checkpoint=path, callbacks=[interrupt]).fit(X)
    assert (model.n_iter_, len(model.history_["loss"])) == (4, 5)
    assert len(model.trace_) > 5
    assert model.loss_ == whole.loss_
    assert model.history_["loss"].tobytes() == whole.history_["loss"].tobytes()
    part = toy().partial_fit(X).partial_fit(X)  # an epoch each
    assert part.n_iter_ == 2


def test_what_a_fit_states_is_of_at_most_two_thousand_rows_of_positive_weight():
    data = Blocks.of(np.arange(9000.0)[:, None])
    rows, targets, weights = rows_to_state(data)
    assert (len(rows), len(np.unique(rows)), targets, weights) == (2000, 2000, None, None)
    few = np.zeros(9000)
    few[[5, 700, 8000]] = 1, 2, 3
    rows, _, weights = rows_to_state(data.weighted(few).with_targets(np.arange(9000)))
    assert (rows.ravel().tolist(), weights.tolist()) == ([5, 700, 8000], [1, 2, 3])
    big = RNG.normal(size=(2500, 3))
    y = (big[:, 0] > 0).astype(int)
    net = NeuralClassifier(max_iter=2, random_state=0).fit(big, y)
    assert net.certify(big, y)["statements_true"].verdict == "holds"
    assert Autoencoder(1, max_iter=2).fit(big).certify(big)["statements_true"].verdict == "holds"
    net.loss_ *= 1.01
    assert net.certify(big, y)["statements_true"].verdict == "fails"


@pytest.fixture
def ours(monkeypatch):
    """The networks of this file, as if a package of lemmata had them."""
    monkeypatch.setattr(storage, "HOMES", (*storage.HOMES, "tests_of_networks"))
    import sys
    import types

    home = types.ModuleType("tests_of_networks")
    home.__all__ = ["Normal", "Offset"]
    home.Normal, home.Offset = Normal, Offset
    monkeypatch.setitem(sys.modules, "tests_of_networks", home)
    usual = storage._exists
    monkeypatch.setattr(storage, "_exists", lambda name: name == "tests_of_networks" or usual(name))


def test_modules_inside_of_a_config_come_back_with_their_weights(ours):
    module = Normal((2,), [Offset(2), Offset(2)])
    nn.init.normal_(module.transforms[1].b)
    stored = Network.of(module)
    assert [part.name for part in stored.config["transforms"]] == ["Offset", "Offset"]
    back = stored.build()
    x = torch.randn(5, 2)
    assert torch.equal(back.log_prob(x), module.log_prob(x))
    model = toy(max_iter=2).fit(X)
    again = ToyDensity.restored(model.stored_parameters(), model.stored_attributes())
    assert np.array_equal(again.score_samples(X), model.score_samples(X))


def test_forged_modules_inside_of_a_config_are_refused(ours):
    stored = Network.of(Normal((2,), [Offset(2)]))

    def forged(*parts):
        config = {**stored.config, "transforms": list(parts)}
        return Network(stored.name, config, stored.tensors)

    for part, why in (
        (Network("Offset", {"width": 10**9}, {}), "size of 1,000,000,000"),
        (Network("Offset", {"width": 4000}, {}), "more weights than"),
        (Network("Popen", {"args": "ls"}, {}), "not one of lemmata's"),
        (Network("Offset", None, {}), "not one of lemmata's"),
        ({"width": 2}, "is a dict"),
    ):
        with pytest.raises(ValueError, match=why):
            forged(part).build()
    with pytest.raises(ValueError, match="not those of this Normal"):
        forged(Network("Offset", {"width": 1}, {})).build()
    with pytest.raises(ValueError, match="parts"):
        forged(*[Network("Offset", {"width": 1}, {})] * 5000).build()
