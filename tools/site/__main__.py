"""Build the site into build/site; a warning is an error, with its file and line."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import webbrowser

from tools.site.staging import DOCS, PAGES, ROOT, stage

SITE = ROOT / "build" / "site"


def build(quick: bool, builder: str = "html", jobs: str = "2") -> int:
    """Prepare the pages and run Sphinx on them; its exit code."""
    stage()
    environment = {**os.environ, "LEMMATA_GALLERY": "" if quick else "1"}
    words = ["-m", "sphinx", "-b", builder, "-c", str(DOCS), "-d", str(ROOT / "build" / "trees")]
    words += ["-j", jobs, "-q", "-W", "--keep-going", "-n", str(PAGES), str(SITE)]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    )
    # staged pages have the lines of those in docs/
    print(done.stderr.replace(f"{PAGES}/", "docs/"), file=sys.stderr, end="")
    return done.returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="do not run the examples")
    parser.add_argument("--open", action="store_true", help="show the start page in a browser")
    parser.add_argument("--links", action="store_true", help="also try links that lead outside")
    asked = parser.parse_args()
    begin = time.perf_counter()
    status = build(asked.quick)
    if asked.links:
        status = build(asked.quick, "linkcheck") or status
    print(f"{SITE / 'index.html'}  {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    if asked.open and status == 0:
        webbrowser.open((SITE / "index.html").as_uri())
    return status


if __name__ == "__main__":
    sys.exit(main())
