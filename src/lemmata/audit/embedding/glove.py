"""Claims about word vectors that factorise log-counts (GloVe), recomputed from the counts and the public attributes.

    J = Σ_{N_wv>0} f(N_wv) e_wv² + λ(‖ζ‖² + ‖z‖² + ‖b‖² + ‖c‖²),    e_wv = ln N_wv − μ − b_w − c_v − ⟨ζ_w, z_v⟩     (CIL (3.56))

with f(n) = min{1, (n/x_max)^α}; ½J is a factored objective with weights f. Vectors are compared with the best
biases without them: ln N ≈ μ + b_w + c_v says that words occur together as often as their frequencies suggest. Those solve

    (Σ_v f) b_w + Σ_v f c_v = Σ_v f (ln N − μ),        (Σ_w f) c_v + Σ_w f b_w = Σ_w f (ln N − μ)

by conjugate gradients. Log-counts of rare pairs are mostly noise, and f lets vectors neglect them: so the two are
compared for rare and for frequent pairs separately, by the decade of N.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

from lemmata.audit.completion.factored_objective import Factored, Factors
from lemmata.audit.completion.factors import SLOPE, slope_at
from lemmata.audit.completion.statements import loss_error
from lemmata.audit.embedding.skipgram import loss_fell
from lemmata.audit.kernel import attributes, claims
from lemmata.audit.kernel.attributes import attributes_sound, discrepancy, statements_true

Array = np.ndarray
LEFT = 95.0  # per cent of what biases leave, in every band
FEW = 50  # pairs: a band with fewer shows nothing
ACCURACY = 1e-8  # of the best biases
MET = 1e-6  # of a logarithm: less is rounding


def log_counts(fit: claims.Fit) -> tuple[Array, Array]:
    """ln N and f(N) of the pairs that occur, row by row."""
    N = np.asarray(fit.data.matrix.data, np.float64)
    x = np.log(N)
    return x, np.exp(np.minimum(0.0, float(fit.alpha) * (x - np.log(float(fit.x_max)))))


def per_pair(times: float) -> Any:
    """The cost of so many passes over every pair with its vectors."""

    def cost(fit: claims.Fit) -> float:
        return times * fit.data.n_observed * (np.shape(fit.word_embedding_)[1] + 8)

    return cost


@claims.fact(cost=per_pair(3))
def problem(fit: claims.Fit) -> Factored:
    """Return ½J at the fit."""
    N = fit.data.matrix
    x, f = log_counts(fit)
    parts = (fit.word_embedding_, fit.context_embedding_, fit.biases_, fit.context_biases_)
    at = Factors(*(np.asarray(part, np.float64) for part in parts))
    ridge = np.full(N.shape[0], float(fit.get("reg_", 0.0)))
    return Factored(
        N.indptr, N.indices, x - float(fit.mean_), f, at, ridge, ridge, (ridge, ridge), True
    )


# --- sound and true ---------------------------------------------------------------------------------------------------


def statement_errors(fit: claims.Fit) -> dict[str, float]:
    """J, μ, the words counted in the text, and the sum of both vectors, beside what the model says."""
    counts, found = np.asarray(fit.counts_), np.asarray(fit.data.vocabulary.counts)
    if len(counts) != len(found):
        return {"counts_": np.inf}
    x, f = log_counts(fit)
    single = claims.rounding(np.float32, len(x))
    both = np.asarray(fit.word_embedding_) + np.asarray(fit.context_embedding_)
    size = np.abs(fit.word_embedding_) + np.abs(fit.context_embedding_)
    return {
        "loss_": loss_error(problem(fit), float(fit.loss_) / 2, np.float32),
        "mean_": discrepancy(
            float(fit.mean_), (f @ x) / f.sum(), (f @ np.abs(x)) / f.sum(), single
        ),
        # one that is off by one is off
        "counts_": float(np.abs(found - counts).max(initial=0)) * 2,
        "embedding_": discrepancy(fit.embedding_, both, size, claims.rounding(np.float32)),
    }


SOUND = attributes_sound(
    {
        "embedding_ word_embedding_ context_embedding_": "d k",
        "biases_ context_biases_": "d",
        "mean_": "",
        "reg_ loss_": ">=0",
        "counts_": "d int >=0",
    }
)
TRUE = statements_true(statement_errors, needs=(problem,))


# --- the run ----------------------------------------------------------------------------------------------------------


# each half of a sweep of alternating least squares is exact, with weights as without
never_rose = attributes.never_rose(
    "the objective never rose",
    "CIL 2.4.3",
    lambda fit: claims.rounding(np.float32, terms=fit.data.n_observed),
    "report this: an exact half-sweep cannot raise it",
)


# --- the result -------------------------------------------------------------------------------------------------------


@claims.rule_of_thumb(
    "a first-order point: the gradient is at most 0.2 % of the size of its terms",
    "CIL (2.38)",
    cost=per_pair(7),
    needs=(problem,),
)
def first_order_point(fit):
    """‖∇‖ of ζ, of z, of b or of c over the lengths of its terms, the worst of them (factors.py)."""
    advice = "not converged: pass more epochs"
    return claims.at_most(slope_at(problem(fit)), SLOPE, advice, unit="|∇| / its terms")


def biases_alone(fit: claims.Fit) -> Array:
    """The residual of ln N at every pair after the best biases without vectors."""
    N = fit.data.matrix
    x, f = log_counts(fit)
    x = x - (f @ x) / f.sum()
    F = sp.csr_array((f, N.indices, N.indptr), shape=N.shape)
    turned, v = F.T.tocsr(), N.shape[0]
    X = sp.csr_array((f * x, N.indices, N.indptr), shape=N.shape)
    rows, columns = (np.where(mass > 0, mass, 1.0) for mass in (F.sum(axis=1), F.sum(axis=0)))
    r, s = X.sum(axis=1), X.sum(axis=0)
    schur = LinearOperator((v, v), lambda c: columns * c - turned @ ((F @ c) / rows), np.float64)
    scaled = LinearOperator((v, v), lambda c: c / columns, np.float64)
    c, unsolved = cg(schur, s - turned @ (r / rows), rtol=ACCURACY, maxiter=500, M=scaled)
    if unsolved:
        raise claims.CannotTell("the best biases were not found in 500 steps")
    b = (r - F @ c) / rows
    return x - np.repeat(b, np.diff(N.indptr)) - c[N.indices]


def bands(N: Array) -> list[tuple[str, Array]]:
    """Pairs by the decade of their count; what is left of a thin decade joins the one below it."""
    decade = np.floor(np.log10(N)).astype(int)
    found: list[tuple[int, Array]] = []
    for d in np.unique(decade)[::-1].tolist():
        here = decade == d
        if found and found[-1][1].sum() < FEW:
            here = here | found.pop()[1]
        found.append((d, here))
    top = int(decade.max(initial=0))
    return [
        (f"{10.0**d:g}…" if d == top else f"{10.0**d:g}–{10.0 ** (d + 1):g}", here)
        for d, here in found
    ]


@claims.rule_of_thumb(
    "for rare and for frequent pairs alike, the error of ln N is at most 95 % of that of biases alone",
    "CIL (3.56); CIL20 5.4",
    cost=per_pair(2),
    needs=(problem,),
)
def bands_explained(fit):
    """√(Σ f e² / Σ f) over the pairs of each decade of counts, beside the same of the best biases: the worst decade."""
    at, f, alone = problem(fit), log_counts(fit)[1], biases_alone(fit)
    errors = at.target - at.fitted
    filled = [(name, here) for name, here in bands(fit.data.matrix.data) if here.sum() >= FEW]
    if not filled:
        return claims.unknown(f"fewer than {FEW} pairs occur")
    sizes, shares = [], []
    for name, here in filled:
        mine, theirs = (np.sqrt((f[here] @ e[here] ** 2) / f[here].sum()) for e in (errors, alone))
        if theirs > MET:
            shares.append(100 * mine / theirs)
            sizes.append(f"{name}: {mine:.2g} of {theirs:.2g}")
    if not shares:
        return claims.unknown("biases alone meet every count: there is nothing left for vectors")
    first = "lower reg" if float(fit.get("reg_", 0.0)) > 0 else "train more epochs"
    advice = f"{first}, or raise vector_size; if only rare pairs are left, lower x_max or alpha"
    return claims.at_most(max(shares), LEFT, advice, unit="% left", note="; ".join(sizes))


GLOVE_CLAIMS = (SOUND, TRUE, bands_explained, loss_fell)
GLOVE_ALS_CLAIMS = (SOUND, TRUE, bands_explained, first_order_point, never_rose)
