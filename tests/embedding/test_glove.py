"""GloVe: its objective, its steps, its least squares, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cli_invoke import invoke
from hypothesis import given, settings
from hypothesis import strategies as st

import lemmata
from lemmata.completion import ALS, Observed
from lemmata.core import MaxSteps, run
from lemmata.embedding import CoOccurrence, GloVe
from lemmata.embedding.glove import _twins as twins
from lemmata.embedding.glove.algorithm import GloVeAlgorithm, GloVeData, best_biases
from lemmata.embedding.glove.blocked import BlockedPairs
from lemmata.embedding.glove.counts import PairCounts, weights_of
from lemmata.text import Vocabulary, encode


def topical(seed=0, n=300, topics=4, words=8):
    """Sentences of ten words, each of one topic."""
    rng = np.random.default_rng(seed)
    return [[f"t{t}w{i}" for i in rng.integers(0, words, 10)] for t in rng.integers(0, topics, n)]


def counts_of(N):
    v = len(N)
    words = Vocabulary(np.array([f"w{i}" for i in range(v)]), np.arange(v, 0, -1))
    return CoOccurrence(words, sp.csr_array(N), 5, "harmonic", True)


def random_counts(seed=0, v=30, density=0.4):
    rng = np.random.default_rng(seed)
    N = np.where(rng.random((v, v)) < density, rng.gamma(0.7, 20.0, (v, v)) + 0.1, 0.0)
    N[0, 1] = 3.0
    return N


def objective(model, N):
    """Σ f e² as the formula has it, plus the ridge."""
    i, j = np.nonzero(N)
    n = N[i, j]
    f = np.minimum(1.0, (n / model.x_max) ** model.alpha)
    U, V = model.word_embedding_.astype(float), model.context_embedding_.astype(float)
    b, c = model.biases_.astype(float), model.context_biases_.astype(float)
    e = np.log(n) - (U[i] * V[j]).sum(axis=1) - b[i] - c[j] - model.mean_
    ridge = sum((part**2).sum() for part in (U, V, b, c))
    return float(f @ e**2 + model.reg_ * ridge)


# --- the objective ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compile", ["always", "never"])
@pytest.mark.parametrize("solver", ["adagrad", "sgd", "als"])
def test_the_loss_is_the_objective_of_the_vectors_that_are_shown(solver, compile):
    N = random_counts()
    with lemmata.config(compile=compile):
        model = GloVe(4, solver=solver, epochs=5, random_state=0).fit(counts_of(N))
    assert model.loss_ == pytest.approx(objective(model, N), rel=1e-5)
    assert model.loss_ == model.trace_.objective[-1]
    np.testing.assert_allclose(
        model.embedding_, model.word_embedding_ + model.context_embedding_, rtol=1e-6, atol=1e-7
    )
    assert model.certify(counts_of(N)).failed in ([], ["first_order_point"], ["bands_explained"])


@given(st.floats(0.01, 1e4), st.floats(0.0, 3.0))
@settings(max_examples=30)
def test_weights_rise_to_one_and_stay_there(x_max, alpha):
    n = np.geomspace(1e-3, 1e6, 50)
    f = weights_of(n, x_max, alpha)
    assert (np.diff(f) >= 0).all()
    np.testing.assert_allclose(f, np.minimum(1, (n / x_max) ** alpha), rtol=1e-9)


def test_the_first_objective_is_what_the_best_biases_leave():
    """Against least squares on one column for every bias."""
    N = random_counts(1, v=12)
    data = GloVeData.of(PairCounts.of(counts_of(N)), 10.0, 0.75, compiled=False)
    mean, b, c = best_biases(data)
    i, j = np.nonzero(N)
    X, root = np.zeros((len(i), 24)), np.sqrt(data.weights)
    X[np.arange(len(i)), i] = X[np.arange(len(i)), 12 + j] = 1
    target = np.log(N[i, j]) - mean
    best = np.linalg.lstsq(root[:, None] * X, root * target, rcond=None)[0]
    least = np.sum((root * (target - X @ best)) ** 2)
    left = np.sum((root * (target - b[i] - c[j])) ** 2)
    assert least <= left <= 1.02 * least


# --- least squares ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compile", ["always", "never"])
def test_f_of_one_is_completion_of_the_log_counts(compile):
    """f = min{1, n} on whole counts (CIL (3.61)): ALS without weights, the same factors and objective."""
    text = encode(topical(), min_count=1)
    pairs = CoOccurrence.of(text, 5, "flat")
    logs = sp.csr_array(pairs.matrix)
    logs.data = np.log(logs.data).astype(np.float32)
    shared = {"reg": 0.2, "tol": 0.0, "random_state": 3}
    with lemmata.config(compile=compile, certificate=False):
        glove = GloVe(
            3, 5, weighting="flat", x_max=1, alpha=1, solver="als", epochs=8, min_count=1, **shared
        ).fit(text)
        known = Observed.from_triplets(*logs.nonzero(), logs.data, logs.shape)
        plain = ALS(rank=3, reg_weighting="plain", max_iter=8, **shared).fit(known)
    assert known.n_observed == pairs.matrix.nnz  # a count of 1 has the logarithm 0, and is known
    assert glove.loss_ == pytest.approx(2 * plain.loss_, rel=1e-6)
    np.testing.assert_allclose(glove.word_embedding_, plain.U_, atol=1e-5)
    np.testing.assert_allclose(glove.context_embedding_, plain.V_, atol=1e-5)
    np.testing.assert_allclose(glove.biases_, plain.row_bias_, atol=1e-5)
    assert glove.mean_ == pytest.approx(plain.mean_, rel=1e-6)


def test_sweeps_never_raise_the_objective_and_end_at_a_first_order_point():
    model = GloVe(3, solver="als", reg=0.1, epochs=500, tol=1e-10, min_count=1, random_state=0)
    model.fit(topical())
    assert np.diff(model.trace_.objective).max() <= 1e-6 * model.loss_
    found = model.certify(topical())
    assert {"never_rose", "first_order_point", "bands_explained", "statements_true"} <= set(
        found.held
    ), found


# --- steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("k", [1, 5, 16, 20])
def test_kernels_and_numpy_agree_where_the_order_of_pairs_is_no_matter(adaptive, k):
    """Every word has one context and every context one word: steps do not see each other."""
    v, rng = 40, np.random.default_rng(k)
    N = np.zeros((v, v))
    N[np.arange(v), rng.permutation(v)] = rng.gamma(1.0, 20.0, v) + 0.1
    pairs = PairCounts.of(counts_of(N))
    algorithm = GloVeAlgorithm(k, 6, adaptive, 0.3)
    found = [
        run(algorithm, GloVeData.of(pairs, 10.0, 0.75, c), stop=MaxSteps(6), rng=1)
        for c in (True, False)
    ]
    for name in ("U", "V", "b", "c"):
        np.testing.assert_allclose(
            *(getattr(one.state, name) for one in found), rtol=2e-5, atol=1e-6
        )
    np.testing.assert_allclose(found[0].trace.objective, found[1].trace.objective, rtol=1e-4)


@pytest.mark.parametrize("adaptive", [True, False])
def test_kernels_make_single_steps_in_the_order_of_their_blocks(adaptive):
    """An epoch by hand, pair after pair in float64, rows and contexts in the order that the kernel walks."""
    from lemmata.completion.sgd._kernels import walk

    k, rate = 5, 0.3
    pairs = PairCounts.of(counts_of(random_counts(3)))
    algorithm = GloVeAlgorithm(k, 1, adaptive, rate)
    data = GloVeData.of(pairs, 10.0, 0.75, True)
    start = algorithm.init(data, np.random.default_rng(0))
    blocks = data.blocks
    rng = np.random.default_rng([start.seed, 0])
    rounds, key = blocks.rounds(rng), rng.integers(2**63, dtype=np.uint64)
    parts = [part.astype(np.float64) for part in (start.U, start.V, start.b, start.c)]
    U, V, b, c = parts
    sums = [np.full_like(part, rate**-2) for part in parts]
    met = []
    for block in np.concatenate(rounds):
        p, q = divmod(int(block), blocks.groups)
        first, size = blocks.rows.cuts[p], blocks.rows.cuts[p + 1] - blocks.rows.cuts[p]
        with np.errstate(over="ignore"):
            seed = key + np.uint64(block) * np.uint64(0x9E3779B97F4A7C15)
        place, leap = walk(seed, size)
        for turn in range(size):
            at = first + (place + turn * leap) % size
            count = int(blocks.lengths[q, at])
            if not count:
                continue
            begin, stride = walk(seed ^ np.uint64(at + 1), count)
            for inner in range(count):
                t = blocks.starts[q, at] + (begin + inner * stride) % count
                i, j = blocks.rows.order[at], blocks.columns.order[blocks.others[t]]
                met.append((i, j))
                g = blocks.weights[t] * (U[i] @ V[j] + b[i] + c[j] + start.mean - blocks.logs[t])
                slopes = (g * V[j], g * U[i], g, g)
                for part, s, where, slope in zip(parts, sums, (i, j, i, j), slopes, strict=True):
                    s[where] += slope**2
                    part[where] -= slope / np.sqrt(s[where]) if adaptive else rate * slope
    assert sorted(met) == sorted(zip(*pairs.matrix.nonzero(), strict=True))
    after = algorithm.step(start, data)
    for name, part in zip("UVbc", parts, strict=True):
        np.testing.assert_allclose(getattr(after, name), part, rtol=1e-3, atol=1e-5)


@given(st.integers(0, 10**6), st.integers(2, 20))
@settings(max_examples=30)
def test_rounds_of_numpy_share_no_word_and_meet_every_pair_once(seed, v):
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(rng.random((v, v)) < 0.5)
    sets = [part for part in twins.rounds(rows, columns, v, rng) if len(part)]
    for part in sets:
        assert len(set(rows[part])) == len(set(columns[part])) == len(part)
    met = np.concatenate([np.zeros(0, int), *sets])
    assert sorted(met) == list(range(len(rows)))


def test_blocks_hold_every_pair_once_with_its_weight():
    pairs = PairCounts.of(counts_of(random_counts(5, v=50)))
    blocks = BlockedPairs.of(pairs, 10.0, 0.75, groups=4)
    dense = np.zeros(pairs.shape)
    for q in range(4):
        for at in range(50):
            here = slice(blocks.starts[q, at], blocks.starts[q, at] + blocks.lengths[q, at])
            columns = blocks.columns.order[blocks.others[here]]
            assert (blocks.columns.group[columns] == q).all()
            dense[blocks.rows.order[at], columns] += np.exp(blocks.logs[here])
            expected = weights_of(np.exp(blocks.logs[here].astype(float)), 10.0, 0.75)
            np.testing.assert_allclose(blocks.weights[here], expected, rtol=1e-5)
    np.testing.assert_allclose(dense, pairs.matrix.toarray(), rtol=1e-5)


@pytest.mark.parametrize("compile", ["always", "never"])
def test_threads_and_interruptions_change_no_bit(compile, tmp_path, monkeypatch):
    N = counts_of(random_counts(6, v=60, density=0.9))
    monkeypatch.setattr("lemmata.completion.sgd.blocked_entries.SERIAL", 0)
    found = []
    with lemmata.config(compile=compile, certificate=False):
        for threads in ("1", "4"):
            monkeypatch.setenv("LEMMATA_THREADS", threads)
            found.append(GloVe(6, epochs=4, random_state=0).fit(N))
        data = GloVeData.of(PairCounts.of(N), 10.0, 0.75, compile == "always")
        whole = GloVe(6, epochs=4, random_state=0)._algorithm(PairCounts.of(N))
        half = run(whole, data, stop=MaxSteps(2), rng=0)
        again = run(whole, data, stop=MaxSteps(2), start=half.state)
    np.testing.assert_array_equal(found[0].embedding_, found[1].embedding_)
    np.testing.assert_array_equal(again.state.U, found[0].word_embedding_)
    assert again.state.loss == found[0].loss_


def test_words_of_one_topic_end_up_near_each_other():
    """A fifth of the words come from anywhere: of pairs that never occur GloVe hears nothing."""
    rng = np.random.default_rng(0)
    texts = [
        [f"t{t if rng.random() < 0.8 else rng.integers(4)}w{i}" for i in rng.integers(0, 8, 10)]
        for t in rng.integers(0, 4, 1500)
    ]
    for parameters in ({"epochs": 60, "learning_rate": 0.2}, {"solver": "als", "reg": 0.5}):
        model = GloVe(6, min_count=1, x_max=100, random_state=0, **parameters).fit(texts)
        for word in ("t0w0", "t2w5"):
            near = [found for found, _ in model.vectors_.nearest(word, n=5)]
            assert all(found.startswith(word[:2]) for found in near), (parameters, near)


# --- files and the command line ---------------------------------------------------------------------------------------


def test_files_keep_the_model_and_its_certificate(tmp_path):
    model = GloVe(3, min_count=1, random_state=0).fit(topical())
    lemmata.save(model, tmp_path / "g.lemma")
    again = lemmata.load(tmp_path / "g.lemma")
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    assert again.certify(topical()).held == model.certify(topical()).held


def test_the_command_line_fits_it_to_a_text(tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(" ".join(words) for words in topical()))
    settings = ("vector_size=4", "min_count=1", "random_state=0")
    out = invoke(
        "fit", "glove", tmp_path / "corpus.txt", *(f"--set={one}" for one in settings),
        "--save", tmp_path / "g.lemma",
    )  # fmt: skip
    assert out.startswith("GloVe  32 words, 256 pairs, 4 numbers each, adagrad")
    model = GloVe(4, min_count=1, random_state=0).fit(topical())
    assert lemmata.load(tmp_path / "g.lemma").loss_ == pytest.approx(model.loss_, rel=1e-6)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([], "holds no word"),
        (["", " "], "holds no word"),
        (["only only only"] * 9, "two words"),
        ([["alone"], ["single"]] * 9, "no sentence has two words"),
        (counts_of(np.array([[0.0, -1.0], [1.0, 0.0]])), r"\('w0', 'w1'\) is -1.0"),
        (counts_of(np.array([[0.0, np.nan], [1.0, 0.0]])), "is nan"),
        (counts_of(np.array([[0.0, np.inf], [1.0, 0.0]])), "is inf"),
        (counts_of(np.zeros((3, 3))), "no two words"),
        (counts_of(np.ones((1, 1))), "two words and more"),
    ],
)
def test_what_cannot_be_fitted_is_refused_with_what_to_do(X, message):
    with pytest.raises(ValueError, match=message):
        GloVe(2, min_count=1).fit(X)


def test_counts_of_another_size_than_the_words_are_refused():
    wrong = replace(counts_of(np.ones((3, 3))), matrix=sp.csr_array(np.ones((4, 4))))
    with pytest.raises(ValueError, match="4 × 4 for 3 words"):
        GloVe(2).fit(wrong)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"vector_size": 31, "solver": "als"}, "vector_size <= 30"),
        ({"reg": 0.1}, "has no ridge"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        GloVe(**{"vector_size": 4, **parameters}).fit(counts_of(random_counts()))


def test_steps_too_long_stop_at_the_last_good_state():
    with pytest.warns(lemmata.core.loop.Diverged, match="lower learning_rate"):
        model = GloVe(4, solver="sgd", learning_rate=1e6, random_state=0).fit(
            counts_of(random_counts())
        )
    assert np.isfinite(model.embedding_).all()


def test_other_counts_than_the_training_are_not_its_own():
    model = GloVe(3, min_count=1, random_state=0).fit(topical())
    assert "statements_true" in model.certify(topical(1)).failed
    with pytest.raises(ValueError, match="in another order"):
        model.certify(counts_of(random_counts()))
