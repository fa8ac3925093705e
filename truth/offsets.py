"""Offsets of rows and columns. Truth: dense least squares, and whether the values have a pattern at all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lemmata.completion import MeanRatings, Observed
from truth.harness import Case, problems

SIDES = {"both": (1, 1), "rows": (1, 0), "columns": (0, 1), "global": (0, 0)}


def sample(seed, noise="normal", pattern=1.0, shape=(50, 40), share=0.4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    draws = {
        "normal": rng.normal(size=shape),
        "t 2.2": rng.standard_t(2.2, shape),
        "cauchy": rng.standard_cauchy(shape),
        "rare": 30.0 * (rng.random(shape) < 0.01) + 0.1 * rng.normal(size=shape),
    }
    rows, columns = rng.normal(size=(shape[0], 1)), rng.normal(size=shape[1])
    A = 3 + pattern * (rows + columns) + draws[noise]
    return np.where(
        rng.random(shape) < share * rng.uniform(0.3, 1.5, size=(1, shape[1])), A, np.nan
    )


def objective(A, by, reg, mean, b, c) -> float:
    return 0.5 * np.nansum((A - mean - b[:, None] - c) ** 2) + 0.5 * reg * (b @ b + c @ c)


def least(A, by, reg) -> float:
    """By a dense least-squares solution with μ fixed."""
    (n, m), (i, j) = A.shape, np.nonzero(~np.isnan(A))
    mean = A[i, j].mean()
    rows, columns = SIDES[by]
    J = np.hstack([rows * np.eye(n)[i], columns * np.eye(m)[j]])
    J = np.vstack([J, np.sqrt(reg) * np.eye(n + m)])
    x = np.linalg.lstsq(J, np.r_[A[i, j] - mean, np.zeros(n + m)], rcond=None)[0]
    return objective(A, by, reg, mean, rows * x[:n], columns * x[n:])


@problems(seeds=15, quick=1)
def best_and_other_offsets(seed: int) -> Iterator[Case]:
    for by in SIDES:
        for reg, scale, dtype in (
            (0.0, 1.0, float),
            (3.0, 1.0, np.float32),
            (1.0, 1e150, float),
            (1e-9, 1e-150, float),
        ):
            A = sample(seed)
            X = (scale * A).astype(dtype)
            model = MeanRatings(by, reg=reg).fit(X)
            for label, factor in (("fitted", 1.0), ("0.3 % more", 1.003), ("1 % less", 0.99)):
                model = MeanRatings(by, reg=reg).fit(X)
                model.row_bias_, model.column_bias_ = (
                    factor * model.row_bias_,
                    factor * model.column_bias_,
                )
                model.mean_ = model.mean_ if by != "global" else factor * model.mean_
                value = objective(A, by, reg, *(np.asarray(x, float) / scale for x in
                                  (model.mean_, model.row_bias_, model.column_bias_)))  # fmt: skip
                good = value <= (1 + 1e-6) * least(A, by, reg) + 1e-10 * value
                truth = {
                    "best_offsets": good,
                    "statements_true": factor == 1,
                    "attributes_sound": True,
                }
                yield Case(
                    f"{by}, reg {reg}, {scale:g}, {label}", model.certify(X), truth, tuple(truth)
                )
                if label == "fitted" and dtype is float and scale == 1:
                    rounded = model.certify(Observed.of(X.astype(np.float32)))
                    yield Case(f"{by}, float32 rows", rounded, {"best_offsets": True, "statements_true": True},
                               ("best_offsets", "statements_true"))  # fmt: skip


@problems(seeds=15, quick=1)
def tampered_statements(seed: int) -> Iterator[Case]:
    A = sample(seed)
    for name, change in (
        ("mean_", lambda x: x * 1.01),
        ("row_bias_", lambda x: x + 1e-3),
        ("column_bias_", lambda x: x[::-1].copy()),
        ("reg_", lambda x: x + 1),
        ("row_scale_", lambda x: 1.01 * x),
    ):
        model = MeanRatings(reg=2.0).fit(A)
        setattr(model, name, change(getattr(model, name)))
        yield Case(
            f"{name} changed", model.certify(A), {"statements_true": False}, ("statements_true",)
        )
    other = sample(seed + 1000)
    yield Case("other data", MeanRatings().fit(A).certify(other), {"statements_true": False, "best_offsets": False},
               ("statements_true", "best_offsets"))  # fmt: skip
    model = MeanRatings().fit(A)
    model.row_bias_ = np.where(np.arange(len(A)) == 3, np.nan, model.row_bias_)
    yield Case("NaN", model.certify(A), {"attributes_sound": False}, ("attributes_sound",))


@problems(seeds=150, quick=1)
def noise_and_patterns(seed: int) -> Iterator[Case]:
    """Noise of any distribution has no pattern; offsets as large as the noise are one."""
    for noise in ("normal", "t 2.2", "cauchy", "rare"):
        for by in ("both", "rows", "columns"):
            A = sample([seed, 1], noise, pattern=0.0)
            shown = MeanRatings(by, reg=0.0).fit(A).certify(A)
            yield Case(f"{noise} noise, {by}", shown, {"beyond_noise": False})
    for by in ("both", "rows", "columns"):
        A = sample([seed, 2], "normal", pattern=1.0)
        yield Case(
            f"a pattern, {by}",
            MeanRatings(by, reg=1.0).fit(A).certify(A),
            {"beyond_noise": True},
            ("beyond_noise",),
        )
    A = sample([seed, 3], "normal", pattern=0.3)
    yield Case("a weak pattern", MeanRatings(reg=0.0).fit(A).certify(A), {"beyond_noise": True})


@problems(seeds=10, quick=1)
def empty_rows_and_islands(seed: int) -> Iterator[Case]:
    A = sample(seed, share=0.6)
    whole = {"an_entry_each": True, "connected_observations": True}
    yield Case("whole", MeanRatings().fit(A).certify(A), whole, tuple(whole))
    A[3] = np.nan
    truth = {"an_entry_each": False, "connected_observations": True}
    yield Case("an empty row", MeanRatings().fit(A).certify(A), truth, tuple(truth))
    columns = MeanRatings("columns").fit(A).certify(A)
    yield Case("an empty row, columns alone", columns, {"an_entry_each": True}, ("an_entry_each",))
    A = sample(seed, share=0.6)
    A[:25, :20] = A[25:, 20:] = np.nan
    A[0, 20] = A[25, 0] = 1.0
    truth = {"an_entry_each": True, "connected_observations": False}
    yield Case("two islands", MeanRatings().fit(A).certify(A), truth, tuple(truth))
