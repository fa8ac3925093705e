"""What every model of texts promises: the counterpart of test_estimators.py, whose models take matrices."""

import doctest
import json
import re
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import lemmata
from lemmata import registry, text
from lemmata.core import STATISTICAL, Certificate, Trace
from lemmata.core.certificate import KINDS
from lemmata.core.supervised import Classifier
from lemmata.text import Tokenizer, encoded

WORDS = sorted(
    name
    for name, entry in registry.MODELS.items()
    if entry.module.startswith("lemmata.embedding")
    and "tokenizer" in registry.model_class(name)._get_param_names()  # others take vectors
)
# they read texts as they stand: a file is one text, not one a line
# of texts and labels, or texts: tests/language
PAIRED = ("Translator", "TextClassifier", "TokenClassifier", "SpanFinder")
LANGUAGE = sorted(
    name
    for name, one in registry.MODELS.items()
    if one.module.startswith("lemmata.language") and name not in PAIRED
)
MODELS = [*WORDS, *LANGUAGE]
SMALL = {"vector_size": 3, "min_count": 1, "epochs": 3, "random_state": 0, "deterministic": True}
# nothing can be learnt in such a fit, and a claim says so
LEARNS = {"width": 8, "depth": 1, "heads": 2, "context": 16, "max_iter": 2, "order": 3}
HOPELESS = {"epochs": 1, "alpha": 1e-9, "min_alpha": 1e-9, "learning_rate": 1e-9, "n_iter": 0}
HOPELESS["words"] = (["w0", "w1"], np.eye(2))  # vectors of two words
SPLIT = Tokenizer(lowercase=False, token_pattern=None)
UNKNOWN = {
    "FastTextClassifier"
}  # takes texts without a known word: they have features of their own


def topical(seed=0, topics=3, n=60):
    """Sentences of eight words, each of one topic, and their topics."""
    rng = np.random.default_rng(seed)
    of = rng.integers(0, topics, n)
    return [[f"t{t}w{i}" for i in rng.integers(0, 6, 8)] for t in of], of


def made(name, **parameters):
    cls = registry.model_class(name)
    known = cls._get_param_names()
    small = {**SMALL, **(LEARNS if name in LANGUAGE else {})}
    chosen = {key: value for key, value in {**small, **parameters}.items() if key in known}
    return cls(**chosen)


def fit(model, X, y=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y) if isinstance(model, Classifier) else model.fit(X)


def certify(model, X, y):
    return model.certify(X, y) if isinstance(model, Classifier) else model.certify(X)


def output(model, sentences):
    """What a model says: of words their vectors, of texts their scores."""
    if type(model).__name__ in LANGUAGE:
        return model.score_samples(sentences)
    found = model.decision_function(sentences) if hasattr(model, "predict") else model.embedding_
    return np.asarray(found)


@pytest.fixture(params=MODELS)
def name(request):
    return request.param


@pytest.fixture
def unchecked():
    with lemmata.config(certificate=False):
        yield


@pytest.mark.usefixtures("unchecked")
def test_lists_texts_files_and_encoded_texts_are_one_corpus(name, tmp_path, monkeypatch):
    if name in LANGUAGE:
        return
    lists, y = topical()
    lines = [" ".join(words) for words in lists]
    (tmp_path / "corpus.txt").write_text("\n".join(lines))
    sources = [
        lines,
        iter(lines),
        tmp_path / "corpus.txt",
        text.read(tmp_path / "corpus.txt"),
        text.encode(lists),
    ]
    wanted = output(fit(made(name), lists, y), lists)
    for source in sources:
        model = fit(made(name, tokenizer=SPLIT), source, y)
        assert output(model, lists).tobytes() == wanted.tobytes()
    monkeypatch.setattr(encoded, "IN_MEMORY", 0)  # everything is in a file
    assert output(fit(made(name), lists, y), lists).tobytes() == wanted.tobytes()


@pytest.mark.usefixtures("unchecked")
def test_any_cut_into_blocks_gives_the_same_vectors(name, monkeypatch):
    """By kernels, which draw by the place of a word in the text. (NumPy's batches end with a block.)"""
    lists, y = topical()
    with lemmata.config(compile="always"):
        whole = output(fit(made(name), lists, y), lists)
        monkeypatch.setattr(encoded, "BLOCK", 50)
        assert output(fit(made(name), lists, y), lists).tobytes() == whole.tobytes()


@pytest.mark.usefixtures("unchecked")
def test_one_thread_gives_the_bits_of_eight(name, monkeypatch):
    lists, y = topical()
    found = []
    for threads in ("1", "8"):
        monkeypatch.setenv("LEMMATA_THREADS", threads)
        with lemmata.config(compile="always"):
            found.append(output(fit(made(name), lists, y), lists).tobytes())
    assert found[0] == found[1]


def test_a_saved_model_is_the_same_model(name, tmp_path):
    lists, y = topical()
    model = fit(made(name), lists, y)
    public = {key for key in vars(model) if key.endswith("_") and not key.startswith("_")}
    assert public == set(model.stored_attributes())
    lemmata.save(model, tmp_path / "m.lemma")
    back = lemmata.load(tmp_path / "m.lemma")
    assert repr(back) == repr(model)
    assert output(back, lists).tobytes() == output(model, lists).tobytes()
    assert str(back.certificate_) == str(model.certificate_)
    assert str(certify(back, lists, y)) == str(certify(model, lists, y))


def test_a_fit_has_a_trace_and_a_certificate_that_prints_in_every_form(name):
    lists, y = topical()
    model = fit(made(name), lists, y)
    assert isinstance(model.trace_, Trace)
    assert isinstance(model.stopped_, str)
    assert model.n_iter_ >= 1
    for certificate in (model.certificate_, certify(model, lists, y)):
        assert isinstance(certificate, Certificate)
        assert not certificate.broken
        assert name in str(certificate)
        assert "<table>" in certificate._repr_html_()
        assert json.loads(certificate.to_json())["title"] == certificate.title
        for claim in certificate:
            if claim.verdict in ("holds", "fails"):
                assert (claim.kind == STATISTICAL) == (0 < claim.confidence < 1), claim.name
    assert len(model.certificate_) >= 3


def test_claims_have_names_sentences_and_sources(name):
    claims = registry.model_class(name).claims
    assert len({claim.name for claim in claims}) == len(claims)
    for claim in claims:
        assert claim.sentence
        assert claim.source
        assert claim.kind in KINDS
    assert [claim.name for claim in claims[:2]] == ["attributes_sound", "statements_true"]


def test_a_hopeless_fit_fails_a_claim(name):
    if name in LANGUAGE:
        return  # so little text tells nothing: tests/language
    rng = np.random.default_rng(0)
    noise = [[f"w{i}" for i in rng.integers(0, 90, 8)] for _ in range(60)]
    model = fit(made(name, **HOPELESS), noise, rng.integers(0, 3, 60))
    assert model.certificate_.failed or certify(model, noise, rng.integers(0, 3, 60)).failed


def test_the_docstring_describes_each_parameter_and_shows_an_example(name):
    cls = registry.model_class(name)
    for parameter in made(name).get_params():
        assert re.search(rf"\b{parameter}\b", cls.__doc__), parameter
    page = cls.__doc__ + sys.modules[cls.__module__].__doc__
    assert any(name in example.source for example in doctest.DocTestParser().get_examples(page))
    assert clone(made(name)).get_params() == made(name).get_params()


@pytest.mark.usefixtures("unchecked")
def test_a_checkpointed_fit_can_be_run_again(name, tmp_path):
    lists, y = topical()
    if "checkpoint" not in made(name).get_params():
        return  # solved at once: nothing to resume
    first = fit(made(name, checkpoint=tmp_path / "c"), lists, y)
    again = fit(made(name, checkpoint=tmp_path / "c"), lists, y)
    assert output(first, lists).tobytes() == output(again, lists).tobytes()
    other, z = topical(seed=1)
    with pytest.raises(ValueError, match="belongs to another"):
        fit(made(name, checkpoint=tmp_path / "c"), other, z)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("one text", "documents is one text"),
        (b"bytes", "documents is one text"),
        (7, "documents is a int"),
        ({"a b": 1, "b c": 2}, "documents is a dict"),
        (np.eye(3), "of numbers or columns"),
        ([], r"no word|0 texts"),
        (["", " "], r"no word|holds? words"),
        ([[], []], r"no word|hold words"),
        ([["a", "b"], ["c", 3]], "words are texts"),
        ([["a", "b"], "c d"], "sentence 1 is a str"),
        (["a b", None], "document 1 is a NoneType"),
        (["a b", float("nan")], "NaN, a missing text"),
    ],
)
def test_bad_texts_are_refused_and_nothing_is_half_fitted(name, bad, message):
    model, (lists, y) = made(name), topical()
    before = dict(vars(model))
    labels = np.arange(len(bad)) if hasattr(bad, "__len__") else [0]
    with pytest.raises((ValueError, TypeError), match=message):
        fit(model, bad, labels)
    assert vars(model) == before
    fit(model, lists, y)
    fitted = dict(vars(model))
    with pytest.raises((ValueError, TypeError), match=message):
        fit(model, bad, labels)
    assert all(vars(model)[key] is value for key, value in fitted.items())


@pytest.mark.usefixtures("unchecked")
def test_files_that_are_no_text_are_named_with_the_place(name, tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"some good words\n" * 50 + "ein Käse mehr\n".encode("latin-1"))
    model = made(name)
    with pytest.raises(text.UnreadableText, match=r"byte 0xe4 at position 805 \(line 51\)"):
        fit(model, text.read(path), np.arange(51) % 2)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.usefixtures("unchecked")
def test_a_file_that_shrinks_while_it_is_read_is_noticed(name, tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("a line of some words\n" * 20_000)
    model = made(name)

    def shrinking():
        for number, line in enumerate(text.read(path)):
            if number == 10:
                with open(path, "r+b") as file:
                    file.truncate(200_000)
            yield line

    with pytest.raises(text.UnreadableText, match="shrank from 420,000 to"):
        fit(model, shrinking(), np.arange(20_000) % 2)
    assert not hasattr(model, "n_features_in_")
