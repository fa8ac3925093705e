"""The docs say what the code says: claims, sizes, links, and the model that CONTRIBUTING.md builds."""

import ast
import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # truth/ and tools/ stand beside tests/

from tools import house, migration, surfaces, tables
from truth import docs

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
AUDIT = docs.PAGE.read_text()
REFRESH = "run: ./run py -m truth.docs"


@pytest.fixture(params=PAGES, ids=[path.name for path in PAGES])
def page(request):
    return request.param


# --- the page about the trusted base ----------------------------------------------------------------------------------


def without_sizes(text):
    """Any line of code changes how much there is to read; `./run docs` follows when it is run."""
    return re.sub(r"[\d,]+ lines in \d+ files?", "", text)


@pytest.mark.parametrize("name", ["claims", "summary"])
def test_the_tables_of_claims_are_those_of_the_code_and_of_the_stored_run(name):
    assert without_sizes(docs.sections()[name]) in without_sizes(AUDIT), REFRESH


def test_the_stated_sizes_are_right_within_five_percent():
    stated = re.findall(r"^\| ([\w ]+) \| `[^|]+ \| ([\d,]+) \| ([\d,]+) \|$", AUDIT, re.M)
    found = list(docs.sizes())
    assert [part for part, *_ in stated] == [part for part, *_ in found], REFRESH
    for (_, lines, code), (_, true_lines, true_code) in zip(stated, found, strict=True):
        assert int(lines.replace(",", "")) == pytest.approx(true_lines, rel=0.05), REFRESH
        assert int(code.replace(",", "")) == pytest.approx(true_code, rel=0.05), REFRESH


def test_code_is_counted_without_blank_lines_comments_and_docstrings(tmp_path):
    path = tmp_path / "some.py"
    path.write_text(
        '"""Two\nlines."""\n\nx = 1  # one\n# none\n\n\ndef f():\n    """Said."""\n    return """\n\na"""\n'
    )
    assert len(house.code_lines(path)) == 5


def test_the_readme_counts_the_verdicts_of_the_stored_run():
    assert docs.count_proofs(docs.read()) in docs.README.read_text(), REFRESH


def test_every_claim_was_seen_true_and_false_on_planted_problems():
    assert docs.untested() == []


def test_no_claim_was_wrong_more_often_than_it_says():
    assert docs.complaints(docs.read()) == []


def test_the_stored_run_knows_no_claim_and_no_suite_that_is_gone():
    claims = {(one.home, one.statement.name) for one in docs.listed()}
    suites = {suite.name for suite in docs.suites()}
    for row in docs.read():
        assert (row.home, row.claim) in claims, row
        assert row.suite in suites, row


def test_every_model_begins_with_the_two_claims_that_begin_every_certificate():
    from lemmata import registry

    for name in registry.MODELS:
        first = [statement.name for statement in registry.model_class(name).claims[:2]]
        assert first == ["attributes_sound", "statements_true"], name


def test_what_tol_means_is_said_in_the_words_of_the_docstrings():

    assert tables.tolerances() in docs.CORE.read_text(), REFRESH


def test_a_suite_is_counted_with_the_module_of_each_claim_and_stored(monkeypatch, tmp_path):
    import lemmata
    from lemmata.core import PROVED
    from truth.harness import Case, Suite, count

    X = np.random.default_rng(0).normal(size=(50, 4))

    def make(seed):
        model = lemmata.PCA(2).fit(X)
        yield Case("sound", model.certify(X), {"orthonormal_basis": True})
        model.components_ = 2 * model.components_
        yield Case("scaled", model.certify(X), {"orthonormal_basis": seed == 1})

    homes = {}
    (tally,) = count([docs._watched(Suite(make, seeds=2, quick=1), homes)])
    assert homes == {"orthonormal_basis": "reduction.pca"}
    assert (tally.no, tally.false_holds, tally.yes, tally.false_fails) == (1, 0, 3, 1)
    row = docs.Measured(
        "reduction.pca", "orthonormal_basis", "toys.make", PROVED, np.nan, 1, 0, 3, 1, 0, 0, 0
    )
    monkeypatch.setattr(docs, "STORED", tmp_path / "measured.csv")
    docs.write([row])
    assert str(docs.read()) == str([row])
    assert docs.complaints([row]) == ["reduction.pca.orthonormal_basis: 1 false fails of a proof"]
    assert "reduction.pca.orthonormal_basis" not in docs.untested()
    assert "1 of 3 (toys.make)" in docs.claim_tables([row])


def test_tables_of_claims_name_claims(page):
    claims = {one.statement.name for one in docs.listed()}
    for table in re.findall(r"^\| claim \|.*?(?=\n\n|\Z)", page.read_text(), re.M | re.S):
        rows = [row for row in table.splitlines()[2:] if row.startswith("|")]
        shown = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in rows]
        assert {name for names in shown for name in names} <= claims


# --- the page about changing an import --------------------------------------------------------------------------------

PEERS = surfaces.read_peers()
OURS = [pair for pair in migration.PAIRS if pair.exists]


@pytest.mark.parametrize("pair", OURS, ids=[pair.theirs for pair in OURS])
def test_what_differs_from_a_counterpart_has_a_reason_and_every_reason_a_difference(pair):
    assert migration.undeclared(pair, PEERS[pair.theirs]) == []
    assert migration.stale(pair, PEERS[pair.theirs]) == []


def test_the_page_about_changing_an_import_is_made_from_the_code():
    assert migration.PAGE.read_text() == migration.page(PEERS), "run: ./run docs"


@pytest.mark.parametrize("path", sorted(PEERS))
def test_the_stored_facts_about_a_counterpart_are_those_of_its_installed_version(path):
    if not migration.current(path, PEERS[path]):
        pytest.skip(f"{path} is not installed in version {PEERS[path].version}")
    (pair,) = (pair for pair in migration.PAIRS if pair.theirs == path)
    found = surfaces.read_surface(surfaces.class_of(path), surfaces.fit(path, **pair.parameters))
    assert found == PEERS[path], "run: ./run py -m tools.migration --read"


def test_every_model_of_scikit_learn_that_we_certify_has_a_class_of_ours_to_change_to():
    from lemmata import registry

    certified = {path for entry in registry.MODELS.values() for path in entry.counterparts}
    assert certified <= {pair.theirs for pair in migration.PAIRS} | OTHER_SURFACES


# fits that are certified, of libraries whose classes nobody changes an import from: formulas, or scikit-learn's own surface
OTHER_SURFACES = {
    "sklearn.linear_model.OrthogonalMatchingPursuit",  # one code: SparseCoder's claims
    "sklearn.linear_model.SGDClassifier",
    "gensim.models.LdaModel",
    *(f"gensim.models.{name}" for name in ("Word2Vec", "FastText", "KeyedVectors")),
    "tomotopy.LDAModel",
    "statsmodels.regression.linear_model.RegressionResultsWrapper",
    "statsmodels.tsa.ar_model.AutoRegResultsWrapper",
    "statsmodels.discrete.discrete_model.BinaryResultsWrapper",
    *(f"celer.{name}" for name in ("Lasso", "LassoCV", "ElasticNet", "ElasticNetCV")),
    *(
        f"skglm.{name}"
        for name in ("Lasso", "WeightedLasso", "ElasticNet", "SparseLogisticRegression")
    ),
}


def test_a_difference_is_found_in_parameters_defaults_places_methods_and_attributes():
    theirs = surfaces.Surface(
        "1", ["k"], {"k": "2", "tol": "0.1", "gone": "None"},
        {"fit": ["X", "sample_weight"], "lost": []}, {"a_": "(2, 3)", "b_": ""},
    )  # fmt: skip
    ours = surfaces.Surface(
        "1", [], {"k": "2", "tol": "0.10"}, {"fit": ["X"], "more": []}, {"a_": "(3, 2)"}
    )
    found = {one.key: one.found for one in migration.compare(ours, theirs)}
    assert found == {
        "k": "at another place without its name",
        "gone": "not here",
        "fit()": "without sample_weight",
        "lost()": "not here",
        "a_": "(2, 3); here (3, 2)",
        "b_": "not here",
    }
    assert migration.compare(theirs, theirs) == []


# --- all pages --------------------------------------------------------------------------------------------------------


def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        file, _, anchor = target.partition("#")
        to = page.parent / file if file else page
        assert to.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.+)$", to.read_text(), re.M)
            assert anchor in [
                re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads
            ], target


def test_the_table_of_environment_variables_is_complete():
    code = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    table = re.findall(r"^\| `(LEMMATA_\w+)` \|", docs.CORE.read_text(), re.M)
    assert set(table) == set(re.findall(r"LEMMATA_[A-Z]+", code))


def test_every_picture_is_used():
    used = set(re.findall(r"images/([\w-]+\.png)", "".join(path.read_text() for path in PAGES)))
    assert used == {path.name for path in (ROOT / "docs" / "images").glob("*.png")}


def test_python_in_the_pages_is_python(page):
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        ast.parse(code)


def test_pages_use_the_names_of_today(page):
    text = page.read_text()
    for old in (
        "certificate_.unknown",
        ".unknown`",
        "plain_mixtures",
        "costly",
        "latent.md",
        "lemmata.latent",
        " anew",
        " mend",
        "both cores",
        "'s clothes",
    ):
        assert old not in text, old


def test_names_in_the_pages_exist(page):
    """`lemmata.…` in code quotes can be imported."""
    from importlib import import_module

    for name in set(re.findall(r"`(lemmata(?:\.\w+)+)(?:\(|`)", page.read_text())):
        parts = name.split(".")
        where = import_module("lemmata")
        for part in parts[1:]:
            where = getattr(where, part)


# --- the model that CONTRIBUTING.md builds ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def median():
    """The classes and claims of the skeleton."""
    module = type(sys)("median_skeleton")
    sys.modules[module.__name__] = module
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S):
        exec(compile(code, "CONTRIBUTING.md", "exec"), module.__dict__)
    yield module
    del sys.modules[module.__name__]


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).normal(size=(1000, 3))
    X[:100] += 50
    return X


def test_the_skeleton_is_certified_and_shrugs_off_wild_rows(median, rows):
    model = median.GeometricMedian().fit(rows)
    assert model.certificate_.holds
    assert model.certificate_.held == ["attributes_sound", "statements_true", "near_optimum"]
    assert np.abs(model.center_).max() < 0.2 < rows.mean(axis=0).min()
    shown = (ROOT / "CONTRIBUTING.md").read_text()
    for line in str(model.certificate_).splitlines():
        assert line.rstrip() in shown


def test_the_skeleton_fails_its_claims_where_it_should(median, rows):
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        early = median.GeometricMedian(max_iter=1).fit(rows)
    assert early.certificate_.failed == ["near_optimum"]
    model = median.GeometricMedian().fit(rows)
    model.loss_ *= 1.01
    assert model.certify(rows).failed == ["statements_true"]
    model.center_[0] = np.nan
    assert model.certify(rows).failed == ["attributes_sound"]


def test_the_skeleton_takes_blocks_and_weights(median, rows):
    whole = median.GeometricMedian(tol=1e-12).fit(rows[100:])
    weights = np.r_[np.zeros(100), np.ones(900)]
    weighted = median.GeometricMedian(tol=1e-12).fit(np.array_split(rows, 7), sample_weight=weights)
    np.testing.assert_allclose(weighted.center_, whole.center_, atol=1e-6)


def test_the_skeleton_is_an_estimator(median):
    from sklearn.utils.estimator_checks import check_estimator

    check_estimator(median.GeometricMedian(), on_skip=None)
