"""Names of a package that are imported on first use (PEP 562): a package costs what is used of it.

    __getattr__, __dir__, __all__ = lazily(__name__, {"KMeans": "kmeans", "seeding": "seeding"})

Each name stands beside the module that defines it; a module is named by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def require(module: str, extra: str, what: str = "this") -> ModuleType:
    """An optional dependency; where it is not installed, the error names the extra that brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:  # it is there, and something that it needs is not
            raise
        raise ModuleNotFoundError(
            f"{what} needs {module}, which is not installed: pip install 'lemmata[{extra}]'.",
            name=module,
        ) from None


def lazily(
    package: str, homes: Mapping[str, str], extra: tuple[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package whose names live in these modules of it.

    extra : (module, extra), if some of the modules stand on an optional dependency: without it the error says what to install
    """
    names = sorted(homes)

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}; it has {', '.join(names)}."
            )
        home = homes[name]
        try:
            module = import_module(home if home.startswith("lemmata.") else f"{package}.{home}")
        except ModuleNotFoundError as error:
            if extra and error.name == extra[0]:
                require(*extra, what=f"{package}.{name}")
            raise
        return module if home.rpartition(".")[2] == name else getattr(module, name)

    return __getattr__, lambda: names, names
