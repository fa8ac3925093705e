"""Matrix completion (CIL 2): what is known of a matrix, and what may be said of the rest."""

from lemmata.completion.observed import Observed

__all__ = ["Observed"]
