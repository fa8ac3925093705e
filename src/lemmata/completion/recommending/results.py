"""Results of recommending: lists of items, and predictions taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.core.certification.showing import one_line

Array = np.ndarray

SHOWN = 5  # users whose lists are printed


@dataclass(frozen=True, eq=False)
class Recommendations:
    """The best items of one or several users (or the nearest neighbours of items), best first.

    Attributes
    ----------
    items : labels where the data had labels, otherwise positions; (users, n), or (n,) for a single user
    scores : predicted values (or similarities), of the same shape
    positions : of the items in the matrix, of the same shape
    of : the users (or items) asked about; None for new ones

    Where fewer than n items are left, the position is −1, the score NaN, and the item stands for nothing. `to_frame()` makes a
    DataFrame with one line per item, `to_dict()` plain lists.
    """

    items: Array
    scores: Array
    positions: Array
    of: Any = None
    what: str = "user"
    found: str = "item"

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[tuple[Any, list[tuple[Any, float]]]]:
        """Pairs of a user and its list of (item, score), without the places where nothing was left."""
        rows = zip(*map(np.atleast_2d, (self.items, self.scores, self.positions)), strict=True)
        of = (
            [None] * np.atleast_2d(self.items).shape[0]
            if self.of is None
            else np.atleast_1d(self.of).tolist()
        )
        for name, (items, scores, positions) in zip(of, rows, strict=True):
            kept = positions >= 0
            yield name, list(zip(items[kept].tolist(), scores[kept].tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists: one per user."""
        lists = [
            {self.what: name, "items": [{"item": item, "score": score} for item, score in pairs]}
            for name, pairs in self
        ]
        return {"recommendations": lists}

    def to_frame(self) -> Any:
        """A pandas DataFrame with one line per item: user, item, rank (1 is the best), score. New users are numbered."""
        import pandas as pd

        lists = [
            (number if name is None else name, pairs) for number, (name, pairs) in enumerate(self)
        ]
        columns: dict[str, list] = {self.what: [], self.found: [], "rank": [], "score": []}
        for name, pairs in lists:
            columns[self.what] += [name] * len(pairs)
            columns[self.found] += [item for item, _ in pairs]
            columns["rank"] += range(1, len(pairs) + 1)
            columns["score"] += [score for _, score in pairs]
        return pd.DataFrame(columns)

    def text(self, shown: int | None = SHOWN) -> str:
        """The lists of so many users (None: of all) for people."""
        lines = []
        for count, (name, pairs) in enumerate(self):
            if count == shown:
                lines.append(f"… and {np.atleast_2d(self.items).shape[0] - count:,} more")
                break
            lines.append(
                f"new {self.what}" if name is None else f"{self.what} {one_line(str(name))}"
            )
            titles = [one_line(str(item)) for item, _ in pairs]
            width = max(map(len, titles), default=0)
            lines += [
                f"  {rank:>3}  {title:<{width}}  {score:.3f}"
                for rank, (title, (_, score)) in enumerate(zip(titles, pairs, strict=True), 1)
            ]
            if not pairs:
                lines.append("  nothing is left")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Explanation:
    """A prediction taken apart: mean + row_bias + column_bias + contributions.sum() + remainder = prediction.

    Attributes
    ----------
    items, positions, ratings : what the user had rated, largest contribution (in size) first
    weights : how much each counts: contribution = weight × how far the rating (in units of its scale, usually 1) lies above
        what the offsets alone predict; with implicit feedback, weight × 1 for what was seen
    contributions : to the prediction
    remainder : what the ratings do not account for: 0 up to rounding where the user's factors solve their least squares, as
        they do after a fold-in, and nearly so at the end of ALS; not 0 for other ways of fitting, or a fit stopped early
    """

    user: Any
    item: Any
    prediction: float
    mean: float
    row_bias: float
    column_bias: float
    items: Array
    positions: Array
    ratings: Array
    weights: Array
    contributions: Array
    remainder: float
    shown: int = 5

    def to_dict(self) -> dict[str, Any]:
        columns = (self.items, self.ratings, self.weights, self.contributions)
        ratings = [
            {"item": item, "rating": rating, "weight": weight, "contribution": part}
            for item, rating, weight, part in zip(
                *(column[: self.shown].tolist() for column in columns), strict=True
            )
        ]
        names = {
            "user": _plain(self.user),
            "item": _plain(self.item),
            "prediction": self.prediction,
        }
        offsets = {"mean": self.mean, "row_bias": self.row_bias, "column_bias": self.column_bias}
        others = {
            "others": float(self.contributions[self.shown :].sum()),
            "remainder": self.remainder,
        }
        return {**names, **offsets, "ratings": ratings, **others}

    def __str__(self) -> str:
        rows = [
            ("mean of all", self.mean),
            ("the user", self.row_bias),
            ("the item", self.column_bias),
        ]
        for item, rating, part in zip(self.items, self.ratings, self.contributions, strict=True):
            rows.append((f"{one_line(str(item))} rated {rating:g}", part))
        first, rest = rows[: 3 + self.shown], rows[3 + self.shown :]
        if rest:
            first.append(
                (
                    f"{len(rest):,} other rating{'s' if len(rest) > 1 else ''}",
                    sum(part for _, part in rest),
                )
            )
        if abs(self.remainder) >= 5e-4:  # else it is 0.000
            first.append(("not explained by the ratings", self.remainder))
        width = max(len(name) for name, _ in first)
        user = "a new user" if self.user is None else f"user {one_line(str(self.user))}"
        head = f"{user}, item {one_line(str(self.item))}: {self.prediction:.3f}"
        return "\n".join([head, *(f"  {name:<{width}}  {part:+.3f}" for name, part in first)])

    __repr__ = __str__


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
