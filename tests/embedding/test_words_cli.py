"""Models of texts and their vectors on the command line."""

import json
import re
import shlex

import numpy as np
import pytest
from cli_invoke import invoke
from typer.testing import CliRunner

import lemmata
from lemmata import cli
from lemmata.embedding import WordVectors


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    rng = np.random.default_rng(0)
    lines = [" ".join(f"t{t}w{i}" for i in rng.integers(0, 4, 8)) for t in rng.integers(0, 2, 120)]
    (folder / "corpus.txt").write_text("\n".join(lines))
    settings = ["vector_size=4", "min_count=1", "sample=0", "alpha=0.1", "random_state=0"]
    out = invoke(
        "fit", "skipgram", folder / "corpus.txt", *(f"--set={one}" for one in settings),
        "--save", folder / "v.lemma",
    )  # fmt: skip
    assert out.startswith("SkipGram  960 tokens, 8 words, 4 numbers each")
    return folder


def test_nearest_words_are_those_of_the_model(saved):
    model = lemmata.load(saved / "v.lemma")
    found = json.loads(invoke("nearest", saved / "v.lemma", "t0w1", "-n", 3, "--json"))
    assert [(one["word"], one["similarity"]) for one in found] == model.vectors_.nearest("t0w1", 3)
    assert {one["word"][:2] for one in found} == {"t0"}
    lines = invoke("analogy", saved / "v.lemma", "t0w1", "t0w2", "t1w1", "-n", 2).splitlines()
    assert [line.split()[0] for line in lines] == [
        word for word, _ in model.vectors_.analogy("t0w1", "t0w2", "t1w1", 2)
    ]
    assert len(invoke("nearest", saved / "v.lemma", "t0w1", "t0w2").splitlines()) == 6


@pytest.mark.parametrize("words", [150, 600])
def test_the_command_that_is_printed_for_collapsed_vectors_helps(tmp_path, words):
    """Five epochs of a small text leave all vectors in one direction; the printed command, run as it is, does not."""
    rng, path = np.random.default_rng(words), tmp_path / "a text.txt"
    p = 1 / np.arange(1, words + 1)  # Zipf; half of every sentence is of one of four topics
    topics = [np.where(rng.integers(0, 4, words) == 0, p, 0) for _ in range(4)]
    laws = [one / one.sum() / 2 + p / p.sum() / 2 for one in topics]
    lines = [rng.choice(words, 12, p=laws[t]) for t in rng.integers(0, 4, 2 * words)]
    path.write_text("\n".join(" ".join(f"w{i}" for i in line) for line in lines))
    out = invoke("fit", "skipgram", path, "-s", "random_state=0")
    assert re.search(r"fails +directions_spread", out)
    command = re.findall(r"(?m)^  \$ lemmata (fit .*--set epochs=.*)$", out)[0]
    assert re.search(r"holds +directions_spread", invoke(*shlex.split(command)))


def test_vectors_of_others_are_read_and_models_certified_again(saved):
    model = lemmata.load(saved / "v.lemma")
    model.vectors_.write(saved / "v.bin")
    assert invoke("nearest", saved / "v.bin", "t0w1") == invoke(
        "nearest", saved / "v.lemma", "t0w1"
    )
    arguments = ["certify", str(saved / "v.lemma"), str(saved / "corpus.txt"), "--json"]
    claims = json.loads(CliRunner().invoke(cli.app, arguments).stdout)["claims"]
    assert {one["name"]: one["verdict"] for one in claims}["statements_true"] == "holds"
    assert len(WordVectors.read(saved / "v.bin")) == 8


def test_what_cannot_be_answered_is_told(saved):
    assert "did you mean" in invoke("nearest", saved / "v.lemma", "t0w", code=1)
    assert "no columns" in invoke("fit", "skipgram", saved / "corpus.txt", "--target", "x", code=1)
    np.savetxt(saved / "t.csv", np.random.default_rng(0).normal(size=(20, 3)), delimiter=",")
    invoke("fit", "pca", saved / "t.csv", "--save", saved / "p.lemma")
    assert "no vectors of words" in invoke("nearest", saved / "p.lemma", "a", code=1)
    assert "no file" in invoke("fit", "skipgram", saved / "nowhere.txt", code=1)


def test_other_names_lower_case_truth_and_a_text_instead_of_vectors_are_understood(saved):
    corpus, few = saved / "corpus.txt", ["--set=vector_size=4", "--set=min_count=1"]
    assert "sg=false" in invoke("fit", "cbow", corpus, code=2)
    assert invoke("fit", "skipgram", corpus, *few, "--set=sg=false").startswith("SkipGram")
    assert "fit skipgram" in invoke("nearest", corpus, "t0w1", code=1)
