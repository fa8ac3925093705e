"""The topics of a saved topic model: `lemmata topics m.lemma`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lemmata.cli.shell import AsJson, ModelFile, check_writable, command, print_json, show

PICTURES = (".png", ".svg", ".pdf")


@command
def topics(
    file: ModelFile,
    n: Annotated[
        int, typer.Option("-n", min=1, metavar="WORDS", help="How many words of each topic.")
    ] = 8,
    documents: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A text file with a document in every line (.gz too): sizes and coherence are those in it.",
        ),
    ] = None,
    measure: Annotated[
        str, typer.Option(metavar="NAME", help="Coherence by npmi, c_v or u_mass.")
    ] = "npmi",
    text: Annotated[
        str | None,
        typer.Option("--show", metavar="TEXT", help="A text with its words coloured by topic."),
    ] = None,
    several: Annotated[
        bool, typer.Option("--several", help="Words of several topics: one word, several meanings.")
    ] = False,
    words: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The word of each column, one a line, if the model knows none."
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the likeliest words as bars: .png, .svg or .pdf."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the topics of a saved model, with their likeliest words.

    Without --documents, sizes are those in the documents that the model was fitted to; coherence needs --documents."""
    if picture is not None:
        if picture.suffix.lower() not in PICTURES:
            raise typer.BadParameter(
                f"{picture} is no picture; end it in {', '.join(PICTURES)}.", param_hint="--picture"
            )
        check_writable(picture)
    model, vocabulary = _topic_model(file), _vocabulary(words)
    read = None
    if documents is not None:
        from lemmata.text import read as read_texts

        read = model.encode(read_texts(documents), vocabulary)
        if not len(read):
            raise ValueError(f"{documents} is empty: there are no documents in it.")
        read = read if vocabulary is None else read.matrix
    table = model.table(read, n, measure, vocabulary)
    if picture is not None:
        _draw(model.plot(n, vocabulary=vocabulary), picture)
    shown: list[Any] = [table]
    shown += [model.words_in_several_topics(n, vocabulary)] if several else []
    shown += [model.show(text, vocabulary)] if text is not None else []
    if as_json:
        return print_json(_as_json(model, table, shown[1:]))
    for number, thing in enumerate(shown):
        if number:
            print()
        show(thing)


def _topic_model(file: Path) -> Any:
    from lemmata import load
    from lemmata.topics.base import TopicModel

    model = load(file)
    if not isinstance(model, TopicModel):
        raise TypeError(
            f"{file} holds a {type(model).__name__}, which has no topics; pass a topic model, such as PLSA."
        )
    return model


def _vocabulary(path: Path | None) -> list[str] | None:
    from lemmata.text import read

    return None if path is None else list(read(path))


def _draw(figure: Any, path: Path) -> None:
    import io

    from lemmata.core.store import write_atomically

    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.lower()[1:])
    write_atomically(path, content.getvalue())


def _as_json(model: Any, table: Any, more: list[Any]) -> dict[str, Any]:
    from lemmata.topics.colours import ColouredText

    content: dict[str, Any] = {
        "model": type(model).__name__,
        "topics": [row._asdict() for row in table],
    }
    for thing in more:
        if isinstance(thing, ColouredText):
            content["text"] = {
                "words": [mark._asdict() for mark in thing.marks],
                "topics": [one._asdict() for one in thing.legend],
            }
        else:
            content["several"] = [word._asdict() for word in thing]
    return content
