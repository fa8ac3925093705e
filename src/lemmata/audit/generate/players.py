"""Claims about an adversarial game: both players are still playing. What the samples are worth is for samples.py.

The trace holds, of every epoch, the shares of data and of samples that the discriminator put on the right side, each batch
under the weights before its update. A discriminator that is always right teaches nothing: its gradient vanishes (CIL before
(5.38)). One that gives the same answer everywhere is always right about one side, and about both where it answers 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lemmata.audit.generate.densities import cost_of_row
from lemmata.audit.generate.samples import (
    classes_obeyed,
    modes_covered,
    not_copied,
    passes_for_data,
)
from lemmata.audit.kernel import claims as k
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true
from lemmata.audit.nets.modules import rows_of
from lemmata.audit.nets.stated import float_type, stated_rows, unsound_network

LEAST = 0.01  # of either side, that a living discriminator gets wrong
LATE = 4  # the last quarter of the run
SIDES = ("data_right", "samples_right")


@k.rule_of_thumb(
    f"late in the run the discriminator errs on at least {LEAST:.0%} of the data and of the samples",
    "CIL 5.4.3",
    about="run",
)
def players_alive(fit: k.Fit) -> k.Evidence:
    """The mean over the last quarter of the steps, of the side on which it errs less."""
    assert fit.trace is not None
    extras = fit.trace.extras
    if not set(SIDES) <= set(extras):
        raise k.CannotTell("the trace does not say how often the discriminator was right")
    steps = len(fit.trace) - 1  # the first row is of the weights that it began with
    if steps < LATE:
        raise k.CannotTell(f"{steps} steps: {LATE} are needed")
    late = {name: 1 - np.asarray(extras[name])[-(steps // LATE) :].mean() for name in SIDES}
    wrong = [float(late[name]) for name in SIDES]
    note = (
        f"it errs on {100 * wrong[0]:.1f} % of the data and {100 * wrong[1]:.1f} % of the samples"
    )
    if not np.isfinite(wrong).all():
        raise k.CannotTell("the shares in the trace are not finite")
    advice = "raise r1 or pass spectral=True: a discriminator that is always right, or always gives one answer, teaches nothing"
    return k.at_least(min(wrong), LEAST, advice, unit="share wrong", note=note)


def _statement_errors(fit: k.Fit) -> Mapping[str, float]:
    """loss_ : the discriminator's loss, without penalty, at the rows that it is of and at as many samples from known noise."""
    (some, weights), places = stated_rows(fit), None
    if fit.get("classes_") is not None:
        if fit.y is None:
            raise k.CannotTell("it is of rows and their classes: pass y")
        places = np.asarray(fit.y)[some]
    noise = np.random.default_rng(0).standard_normal((len(some), fit.module_.latent))
    found = fit.module_.logits(rows_of(fit.data, some), noise, places)
    real, fake = (one.double().cpu().numpy() for one in found)
    each = fake - real if fit.loss == "wasserstein" else np.logaddexp(0, -real) + np.logaddexp(0, fake)  # fmt: skip
    loss, size = (
        float(np.average(each / 2, weights=weights)),
        1 + float(np.abs([real, fake]).mean()),
    )
    return {"loss_": discrepancy(fit.loss_, loss, size, k.rounding(float_type(fit), 4096))}


def _cost_of_statement(fit: k.Fit) -> float:
    return 2.0 * min(fit.data.shape[0], 2000) * cost_of_row(fit)


GAN_CLAIMS: tuple[Any, ...] = (
    attributes_sound({"loss_": "", "test_rows_?": "t int >=0"}, unsound_network),
    statements_true(_statement_errors, cost=_cost_of_statement, unchecked="test_rows_"),
    modes_covered,
    passes_for_data,
    not_copied,
    players_alive,
)
GAN_MORE_CLAIMS: tuple[Any, ...] = (classes_obeyed,)
