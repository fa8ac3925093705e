"""Generative models: draw new rows like those seen, and say how probable a row is.

Series (`AR`) factorise a density over time.
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(__name__, {"series.estimator": "AR"})
