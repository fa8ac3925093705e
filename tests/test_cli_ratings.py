"""The command line with ratings: fit, certify, transform, diagnose, recommend, and what they answer to bad input."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from cli_invoke import invoke
from typer.testing import CliRunner

import lemmata
from lemmata import cli
from lemmata.completion import Observed

COMMAND = [sys.executable, "-c", "from lemmata.cli import main; main()"]
FILMS = ["alien", "brazil", "clue", "dune", "eraserhead", "fargo", "gilda", "heat", "ikiru", "jaws"]


def ratings(rng, users=40):
    """Users with even numbers like the first half of the films, the others the second; two thirds of it is known."""
    likes = (np.arange(users)[:, None] % 2) == (np.arange(10) >= 5)
    return np.where(
        rng.random((users, 10)) < 0.67,
        np.where(likes, 5.0, 1.0) + rng.normal(0, 0.1, (users, 10)),
        np.nan,
    )


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with ratings, one per line and as a table with holes, and models fitted to both."""
    folder = tmp_path_factory.mktemp("ratings")
    X = ratings(np.random.default_rng(0))
    np.save(folder / "table.npy", X)
    known = [(100 + i, FILMS[j], float(X[i, j])) for i, j in np.argwhere(np.isfinite(X))]
    lines = [f"{film},{value!r},{user},ignored" for user, film, value in known]
    (folder / "ratings.csv").write_text("film,stars,who,note\n" + "\n".join(lines) + "\n")
    plain = [f"{user},{film},{max(value, 0):.1f}" for user, film, value in known]
    (folder / "plain.csv").write_text("user,item,rating\n" + "\n".join(plain) + "\n")
    cells = [[f"{value!r}" if np.isfinite(value) else "" for value in row.tolist()] for row in X]
    rows = [",".join([f"u{i}", *row]) for i, row in enumerate(cells)]
    (folder / "table.csv").write_text(",".join(["who", *FILMS]) + "\n" + "\n".join(rows) + "\n")
    invoke("fit", "als", folder / "ratings.csv", *COLUMNS, *SETTINGS, "--save", folder / "m.lemma")
    invoke("fit", "ALS", folder / "table.csv", *TABLE, *SETTINGS, "--save", folder / "t.lemma")
    return folder


COLUMNS = ("--user", "who", "--item", "film", "--rating", "stars")
TABLE = ("--matrix", "--user", "who")
SETTINGS = ("-s", "rank=2", "-s", "reg=0.01", "-s", "random_state=0")


def certified(*arguments):
    """The certificate, whether or not a claim fails."""
    result = CliRunner().invoke(cli.app, ["certify", *map(str, arguments), "--json"])
    assert result.exit_code in (cli.OK, cli.NOT_CERTIFIED), result.output
    return json.loads(result.stdout)


def test_ratings_are_fitted_with_their_names(work):
    model, X = lemmata.load(work / "m.lemma"), np.load(work / "table.npy")
    assert model.observed_.row_labels.names.tolist() == list(range(100, 140))
    assert model.observed_.column_labels.names.tolist() == FILMS
    np.testing.assert_allclose(model.observed_.dense(), X, rtol=1e-6)
    table = lemmata.load(work / "t.lemma")
    assert table.observed_.row_labels.names.tolist() == [f"u{i}" for i in range(40)]
    assert table.observed_.column_labels.names.tolist() == FILMS
    np.testing.assert_array_equal(table.observed_.dense(), X)


def test_certify_reads_the_same_ratings_in_any_order(work, tmp_path):
    expected = certified(work / "m.lemma", work / "ratings.csv", *COLUMNS)
    head, *lines = (work / "ratings.csv").read_text().splitlines()
    (tmp_path / "turned.csv").write_text("\n".join([head, *reversed(lines)]))
    assert certified(work / "m.lemma", tmp_path / "turned.csv", *COLUMNS) == expected
    assert {claim["verdict"] for claim in expected["claims"]} <= {"holds", "fails", "can't tell"}


def test_certify_refuses_ratings_of_others(work, tmp_path):
    (tmp_path / "other.csv").write_text("who,film,stars\n100,alien,3\n999,alien,3\n")
    assert "the row 999 is not in the data" in invoke(
        "certify", work / "m.lemma", tmp_path / "other.csv", code=1
    )
    (tmp_path / "new.csv").write_text("who,film,stars\n100,zorro,3\n101,alien,2\n")
    assert "the column zorro" in invoke("certify", work / "m.lemma", tmp_path / "new.csv", code=1)
    assert "X has 3 features" in invoke(
        "certify", work / "m.lemma", saved(tmp_path / "x.npy", np.ones((2, 3))), code=1
    )


def saved(path, X):
    np.save(path, X)
    return path


def test_what_is_held_out_is_measured_and_certified(work, tmp_path):
    arguments = (
        "fit",
        "als",
        work / "ratings.csv",
        *COLUMNS,
        *SETTINGS,
        "--test",
        "0.2",
        "--seed",
        "3",
    )
    found = json.loads(invoke(*arguments, "--save", tmp_path / "m.lemma", "--json"))
    train, test = Observed.from_file(work / "ratings.csv", "who", "film", "stars").split(
        0.2, seed=3
    )
    model = lemmata.load(tmp_path / "m.lemma")
    assert found["test"]["entries"] == test.n_observed
    assert found["test"]["rmse"] == pytest.approx(-model.score(test), rel=1e-5)
    assert found["test"]["rmse"] < 0.5  # the mean of all would be off by 2
    np.testing.assert_array_equal(model.observed_.values, train.values)
    held_out = {claim["name"]: claim for claim in found["certificate"]["claims"]}["held_out_error"]
    assert held_out["verdict"] != "can't tell" or "entries leave" in held_out["note"]
    assert model.certificate_["held_out_error"].note == held_out["note"]
    assert "held out: 20% of the entries, seed 3" in invoke(*arguments)
    split = (*COLUMNS, "--test", "0.2", "--seed", "3")
    again = certified(tmp_path / "m.lemma", work / "ratings.csv", *split)
    assert {claim["name"]: claim["note"] for claim in again["claims"]}[
        "held_out_error"
    ] == held_out["note"]


def test_recommend_prints_lists_and_takes_names_as_they_are_typed(work):
    model = lemmata.load(work / "m.lemma")
    expected = model.recommend(102, n=2)
    lines = invoke("recommend", work / "m.lemma", "--user", "102", "-n", "2").splitlines()
    assert lines[0] == "user 102"  # an int in the data, text on the shell
    assert [line.split()[1] for line in lines[1:3]] == expected.items.tolist()
    assert lines[-1].startswith("beside popularity: not measured; fit with --test 0.1")
    found = json.loads(
        invoke("recommend", work / "m.lemma", "-u", 102, "-u", 103, "-n", 2, "--json")
    )
    assert [entry["user"] for entry in found["recommendations"]] == [102, 103]
    assert [
        pair["item"] for pair in found["recommendations"][0]["items"]
    ] == expected.items.tolist()
    table = json.loads(invoke("recommend", work / "t.lemma", "--user", "u2", "-n", 2, "--json"))
    assert table["recommendations"][0]["user"] == "u2"
    everything = json.loads(
        invoke("recommend", work / "m.lemma", "-u", 102, "-n", 99, "--seen", "--json")
    )
    assert {pair["item"] for pair in everything["recommendations"][0]["items"]} == set(FILMS)


def test_recommend_takes_ratings_and_fits_what_ranks(work):
    text = invoke("recommend", work / "plain.csv", "--user", "102", "-n", "3")
    assert text.startswith("user 102")
    assert "beside popularity: NDCG@10" in text
    assert "implicit feedback" in text
    found = json.loads(invoke("recommend", work / "plain.csv", "--user", "102", "--json"))
    assert found["beside_popularity"].startswith("beside popularity: NDCG@10")
    model = lemmata.ALS(rank=10, feedback="implicit", random_state=0)
    expected = model.fit(Observed.from_file(work / "plain.csv")).recommend(102, n=10)
    items = [pair["item"] for pair in found["recommendations"][0]["items"]]
    assert items == [item for item in expected.items.tolist() if item is not None]


def test_what_was_measured_beside_popularity_is_said_with_every_list(work, tmp_path):
    fit = (
        "fit",
        "als",
        work / "plain.csv",
        *SETTINGS,
        "--set",
        "feedback=implicit",
        "--test",
        "0.2",
    )
    text = invoke(*fit, "--save", tmp_path / "m.lemma")
    assert "popularity" in text
    assert "RMSE" not in text
    assert "implicit feedback" in text
    assert "ranks_above_popularity" in text
    lists = invoke("recommend", tmp_path / "m.lemma", "--user", "102")
    note = lemmata.load(tmp_path / "m.lemma").certificate_["ranks_above_popularity"].note
    assert f"popularity: {note}" in lists
    assert "NDCG@10" in note


def test_items_are_left_out_as_asked(work):
    model = lemmata.load(work / "m.lemma")
    first = model.recommend(102, n=1).items[0]
    text = invoke("recommend", work / "m.lemma", "-u", 102, "--exclude", first)
    assert first not in text
    bare = json.loads(invoke("recommend", work / "m.lemma", "-u", 102, "--damping", 0, "--json"))
    items = [pair["item"] for pair in bare["recommendations"][0]["items"]]
    expected = model.recommend(102, damping=0)
    assert items == [item for item in expected.items.tolist() if item is not None]
    assert "nothing is left" in invoke("recommend", work / "m.lemma", "-u", 102, "--min-count", 999)


def test_diagnose_knows_that_all_cells_count_with_implicit_feedback(work):
    text = invoke("diagnose", work / "plain.csv", "--rank", 2, "--implicit")
    assert "all 400 cells of 40 × 10: implicit feedback" in text
    found = json.loads(invoke("diagnose", work / "plain.csv", "--rank", 2, "--implicit", "--json"))
    assert found["entries"] == 400
    assert found["ok"]


def test_titles_do_not_steer_the_terminal(work, tmp_path):
    path = tmp_path / "r.csv"
    lines = [
        f"{u},\x1b[2Jfilm {i},{1 + (u * i) % 5}" for u in range(6) for i in range(6) if (u + i) % 3
    ]
    path.write_text("user,item,rating\n" + "\n".join(lines))
    assert "\x1b" not in invoke("recommend", path, "--user", "1")


def test_more_users_than_a_screen_holds_are_printed_all_the_same(work):
    many = [part for i in range(100, 108) for part in ("--user", i)]
    out = invoke("recommend", work / "m.lemma", *many, "-n", 1)
    assert [line.split()[1] for line in out.splitlines() if line.startswith("user")] == [
        str(i) for i in range(100, 108)
    ]


def test_recommend_answers_a_new_user_and_explains(work):
    # somebody who likes the second half of the films
    arguments = ("--rated", "jaws=5", "--rated", "heat=5", "--rated", "alien=1")
    found = json.loads(invoke("recommend", work / "m.lemma", *arguments, "-n", 3, "--json"))
    assert {pair["item"] for pair in found["recommendations"][0]["items"]} == {
        "fargo",
        "gilda",
        "ikiru",
    }
    text = invoke("recommend", work / "m.lemma", *arguments, "--explain", "ikiru", "-n", 2)
    assert text.startswith("a new user, item ikiru: ")
    assert "other rating" in text
    (why,) = json.loads(
        invoke("recommend", work / "m.lemma", "-u", 102, "--explain", "dune", "--json")
    )["explanations"]
    parts = why["mean"] + why["row_bias"] + why["column_bias"] + why["others"] + why["remainder"]
    parts += sum(rating["contribution"] for rating in why["ratings"])
    assert why["user"] == 102
    assert parts == pytest.approx(why["prediction"], abs=1e-6)


def test_wrong_names_and_wrong_usage_are_answered_in_one_line(work, tmp_path):
    model = work / "m.lemma"
    assert "no user '4x'; it has 40, such as 100, 101, 102" in invoke(
        "recommend", model, "--user", "4x", code=1
    )
    assert "no item 'diune'; did you mean 'dune'?" in invoke(
        "recommend", model, "--user", 102, "--explain", "diune", code=1
    )
    assert "say for whom" in invoke("recommend", model, code=2)
    assert "say for whom" in invoke("recommend", model, "--user", 102, "--rated", "dune=3", code=2)
    assert "ITEM=RATING" in invoke("recommend", model, "--rated", "dune", code=2)
    assert "ITEM=RATING" in invoke("recommend", model, "--rated", "dune=nan", code=2)
    assert "-n" in invoke("recommend", model, "--user", 102, "-n", 0, code=2)
    assert "is for completion models; PCA" in invoke(
        "fit", "pca", work / "table.npy", "--test", "0.1", code=2
    )
    assert "--matrix" in invoke("fit", "als", work / "ratings.csv", "--drop", "note", code=2)
    assert "not a share" in invoke(
        "fit", "als", work / "ratings.csv", *COLUMNS, "--test", "10", code=2
    )
    assert "this is a matrix" in invoke("fit", "als", work / "table.npy", "--item", "a", code=2)
    invoke(
        "fit",
        "pca",
        saved(tmp_path / "full.npy", np.eye(5)),
        "-s",
        "n_components=1",
        "--save",
        tmp_path / "p.lemma",
    )
    assert "a PCA recommends nothing" in invoke(
        "recommend", tmp_path / "p.lemma", "--user", 1, code=1
    )


def test_models_without_names_are_asked_by_position(work, tmp_path):
    invoke("fit", "als", work / "table.npy", *SETTINGS, "--save", tmp_path / "m.lemma")
    found = json.loads(invoke("recommend", tmp_path / "m.lemma", "--user", 0, "-n", 1, "--json"))
    assert 0 <= found["recommendations"][0]["items"][0]["item"] < 10
    assert "0 to 39" in invoke("recommend", tmp_path / "m.lemma", "--user", 40, code=1)
    assert "0 to 39" in invoke("recommend", tmp_path / "m.lemma", "--user", "ann", code=1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("who,film,stars\n1,a,5\n1,b\n", "line 3"),
        ("who,film,stars\n1,a,5\n1,b,good\n", "good"),
        ("who,film,stars\n1,a,5\n1,a,4\n", "duplicates="),
        ("who,film\n1,a\n", "three"),
    ],
)
def test_bad_ratings_are_named(tmp_path, content, message):
    (tmp_path / "bad.csv").write_text(content)
    for command in (
        ("fit", "als", tmp_path / "bad.csv"),
        ("diagnose", tmp_path / "bad.csv", "--rank", 1),
    ):
        assert message in invoke(*command, code=1)


def test_duplicates_are_resolved_as_asked(tmp_path):
    (tmp_path / "twice.csv").write_text("who,film,stars\n1,a,5\n1,b,3\n2,a,1\n2,b,4\n1,a,3\n")
    for how, value in (("last", 3.0), ("mean", 4.0)):
        arguments = ("--duplicates", how, "-s", "rank=1", "--save", tmp_path / "m.lemma")
        invoke("fit", "als", tmp_path / "twice.csv", *arguments)
        assert lemmata.load(tmp_path / "m.lemma").observed_.values[0] == value


def test_diagnose_says_what_can_be_determined(work):
    out = invoke("diagnose", work / "ratings.csv", *COLUMNS, "--rank", 2)
    assert out.startswith("rank 2 from ")
    found = json.loads(invoke("diagnose", work / "table.csv", *TABLE, "--rank", 2, "--json"))
    assert found["shape"] == [40, 10]
    assert found["degrees_of_freedom"] == 2 * 48
    assert "--rank" in invoke("diagnose", work / "ratings.csv", code=2)
    assert "no rank of a 40 × 10 matrix" in invoke(
        "diagnose", work / "table.npy", "--rank", 11, code=1
    )


def test_transform_fills_the_empty_cells_of_new_rows_by_the_names_of_columns(work, tmp_path):
    (tmp_path / "new.csv").write_text(
        "jaws,heat,alien,more," + ",".join(FILMS[1:7] + FILMS[8:9]) + "\n5,5,1,7,,,,,,,\n"
    )
    lines = invoke("transform", work / "m.lemma", tmp_path / "new.csv").splitlines()
    assert lines[0].split(",") == FILMS
    row = dict(zip(FILMS, map(float, lines[1].split(",")), strict=True))
    assert (row["jaws"], row["heat"], row["alien"]) == (5, 5, 1)
    assert min(row["fargo"], row["gilda"]) > 4
    assert max(row["brazil"], row["dune"]) < 2


def test_info_shows_a_completion_model(work):
    assert "Observed(40 × 10" in invoke("info", work / "m.lemma")
    found = json.loads(invoke("info", work / "m.lemma", "--json"))
    assert found["attributes"]["observed_"]["shape"] == [40, 10]


# --- as a process -----------------------------------------------------------------------------------------------------


def test_a_model_is_read_by_a_process_that_has_imported_nothing(work):
    command = [*COMMAND, "info", str(work / "m.lemma"), "--json"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(found)["model"] == "ALS"


def test_ctrl_c_during_a_fit_to_ratings_saves_nothing(work, tmp_path, hears_ctrl_c):
    started, saved_as = tmp_path / "run.ckpt", tmp_path / "m.lemma"
    endless = [
        "-s",
        "tol=0",
        "-s",
        "max_iter=1000000000",
        "-s",
        f"checkpoint={started}",
        "--save",
        str(saved_as),
    ]
    command = [*COMMAND, "fit", "als", str(work / "ratings.csv"), *COLUMNS, *SETTINGS, *endless]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, preexec_fn=hears_ctrl_c, **pipes)
    try:
        deadline = time.monotonic() + 120
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
    assert not saved_as.exists()
