"""The commands of completion models: diagnose, recommend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from lemmata.cli.entries import EntryOptions, find_label
from lemmata.cli.shell import AsJson, DataFile, command, print_json, say
from lemmata.cli.tables import completes, fit_whole

RATINGS = (".csv", ".tsv", ".txt", ".dat", ".parquet", ".csv.gz", ".tsv.gz", ".txt.gz", ".dat.gz")


@command
def diagnose(
    data: DataFile,
    rank: Annotated[
        int, typer.Option("--rank", "-k", min=1, metavar="INT", help="The rank in question.")
    ],
    *,
    entries: EntryOptions,
    implicit: Annotated[
        bool,
        typer.Option("--implicit", help="The values count clicks or plays: all cells are fitted."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what ratings determine of a matrix of some rank."""
    from lemmata.completion.als.implicit import diagnose_implicit
    from lemmata.completion.recovery import diagnose as diagnose_explicit

    found = (diagnose_implicit if implicit else diagnose_explicit)(entries.read(data), rank)
    if as_json:
        print_json(found.to_dict())
    else:
        say(found)


@command
def recommend(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A completion model saved by lemmata, or ratings.")
    ],
    users: Annotated[
        list[str] | None,
        typer.Option("--user", "-u", metavar="USER", help="A user of the data (repeatable)."),
    ] = None,
    rated: Annotated[
        list[str] | None,
        typer.Option(
            "--rated",
            metavar="ITEM=RATING",
            help="What a new user gave an item (repeatable), instead of --user.",
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, metavar="INT", help="How many items.")] = 10,
    seen: Annotated[
        bool, typer.Option("--seen", help="Recommend also what the user has rated.")
    ] = False,
    damping: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="NUMBER",
            help="Of explicit ratings: an item with this many counts half; 0: bare predictions.  [default: by the data]",
        ),
    ] = None,
    min_count: Annotated[
        int,
        typer.Option("--min-count", min=0, metavar="INT", help="Leave out items rated less often."),
    ] = 0,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="ITEM", help="An item to leave out (repeatable)."),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(metavar="ITEM", help="Say what carried the prediction for this item instead."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recommend items, by a completion model or a file of ratings.

    From ratings, a model of what people choose is fitted first (ALS with implicit feedback), and compared with mere popularity
    on a tenth of them.
    """
    if bool(users) == bool(rated):
        raise typer.BadParameter(
            "say for whom: --user USER (repeatable), or --rated ITEM=RATING (repeatable) for a new user."
        )
    model, beside = _model_and_popularity(file)
    data = model.observed_

    def find_item(text: str) -> Any:
        return find_label(text, data.column_labels, data.shape[1], "item")

    names = [find_label(text, data.row_labels, data.shape[0], "user") for text in users or ()]
    new = _read_ratings(rated or [], find_item)
    if explain is not None:
        item = find_item(explain)
        reasons = [model.explain(name, item, n, ratings=new) for name in names or [None]]
        return _print_explanations(reasons, as_json)
    left_out = [find_item(text) for text in exclude or ()]
    found = model.recommend(
        names or None,
        n,
        exclude_seen=not seen,
        ratings=new,
        exclude=left_out or None,
        damping="auto" if damping is None else damping,
        min_count=min_count,
    )
    if as_json:
        print_json({**found.to_dict(), "beside_popularity": beside})
    else:
        say(f"{found.text(shown=None)}\n\n{beside}")


def _model_and_popularity(file: str) -> tuple[Any, str]:
    """Load or fit a model that recommends; with a sentence that compares its lists with popularity."""
    from lemmata import load

    if file == "-" or Path(file).name.lower().endswith(RATINGS):
        return _fit_to_choices(file)
    model = load(Path(file))
    if not completes(type(model)):
        raise TypeError(
            f"a {type(model).__name__} recommends nothing; fit a completion model (lemmata models)."
        )
    for item in model.certificate_:
        if item.name == "ranks_above_popularity" and item.note:
            words = {"holds": "better than popularity", "fails": "worse than popularity"}
            return model, f"{words.get(item.verdict, 'beside popularity')}: {item.note}"
    advice = "fit with --test 0.1 to measure it"
    if getattr(model, "feedback", "explicit") == "explicit":
        advice += (
            "; lists of what people choose come from lemmata fit als … --set feedback=implicit"
        )
    return model, f"beside popularity: not measured; {advice}"


def _fit_to_choices(file: str) -> tuple[Any, str]:
    from lemmata.completion import ALS
    from lemmata.completion.metrics import evaluate

    entries = EntryOptions().read(file)
    if entries.values.min(initial=0) < 0:
        entries = entries.with_values(entries.values - entries.values.min() + 1)
    rank = min(20, *entries.shape)

    def fit(data: Any) -> Any:
        model = ALS(rank=rank, feedback="implicit", random_state=0)
        fit_whole(model, data, None, False)
        return model

    if entries.n_observed < 20:
        return fit(entries), "beside popularity: too few ratings to measure it"
    train, test = entries.split(0.1, seed=0)
    found = evaluate(fit(train), test, k=10)
    sentence = (
        f"beside popularity: NDCG@10 {found['ndcg']:.3f} against {found.popularity['ndcg']:.3f} on a tenth of the ratings "
        f"(ALS of rank {rank}, implicit feedback)"
    )
    return fit(entries), sentence


def _read_ratings(rated: list[str], find_item: Callable[[str], Any]) -> dict[Any, float] | None:
    """Read a new user's ratings from item=value settings."""
    ratings = {}
    for setting in rated:
        name, equals, value = setting.rpartition("=")
        try:
            rating = float(value)
        except ValueError:
            rating = float("nan")
        if not equals or rating != rating:
            raise typer.BadParameter(
                f"{setting!r} is not of the form ITEM=RATING.", param_hint="--rated"
            )
        ratings[find_item(name)] = rating
    return ratings or None


def _print_explanations(explanations: list[Any], as_json: bool) -> None:
    if as_json:
        print_json({"explanations": [why.to_dict() for why in explanations]})
    else:
        say("\n\n".join(map(str, explanations)))
