"""What small transformers can do with texts: ./run bench language_tasks, or python -m bench.language_tasks PART [--minutes M]

    numbers   numbers in words → digits, by pairs: the share of unseen ones without a mistake; 0.98 in 6 minutes
    shots     pairs of letters drawn anew in each text, a → x, b → y, … a → ?: accuracy by examples in the prompt
    reviews   rt-polarity, five folds, from scratch, next to tf-idf
    kinds     TREC's questions, the given split, next to tf-idf
    capitals  which words of lower-cased WikiText-2 had capitals, next to each word's majority

Minutes are of CPU, of training in all; one process. Nothing was chosen on test text.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

from lemmata import GPT, TextClassifier, TokenClassifier, Translator, config, data
from lemmata.audit.kernel.concentration import clopper_pearson
from lemmata.language import Prompted, Template

SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen""".split()  # noqa: SIM905
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
READERS = {"width": 64, "depth": 2, "heads": 4, "context": 64, "dropout": 0.2, "random_state": 0}


def say(n: int) -> str:
    """A number below a million in words."""
    if n >= 1000:
        return f"{say(n // 1000)} thousand" + (f" {say(n % 1000)}" if n % 1000 else "")
    if n >= 100:
        return f"{SMALL[n // 100]} hundred" + (f" and {say(n % 100)}" if n % 100 else "")
    return SMALL[n] if n < 20 else TENS[n // 10 - 2] + (f" {SMALL[n % 10]}" if n % 10 else "")


def train_for(model, minutes: float, *texts):
    """The model after about so many minutes of CPU, the cost of an epoch by a tenth of the texts."""
    for _ in range(2):  # the first one wakes PyTorch up
        begin = time.process_time()
        model.set_params(max_iter=1).fit(*(side[::10] for side in texts))
    epoch = 10 * (time.process_time() - begin)
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


def draw_pairs(rng: np.random.Generator, n: int) -> list[str]:
    """A text of n pairs by a table of its own, 'ax by ax …'."""
    table = rng.integers(8, size=8)
    return [f"{'abcdefgh'[i]}{'stuvwxyz'[table[i]]} " for i in rng.integers(8, size=n)]


def shots(minutes: float = 6.0) -> None:
    rng, line = np.random.default_rng(0), Template("{x}{y} ")
    model = GPT(64, 2, 4, 72, batch_size=16, test_fraction=0.0, random_state=0)
    train_for(model, minutes, ["".join(draw_pairs(rng, 24)) for _ in range(5000)])
    right = dict.fromkeys((0, 1, 2, 4, 8), 0)
    for _ in range(200):
        X = ["abcdefgh"[i] for i in rng.permutation(8)]
        y = ["stuvwxyz"[i] for i in rng.integers(8, size=8)]
        for k in right:
            asked = rng.integers(max(k, 1))
            prompted = Prompted(model, X[:k], y[:k], line, "stuvwxyz")
            right[k] += prompted.predict([X[asked]])[0] == y[asked]
    for k, hits in right.items():
        low, high = clopper_pearson(int(hits), 200, 0.05)
        print(f"  {k} pairs: {hits / 200:.3f} right, {low:.3f} to {high:.3f}; chance 0.125")


def compare_classes(name: str, train, test, minutes: float) -> tuple[float, float]:
    peer = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=10, max_iter=500)
    )
    model = train_for(TextClassifier(**READERS, test_fraction=0.0), minutes, *train)
    pair = model.score(*test), peer.fit(*train).score(*test)
    print(f"{name}: {pair[0]:.3f}, tf-idf {pair[1]:.3f}")
    return pair


def reviews(minutes: float = 6.0) -> None:
    found = data.rt_polarity()
    X, y = np.array(found.texts, object), np.asarray(found.y)
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    pairs = [
        compare_classes(f"rt-polarity, fold {i}", (X[a].tolist(), y[a]), (X[b].tolist(), y[b]), minutes / 5)
        for i, (a, b) in enumerate(folds)
    ]  # fmt: skip
    print("rt-polarity: {:.3f}, tf-idf {:.3f}".format(*np.mean(pairs, axis=0)))


def kinds(minutes: float = 3.0) -> None:
    sides = [data.trec_questions(part) for part in ("train", "test")]
    compare_classes("TREC", *((list(one.texts), np.asarray(one.y)) for one in sides), minutes)


def capitals(minutes: float = 6.0, lines: int = 3000) -> None:
    def read(part: str) -> tuple[list[list[str]], list[list[str]]]:
        texts = [line.split()[:60] for text in data.wikitext_2(part).texts for line in text.split("\n")]  # fmt: skip
        texts = [one for one in texts if len(one) > 8][:lines]
        tags = [["capital" if word[0].isupper() else "small" for word in one] for one in texts]
        return [[word.lower() for word in one] for one in texts], tags

    X, y = read("train")
    model = train_for(TokenClassifier(**READERS, test_fraction=0.0), minutes, X, y)
    found = model.certify(X, y, X_test=(new := read("test"))[0], y_test=new[1], seconds=300)
    print(f"capitals: {model.score(*new):.4f}; {found['beats_usual_labels'].note}")


PARTS = {"numbers": numbers, "shots": shots, "reviews": reviews, "kinds": kinds, "capitals": capitals}  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.language_tasks", description=__doc__)
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="by default all")
    parser.add_argument("--minutes", type=float, help="of training, of each part")
    asked = parser.parse_args([] if arguments is None else arguments)
    for name in asked.part or PARTS:
        with config(certificate=False):
            PARTS[name](asked.minutes) if asked.minutes else PARTS[name]()


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
