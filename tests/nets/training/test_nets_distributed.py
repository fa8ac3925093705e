"""Two processes give the weights of one with the whole batch, to rounding."""

import os
import signal
import socket
import time
import traceback

import numpy as np
import torch
from torch import nn

from lemmata.core import Seconds
from lemmata.nets import Rows, Terms, Training, objective, processes, train

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 4))
Y = RNG.integers(0, 3, 50)
WEIGHTS = RNG.random(50)


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def trained(epochs=3, **more):
    """Fifty rows in batches of twelve: the last has two, one for each process."""
    options = {"batch_size": 12, "clip": 1.0, "ema": 0.9, "epochs": 6, "schedule": "cosine"}
    training = Training(net, "cross_entropy", **options)
    return train(training, Rows(X, Y, weights=WEIGHTS), epochs=epochs, rng=1, **more)


def counted(**more):
    """Rows that count for one, two or three; the last batch has one row, so that one process has none."""

    @objective
    def summing(net, batch, rng):
        x, n = batch
        return Terms((net(x).square().sum(1) - 1).square() * n, {"first": x[:, 0]}, counts=n)

    training = Training(net, summing, optimizer="sgd", learning_rate=0.01, batch_size=7)
    return train(training, Rows(X, 1 + Y, weights=WEIGHTS), epochs=2, rng=1, **more)


def work(folder):
    """What each of the two does: train, train with a checkpoint in between, write what came out."""
    with processes() as share:
        assert share.size == 2
        torch.manual_seed(share.rank)  # what a process did before does not matter
        whole, sums = trained(), counted()
        trained(epochs=2, checkpoint=folder / "run")
        resumed = trained(checkpoint=folder / "run", stop=Seconds(600 - share.rank))
        assert all(np.array_equal(whole.state.model[k], v) for k, v in resumed.state.model.items())
        weights = whole.state.model | {f"counted {k}": v for k, v in sums.state.model.items()}
        traces = {"loss": whole.trace.objective, "counted": sums.trace.objective}
        np.savez(
            folder / f"{share.rank}.npz", **weights, **traces, first=sums.trace.extras["first"]
        )


def started(rank, port, folder):
    """A forked process that believes torchrun started it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.environ.update(
                WORLD_SIZE="2", RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
            )
            work(folder)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def ended(child, seconds=300):
    """How a process ended; one that did not is killed."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hung"


def test_two_processes_train_as_one(tmp_path):
    alone, sums = trained(), counted()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = [started(rank, port, tmp_path) for rank in range(2)]
    assert [ended(child) for child in children] == [0, 0]
    one, other = (np.load(tmp_path / f"{rank}.npz") for rank in range(2))
    for name, array in alone.state.model.items():
        assert np.array_equal(one[name], other[name])
        np.testing.assert_allclose(one[name], array, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one["loss"], alone.trace.objective, rtol=1e-10)
    for name, array in sums.state.model.items():
        np.testing.assert_allclose(one[f"counted {name}"], array, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(one["counted"], sums.trace.objective, rtol=1e-11)
    np.testing.assert_allclose(one["first"], sums.trace.extras["first"], rtol=1e-11)
