"""Completion on a Dask cluster of two worker processes: the same factors as here, and no fit is lost with a worker."""

import os
import signal
import threading

import numpy as np
import pytest

from lemmata import ALS, SoftImpute
from lemmata.completion import Distributed, Observed
from lemmata.completion.als.distributed import _equal_work

distributed = pytest.importorskip("distributed")


def noisy_low_rank(seed=0, n=300, m=200, rank=3, share=0.2):
    rng = np.random.default_rng(seed)
    A = 3 + rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m)) + 0.1 * rng.normal(size=(n, m))
    return Observed.of(np.where(rng.random((n, m)) < share, A, np.nan))


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


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
        blocks = _equal_work(np.r_[0, np.cumsum(counts)], n_blocks)
        assert [row for start, stop in blocks for row in range(start, stop)] == list(range(200))
        work = [counts[start:stop].sum() + stop - start for start, stop in blocks]
        assert max(work) <= (counts.sum() + 200) / n_blocks + counts.max() + 1


def test_without_a_client_the_message_says_what_to_do(tmp_path, monkeypatch):
    def none_open():
        raise ValueError("No global client found and no address provided")

    monkeypatch.setattr(distributed, "get_client", none_open)
    noisy_low_rank().save(tmp_path)
    with pytest.raises(ValueError, match="no open Dask client"):
        Distributed(tmp_path)
