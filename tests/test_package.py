"""The package as a whole: what `import lemmata` costs and shows, and what README says."""

import ast
import contextlib
import importlib
import io
import pkgutil
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np
import pytest

import lemmata
from lemmata import registry
from tools import tables

ROOT = Path(__file__).parent.parent
README, STORIES = (ROOT / "README.md").read_text(), (ROOT / "docs" / "stories.md").read_text()


def test_import_is_quick_because_it_loads_nothing_heavy():
    """`./run bench start` measures the time; here stands what it depends on."""
    code = (
        "import sys; before = set(sys.modules); import lemmata; print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert {name for name in loaded if "lemmata" in name} == {"lemmata", "lemmata.registry"}
    assert len(loaded) < 60  # 30 small modules of the standard library


def test_the_public_surface_is_what_the_registry_lists():
    assert set(lemmata.__all__) == {*registry.MODELS, *registry.FUNCTIONS, *registry.SUBPACKAGES}
    for name in lemmata.__all__:
        assert getattr(lemmata, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'PCS'; did you mean 'PCA'"):
        _ = lemmata.PCS


def test_all_modules_can_be_imported_together():
    """Classes that files may name have to be told apart, wherever they are defined."""
    for module in pkgutil.walk_packages(lemmata.__path__, "lemmata."):
        importlib.import_module(module.name)


def test_a_package_that_is_imported_lazily_lists_its_names_and_knows_no_others():
    for name in ("clustering", "completion", "core", "mixtures"):
        package = getattr(lemmata, name)
        assert dir(package) == sorted(package.__all__)
        for word in package.__all__:
            assert getattr(package, word) is not None
        with pytest.raises(AttributeError, match="has no attribute 'Nothing'; it has "):
            _ = package.Nothing


def test_what_tol_means_is_a_table_of_the_docstrings():
    table = tables.tolerances().splitlines()
    having = [
        name for name in registry.MODELS if "tol" in registry.model_class(name)().get_params()
    ]
    assert len(table) == 2 + len(having)
    assert all(re.fullmatch(r"\| `\w+` \| [\d.e+-]+ \| .{20,} \|", row) for row in table[2:])
    assert tables.meaning("PCA", "nonsense") == ""


def test_every_model_is_where_the_registry_says_with_a_summary():
    for name, entry in registry.MODELS.items():
        assert registry.model_class(name).__name__ == name
        assert entry.summary
        assert entry.source


def test_the_table_of_models_is_generated():
    assert tables.models() in (ROOT / "docs" / "models.md").read_text(), "run: ./run docs"


def test_the_readme_is_short_and_its_tasks_name_models():
    assert len(README.splitlines()) <= 110
    table = re.search(r"\| task \| models \|\n(.*?)\n\n", README, re.S)[1]
    assert set(re.findall(r"`(\w+)`", table)) <= set(registry.MODELS)


RATINGS = pytest.param(True, marks=pytest.mark.slow)  # whose kernels take 10 s to compile


@pytest.mark.parametrize("with_ratings", [False, RATINGS])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_blocks_of_the_stories_run_as_typed(with_ratings):
    """One after the other, as somebody who reads it would; what needs a data set is left out where there is none."""
    names: dict = {"lemmata": lemmata, "np": np}
    out = io.StringIO()
    for block in re.findall(r"```python\n(.*?)```", STORIES, re.S):
        if "movielens" in block and not with_ratings:
            continue
        with contextlib.redirect_stdout(out), contextlib.suppress(lemmata.data.DataNotFound):
            exec(compile(block, "stories.md", "exec"), names)
    shown = " ".join(out.getvalue().split())  # lines break elsewhere by what the slip is seen in
    for sentence in ("correct the mask", "(separation bound)"):
        assert sentence in shown
    assert names["theirs"].components_.shape[0] == 10


def test_what_is_private_in_scikit_learn_is_imported_by_one_module():
    """A release that moves it then breaks one file."""
    found = []
    for path in (ROOT / "src" / "lemmata").rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text if "sklearn" in text else "")):
            module = (
                (getattr(node, "module", None) or "") if isinstance(node, ast.ImportFrom) else ""
            )
            names = (
                [name.name for name in node.names]
                if isinstance(node, ast.Import | ast.ImportFrom)
                else []
            )
            paths = [f"{module}.{name}".strip(".") for name in names]
            private = [one for one in paths if one.startswith("sklearn.") and "._" in one]
            if private and path.name != "validation.py":
                found.append((path.name, private))
    assert found == []


def test_substitutes_stand_in_for_what_scikit_learn_may_move(monkeypatch):
    import sklearn.compose
    import sklearn.model_selection._search
    import sklearn.utils
    from sklearn.decomposition import PCA
    from sklearn.model_selection import GridSearchCV

    from lemmata.core import validation as borrowed

    X = np.arange(12.0).reshape(4, 3)
    for module, name in (
        (sklearn.utils, "_safe_indexing"),
        (sklearn.model_selection._search, "BaseSearchCV"),
    ):
        monkeypatch.delattr(module, name)
    source = (ROOT / "src/lemmata/core/validation.py").read_text()
    names: dict = {"__name__": "borrowed_without"}
    exec(compile(source, "borrowed.py", "exec"), names)
    for search in (borrowed.is_search, names["is_search"]):
        assert search(GridSearchCV(PCA(), {}))
        assert not search(PCA())
    assert names["choose_columns"](X, [2, 0]).tolist() == X[:, [2, 0]].tolist()


@pytest.mark.slow
def test_the_built_package_works_apart_and_read_only():
    sys.path.insert(0, str(ROOT))
    from tools import package

    if not _can_install():
        pytest.skip("no index of packages can be reached")
    done = subprocess.run(
        [sys.executable, "-m", "tools.package"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert package.NEEDED


def _can_install() -> bool:
    """Whether pip finds what builds the package."""
    words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d"]
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([*words, folder, "hatchling"], capture_output=True).returncode == 0


def test_what_sdist_has_to_hold_is_in_the_repository():
    sys.path.insert(0, str(ROOT))
    from tools.package import NEEDED

    for name in NEEDED:
        assert (ROOT / name).exists(), name


def test_every_dependency_is_described_and_every_version_is_pinned():
    text = (ROOT / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    described = (ROOT / "docs" / "dependencies.md").read_text().lower()
    pinned = (ROOT / "constraints.txt").read_text().lower()
    for asked in project["dependencies"]:
        name = re.match(r"[\w-]+", asked)[0].lower()
        assert f"| {name} |" in described, name
        assert f"\n{name}==" in f"\n{pinned}", name
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= set(project["urls"])
    for version in ("3.11", "3.12", "3.13"):
        assert f"Programming Language :: Python :: {version}" in project["classifiers"]


def test_the_changelog_begins_with_the_version_to_come_and_has_this_one():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert f"## {lemmata.__version__} (" in text


def test_pyproject_readme_and_citation_agree_on_the_version():
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)[1]
    assert lemmata.__version__ == version
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()


def test_torch_is_a_range_for_users_and_pinned_for_our_tests():
    """A pin in the package would replace the PyTorch that somebody has."""
    asked = {"pyproject.toml": {">=2.6"}, "constraints.txt": {"==2.13.0"}}
    for name, versions in asked.items():
        found = re.findall(r"\btorch\b(?!\.)([=<>~!]=?[\w.]+)?", (ROOT / name).read_text())
        assert set(found) == versions, name
