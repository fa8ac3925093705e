"""Densities that others made: any function that gives ln p of rows, torch.distributions, flows of zuko, normflows and nflows, a
`Flow` by itself.

    >>> import numpy as np, lemmata
    >>> from scipy.stats import multivariate_normal
    >>> law = multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]])
    >>> X, new = law.rvs(500, random_state=0), law.rvs(300, random_state=1)
    >>> found = lemmata.certify(Density(law.logpdf), X, X_test=new)
    >>> found["beats_independent"].verdict, found["mass_one"].verdict
    ('holds', 'holds')
    >>> lemmata.certify(Density(lambda x: law.logpdf(x) + 1), X, X_test=new)["mass_one"].verdict
    'fails'

Of a flow (`torch.distributions.TransformedDistribution`, zuko's ``RealNVP(…)`` or what calling it gives, normflows'
`NormalizingFlow`, nflows' `Flow`) the bijection is checked, too; modules are copied, in float64.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from lemmata.audit.generate.densities import DENSITY_CLAIMS
from lemmata.audit.generate.pixels import FOREIGN_LEVEL_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.certify import Request
from lemmata.core.validation import check_weights
from lemmata.generate.levels import Levels
from lemmata.registry import is_named

Array = np.ndarray
EPOCHS = 100  # the assumed training of a density, for the budget of its checks
PER_ROW = 10_000.0  # multiplications of a density that does not say


class Density:
    """A density that can be certified: ``lemmata.certify(Density(log_prob), X, X_test=…)``.

    Parameters
    ----------
    log_prob : function of an array or tensor of rows (n, d) that gives ln p of each, (n,)
        It is called with arrays of float64; one that takes tensors only, with those.
    sample : function of n, optional
        It draws n rows.
    levels : numbers, optional
        Those that rows may hold, where they have probabilities and no densities: `log_prob` is then ln P.
    """

    def __init__(
        self,
        log_prob: Callable[[Any], Any],
        sample: Callable[[int], Any] | None = None,
        levels: Any = None,
    ):
        if not callable(log_prob):
            kind = type(log_prob).__name__
            raise TypeError(f"log_prob is a {kind}; pass a function of rows that gives ln p.")
        self.log_prob, self.sample = log_prob, sample
        self.levels = None if levels is None else np.unique(np.asarray(levels, dtype=np.float64))

    def __call__(self, rows: Array) -> Array:
        try:
            return np.asarray(self.log_prob(rows), dtype=np.float64)
        except (TypeError, AttributeError, RuntimeError):
            import torch  # it takes tensors

            return _run_torch(self.log_prob, rows, _dtype_of(self.log_prob, rows, torch))


def answer(model: Any, request: Request) -> Certificate:
    """Certify a density for `lemmata.certify`: X is what it was fitted to."""
    request.need_data(model)
    more = request.take(model, ("X_test",))
    data = _rows(request.X, "X")
    if request.sample_weight is not None:
        data = data.weighted(check_weights(request.sample_weight, data.shape[0]))
    claims, attributes = _describe(model, data)
    if more:
        attributes["X_test"] = test = _rows(more["X_test"], "X_test")
        if test.shape[1] != data.shape[1]:
            raise ValueError(f"X_test has {test.shape[1]} columns, X has {data.shape[1]}.")
    fit = Fit(model, data, None, data.weights, attributes=attributes)
    kind, (n, d) = type(model), data.shape
    title = f"{kind.__module__.split('.')[0]} {kind.__name__}  {n:,} × {d:,}"
    return request.check(kind.__name__, claims, fit, title, _work)


def _work(fit: Fit) -> float:
    return EPOCHS * fit.data.shape[0] * PER_ROW


def _rows(X: Any, name: str) -> Blocks:
    X = X.detach().cpu().numpy() if hasattr(X, "detach") else np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "fiub" or len(X) < 2:
        raise ValueError(f"{name} has shape {X.shape} and type {X.dtype}; pass numbers (n, d), two rows at least.")  # fmt: skip
    if not np.isfinite(X).all():
        raise ValueError(f"{name} holds numbers that are not finite; leave out those rows.")
    return Blocks.of(X.astype(np.float64))


def _describe(model: Any, data: Blocks) -> tuple[Any, dict[str, Any]]:
    """The claims about a density, and its attributes in our words."""
    if isinstance(model, Density) and model.levels is not None:
        for rows, _ in data:
            Levels(model.levels).places(rows)  # refuses others
        return FOREIGN_LEVEL_CLAIMS, {"log_density": model, "levels_": model.levels}
    if isinstance(model, Density):
        return DENSITY_CLAIMS, {"log_density": model}
    from lemmata.audit.generate.flows import FOREIGN_FLOW_CLAIMS, PLANAR_CLAIMS, Bijection

    if hasattr(model, "transforms") and hasattr(model, "inverse"):  # a Flow
        found = {"module_": model, "input_shape_": (data.shape[1],)}
        return (*FOREIGN_FLOW_CLAIMS, *PLANAR_CLAIMS), found
    import torch

    if isinstance(model, torch.nn.Module):
        model = copy.deepcopy(model).cpu().eval()
        # normflows adds up its determinants in float32, whatever its weights are
        model = model if _is_of(model, "normflows.NormalizingFlow") else model.double()
    if _is_of(model, "zuko.LazyDistribution"):
        model = model()  # the flow without a context
    few = next(iter(data))[0][:2]
    dtype = _dtype_of(model.log_prob, few, torch)
    log_density = {"log_density": lambda rows: _run_torch(model.log_prob, rows, dtype)}
    if _is_of(model, "normflows.NormalizingFlow"):
        base, pair = model.q0, (model.forward_and_log_det, model.inverse_and_log_det)
    elif _is_of(model, "nflows.Flow"):  # its transform leads from x to z
        base, pair = model._distribution, (model._transform.inverse, model._transform.forward)
    elif isinstance(model, torch.distributions.TransformedDistribution):
        base, map_ = model.base_dist, torch.distributions.ComposeTransform(model.transforms)
        pair = _of_torch(map_)
    elif hasattr(model, "transform") and hasattr(model, "base"):  # zuko's leads from x to z
        base, pair = model.base, _of_torch(model.transform.inv)
    else:
        own = type(model).__module__.startswith("torch.distributions")
        return DENSITY_CLAIMS, {**log_density, "known_mass": own}
    return FOREIGN_FLOW_CLAIMS, {**log_density, "bijection": Bijection(*pair, base, dtype)}


def _is_of(model: Any, name: str) -> bool:
    return any(is_named(cls, name) for cls in type(model).__mro__)


def _of_torch(transform: Any) -> tuple[Any, Any]:
    """forward and inverse of a transform of torch.distributions, each with ln|det| of every row."""

    def total(log_det: Any, rows: Any) -> Any:
        return log_det.reshape(len(rows), -1).sum(1)

    def forward(z: Any) -> tuple[Any, Any]:
        x = transform(z)
        return x, total(transform.log_abs_det_jacobian(z, x), z)

    def inverse(x: Any) -> tuple[Any, Any]:
        z = transform.inv(x)
        return z, -total(transform.log_abs_det_jacobian(z, x), x)

    return forward, inverse


def _dtype_of(log_prob: Any, rows: Array, torch: Any) -> Any:
    """float64 if the function takes it, else float32."""
    try:
        with torch.no_grad():
            log_prob(torch.from_numpy(np.ascontiguousarray(rows[:2], dtype=np.float64)))
    except RuntimeError:
        return torch.float32
    return torch.float64


def _run_torch(log_prob: Any, rows: Array, dtype: Any) -> Array:
    import torch

    with torch.no_grad():
        found = log_prob(torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float64)).to(dtype))
    return found.detach().cpu().double().numpy()
