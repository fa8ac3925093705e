"""The site: Sphinx pages from docs/, the reference from docstrings, the gallery from examples/, the atlas from its pictures.

python -m tools.site            build/site, examples run (./run docs)
python -m tools.site --quick    the same without running the examples
python -m tools.site --links    also try every link that leads outside
"""

from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Write a file only where it changes: Sphinx reads again what is newer."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
