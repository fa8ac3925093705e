"""Training: a network, a loss and data become an algorithm of the one loop that runs every fit.

algorithm.py                    Training, and train(): init and step
states.py                       what a checkpoint holds
machine.py                      the network at work: one update of its weights
losses.py                       what is minimised: names, functions, objectives
optimisers.py, schedules.py     torch's, behind our names; the rate of every update
precision.py, seeding.py        where and in which numbers; draws that leave torch's generator as it was
distributed.py, diagnosis.py    several processes; which layer gave the first NaN
"""

from lemmata.lazy import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "Training": "algorithm",
        "train": "algorithm",
        "NoImprovement": "algorithm",
        "TrainingState": "states",
        "Objective": "losses",
        "objective": "losses",
        "CrossEntropy": "losses",
        "Huber": "losses",
        "WarmUp": "schedules",
        "OneCycle": "schedules",
        "processes": "distributed",
    },
    extra=("torch", "deep"),
)
