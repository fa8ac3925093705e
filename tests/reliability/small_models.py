"""Every model of the registry, fitted to something tiny: what the tests of reliability are run on."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np

import lemmata
from lemmata import registry
from lemmata.completion.base import CompletionModel
from lemmata.core.supervised import Classifier, Supervised
from lemmata.topics.base import TopicModel

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 6)) + 4 * (RNG.random((60, 1)) < 0.5)
COUNTS = RNG.poisson(3.0, size=(60, 6)).astype(float)
RATINGS = np.where(RNG.random((60, 6)) < 0.7, RNG.integers(1, 6, (60, 6)), np.nan)
TEXTS = ["the cat and the dog", "the dog and the cat sat", "a cat on the mat"] * 4
QUESTIONS = [("the cat", text) for text in TEXTS]
SIDES = [
    ([f"w{i}" for i in range(30)], np.roll(RNG.normal(size=(30, 4)), shift, axis=1))
    for shift in (0, 1)
]
SMALL = {
    "vector_size": 4,
    "min_count": 1,
    "n_components": 2,
    "n_clusters": 2,
    "rank": 2,
    "size": 20,
}
LEARNS = {"width": 8, "depth": 1, "heads": 2, "context": 48, "max_iter": 2, "order": 3}
# what is wanted of each text
OF_TEXTS = {
    "Translator": str.upper,
    "TokenClassifier": lambda text: [word == "cat" for word in text.split()],
    "SpanFinder": lambda text: (text.index("cat"), text.index("cat") + 3),
}
# epochs of models whose length is a parameter rather than a tolerance
SHORT = dict.fromkeys(("Autoencoder", "NeuralClassifier", "NeuralRegressor", "SGDFactorization"), 5)
SHORT |= {"PixelCNN": 2, "WaveNet": 2, "Diffusion": 2, "GAN": 2}


def data_of(name):
    cls = registry.model_class(name)
    if name == "Alignment":  # of two embeddings: words and their vectors
        return SIDES[0]
    if name == "SpanFinder":
        return QUESTIONS
    if registry.MODELS[name].module.startswith(("lemmata.embedding", "lemmata.language")):
        return TEXTS
    if issubclass(cls, TopicModel):
        return COUNTS
    return RATINGS if issubclass(cls, CompletionModel) else ROWS


def targets(model, X):
    """One target for every row of X, whatever X is; () for models that do not predict."""
    name = type(model).__name__
    if name in OF_TEXTS:
        texts = TEXTS[: len(X)] if hasattr(X, "__len__") else TEXTS
        return ([OF_TEXTS[name](text) for text in texts],)
    if name == "Alignment":
        return (SIDES[1],)
    if name == "CLIP":
        n = (getattr(X, "shape", None) or (9,))[0]
        return ([f"row {'even' if i % 2 else 'odd'}" for i in range(n)],)
    if not isinstance(model, Supervised):
        return ()
    shape = getattr(X, "shape", None) or (len(X) if X is TEXTS else 9,)
    y = np.arange(shape[0]) % 2
    return (y if isinstance(model, Classifier) else y + 0.1 * np.arange(shape[0]) ** 0.5,)


def unfitted(name, **more):
    cls = registry.model_class(name)
    known = cls._get_param_names()
    settings = {key: value for key, value in SMALL.items() if key in known}
    settings |= {"random_state": 0} if "random_state" in known else {}
    settings |= {"max_iter": SHORT[name]} if name in SHORT else {}
    settings |= {"levels": 4} if name in ("PixelCNN", "WaveNet") else {}
    if registry.MODELS[name].module.startswith("lemmata.language"):
        settings |= {key: value for key, value in LEARNS.items() if key in known}
    return cls(**{**settings, **{key: value for key, value in more.items() if key in known}})


@cache
def fitted(name):
    with warnings.catch_warnings(), lemmata.config(certificate=False):
        warnings.simplefilter("ignore")
        model, X = unfitted(name), data_of(name)
        return model.fit(X, *targets(model, X))
