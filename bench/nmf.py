"""NMF beside scikit-learn: ./run bench nmf

Time to the same error: scikit-learn makes its iterations, lemmata as many steps as it needs to be at least as good
(their number is found outside of the clock, from the trace). Whole fits are timed, both from a random start, in
float32, without certificates. Quality is minus the relative error ‖X − WH‖/‖X‖, or minus the divergence over ΣX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.feature_extraction.text import TfidfVectorizer

import lemmata
from bench.helpers.harness import compare, run_quietly
from lemmata.data.locate import DataNotFound
from lemmata.topics import NMF, PLSA

K = 20


def dense(n: int = 5000, m: int = 1000, seed: int = 0) -> np.ndarray:
    """Gamma factors of rank 20, times gamma noise of 32 %."""
    rng = np.random.default_rng(seed)
    W, H = rng.gamma(0.5, size=(n, K)), rng.gamma(0.5, size=(K, m))
    return (W @ H * rng.gamma(10, 0.1, (n, m))).astype(np.float32)


def counts(n: int = 20_000, m: int = 10_000, topics: int = 50, seed: int = 0) -> Any:
    """Documents of about 100 words from topics around Zipf's law, a few in each document: the corpus of issue 13."""
    rng = np.random.default_rng(seed)
    zipf = 1 / (np.arange(m) + 5.0)
    phi = rng.gamma(np.broadcast_to(300 * zipf / zipf.sum(), (topics, m))) + 1e-8
    cumulated = np.cumsum(phi / phi.sum(axis=1, keepdims=True), axis=1)
    lengths = np.maximum(rng.negative_binomial(4, 4 / 104, n), 10)
    theta = np.cumsum(rng.dirichlet(np.full(topics, 0.1), n), axis=1)
    documents = np.repeat(np.arange(n), lengths)
    stairs = (np.minimum(theta, 1 - 1e-12) + np.arange(n)[:, None]).ravel()
    z = np.searchsorted(stairs, documents + rng.random(len(documents))) % topics
    words, u = np.empty(len(z), np.int64), rng.random(len(z))
    for topic in range(topics):
        mine = z == topic
        words[mine] = np.searchsorted(cumulated[topic], u[mine]).clip(max=m - 1)
    ones = np.ones(len(z), np.float32)
    return sp.csr_array((ones, (documents, words)), shape=(n, m), dtype=np.float32)


def relative_error(X: Any, loss: str) -> Callable[[Any], float]:
    """Minus the error that a model states, relative to the data."""
    values = (X.data if sp.issparse(X) else X).astype(np.float64)
    size = np.sqrt((values**2).sum()) if loss == "frobenius" else values.sum()

    def quality(model: Any) -> float:
        error = model.reconstruction_err_
        return -float(error / size if loss == "frobenius" else error**2 / 2 / size)

    return quality


def to_the_same_error(
    work: str, X: Any, loss: str, iterations: int, target: float, rounds: int = 3
) -> None:
    solver = "cd" if loss == "frobenius" else "mu"
    settings: dict[str, Any] = {"init": "random", "tol": 0.0, "random_state": 0, "beta_loss": loss}

    def theirs() -> Any:
        return SklearnNMF(K, solver=solver, max_iter=iterations, **settings).fit(X)

    def ours(steps: int) -> Callable[[], Any]:
        def fit() -> Any:
            with lemmata.config(certificate=False):
                return NMF(K, max_iter=steps, **settings).fit(X)

        return fit

    aim = run_quietly(theirs).reconstruction_err_
    trace = run_quietly(ours(2 * iterations)).trace_
    reached = np.flatnonzero(np.sqrt(2 * trace.objective) <= aim)
    steps = int(reached[0]) if len(reached) else 2 * iterations
    print(
        f"{work}: one step of ours {1e3 * (trace.seconds[-1] - trace.seconds[1]) / (len(trace) - 2):.1f} ms"
    )
    compare(
        f"{work}: to the error of {iterations} iterations of scikit-learn, {steps} steps of ours",
        {"lemmata": ours(steps), f"scikit-learn {solver}": theirs},
        relative_error(X, loss),
        target=target,
        least_quality=-np.inf,
        rounds=rounds,
    )


def per_iteration(X: Any, iterations: int = 10) -> None:
    """The same number of iterations for all: pLSA and KL-NMF make one pass, scikit-learn two products."""
    settings: dict[str, Any] = {"tol": 0.0, "random_state": 0, "max_iter": iterations}
    kl = {**settings, "init": "random", "beta_loss": "kullback-leibler", "solver": "mu"}

    def seconds(model: Any) -> float:
        return float((model.trace_.seconds[-1] - model.trace_.seconds[0]) / iterations)

    with lemmata.config(certificate=False, compile="always"):
        run_quietly(lambda: NMF(K, **kl).fit(X))
        ours = min(seconds(run_quietly(lambda: NMF(K, **kl).fit(X))) for _ in range(3))
        plsa = min(seconds(run_quietly(lambda: PLSA(K, **settings).fit(X))) for _ in range(3))
    import time

    taken = []
    for _ in range(2):
        start = time.perf_counter()
        run_quietly(lambda: SklearnNMF(K, **kl).fit(X))
        taken.append((time.perf_counter() - start) / iterations)
    theirs = min(taken)
    print("sparse counts, Kullback–Leibler, one iteration")
    for name, value in (("lemmata NMF", ours), ("lemmata PLSA", plsa), ("scikit-learn mu", theirs)):
        print(f"  {name:<34}{1e3 * value:9.1f} ms")
    print(f"  → NMF {theirs / ours:.1f}x, PLSA {theirs / plsa:.1f}x  (target ≥ 10x)\n", flush=True)


def tfidf(n: int, k: int) -> None:
    """Whole fits at the defaults of both, on posts of newsgroups."""
    try:
        posts = lemmata.data.newsgroups().texts
    except DataNotFound as missing:
        print(f"newsgroups are left out: {missing}")
        return
    some = [posts[i] for i in np.random.default_rng(0).permutation(len(posts))[:n]]
    X = TfidfVectorizer(max_df=0.95, min_df=2, stop_words="english").fit_transform(some)
    settings: dict[str, Any] = {"init": "nndsvda", "random_state": 0}

    def ours() -> Any:
        with lemmata.config(certificate=False):
            return NMF(k, **settings).fit(X)

    compare(
        f"tf-idf of {n:,} posts × {X.shape[1]:,} words, rank {k}, defaults",
        {"lemmata": ours, "scikit-learn cd": lambda: SklearnNMF(k, **settings).fit(X)},
        relative_error(X, "frobenius"),
        target=1.2,
        least_quality=-np.inf,
    )


def main() -> None:
    tfidf(2000, 10)
    tfidf(4000, 20)
    N, X = counts(), dense()
    to_the_same_error(f"dense 5,000 × 1,000, rank {K}", X, "frobenius", 50, 1.5)
    to_the_same_error(
        f"sparse 20,000 × 10,000, {N.nnz / 1e6:.1f}M entries", N, "frobenius", 50, 1.5
    )
    per_iteration(N)
    to_the_same_error("dense 5,000 × 1,000, divergence", X, "kullback-leibler", 20, 1.5, rounds=2)


if __name__ == "__main__":
    main()
