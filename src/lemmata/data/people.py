"""Loaders of data about people, with the columns that name their groups; words become one column for each that occurs.

>>> found = compas()                                       # doctest: +SKIP
>>> found.features[-1], sorted(found.groups)               # doctest: +SKIP
('decile_score', ['age_cat', 'race', 'sex'])
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable

import numpy as np

from lemmata.data.dataset import Dataset
from lemmata.data.sets import SOURCES, _dataset, _parts

Array = np.ndarray
Table = dict[str, Array]


def _read_table(folder: str, name: str) -> Table:
    """The columns of a file as texts; of columns with one name the first."""
    with gzip.open(SOURCES[folder].find(name), "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    columns = np.array(rows, dtype=object).T
    return {name: columns[header.index(name)] for name in header}


def _encode(
    table: Table, numbers: Iterable[str], words: Iterable[str]
) -> tuple[Array, tuple[str, ...]]:
    """Columns of numbers as they are, columns of words as one of 0 and 1 for each word."""
    columns = [(name, table[name].astype(np.float64)) for name in numbers]
    for name in words:
        columns += [(f"{name}={word}", table[name] == word) for word in sorted(set(table[name]))]
    return np.stack([values for _, values in columns], axis=1).astype(np.float64), tuple(
        name for name, _ in columns
    )


def adult(part: str = "all") -> Dataset:
    """48,842 people in 100 columns; y is 1 above 50,000 dollars. part: "train" (32,561), "test" or "all".

    `groups` has sex and race, which X has not, nor the weights of the census. A missing word is "?".
    """
    both = {name: _read_table("adult", f"{name}.csv.gz") for name in ("train", "test")}
    table = {name: np.concatenate([one[name] for one in both.values()]) for name in both["train"]}
    numbers = ["age", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    words = [
        "workclass",
        "education",
        "marital-status",
        "occupation",
        "relationship",
        "native-country",
    ]
    X, features = _encode(table, numbers, words)  # of both parts, so that columns agree
    ends = np.repeat(list(both), [len(one["age"]) for one in both.values()])
    rows = np.isin(ends, _parts(part, both))
    y = (table["income"] == ">50K").astype(np.int64)
    groups = {name: table[name][rows].astype(str) for name in ("sex", "race")}
    return _dataset(
        "adult", X=X[rows], y=y[rows], names=("<=50K", ">50K"), features=features, groups=groups
    )


def compas() -> Dataset:
    """6,172 defendants after ProPublica's filter; y is 1 for a new offence within two years.

    The last column is the score, 1 to 10; 5 and more is "medium" or "high". `groups` has race, sex and age_cat, X none of them.
    """
    table = _read_table("compas", "compas-scores-two-years.csv.gz")
    days = np.array([float(text or "nan") for text in table["days_b_screening_arrest"]])
    kept = (np.abs(days) <= 30) & (table["is_recid"] != "-1")
    kept &= (table["c_charge_degree"] != "O") & (table["score_text"] != "N/A")
    table = {name: values[kept] for name, values in table.items()}
    counts = ["juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
    X, features = _encode(table, ["age", *counts], ["c_charge_degree"])
    X = np.column_stack([X, table["decile_score"].astype(np.float64)])
    groups = {name: table[name].astype(str) for name in ("race", "sex", "age_cat")}
    y = table["two_year_recid"].astype(np.int64)
    names = ("no new offence", "new offence")
    return _dataset("compas", X=X, y=y, names=names, features=(*features, "decile_score"), groups=groups)  # fmt: skip
