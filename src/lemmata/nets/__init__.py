"""Neural networks (CIL 4; ML "Deep Learning" to "Transformers"): trained by the loop of every fit, certified like every fit.

Backpropagation by hand needs NumPy alone (`MLPClassifier`, `MLPRegressor`); everything else stands on PyTorch, which is
imported when a network is built and not before.
"""

from lemmata.lazy import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {},
    extra=("torch", "deep"),
)
