"""Claims about encoders that learned without labels: SimCLR's, BYOL's, VICReg's, and anybody's torch.nn.Module.

features.py    rows not trained on, their features and views; the same network with new weights
collapse.py    not_collapsed: spread and rank of the features
usefulness.py  views_found; probes against raw pixels and against the untrained network
stated.py      what our estimators state: losses at known draws, recomputed
"""

from __future__ import annotations

from typing import Any

from lemmata.audit.selfsup.collapse import not_collapsed
from lemmata.audit.selfsup.stated import selfsup_sound, selfsup_true
from lemmata.audit.selfsup.usefulness import (
    probe_beats_pixels,
    probe_beats_untrained,
    views_found,
)

SELFSUP_CLAIMS: tuple[Any, ...] = (selfsup_sound, selfsup_true, not_collapsed, views_found)
SELFSUP_MORE_CLAIMS: tuple[Any, ...] = (probe_beats_pixels, probe_beats_untrained)
VIEW_CLAIMS: tuple[Any, ...] = (not_collapsed, views_found)
