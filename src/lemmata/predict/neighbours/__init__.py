"""Nearest neighbours (ML k-Nearest Neighbors): exact search, votes, means and kernel smoothing.

>>> from sklearn.datasets import load_iris
>>> from lemmata.predict.neighbours import KNeighborsClassifier
>>> X, y = load_iris(return_X_y=True)
>>> KNeighborsClassifier(n_neighbors=5).fit(X, y).predict(X[:2])
array([0, 0])
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "estimators": "KNeighborsClassifier KNeighborsRegressor NearestNeighbors",
        "smoothing": "KernelSmoother",
    },
)
