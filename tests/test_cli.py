"""The command line: results on stdout, one line about trouble on stderr, exit codes that scripts can use."""

import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cli_invoke import invoke
from typer.testing import CliRunner

import lemmata
from lemmata import cli, registry
from lemmata.cli import commands, shell
from lemmata.cli.advising import changes_in
from lemmata.core import Statement, unknown
from lemmata.core.certificate import KINDS, VERDICTS
from lemmata.core.certification.showing import UNPRINTABLE
from lemmata.core.supervised import Classifier, Supervised
from lemmata.topics.base import TopicModel

NAMES = list("abcdefghij")
COMMAND = [sys.executable, "-c", "from lemmata.cli import main; main()"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a table of 60 rows in 10 features and a label, and a PCA fitted to it."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 10)) * ([4, 2] + [0.5] * 8)
    np.save(folder / "table.npy", X)
    rows = "\n".join(",".join([*map(repr, row.tolist()), "xy"[i % 2]]) for i, row in enumerate(X))
    (folder / "table.csv").write_text(",".join([*NAMES, "kind"]) + "\n" + rows + "\n")
    assert invoke(
        "fit",
        "PCA",
        folder / "table.csv",
        "--target",
        "kind",
        "-s",
        "n_components=2",
        "--save",
        folder / "m.lemma",
    )
    return folder


# --- fit --------------------------------------------------------------------------------------------------------------


def test_fit_prints_the_certificate_and_saves_the_model(work):
    model = lemmata.load(work / "m.lemma")
    X = np.load(work / "table.npy")
    assert np.array_equal(model.components_, lemmata.PCA(n_components=2).fit(X).components_)
    assert list(model.feature_names_in_) == NAMES
    out = invoke("fit", "pca", work / "table.npy", "--set", "n_components=2")
    assert out.splitlines()[0].startswith("PCA  60 × 10")
    assert re.search(r"(?m)^  holds +orthonormal_basis ", out)


# models of texts read no tables: tests/embedding/test_words_cli.py
OF_TABLES = [
    name
    for name, one in registry.MODELS.items()
    if not one.module.startswith(("lemmata.embedding", "lemmata.language")) and name != "CLIP"
]


@pytest.mark.parametrize("name", OF_TABLES)
def test_every_model_fits_saves_and_is_certified_again(work, tmp_path, name):
    path, known = tmp_path / "m.lemma", registry.model_class(name)._get_param_names()
    small = [f"--set={key}=2" for key in ("n_components", "n_clusters", "rank") if key in known]
    small += ["--set=max_iter=5"] if "net" in known or name in ("Autoencoder", "Diffusion") else []
    small += ["--set=levels=4", "--set=max_iter=1"] if name in ("PixelCNN", "WaveNet") else []
    small += ["--set=max_iter=2"] if name == "GAN" else []
    cls, table = registry.model_class(name), work / "table.npy"
    target = ["--target", "-1"] if issubclass(cls, Supervised) else []
    if issubclass(cls, Classifier):
        table, target = work / "table.csv", ["--target", "kind"]
    if issubclass(cls, TopicModel):
        table = tmp_path / "counts.npy"
        np.save(table, np.rint(3 * np.abs(np.load(work / "table.npy"))))
    invoke("fit", name.upper(), table, *target, *small, "--save", path)
    assert type(lemmata.load(path)).__name__ == name
    certified = json.loads(
        CliRunner().invoke(cli.app, ["certify", str(path), str(table), *target, "--json"]).stdout
    )
    assert certified["claims"]
    for command in ("transform", "predict"):
        if hasattr(cls, command) and not (command == "predict" and hasattr(cls, "recommend")):
            assert len(invoke(command, path, table, *target).splitlines()) == 61


def test_a_model_that_predicts_asks_for_its_target_and_writes_labels(work, tmp_path):
    path = tmp_path / "l.lemma"
    said = invoke("fit", "logisticregression", work / "table.npy", code=1)
    assert "--target COLUMN says which" in said
    invoke("fit", "LogisticRegression", work / "table.csv", "--target", "kind", "--save", path)
    assert set(invoke("predict", path, work / "table.csv").splitlines()[1:]) <= {"x", "y"}
    shares = invoke("predict", path, work / "table.csv", "--proba").splitlines()
    assert shares[0] == "x,y"
    assert sum(map(float, shares[1].split(","))) == pytest.approx(1)


def test_evaluate_gives_the_score_on_new_rows_its_interval_and_notices_rows_trained_on(
    work, tmp_path
):
    path, new = tmp_path / "l.lemma", tmp_path / "new.csv"
    lines = (work / "table.csv").read_text().splitlines()
    (tmp_path / "old.csv").write_text("\n".join(lines[:41]))
    new.write_text("\n".join([lines[0], *lines[41:]]))
    invoke("fit", "LinearSVC", tmp_path / "old.csv", "--target", "kind", "--save", path)
    found = CliRunner().invoke(
        cli.app, ["evaluate", str(path), str(new), "--target", "kind", "--json"]
    )
    told = json.loads(found.stdout)
    assert told["name"] == "accuracy"
    assert told["n"] == 20
    assert told["lower"] <= told["score"] <= told["upper"]
    again = CliRunner().invoke(
        cli.app,
        [
            "evaluate",
            str(path),
            str(new),
            "--target",
            "kind",
            "--train",
            str(work / "table.csv"),
            "--json",
        ],
    )
    assert again.exit_code == cli.NOT_CERTIFIED
    claims = {
        one["name"]: one["verdict"] for one in json.loads(again.stdout)["certificate"]["claims"]
    }
    assert claims["rows_unseen"] == "fails"


def test_fairness_judges_decisions_by_columns_of_words(tmp_path):
    rng = np.random.default_rng(0)
    sex, race = rng.choice(["f", "m"], 3000), rng.choice(["p", "q"], 3000)
    x = rng.standard_normal(3000) + (sex == "m")
    y = np.where(x + rng.standard_normal(3000) > 0.5, "hired", "no")
    noise = rng.standard_normal((3000, 2))
    cells = zip(x, *noise.T, sex, race, y, strict=True)
    rows = [",".join(map(str, row)) for row in cells]
    for name, part in (("old.csv", rows[:500]), ("new.csv", rows[500:])):
        (tmp_path / name).write_text("\n".join(["x,u,v,sex,race,work", *part]) + "\n")
    path, page = tmp_path / "l.lemma", tmp_path / "fair.html"
    given = ("--target", "work", "--drop", "sex", "--drop", "race")
    invoke("fit", "LogisticRegression", tmp_path / "old.csv", *given, "--save", path)
    asked = [
        "fairness",
        str(path),
        str(tmp_path / "new.csv"),
        "--target",
        "work",
        "--positive",
        "hired",
    ]
    asked += ["--train", str(tmp_path / "old.csv")]
    found = CliRunner().invoke(cli.app, [*asked, "--group", "sex", "--report", str(page)])
    assert found.exit_code == cli.NOT_CERTIFIED
    assert "independence" in found.stdout
    assert "<html" in page.read_text()
    both = CliRunner().invoke(cli.app, [*asked, "--group", "sex", "--group", "race", "--json"])
    told = json.loads(both.stdout)
    assert set(told["rates"]["TPR"]) == {"f & p", "f & q", "m & p", "m & q"}
    verdicts = {one["name"]: one["verdict"] for one in told["certificate"]["claims"]}
    assert (verdicts["people_unseen"], verdicts["independence"]) == ("holds", "fails")


def test_attack_fools_a_saved_classifier_and_says_what_holds(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1000)
    X = np.clip(0.5 + 0.2 * (y[:, None] - 0.5) + 0.1 * rng.standard_normal((1000, 4)), 0, 1)
    for name, part in (("old.npz", slice(0, 400)), ("new.npz", slice(400, None))):
        np.savez(tmp_path / name, X=X[part], y=y[part])
    path, page, rows = (tmp_path / name for name in ("l.lemma", "robust.html", "adversarial.npy"))
    given = ("--target", "y")
    invoke("fit", "LogisticRegression", tmp_path / "old.npz", *given, "-s", "C=100", "--save", path)
    asked = [
        "attack",
        str(path),
        str(tmp_path / "new.npz"),  # without --target: its array y
        "--queries",
        "50",
        "--rows",
        "400",
    ]
    more = ["--norm", "2", "--json", "--report", str(page), "--out", str(rows)]
    mild = CliRunner().invoke(cli.app, [*asked, "--eps", "0.01", *more])
    assert mild.exit_code == cli.OK, mild.stderr
    told = json.loads(mild.stdout)
    verdicts = {one["name"]: one["verdict"] for one in told["certificate"]["claims"]}
    assert {verdicts[name] for name in ("worst_case_reached", "robust_accuracy")} == {"holds"}
    assert told["robust_accuracy"] <= told["accuracy"]
    assert "<html" in page.read_text()
    assert np.linalg.norm(np.load(rows) - X[400:800], axis=1).max() <= 0.01 + 1e-9
    hard = CliRunner().invoke(cli.app, [*asked, "--eps", "0.2"])
    assert hard.exit_code == cli.NOT_CERTIFIED
    assert "fails       robust_accuracy" in hard.stdout


def test_fit_as_json_is_one_document(work):
    found = json.loads(invoke("fit", "PCA", work / "table.npy", "-s", "n_components=2", "--json"))
    assert found["model"] == "PCA"
    assert found["parameters"] == {"n_components": 2}
    assert found["saved"] is None
    assert {claim["verdict"] for claim in found["certificate"]["claims"]} <= set(VERDICTS)
    assert {claim["kind"] for claim in found["certificate"]["claims"]} <= set(KINDS)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("n_components=2", 2), ("n_components=0.9", 0.9), ("n_components=None", None), ("whiten=True", True),
     ("svd_solver=full", "full"), ("svd_solver='full'", "full"), ("svd_solver = full", "full")],
)  # fmt: skip
def test_settings_are_python_literals_or_text(setting, value):
    (found,) = shell.parameters_in(lemmata.PCA, [setting]).values()
    assert found == value
    assert type(found) is type(value)


def test_a_setting_may_hold_an_equals_sign():
    assert shell.parameters_in(lemmata.PCA, ["checkpoint=a=b.ckpt"]) == {"checkpoint": "a=b.ckpt"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "PAC", "x.csv"), "no model 'PAC'; did you mean PCA?"),
        (("fit", "kernelpac", "x.csv"), "did you mean KernelPCA?"),
        (("fit", "zebra", "x.csv"), "no model 'zebra'; there are PCA"),
        (
            ("fit", "PCA", "x.csv", "-s", "n_component=3"),
            "no parameter 'n_component'; did you mean n_components?",
        ),
        (("fit", "PCA", "x.csv", "-s", "n_components"), "not of the form key=value"),
        (("fit", "PCA"), "Missing argument 'DATA'"),
        (("fit", "PCA", "x.csv", "--sav", "y"), "No such option"),
        (("fot",), "Did you mean 'fit'?"),
        (("--nonsense",), "No such option"),
        (("models", "PAC"), "did you mean PCA?"),
    ],
)
def test_wrong_usage_is_answered_with_2_and_a_suggestion(arguments, message):
    assert message in invoke(*arguments, code=2)


def test_bad_values_and_bad_data_are_answered_with_1(work, tmp_path):
    assert "n_components" in invoke(
        "fit", "PCA", work / "table.npy", "-s", "n_components=-1", code=1
    )
    assert "n_components" in invoke(
        "fit", "PCA", work / "table.npy", "-s", "n_components=50", code=1
    )
    assert "solver" in invoke("fit", "PCA", work / "table.npy", "-s", "svd_solver=magic", code=1)
    assert "there is no file" in invoke("fit", "PCA", tmp_path / "no.csv", code=1)
    assert "'kind'" in invoke("fit", "PCA", work / "table.csv", code=1)
    assert "no column 'knd'; did you mean 'kind'?" in invoke(
        "fit", "PCA", work / "table.csv", "--target", "knd", code=1
    )
    (tmp_path / "nan.csv").write_text("a,b\n1,2\nnan,3\n4,5\n")
    assert "NaN" in invoke("fit", "PCA", tmp_path / "nan.csv", code=1)


def test_a_bad_place_for_the_model_is_refused_before_the_fit(work, tmp_path):
    assert "there is no folder" in invoke(
        "fit", "PCA", "absent.csv", "--save", tmp_path / "no" / "m.lemma", code=1
    )
    assert "is a folder" in invoke("fit", "PCA", work / "table.npy", "--save", tmp_path, code=1)
    table = (work / "table.npy").read_bytes()
    assert "the data itself" in invoke(
        "fit", "PCA", work / "table.npy", "--save", work / "table.npy", code=1
    )
    assert (work / "table.npy").read_bytes() == table


def test_require_saves_nothing_and_exits_with_3_if_a_claim_fails(tmp_path):
    # no direction stands out
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).normal(size=(50, 20)))
    arguments = (
        "fit",
        "PCA",
        tmp_path / "noise.npy",
        "-s",
        "n_components=5",
        "--save",
        tmp_path / "m.lemma",
    )
    assert "fails" in invoke(*arguments)
    (tmp_path / "m.lemma").unlink()
    assert "fails" in invoke(*arguments, "--require", code=3)
    assert not (tmp_path / "m.lemma").exists()


def test_require_pays_for_the_claims_that_fit_puts_off(work, tmp_path, monkeypatch):
    from lemmata.core.certification import checking

    monkeypatch.setattr(checking, "IN_FIT", 0)
    monkeypatch.setattr(checking, "LEAST_MAIN", 0)
    monkeypatch.setenv("LEMMATA_SHARE", "0")
    monkeypatch.setattr(checking, "SHARE_OF_FIT", 0)
    arguments = (
        "fit",
        "PCA",
        work / "table.npy",
        "-s",
        "n_components=2",
        "--save",
        tmp_path / "m.lemma",
    )
    assert "not checked" in invoke(*arguments)
    assert "not checked" not in invoke(*arguments, "--require")
    assert lemmata.load(tmp_path / "m.lemma").certificate_.holds


def test_the_traceback_is_shown_on_demand(work, monkeypatch):
    monkeypatch.setenv("LEMMATA_DEBUG", "1")
    result = CliRunner().invoke(cli.app, ["fit", "PCA", str(work / "absent.csv")])
    assert isinstance(result.exception, FileNotFoundError)


def test_an_unexpected_error_is_one_line_too(monkeypatch):
    def slip(*_):
        raise KeyError("lost")

    monkeypatch.setattr(commands.shell, "print_json", slip)
    assert "a bug in lemmata" in invoke("models", "--json", code=1)


def test_warnings_are_single_lines_on_stderr(work):
    result = CliRunner().invoke(
        cli.app,
        [
            "fit",
            "PCA",
            str(work / "table.npy"),
            "-s",
            "svd_solver=gradient",
            "-s",
            "max_iter=1",
            "-s",
            "n_components=1",
        ],
    )
    assert result.exit_code == 0
    assert result.stderr.startswith("lemmata: warning: PCA reached max_iter=1")
    assert result.stderr.count("\n") == 1


# --- certify, transform, info -----------------------------------------------------------------------------------------


def test_certify_exits_with_3_unless_the_certificate_holds(work, tmp_path, monkeypatch):
    """As `certificate.holds` says: what was not checked, or broke, is not certified either."""
    arguments = ("certify", work / "m.lemma", work / "table.csv")
    assert "not checked" in invoke(*arguments, "--seconds", 0, code=3)
    assert "--seconds" in invoke("certify", "--help")
    assert "was left unchecked" in " ".join(invoke("certify", "--help").split())
    assert (
        "Invalid value"
        in CliRunner().invoke(cli.app, [*map(str, arguments), "--seconds=-1"]).stderr
    )
    invoke(*arguments, "--seconds", 60)
    broken = Statement("a", "s", "proved", "s", lambda fit: 1 / 0)
    monkeypatch.setattr(lemmata.PCA, "_claims", lambda self: (broken,))
    assert "ZeroDivisionError" in invoke(*arguments, code=3)
    undecided = Statement("a", "s", "proved", "s", lambda fit: unknown("why"))
    monkeypatch.setattr(lemmata.PCA, "_claims", lambda self: (undecided,))
    assert "can't tell" in invoke(*arguments)


def test_ctrl_c_while_claims_are_checked_is_an_interruption(work, tmp_path, monkeypatch):
    def interrupt(fit):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        lemmata.PCA, "_claims", lambda self: (Statement("a", "s", "proved", "s", interrupt),)
    )
    for command in (
        ["certify", work / "m.lemma", work / "table.csv", "--report", tmp_path / "r.html"],
        ["fit", "PCA", work / "table.npy", "-s", "n_components=2", "--save", tmp_path / "m.lemma"],
    ):
        result = CliRunner().invoke(cli.app, [str(word) for word in command])
        assert result.exit_code == 130
        assert "interrupted while claims were checked; nothing was saved" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_certificate_is_written_as_a_page(work, tmp_path):
    page = tmp_path / "page.html"
    invoke("certify", work / "m.lemma", work / "table.csv", "--report", page)
    assert "orthonormal_basis" in page.read_text()
    assert "60 × 10 float64, digest" in page.read_text()
    invoke("fit", "kmeans", work / "table.npy", "-s", "n_clusters=3", "--report", page)
    assert "KMeans" in page.read_text()
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "no" / "a.html", tmp_path, tmp_path / "pipe", work / "table.csv"):
        result = CliRunner().invoke(
            cli.app,
            ["certify", str(work / "m.lemma"), str(work / "table.csv"), f"--report={place}"],
        )
        assert result.exit_code == 1
        assert "lemmata: " in result.stderr
    assert (work / "table.csv").read_text().startswith("kind") or NAMES[0] in (
        work / "table.csv"
    ).read_text()


def test_certify_exits_with_0_on_its_data_and_3_on_other_data(work, tmp_path):
    assert "holds" in invoke("certify", work / "m.lemma", work / "table.csv")
    np.save(
        tmp_path / "other.npy",
        np.random.default_rng(1).normal(size=(60, 10)) * ([0.5] * 8 + [2, 4]),
    )
    assert "fails" in invoke("certify", work / "m.lemma", tmp_path / "other.npy", code=3)
    found = json.loads(
        invoke("certify", work / "m.lemma", tmp_path / "other.npy", "--json", code=3)
    )
    assert "fails" in {claim["verdict"] for claim in found["claims"]}


def expected(work):
    model = lemmata.load(work / "m.lemma")
    return (np.load(work / "table.npy") - model.mean_) @ model.components_.T


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".npy"])
def test_transform_writes_files(work, tmp_path, suffix):
    out = tmp_path / f"scores{suffix}"
    invoke("transform", work / "m.lemma", work / "table.csv", "--out", out)
    np.testing.assert_allclose(lemmata.data.read_matrix(out).X, expected(work), atol=1e-12)


def test_transform_to_stdout_can_be_read_again(work):
    lines = invoke("transform", work / "m.lemma", work / "table.csv").splitlines()
    assert lines[0] == "pca0,pca1"
    numbers = np.array([line.split(",") for line in lines[1:]], dtype=float)
    np.testing.assert_allclose(numbers, expected(work), atol=1e-12)
    found = json.loads(invoke("transform", work / "m.lemma", work / "table.csv", "--json"))
    assert np.array_equal(found["rows"], numbers)


def test_transform_as_json_says_what_it_wrote(work, tmp_path):
    found = json.loads(
        invoke(
            "transform", work / "m.lemma", work / "table.csv", "--out", tmp_path / "z.npy", "--json"
        )
    )
    assert found == {"out": str(tmp_path / "z.npy"), "shape": [60, 2], "columns": ["pca0", "pca1"]}


def test_columns_are_matched_by_name_whatever_their_order(work, tmp_path):
    X = np.load(work / "table.npy")
    lines = [[*reversed(NAMES), "extra"], *([*map(repr, row[::-1]), "-"] for row in X.tolist())]
    (tmp_path / "shuffled.csv").write_text("\n".join(map(",".join, lines)))
    assert invoke("transform", work / "m.lemma", tmp_path / "shuffled.csv") == invoke(
        "transform", work / "m.lemma", work / "table.csv"
    )
    (tmp_path / "short.csv").write_text("a,b,c\n1,2,3\n")
    assert "no column 'd'" in invoke("transform", work / "m.lemma", tmp_path / "short.csv", code=1)


def test_transform_reads_a_pipe(work):
    table = (work / "table.csv").read_text()
    piped = invoke("transform", work / "m.lemma", "-", stdin=table)
    assert piped == invoke("transform", work / "m.lemma", work / "table.csv")


def test_transform_refuses_other_widths_and_other_suffixes(work, tmp_path):
    np.save(tmp_path / "wide.npy", np.zeros((3, 11)))
    assert "11 features" in invoke("transform", work / "m.lemma", tmp_path / "wide.npy", code=1)
    assert ".csv, .csv.gz or .npy" in invoke(
        "transform", work / "m.lemma", work / "table.csv", "--out", "z.xls", code=1
    )


def test_a_sparse_file_that_ends_early_is_as_wide_as_the_model(work, tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:2 2:1\n0 1:1\n")
    assert len(invoke("transform", work / "m.lemma", tmp_path / "rows.svm").splitlines()) == 3


def test_predict_gives_every_row_its_cluster_or_its_probabilities(work, tmp_path):
    import pandas as pd

    X, table = np.load(work / "table.npy"), ("--target", "kind")
    invoke(
        "fit",
        "kmeans",
        work / "table.csv",
        *table,
        "-s",
        "n_clusters=3",
        "--save",
        tmp_path / "k.lemma",
    )
    name, *labels = invoke("predict", tmp_path / "k.lemma", work / "table.csv", *table).split()
    assert name == "kmeans"
    assert [int(label) for label in labels] == lemmata.load(tmp_path / "k.lemma").labels_.tolist()
    assert "KMeans has no predict_proba" in invoke(
        "predict", tmp_path / "k.lemma", work / "table.npy", "--proba", code=1
    )
    invoke(
        "fit",
        "mixture",
        work / "table.csv",
        *table,
        "-s",
        "n_components=2",
        "--save",
        tmp_path / "g.lemma",
    )
    found = json.loads(
        invoke("predict", tmp_path / "g.lemma", work / "table.npy", "--proba", "--json")
    )
    assert found["columns"] == ["mixture0", "mixture1"]
    assert np.array_equal(
        found["rows"],
        lemmata.load(tmp_path / "g.lemma").predict_proba(pd.DataFrame(X, columns=NAMES)),
    )
    assert "PCA has no predict" in invoke("predict", work / "m.lemma", work / "table.npy", code=1)


def test_empty_cells_are_unknown_to_a_model_that_can_take_them(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        [repr(float(x)) if rng.random() > 0.1 else "" for x in row]
        for row in rng.normal(size=(50, 3))
    ]
    (tmp_path / "holes.csv").write_text("a,b,c\n" + "\n".join(map(",".join, rows)) + "\n")
    invoke("fit", "gaussianmixture", tmp_path / "holes.csv", "--save", tmp_path / "g.lemma")
    assert len(invoke("predict", tmp_path / "g.lemma", tmp_path / "holes.csv").split()) == 51
    assert "empty" in invoke("fit", "kmeans", tmp_path / "holes.csv", code=1)


def test_info_shows_parameters_attributes_and_certificate(work):
    out = invoke("info", work / "m.lemma")
    assert "components_" in out
    assert "2 × 10 float64" in out
    assert "the components are orthonormal" in out
    found = json.loads(invoke("info", work / "m.lemma", "--json"))
    assert found["model"] == "PCA"
    assert found["parameters"]["n_components"] == 2
    assert found["attributes"]["components_"] == {"shape": [2, 10], "dtype": "float64"}
    assert found["certificate"]["claims"]


def test_json_stays_json_whatever_the_values():
    odd = {
        "nan": float("nan"),
        "inf": np.float64("inf"),
        "n": np.int64(3),
        "flag": True,
        "t": (1, None),
        "f": print,
    }
    plain = shell.plain({**odd, "array": np.zeros((2, 3), dtype=np.float32)})
    assert plain["array"] == {"shape": [2, 3], "dtype": "float32"}
    assert {key: plain[key] for key in ("nan", "inf", "n", "flag", "t")} == {
        "nan": None, "inf": None, "n": 3, "flag": True, "t": [1, None],
    }  # fmt: skip
    json.dumps(plain, allow_nan=False)


def test_a_file_that_is_no_model_is_refused(work, tmp_path):
    for command in (("info",), ("certify",), ("transform",)):
        rest = () if command == ("info",) else (work / "table.csv",)
        assert "table.csv" in invoke(*command, work / "table.csv", *rest, code=1)
        assert "no file" in invoke(*command, tmp_path / "absent.lemma", *rest, code=1)
    damaged = tmp_path / "damaged.lemma"
    damaged.write_bytes((work / "m.lemma").read_bytes()[:-100])
    assert "damaged" in invoke("info", damaged, code=1)


# --- models, atlas, help ----------------------------------------------------------------------------------------------


def test_models_lists_the_registry():
    out = invoke("models")
    assert all(f"  {name} " in out for name in registry.MODELS)
    found = json.loads(invoke("models", "--json"))
    assert [entry["name"] for entry in found] == list(registry.MODELS)


def test_models_shows_the_parameters_of_one():
    out = invoke("models", "pca", "--all")
    assert "n_components : int" in out
    assert "whiten : bool, default=False" in out
    assert json.loads(invoke("models", "PCA", "--json"))["parameters"]["whiten"] is False


@pytest.fixture
def toy_atlas(monkeypatch):
    told = {"title": "A toy", "source": "CIL 0", "caption": "It plays."}

    def perform(folder, **values):
        (folder / "toy.png").write_bytes(b"")
        shown = ("it moves", "it squeaks", *map(str, values.items()))
        return SimpleNamespace(path=folder / "toy.png", shown=shown, **told)

    from lemmata.atlas import AtlasEntry, Slider

    sliders = Slider("speed", 0.5, 0, 2), Slider("seed", 0, 0, 99)
    entry = AtlasEntry("toy", "A toy", "CIL 0", None, sliders)
    entry = SimpleNamespace(perform=perform, check=entry.check, parameters=sliders, **told)
    module = SimpleNamespace(entries=lambda: {"toy": entry})
    monkeypatch.setitem(sys.modules, "lemmata.atlas", module)


@pytest.mark.usefixtures("toy_atlas")
def test_atlas_lists_draws_and_suggests(tmp_path):
    assert invoke("atlas").split() == ["toy", "A", "toy", "CIL", "0"]
    assert json.loads(invoke("atlas", "--json")) == [
        {"id": "toy", "title": "A toy", "source": "CIL 0"}
    ]
    assert invoke("atlas", "TOY", "--out", tmp_path / "new").splitlines() == [
        str(tmp_path / "new" / "toy.png"),
        "A toy  (CIL 0)",
        "It plays.",
        "asserted: · it moves",
        "          · it squeaks",
        "--set: speed 0 to 2 (default 0.5), seed 0 to 99 (default 0)",
    ]
    set_to = ("--out", tmp_path, "--json", "-s", "speed=1.5", "--set", "seed=3")
    assert json.loads(invoke("atlas", "toy", *set_to))["shown"][2:] == [
        "('speed', 1.5)",
        "('seed', 3)",
    ]
    for setting, message in {
        "speed=3": "speed=3.0 lies outside; pass 0 to 2 (default 0.5)",
        "seed=0.5": "seed=0.5 is no whole number",
        "sped=1": "toy takes speed 0 to 2 (default 0.5)",
        "speed": "not of the form name=number",
        "speed=nan": "lies outside",
    }.items():
        assert message in invoke("atlas", "toy", "--set", setting, code=2)
    assert "name it" in invoke("atlas", "--set", "speed=1", code=2)
    assert (tmp_path / "new" / "toy.png").exists()
    found = json.loads(invoke("atlas", "toy", "--out", tmp_path, "--json"))
    assert found["figure"] == str(tmp_path / "toy.png")
    assert (found["caption"], found["shown"]) == ("It plays.", ["it moves", "it squeaks"])
    assert "no entry 'tay'; did you mean toy?" in invoke("atlas", "tay", code=2)
    each, total = invoke("atlas", "--all", "--out", tmp_path).splitlines()
    assert each.split()[1:] == ["s", "toy"]
    assert total.split()[1:4] == ["s", "all", "1,"]


def test_version_and_help():
    assert invoke("--version") == f"lemmata {lemmata.__version__}\n"
    assert "Exit codes: 0" in invoke("--help")
    for name in (
        "demo",
        "models",
        "fit",
        "certify",
        "transform",
        "predict",
        "info",
        "atlas",
        "diagnose",
        "recommend",
        "topics",
    ):
        assert "--json" in invoke(name, "--help")


# --- demo -------------------------------------------------------------------------------------------------------------


def test_the_demo_draws_a_picture_and_its_measurements_agree_with_the_theory(tmp_path):
    found = json.loads(invoke("demo", "--out", tmp_path / "demo.png", "--json"))
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["demo.png"]
    errors = found["digits"]["errors"]
    for row in errors:
        assert row["lost"] == pytest.approx(row["tail"], abs=1e-9)
    assert all(later["lost"] < earlier["lost"] for earlier, later in pairwise(errors))
    assert not [
        claim for claim in found["digits"]["certificate"]["claims"] if claim["verdict"] == "fails"
    ]
    completed, verdicts = found["completion"], {}
    assert completed["errors"]["ALS"] < 0.8 * completed["errors"]["column means"]
    for claim in completed["certificate"]["claims"]:
        verdicts[claim["name"]] = claim["verdict"]
    assert (
        verdicts["never_rose"]
        == verdicts["enough_entries"]
        == verdicts["held_out_error"]
        == "holds"
    )
    # a tenth by guessing; about 0.79 is what others report of these digits
    assert 0.7 < found["clusters"]["purity"] <= 1
    assert not {"never_rose", "no_empty_cluster", "fixed_point"} & {
        claim["name"]
        for claim in found["clusters"]["certificate"]["claims"]
        if claim["verdict"] != "holds"
    }


def test_the_demo_plays_any_list_of_scenes(tmp_path, capsys):
    from lemmata.cli.demo import play

    class Toy:
        name, title, height = "toy", "A toy", 2.0

        def play(self, say):
            say("playing")
            return 42

        def draw(self, figure, played):
            figure.subplots().set_title(str(played))

        def summary(self, played):
            return {"answer": played}

    found = play(tmp_path / "two.png", scenes=[Toy(), Toy()])
    assert found["toy"] == {"answer": 42}
    assert capsys.readouterr().out.count("playing") == 2
    assert (tmp_path / "two.png").stat().st_size > 1000


def test_a_bad_place_for_the_picture_is_refused_at_once(tmp_path):
    assert "there is no folder" in invoke("demo", "--out", tmp_path / "no" / "demo.png", code=1)
    assert "picture" in invoke("demo", "--out", tmp_path / "demo.csv", code=1)


# --- as a process -----------------------------------------------------------------------------------------------------


def test_the_command_line_imports_nothing_heavy_before_a_command_runs():
    code = "import sys, lemmata.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numpy", "sklearn", "scipy", "numba", "rich", "torch", "matplotlib"} & set(loaded)


def test_exit_codes_reach_the_shell():
    def code(*arguments):
        return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True).returncode

    # 0 is that of test_a_narrow_terminal_is_not_overrun, 130 and 141 stand below
    assert code() == 2
    assert code("fit", "PCA", "absent.csv") == 1


def test_a_reader_that_goes_away_is_no_drama(work, tmp_path):
    np.save(tmp_path / "long.npy", np.random.default_rng(0).normal(size=(50_000, 10)))
    command = [*COMMAND, "transform", str(work / "m.lemma"), str(tmp_path / "long.npy")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"pca0,pca1\n"
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == cli.PIPE_CLOSED
    assert error == b""


def test_ctrl_c_during_a_fit_saves_nothing_and_says_so(work, tmp_path, hears_ctrl_c):
    endless = [
        "-s",
        "svd_solver=gradient",
        "-s",
        "tol=0",
        "-s",
        "max_iter=1000000000",
        "-s",
        "n_components=2",
    ]
    started, saved = tmp_path / "run.ckpt", tmp_path / "m.lemma"
    command = [
        *COMMAND,
        "fit",
        "PCA",
        str(work / "table.npy"),
        *endless,
        "-s",
        f"checkpoint={started}",
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([*command, "--save", str(saved)], preexec_fn=hears_ctrl_c, **pipes)
    try:
        deadline = time.monotonic() + 60
        while not started.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)  # well inside the loop
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == cli.INTERRUPTED
    assert error.startswith("lemmata: interrupted after")
    assert error.count("\n") == 1
    assert out == ""
    assert not saved.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run.ckpt"]


def test_ctrl_c_while_reading_leaves_no_traceback(tmp_path, hears_ctrl_c):
    pipe = tmp_path / "slow.csv"
    os.mkfifo(pipe)  # a file whose content never comes
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(
        [*COMMAND, "fit", "PCA", str(pipe)], preexec_fn=hears_ctrl_c, **pipes
    )
    try:
        writer = os.open(pipe, os.O_WRONLY)  # waits until the command reads
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
        os.close(writer)
    finally:
        process.kill()
    assert process.returncode == cli.INTERRUPTED
    assert error == "lemmata: interrupted; nothing was saved.\n"


def test_a_narrow_terminal_is_not_overrun(work):
    pty, columns = pytest.importorskip("pty"), 60
    main, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "40"}
    command = [*COMMAND, "certify", str(work / "m.lemma"), str(work / "table.csv")]
    process = subprocess.Popen(command, stdout=terminal, stderr=subprocess.DEVNULL, env=environment)
    os.close(terminal)
    shown = b"".join(iter(lambda: read_all(main), b""))
    os.close(main)
    assert process.wait(timeout=60) == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()
    assert max(map(len, lines)) <= columns
    assert any("orthonormal_basis" in line for line in lines)


def read_all(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that the other end is closed
        return b""


def test_a_terminal_gets_colour_and_progress(work):
    pty = pytest.importorskip("pty")
    main, terminal = pty.openpty()
    command = [
        *COMMAND,
        "fit",
        "PCA",
        str(work / "table.npy"),
        "-s",
        "n_components=2",
        "-s",
        "svd_solver=gradient",
    ]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160", "LINES": "40"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(command, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    shown = b""
    while True:
        try:
            chunk = os.read(main, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(main)
    assert process.wait(timeout=60) == 0
    assert b"\x1b[32m" in shown  # green: holds
    assert "objective" in shown.decode()


def test_the_installed_command_is_this_one():
    script = Path(sys.executable).with_name("lemmata")
    if not script.exists():
        pytest.skip("lemmata is not installed as a command here")
    assert (
        subprocess.run([script, "--version"], capture_output=True, text=True).stdout
        == f"lemmata {lemmata.__version__}\n"
    )


def test_compressed_results_are_real_gzip(work, tmp_path):
    invoke("transform", work / "m.lemma", work / "table.csv", "--out", tmp_path / "z.csv.gz")
    assert gzip.decompress((tmp_path / "z.csv.gz").read_bytes()).startswith(b"pca0,pca1\n")


# --- what comes from outside ------------------------------------------------------------------------------------------

EVIL = "a\x1b]0;owned\x07\x9b2J\u202e"


def test_no_control_character_of_a_file_reaches_the_terminal(tmp_path):
    """Column names, paths, settings and labels, in results and in messages."""
    data, saved = tmp_path / f"{EVIL[:3]}.csv", tmp_path / "m.lemma"
    rows = "\n".join(f"{i},{i * i % 7},{i % 3}" for i in range(20))
    data.write_text(f"{EVIL},b,c\n{rows}\n")
    told = [
        invoke("fit", "pca", data, "-s", "n_components=1", "--save", saved),
        invoke("info", saved),
        invoke("info", saved, "--json"),
        invoke("fit", "pca", data, "--target", f"{EVIL}x", code=1),
        invoke("fit", EVIL, data, code=2),
        invoke("fit", "pca", data, "-s", f"{EVIL}=1", code=2),
        invoke("info", tmp_path / EVIL, code=1),
        invoke("transform", saved, data, "--json"),
    ]
    data.write_text(f"{EVIL},b,c,{EVIL}2\n" + rows.replace("\n", ",1\n") + ",1\n")
    result = CliRunner().invoke(cli.app, ["transform", str(saved), str(data)])
    assert "was not fitted to" in result.stderr
    for text in (*told, result.stderr):
        assert not UNPRINTABLE.search(text)
    assert json.loads(told[2])["model"] == "PCA"


def test_names_of_columns_reach_programs_as_they_are_and_spreadsheets_disarmed(tmp_path):
    X = np.random.default_rng(0).random((12, 3))
    X[::5, 1] = np.nan
    rows = "\n".join(",".join("" if np.isnan(x) else repr(float(x)) for x in row) for row in X)
    data, saved = tmp_path / "x.csv", tmp_path / "m.lemma"
    data.write_text(f"=1+1,@b,c\n{rows}\n")
    invoke("fit", "softimpute", data, "--matrix", "--save", saved)
    assert invoke("transform", saved, data).splitlines()[0] == "=1+1,@b,c"
    assert invoke("transform", saved, data, "--safe-csv").splitlines()[0] == "'=1+1,'@b,c"
    invoke("transform", saved, data, "--safe-csv", "--out", tmp_path / "z.csv")
    assert (tmp_path / "z.csv").read_text().startswith("'=1+1,'@b,c\n")


def test_an_argument_of_a_hundred_kilobytes_is_not_echoed_whole(work, tmp_path):
    long = "x" * 100_000
    for command in (
        ("fit", long, work / "table.npy"),
        ("fit", "pca", work / "table.npy", "-s", f"{long}=1"),
        ("fit", "pca", work / "table.npy", "-s", f"svd_solver={long}"),
        ("fit", "pca", work / "table.csv", "--target", long),
        ("fit", "pca", work / "table.npy", f"--{long}"),
    ):
        result = CliRunner().invoke(cli.app, [str(word) for word in command])
        assert result.exit_code in (1, 2)
        assert len(result.output) < 3000, command[1][:20]


def test_columns_that_the_model_does_not_know_are_named_and_not_used(work, tmp_path):
    wide = tmp_path / "wide.csv"
    lines = (work / "table.csv").read_text().splitlines()
    wide.write_text("\n".join([f"{lines[0]},zip", *(f"{line},8000" for line in lines[1:])]) + "\n")
    result = CliRunner().invoke(cli.app, ["transform", str(work / "m.lemma"), str(wide)])
    assert result.exit_code == 0
    assert "warning: the model was not fitted to 'kind', 'zip': not used" in result.stderr
    meant = ["--drop", "zip", "--target", "kind"]
    result = CliRunner().invoke(cli.app, ["transform", str(work / "m.lemma"), str(wide), *meant])
    assert result.stderr == ""


def test_a_decimal_comma_is_named_and_read(work, tmp_path):
    comma = tmp_path / "comma.csv"
    text = (work / "table.csv").read_text().replace(",", ";").replace(".", ",")
    comma.write_text(text)
    assert "--decimal ," in invoke("fit", "pca", comma, "--target", "kind", code=1)
    shown = ("fit", "pca", "-s", "n_components=2", "--target", "kind", "--json")
    one = json.loads(invoke(*shown, comma, "--decimal", ","))
    assert one == json.loads(invoke(*shown, work / "table.csv"))
    path = work / "m.lemma"
    assert invoke("transform", path, comma, "--target=kind", "--decimal=,") == invoke(
        "transform", path, work / "table.csv", "--target=kind"
    )


def test_advice_on_the_command_line_is_a_command_that_helps(work, tmp_path):
    """A fit that was stopped early names the command that goes on, and what that prints holds."""
    words = ["fit", "kmeans", str(work / "table.npy"), "-s", "n_clusters=4", "--set=max_iter=1"]
    words += ["-s", "random_state=0"]
    out = invoke(*words)
    assert "raise max_iter" in out
    commands = re.findall(r"(?m)^  \$ lemmata (.*)$", out)
    assert "certify(X)" not in out
    again = shlex.split(commands[0])
    assert again[:5] == words[:5]
    assert "--set=max_iter=1" not in again
    assert "max_iter=10" in again
    while "max_iter" in out and "raise max_iter" in out:
        out = invoke(*again)
        found = re.findall(r"(?m)^  \$ lemmata (fit .*--set max_iter.*)$", out)
        again = shlex.split(found[0]) if found else again
    assert "fixed_point" in out
    check = next(command for command in commands if "certify" in command)
    first, second = check.split(" && lemmata ")
    assert shlex.split(first)[-2:] == ["--save", "model.lemma"]
    assert second.startswith(f"certify model.lemma {work / 'table.npy'}")


def test_certify_names_the_commands_that_its_advice_comes_to(work, tmp_path):
    saved, data = tmp_path / "k.lemma", str(work / "table.csv")
    fit = ["fit", "kmeans", data, "--target", "kind", "-s", "n_clusters=4", "-s", "max_iter=1"]
    invoke(*fit, "-s", "random_state=0", "--save", saved)
    words = ["certify", str(saved), data, "--target", "kind"]
    out = [CliRunner().invoke(cli.app, [*words, "--seconds", s]).stdout for s in ("60", "0")]
    again, check = (re.findall(r"(?m)^  \$ lemmata (.*)$", text)[0] for text in out)
    assert not any("certify(X" in text for text in out)
    assert again.startswith(f"fit KMeans {data} --target kind --set=n_clusters=4")
    assert again.endswith("--set max_iter=10 --set tol=1e-05")
    assert "raise max_iter" not in invoke(*shlex.split(again.replace("=10", "=300")))
    assert check == f"certify {saved} {data} --target kind"
    assert "certify(X" not in invoke("info", saved)


@pytest.mark.parametrize(
    ("advice", "changes"),
    [
        ("lower tol and raise max_iter", {"tol": "1e-05", "max_iter": "3000"}),
        ("raise max_iter, or lower tol", {"max_iter": "3000", "tol": "1e-05"}),
        ("a local optimum: raise n_init, or raise max_iter", {"n_init": "10"}),
        ("lower n_clusters, or use a mixture", {"n_clusters": "7"}),
        ("lower n_clusters to 5", {"n_clusters": "5"}),
        ("pass algorithm='lloyd', or raise max_iter", {"algorithm": "lloyd"}),
        ("lower the rank, or raise reg", {}),
        ("do not use this model; fit it again", {}),
    ],
)
def test_the_parameters_in_advice_are_moved_by_a_step(advice, changes):
    assert changes_in(advice, lemmata.KMeans()) == changes


def test_labelled_texts_are_fitted_and_a_line_without_label_is_named(tmp_path):
    from lemmata.cli.words import read_labelled

    (tmp_path / "t.txt").write_text("__label__x a b\n__label__y c d\nno label\n")
    with pytest.raises(ValueError, match=r"line 3 of .* begins with 'no'"):
        read_labelled(str(tmp_path / "t.txt"))
    (tmp_path / "t.txt").write_text("__label__x a b\n__label__y c d\n" * 4)
    model = tmp_path / "m.lemma"
    assert "FastTextClassifier" in invoke(
        "fit", "fasttextclassifier", tmp_path / "t.txt", "--save", model
    )
    (tmp_path / "new.txt").write_text("__label__x a b\nc d\n")
    assert invoke("predict", model, tmp_path / "new.txt").split()[1:] == ["x", "y"]
    assert "beats_one_answer" in invoke("certify", model, tmp_path / "t.txt")
    told = CliRunner().invoke(cli.app, ["evaluate", str(model), str(tmp_path / "t.txt")])
    assert "accuracy" in told.output
    assert "pass --train FILE" in told.output


def test_a_path_of_penalties_is_not_evaluated(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 3))
    lemmata.save(lemmata.LassoPath().fit(X, X[:, 0]), tmp_path / "m.lemma")
    np.save(tmp_path / "x.npy", X)
    told = CliRunner().invoke(
        cli.app, ["evaluate", str(tmp_path / "m.lemma"), str(tmp_path / "x.npy")]
    )
    assert "fit Lasso or LassoCV" in told.stderr


def test_vectors_of_glove_begin_with_the_first_word(tmp_path):
    (tmp_path / "glove.txt").write_text("the 0.1 0.2\nof 0.3 0.1\ncat 0.5 0.1\n")
    found = invoke("nearest", tmp_path / "glove.txt", "the")
    assert {line.split()[0] for line in found.splitlines()} == {"of", "cat"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_behind_stdout_is_told():
    with open("/dev/full", "w") as full:
        found = subprocess.run(
            [*COMMAND, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert found.returncode == 1
    assert found.stderr == "lemmata: No space left on device.\n"
