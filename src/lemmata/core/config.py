"""Settings of the whole process: whether `fit` checks claims, whether checks may search, and which work is compiled.

>>> import numpy as np, lemmata
>>> X = np.random.default_rng(0).normal(size=(100, 5))
>>> with lemmata.config(certificate=False):              # hot loops, grid searches
...     model = lemmata.PCA(2).fit(X)
>>> model.certificate_.not_checked == [claim.name for claim in model.certificate_]
True
>>> model.certify(X).not_checked                        # certify(X) always checks
[]

Settings live in the environment (LEMMATA_CERTIFICATE=0, LEMMATA_COMPILE=never), so that processes started inside have them
too. A worker that runs already, joblib's for instance, gets them with the model that it is sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from lemmata.core.compiler import COMPILE, MODES

CERTIFICATE = "LEMMATA_CERTIFICATE"
SEARCHES = "LEMMATA_SEARCHES"


def checks_in_fit() -> bool:
    """Whether `fit` checks claims: unless LEMMATA_CERTIFICATE is 0."""
    return os.environ.get(CERTIFICATE, "1") != "0"


def searches_allowed() -> bool:
    """Whether claims may ask our solvers for witnesses: unless LEMMATA_SEARCHES is 0."""
    return os.environ.get(SEARCHES, "1") != "0"


@contextmanager
def config(
    *,
    certificate: bool | None = None,
    searches: bool | None = None,
    compile: str | None = None,
) -> Iterator[None]:
    """Change settings for a while, in this process and those it starts; what is None stays as it is.

    certificate : bool, optional
        False: every claim of `certificate_` says *not checked*, and a fit costs what its solver costs.
    searches : bool, optional
        False: no claim looks for better weights, centres or dual points with our solvers; some then can't tell.
    compile : {"auto", "always", "never"}, optional
        Which work is done by compiled kernels rather than by NumPy: "auto", what is large enough to be worth a compiler.
    """
    switches = {"certificate": (CERTIFICATE, certificate), "searches": (SEARCHES, searches)}
    for name, (_, value) in switches.items():
        if not isinstance(value, bool | None):
            raise TypeError(f"{name}={value!r} is not accepted; pass True or False.")
    if compile is not None and compile not in MODES:
        raise ValueError(f"compile={compile!r} is not accepted; pass one of {', '.join(MODES)}.")
    changes = {where: str(int(value)) for where, value in switches.values() if value is not None}
    changes |= {} if compile is None else {COMPILE: compile}
    with _environment(changes):
        yield


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def sent_along(received: dict[str, str | int] | None = None) -> dict[str, str | int]:
    """What a model that goes to another process takes with it: the settings that were made here, and where here is.

    A worker passes on what it received from its parent; anybody else says what is set now.
    """
    if received and received.get("sender") == os.getppid():
        return received
    made = {
        name: os.environ[name] for name in (CERTIFICATE, SEARCHES, COMPILE) if name in os.environ
    }
    return {**made, "sender": os.getpid()} if made else {}


@contextmanager
def as_sent(settings: dict[str, str | int]) -> Iterator[None]:
    """The settings that came with a model from the parent of this process; at home, or from a file, what is set now counts."""
    if not settings or settings.get("sender") != os.getppid():
        yield
        return
    with _environment({name: str(value) for name, value in settings.items() if name != "sender"}):
        yield
