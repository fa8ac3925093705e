"""Denoisers that others made, to be certified: any function of (x_t, t), and diffusers' pair of a model and a scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lemmata.audit.generate.diffusion import DENOISER_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.certify import Request
from lemmata.generate.diffusion.targets import require_target
from lemmata.generate.judging import as_rows

Array = np.ndarray
WORK = 1e11  # multiplications of a denoiser's training, for the budget of the checks


class Denoiser:
    """A denoiser that can be certified: ``lemmata.certify(Denoiser(f, alpha_bar), X, X_test=…)``.

    Parameters
    ----------
    function : function of x_t, an array (n, …) of float64 in the shape of X, and t = 1 … T
        It gives what it predicts, in the same shape.
    alpha_bar : array of ᾱ_1 … ᾱ_T
        Amplitudes: the square roots of what others call alphas_cumprod.
    predict : {"noise", "x0", "v", "score"}
        What it predicts.

    X has to be in the units that the denoiser was trained in.
    """

    def __init__(self, function: Callable[[Any, int], Any], alpha_bar: Any, predict: str = "noise"):
        if not callable(function):
            raise TypeError(f"function is a {type(function).__name__}; pass a function of (x, t).")
        self.function, self.predict = function, require_target(predict)
        self.alpha_bar = np.asarray(alpha_bar, dtype=np.float64)


def answer(model: Denoiser, request: Request) -> Certificate:
    """Certify a denoiser for `lemmata.certify`: X is what it was trained on."""
    request.need_data(model)
    more = request.take(model, ("X_test",))
    shape = np.shape(request.X)[1:]
    X = as_rows(request.X, "X")

    def denoise(x: Array, t: int) -> Array:
        found = np.asarray(model.function(x.reshape(-1, *shape), t))
        return found.reshape(len(x), -1)

    found: dict[str, Any] = {"denoise": denoise}
    if more:
        test = as_rows(more["X_test"], "X_test")
        if test.shape[1] != X.shape[1]:
            raise ValueError(f"X_test has {test.shape[1]} numbers a row, X has {X.shape[1]}.")
        found["X_test"] = Blocks.of(test)
    fit = Fit(model, Blocks.of(X), None, None, attributes=found)
    title = f"denoiser of {model.predict}, {len(model.alpha_bar):,} noise levels  {len(X):,} × {X.shape[1]:,}"
    return request.check("Denoiser", DENOISER_CLAIMS, fit, title, lambda fit: WORK)
