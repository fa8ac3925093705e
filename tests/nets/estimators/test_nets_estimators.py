"""NeuralClassifier and NeuralRegressor: scikit-learn's interface to any network, images at the door, files without pickles."""

import pickle
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import lemmata
from lemmata.core import StoreError
from lemmata.nets import FeedForward, NeuralClassifier, NeuralRegressor

DIGITS = load_digits()
IMAGES = (DIGITS.images[:300] * 15).astype(np.uint8)
LABELS = DIGITS.target[:300]
X = DIGITS.data[:300] / 16


class Filters(nn.Module):
    """A network of somebody else's: it keeps no config."""

    def __init__(self, input_shape, n_outputs, channels=4):
        super().__init__()
        self.first = nn.Conv2d(input_shape[0], channels, 3)
        self.last = nn.Linear(channels * (input_shape[1] - 2) * (input_shape[2] - 2), n_outputs)

    def forward(self, x):
        return self.last(self.first(x).relu().flatten(1))


def quick(net=None, **more):
    usual = {"max_iter": 8, "learning_rate": 0.01, "batch_size": 32, "random_state": 0}
    return NeuralClassifier(net, **{**usual, **more})


@pytest.fixture(scope="module")
def images():
    """A convolutional network fitted to bytes."""
    return quick(Filters, net__channels=6, layout="contiguous").fit(IMAGES, LABELS)


# --- parameters of the network ----------------------------------------------------------------------------------------


def test_parameters_of_the_network_are_searched_over_and_cloned():
    model = quick(FeedForward, net__widths=(4,))
    assert clone(model).get_params()["net__widths"] == (4,)
    search = GridSearchCV(model, {"net__widths": [(2,), (32,)], "weight_decay": [0.0]}, cv=2)
    with lemmata.config(certificate=False):
        search.fit(X[:200], LABELS[:200])
    assert search.best_params_["net__widths"] == (32,)
    assert search.best_estimator_.module_.config["widths"] == (32,)
    piped = make_pipeline(StandardScaler(), quick()).set_params(neuralclassifier__net__widths=(7,))
    assert piped.fit(X, LABELS)[-1].module_.config["widths"] == (7,)


def test_a_module_is_copied_and_training_begins_at_its_weights():
    net = FeedForward((64,), 10, widths=(16,)).double()
    before = [weight.clone() for weight in net.parameters()]
    model = quick(net, max_iter=1, learning_rate=1e-9).fit(X, LABELS)
    for mine, theirs in zip(net.parameters(), before, strict=True):
        assert torch.equal(mine, theirs)
    for trained, start in zip(model.module_.parameters(), before, strict=True):
        torch.testing.assert_close(trained, start, atol=1e-6, rtol=0)
    assert clone(model).net is not net


def test_unknown_and_unfitting_parameters_of_a_network_are_named():
    with pytest.raises(TypeError, match="no parameter 'widths'"):
        NeuralClassifier(FeedForward, widths=(3,))
    with pytest.raises(ValueError, match=r"FeedForward\(.*unexpected keyword argument 'depth'"):
        quick(net__depth=3).fit(X, LABELS)
    with pytest.raises(ValueError, match="built already; pass its class"):
        quick(FeedForward((64,), 10), net__widths=(3,)).fit(X, LABELS)
    with pytest.raises(TypeError, match="net is a int"):
        quick(3).fit(X, LABELS)
    with pytest.raises(ValueError, match="4 outputs for 10 classes; give it 10"):
        quick(FeedForward((64,), 4)).fit(X, LABELS)


# --- images -----------------------------------------------------------------------------------------------------------


def test_bytes_are_images_from_zero_to_one(images):
    assert images.input_shape_ == (1, 8, 8)
    assert images.score(IMAGES, LABELS) > 0.85
    rows = images.predict_proba(IMAGES)
    assert rows.dtype == np.float32
    scaled = IMAGES.astype(np.float32) / np.float32(255)
    np.testing.assert_allclose(images.predict_proba(scaled), rows, rtol=1e-5)
    np.testing.assert_allclose(images.predict_proba(scaled[:, None]), rows, rtol=1e-5)
    np.testing.assert_allclose(images.predict_proba(scaled.reshape(300, 64)), rows, rtol=1e-5)
    np.testing.assert_allclose(images.predict_proba(IMAGES.reshape(300, 64)), rows, rtol=1e-5)
    np.testing.assert_allclose(images.predict_proba(torch.from_numpy(IMAGES)), rows, rtol=1e-5)


def test_bytes_in_memory_in_a_file_and_as_floats_train_alike(images, tmp_path):
    mapped = np.memmap(tmp_path / "bytes", np.uint8, "w+", shape=IMAGES.shape)
    mapped[:] = IMAGES
    rows = IMAGES.reshape(300, 64).astype(np.float32) / np.float32(255)
    again = quick(Filters, net__channels=6, layout="contiguous").fit(mapped, LABELS)
    flat = quick(Filters, net__channels=6, layout="contiguous", input_shape=(1, 8, 8))
    for other in (again, flat.fit(rows, LABELS)):
        for name, tensor in images.module_.state_dict().items():
            torch.testing.assert_close(other.module_.state_dict()[name], tensor, rtol=1e-4, atol=1e-5)  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((20, 8, 8, 3), r"channels last.*X\.transpose\(0, 3, 1, 2\)"),
        ((20, 2, 2, 2, 2), "pass rows"),
    ],
)
def test_images_of_unknown_order_are_refused_at_fit(shape, message):
    with pytest.raises(ValueError, match=message):
        quick(Filters).fit(np.zeros(shape), np.arange(20) % 2)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((5, 8, 8, 1), "with the channels last; the model was fitted to inputs of shape"),
        ((5, 3, 8, 8), r"shape \(5, 3, 8, 8\).*\(1, 8, 8\)"),
        ((5, 9, 8), r"shape \(5, 9, 8\)"),
        ((5, 63), "63 features"),
    ],
)
def test_images_of_another_shape_are_refused_at_predict(images, shape, message):
    with pytest.raises(ValueError, match=message):
        images.predict(np.zeros(shape, np.float32))


def test_what_the_network_does_not_take_is_said():
    with pytest.raises(ValueError, match=r"input_shape=\(1, 7, 7\) has 49"):
        quick(Filters, input_shape=(1, 7, 7)).fit(X, LABELS)
    with pytest.raises(ValueError, match=r"Filters.*tuple index|does not take"):
        quick(Filters).fit(X, LABELS)
    with pytest.raises(ValueError, match="gives 12 outputs for 10 classes; give it 10"):
        quick(nn.Linear(64, 12).double()).fit(X, LABELS)
    with pytest.raises(ValueError, match="1 output for 2 classes; give it 2, or one with loss="):
        quick(nn.Linear(64, 1).double()).fit(X, LABELS > 4)
    with pytest.raises(ValueError, match="batch_size=500 exceeds the 300 rows"):
        quick(batch_size=500).fit(X, LABELS)


# --- how a fit goes ---------------------------------------------------------------------------------------------------


def test_history_is_a_table_of_epochs():
    model = quick(early_stopping=True, schedule="cosine", max_iter=5).fit(X, LABELS)
    table = model.history_.to_frame()
    assert list(table) == ["epoch", "loss", "validation_loss", "validation_score", "rate", "seconds"]  # fmt: skip
    assert table["epoch"].tolist() == [0, 1, 2, 3, 4, 5]
    assert (np.diff(table["rate"][1:]) < 0).all()
    assert (np.diff(table["seconds"]) >= 0).all()
    assert table["validation_score"].between(0, 1).all()
    assert model.history_[2]["loss"] == table["loss"][2]
    assert "validation_loss" in str(model.history_)


def test_early_stopping_ends_without_improvement_and_shows_the_best_epoch():
    rng = np.random.default_rng(0)
    noise, labels = rng.normal(size=(120, 30)), rng.integers(0, 2, 120)
    model = quick(early_stopping=True, validation_fraction=0.25, n_iter_no_change=3, max_iter=99)
    model.fit(noise, labels)
    assert model.stopped_ == "no improvement"
    losses = model.history_["validation_loss"]
    assert losses.argmin() == len(losses) - 4
    _, held = model._split(model._validate_rows(noise, reset=False))
    p = model.predict_proba(noise[held])[np.arange(30), labels[held]]
    assert -np.log(p).mean() == pytest.approx(losses.min(), rel=1e-10)
    assert model.best_validation_score_ == model.score(noise[held], labels[held])
    assert model.best_validation_score_ == model.history_["validation_score"][losses.argmin()]


@pytest.mark.parametrize("numbers", [False, True])
def test_what_early_stopping_states_is_checked(numbers):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(150, 4)).astype(np.float32)
    y = rows[:, 0] if numbers else (rows[:, 0] > 0).astype(int)
    weights = rng.uniform(0.5, 2, 150)
    kind = NeuralRegressor if numbers else NeuralClassifier
    model = kind(
        early_stopping=True, max_iter=8, learning_rate=0.02, net__widths=(), random_state=0
    )
    model.fit(rows, y, sample_weight=weights)
    held = model.validation_rows_
    again = model.score(rows[held], y[held], weights[held])
    assert model.best_validation_score_ == pytest.approx(again, rel=1e-5)
    true = model.certify(rows, y, weights)["statements_true"]
    assert true.verdict == "holds"
    assert "best_validation_score_, history_ (loss)" in true.note

    def found(names):
        verdict = model.certify(rows, y, weights)["statements_true"]
        return verdict.verdict == "fails" and verdict.advice.startswith(names)

    stated = model.best_validation_score_
    model.best_validation_score_ = stated - 1 / len(held) / 2
    assert found("best_validation_score_")
    model.best_validation_score_ = stated
    model.trace_._extras["validation_loss"][int(model.history_["validation_loss"].argmin())] *= 0.5
    assert found("history_ (loss)")


def test_a_network_is_told_when_a_constant_does_better():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3))
    for model, y in (
        (NeuralClassifier(max_iter=20, learning_rate=0.1, net__widths=(), random_state=0), (rows[:, 0] > 0).astype(int)),
        (NeuralRegressor(max_iter=20, learning_rate=0.1, net__widths=(), random_state=0), rows[:, 0]),
    ):  # fmt: skip
        better = model.fit(rows, y).certificate_["beats_constant"]
        assert (better.verdict, better.measured < 0.9) == ("holds", True)
        with torch.no_grad():
            list(model.module_.parameters())[-2].mul_(-3)  # the last matrix, upside down
        worse = model.certify(rows, y)["beats_constant"]
        assert (worse.verdict, worse.measured > 1, "train longer" in worse.advice) == ("fails", True, True)  # fmt: skip


def test_callbacks_see_every_epoch():
    seen = []
    quick(max_iter=3, callbacks=[lambda solution: seen.append(solution.step)]).fit(X, LABELS)
    assert seen == [1, 2, 3]


def test_batches_go_on_from_each_other_with_the_memory_of_the_optimiser():
    model = quick(max_iter=1)
    for _ in range(8):
        model.partial_fit(X, LABELS, classes=np.arange(10))
    # the same eight epochs in one fit: the same seed, the same batches
    assert model.predict_proba(X).tobytes() == quick(max_iter=8).fit(X, LABELS).predict_proba(X).tobytes()  # fmt: skip
    few = quick().partial_fit(X[:40][LABELS[:40] < 3], LABELS[:40][LABELS[:40] < 3], classes=range(10))  # fmt: skip
    assert few.predict_proba(X).shape == (300, 10)
    with pytest.raises(ValueError, match="the label 11"):
        few.partial_fit(X[:3], [1, 2, 11])
    assert few.stopped_ == "batches"


def test_a_warm_start_begins_where_the_last_fit_ended():
    model = quick(warm_start=True, max_iter=10).fit(X, LABELS)
    before = model.loss_
    assert model.fit(X, LABELS).history_["loss"][0] < 3 * before
    assert model.loss_ < before


def test_weights_of_classes_and_rows_say_how_much_they_count():
    plain, heavy = quick(max_iter=3), quick(max_iter=3, class_weight={3: 50.0})
    assert (heavy.fit(X, LABELS).predict(X) == 3).sum() > (plain.fit(X, LABELS).predict(X) == 3).sum() + 10  # fmt: skip
    by_rows = quick(max_iter=3).fit(X, LABELS, sample_weight=np.where(LABELS == 3, 50.0, 1.0))
    np.testing.assert_allclose(by_rows.predict_proba(X), heavy.predict_proba(X), rtol=1e-9)


def test_one_output_and_two_are_the_same_for_two_classes_in_kind():
    two = LABELS < 5
    model = quick(loss="bce", net__widths=(16,), learning_rate=0.03).fit(X, two)
    assert model.module_(torch.from_numpy(X)).shape == (300, 1)
    assert model.score(X, two) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1.0)
    assert model.certify(X, two)["statements_true"].verdict == "holds"
    with pytest.raises(ValueError, match="two classes"):
        quick(loss="bce").fit(X, LABELS)
    with pytest.raises(ValueError, match="label_smoothing"):
        quick(loss="bce", label_smoothing=0.1).fit(X, two)


def test_smoothed_labels_keep_probabilities_from_the_edge():
    options = {"max_iter": 10, "learning_rate": 0.03, "net__widths": (32,)}
    sharp, soft = (quick(label_smoothing=e, **options).fit(X, LABELS) for e in (0.0, 0.3))
    assert soft.predict_proba(X).max(1).mean() < 0.9 < sharp.predict_proba(X).max(1).mean()


def test_one_number_and_several_are_predicted_in_their_own_shape():
    y = np.stack([X[:, 20] + X[:, 30], X[:, 21] * X[:, 35]], axis=1)
    options = {"learning_rate": 0.01, "batch_size": 32, "net__widths": (32,), "random_state": 0}
    many = NeuralRegressor(max_iter=20, **options).fit(X, y)
    one = NeuralRegressor(max_iter=2, **options).fit(X, y[:, 0])
    assert many.predict(X).shape == (300, 2)
    assert one.predict(X).shape == (300,)
    assert many.score(X, y) > 0.6
    assert one.loss_ == pytest.approx(np.mean((one.predict(X) - y[:, 0]) ** 2), rel=1e-12)
    robust = NeuralRegressor(loss="huber", max_iter=2, **options).fit(X, y[:, 0])
    assert robust.loss_ == pytest.approx(np.mean((robust.predict(X) - y[:, 0]) ** 2), rel=1e-12)


def test_the_certificate_notices_weights_that_were_changed():
    model = quick(max_iter=2, net__widths=()).fit(X, LABELS)
    assert {"attributes_sound", "statements_true"} <= set(model.certify(X, LABELS).held)
    with torch.no_grad():
        model.module_.layers[1].weight[0, 20] += 0.5
    assert "statements_true" in model.certify(X, LABELS).failed
    with torch.no_grad():
        model.module_.layers[1].weight[0, 20] = torch.nan
    assert model.certify(X, LABELS).failed == ["attributes_sound"]


# --- files and copies -------------------------------------------------------------------------------------------------


def test_a_file_holds_name_config_and_weights(tmp_path):
    from lemmata.nets import CrossEntropy

    model = quick(FeedForward, net__widths=(8,), loss=CrossEntropy(0.1), max_iter=2).fit(X, LABELS)
    lemmata.save(model, tmp_path / "m")
    back = lemmata.load(tmp_path / "m")
    assert back.net is FeedForward
    assert back.loss == CrossEntropy(0.1)
    assert back.get_params()["net__widths"] == (8,)
    assert back.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    assert back.history_["loss"].tobytes() == model.history_["loss"].tobytes()
    assert back.fit(X, LABELS).predict_proba(X).tobytes() == model.predict_proba(X).tobytes()


def test_a_network_of_another_class_is_passed_to_load(images, tmp_path):
    lemmata.save(images, tmp_path / "m")
    assert b"Filters" in (tmp_path / "m").read_bytes()
    with pytest.raises(StoreError, match=r"lemmata\.load\(path, net=Filters\)"):
        lemmata.load(tmp_path / "m")
    back = lemmata.load(tmp_path / "m", net=Filters)
    assert back.predict_proba(IMAGES).tobytes() == images.predict_proba(IMAGES).tobytes()
    with pytest.raises(StoreError, match="these weights are not those of this Filters"):
        lemmata.load(tmp_path / "m", net=Filters, net__channels=5)


def test_an_instance_and_functions_in_files(tmp_path):
    model = quick(FeedForward((64,), 10, widths=(5,)), augment=lambda x, rng: x, max_iter=1)
    lemmata.save(model.fit(X, LABELS), tmp_path / "m")
    back = lemmata.load(tmp_path / "m")
    assert back.augment is None  # a function of nobody we know; predicting needs none
    assert back.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    for mine, theirs in zip(back.net.parameters(), model.net.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_file_cannot_ask_for_a_network_out_of_proportion(tmp_path):
    from lemmata.nets.estimators.storage import Network

    found = Network.of(FeedForward((2,), 2, widths=(3,)))
    huge = Network(found.name, {**found.config, "widths": (10**9,)}, found.tensors)
    with pytest.raises(ValueError, match="a size of 1,000,000,000"):
        huge.build()
    stranger = Network("Popen", {"args": "ls"}, found.tensors)
    with pytest.raises(ValueError, match="not one of lemmata's"):
        stranger.build()


def test_pickles_and_copies_predict_the_same(images):
    back = pickle.loads(pickle.dumps(images))
    assert back.predict_proba(IMAGES).tobytes() == images.predict_proba(IMAGES).tobytes()


def test_without_torch_the_error_names_the_extra(monkeypatch):
    model = NeuralClassifier()
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match=r"NeuralClassifier needs torch.*lemmata\[deep\]"):
        model.fit(X, LABELS)
