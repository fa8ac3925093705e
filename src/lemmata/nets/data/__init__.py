"""What training reads, in batches: arrays, mapped files, streams of blocks, DataLoaders.

batches.py   the order of an epoch follows from its seed; rows in memory and in files
streams.py   data that comes in an order of its own
rooms.py     memory for batches, used again
"""

from lemmata.lazy import lazily

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
