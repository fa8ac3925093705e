"""Training on the worst rows that an attack finds: they are legal, they cost more, what learns from them withstands more."""

import sys

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import lemmata
from lemmata import NeuralClassifier
from lemmata.core.files import encoding
from lemmata.trust import AdversarialTraining, Ball, attack

X, Y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))


@pytest.mark.parametrize("norm", ["inf", 2])
@pytest.mark.parametrize(("steps", "trades"), [(1, None), (3, None), (2, 6.0)])
def test_rows_move_within_their_balls_to_where_the_loss_is_larger(norm, steps, trades):
    net, x, y = build(), torch.from_numpy(X[:64]), torch.from_numpy(Y[:64])
    training = AdversarialTraining(Ball(0.2, norm=norm), steps, trades)
    moved = training.perturb(net, x, y, torch.Generator().manual_seed(0))
    assert net.training  # and the attack was made without dropout
    net.eval()
    length = np.linalg.norm((moved - x).numpy(), ord=np.inf if norm == "inf" else 2, axis=1)
    assert (length <= 0.2 * (1 + 1e-5)).all()
    assert 0 <= float(moved.min()) <= float(moved.max()) <= 1
    drawn = torch.from_numpy(training.ball.draw(X[:64], np.random.default_rng(0)))

    def cost(rows):
        """The loss of TRADES is how far the answers are from those at x."""
        with torch.no_grad():
            if trades is None:
                return nn.functional.cross_entropy(net(rows), y)
            p = net(x).softmax(1)
            return (p * (p.log() - net(rows).log_softmax(1))).sum(1).mean()

    assert cost(moved) > max(cost(drawn), cost(x))


def test_what_was_trained_so_withstands_more_and_can_be_stored(tmp_path, monkeypatch):
    ball, right = Ball(0.12), {}
    for loss in ("cross_entropy", AdversarialTraining(ball)):
        model = NeuralClassifier(
            loss=loss, max_iter=8, learning_rate=3e-3, batch_size=64, random_state=0
        )
        model.fit(X[:1000], Y[:1000])
        found = attack(model, X[1000:1200], Y[1000:1200], ball, "pgd-margin", restarts=1, steps=10)
        right[str(loss)[:5]] = found.robust_accuracy
    assert right["Adver"] > right["cross"] + 0.1
    path = tmp_path / "robust.lemma"
    lemmata.save(model, path)
    # as in a process that has not imported it
    monkeypatch.delitem(encoding._STORABLE, "AdversarialTraining")
    monkeypatch.delitem(sys.modules, "lemmata.trust.robust.training")
    again = lemmata.load(path)
    assert again.loss.ball == ball
    np.testing.assert_array_equal(again.predict(X[:50]), model.predict(X[:50]))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"steps": 0}, "steps=0"), ({"trades": -1}, "trades=-1"), ({"ball": 0.1}, "ball is a float")],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises((TypeError, ValueError), match=message):
        AdversarialTraining(**{"ball": Ball(0.1), **parameters})
