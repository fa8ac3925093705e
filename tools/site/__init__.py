"""The site: Sphinx pages from docs/, the reference from docstrings, the gallery from examples/, the atlas from its pictures.

python -m tools.site            build/site, examples run (./run docs)
python -m tools.site --quick    the same without running the examples
python -m tools.site --links    also try every link that leads outside
"""

import re
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Write a file only where it changes: Sphinx reads again what is newer."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def escape(text: str) -> str:
    """Plain text as reST: code in single quotes becomes literal, all else means itself."""
    parts = re.split(r"(``.+?``|`[^`\n]+`)", text)
    for at, part in enumerate(parts):
        if at % 2:
            parts[at] = f"``{part.strip('`').strip()}``"
            if re.match(r"[\w*]", parts[at + 1]):
                parts[at] += "\\ "
        else:
            part = re.sub(r"_+(?!\w)|(?<!\w)_+", lambda found: r"\_" * len(found[0]), part)
            parts[at] = re.sub(r"[*|`]|\\(?!_)", lambda found: f"\\{found[0]}", part)
    return "".join(parts)
