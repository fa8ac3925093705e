"""The site builds without a warning, from docs/, docstrings and examples; a slip in one of them fails with file and line."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # tools/ stands next to tests/

from lemmata import registry
from tools import tables
from tools.site import reference, staging
from tools.site.choosing import cost_of, write_table

pytest.importorskip("sphinx")
ROOT = Path(__file__).parents[2]


def test_every_public_name_has_a_page_and_every_model_its_claims(site):
    for one in reference.public():
        assert (site / "api" / f"{one.path}.html").exists(), one.path
    text = (site / "api" / "lemmata.KMeans.html").read_text()
    for words in (
        "certified_near_optimum",
        "n_clusters",
        "inertia_",
        "sklearn.cluster.KMeans",
        "cluster_and_prove",
    ):
        assert words in text


def test_a_page_of_the_site_loads_nothing_from_elsewhere(site):
    loads = re.compile(
        r"<(?:script|img|iframe|link(?! rel=\"canonical\"))[^>]*(?:src|href)=\"(?:https?:)?//"
    )
    for path in [
        *site.glob("*.html"),
        *site.glob("api/lemmata.K*.html"),
        *site.glob("gallery/*/*.html"),
    ]:
        assert not loads.search(path.read_text()), path


def test_the_start_page_is_small(site):
    page = (site / "index.html").read_text()
    parts = {
        site / name.partition("?")[0] for name in re.findall(r'(?:src|href)="(_[^"#]+)"', page)
    }
    size = len(page) + sum(
        path.stat().st_size for path in parts if path.suffix in (".css", ".js", ".png")
    )
    assert size <= 500_000 * 3.5  # as stored; a browser loads less: see test_docs_browser.py


def test_a_broken_link_is_reported_with_file_and_line(tmp_path):
    (tmp_path / "index.md").write_text("# Page\n\nText.\n\n[gone](nowhere.md)\n")
    shutil.copy(ROOT / "docs" / "conf.py", tmp_path / "conf.py")
    text = (tmp_path / "conf.py").read_text().replace(', "sphinx_gallery.gen_gallery"', "")
    (tmp_path / "conf.py").write_text(text)
    words = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-n",
        "-W",
        "--keep-going",
        tmp_path,
        tmp_path / "out",
    ]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    assert done.returncode
    assert re.search(r"index\.md:5: WARNING.*nowhere", done.stderr)


# --- what goes into it ------------------------------------------------------------------------------------------------


def test_links_of_pages_lead_to_their_place_in_the_site():
    text = staging.lead_links(
        "[a](../CONTRIBUTING.md) [b](../examples/reduce_digits.py) [c](core.md#files)", staging.DOCS
    )
    assert text == "[a](contributing.md) [b](gallery/reduce/reduce_digits.rst) [c](core.md#files)"
    assert "blob/main/truth" in staging.lead_links("[a](../truth/docs.py)", staging.DOCS)
    row = "| `KMeans` | k-means |"
    assert staging.lead_links(row, staging.DOCS / "measured").startswith(
        "| [`KMeans`](../api/lemmata.KMeans.rst) |"
    )


def test_text_of_docstrings_means_itself():
    assert reference.escape("mean_ of |w| and `a_b`*2") == r"mean\_ of \|w\| and ``a_b``\ \*2"


def test_every_public_docstring_is_complete():
    found = {one.path: reference.complain(one) for one in reference.public()}
    assert {path: words for path, words in found.items() if words} == {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("n_clusters : int", "n_cluster : int"), "are not those of the signature"),
        (("The number of centres", "k. The"), "has no description"),
        (("labels_ : (n,) int32", "labels_"), "has no type or shape"),
    ],
)
def test_a_slip_in_a_docstring_is_found(change, words):
    from lemmata import KMeans

    class Slipped(KMeans):
        pass

    Slipped.__doc__ = re.sub(
        r"k, the number of centres\.", "The number of centres.", KMeans.__doc__
    )
    if change[0] == "The number of centres":
        Slipped.__doc__ = re.sub(r"(n_clusters : [^\n]*\n)    [^\n]*", r"\1    k.", Slipped.__doc__)
    else:
        Slipped.__doc__ = Slipped.__doc__.replace(*change)
    assert any(words in text for text in reference.complain(reference.Name("x.Slipped", Slipped)))


def test_every_model_stands_once_in_each_table_and_has_a_cost():
    for table in (write_table(), tables.tasks()):
        names = re.findall(r"`(?:lemmata\.)?(\w+)`", re.sub(r"`lemmata[^`]*`", "", table))
        assert sorted(names) == sorted(registry.MODELS)
    assert [name for name in registry.MODELS if not cost_of(name)] == []


@pytest.mark.parametrize(("path", "part"), [(tables.CHOICE, "choose"), (tables.README, "tasks")])
def test_tables_of_models_are_those_of_the_registry(path, part):
    table = {"choose": write_table, "tasks": tables.tasks}[part]()
    assert table in path.read_text(), "run: ./run docs"


def test_explain_counts_what_the_stored_run_counted():
    assert tables.COUNTS.read_text() == tables.planted(), "run: ./run docs"


def test_the_index_of_the_search_knows_models_and_claims(site):
    index = (site / "searchindex.js").read_text()
    content = json.loads(index[index.index("{") : index.rindex("}") + 1])
    assert {"kmean", "subspace_determin"} <= {
        word[: len("subspace_determin")] for word in content["terms"]
    } | set(content["terms"])
