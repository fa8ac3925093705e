"""A saved model applied to the rows of a table, transform and predict; and rows drawn from a model, sample."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lemmata.cli import shell
from lemmata.cli.tables import TableOptions, column_names, completes, without_names
from lemmata.cli.words import (
    read_texts,
    read_unlabelled,
    reads_documents,
    reads_labelled,
    reads_running_text,
)
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


PICTURES, ARRAYS = (".png",), (".npy", ".npz")
MOST_DRAWN = 400  # images or series in a picture


@shell.command
def sample(
    file: shell.ModelFile,
    n: Annotated[int, typer.Option("-n", metavar="INT", min=1, help="How many rows.")] = 16,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="A .png picture, .npy, .npz, .csv or .csv.gz; - is csv on stdout."
        ),
    ] = Path("-"),
    label: Annotated[
        str | None,
        typer.Option("--class", metavar="LABEL", help="The class to draw from, if it has classes."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(metavar="INT", min=1, help="Of series, and tokens of texts.  [default: 100]"),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(metavar="INT", min=1, help="Of diffusion: noise levels.  [default: 50]"),
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(metavar="heun|ddim|ancestral|euler-maruyama", help="Of diffusion."),
    ] = None,
    guidance: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER", min=0, help="Of diffusion with --class: more alike above 0."
        ),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Where texts of a language model begin.")
    ] = None,
    temperature: Annotated[
        float, typer.Option(metavar="T", min=0.0, help="Of texts; 0 takes the likeliest tokens.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(metavar="INT", help="Repeats the draws.")] = 0,
    as_json: shell.AsJson = False,
) -> None:
    """Draw new rows from a generative model (Diffusion, VAE, NormalizingFlow, AR, a mixture), or a text from a language model.

    Images become a grid in a picture, series lines, tables points; in a csv every row is a line of numbers."""
    from lemmata import load

    model = load(file)
    if reads_running_text(type(model)):
        return _write_text(model, prompt or "", length or 100, temperature, seed, out, as_json)
    if prompt is not None:
        raise ValueError(
            f"--prompt is of language models; this file holds a {type(model).__name__}."
        )
    kind = out.suffix.lower()
    if str(out) != "-":
        if kind not in (*PICTURES, *ARRAYS) and not out.name.lower().endswith((".csv", ".csv.gz")):
            raise ValueError(f"{out}: samples are written as .png, .npy, .npz, .csv or .csv.gz.")
        shell.check_writable(out, str(file))
    if kind in PICTURES and n > MOST_DRAWN:
        raise ValueError(
            f"a picture shows up to {MOST_DRAWN} draws, not {n:,}; write a .npy, or pass -n 400."
        )
    more = {"steps": steps, "sampler": sampler, "guidance": guidance}
    given = {name: value for name, value in more.items() if value is not None}
    drawn = _draw(model, n, label, length, seed, given)
    if kind in PICTURES or kind == ".npz":
        from lemmata.core.store import write_atomically

        write_atomically(out, _picture(drawn, length) if kind in PICTURES else _archive(drawn))
    elif kind == ".npy":
        _write(drawn, [], out, False, False)
    else:
        rows = drawn.reshape(len(drawn), -1)
        return _write(rows, [f"x{j}" for j in range(rows.shape[1])], out, as_json, False)
    if as_json:
        shell.print_json({"out": str(out), "shape": list(drawn.shape)})


def _write_text(
    model: Any, prompt: str, length: int, temperature: float, seed: int, out: Path, as_json: bool
) -> None:
    (text,) = model.sample(
        prompt=prompt, length=length, temperature=temperature, random_state=seed,
    )  # fmt: skip
    if as_json:
        return shell.print_json({"text": text})
    if str(out) == "-":
        return print(printable(text))
    from lemmata.core.store import write_atomically

    write_atomically(out, text.encode())


def _draw(
    model: Any, n: int, label: str | None, length: int | None, seed: int, more: dict[str, Any]
) -> Any:
    from inspect import signature

    from lemmata.core.supervised import list_classes

    name, draw = type(model).__name__, getattr(model, "sample", None)
    takes = signature(draw).parameters if draw is not None else {}
    if "n_samples" not in takes:
        raise TypeError(
            f"a {name} draws no rows; Diffusion, VAE, NormalizingFlow, AR and mixtures do."
        )
    if length is not None and "length" not in takes:
        raise ValueError(f"--length is of series, and a {name} draws rows of one width.")
    if unknown := sorted(set(more) - set(takes)):
        raise ValueError(f"--{unknown[0]} is of diffusion models; this is a {name}: leave it out.")
    settings: dict[str, Any] = {"length": length or 100} if "length" in takes else {}
    settings |= more
    if "random_state" in takes:
        settings["random_state"] = seed
    else:
        model.random_state = seed
    if label is not None:
        classes = getattr(model, "classes_", None)
        if classes is None or "y" not in takes:
            raise ValueError(f"this {name} was fitted without classes: leave out --class.")
        known = {str(one): one for one in classes.tolist()}
        known |= {f"{one:g}": one for one in classes.tolist() if isinstance(one, float)}
        if label not in known:
            raise ValueError(f"there is no class {label[:80]!r}; it knows {list_classes(classes)}.")
        settings["y"] = known[label]
    drawn = draw(n, **settings)  # type: ignore[misc]
    return drawn[0] if isinstance(drawn, tuple) else drawn


def certify_samples(samples: Path, train: Path, new: str | None, seconds: float | None) -> Any:
    """The certificate of rows in a file, next to those that their generator was trained on, and new ones."""
    from lemmata import certify
    from lemmata.generate import Samples

    test = None if new is None else _read_rows(Path(new))
    return certify(Samples(_read_rows(samples)), _read_rows(train), X_test=test, seconds=seconds)


def _read_rows(path: Path) -> Any:
    """An array of rows or images, .npy or X of an .npz; or a table."""
    import numpy as np

    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.suffix.lower() not in ARRAYS:
        return TableOptions().read(str(path)).X
    found = np.load(path, allow_pickle=False)
    if path.suffix.lower() == ".npy":
        return found
    with found:
        return found["X" if "X" in found.files else found.files[0]]


def _archive(drawn: Any) -> bytes:
    import io

    import numpy as np

    buffer = io.BytesIO()
    np.savez_compressed(buffer, X=drawn)
    return buffer.getvalue()


def _picture(drawn: Any, length: int | None) -> bytes:
    """A grid of images, lines of series or of wide rows, points of two columns."""
    import io

    import numpy as np
    from matplotlib.figure import Figure

    buffer, n = io.BytesIO(), len(drawn)
    if drawn.ndim == 4:
        columns = int(np.ceil(np.sqrt(n)))
        channels, height, width = drawn.shape[1:]
        low, high = float(drawn.min()), float(drawn.max())
        rows = -(-n // columns)
        grid = np.full((rows, height + 1, columns, width + 1, channels), high or 1.0)
        scattered = grid.swapaxes(1, 2).reshape(rows * columns, height + 1, width + 1, channels)
        scattered[:n, :height, :width] = drawn.transpose(0, 2, 3, 1)
        grid = scattered.reshape(rows, columns, height + 1, width + 1, channels).swapaxes(1, 2)
        whole = grid.reshape(rows * (height + 1), columns * (width + 1), channels)[:-1, :-1]
        figure = Figure(figsize=(6, 6 * whole.shape[0] / whole.shape[1]))
        axes = figure.add_axes((0, 0, 1, 1))
        shown = whole[..., 0] if channels != 3 else np.clip((whole - low) / ((high - low) or 1), 0, 1)  # fmt: skip
        axes.imshow(shown, cmap="gray", vmin=low, vmax=high, interpolation="nearest")
        axes.axis("off")
    else:
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        if drawn.shape[1] == 2 and length is None:
            axes.plot(*drawn.T, ".", markersize=3)
        else:
            axes.plot(drawn.T, linewidth=0.8, alpha=max(0.2, min(1.0, 8 / n)))
            axes.set_xlabel("position")
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


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
