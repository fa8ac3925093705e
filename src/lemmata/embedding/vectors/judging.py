"""Judging word vectors: do they agree with people about pairs of words, and do they solve analogies?

Similarity: Spearman's ρ between the cosines and the scores that people gave. With n pairs, ρ's interval comes from Fisher's
z = artanh ρ, whose standard error is √((1 + ρ²/2) / (n − 3)) (Bonett and Wright 2000): with 300 pairs about ± 0.1,
so that two models a few points apart are not distinguished by it.

Analogies: the share of questions "a is to b as c is to d" whose best answer is d, with Hoeffding's interval √(ln(2/δ) / 2n).
Questions are pairs of pairs: 16 pairs make 240 questions, whose share is a mean over all ways to join the pairs, each of
n = 8 independent questions, which share no word (Hoeffding 1963, 5b): so n is a quarter of the words. Sections with shares w_s
of the questions add up to 1/n = Σ w_s²/n_s.

Pairs and questions with words that have no vector are left out, and counted: a score over fewer pairs is one of another test.
"""

from __future__ import annotations

import gzip
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lemmata.embedding.vectors.word_vectors import directions, multiply_similarities, top

if TYPE_CHECKING:
    from lemmata.embedding.vectors.word_vectors import WordVectors

Array = np.ndarray
QUESTIONS = 256  # analogies answered by one matrix product


@dataclass(frozen=True)
class SimilarityScore:
    """Spearman's ρ of a test of similarity, its interval, and how many of its pairs have vectors."""

    spearman: float
    low: float
    high: float
    n_pairs: int
    n_unknown: int
    confidence: float = 0.95

    @property
    def standard_error(self) -> float:
        """Standard error of ρ, by the same approximation."""
        return (1 - self.spearman**2) * math.sqrt(
            (1 + self.spearman**2 / 2) / max(self.n_pairs - 3, 1)
        )

    def __str__(self) -> str:
        return (
            f"Spearman {self.spearman:.3f} ({self.confidence:.0%}: {self.low:.3f} to {self.high:.3f}) "
            f"over {self.n_pairs} pairs, {self.n_unknown} without vectors"
        )


@dataclass(frozen=True)
class AnalogyScore:
    """The share of analogies solved, its interval, and the same for every section of the file."""

    accuracy: float
    low: float
    high: float
    n_questions: int
    n_unknown: int
    confidence: float = 0.95
    sections: dict[str, AnalogyScore] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{self.accuracy:.1%} right ({self.confidence:.0%}: {self.low:.1%} to {self.high:.1%}) "
            f"of {self.n_questions:,} questions, {self.n_unknown:,} without vectors"
        )


def _lines(path: Any) -> list[tuple[int, str]]:
    """Numbered lines that are neither empty nor comments."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        numbered = enumerate((line.strip() for line in file), 1)
        return [(number, line) for number, line in numbered if line and not line.startswith("#")]


def _confidence(value: float) -> float:
    if not 0 < value < 1:
        raise ValueError(f"confidence={value}: pass a probability between 0 and 1, such as 0.95.")
    return float(value)


# --- similarity -------------------------------------------------------------------------------------------------------


def evaluate_similarity(
    vectors: WordVectors, path: Any, *, confidence: float = 0.95, lowercase: bool = True
) -> SimilarityScore:
    """Spearman's ρ with the scores of a file: two words and a number on each line, by tabs or spaces; "#" begins a comment.

    lowercase : bool, default=True
        Look for a word in lower case where it has no vector as it is written.
    """
    confidence = _confidence(confidence)
    places, scores, unknown = [], [], 0
    for number, line in _lines(path):
        parts = line.split("\t") if "\t" in line else line.split()
        try:
            first, second, score = parts[0], parts[1], float(parts[2])
        except (IndexError, ValueError):
            if number == 1:  # a line of headings
                continue
            raise ValueError(
                f"{path}, line {number}: {line[:60]!r} is not two words and a number."
            ) from None
        pair = [_place(vectors.ids, word, lowercase) for word in (first, second)]
        if min(pair) < 0:
            unknown += 1
            continue
        places.append(pair)
        scores.append(score)
    if len(places) < 4:
        raise ValueError(
            f"only {len(places)} pairs of {path} have vectors, of {len(places) + unknown}; a correlation needs four and more."
        )
    a, b = (
        directions(np.asarray(vectors.matrix[column], dtype=np.float64))
        for column in np.array(places).T
    )
    rho = _spearman(np.einsum("ij,ij->i", a, b), np.array(scores))
    low, high = _interval(rho, len(places), confidence)
    return SimilarityScore(rho, low, high, len(places), unknown, confidence)


def _place(ids: Any, word: str, lowercase: bool) -> int:
    place = ids.get(word, -1)
    return ids.get(word.lower(), -1) if place < 0 and lowercase else place


def _spearman(x: Array, y: Array) -> float:
    from scipy.stats import rankdata

    a, b = (rankdata(one) - (len(x) + 1) / 2 for one in (x, y))
    scale = math.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else 0.0


def _interval(rho: float, n: int, confidence: float) -> tuple[float, float]:
    from scipy.stats import norm

    z = math.atanh(min(max(rho, -1 + 1e-12), 1 - 1e-12))
    wide = norm.ppf((1 + confidence) / 2) * math.sqrt((1 + rho**2 / 2) / (n - 3))
    return math.tanh(z - wide), math.tanh(z + wide)


# --- analogies --------------------------------------------------------------------------------------------------------


def evaluate_analogies(
    vectors: WordVectors,
    path: Any,
    *,
    method: str = "additive",
    among: int | None = 30_000,
    confidence: float = 0.95,
    lowercase: bool = True,
) -> AnalogyScore:
    """The share of questions solved. A line holds a b c d, or ": name" where a section begins.

    among : int or None, default=30_000
        Answers are searched among so many of the first (most frequent) words; questions with other words are left out.
    """
    from lemmata.embedding.vectors.word_vectors import METHODS

    if method not in METHODS:
        raise ValueError(f"method={method!r}: pass one of {', '.join(map(repr, METHODS))}.")
    confidence = _confidence(confidence)
    limit = len(vectors) if among is None else min(among, len(vectors))
    asked, unknown = _questions(vectors.ids, path, limit, lowercase)
    if not any(asked.values()):
        raise ValueError(f"no question of {path} has vectors for its four words.")
    matrix, sizes = vectors.matrix[:limit], vectors.lengths[:limit]
    solve = _solve_by_sums if method == "additive" else _solve_by_products
    places = {name: np.array(rows) for name, rows in asked.items() if rows}
    right = {name: solve(matrix, sizes, rows) for name, rows in places.items()}
    draws = {name: max(len(np.unique(rows)) // 4, 1) for name, rows in places.items()}
    parts = {
        name: _score(hits, draws[name], unknown[name], confidence) for name, hits in right.items()
    }
    hits = np.concatenate(list(right.values()))
    n = 1 / sum((len(right[name]) / len(hits)) ** 2 / draws[name] for name in right)
    n = min(n, max(len(np.unique(np.concatenate(list(places.values())))) // 4, 1))
    total = _score(hits, n, sum(unknown.values()), confidence)
    return AnalogyScore(
        total.accuracy, total.low, total.high, total.n_questions, total.n_unknown, confidence, parts
    )


def _questions(
    ids: Any, path: Any, limit: int, lowercase: bool = True
) -> tuple[dict[str, list[list[int]]], dict[str, int]]:
    """The places of the four words of every question with known ones, and how many others there are, by section."""
    asked: dict[str, list[list[int]]] = {}
    unknown: dict[str, int] = {}
    section = "all"
    for number, line in _lines(path):
        if line.startswith(":"):
            section = line[1:].strip()
            continue
        words = line.split()
        if len(words) != 4:
            raise ValueError(
                f"{path}, line {number}: {line[:60]!r} is not four words, nor ': section'."
            )
        places = [_place(ids, word, lowercase) for word in words]
        asked.setdefault(section, [])
        unknown.setdefault(section, 0)
        if min(places) < 0 or max(places) >= limit:
            unknown[section] += 1
        else:
            asked[section].append(places)
    return asked, unknown


def questions_over(ids: Any, analogies: Any) -> Array:
    """The places (q, 4) of analogies, from a file or rows of four words; those with unknown words are left out."""
    if isinstance(analogies, (str, Path)):
        asked, _ = _questions(ids, analogies, len(ids))
        rows = [row for section in asked.values() for row in section]
    else:
        rows = []
        for number, words in enumerate(analogies):
            if isinstance(words, str) or len(words) != 4:
                raise ValueError(
                    f"analogy {number} is {words!r}; pass a file, or rows of four words: a is to b as c is to d."
                )
            places = [_place(ids, word, True) for word in words]
            rows += [places] if min(places) >= 0 else []
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _score(hits: Array, draws: float, unknown: int, confidence: float) -> AnalogyScore:
    share = float(hits.mean())
    wide = math.sqrt(math.log(2 / (1 - confidence)) / (2 * draws))
    return AnalogyScore(
        share, max(share - wide, 0.0), min(share + wide, 1.0), len(hits), unknown, confidence
    )


def _solve_by_sums(matrix: Array, sizes: Array, questions: Array) -> Array:
    """Return for each question (q, 4) whether the cosine with b − a + c solves it."""
    hits = []
    for first in range(0, len(questions), QUESTIONS):
        a, b, c, d = questions[first : first + QUESTIONS].T
        za, zb, zc = (directions(np.asarray(matrix[one])) for one in (a, b, c))
        places, _ = top(matrix, sizes, zb - za + zc, 4)
        given = np.stack([a, b, c], axis=1)
        allowed = (places[:, :, None] != given[:, None, :]).all(axis=2)
        hits.append(places[np.arange(len(d)), allowed.argmax(axis=1)] == d)
    return np.concatenate(hits)


def _solve_by_products(matrix: Array, sizes: Array, questions: Array) -> Array:
    hits = []
    for a, b, c, d in questions.tolist():
        places, _ = top(matrix, sizes, np.asarray(matrix[[a, b, c]]), 4, multiply_similarities)
        hits.append(next(place for place in places[0].tolist() if place not in (a, b, c)) == d)
    return np.array(hits)
