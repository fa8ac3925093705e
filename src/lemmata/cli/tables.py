"""Reading a table for a model, and fitting all or nothing."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import typer

from lemmata.cli.shell import INTERRUPTED, refuse

Target = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="The target column: its name, or its position (0 first, -1 last)."
    ),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out (repeatable).")
]
ArrayName = Annotated[
    str | None, typer.Option("--array", metavar="NAME", help="Which array of an .npz file.")
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether a csv begins with names.  [default: detected]"
    ),
]
Decimal = Annotated[
    str, typer.Option(metavar=".|,", help="The decimal mark of a csv: 3.14 or 3,14.")
]


@dataclass(frozen=True)
class TableOptions:
    """Options of the command line that say how a table is read."""

    target: Target = None
    drop: Drop = None
    array: ArrayName = None
    header: Header = None
    decimal: Decimal = "."

    def refuse_for(self, name: str) -> None:
        """Refuse the options of tables for a model of texts."""
        if replace(self, drop=self.drop or None) != TableOptions():
            raise ValueError(
                f"{name} reads a text, which has no columns; leave out the options of tables."
            )

    def read(
        self,
        data: str,
        model: Any = None,
        *,
        holes: bool = False,
        images: bool = False,
        series: bool = False,
    ) -> Any:
        """Read the matrix in a file; for a model its columns, by name where both have names, so that order does not matter."""
        from lemmata.data import read_matrix

        options: dict[str, Any] = asdict(self) | {"drop": tuple(self.drop or ())}
        if model is not None:
            options |= {"columns": column_names(model), "n_features": model.n_features_in_}
            holes, images = holes or takes_holes(model), hasattr(model, "input_shape")
            series = reads_series(type(model))
        matrix = read_matrix(data, **options, holes=holes, images=images)
        if series and matrix.X.shape[1] == 1:  # a series in the order of its rows
            matrix = replace(matrix, X=matrix.X.T, names=None)
        if matrix.unused:
            names = ", ".join(map(repr, matrix.unused[:8])) + (
                ", …" if len(matrix.unused) > 8 else ""
            )
            warnings.warn(
                f"the model was not fitted to {names}: not used. --drop COLUMN or --target COLUMN says that this is meant.",
                stacklevel=2,
            )
        return matrix


def completes(cls: type) -> bool:
    """Whether a class completes matrices: its data are entries, and cells may be empty."""
    from lemmata.completion.base import CompletionModel

    return issubclass(cls, CompletionModel)


def reads_series(cls: type) -> bool:
    """Whether the rows of a class are series in time: one column of a file is then one series."""
    return cls.__module__.startswith("lemmata.generate.series")


def takes_holes(model: Any) -> bool:
    """Whether a model accepts empty cells."""
    return model.__sklearn_tags__().input_tags.allow_nan


def without_names(function: Any, *arguments: Any, **options: Any) -> Any:
    """Call a method of a model whose columns were already matched by name, without scikit-learn's warning that X has none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return function(*arguments, **options)


def column_names(model: Any) -> list[str] | None:
    """The names of the columns of a model's data, None if they had none."""
    labels = model.observed_.column_labels if completes(type(model)) else None
    names = getattr(model, "feature_names_in_", None) if labels is None else labels.names
    return None if names is None else [str(name) for name in names]


def needs_target(model: Any, y: Any) -> None:
    """Refuse a missing target where the model predicts one."""
    if y is None and model.__sklearn_tags__().target_tags.required:
        raise refuse(
            f"a {type(model).__name__} predicts a column of the table; --target COLUMN says which (a name, or -1 for the last)."
        )


def fit_whole(model: Any, X: Any, y: Any, watch: bool) -> None:
    """Fit, or refuse: an interrupted fit keeps its state for programs, but a shell command does all or nothing."""
    from lemmata.core.loop import Interrupted, Stopped

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Interrupted)
        verbose = model.verbose
        model.verbose = 1 if watch else verbose  # not every model has it as a parameter
        try:
            model.fit(X, y)
        finally:
            model.verbose = verbose
    if model.stopped_ == Stopped.INTERRUPTED:
        raise refuse(
            f"interrupted after {model.n_iter_} steps; nothing was saved. "
            "--set time_limit=SECONDS ends a fit early and keeps it, --set checkpoint=FILE lets the next one continue.",
            INTERRUPTED,
        )


def refuse_interrupted(certificate: Any) -> None:
    """Refuse a certificate that Ctrl-C cut short: programs get what was checked, a shell command does all or nothing."""
    if certificate.interrupted:
        raise refuse("interrupted while claims were checked; nothing was saved.", INTERRUPTED)
