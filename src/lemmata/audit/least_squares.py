"""What is claimed of least squares and ridge regression: the normal equations hold, and what they leave open."""

from __future__ import annotations

from lemmata.audit.attributes import statements_true
from lemmata.audit.linear_objectives import least_squares_words, ridge_words
from lemmata.audit.penalised import SOUND, _nothing, near_optimum

LEAST_SQUARES_CLAIMS = (SOUND, statements_true(_nothing), near_optimum(least_squares_words))
RIDGE_CLAIMS = (SOUND, statements_true(_nothing), near_optimum(ridge_words))
