"""Claims that many certificates share: the attributes are sound, what they state is true of the data, no step rose.

    SOUND = attributes_sound({"components_": "k d", "mean_": "d", "explained_variance_?": "k >=0 falling"})
    TRUE = statements_true(measure, cost=passes(2))

A table gives the shape of each attribute in a few words. Files are checked by the same words (core/files/layout.py):

    "k d"             numbers with two axes; a letter is the same size throughout a table, d that of the features; 2 is two
    ""                one number
    "k >=0 <=1"       … all of them within a range (>=, >, <, and <= up to rounding)
    "n int >=0 <k"    … below the size of a letter, where it is known from a line before: places in an array
    "k >=0 falling"   … none larger than the one before
    "k sum=1"         … that add up to 1
    "k distinct"      … none of them twice
    "n int"           whole numbers; in files, of an integer type
    "n float"         of type float32 or float64, in files: usual there
    "n numbers"       whole or not, in files
    "n bool"          truth values, in files
    "d text"          words, in files
    "c labels"        words or numbers, in files: the classes of a classifier
    "k d nan"         NaN is allowed, in files; otherwise every number is finite
    "k any"           infinities too, in files
    "n d sparse"      an array or a sparse matrix, in files
    "d | m d"         one or the other, by the number of axes

Names that share a shape may share a line: {"U_ V_": "n k"}. "?" at the end of a name: it may be absent, or None. The number of
rows is left to the statements: a model that was fitted to other rows is sound, but what it states is not true of these.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from lemmata.audit.kernel import claims
from lemmata.audit.kernel.claims import rounding

Array = np.ndarray
Spec = TypeVar("Spec")

# --- shapes -----------------------------------------------------------------------------------------------------------

KINDS = ("int", "float", "numbers", "bool", "text", "labels", "nan", "any", "sparse")
LAWS: dict[str, Callable[[Array], bool]] = {
    "int": lambda x: x.dtype.kind != "f" or bool((x == np.round(x)).all()),
    "falling": lambda x: bool((np.diff(x) <= rounding(x.dtype) * np.abs(x).max(initial=0.0)).all()),
    "distinct": lambda x: len(np.unique(x)) == x.size,
    "sum=1": lambda x: abs(float(x.sum(dtype=np.float64)) - 1) <= rounding(x.dtype, x.size),
}
IN_WORDS = {"int": "whole", "falling": "falling", "distinct": "distinct", "sum=1": "sum 1"}
COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


@dataclass(frozen=True)
class Shape:
    """One alternative of a specification: its axes, and the words that say more about the numbers."""

    axes: tuple[str, ...]
    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((*self.axes, *self.words))

    def describes(self, shape: tuple[int, ...]) -> bool:
        """Return whether an array has these axes, whatever the sizes of the letters."""
        return len(shape) == len(self.axes) and all(
            axis.isalpha() or int(axis) == size for axis, size in zip(self.axes, shape, strict=True)
        )

    def other_size(self, shape: tuple[int, ...], sizes: dict[str, int]) -> str | None:
        """Return the first letter that has another size elsewhere; `sizes` remembers those seen so far."""
        for letter, size in zip(self.axes, shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                return letter
        return None

    def violations(self, x: Array, sizes: Mapping[str, int]) -> Iterator[str]:
        """Name the ranges and laws that numbers do not obey; NaN obeys them all."""
        if self.words and x.dtype.kind == "f" and np.isnan(x).any():
            x = x[~np.isnan(x)]
        for word in self.words:
            if word in LAWS:
                if not LAWS[word](x):
                    yield IN_WORDS[word]
            elif limits := _range(word):
                relation, found = limits
                bound = float(sizes.get(found, np.inf) if found.isalpha() else found)
                # the largest of rounded shares may be 1 + eps
                slack = abs(bound) * rounding(x.dtype, x.size) if relation == "<=" else 0.0
                if not np.all(COMPARE[relation](x, bound + slack)):
                    yield f"{relation} {bound:g}"


@lru_cache(maxsize=1024)
def parse(spec: str) -> tuple[Shape, ...]:
    """Return the alternatives of a specification. Raises ValueError where it is none."""
    return tuple(_parse_one(part) for part in spec.split("|"))


def _parse_one(spec: str) -> Shape:
    axes: list[str] = []
    words: list[str] = []
    for word in spec.split():
        if word in KINDS or word in LAWS or _range(word):
            words.append(word)
        elif re.fullmatch("[A-Za-z]+|[0-9]{1,9}", word) and not words:
            axes.append(word)
        else:
            raise ValueError(f"{spec!r} is no shape: {word!r} is neither an axis nor a rule.")
    return Shape(tuple(axes), tuple(words))


def _range(word: str) -> tuple[str, str] | None:
    found = re.fullmatch(r"([<>]=?)(-?[0-9]{1,9}(?:\.[0-9]{1,9})?|[A-Za-z])", word)
    return (found[1], found[2]) if found else None


def shape_for(spec: str, value: Any) -> Shape:
    """Return the alternative that has the axes of a value; the first if none has."""
    options = parse(spec)
    if len(options) == 1:
        return options[0]
    return next((one for one in options if len(one.axes) == np.ndim(value)), options[0])


def entries(table: Mapping[str, Spec]) -> dict[str, tuple[Spec, bool]]:
    """Return what a table says about each name, and whether it may be absent; of two lines the later one counts."""
    return {
        name.removesuffix("?"): (spec, name.endswith("?"))
        for names, spec in table.items()
        for name in names.split()
    }


# --- the attributes are sound -----------------------------------------------------------------------------------------


def attributes_sound(
    attributes: Mapping[str, str], more: Callable[[claims.Fit], Iterator[str]] | None = None
) -> claims.Statement:
    """The claim that attributes are finite, of shapes that fit each other, and in range.

    attributes : a table of shapes, kept as `shapes` of the claim
    more : gives a sentence for everything else that is wrong with a fit
    """

    @claims.claim(
        "the attributes are finite, of matching shapes and in range",
        kind=claims.PROVED,
        source="by definition",
    )
    def attributes_sound(fit: claims.Fit) -> claims.Evidence:
        wrong = list(_problems(fit, attributes))
        if not wrong and more is not None:
            wrong += more(fit)
        more_of_them = [f"and {len(wrong) - 3} more"] if len(wrong) > 3 else []
        note = "; ".join(wrong[:3] + more_of_them)
        return claims.at_most(len(wrong), 0, "do not use this model; fit it again", "unsound", note)

    return replace(attributes_sound, shapes=attributes)


def _problems(fit: claims.Fit, attributes: Mapping[str, str]) -> Iterator[str]:
    sizes: dict[str, int] = {}
    if fit.has_data:
        d = sizes["d"] = fit.data.shape[1]
        if d != fit.get("n_features_in_", d) and "d" in " ".join(attributes.values()).split():
            yield f"n_features_in_ is {fit.n_features_in_}, and there are {d:,} columns"
    for name, (spec, optional) in entries(attributes).items():
        value = fit.get(name)
        if value is not None:
            yield from _problems_of(name, np.asarray(value), spec, sizes)
        elif not optional:
            yield f"{name} is missing"


def _problems_of(name: str, x: Array, spec: str, sizes: dict[str, int]) -> Iterator[str]:
    shape = shape_for(spec, x)
    if x.dtype.kind not in "fiub":
        yield f"{name} holds {x.dtype}, not numbers"
    elif not shape.describes(x.shape):
        yield f"{name} has shape {x.shape}, not ({' '.join(shape.axes)})"
    elif letter := shape.other_size(x.shape, sizes):
        yield f"{name} has shape {x.shape}, but {letter} = {sizes[letter]}"
    elif not np.isfinite(x).all():
        yield f"{name} has {int((~np.isfinite(x)).sum())} numbers that are not finite"
    else:
        yield from (f"{name} should be {rule}" for rule in shape.violations(x, sizes))


# --- the statements are true ------------------------------------------------------------------------------------------


# What models state and nobody recomputes, unless a `measure` does: such a number may be changed and no claim notices.
OF_THE_RUN = (  # how it went; claims about it read its trace
    "n_iter_ n_iters_ n_steps_ steps_ t_ batch_size_ stopped_ converged_ loss_curve_ solver_ precision_ "
    "validation_scores_ validation_rows_"
)
KEPT = "sums_ moments_ stepwise_ batches_ family_ observed_"  # for a further fit, or to recommend what is new
# folds are not known; other draws would do as well
UNKNOWABLE = "mse_path_ random_weights_ random_offset_"
NOT_RECOMPUTED = f"{OF_THE_RUN} {KEPT} {UNKNOWABLE}".split()


def statements_true(
    measure: Callable[[claims.Fit], Mapping[str, float | None]],
    cost: Callable[[claims.Fit], float] | None = None,
    needs: tuple[claims.Fact, ...] = (),
    unchecked: str = "",
) -> claims.Statement:
    """The claim that the numbers a model states are those of the data. Its note has those that were checked, and the others.

    measure : gives, by name, how far each stated number is from that of the data, in units of the rounding it may have (see
        `discrepancy`): at most 1 is true. None: it could not be checked here. A model that states nothing gives nothing.
    cost : by default a pass over the data, or nothing besides the facts that it needs
    unchecked : attributes of these models besides NOT_RECOMPUTED that no claim would notice changed
    """
    others = (*unchecked.split(), *NOT_RECOMPUTED)

    @claims.claim(
        "what the model states is true of the data",
        kind=claims.PROVED,
        source="by definition",
        cost=cost or (claims.free if needs else claims.passes()),
        needs=needs,
    )
    def statements_true(fit: claims.Fit) -> claims.Evidence:
        found = measure(fit)
        errors = {
            name: np.inf if np.isnan(error) else error
            for name, error in found.items()
            if error is not None
        }
        left = [
            name for name in (*found, *others) if name not in errors and fit.get(name) is not None
        ]
        rest = f"; not recomputed: {', '.join(left)}" if left else ""
        if not errors:
            return claims.unknown(f"the model states no number that data could contradict{rest}")
        worst = max(errors, key=lambda name: errors[name])
        advice = f"{worst} is not that of this data: pass the training data (and its weights), or fit it again"
        note = f"checked {', '.join(errors)}{rest}"
        return claims.at_most(errors[worst], 1.0, advice, unit="error / rounding", note=note)

    return statements_true


def discrepancy(stated: Any, true: Any, scale: Any, tolerance: float) -> float:
    """The largest |stated − true| over tolerance·scale; inf where shapes differ or something is not a finite number."""
    stated, true = np.asarray(stated, dtype=np.float64), np.asarray(true, dtype=np.float64)
    if stated.shape != true.shape:
        return float("inf")
    scale = np.broadcast_to(np.asarray(scale, dtype=np.float64), true.shape)
    known = np.isfinite(stated) & np.isfinite(true) & np.isfinite(scale)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        errors = np.abs(stated - true)
        # divided one after the other: the product of two small numbers may be 0
        ratios = np.where(errors == 0, 0.0, errors / scale / tolerance)
    return float(np.where(known, ratios, np.inf).max(initial=0.0))


def never_rose(
    sentence: str,
    source: str,
    rounding: Callable[[claims.Fit], float],
    advice: str | Callable[[claims.Fit], str] = "",
    *,
    name: str = "never_rose",
    unit: str = "largest rise",
    needs_steps: str = "",
    size: Callable[[claims.Fit], float] | None = None,
    price: str = "",
    cost: Callable[[claims.Fit], float] = claims.free,
) -> claims.Statement:
    """The claim that no step of a run raised its objective, as a theorem says of exact steps.

    A rise is measured against the largest objective of the run, since the rounding of a sum follows the size of its terms.

    rounding : what floats may add to a step, as a share of the largest objective
    needs_steps : said where the trace has one number only; empty: that is a run that never rose
    size : of the terms, where they nearly cancel, so that the objective itself is smaller than their rounding
    price : the column of the trace with what a step may add besides
    """

    def check(fit: claims.Fit) -> claims.Evidence:
        assert fit.trace is not None  # the claim is about the run
        values, columns = fit.trace.objective, fit.trace.extras
        if needs_steps and len(values) < 2:
            return claims.unknown(needs_steps)
        bound = rounding(fit)
        rises = np.diff(values) - (columns[price][1:] if price in columns else 0.0)
        scale = max(float(np.abs(values).max(initial=0.0)), size(fit) if size else 0.0)
        largest = max(float(rises.max(initial=0.0)), 0.0) / scale if scale > 0 else 0.0
        return claims.at_most(largest, bound, advice(fit) if callable(advice) else advice, unit)

    return claims.Statement(name, sentence, claims.PROVED, source, check, about="run", cost=cost)
