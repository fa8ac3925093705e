"""Training: a network, a loss and data become an algorithm of the one loop that runs every fit.

algorithm.py    Training: init and step
running.py      train(), and rules that end a run
trainer.py      the network in training: one update of its weights; the state that a checkpoint holds
rules.py        which gradients make an update: descent, or a game of two players
losses.py       objectives: names, functions, objectives of a whole network; which layer gave the first NaN
optimisers.py   torch's, behind our names; the learning rate of every update
counting.py     the work of a batch in counted operations
transfer.py     weights of another network to begin at, frozen layers, rates by layer
devices.py      device, precision and layout; torch's generator; several processes
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "algorithm": "Training",
        "running": "ByEpoch NoImprovement NoValidationGain train",
        "trainer": "TrainingState",
        "losses": "Objective Terms objective CrossEntropy Huber",
        "rules": "Alternating Extragradient LossDescent Players Synchronous",
        "optimisers": "WarmUp OneCycle",
        "transfer": "Transfer",
        "devices": "processes",
    },
    extra=("torch", "deep"),
)
