"""One factor, filled matrices, projections onto rank k. Truth: dense SVDs, dense gradients and dense steps."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np

from lemmata.completion import ImputedSVD, Observed, RankOne, SingularValueProjection
from lemmata.core.runs.trace import Trace
from truth.harness import Case, problems

STATED = ("statements_true",)


def planted(seed, n=40, m=30, k=2, share=0.5, noise=0.1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, k)) @ rng.normal(size=(k, m))
    known = rng.random((n, m)) < share
    known[:, 0] = known[0] = True
    return truth, np.where(known, truth + noise * rng.normal(size=(n, m)), np.nan)


def changed(model, **attributes):
    other = copy.copy(model)
    for name, value in attributes.items():
        setattr(other, name, value)
    return other


def scaled(model, scale: float):
    """The fit that the model would be in other units."""
    root = np.sqrt(scale)
    names = {"U_": root, "V_": root, "mean_": scale, "row_bias_": scale, "column_bias_": scale,
             "singular_values_": scale, "loss_": scale**2}  # fmt: skip
    return changed(
        model,
        **{name: s * getattr(model, name) for name, s in names.items() if hasattr(model, name)},
    )


# --- a filled matrix --------------------------------------------------------------------------------------------------


def is_best(model, A) -> bool:
    """Within 0.1 % of the tail of the singular values of the filled matrix without its fill."""
    fill = model.mean_ + model.row_bias_[:, None] + model.column_bias_
    F = np.where(np.isnan(A), 0.0, A - fill)
    tail = (np.linalg.svd(F, compute_uv=False)[model.U_.shape[1] :] ** 2).sum()
    error = ((F - model.U_.astype(float) @ model.V_.T) ** 2).sum()
    return bool(error <= (1 + 1e-3) * tail + 1e-12 * (F**2).sum())


@problems(seeds=15, quick=1)
def filled_matrices(seed: int) -> Iterator[Case]:
    _, A = planted(seed, noise=1.0)
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 5))
    best, more = ImputedSVD(k).fit(A), ImputedSVD(k + 1).fit(A)
    swapped = changed(
        best, U_=np.c_[best.U_[:, :-1], more.U_[:, -1:]], V_=np.c_[best.V_[:, :-1], more.V_[:, -1:]]
    )
    turned = changed(
        best, U_=best.U_ @ (Q := np.linalg.qr(rng.normal(size=(k, k)))[0]), V_=best.V_ @ Q
    )
    nudged = changed(best, U_=best.U_ + 1e-3 * rng.normal(size=best.U_.shape))
    for label, model, stated in (
        ("best", best, True),
        ("the next factor", swapped, False),
        ("turned", turned, True),
        ("nudged", nudged, False),
        ("too small", changed(best, U_=0.9 * best.U_), False),
        ("one product", ImputedSVD(k, max_iter=1, tol=0).fit(A), True),
        ("other fill", changed(best, row_bias_=best.row_bias_ + 0.1), False),
    ):
        truth = {"best_of_filled": is_best(model, A), "statements_true": stated}
        yield Case(label, model.certify(A), truth, tuple(truth))
    for scale in (1e150, 1e-150):
        yield Case(
            f"{scale:g}",
            scaled(best, scale).certify(scale * A),
            {"best_of_filled": True},
            ("best_of_filled",),
        )
    rounded = best.certify(Observed.of(A.astype(np.float32)))
    yield Case(
        "float32 rows",
        rounded,
        {"best_of_filled": True, "statements_true": True},
        ("best_of_filled", *STATED),
    )


@problems(seeds=2, quick=0)
def large_filled_matrices(seed: int) -> Iterator[Case]:
    """More than 1,000 rows and columns: Lanczos, with and without a gap behind the factors kept."""
    for k, gap in ((3, True), (5, False)):
        _, A = planted(seed, 1500, 1200, k=3, share=0.05, noise=0.1 if gap else 1.0)
        best = ImputedSVD(k).fit(A)
        for label, model in (("best", best), ("too small", changed(best, U_=0.1 * best.U_))):
            truth = {"best_of_filled": is_best(model, A)}
            yield Case(
                f"{label}, rank {k}",
                model.certify(A, seconds=100),
                truth,
                tuple(truth),
            )


@problems(seeds=40, quick=2)
def pulled_to_the_fill(seed: int) -> Iterator[Case]:
    """Noiseless entries: how large are predictions of unknown entries, beside the truth there?"""
    for share in (0.2, 0.5, 0.8, 0.97, 1.0):
        truth, A = planted(seed, *((60, 50), (200, 150))[seed % 2], share=share, noise=0.0)
        model = ImputedSVD(2, fill="zero").fit(A)
        unknown = np.isnan(A)
        strength = 1.0
        if unknown.any():
            sizes = [
                np.sqrt(np.mean(X[unknown] ** 2)) for X in (model.complete(keep_known=False), truth)
            ]
            strength = sizes[0] / sizes[1]
        name = "not_pulled_to_the_fill"
        yield Case(f"{share:.0%} known", model.certify(A), {name: strength >= 0.9}, (name,))


# --- one factor -------------------------------------------------------------------------------------------------------


@problems(seeds=20, quick=1)
def one_factor(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    whole = rng.normal(size=(25, 20)) + 2 * np.outer(*(rng.normal(size=size) for size in (25, 20)))
    _, part = planted(seed, 25, 20, k=1, noise=0.3)
    for A in (whole, part):
        known = ~np.isnan(A)
        F = np.where(known, A, 0.0)
        s = np.linalg.svd(F, compute_uv=False)
        best = RankOne(random_state=0).fit(A)
        fits = {
            "fitted": best,
            "a few steps": RankOne(random_state=0, max_iter=2, tol=0).fit(A),
            "tiny": changed(best, U_=1e-3 * best.U_, V_=1e-3 * best.V_),
            "another pair": changed(
                best, U_=rng.normal(size=best.U_.shape), V_=rng.normal(size=best.V_.shape)
            ),
            "zero": changed(best, U_=0 * best.U_, V_=0 * best.V_),
            "0.95": changed(best, U_=0.95 * best.U_),
        }
        for label, model in fits.items():
            loss = 0.5 * ((F - model.U_ @ model.V_.T)[known] ** 2).sum()
            gain = 0.5 * (F**2).sum() - loss
            truth = {"left_the_saddle": gain >= 0.999 * 0.5 * s[0] ** 2 - 1e-12 * (F**2).sum()}
            if known.all():
                truth["leading_singular_pair"] = loss <= 1.001 * 0.5 * (s[1:] ** 2).sum()
            truth["statements_true"] = label in ("fitted", "a few steps")
            yield Case(f"{label}, {known.mean():.0%} known", model.certify(A), truth, tuple(truth))
        for scale in (1e150, 1e-150):
            shown = scaled(best, scale).certify(scale * A)
            yield Case(f"{scale:g}", shown, {"left_the_saddle": True}, ("left_the_saddle",))
        rounded = best.certify(Observed.of(A.astype(np.float32)))
        yield Case(
            "float32 rows",
            rounded,
            {"left_the_saddle": True, "statements_true": True},
            ("left_the_saddle",),
        )


@problems(seeds=20, quick=1)
def flows(seed: int) -> Iterator[Case]:
    """Euler steps of the flow by dense code, short and long: by how much does ‖u‖² − ‖v‖² change?"""
    _, A = planted(seed, 25, 20, k=1, noise=0.3)
    known, F = ~np.isnan(A), np.nan_to_num(A)
    model = RankOne(random_state=0).fit(A)
    yield Case("ours", model.certify(A), {"balance_conserved": True}, ("balance_conserved",))
    P, s, Qt = np.linalg.svd(F)
    for label, step in (("short", 0.02 / s[0]), ("long", 0.7 / s[0])):
        u, v = 0.2 * np.sqrt(s[0]) * P[:, 0], np.sqrt(s[0]) * Qt[0]
        trace, differences, sizes = Trace(), [], []
        for _ in range(60):
            R = known * (F - np.outer(u, v))
            uu, vv = u @ u, v @ v
            differences.append(uu - vv)
            sizes.append(uu + vv)
            trace.append(
                0.5 * (R**2).sum(), 0.0, {"imbalance": (uu - vv) / (uu + vv), "size": uu + vv}
            )
            u, v = u + step * R @ v, v + step * R.T @ u
        truth = (np.abs(np.array(differences) - differences[0]) / sizes).max() <= 0.1
        yield Case(
            label,
            changed(model, trace_=trace).certify(A),
            {"balance_conserved": truth},
            ("balance_conserved",),
        )


# --- projections ------------------------------------------------------------------------------------------------------


def dense_step(X, A, eta, k):
    G = np.where(np.isnan(A), 0.0, A - X)
    P, s, Qt = np.linalg.svd(X + eta * G)
    return (P[:, :k] * s[:k]) @ Qt[:k], G


@problems(seeds=20, quick=1)
def steps_of_projections(seed: int) -> Iterator[Case]:
    """Steps of a fixed length by dense code: the least gain, as a share of ‖D‖²/2η."""
    _, A = planted(seed, share=0.4, noise=0.5)
    for eta in (0.5, 1.0, 2.0, 9.0):
        X, gains, moves = np.zeros(A.shape), [], []
        for _ in range(12):
            Y, G = dense_step(X, A, eta, 2)
            after = np.where(np.isnan(A), 0.0, A - Y)
            moves.append(((Y - X) ** 2).sum())
            gains.append(0.5 * ((G**2).sum() - (after**2).sum()) / (moves[-1] / (2 * eta)))
            X = Y
        model = SingularValueProjection(2, step_size=eta, max_iter=12, tol=0, random_state=0).fit(A)
        yield Case(
            f"η = {eta}",
            model.certify(A),
            {"steps_in_range": min(gains) >= 0.1},
            ("steps_in_range",),
        )
    auto = SingularValueProjection(2, random_state=0).fit(A).certify(A)
    yield Case("auto", auto, {"steps_in_range": True}, ("steps_in_range",))


@problems(seeds=25, quick=1)
def first_order_projections(seed: int) -> Iterator[Case]:
    """Converged far, or not at all; truth by a dense step of the same length and by the loss it still gains."""
    claims = ("first_order_on_manifold", "fixed_point", "statements_true")
    for noise in (0.0, 0.5):
        _, A = planted(seed, share=0.6, noise=noise)
        # noiseless, the loss falls by the same factor in every step until rounding ends it: let it
        best = SingularValueProjection(2, tol=1e-10, max_iter=5000, random_state=0).fit(A)
        early = SingularValueProjection(2, max_iter=2, tol=0, random_state=0).fit(A)
        other = SingularValueProjection(2, tol=1e-10, random_state=0).fit(planted(seed + 500)[1])
        rng = np.random.default_rng(seed)
        M = rng.normal(size=(2, 2)) + 2 * np.eye(2)
        for label, model, truth in (
            ("converged", best, (True, True, True)),
            ("two steps", early, (False, False, True)),
            ("zero", changed(best, U_=0 * best.U_, V_=0 * best.V_), (False, False, False)),
            ("tiny", changed(best, U_=1e-6 * best.U_), (False, False, False)),
            ("0.9", changed(best, U_=0.9 * best.U_), (False, False, False)),
            ("one factor", changed(best, U_=best.U_ * [1, 0], V_=best.V_ * [1, 0]), (False, False, False)),
            ("other factors, same product", changed(best, U_=best.U_ @ M, V_=best.V_ @ np.linalg.inv(M).T),
             (True, True, True)),
            ("other data", other, (False, False, False)),
        ):  # fmt: skip
            truths = dict(zip(claims, truth, strict=True))
            yield Case(f"{label}, noise {noise}", model.certify(A), truths, claims)
        for scale in (1e150, 1e-150):
            shown = scaled(best, scale).certify(scale * A)
            yield Case(
                f"{scale:g}, noise {noise}", shown, dict.fromkeys(claims[:2], True), claims[:2]
            )
        rounded = best.certify(Observed.of(A.astype(np.float32)))
        yield Case(f"float32 rows, noise {noise}", rounded, dict.fromkeys(claims, True), claims)


@problems(seeds=10, quick=1)
def tampered_statements(seed: int) -> Iterator[Case]:
    _, A = planted(seed)
    projection = SingularValueProjection(2, centre="both", random_state=0).fit(A)
    filled = ImputedSVD(2).fit(A)
    one = RankOne("zscore rows").fit(A)
    for model, name, change in (
        (projection, "loss_", lambda x: 1.01 * x),
        (projection, "step_size_", lambda x: 1.01 * x),
        (projection, "singular_values_", lambda x: 1.01 * x),
        (projection, "mean_", lambda x: x + 0.01),
        (filled, "singular_values_", lambda x: x * [1, 0.99]),
        (filled, "column_bias_", lambda x: x + 0.01),
        (filled, "mean_", lambda x: x + 0.01),
        (one, "row_scale_", lambda x: 1.01 * x),
        (one, "loss_", lambda x: 0.99 * x),
    ):
        tampered = changed(model, **{name: change(getattr(model, name))})
        yield Case(
            f"{type(model).__name__}.{name}",
            tampered.certify(A),
            {"statements_true": False},
            STATED,
        )
    for model in (projection, filled, one):
        label = type(model).__name__
        sound = {"attributes_sound": True, "statements_true": True}
        yield Case(label, model.certify(A), sound, tuple(sound))
        U = model.U_.copy()
        U[0, 0] = np.nan
        for what, U_ in (("NaN", U), ("another shape", model.U_[:, :0])):
            shown = changed(model, U_=U_).certify(A)
            yield Case(
                f"{label}, {what}", shown, {"attributes_sound": False}, ("attributes_sound",)
            )
