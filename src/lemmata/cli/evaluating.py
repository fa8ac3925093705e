"""A saved model on rows it was not trained on: the score, its interval, and claims about both."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lemmata.cli.advising import without_python
from lemmata.cli.shell import NOT_CERTIFIED, AsJson, DataFile, ModelFile, command, print_json, show
from lemmata.cli.tables import TableOptions, needs_target, without_names
from lemmata.cli.words import read_labelled, reads_labelled


@command
def evaluate(
    file: ModelFile,
    data: DataFile,
    *,
    table: TableOptions,
    delta: Annotated[
        float, typer.Option(metavar="RISK", help="The risk that the interval misses the score.")
    ] = 0.05,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH",
            help="The least and the largest squared error that can occur; without it nothing is said about new rows.",
        ),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The training table: test rows are looked for in it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score a saved model on new rows, with an interval.

    DATA holds rows that the model has not seen, and the column --target that it predicts. The interval speaks of rows drawn
    like these. Exits with 3 unless the certificate holds."""
    from lemmata import load
    from lemmata.trust import evaluate as evaluate_model

    model = load(file)
    if not hasattr(model, "predict"):
        raise TypeError(f"a {type(model).__name__} predicts nothing that could be compared.")
    if type(model).__name__ == "LassoPath":
        raise TypeError(
            f"a LassoPath predicts a column for each of its {len(model.alphas_)} penalties; fit Lasso or LassoCV."
        )

    def read(path: str) -> tuple[Any, Any]:
        if reads_labelled(type(model).__name__):
            return read_labelled(path)
        rows = table.read(path, model)
        needs_target(model, rows.y)
        return rows.X, rows.y

    X, y = read(data)
    known = {} if train is None else dict(zip(("train", "train_y"), read(train), strict=True))
    found = without_names(evaluate_model, model, X, y, delta, bounds=bounds, **known)
    certificate = found.certificate_
    if as_json:
        numbers = {name: getattr(found, name) for name in ("score", "lower", "upper", "n", "delta")}
        words = {"name": found.name, "method": found.method}
        print_json({**words, **numbers, "certificate": certificate.to_dict()})
    else:
        print(found)
        show(without_python(certificate), [])
    if not certificate.holds:
        raise typer.Exit(NOT_CERTIFIED)
