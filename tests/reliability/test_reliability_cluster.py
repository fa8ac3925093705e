"""On a Dask cluster of two worker processes: the same bits or factors as here, and no fit is lost with a worker."""

import os
import signal
import threading

import numpy as np
import pytest
from sklearn.base import clone

from lemmata import ALS, PCA, KMeans, SoftImpute
from lemmata.completion import Distributed, Observed
from lemmata.completion.als.distributed import _equal_work
from lemmata.core import Blocks, Moments, blocks, map_reduce

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")


def noisy_low_rank(seed=0, n=300, m=200, rank=3, share=0.2):
    rng = np.random.default_rng(seed)
    A = 3 + rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m)) + 0.1 * rng.normal(size=(n, m))
    return Observed.of(np.where(rng.random((n, m)) < share, A, np.nan))


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def none_open():
    raise ValueError("No global client found and no address provided")


def bits(moments):
    return moments.n, moments.mean.tobytes(), moments.scatter.tobytes()


def test_a_cluster_gives_the_same_bits_as_threads(client, monkeypatch):
    """Of a pass and of whole fits."""
    monkeypatch.setattr(blocks, "rows_per_block", lambda n, d, itemsize: 50)
    monkeypatch.setattr(blocks, "MAX_ROWS", 50)
    X = np.random.default_rng(0).normal(size=(1030, 6)).astype(np.float32)
    weights = np.linspace(0, 1, len(X))
    lazy = da.from_array(X, chunks=(50, 3))
    here = bits(map_reduce(Moments.of, Blocks.of(X, weights), Moments(), threads=2))
    data = Blocks.of(lazy, weights)
    assert bits(map_reduce(Moments.of, data, Moments())) == here
    rows = da.from_array(np.random.default_rng(0).normal(size=(800, 5)), chunks=(170, 5))
    models = PCA(3), KMeans(6, random_state=0, init=rows[:6].compute())
    spread = [clone(model).fit(rows) for model in models]
    with monkeypatch.context() as patch, dask.config.set(scheduler="threads"):
        patch.setattr(distributed, "get_client", none_open)
        alone = [clone(model).fit(rows) for model in models]
    assert (alone[0].components_ == spread[0].components_).all()
    assert (alone[1].cluster_centers_ == spread[1].cluster_centers_).all()
    assert (alone[1].labels_ == spread[1].labels_).all()

    def fragile(rows, weights):
        raise ArithmeticError("on a worker")

    with pytest.raises(ArithmeticError, match="on a worker"):
        map_reduce(fragile, data, 0)
    with pytest.raises(ValueError, match="contains NaN: the first in row"):
        map_reduce(Moments.of, Blocks.of(da.where(lazy == lazy[20, 1], np.nan, lazy)), Moments())


@pytest.mark.parametrize(
    "model",
    [
        lambda: ALS(5, 0.05, max_iter=8, tol=0.0, random_state=0),
        lambda: ALS(5, 0.05, method="cg", max_iter=8, tol=0.0, random_state=0),
        lambda: SoftImpute(1.0, max_iter=8, tol=0.0, random_state=0),
    ],
    ids=["als cholesky", "als cg", "soft impute"],
)
def test_the_factors_agree_with_the_run_on_one_machine(client, tmp_path, model):
    A = noisy_low_rank()
    here, there = model().fit(A), model().fit(Distributed.spread(A, tmp_path))
    X, Y = here.complete(keep_known=False), there.complete(keep_known=False)
    assert np.abs(X - Y).max() <= 1e-6 * np.abs(X).max()
    np.testing.assert_allclose(there.trace_.objective, here.trace_.objective, rtol=1e-9)
    assert there.certificate_.held == here.certificate_.held
    assert type(there.observed_) is Observed  # a fitted model does not need the cluster


def test_a_worker_killed_in_mid_fit_does_not_lose_the_fit(client, tmp_path):
    A, killed = noisy_low_rank(1), []
    A.save(tmp_path)

    class Killing(Distributed):
        """Kills a worker while the fourth half-sweep is under way."""

        calls = 0

        def _over(self, *arguments):
            self.calls += 1
            if self.calls == 4:
                killed.append(min(self.client.run(os.getpid).values()))
                threading.Timer(0.01, os.kill, (killed[0], signal.SIGKILL)).start()
            return super()._over(*arguments)

    model = ALS(4, 0.05, max_iter=6, tol=0.0, random_state=0)
    here = model.fit(A).complete(keep_known=False)
    there = model.fit(Killing(tmp_path, client)).complete(keep_known=False)
    assert killed
    assert killed[0] not in client.run(os.getpid).values()
    assert np.abs(here - there).max() <= 1e-6 * np.abs(here).max()


def test_blocks_cover_every_row_once_and_share_the_entries_evenly():
    rng = np.random.default_rng(0)
    for n_blocks in (1, 3, 8, 1000):
        counts = rng.geometric(0.05, size=200) - 1
        cut = _equal_work(np.r_[0, np.cumsum(counts)], n_blocks)
        assert [row for start, stop in cut for row in range(start, stop)] == list(range(200))
        work = [counts[start:stop].sum() + stop - start for start, stop in cut]
        assert max(work) <= (counts.sum() + 200) / n_blocks + counts.max() + 1


def test_without_a_client_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, "get_client", none_open)
    noisy_low_rank().save(tmp_path)
    with pytest.raises(ValueError, match="no open Dask client"):
        Distributed(tmp_path)
