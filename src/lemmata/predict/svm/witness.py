"""Searches for better kernel machines, where the stated coefficients do not tell how far from the best they are.

What is found here is checked in audit/predict/kernels and never believed.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.linalg
from sklearn.svm import SVC, SVR

from lemmata.audit.kernel.claims import Fit
from lemmata.audit.predict.kernels.grams import SOLVE, gram, gram_among
from lemmata.audit.predict.kernels.svm_problem import MachineProblem, is_regression
from lemmata.audit.predict.rows import dense, evenly_spread, whole

Array = np.ndarray

REFERENCE = 1500  # rows of a search for a better support vector machine, with scikit-learn's own
SEARCH = 60  # multiplications per entry of K that such a search takes, roughly


def better_machine(fit: Fit, machine: MachineProblem) -> Array | None:
    """Return β of scikit-learn's machine on up to REFERENCE of the rows (weights scaled up), 0 for the others.

    None where that is too much work, or the rows are of one class.
    """
    m = len(machine.rows)
    chosen = evenly_spread(m, REFERENCE)
    if float(len(chosen)) ** 2 * (fit.data.shape[1] + SEARCH) > fit.work:
        return None
    rows, these = whole(fit.data), machine.rows[chosen]
    K = gram_among(fit, rows, these, these)
    y, box = machine.y[chosen], (machine.high - machine.low)[chosen]
    box = box / (2 if is_regression(fit) else 1) * (m / len(chosen))
    unit = float(box.max())
    settings = {"kernel": "precomputed", "C": unit, "tol": 1e-4, "max_iter": 100 * len(chosen)}
    if is_regression(fit):
        model = SVR(epsilon=machine.eps, **settings)
    elif len(np.unique(y)) == 2:
        model = SVC(**settings)
    else:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(K, y, sample_weight=box / unit)
    beta = np.zeros(m)
    beta[chosen[model.support_]] = dense(model.dual_coef_)[0]
    return beta


def better_ridge(fit: Fit, y: Array, weights: Array, alpha: float) -> Array | None:
    """Return c with (K + α/s)c = y by LAPACK, 0 for rows of weight 0; None where that is too much work."""
    n, counts = len(y), weights > 0
    if n > SOLVE or float(n) ** 3 > fit.work:
        return None
    rows = whole(fit.data)
    K = gram(fit, rows, rows)[np.ix_(counts, counts)]
    c = np.zeros(n)
    c[counts] = scipy.linalg.lstsq(K + np.diag(alpha / weights[counts]), y[counts])[0]
    return c
