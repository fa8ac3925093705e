"""Variational autoencoders: the network, its objectives, the estimator."""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {"network": "VAENet ImportanceWeightedBound PenalisedBound", "estimator": "VAE"},
    ("torch", "deep"),
)
