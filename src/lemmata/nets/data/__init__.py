"""Data of training in batches: arrays, mapped files, streams of blocks, DataLoaders.

batches.py   rows in memory and in files, in an order that follows from the seed of an epoch
streams.py   data that comes in its own order
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {"batches": "Rows Data Batch as_data", "streams": "Stream Loader"},
    extra=("torch", "deep"),
)
