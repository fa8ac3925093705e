"""Other libraries' fits: certified without our solvers, by claims and checks of data that are our models' own."""

import ast
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lemmata import registry
from lemmata.core.certification.certify import cost_of, stand_in
from lemmata.core.certification.counterparts import CERTIFIERS, COUNTERPARTS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "lemmata"
SOLVERS = {
    "clustering",
    "completion",
    "embedding",
    "linalg",
    "mixtures",
    "nets",
    "optim",
    "predict",
    "reduction",
    "topics",
    "trust",
}
CONTAINERS = {  # data, and what checks it
    "lemmata.completion",
    "lemmata.completion.data",
    "lemmata.completion.data.entries",
    "lemmata.completion.data.frames",
    "lemmata.completion.data.known_entries",
    "lemmata.completion.data.known_parts",
    "lemmata.completion.data.labels",
    "lemmata.completion.observed",
    "lemmata.completion.data.selection",
}

CERTIFY_ALL = """
import json, sys, warnings
warnings.simplefilter("ignore")
from tools.snapshot import foreign
verdicts = {}
for keys, fits in foreign().items():
    if keys[-1].startswith("sklearn."):
        for label, found in fits():
            verdicts[f"{keys[-1]} {label}"] = {claim.name: claim.verdict for claim in found}
print(json.dumps([verdicts, sorted(sys.modules)]))
"""


@pytest.fixture(scope="module")
def certified():
    """Verdicts about fits of all of scikit-learn's estimators that we know, and what a fresh process has loaded then."""
    done = subprocess.run(
        [sys.executable, "-c", CERTIFY_ALL], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "LEMMATA_SEARCHES": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_certifying_scikit_learns_fits_loads_no_solver(certified):
    _, loaded = certified
    ours = [name for name in loaded if name.startswith("lemmata.") and name not in CONTAINERS]
    assert not [name for name in ours if name.split(".")[1] in SOLVERS]
    assert "numba" not in loaded


def test_every_claim_ends_in_a_verdict_without_searches(certified):
    verdicts, _ = certified
    known = {name for entry in registry.MODELS.values() for name in entry.counterparts}
    fits = {name for name in known if name.startswith("sklearn.")}
    assert {label.split(" ")[0] for label in verdicts} == fits
    found = {f"{fit}: {name}": verdict for fit, claims in verdicts.items() for name, verdict in claims.items()}  # fmt: skip
    undecided = [name for name, verdict in found.items() if verdict not in ("holds", "fails", "can't tell")]  # fmt: skip
    assert not undecided


def test_one_adapter_is_loaded_for_one_model():
    code = (
        "import sys, lemmata, numpy as np; from sklearn.cluster import KMeans; X = np.eye(5);"
        "lemmata.certify(KMeans(2, n_init=1).fit(X), X); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    audit = {name for name in done.stdout.split() if name.startswith("lemmata.audit.")}
    subjects = {name.split(".")[2] for name in audit}
    assert subjects <= {"clustering", "kernel"}


@pytest.mark.parametrize("path", sorted((SOURCE / "core").glob("*.py")), ids=lambda path: path.stem)
def test_core_imports_no_model(path):
    allowed = ("lemmata.core", "lemmata.audit.kernel")
    plain = {
        "lemmata.registry",
        "lemmata.core.certification.counterparts",
        "lemmata.core.certification.pictures",
    }
    names = {"registry", "__version__"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "lemmata":
            found = [f"lemmata.{alias.name}" for alias in node.names if alias.name not in names]
        elif isinstance(node, ast.ImportFrom):
            found = [str(node.module)]
        else:
            continue
        for name in found:
            if name.split(".")[0] == "lemmata":
                assert name in plain or name.startswith(allowed), f"{path.name} imports {name}"


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_model_with_counterparts_says_how_they_are_certified():
    named = {kind for kinds, _ in CERTIFIERS for kind in kinds}
    words = {kind.rpartition(".")[2] for kind in named}
    for name, entry in registry.MODELS.items():
        theirs = {one.rpartition(".")[2] for one in entry.counterparts}
        assert (name in COUNTERPARTS) == bool(theirs - words), name
    for _, certifier in CERTIFIERS:
        assert callable(registry.resolve(certifier))


@pytest.mark.parametrize("name", COUNTERPARTS)
def test_what_stands_in_for_a_model_says_what_the_model_says(name):
    model, entry = registry.model_class(name), COUNTERPARTS[name]
    unfitted, opener = model(), stand_in(name)()
    assert type(opener).__name__ == name
    assert model.claims == registry.resolve(entry.claims)
    for flag in ("accepts_sparse", "accepts_nan", "multi_output", "flattens_column"):
        assert getattr(opener, flag, False) == getattr(unfitted, flag, False), flag
    assert isinstance(unfitted, registry.resolve(entry.base))
    assert ("X_test" in inspect.signature(model.certify).parameters) == entry.X_test
    costs = [getattr(one, "__func__", one) for one in (model.work, cost_of(name))]
    assert costs[0] is costs[1]
