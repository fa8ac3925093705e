"""What `--help` says besides options: commands in groups, two examples each, and words that a shell completes.

Only the registry is imported here: `lemmata --help` has to be quick.
"""

from __future__ import annotations

from typing import Any

from lemmata import registry

GROUPS = {
    "Start": ("demo", "which", "models"),
    "Fit": ("fit", "info"),
    "Judge": ("certify", "evaluate", "attack", "fairness", "diagnose"),
    "Use": ("predict", "transform", "recommend", "topics", "nearest", "analogy", "sample"),
    "Learn": ("atlas", "explain"),
    "Machine": ("warm",),
}

EXIT_CODES = """\
Exit codes: 0 all went well. 1 the data, a file or a value was refused. 2 the command line was wrong: an unknown model,
parameter or option. 3 the certificate does not hold: a claim fails, is broken or was not checked. 130 interrupted by
Ctrl-C, nothing was saved. 141 the output pipe was closed. LEMMATA_DEBUG=1 shows tracebacks."""

EXAMPLES = {
    "demo": ("demo --out digits.png", "demo --deep"),
    "which": ("which flowers.csv", "which flowers.csv --target kind"),
    "models": ("models word2vec", "models KMeans"),
    "fit": (
        "fit kmeans flowers.csv --drop kind -s n_clusters=2 --save k.lemma",
        "fit logisticregression flowers.csv --target kind --save l.lemma",
    ),
    "info": ("info k.lemma", "info k.lemma --json"),
    "certify": (
        "certify k.lemma flowers.csv --drop kind",
        "certify --samples drawn.npy training.npy --test new.npy",
    ),
    "evaluate": (
        "evaluate l.lemma new_flowers.csv --target kind",
        "evaluate l.lemma new_flowers.csv --target kind --train flowers.csv",
    ),
    "attack": (
        "attack l.lemma new_flowers.csv --target kind --eps 0.1",
        "attack l.lemma new_flowers.csv --target kind --eps 0.5 --norm 2",
    ),
    "fairness": (
        "fairness l.lemma people.csv --target hired --group sex",
        "fairness l.lemma p.csv --target hired --group sex --within 0.05",
    ),
    "diagnose": ("diagnose ratings.csv --rank 10", "diagnose ratings.csv --rank 32 --json"),
    "predict": (
        "predict l.lemma new_flowers.csv --drop kind",
        "predict l.lemma new_flowers.csv --drop kind --out kinds.csv",
    ),
    "transform": (
        "transform k.lemma new_flowers.csv --drop kind",
        "transform k.lemma new_flowers.csv --drop kind --out distances.npy",
    ),
    "sample": (
        "sample vae.lemma -n 64 --out grid.png",
        'sample text.lemma -n 3 --prompt "Once upon"',
    ),
    "recommend": ("recommend als.lemma --user 4 -n 5", "recommend als.lemma --user 4 --json"),
    "topics": ("topics lda.lemma", "topics lda.lemma --words 5"),
    "nearest": ("nearest vectors.lemma king", "nearest vectors.lemma king -n 3"),
    "analogy": (
        "analogy vectors.lemma man king woman",
        "analogy vectors.lemma man king woman -n 3",
    ),
    "atlas": ("atlas", "atlas eigendigits --out pictures"),
    "explain": ("explain subspace_determined", "explain near_optimum --json"),
    "warm": ("warm", "warm --help"),
}


def order_of(command: str) -> int:
    """Return the place of a command among all."""
    return [name for names in GROUPS.values() for name in names].index(command)


def show_examples(command: str) -> str:
    """Return the end of a command's help: two examples, as they are typed."""
    lines = [f"  $ lemmata {words}" for words in EXAMPLES.get(command, ())]
    return "\n".join(["\b", "Examples:", *lines]) if lines else ""


def write_groups(group: Any, ctx: Any, formatter: Any) -> None:
    """Write the commands below their groups, each with its whole first sentence."""
    width = max(len(name) for names in GROUPS.values() for name in names)
    for title, names in GROUPS.items():
        with formatter.section(title):
            rows = [
                (name.ljust(width), command.get_short_help_str(limit=200))
                for name in names
                if (command := group.get_command(ctx, name)) is not None
            ]
            formatter.write_dl(rows)


# --- what a shell completes -------------------------------------------------------------------------------------------


def complete_models(incomplete: str) -> list[str]:
    """Return models by the beginning of their names, in small letters."""
    known = [name.lower() for name in registry.MODELS]
    return [name for name in known if name.startswith(incomplete.lower())]


def complete_settings(ctx: Any, incomplete: str) -> list[str]:
    """Return the parameters of the model that the command line names, each with its `=`."""
    name = next((one for one in registry.MODELS if one.lower() == str(ctx.params.get("model")).lower()), None)  # fmt: skip
    known = registry.model_class(name)._get_param_names() if name else []
    return [f"{one}=" for one in known if one.startswith(incomplete)]


def complete_atlas(incomplete: str) -> list[str]:
    """Return entries of the atlas by the beginning of their ids."""
    from lemmata.atlas import entries

    return [id for id in entries() if id.startswith(incomplete)]
