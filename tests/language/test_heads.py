"""Heads: classes, labels of words, spans; pairs, cut texts, pretrained encoders, claims, files, and what is refused."""

import numpy as np
import pytest
import torch

import lemmata
from lemmata.language import BERT, HeadNet, SpanFinder, TextClassifier, TokenClassifier, Words
from lemmata.nets import Transfer

SMALL = {"width": 16, "depth": 1, "heads": 2, "context": 16, "random_state": 0}
LEARNS = {**SMALL, "learning_rate": 0.01, "max_iter": 15}
FILLERS = [f"w{i}" for i in range(8)]


def draw_ordered(n, seed=0):
    """Texts whose class is which of two words stands first: counting tokens knows nothing of it."""
    rng = np.random.default_rng(seed)
    texts, y = [], []
    for _ in range(n):
        words = list(rng.choice(FILLERS, 5))
        pair = ["red", "blue"] if rng.random() < 0.5 else ["blue", "red"]
        first, second = sorted(rng.choice(6, 2, replace=False))
        words.insert(first, pair[0])
        words.insert(second + 1, pair[1])
        texts.append(" ".join(words))
        y.append(pair[0])
    return texts, y


def draw_tags(n, seed=0):
    """Words, each with the colour that stands first in its text: what a word is says nothing of it."""
    texts, first = draw_ordered(n, seed)
    lists = [text.split() for text in texts]
    return lists, [[one] * len(words) for one, words in zip(first, lists, strict=True)]


def draw_spans(n, seed=0):
    """(question, text) and where the word of the question stands."""
    rng, (texts, _) = np.random.default_rng(seed), draw_ordered(n, seed)
    X, y = [], []
    for text in texts:
        word = str(rng.choice(["red", "blue"]))
        X.append((f"where {word}", text))
        y.append((text.index(word), text.index(word) + len(word)))
    return X, np.array(y)


DRAW = {TextClassifier: draw_ordered, TokenClassifier: draw_tags, SpanFinder: draw_spans}
HEADS = list(DRAW)


@pytest.fixture(scope="module", params=HEADS)
def fitted(request):
    """A model that learned its task, and the data."""
    X, y = DRAW[request.param](300)
    more = {"depth": 2} if request.param is not SpanFinder else {}
    return request.param(**{**LEARNS, **more}).fit(X, y), X, y


def test_what_counting_cannot_see_is_learned_and_certified(fitted):
    model, X, y = fitted
    new, right = DRAW[type(model)](300, seed=1)
    assert model.score(new, right) > 0.95
    found = model.certify(X, y, X_test=new, y_test=right)
    assert found.main.startswith("beats_")
    assert {"attributes_sound", "statements_true", found.main} <= set(found.held)
    assert "test_score_" in vars(model)
    assert len(model.certificate_) <= 6


def test_the_loss_is_that_of_the_network_row_by_row(fitted):
    model, X, y = fitted
    data = model._validate_pair(X, y, reset=False)
    total, count = 0.0, 0
    for row in range(len(data)):
        n = int((data.x[row] != 0).sum())
        x, segments = (torch.from_numpy(one[row : row + 1, :n]) for one in (data.x, data.segments))
        with torch.no_grad():
            scores = model.module_(x, segments)[0].double()
        labels = torch.from_numpy(np.atleast_1d(data.y[row]))[:n]
        logs = torch.log_softmax(scores.view(-1, scores.shape[-1]), 1)[labels != -100]
        labels = labels[labels != -100]
        total -= float(logs[torch.arange(len(labels)), labels].sum())
        count += len(labels)
    assert model.loss_ == pytest.approx(total / count, rel=1e-4)


def test_a_saved_model_predicts_the_same_and_goes_without_its_encoder(fitted, tmp_path):
    model, X, y = fitted
    lemmata.save(model, tmp_path / "m.lemma")
    back = lemmata.load(tmp_path / "m.lemma")
    assert back.get_params() == model.get_params()
    for one, other in zip(back.predict(X[:5]), model.predict(X[:5]), strict=True):
        assert np.array_equal(one, other)
    assert str(back.certify(X, y)) == str(model.certify(X, y))


def test_answers_do_not_depend_on_the_texts_beside_them(fitted):
    model, X, _ = fitted
    for one, other in zip(
        model.predict(X[:6]), [model.predict([x])[0] for x in X[:6]], strict=True
    ):
        assert np.array_equal(one, other)


def test_a_fit_that_was_stopped_goes_on_to_the_same_bits(tmp_path):
    X, y = draw_ordered(60)
    more = {**SMALL, "schedule": "constant", "warmup": 0, "test_fraction": 0.0}
    with lemmata.config(certificate=False):
        TextClassifier(**more, max_iter=1, checkpoint=tmp_path / "c").fit(X, y)
        resumed = TextClassifier(**more, max_iter=3, checkpoint=tmp_path / "c").fit(X, y)
        whole = TextClassifier(**more, max_iter=3).fit(X, y)
    assert np.array_equal(resumed.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize("head", HEADS)
def test_nothing_learned_does_not_beat_counting(head):
    X, y = DRAW[head](120)
    model = head(**SMALL, max_iter=1, learning_rate=1e-9, test_fraction=0.5).fit(X, y)
    assert model.certificate_.main not in model.certificate_.held
    assert "statements_true" not in model.certificate_.failed


# --- a fitted BERT ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bert():
    with lemmata.config(certificate=False):
        return BERT(**SMALL, tokens="words", max_iter=1).fit(
            draw_ordered(50)[0] + ["where red", "where blue"]
        )


@pytest.mark.parametrize("head", HEADS)
def test_a_head_begins_at_the_weights_and_tokens_of_a_bert(head, bert, tmp_path):
    X, y = DRAW[head](50)
    lemmata.save(bert, tmp_path / "b.lemma")
    frozen = Transfer(rates={"body.*": 0.0})
    with lemmata.config(certificate=False):
        model = head(
            tmp_path / "b.lemma", width=4, transfer=frozen, max_iter=1, random_state=0
        ).fit(X, y)
    assert model.tokens_.words.tolist() == bert.tokens_.words.tolist()
    own, source = model.module_.state_dict(), bert.module_.state_dict()
    for name in source:
        if name.startswith("body."):
            assert torch.equal(own[name], source[name]), name
    lemmata.save(model, tmp_path / "h.lemma")
    assert lemmata.load(tmp_path / "h.lemma").pretrained is None


# --- classes of texts -------------------------------------------------------------------------------------------------


def test_pairs_of_texts_are_told_apart_from_their_reverse():
    pairs = [("red", "blue"), ("blue", "red")] * 60
    model = TextClassifier(**LEARNS).fit(pairs, [a for a, _ in pairs])
    assert model.predict([("red", "blue"), ("blue", "red")]).tolist() == ["red", "blue"]
    assert model._tokenise(pairs[:1])[0].segments.tolist() == [[0, 0, 0, 1, 1]]


def test_long_texts_keep_their_beginnings_and_that_is_said():
    X, y = draw_ordered(40)
    with lemmata.config(certificate=False):
        model = TextClassifier(**{**SMALL, "context": 6}, max_iter=1, tokens=Words())
        with pytest.warns(UserWarning, match="40 of 40 texts exceed the 6 tokens"):
            model.fit(X, y)
        with pytest.warns(UserWarning, match="1 of 1"):
            cut = model.predict_proba([X[0]])
    assert np.allclose(cut, model.predict_proba([" ".join(X[0].split()[:4])]))


def test_proba_is_a_distribution_over_classes(bert):
    X, y = draw_ordered(40)
    with lemmata.config(certificate=False):
        model = TextClassifier(bert, max_iter=1).fit(X, y)
    P = model.predict_proba(X)
    assert P.shape == (40, 2)
    assert np.allclose(P.sum(1), 1)
    assert model.classes_.tolist() == ["blue", "red"]


# --- words ------------------------------------------------------------------------------------------------------------


def test_words_of_several_tokens_have_one_label_each():
    X, y = draw_tags(60)
    with lemmata.config(certificate=False):
        model = TokenClassifier(**{**SMALL, "context": 64}, tokens="characters", max_iter=1).fit(
            X, y
        )
    found = model.predict([["red", "w1", "blue"], ["w2"]])
    assert [len(one) for one in found] == [3, 1]
    data = model._validate_pair(X, y, reset=False)
    assert (data.y != -100).sum() == sum(len(X[i]) for i in range(60)) - (data.kept.y != -100).sum()


def test_spans_lie_inside_the_text_and_end_with_words(bert):
    X, y = draw_spans(50)
    with lemmata.config(certificate=False):
        model = SpanFinder(bert, max_iter=1).fit(X, y)
    for (_, text), (start, stop) in zip(X, model.predict(X), strict=True):
        assert 0 <= start < stop <= len(text)
        assert text[start:stop] == text[start:stop].strip()
        assert start == 0 or text[start - 1] == " "
    assert model.answers(X[:1]) == [X[0][1][slice(*model.predict(X[:1])[0])]]


def test_a_head_that_reads_spans_gives_no_score_to_the_question():
    net = HeadNet(20, 8, 1, 2, 10, 0.0, 2, reads="span")
    segments = torch.tensor([[0, 0, 0, 1, 1, 1]])
    scores = net(torch.randint(6, 20, (1, 6)), segments)
    P = torch.softmax(scores, 2)
    assert scores.shape == (1, 2, 6)
    assert (P[:, :, :3] == 0).all()
    assert torch.allclose(P[:, :, 3:].sum(2), torch.ones(1, 2))


# --- what is refused --------------------------------------------------------------------------------------------------

OK = draw_ordered(20)


@pytest.mark.parametrize(
    ("head", "X", "y", "message"),
    [
        (TextClassifier, OK[0], None, "requires y"),
        (TextClassifier, OK[0], OK[1][:5], "20 texts and 5 labels"),
        (TextClassifier, OK[0], ["a"] * 20, "one class only"),
        (TextClassifier, "one text", ["a"], "is one text"),
        (TextClassifier, [], [], "0 texts"),
        (TextClassifier, [("a", "b"), ("c", None)] * 9, [0, 1] * 9, "NoneType"),
        (TokenClassifier, OK[0], OK[1][:3], "20 texts and labels of 3"),
        (TokenClassifier, [["a", "b"]] * 9, [["x"]] * 9, "2 words and 1 labels"),
        (TokenClassifier, [["a", "b"]] * 9, [["x", "x"]] * 9, "one class only"),
        (TokenClassifier, [["a", "b"], "c d"] * 9, [["x", "y"]] * 18, "no list of words"),
        (TokenClassifier, [["a"] * 15] * 9, [["x", "y", *["x"] * 13]] * 9, "network reads 16"),
        (SpanFinder, OK[0], [(0, 1)] * 20, "no pair"),
        (SpanFinder, [("q", "a b")] * 9, [(0, 1, 2)] * 9, r"pass \(start, stop\)"),
        (SpanFinder, [("q", "a b")] * 9, [(1, 2)] * 9, "no word stands there"),
        (SpanFinder, [("q", "a b")] * 9, [(0, 9)] * 9, "no word stands there"),
        (SpanFinder, [("q", " ")] * 9, [(0, 1)] * 9, "holds no word"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_half_fitted(head, X, y, message):
    model = head(**SMALL, max_iter=1)
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, y)
    assert vars(model) == before


@pytest.mark.parametrize("source", [3, Words(), "no such file"])
def test_what_is_no_bert_is_refused(source):
    with pytest.raises((ValueError, OSError), match=r"BERT|no such file"):
        TextClassifier(source, max_iter=1).fit(*OK)


def test_too_few_texts_to_learn_from_are_refused():
    with pytest.raises(ValueError, match="0 of 4 texts are left"):
        TextClassifier(**SMALL, test_fraction=0.9).fit(OK[0][:4], ["a", "b", "a", "b"])


def test_weights_of_rows_are_refused(bert):
    with pytest.raises(ValueError, match="repeat them"):
        TextClassifier(bert, max_iter=1).fit(*OK, sample_weight=np.ones(20))
