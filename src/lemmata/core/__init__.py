"""Everything that models share: the loop, certificates, blocks of data, files."""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "blocks": "Blocks",
        "certificate": "PROVED RULE_OF_THUMB STATISTICAL Certificate Claim Evidence Fit NotCertified "
        "Statement at_least at_most claim free passes rounding unknown",
        "certification.checking": "check",
        "engine": "map_reduce",
        "loop": "Algorithm Diverged Interrupted MaxSteps Never Seconds Settled SmallGradient "
        "Solution StepFailed Stop Stopped run",
        "moments": "Moments",
        "runs.checkpoint": "Checkpoint",
        "runs.progress": "Progress",
        "runs.repeat": "Path Restarts",
        "runs.trace": "Trace",
        "store": "StoreError storable",
    },
)
