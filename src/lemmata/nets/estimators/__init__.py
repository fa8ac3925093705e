"""Networks behind scikit-learn's interface.

supervised.py                   NeuralClassifier, NeuralRegressor
autoencoder.py, bottleneck.py   Autoencoder, and its network
neural.py                       what they share: parameters, the door for images, training, early stopping, files
inputs.py, history.py           images as rows; the table of epochs
feedforward.py, networks.py     the network by default; networks in files
"""

from lemmata.lazy import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "NeuralClassifier": "supervised",
        "NeuralRegressor": "supervised",
        "Autoencoder": "autoencoder",
        "AutoencoderNet": "bottleneck",
        "Reconstruction": "bottleneck",
        "FeedForward": "feedforward",
        "History": "history",
    },
    extra=("torch", "deep"),
)
