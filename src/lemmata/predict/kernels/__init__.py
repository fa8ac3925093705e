"""Kernels: inner products of features that are never computed.

    κ(x, x') = φ(x)ᵀφ(x')

A method that sees its rows through inner products alone works in the feature space of φ at the price of κ (ML Kernel
trick). Such a κ exists for some φ exactly if every matrix K = (κ(x_i, x_j)) is symmetric and positive semidefinite (ML
Mercer). Here a kernel is an object: it is called with rows, adds and multiplies with others, and is stored with a model.

    >>> import numpy as np
    >>> from lemmata.predict.kernels import RBF, Linear, Polynomial
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0]])
    >>> RBF(gamma=0.5)(X).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    >>> (2 * Linear() + Polynomial(degree=2, gamma=1.0))(X, X[:1]).ravel()
    array([6., 6.])

The notes' map of the one-dimensional RBF kernel misses a factor: φ_k(x) = e^{−x²} √(2^k/k!) x^k; and that of a product has
one entry per *pair* of features, φ(x)_ij = φ₁(x)_i φ₂(x)_j.
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "base": "Constant Kernel Product Sum",
        "standard": "Cosine Laplacian Linear Polynomial RBF Sigmoid MatrixFunction PairFunction Precomputed "
        "GAMMAS KERNELS kernel_of unit_rows",
        "feature_maps": "feature_map kernel_error n_features",
        "positivity": "is_positive",
    },
)
