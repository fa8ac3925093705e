"""The gallery: examples by task, in the cells of sphinx-gallery, and the atlas as a page of its pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.site import escape, replace_text

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
    "judge": "certify does_the how_good how_robust honest is_it_fair terminal did_it can_i",
    "choose": "which draw_from",
    "predict": "kernel lasso nearest read_a minimise mlp",
    "reduce": "reduce impute cluster denoise larger mixture parts recommend",
    "words": "read_topics topics word two_spaces shakespeare",
    "generate": "autoencode classify reverse train learn",
}


# what an example is about, drawn by the atlas
PICTURES = {
    "autoencode_digits": "autoencoder-pca", "certify_a_lasso": "lasso-ridge",
    "classify_images": "vit-convnet", "cluster_and_prove": "bad-start", "denoise_patches": "sparse-denoising",
    "does_the_fit_exist": "support-vectors", "honest_bits": "model-table", "certify_a_flow": "flow-grid",
    "honest_perplexity": "three-models-of-documents", "impute_digits": "digits-table", "kernel_machines": "support-vectors",
    "larger_than_memory": "eigendigits", "reduce_digits": "pca-basis", "lasso_path": "lasso-ridge",
    "minimise_anything": "rosenbrock-race", "mixture_with_holes": "choose-k", "mlp_by_hand": "hidden-units",
    "nearest_neighbours": "curse-of-dimensionality", "parts_of_faces": "parts-of-faces", "read_a_regression": "robust-losses",
    "read_topics": "docstring-topics", "topics_of_documents": "bars", "recommend_films": "mean-ratings",
    "reverse_sequences": "attention-reversal", "train_a_network": "schedules", "which_embedding": "inner-products",
    "learn_without_labels": "labels-saved",
    "did_it_collapse": "collapse", "word_vectors": "word-arithmetic", "two_spaces_and_sentences": "nearest-words",
     "how_good_is_it_really": "bias-variance", "terminal_noise": "diffusion-score",
}  # fmt: skip


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
    purpose = escape(re.sub(r"\n\n(?:\./run py|python) \S+\n*$", "\n", doc).strip())
    head = f'"""\n{title}\n{"=" * len(title)}\n\n{purpose}\n'
    if picture := PICTURES.get(stem):
        head += f"\n.. image:: /images/{picture}.png\n   :alt: {title}\n"
        code = f"\n\n# sphinx_gallery_thumbnail_path = 'images/{picture}.png'{code}"
    return f'{head}"""\n' + re.sub(r"\n\n((?:# .+\n)+)(?=\S)", _begin_cell, code)


def _begin_cell(comment: re.Match) -> str:
    if "thumbnail_path" in comment[1]:
        return comment[0]
    lines = [f"# {escape(line[2:])}" for line in comment[1].splitlines()]
    return "\n\n" + "\n".join(["# %%", *lines]) + "\n\n"


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
