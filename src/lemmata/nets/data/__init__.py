"""Data of training in batches: arrays, mapped files, streams of blocks, DataLoaders.

batches.py   rows in memory and in files, in an order that follows from the seed of an epoch
streams.py   data that comes in its own order
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "Rows": "batches",
        "Data": "batches",
        "Batch": "batches",
        "as_data": "batches",
        "Stream": "streams",
        "Loader": "streams",
    },
    extra=("torch", "deep"),
)
