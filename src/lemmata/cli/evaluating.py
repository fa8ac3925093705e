"""A saved model on rows it was not trained on: its score with an interval, its decisions by group, its answers under attack."""

from __future__ import annotations

from dataclasses import replace
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


@command
def fairness(
    file: ModelFile,
    data: DataFile,
    *,
    table: TableOptions,
    group: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN",
            help="The group of each row; of several, the intersections are judged.",
        ),
    ],
    within: Annotated[
        float, typer.Option(metavar="GAP", help="The gap between groups that is small enough.")
    ] = 0.1,
    positive: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS", help="The class that counts as accepted.  [default: the larger of two]"
        ),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The training table: test rows are looked for in it."),
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the certificate as a page.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge the decisions of a saved model by group.

    DATA holds rows that the model has not seen, the column --target that it predicts, and the columns --group. Exits with 3
    unless the certificate holds."""
    from lemmata import load
    from lemmata.trust.fair.report import judge_model

    model = load(file)

    def read(path: str, column: str | None) -> Any:
        others = [name for name in (table.target, *group) if name not in (column, None)]
        return replace(table, target=column, drop=[*(table.drop or ()), *others]).read(path, model)

    rows = read(data, table.target)
    needs_target(model, rows.y)
    groups = {name: read(data, name).y for name in group}
    known = {"train": None if train is None else read(train, table.target).X}
    if positive is not None:
        known["positive"] = next((one for one in set(rows.y) if str(one) == positive), positive)
    found = without_names(judge_model, model, rows.X, rows.y, groups, within=within, **known)
    certificate = found.certificate_
    if report is not None:
        certificate.report(report)
    if as_json:
        print_json({"rates": found.rates, "certificate": certificate.to_dict()})
    else:
        print(str(found).partition(str(certificate))[0].rstrip())
        show(without_python(certificate), [])
    if not certificate.holds:
        raise typer.Exit(NOT_CERTIFIED)


@command
def attack(
    file: ModelFile,
    data: DataFile,
    *,
    table: TableOptions,
    eps: Annotated[
        float, typer.Option(metavar="RADIUS", help="How far a row may be moved, in its own units.")
    ],
    norm: Annotated[
        str, typer.Option(metavar="inf|2|1", help="How the distance is measured.")
    ] = "inf",
    box: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH",
            help="The box that rows live in, with attacks inside.  [default: 0 1 if the rows are in there, else none]",
        ),
    ] = None,
    at_least: Annotated[
        float | None, typer.Option(metavar="SHARE", help="The robust accuracy that is asked for.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(metavar="N", help="Attack the first N rows.  [default: all]")
    ] = None,
    restarts: Annotated[int, typer.Option(metavar="N", help="Random starts of gradients.")] = 5,
    queries: Annotated[
        int, typer.Option(metavar="N", help="What attacks without gradients may ask of each row.")
    ] = 1000,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the adversarial rows as .npy.")
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the certificate as a page.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Attack a saved classifier: search for small perturbations of rows that fool it.

    DATA holds rows that the model has not seen, and the column --target that it predicts (of an .npz: X and y). Exits with 3
    unless the certificate holds: an attack that finds nothing proves nothing."""
    import numpy as np

    from lemmata import load
    from lemmata.trust import Ball
    from lemmata.trust import attack as attack_model

    model = load(file)
    if not hasattr(model, "classes_"):
        raise TypeError(f"a {type(model).__name__} names no classes, so nothing can fool it.")
    if table.target is None and data.endswith(".npz"):  # the usual names of its arrays
        table = replace(table, target="y")
    read = table.read(data, model)
    needs_target(model, read.y)
    X, y = read.X[:rows], read.y[:rows]
    if hasattr(X, "tocsr"):
        X = X.toarray()
    low, high = box or ((0, 1) if np.min(X) >= 0 and np.max(X) <= 1 else (None, None))
    ball = Ball(eps, norm=norm if norm == "inf" else float(norm), low=low, high=high)
    found = without_names(
        attack_model, model, X, y, ball, restarts=restarts, queries=queries, at_least=at_least
    )
    certificate = found.certificate_
    if out is not None:
        np.save(out, found.adversarial)
    if report is not None:
        certificate.report(report)
    if as_json:
        numbers = {"accuracy": found.accuracy, "robust_accuracy": found.robust_accuracy}
        more = {"rates": found.rates, "queries": dict(found.queries)}
        print_json({**numbers, **more, "certificate": certificate.to_dict()})
    else:
        print(str(found).partition(str(certificate))[0].rstrip())
        show(without_python(certificate), [])
    if not certificate.holds:
        raise typer.Exit(NOT_CERTIFIED)
