"""The trusted base stays apart: what audit/ imports, and what solvers import from it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "lemmata"
AUDIT = sorted((SOURCE / "audit").rglob("*.py"))
CONTAINERS = {
    "lemmata.core.blocks",
    "lemmata.core.moments",
    "lemmata.core.runs.trace",
    "lemmata.completion.observed",
}
KERNEL = sorted((SOURCE / "audit" / "kernel").rglob("*.py"))
OUTSIDE = {"numpy", "scipy", "sklearn", "threadpoolctl", "torch", *sys.stdlib_module_names}
# functions, not solvers, that people call to certify something of their own
MAY_IMPORT_AUDIT = {
    "completion/certifying.py",
    "embedding/vectors/certifying.py",
    "generate/foreign.py",
    "completion/recovery.py",
    "clustering/lower_bounds.py",
    "linalg/projections.py",
    "nets/certifying.py",
    "language/prompts.py",  # intervals of accuracies, for people
    "selfsup/probes.py",  # comparisons with the untrained network, for people
    "topics/enumeration.py",
    "topics/held_out.py",
    "trust/fair/counts.py",  # the counts of groups and the intervals of their rates, for people
    "trust/bounds.py",  # the bounds that claims use, for people
}


def imports(path):
    """(module, name) of every import statement in a file, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("path", AUDIT, ids=[path.name for path in AUDIT])
def test_audit_imports_nothing_that_solves(path):
    for module, name in imports(path):
        own = module.startswith("lemmata.audit")
        outside = module.partition(".")[0] in OUTSIDE
        assert own or outside or module in CONTAINERS, f"{path.name} imports {module} ({name})"


@pytest.mark.parametrize("path", KERNEL, ids=[path.name for path in KERNEL])
def test_the_kernel_imports_numpy_and_scipy_and_nothing_of_ours(path):
    for module, _ in imports(path):
        own = module.startswith("lemmata.audit.kernel")
        plain = module.partition(".")[0] in {"numpy", "scipy", *sys.stdlib_module_names}
        assert own or plain, f"{path.name} imports {module}"


def test_solvers_import_from_audit_nothing_but_tuples_of_claims():
    for path in sorted(SOURCE.rglob("*.py")):
        where = str(path.relative_to(SOURCE))
        if where.startswith(("audit/", "atlas/")) or where in MAY_IMPORT_AUDIT:
            continue
        if "witness" in path.with_suffix("").parts:
            continue  # searches for what claims ask for; audit never imports them
        if "lemmata.audit" not in path.read_text():
            continue
        for module, name in imports(path):
            if where.startswith("core/") and module.startswith("lemmata.audit.kernel."):
                continue  # what prints and stores claims has to know what they are
            if module.startswith("lemmata.audit"):
                tuple_of_claims = name.isupper() and name.endswith("_CLAIMS")
                assert tuple_of_claims, f"{where} imports {module}.{name}"


SOLVING = {
    "linalg",
    "loop",
    "estimator",
    "repeat",
    "optim",
    "reduction",
    "clustering",
    "mixtures",
    "predict",
}


# libraries whose fits are known by the names of their classes, or that only some checks need
OPTIONAL = {"numba", "torch", "gensim", "tomotopy"}


def test_importing_the_audit_loads_no_solver():
    parts = [path.relative_to(SOURCE).with_suffix("").parts for path in AUDIT]
    names = [".".join(("lemmata", *one)) for one in parts if one[-1] != "__init__"]
    code = (
        f"import sys\nfor name in {names!r}: __import__(name)\n"
        f"print(*sorted(m for m in sys.modules if m in {sorted(OPTIONAL)!r} or m.startswith('lemmata.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & OPTIONAL
    for module in loaded:
        if not module.startswith("lemmata.audit."):
            assert not SOLVING & set(module.split(".")), module
