"""The commands that every model has: demo, fit, certify, info, atlas."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from lemmata import registry
from lemmata.cli import guidance, shell, tables
from lemmata.cli import words as of_words
from lemmata.cli.advising import commands_in, fit_command, without_python
from lemmata.cli.entries import SplitOptions, certify_on_entries, fit_to_entries

Report = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write the certificate as a page of HTML, with its pictures."
    ),
]


@shell.command
def demo(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to draw the picture.")] = Path(
        "demo.png"
    ),
    deep: Annotated[
        bool, typer.Option("--deep", help="Draw new digits instead, by diffusion: under a minute.")
    ] = False,
    as_json: shell.AsJson = False,
) -> None:
    """Compress, complete and cluster 1,797 digits, and draw demo.png.

    They are completed from 40 % of the pixels; every certificate is printed."""
    from lemmata.cli.demo import play

    shell.check_writable(out)
    scenes = None
    if deep:
        from lemmata.cli.demo.drawn_digits import DrawnDigits

        scenes = [DrawnDigits()]
    results = play(out, quiet=as_json, scenes=scenes)
    if as_json:
        shell.print_json(results)


@shell.command
def fit(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model; see: lemmata models.",
            autocompletion=guidance.complete_models,
        ),
    ],
    data: shell.DataFile,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="KEY=VALUE",
            help="A parameter of the model (repeatable).",
            autocompletion=guidance.complete_settings,
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the fitted model here.")
    ] = None,
    *,
    entries: SplitOptions,
    require: Annotated[
        bool,
        typer.Option(
            "--require",
            help="Also check the expensive claims; save nothing and exit with 3 unless the certificate holds.",
        ),
    ] = False,
    report: Report = None,
    as_json: shell.AsJson = False,
) -> None:
    """Fit a model to a file of data and print its certificate.

    Models that predict a column need --target COLUMN. Completion models read one entry per line (user, item, rating); with
    --matrix a table whose empty cells are unknown. Models of words (skipgram) read a text file, a sentence a line; topic models
    (lda) a table of counts, or a .txt file, a document a line; language models (gpt, ngram) a file as one text."""
    name = shell.model_name(model)
    cls = registry.model_class(name)
    parameters = shell.parameters_in(cls, settings or [])
    for place in (save, report):
        if place is not None:
            shell.check_writable(place, data)
    watch = "verbose" not in parameters and sys.stderr.isatty()
    fitted, held_out = _fit_to_file(cls(**parameters), data, entries, watch, check_all=require)
    certificate = fitted.certificate_
    tables.refuse_interrupted(certificate)
    if report is not None:
        certificate.report(report)
    refused = require and not certificate.holds
    saved = None if save is None or refused else str(save)
    if saved is not None:
        from lemmata import save as save_model

        save_model(fitted, saved)
    if as_json:
        content = {"model": name, "parameters": parameters, "saved": saved}
        content["certificate"] = certificate.to_dict()
        shell.print_json(content if held_out is None else {**content, "test": held_out.to_dict()})
    else:
        shell.show(
            without_python(certificate),
            commands_in(certificate, fitted, shell.Commands.words, saved),
        )
        if held_out is not None:
            shell.say(held_out)
    if refused:
        missing = [*certificate.failed, *certificate.broken, *certificate.not_checked]
        raise shell.refuse(
            f"not certified: {', '.join(missing)}; nothing was saved.", shell.NOT_CERTIFIED
        )


def _fit_to_file(
    model: Any, data: str, entries: SplitOptions, watch: bool, check_all: bool
) -> tuple[Any, Any]:
    """Fit a model to a text, to entries or to a table, as its kind asks; give it and what it does on held-out entries.

    check_all : also check the expensive claims
    """
    name, table = type(model).__name__, entries.table
    if tables.completes(type(model)):
        observed = entries.read(data)
        model, held_out = fit_to_entries(model, observed, entries, watch)
        if check_all and held_out is None:
            model.certificate_ = certify_on_entries(model, observed, entries)
        return model, held_out
    entries.refuse_for(name)
    if of_words.reads_text(type(model)):
        table.refuse_for(name)
        tables.fit_whole(model, of_words.read_texts(data), None, watch)
        if check_all:
            model.certificate_ = model.certify(of_words.read_texts(data))
        return model, None
    if of_words.reads_running_text(type(model)):
        table.refuse_for(name)
        running = of_words.read_running_text(data)
        tables.fit_whole(model, running, None, watch)
        if check_all:
            model.certificate_ = model.certify(running)
        return model, None
    if of_words.reads_labelled(name):
        table.refuse_for(name)
        labelled = of_words.read_labelled(data)
        tables.fit_whole(model, *labelled, watch)
        if check_all:
            model.certificate_ = model.certify(*labelled)
        return model, None
    if of_words.reads_documents(type(model), data):
        table.refuse_for(name)
        documents = of_words.count_documents(data)
        tables.fit_whole(model, documents, None, watch)
        if check_all:
            model.certificate_ = model.certify(documents)
        return model, None
    rows = table.read(
        data,
        holes=tables.takes_holes(model),
        images=hasattr(model, "input_shape"),
        series=tables.reads_series(type(model)),
    )
    tables.needs_target(model, rows.y)
    tables.fit_whole(model, rows.X, rows.y, watch)
    if rows.names is not None:
        import numpy as np

        model.feature_names_in_ = np.array(rows.names, dtype=object)
    if check_all:
        model.certificate_ = tables.without_names(model.certify, rows.X, rows.y)
    return model, None


@shell.command
def certify(
    file: shell.ModelFile,
    data: shell.DataIfAny = None,
    *,
    entries: SplitOptions,
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help="How long it may take; claims that need more are not checked.  [default: 5 times the fit's work]",
        ),
    ] = None,
    analogies: of_words.Analogies = None,
    samples: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Certify these rows (.npy, .npz, .csv) instead; FILE is what their generator was trained on.",
        ),
    ] = None,
    report: Report = None,
    as_json: shell.AsJson = False,
) -> None:
    """Check every claim about a saved model again, or about rows that any generator drew.

    FILE may also be vectors of words (.txt, .bin, .safetensors), which need no DATA. Samples are compared with the rows that
    their generator was trained on and, with --test, with rows that it never saw: certify --samples s.npy x.npy --test t.npy.

    DATA is what the model was fitted to, read with the same options (--test and --seed too).

    Exits with 0 if the certificate holds (no claim fails, is broken or was left unchecked; those that can't tell pass), else
    with 3."""
    from lemmata import load

    if report is not None:
        shell.check_writable(report, data)
    if samples is not None:
        from lemmata.cli.applying import certify_samples

        if data is not None:
            raise shell.refuse("--samples takes one file of training rows.", shell.BAD_USAGE)
        found = certify_samples(samples, file, entries.test, seconds)
        return _conclude(found, report, as_json, [])
    if data is None and not of_words.holds_vectors(file):
        raise shell.refuse(
            "a saved model is certified on its DATA: lemmata certify FILE DATA.", shell.BAD_USAGE
        )
    model: Any = None if of_words.holds_vectors(file) else load(file)
    if sys.stderr.isatty() and model is not None:
        model.verbose = 1
    name = "SkipGram" if model is None else type(model).__name__
    if model is not None and tables.completes(type(model)):
        certificate = certify_on_entries(model, entries.read(str(data)), entries, seconds)
    elif model is None or of_words.reads_text(type(model)):
        entries.table.refuse_for(name)
        entries.refuse_for(name)
        certificate = of_words.certify_words(file, model, data, analogies, seconds)
    elif of_words.reads_running_text(type(model)):
        entries.table.refuse_for(name)
        entries.refuse_for(name)
        certificate = model.certify(of_words.read_running_text(str(data)), seconds=seconds)
    elif of_words.reads_labelled(name):
        entries.table.refuse_for(name)
        entries.refuse_for(name)
        certificate = model.certify(*of_words.read_labelled(str(data)), seconds=seconds)
    elif of_words.reads_documents(type(model), str(data)):
        entries.table.refuse_for(name)
        entries.refuse_for(name)
        certificate = model.certify(model.encode(of_words.read_texts(str(data))), seconds=seconds)
    else:
        entries.refuse_for(name)
        rows = entries.table.read(str(data), model)
        tables.needs_target(model, rows.y)
        certificate = tables.without_names(model.certify, rows.X, rows.y, seconds=seconds)
    advice: list[Any] = []
    if model is not None and not as_json:
        words = fit_command(model, shell.Commands.words)
        advice = commands_in(certificate, model, words, str(file))
    _conclude(certificate, report, as_json, advice)


def _conclude(certificate: Any, report: Path | None, as_json: bool, advice: list[Any]) -> None:
    """Show a certificate, and exit with 3 unless it holds."""
    tables.refuse_interrupted(certificate)
    if report is not None:
        certificate.report(report)
    if as_json:
        shell.print_json(certificate.to_dict())
    else:
        shell.show(without_python(certificate), advice)
    if not certificate.holds:
        raise typer.Exit(shell.NOT_CERTIFIED)


@shell.command
def info(file: shell.ModelFile, as_json: shell.AsJson = False) -> None:
    """Describe a saved model."""
    from lemmata import load

    model = load(file)
    parameters = model.get_params(deep=False)
    attributes = {
        k: v for k, v in model.stored_attributes().items() if k not in ("certificate_", "trace_")
    }
    if as_json:
        content = {
            "model": type(model).__name__,
            "bytes": file.stat().st_size,
            "parameters": parameters,
        }
        return shell.print_json(
            {**content, "attributes": attributes, "certificate": model.certificate_.to_dict()}
        )
    rows = [("model", type(model).__name__), ("file", f"{file}, {file.stat().st_size:,} bytes")]
    rows += [(key, repr(value)) for key, value in parameters.items()]
    rows += [(key, _brief(value)) for key, value in attributes.items()]
    shell.print_table(rows)
    print()
    shell.show(without_python(model.certificate_))


def _brief(value: Any) -> str:
    if getattr(value, "ndim", 0):
        return f"{' × '.join(f'{size:,}' for size in value.shape)} {'text' if value.dtype == object else value.dtype}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{type(value).__name__}"


@shell.command
def atlas(
    entry: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]",
            help="What to draw; without it, list what there is.",
            autocompletion=guidance.complete_atlas,
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The folder for the pictures.")
    ] = Path("atlas-out"),
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="NAME=VALUE",
            help="A parameter of the experiment, within its range (repeatable).",
        ),
    ] = None,
    all: Annotated[
        bool, typer.Option("--all", help="Draw everything, with the seconds of each.")
    ] = False,
    as_json: shell.AsJson = False,
) -> None:
    """List the experiments of the atlas, or draw one, or all.

    Each entry draws a figure of the notes and asserts what it shows. Its parameters, ranges and defaults are
    printed with it: lemmata atlas step-size --set gamma=1.9"""
    from lemmata.atlas import entries

    known = entries()
    if settings and entry is None:
        raise typer.BadParameter("parameters belong to one entry; name it.", param_hint="--set")
    if all:
        return _draw_all(known, out, as_json)
    if entry is None:
        if as_json:
            return shell.print_json(
                [{"id": key, "title": e.title, "source": e.source} for key, e in known.items()]
            )
        return shell.print_table([(key, e.title, e.source) for key, e in known.items()])
    key = next((name for name in known if name.lower() == entry.lower()), None)
    if key is None:
        raise typer.BadParameter(
            f"the atlas has no entry {entry!r}{shell.nearest(entry, known)}", param_hint="ID"
        )
    out.mkdir(parents=True, exist_ok=True)
    shell.check_writable(out / f"{key}.png")
    try:
        values = known[key].check(dict(map(shell.number_in, settings or ())))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--set") from None
    drawn = known[key].perform(out, **values)
    facts = {"id": key, "title": drawn.title, "source": drawn.source, "figure": str(drawn.path)}
    if as_json:
        return shell.print_json({**facts, "caption": drawn.caption, "shown": list(drawn.shown)})
    print(f"{drawn.path}\n{drawn.title}  ({drawn.source})")
    if drawn.caption:
        print(drawn.caption)
    for number, sentence in enumerate(drawn.shown):
        print(f"{'asserted:' if not number else '':9} · {sentence}")
    if takes := known[key].parameters:
        print(f"--set: {', '.join(map(str, takes))}")


def _draw_all(known: dict[str, Any], out: Path, as_json: bool) -> None:
    """Draw every entry, with the seconds of each; one that lacks its data is left out, and said to be."""
    from lemmata.data import DataNotFound

    rows: list[dict[str, Any]] = []
    out.mkdir(parents=True, exist_ok=True)
    shell.check_writable(out / "any.png")
    for key, entry in known.items():
        begin, left_out = time.perf_counter(), ""
        try:
            entry.perform(out)
        except (DataNotFound, ModuleNotFoundError) as error:
            left_out = str(error).partition("\n")[0]
        seconds = time.perf_counter() - begin
        rows.append({"id": key, "seconds": round(seconds, 3), "left_out": left_out})
        if not as_json:
            print(
                f"{seconds:7.1f} s  {key}" + (f"  left out: {left_out}" if left_out else ""),
                flush=True,
            )
    if as_json:
        return shell.print_json(rows)
    print(f"{sum(row['seconds'] for row in rows):7.1f} s  all {len(rows)}, in {out}")
