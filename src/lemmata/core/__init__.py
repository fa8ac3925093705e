"""What every model shares: the loop, certificates, blocks of data, files."""

from lemmata.core.blocks import Blocks
from lemmata.core.certificate import (
    Certificate,
    Claim,
    Evidence,
    Fit,
    NotCertified,
    at_least,
    at_most,
    claim,
    rounding,
    unknown,
)
from lemmata.core.checkpoint import Checkpoint
from lemmata.core.engine import map_reduce
from lemmata.core.loop import (
    Algorithm,
    Diverged,
    Interrupted,
    MaxSteps,
    Never,
    Seconds,
    Settled,
    SmallGradient,
    Solution,
    StepFailed,
    Stop,
    run,
)
from lemmata.core.moments import Moments
from lemmata.core.progress import Progress
from lemmata.core.repeat import Path, Restarts
from lemmata.core.store import StoreError, storable
from lemmata.core.trace import Trace

__all__ = [
    "Algorithm", "Blocks", "Certificate", "Checkpoint", "Claim", "Diverged", "Evidence", "Fit", "Interrupted", "MaxSteps",
    "Moments", "Never", "NotCertified", "Path", "Progress", "Restarts", "Seconds", "Settled", "SmallGradient", "Solution",
    "StepFailed", "Stop", "StoreError", "Trace", "at_least", "at_most", "claim", "map_reduce", "rounding", "run",
    "storable", "unknown",
]  # fmt: skip
