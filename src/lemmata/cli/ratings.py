"""The commands of completion models: diagnose, recommend."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lemmata.cli.entries import (
    AsMatrix,
    Duplicates,
    ItemColumn,
    RatingColumn,
    Source,
    UserColumn,
    typed,
)
from lemmata.cli.shell import (
    ArrayName,
    AsJson,
    DataFile,
    Drop,
    Header,
    ModelFile,
    Target,
    app,
    print_json,
)  # fmt: skip
from lemmata.cli.tables import Table, completes


@app.command()
def diagnose(
    data: DataFile,
    rank: Annotated[
        int, typer.Option("--rank", "-k", min=1, metavar="INT", help="The rank in question.")
    ],
    target: Target = None,
    drop: Drop = None,
    array: ArrayName = None,
    header: Header = None,
    user: UserColumn = None,
    item: ItemColumn = None,
    rating: RatingColumn = None,
    matrix: AsMatrix = False,
    duplicates: Duplicates = None,
    as_json: AsJson = False,
) -> None:
    """Say what these ratings can determine of a matrix of some rank, before any fit."""
    from lemmata.completion import recovery

    table = Table(target, tuple(drop or ()), array, header)
    found = recovery.diagnose(
        Source(table, user, item, rating, matrix, duplicates).read(data), rank
    )
    if as_json:
        print_json(found.to_dict())
    else:
        print(found)


@app.command()
def recommend(
    file: ModelFile,
    users: Annotated[
        list[str] | None,
        typer.Option("--user", "-u", metavar="USER", help="A user of the data (repeatable)."),
    ] = None,
    rated: Annotated[
        list[str] | None,
        typer.Option(
            "--rated",
            metavar="ITEM=RATING",
            help="What a new user gave an item (repeatable), instead of --user.",
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, metavar="INT", help="How many items.")] = 10,
    seen: Annotated[
        bool, typer.Option("--seen", help="Recommend also what the user has rated.")
    ] = False,
    explain: Annotated[
        str | None,
        typer.Option(metavar="ITEM", help="Say what carried the prediction for this item instead."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recommend items to users of a completion model."""
    from lemmata import load

    if bool(users) == bool(rated):
        raise typer.BadParameter(
            "say for whom: --user USER (repeatable), or --rated ITEM=RATING (repeatable) for a new user."
        )
    model = load(file)
    if not completes(type(model)):
        raise TypeError(
            f"a {type(model).__name__} recommends nothing; fit a completion model (lemmata models)."
        )
    data = model.observed_
    names = [typed(text, data.row_labels, data.shape[0], "user") for text in users or ()]
    new = _ratings(model, rated or [])
    if explain is not None:
        item = typed(explain, data.column_labels, data.shape[1], "item")
        return _print_explained(
            [model.explain(name, item, n, ratings=new) for name in names or [None]], as_json
        )
    found = model.recommend(names or None, n, exclude_seen=not seen, ratings=new)
    if as_json:
        print_json(found.to_dict())
    else:
        print(found.text(shown=None))


def _ratings(model: Any, rated: list[str]) -> dict[Any, float] | None:
    """A new user's ratings in item=value settings."""
    ratings = {}
    for setting in rated:
        name, equals, value = setting.rpartition("=")
        try:
            rating = float(value)
        except ValueError:
            rating = float("nan")
        if not equals or rating != rating:
            raise typer.BadParameter(
                f"{setting!r} is not of the form ITEM=RATING.", param_hint="--rated"
            )
        ratings[typed(name, model.observed_.column_labels, model.observed_.shape[1], "item")] = (
            rating
        )
    return ratings or None


def _print_explained(explanations: list[Any], as_json: bool) -> None:
    if as_json:
        print_json({"explanations": [why.to_dict() for why in explanations]})
    else:
        print("\n\n".join(map(str, explanations)))
