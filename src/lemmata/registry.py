"""Every public name and where it lives: what `import lemmata` shows, `lemmata models` lists and files may name.

A model enters the library by one line here. Nothing is imported until it is used.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    """A model: the module that defines it, what it does, where the notes teach it, whose fits it can also certify."""

    module: str
    summary: str
    source: str
    counterparts: tuple[str, ...] = ()


MODELS: dict[str, Entry] = {
    "PCA": Entry(
        "lemmata.reduction.pca",
        "The subspace that keeps most variance",
        "CIL 1.4",
        ("sklearn.decomposition.PCA", "sklearn.decomposition.IncrementalPCA", "sklearn.decomposition.TruncatedSVD"),
    ),
    "LinearAutoencoder": Entry(
        "lemmata.reduction.autoencoder",
        "PCA learnt as a two-layer linear network by gradient descent",
        "CIL 1.2, 1.5.3",
    ),
    "KernelPCA": Entry(
        "lemmata.reduction.kernel_pca",
        "PCA in the feature space of a kernel",
        "CIL 1.4, ML Kernels",
        ("sklearn.decomposition.KernelPCA",),
    ),
}

FUNCTIONS: dict[str, str] = {
    "certify": "lemmata.core.certify",
    "save": "lemmata.core.store",
    "load": "lemmata.core.store",
    "NotCertified": "lemmata.core.certificate",
}

SUBPACKAGES = ("atlas", "core", "data", "linalg", "optim", "predict", "reduction")


def module_of(name: str) -> str | None:
    """The module that defines the public name, or None if there is no such name."""
    return MODELS[name].module if name in MODELS else FUNCTIONS.get(name)


def model_class(name: str):
    """The class of a model by its public name; KeyError for any other name."""
    import importlib

    return getattr(importlib.import_module(MODELS[name].module), name)


def markdown() -> str:
    """The table of models, as it stands in README.md."""
    rows = [
        f"| `{name}` | {entry.summary} | {entry.source} | {', '.join(f'`{foreign}`' for foreign in entry.counterparts)} |"
        for name, entry in MODELS.items()
    ]
    return "\n".join(["| model | what it does | in the notes | also certifies |", "|---|---|---|---|", *rows])
