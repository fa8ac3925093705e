"""Which models suit a file: two or three, why, and the commands that fit them.

>>> from lemmata.data import suggest_models
>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "flowers.csv"
>>> _ = path.write_text("width,height,kind\\n" + "1.5,2.5,rose\\n1.25,3.5,lily\\n" * 30)
>>> [one.model for one in suggest_models(path, target="kind")]
['LogisticRegression', 'SVC', 'MLPClassifier']
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lemmata.data.inspecting import Column, FileSummary, inspect_file


class Suggestion(NamedTuple):
    """A model that suits a file, the reason, and a command that fits it."""

    model: str
    why: str
    command: str


# for data that is no table: models, why, and the arguments of the command
BY_KIND = {
    "ratings": (
        ("diagnose", "how much of the matrix these entries determine", "diagnose {} --rank 10"),
        ("ALS", "low-rank completion, for recommendations", "als {} --test 0.1"),
    ),
    "labelled texts": (("FastTextClassifier", "classes of texts, in seconds", "fasttextclassifier {}"),),
    "texts": (
        ("SkipGram", "vectors of words (word2vec)", "skipgram {} --set min_count=2"),
        ("LDA", "topics, a document on each line", "lda {} --set n_components=10"),
        ("NGram", "what comes next, by counts", "ngram {} --set order=6"),
    ),
    "images": (
        ("Autoencoder", "codes of a few numbers", "autoencoder {}"),
        ("VAE", "draws new images", "vae {}"),
    ),
    "sparse table": (("LogisticRegression", "classes from many sparse columns", "logisticregression {}"),),
}  # fmt: skip


def suggest_models(data: FileSummary | str | Path, target: str | None = None) -> list[Suggestion]:
    """Return two or three models that suit a file, why, and commands that run as they stand.

    Parameters
    ----------
    data : FileSummary, str or Path
        What `inspect_file` found, or the file itself.
    target : str or None, default=None
        The column to predict, by its name. None: the structure of the rows.

    Returns
    -------
    suggested : list of Suggestion
        Each with `model`, `why` and `command`. ValueError says what is missing where no model takes the file.
    """
    found = data if isinstance(data, FileSummary) else inspect_file(data)
    path = shlex.quote(found.path)
    if found.kind in BY_KIND:
        words = [(model, why, text.format(path)) for model, why, text in BY_KIND[found.kind]]
    elif target is not None:
        words = list(_for_target(found, target, path))
    else:
        words = list(_for_structure(found, path))
    return [Suggestion(model, why, _complete(command)) for model, why, command in words]


def _complete(words: str) -> str:
    """A command line from its arguments: a fit is saved."""
    if words.startswith(("diagnose", "which")):
        return f"lemmata {words}"
    return f"lemmata fit {words} --save model.lemma"


def _options(found: FileSummary, besides: str | None = None) -> str:
    """Options that leave out the columns which are no numbers."""
    unusable = [one.name for one in found.columns if not one.is_numeric and one.name != besides]
    return "".join(f" --drop {shlex.quote(name)}" for name in unusable)


def _numeric(found: FileSummary, besides: str | None = None) -> list[Column]:
    columns = [one for one in found.columns if one.is_numeric and one.name != besides]
    if not columns:
        raise ValueError(
            f"{found.path} has no column of numbers{' besides the target' if besides else ''}: no model takes it as it is. "
            "Turn classes into columns of 0 and 1 (pandas.get_dummies), or save texts as .txt, one on each line."
        )
    return columns


def _for_target(found: FileSummary, target: str, path: str) -> Iterator[tuple[str, str, str]]:
    by_name = {one.name: one for one in found.columns}
    if target not in by_name:
        raise ValueError(f"{found.path} has no column {target!r}; it has {', '.join(by_name)}.")
    column, features = by_name[target], _numeric(found, target)
    rest = f"{path} --target {shlex.quote(target)}{_options(found, target)}"
    gaps = [one for one in (*features, column) if one.missing]
    if gaps:
        raise ValueError(
            f"cells are empty (most in {max(gaps, key=lambda one: one.missing).name}), and models that predict take no gaps: "
            "fill or drop them first."
        )
    small = found.n_rows <= 20_000
    few = column.kind == "classes" or (column.kind == "whole number" and column.distinct <= 10)
    if few:
        why = f"{target} has {column.distinct} classes; linear, quick, read by its weights"
        yield "LogisticRegression", why, f"logisticregression {rest}"
        if small:
            yield "SVC", "curved boundaries, for some ten thousand rows", f"svc {rest}"
        yield "MLPClassifier", "a small network, for many rows", f"mlpclassifier {rest}"
    elif column.is_numeric:
        why = f"{target} is a number; an interval for every weight"
        yield "LinearRegression", why, f"linearregression {rest}"
        if len(features) > 10:
            yield "LassoCV", f"which of {len(features):,} columns matter", f"lassocv {rest}"
        if small:
            yield "SVR", "curved, for some ten thousand rows", f"svr {rest}"
    else:
        raise ValueError(
            f"{target} is {column.kind} of {column.distinct:,} different values; a target is a number, or one of a few classes."
        )


def _for_structure(found: FileSummary, path: str) -> Iterator[tuple[str, str, str]]:
    features = _numeric(found)
    rest = f"{path}{_options(found)}"
    if len(features) == 1:
        yield "AR", "one column: a series in the order of its rows", f"ar {rest}"
    elif any(one.missing for one in features):
        why = "clusters of rows with empty cells"
        yield "GaussianMixture", why, f"gaussianmixture {rest} --set n_components=3"
    else:
        k, why = min(3, len(features)), f"the main directions of {len(features):,} columns"
        yield "PCA", why, f"pca {rest} --set n_components={k}"
        yield "KMeans", "groups of similar rows", f"kmeans {rest} --set n_clusters=3"
    classes = [one.name for one in found.columns if one.kind == "classes"]
    if classes:
        why = f"if {classes[-1]} is what you want to predict"
        yield "a classifier", why, f"which {path} --target {shlex.quote(classes[-1])}"
