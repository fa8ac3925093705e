"""Training: a network, a loss and data become an algorithm of the one loop that runs every fit.

algorithm.py    Training, and train(): init and step
trainer.py      the network in training: one update of its weights; the state that a checkpoint holds
losses.py       objectives: names, functions, objectives of a whole network; which layer gave the first NaN
optimisers.py   torch's, behind our names; the learning rate of every update
devices.py      device, precision and layout; torch's generator; several processes
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "algorithm": "Training train NoImprovement NoValidationGain",
        "trainer": "TrainingState",
        "losses": "Objective objective CrossEntropy Huber",
        "optimisers": "WarmUp OneCycle",
        "devices": "processes",
    },
    extra=("torch", "deep"),
)
