"""A saved model applied to the rows of a table: transform and predict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lemmata.cli.shell import (
    ArrayName,
    AsJson,
    DataFile,
    Drop,
    Header,
    ModelFile,
    Target,
    app,
    check_writable,
    print_json,
)
from lemmata.cli.tables import Table, column_names, completes, without_names

Out = Annotated[
    Path, typer.Option(metavar="FILE", help="A .csv, .csv.gz or .npy file; - is csv on stdout.")
]


@app.command()
def transform(
    file: ModelFile,
    data: DataFile,
    out: Out = Path("-"),
    target: Target = None,
    drop: Drop = None,
    array: ArrayName = None,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """Apply a saved model to a table.

    Where the model and the table have names, columns are matched by name: order and further columns do not matter.
    A completion model fills the empty cells of rows."""
    model = _loaded(file, data, out, "transform")
    rows = Table(target, tuple(drop or ()), array, header).read(data, model)
    Z = without_names(model.transform, rows.X)
    labels = column_names(model) if completes(type(model)) else None
    _write(Z, labels or [str(name) for name in model.get_feature_names_out()], out, as_json)


@app.command()
def predict(
    file: ModelFile,
    data: DataFile,
    out: Out = Path("-"),
    proba: Annotated[
        bool, typer.Option("--proba", help="The probability of each component instead.")
    ] = False,
    target: Target = None,
    drop: Drop = None,
    array: ArrayName = None,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """The cluster or component of each row of a table, by a saved model.

    Where the model and the table have names, columns are matched by name: order and further columns do not matter."""
    method = "predict_proba" if proba else "predict"
    model = _loaded(file, data, out, method)
    if completes(type(model)):
        raise TypeError(
            f"a {type(model).__name__} fills cells; use `lemmata transform` or `lemmata recommend`."
        )
    rows = Table(target, tuple(drop or ()), array, header).read(data, model)
    found = without_names(getattr(model, method), rows.X)
    name = type(model).__name__.lower()
    if proba:
        _write(found, [f"{name}{j}" for j in range(found.shape[1])], out, as_json)
    else:
        _write(found[:, None], [name], out, as_json)


def _loaded(file: Path, data: str, out: Path, method: str) -> Any:
    """The model in a file, if it has the method and there is a place for the result."""
    from lemmata import load
    from lemmata.data.write import check_format

    if str(out) != "-":
        check_format(out)
        check_writable(out, data)
    model = load(file)
    if not hasattr(model, method):
        raise TypeError(f"a {type(model).__name__} has no {method}.")
    return model


def _write(Z: Any, names: list[str], out: Path, as_json: bool) -> None:
    from lemmata.data.write import write_csv, write_matrix

    if str(out) != "-":
        write_matrix(out, Z, names)
        if as_json:
            print_json({"out": str(out), "shape": list(Z.shape), "columns": names})
    elif as_json:
        print_json({"columns": names, "rows": Z.tolist()})
    else:
        write_csv(sys.stdout, Z, names)
