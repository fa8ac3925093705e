"""Alignment: the closed form and its optimality, self-learning, retrieval, precision, what may be passed in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.linalg import orthogonal_procrustes

import lemmata
from lemmata import data
from lemmata.core import Checkpoint, MaxSteps, run
from lemmata.embedding import PMI, Alignment, SkipGram, WordVectors, align
from lemmata.embedding.alignment.procrustes import (
    SelfLearningAlgorithm,
    TwoSides,
    best_rotation,
    mean_distance,
)
from lemmata.embedding.alignment.retrieval import best, crowding, mutual, translations


def rotation(k, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(k, k)))[0]


def noisy_sides(n=600, k=20, noise=0.5, seed=0):
    """Two embeddings of the same words, the second turned, both with noise of their own; word i is s{i} and t{i}."""
    rng = np.random.default_rng(seed)
    Z, Q = rng.normal(size=(n, k)), rotation(k, seed + 1)
    source = Z + noise * rng.normal(size=(n, k))
    target = (Z + noise * rng.normal(size=(n, k))) @ Q
    words = [[f"{side}{i}" for i in range(n)] for side in "st"]
    return WordVectors(words[0], source), WordVectors(words[1], target)


def truth(first, last):
    return [(f"s{i}", f"t{i}") for i in range(first, last)]


# --- the closed form --------------------------------------------------------------------------------------------------

numbers = st.floats(-1e3, 1e3, allow_nan=False, width=32)


@settings(max_examples=40)
@given(st.integers(1, 6).flatmap(lambda k: arrays(np.float64, (2, 7, k), elements=numbers)))
def test_whatever_the_pairs_the_map_is_a_rotation_and_the_best(sides):
    X, Y = sides
    W = best_rotation(X, Y)
    k = len(W)
    assert_allclose(W.T @ W, np.eye(k), atol=1e-12)
    S, sigma = W.T @ X.T @ Y, np.linalg.svd(X.T @ Y, compute_uv=False)
    scale = max(sigma.sum(), 1e-300)
    assert_allclose(np.trace(S), sigma.sum(), atol=1e-10 * scale)
    # the same said by first and second order: symmetric, and no negative eigenvalue
    assert np.abs(S - S.T).max() <= 1e-10 * scale
    assert np.linalg.eigvalsh((S + S.T) / 2).min() >= -1e-10 * scale
    for seed in range(3):
        other = mean_distance(X, Y, rotation(k, seed))
        assert mean_distance(X, Y, W) <= other + 1e-9 * (1 + other)


def test_it_agrees_with_scipy():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, 50, 7))
    assert_allclose(best_rotation(X, Y), orthogonal_procrustes(X, Y)[0], atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("max_iter", [0, 5])
def test_a_turned_copy_is_found_exactly(dtype, max_iter):
    source, _ = noisy_sides(n=300)
    Q = rotation(20, 7)
    turned = WordVectors([f"t{i}" for i in range(300)], (source.matrix @ Q).astype(dtype))
    source = WordVectors(source.words, source.matrix.astype(dtype))
    found = align(source, turned, truth(0, 60), max_iter=max_iter)
    assert found.rotation_.dtype == dtype
    assert np.abs(found.rotation_ - Q).max() < (1e-12 if dtype == np.float64 else 1e-5)
    for method in ("csls", "cosine"):
        score = found.precision(truth(60, 300), method=method)
        assert score.precision == {1: 1.0, 5: 1.0, 10: 1.0}
        assert (score.n_words, score.n_unknown) == (240, 0)
    assert found.certify(truth(60, 300)).require(
        "orthogonal_map", "no_better_rotation", "rotation_determined", "new_pairs_found"
    )
    assert_allclose(found.transform(source.matrix), turned.matrix, atol=1e-4)
    assert_allclose(found.inverse_transform(turned.matrix), source.matrix, atol=1e-4)
    assert_allclose(found.vectors_["s5"], turned["t5"], atol=1e-4)


def test_fewer_pairs_than_dimensions_leave_the_rotation_open_and_are_told():
    source, target = noisy_sides()
    assert (
        "rotation_determined" in align(source, target, truth(0, 19), max_iter=0).certificate_.failed
    )
    assert (
        "rotation_determined" in align(source, target, truth(0, 60), max_iter=0).certificate_.held
    )
    flat = WordVectors(source.words, source.matrix * (np.arange(20) < 5))  # of rank 5
    found = align(flat, target, truth(0, 60), max_iter=0)
    assert "rotation_determined" in found.certificate_.failed
    assert "orthogonal_map" in found.certificate_.held
    nothing = WordVectors(source.words, np.zeros((600, 20)))
    assert "no_better_rotation" in align(nothing, target, truth(0, 60)).certificate_.undecided


def test_a_rotation_turned_a_little_is_found_out():
    source, target = noisy_sides()
    found = align(source, target, truth(0, 100), max_iter=0)
    turn = np.eye(20)
    turn[:2, :2] = [[np.cos(0.01), -np.sin(0.01)], [np.sin(0.01), np.cos(0.01)]]
    found.rotation_ = found.rotation_ @ turn
    certificate = found.certify(truth(100, 200))
    assert {"no_better_rotation", "statements_true"} <= set(certificate.failed)
    assert "orthogonal_map" in certificate.held
    found.rotation_ = 1.001 * found.rotation_
    assert "orthogonal_map" in found.certify().failed


# --- retrieval --------------------------------------------------------------------------------------------------------


def test_retrieval_is_what_its_formulas_say_whatever_the_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    X, Y = (Z / np.linalg.norm(Z, axis=1)[:, None] for Z in rng.normal(size=(2, 90, 5)))
    S = X @ Y.T
    r_x = np.sort(S, axis=1)[:, -4:].mean(axis=1)
    r_y = np.sort(S, axis=0)[-4:].mean(axis=0)
    csls = 2 * S - r_x[:, None] - r_y
    for size in (1, 90 * 7, 2**21):
        monkeypatch.setattr("lemmata.embedding.alignment.retrieval.BLOCK", size)
        assert_allclose(crowding(X, Y, 4), r_x, atol=1e-12)
        places, scores = best(X, Y, r_y, 6)
        assert (places == np.argsort(-csls, axis=1, kind="stable")[:, :6]).all()
        assert_allclose(scores - r_x[:, None], np.take_along_axis(csls, places, 1), atol=1e-12)
        forward, backward = translations(X, Y, 4)
        assert (forward == csls.argmax(axis=1)).all()
        assert (backward == csls.argmax(axis=0)).all()
    pairs = {(i, j) for i in range(90) for j in range(90) if forward[i] == j and backward[j] == i}
    assert set(map(tuple, mutual(forward, backward).tolist())) == pairs


def test_csls_finds_more_than_the_cosine_where_there_are_hubs():
    rng = np.random.default_rng(0)
    Z = 1 + rng.normal(size=(900, 25))
    source, target = (Z + 0.9 * rng.normal(size=Z.shape) for _ in range(2))
    target[:30] = 1 + 0.2 * rng.normal(size=(30, 25))  # hubs: where all words point to
    sides = ([f"{side}{i}" for i in range(900)] for side in "st")
    found = align(
        *zip(sides, (source, target @ rotation(25)), strict=True), truth(30, 500), max_iter=0
    )
    by = {m: found.precision(truth(500, 900), 1, method=m)[1] for m in ("csls", "cosine")}
    assert by["csls"] > by["cosine"] + 0.05


def test_translations_are_those_that_precision_counts():
    source, target = noisy_sides()
    found = align(source, target, truth(0, 100))
    asked = [f"s{i}" for i in range(300, 360)]
    answers = found.translate(asked, 5)
    alone = found.translate("s303", 5)
    assert [word for word, _ in answers[3]] == [word for word, _ in alone]
    assert_allclose([value for _, value in answers[3]], [value for _, value in alone])
    right = [
        f"t{i}" in [word for word, _ in row]
        for i, row in zip(range(300, 360), answers, strict=True)
    ]
    score = found.precision(truth(300, 360), 5)
    assert score[5] == np.mean(right)
    assert score.low[5] <= score[5] <= score.high[5]
    assert score.chance == {5: 5 / 600}
    scores = [value for _, value in found.translate("s7", 600)]
    assert scores == sorted(scores, reverse=True)
    cosine = found.translate("s7", 1, method="cosine")[0]
    a, b = found.vectors_["s7"], target[cosine[0]]
    assert_allclose(cosine[1], a @ b / np.linalg.norm(a) / np.linalg.norm(b), atol=1e-12)


def test_a_word_with_two_translations_counts_once_and_either_will_do():
    source, target = noisy_sides(noise=0.1)
    found = align(source, target, truth(0, 100))
    both = found.precision({"s200": ["t200", "t3"], "s201": ("t9",), "s202": "nothing"}, k=(1,))
    assert (both.n_words, both.n_unknown, both[1]) == (2, 1, 0.5)


# --- self-learning ----------------------------------------------------------------------------------------------------


def test_self_learning_from_few_pairs_finds_the_rest():
    source, target = noisy_sides()
    alone = align(source, target, truth(0, 20), max_iter=0)
    learnt = align(source, target, truth(0, 20), max_iter=30)
    told = align(source, target, truth(0, 100), max_iter=0)
    few, many, told_share = (one.precision(truth(100, 600), 1)[1] for one in (alone, learnt, told))
    assert few < 0.5 * told_share < told_share <= many
    assert (np.diff(learnt.trace_.objective) <= 0).all()
    assert "no_round_rose" in learnt.certificate_.held
    assert learnt.trace_.extras["pairs"][-1] == len(learnt.pairs_) > 500


def test_wrong_pairs_in_a_dictionary_are_outvoted_and_a_wrong_dictionary_is_told():
    source, target = noisy_sides()
    rng = np.random.default_rng(0)
    half = truth(0, 60) + [
        (f"s{60 + i}", f"t{j}") for i, j in enumerate(rng.integers(600, size=60))
    ]
    noisy = align(source, target, half)
    clean = align(source, target, truth(0, 200), max_iter=0)
    share, wanted = (one.precision(truth(200, 600), 1)[1] for one in (noisy, clean))
    assert share >= wanted - 3 * 0.012  # so large is the standard error of 400 words at 0.94
    assert "new_pairs_found" in noisy.certify(truth(200, 600)).held
    wrong = [(f"s{i}", f"t{j}") for i, j in enumerate(rng.permutation(600)[:200])]
    nonsense = align(source, target, wrong, max_iter=0)
    assert "new_pairs_found" in nonsense.certify(truth(200, 600)).failed


def test_the_loss_of_a_state_is_its_own_and_a_run_goes_on_where_it_stopped(tmp_path):
    source, target = noisy_sides()
    sides = TwoSides.of(source.matrix, target.matrix, np.array([[i, i] for i in range(20)]))
    algorithm = SelfLearningAlgorithm(10, 600)
    whole = run(algorithm, sides, stop=MaxSteps(4))
    W = whole.state.rotation
    turned = sides.X @ W / np.linalg.norm(sides.X @ W, axis=1)[:, None]
    forward, _ = translations(turned, sides.Y, 10)
    assert_allclose(
        whole.state.loss, 1 - (turned * sides.Y[forward]).sum(axis=1).mean(), atol=1e-12
    )
    run(algorithm, sides, stop=MaxSteps(2), callbacks=[Checkpoint(tmp_path / "run")])
    resumed = run(algorithm, sides, stop=MaxSteps(4), callbacks=[Checkpoint(tmp_path / "run")])
    assert (resumed.state.rotation == W).all()
    assert (resumed.state.pairs == whole.state.pairs).all()
    nothing_found = replace(whole.state, found=whole.state.found[:0])
    assert algorithm.finished(algorithm.step(nothing_found, sides))


# --- two halves of a text ---------------------------------------------------------------------------------------------


def two_texts(seed=0, sentences=1500, groups=12, words=12):
    """Two texts of one distribution: sentences of a group's words and of words that follow the group, none shared."""
    rng = np.random.default_rng(seed)
    taste = rng.dirichlet(np.full(groups * words, 0.08), groups)
    halves = []
    for side in "st":
        which = rng.integers(groups, size=sentences)
        picked = [rng.choice(groups * words, 12, p=taste[g]) for g in which]
        halves.append([[f"{side}{i}" for i in row] for row in picked])
    return halves


def check_halves(models, k):
    """Held-out pairs are found far more often than by chance, and than without a rotation."""
    source, target = (model.vectors_ for model in models)
    known = [i for i in range(12 * 12) if f"s{i}" in source and f"t{i}" in target]
    order = np.random.default_rng(0).permutation(known).tolist()
    given_, new = ([(f"s{i}", f"t{i}") for i in part] for part in (order[:50], order[50:]))
    found = align(source, target, given_, neighbours=5, max_iter=0)
    score = found.precision(new, k)
    unaligned = Alignment(neighbours=5, max_iter=0).fit(source, target, given_)
    unaligned.rotation_ = np.eye(len(found.rotation_), dtype=np.float32)
    assert score.low[k] > 3 * score.chance[k]
    assert score[k] > 3 * unaligned.precision(new, k)[k]
    return found, new


def test_vectors_of_two_halves_of_a_text_are_brought_together():
    models = [PMI(12, min_count=5, random_state=i).fit(half) for i, half in enumerate(two_texts())]
    found, new = check_halves(models, 5)
    assert "new_pairs_found" in found.certify(new).held


def test_vectors_of_skip_gram_too():
    settings = {
        "vector_size": 12,
        "min_count": 5,
        "epochs": 4,
        "alpha": 0.1,
        "negative": 3,
        "sample": 0,
    }
    halves = two_texts(sentences=400)
    check_halves(
        [SkipGram(**settings, random_state=i).fit(half) for i, half in enumerate(halves)], 10
    )


@pytest.mark.slow
def test_vectors_of_two_halves_of_wikipedia_are_brought_together():
    try:
        lines = data.wikitext_2("train").texts[0].split("\n")
    except FileNotFoundError:
        pytest.skip("wikitext-2 is not here")
    texts = [line for line in lines if len(line) > 40]
    a, b = (PMI(50, min_count=20, random_state=i).fit(texts[i::2]).vectors_ for i in range(2))
    common = [word for word in a.words[:2000].tolist() if word in b]
    order = np.random.default_rng(0).permutation(len(common)).tolist()
    new, given_ = ([(common[i], common[i]) for i in part] for part in (order[:400], order[400:]))
    few, all_ = align(a, b, given_[:100], max_iter=0), align(a, b, given_, max_iter=0)
    learnt = align(a, b, given_[:100], among=3000)
    shares = [one.precision(new, 1) for one in (few, learnt, all_)]
    assert shares[0][1] < shares[1].low[1]  # self-learning helps, beyond chance
    assert shares[2].low[1] > 100 * shares[2].chance[1]


# --- doors ------------------------------------------------------------------------------------------------------------


def test_gensim_models_words_with_a_matrix_files_and_dicts_are_taken(tmp_path):
    gensim = pytest.importorskip("gensim.models")
    source, target = noisy_sides(n=120)
    keyed = gensim.KeyedVectors(20)
    keyed.add_vectors(target.words.tolist(), target.matrix.astype(np.float32))
    (tmp_path / "pairs.txt").write_text("# a dictionary\ns0 t0\ns1\tt1\n\nzebra t2\n" + "".join(
        f"s{i} t{i}\n" for i in range(2, 60)))  # fmt: skip
    listed = truth(0, 60)
    ways = [
        (listed, source),
        (dict(listed), (source.words, source.matrix)),
        (str(tmp_path / "pairs.txt"), source),
    ]
    found = [align(one, keyed, pairs, max_iter=0) for pairs, one in ways]
    for other in found[1:]:
        assert (other.rotation_ == found[0].rotation_).all()
    assert [one.n_unknown_ for one in found] == [0, 0, 1]
    same = WordVectors(source.words, target.matrix)
    assert len(align(source, same, max_iter=0).seeds_) == 120  # None: words written alike


def test_a_saved_alignment_is_the_same(tmp_path):
    source, target = noisy_sides(n=120)
    found = align(source, target, truth(0, 60))
    lemmata.save(found, tmp_path / "a.lemma")
    again = lemmata.load(tmp_path / "a.lemma")
    assert again.translate("s80", 3) == found.translate("s80", 3)
    assert (
        again.certify(truth(60, 120)).to_dict()["claims"]
        == found.certify(truth(60, 120)).to_dict()["claims"]
    )


def test_bad_input_is_named(tmp_path):
    source, target = noisy_sides(n=40)
    with pytest.raises(ValueError, match="two embeddings"):
        Alignment().fit(source)
    with pytest.raises(TypeError, match="target is a ndarray"):
        align(source, target.matrix)
    with pytest.raises(ValueError, match="20 numbers and target vectors 19"):
        align(source, WordVectors(target.words, target.matrix[:, 1:]))
    with pytest.raises(ValueError, match="written alike"):
        align(source, target)
    with pytest.raises(ValueError, match="none of 1 pairs"):
        align(source, target, [("t0", "s0")])
    with pytest.raises(ValueError, match=r"pairs\[1\]"):
        align(source, target, [("s0", "t0"), "s1"])
    with pytest.raises(TypeError, match=r"pairs\[0\] holds 3"):
        align(source, target, [(3, "t0")])
    with pytest.raises(TypeError, match="pairs is a int"):
        align(source, target, 7)
    (tmp_path / "bad.txt").write_text("s0 t0\nonly\n")
    with pytest.raises(ValueError, match="line 2"):
        align(source, target, tmp_path / "bad.txt")
    with pytest.raises(ValueError, match="max_iter"):
        align(source, target, truth(0, 30), max_iter=-1)
    found = align(source, target, truth(0, 30))
    with pytest.raises(KeyError, match="there is no vector of 'zebra'"):
        found.translate("zebra")
    with pytest.raises(ValueError, match="method='nearest'"):
        found.translate("s0", method="nearest")
    with pytest.raises(ValueError, match="n=0"):
        found.translate("s0", 0)
    with pytest.raises(ValueError, match="k=0"):
        found.precision(truth(0, 5), 0)
    with pytest.raises(ValueError, match="expecting 20"):
        found.transform(np.ones((2, 3)))
    few = found.certify(truth(30, 40))["new_pairs_found"]
    assert few.verdict == "can't tell"
    assert "10 words" in few.note
