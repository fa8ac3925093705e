"""Training, drawn: what a schedule and a running mean of the weights do about the noise of batches; filters over words."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from lemmata.atlas import entry, show
from lemmata.atlas.nets.attention import one_torch_thread
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, figure

EPOCHS, BATCH, RATE = 16, 16, 0.3
RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "constant": ({}, GREY),
    "step": ({"schedule": "step"}, GREEN),
    "cosine after a warm-up": ({"schedule": "cosine", "warmup": 0.1}, BLUE),
    "constant, running mean of weights": ({"ema": 0.99}, ORANGE),
}


@cache
def digits() -> tuple[Any, Any]:
    """Inputs and labels to learn from, and those to look at."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order] / 16, y[order]
    return (X[:800], y[:800]), (X[800:], y[800:])


@cache
def runs(seed: int = 0) -> dict[str, Any]:
    """The same network from the same weights, batches in the same order."""
    from lemmata.nets.estimators.networks import FeedForward
    from lemmata.nets.training import Training, train

    learn, look = digits()
    found = {}
    with one_torch_thread():
        for name, (options, _) in RUNS.items():
            training = Training(
                lambda: FeedForward((64,), 10, widths=(32,)), "cross_entropy", optimizer="sgd",
                learning_rate=RATE, batch_size=BATCH, epochs=EPOCHS, device="cpu", **options,
            )  # fmt: skip
            found[name] = train(training, learn, epochs=EPOCHS, validation=look, rng=seed).trace
    return found


@entry("schedules", 'CIL 4.3; ML "Optimization"')
def schedules(seed: int = 0):
    """A rate that falls, or a mean of weights, settles what batches shake.

    The same perceptron on 800 digits, from the same weights, with batches of 16 in the same order. At a constant
    rate the loss on other digits keeps trembling: each batch pulls elsewhere, and the steps stay long. Steps that
    shorten end the trembling; so does a running mean of the weights, at the same long steps. Left: the rate of the last
    update of each epoch."""
    traces = runs(seed)
    fig, (left, right) = figure(1, 2, size=(4.5, 3.4))
    late = {}
    for name, (_, colour) in RUNS.items():
        trace = traces[name]
        epochs, losses = trace.step[1:], trace.extras["validation_loss"][1:]
        style = "--" if "mean" in name else "-"
        left.plot(epochs, trace.extras["rate"][1:], style, color=colour)
        right.plot(epochs, losses, style, color=colour, label=name)
        late[name] = np.diff(losses[-6:]).std()
    left.set(xlabel="epoch", ylabel="learning rate")
    right.set(xlabel="epoch", ylabel="loss on other digits", yscale="log")
    right.legend()
    shaken = late["constant"]
    for name in list(RUNS)[1:]:
        show(
            late[name] < 0.5 * shaken,
            f"{name}: from epoch to epoch the loss moves less than half as much as at a constant "
            "rate",
        )
    return fig


@entry("phrase-filters", "ML Text Representation; Kim 2014")
def phrase_filters(seed: int = 0):
    """Filters over words read "not bad" where a bag of words sees a "not", a "good" and a "bad".

    Each text has "good", "bad" and "not" once, among 5 to 11 other words; it is praise if the "not" stands before "bad".
    Left: accuracy on 400 new texts by the number of texts learned from: a convolutional network with windows of 3, 4 and 5
    words, and logistic regression on counts, which are alike in both classes. Right: how much the score for praise of two new
    texts falls when a word is hidden.
    """
    from lemmata.nets import NeuralClassifier, pad_tokens
    from lemmata.predict.logistic.estimator import LogisticRegression

    words = "[PAD] not good bad the a film plot cast it was is and so".split()  # noqa: SIM905
    rng = np.random.default_rng(seed)

    def write(n: int) -> tuple[Any, Any]:
        texts, y = [], rng.integers(2, size=n)
        for praise in y:
            pairs = [(1, 3), (2,)] if praise else [(1, 2), (3,)]
            text: list[tuple[int, ...]] = [
                (w,) for w in rng.integers(4, len(words), size=rng.integers(5, 12)).tolist()
            ]
            for phrase in pairs:
                text.insert(int(rng.integers(len(text) + 1)), phrase)
            texts.append([w for phrase in text for w in phrase])
        return texts, y

    new, y_new = write(400)
    count = lambda texts: np.stack([np.bincount(t, minlength=len(words)) for t in texts])  # noqa: E731
    sizes, scores = (10, 30, 100), []
    options = {"net__n_tokens": len(words), "net__width": 12, "net__channels": 12}
    with one_torch_thread():
        for size in sizes:
            texts, y = write(size)
            model = NeuralClassifier(
                "TextCNN", batch_size=10, max_iter=20, learning_rate=0.01, random_state=0, **options
            ).fit(pad_tokens(texts, 14), y)
            counts = LogisticRegression().fit(count(texts), y).score(count(new), y_new)
            scores.append((model.score(pad_tokens(new, 14), y_new), counts))
        drawing, (left, middle, right) = figure(1, 3, size=(3.4, 3.4))
        for place, ax, label in ((1, middle, "praise"), (0, right, "blame")):
            text = next(t for t, label in zip(new, y_new, strict=True) if label == place)
            hidden = np.tile(pad_tokens([text], 14), (len(text) + 1, 1))
            np.fill_diagonal(hidden, 0)  # the last row is whole
            p = model.predict_proba(hidden)
            odds = np.log(p[:, 1] / p[:, 0])
            falls = odds[-1] - odds[:-1]
            ax.barh(-np.arange(len(text)), falls, color=[BLUE if f > 0 else ORANGE for f in falls])
            ax.set_yticks(-np.arange(len(text)), [words[w] for w in text], fontsize=8)
            ax.set(xlabel="score − score without it", title=f"a text of {label}")
            ax.axvline(0, color=GREY, lw=1)
            told = text[int(np.abs(falls).argmax())]
            show(
                told in (1, 2, 3), f"in the {label} it is an opinion or its “not” that counts most"
            )
    for values, colour, name in zip(
        np.transpose(scores), (BLUE, ORANGE), ("windows of words", "counts"), strict=True
    ):
        left.semilogx(sizes, values, color=colour, marker="o", label=name)
    left.axhline(0.5, color=GREY, ls=":", lw=1)
    left.set(xlabel="texts", ylabel="accuracy on new texts", ylim=(0.4, 1.02))
    left.set_xticks(sizes, [str(n) for n in sizes])
    left.minorticks_off()
    left.legend()
    show(scores[-1][0] > 0.95, "a hundred texts teach windows the phrases")
    show(max(by_counts for _, by_counts in scores) < 0.6, "counts know nothing")
    return drawing
