"""Parameters that several models of words have. A model passes its own meaning by `.doc`."""

from __future__ import annotations

from numbers import Integral, Real

from lemmata.core import common
from lemmata.core.parameters import COUNT, NONNEGATIVE, parameter
from lemmata.core.validation import Interval
from lemmata.text.words import Tokenizer


def between(low: int, high: int) -> Interval:
    """Whole numbers from low to high."""
    return Interval(Integral, low, high, closed="both")


VECTOR_SIZE = parameter(100, between(1, 2**16)).doc("k, how many numbers a vector has.")
WINDOW = parameter(5, between(1, 1000)).doc("R: pairs are at most so far apart.")
NEGATIVE = parameter(5, between(1, 10000))
NS_EXPONENT = parameter(0.75, Interval(Real, -10, 10, closed="both")).doc("""
    α in q ∝ p^α, what negatives are drawn from.""")
MIN_COUNT = parameter(5, COUNT).doc("Words that occur less often are dropped.")
MAX_VOCAB_SIZE = parameter(None, Interval(Integral, 2, None, closed="left"), None).doc("""
    Keep only so many of the most frequent words.""")
MIN_ALPHA = parameter(1e-4, NONNEGATIVE).doc("The last one; γ falls linearly in between.")
TOL = common.tol(0.0).doc("""
    Stop early when an epoch changes the loss by at most this share of it; 0: make all epochs.""")
TOKENIZER = parameter(None, Tokenizer, None).doc("""
    What makes words of texts. Lists of words need none.""")
