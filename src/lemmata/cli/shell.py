"""Shared by all commands: exit codes, one answer to all errors, arguments, printing, and names of models and parameters.

Only typer is imported here: `lemmata --help` has to be quick.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lemmata import registry
from lemmata.cli import guidance
from lemmata.core.certification.showing import UNPRINTABLE, one_line, printable, shorten

OK, BAD_INPUT, BAD_USAGE, NOT_CERTIFIED, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 3, 130, 141

HELP = "Machine learning that shows its proof: every fit returns a certificate."

# typer brings its own copy of click; this is the class in either
UsageError: Any = typer.BadParameter.__base__


class Commands(TyperGroup):
    """The commands, with one answer to everything that can go wrong: a line on stderr and an exit code."""

    words: tuple[str, ...] = ()  # the command line, without the name of the program

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=guidance.order_of)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        guidance.write_groups(self, ctx, formatter)

    def main(self, *args: Any, **options: Any) -> Any:
        given = args[0] if args else options.get("args")
        Commands.words = tuple(sys.argv[1:] if given is None else given)
        try:
            code = super().main(*args, **{**options, "standalone_mode": False})
        except UsageError as error:
            path = error.ctx.command_path if error.ctx is not None else "lemmata"
            words = shorten(one_line(error.format_message()))
            end = "" if words.endswith((".", "?")) else "."
            print(f"lemmata: {words}{end} See: {path} --help", file=sys.stderr)
            code = BAD_USAGE
        except OSError as error:  # of --help and --version, which run no command
            if os.environ.get("LEMMATA_DEBUG"):
                raise
            _discard_stdout()
            code = refuse(_message(error)).exit_code
        sys.exit(code)

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a closed pipe can still be answered
            return result
        except KeyboardInterrupt:
            raise refuse("interrupted; nothing was saved.", INTERRUPTED) from None
        except BrokenPipeError:
            _discard_stdout()
            raise typer.Exit(PIPE_CLOSED) from None
        except Exception as error:
            if not _is_ours(error) or os.environ.get("LEMMATA_DEBUG"):
                raise
            raise refuse(_message(error)) from None


def _is_ours(error: Exception) -> bool:
    """Whether we report an exception; typer reports its own (usage, exit)."""
    return not isinstance(error, (typer.Exit, typer.Abort, UsageError))


def refuse(message: str, code: int = BAD_INPUT) -> typer.Exit:
    print(f"lemmata: {shorten(one_line(' '.join(message.split())))}", file=sys.stderr)
    return typer.Exit(code)


def _message(error: Exception) -> str:
    if type(error).__name__ in ("StepFailed", "ResumedRunFailed") and error.__cause__ is not None:
        return f"the fit failed: {error.__cause__}"  # StepFailed itself addresses programmers
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    if isinstance(
        error, (OSError, ValueError, TypeError, ImportError, RuntimeError, AssertionError)
    ) and str(error):
        return str(error)
    if isinstance(error, MemoryError):
        return f"not enough memory ({error}); save the data as .npy, which is read piece by piece."
    return f"{type(error).__name__}: {error} (a bug in lemmata; LEMMATA_DEBUG=1 shows where)"


def _warn(
    message: Warning | str,
    category: Any,
    filename: Any,
    lineno: Any,
    file: Any = None,
    line: Any = None,
) -> None:
    print(f"lemmata: warning: {shorten(one_line(' '.join(str(message).split())))}", file=sys.stderr)


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that Python does not fail again when it closes it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


app = typer.Typer(
    cls=Commands, help=HELP, epilog=guidance.EXIT_CODES, invoke_without_command=True, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a command. A parameter that is a dataclass stands for its fields, each of them an option."""
    parameters = inspect.signature(function, eval_str=True).parameters

    @wraps(function)
    def run(**given: Any) -> None:
        function(**{name: _take(parameter, given) for name, parameter in parameters.items()})

    options = [option for parameter in parameters.values() for option in _options_of(parameter)]
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return app.command(epilog=guidance.show_examples(function.__name__))(run)


def _fields(parameter: inspect.Parameter) -> Mapping[str, inspect.Parameter] | None:
    """The options that a parameter stands for; None if it is one itself."""
    kind = parameter.annotation
    if isinstance(kind, type) and is_dataclass(kind):
        return inspect.signature(kind, eval_str=True).parameters
    return None


def _options_of(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    fields = _fields(parameter)
    if fields is None:
        return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    return [option for field in fields.values() for option in _options_of(field)]


def _take(parameter: inspect.Parameter, given: dict[str, Any]) -> Any:
    """The value of a parameter among all that was given."""
    fields = _fields(parameter)
    if fields is None:
        return given[parameter.name]
    return parameter.annotation(**{name: _take(field, given) for name, field in fields.items()})


# --- arguments that several commands share ----------------------------------------------------------------------------

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ModelFile = Annotated[Path, typer.Argument(metavar="FILE", help="A model saved by lemmata.")]
DataFile = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="csv, tsv, svm (each also .gz), npy, npz or parquet; .txt for models of words and topics; - is stdin.",
    ),
]
DataIfAny = Annotated[
    str | None, typer.Argument(metavar="[DATA]", help="As the model was fitted to.")
]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="Put ' before texts of a csv that a spreadsheet would compute (=, +, -, @).",
    ),
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
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
        raise typer.Exit(BAD_USAGE)


# --- printing ---------------------------------------------------------------------------------------------------------


def say(text: Any) -> None:
    """Print text that may quote data: control characters are escaped."""
    print(printable(str(text)))


def print_json(content: Any) -> None:
    text = json.dumps(plain(content), ensure_ascii=False, indent=2, allow_nan=False)
    # JSON itself escapes only characters below the blank
    print(UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def plain(value: Any) -> Any:
    """Convert parameters and attributes to JSON values; an array becomes its shape and dtype."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "dtype") and not getattr(value, "ndim", 1):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # JSON has no NaN
    if value is None or isinstance(value, (str, int)):
        return value
    if hasattr(value, "shape"):
        return {"shape": list(value.shape), "dtype": str(value.dtype)}
    return repr(value)


def show(content: Any, commands: Sequence[str] = ()) -> None:
    """Print a certificate or a table, in colour on a terminal, and below it the commands that follow its advice."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console(highlight=False).print(content)
    else:
        say(content)
    failed = getattr(content, "failed", ()) if sys.stdout.isatty() else ()
    for command in (*commands, *(f"lemmata explain {name}" for name in failed[:1])):
        say(f"  $ {command}")


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    rows = [tuple(map(one_line, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


# --- names ------------------------------------------------------------------------------------------------------------


def nearest(word: str, known: Any) -> str:
    """The end of a message about an unknown word: the most similar known one, or the list of them."""
    lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), lower, n=1)
    return f"; did you mean {lower[near[0]]}?" if near else f"; there are {', '.join(known)}."


OTHER_NAMES = {
    "cbow": "SkipGram --set sg=false",
    "word2vec": "SkipGram",
    "fasttext": "SkipGram --set max_n=6 for vectors, FastTextClassifier for labelled texts",
}


def model_name(word: str) -> str:
    for name in registry.MODELS:
        if name.lower() == word.lower():
            return name
    meant = f"; it is {OTHER_NAMES[word.lower()]}." if word.lower() in OTHER_NAMES else None
    raise typer.BadParameter(
        f"there is no model {word!r}{meant or nearest(word, registry.MODELS)}", param_hint="MODEL"
    )


def parameters_in(cls: Any, settings: list[str]) -> dict[str, Any]:
    """Read key=value settings: values are Python literals, true, false, or text."""
    import ast

    known, found = cls._get_param_names(), {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise typer.BadParameter(
                f"{setting!r} is not of the form key=value.", param_hint="--set"
            )
        part = key.strip().partition("__")  # net__width: of a part that has parameters of its own
        if key.strip() not in known and not (part[1] and part[0] in getattr(cls, "parts", ())):
            raise typer.BadParameter(
                f"{cls.__name__} has no parameter {key.strip()!r}{nearest(key.strip(), known)}",
                param_hint="--set",
            )
        try:
            found[key.strip()] = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            plain = text.strip()
            found[key.strip()] = {"true": True, "false": False}.get(plain.lower(), plain)
    return found


def number_in(setting: str) -> tuple[str, float]:
    """Read one name=number."""
    name, equals, text = setting.partition("=")
    try:
        if equals:
            return name.strip(), float(text)
    except ValueError:
        pass
    raise typer.BadParameter(f"{setting!r} is not of the form name=number.", param_hint="--set")


# --- places ---------------------------------------------------------------------------------------------------------


def check_writable(path: Path, data: str | None = None) -> None:
    """Refuse a bad path for the result before the work, not after it."""
    if not path.parent.is_dir():
        raise ValueError(f"cannot write {path}: there is no folder {path.parent}.")
    if path.is_dir():
        raise ValueError(f"cannot write {path}: it is a folder.")
    if path.exists() and not path.is_file():
        raise ValueError(f"cannot write {path}: it is no regular file.")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"cannot write {path}: the folder {path.parent} is not writable.")
    if data is not None and path.exists() and Path(data).exists() and path.samefile(data):
        raise ValueError(f"{path} is the data itself; the result needs a file of its own.")
