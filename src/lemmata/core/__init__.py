"""What every model shares: the loop, certificates, blocks of data, files."""

from lemmata.registry import lazily

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        **dict.fromkeys(["Blocks"], "blocks"),
        **dict.fromkeys(
            [
                "PROVED", "RULE_OF_THUMB", "STATISTICAL", "Certificate", "Claim", "Evidence", "Fit", "NotCertified",
                "Statement", "at_least", "at_most", "check", "claim", "free", "passes", "rounding", "unknown",
            ],
            "certificate",
        ),
        **dict.fromkeys(["Checkpoint"], "runs.checkpoint"),
        **dict.fromkeys(["map_reduce"], "engine"),
        **dict.fromkeys(
            [
                "Algorithm", "Diverged", "Interrupted", "MaxSteps", "Never", "Seconds", "Settled", "SmallGradient",
                "Solution", "StepFailed", "Stop", "Stopped", "run",
            ],
            "loop",
        ),
        **dict.fromkeys(["Moments"], "moments"),
        **dict.fromkeys(["Progress"], "runs.progress"),
        **dict.fromkeys(["Path", "Restarts"], "runs.repeat"),
        **dict.fromkeys(["StoreError", "storable"], "store"),
        **dict.fromkeys(["Trace"], "runs.trace"),
    },
)  # fmt: skip
