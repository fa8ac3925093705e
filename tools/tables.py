"""Tables for the docs: models and their sources (docs/models.md), the notes item by item (docs/atlas.md), what `tol` means."""

from __future__ import annotations

from pathlib import Path

from lemmata import registry
from lemmata.core.certification.checking import main_claim
from lemmata.core.certification.explaining import COUNTS
from tools.site.choosing import write_table
from tools.site.figures import write_page

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "models.md"
CHOICE = ROOT / "docs" / "which-model.md"
README = ROOT / "README.md"
ATLAS = ROOT / "docs" / "atlas.md"


def models() -> str:
    """The table of models, as it stands in docs/models.md."""
    rows = []
    for name, entry in registry.MODELS.items():
        main = main_claim(registry.model_class(name).claims)
        foreign = ", ".join(f"`{one}`" for one in entry.counterparts)
        rows.append(f"| `{name}` | {entry.summary} | `{main}` | {entry.source} | {foreign} |")
    head = "| model | what it does | its main claim | in the notes | also certifies |"
    return "\n".join([head, "|---|---|---|---|---|", *rows])


def tasks() -> str:
    """The table of tasks in README.md."""
    rows = [
        f"| {task} | {' '.join(f'`{name}`' for name in names)} |"
        for task, names in registry.models_by_task().items()
    ]
    return "\n".join(["| task | models |", "|---|---|", *rows])


def meaning(name: str, word: str) -> str:
    """The meaning of a model's parameter, on one line; "" if it has no such parameter."""
    declared = registry.model_class(name).declared_parameters.get(word)
    return " ".join(declared.meaning.split()) if declared else ""


def tolerances() -> str:
    """The table of what `tol` means, model by model, as it stands in docs/core.md."""
    rows = []
    for name in registry.MODELS:
        parameters = registry.model_class(name)().get_params(deep=False)
        if "tol" in parameters:
            words = meaning(name, "tol").replace("|", r"\|")
            rows.append(f"| `{name}` | {parameters['tol']:g} | {words} |")
    return "\n".join(
        ["| model | default | what falls below `tol` at the end |", "|---|---|---|", *rows]
    )


def planted() -> str:
    """How many verdicts on planted cases were wrong, by claim: what `lemmata explain` says."""
    from truth.docs import read

    sums: dict[tuple[str, str], list[int]] = {}
    for row in read():
        both = sums.setdefault((row.home, row.claim), [0, 0])
        both[0] += row.false_holds + row.false_fails
        both[1] += row.no + row.yes
    lines = [f"{home},{claim},{wrong},{cases}" for (home, claim), (wrong, cases) in sums.items()]
    return "\n".join(["home,claim,wrong,cases", *sorted(lines)]) + "\n"


def main() -> None:
    """Write the tables of docs/models.md, docs/which-model.md and README.md, and the counts of `lemmata explain` again."""
    from truth.docs import fill

    before, _, _ = PAGE.read_text().partition("| model | what it does")
    PAGE.write_text(before + models() + "\n")
    COUNTS.write_text(planted())
    ATLAS.write_text(write_page())
    for path, name, table in ((CHOICE, "choose", write_table()), (README, "tasks", tasks())):
        path.write_text(fill(path.read_text(), {name: table}))


if __name__ == "__main__":
    main()
