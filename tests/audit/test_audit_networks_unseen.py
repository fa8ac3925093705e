"""Rows held out from networks: accuracy, calibration, lines that would do; and what early stopping has looked at."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import lemmata  # noqa: E402
from lemmata.nets import NeuralClassifier, NeuralRegressor  # noqa: E402


def corners(n, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X.astype(dtype), ((X[:, 0] * X[:, 1] > 0) ^ (rng.random(n) < 0.05)).astype(int)


class Corner(nn.Module):
    """Right on 95 % of the corners; the sharpness is its confidence."""

    def __init__(self, sharpness=1.5, sign=1.0):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(sharpness))
        self.sign = sign

    def forward(self, x):
        z = self.scale * torch.sign(self.sign * x[:, 0] * x[:, 1])
        return torch.stack([-z, z], 1)


def found(net, name, n=800, test=None):
    X, y = corners(400, 0)
    X_test, y_test = corners(n, 1) if test is None else test
    return lemmata.certify(net, X, y, X_test=X_test, y_test=y_test)[name]


def test_held_out_accuracy_holds_fails_and_cannot_tell():
    good = found(Corner(), "held_out_accuracy")
    assert (good.verdict, good.strength) == ("holds", "statistical 95 %")
    assert 0.9 < good.measured < 0.95
    assert found(Corner(sign=-1.0), "held_out_accuracy").verdict == "fails"
    assert found(Corner(), "held_out_accuracy", n=4).verdict == "can't tell"


def test_rows_that_were_trained_on_say_nothing():
    assert "trained on" in found(Corner(), "held_out_accuracy", test=corners(400, 0)).note


def test_copies_of_a_few_rows_are_no_draws():
    X, y = corners(8, 2)
    again = np.tile(X, (50, 1)), np.tile(y, 50)
    assert "copies" in found(Corner(), "held_out_accuracy", test=again).note


def test_confidence_is_compared_with_hits():
    right = np.log(0.95 / 0.05) / 2
    assert found(Corner(right), "calibrated").verdict == "holds"
    shy = found(Corner(0.3), "calibrated")  # says 65 %, is right in 95 %
    assert (shy.verdict, "temperature" in shy.advice) == ("fails", True)
    assert found(Corner(right), "calibrated", n=30).verdict == "can't tell"


def test_a_corner_is_worth_a_network_and_a_line_is_not():
    assert found(Corner(), "beats_linear").verdict == "holds"
    rng = np.random.default_rng(0)
    X, X_test = rng.standard_normal((500, 2)), rng.standard_normal((4000, 2))
    y, y_test = ((rows[:, 0] > 0).astype(int) for rows in (X, X_test))
    tilted = nn.Linear(2, 2).double()
    with torch.no_grad():
        tilted.weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.4]]))
        tilted.bias.zero_()
    worse = lemmata.certify(tilted, X, y, X_test=X_test, y_test=y_test)["beats_linear"]
    assert (worse.verdict, "logistic regression" in worse.advice) == ("fails", True)


class Parabola(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x):
        return self.factor * x[:, :1] ** 2


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "holds"), (-1.0, "fails")])
def test_numbers_are_predicted_better_than_by_their_mean_and_by_a_line(factor, verdict):
    rng = np.random.default_rng(0)
    X, X_test = rng.standard_normal((300, 2)), rng.standard_normal((600, 2))
    y, y_test = (rows[:, 0] ** 2 + 0.1 * rng.standard_normal(len(rows)) for rows in (X, X_test))
    certificate = lemmata.certify(Parabola(factor), X, y, X_test=X_test, y_test=y_test)
    assert certificate["held_out_error"].verdict == verdict
    assert certificate["beats_ridge"].verdict == verdict


def test_without_searches_nobody_fits_a_line_to_compare_with():
    X, X_test = np.random.default_rng(0).standard_normal((2, 300, 2))
    numbers = {"y": X[:, 0] ** 2, "X_test": X_test, "y_test": X_test[:, 0] ** 2}
    with lemmata.config(searches=False):
        off = found(Corner(), "beats_linear"), lemmata.certify(Parabola(1.0), X, **numbers)["beats_ridge"]  # fmt: skip
    assert [(one.verdict, "no linear model was fitted" in one.note) for one in off] == [("can't tell", True)] * 2  # fmt: skip


def test_early_stopping_pays_for_every_checkpoint_that_it_could_compare():
    X, y = corners(600, 3)
    options = {"learning_rate": 0.03, "batch_size": 64, "net__widths": (32,), "random_state": 0}
    model = NeuralClassifier(max_iter=15, early_stopping=True, **options).fit(X, y)
    inside = model.certificate_["held_out_accuracy"]
    assert f"{len(model.validation_rows_)} rows, 16 checkpoints" in inside.note
    test = corners(600, 4)
    outside = model.certify(X, y, X_test=test[0], y_test=test[1])["held_out_accuracy"]
    assert outside.verdict == "holds"
    assert "checkpoints" not in outside.note
    assert outside.note == lemmata.certify(model, X, y, X_test=test[0], y_test=test[1])["held_out_accuracy"].note  # fmt: skip


def test_estimators_carry_five_claims_and_certify_the_rest():
    X, y = corners(200, 5, np.float32)
    model = NeuralClassifier(max_iter=3, net__widths=(8,), random_state=0).fit(X, y)
    assert len(model.certificate_) <= 6
    assert "pass X_test=" in model.certificate_["held_out_accuracy"].note
    assert {"gradients_true", "calibrated", "beats_linear"} <= {one.name for one in model.certify(X, y)}  # fmt: skip
    numbers = NeuralRegressor(max_iter=3, net__widths=(8,), random_state=0).fit(X, X[:, 0])
    assert {"held_out_error", "beats_ridge"} <= {one.name for one in numbers.certify(X, X[:, 0])}
    with pytest.raises(ValueError, match="together"):
        model.certify(X, y, X_test=X)


def test_a_mask_of_minus_infinity_is_sound_and_a_weight_that_is_not_finite_is_not():
    net = nn.Linear(2, 2)
    net.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
    X, y = corners(60, 6, np.float32)
    model = NeuralClassifier(net, max_iter=1, random_state=0).fit(X, y)
    assert model.certificate_["attributes_sound"].verdict == "holds"
    with torch.no_grad():
        model.module_.weight[0, 0] = torch.nan
    wrong = model.certify(X, y)["attributes_sound"]
    assert (wrong.verdict, wrong.note) == (
        "fails",
        "module_.weight has 1 numbers that are not finite",
    )


@pytest.mark.parametrize("kind", ["logistic", "ridge"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_bad_line_is_not_taken_for_a_regression(kind, classes):
    """What anything beats is no baseline: a line that did not arrive, or that nobody fitted, is seen."""
    from lemmata.audit.nets.unseen import LINE, excess_of_line
    from lemmata.nets.witness import linear_baseline

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.argmax(X[:, :classes] + 0.5 * rng.normal(size=(300, classes)), axis=1)
    weights = rng.integers(1, 4, size=300).astype(float)
    y = (
        y
        if kind == "logistic"
        else X @ rng.normal(size=(4, classes)) + rng.normal(size=(300, classes))
    )
    W, b = linear_baseline(None, kind, X, y, weights)
    assert excess_of_line(kind, X, y, weights, W, b) < 1e-4
    for other in (0.7 * W, np.zeros_like(W), -W):
        assert excess_of_line(kind, X, y, weights, other, b) > LINE
    moved = b + 2 * np.eye(len(b))[0]  # of one class: moving all scores alike changes nothing
    assert excess_of_line(kind, X, y, weights, W, moved) > LINE
