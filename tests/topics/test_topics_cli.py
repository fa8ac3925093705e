"""`lemmata topics`: a table, coherence in a file of texts, a coloured text, a picture; files of the wrong kind are named."""

import json

import numpy as np
import pytest
from cli_invoke import invoke

import lemmata
from lemmata import text
from lemmata.topics import PLSA

TEXTS = ["cat dog cat", "dog cat pet", "loss risk fit", "fit loss loss"]


@pytest.fixture
def file(tmp_path):
    lemmata.save(PLSA(2, random_state=0).fit(text.counts(TEXTS)), tmp_path / "m.lemma")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    return tmp_path / "m.lemma"


def test_topics_are_shown(file, tmp_path):
    assert invoke("topics", file, "-n", 2).splitlines() == [
        "topic  share  documents  words",
        "    0   50 %          2  loss fit",
        "    1   50 %          2  cat dog",
    ]
    out = invoke(
        "topics", file, "-n", 2, "--documents", tmp_path / "texts.txt", "--several",
        "--show", "A cat.\x1b[2J", "--picture", tmp_path / "bars.png",
    )  # fmt: skip
    assert "1.00  cat dog" in out
    assert "no word is among the likeliest of two topics" in out
    assert "A cat₁.\\x1b[2J" in out
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")


def test_topics_as_json(file, tmp_path):
    options = ("--documents", tmp_path / "texts.txt", "--show", "A cat.", "--several", "--json")
    found = json.loads(invoke("topics", file, "-n", 6, *options))
    assert found["topics"][0]["words"][:2] == ["loss", "fit"]
    assert found["topics"][0]["documents"] == 2
    assert found["text"]["words"][0]["word"] == "cat"
    assert {one["word"] for one in found["several"]} == {"cat", "dog", "pet", "loss", "risk", "fit"}


def test_a_text_becomes_topics_a_document_a_line(tmp_path):
    """Words of more than half of the documents are left out; certify and transform read the same file."""
    texts, saved = tmp_path / "texts.txt", tmp_path / "m.lemma"
    texts.write_text("\n".join(f"the {one}" for one in TEXTS) + "\n")
    invoke("fit", "lda", texts, "-s", "n_components=2", "-s", "random_state=0", "--save", saved)
    model = lemmata.load(saved)
    assert model.feature_names_in_.tolist() == ["cat", "dog", "fit", "loss", "pet", "risk"]
    shares = np.loadtxt(invoke("transform", saved, texts).splitlines()[1:], delimiter=",")
    np.testing.assert_allclose(shares, model.transform(TEXTS), atol=1e-12)
    assert "documents_fitted" in invoke("certify", saved, texts, code=3)
    assert "leave out the options" in invoke("fit", "lda", texts, "--target", "0", code=1)
    assert "of no kind" in invoke("fit", "kmeans", texts, code=1)


def test_a_table_of_counts_becomes_topics(tmp_path):
    """Counts with words for names, fitted and read without Python; and numbers whose words stand in a file."""
    (tmp_path / "counts.csv").write_text("cat,dog,loss\n2,1,0\n1,2,0\n0,0,3\n")
    saved = ("--set", "n_components=2", "--set", "random_state=0", "--save", tmp_path / "m.lemma")
    invoke("fit", "PLSA", tmp_path / "counts.csv", *saved)
    assert "cat dog" in invoke("topics", tmp_path / "m.lemma", "-n", 2) or "dog cat" in invoke(
        "topics", tmp_path / "m.lemma", "-n", 2
    )
    np.save(tmp_path / "counts.npy", [[2.0, 1, 0], [1, 2, 0], [0, 0, 3]])
    invoke("fit", "PLSA", tmp_path / "counts.npy", *saved)
    assert "numbers without words" in invoke("topics", tmp_path / "m.lemma", code=1)
    (tmp_path / "words.txt").write_text("cat\ndog\nloss\n")
    words = ("--words", tmp_path / "words.txt")
    (tmp_path / "texts.txt").write_text("cat dog\nloss\n")
    told = invoke("topics", tmp_path / "m.lemma", *words, "--documents", tmp_path / "texts.txt")
    assert "loss" in told
    (tmp_path / "words.txt").write_text("cat\ndog\n")
    assert "2 words, the model 3" in invoke("topics", tmp_path / "m.lemma", *words, code=1)


def test_files_of_the_wrong_kind_are_named(file, tmp_path):
    assert "not a lemmata model" in invoke("topics", tmp_path / "texts.txt", code=1)
    assert "there is no file" in invoke("topics", tmp_path / "none.lemma", code=1)
    lemmata.save(lemmata.PCA(1).fit(np.eye(3)), tmp_path / "pca.lemma")
    assert "holds a PCA, which has no topics" in invoke("topics", tmp_path / "pca.lemma", code=1)
    assert "no picture" in invoke("topics", file, "--picture", tmp_path / "x.gif", code=2)
    assert "no folder" in invoke("topics", file, "--picture", tmp_path / "no" / "x.png", code=1)
    assert "no file" in invoke("topics", file, "--documents", tmp_path / "none.txt", code=1)
    assert "measure='cosine'" in invoke(
        "topics", file, "--documents", tmp_path / "texts.txt", "--measure", "cosine", code=1
    )
    (tmp_path / "latin.txt").write_bytes("caf\xe9\n".encode("latin-1"))
    assert "byte 0xe9" in invoke("topics", file, "--documents", tmp_path / "latin.txt", code=1)
    (tmp_path / "empty.txt").write_text("")
    assert "no documents" in invoke("topics", file, "--documents", tmp_path / "empty.txt", code=1)
    invoke("topics", file, "-n", "0", code=2)
