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


PREDICTIONS = {"epsilon": "noise", "sample": "x0", "v_prediction": "v"}  # in diffusers' words


def answer_pair(pair: tuple[Any, ...], request: Request) -> Certificate | None:
    """Certify diffusers' pair of a model and a scheduler; None for any other tuple."""
    if len(pair) != 2 or not callable(pair[0]) or not hasattr(pair[1], "alphas_cumprod"):
        return None
    return answer(as_denoiser(*pair), request)


def as_denoiser(model: Any, scheduler: Any) -> Denoiser:
    """The denoiser of diffusers' model and scheduler, whose times count from 0 and whose ᾱ are squares."""
    import torch

    kind = getattr(getattr(scheduler, "config", scheduler), "prediction_type", "epsilon")
    if kind not in PREDICTIONS:
        raise ValueError(
            f"prediction_type={kind!r} of the scheduler; {', '.join(PREDICTIONS)} are known."
        )
    like = next(iter(model.parameters()), torch.zeros(())) if hasattr(model, "parameters") else torch.zeros(())  # fmt: skip

    def predict(x: Array, t: int) -> Array:
        with torch.no_grad():
            answer = model(torch.from_numpy(x).to(like), t - 1)
        found: Any = answer[0] if isinstance(answer, tuple) else getattr(answer, "sample", answer)
        return found.double().cpu().numpy()

    squares = torch.as_tensor(scheduler.alphas_cumprod).double().cpu().numpy()
    return Denoiser(predict, np.sqrt(squares), PREDICTIONS[kind])


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
