"""Machine learning that shows its proof: every fit returns a certificate.

>>> import lemmata
>>> model = lemmata.PCA(n_components=10).fit(lemmata.data.digits().X)
>>> print(model.certificate_)    # doctest: +SKIP
"""

from lemmata import registry

__version__ = "0.1.0"
__getattr__, _, __all__ = registry.lazily(__name__, registry.public_names())


def __dir__():
    return [*__all__, "__version__"]
