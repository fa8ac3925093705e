"""What each of two processes does in test_nets_distributed.py: train on its part of every batch, write what came out."""

import sys

import numpy as np
import torch
from torch import nn

from lemmata.core import Seconds
from lemmata.nets import Rows, Training, processes, train

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 4))
Y = RNG.integers(0, 3, 50)
WEIGHTS = RNG.random(50)


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def trained(batch_size, epochs=3, **more):
    """Fifty rows in batches of twelve: the last has two, one for each process."""
    options = {"batch_size": batch_size, "clip": 1.0, "ema": 0.9, "epochs": 6, "schedule": "cosine"}
    training = Training(net, "cross_entropy", **options)
    return train(training, Rows(X, Y, weights=WEIGHTS), epochs=epochs, rng=1, **more)


def main(folder):
    with processes() as share:
        torch.manual_seed(share.rank)  # what processes did before does not matter
        whole = trained(12)
        trained(12, epochs=2, checkpoint=f"{folder}/run")
        resumed = trained(12, checkpoint=f"{folder}/run", stop=Seconds(600 - share.rank))
        assert all(np.array_equal(whole.state.model[k], v) for k, v in resumed.state.model.items())
        np.savez(f"{folder}/{share.rank}.npz", loss=whole.trace.objective, **whole.state.model)


if __name__ == "__main__":
    main(sys.argv[1])
