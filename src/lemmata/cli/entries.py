"""Ratings for completion models: options that say where they are and what is held out, and labels of users and items."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from lemmata.cli.shell import refuse
from lemmata.cli.tables import TableOptions, fit_whole

MATRICES = (".npy", ".npz", ".svm", ".svmlight", ".libsvm")  # can hold nothing else

UserColumn = Annotated[
    str | None,
    typer.Option(
        "--user", metavar="COLUMN", help="Of ratings: the column of users, by name or position."
    ),
]
ItemColumn = Annotated[
    str | None, typer.Option("--item", metavar="COLUMN", help="Of ratings: the column of items.")
]
RatingColumn = Annotated[
    str | None, typer.Option("--rating", metavar="COLUMN", help="Of ratings: the column of values.")
]
AsMatrix = Annotated[
    bool,
    typer.Option(
        "--matrix",
        help="For completion, read a table whose empty cells are unknown; --user names its rows.",
    ),
]
Duplicates = Annotated[
    str | None,
    typer.Option(metavar="error|last|mean", help="Of ratings: how to treat one given twice."),
]
TestShare = Annotated[
    str | None,
    typer.Option(
        "--test",
        metavar="SHARE",
        help="For completion, hold out this share of the entries and test on it; with certify --samples, a file of new rows.",
    ),
]
Seed = Annotated[
    int | None, typer.Option(metavar="INT", help="Which entries --test holds out.  [default: 0]")
]


@dataclass(frozen=True)
class EntryOptions:
    """Options of the command line that say how the entries of a partly known matrix are read."""

    table: TableOptions = TableOptions()
    user: UserColumn = None
    item: ItemColumn = None
    rating: RatingColumn = None
    matrix: AsMatrix = False
    duplicates: Duplicates = None

    def refuse_for(self, name: str) -> None:
        """Refuse these options for a model that does not complete matrices."""
        for field in fields(self)[1:]:
            if getattr(self, field.name) != field.default:
                raise typer.BadParameter(
                    f"is for completion models; {name} reads a table.", param_hint=f"--{field.name}"
                )

    def read(self, data: str) -> Any:
        """Read the entries in a file."""
        from lemmata.completion.observed import Observed

        if (
            self.matrix
            or Path(data).suffix.lower() in MATRICES
            or data.lower().endswith((".svm.gz", ".svmlight.gz"))
        ):
            return self._entries_of_table(data)
        for option in ("target", "drop", "array"):
            if getattr(self.table, option):
                raise typer.BadParameter(
                    "is for tables; to read one, pass --matrix.", param_hint=f"--{option}"
                )
        columns, header = (self.user, self.item, self.rating), self.table.header
        return Observed.from_file(
            data, *columns, duplicates=self.duplicates or "error", header=header
        )

    def _entries_of_table(self, data: str) -> Any:
        from lemmata.completion.observed import Labels, Observed

        for option in ("item", "rating", "duplicates"):
            if getattr(self, option) is not None:
                raise typer.BadParameter(
                    "is for ratings, one per line; this is a matrix.", param_hint=f"--{option}"
                )
        table = self.table if self.user is None else replace(self.table, target=self.user)
        matrix = table.read(data, holes=True)
        found = Observed.of(matrix.X)
        rows = None if self.user is None else Labels(_whole(matrix.y))
        columns = None if matrix.names is None else Labels(matrix.names)
        return Observed(found.by_row, found.by_column, found.shape, rows, columns)


@dataclass(frozen=True)
class SplitOptions(EntryOptions):
    """Options that say how entries are read, and which of them are held out."""

    test: TestShare = None
    seed: Seed = None

    def read(self, data: str) -> Any:
        self.share()
        return super().read(data)

    def share(self) -> float | None:
        """The share of entries held out; BadParameter for what is none."""
        try:
            share = None if self.test is None else float(self.test)
        except ValueError:
            share = 0.0
        if share is not None and not 0 < share < 1:
            raise typer.BadParameter(
                f"{self.test} is not a share; pass a number between 0 and 1.", param_hint="--test"
            )
        return share

    def split(self, observed: Any) -> tuple[Any, Any]:
        """Split entries into those to fit to and those held out (None without --test)."""
        share = self.share()
        if share is None:
            return observed, None
        return observed.split(share, seed=self.seed or 0)


def _whole(names: Any) -> Any:
    """Return numbers that are all whole as ints: the readers of tables give floats."""
    import numpy as np

    if (
        np.asarray(names).dtype.kind == "f"
        and np.isfinite(names).all()
        and (names == np.round(names)).all()
    ):
        return names.astype(np.int64)
    return names


@dataclass(frozen=True)
class HeldOutEntries:
    """The error on entries that were held out."""

    share: float
    seed: int
    entries: int
    found: Any  # HeldOutScores: the model beside popularity, the mean and offsets

    def to_dict(self) -> dict[str, Any]:
        figures = self.found.to_dict()
        return {"share": self.share, "seed": self.seed, "entries": self.entries, **figures}

    def __str__(self) -> str:
        return f"\n{self.found}\nheld out: {self.share:.0%} of the entries, seed {self.seed}; predictions are not clipped"


def fit_to_entries(
    model: Any, observed: Any, source: SplitOptions, watch: bool
) -> tuple[Any, HeldOutEntries | None]:
    """Fit, and with --test measure the error on held-out entries, in the certificate too."""
    train, test = source.split(observed)
    fit_whole(model, train, None, watch)
    if test is None:
        return model, None
    from lemmata.completion.metrics import evaluate

    model.certificate_ = model.certify(train, test)
    found = evaluate(model, test, k=10)
    return model, HeldOutEntries(source.share() or 0.0, source.seed or 0, test.n_observed, found)


def certify_on_entries(
    model: Any, observed: Any, source: SplitOptions, seconds: float | None = None
) -> Any:
    return model.certify(*source.split(observed), seconds=seconds)


def find_label(text: str, labels: Any, size: int, what: str) -> Any:
    """Find a label from its text: a shell passes text, whatever type labels have in the data."""
    if labels is None:
        try:
            return range(size).index(int(text))
        except ValueError:
            raise refuse(
                f"there is no {what} {text!r}; the data had no names: pass a position, 0 to {size - 1}."
            ) from None
    for kind in (str, int, float):
        try:
            label = kind(text)
        except ValueError:
            continue
        if labels.find([label])[0] >= 0:
            return label
    raise refuse(f"the model knows no {what} {text[:80]!r}; {labels.hint(text)}")
