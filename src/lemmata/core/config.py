"""Settings of the whole process: whether `fit` checks claims.

>>> import numpy as np, lemmata
>>> X = np.random.default_rng(0).normal(size=(100, 5))
>>> with lemmata.config(certificate=False):              # hot loops, grid searches
...     model = lemmata.PCA(2).fit(X)
>>> model.certificate_.not_checked == [claim.name for claim in model.certificate_]
True
>>> model.certify(X).not_checked                        # certify(X) always checks
[]

The setting lives in the environment (LEMMATA_CERTIFICATE=0), so that processes started inside, joblib's workers among them,
have it too; workers that run already keep the setting they were started with.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

CERTIFICATE = "LEMMATA_CERTIFICATE"


def checks_in_fit() -> bool:
    """Whether `fit` checks claims: unless LEMMATA_CERTIFICATE is 0."""
    return os.environ.get(CERTIFICATE, "1") != "0"


@contextmanager
def config(*, certificate: bool) -> Iterator[None]:
    """Switch the checking of claims inside `fit` off (or on) for a while, in this process and those it starts.

    certificate : bool
        False: every claim of `certificate_` says *not checked*, and a fit costs what its solver costs.
    """
    if not isinstance(certificate, bool):
        raise TypeError(f"certificate={certificate!r} is not accepted; pass True or False.")
    before = os.environ.get(CERTIFICATE)
    os.environ[CERTIFICATE] = "1" if certificate else "0"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(CERTIFICATE, None)
        else:
            os.environ[CERTIFICATE] = before
