"""Machine learning that shows its proof: every fit returns a certificate.

>>> import lemmata
>>> model = lemmata.PCA(n_components=10).fit(lemmata.data.digits().X)
>>> print(model.certificate_)    # doctest: +SKIP
"""

from importlib import import_module

from lemmata import registry

__version__ = "0.1.0"
__all__ = sorted([*registry.MODELS, *registry.FUNCTIONS, *registry.SUBPACKAGES])


def __getattr__(name: str):
    """Import public names on first use (PEP 562), so that `import lemmata` costs almost nothing."""
    if name in registry.SUBPACKAGES:
        return import_module(f"lemmata.{name}")
    module = registry.module_of(name)
    if module is None:
        from difflib import get_close_matches

        near = get_close_matches(name, __all__, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(__all__)}."
        raise AttributeError(f"module 'lemmata' has no attribute {name!r}; {hint}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__():
    return [*__all__, "__version__"]
