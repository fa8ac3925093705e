"""Pretext tasks: what is asked is what was hidden, the answers are in the data, and their networks are encoders."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from lemmata.nets.augmentation import turn_quarters
from lemmata.selfsup import Continued, Masked, Turned, pretrain, probe

DATA = load_digits()
IMAGES, Y = (DATA.images[:, None] / 16).astype("float32"), DATA.target
X = torch.from_numpy(IMAGES[:200])
TASKS = [Turned(), Masked(0.5, 2), Continued(0.5)]


def rng():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("task", [Masked(0.3, 3), Continued(0.4)])
def test_what_is_asked_is_hidden_and_nothing_else_is(task):
    x_in, x_out = task(X, rng())
    asked = ~x_out.isnan()
    assert torch.equal(x_out[asked], X[asked])
    assert torch.equal(x_in[~asked], X[~asked])
    assert (x_in[asked] == 0).all()
    assert abs(asked.float().mean() - (0.3 if isinstance(task, Masked) else 0.5)) < 0.05
    answer = X.flatten(1).clone().requires_grad_(True)
    assert (task.measure(answer, x_out) == 0).all()
    # what is in view is not asked
    wrong = answer + 3 * (~asked).flatten(1)
    task.measure(wrong, x_out).sum().backward()
    assert (answer.grad == 0).all()
    some = asked.flatten(1).any(1).float()  # of few images nothing is hidden
    torch.testing.assert_close(task.measure(answer + 2, x_out), 4 * some)


def test_turning_back_by_the_answer_gives_the_image():
    x_in, k = Turned()(X, rng())
    assert torch.equal(turn_quarters(x_in, -k), X)
    assert set(k.tolist()) == {0, 1, 2, 3}
    sure = 50 * torch.nn.functional.one_hot(k, 4).float()
    assert Turned().measure(sure, k).max() < 1e-6


def test_sounds_have_patches_and_ends():
    sounds = torch.rand(5, 1, 100, generator=rng())
    for task in (Masked(0.5, 10), Continued(0.7)):
        x_in, x_out = task(sounds, rng())
        assert x_in.shape == x_out.shape == sounds.shape
    assert x_out[0, 0].isnan().sum() == 70


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_tasks_are_solved_better_after_training_and_give_encoders(task):
    options = {"regions": 2, "widths": (8, 16), "random_state": 0}
    encoder = pretrain("ConvNet", IMAGES[:1000], task, epochs=3, **options)
    assert encoder(X).shape == (200, 64)
    again = pretrain("ConvNet", IMAGES[:1000], task, epochs=3, **options)
    assert torch.equal(encoder(X), again(X))
    if isinstance(task, Turned):
        found = probe(encoder, IMAGES[:1000], Y[:1000], IMAGES[1000:], Y[1000:], labels=200)
        assert found.rows[0].accuracy > 0.7


def test_bad_tasks_are_refused_in_words():
    with pytest.raises(ValueError, match="a share in"):
        Masked(1.0)
    with pytest.raises(ValueError, match="a share in"):
        Continued(0.0)
    with pytest.raises(ValueError, match="square images"):
        pretrain("ConvNet", np.zeros((40, 8, 9)), Turned(), epochs=1, regions=1, widths=(4,))
    with pytest.raises(ValueError, match="pass images"):
        pretrain("FeedForward", np.zeros((40, 9)), Masked())
