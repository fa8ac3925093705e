"""Words, vocabularies and counts: agreement with scikit-learn's vectorizer, sums over blocks, files of every unkind sort."""

import gzip
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

import lemmata
from lemmata import text
from lemmata.data import docstrings
from lemmata.text import Counts, Tokenizer, UnreadableText, Vocabulary
from lemmata.text.reading import as_documents

documents = st.lists(st.text(alphabet="aabbcde éß\n.'1_", max_size=30), min_size=1, max_size=8)


def same(a: Counts, b: Counts) -> bool:
    return list(a.words) == list(b.words) and (a.matrix != b.matrix).nnz == 0


@given(documents, documents)
def test_counts_of_blocks_add_up_to_those_of_the_whole(a, b):
    assert same(Counts.of(a) + Counts.of(b), Counts.of(a + b))
    assert same(Counts() + Counts.of(a), Counts.of(a))
    assert same(Counts.of(a) + Counts(), Counts.of(a))


@given(documents, st.randoms())
def test_the_order_of_words_does_not_matter(texts, random):
    tokenizer = Tokenizer(token_pattern=r"\w+")
    shuffled = []
    for one in texts:
        words = tokenizer(one)
        random.shuffle(words)
        shuffled.append(" ".join(words))
    assert same(Counts.of(texts, tokenizer), Counts.of(shuffled, tokenizer))


@given(documents, documents)
def test_vocabularies_add_up_and_count_every_word(a, b):
    split = [one.split() for one in a], [one.split() for one in b]
    whole = Vocabulary.of(split[0] + split[1])
    assert Vocabulary.of(split[0]) + Vocabulary.of(split[1]) == whole
    assert Vocabulary() + whole == whole
    assert whole.n_tokens == sum(map(len, split[0] + split[1]))
    assert (np.diff(whole.counts) <= 0).all()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"min_df": 3, "max_df": 0.4},
        {"stop_words": "english", "max_features": 200},
        {"lowercase": False, "token_pattern": r"[A-Za-z]+"},
    ],
)
def test_counts_are_those_of_scikit_learn(options):
    texts = docstrings().texts[:300]
    theirs = CountVectorizer(**options)
    matrix = theirs.fit_transform(texts)
    ours = text.counts(texts, **options)
    if "max_features" in options:  # among equally frequent words each keeps others
        assert sorted(ours.matrix.sum(axis=0)) == sorted(np.asarray(matrix.sum(axis=0)).ravel())
    else:
        assert list(ours.words) == theirs.get_feature_names_out().tolist()
        assert (ours.matrix != matrix).nnz == 0


def test_other_documents_are_counted_over_the_same_words():
    known = text.counts(["a rose is a rose"], token_pattern=r"\w+")
    other = known.encode(["rose tulip rose", "", "tulip"])
    assert other.matrix.toarray().tolist() == [[0, 0, 2], [0, 0, 0], [0, 0, 0]]
    chosen = text.counts(["a rose is a rose"], token_pattern=r"\w+", vocabulary=["rose", "tulip"])
    assert chosen.matrix.toarray().tolist() == [[2, 0]]


def test_stems_join_the_forms_of_a_word():
    pytest.importorskip("snowballstemmer")
    found = text.counts(["connected connections", "connecting connects"], stemmer="english")
    assert list(found.words) == ["connect"]
    assert found.matrix.toarray().tolist() == [[2], [2]]


def test_a_vocabulary_numbers_words_by_their_count():
    words = Vocabulary.of([["b", "a", "b", "c", "c"]])
    assert list(words) == ["b", "c", "a"]
    assert words.encode(["a", "x", "b"]).tolist() == [2, -1, 0]
    assert list(words.pruned(min_count=2)) == ["b", "c"]
    assert list(words.pruned(max_size=1)) == ["b"]
    assert "a" in words
    assert "a" not in words.pruned(min_count=2)


def test_counts_and_vocabularies_go_to_files_and_come_back(tmp_path):
    from lemmata.core import store

    found = text.counts(["a rose is a rose", "it is"], stop_words=["it"], token_pattern=r"\w+")
    words = Vocabulary.of([["b", "a", "b"]])
    store.write(tmp_path / "t", "text", {"counts": found, "words": words})
    back = store.read(tmp_path / "t", "text")
    assert same(back["counts"], found)
    assert back["counts"].tokenizer == found.tokenizer
    assert back["words"] == words


# --- files ---


def test_files_are_read_by_line_paragraph_or_whole_and_again(tmp_path):
    (tmp_path / "a.txt").write_bytes("one two\r\n\nthrée\u0085four\n".encode())
    with gzip.open(tmp_path / "b.txt.gz", "wb") as file:
        file.write(b"five\n")
    paths = [tmp_path / "a.txt", tmp_path / "b.txt.gz"]
    lines = text.read(paths)
    assert list(lines) == ["one two", "", "thrée\u0085four", "five"] == list(lines)
    assert list(text.read(paths, unit="paragraph")) == ["one two", "thrée\u0085four", "five"]
    assert list(text.read(paths, unit="file")) == ["one two\n\nthrée\u0085four", "five"]
    assert same(text.counts(lines), text.counts(list(lines)))


def test_bytes_that_are_no_text_are_named_with_their_place(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"gut\n" * 100 + "Käse\n".encode("latin-1"))
    with pytest.raises(UnreadableText, match=r"byte 0xe4 at position 401 \(line 101\).*latin-1"):
        text.counts(text.read(path))
    assert "käse" in text.counts(text.read(path, encoding="latin-1")).words


def test_damaged_and_binary_files_are_refused(tmp_path):
    whole = gzip.compress(b"some words of text\n" * 1000)
    (tmp_path / "cut.txt.gz").write_bytes(whole[:-20])
    with pytest.raises(UnreadableText, match="damaged or truncated"):
        list(text.read(tmp_path / "cut.txt.gz"))
    (tmp_path / "image.png").write_bytes(b"\x89PNG\0\0\0\0")
    with pytest.raises(UnreadableText, match="zero bytes"):
        list(text.read(tmp_path / "image.png"))
    with pytest.raises(FileNotFoundError, match="no file"):
        text.read(tmp_path / "nothing.txt")
    with pytest.raises(UnreadableText, match="no regular file"):
        text.read(tmp_path)
    with pytest.raises(ValueError, match="unit='word'"):
        text.read(tmp_path / "image.png", unit="word")


def test_a_file_that_shrinks_while_it_is_read_is_noticed(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("a line of words\n" * 100_000)
    lines = iter(text.read(path))
    next(lines)
    with open(path, "r+b") as file:
        file.truncate(500_000)
    with pytest.raises(UnreadableText, match="shrank from 1,600,000 to"):
        list(lines)


def test_a_line_of_ten_megabytes_is_a_document(tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("word " * 2_000_000)
    assert text.counts(text.read(path)).matrix.toarray().tolist() == [[2_000_000]]


def test_a_stream_is_counted_without_being_kept():
    """A generator of 20,000 documents is gone through once, one document at a time."""
    alive, most = 0, 0

    class Text(str):
        def __new__(cls, words):
            nonlocal alive, most
            alive += 1
            most = max(most, alive)
            return super().__new__(cls, words)

        def __del__(self):
            nonlocal alive
            alive -= 1

    found = text.counts(Text(f"word{i % 7} again") for i in range(20_000))
    assert found.shape == (20_000, 8)
    assert most < 5


# --- bad input ---


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ("one text", TypeError, "documents is one text"),
        (b"bytes", TypeError, "documents is one text"),
        (3, TypeError, "documents is a int"),
        (["a text", None], TypeError, "document 1 is a NoneType"),
        ([float("nan")], TypeError, "document 0 is NaN, a missing text"),
        ([], ValueError, "no documents"),
        (["", " . "], ValueError, "hold no word"),
    ],
)
def test_what_is_no_document_is_refused(given, error, words):
    with pytest.raises(error, match=words):
        text.counts(given)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"token_pattern": "("}, ValueError, "no regular expression"),
        ({"token_pattern": "(a)(b)"}, ValueError, "2 groups"),
        ({"stop_words": "klingon"}, ValueError, "'english'"),
        ({"min_df": 5}, ValueError, "fewer than min_df=5"),
        ({"min_df": 2, "max_df": 2}, ValueError, "none of 3 words is left"),
        ({"min_df": -1}, ValueError, "min_df=-1"),
        ({"max_df": 1.5}, ValueError, "between 0.0 and 1.0"),
        ({"min_df": True}, TypeError, "min_df=True"),
        ({"vocabulary": []}, ValueError, "holds no words"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        text.counts(["one two", "three"], **options)


def test_counts_of_different_tokenizers_are_not_added():
    with pytest.raises(ValueError, match="different tokenizers"):
        Counts.of(["a"], Tokenizer(lowercase=False)) + Counts.of(["b"])
    with pytest.raises(ValueError, match="has the count -1"):
        Vocabulary.from_counts({"a": -1})
    with pytest.raises(TypeError, match="is a int"):
        as_documents(5)


def test_a_tokenizer_may_be_used_by_several_threads():
    tokenizer, found = Tokenizer(stop_words="english"), []
    work = [
        threading.Thread(target=lambda: found.append(tokenizer("the cat sat on the mat")))
        for _ in range(8)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert found == [["cat", "sat", "mat"]] * 8


def test_text_is_a_public_package():
    assert lemmata.text.counts(["two words"]).shape == (1, 2)
