"""Logistic regression (ML "Classification"): the problem, Newton, quasi-Newton, gradient and ℓ1 solvers, the estimator."""
