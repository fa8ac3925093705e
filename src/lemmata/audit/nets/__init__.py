"""Claims about networks, one file per subject; PyTorch is imported when one is checked.

    MODULE_CLAIMS             about any torch.nn.Module
    CLASSIFIER_CLAIMS, …      in the certificate of a fit; …_MORE_CLAIMS only in that of `certify`
    mlp.py, autoencoders.py   networks of NumPy arrays, ours and scikit-learn's; codes and their decoders

`occasional_claims` gives those that apply to some networks only: batch norms, shared weights, requested properties.
"""

from __future__ import annotations

from typing import Any

from lemmata.audit.kernel.claims import Fit
from lemmata.audit.nets import sharing, unseen
from lemmata.audit.nets.gradients import gradients_true
from lemmata.audit.nets.signal import signal_kept, units_alive
from lemmata.audit.nets.stated import MODULE_STATED_CLAIMS, STATED_CLAIMS

MODULE_CLAIMS = (*MODULE_STATED_CLAIMS, gradients_true, signal_kept, units_alive)
CLASSIFIER_CLAIMS = (*STATED_CLAIMS, units_alive, unseen.held_out_accuracy)
CLASSIFIER_MORE_CLAIMS = (unseen.calibrated, unseen.beats_linear, gradients_true, signal_kept)
REGRESSOR_CLAIMS = (*STATED_CLAIMS, units_alive, unseen.held_out_error)
REGRESSOR_MORE_CLAIMS = (unseen.beats_ridge, gradients_true, signal_kept)


def occasional_claims(fit: Fit) -> tuple[Any, ...]:
    """The claims that apply to this network: it has batch norms, uses a weight twice, should have a property."""
    from lemmata.audit.nets.dependence import (
        PROPERTIES,
    )  # some are of audit.language, which imports this package

    norms = (sharing.scale_invariant,) if sharing.batch_norms(fit.module_) else ()
    twice = (sharing.shared_gradients_add,) if sharing.uses_weights_twice(fit) else ()
    asked = fit.get("properties") or {}
    return *norms, *twice, *(one for name, one in PROPERTIES.items() if name in asked)
