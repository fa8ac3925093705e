"""Matrix completion against cmfrec, implicit, Surprise, fancyimpute and plain NumPy: speed to the same quality, and quality."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import randomized_svd

from bench.helpers.harness import compare, memory, time_cpu
from bench.helpers.ratings import movielens, ratings
from lemmata import config
from lemmata.completion import ALS, NuclearBall, Observed, SGDFactorization, SoftImpute
from lemmata.completion.centring import centre

SWEEPS = 10


def rmse(predicted, truth, low=0.5, high=5.0):
    return float(np.sqrt(np.mean((np.clip(predicted, low, high) - truth) ** 2)))


# --- explicit ratings -------------------------------------------------------------------------------------------------


def cmfrec(X, k, cg, reg=10.0, sweeps=SWEEPS, **more):
    from cmfrec import CMF

    model = CMF(
        k=k, lambda_=reg, method="als", use_cg=cg, finalize_chol=False, niter=sweeps, user_bias=True, item_bias=True,
        use_float=True, nthreads=2, verbose=False, precompute_for_predictions=False, random_state=1, **more,
    )  # fmt: skip
    return model.fit(X)


def ours(X, k, method, reg=10.0, sweeps=SWEEPS, **more):
    return ALS(
        k,
        reg,
        reg_weighting="plain",
        method=method,
        max_iter=sweeps,
        tol=0.0,
        random_state=1,
        **more,
    ).fit(X)


def explicit(n_users, n_items, n, k, target):
    (u, i, r), (tu, ti, tr) = ratings(n_users, n_items, n)
    X = sp.coo_matrix((r, (u, i)), (n_users, n_items))

    def quality(model):
        return -rmse(model.predict(tu, ti), tr)

    goal = quality(cmfrec(X, k, cg=True))
    fewest = {method: sweeps_to(goal, quality, X, k, method) for method in ("cholesky", "cg")}
    work = f"{n // 10**6}M ratings, {n_users:,} × {n_items:,}, rank {k}"
    systems = {
        "lemmata cholesky": lambda: ours(X, k, "cholesky"),
        "lemmata cg": lambda: ours(X, k, "cg"),
        "cmfrec CG": lambda: cmfrec(X, k, cg=True),
    }
    if n <= 10**6 and k <= 32:
        systems["cmfrec Cholesky"] = lambda: cmfrec(X, k, cg=False)
    rounds = 3 if n > 10**6 else 5
    compare(
        f"{work}: {SWEEPS} sweeps, quality −RMSE",
        systems,
        quality,
        ours="lemmata cholesky",
        target=2.0,
        rounds=rounds,
    )
    systems = {"cmfrec CG": systems["cmfrec CG"]}
    for method, sweeps in fewest.items():
        systems[f"lemmata {method}, {sweeps} sweeps"] = lambda m=method, s=sweeps: ours(
            X, k, m, sweeps=s
        )
    best = f"lemmata cholesky, {fewest['cholesky']} sweeps"
    compare(
        f"{work}: to cmfrec's RMSE after {SWEEPS} sweeps",
        systems,
        quality,
        ours=best,
        target=target,
        rounds=rounds,
    )


def sweeps_to(goal, quality, X, k, method):
    """The fewest sweeps after which our model predicts as well as cmfrec's after ten."""
    for sweeps in range(1, 3 * SWEEPS):
        if quality(ours(X, k, method, sweeps=sweeps)) >= goal - 1e-4:
            return sweeps
    return 3 * SWEEPS


def sweep_times(n_users, n_items, n, k):
    """Seconds per sweep from the trace, without reading the data and without the certificate."""
    (u, i, r), _ = ratings(n_users, n_items, n)
    A = Observed.from_triplets(u, i, r, (n_users, n_items))
    flops = 2 * n * (k + 1) * (k + 2) + (n_users + n_items) * (k + 1) ** 3 / 3
    for method in ("cholesky", "cg"):
        ours(A, k, method, sweeps=1)
        seconds = min(np.diff(ours(A, k, method, sweeps=6).trace_.seconds).min() for _ in range(3))
        rate = f", {flops / seconds / 1e9:.0f} GFLOP/s" if method == "cholesky" else ""
        print(
            f"  {n // 10**6}M ratings, rank {k}: one {method} sweep {seconds:.3f} s{rate}",
            flush=True,
        )
    print()


# --- implicit feedback ------------------------------------------------------------------------------------------------


def implicit_loss(C, U, V, reg):
    """½Σ c(p − uᵀv)² + ½λ(‖U‖² + ‖V‖²) with c = 1 + a, p = 1 at the entries, c = 1, p = 0 elsewhere."""
    coo = C.tocoo()
    x = np.einsum("ek,ek->e", U[coo.row], V[coo.col]).astype(np.float64)
    everywhere = np.sum((U.T.astype(np.float64) @ U) * (V.T.astype(np.float64) @ V))
    entries = np.sum((1 + coo.data) * (1 - x) ** 2 - x**2)
    return 0.5 * (
        everywhere
        + entries
        + reg * (np.sum(U.astype(np.float64) ** 2) + np.sum(V.astype(np.float64) ** 2))
    )


def implicit_feedback(n_users, n_items, n, k):
    from implicit.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    (u, i, r), _ = ratings(n_users, n_items, n)
    C = sp.csr_matrix((r, (u, i)), (n_users, n_items))
    confidence = C.copy()
    confidence.data = 1 + C.data  # its convention: the stored value is the confidence itself

    def peer(cg):
        with threadpool_limits(1, user_api="blas"):
            model = AlternatingLeastSquares(
                factors=k,
                regularization=10.0,
                alpha=1.0,
                iterations=SWEEPS,
                use_cg=cg,
                num_threads=2,
                random_state=1,
            )
            model.fit(confidence, show_progress=False)
        return model.user_factors, model.item_factors

    def mine(method, sweeps=SWEEPS):
        settings = {
            "feedback": "implicit",
            "reg_weighting": "plain",
            "method": method,
            "tol": 0.0,
            "random_state": 1,
        }
        model = ALS(k, 10.0, max_iter=sweeps, **settings).fit(C)
        return model.U_, model.V_

    def quality(factors):
        return -implicit_loss(C, *factors, 10.0) / n

    goal = quality(peer(True))
    systems = {
        "implicit CG": lambda: peer(True),
        "lemmata cg": lambda: mine("cg"),
        "lemmata cholesky": lambda: mine("cholesky"),
    }
    for method in ("cholesky", "cg"):
        sweeps = next((s for s in range(1, 30) if quality(mine(method, s)) >= goal), 30)
        systems[f"lemmata {method}, {sweeps} sweeps"] = lambda m=method, s=sweeps: mine(m, s)
    if n <= 10**6:
        systems["implicit Cholesky"] = lambda: peer(False)
    first = min(
        (name for name in systems if "sweeps" in name), key=lambda name: seconds(systems[name])
    )
    work = f"implicit feedback, {n // 10**6}M, rank {k}: {SWEEPS} sweeps, or as many as implicit's loss needs; quality −loss/n"
    others = {
        name: run
        for name, run in systems.items()
        if not name.startswith("lemmata") or name == first
    }
    compare(work, others, quality, ours=first, target=2.0, least_quality=goal - 1e-9, rounds=3)


def seconds(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


# --- stochastic gradients ---------------------------------------------------------------------------------------------


def stochastic(k=32, n_users=6_000, n_items=4_000, n=10**6):
    from surprise import SVD, Trainset

    (u, i, r), (tu, ti, tr) = ratings(n_users, n_items, n)
    by_user, by_item = defaultdict(list), defaultdict(list)
    for a, b, c in zip(u.tolist(), i.tolist(), r.tolist(), strict=True):
        by_user[a].append((b, c))
        by_item[b].append((a, c))
    ids = {j: j for j in range(n_users)}, {j: j for j in range(n_items)}
    trainset = Trainset(by_user, by_item, n_users, n_items, n, (0.5, 5), *ids)
    A = Observed.from_triplets(u, i, r, (n_users, n_items))

    def predicted(model):
        if isinstance(model, SVD):
            return (
                r.mean()
                + model.bu[tu]
                + model.bi[ti]
                + np.einsum("ek,ek->e", model.pu[tu], model.qi[ti])
            )
        return model.predict(tu, ti)

    systems = {
        "lemmata": lambda: SGDFactorization(k, max_iter=SWEEPS, tol=0.0, random_state=1).fit(A),
        "Surprise SVD": lambda: SVD(n_factors=k, n_epochs=SWEEPS, random_state=1).fit(trainset),
    }
    work = f"SGD, 1M ratings, rank {k}, {SWEEPS} epochs; quality −RMSE"
    compare(work, systems, lambda model: -rmse(predicted(model), tr), target=3.0, rounds=3)


# --- nuclear norm -----------------------------------------------------------------------------------------------------


def planted(n=2000, rank=10, share=0.2, seed=0):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n)) / np.sqrt(rank)
    return M, rng.random((n, n)) < share


def nuclear():
    M, mask = planted()
    Y = np.where(mask, M, np.nan)
    shrinkage = np.linalg.norm(np.where(mask, M, 0), 2) / 50

    def error(L):
        return -float(np.linalg.norm((L - M)[~mask]) / np.linalg.norm(M[~mask]))

    def plain():
        Z = np.where(mask, M, 0.0)
        for _ in range(30):
            U, s, Vt = randomized_svd(Z, 20, n_iter=2, random_state=0)
            s = np.maximum(s - shrinkage, 0)
            L = (U * s) @ Vt
            Z = np.where(mask, M, L)
        return L

    def fancy():
        model = fancyimpute().SoftImpute(
            max_rank=20,
            max_iters=30,
            shrinkage_value=shrinkage,
            verbose=False,
            init_fill_method="zero",
        )
        return model.fit_transform(Y)

    def mine():
        # λ for an error of 1e-3
        return SoftImpute(0.11, centre="none", random_state=0).fit(Y).complete(keep_known=False)

    systems = {
        "lemmata": mine,
        "NumPy soft-impute, 30 steps": plain,
        "fancyimpute, 30 steps": fancy,
    }
    compare(
        "2000 × 2000, rank 10, 20 % observed; quality −relative error",
        systems,
        error,
        target=5.0,
        rounds=3,
    )


def fancyimpute():
    """fancyimpute 0.7 passes check_array an argument that scikit-learn has since renamed."""
    import sklearn.utils as utils

    original = utils.check_array
    utils.check_array = lambda X, force_all_finite=True, **more: original(
        X, ensure_all_finite=force_all_finite, **more
    )
    try:
        import fancyimpute
    finally:
        utils.check_array = original
    return fancyimpute


# --- quality on MovieLens ---------------------------------------------------------------------------------------------


def real(name, k, reg, weighting):
    """Held-out RMSE, mean over five 90/10 splits, ours and cmfrec's best of a small grid chosen on the first split."""
    A = movielens(name)
    if A is None:
        print(f"MovieLens {name}: not on this machine (LEMMATA_DATA)\n")
        return
    splits = [A.split(test=0.1, seed=seed) for seed in range(5)]
    low, high = float(A.values.min()), float(A.values.max())

    def error(model, test):
        return rmse(model.predict(test.rows, test.columns), test.values, low, high)

    def peer(train, setting):
        rank, plain, scaled = setting
        coo = sp.coo_matrix(train.csr())
        return cmfrec(coo, rank, False, plain, 15, scale_lam=scaled, scale_bias_const=scaled)

    grid = [
        (rank, reg, scaled)
        for rank in (32, 64)
        for scaled, regs in ((False, (10, 15)), (True, (0.05, 0.07)))
        for reg in regs
    ]
    chosen = min(grid, key=lambda setting: error(peer(splits[0][0], setting), splits[0][1]))
    theirs = [error(peer(train, chosen), test) for train, test in splits]
    bare = [unlabelled(train) for train, _ in splits]
    fixed = [
        error(ALS(k, reg, reg_weighting=weighting, random_state=0).fit(train), test)
        for train, (_, test) in zip(bare, splits, strict=True)
    ]
    auto = [
        error(ALS("auto", "auto", random_state=0).fit(train), test)
        for train, (_, test) in zip(bare, splits, strict=True)
    ]
    print(f"MovieLens {name}, held-out RMSE over five splits (mean, lowest, highest)")
    for who, values in {
        f"lemmata ALS({k}, {reg}, {weighting})": fixed,
        "lemmata ALS(auto, auto)": auto,
        f"cmfrec {chosen}": theirs,
    }.items():
        print(f"  {who:<44}{np.mean(values):.4f}  ({min(values):.4f} … {max(values):.4f})")
    print(flush=True)


def unlabelled(A):
    return Observed(A.by_row, A.by_column, A.shape)


def ball(reg=10.0, name="small"):
    """Frank–Wolfe within the ball whose radius SoftImpute finds for λ: objective, gap and CPU seconds."""
    if (A := movielens(name)) is None:
        return
    A = centre(unlabelled(A), "both", 3.0).remove_from(unlabelled(A))
    one = {"centre": "none", "random_state": 0}
    with config(certificate=False):
        SoftImpute(reg, max_iter=2, **one).fit(A)  # kernels are compiled
        seconds, soft = time_cpu(lambda: SoftImpute(reg, **one).fit(A))
        radius = float(soft.singular_values_.sum(dtype=np.float64))
        best = soft.trace_.last() - reg * radius
        what = f"MovieLens {name}, rows and columns centred"
        print(f"{what}, radius {radius:.0f}: that of SoftImpute(reg={reg:g})")
        print(
            f"  SoftImpute                {seconds:6.2f} CPU s, {soft.n_iter_} steps, rank {soft.U_.shape[1]}, {best:.2f}"
        )
        for tol in (1e-1, 1e-2, 1e-3):
            seconds, model = time_cpu(lambda t=tol: NuclearBall(radius, tol=t, **one).fit(A))
            above, gap = model.loss_ / best - 1, model.trace_.last("gap") / model.loss_
            print(
                f"  NuclearBall(tol={tol:g}){seconds:10.2f} CPU s, {model.n_iter_} steps, rank {model.U_.shape[1]}, "
                f"{model.loss_:.2f} ({100 * above:+.3f} %), gap {100 * gap:.2f} %",
                flush=True,
            )


# --- recommending, memory ---------------------------------------------------------------------------------------------


def recommending():
    A = movielens("1m")
    if A is None:
        return
    model = ALS(32, max_iter=5, tol=0.0, random_state=0).fit(A)
    model.recommend(n=10)
    took = min(seconds(lambda: model.recommend(n=10)) for _ in range(5))
    print(
        f"top 10 for all {A.shape[0]:,} users of MovieLens 1M: {took:.3f} s (target < 1 s)\n",
        flush=True,
    )


def peak_memory(n_users=70_000, n_items=10_000, n=10**7, k=32):
    (u, i, r), _ = ratings(n_users, n_items, n)
    A = Observed.from_triplets(u, i, r, (n_users, n_items))
    del u, i, r
    factors = 4 * (n_users + n_items) * (k + 1)
    # kernels compiled, libraries loaded
    ours(Observed.of(np.ones((50, 40), np.float32)), k, "cholesky", sweeps=1)
    from bench.helpers.harness import reset_peak

    base = reset_peak()
    ours(A, k, "cholesky", sweeps=3)
    added = memory("VmHWM") - base
    entries = A.nbytes / 2**20
    print(
        f"peak memory of a fit, 10M ratings, rank {k}: entries {entries:.0f} MB + {added:.0f} MB = {1 + added / entries:.2f}x; "
        f"target ≤ 3x the entries plus the factors ({factors / 2**20:.0f} MB)\n",
        flush=True,
    )


def reading(n=10**7):
    """A csv of ratings into Observed, beside pandas, which has still to encode and sort them."""
    import pandas as pd

    (u, i, r), _ = ratings(70_000, 10_000, n)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/ratings.csv"
        pd.DataFrame({"user": u + 1, "item": i + 1, "rating": r}).to_csv(path, index=False)
        systems = {
            "lemmata": lambda: Observed.from_file(path),
            "pandas read_csv": lambda: pd.read_csv(path),
        }
        compare(f"reading {n // 10**6}M ratings from csv", systems, rounds=3)


def main():
    reading()
    sweep_times(6_000, 4_000, 10**6, 32)
    sweep_times(6_000, 4_000, 10**6, 64)
    sweep_times(70_000, 10_000, 10**7, 32)
    explicit(6_000, 4_000, 10**6, 32, target=2.0)
    explicit(6_000, 4_000, 10**6, 64, target=1.5)
    explicit(70_000, 10_000, 10**7, 32, target=2.0)
    implicit_feedback(6_000, 4_000, 10**6, 32)
    implicit_feedback(70_000, 10_000, 10**7, 32)
    stochastic()
    nuclear()
    real("small", 32, 0.06, "counts")
    real("1m", 64, 0.06, "counts")
    ball()
    recommending()
    peak_memory()
