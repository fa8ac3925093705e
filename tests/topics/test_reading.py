"""Reading topics: tables, documents, coloured texts, words of several topics, pyLDAvis, a picture; for any topic model."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import lemmata
from lemmata import text
from lemmata.text import Tokenizer
from lemmata.topics import PLSA
from lemmata.topics.base import TopicModel
from lemmata.topics.colours import ColouredText, Legend, Mark
from lemmata.topics.tables import shared_words

PETS = ["cat dog cat", "dog cat pet", "cat pet dog dog"]
FITS = ["loss risk fit", "fit loss loss", "risk risk loss fit"]
# two of the three words always stand together, the third beside them in two documents of six: ln 2/ln 3 with each
NPMI = (1 + 2 * np.log(2) / np.log(3)) / 3


class Given(TopicModel):
    """A model whose factors are known and are no distributions, as those of NMF are not."""

    def __init__(self, tol=0.0):
        self.tol = tol

    def _mixtures(self, data):
        W = np.concatenate([np.asarray(rows @ self.components_.T) for rows, _ in data])
        return 7.0 * W


def given_model(H, words, W=None):
    model = Given()
    model.components_, model.n_features_in_ = np.asarray(H, float), len(words)
    model.feature_names_in_ = np.array(words, dtype=object)
    if W is not None:
        model.doc_topic_ = np.asarray(W, float)
    return model


@pytest.fixture(scope="module")
def counts():
    return text.counts(PETS + FITS)


@pytest.fixture(scope="module")
def model(counts):
    return PLSA(2, tol=1e-9, random_state=0).fit(counts)


# --- tables -----------------------------------------------------------------------------------------------------------


def test_the_table_says_how_large_topics_are(model, counts):
    table = model.table(counts, n=3)
    assert [row.documents for row in table] == [3, 3]
    assert {frozenset(row.words) for row in table} == {
        frozenset(PETS[1].split()),
        frozenset(FITS[0].split()),
    }
    for row in table:
        assert row.share == pytest.approx(10 / 20, abs=1e-6)  # of 20 words
        assert row.coherence == pytest.approx(NPMI)
    without = model.table()
    assert [row.share for row in without] == pytest.approx([row.share for row in table], abs=1e-3)
    assert without[0].coherence is None
    assert "npmi" not in str(without)
    assert without.to_dict()["documents"] == [3, 3]
    elsewhere = str(model.table(text.counts(["cat dog"], vocabulary=counts.words), n=2))
    assert "–  loss risk" in elsewhere  # nobody wrote about it
    assert "nan" not in elsewhere


def test_shares_count_words_and_are_sorted():
    """Topic 1 has one long document of 30 words, topic 0 two short ones of 2."""
    model = given_model(np.eye(2), ["a", "b"])
    X = text.Counts(sp.csr_array([[2, 0], [2, 0], [0, 30]]), model.feature_names_in_)
    first, second = model.table(X, n=2)
    assert (first.topic, second.topic) == (1, 0)
    assert first.share == pytest.approx(30 / 34)
    assert (first.documents, second.documents) == (1, 2)
    kept = given_model(np.eye(2), ["a", "b"], W=[[3.0, 0.0], [5.0, 0.0], [0.0, 1.0]])
    assert [row.share for row in kept.table(n=2)] == pytest.approx([2 / 3, 1 / 3])
    bare = given_model(np.eye(2), ["a", "b"]).table(n=2)
    assert bare[0].share is None
    assert "share" not in str(bare)
    assert "share" not in bare._repr_html_()


def test_hostile_words_steer_neither_terminals_nor_pages():
    words = ["<script>alert(1)</script>", "\x1b[2Jx", "[red]y[/red]", "$\\frac$"]
    model = given_model([[4, 3, 2, 1], [4, 1, 2, 3]], words, W=np.eye(2))
    shown = model.show("nothing known")
    for thing in (model.table(n=4), model.words_in_several_topics(4), shown):
        for form in (str(thing), thing._repr_html_(), rendered(thing)):
            assert "\x1b[2J" not in form
        assert "<script>" not in thing._repr_html_()
    assert "[red]y[/red]" in rendered(model.table(n=4))
    model.plot(4).canvas.draw()  # matplotlib takes no word for a formula


def rendered(thing):
    from io import StringIO

    from rich.console import Console

    console = Console(file=StringIO(), width=200, force_terminal=False)
    console.print(thing)
    return console.file.getvalue()


# --- words of several topics ------------------------------------------------------------------------------------------


def test_words_with_two_meanings_are_found():
    """CIL Table 3.1: one word, two topics with otherwise different words."""
    words = ["bank", "money", "loan", "river", "shore", "the"]
    phi = [[0.3, 0.3, 0.2, 0, 0, 0.2], [0.2, 0, 0, 0.3, 0.3, 0.2], [0.0, 0.4, 0.4, 0, 0, 0.2]]
    found = given_model(phi, words).words_in_several_topics(3)
    bank = next(one for one in found if one.word == "bank")
    assert bank.topics == (0, 1)
    assert bank.probabilities == pytest.approx((0.3, 0.2))
    assert "BANK" in str(found)
    assert "“bank 2”" in str(found)
    assert "<b>bank</b>" in found._repr_html_()
    assert "shore" not in [one.word for one in found]
    # frequent in two topics that share nothing else comes before what two topics about money share
    alike = [["bank", "money", "loan"], ["bank", "river", "sea"], ["money", "loan", "cash"]]
    order = [one.word for one in shared_words(alike, lambda topic, word: 0.2)]
    assert order[0] == "bank"
    assert set(order) == {"bank", "money", "loan"}


def test_no_shared_word_is_said(model):
    assert str(model.words_in_several_topics(2)) == "no word is among the likeliest of two topics"
    assert len(model.words_in_several_topics(2)) == 0


# --- documents --------------------------------------------------------------------------------------------------------


def test_documents_of_a_topic(model, counts):
    pets = next(z for z, top in enumerate(model.top_words(2)) if "cat" in top)
    found = model.documents_of(pets, 3)
    assert {one.document for one in found} == {0, 1, 2}
    assert found[0].share >= found[1].share >= found[2].share > 0.99
    other = model.documents_of(pets, 1, documents=["risk", "cat and dog and loss", "pet"])
    assert other == [(2, pytest.approx(1.0, abs=1e-3))]
    longest = model.documents_of(pets, 1, documents=["pet", "cat cat cat loss"], by="words")
    assert longest[0].document == 1
    assert len(model.documents_of(pets, 100)) == 6


def test_texts_are_counted_by_the_tokenizer_of_the_fit(tmp_path):
    counts = text.counts(["Running cats", "dogs RUN"], stop_words=["cats"], stemmer="english")
    model = PLSA(1).fit(counts)
    assert sorted(counts.words) == ["dog", "run"]
    lemmata.save(model, tmp_path / "m.lemma")
    back = lemmata.load(tmp_path / "m.lemma")
    assert back.encode(["cats run and running dogs"]).matrix.toarray().tolist() == [[1, 2]]
    assert back.tokenizer_ == counts.tokenizer
    np.testing.assert_array_equal(back.transform(["run", "dog"]), [[1.0], [1.0]])
    assert [mark.word for mark in back.show("Cats: RUNNING dogs").marks] == ["run", "dog"]
    assert not hasattr(PLSA(1).fit(counts).fit(np.eye(2)), "tokenizer_")


def test_texts_may_be_a_series_or_an_array(model):
    pandas = pytest.importorskip("pandas")
    texts = ["cat dog", "loss"]
    for form in (tuple(texts), np.array(texts), pandas.Series(texts, index=[7, 3])):
        np.testing.assert_array_equal(model.transform(form), model.transform(texts))
    with pytest.raises(TypeError, match=r"lemmata\.text\.counts"):
        PLSA(2).fit(pandas.Series(texts))


# --- coloured texts ---------------------------------------------------------------------------------------------------


def test_words_have_the_topic_that_most_probably_made_them():
    """p(z | w, d) ∝ θ_dz φ_zw by hand: "bank" beside "river" is a shore."""
    words = ["bank", "money", "river"]
    phi = np.array([[0.5, 0.5, 0.0], [0.4, 0.0, 0.6]])
    model = PLSA(2).fit(np.ones((2, 3)))
    model.components_, model.feature_names_in_ = phi, np.array(words, dtype=object)
    shown = model.show("The bank of a river, a River.")
    theta = model.transform(["bank river river"])[0]
    p = theta * phi[:, 0]
    bank, river, again = shown.marks
    assert shown.text[slice(*bank[:2])] == "bank"
    assert shown.text[slice(*again[:2])] == "River"
    assert bank.topic == river.topic == 1
    assert river.probability == 1
    assert bank.probability == pytest.approx(p[1] / p.sum())
    assert str(shown).startswith("The bank₁ of a river₁, a River₁.")
    assert "<sub>1</sub>" in shown._repr_html_()
    assert "bank₁" in rendered(shown)
    assert [one.topic for one in shown.legend] == [1]


def test_a_text_without_known_words_has_no_colours(model):
    for document in ("", "nothing here", "\n"):
        shown = model.show(document)
        assert shown.marks == ()
        assert shown.legend == ()
        assert str(shown).startswith(document)


def test_documents_are_escaped(model):
    evil = 'cat <img src=x onerror="alert(1)"> \x1b]0;title\x07 dog [bold]loss[/bold] &lt;'
    shown = model.show(evil)
    page = shown._repr_html_()
    assert "<img" not in page
    assert "&lt;img src=x onerror=&quot;" in page
    assert "&amp;lt;" in page
    for form in (str(shown), rendered(shown), page):
        assert "\x1b" not in form
        assert "\x07" not in form
    assert "[bold]loss" in rendered(shown)


def test_more_topics_than_colours_still_have_numbers():
    marks = tuple(Mark(2 * i, 2 * i + 1, "a", i, 1.0) for i in range(12))
    shown = ColouredText("a " * 12, marks, tuple(Legend(i, 1 / 12, ("a",)) for i in range(12)))
    assert "a₁₁" in str(shown)
    assert "<sub>11</sub>" in shown._repr_html_()
    assert "a₁₁" in rendered(shown)
    assert shown._repr_html_().count("background") == 12  # six words and six lines of the legend


@given(st.text(max_size=40), st.sampled_from([r"\b\w\w+\b", r"[a-zß-ÿ]+", r"(\w)\w*", None]))
def test_spans_are_the_words_where_they_stand(document, pattern):
    tokenizer = Tokenizer(token_pattern=pattern, stop_words=["aa"])
    spans = tokenizer.spans(document)
    assert [word for word, _, _ in spans] == tokenizer(document)
    end = 0
    for word, start, stop in spans:
        assert end <= start + 1
        assert start <= stop <= len(document)
        assert (
            word in document[start:stop].lower()
            or len(document.lower()) != len(document)
            or (
                "σ" in document[start:stop].lower()  # at the end of a word it is written ς
            )
        )
        end = stop


# --- elsewhere --------------------------------------------------------------------------------------------------------


def test_the_arguments_of_pyldavis(model, counts):
    more = text.counts(["cat dog", "", "cat pet cat"], vocabulary=counts.words)
    found = model.to_pyldavis(more)
    assert set(found) == {
        "topic_term_dists", "doc_topic_dists", "doc_lengths", "vocab", "term_frequency",
    }  # fmt: skip
    assert found["vocab"] == ["cat", "dog", "pet"]  # those that occur
    assert found["topic_term_dists"].shape == (2, 3)
    assert found["doc_topic_dists"].shape == (2, 2)
    np.testing.assert_allclose(found["topic_term_dists"].sum(axis=1), 1)
    np.testing.assert_allclose(found["doc_topic_dists"].sum(axis=1), 1)
    assert found["doc_lengths"].tolist() == [2, 3]
    assert found["term_frequency"].tolist() == [3, 1, 1]
    nmf = given_model([[4.0, 0, 2], [0, 3, 0]], ["a", "b", "c"])
    ones = text.Counts(sp.csr_array(np.ones((2, 3))), nmf.feature_names_in_)
    np.testing.assert_allclose(nmf.to_pyldavis(ones)["doc_topic_dists"].sum(axis=1), 1)
    with pytest.raises(ValueError, match="none of the model's words"):
        model.to_pyldavis(["zebra"])


def test_pyldavis_takes_them():
    pyLDAvis = pytest.importorskip("pyLDAvis")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefgh"), 20)) for _ in range(30)]
    counts = text.counts(texts, token_pattern=r"\w")
    model = PLSA(3, random_state=0).fit(counts)
    prepared = pyLDAvis.prepare(**model.to_pyldavis(counts), mds="mmds", n_jobs=1)
    sizes = prepared.topic_coordinates.sort_index()["Freq"].to_numpy() / 100
    np.testing.assert_allclose(
        sizes, model._sizes(counts)[prepared.topic_coordinates.sort_index().index]
    )


def test_bars_are_the_probabilities(model):
    figure = model.plot(n=3)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert sorted(title.split(" · ")[0] for title in titles) == ["topic 0", "topic 1"]
    for ax, title in zip(figure.axes, titles, strict=True):
        z = int(title.split()[1])
        widths = [bar.get_width() for bar in ax.patches]
        np.testing.assert_allclose(widths, -np.sort(-model.topic_word_[z])[:3])
        assert [label.get_text() for label in ax.get_yticklabels()] == model.top_words(3)[z]
    assert len(model.plot(topics=[1]).axes) == 1


def test_coherence_and_diversity_of_a_model(model, counts):
    np.testing.assert_allclose(model.coherence(counts, n=3), NPMI)
    np.testing.assert_allclose(model.coherence(counts.matrix, n=3), model.coherence(counts, n=3))
    texts = model.coherence(PETS + FITS, n=3, window=0)
    np.testing.assert_allclose(texts, model.coherence(counts, n=3))
    assert model.diversity(3) == 1.0


def topic_models():
    from lemmata import registry

    return [
        name for name, one in registry.MODELS.items() if one.module.startswith("lemmata.topics")
    ]


@pytest.mark.parametrize("name", topic_models())
def test_every_topic_model_is_read_alike(name, tmp_path):
    """Two kinds of texts are two topics, whoever finds them; a model from a file reads texts as the one that was saved."""
    counts = text.counts(4 * (PETS + FITS))
    model = getattr(lemmata, name)(2, random_state=0).fit(counts)
    lemmata.save(model, tmp_path / "m.lemma")
    model = lemmata.load(tmp_path / "m.lemma")
    table = model.table(counts, n=3)
    assert {frozenset(row.words) for row in table} == {
        frozenset(PETS[1].split()), frozenset(FITS[0].split()),
    }  # fmt: skip
    assert [row.documents for row in table] == [12, 12]
    assert sum(row.share for row in table) == pytest.approx(1)
    assert np.ptp([row.share for row in table]) < 0.2
    assert [row.coherence for row in table] == pytest.approx([NPMI, NPMI])
    pets = next(row.topic for row in table if "cat" in row.words)
    assert {one.document % 6 for one in model.documents_of(pets, 12)} == {0, 1, 2}
    assert [mark.topic == pets for mark in model.show("A cat, a dog, a loss.").marks] == [
        True,
        True,
        False,
    ]
    prepared = model.to_pyldavis(counts)
    for rows in (prepared["doc_topic_dists"], prepared["topic_term_dists"]):
        np.testing.assert_allclose(rows.sum(axis=1), 1)
    assert model.transform(["cat dog", "loss"]).argmax(axis=1).tolist() == [pets, 1 - pets]
    assert model.diversity(3) == 1
    assert len(model.plot(3).axes) == 2


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: m.top_words(0), "n=0: pass an int"),
        (lambda m: m.top_words(2.5), "n=2.5"),
        (lambda m: m.documents_of(2), "topics are 0 to 1"),
        (lambda m: m.documents_of(-1), "topics are 0 to 1"),
        (lambda m: m.documents_of(0, by="size"), "by='size'"),
        (lambda m: m.documents_of(0, by="words"), "pass documents"),
        (lambda m: m.show(["a", "text"]), "text of one document, not a list"),
        (lambda m: m.plot(topics=[5]), "topics are 0 to 1"),
        (lambda m: m.plot(topics=[]), "no topic to draw"),
        (lambda m: m.table(vocabulary=["a"]), "vocabulary has 1 words, the model 6"),
        (lambda m: m.transform("one text"), "one text"),
        (lambda m: m.top_words(2, vocabulary="abcdef"), "vocabulary is one text"),
        (lambda m: m.transform(["a text", 3]), "document 1 is a int"),
        (lambda m: m.fit(["a text"]), "lemmata.text.counts"),
    ],
)
def test_bad_questions_are_named(model, ask, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ask(model)


def test_what_was_not_kept_is_asked_for():
    model = given_model(np.eye(2), ["a", "b"])
    with pytest.raises(ValueError, match="keeps no mixtures"):
        model.documents_of(0)
    bare = PLSA(2, random_state=0).fit(sp.csr_array(np.eye(3) + 1))
    for ask in (bare.table, bare.plot, bare.words_in_several_topics, lambda: bare.show("a b")):
        with pytest.raises(ValueError, match="numbers without words"):
            ask()
    assert bare.table(vocabulary=["a", "b", "c"], n=1)[0].words[0] in "abc"
