"""Linear predictors against their peers: Lasso, ridge, logistic regression, linear support vectors (each also by itself).

./run bench linear
"""

from bench import lasso, linear_svm, logistic, ridge


def main() -> None:
    for part in (lasso, ridge, logistic, linear_svm):
        part.main()
