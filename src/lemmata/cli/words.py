"""Models of texts on the command line, and their vectors.

    lemmata nearest v.lemma king -n 10
    lemmata analogy v.lemma man king woman

FILE is a model saved by `lemmata fit skipgram corpus.txt --save v.lemma`, or vectors in word2vec's text or binary format or as
safetensors (.txt, .vec, .bin, .safetensors).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lemmata.cli.guidance import show_examples
from lemmata.cli.shell import AsJson, app, command, print_json, print_table

VectorFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A saved model of words, or vectors as .txt, .bin or .safetensors."
    ),
]
Count = Annotated[int, typer.Option("-n", min=1, metavar="WORDS", help="How many words.")]
Analogies = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Of vectors of words: questions, four words on each line."),
]
Among = Annotated[
    int | None,
    typer.Option(min=1, metavar="WORDS", help="Look only at so many of the most frequent words."),
]

LABEL = "__label__"  # fastText's mark of a class


def reads_text(cls: type) -> bool:
    """Whether a class learns vectors of words from texts alone."""
    from lemmata.embedding.base import EmbeddingModel

    return issubclass(cls, EmbeddingModel)


def read_texts(data: str) -> Any:
    """The lines of a text file, or of stdin."""
    from lemmata.text import read

    return (line.rstrip("\n") for line in sys.stdin) if data == "-" else read(data)


def reads_running_text(cls: type) -> bool:
    """Whether a class is a language model, to which a file is one text."""
    from lemmata.language.base import LanguageModel

    return issubclass(cls, LanguageModel)


def read_running_text(data: str) -> Any:
    """A file, or stdin, as one text."""
    return [sys.stdin.read()] if data == "-" else Path(data)


def reads_documents(cls: type, data: str) -> bool:
    """Whether a topic model gets a text file, a document on each line, rather than a table of counts."""
    from lemmata.topics.base import TopicModel

    return issubclass(cls, TopicModel) and data.removesuffix(".gz").endswith(".txt")


def count_documents(data: str) -> Any:
    """Counts of the words of a text file, a document on each line, without words of more than half of the documents."""
    from lemmata.text import counts, read

    found = counts(read(data), max_df=0.5)
    print(
        f"lemmata: {data}: {len(found):,} documents (lines), {len(found.words):,} words; words of more than half of the "
        "documents are left out.",
        file=sys.stderr,
    )
    return found


def reads_labelled(name: str) -> bool:
    """Whether a model reads lines of a label and a text."""
    return name == "FastTextClassifier"


def read_unlabelled(data: str) -> list[str]:
    """Texts, one on each line, without the label that may stand before it."""
    lines = (line.strip() for line in read_texts(data))
    return [one.partition(" ")[2] if one.startswith(LABEL) else one for one in lines]


def read_labelled(data: str) -> tuple[list[str], list[str]]:
    """Texts and their labels, as fastText has them: `__label__name` and the text on each line."""
    texts, labels = [], []
    for number, line in enumerate(read_texts(data), start=1):
        label, _, text = line.strip().partition(" ")
        if not label.startswith(LABEL):
            raise ValueError(
                f"line {number} of {data} begins with {label[:40]!r}; each line is __label__NAME and a text."
            )
        texts.append(text)
        labels.append(label.removeprefix(LABEL))
    return texts, labels


def holds_vectors(file: Path) -> bool:
    """Whether a file is one of vectors, by its ending, rather than a saved model."""
    from lemmata.embedding.vectors.files import FORMATS

    return (Path(file.stem).suffix if file.suffix == ".gz" else file.suffix) in FORMATS


def certify_words(
    file: Path, model: Any, data: str | None, analogies: Path | None, seconds: float | None
) -> Any:
    """Certify a model of words, or the vectors in a file where `model` is None."""
    from lemmata import certify

    text = None if data is None else read_texts(data)
    of = word_vectors(file) if model is None else model
    return certify(of, text, analogies=analogies, seconds=seconds)


def word_vectors(file: Path) -> Any:
    """The vectors in a file, of any library."""
    if holds_vectors(file):
        from lemmata.embedding import WordVectors

        return WordVectors.read(file)
    from lemmata import load

    model = load(file)
    vectors = getattr(model, "vectors_", None)
    if vectors is None or not hasattr(vectors, "nearest"):
        raise ValueError(
            f"{file} holds a {type(model).__name__}, which has no vectors of words; fit SkipGram to a text."
        )
    return vectors


def _show(found: list[tuple[str, float]], as_json: bool) -> None:
    if as_json:
        return print_json([{"word": word, "similarity": value} for word, value in found])
    print_table([(word, f"{value:.4f}") for word, value in found])


@app.command("nearest", epilog=show_examples("nearest"))
def nearest_words(
    file: VectorFile,
    words: Annotated[
        list[str],
        typer.Argument(metavar="WORD", help="A word; of several, what is nearest to their mean."),
    ],
    n: Count = 10,
    among: Among = None,
    as_json: AsJson = False,
) -> None:
    """List the words most similar to a word, with their cosines."""
    vectors, wanted = word_vectors(file), words if len(words) > 1 else words[0]
    _show(_look_up(lambda: vectors.nearest(wanted, n, among=among)), as_json)


@command
def analogy(
    file: VectorFile,
    a: Annotated[str, typer.Argument(metavar="A")],
    b: Annotated[str, typer.Argument(metavar="B")],
    c: Annotated[str, typer.Argument(metavar="C")],
    n: Count = 5,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="additive or multiplicative.")
    ] = "additive",
    among: Among = None,
    as_json: AsJson = False,
) -> None:
    """Answer: A is to B as C is to what?

    For example: lemmata analogy v.lemma man king woman"""
    vectors = word_vectors(file)
    _show(_look_up(lambda: vectors.analogy(a, b, c, n, method=method, among=among)), as_json)


def _look_up(ask: Any) -> list[tuple[str, float]]:
    """Answer a query; an unknown word is bad input, not a bug."""
    try:
        return ask()
    except KeyError as error:
        raise ValueError(error.args[0]) from None
