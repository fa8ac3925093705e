"""Tables for the docs: models and their sources (docs/models.md, which this writes), what `tol` means (docs/core.md)."""

from __future__ import annotations

from pathlib import Path

from lemmata import registry
from lemmata.core.certification.explaining import COUNTS

PAGE = Path(__file__).parents[1] / "docs" / "models.md"


def models() -> str:
    """The table of models, as it stands in docs/models.md."""
    rows = [
        f"| `{name}` | {entry.summary} | {entry.source} | {', '.join(f'`{foreign}`' for foreign in entry.counterparts)} |"
        for name, entry in registry.MODELS.items()
    ]
    return "\n".join(
        ["| model | what it does | in the notes | also certifies |", "|---|---|---|---|", *rows]
    )


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
    """Write the table of docs/models.md and the counts of `lemmata explain` again."""
    before, _, _ = PAGE.read_text().partition("| model | what it does")
    PAGE.write_text(before + models() + "\n")
    COUNTS.write_text(planted())


if __name__ == "__main__":
    main()
