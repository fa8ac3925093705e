"""Word embeddings against gensim: text to numbers, pairs in windows, and skip-gram at the same settings, in turns.

    ./run bench embeddings                                                          everything; hours
    PARTS=words,pairs ./run bench embeddings                                        a minute
    PARTS=training CORPUS=wikitext SEEDS=5 RESULTS=/tmp/fits.csv ./run bench embeddings
    PARTS=training CORPUS=joined SEEDS=2-3 SYSTEMS=lemmata TIMED=no RESULTS=/tmp/fits.csv ./run bench embeddings
    PARTS=summary RESULTS=/tmp/fits.csv ./run bench embeddings                      what all fits so far say

PARTS      words, pairs, training, summary (after training there always is one)
CORPUS     wikitext (2.05 M words), joined (with film reviews and newsgroups, some 18 M), or both, with a comma between them
SEEDS      5: seeds 1 to 5; 2-3: these
SYSTEMS    names, with commas between them
SHARE      0.1: every tenth sentence
TIMED      no: fits tell about quality, and their seconds are not used (one thread, or a busy machine)
RESULTS    a CSV file, a line for every fit. Fits that are in it already are not made again, so that a long run can be cut into
           pieces; without it nothing is kept.
"""

from __future__ import annotations

import csv
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

import lemmata
from bench.helpers.harness import compare, memory, reset_peak, run_quietly
from lemmata import data, text
from lemmata.core.engine import cores
from lemmata.embedding import CoOccurrence, SkipGram, WordVectors
from lemmata.text.words import WORDS, Tokenizer

SETTINGS = {"vector_size": 100, "window": 5, "negative": 5, "min_count": 5, "epochs": 5}
GENSIM = "gensim"
OURS = {
    "lemmata": {},
    "lemmata deterministic": {"deterministic": True},
    "lemmata negatives per window": {"negatives_per": "window"},
}
TESTS = {"WordSim": "wordsim353", "SimLex": "simlex999"}
FIELDS = ("corpus", "tokens", "system", "seed", "threads", "timed", "seconds", "analogies", *TESTS)
DRAWS = 400  # of pairs, for the standard error over them


# --- texts ------------------------------------------------------------------------------------------------------------


def wikitext() -> list[list[str]]:
    """WikiText-2, lower case, a line a sentence."""
    lines = data.wikitext_2("train").texts[0].splitlines()
    return [words for line in lines if (words := line.lower().split())]


def joined() -> list[list[str]]:
    """WikiText-2, 50,000 film reviews and 18,821 posts to newsgroups, each of them a sentence."""
    tokenizer = Tokenizer(token_pattern=WORDS)
    sets = data.imdb_reviews("all"), data.newsgroups("all")
    return wikitext() + [tokenizer(one) for found in sets for one in found.texts]


CORPORA = {"wikitext": wikitext, "joined": joined}


def asked(name: str, default: str) -> list[str]:
    return [one.strip() for one in os.environ.get(name, default).split(",") if one.strip()]


def seeds() -> list[int]:
    first, dash, last = os.environ.get("SEEDS", "3").partition("-")
    return list(range(int(first), int(last) + 1)) if dash else list(range(1, int(first) + 1))


# --- words and pairs --------------------------------------------------------------------------------------------------


def words(lists: list[list[str]]) -> None:
    """From lists of words, and from a file of them."""
    from gensim.models import Word2Vec

    tokens = sum(map(len, lists))
    systems = {
        "lemmata": lambda: text.encode(lists, min_count=5),
        "gensim build_vocab": lambda: Word2Vec(min_count=5).build_vocab(lists),
    }
    title = f"lists of words to numbers and counts, {tokens:,} words (gensim: counts only)"
    compare(title, systems, target=2.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        path.write_text("\n".join(map(" ".join, lists)), encoding="utf-8")
        plain = {"token_pattern": None, "lowercase": False}
        systems = {
            "lemmata": lambda: text.encode(path, min_count=5, **plain),
            "lemmata, lower case and \\w\\w+": lambda: text.encode(path, min_count=5),
            "gensim build_vocab": lambda: Word2Vec(min_count=5).build_vocab(corpus_file=str(path)),
        }
        compare("the same from a file, by white space", systems, target=2.0, rounds=3)


def pairs(lists: list[list[str]]) -> None:
    """Co-occurrence from numbers, the sorted symmetric matrix included."""
    found = text.encode(lists, min_count=5)
    CoOccurrence.of(found, 5)  # nobody waits for the compiler below
    print(f"pairs in windows from numbers, {found.n_tokens:,} words (target ≥ 3,000 k words/s)")
    for weighting, window in (("flat", 5), ("harmonic", 5), ("harmonic", 10)):
        base, times = reset_peak(), []
        for _ in range(5):
            begin = time.perf_counter()
            matrix = CoOccurrence.of(found, window, weighting).matrix
            times.append(time.perf_counter() - begin)
        middle = statistics.median(times)
        size = (matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes) / 2**20
        print(
            f"  {weighting + f', window {window}':<32}{middle:7.2f} s  {found.n_tokens / middle / 1e3:7,.0f} k words/s   "
            f"{matrix.nnz:,} entries, {size:.0f} MB, +{memory('VmHWM') - base:.0f} MB at most"
        )
    print(flush=True)


# --- fits -------------------------------------------------------------------------------------------------------------


def theirs(lists, seed):
    from gensim.models import Word2Vec

    model = Word2Vec(lists, sg=1, workers=cores(), seed=seed, **SETTINGS)
    return WordVectors(model.wv.index_to_key, model.wv.vectors)


def ours(lists, seed, **options):
    with lemmata.config(certificate=False):
        return SkipGram(random_state=seed, **SETTINGS, **options).fit(lists).vectors_


def systems_of(corpus: str) -> dict:
    """What is compared: all ways of ours on the small text, the first one on the large one."""
    known = {GENSIM: theirs}
    for name, options in OURS.items():
        known[name] = lambda lists, seed, options=options: ours(lists, seed, **options)
    wanted = asked("SYSTEMS", ",".join(known) if corpus == "wikitext" else f"{GENSIM},lemmata")
    return {name: known[name] for name in wanted}


def pairs_of_people(test: str) -> tuple[list[tuple[str, str]], np.ndarray]:
    """Pairs of words, and the scores that people gave them."""
    lines = data.word_evaluation()[TESTS[test]].read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(a, b) for a, b, *_ in rows], np.array([float(row[2]) for row in rows])


def cosines(vectors: WordVectors, test: str) -> np.ndarray:
    """Of every pair of a test; NaN where a word has no vector."""
    found = []
    for pair in pairs_of_people(test)[0]:
        known = [next((w for w in (one, one.lower()) if w in vectors), None) for one in pair]
        found.append(np.nan if None in known else vectors.similarity(*known))
    return np.array(found)


def training(corpus: str, lists: list[list[str]], rows: list[dict]) -> None:
    """Make the fits that are not there yet, and add them to the rows and to the file."""
    with lemmata.config(compile="always"):  # nobody waits for the compiler below
        ours(lists[:50], 0, min_alpha=1e-3)
    tokens, timed = sum(map(len, lists)), os.environ.get("TIMED", "yes")
    label = corpus if os.environ.get("SHARE", "1") == "1" else f"{corpus} × {os.environ['SHARE']}"
    done = {(row["corpus"], row["system"], row["seed"], row["timed"]) for row in rows}
    judged = data.word_evaluation()
    for seed in seeds():
        for name, fit in systems_of(corpus).items():
            if (label, name, str(seed), timed) in done:
                continue
            begin = time.perf_counter()
            vectors = run_quietly(lambda fit=fit, seed=seed: fit(lists, seed))
            seconds = time.perf_counter() - begin
            right = vectors.evaluate_analogies(judged["analogies"]).accuracy
            values = (label, tokens, name, seed, cores(), timed, f"{seconds:.3f}", f"{right:.5f}")
            told = [" ".join(f"{c:.5f}" for c in cosines(vectors, test)) for test in TESTS]
            rows.append(dict(zip(FIELDS, map(str, (*values, *told)), strict=True)))
            append(rows[-1])
            print(f"  {label}, {name}, seed {seed}: {seconds:.1f} s", flush=True)


def results() -> Path | None:
    path = os.environ.get("RESULTS")
    return Path(path) if path else None


def append(row: dict) -> None:
    path = results()
    if path is None:
        return
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        if new:
            writer.writeheader()
        writer.writerow(row)


def earlier() -> list[dict]:
    path = results()
    if path is None or not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# --- what they say ----------------------------------------------------------------------------------------------------


class Judged:
    """The fits of one system on one text: (seeds, pairs) of cosines for every test."""

    def __init__(self, rows: list[dict]):
        self.rows, self.cosines, self.people = rows, {}, {}
        for test in TESTS:
            all_pairs = np.array([np.array(row[test].split(), float) for row in rows])
            known = np.isfinite(all_pairs).all(axis=0)
            self.cosines[test] = all_pairs[:, known]
            self.people[test] = pairs_of_people(test)[1][known]

    def correlations(self, test: str, chosen: np.ndarray | None = None) -> np.ndarray:
        """Spearman's ρ of every seed, over chosen pairs."""
        chosen = np.arange(len(self.people[test])) if chosen is None else chosen
        people = rankdata(self.people[test][chosen])
        ranks = rankdata(self.cosines[test][:, chosen], axis=1)
        return np.array([np.corrcoef(one, people)[0, 1] for one in ranks])

    def seconds(self) -> float:
        times = [float(row["seconds"]) for row in self.rows if row["timed"] == "yes"]
        return statistics.median(times) if times else np.nan


def standard_error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else np.nan


def over_pairs(test: str, one: Judged, other: Judged | None = None) -> float:
    """The standard error over pairs of a mean correlation, or of the difference of two on the same pairs: by drawing pairs."""
    rng, n = np.random.default_rng(0), len(one.people[test])
    found = []
    for _ in range(DRAWS):
        chosen = rng.integers(0, n, n)
        mean = one.correlations(test, chosen).mean()
        found.append(mean - (other.correlations(test, chosen).mean() if other else 0.0))
    return float(np.std(found, ddof=1))


def summary(rows: list[dict]) -> None:
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        here = [row for row in rows if row["corpus"] == corpus]
        names = sorted({row["system"] for row in here}, key=lambda name: (name != GENSIM, name))
        found = {name: Judged([row for row in here if row["system"] == name]) for name in names}
        tokens, peer = int(here[0]["tokens"]), found.get(GENSIM)
        print(
            f"skip-gram, {corpus}, {tokens:,} words, dim 100, window 5, 5 negatives, 5 epochs, vocabulary included"
        )
        for name, judged in found.items():
            _print_one(name, judged, peer, SETTINGS["epochs"] * tokens)
        print(
            "  (seconds: medians of timed fits; means over seeds ± standard error over seeds / over pairs;\n"
            "   differences to gensim on the same pairs, ± both together; targets ≥ 2x, ≥ −0.01)\n",
            flush=True,
        )


def _print_one(name: str, judged: Judged, peer: Judged | None, met: int) -> None:
    seconds, right = judged.seconds(), [float(row["analogies"]) for row in judged.rows]
    ratio = peer.seconds() / seconds if peer else np.nan
    print(
        f"  {name:<32}{seconds:8.1f} s  {met / seconds / 1e3:7.0f} k words/s  {ratio:5.2f}x   {len(judged.rows)} fits"
        f"   analogies {np.mean(right):.3f}"
    )
    for test in TESTS:
        rho = judged.correlations(test)
        line = (
            f"      {test:<8} {rho.mean():.4f} ± {standard_error(rho):.4f} / {over_pairs(test, judged):.4f}"
            f"  ({len(judged.people[test])} pairs)"
        )
        if peer is not None and judged is not peer:
            base = peer.correlations(test)
            seeds_error = np.hypot(standard_error(rho), standard_error(base))
            both = np.hypot(seeds_error, over_pairs(test, judged, peer))
            line += f"   ours − gensim {rho.mean() - base.mean():+.4f} ± {both:.4f}"
        print(line)


def main() -> None:
    parts, rows = asked("PARTS", "words,pairs,training"), earlier()
    every = round(1 / float(os.environ.get("SHARE", "1")))
    if parts == ["summary"]:
        summary(rows)
        return
    for corpus in asked("CORPUS", ",".join(CORPORA)):
        lists = CORPORA[corpus]()[::every]
        if "words" in parts:
            words(lists)
        if "pairs" in parts:
            pairs(lists)
        if "training" in parts:
            training(corpus, lists, rows)
    if "training" in parts:
        summary(rows)
