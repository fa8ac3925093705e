"""FastTextClassifier: features are those that a slow count finds, kernels are their twins, real texts are told apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import lemmata
from lemmata import data
from lemmata.core import Blocks, MaxSteps, run
from lemmata.embedding import FastTextClassifier
from lemmata.embedding.fasttext.descent import FastTextAlgorithm, Texts
from lemmata.embedding.fasttext.features import FeatureSpace, parts_of
from lemmata.text import encode

WORDS = st.lists(st.sampled_from(["a", "be", "cat", "dog", "é"]), max_size=8)


def planted(n: int = 300, seed: int = 0, classes: int = 3):
    """Texts of 12 words, a third of them words of their class; with names as labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    own = [[f"own{c}x{j}" for j in range(8)] for c in range(classes)]
    common = [f"common{j}" for j in range(60)]
    texts = [
        " ".join([*rng.choice(own[c], 4).tolist(), *rng.choice(common, 8).tolist()]) for c in y
    ]
    return texts, np.array(["red", "green", "blue", "grey"])[y]


# --- features ---------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.lists(WORDS, min_size=1, max_size=6), st.integers(1, 3))
def test_a_text_is_the_set_of_its_words_and_runs(sentences, longest):
    text = encode(sentences) if any(sentences) else None
    if text is None:
        return
    space = FeatureSpace.of(text, word_ngrams=longest, bucket=2**20)
    runs = [
        {tuple(s[i : i + n]) for n in range(1, longest + 1) for i in range(len(s) - n + 1)}
        for s in sentences
    ]
    X = space.rows(text)
    assert_array_equal(np.diff(X.indptr), [len(one) for one in runs])  # no two runs share a slot
    assert space.n_features == len(set().union(*runs))
    for row in range(len(sentences)):
        values = X.data[X.indptr[row] : X.indptr[row + 1]]
        assert_allclose(values, 1 / np.sqrt(max(len(values), 1)), rtol=1e-6)


def test_a_new_word_has_the_parts_it_shares_and_a_new_run_has_nothing():
    text = encode(["unhappily so", "happily ever"])
    space = FeatureSpace.of(text, word_ngrams=2, min_n=3, max_n=3)
    row = space.rows(encode(["happy happily happy"]))
    owners, _ = parts_of(["happily"], 3, 3)
    shared_with_happy = len({"<ha", "hap", "app"})
    assert len(owners) == len("<happily>") - 2
    # the word itself and its parts; of "happy" what both have is there already, "ppy" and "py>" are nowhere
    assert row.nnz == 1 + len(owners)
    assert space.rows(encode(["happy"])).nnz == shared_with_happy


def test_rare_features_have_no_row():
    text = encode(["one two", "one two", "one three"])
    assert FeatureSpace.of(text, 2, min_count=2).n_features == 3  # one, two, one two
    assert FeatureSpace.of(text, 2, min_count=1).n_features == 5


# --- the descent ------------------------------------------------------------------------------------------------------


def problem(compile_: str, hinge: bool = False, epochs: int = 2):
    texts, names = planted(400)
    classes, y = np.unique(names, return_inverse=True)
    text = encode(texts)
    space = FeatureSpace.of(text, 2)
    data_ = Blocks.of(space.rows(text)).with_targets(y).weighted(np.linspace(0.5, 1.5, len(y)))
    with lemmata.config(compile=compile_):
        problem = Texts(data_, 5, epochs, len(classes))
        algorithm = FastTextAlgorithm(5, epochs, 0.2, 64, hinge, space.n_words)
        return run(algorithm, problem, stop=MaxSteps(epochs), rng=0).state, problem


@pytest.mark.parametrize("hinge", [False, True])
def test_kernels_and_numpy_make_the_same_steps(hinge):
    compiled, plain = (problem(mode, hinge)[0] for mode in ("always", "never"))
    for name in ("A", "B", "c", "sums"):
        assert_allclose(getattr(compiled, name), getattr(plain, name), rtol=2e-3, atol=2e-4)
    assert compiled.loss == pytest.approx(plain.loss, rel=1e-3)


def test_slopes_are_those_of_finite_differences():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(6, 4)), rng.integers(4, size=6)
    from lemmata.embedding.fasttext.descent import losses

    for hinge in (False, True):
        p = FastTextAlgorithm(1, 1, 0.1, 1, hinge, 0)._slopes(z, y)
        for j in range(4):
            moved = np.zeros(4)
            moved[j] = 1e-6
            slope = (losses(z + moved, y, hinge) - losses(z - moved, y, hinge)) / 2e-6
            assert_allclose(p[:, j], slope, atol=1e-5)


# --- the estimator ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["softmax", "hinge"])
def test_planted_classes_are_found(loss):
    texts, y = planted()
    model = FastTextClassifier(loss=loss, epochs=8, random_state=0).fit(texts[:200], y[:200])
    assert model.score(texts[200:], y[200:]) > 0.9
    assert model.certify(texts[:200], y[:200]).failed == []
    if loss == "softmax":
        assert_allclose(model.predict_proba(texts[:5]).sum(axis=1), 1, rtol=1e-5)
    else:
        assert not hasattr(model, "predict_proba")


def test_a_saved_and_a_resumed_model_give_the_same_bits(tmp_path):
    texts, y = planted(100)
    whole = FastTextClassifier(epochs=4, random_state=3).fit(texts, y)
    path = tmp_path / "texts.ckpt"
    make = lambda **limit: FastTextClassifier(epochs=4, random_state=3, checkpoint=path, **limit)  # noqa: E731
    make(time_limit=1e-9).fit(texts, y)
    assert_array_equal(make().fit(texts, y).vectors_, whole.vectors_)
    lemmata.save(whole, tmp_path / "m.lemma")
    assert_array_equal(lemmata.load(tmp_path / "m.lemma").predict(texts), whole.predict(texts))


def test_weights_are_repetitions_in_the_loss_and_what_is_stated_is_checked():
    texts, y = planted(60)
    model = FastTextClassifier(random_state=0, class_weight="balanced").fit(texts, y)
    assert "statements_true" in model.certify(texts, y).held
    model.loss_ *= 1.01
    assert "statements_true" in model.certify(texts, y).failed


def test_shuffled_labels_of_one_epoch_teach_nothing_and_the_claim_says_so():
    texts, y = planted(200)
    model = FastTextClassifier(learning_rate=1e-6, epochs=1, random_state=0).fit(texts, y)
    assert "beats_one_answer" in model.certify(texts, y).failed


@pytest.mark.parametrize(
    ("texts", "y", "message"),
    [
        ([], [], "0 texts"),
        ("one text", [1], "one text"),
        (["a", 3.0], [0, 1], "document 1"),
        (["", " "], [0, 1], "hold words"),
        (["good", "bad"], [1, 1], "one class"),
        (["good", "bad"], [1, 0, 1], "inconsistent"),
    ],
)
def test_bad_input_is_named(texts, y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        FastTextClassifier().fit(texts, y)


def test_parameters_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="min_n=4 exceeds max_n=3"):
        FastTextClassifier(min_n=4, max_n=3).fit(["a b", "c d"], [0, 1])
    model = FastTextClassifier(random_state=0).fit(["good film", "bad film"], [1, 0])
    assert model.predict(["", "unknown"]).shape == (
        2,
    )  # nothing is known of them: the intercept decides
    with pytest.raises(TypeError, match="worng_ngrams"):
        FastTextClassifier(worng_ngrams=2)


def test_questions_are_told_apart_as_well_as_by_a_linear_machine():
    try:
        train, test = data.trec_questions("train"), data.trec_questions("test")
    except data.DataNotFound as error:
        pytest.skip(str(error))
    model = FastTextClassifier(random_state=0).fit(train.texts, train.y)
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    peer = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LinearSVC())
    peer.fit(list(train.texts), train.y)
    assert model.score(test.texts, test.y) > peer.score(list(test.texts), test.y) - 0.03
