"""Networks behind scikit-learn's interface.

supervised.py           NeuralClassifier, NeuralRegressor
autoencoder.py          Autoencoder
neural.py               their base: parameters, training, early stopping
networks.py             FeedForward and AutoencoderNet, the networks they build
inputs.py, history.py   images as rows; the table of epochs
storage.py              networks in files
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "supervised": "NeuralClassifier NeuralRegressor",
        "autoencoder": "Autoencoder",
        "networks": "AutoencoderNet Reconstruction FeedForward",
        "history": "History",
    },
    extra=("torch", "deep"),
)
