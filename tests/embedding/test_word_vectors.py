"""Word vectors: search agrees with plain NumPy and gensim, files go round, scores are those of SciPy."""

import re

import numpy as np
import pytest
from scipy.stats import spearmanr

import lemmata
from lemmata.embedding import WordVectors
from lemmata.embedding.vectors import word_vectors

KeyedVectors = pytest.importorskip("gensim.models").KeyedVectors


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(0)
    words = [f"wörd{i}" for i in range(300)]
    Z = rng.normal(size=(300, 10)).astype(np.float32)
    return WordVectors(words, Z, np.arange(300, 0, -1))


@pytest.fixture(scope="module")
def theirs(vectors):
    model = KeyedVectors(10)
    model.add_vectors(vectors.words.tolist(), vectors.matrix)
    return model


def agree(ours, other):
    assert [word for word, _ in ours] == [word for word, _ in other]
    np.testing.assert_allclose(
        [score for _, score in ours], [score for _, score in other], rtol=1e-5
    )


@pytest.mark.parametrize("bytes_at_once", [2**25, 1000])
def test_searches_agree_with_gensim(vectors, theirs, monkeypatch, bytes_at_once):
    monkeypatch.setattr(word_vectors, "BLOCK_BYTES", bytes_at_once)
    a, b, c = "wörd3", "wörd10", "wörd200"
    agree(vectors.nearest(a, 12), theirs.most_similar(a, topn=12))
    agree(vectors.nearest([a, b], 5), theirs.most_similar([a, b], topn=5))
    agree(vectors.analogy(a, b, c, 7), theirs.most_similar([b, c], [a], topn=7))
    agree(
        vectors.analogy(a, b, c, 7, method="multiplicative"),
        theirs.most_similar_cosmul([b, c], [a], topn=7),
    )
    assert vectors.similarity(a, b) == pytest.approx(theirs.similarity(a, b), rel=1e-5)
    agree(
        vectors.nearest(vectors[a], 3, among=100),
        theirs.similar_by_vector(theirs[a], topn=3, restrict_vocab=100),
    )


@pytest.mark.parametrize("name", ["v.txt", "v.bin", "v.txt.gz", "v.bin.gz", "v.safetensors"])
def test_files_go_round_to_the_bit(vectors, tmp_path, name):
    vectors.write(tmp_path / name)
    back = WordVectors.read(tmp_path / name)
    assert back.words.tolist() == vectors.words.tolist()
    assert np.array_equal(back.matrix, vectors.matrix)
    if name.endswith("safetensors"):
        assert isinstance(back.matrix, np.memmap)
        assert np.array_equal(back.counts, vectors.counts)
    else:
        binary = ".bin" in name
        read = KeyedVectors.load_word2vec_format(str(tmp_path / name), binary=binary)
        assert read.index_to_key == vectors.words.tolist()
        assert np.array_equal(read.vectors, vectors.matrix)
        assert len(WordVectors.read(tmp_path / name, limit=5)) == 5


@pytest.mark.parametrize("binary", [True, False])
def test_what_gensim_wrote_is_read(theirs, tmp_path, binary):
    path = tmp_path / ("v.bin" if binary else "v.txt")
    theirs.save_word2vec_format(str(path), binary=binary)
    assert np.array_equal(WordVectors.read(path).matrix, theirs.vectors)


def test_word2vecs_own_binary_files_have_an_end_of_line_after_each_vector(vectors, tmp_path):
    rows = zip(vectors.words, vectors.matrix, strict=True)
    raw = b"300 10\n" + b"".join(w.encode() + b" " + z.tobytes() + b"\n" for w, z in rows)
    (tmp_path / "v.bin").write_bytes(raw)
    back = WordVectors.read(tmp_path / "v.bin")
    assert np.array_equal(back.matrix, vectors.matrix)
    assert back.words.tolist() == vectors.words.tolist()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("v.txt", lambda raw: raw[:-20], "numbers, not 10, at line 301"),
        ("v.txt", lambda raw: raw.replace(b"300 10", b"301 10"), "it ends at line 302"),
        ("v.txt", lambda raw: b"hello\n" + raw, "its first line is b'hello"),
        ("v.txt", lambda raw: raw.replace("wörd1 ".encode(), "wörd0 ".encode()), "is listed twice"),
        ("v.txt", lambda raw: re.sub(rb"\d\.\d+", b"nan", raw, count=1), "NaN"),
        ("v.txt", lambda raw: re.sub(rb"\d\.\d+", b"x", raw, count=1), "no number"),
        ("v.txt", lambda raw: raw.replace("ö".encode(), b"\xf6", 1), "not UTF-8"),
        ("v.bin", lambda raw: raw[:-7], "it ends within vector 300"),
        ("v.bin", lambda raw: b"300 99999999\n" + raw, "promises"),
        ("v.safetensors", lambda raw: raw[:-9], "outside of the file"),
        ("v.safetensors", lambda raw: b"\xff" * 8 + raw[8:], "not a safetensors file"),
        ("v.safetensors", lambda raw: raw[:8] + b"x" * (len(raw) - 8), "no JSON"),
        ("v.safetensors", lambda raw: raw.replace(b'"vectors"', b'"vektors"'), "no vectors"),
    ],
)
def test_damaged_files_are_named(vectors, tmp_path, name, change, message):
    vectors.write(tmp_path / name)
    raw = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(change(raw))
    with pytest.raises(ValueError, match=message) as error:
        WordVectors.read(tmp_path / name)
    assert name in str(error.value)


def test_words_with_spaces_go_to_safetensors_only(tmp_path):
    vectors = WordVectors(["new york", "rome"], np.eye(2))
    with pytest.raises(ValueError, match="white space"):
        vectors.write(tmp_path / "v.txt")
    vectors.write(tmp_path / "v.safetensors")
    assert "new york" in WordVectors.read(tmp_path / "v.safetensors")


def test_similarity_is_spearmans(vectors, tmp_path):
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, 300, (80, 2))
    scores = rng.normal(size=80).round(1)
    lines = [f"wörd{a}\tWörd{b}\t{s}" for (a, b), s in zip(pairs, scores, strict=True)]
    path = tmp_path / "pairs.tsv"
    path.write_text("# a comment\nword1\tword2\tscore\n" + "\n".join([*lines, "x\ty\t3"]))
    with pytest.raises(ValueError, match="line 2"):
        vectors.evaluate_similarity(path)
    path.write_text("# a comment\n" + "\n".join([*lines, "x\ty\t3"]))
    found = vectors.evaluate_similarity(path)
    cosines = [vectors.similarity(f"wörd{a}", f"wörd{b}") for a, b in pairs]
    assert found.spearman == pytest.approx(spearmanr(cosines, scores).statistic)
    assert (found.n_pairs, found.n_unknown) == (80, 1)
    assert found.low < found.spearman < found.high


def test_the_interval_of_a_correlation_covers_it_as_often_as_it_says(tmp_path):
    """Normal pairs of correlation 0.5: Spearman's ρ is (6/π) arcsin(ρ/2) = 0.4826."""
    rng = np.random.default_rng(2)
    truth, hits, n = 6 / np.pi * np.arcsin(0.25), 0, 100
    from lemmata.embedding.vectors.judging import _interval, _spearman

    for _ in range(400):
        x = rng.normal(size=n)
        y = 0.5 * x + np.sqrt(0.75) * rng.normal(size=n)
        low, high = _interval(_spearman(x, y), n, 0.95)
        hits += low <= truth <= high
    # a binomial deviation of 95 % over 400 draws is 1.1 %; three of them
    assert abs(hits / 400 - 0.95) < 0.033


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "q.txt"
    path.write_text(
        ": royal\nman king woman queen\nking man queen woman\n: lost\nman king woman x\n"
    )
    return path


@pytest.mark.parametrize("method", ["additive", "multiplicative"])
def test_analogies_of_an_exact_plane_are_all_solved(questions, method):
    Z = np.array([[5, 5, 1], [5, -5, 1], [-5, 5, 1], [-5, -5, 1], [0, 0.1, 9.0]])
    vectors = WordVectors(["king", "queen", "man", "woman", "apple"], Z)
    found = vectors.evaluate_analogies(questions, method=method)
    assert (found.accuracy, found.n_questions, found.n_unknown) == (1.0, 2, 1)
    assert found.sections["royal"].n_questions == 2
    # both are about the same four words: one draw
    assert found.low == pytest.approx(max(1 - np.sqrt(np.log(40) / 2), 0))


def test_analogies_agree_with_gensim(vectors, theirs, tmp_path):
    rng = np.random.default_rng(3)
    rows = [" ".join(f"wörd{i}" for i in rng.choice(300, 4, replace=False)) for _ in range(60)]
    answers = [
        [*row.split()[:3], theirs.most_similar(row.split()[1:3], row.split()[:1], topn=1)[0][0]]
        for row in rows[:30]
    ]
    path = tmp_path / "q.txt"
    path.write_text(": s\n" + "\n".join(rows[30:] + [" ".join(a) for a in answers]))
    score, _ = theirs.evaluate_word_analogies(str(path), case_insensitive=False)
    assert vectors.evaluate_analogies(path).accuracy == pytest.approx(score)
    assert score >= 0.5


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda v: v.nearest("Wörd3"), KeyError, "but one of 'wörd3'"),
        (lambda v: v.nearest("wörd3x"), KeyError, "did you mean"),
        (lambda v: v.nearest("wörd3", 0), ValueError, "n=0"),
        (lambda v: v.nearest(np.ones(3)), ValueError, "vectors of 10 numbers"),
        (lambda v: v.nearest(np.full(10, np.nan)), ValueError, "NaN"),
        (lambda v: v.analogy("wörd1", "wörd2", "wörd3", method="x"), ValueError, "additive"),
        (lambda v: v.write("v.xyz"), ValueError, "format"),
        (lambda v: v.read("nowhere.bin"), FileNotFoundError, "no file"),
        (lambda v: v.evaluate_similarity("nowhere"), FileNotFoundError, "no file"),
        (lambda v: WordVectors(["a"], np.eye(2)), ValueError, "a row for every word"),
        (lambda v: WordVectors(["a", "a"], np.eye(2)), ValueError, "is listed twice"),
        (lambda v: WordVectors(["a", 3], np.eye(2)), TypeError, r"words\[1\] is a int"),
        (lambda v: WordVectors(["a", "b"], np.eye(2), [1, -2]), ValueError, "counts"),
    ],
)
def test_bad_questions_are_answered_with_what_is_wrong(vectors, call, error, message):
    with pytest.raises(error, match=message):
        call(vectors)


def test_a_vector_of_zeros_is_like_nothing():
    vectors = WordVectors(["a", "b", "c"], np.array([[1.0, 0], [0, 0], [1, 1]]))
    assert vectors.nearest("a") == [("c", pytest.approx(2**-0.5)), ("b", 0.0)]
    assert vectors.similarity("b", "c") == 0


def test_a_picture_shows_its_words(vectors):
    import matplotlib

    matplotlib.use("Agg")
    ax = vectors.plot(["wörd1", "wörd2", "wörd3"], pairs=[("wörd1", "wörd9")])
    assert {text.get_text() for text in ax.texts} == {"wörd1", "wörd2", "wörd3", "wörd9"}


def test_the_shared_tests_of_words_are_read():
    try:
        files = lemmata.data.word_evaluation()
    except lemmata.data.DataNotFound as error:
        pytest.skip(str(error))
    words = ["man", "woman", "king", "queen", "boy", "girl", "tiger", "cat", "love", "sex", "book"]
    words += ["paper", "computer", "keyboard"]
    rng = np.random.default_rng(0)
    vectors = WordVectors(words, rng.normal(size=(len(words), 4)))
    assert vectors.evaluate_similarity(files["wordsim353"]).n_pairs >= 4
    found = vectors.evaluate_analogies(files["analogies"])
    assert found.n_questions + found.n_unknown == 19_544
