"""What small transformers can do with texts: ./run bench language_tasks, or python -m bench.language_tasks PART [--minutes M]

    numbers   numbers in words → digits, by pairs: the share of unseen ones without a mistake; 0.98 in 6 minutes
    shots     pairs of letters drawn anew in each text, a → x, b → y, … a → ?: accuracy by examples in the prompt
    reviews   rt-polarity, five folds: tf-idf, from scratch, and from a BERT of IMDb's training texts (20 minutes)
    kinds     TREC's questions, the given split: tf-idf, from scratch, and from a BERT of the questions (2 minutes)
    capitals  which words of lower-cased WikiText-2 had capitals, next to each word's majority
    spans     the words of a kind that was asked for, planted among others: the share with both ends right

Minutes are of CPU, one process: of training, or of learning from texts without labels. Nothing was chosen on test text.
"""

from __future__ import annotations

import argparse
import inspect
import re
import time
from string import ascii_lowercase as LETTERS
from string import ascii_uppercase as ANSWERS

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

from lemmata import BERT, GPT, SpanFinder, TextClassifier, TokenClassifier, Translator, config, data
from lemmata.audit.kernel.concentration import clopper_pearson
from lemmata.language import Prompted, Template, Words

Array = np.ndarray

SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen""".split()  # noqa: SIM905
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
WAYS = ("tf-idf", "from scratch", "from BERT")
READERS = {
    **{"width": 64, "depth": 2, "heads": 4, "context": 64, "tokens": Words(2)},
    **{"dropout": 0.2, "test_fraction": 0.0, "random_state": 0},
}


def say(n: int) -> str:
    """A number below a million in words."""
    if n >= 1000:
        return f"{say(n // 1000)} thousand" + (f" {say(n % 1000)}" if n % 1000 else "")
    if n >= 100:
        return f"{SMALL[n // 100]} hundred" + (f" and {say(n % 100)}" if n % 100 else "")
    return SMALL[n] if n < 20 else TENS[n // 10 - 2] + (f" {SMALL[n % 10]}" if n % 10 else "")


def train_for(model, minutes: float, *texts, share: int = 10):
    """The model after about so many minutes of CPU, the cost of an epoch by a share of the texts."""
    for _ in range(2):  # the first one wakes PyTorch up
        begin = time.process_time()
        model.set_params(max_iter=1).fit(*(side[::share] for side in texts))
    epoch = share * (time.process_time() - begin)
    begin, epochs = time.process_time(), max(1, int(60 * minutes / epoch))
    model.set_params(max_iter=epochs).fit(*texts)
    print(f"  {epochs} epochs in {time.process_time() - begin:.0f} s of CPU")
    return model


def numbers(minutes: float = 6.0) -> None:
    drawn = np.random.default_rng(0).permutation(10**6)[:21_000].tolist()
    words, digits = [say(n) for n in drawn], [" ".join(str(n)) for n in drawn]
    model = Translator(64, 2, 4, 24, tokens="words", test_fraction=0.0, random_state=0)
    train_for(model, minutes, words[:20_000], digits[:20_000])
    print(
        f"numbers: {model.score(words[20_000:], digits[20_000:]):.3f} of 1,000 unseen ones are right"
    )


def draw_pairs(rng: np.random.Generator, pairs: int = 16) -> str:
    """A text of pairs, 'aXbYaX…', of 1 to 8 letters by a table of its own: the fewer, the more places can be answered."""
    letters, table = rng.permutation(26)[: rng.integers(1, 9)], rng.integers(26, size=26)
    return "".join(LETTERS[i] + ANSWERS[table[i]] for i in rng.choice(letters, pairs))


def shots(epochs: int = 2, texts: int = 60_000, asked: int = 500) -> None:
    """All texts fill a window each, so that no window has two tables: else nothing was learned in as many updates."""
    rng, begin = np.random.default_rng(0), time.process_time()
    model = GPT(64, 2, 4, 33, batch_size=64, learning_rate=3e-3, test_fraction=0.0, random_state=0)
    model.set_params(max_iter=epochs).fit([draw_pairs(rng) for _ in range(texts)])
    print(f"  {epochs} epochs of {texts:,} texts in {time.process_time() - begin:.0f} s of CPU")
    right = dict.fromkeys((0, 1, 2, 4, 8), 0)
    for _ in range(asked):
        X = [LETTERS[i] for i in rng.permutation(26)[:8]]
        y = [ANSWERS[i] for i in rng.integers(26, size=8)]
        for k in right:
            one = rng.integers(max(k, 1))
            prompted = Prompted(model, X[:k], y[:k], Template("{x}{y}"), ANSWERS)
            right[k] += prompted.predict([X[one]])[0] == y[one]
    for k, hits in right.items():
        low, high = clopper_pearson(int(hits), asked, 0.05)
        print(
            f"  {k} pairs: {hits / asked:.3f} right, {low:.3f} to {high:.3f}; chance {1 / 26:.3f}"
        )


def pretrain(texts: list[str], minutes: float) -> BERT:
    """A BERT of texts without labels, and about so many minutes of CPU."""
    model = BERT(128, 2, 4, 64, Words(5, 20_000), batch_size=32, test_fraction=0.0, random_state=0)
    return train_for(model, minutes, texts, share=50)


def imdb_texts() -> list[str]:
    """IMDb's training texts as rt-polarity is written: lower case, spaces around signs."""
    texts = (text.replace("<br />", " ").lower() for text in data.imdb_reviews("train").texts)
    return [" ".join(re.findall(r"[a-z0-9']+|[^\sa-z0-9]", text)) for text in texts]


def compare_classes(name: str, train, test, epochs: int, source: BERT | None = None) -> Array:
    """Accuracy of tf-idf, from scratch, and from a fitted BERT."""
    begin = time.process_time()
    found = [
        make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=10, max_iter=500)
        ).fit(*train),
        TextClassifier(**READERS, max_iter=epochs).fit(*train),
    ]
    if source is not None:
        tuned = {"dropout": 0.2, "learning_rate": 5e-4, "test_fraction": 0.0, "random_state": 0}
        found.append(TextClassifier(source, **tuned, max_iter=epochs).fit(*train))
    right = np.array([model.score(*test) for model in found])
    figures = ", ".join(f"{way} {one:.3f}" for way, one in zip(WAYS, right, strict=False))
    print(f"{name}: {figures}; {time.process_time() - begin:.0f} s of CPU", flush=True)
    return right


def reviews(minutes: float = 20.0, epochs: int = 4) -> None:
    found = data.rt_polarity()
    X, y = np.array(found.texts, object), np.asarray(found.y)
    source = pretrain(imdb_texts(), minutes)
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    rows = [
        compare_classes(f"  fold {i}", (X[a].tolist(), y[a]), (X[b].tolist(), y[b]), epochs, source)
        for i, (a, b) in enumerate(folds)
    ]
    for way, right in zip(WAYS, np.mean(rows, axis=0), strict=True):
        print(f"rt-polarity, {way}: {right:.3f}")


def kinds(minutes: float = 2.0, epochs: int = 10) -> None:
    sides = [data.trec_questions(part) for part in ("train", "test")]
    train, test = ((list(one.texts), np.asarray(one.y)) for one in sides)
    source = pretrain(train[0], minutes) if minutes else None
    compare_classes("TREC", train, test, epochs, source)


def capitals(epochs: int = 3, lines: int = 3000) -> None:
    def read(part: str) -> tuple[list[list[str]], list[list[str]]]:
        texts = [line.split()[:60] for text in data.wikitext_2(part).texts for line in text.split("\n")]  # fmt: skip
        texts = [one for one in texts if len(one) > 8][:lines]
        tags = [["capital" if word[0].isupper() else "small" for word in one] for one in texts]
        return [[word.lower() for word in one] for one in texts], tags

    begin, (X, y) = time.process_time(), read("train")
    model = TokenClassifier(**READERS, max_iter=epochs).fit(X, y)
    print(f"  {epochs} epochs in {time.process_time() - begin:.0f} s of CPU")
    found = model.certify(X, y, X_test=(new := read("test"))[0], y_test=new[1], seconds=300)
    claim = found["beats_usual_labels"]
    print(f"capitals: {model.score(*new):.4f}; {claim.verdict}: {claim.note}")


def draw_question(rng: np.random.Generator) -> tuple[tuple[str, str], tuple[int, int]]:
    """Fillers with two words of every kind in a row, one kind asked for."""
    kinds = {kind: [f"{kind}{i}" for i in range(30)] for kind in ("city", "beast", "fruit")}
    asked, words = str(rng.choice(list(kinds))), [f"word{i}" for i in rng.integers(100, size=12)]
    parts = [[word] for word in words] + [list(rng.choice(of, 2)) for of in kinds.values()]
    text = " ".join(" ".join(parts[i]) for i in rng.permutation(len(parts)))
    start = text.index(asked)
    stop = start + len(" ".join(text[start:].split(" ")[:2]))
    return (f"which {asked}", text), (start, stop)


def spans(epochs: int = 12, n: int = 2000) -> None:
    rng, begin = np.random.default_rng(0), time.process_time()
    X, y = zip(*(draw_question(rng) for _ in range(n + 500)), strict=True)
    model = SpanFinder(**{**READERS, "dropout": 0.0}, max_iter=epochs).fit(list(X[:n]), y[:n])
    right = model.score(list(X[n:]), y[n:])
    print(f"spans: {right:.3f} of 500 planted ones; {time.process_time() - begin:.0f} s of CPU")


PARTS = {part.__name__: part for part in (numbers, shots, reviews, kinds, capitals, spans)}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.language_tasks", description=__doc__)
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="by default all")
    parser.add_argument("--minutes", type=float, help="of training, where a part has them")
    asked = parser.parse_args([] if arguments is None else arguments)
    for name in asked.part or PARTS:
        with config(certificate=False):
            timed = (
                asked.minutes is not None and "minutes" in inspect.signature(PARTS[name]).parameters
            )
            PARTS[name](**({"minutes": asked.minutes} if timed else {}))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
