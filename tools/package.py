"""The package as users get it: built, installed apart without extras, and tried where nothing can be written.

    python -m tools.package                          with this Python (./run package)
    python -m tools.package PYTHON… [--sklearn 1.6.1]   with others, or with another scikit-learn than the pinned one

For each Python: a fresh environment gets the wheel; its folder is then made read-only (by a mount of its own for root, by its
permissions for others), and so is HOME. A few fits, a file, the command line and one compiled kernel have to work there.
The sdist has to hold what its own tests read.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEEDED = ("tests/conftest.py", "tests/core/core_version_1.lemma", "tools/peers.json", "truth/measured.csv",
          "docs/audit.md", "docs/images/voronoi.png", "examples/reduce_digits.py", "CHANGELOG.md", "run")  # fmt: skip

TRIAL = """
import sys, time, warnings
from pathlib import Path
begin = time.perf_counter()
import lemmata
from sklearn.datasets import load_digits
out, X = Path(sys.argv[1]), load_digits().data
models = {
    "PCA": lemmata.PCA(5).fit(X),
    "KMeans": lemmata.KMeans(10, random_state=0).fit(X),
    "GaussianMixture": lemmata.GaussianMixture(3, covariance_type="diag", random_state=0).fit(X),
}
assert models["KMeans"].predict(X).shape == (1797,)
for name, model in models.items():
    assert not model.certificate_.broken, model.certificate_
    lemmata.save(model, out / f"{name}.lemma")
    assert type(lemmata.load(out / f"{name}.lemma")).__name__ == name
print(f"  three models fitted, saved and loaded: {time.perf_counter() - begin:.1f} s, numba", "numba" in sys.modules)
begin = time.perf_counter()
with lemmata.config(compile="always"):
    compiled = lemmata.KMeans(10, init=X[:10], n_init=1).fit(X)
plain = lemmata.KMeans(10, init=X[:10], n_init=1).fit(X)
assert abs(compiled.inertia_ / plain.inertia_ - 1) < 1e-9
print(f"  compiled where nothing can be cached: {time.perf_counter() - begin:.1f} s")
"""


def call(*words: object, **options: object) -> str:
    """Run a command; what it prints is shown if it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, words))[:200]}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
        )
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    tools = folder / "build"
    venv.create(tools, with_pip=True)
    call(tools / "bin/pip", "install", "-q", "-c", ROOT / "constraints.txt", "hatchling")
    call(tools / "bin/python", "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def missing_from(sdist: Path) -> list[str]:
    """What the tests inside of an sdist need and do not find there."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    return [name for name in NEEDED if name not in names]


def install(python: Path, wheel: Path, folder: Path, sklearn: str | None) -> Path:
    """A fresh environment of this Python with the wheel, and nothing that the wheel does not ask for."""
    home = folder / f"{python.parent.parent.name}-{sklearn or 'pinned'}"
    call(python, "-m", "venv", home)
    pins = folder / "pins.txt"
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    kept = [
        line
        for line in lines
        if not (sklearn and line.startswith(("scikit-learn=", "scipy=", "numpy=")))
    ]
    pins.write_text("\n".join([*kept, *([f"scikit-learn=={sklearn}"] if sklearn else [])]))
    call(home / "bin/pip", "install", "-q", "-c", pins, wheel)
    return home


def try_out(home: Path, folder: Path) -> None:
    """Fits, files and the command line, in an environment that cannot be written to."""
    out = folder / f"out-{home.name}"
    (home / "user").mkdir()
    out.mkdir()
    (folder / "trial.py").write_text(TRIAL)
    begin = time.perf_counter()
    print(read_only(home, home / "bin/python", folder / "trial.py", out), end="")
    for words in (["models"], ["fit", "pca", out / "x.csv", "--set", "n_components=2", "--save", out / "m.lemma"],
                  ["certify", out / "m.lemma", out / "x.csv"], ["demo", "--out", out / "demo.png"]):  # fmt: skip
        if words[0] == "fit":
            rows = [",".join(str((i * j) % 7 + 0.1 * j) for j in range(1, 5)) for i in range(1, 40)]
            (out / "x.csv").write_text("a,b,c,d\n" + "\n".join(rows) + "\n")
        read_only(home, home / "bin/lemmata", *words)
    print(f"  the command line, the demo included: in all {time.perf_counter() - begin:.1f} s")


def read_only(home: Path, *words: object) -> str:
    """Run a command while its environment, with HOME inside, is read-only."""
    settings = {**os.environ, "HOME": str(home / "user"), "PYTHONDONTWRITEBYTECODE": "1"}
    for name in (
        "PYTHONPATH",
        "NUMBA_CACHE_DIR",
        "XDG_CACHE_HOME",
        "LEMMATA_DATA",
        "LEMMATA_CACHE",
    ):
        settings.pop(name, None)
    if os.geteuid() == 0:  # root may write anywhere but to a read-only mount
        mount = f'mount --bind {home} {home} && mount -o remount,ro,bind {home} && exec "$@"'
        return call("unshare", "-m", "sh", "-c", mount, "sh", *words, env=settings, cwd="/")
    call("chmod", "-R", "a-w", home)
    try:
        return call(*words, env=settings, cwd="/")
    finally:
        call("chmod", "-R", "u+w", home)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.package", description=__doc__)
    parser.add_argument(
        "pythons", nargs="*", type=Path, default=[Path(sys.base_prefix) / "bin/python3"]
    )
    parser.add_argument(
        "--sklearn", help="another version of scikit-learn, with the NumPy and SciPy it takes"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lemmata-package-") as name:
        folder = Path(name)
        wheel, sdist = build(folder)
        print(
            f"{wheel.name} {wheel.stat().st_size / 1e6:.1f} MB, {sdist.name} {sdist.stat().st_size / 1e6:.1f} MB"
        )
        if missing := missing_from(sdist):
            raise SystemExit(f"the sdist lacks {', '.join(missing)}")
        for python in asked.pythons:
            home = install(python, wheel, folder, asked.sklearn)
            versions = call(
                home / "bin/python",
                "-c",
                "import sys, sklearn, numpy; print(sys.version.split()[0], sklearn.__version__, numpy.__version__)",
            )
            print(f"Python, scikit-learn, NumPy {versions.strip()}, read-only:", flush=True)
            try_out(home, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
