"""TextCNN beside FastTextClassifier: TREC's questions and rt-polarity. ./run py -m bench.text_windows

Seconds are of CPU, one process. Nothing was chosen on test text.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.model_selection import StratifiedKFold

from lemmata import config, data
from lemmata.embedding import FastTextClassifier
from lemmata.language import Words
from lemmata.nets import NeuralClassifier, pad_tokens


def compare_windows(train, test, seed: int = 0) -> tuple[float, float, float]:
    """Accuracy of TextCNN, its seconds, accuracy of FastTextClassifier."""
    words = Words(min_count=2).learn(text.lower() for text in train[0])
    X, new = (pad_tokens([words.encode(t.lower()) for t in side[0]], 60) for side in (train, test))
    begin = time.process_time()
    model = NeuralClassifier(
        "TextCNN", net__n_tokens=len(words), learning_rate=3e-3, batch_size=32, max_iter=10, random_state=seed
    ).fit(X, train[1])  # fmt: skip
    seconds = time.process_time() - begin
    peer = FastTextClassifier(random_state=seed).fit(*train)
    return model.score(new, test[1]), seconds, peer.score(*test)


def main() -> None:
    line = "{}: TextCNN {:.3f} ({:.0f} s), FastTextClassifier {:.3f}"
    sides = [data.trec_questions(part) for part in ("train", "test")]
    train, test = ((list(one.texts), np.asarray(one.y)) for one in sides)
    for seed in range(3):
        print(line.format(f"TREC, seed {seed}", *compare_windows(train, test, seed)), flush=True)
    reviews = data.rt_polarity()
    X, y = np.array(reviews.texts, object), np.asarray(reviews.y)
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    for i, (a, b) in enumerate(folds):
        pair = (X[a].tolist(), y[a]), (X[b].tolist(), y[b])
        print(line.format(f"rt-polarity, fold {i}", *compare_windows(*pair)), flush=True)


if __name__ == "__main__":
    with config(certificate=False):
        main()
