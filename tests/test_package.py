"""The package as a whole: what `import lemmata` costs and shows, and what README says."""

import contextlib
import io
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lemmata
from lemmata import registry
from lemmata.core.showing import as_text

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_import_is_quick_and_loads_nothing_heavy():
    code = "import sys, lemmata; print(sorted({'numpy', 'numba', 'torch', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    timings = []
    for _ in range(5):
        begin = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        timings.append(time.perf_counter() - begin)
        assert done.stdout.strip() == "[]"
    bare = []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare.append(time.perf_counter() - begin)
    assert min(timings) - min(bare) < 0.1


def test_the_public_surface_is_what_the_registry_lists():
    assert set(lemmata.__all__) == {*registry.MODELS, *registry.FUNCTIONS, *registry.SUBPACKAGES}
    for name in lemmata.__all__:
        assert getattr(lemmata, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'PCS'; did you mean 'PCA'"):
        _ = lemmata.PCS


OLD_NAMES = (
    "Bernoulli Categorical EMAlgorithm Family GaussianMixture KMeans LightweightCoreset Mixture Multinomial Poisson "
    "certified_gap d2_sampling elbo greedy_d2_sampling kmeans_parallel random_rows seeding_factor select"
)


def test_the_old_name_of_two_packages_works_and_warns():
    sys.modules.pop("lemmata.latent", None)
    vars(lemmata).pop("latent", None)
    with pytest.warns(FutureWarning, match="lemmata.latent is now lemmata.clustering"):
        latent = lemmata.latent
    assert set(OLD_NAMES.split()) <= set(latent.__all__) == set(dir(latent))
    for name in OLD_NAMES.split():
        new = next(new for new in (lemmata.clustering, lemmata.mixtures) if name in new.__all__)
        assert getattr(latent, name) is getattr(new, name)
    assert latent.KMeans is lemmata.KMeans
    assert latent.GaussianMixture is lemmata.GaussianMixture
    with pytest.raises(AttributeError, match=r"see lemmata.clustering and lemmata.mixtures"):
        _ = latent.KMean
    assert "latent" not in lemmata.__all__
    sys.modules.pop("lemmata.latent")
    with pytest.warns(FutureWarning) as seen:  # at the line that imports it
        exec(compile("import lemmata.latent", __file__, "exec"), {})
    assert seen[0].filename == __file__


def test_a_package_that_is_imported_lazily_lists_its_names_and_knows_no_others():
    for name in ("clustering", "completion", "core", "mixtures"):
        package = getattr(lemmata, name)
        assert dir(package) == sorted(package.__all__)
        for word in package.__all__:
            assert getattr(package, word) is not None
        with pytest.raises(AttributeError, match="has no attribute 'Nothing'; it has "):
            _ = package.Nothing


def test_what_tol_means_is_a_table_of_the_docstrings():
    table = registry.tolerances().splitlines()
    assert len(table) == 2 + len(registry.MODELS)
    assert all(re.fullmatch(r"\| `\w+` \| [\d.e+-]+ \| .{20,} \|", row) for row in table[2:])
    assert registry.parameter("PCA", "nonsense") == ""


def test_every_model_is_where_the_registry_says_with_a_summary():
    for name, entry in registry.MODELS.items():
        assert registry.model_class(name).__name__ == name
        assert entry.summary
        assert entry.source


def test_the_table_of_models_in_the_readme_is_generated():
    assert registry.markdown() in README, (
        "run: ./run py -c 'import lemmata.registry as r; print(r.markdown())'"
    )


def test_the_readme_example_prints_what_the_readme_shows():
    """Digits are masked where rounding decides; verdicts, sentences and layout of a terminal of 110 columns are compared."""
    code, shown = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", README, re.S).groups()
    names: dict = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, "README.md", "exec"), names)
    assert "print(model.certificate_)" in code

    def masked(text):
        return re.sub(r"\s+", " ", re.sub(r"\d+(\.\d+)?(e-\d+)?", "#", text)).strip()

    assert masked(as_text(names["model"].certificate_, width=110)) == masked(shown)


def test_pyproject_readme_and_citation_agree_on_the_version():
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)[1]
    assert lemmata.__version__ == version
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()


def test_torch_is_pinned_wherever_it_is_asked_for():
    for name in ("pyproject.toml", "constraints.txt"):
        asked = re.findall(r"\btorch\b([=<>~!]=?[\w.]+)?", (ROOT / name).read_text())
        assert set(asked) == {"==2.13.0"}, name
