"""Everything that Sphinx reads, put together in build/: docs/, the reference, examples by task, the atlas, two more pages."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lemmata import registry
from tools.site import replace_text
from tools.site.gallery import show_atlas, stage_examples, task_of
from tools.site.reference import write_reference

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = ROOT / "build" / "pages"
GITHUB = "https://github.com/lemmata/lemmata/blob/main"
# pages of the repository's root that the site has, too
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def stage() -> None:
    """Prepare everything that Sphinx reads; files that did not change keep their times."""
    kept = set()
    for path in sorted(DOCS.rglob("*")):
        to = PAGES / path.relative_to(DOCS)
        if path.suffix == ".md":
            replace_text(to, lead_links(path.read_text(), path.parent))
            kept.add(to)
        elif path.suffix == ".png":
            copy_file(path, to)
    for name, own in ROOT_PAGES.items():
        replace_text(PAGES / own, lead_links((ROOT / name).read_text(), ROOT))
        kept.add(PAGES / own)
    replace_text(PAGES / "pictures.md", show_atlas())
    kept.add(PAGES / "pictures.md")
    write_reference(PAGES / "api")
    stage_examples()
    for path in PAGES.rglob("*.md"):
        if path not in kept and "gallery" not in path.parts:
            path.unlink()


def copy_file(path: Path, to: Path) -> None:
    if not to.exists() or to.stat().st_mtime < path.stat().st_mtime:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, to)


def lead_links(text: str, folder: Path) -> str:
    """Links to files outside of docs/ lead to their page of the site, or to the repository."""

    def lead(found: re.Match) -> str:
        target, hash, anchor = found[1].partition("#")
        if re.match(r"[a-z]+:", target) or not target:
            return found[0]
        path = (folder / target).resolve()
        if not path.exists() or path.is_relative_to(DOCS):
            inside = path.is_relative_to(DOCS) and not folder.is_relative_to(DOCS)
            return f"]({path.relative_to(DOCS)}{hash}{anchor})" if inside else found[0]
        name = str(path.relative_to(ROOT))
        up = "../" * len(folder.relative_to(DOCS).parts) if folder.is_relative_to(DOCS) else ""
        if name in ROOT_PAGES:
            return f"]({up}{ROOT_PAGES[name]}{hash}{anchor})"
        if re.fullmatch(r"examples/\w+\.py", name):
            return f"]({up}gallery/{task_of(path.stem)}/{path.stem}.rst)"
        if name == "examples":
            return f"]({up}gallery/index.rst)"
        if name == "README.md":
            return f"]({up}index.md)"
        return f"]({GITHUB}/{name}{hash}{anchor})"

    text = re.sub(r"\]\(([^)\s]+)\)", lead, text)
    up = "../" * len(folder.relative_to(DOCS).parts) if folder.is_relative_to(DOCS) else ""
    # a model that begins a row of a table leads to its page
    return re.sub(r"^\| `(\w+)` \|", lambda m: _link_model(m, up), text, flags=re.M)


def _link_model(row: re.Match, up: str) -> str:
    known = row[1] in registry.MODELS
    return f"| [`{row[1]}`]({up}api/lemmata.{row[1]}.rst) |" if known else row[0]
