"""SkipGram with parts of words: the parts are fastText's, gradients are right, and words never seen are near their stems."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lemmata
from lemmata import text
from lemmata.embedding import SkipGram
from lemmata.embedding.skipgram.softmax import Likelihood
from lemmata.embedding.subwords import PartTable, PartVectors, distinct_slots, parts_of

SMALL = {"vector_size": 8, "min_count": 1, "sample": 0, "alpha": 0.05, "epochs": 8, "random_state": 0}  # fmt: skip
STEMS = ("garden", "sailor", "bridge", "winter", "copper", "legend")
ENDINGS = ("s", "ed", "ing", "er", "ly", "less")


def inflected(n=300, seed=0, endings=ENDINGS[:4]):
    """Sentences about one stem each, in several forms, with words that go with it."""
    rng = np.random.default_rng(seed)
    out = []
    for stem in rng.choice(STEMS, n):
        friends = [f"{stem[:1]}{stem[-1:]}{i}" for i in rng.integers(0, 4, 4)]
        forms = [f"{stem}{ending}" for ending in rng.choice(endings, 3)]
        out.append(rng.permutation(friends + forms).tolist())
    return out


WORDS = st.lists(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=9), min_size=1, max_size=6
)


@settings(max_examples=60)
@given(words=WORDS, min_n=st.integers(1, 4), more=st.integers(0, 3), bucket=st.integers(1, 50))
def test_parts_are_those_of_fasttext(words, min_n, more, bucket):
    """Runs of characters, "<" and ">" among them but not alone, the whole of a short word too; in whatever letters."""
    inner = pytest.importorskip("gensim.models.fasttext_inner")
    owners, hashes = parts_of(words, min_n, min_n + more, whole=True)
    for w, word in enumerate(words):
        theirs = [part.decode() for part in inner.compute_ngrams_bytes(word, min_n, min_n + more)]
        mine = hashes[owners == w]
        assert len(mine) == len(theirs)
        assert len(set(mine.tolist())) == len(set(theirs))
        for part in set(theirs):  # the word "part" has the part "part", in the middle of "<part>"
            _, found = parts_of([part], len(part), len(part), whole=True)
            assert len(part) == 1 or found[1] in mine
    owners, slots = distinct_slots(words, min_n, min_n + more, bucket)
    assert len(set(zip(owners.tolist(), slots.tolist(), strict=True))) == len(slots)
    assert not len(slots) or slots.max() < bucket


def test_a_word_consists_of_itself_and_its_parts():
    table = PartTable.of(["banana", "an", "日本語"], 3, 3, 10**6)
    # <ba ban ana nan na> (ana twice); <an an>; <日本 日本語 本語>
    assert np.diff(table.firsts).tolist() == [1 + 5, 1 + 2, 1 + 3]
    assert [table.rows_of(w)[0] for w in range(3)] == [0, 1, 2]
    assert len(set(table.rows_of(0)) & set(table.rows_of(1))) == 0
    rows = np.random.default_rng(0).normal(size=(table.n_rows, 4)).astype(np.float32)
    X = table.compose(rows)
    for w in range(3):
        mine = rows[table.rows_of(w)]
        np.testing.assert_allclose(X[w], mine.sum(axis=0) / np.sqrt(len(mine)), rtol=1e-5)
    np.testing.assert_allclose(table.decompose(X, rows[3:]), rows, atol=1e-5)
    short = PartTable.of(["a", "of"], 5, 6, 100)  # no part of so many letters
    assert short.rows.tolist() == [0, 1]
    one = PartTable.of(["garden", "gardens"], 3, 6, 1)  # all parts in one slot
    assert np.diff(one.firsts).tolist() == [2, 2]


def test_the_gradient_of_the_exact_objective_with_parts_is_its_slope():
    rng = np.random.default_rng(0)
    table = PartTable.of(["walk", "walked", "talk", "talked"], 3, 4, 50)
    N = rng.integers(0, 9, (4, 4)).astype(float)
    problem = Likelihood(N, table.n_rows, 3, False, True, table.shares.astype(float))
    x = rng.normal(size=table.n_rows * 3 + 4 * 3 + 4)
    _, gradient = problem(x)
    for _ in range(5):
        d = rng.normal(size=len(x))
        slope = (problem(x + 1e-6 * d)[0] - problem(x - 1e-6 * d)[0]) / 2e-6
        assert gradient @ d == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("compile", ["never", "always"])
@pytest.mark.parametrize(
    "settings", [{}, {"sg": False, "alpha": 0.2}, {"objective": "softmax"}], ids=str
)
def test_a_word_never_seen_is_near_its_stem(settings, compile):
    with lemmata.config(compile=compile):
        model = SkipGram(**{**SMALL, "max_n": 5, **settings}).fit(inflected())
    vectors = model.vectors_
    for stem in STEMS:
        for ending in ENDINGS[4:]:
            word = f"{stem}{ending}"
            assert word not in vectors
            # of 4 forms and 4 friends of 6 stems: a sixth by chance
            near = [found for found, _ in vectors.nearest(word, 3)]
            assert all(found.startswith(stem) or found[:2] == stem[0] + stem[-1] for found in near)
    assert vectors.similarity("gardenless", "gardens") > vectors.similarity("gardenless", "sailors")
    assert vectors.analogy("gardens", "gardened", "sailorless", 1)


def test_what_has_no_known_part_has_no_vector():
    model = SkipGram(**{**SMALL, "epochs": 1}, max_n=4).fit(inflected(60))
    with pytest.raises(KeyError, match="no vector of 'zzyzx'"):
        model.vectors_["zzyzx"]
    with pytest.raises(KeyError, match="'zzyzx'"):
        model.vectors_.nearest(["gardens", "zzyzx"])
    with pytest.raises(KeyError, match="'gardenless'"):
        SkipGram(**{**SMALL, "epochs": 1}).fit(inflected(60)).vectors_["gardenless"]


def with_threads(monkeypatch, threads, **more):
    monkeypatch.setenv("LEMMATA_THREADS", str(threads))
    with lemmata.config(compile="always"):
        return SkipGram(**{**SMALL, "epochs": 2}, max_n=4, **more).fit(inflected(3000))


def test_deterministic_parts_do_not_depend_on_threads(monkeypatch):
    one, many = (with_threads(monkeypatch, n, deterministic=True) for n in (1, 4))
    assert one.embedding_.tobytes() == many.embedding_.tobytes()
    assert one.parts_.matrix.tobytes() == many.parts_.matrix.tobytes()
    free = with_threads(monkeypatch, 4)
    first = one.trace_.objective[0]
    assert free.loss_ - one.loss_ < 0.1 * (first - one.loss_)


@pytest.mark.parametrize("compile", ["never", "always"])
def test_a_run_with_parts_resumes_and_is_saved(tmp_path, compile):
    settings = {**SMALL, "deterministic": True, "epochs": 3, "max_n": 4}
    with lemmata.config(compile=compile):
        whole = SkipGram(**settings).fit(inflected(100))
        SkipGram(**settings, checkpoint=tmp_path / "c", tol=0.9).fit(inflected(100))
        resumed = SkipGram(**settings, checkpoint=tmp_path / "c").fit(inflected(100))
        assert resumed.embedding_.tobytes() == whole.embedding_.tobytes()
        assert resumed.parts_.matrix.tobytes() == whole.parts_.matrix.tobytes()
        for other in ({"max_n": 5}, {"bucket": 7}, {"window": 4}, {"context": "sentence"}):
            with pytest.raises(ValueError, match="belongs to another"):
                SkipGram(**{**settings, **other}, checkpoint=tmp_path / "c").fit(inflected(100))
    lemmata.save(whole, tmp_path / "v.lemma")
    back = lemmata.load(tmp_path / "v.lemma")
    assert np.array_equal(back.vectors_["gardenless"], whole.vectors_["gardenless"])
    assert back.certify(inflected(100)).holds == whole.certify(inflected(100)).holds
    assert repr(back.parts_) == repr(whole.parts_)


def test_parts_beside_clamped_biases_are_saved(tmp_path):
    model = SkipGram(**{**SMALL, "epochs": 1}, max_n=4, biases="clamped").fit(inflected(60))
    lemmata.save(model, tmp_path / "v.lemma")
    back = lemmata.load(tmp_path / "v.lemma")
    assert np.array_equal(back.vectors_["gardenless"], model.vectors_["gardenless"])
    model.parts_ = replace(model.parts_, matrix=model.parts_.matrix[:, 1:])
    lemmata.save(model, tmp_path / "w.lemma")
    with pytest.raises(ValueError, match="parts_ have 6 numbers"):
        lemmata.load(tmp_path / "w.lemma")


def test_a_state_of_another_text_is_refused():
    encoded = text.encode(inflected(60))
    model = SkipGram(**SMALL, max_n=4)
    algorithm, data = model._algorithm(encoded), model._problem(encoded)
    state = algorithm.init(data, np.random.default_rng(0))
    with pytest.raises(ValueError, match="inputs, outputs, biases and columns"):
        algorithm.check_state(replace(state, vectors=state.vectors[:-1]), data)


def test_training_goes_on_with_parts():
    model = SkipGram(**{**SMALL, "epochs": 12}, max_n=5).fit(inflected())
    guessed = model.vectors_["gardenless"]
    start = model.vectors_["gardens"]
    more = inflected(40, seed=1, endings=("less", "s"))
    copy = SkipGram(**{**SMALL, "epochs": 1, "alpha": 1e-9, "min_alpha": 0.0}, max_n=5)
    vars(copy).update({key: value for key, value in vars(model).items() if key.endswith("_")})
    copy.partial_fit(
        more
    )  # steps of nothing: what was known stays, and a new word begins as its parts say
    np.testing.assert_allclose(copy.vectors_["gardens"], start, atol=1e-4)
    new = copy.vectors_["gardenless"]
    assert new @ guessed > 0.95 * np.linalg.norm(new) * np.linalg.norm(guessed)
    model.partial_fit(more)
    assert "gardenless" in model.vectors_
    assert model.vectors_.nearest("gardenless", 1)[0][0][:6] in ("garden", "gn0", "gn1", "gn2", "gn3")  # fmt: skip
    for change in ({"max_n": 6}, {"bucket": 100}, {"vector_size": 9}):
        with pytest.raises(ValueError, match="leave"):
            SkipGram(**{**SMALL, "epochs": 1}, max_n=5).fit(more).set_params(**change).partial_fit(more)  # fmt: skip
    words = SkipGram(**{**SMALL, "epochs": 1}, max_n=4).fit(more).set_params(max_n=0)
    assert not hasattr(words.partial_fit(more), "parts_")


def test_an_early_stop_with_parts_needs_less_than_all_epochs():
    model = SkipGram(**{**SMALL, "epochs": 60, "tol": 0.02}, max_n=4).fit(inflected())
    assert model.stopped_ == "settled"
    assert model.n_iter_ < 60


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_n": 5, "max_n": 4}, "min_n=5 exceeds max_n=4"),
        ({"max_n": 4, "bucket": 0}, "bucket"),
        ({"min_n": 0, "max_n": 3}, "min_n"),
        ({"max_n": 4, "tied": True}, "outputs have no parts"),
    ],
)
def test_parts_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SkipGram(**{**SMALL, **settings}).fit(inflected(5))


def test_words_of_other_letters_and_words_too_short_for_parts_are_trained():
    sentences = [
        ["ég", "naïve", "日本語", "日本", "🙂", "a"],
        ["naïveté", "日本人", "a", "ég"],
    ] * 20
    model = SkipGram(**SMALL, min_n=3, max_n=3).fit(sentences)
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(model.vectors_["日本酒"]).all()  # of <日本
    with pytest.raises(KeyError):
        model.vectors_["b"]  # "<b>" is its only part


def test_vectors_of_parts_from_a_file_are_looked_at():
    with pytest.raises(ValueError, match="rise"):
        PartVectors(np.array([5, 3]), np.zeros((2, 4)), 3, 4, 10)
    with pytest.raises(ValueError, match="rise"):
        PartVectors(np.array([3, 50]), np.zeros((2, 4)), 3, 4, 10)
    nothing = PartVectors(np.empty(0, np.int64), np.zeros((0, 4)), 3, 4, 10)
    assert nothing.vector("word") is None


def test_only_slots_that_occur_take_memory():
    encoded = text.encode(inflected(60))
    words = encoded.vocabulary.words.tolist()
    table = PartTable.of(words, 3, 6, 2**31)
    distinct = {f"<{w}>"[i : i + n] for w in words for n in range(3, 7) for i in range(len(w) + 3 - n)}  # fmt: skip
    assert len(table.slots) == len(distinct)
