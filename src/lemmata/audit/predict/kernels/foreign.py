"""scikit-learn's kernel machines in our words (see core/certification/certify.py): SVC, SVR, KernelRidge, Nystroem, RBFSampler.

`gamma_` is the γ they used, where the parameter says "scale", "auto" or None. LIBSVM's `support_` counts only the
rows of weight above 0, and its sums are of float32 kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def machine_of(model: Any) -> dict[str, Any]:
    """SVC or SVR. NuSVC and NuSVR minimise something else, of which ν is a parameter, and are refused."""
    if type(model).__name__.startswith("Nu"):
        raise TypeError(
            f"{type(model).__name__} minimises another objective (nu, not C) than the claims speak of; lemmata certifies "
            "SVC and SVR: fit one of them with the C that gives as many support vectors."
        )
    coef = model.dual_coef_
    found = {
        "dual_coef_": np.asarray(coef.toarray() if sp.issparse(coef) else coef),
        "n_support_": np.asarray(model.n_support_),
        "made_by_libsvm": True,
    }
    if not hasattr(model, "n_features_in_"):  # of a kernel that is a function
        found["n_features_in_"] = int(model.shape_fit_[1])
    used = getattr(model, "_gamma", None)
    if used is not None and isinstance(model.kernel, str):
        found["gamma_"] = float(used)
    return found


def kernel_of(model: Any) -> dict[str, Any]:
    """KernelRidge and Nystroem: the γ that scikit-learn's kernels take for None, and their other defaults."""
    found: dict[str, Any] = {}
    if isinstance(model.kernel, str) and model.kernel != "precomputed":
        default = 1.0 if model.kernel == "chi2" else 1 / model.n_features_in_
        found["gamma_"] = default if model.gamma is None else float(model.gamma)
        # Nystroem leaves to the kernel what is None; scikit-learn's kernels take 3 and 1
        found["degree"] = 3 if model.degree is None else model.degree
        found["coef0"] = 1 if model.coef0 is None else model.coef0
    return found


def cosines_of(model: Any) -> dict[str, Any]:
    """RBFSampler."""
    return {"gamma_": float(getattr(model, "_gamma", model.gamma))}
