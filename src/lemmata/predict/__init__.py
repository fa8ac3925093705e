"""Prediction (ML): from least squares to kernels and neighbours, each fit with its distance from the best possible.

>>> from lemmata.predict import Ridge
>>> from sklearn.datasets import load_diabetes
>>> X, y = load_diabetes(return_X_y=True)
>>> Ridge(alpha=0.1).fit(X, y).certificate_.failed
[]
"""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "lasso.estimator": "ElasticNet Lasso",
        "lasso.cv": "ElasticNetCV LassoCV",
        "neighbours.estimators": "KNeighborsClassifier KNeighborsRegressor NearestNeighbors",
        "kernel_ridge": "KernelRidge",
        "neighbours.smoothing": "KernelSmoother",
        "lasso.path": "LassoPath enet_path lasso_path",
        "least_squares.estimator": "LinearRegression",
        "linear_svm.estimator": "LinearSVC",
        "logistic.estimator": "LogisticRegression",
        "logistic.cv": "LogisticRegressionCV",
        "linear_svm.sgd_classifier": "SGDClassifier",
        "sampled_features": "Nystroem RBFSampler",
        "least_squares.ridge": "Ridge",
        "least_squares.ridge_classifier": "RidgeClassifier",
        "least_squares.ridge_cv": "RidgeCV",
        "robust.estimator": "HuberRegressor RobustRegression",
        "svm.estimators": "SVC SVR",
        "kernels.feature_maps": "feature_map",
        "kernels": "kernels",
        "losses": "losses",
        "kernels.positivity": "mercer",
    },
)
