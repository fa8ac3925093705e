"""k-means against scikit-learn and faiss: Lloyd's steps, runs until they settle, seeding, memory, coresets.

Each section can be called alone, and with other sizes: python -c "import bench.clusters as b; b.lloyd(kinds=['noise'])"
"""

from __future__ import annotations

import importlib.util
from functools import partial

import numpy as np
from scipy.cluster import hierarchy
from sklearn.cluster import AgglomerativeClustering as SklearnTree
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.cluster import kmeans_plusplus

from bench.helpers.blobs import KINDS, PIECE, blobs, cost, some_rows
from bench.helpers.harness import (
    add_clocks,
    compare,
    run_quietly,
    share_added,
    time_call,
    time_cpu,
    typical_seconds,
)
from lemmata import AgglomerativeClustering, KMeans, LightweightCoreset
from lemmata.clustering import greedy_d2_sampling

SIZES = ((1_000_000, 32, 100), (200_000, 128, 256))  # rows, features, clusters
STEPS = 20
SEEDS = 5
MANY = (10_000_000, 16, 50)
CORESETS = ((20_000, 1), (20_000, 5), (100_000, 1))  # rows drawn, starts of k-means on them
SAME = -1.001  # inertia relative to scikit-learn's that counts as equal


def title(n, d, k, kind):
    return f"{n:,} × {d}, k = {k}, float32, {kind}"


def relative(X):
    """−inertia of centres relative to that of the first that are asked about, so that six digits say something."""
    first = []

    def quality(centers):
        first.append(cost(X, centers))
        return -first[-1] / first[0]

    return quality


class Passes:
    """Runs from given centres, and how many times each of them went through the data."""

    def __init__(self, X, init, max_iter, tol):
        self.X, self.init, self.max_iter, self.tol = X, init, max_iter, tol
        self.steps: dict[str, int] = {}

    def run(self, name, model):
        settings = {"init": self.init, "n_init": 1, "max_iter": self.max_iter, "tol": self.tol}
        fitted = model.set_params(n_clusters=len(self.init), **settings).fit(self.X)
        self.steps[name] = fitted.n_iter_
        return fitted.cluster_centers_

    def faiss(self, name, like):
        """faiss does not stop where nothing moves: it makes the steps that another needed."""
        import faiss

        faiss.omp_set_num_threads(2)
        steps, (k, d) = self.steps.get(like, self.max_iter), self.init.shape
        model = faiss.Kmeans(
            d, k, niter=steps, nredo=1, seed=1, max_points_per_centroid=len(self.X)
        )
        model.train(self.X, init_centroids=self.init)
        self.steps[name] = steps
        return model.centroids

    def passes(self, name):
        """A last one gives the labels of the last centres, but faiss has no labels, and who settled at tol = 0 has them."""
        steps = self.steps[name]
        return steps if name == "faiss" or (self.tol == 0 and steps < self.max_iter) else steps + 1

    def rates(self, seen):
        (n, d), k = self.X.shape, len(self.init)
        for name, seconds in seen.items():
            each = typical_seconds(seconds) / self.passes(name)
            rate = 2 * n * d * k / each / 1e9
            print(
                f"  {name:<34}{self.steps[name]:4} steps, {1e3 * each:.1f} ms a pass, as if {rate:.0f} GFLOP/s"
            )


def bare_products(X, C):
    """GFLOP/s of X Cᵀ alone, into a small buffer: what distances by matrix products cannot beat."""
    out = np.empty((PIECE, len(C)), X.dtype)

    def products():
        for start in range(0, len(X), PIECE):
            rows = X[start : start + PIECE]
            np.matmul(rows, C.T, out=out[: len(rows)])

    best = min(time_call(products)[0] for _ in range(3))
    return 2 * X.size * len(C) / best / 1e9


# --- Lloyd's steps ----------------------------------------------------------------------------------------------------


def lloyd(sizes=None, kinds=tuple(KINDS), rounds=3):
    """The same plain steps from the same rows: every distance is measured."""
    for n, d, k in sizes or SIZES:
        for kind in kinds:
            X = KINDS[kind](n, d, k)
            runs = Passes(X, some_rows(X, k), STEPS, 0.0)
            systems = {
                "scikit-learn lloyd": lambda r=runs: r.run(
                    "scikit-learn lloyd", SklearnKMeans(algorithm="lloyd")
                ),
                "lemmata": lambda r=runs: r.run("lemmata", KMeans(algorithm="lloyd")),
            }
            if importlib.util.find_spec("faiss"):
                systems["faiss"] = lambda r=runs: r.faiss("faiss", like="scikit-learn lloyd")
            systems, seen = add_clocks(systems)
            work = f"Lloyd, {title(n, d, k, kind)}: {STEPS} steps; quality −inertia relative to scikit-learn's"
            compare(work, systems, relative(X), target=1.4, least_quality=SAME, rounds=rounds)
            runs.rates(seen)
            print(
                f"  bare products of this shape: {bare_products(X, runs.init):.0f} GFLOP/s\n",
                flush=True,
            )


def settling(sizes=None, kinds=tuple(KINDS), rounds=2):
    """From the same rows until the centres are still (tol = 1e-4, at most 300 steps)."""
    for n, d, k in sizes or SIZES:
        for kind in kinds:
            X = KINDS[kind](n, d, k)
            runs = Passes(X, some_rows(X, k), 300, 1e-4)
            names = ["scikit-learn lloyd"]
            # elkan keeps n × k bounds, and without clusters they exclude nothing
            if kind == "clustered" and k <= 2 * d:
                names.append("scikit-learn elkan")
            systems = {
                name: lambda r=runs, s=name: r.run(s, SklearnKMeans(algorithm=s.split()[1]))
                for name in names
            }
            systems["lemmata"] = lambda r=runs: r.run("lemmata", KMeans())
            systems, seen = add_clocks(systems)
            work = f"until settled, {title(n, d, k, kind)}; quality −inertia relative to scikit-learn's"
            compare(work, systems, relative(X), target=2.0, least_quality=SAME, rounds=rounds)
            runs.rates(seen)
            print(flush=True)


def whole(sizes=None):
    """What a user waits for: everything at its default, seeding included. Seeds differ, so the inertia does too."""
    for n, d, k in sizes or SIZES[1:]:
        X = blobs(n, d, k)
        systems = {
            "scikit-learn": lambda X=X, k=k: (
                SklearnKMeans(k, random_state=0).fit(X).cluster_centers_
            ),
            "lemmata": lambda X=X, k=k: KMeans(k, random_state=0).fit(X).cluster_centers_,
        }
        work = f"all defaults, {title(n, d, k, 'clustered')}; quality −inertia relative to scikit-learn's"
        compare(work, systems, relative(X), rounds=2)


# --- seeding ----------------------------------------------------------------------------------------------------------


SEEDINGS = {
    "lemmata": lambda X, k, seed: greedy_d2_sampling(X, k, seed),
    "scikit-learn": lambda X, k, seed: kmeans_plusplus(X, k, random_state=seed)[0],
}


def seeding(sizes=None, kinds=tuple(KINDS), seeds=None):
    """Greedy k-means++: seconds, and what the seeds cost on average over several draws."""
    seeds = seeds or SEEDS
    for n, d, k in sizes or SIZES[1:]:
        for kind in kinds:
            X = KINDS[kind](n, d, k)
            seconds, costs = np.empty((2, len(SEEDINGS), seeds))
            for draw in SEEDINGS.values():
                draw(X[: 20 * k], k, 0)  # kernels are compiled
            for seed in range(seeds):
                for row, draw in enumerate(SEEDINGS.values()):
                    seconds[row, seed], centers = time_call(partial(draw, X, k, seed))
                    costs[row, seed] = cost(X, centers) / n
            print(
                f"greedy k-means++, {title(n, d, k, kind)}; cost of a row over {seeds} seeds ± standard error"
            )
            means, errors, times = (
                costs.mean(1),
                costs.std(1, ddof=1) / np.sqrt(seeds),
                np.median(seconds, 1),
            )
            for name, mean, error, time in zip(SEEDINGS, means, errors, times, strict=True):
                print(f"  {name:<34}{time:9.3f} s  cost {mean:.4f} ± {error:.4f}")
            apart = (means[0] - means[1]) / np.hypot(*errors)
            print(
                f"  → {times[1] / times[0]:.2f}x scikit-learn  (target ≥ 6x); costs {100 * (means[0] / means[1] - 1):+.2f} % "
                f"apart, {apart:+.1f} standard errors\n",
                flush=True,
            )


# --- memory -----------------------------------------------------------------------------------------------------------


def peak_memory(sizes=None, kinds=tuple(KINDS)):
    """What fits take beside the data at their peak, seeding by k-means++ included; the larger of two measurements."""
    for n, d, k in sizes or SIZES:
        for kind in kinds:
            X = KINDS[kind](n, d, k)
            print(
                f"memory beyond the input ({X.nbytes / 2**20:.0f} MB), {title(n, d, k, kind)}: 10 steps from k-means++"
            )
            fits = {
                f"lemmata {one}": KMeans(k, algorithm=one) for one in ("auto", "lloyd", "yinyang")
            }
            if kind == "clustered":
                fits["scikit-learn lloyd"] = SklearnKMeans(k, algorithm="lloyd", n_init=1)
            for name, model in fits.items():
                model.set_params(max_iter=10, tol=0.0, random_state=0)
                run_quietly(partial(model.fit, X[:PIECE]))  # libraries are loaded
                share, added = max(share_added(partial(model.fit, X), X) for _ in range(2))
                wanted = "  (target < 15 %)" if name.startswith("lemmata") else ""
                print(f"  {name:<34}+{added:5.0f} MB, {100 * share:.1f} %{wanted}", flush=True)
            print()


# --- coresets ---------------------------------------------------------------------------------------------------------


def coresets(shape=None, sizes=None, seeds=3):
    """k-means on a coreset against k-means on all rows: cost on all rows, and time with the drawing of the coreset."""
    n, d, k = shape or MANY
    X = blobs(n, d, k, concentration=0.5)
    few = LightweightCoreset(size=20 * k, random_state=0).fit(X[: 40 * k])
    KMeans(k, random_state=0).fit(few.points_, sample_weight=few.weights_)  # kernels are compiled
    print(f"coresets, {title(n, d, k, 'clusters of very unequal size')}")
    whole = []
    for seed in range(2):  # how good one start happens to be differs by itself
        seconds, full = time_call(lambda seed=seed: KMeans(k, n_init=1, random_state=seed).fit(X))
        whole.append((seconds, cost(X, full.cluster_centers_) / n))
        print(
            f"  all rows: {seconds:.2f} s, {full.n_iter_} steps, cost of a row {whole[-1][1]:.4f}",
            flush=True,
        )
    time, reference = np.mean(whole, axis=0)
    for size, starts in sizes or CORESETS:
        runs = [from_coreset(X, k, size, starts, seed) for seed in range(seeds)]
        draw, fit, ratio = np.array([(a, b, cost(X, C) / n / reference) for a, b, C in runs]).T
        print(
            f"  coreset of {size:,}, {starts} start{'s' if starts > 1 else ''}: {draw.mean():.2f} s + {fit.mean():.2f} s, "
            f"{(draw + fit).mean() / time:.3f} of the time (target < 0.1); cost ratio {ratio.mean():.4f}, "
            f"{ratio.min():.4f} … {ratio.max():.4f} over {seeds} seeds (target ≤ 1.03)",
            flush=True,
        )
    print()


def from_coreset(X, k, size, starts, seed):
    """Seconds to draw, seconds to fit, centres."""
    drawing, few = time_call(lambda: LightweightCoreset(size=size, random_state=seed).fit(X))
    model = KMeans(k, n_init=starts, random_state=seed)
    fitting, model = time_call(lambda: model.fit(few.points_, sample_weight=few.weights_))
    return drawing, fitting, model.cluster_centers_


# --- trees ------------------------------------------------------------------------------------------------------------


def trees(shape=(10_000, 20), linkages=("ward", "average", "single"), rounds=3):
    """Whole trees of rows of noise, CPU seconds in turns; ours with its certificate, SciPy's linkage alone."""
    X = np.random.default_rng(0).normal(size=shape)
    print(f"trees, {shape[0]:,} × {shape[1]}, float64; CPU s, the least of {rounds}")
    for linkage in linkages:
        systems = {
            "scikit-learn": lambda X=X, how=linkage: SklearnTree(linkage=how).fit(X),
            "lemmata": lambda X=X, how=linkage: AgglomerativeClustering(linkage=how).fit(X),
            "SciPy linkage": lambda X=X, how=linkage: hierarchy.linkage(X, how),
        }
        seconds = {name: [] for name in systems}
        for _ in range(rounds):
            for name, fit in systems.items():
                seconds[name].append(time_cpu(fit)[0])
        least = {name: min(found) for name, found in seconds.items()}
        ratio = least["scikit-learn"] / least["lemmata"]
        each = ", ".join(f"{name} {one:.2f}" for name, one in least.items())
        print(f"  {linkage:<10}{each}; {ratio:.2f}x scikit-learn (target ≥ 1)", flush=True)


def main():
    lloyd()
    settling()
    whole()
    seeding()
    peak_memory()
    coresets()
    trees()
