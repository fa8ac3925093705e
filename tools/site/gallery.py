"""The gallery: examples by task, in the cells of sphinx-gallery, and the atlas as a page of its pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.site import replace_text

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "build" / "examples"
IMAGES = ROOT / "docs" / "images"

# examples by what one wants to do; those that are not named here come last
TASKS = {
    "judge": "Judge a fit, whoever made it",
    "choose": "Choose a model and learn what it does",
    "predict": "Predict numbers and classes",
    "reduce": "Reduce, complete, cluster",
    "words": "Topics, words and language",
    "generate": "Networks and generation",
}
BY_TASK = {
    "judge": "certify does_the how_good how_robust honest is_it_fair terminal did_it what_is can_i",
    "choose": "which_model which_embedding explain start",
    "predict": "kernel lasso nearest read_a minimise mlp",
    "reduce": "reduce impute cluster denoise larger mixture parts recommend",
    "words": "read_topics topics word two_spaces shakespeare",
    "generate": "autoencode classify reverse train learn",
}


def task_of(stem: str) -> str:
    for task, beginnings in BY_TASK.items():
        if stem.startswith(tuple(beginnings.split())):
            return task
    return "generate"


def stage_examples() -> None:
    """Copy examples into folders by task, with the heading that sphinx-gallery asks for."""
    replace_text(
        EXAMPLES / "GALLERY_HEADER.rst", "Gallery\n=======\n\nEvery example runs as it stands.\n"
    )
    for task, words in TASKS.items():
        replace_text(EXAMPLES / task / "GALLERY_HEADER.rst", f"{words}\n{'-' * len(words)}\n\n")
    kept = set()
    for path in sorted((ROOT / "examples").glob("*.py")):
        to = EXAMPLES / task_of(path.stem) / path.name
        replace_text(to, in_cells(path.stem, path.read_text()))
        kept.add(to)
    for path in EXAMPLES.rglob("*.py"):
        if path not in kept:
            path.unlink()


def in_cells(stem: str, text: str) -> str:
    """An example as sphinx-gallery reads it: a title, and a cell for each comment that begins a paragraph."""
    _, doc, code = text.split('"""', 2)
    title = stem.replace("_", " ").capitalize()
    purpose = re.sub(r"\n\n(?:\./run py|python) \S+\n*$", "\n", doc)
    head = f'"""\n{title}\n{"=" * len(title)}\n\n{purpose.strip()}\n"""\n'
    cells = re.sub(r"\n\n((?:# .+\n)+)(?=\S)", lambda found: f"\n\n# %%\n{found[1]}\n", code)
    return head + cells


def show_atlas() -> str:
    """The page of the atlas: its pictures, what each shows, and the command that draws it again."""
    from lemmata.atlas import entries

    return "\n".join(["# Atlas", "", ATLAS, "", *_pictures(entries())]) + "\n"


ATLAS = """\
One experiment for each figure, table or exercise of the lecture notes. `lemmata atlas ID` draws it again and asserts what
it shows."""


def _pictures(known: dict) -> Iterator[str]:
    for id, entry in known.items():
        if (IMAGES / f"{id}.png").exists():
            yield f"## {entry.title}\n\n`lemmata atlas {id}` · {entry.source}\n"
            yield f"![{entry.title}](images/{id}.png)\n"
