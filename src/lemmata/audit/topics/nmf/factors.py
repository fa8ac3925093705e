"""Claims about non-negative factors X ≈ WH, recomputed from data and public attributes (facts.py).

A non-negative factorisation is no convex problem: a solver can reach a point where no entry of either factor wants to
move (KKT). It may still be poor, as the best matrix of rank k with any signs shows (its error is a lower bound, Eckart–Young),
and it may be one of many with the same product, which a shear of two components shows (uniqueness.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from lemmata.audit.kernel import claims
from lemmata.audit.kernel.attributes import (
    attributes_sound,
    discrepancy,
    never_rose,
    statements_true,
)
from lemmata.audit.topics.nmf import facts
from lemmata.audit.topics.nmf.uniqueness import judge_unique
from lemmata.completion.observed import Observed

Array = np.ndarray
STILL = 0.01  # of the data's own size, by which single entries may still want to move
COST_OF_SIGNS = 0.05  # of the squares, beside the best matrix of rank k
FORMED = 3000  # the smaller side up to which all singular values are found
BATCHES = "batches"  # why a fit of batches stops
OTHER = "doc_topic_ is not that of these rows: pass those that were fitted to"
NO_W = "the model keeps no W, and none was searched for"
SOLVED = "W was solved for: the model keeps none"


def _disagreements(fit: claims.Fit) -> Iterator[str]:
    k = len(fit.components_)
    if fit.get("n_components_") not in (None, k):
        yield f"n_components_ is {fit.n_components_}, but there are {k} components"


SOUND = attributes_sound(
    {"components_": "k d >=0", "doc_topic_?": "n k >=0", "reconstruction_err_?": ">=0"},
    _disagreements,
)


def _statement_errors(fit: claims.Fit) -> dict[str, float]:
    if fit.get("reconstruction_err_") is None:
        return {}
    found, numbers = facts.error_of(fit), facts.numbers_of(fit)
    if found is None:
        return {} if fit.get("doc_topic_") is None else {"doc_topic_": np.inf}
    # scikit-learn's number: ‖X − WH‖, and √(2D)
    stated = float(fit.reconstruction_err_) / math.sqrt(numbers.unit)
    if numbers.divergence:
        stated = (stated / math.sqrt(numbers.scale)) ** 2 / 2
    else:
        stated = (stated / numbers.scale) ** 2
    allowed = claims.rounding(np.asarray(fit.components_).dtype, fit.data.size)
    if numbers.given:
        return {"reconstruction_err_": discrepancy(stated, found.error, found.size, allowed)}
    if numbers.penalised:
        return {}
    # W is gone: no W ≥ 0 has less than this
    return {
        "reconstruction_err_": discrepancy(min(stated - found.least, 0.0), 0.0, found.size, allowed)
    }


TRUE = statements_true(_statement_errors, needs=(facts.error_of,))


def _squares(X) -> Array:
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X)


def _size_of_data(fit: claims.Fit) -> float:
    """Σ x of a divergence, Σ x² otherwise, in the units of the objective: of terms that nearly cancel, rounding is theirs."""
    rows = facts.NonnegativeRows(fit.data)
    if facts.divergence(fit):
        sums = (float(block.s @ np.asarray(block.X.sum(axis=1)).ravel()) for _, block in rows)
        return sum(sums) * rows.scale * rows.unit
    return sum(float(block.s @ _squares(block.X)) for _, block in rows) * rows.scale**2 * rows.unit


def _rounding_of_steps(fit: claims.Fit) -> float:
    if fit.get("stopped_") == BATCHES:
        raise claims.CannotTell("batches have no objective in common")
    if not len(fit.trace):
        raise claims.CannotTell("the trace is empty")
    return claims.rounding(np.asarray(fit.components_).dtype, fit.data.size)


def _why_it_rose(fit: claims.Fit) -> str:
    if fit.get("solver") == "projected-als":
        return "clipping does not guarantee descent: pass solver='hals'"
    return "rounding spoiled the run: fit float64 numbers"


# true of best co-ordinates (HALS) and of multiplicative updates; clipped least squares may break it
NEVER_ROSE = never_rose(
    "the objective never rose",
    "CIL 3.2.6; Lee & Seung 2001",
    _rounding_of_steps,
    _why_it_rose,
    size=_size_of_data,
    cost=claims.passes(2),
)


@claims.rule_of_thumb(
    "a first-order point: |min(entry, its gradient)| is below 1 % of the data for both factors",
    "KKT conditions of CIL (3.40)",
    needs=(facts.error_of,),
)
def first_order_point(fit: claims.Fit):
    found = facts.error_of(fit)
    if found is None:
        return claims.unknown(NO_W if fit.get("doc_topic_") is None else OTHER)
    side = "H" if found.columns >= found.rows else "W"
    note = f"{side} is the farther one" + ("" if facts.numbers_of(fit).given else f"; {SOLVED}")
    advice = "run longer: lower tol, raise max_iter, or pass solver='hals'"
    return claims.at_most(
        max(found.rows, found.columns), STILL, advice, "|min(factor, slope)|", note
    )


def _pairs(fit: claims.Fit) -> float:
    k, m = fit.components_.shape
    n = fit.data.shape[0] if fit.get("doc_topic_") is None else len(fit.doc_topic_)
    return 4.0 * float(k) ** 2 * (n + m)


@claims.proved(
    "no other factors ≥ 0 have the same product, but for order and scale",
    "Donoho & Stodden 2003; Laurberg et al. 2008; CIL 3.2.6",
    cost=_pairs,
    needs=(facts.numbers_of,),
)
def factors_determined(fit: claims.Fit):
    """A shear of two components that keeps all signs is a witness against it, and the number is how much of a component it
    moves; a row of W and a column of H to itself for every component prove it; in between it is undecided."""
    H, W, note = np.asarray(fit.components_, np.float64), fit.get("doc_topic_"), ""
    if W is None:
        numbers = facts.numbers_of(fit)
        H, W, note = numbers.H, numbers.W, f"; {SOLVED}"
        if W is None:
            return claims.unknown(NO_W)
    return judge_unique(
        np.asarray(W, np.float64),
        H,
        unit="share moved",
        advice="read components as one choice of many: fewer of them, or alpha_W with l1_ratio=1, which prefers zeros",
        shear=f"part of component {{b}} can be taken out of component {{a}} and given to W: WH stays what it is{note}",
        alone="every component has a row of W and a column of H to itself" + note,
        between="no shear of two components shows it, and not every one has a row and a column to itself (between is NP-hard)",
    )


def _spectrum_work(fit: claims.Fit) -> float:
    n, m = fit.data.shape
    if min(n, m) > FORMED:
        return 0.0
    return float(fit.data.size) * min(n, m) / 8 + min(n, m) ** 3.0


@claims.proved(
    "the error exceeds that of the best matrix of rank k with any signs by at most 5 % of the squares",
    "Eckart & Young; CIL Thm 2.3.4",
    cost=_spectrum_work,
    needs=(facts.error_of,),
)
def near_best_rank_k(fit: claims.Fit):
    """‖X − WH‖² ≥ σ²_{k+1} + σ²_{k+2} + …, whatever W and H: the difference is what signs and the search cost together."""
    numbers = facts.numbers_of(fit)
    if numbers.divergence:
        return claims.unknown("the best matrix of rank k is known for squares only")
    if isinstance(fit.data.source, Observed) or any(block.mask is not None for _, block in numbers):
        return claims.unknown("values are missing: the best matrix of rank k is not known")
    if min(fit.data.shape) > FORMED:
        return claims.unknown(f"singular values are found up to {FORMED:,} rows or columns")
    found = facts.error_of(fit)
    if found is None:
        return claims.unknown(NO_W if fit.get("doc_topic_") is None else OTHER)
    values = _squared_singular_values(numbers)
    k, square = len(numbers.H), max(found.size, 1e-300)
    tail = float(values[: max(len(values) - k, 0)].clip(min=0).sum())
    lost = max(found.error - tail, 0.0) / square
    advice = "signs are needed (TruncatedSVD), or the search ended in a poor place: try init='random' with other seeds"
    note = f"error² {100 * found.error / square:.3g} %, at least {100 * tail / square:.3g} % of the squares"
    if not numbers.given:
        note += f"; {SOLVED}"
    return claims.at_most(lost, COST_OF_SIGNS, advice, "lost", note)


def _squared_singular_values(numbers: facts.Numbers) -> Array:
    """σ² of diag(√s) X, rising, from the smaller Gram matrix."""
    n, m = numbers.data.shape
    if m <= n:
        gram = np.zeros((m, m))
        for _, block in numbers:
            X = block.X
            if sp.issparse(X):
                gram += (X.T @ sp.diags_array(block.s) @ X).toarray()
            else:
                gram += X.T @ (X * block.s[:, None])
    else:
        blocks = [
            sp.diags_array(np.sqrt(block.s)) @ block.X
            if sp.issparse(block.X)
            else np.sqrt(block.s)[:, None] * block.X
            for _, block in numbers
        ]
        whole = sp.vstack(blocks) if any(map(sp.issparse, blocks)) else np.concatenate(blocks)
        gram = whole @ whole.T
        gram = gram.toarray() if sp.issparse(gram) else gram
    return np.linalg.eigvalsh((gram + gram.T) / 2)


NMF_CLAIMS = (SOUND, TRUE, first_order_point, NEVER_ROSE, factors_determined, near_best_rank_k)
