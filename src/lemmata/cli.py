"""The command `lemmata`: fit, certify and use models from a shell.

    lemmata fit PCA digits.csv --target label --set n_components=10 --save digits.lemma
    lemmata certify digits.lemma digits.csv && lemmata transform digits.lemma new.csv --out scores.npy

Results go to stdout, everything else to stderr, so that commands can be joined by pipes. Only typer is imported until a
command runs: `lemmata --help` has to be quick.
"""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lemmata import registry

OK, BAD_INPUT, BAD_USAGE, NOT_CERTIFIED, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 3, 130, 141

HELP = """Machine learning that shows its proof: every fit returns a certificate.

Exit codes: 0 all went well; 1 the data, a file or a value was refused; 2 the command line was wrong (unknown model,
parameter or option); 3 a claim of the certificate fails (certify, and fit --require); 130 interrupted by Ctrl-C, nothing
was saved; 141 the reader of the output went away. LEMMATA_DEBUG=1 shows tracebacks.
"""


UsageError: Any = typer.BadParameter.__base__  # typer brings its own copy of click; this is the class in either


class Commands(TyperGroup):
    """The commands, with one answer to everything that can go wrong: a line on stderr and an exit code."""

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            code = super().main(*args, **{**options, "standalone_mode": False})
        except UsageError as error:
            path = error.ctx.command_path if error.ctx is not None else "lemmata"
            print(f"lemmata: {error.format_message()} See: {path} --help", file=sys.stderr)
            code = BAD_USAGE
        sys.exit(code)

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a closed pipe can still be answered
            return result
        except KeyboardInterrupt:
            raise _refuse("interrupted; nothing was saved.", INTERRUPTED) from None
        except BrokenPipeError:
            _let_go_of_stdout()
            raise typer.Exit(PIPE_CLOSED) from None
        except Exception as error:
            if not _is_ours(error) or os.environ.get("LEMMATA_DEBUG"):
                raise
            raise _refuse(_message(error)) from None


def _is_ours(error: Exception) -> bool:
    """Whether an exception is for us to report; typer reports its own (usage, exit)."""
    return not isinstance(error, (typer.Exit, typer.Abort, UsageError))


def _refuse(message: str, code: int = BAD_INPUT) -> typer.Exit:
    print(f"lemmata: {' '.join(message.split())}", file=sys.stderr)
    return typer.Exit(code)


def _message(error: Exception) -> str:
    if type(error).__name__ == "StepFailed" and error.__cause__ is not None:
        return f"the fit failed: {error.__cause__}"  # StepFailed itself speaks to programmers
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    if isinstance(error, (OSError, ValueError, TypeError, ImportError, RuntimeError, AssertionError)) and str(error):
        return str(error)
    if isinstance(error, MemoryError):
        return f"not enough memory ({error}); save the data as .npy, which is read piece by piece."
    return f"{type(error).__name__}: {error} (a fault of lemmata; LEMMATA_DEBUG=1 shows where)"


def _warn(
    message: Warning | str, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None
) -> None:
    print(f"lemmata: warning: {' '.join(str(message).split())}", file=sys.stderr)


def _let_go_of_stdout() -> None:
    """Point stdout to nowhere, so that Python does not complain again when it closes it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


app = typer.Typer(
    cls=Commands, help=HELP, invoke_without_command=True, add_completion=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip

# --- arguments that several commands share ----------------------------------------------------------------------------

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ModelFile = Annotated[Path, typer.Argument(metavar="FILE", help="A model saved by lemmata.")]
DataFile = Annotated[
    str,
    typer.Argument(metavar="DATA", help="csv, tsv, svm (each also .gz), npy, npz or parquet; - is csv from stdin."),
]
Target = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The column that is no feature but the target: its name, or its position (0 first, -1 last).",
    ),
]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out (repeatable).")]
ArrayName = Annotated[str | None, typer.Option("--array", metavar="NAME", help="Which array of an .npz file.")]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether a csv begins with names.  [default: found out]")
]


def _version(wanted: bool) -> None:
    if wanted:
        from lemmata import __version__

        print(f"lemmata {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
        raise typer.Exit(BAD_USAGE)


# --- printing ---------------------------------------------------------------------------------------------------------


def _print_json(content: Any) -> None:
    print(json.dumps(_plain(content), ensure_ascii=False, indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """JSON for what parameters and attributes may hold; of an array, what a reader wants to know."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "dtype") and not getattr(value, "ndim", 1):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # JSON has no NaN
    if value is None or isinstance(value, (str, int)):
        return value
    return {"shape": list(value.shape), "dtype": str(value.dtype)} if hasattr(value, "shape") else repr(value)


def _show(certificate: Any) -> None:
    """A certificate in colour on a terminal, plain elsewhere."""
    if not sys.stdout.isatty():
        print(certificate)
        return
    from rich.console import Console

    Console(highlight=False).print(certificate, soft_wrap=True)


def _list(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


# --- names ------------------------------------------------------------------------------------------------------------


def _nearest(word: str, known: Any) -> str:
    """The end of a message about an unknown word: the known one that is like it, or the list of what there is."""
    lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), lower, n=1)
    return f"; did you mean {lower[near[0]]}?" if near else f"; there are {', '.join(known)}."


def _model_name(word: str) -> str:
    for name in registry.MODELS:
        if name.lower() == word.lower():
            return name
    raise typer.BadParameter(f"there is no model {word!r}{_nearest(word, registry.MODELS)}", param_hint="MODEL")


def _parameters(cls: Any, settings: list[str]) -> dict[str, Any]:
    """The parameters in key=value settings: values are Python literals, or text where they are none."""
    import ast

    known, found = cls._get_param_names(), {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise typer.BadParameter(f"{setting!r} is not of the form key=value.", param_hint="--set")
        if key.strip() not in known:
            raise typer.BadParameter(
                f"{cls.__name__} has no parameter {key.strip()!r}{_nearest(key.strip(), known)}", param_hint="--set"
            )
        try:
            found[key.strip()] = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            found[key.strip()] = text.strip()
    return found


# --- commands ---------------------------------------------------------------------------------------------------------


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to draw the picture.")] = Path("demo.png"),
    as_json: AsJson = False,
) -> None:
    """Compress 1,797 digits, print the certificate, draw demo.png."""
    from lemmata.demo import play

    _writable(out)
    results = play(out, quiet=as_json)
    if as_json:
        _print_json(results)


@app.command()
def models(
    model: Annotated[str | None, typer.Argument(metavar="[MODEL]", help="Show the parameters of one model.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the models, or the parameters of one of them."""
    if model is not None:
        return _describe(_model_name(model), as_json)
    if as_json:
        return _print_json([{"name": name, **entry._asdict()} for name, entry in registry.MODELS.items()])
    _list([(name, entry.summary, entry.source) for name, entry in registry.MODELS.items()])


def _describe(name: str, as_json: bool) -> None:
    from inspect import getdoc

    cls = registry.model_class(name)
    parameters = cls().get_params(deep=False)
    if as_json:
        return _print_json({"name": name, **registry.MODELS[name]._asdict(), "parameters": parameters})
    print(f"{getdoc(cls)}\n\nDefaults: {', '.join(f'{key}={value!r}' for key, value in parameters.items())}")


@app.command()
def fit(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model; see: lemmata models.")],
    data: DataFile,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="A parameter of the model (repeatable)."),
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the fitted model here.")] = None,
    target: Target = None,
    drop: Drop = None,
    array: ArrayName = None,
    header: Header = None,
    require: Annotated[bool, typer.Option("--require", help="Save nothing and exit with 3 if a claim fails.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model to a table and print its certificate."""
    name = _model_name(model)
    cls = registry.model_class(name)
    parameters = _parameters(cls, settings or [])
    if save is not None:
        _writable(save, data)
    from lemmata.data import read_matrix

    matrix = read_matrix(data, target=target, drop=drop or (), array=array, header=header)
    fitted = _fitted(cls(**parameters), matrix, watch="verbose" not in parameters and sys.stderr.isatty())
    certificate = fitted.certificate_
    refused = require and bool(certificate.failed)
    if save is not None and not refused:
        from lemmata import save as save_model

        save_model(fitted, save)
    if as_json:
        saved = None if save is None or refused else str(save)
        _print_json({"model": name, "parameters": parameters, "saved": saved, "certificate": certificate.to_dict()})
    else:
        _show(certificate)
    if refused:
        raise _refuse(f"claims fail: {', '.join(certificate.failed)}; nothing was saved.", NOT_CERTIFIED)


def _fitted(model: Any, matrix: Any, watch: bool) -> Any:
    """Fit; an interrupted fit keeps its state for programs, but a shell wants all or nothing."""
    from lemmata.core.loop import Interrupted

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Interrupted)
        verbose = model.verbose
        model.set_params(verbose=1 if watch else verbose).fit(matrix.X, matrix.y).set_params(verbose=verbose)
    if model.stopped_ == "interrupted":
        raise _refuse(
            f"interrupted after {model.n_iter_} steps; nothing was saved. "
            "--set time_limit=SECONDS ends a fit early and keeps it, --set checkpoint=FILE lets the next one go on.",
            INTERRUPTED,
        )
    if matrix.names is not None:
        import numpy as np

        model.feature_names_in_ = np.array(matrix.names, dtype=object)
    return model


def _writable(path: Path, data: str | None = None) -> None:
    """Refuse a bad place for the result before the work, not after it."""
    if not path.parent.is_dir():
        raise ValueError(f"cannot write {path}: there is no folder {path.parent}.")
    if path.is_dir():
        raise ValueError(f"cannot write {path}: it is a folder.")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"cannot write {path}: the folder {path.parent} is not writable.")
    if data is not None and path.exists() and Path(data).exists() and path.samefile(data):
        raise ValueError(f"{path} is the data itself; the result needs a file of its own.")


def _opened(file: Path, data: str, **options: Any) -> tuple[Any, Any]:
    """A saved model and a table with its columns: by name where both have names, so that their order does not matter."""
    from lemmata import load
    from lemmata.data import read_matrix

    model = load(file)
    names = getattr(model, "feature_names_in_", None)
    return model, read_matrix(data, columns=names, n_features=model.n_features_in_, **options)


def _without_names(function: Any, *arguments: Any) -> Any:
    """Call a method of a model whose columns were already matched by name; scikit-learn would warn that X has none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return function(*arguments)


@app.command()
def certify(
    file: ModelFile,
    data: DataFile,
    target: Target = None,
    drop: Drop = None,
    array: ArrayName = None,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """Check every claim about a saved model anew.

    DATA is what the model was fitted to. Exits with 3 if a claim fails."""
    model, matrix = _opened(file, data, target=target, drop=drop or (), array=array, header=header)
    certificate = _without_names(model.certify, matrix.X, matrix.y)
    if as_json:
        _print_json(certificate.to_dict())
    else:
        _show(certificate)
    if certificate.failed:
        raise typer.Exit(NOT_CERTIFIED)


@app.command()
def transform(
    file: ModelFile,
    data: DataFile,
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .csv, .csv.gz or .npy file; - is csv on stdout.")] = Path(
        "-"
    ),
    target: Target = None,
    drop: Drop = None,
    array: ArrayName = None,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """Apply a saved model to a table.

    Where the model and the table have names, columns are matched by name: order and further columns do not matter."""
    from lemmata.data.write import check_format, write_csv, write_matrix

    if str(out) != "-":
        check_format(out)
        _writable(out, data)
    model, matrix = _opened(file, data, target=target, drop=drop or (), array=array, header=header)
    if not hasattr(model, "transform"):
        raise TypeError(f"a {type(model).__name__} has no transform.")
    Z = _without_names(model.transform, matrix.X)
    names = [str(name) for name in model.get_feature_names_out()]
    if str(out) != "-":
        write_matrix(out, Z, names)
        if as_json:
            _print_json({"out": str(out), "shape": list(Z.shape), "columns": names})
    elif as_json:
        _print_json({"columns": names, "rows": Z.tolist()})
    else:
        write_csv(sys.stdout, Z, names)


@app.command()
def info(file: ModelFile, as_json: AsJson = False) -> None:
    """Show what a saved model is."""
    from lemmata import load

    model = load(file)
    parameters = model.get_params(deep=False)
    attributes = {k: v for k, v in model.stored_attributes().items() if k not in ("certificate_", "trace_")}
    if as_json:
        content = {"model": type(model).__name__, "bytes": file.stat().st_size, "parameters": parameters}
        return _print_json({**content, "attributes": attributes, "certificate": model.certificate_.to_dict()})
    rows = [("model", type(model).__name__), ("file", f"{file}, {file.stat().st_size:,} bytes")]
    rows += [(key, repr(value)) for key, value in parameters.items()]
    rows += [(key, _brief(value)) for key, value in attributes.items()]
    _list(rows)
    print()
    _show(model.certificate_)


def _brief(value: Any) -> str:
    if getattr(value, "ndim", 0):
        return f"{' × '.join(f'{size:,}' for size in value.shape)} {'text' if value.dtype == object else value.dtype}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{type(value).__name__}"


@app.command()
def atlas(
    entry: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="What to draw; without it, list what there is.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder for the pictures.")] = Path("atlas-out"),
    as_json: AsJson = False,
) -> None:
    """List the experiments of the atlas, or draw one.

    Each entry draws a figure of the notes and asserts what it shows."""
    from lemmata.atlas import entries

    known = entries()
    if entry is None:
        if as_json:
            return _print_json([{"id": key, "title": e.title, "source": e.source} for key, e in known.items()])
        return _list([(key, e.title, e.source) for key, e in known.items()])
    key = next((name for name in known if name.lower() == entry.lower()), None)
    if key is None:
        raise typer.BadParameter(f"the atlas has no entry {entry!r}{_nearest(entry, known)}", param_hint="ID")
    out.mkdir(parents=True, exist_ok=True)
    path = known[key].draw(out)
    if as_json:
        _print_json({"id": key, "title": known[key].title, "source": known[key].source, "figure": str(path)})
    else:
        print(path)


def main() -> None:
    """The entry point of the command."""
    app(prog_name="lemmata")
