"""A saved model applied to the rows of a table: transform and predict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lemmata.cli import shell
from lemmata.cli.tables import TableOptions, column_names, completes, without_names
from lemmata.cli.words import read_texts, read_unlabelled, reads_documents, reads_labelled
from lemmata.core.certification.showing import printable

Out = Annotated[
    Path, typer.Option(metavar="FILE", help="A .csv, .csv.gz or .npy file; - is csv on stdout.")
]


@shell.command
def transform(
    file: shell.ModelFile,
    data: shell.DataFile,
    out: Out = Path("-"),
    *,
    table: TableOptions,
    safe_csv: shell.SafeCsv = False,
    as_json: shell.AsJson = False,
) -> None:
    """Apply a saved model to a table.

    Where the model and the table have names, columns are matched by name: their order does not matter, and columns
    that the model does not know are named and not used.
    A completion model fills the empty cells of rows."""
    model = _load_model(file, data, out, "transform")
    X = read_texts(data) if reads_documents(type(model), data) else table.read(data, model).X
    Z = without_names(model.transform, X)
    labels = column_names(model) if completes(type(model)) else None
    names = labels or [str(name) for name in model.get_feature_names_out()]
    _write(Z, names, out, as_json, safe_csv)


@shell.command
def predict(
    file: shell.ModelFile,
    data: shell.DataFile,
    out: Out = Path("-"),
    proba: Annotated[
        bool, typer.Option("--proba", help="The probability of each class or component instead.")
    ] = False,
    *,
    table: TableOptions,
    safe_csv: shell.SafeCsv = False,
    as_json: shell.AsJson = False,
) -> None:
    """Predict the number, class or cluster of each row of a table.

    Where the model and the table have names, columns are matched by name: their order does not matter, and columns
    that the model does not know are named and not used."""
    method = "predict_proba" if proba else "predict"
    model = _load_model(file, data, out, method)
    if completes(type(model)):
        raise TypeError(
            f"a {type(model).__name__} fills cells; use `lemmata transform` or `lemmata recommend`."
        )
    name = type(model).__name__
    X = read_unlabelled(data) if reads_labelled(name) else table.read(data, model).X
    found, name = without_names(getattr(model, method), X), name.lower()
    if proba:
        classes = getattr(model, "classes_", None)
        labels = (
            [f"{name}{j}" for j in range(found.shape[1])] if classes is None else map(str, classes)
        )
        _write(found, list(labels), out, as_json, safe_csv)
    elif found.ndim == 2:
        _write(found, [f"{name}{j}" for j in range(found.shape[1])], out, as_json, safe_csv)
    else:
        _write(found[:, None], [name], out, as_json, safe_csv)


def _load_model(file: Path, data: str, out: Path, method: str) -> Any:
    """Load a model, if it has the method and the result can be written."""
    from lemmata import load
    from lemmata.data.write import check_format

    if str(out) != "-":
        check_format(out)
        shell.check_writable(out, data)
    model = load(file)
    if not hasattr(model, method):
        raise TypeError(f"a {type(model).__name__} has no {method}.")
    return model


def _write(Z: Any, names: list[str], out: Path, as_json: bool, safe: bool) -> None:
    from lemmata.data.write import write_csv, write_matrix

    if str(out) != "-":
        write_matrix(out, Z, names, safe)
        if as_json:
            shell.print_json({"out": str(out), "shape": list(Z.shape), "columns": names})
    elif as_json:
        shell.print_json({"columns": names, "rows": Z.tolist()})
    else:
        # a program gets the names as they are, a terminal without control characters
        names = [printable(name) for name in names] if sys.stdout.isatty() else names
        write_csv(sys.stdout, Z, names, safe)
