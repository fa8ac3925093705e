"""docs/from-scikit-learn.md: every public parameter, attribute and method of a counterpart is here too, or there is a reason.

    python -m tools.migration              write the page from tools/peers.json and our own classes (./run docs)
    python -m tools.migration --read       read the surfaces of the installed counterparts first

Reasons stand in tools/reasons.py, by the counterpart's name. One that explains nothing any more is an error, as is a
difference without a reason.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import lemmata
from lemmata import registry
from tools.reasons import FUNCTIONS, REASONS, REMARKS
from tools.surfaces import (
    ATOMS,
    REST,
    Surface,
    class_of,
    fit,
    read_peers,
    read_surface,
    version_of,
    write_peers,
)

INTERNAL = (
    "restored",
    "stored_attributes",
    "work",
)  # of the base class, for reading files and billing claims
PAGE = Path(__file__).parents[1] / "docs" / "from-scikit-learn.md"


@dataclass(frozen=True, eq=False)
class Pair:
    """A class of ours, the class elsewhere that it stands in for, and the parameters that a fit to small data wants."""

    ours: str
    theirs: str  # the full path
    parameters: dict[str, Any] = field(default_factory=dict)  # of both
    mine: dict[str, Any] = field(default_factory=dict)  # of ours alone

    @property
    def name(self) -> str:
        return self.theirs.rpartition(".")[2]

    @property
    def exists(self) -> bool:
        return self.ours in registry.MODELS


PAIRS = (
    Pair("PCA", "sklearn.decomposition.PCA", {"n_components": 3}),
    Pair("IncrementalPCA", "sklearn.decomposition.IncrementalPCA", {"n_components": 3}),
    Pair("TruncatedSVD", "sklearn.decomposition.TruncatedSVD", {"n_components": 3}),
    Pair(
        "KernelPCA",
        "sklearn.decomposition.KernelPCA",
        {"n_components": 3, "kernel": "rbf", "fit_inverse_transform": True},
    ),
    Pair("SparseCoder", "sklearn.decomposition.SparseCoder", {"dictionary": ATOMS}),
    Pair("DictionaryLearning", "sklearn.decomposition.DictionaryLearning", {"n_components": 3}),
    Pair(
        "DictionaryLearning",
        "sklearn.decomposition.MiniBatchDictionaryLearning",
        {"n_components": 3},
    ),
    Pair("KMeans", "sklearn.cluster.KMeans", {"n_clusters": 3}),
    Pair("AgglomerativeClustering", "sklearn.cluster.AgglomerativeClustering", {"n_clusters": 3}),
    Pair("MiniBatchKMeans", "sklearn.cluster.MiniBatchKMeans", {"n_clusters": 3}),
    Pair("GaussianMixture", "sklearn.mixture.GaussianMixture", {"n_components": 3}),
    *(
        Pair(path.rpartition(".")[2], f"sklearn.{path}")
        for path in (
            "linear_model.LinearRegression",
            "linear_model.Ridge",
            "linear_model.RidgeCV",
            "linear_model.Lasso",
            "linear_model.LassoCV",
            "linear_model.ElasticNet",
            "linear_model.ElasticNetCV",
            "linear_model.RidgeClassifier",
            "linear_model.HuberRegressor",
            "linear_model.LogisticRegression",
            "linear_model.LogisticRegressionCV",
            "linear_model.SGDClassifier",
            "svm.LinearSVC",
            "svm.SVC",
            "svm.SVR",
            "kernel_ridge.KernelRidge",
            "kernel_approximation.Nystroem",
            "kernel_approximation.RBFSampler",
            "neighbors.KNeighborsClassifier",
            "neighbors.KNeighborsRegressor",
            "neighbors.NearestNeighbors",
            "neural_network.MLPClassifier",
            "neural_network.MLPRegressor",
        )
    ),
    Pair(
        "LatentDirichletAllocation",
        "sklearn.decomposition.LatentDirichletAllocation",
        {"n_components": 3},
    ),
    Pair("NMF", "sklearn.decomposition.NMF", {"n_components": 3}),
    Pair("NMF", "sklearn.decomposition.MiniBatchNMF", {"n_components": 3}),
    Pair("ALS", "cmfrec.CMF", mine={"rank": 4}),
    Pair("ALS", "cmfrec.CMF_implicit", mine={"rank": 4, "feedback": "implicit"}),
    Pair(
        "ALS", "implicit.cpu.als.AlternatingLeastSquares", mine={"rank": 4, "feedback": "implicit"}
    ),
    Pair("SGDFactorization", "surprise.SVD", mine={"rank": 4}),
    Pair("MeanRatings", "surprise.BaselineOnly"),
)


# --- comparing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """Something of a counterpart that is not the same here. `key` is what reasons call it."""

    kind: str  # parameter, method, attribute
    key: str  # svd_solver, get_precision(), mean_
    found: str  # what the two have


@cache
def our_surface(pair: Pair) -> Surface:
    path = f"{registry.MODELS[pair.ours].module}.{pair.ours}"
    return read_surface(class_of(path), fit(path, **pair.parameters, **pair.mine))


def compare(ours: Surface, theirs: Surface) -> list[Difference]:
    """Everything of theirs that ours has not, or has otherwise."""
    found = []
    for name, default in theirs.parameters.items():
        if name not in ours.parameters:
            found.append(Difference("parameter", name, "not here"))
        elif not _equal(default, ours.parameters[name]):
            found.append(Difference("parameter", name, f"{default}; here {ours.parameters[name]}"))
        elif _place(theirs, name) != _place(ours, name) and theirs.strict:
            found.append(Difference("parameter", name, "at another place without its name"))
    return [*found, *_other_methods(ours, theirs), *_other_attributes(ours, theirs)]


def _other_methods(ours: Surface, theirs: Surface) -> Iterator[Difference]:
    for name, arguments in theirs.methods.items():
        if name not in ours.methods:
            yield Difference("method", f"{name}()", "not here")
            continue
        here = ours.methods[name]
        lacking = [] if REST in here else [word for word in arguments if word not in (*here, REST)]
        if lacking:
            yield Difference("method", f"{name}()", f"without {', '.join(lacking)}")


def _other_attributes(ours: Surface, theirs: Surface) -> Iterator[Difference]:
    for name, shape in theirs.attributes.items():
        if name not in ours.attributes:
            yield Difference("attribute", name, "not here")
        elif shape and ours.attributes[name] and shape != ours.attributes[name]:
            yield Difference("attribute", name, f"{shape}; here {ours.attributes[name]}")


def _place(surface: Surface, name: str) -> int | None:
    """Which of the arguments it is when written without a name."""
    return surface.positional.index(name) if name in surface.positional else None


def _equal(a: str, b: str) -> bool:
    try:
        return bool(ast.literal_eval(a) == ast.literal_eval(b))
    except (ValueError, SyntaxError):
        return a == b


def same(ours: Surface, theirs: Surface) -> dict[str, list[str]]:
    """What needs no reason, by kind."""
    different = {one.key for one in compare(ours, theirs)}
    return {
        "parameters": [name for name in theirs.parameters if name not in different],
        "methods": [f"{name}()" for name in theirs.methods if f"{name}()" not in different],
        "attributes": [name for name in theirs.attributes if name not in different],
    }


@cache
def reasons_for(name: str) -> dict[str, str]:
    """Reasons by what they explain; one may explain several things, written with spaces between them."""
    return _by_key(REASONS.get(name, {}))


def _by_key(told: dict[str, str]) -> dict[str, str]:
    return {key: why for keys, why in told.items() for key in keys.split()}


# --- what a test holds ------------------------------------------------------------------------------------------------


def undeclared(pair: Pair, theirs: Surface) -> list[str]:
    """Differences without a reason."""
    known = reasons_for(pair.name)
    return [
        f"{pair.name}.{one.key}: {one.found}"
        for one in compare(our_surface(pair), theirs)
        if one.key not in known
    ]


def stale(pair: Pair, theirs: Surface) -> list[str]:
    """Reasons for what is no difference, and reasons that point to a name which ours does not have."""
    ours = our_surface(pair)
    found = {one.key for one in compare(ours, theirs)}
    dead = [f"{pair.name}.{key}" for key in reasons_for(pair.name) if key not in found]
    remarks = _by_key(REMARKS.get(pair.name, {}))
    alike = {key for keys in same(ours, theirs).values() for key in keys}
    dead += [f"{pair.name}.{key} (remark)" for key in remarks if key not in alike]
    here = {*ours.parameters, *ours.methods, *ours.attributes}
    for key, why in [*reasons_for(pair.name).items(), *remarks.items()]:
        dead += [
            f"{pair.name}.{key} → {name}"
            for name in re.findall(r"→ `(?:lemmata\.)?(\w+)", why)
            if name not in here and not hasattr(lemmata, name)
        ]
    return dead


# --- the page ---------------------------------------------------------------------------------------------------------

HEAD = """\
# from scikit-learn, implicit, Surprise and cmfrec

For scikit-learn's models, changing the import is enough: parameters, attributes and methods have scikit-learn's names,
order, defaults and meaning. This page lists every public parameter, attribute and method of each counterpart: it is the
same here, or there is a reason. The libraries of recommenders do not agree with each other; for them it says what to
write instead.

```python
from sklearn.decomposition import PCA  # before
from lemmata import PCA  # after: the same, and model.certificate_
```

`./run docs` makes it from the signatures and from a fit of both to the same small data; a test fails on a difference
without a reason, and on a reason without a difference. "Same" means the name, the default, the arguments of a method and
the shape of an attribute. What every model here has beside its counterpart's (`checkpoint`, `time_limit`,
`certificate_`, …) is described in [core](core.md#the-same-parameters-everywhere).
"""


def page(peers: dict[str, Surface]) -> str:
    parts = [HEAD]
    for pair in PAIRS:
        if pair.exists and pair.theirs in peers:
            parts.append(_section(pair, peers[pair.theirs]))
    lines = [f"| `{name}` | {instead} |" for name, instead in FUNCTIONS.items()]
    parts.append("## Around the models\n\n| there | here |\n|---|---|\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _section(pair: Pair, theirs: Surface) -> str:
    ours, library = our_surface(pair), pair.theirs.partition(".")[0]
    lines = [f"## {pair.theirs} {theirs.version} → lemmata.{pair.ours}", ""]
    for kind, names in same(ours, theirs).items():
        lines.append(f"* Same {kind}: {', '.join(f'`{name}`' for name in names) or 'none'}.")
    more = [name for name in ours.parameters if name not in theirs.parameters]
    beside = [f"{n}()" for n in ours.methods if n not in theirs.methods and n not in INTERNAL]
    gained = [name for name in ours.attributes if name not in theirs.attributes]
    if library == "sklearn":
        lines.append(f"* Only here: {', '.join(f'`{name}`' for name in more + beside + gained)}.")
    if remarks := REMARKS.get(pair.name):
        lines += ["", "| same name | but |", "|---|---|", *(_row(*one) for one in remarks.items())]
    found = compare(ours, theirs)
    if not found:
        return "\n".join([*lines, "", "No other difference." if remarks else "No difference.", ""])
    lines += ["", f"| {library}'s | found | why, or what to write |", "|---|---|---|"]
    known = reasons_for(pair.name)
    groups: dict[tuple[str, str], list[str]] = {}
    for one in found:
        groups.setdefault((one.found, known.get(one.key, "**no reason given**")), []).append(
            one.key
        )
    lines += [_row(" ".join(keys), what, why) for (what, why), keys in groups.items()]
    return "\n".join([*lines, ""])


def _row(keys: str, *cells: str) -> str:
    names = ", ".join(f"`{key}`" for key in keys.split())
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in (names, *cells)) + " |"


def read_installed() -> dict[str, Surface]:
    """The surfaces of the counterparts that can be imported here."""
    found = {}
    for pair in PAIRS:
        try:
            cls = class_of(pair.theirs)
        except ImportError:
            continue
        found[pair.theirs] = read_surface(cls, fit(pair.theirs, **pair.parameters))
    return found


def current(path: str, stored: Surface) -> bool:
    """Whether the installed version is the one that the facts were read from."""
    return version_of(path.partition(".")[0]) == stored.version


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.migration", description=__doc__)
    parser.add_argument("--read", action="store_true", help="read the installed counterparts first")
    if parser.parse_args().read:
        write_peers({**read_peers(), **read_installed()})
    peers = read_peers()
    PAGE.write_text(page(peers))
    wrong = 0
    for pair in PAIRS:
        if not (pair.exists and pair.theirs in peers):
            print(f"skipped: {pair.ours} ({pair.theirs})")
            continue
        for what, names in (("no reason", undeclared), ("stale", stale)):
            for text in names(pair, peers[pair.theirs]):
                wrong += 1
                print(f"{what}: {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
