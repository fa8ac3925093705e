"""map_reduce: the plain sum, to the same bit whoever does the adding."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp

from lemmata.core import Blocks, Moments, blocks, map_reduce
from lemmata.core.engine import cores, one_blas_thread, run_tasks

da = pytest.importorskip("dask.array")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "rows_per_block", lambda n, d, itemsize: 50)
    monkeypatch.setattr(blocks, "MAX_ROWS", 50)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(1030, 6)).astype(np.float32)


def gram(rows, weights):
    rows = rows.toarray() if sp.issparse(rows) else rows
    return rows.T @ (rows if weights is None else rows * weights[:, None])


def bits(moments):
    return moments.n, moments.mean.tobytes(), moments.scatter.tobytes()


@pytest.mark.parametrize(
    "form", [np.asarray, np.asfortranarray, sp.csr_array, lambda X: np.array_split(X, 9)]
)
def test_the_result_is_the_plain_sum_over_blocks(X, form):
    data = Blocks.of(form(X), np.linspace(0, 1, len(X)))
    plain = sum(gram(rows, weights) for rows, weights in data)
    np.testing.assert_array_equal(map_reduce(gram, data, 0.0), plain)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "form", [np.asarray, np.asfortranarray, sp.csr_array, lambda X: np.array_split(X, 9)]
)
def test_threads_do_not_change_a_bit(X, form, weighted):
    data = Blocks.of(form(X), np.linspace(0, 1, len(X)) if weighted else None)
    results = {
        bits(map_reduce(Moments.of, data, Moments(), threads=threads)) for threads in (1, 2, 3, 8)
    }
    assert len(results) == 1


def test_the_sum_runs_in_block_order_even_if_the_first_block_is_the_slowest(X):
    import time

    def slow_first(rows, weights):
        time.sleep(0.05 if rows[0, 0] == X[0, 0] else 0.0)
        return [float(rows[0, 0])]

    assert map_reduce(slow_first, Blocks.of(X), [], threads=8) == [
        float(X[i, 0]) for i in range(0, len(X), 50)
    ]


@pytest.mark.parametrize("threads", [1, 4])
def test_errors_of_a_block_reach_the_caller_and_stop_the_others(X, threads):
    seen = []

    def fragile(rows, weights):
        seen.append(len(rows))
        if len(seen) == 3:
            raise ArithmeticError("the third block")
        return 0

    with pytest.raises(ArithmeticError, match="the third block"):
        map_reduce(fragile, Blocks.of(X), 0, threads=threads)
    assert len(seen) < 15


def test_few_blocks_are_in_memory_at_a_time():
    alive, most = 0, 0

    class Part(np.ndarray):
        pass

    class Stream:
        def __iter__(self):
            nonlocal alive, most
            for _ in range(40):
                alive += 1
                most = max(most, alive)
                yield np.ones((5, 2))

    def work(rows, weights):
        nonlocal alive
        alive -= 1
        return 0

    data = Blocks.of(Stream())
    alive = most = 0
    map_reduce(work, data, 0, threads=2)
    assert most <= 4


def test_no_rows_add_up_to_the_start():
    assert map_reduce(gram, Blocks.of(np.empty((0, 3))), 5.0) == 5.0
    assert map_reduce(Moments.of, Blocks.of(np.empty((0, 3))), Moments()).n == 0


def test_the_number_of_cores_can_be_set(monkeypatch):
    monkeypatch.setenv("LEMMATA_THREADS", "3")
    assert cores() == 3
    monkeypatch.setenv("LEMMATA_THREADS", "0")
    assert cores() == 1
    monkeypatch.delenv("LEMMATA_THREADS")
    assert cores() >= 1


def test_blas_goes_back_to_its_threads_however_callers_overlap():
    from threadpoolctl import threadpool_info, threadpool_limits

    def blas_threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(limits=2, user_api="blas"):
        before, inside = blas_threads(), []
        first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()

        def first():
            with one_blas_thread():
                first_in.set()
                second_in.wait(5)
            first_out.set()

        def second():
            first_in.wait(5)
            with one_blas_thread():
                second_in.set()
                first_out.wait(5)
                inside.extend(blas_threads())

        workers = [threading.Thread(target=target) for target in (first, second)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        # the first one leaving does not free the threads under the second
        assert set(inside) == {1}
        assert blas_threads() == before


# --- dask -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [(50, 6), (50, 2), ((1, 0, 29, 1000), 3), (-1, -1)])
def test_dask_arrays_without_a_cluster_add_up(X, chunks):
    data = Blocks.of(da.from_array(X, chunks=chunks), np.linspace(0, 1, len(X)))
    plain = Moments.of(X.astype(float), np.linspace(0, 1, len(X)))
    ours = map_reduce(Moments.of, data, Moments())
    np.testing.assert_allclose(ours.scatter, plain.scatter, rtol=1e-4, atol=1e-4)
    results = {
        bits(map_reduce(Moments.of, data, Moments(), threads=threads)) for threads in (1, 2, 8)
    }
    assert len(results) == 1


def test_threads_are_started_once_and_passes_inside_of_passes_have_their_own(X):
    data, seen = Blocks.of(X), set()

    def inner(rows, weights):
        return rows.sum()

    def outer(rows, weights):
        seen.add(threading.current_thread())
        return map_reduce(inner, Blocks.of(rows).recut(5), 0.0, threads=2)

    totals = [map_reduce(outer, data.recut(7), 0.0, threads=2) for _ in range(20)]
    assert totals == [totals[0]] * 20
    assert totals[0] == pytest.approx(X.sum())
    assert len(seen) <= 6  # two at a time, of at most three pools that were ever needed at once


def test_every_task_runs_once_and_none_begins_long_after_an_error(monkeypatch):
    monkeypatch.setenv("LEMMATA_THREADS", "3")
    done: list[int] = []
    run_tasks(done.append, 500)
    assert sorted(done) == list(range(500))
    for failing in range(3):  # whichever thread takes it
        begun, together = [], threading.Barrier(3)

        def work(task: int, failing=failing, begun=begun, together=together) -> None:
            begun.append(task)
            if task < 3:
                together.wait(10)
            if task == failing:
                raise IndexError("of the task")
            threading.Event().wait(0.01)

        with pytest.raises(IndexError, match="of the task"):
            run_tasks(work, 100)
        assert len(begun) < 50
