"""Names of a package that are imported on first use (PEP 562): a package costs what is used of it.

    __getattr__, __dir__, __all__ = lazily(__name__, {"KMeans": "kmeans", "seeding": "seeding"})

Each name stands beside the module that defines it; a module is named by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package whose names live in these modules of it."""
    names = sorted(homes)

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}; it has {', '.join(names)}."
            )
        home = homes[name]
        module = import_module(home if home.startswith("lemmata.") else f"{package}.{home}")
        return module if home.rpartition(".")[2] == name else getattr(module, name)

    return __getattr__, lambda: names, names
