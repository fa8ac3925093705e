"""Claims about networks, one file per subject; PyTorch is imported when one is checked.

    MODULE_CLAIMS             what is checked of any torch.nn.Module
    CLASSIFIER_CLAIMS, …      what stands in the certificate of a fit; …_MORE_CLAIMS only in that of `certify`
    mlp.py, autoencoders.py   networks of NumPy arrays, ours and scikit-learn's; codes and their decoders

OCCASIONAL_CLAIMS apply to some networks only, `occasions` says which: batch norms, shared weights, properties asked for.
"""

from __future__ import annotations

from lemmata.audit.kernel.claims import Fit
from lemmata.audit.nets.gradients import gradients_true
from lemmata.audit.nets.parameters import MODULE_STATED_CLAIMS
from lemmata.audit.nets.properties.asked import PROPERTIES, wanted
from lemmata.audit.nets.properties.causality import causal, padding_ignored
from lemmata.audit.nets.properties.sharing import (
    batch_norms,
    scale_invariant,
    shared_gradients_add,
    uses_weights_twice,
)
from lemmata.audit.nets.properties.symmetries import permutation_equivariant, shift_equivariant
from lemmata.audit.nets.signal import signal_kept, units_alive
from lemmata.audit.nets.stated import STATED_CLAIMS
from lemmata.audit.nets.unseen import (
    beats_linear,
    beats_ridge,
    calibrated,
    held_out_accuracy,
    held_out_error,
)

# what some networks are asked to have, by the name of the property
PROPERTY_CLAIMS = (causal, padding_ignored, shift_equivariant, permutation_equivariant)
OCCASIONAL_CLAIMS = (scale_invariant, shared_gradients_add, *PROPERTY_CLAIMS)

MODULE_CLAIMS = (*MODULE_STATED_CLAIMS, gradients_true, signal_kept, units_alive)
CLASSIFIER_CLAIMS = (*STATED_CLAIMS, units_alive, held_out_accuracy)
CLASSIFIER_MORE_CLAIMS = (calibrated, beats_linear, gradients_true, signal_kept)
REGRESSOR_CLAIMS = (*STATED_CLAIMS, units_alive, held_out_error)
REGRESSOR_MORE_CLAIMS = (beats_ridge, gradients_true, signal_kept)


def occasions(fit: Fit) -> set[str]:
    """Which of the occasional claims apply: it has batch norms, it uses a weight twice, it was asked for a property."""
    found = {scale_invariant.name} if batch_norms(fit.module_) else set()
    found |= {shared_gradients_add.name} if uses_weights_twice(fit) else set()
    asked = wanted(fit)
    pairs = zip(PROPERTIES, PROPERTY_CLAIMS, strict=True)
    return found | {one.name for name, one in pairs if name in asked}
