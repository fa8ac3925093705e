"""Principal subspaces whose axes, errors and gaps are known: by an SVD of the rows, or by the law that they were drawn from."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.decomposition import IncrementalPCA, TruncatedSVD

import lemmata
from lemmata import PCA
from lemmata.audit.kernel.claims import Fit, free, price_of
from lemmata.audit.reduction.pca import SUBSPACE_CLAIMS
from lemmata.audit.reduction.spectra import both
from lemmata.core.blocks import Blocks
from lemmata.core.certification.checking import check
from lemmata.core.moments import Moments
from truth.harness import Case, problems

EXACT = (
    "attributes_sound",
    "statements_true",
    "orthonormal_basis",
    "most_variance",
    "principal_axes",
    "affine_part_redundant",
)


def tampered(model, **changes):
    """A copy with other attributes."""
    model = copy.deepcopy(model)
    for name, value in changes.items():
        setattr(model, name, value)
    return model


def planted_rows(
    seed: int, ratio: float = 1.6, first: float = 1.0, n: int | None = None, d: int | None = None
):
    """Rows with variances falling by `ratio`, the first one larger still, about an offset; and their weights or None."""
    rng = np.random.default_rng(seed)
    n, d = n or int(rng.integers(60, 300)), d or int(rng.integers(4, 25))
    deviations = ratio ** (-0.5 * np.arange(d))
    deviations[0] *= first
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    rows = (rng.standard_normal((n, d)) * deviations) @ turn.T + rng.standard_normal(d)
    return rows, (rng.integers(0, 4, n) + 0.5 if seed % 3 == 2 else None)


def oracle(model, X, weights=None, centred=True) -> dict[str, bool]:
    """What is true of a fit, from the SVD of its scaled rows: nothing is squared, nothing is shared with the checks."""
    X = np.asarray(X, dtype=np.float64)
    unit = np.abs(X).max()
    X = X / unit
    w = np.ones(len(X)) if weights is None else weights / np.mean(weights)
    mean = np.average(X, axis=0, weights=w)
    centre = np.asarray(getattr(model, "mean_", np.zeros(X.shape[1])), np.float64) / unit
    C = np.asarray(model.components_, dtype=np.float64)
    Y = (X - centre) * np.sqrt(w)[:, None]
    _, s, Vt = np.linalg.svd(Y, full_matrices=False)
    k = len(C)
    cosines = np.abs(np.sum(Vt[:k] * C, axis=1)) / np.linalg.norm(C, axis=1)
    error = np.sum((Y - (Y @ C.T) @ C) ** 2)
    eps = np.finfo(np.asarray(model.components_).dtype).eps
    return {
        "orthonormal_basis": bool(np.abs(C @ C.T - np.eye(k)).max() < 100 * eps),
        "most_variance": bool(error <= 1.01 * np.sum(s[k:] ** 2)),
        "principal_axes": bool(cosines.min() >= np.cos(np.radians(1.0))),
        "affine_part_redundant": bool(np.linalg.norm(mean - centre) < 100 * eps * np.sqrt(len(X))),
    }  # fmt: skip


def fitted(which: int, k: int, X, weights):
    if weights is not None or which == 0:
        return PCA(k).fit(X, sample_weight=weights)
    if which == 1:
        return SklearnPCA(k, svd_solver="full").fit(X)
    if which == 2:
        return PCA(k, svd_solver="svd").fit(X)
    return SklearnPCA(k, svd_solver="covariance_eigh").fit(X)


def broken_ones(model, X, rng) -> Iterator[tuple[str, object, dict[str, bool]]]:
    """Fits in which one thing is wrong, and what follows from it besides the geometry."""
    C, k = np.asarray(model.components_), len(model.components_)
    true = {"attributes_sound": True, "statements_true": True}
    false = {"attributes_sound": True, "statements_true": False}
    yield "as it is", model, true
    i = int(rng.integers(0, k - 1))
    c = np.sqrt(0.5)
    turned = C.copy()
    turned[[i, i + 1]] = np.array([[c, -c], [c, c]], C.dtype) @ C[[i, i + 1]]
    yield f"axes {i + 1} and {i + 2} turned by 45°", tampered(model, components_=turned), false
    swapped = C.copy()
    swapped[[i, i + 1]] = C[[i + 1, i]]
    yield "two axes swapped", tampered(model, components_=swapped), false
    yield "stretched", tampered(model, components_=(C * 1.01).astype(C.dtype)), false
    out = C.astype(np.float64) + 0.3 * rng.standard_normal(C.shape) / np.sqrt(C.shape[1])
    out = np.linalg.qr(out.T)[0].T
    yield "a random way off", tampered(model, components_=out.astype(C.dtype)), false
    for name in ("explained_variance_", "explained_variance_ratio_", "singular_values_"):
        wrong = np.array(getattr(model, name))
        wrong[-1] *= 0.98  # still falling
        yield f"{name}[-1] 2 % low", tampered(model, **{name: wrong}), false
    if len(C) < min(X.shape):
        yield (
            "noise_variance_ doubled",
            tampered(model, noise_variance_=2 * model.noise_variance_),
            false,
        )
    shift = np.asarray(model.mean_) + np.abs(np.asarray(X)).max() / 10
    yield "another mean", tampered(model, mean_=shift.astype(C.dtype)), false
    unsound = {"attributes_sound": False}
    holed = C.copy()
    holed[0, 1] = np.nan
    yield "a NaN", tampered(model, components_=holed), unsound
    yield "negative", tampered(model, explained_variance_=-model.explained_variance_), unsound
    yield "a component too few", tampered(model, components_=C[:-1]), unsound


@problems(seeds=60, quick=2)
def exact_fits(seed):
    """Every exact solver on well-separated axes, at every scale and in both float types, healthy and tampered with."""
    rng = np.random.default_rng(1000 + seed)
    X, weights = planted_rows(seed, first=[1.0, 100.0, 3e3][seed % 3])
    single = seed % 4 == 3
    X = (X * [1.0, 1e-150, 1e148, 1e10][seed % 4]).astype(np.float32 if single else np.float64)
    k = int(rng.integers(2, 1 + min(4, X.shape[1] - 1)))
    model = fitted(seed % 4 if not single else 0, k, X, weights)
    for label, one, truths in broken_ones(model, X, rng):
        if truths["attributes_sound"]:
            truths = {**truths, **oracle(one, X, weights)}
            if single and seed % 3:  # one variance dwarfs what float32 can state of the others
                del truths["statements_true"]
        found = lemmata.certify(one, X, sample_weight=weights)
        yield Case(label, found, truths, easy=truths)


@problems(seeds=30, quick=2)
def kept_moments(seed):
    """Fits whose moments are checked by random vectors: healthy, spoilt, and with moments that would excuse the spoilt axes."""
    rng = np.random.default_rng(3000 + seed)
    X, weights = planted_rows(seed, n=3000, d=12)
    X = X.astype(np.float32 if seed % 5 == 4 else np.float64)
    model = PCA(3).fit(X, sample_weight=weights)
    kept, names = model.moments_, ("most_variance", "principal_axes")
    Q = np.linalg.qr(np.eye(12) + 0.3 * rng.standard_normal((12, 12)))[0]
    turned = (model.components_ @ Q.T).astype(X.dtype)
    changes = {
        "as it is": {},
        "turned": {"components_": turned},
        "turned with its moments": {
            "components_": turned,
            "moments_": replace(kept, scatter=Q @ kept.scatter @ Q.T),
        },
        "others' moments": {"moments_": Moments.of(planted_rows(seed + 500, n=3000, d=12)[0])},
        "one entry": {"moments_": replace(kept, scatter=kept.scatter + np.eye(12)[:, :1] * 1e-3)},
        "another mean": {"mean_": model.mean_ + X.dtype.type(0.5)},
        "another mean of both": {
            "mean_": model.mean_ + X.dtype.type(0.5),
            "moments_": replace(kept, mean=kept.mean + 0.5),
        },
    }
    for label, change in changes.items():
        one = tampered(model, **change)
        fit = Fit(one, Blocks.of(X, weights), weights=weights)
        work = price_of(fit, free, (both,))  # what makes checking the moments worth it
        statements = tuple(claim for claim in SUBSPACE_CLAIMS if claim.name in names)
        found = check(statements, fit, label, work=work)
        truths = {name: yes for name, yes in oracle(one, X, weights).items() if name in names}
        yield Case(label, found, truths, easy=truths)


@problems(seeds=30, quick=1)
def all_kept(seed):
    """As many components as features, or variances that fall to rounding, in float32; stretched, and with one lost."""
    d = [4, 8, 20, 64][seed % 4]
    X, _ = planted_rows(seed, [1.2, 1.0, 100.0][seed % 3] if d < 10 else 1.05, n=300, d=d)
    X = X.astype(np.float32)
    for label, kind in {"ours": PCA, "scikit-learn's": SklearnPCA}.items():
        model = kind(d).fit(X)
        axes = oracle(model, X)["principal_axes"]
        truths = {"most_variance": True, "principal_axes": axes}
        easy = ("most_variance", "principal_axes") if axes and seed % 3 == 0 else ("most_variance",)
        yield Case(label, lemmata.certify(model, X), truths, easy)
        C, no = np.array(model.components_), {"most_variance": False}
        C[seed % 2] *= np.float32(1.001)
        yield Case("stretched", lemmata.certify(tampered(model, components_=C), X), no)
        C[0] = C[1]
        yield Case("one lost", lemmata.certify(tampered(model, components_=C), X), no, no)


@problems(seeds=20, quick=1)
def other_rows(seed):
    """Float32 copies of the rows of a float64 fit, streams with an empty block, sparse copies; and rows of another law."""
    X, _ = planted_rows(seed, n=200)
    model = [PCA(2), SklearnPCA(2, svd_solver="full")][seed % 2].fit(X)
    yes = dict.fromkeys(EXACT, True)
    single = X.astype(np.float32)
    yield Case("float32 rows", lemmata.certify(model, single), yes, easy=yes)
    blocks = [X[:70], X[:0], X[70:]]
    yield Case("an empty block", lemmata.certify(model, blocks), yes, easy=yes)
    yield Case("sparse", lemmata.certify(model, sp.csr_array(X)), yes, easy=yes)
    others = planted_rows(seed + 500, n=200, d=X.shape[1])[0]
    truths = {**oracle(model, others), "statements_true": False, "attributes_sound": True}
    yield Case("other data", lemmata.certify(model, others), truths, easy=truths)


@problems(seeds=30, quick=1)
def iterative_fits(seed):
    """Randomised, ARPACK's, incremental and our iterative solvers, hurried or not, against the SVD."""
    rng = np.random.default_rng(2000 + seed)
    X = rng.standard_normal((150, 40)) * np.linspace(1.5, 1, 40) ** (seed % 5)
    k = 4
    hasty = {
        "svd_solver": "randomized",
        "iterated_power": 0,
        "n_oversamples": 1,
        "random_state": seed,
    }
    models = {
        "hasty": SklearnPCA(k, **hasty),
        "randomised": SklearnPCA(k, svd_solver="randomized", iterated_power=10, random_state=seed),
        "arpack": SklearnPCA(k, svd_solver="arpack", random_state=seed),
        "incremental": IncrementalPCA(k, batch_size=10),
        "incremental, exact": lemmata.IncrementalPCA(k, batch_size=10),
        "lanczos": PCA(k, svd_solver="lanczos", tol=1e-12, random_state=seed),
        "gradient, loose": PCA(k, svd_solver="gradient", tol=1e-2, random_state=seed),
    }
    for label, model in models.items():
        model.fit(X)
        truths = {**oracle(model, X), "attributes_sound": True}
        yield Case(label, lemmata.certify(model, X), truths)


@problems(seeds=12, quick=1)
def many_features(seed):
    """More features than a covariance is formed for: Lanczos bounds what was left out. Dense and sparse, healthy and broken."""
    rng = np.random.default_rng(3000 + seed)
    n, d, k = 60, 3200, 3
    if seed % 2:
        X = sp.random_array((n, d), density=0.02, rng=rng, format="csr")
        strong = np.zeros((n, d))
        strong[:, rng.choice(d, 4, replace=False)] = rng.standard_normal((n, 4)) * [9, 6, 4, 2]
        X = sp.csr_array(X + sp.csr_array(strong))
    else:
        X = rng.standard_normal((n, d)) * 0.05
        X[:, :4] += rng.standard_normal((n, 4)) * [40, 30, 20, 10]
    dense = X.toarray() if sp.issparse(X) else X
    model = SklearnPCA(k, svd_solver="full").fit(dense)
    C = model.components_
    four = SklearnPCA(k + 1, svd_solver="full").fit(dense).components_
    c = np.sqrt(0.5)
    wrong = {
        "as it is": C,
        "turned": np.vstack([C[:1], np.array([[c, -c], [c, c]]) @ C[1:]]),
        "swapped": C[[0, 2, 1]],
        "the second left out": four[[0, 2, 3]],
        "random": np.linalg.qr(rng.standard_normal((d, k)))[0].T,
    }
    for label, components in wrong.items():
        one = tampered(model, components_=np.ascontiguousarray(components))
        truths = oracle(one, dense)
        names = ("most_variance", "principal_axes", "orthonormal_basis")
        yield Case(
            label, lemmata.certify(one, X, seconds=30), {name: truths[name] for name in names}
        )


@problems(seeds=30, quick=1)
def plain_svd(seed):
    """TruncatedSVD on rows with a mean, and without one."""
    X, _ = planted_rows(seed, n=150)
    X = X + 3.0
    kind = TruncatedSVD if seed % 2 else lemmata.TruncatedSVD
    for label, rows in {"with a mean": X, "centred": X - X.mean(axis=0)}.items():
        model = kind(2, algorithm="arpack", random_state=seed).fit(rows)
        truths = {**oracle(model, rows), "statements_true": True, "attributes_sound": True}
        truths.pop("affine_part_redundant")  # nothing is promised about a mean
        yield Case(label, lemmata.certify(model, rows), truths, easy=truths)
        wrong = tampered(model, explained_variance_=model.explained_variance_ * 1.02)
        yield Case("wrong variances", lemmata.certify(wrong, rows), {"statements_true": False})
        wrong = tampered(model, singular_values_=np.array(model.singular_values_) * [1, 0.98])
        yield Case(
            "wrong singular values", lemmata.certify(wrong, rows), {"statements_true": False}
        )


# --- what another sample would say ------------------------------------------------------------------------------------


def _draw(law: str, n: int, d: int, rng) -> np.ndarray:
    if law.startswith("t"):
        freedom = float(law[1:])
        return rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(freedom, (n, 1)) / freedom)
    if law.startswith("ar"):  # each row remembers the one before
        memory = float(law[2:])
        Z = rng.standard_normal((n, d))
        for t in range(1, n):
            Z[t] = memory * Z[t - 1] + np.sqrt(1 - memory**2) * Z[t]
        return Z
    if law == "exponential":
        return rng.exponential(size=(n, d)) - 1
    return rng.standard_normal((n, d))


# variances, k, rows, law. Yes: the expected angle is far below 30°. No: there is no gap.
Law = tuple[list[float], int, int, str]
YES: tuple[Law, ...] = (
    ([3, 1], 1, 300, "normal"),
    ([2, 1], 1, 400, "normal"),
    ([2, *[1] * 9], 1, 1000, "normal"),
    ([4, 4, *[1] * 13], 2, 300, "normal"),
    ([9, 4, *[1] * 5], 2, 1000, "exponential"),
    ([9, 4, *[1] * 5], 2, 2000, "ar0.7"),
    ([50, *[1] * 99], 1, 60, "normal"),
)
NO: tuple[Law, ...] = (
    ([1, 1], 1, 200, "normal"),
    ([1] * 10, 3, 200, "normal"),
    ([1.02, 1.02, *[1] * 13], 2, 300, "normal"),
    ([5, 1, 1, 1], 2, 500, "normal"),
    ([1, 1], 1, 300, "t2.2"),
    ([1] * 6, 2, 1000, "t3"),
    ([1, 1], 1, 1000, "ar0.9"),
    ([5, 5, 1], 1, 400, "exponential"),
    ([1] * 100, 1, 50, "normal"),
)


@problems(seeds=40, quick=1)
def gaps(seed):
    """Laws with a gap after k and without one; light and heavy tails, independent and dependent rows, any unit of weights."""
    for number, (variances, k, n, law) in enumerate((*YES, *NO)):
        rng = np.random.default_rng((seed, number))
        X = _draw(law, n, len(variances), rng) * np.sqrt(variances)
        weights = None if seed % 4 else np.full(n, [1e-3, 1e3][seed // 4 % 2]) * 2.0
        certificate = lemmata.certify(SklearnPCA(k).fit(X), X, sample_weight=weights)
        yes = number < len(YES)
        yield Case(f"{law}, {n} rows, k = {k}, {variances[:3]}", certificate, {"subspace_determined": yes},
                   easy=("subspace_determined",) if yes else ())  # fmt: skip


@problems(seeds=20, quick=1)
def nothing_left(seed):
    """As many components as the rows span: the sample shows no other direction, so nothing may be said."""
    rng = np.random.default_rng(4000 + seed)
    X = rng.standard_normal((30, 60))
    for k in (29, 28):
        found = lemmata.certify(SklearnPCA(k).fit(X), X)
        yield Case(f"k = {k} of 30 rows", found, {"subspace_determined": False})


# --- runs -------------------------------------------------------------------------------------------------------------


@problems(seeds=8, quick=1)
def runs(seed):
    """Traces of the power method and of gradient ascent as they are, with a fall, and stalled."""
    X, _ = planted_rows(seed, n=200, d=12)
    model = PCA(3, svd_solver="power", random_state=seed, tol=1e-14, max_iter=5000).fit(X)
    yes = {"never_fell": True, "power_rate_kept": True}
    yield Case("power", model.certify(X), yes, easy=yes)
    stalled = copy.deepcopy(model)
    residuals = stalled.trace_._extras["residual"]
    for i in range(len(residuals)):
        residuals[i] = 1.0 / (i + 1)
    yield Case("stalled", stalled.certify(X), {"power_rate_kept": False})
    model.trace_.append(model.trace_.last() * 0.999, seconds=0.0)
    yield Case("a fall of 0.1 %", model.certify(X), {"never_fell": False})
