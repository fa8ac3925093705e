"""Certify networks: any torch.nn.Module, trained or not, and the networks of estimators.

    >>> import torch, lemmata
    >>> layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    >>> tokens = torch.randn(8, 6, 16)
    >>> found = lemmata.certify(layer, tokens, properties=("causal",))          # it was given no mask
    >>> found["causal"].verdict, found["gradients_true"].verdict
    ('fails', 'holds')
    >>> mask = torch.nn.Transformer.generate_square_subsequent_mask(6)
    >>> lemmata.certify(layer, {"src": tokens, "src_mask": mask}, properties=("causal",))["causal"].verdict
    'holds'

Nothing happens to the module: claims are checked on a copy in float64 on the CPU.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lemmata.audit.nets import (
    MODULE_CLAIMS,
    occasional_claims,
    unseen,
)
from lemmata.audit.nets.changes import PropertyRequest
from lemmata.audit.nets.dependence import PROPERTIES
from lemmata.audit.nets.gradients import LOSSES, loss_by_name
from lemmata.audit.nets.modules import Examples, floats_in, row_and_call_cost
from lemmata.audit.selfsup import SELFSUP_MORE_CLAIMS, VIEW_CLAIMS
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.certify import Request
from lemmata.registry import require

EPOCHS, FEW = 10, 1000  # the assumed training of a module, for the budget of its checks


def certify_module(
    module: Any,
    X: Any,
    y: Any = None,
    loss: str | Callable | None = None,
    *,
    properties: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    seconds: float | None = None,
    verbose: bool = False,
) -> Certificate:
    """Check every claim about a torch.nn.Module.

    Parameters
    ----------
    module : torch.nn.Module
    X : tensor or array of rows; a tuple of them, ``module(*X)``; or a dict, ``module(**X)``, which may hold other values too
    y : labels or numbers, optional
        With X_test and y_test, what is known about new rows is checked; with a loss, gradients are those of the loss.
    loss : {"cross_entropy", "bce", "mse", "l1", "huber"} or a function of (what the module returns, y) that gives a number
        Without one, gradients are those of a random weighting of all outputs.
    properties : names out of "causal", "padding", "cached", "batched", "shift_equivariant", "permutation_equivariant",
        "no_blind_spot", or a mapping of names
        Properties to check besides those that the module itself declares (`declares = ("causal",)`). A mapping says
        where: ``{"causal": {"argument": "written", "axis": 1}}``, ``{"padding": "mask"}``. By default positions are axis 1 of
        the first tensor, shifts go along the axes after the channels, and the mask is called padding or attention_mask (True
        at real tokens) or key_padding_mask (True at padding, as PyTorch has it). Over images, ``{"causal": {"order": "raster"},
        "no_blind_spot": {"window": (3, 3)}}``: the output at a number knows only those before it in this order, or in a
        permutation of the pixels, and each in its window of so many rows up and columns to each side. ``{"cached": step}``:
        tokens in portions, step(module, tokens, past) → (scores, past), have the scores of all at once. ``{"batched": call}``:
        prompts padded on either side, call(module, tokens, real) → scores, have the scores that they have alone.
        ``{"views": augment}``: an encoder, of which (batch, generator) → batch, or two of these, make two views; with
        ``{"views": {"step": augment, "baseline": module}}`` it is compared with this untrained network instead of raw input.
    X_test, y_test : rows that the module was not trained on
    """
    examples = _examples(module, X, "X")
    requested = requested_properties(module, examples, properties)
    targets = None if y is None else _targets(y, examples, "y")
    objective = _objective(loss, targets)
    attributes = {"module_": module, "objective": objective, "properties": requested}
    _try(module, examples, objective, targets)
    if (X_test is None) != (y_test is None):
        raise ValueError("pass X_test and y_test together.")
    if X_test is not None and y is None:
        raise ValueError("X_test needs the y of X, too: certify(module, X, y, X_test=…, y_test=…).")
    if X_test is not None:
        test = _examples(module, X_test, "X_test")
        attributes |= {"X_test": test, "y_test": _targets(y_test, test, "y_test")}
    fit = Fit(_NoModel(), examples, targets, attributes=attributes)
    about_rows = _about_new_rows(fit)
    if "views" in requested:
        about_rows = VIEW_CLAIMS if targets is None else (*VIEW_CLAIMS, *SELFSUP_MORE_CLAIMS)
    checked = (*MODULE_CLAIMS, *about_rows, *occasional_claims(fit))
    size = sum(parameter.numel() for parameter in module.parameters())
    shape = " × ".join(f"{side:,}" for side in examples.first.shape)
    title = f"{type(module).__module__.split('.')[0]} {type(module).__name__}  {shape}, {size:,} weights"  # fmt: skip
    request = Request(seconds=seconds, verbose=verbose)
    return request.check(type(module).__name__, checked, fit, title, _work)


def answer(module: Any, request: Request) -> Certificate:
    """Certify a module for `lemmata.certify`."""
    request.need_data(module)
    more = request.take(module, ("properties", "X_test", "y_test"))
    if request.sample_weight is not None:
        raise ValueError("claims about a module take no sample_weight; weigh inside of loss.")
    return certify_module(
        module, request.X, request.y, request.loss, **more, seconds=request.seconds, verbose=request.verbose
    )  # fmt: skip


def certify_network(model: Any, data: Any, test: Any = None, *, seconds: float | None = None) -> Certificate:  # fmt: skip
    """Check every claim about the network of an estimator, on its training data and on held-out rows (Blocks with targets)."""
    steps = f"{model.stopped_}, {model.n_iter_} step{'s' if model.n_iter_ != 1 else ''}"
    attributes: dict[str, Any] = {} if test is None else {"X_test": test, "y_test": test.targets}
    attributes["properties"] = requested_properties(model.module_)
    fit = Fit(model, data, data.targets, data.weights, model.trace_, steps, attributes)
    checked = (*model._claims(), *model.more_claims)
    if model.more_claims or attributes["properties"]:
        checked = (*checked, *occasional_claims(fit))
    request = Request(seconds=seconds, verbose=model.verbose)
    return request.check(type(model).__name__, checked, fit, model._safe_title(data), model.work)


class _NoModel:
    """The model of a fit that has none: everything known about a module is in the attributes."""


def _work(fit: Fit) -> float:
    """Forward and backward are three passes."""
    return 3.0 * EPOCHS * max(fit.data.shape[0], FEW) * row_and_call_cost(fit)[0]


def _about_new_rows(fit: Fit) -> tuple:
    """Claims of a classifier or a regressor, where rows are held out."""
    if fit.get("X_test") is None or fit.y is None:
        return ()
    classes = fit.objective in ("cross_entropy", "bce") or (
        fit.objective is None and np.asarray(fit.y).dtype.kind in "iub"
    )
    if classes:
        return unseen.held_out_accuracy, unseen.calibrated, unseen.beats_linear
    return unseen.held_out_error, unseen.beats_ridge


# --- validation -------------------------------------------------------------------------------------------------------


def requested_properties(
    module: Any, examples: Examples | None = None, properties: Any = None
) -> dict[str, PropertyRequest]:
    """The properties that the module declares, the call declares (causal=True), and the user asks for."""
    found = _parse_properties(getattr(module, "declares", None))
    named = {} if examples is None else examples.named
    if any(named.get(name) is True for name in ("causal", "is_causal")):
        found.setdefault("causal", PropertyRequest())
    return {**found, **_parse_properties(properties)}


def _parse_properties(properties: Any) -> dict[str, PropertyRequest]:
    """Requests from a name, names, or a mapping of names to where to look; ValueError for unknown ones."""
    if properties is None:
        return {}
    if isinstance(properties, str):
        properties = (properties,)
    found = {}
    for name in properties:
        if name not in (*PROPERTIES, "views"):
            raise ValueError(f"properties name {name!r}; there are {', '.join(PROPERTIES)}, views.")
        where: Any = properties[name] if hasattr(properties, "keys") else {}
        if isinstance(where, int) and not isinstance(where, bool):
            where = {"axis": where}
        elif callable(where) or (name == "views" and isinstance(where, (tuple, list))):
            where = {"step": where}
        elif isinstance(where, str):
            where = {"mask" if name in ("padding", "batched") else "argument": where}
        known = ("argument", "axis", "mask", "order", "window", "step", "sides", "baseline")
        if strange := set(where or {}) - set(known):
            raise ValueError(
                f"properties[{name!r}] names {sorted(strange)[0]!r}; pass {'=, '.join(known)}=."
            )
        found[name] = PropertyRequest(**(where or {}))
    return found


def _tensor(value: Any, name: str) -> Any:
    torch = require("torch", "deep", what="certify(module, …)")
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} holds {array.dtype}; pass a tensor or an array of numbers.")
    return torch.from_numpy(np.ascontiguousarray(array))


def _examples(module: Any, X: Any, name: str) -> Examples:
    """The arguments of forward."""
    if isinstance(X, Examples):
        return X
    if isinstance(X, Mapping):
        plain = (bool, int, float, str, type(None))
        named = {
            key: value if isinstance(value, plain) else _tensor(value, f"{name}[{key!r}]")
            for key, value in X.items()
        }
        found = Examples((), named)
    elif isinstance(X, tuple):
        found = Examples(tuple(_tensor(part, f"{name}[{at}]") for at, part in enumerate(X)))
    else:
        found = Examples((_tensor(X, name),))
    tensors = [v for v in (*found.args, *found.named.values()) if hasattr(v, "dim")]
    if not tensors or tensors[0].dim() == 0 or tensors[0].shape[0] == 0:
        raise ValueError(f"{name} holds no rows; pass a tensor whose first axis counts rows.")
    first = tensors[0]
    if first.is_floating_point() and not bool(first.isfinite().all()):
        raise ValueError(f"{name} holds numbers that are not finite; leave those rows out, or fill them.")  # fmt: skip
    like = next((p for p in module.parameters() if p.is_floating_point()), None)
    if like is None:
        return found
    return found.map(lambda x: x.to(like.dtype) if x.is_floating_point() else x)


def _targets(y: Any, examples: Examples, name: str) -> np.ndarray:
    targets = _tensor(y, name).numpy()
    rows = examples.shape[0]
    if targets.ndim == 0 or targets.shape[0] != rows:
        raise ValueError(f"{name} has shape {targets.shape} for {rows:,} rows; pass one target for each.")  # fmt: skip
    return targets


def _objective(loss: Any, y: Any) -> Any:
    if loss is None:
        return None
    if not callable(loss) and loss not in LOSSES:
        raise ValueError(
            f"loss={loss!r} is not known; there are {', '.join(LOSSES)}, or pass a function of (outputs, y)."
        )
    if y is None:
        raise ValueError("a loss needs y: certify(module, X, y, loss=…).")
    return loss


def _try(module: Any, examples: Examples, objective: Any, y: Any) -> None:
    """Run two rows through a copy of the module as it is, so that what does not fit is reported here and in plain words."""
    torch = require("torch", "deep", what="certify(module, …)")
    from torch.nn.parameter import is_lazy

    who = type(module).__name__
    if any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())):
        raise ValueError(f"{who} has lazy parameters that are not made yet; call it once: module(X[:2]).")  # fmt: skip
    try:
        own = copy.deepcopy(module).cpu().eval()
    except Exception as error:
        raise ValueError(
            f"{who} cannot be copied, and claims are checked on a copy ({_first_line(error)}). "
            "Does it keep a tensor of an earlier call? Let it keep tensor.detach()."
        ) from error
    few = examples.rows(torch.arange(min(2, examples.shape[0]))).map(lambda x: x.clone())
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            found = own(*few.args, **few.named)
    except Exception as error:
        tensors = [v for v in (*examples.args, *examples.named.values()) if hasattr(v, "shape")]
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
        raise ValueError(
            f"{who} does not take this X, of shapes {shapes} ({_first_line(error)}). "
            "Rows come first; a tuple is passed as module(*X), a dict as module(**X)."
        ) from error
    outputs = floats_in(found)
    if not outputs:
        raise ValueError(f"{who} returns a {type(found).__name__} without a tensor of real numbers.")  # fmt: skip
    if objective is not None:
        _try_loss(objective, found, outputs[0], y[: few.shape[0]], y)


def _try_loss(objective: Any, returned: Any, output: Any, few: np.ndarray, y: np.ndarray) -> None:
    import torch

    if isinstance(objective, str) and objective == "cross_entropy":
        most = output.shape[-1] - 1
        if y.dtype.kind == "f" or y.min() < 0 or y.max() > most:
            raise ValueError(
                f"y holds {y.dtype} from {y.min()} to {y.max()}; loss='cross_entropy' takes whole numbers "
                f"from 0 to {most}, the outputs of the module."
            )
    targets = torch.from_numpy(np.ascontiguousarray(few))
    own = callable(objective)
    try:
        value = objective(returned, targets) if own else loss_by_name(objective)(output, targets)
    except Exception as error:
        shapes = f"outputs of shape {tuple(output.shape)} and y of shape {tuple(few.shape)}"
        raise ValueError(f"the loss does not fit {shapes} ({_first_line(error)}).") from error
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise ValueError("the loss gives no single number; pass a function that returns a mean.")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"
