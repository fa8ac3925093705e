"""Judge samples, whoever drew them: a certificate, and the usual measures next to what data gets against data.

    >>> import numpy as np, lemmata
    >>> from lemmata.generate import Samples, frechet_distance
    >>> rng = np.random.default_rng(0)
    >>> X, new, drawn = rng.normal(size=(3, 1000, 2))
    >>> found = lemmata.certify(Samples(drawn), X, X_test=new)
    >>> found["passes_for_data"].verdict, found["not_copied"].verdict
    ('holds', 'holds')
    >>> copies = Samples(X + 0.01 * rng.normal(size=X.shape))
    >>> lemmata.certify(copies, X, X_test=new)["not_copied"].verdict
    'fails'

A measure by itself says little: pass the same number of new rows in place of the samples, and compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from lemmata.audit.generate.samples import SAMPLE_CLAIMS
from lemmata.core.blocks import Blocks
from lemmata.core.certificate import Certificate, Fit
from lemmata.core.certification.certify import Request
from lemmata.generate.witness import tell_apart
from lemmata.trust.bounds import clopper_pearson

Array = np.ndarray
WORK = 1e10  # multiplications of a generator's training, for the budget of the checks
OTHER_UNIT = 20.0  # times as large or small: another unit
AT_ONCE = 2**22  # distances


class Samples:
    """Rows that a generator drew, to be certified: ``lemmata.certify(Samples(S), X, X_test=…)``.

    Parameters
    ----------
    rows : array of shape (n, …), in the shape and the units of X
    classes : array of shape (n,), optional
        The class that each was asked to have.
    """

    def __init__(self, rows: Any, classes: Any = None):
        self.rows = as_rows(rows, "samples", finite=False)
        self.classes = None if classes is None else np.asarray(classes)
        if self.classes is not None and self.classes.shape != (len(self.rows),):
            raise ValueError(f"classes have shape {self.classes.shape} for {len(self.rows):,} samples.")  # fmt: skip


def as_rows(X: Any, name: str, finite: bool = True) -> Array:
    """A table of numbers, (n, d): images are flattened."""
    X = X.detach().cpu().numpy() if hasattr(X, "detach") else np.asarray(X)
    if X.ndim < 2 or X.dtype.kind not in "fiub" or len(X) < 2:
        raise ValueError(
            f"{name}: shape {X.shape} of {X.dtype}; pass numbers (n, d) or (n, channels, height, width), two rows at least."
        )
    if finite and not np.isfinite(X).all():
        raise ValueError(f"{name} holds numbers that are not finite; leave out those rows.")
    return X.reshape(len(X), -1).astype(np.float64)


def answer(model: Samples, request: Request) -> Certificate:
    """Certify samples for `lemmata.certify`: X is what their generator was trained on."""
    request.need_data(model)
    more = request.take(model, ("X_test", "y_test"))
    X = as_rows(request.X, "X")
    found: dict[str, Any] = {"samples": Blocks.of(model.rows), "sample_classes": model.classes}
    for name, rows in (("samples", model.rows), ("X_test", more.get("X_test"))):
        if rows is not None:
            rows = rows if name == "samples" else as_rows(rows, name)
            _require_alike(name, rows, X)
            found[name] = Blocks.of(rows)
    found["y_test"] = more.get("y_test")
    for name, classes, rows in (("y", request.y, X), ("y_test", found["y_test"], found.get("X_test"))):  # fmt: skip
        if classes is not None and (rows is None or np.shape(classes) != (rows.shape[0],)):
            there = "no rows" if rows is None else f"{rows.shape[0]:,} rows"
            raise ValueError(f"{name} has shape {np.shape(classes)} for {there}.")
    fit = Fit(model, Blocks.of(X), request.y, None, attributes=found)
    title = f"samples  {len(model.rows):,} of {X.shape[1]:,} numbers, next to {len(X):,} rows"
    return request.check("Samples", SAMPLE_CLAIMS, fit, title, lambda fit: WORK)


def _require_alike(name: str, rows: Array, X: Array) -> None:
    """ValueError for rows of another shape or unit than X."""
    if rows.shape[1] != X.shape[1]:
        raise ValueError(f"{name}: {rows.shape[1]} numbers a row, X has {X.shape[1]}.")
    sizes = [float(np.abs(part[np.isfinite(part)]).max(initial=0.0)) for part in (rows, X)]
    low, high = min(sizes), max(sizes)
    if high > OTHER_UNIT * low:
        raise ValueError(
            f"{name}: numbers up to {sizes[0]:.4g}, in X up to {sizes[1]:.4g}: bring both to one unit."
        )


# --- measures ---------------------------------------------------------------------------------------------------------


def frechet_distance(A: Any, B: Any) -> float:
    """‖μ_A − μ_B‖² + tr(Σ_A + Σ_B − 2(Σ_A Σ_B)^½), of normals fitted to two tables of features.

    With Σ_A = PᵀP and Σ_B = QᵀQ the trace of the root is ‖PQᵀ‖_*, so that no root is taken. It depends on the features and
    shrinks with the number of rows: compare with that of data to data at the same n. Of Inception's features it is called FID.
    """
    A, B = as_rows(A, "A"), as_rows(B, "B")
    _require_columns(A, B)
    centred = ((X - X.mean(axis=0)) / np.sqrt(len(X) - 1) for X in (A, B))
    P, Q = (np.asarray(np.linalg.qr(X, mode="r")) for X in centred)
    shift = float(np.square(A.mean(axis=0) - B.mean(axis=0)).sum())
    root = float(np.linalg.svd(P @ Q.T, compute_uv=False).sum())
    return max(shift + float((P * P).sum() + (Q * Q).sum()) - 2 * root, 0.0)


class NextToData(NamedTuple):
    """A Fréchet distance of samples to new rows, next to that of as many training rows to the same new rows."""

    samples: float
    data: float

    @property
    def ratio(self) -> float:
        return self.samples / self.data if self.data > 0 else np.inf


def compare_frechet(
    samples: Any, X: Any, X_test: Any, features: Callable[[Any], Any] | None = None
) -> NextToData:
    """Measure how far samples are from new rows, and how far as many rows of X are: what draws of the true law get.

    Parameters
    ----------
    samples, X, X_test : arrays of rows, or of images
        What was drawn; what its generator was trained on, in any order; rows that it never saw.
    features : function of an array, optional
        It gives the numbers (n, d) that are compared, those of a classifier's last layer, say; None: the rows themselves.
    """
    samples, X, X_test = (np.asarray(part) for part in (samples, X, X_test))
    n = min(len(samples), len(X))
    some = np.sort(np.random.default_rng(0).permutation(len(X))[:n])
    tables = samples[:n], X[some], X_test
    S, known, new = (part if features is None else features(part) for part in tables)
    return NextToData(frechet_distance(S, new), frechet_distance(known, new))


class Overlap(NamedTuple):
    """Shares of rows in the other table's neighbourhoods (Kynkäänniemi et al. 2019; Naeem et al. 2020)."""

    precision: float  # samples within the k-th distance of some row
    recall: float  # rows within the k-th distance of some sample
    density: float  # rows whose k-th distance covers a sample, over k
    coverage: float  # rows with a sample within their k-th distance


def overlap(samples: Any, X: Any, k: int = 5) -> Overlap:
    """Precision, recall, density and coverage by balls around each row that reach its k-th neighbour."""
    S, X = as_rows(samples, "samples"), as_rows(X, "X")
    _require_columns(S, X)
    if not 1 <= k < min(len(S), len(X)):
        raise ValueError(f"k={k} with {len(S)} samples and {len(X)} rows: pass 1 ≤ k < both.")
    around_rows, around_samples = (_kth_distances(part, k) for part in (X, S))
    inside, reached, count, covered = 0, np.zeros(len(X), bool), 0, np.zeros(len(X), bool)
    step = max(1, AT_ONCE // len(X))
    for start in range(0, len(S), step):
        D = cdist(S[start : start + step], X)
        near = around_rows >= D
        inside, count = inside + int(near.any(axis=1).sum()), count + int(near.sum())
        covered |= near.any(axis=0)
        reached |= (around_samples[start : start + step, None] >= D).any(axis=0)
    return Overlap(inside / len(S), reached.mean(), count / (k * len(S)), covered.mean())


def _kth_distances(X: Array, k: int) -> Array:
    """The distance of each row to its k-th neighbour, itself not counted."""
    step = max(1, AT_ONCE // len(X))
    parts = (cdist(X[a : a + step], X) for a in range(0, len(X), step))
    return np.concatenate([np.partition(D, k, axis=1)[:, k] for D in parts])


class TwoSamples(NamedTuple):
    """A kernel two-sample test: the squared distance of two laws, and how often shuffled rows are as far apart."""

    distance: float
    p: float


def kernel_test(samples: Any, X: Any, shuffles: int = 499, random_state: int = 0) -> TwoSamples:
    """Maximum mean discrepancy under a Gaussian kernel of the median distance, with an exact permutation p-value.

    MMD² = wᵀKw with w = 1/n on samples, −1/m on rows; the diagonal is left out, so that its mean is 0 for equal laws.
    """
    S, X = as_rows(samples, "samples"), as_rows(X, "X")
    _require_columns(S, X)
    both, n, m = np.concatenate([S, X]), len(S), len(X)
    D = cdist(both, both, "sqeuclidean")
    K = np.exp(-D / np.median(D[np.triu_indices(n + m, 1)]))
    np.fill_diagonal(K, 0)
    rng = np.random.default_rng(random_state)
    signs = np.repeat([1.0, -1.0], [n, m])
    orders = np.column_stack([signs, *(rng.permutation(signs) for _ in range(shuffles))])
    within = [np.where(orders == sign, 1.0, 0.0) for sign in (1.0, -1.0)]
    KS, KX = K @ within[0], K @ within[1]
    found = (
        (within[0] * KS).sum(0) / (n * (n - 1))
        + (within[1] * KX).sum(0) / (m * (m - 1))
        - 2 * (within[1] * KS).sum(0) / (n * m)
    )
    rank = int((found[1:] >= found[0] - 1e-12).sum())
    return TwoSamples(float(found[0]), (1 + rank) / (1 + shuffles))


class ToldApart(NamedTuple):
    """How often a fresh classifier tells samples from rows, with its 95 % interval."""

    accuracy: float
    low: float
    high: float


def classifier_score(samples: Any, X: Any, random_state: int = 0) -> ToldApart:
    """Train a classifier on one half of samples and rows, and count what it gets right of the other: 0.5 is the best."""
    S, X = as_rows(samples, "samples"), as_rows(X, "X")
    _require_columns(S, X)
    rng, half = np.random.default_rng(random_state), min(len(S), len(X)) // 2
    S, X = rng.permutation(S)[: 2 * half], rng.permutation(X)[: 2 * half]
    labels = np.repeat([1, 0], half)
    tell = tell_apart(Fit(None), np.concatenate([X[:half], S[:half]]), labels)
    right = int(((tell(np.concatenate([X[half:], S[half:]])) > 0.5) == labels).sum())
    return ToldApart(right / (2 * half), *clopper_pearson(right, 2 * half))


def cross_play(
    samples: Mapping[str, Any], discriminators: Mapping[str, Callable[[Any], Any]]
) -> dict[str, dict[str, float]]:
    """Let every discriminator judge every generator's samples: the share it takes for data (CIL 5.4.5).

    A generator that only fools the discriminator it was trained with is no good one; nor is a discriminator that only sees
    through its own generator. `discriminators` give one number a row, above 0 for data.
    """
    return {
        name: {
            judge: float((np.asarray(score(rows)).ravel() > 0).mean())
            for judge, score in discriminators.items()
        }
        for name, rows in samples.items()
    }


def _require_columns(A: Array, B: Array) -> None:
    if A.shape[1] != B.shape[1]:
        raise ValueError(f"{A.shape[1]} and {B.shape[1]} numbers a row: pass two tables of one width.")  # fmt: skip
