"""The multi-layer perceptron by hand, with NumPy alone (CIL 4.1, 4.2).

network.py      forward, backward and the losses: the lesson
steps.py        optimisers that work in place
training.py     epochs of mini-batches, or L-BFGS, as an algorithm
base.py         their base: parameters, network and algorithm, attributes
estimators.py   MLPClassifier, MLPRegressor
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "network": "MLP Workspace ACTIVATIONS LOSSES",
        "training": "MLPAlgorithm MLPQuasiNewton",
        "estimators": "MLPClassifier MLPRegressor",
    },
)
