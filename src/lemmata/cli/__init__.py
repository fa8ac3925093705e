"""The command `lemmata`: fit, certify and use models from a shell.

    lemmata fit PCA digits.csv --target label --set n_components=10 --save digits.lemma
    lemmata certify digits.lemma digits.csv && lemmata transform digits.lemma new.csv --out scores.npy

    lemmata fit kmeans flowers.csv --set n_clusters=3 --save k.lemma && lemmata predict k.lemma flowers.csv

    lemmata fit logisticregression flowers.csv --target species --save l.lemma
    lemmata evaluate l.lemma new_flowers.csv --target species

    lemmata diagnose ratings.csv --rank 32
    lemmata fit als ratings.csv --set rank=32 --test 0.1 --save films.lemma
    lemmata recommend films.lemma --user 42 -n 10

    lemmata topics news.lemma --documents news.txt --show "the bank of the river"

    lemmata fit skipgram corpus.txt --set min_count=2 --save v.lemma
    lemmata nearest v.lemma king -n 10 && lemmata analogy v.lemma man king woman

    lemmata fit vae images.npz --save m.lemma && lemmata sample m.lemma -n 64 --out grid.png

Results go to stdout, everything else to stderr, so that commands can be joined by pipes. Only typer is imported until a
command runs: `lemmata --help` has to be quick.
"""

from lemmata.cli import applying, commands, evaluating, finding, ratings, topics, warm, words
from lemmata.cli.shell import BAD_INPUT, BAD_USAGE, INTERRUPTED, NOT_CERTIFIED, OK, PIPE_CLOSED, app

__all__ = [
    "BAD_INPUT", "BAD_USAGE", "INTERRUPTED", "NOT_CERTIFIED", "OK", "PIPE_CLOSED", "app", "applying", "commands",
    "evaluating", "finding", "main", "ratings", "topics", "warm", "words",
]  # fmt: skip


def main() -> None:
    """The entry point of the command."""
    app(prog_name="lemmata")
