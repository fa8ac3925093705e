"""`lemmata models`, `which` and `explain`: a newcomer finds a model by task or word, by a file, and reads a claim."""

import json
import shlex

import numpy as np
import pytest
from cli_invoke import invoke

from lemmata import registry
from lemmata.audit.trust.fair.fairness import CODE_CLAIMS, FAIRNESS_CLAIMS
from lemmata.audit.trust.fair.logistic import BOUNDED_CLAIMS
from lemmata.audit.trust.fair.thresholds import THRESHOLD_CLAIMS
from lemmata.audit.trust.robustness import ROBUST_CLAIMS
from lemmata.cli.finding import _claims_of_models
from lemmata.data import inspect_file


def flowers(path, gaps=False):
    rng = np.random.default_rng(0)
    kinds = np.repeat(["rose", "lily"], 40)
    X = rng.normal(size=(80, 3)) + (kinds == "lily")[:, None]
    lines = [",".join(f"{x:.4f}" for x in row) + f",{kind}" for row, kind in zip(X, kinds, strict=True)]  # fmt: skip
    if gaps:
        lines[3] = ",0.5,0.25,rose"
    path.write_text("\n".join(["a,b,c,kind", *lines]) + "\n")


def numbers(path):
    rng = np.random.default_rng(1)
    np.savetxt(path, rng.normal(size=(60, 4)), delimiter=";")


def ratings(path):
    rng = np.random.default_rng(2)
    pairs = rng.permutation(30 * 20)[:300]
    lines = [f"{p // 20},{p % 20},{1 + p % 5}" for p in pairs]
    path.write_text("\n".join(["userId,movieId,rating", *lines]) + "\n")


def series(path):
    path.write_text("\n".join(f"{x:.3f}" for x in np.sin(np.arange(120.0) ** 1.1)) + "\n")


def texts(path):
    rng = np.random.default_rng(3)
    words = [
        a + b
        for a in ("sun", "moon", "leaf", "fish", "wave")
        for b in ("ly", "er", "s", "y", "light", "a")
    ]
    path.write_text("\n".join(" ".join(rng.choice(words, 9)) for _ in range(60)) + "\n")


def labelled(path):
    rng = np.random.default_rng(4)
    lines = [f"__label__{k} {' '.join(rng.choice([['up', 'high', 'top'], ['low', 'down', 'base']][k], 6))}"
             for k in rng.integers(2, size=60)]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")


def images(path):
    np.savez(path, X=np.random.default_rng(5).random((40, 8, 8)).astype(np.float32))


def parquet(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": np.arange(50.0), "y": np.arange(50.0)[::-1] ** 2}), path)


FILES = {
    "flowers.csv": (flowers, "table"),
    "numbers.csv": (numbers, "table"),
    "ratings.csv": (ratings, "ratings"),
    "series.csv": (series, "table"),
    "texts.txt": (texts, "texts"),
    "labelled.txt": (labelled, "labelled texts"),
    "images.npz": (images, "images"),
    "x.parquet": (parquet, "table"),
}


@pytest.mark.parametrize("name", FILES)
def test_which_names_what_is_in_a_file_and_its_commands_run_as_printed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, kind = FILES[name]
    make(tmp_path / name)
    assert inspect_file(name).kind == kind
    found = json.loads(invoke("which", name, "--json"))
    assert found["models"]
    assert found["facts"][0] in invoke("which", name)
    for model in found["models"]:
        program, *words = shlex.split(model["command"])
        assert program == "lemmata"
        if (
            found["kind"] != "images"
        ):  # networks take long: their fits from a shell are tested in test_cli.py
            invoke(*words)
            if words[:2] == ["fit", "ar"]:
                assert "a series in the order of its rows" in model["why"]
                certificate = json.loads(invoke("certify", "model.lemma", name, "--json", code=3))
                assert certificate["data"].startswith("1 × 120")


def test_which_with_a_target_proposes_what_the_target_asks_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flowers(tmp_path / "flowers.csv")
    classes = json.loads(invoke("which", "flowers.csv", "--target", "kind", "--json"))["models"]
    assert [one["model"] for one in classes] == ["LogisticRegression", "SVC", "MLPClassifier"]
    number = json.loads(invoke("which", "flowers.csv", "--target", "a", "--json"))["models"]
    assert [one["model"] for one in number] == ["LinearRegression", "SVR"]
    assert "--drop kind" in number[0]["command"]
    invoke(*shlex.split(classes[0]["command"])[1:])
    invoke(*shlex.split(number[0]["command"])[1:])
    assert "did you mean kind?" in invoke("which", "flowers.csv", "--target", "kinds", code=2)


def test_which_sees_gaps(tmp_path):
    flowers(tmp_path / "gaps.csv", gaps=True)
    out = invoke("which", tmp_path / "gaps.csv")
    assert "most in a (1%)" in out
    assert "GaussianMixture" in out
    assert "take no gaps" in invoke("which", tmp_path / "gaps.csv", "--target", "kind", code=1)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", "is empty"),
        ("picture.csv", b"\x89PNG\r\n\x1a\n" + b"\0" * 40, "a PNG image"),
        ("words.csv", b"a,b\n" + b"red car,blue sky\nold tree,new leaf\n" * 3, "no column of numbers"),
        ("latin.csv", "größe,zahl\n1,2\n".encode("latin-1"), "not UTF-8"),
    ],
)  # fmt: skip
def test_which_says_what_is_missing(name, content, words, tmp_path):
    (tmp_path / name).write_bytes(content)
    assert words in invoke("which", tmp_path / name, code=1)


def test_a_large_text_is_read_at_its_beginning_only(tmp_path):
    path = tmp_path / "large.csv"
    path.write_text("x,y\n" + "0.125,3\n" * 400_000)
    found = inspect_file(path)
    assert not found.counted
    assert found.n_rows == pytest.approx(400_000, rel=0.01)


def test_every_model_stands_under_one_task_and_fits_80_columns():
    listed = [name for names in registry.models_by_task().values() for name in names]
    assert sorted(listed) == sorted(registry.MODELS)
    out = invoke("models")
    assert all(len(line) <= 80 for line in out.splitlines())
    assert all(f"  {name} " in out for name in registry.MODELS)


def test_models_finds_by_a_word_that_people_search_for():
    assert "SkipGram" in invoke("models", "word2vec")
    assert "KMeans" in invoke("models", "clustering")
    assert "NormalizingFlow" in invoke("models", "realnvp")
    assert "did you mean PCA?" in invoke("models", "PAC", code=2)


def test_models_describes_one_with_its_claims_and_a_command():
    out = invoke("models", "kmeans")
    assert "certified_near_optimum [proved]" in out
    assert "n_clusters=8" in out
    assert "$ lemmata fit kmeans DATA" in out
    assert "deprecated" not in out
    assert "checkpoint : " in invoke("models", "kmeans", "--all")


def test_explain_has_sentence_theorem_and_models_of_a_claim():
    out = invoke("explain", "subspace_determined")
    assert "statistical 99 %" in out
    assert "PCA" in out
    assert "CIL" in out
    found = json.loads(invoke("explain", "near_optimum", "--json"))
    owners = {name for one in found["statements"] for name in one["models"].split(", ")}
    assert {"Ridge", "SVC"} <= owners
    assert "did you mean never_rose?" in invoke("explain", "never_ros", code=2)


def test_explain_knows_claims_about_attacks_and_groups():
    known = _claims_of_models()
    for claims in (ROBUST_CLAIMS, FAIRNESS_CLAIMS, THRESHOLD_CLAIMS, BOUNDED_CLAIMS, CODE_CLAIMS):
        assert {one.name for one in claims} <= set(known)
    ((_, owners),) = known["radius_certified"]
    assert owners == ["trust.attack", "trust.SmoothedClassifier"]
