"""Finding one's way: which models there are, which suit a file, and what a claim of a certificate means."""

from __future__ import annotations

import re
import textwrap
from functools import partial
from inspect import getdoc, signature
from typing import Annotated, Any

import typer

from lemmata import registry
from lemmata.cli import guidance, shell


def search_models(word: str) -> list[str]:
    """Models in whose name, summary, task or keywords a word begins like this one, in the order of the tasks."""
    wanted = re.compile(r"\b" + re.escape(word.lower()))
    return [
        name
        for names in registry.models_by_task().values()
        for name in names
        if wanted.search(_searchable(name))
    ]


def _searchable(name: str) -> str:
    one = registry.MODELS[name]
    return f"{name} {one.summary} {one.task} {one.keywords}".lower()


@shell.command
def models(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL|WORD]",
            help="One model, or a word to look for: word2vec.",
            autocompletion=guidance.complete_models,
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show all parameters of a model.")
    ] = False,
    as_json: shell.AsJson = False,
) -> None:
    """List the models by task, find some by a word, or describe one."""
    known = {name.lower(): name for name in registry.MODELS}
    if model is not None and model.lower() in known:
        return _describe(known[model.lower()], everything, as_json)
    found = list(registry.MODELS) if model is None else search_models(model)
    if not found:
        shell.model_name(str(model))  # names the nearest
    if as_json:
        return shell.print_json(
            [{"name": name, **registry.MODELS[name]._asdict()} for name in found]
        )
    for number, (task, names) in enumerate(registry.models_by_task().items()):
        lines = [
            f"  {name:<25}  {registry.MODELS[name].summary}" for name in names if name in found
        ]
        if lines:
            print("\n" * bool(number and model is None) + task, *lines, sep="\n")
    if model is None:
        print("\nlemmata models WORD finds some, lemmata models NAME describes one.")


SHOWN = 6  # parameters of a model that are described at first
SELDOM = {
    "copy",
    "copy_X",
    "verbose",
    "checkpoint",
    "time_limit",
    "random_state",
    "warm_start",
    "n_jobs",
}


def _describe(name: str, everything: bool, as_json: bool) -> None:
    cls, entry = registry.model_class(name), registry.MODELS[name]
    values = {word: one.default for word, one in signature(cls).parameters.items()}
    if as_json:
        return shell.print_json({"name": name, **entry._asdict(), "parameters": values})
    if everything:
        return print(getdoc(cls))
    print(f"{name}: {entry.summary} ({entry.task}; {entry.source})\n")
    declared = cls.declared_parameters
    used = [one for one in values if one not in SELDOM and values[one] != "deprecated"]
    for word in used[:SHOWN]:
        meaning = declared[word].meaning if word in declared else ""
        _say_under(f"  {word}={values[word]!r}", " ".join(str(meaning).split()))
    if len(used) > SHOWN:
        print(f"  … {len(values) - SHOWN} more: lemmata models {name} --all")
    print("\nclaims:")
    for claim in (*getattr(cls, "claims", ()), *getattr(cls, "more_claims", ())):
        _say_under(f"  {claim.name} [{claim.kind}]", claim.sentence)
    if entry.counterparts:
        _say_under("\nalso certifies", ", ".join(entry.counterparts))
    print(f"\n  $ lemmata fit {name.lower()} DATA --save model.lemma")


def _say_under(head: str, text: str) -> None:
    """Print a head and, indented below it, a text of at most 80 columns."""
    print(head)
    if text:
        print(textwrap.fill(text, 80, initial_indent=" " * 6, subsequent_indent=" " * 6))


# --- which model suits a file -----------------------------------------------------------------------------------------


@shell.command
def which(
    data: shell.DataFile,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column to predict, by its name.")
    ] = None,
    as_json: shell.AsJson = False,
) -> None:
    """Say what is in a file, which models suit it and why, with commands that run as printed.

    Of a large text only the beginning is read."""
    from lemmata.data import inspect_file, suggest_models

    found = inspect_file(data)
    facts = _describe_file(found)
    names = [one.name for one in found.columns]
    if target is not None and target not in names:
        hint = shell.nearest(target, names) if names else f"; this is no table, but {found.kind}."
        raise typer.BadParameter(f"there is no column {target!r}{hint}", param_hint="--target")
    suggested = suggest_models(found, target)
    if as_json:
        return shell.print_json(
            {"file": data, "kind": found.kind, "rows": found.n_rows, "facts": facts,
             "models": [one._asdict() for one in suggested]}
        )  # fmt: skip
    shell.say("\n".join(facts))
    for one in suggested:
        shell.say(f"\n{one.model}: {one.why}\n  $ {one.command}")


def _describe_file(found: Any) -> list[str]:
    """What is in a file, in a few lines."""
    about = "" if found.counted else "about "
    if found.kind == "images":
        size = " × ".join(map(str, found.shape))
        return [f"{found.path}: {found.n_rows:,} images of {size}"]
    if not found.columns:
        return [f"{found.path}: {found.kind}, {about}{found.n_rows:,} lines"]
    size = f"{about}{found.n_rows:,} rows × {len(found.columns):,} columns"
    lines = [f"{found.path}: {found.kind}, {size}"]
    for kind in ("number", "whole number", "classes", "text", "empty"):
        some = [one for one in found.columns if one.kind == kind]
        if some:
            counts = {
                one.name: f" ({one.distinct})" if kind == "classes" else "" for one in some[:6]
            }
            names = ", ".join(name + count for name, count in counts.items())
            more = f" and {len(some) - 6:,} more" if len(some) > 6 else ""
            lines.append(f"  {kind}: {names}{more}")
    if any(0 < one.missing < 1 for one in found.columns):
        worst = max((one for one in found.columns if one.missing < 1), key=lambda one: one.missing)
        lines.append(f"  cells are empty, most in {worst.name} ({worst.missing:.0%})")
    return lines


# --- what a claim means -----------------------------------------------------------------------------------------------


def _complete_claims(incomplete: str) -> list[str]:
    return [name for name in _claims_of_models() if name.startswith(incomplete)]


@shell.command
def explain(
    claim: Annotated[
        str,
        typer.Argument(
            metavar="CLAIM",
            help="As a certificate names it.",
            autocompletion=_complete_claims,
        ),
    ],
    as_json: shell.AsJson = False,
) -> None:
    """Explain a claim of a certificate: its theorem, its source, how often it was wrong.

    Also what to do where it fails, and which models or functions have it."""
    known = _claims_of_models()
    found = known.get(claim.lower())
    if not found:
        raise typer.BadParameter(
            f"no certificate has a claim {claim!r}{shell.nearest(claim, known)}", param_hint="CLAIM"
        )
    statements = [_explain(one, owners) for one, owners in found]
    if as_json:
        return shell.print_json({"claim": claim.lower(), "statements": statements})
    print(claim.lower())
    for each in statements:
        print()
        for word, text in each.items():
            head = f"  {word:<9}"
            for line in [text] if isinstance(text, str) else text:
                if line:
                    indent = " " * len(head)
                    print(textwrap.fill(line, 80, initial_indent=head, subsequent_indent=indent))
                    head = indent


def _claims_of_models() -> dict[str, list[tuple[Any, list[str]]]]:
    """Every claim by its name: its statements, one for each wording, with the models or functions that have it."""
    from lemmata.core.certification.explaining import CERTIFIERS, claims_of

    found: dict[str, list[tuple[Any, list[str]]]] = {}
    for owner, claims in [
        *((model, partial(_claims_of_model, model)) for model in registry.MODELS),
        *((what, partial(claims_of, where)) for where, what in CERTIFIERS.items()),
    ]:
        try:
            known = claims()
        except ModuleNotFoundError:
            continue  # of an extra that is not installed
        for one in known:
            same = found.setdefault(one.name, [])
            for other, owners in same:
                if (other.sentence, other.source) == (one.sentence, one.source):
                    owners += [owner] * (owner not in owners)
                    break
            else:
                same.append((one, [owner]))
    return found


def _claims_of_model(name: str) -> list[Any]:
    cls = registry.model_class(name)
    return [*getattr(cls, "claims", ()), *getattr(cls, "more_claims", ())]


def _explain(one: Any, owners: list[str]) -> dict[str, Any]:
    """All there is to say of a claim, in the order of reading."""
    from lemmata.core.certification.explaining import advice_of, count_wrong, theorem_of

    sure = f" {100 * one.confidence:.6g} %" if one.kind == "statistical" else ""
    counted = count_wrong(one)
    wrong = f"{counted[0]} of {counted[1]:,} verdicts on planted cases" if counted else ""
    return {
        "claim": one.sentence, "kind": one.kind + sure, "theorem": theorem_of(one),
        "source": one.source, "wrong": wrong, "to do": [f"→ {text}" for text in advice_of(one)],
        "models": ", ".join(owners),
    }  # fmt: skip
