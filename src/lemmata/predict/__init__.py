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
        "ElasticNet": "lasso.estimator",
        "ElasticNetCV": "lasso.cv",
        "KNeighborsClassifier": "neighbours.estimators",
        "KNeighborsRegressor": "neighbours.estimators",
        "KernelRidge": "kernel_ridge",
        "KernelSmoother": "neighbours.smoothing",
        "Lasso": "lasso.estimator",
        "LassoCV": "lasso.cv",
        "LassoPath": "lasso.path",
        "LinearRegression": "least_squares.estimator",
        "LinearSVC": "linear_svm.estimator",
        "LogisticRegression": "logistic.estimator",
        "NearestNeighbors": "neighbours.estimators",
        "Nystroem": "sampled_features",
        "RBFSampler": "sampled_features",
        "Ridge": "least_squares.ridge",
        "RidgeCV": "least_squares.ridge_cv",
        "RobustRegression": "robust.estimator",
        "SVC": "svm.estimators",
        "SVR": "svm.estimators",
        "enet_path": "lasso.path",
        "feature_map": "kernels.feature_maps",
        "kernels": "kernels",
        "lasso_path": "lasso.path",
        "losses": "losses",
        "mercer": "kernels.positivity",
    },
)
