"""docs/images: every picture of the docs, drawn by the atlas.

    python -m tools.images [ID…]       draw all, or these (./run docs-images)
    python -m tools.images --check     say which ones show other numbers than the code does now

A picture is current if its numbers are: they stand inside the PNG, so fonts and versions of matplotlib do not matter.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from lemmata import atlas
from lemmata.atlas.numbers import differences, stored_in

FOLDER = Path(__file__).parents[1] / "docs" / "images"


def outdated(drawn: Path) -> list[str]:
    """In what the picture of the docs differs from one drawn just now."""
    return differences(stored_in(FOLDER / drawn.name), stored_in(drawn))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.images", description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help="entries of the atlas; all without")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    asked = parser.parse_args()
    known, wrong = atlas.entries(), 0
    with tempfile.TemporaryDirectory() as elsewhere:
        for id in asked.ids or known:
            begin = time.perf_counter()
            path = known[id].draw(elsewhere if asked.check else FOLDER)
            found = outdated(path) if asked.check else []
            wrong += bool(found)
            print(
                f"{id:<20} {time.perf_counter() - begin:6.1f} s", *found, sep="\n    ", flush=True
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
