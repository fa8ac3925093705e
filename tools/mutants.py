"""Mutants: small faults put into kernels and claims, to see whether the tests notice.

    python -m tools.mutants draw mutants.json --seed 23 --count 30   half in kernels, half in the trusted base, before a change
    python -m tools.mutants run mutants.json [--only 3 17]           which of them the tests of now catch, in a copy of the tree

A mutant is one statement with one change: a comparison, an operator, a constant, a boolean. It is found again by the text of
the statement and not by its file and line, so a list drawn before a move can be run after it. Tests run are those of the
package of the file, of the claims about it and of conformance, until the first failure.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "lemmata"
SECONDS = 900  # for the tests of one mutant: a kernel that never ends is caught as well

SWAPS: dict[type, type] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def candidates(part: str) -> list[Path]:
    if part == "kernels":
        return sorted(SOURCE.rglob("_kernels*.py"))
    return sorted(path for path in (SOURCE / "audit").rglob("*.py") if path.name != "__init__.py")


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The simple statements inside of functions, docstrings left out."""
    kinds = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.If, ast.While)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            yield from (node for node in ast.walk(function) if isinstance(node, kinds))


def _head(node: ast.stmt) -> ast.AST:
    """The part of a statement that may be changed: of `if` and `while` only the condition."""
    return node.test if isinstance(node, (ast.If, ast.While)) else node


def sites(node: ast.stmt) -> list[int]:
    """Positions, in the order of ast.walk, at which the statement can be changed."""
    return [i for i, one in enumerate(ast.walk(_head(node))) if _changed(copy.deepcopy(one))]


def _changed(node: ast.AST) -> bool:
    """Change a node in place; False where there is nothing to change."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)) and type(node.op) in SWAPS:
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        node.value += 1
    elif isinstance(node, ast.Constant) and type(node.value) is float:
        node.value = node.value * 1.5 + 1e-3
    else:
        return False
    return True


def mutate(node: ast.stmt, site: int) -> None:
    assert _changed(list(ast.walk(_head(node)))[site])


def draw(seed: int, count: int) -> list[dict[str, Any]]:
    """Mutants, each of a statement whose text stands only once in the tree, all statements alike likely."""
    rng = random.Random(seed)
    found = []
    for part in ("kernels", "claims"):
        pool = []
        for path in candidates(part):
            tree = ast.parse(path.read_text())
            for node in statements(tree):
                if sites(node):
                    pool.append((path, ast.unparse(_head(node)), node))
        texts = [text for _, text, _ in pool]
        pool = [one for one in pool if texts.count(one[1]) == 1 and len(one[1]) > 20]
        for path, text, node in rng.sample(pool, count // 2):
            site = rng.choice(sites(node))
            mutate(node, site)
            found.append({
                "file": str(path.relative_to(SOURCE)), "line": node.lineno, "text": text, "site": site,
                "becomes": ast.unparse(_head(node)),
            })  # fmt: skip
    return found


def locate(mutant: dict[str, Any], source: Path) -> tuple[Path, ast.Module, ast.stmt] | None:
    """The statement in a tree: in its own file, or in whatever file it was moved to."""
    own = source / mutant["file"]
    for path in [own, *sorted(source.rglob("*.py"))]:
        if path.exists():
            tree = ast.parse(path.read_text())
            for node in statements(tree):
                if ast.unparse(_head(node)) == mutant["text"]:
                    return path, tree, node
    return None


def tests_of(path: Path) -> list[str]:
    """Tests of a file's package, of the claims about it, and the common suite, the nearest first."""
    parts = path.relative_to(SOURCE).parts
    package = parts[1] if parts[0] == "audit" else parts[0]
    own = [f"tests/{package}"] if (ROOT / "tests" / package).is_dir() else []
    claims = ["tests/audit"]
    nearest = [*claims, *own] if parts[0] == "audit" else [*own, *claims]
    return [*nearest, "tests/conformance"]


def run(mutant: dict[str, Any]) -> str:
    """Put one mutant into a copy of the tree and run its tests there: what happened."""
    folder = Path(tempfile.gettempdir()) / "lemmata-mutants"
    tree = folder / "tree"  # the same path each time, so that compiled kernels are found again
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__"))
    found = locate(mutant, tree / "src" / "lemmata")
    if found is None:
        return "not found: the statement was changed or deleted"
    path, module, node = found
    mutate(node, mutant["site"])
    path.write_text(ast.unparse(module))
    with (
        tempfile.TemporaryDirectory() as cold
    ):  # numba does not see that a kernel of another file changed
        cache = cold if path.name.startswith("_kernels") else str(folder / "cache")
        for tests in tests_of(ROOT / path.relative_to(tree)):
            failed = first_failure(tests, tree, cache)
            if failed:
                return f"caught: {failed}"
    return "SURVIVED"


def first_failure(tests: str, tree: Path, cache: str) -> str | None:
    environment = {
        **os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}", "LEMMATA_CACHE": cache, "CI": "true",
        "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2",
    }  # fmt: skip
    options = ["-n", "2", "--dist", "worksteal", "-x", "-q", "--assert=plain", "-m", "not slow"]
    command = [sys.executable, "-m", "pytest", *options, tests]
    given: dict[str, Any] = {"cwd": tree, "env": environment, "capture_output": True, "text": True}
    try:
        done = subprocess.run(command, timeout=SECONDS, **given)
    except subprocess.TimeoutExpired:
        return f"{tests} did not end"
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return (failed[0] if failed else done.stdout[-300:]) if done.returncode else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("task", choices=["draw", "run"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--only", type=int, nargs="*")
    asked = parser.parse_args()
    if asked.task == "draw":
        asked.file.write_text(json.dumps(draw(asked.seed, asked.count), indent=1))
    for number, mutant in enumerate(json.loads(asked.file.read_text())):
        text = f"{number:3} {mutant['file']}:{mutant['line']}  {mutant['text']}  →  {mutant['becomes']}"
        if asked.task == "draw":
            print(text)
        elif not asked.only or number in asked.only:
            begin = time.perf_counter()
            print(text, f"\n      {run(mutant)}  ({time.perf_counter() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
