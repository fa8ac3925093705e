"""Claims about vectors of words: averages by enumeration, optima that are planted, shapes that are known, vectors of others."""

import json
from itertools import product

import numpy as np
import pytest
from cli_invoke import invoke
from numpy.testing import assert_allclose

import lemmata
from lemmata.audit.embedding.skipgram import expected_pairs, losses, softplus
from lemmata.core import Fit
from lemmata.embedding import SkipGram, WordVectors, balanced
from lemmata.embedding.vectors.certifying import attributes_of
from lemmata.embedding.vectors.foreign import read_vectors
from lemmata.text import encode

# --- pairs ------------------------------------------------------------------------------------------------------------


def enumerated(sentences, keep, window, shrink):
    """N and T by all ways to drop words, each with its probability; reaches 1 … R are equally likely."""
    v = len(keep)
    N, T = np.zeros((v, v)), np.zeros(v)
    reaches = range(1, window + 1) if shrink else [window]
    for words in sentences:
        for kept in product((False, True), repeat=len(words)):
            chance = np.prod(
                [keep[w] if k else 1 - keep[w] for w, k in zip(words, kept, strict=True)]
            )
            left = [w for w, k in zip(words, kept, strict=True) if k]
            for s, t in product(range(len(left)), repeat=2):
                if s != t:
                    seen = np.mean([abs(s - t) <= reach for reach in reaches])
                    N[left[s], left[t]] += chance * seen
            if len(left) > 1:
                np.add.at(T, left, chance)
    return N, T


@pytest.mark.parametrize("shrink", [True, False])
@pytest.mark.parametrize("window", [1, 2, 5])
def test_expected_pairs_are_the_average_over_all_ways_to_drop_words(window, shrink):
    rng = np.random.default_rng(window)
    sentences = [rng.integers(0, 4, n).tolist() for n in (0, 1, 2, 6, 8)]
    blocks = []
    for part in (sentences[:2], sentences[2:]):
        starts = np.concatenate([[0], np.cumsum([len(one) for one in part])])
        blocks.append((np.concatenate(part).astype(np.int32), starts))
    for keep in (np.array([0.3, 0.9, 0.05, 1.0]), np.ones(4)):
        found = expected_pairs(blocks, keep, window, shrink)
        N, T = enumerated(sentences, keep, window, shrink)
        assert_allclose(found.N.toarray(), N, atol=1e-12)
        assert_allclose(found.T, T, atol=1e-12)


def chained(seed=0, v=6, length=400):
    """Sentences of a random chain: words differ in frequency, and in what follows them."""
    rng = np.random.default_rng(seed)
    chain = rng.dirichlet(np.full(v, 0.5), v) * 0.8 + 0.2 / v
    words = [0]
    for _ in range(length):
        words.append(int(rng.choice(v, p=chain[words[-1]])))
    return [[f"w{i}" for i in words[at : at + 40]] for at in range(0, length, 40)]


SETTINGS = [
    {},
    {"sample": 0.05},
    {"sample": 0.05, "negatives_per": "occurrence", "shrink_windows": False},
    {"ns_exponent": 0.0, "negatives_per": "window", "negative": 2},
    {"objective": "softmax"},
]


def model_of_scores(texts, scores, **settings):
    """A model whose scores are these, by vectors as long as there are words."""
    settings = {"sample": 0, "window": 3, **settings}
    model = SkipGram(len(scores), min_count=1, epochs=1, random_state=0, **settings).fit(texts)
    model.embedding_, model.biases_ = np.eye(len(scores)), np.zeros(len(scores))
    model.context_embedding_ = np.ascontiguousarray(scores.T)
    return model


def statistics(texts, settings):
    """N and M by the formulas; N from the enumeration's twin, which the test above knows."""
    settings = {"sample": 0, "window": 3, "ns_exponent": 0.75, "negative": 5, **settings}
    text = encode(texts)
    counts = text.vocabulary.counts.astype(float)
    keep = np.ones(len(counts))
    if settings["sample"] and settings.get("objective") != "softmax":
        ratio = settings["sample"] * counts.sum() / counts
        keep = np.minimum(1, np.sqrt(ratio) + ratio)
    found = expected_pairs(text, keep, settings["window"], settings.get("shrink_windows", True))
    N = found.N.toarray()
    T = found.T if settings.get("negatives_per") == "occurrence" else N.sum(axis=1)
    q = counts ** settings["ns_exponent"]
    return N, settings["negative"] * np.outer(T, q / q.sum())


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_optimum_has_no_excess_and_frequencies_have_all_of_it(settings):
    texts = chained()
    N, M = statistics(texts, settings)
    softmax = settings.get("objective") == "softmax"
    best = np.log(np.maximum(N, 1e-12)) - (0 if softmax else np.log(M))
    alone = np.log(N.sum(axis=0)) - (0 if softmax else np.log(M.sum(axis=0)))
    alone = np.broadcast_to(alone, N.shape)
    for scores, share in ((best, 0), (alone, 1)):
        claim = model_of_scores(texts, scores, **settings).certify(texts)["beats_frequencies"]
        assert claim.measured == pytest.approx(share, abs=1e-6)
    # between the two the loss is convex: towards the optimum it falls, away from it it rises
    for step, verdict in ((0.02, "holds"), (-0.02, "fails")):
        scores = alone + step * (best - alone)
        model = model_of_scores(texts, scores, **settings)
        assert model.certify(texts)["beats_frequencies"].verdict == verdict


def test_drawn_pairs_tell_scores_of_pairs_from_others():
    texts = chained()
    N, M = statistics(texts, {})
    best, alone = np.log(np.maximum(N, 1e-12) / M), np.log(N.sum(axis=0) / M.sum(axis=0))
    for scores, verdict in ((best, "holds"), (2 * alone - best, "fails")):
        model = model_of_scores(texts, scores)
        assert model.certify(texts)["pairs_learned"].verdict == verdict


def test_the_excess_is_a_divergence():
    """L(s) − L* = Σ (N + M) KL(p* ‖ σ(s)), each side by itself."""
    texts, rng = chained(1), np.random.default_rng(1)
    N, M = statistics(texts, {"sample": 0.05})
    S = rng.normal(size=N.shape)
    model = model_of_scores(texts, S, sample=0.05)
    found = losses(Fit(model, encode(texts).over(encode(texts).vocabulary)))
    p, s = N / (N + M), 1 / (1 + np.exp(-S))
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(p > 0, p * np.log(p / s), 0) + (1 - p) * np.log((1 - p) / (1 - s))
    assert found.model == pytest.approx((N * softplus(-S) + M * softplus(S)).sum(), rel=1e-12)
    assert found.model - found.least == pytest.approx(((N + M) * kl).sum(), rel=1e-9)


def test_scores_that_are_the_information_follow_it_and_noise_does_not():
    texts, rng = chained(2), np.random.default_rng(2)
    N, M = statistics(texts, {})
    best = np.log(np.maximum(N, 1e-12) / M)
    follows = model_of_scores(texts, 0.5 * best + 3).certify(texts)["follows_information"]
    assert follows.measured == pytest.approx(1, abs=1e-6)
    noise = model_of_scores(texts, rng.normal(size=N.shape)).certify(texts)
    assert noise["follows_information"].verdict == "fails"
    means = SkipGram(4, sg=False, min_count=1, epochs=1, random_state=0).fit(texts).certify(texts)
    assert {"beats_frequencies", "follows_information"} <= set(means.undecided)


# --- shapes -----------------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(7)
WORDS = [f"w{i}" for i in range(300)]
COUNTS = np.sort(RNG.integers(5, 50_000, 300))[::-1]
ROUND = RNG.normal(size=(300, 20))
LINE = np.sign(RNG.normal(size=(300, 1))) * np.eye(20)[:1] + 1e-3 * ROUND
STEEP = ROUND + np.multiply.outer(np.log(COUNTS) - np.log(COUNTS).mean(), np.eye(20)[0]) * 3


@pytest.mark.parametrize(
    ("vectors", "failed"),
    [
        (ROUND, []),
        (ROUND * COUNTS[:, None], []),  # lengths are no directions
        (ROUND * 1e150, []),
        (ROUND.astype(np.float32) * np.float32(1e-30), []),
        (ROUND + 3, ["directions_spread"]),
        (LINE, ["dimensions_used"]),
        (STEEP, ["frequency_apart"]),
        (np.ones((300, 20)), ["directions_spread", "dimensions_used"]),
        (np.zeros((300, 20)), ["directions_spread", "dimensions_used"]),
    ],
    ids=["round", "long", "large", "tiny", "shifted", "a line", "steep", "ones", "zeros"],
)
def test_shapes_are_told_by_their_numbers(vectors, failed):
    found = lemmata.certify(WordVectors(WORDS, vectors, COUNTS))
    assert found.failed == failed
    assert not found.broken
    u = (
        vectors.astype(float)
        / np.maximum(np.linalg.norm(vectors.astype(float), axis=1), 1e-300)[:, None]
    )
    if vectors.any():
        cosines = (u @ u.T)[~np.eye(300, dtype=bool)]
        assert found["directions_spread"].measured == pytest.approx(cosines.mean(), abs=1e-6)
    if "dimensions_used" not in failed:
        C, x = u - u.mean(axis=0), np.log(COUNTS) - np.log(COUNTS).mean()
        fitted = np.outer(x, x @ C / (x @ x))
        explained = (fitted**2).sum() / (C**2).sum()
        assert found["frequency_apart"].measured == pytest.approx(explained, rel=1e-5)


def test_a_free_linear_map_changes_the_nearest_words_and_balancing_takes_it_back():
    rng = np.random.default_rng(3)
    texts = [[f"w{i}" for i in rng.permutation(100)[:10]] for _ in range(100)]
    model = SkipGram(8, min_count=1, epochs=1, random_state=0).fit(texts)
    X, Z = (np.linalg.qr(rng.normal(size=(100, 8)))[0] for _ in range(2))
    model.embedding_, model.context_embedding_ = X, Z
    held = model.certify(texts)["nearest_words_determined"]
    assert (held.verdict, held.measured) == ("holds", 1)
    before = balanced(model)
    A = np.linalg.qr(rng.normal(size=(8, 8)))[0] * np.logspace(0, 3, 8)
    model.embedding_, model.context_embedding_ = X @ A, Z @ np.linalg.inv(A).T
    found = model.certify(texts)["nearest_words_determined"]
    assert found.verdict == "fails"
    assert "balanced" in found.advice
    again = balanced(model)
    for word in ("w3", "w77"):
        same = zip(again.nearest(word, n=5), before.nearest(word, n=5), strict=True)
        assert all(a[0] == b[0] and a[1] == pytest.approx(b[1]) for a, b in same)
    with pytest.raises(TypeError, match="no vectors of words and of contexts"):
        balanced(lemmata.PCA(2))


# --- vectors of others ------------------------------------------------------------------------------------------------


def topical(n=300, topics=4, words=10, seed=0):
    rng = np.random.default_rng(seed)
    return [
        [f"t{t}w{min(i, words - 1)}" for i in rng.geometric(0.2, 8) - 1]
        for t in rng.integers(0, topics, n)
    ]


@pytest.fixture(scope="module")
def gensims():
    word2vec = pytest.importorskip("gensim.models").Word2Vec
    texts = topical()
    settings = {"vector_size": 8, "sg": 1, "min_count": 1, "workers": 1, "seed": 1, "sample": 0.01}
    trained = word2vec(texts, epochs=40, alpha=0.05, **settings)
    return texts, trained, word2vec(texts, epochs=1, alpha=1e-4, min_alpha=1e-4, **settings)


def test_a_word2vec_of_gensim_is_certified_with_its_text(gensims):
    texts, trained, untrained = gensims
    found = lemmata.certify(trained, texts)
    assert found.title == "gensim Word2Vec  40 words, 8 numbers each"
    assert {"statements_true", "beats_frequencies", "follows_information"} <= set(found.held)
    assert "beats_frequencies" in lemmata.certify(untrained, texts).failed
    assert "statements_true" in lemmata.certify(trained, topical(seed=1)).failed
    alone = lemmata.certify(trained)
    assert "beats_frequencies" in alone.not_checked
    assert "nearest_words_determined" in alone.held


def test_the_optimum_of_gensim_leaves_out_negatives_that_are_the_word_itself(gensims):
    """Planted: as many numbers as words, scores ln N_wv / r q_v (N_w − N_wv)."""
    texts, trained, _ = gensims
    read = attributes_of(trained, *read_vectors(trained)[1:])
    text = encode(texts)
    order = text.vocabulary.encode(trained.wv.index_to_key)
    keep = read["keep_"]
    N = expected_pairs(text, keep[np.argsort(order)], 5, True).N.toarray()[np.ix_(order, order)]
    q = read["counts_"] ** 0.75
    apart = 5 * q / q.sum() * (N.sum(axis=1, keepdims=True) - N)
    same = 5 * q / q.sum() * N.sum(axis=1, keepdims=True)
    shares = []
    for M in (apart, same):
        planted = {
            **read,
            "embedding_": np.eye(40),
            "context_embedding_": np.log(np.maximum(N, 1e-12) / M).T,
        }
        found = losses(Fit(trained, text.over(_words(trained)), attributes=planted))
        shares.append((found.model - found.least) / found.pairs)
    assert abs(shares[0]) < 1e-9
    assert shares[1] > 1e-4


def _words(model):
    from lemmata.text import Vocabulary

    words, _, counts = read_vectors(model)
    return Vocabulary(words, counts)


def test_keyed_vectors_and_matrices_with_words_get_the_same_verdicts(gensims, tmp_path):
    _, trained, _ = gensims
    vectors = trained.wv
    counts = [vectors.get_vecattr(word, "count") for word in vectors.index_to_key]
    forms = [
        vectors,
        WordVectors(vectors.index_to_key, vectors.vectors, counts),
        (vectors.index_to_key, vectors.vectors, counts),
    ]
    numbers = [[(one.name, one.measured) for one in lemmata.certify(form)] for form in forms]
    assert str(numbers[0]) == str(numbers[1]) == str(numbers[2])
    plain = {word: vectors[word] for word in vectors.index_to_key}
    assert "frequency_apart" in lemmata.certify(plain).undecided
    vectors.save_word2vec_format(str(tmp_path / "v.bin"), binary=True)
    made_up = type(vectors).load_word2vec_format(str(tmp_path / "v.bin"), binary=True)
    assert "frequency_apart" in lemmata.certify(made_up).undecided  # gensim counts 40, 39, …, 1
    out = json.loads(invoke("certify", tmp_path / "v.bin", "--json"))
    assert {one["name"]: one["verdict"] for one in out["claims"]}["directions_spread"] == "holds"
    assert "DATA" in invoke("certify", tmp_path / "v.lemma", code=2)


@pytest.mark.parametrize(
    ("vectors", "words"),
    [
        ((["a", "b"], np.ones((3, 2))), "2 words and vectors of shape"),
        ({"a": [1.0, 2], "b": [1.0]}, "all of one size"),
        ({"a": 1.0, "b": 2.0}, "one row of numbers"),
    ],
)
def test_what_is_no_vectors_of_words_is_refused(vectors, words):
    with pytest.raises(ValueError, match=words):
        lemmata.certify(vectors)


def test_bad_numbers_fail_and_other_things_are_named():
    spoilt = ROUND.copy()
    spoilt[3, 4] = np.nan
    assert lemmata.certify((WORDS, spoilt)).failed == ["attributes_sound"]
    with pytest.raises(TypeError, match=r"no claims about a builtins\.dict"):
        lemmata.certify({1: [2.0]}, ROUND)
    with pytest.raises(TypeError, match="lacks its data"):
        lemmata.certify(SkipGram())
    with pytest.raises(ValueError, match="leave out analogies"):
        lemmata.certify(lemmata.PCA(2).fit(ROUND), ROUND, analogies=[("a", "b", "c", "d")])
    few = lemmata.certify((["a", "b"], np.eye(2)))
    assert few.failed == []
    assert "directions_spread" in few.undecided


# --- analogies --------------------------------------------------------------------------------------------------------


def parallel(noise, n=100, seed=0):
    """Countries and capitals: a capital is its country plus one vector; every question asks for one more."""
    rng = np.random.default_rng(seed)
    base, offset = rng.normal(size=(n, 30)), 2 * rng.normal(size=30)
    words = [f"{what}{i}" for what in ("land", "town") for i in range(n)]
    vectors = np.concatenate([base, base + offset]) + noise * rng.normal(size=(2 * n, 30))
    pairs = [rng.choice(n, 2, replace=False) for _ in range(400)]
    questions = [(f"land{i}", f"town{i}", f"land{j}", f"town{j}") for i, j in pairs]
    return words, vectors, questions


def test_analogies_are_solved_by_offsets_or_by_what_is_near(tmp_path):
    words, vectors, questions = parallel(0.05)
    found = lemmata.certify((words, vectors), analogies=questions)["analogies_solved"]
    assert found.verdict == "holds"
    assert found.note.startswith("100 %")
    assert "by chance" in found.note
    (tmp_path / "questions.txt").write_text("\n".join(map(" ".join, questions)))
    assert lemmata.certify((words, vectors), analogies=tmp_path / "questions.txt")[-1] == found
    # a town is nearest to its own land, and what is between other towns and lands misleads
    rng = np.random.default_rng(1)
    vectors[100:] = vectors[:100] + 1.5 * rng.normal(size=(100, 30))
    assert (
        lemmata.certify((words, vectors), analogies=questions)["analogies_solved"].verdict
        == "fails"
    )
    rare = lemmata.certify((words, vectors), analogies=questions[:4])["analogies_solved"]
    assert rare.verdict == "can't tell"
    assert "a gain between" in rare.note
    none = lemmata.certify((words, vectors), analogies=[("x", "y", "z", "u")])["analogies_solved"]
    assert none.verdict == "can't tell"
    with pytest.raises(ValueError, match="rows of four words"):
        lemmata.certify((words, vectors), analogies=["a b c d"])


def test_a_model_of_ours_takes_analogies_and_certifies_more_than_a_fit():
    texts = topical()
    model = SkipGram(8, min_count=1, epochs=10, alpha=0.05, random_state=0).fit(texts)
    assert len(model.certificate_) == 7
    found = model.certify(texts, analogies=[("t0w0", "t0w1", "t1w0", "t1w1")])
    names = [one.name for one in found]
    assert names[-4:] == ["follows_information", "frequency_apart", "nearest_words_determined", "analogies_solved"]  # fmt: skip
    assert not hasattr(model, "analogies")
    assert "beats_frequencies" in found.held
    assert len(lemmata.certify(model, texts)) == 10


def test_the_epochs_that_a_collapsed_fit_advises_undo_the_collapse():
    rng, words = np.random.default_rng(0), np.array([f"w{i}" for i in range(400)])
    texts = []
    for topic in rng.integers(0, 10, 600):
        p = (1 + 8.0 * (np.arange(400) % 10 == topic)) / np.arange(1, 401)
        texts.append(rng.choice(words, 20, p=p / p.sum()).tolist())
    found = SkipGram(random_state=0).fit(texts).certificate_["directions_spread"]
    assert found.verdict == "fails"
    epochs = int(found.advice.split("epochs=")[1])
    again = SkipGram(epochs=epochs, random_state=0).fit(texts).certificate_["directions_spread"]
    assert again.verdict == "holds"
