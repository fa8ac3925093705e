"""Language models, drawn (ML "Language Models", "Transformers", "Self-supervised Learning").

The texts are "Gfeccaaab?g": a capital, eight letters of no meaning, and the capital again as a small letter. Counting forgets
it on the way; a transformer looks it up. What any model needs at least is known: ln 8 for each of the first nine, then nothing.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from lemmata.atlas import entry, show
from lemmata.core.certification.pictures import BLUE, GREEN, GREY, ORANGE, RED, figure

Array = np.ndarray
LETTERS, BETWEEN, LENGTH = "abcdefgh", 8, 12
EPOCHS = 10


def echoes(n: int, seed: int) -> list[str]:
    """Texts whose last letter is the first one; of twelve tokens with their end."""
    rows = np.random.default_rng(seed).integers(len(LETTERS), size=(n, 1 + BETWEEN))
    words = ["".join(LETTERS[i] for i in row) for row in rows]
    return [f"{word[0].upper()}{word[1:]}?{word[0]}" for word in words]


class Learned(NamedTuple):
    """Nats per letter of new texts: of a GPT after each epoch, of n-grams by order, and of both at each place of a text."""

    epochs: Array
    orders: dict[int, float]
    by_place: dict[str, Array]


@cache
def learn_echoes() -> Learned:
    from lemmata.atlas.nets.attention import one_torch_thread
    from lemmata.language import GPT, NGram

    texts, new = echoes(1500, 0), echoes(200, 1000)
    model = GPT(
        width=32, depth=2, heads=2, context=17, learning_rate=5e-3, schedule="constant", precision="float64",
        device="cpu", test_fraction=0.0, random_state=0,
    )  # fmt: skip
    epochs = []
    with one_torch_thread():
        for _ in range(EPOCHS):
            model.partial_fit(texts)
            epochs.append(-model.score(new))
    counted = {order: NGram(order, test_fraction=0.0).fit(texts) for order in range(1, 9)}
    orders = {order: -one.score(new) for order, one in counted.items()}
    best = counted[min(orders, key=lambda order: orders[order])]
    by_place = {
        name: one._token_losses(one._read(new)).reshape(len(new), -1).mean(axis=0)
        for name, one in (("GPT", model), ("counting", best))
    }
    return Learned(np.array(epochs), orders, by_place)


def entropy() -> float:
    """Nats per token: ln 8 for each of nine letters."""
    return (1 + BETWEEN) * np.log(len(LETTERS)) / LENGTH


@entry("loss-and-counting", 'ML "Language Models"')
def loss_and_counting():
    """A transformer passes counting once it looks further back.

    Nats per token of 200 new texts, "Gfeccaaab?g", whose last letter is the first one: a GPT of 32 numbers after each reading
    of 1,500 others, next to n-grams of these (dotted, order 1 to 8) and what any model needs at least.
    """
    found = learn_echoes()
    drawing, ax = figure(size=(5.4, 3.6))
    ax.plot(np.arange(1, EPOCHS + 1), found.epochs, "o-", color=BLUE, label="GPT")
    for order, loss in found.orders.items():
        label = {"label": "n-grams, order 1 to 8"} if order == 1 else {}
        ax.axhline(loss, color=ORANGE, ls=":", lw=1, **label)
    ax.axhline(entropy(), color=GREY, ls="--", label="entropy of the texts")
    ax.set_xlabel("epochs")
    ax.set_ylabel("nats per token of new texts")
    ax.legend()
    forgetful, best = (2 + BETWEEN) * np.log(len(LETTERS)) / LENGTH, min(found.orders.values())
    show(found.epochs[0] > best, "after one epoch counting is better")
    show(best > forgetful, "counting needs what a model without memory needs")
    show(found.epochs[-1] < forgetful, "the transformer ends below that: it remembers")
    show(found.epochs.min() > 0.98 * entropy(), "nothing falls below the entropy of the texts")
    return drawing


@entry("loss-by-place", 'ML "Language Models"')
def loss_by_place():
    """A letter that was said before costs nothing, to who can look back.

    Mean loss at every place of 200 new texts, "Gfeccaaab?g" and the end: the GPT of the picture before, and n-grams of the best
    order. What the first letters of a window cost, they cost anybody.
    """
    found = learn_echoes().by_place
    drawing, ax = figure(size=(5.4, 3.4))
    places = np.arange(LENGTH)
    for name, colour in (("counting", ORANGE), ("GPT", BLUE)):
        ax.plot(places, found[name], "o-", color=colour, label=name)
    ax.axhline(np.log(len(LETTERS)), color=GREY, ls="--", label="ln 8")
    ax.set_xticks(places, [*"Gfeccaaab?g", "end"])
    ax.set_xlabel("place in the text")
    ax.set_ylabel("nats")
    ax.legend(loc="lower left")
    drawn, answer = slice(0, 1 + BETWEEN), LENGTH - 2
    show(
        np.abs(found["GPT"][drawn] / np.log(8) - 1).max() < 0.1, "a letter that is drawn costs ln 8"
    )
    show(
        found["GPT"][answer] < 0.1, "the letter that is asked for costs less than a tenth of a nat"
    )
    show(found["counting"][answer] > 1, "counting has forgotten it")
    return drawing


@entry("temperature-and-top-p", 'ML "Language Models"', temperature=(0.1, 3.0))
def temperature_and_top_p(temperature: float = 0.5):
    """Temperature bends a distribution, top-p cuts its tail.

    Forty tokens with probabilities in proportion to 1, 1/2, 1/3, …: left at three temperatures, with the shares of 2,000
    draws as dots; right how many tokens are drawn from when those are kept that together have a probability of p.
    """
    from lemmata.language.sampling import draw_tokens, shape_probabilities

    scores = -np.log(np.arange(1, 41.0))[None]
    drawing, axes = figure(1, 2, size=(4.4, 3.4))
    rng, entropies, misses = np.random.RandomState(0), [], []
    for t, colour in ((temperature, BLUE), (1.0, ORANGE), (2.0, GREEN)):
        P = shape_probabilities(scores, t)[0]
        drawn = np.bincount(draw_tokens(np.repeat(P[None], 2000, axis=0), rng), minlength=40) / 2000
        axes[0].loglog(np.arange(1, 41), P, color=colour, label=f"t = {t:g}")
        axes[0].loglog(np.arange(1, 41)[drawn > 0], drawn[drawn > 0], ".", color=colour, ms=4)
        entropies.append(-np.sum(P * np.log(np.maximum(P, 1e-300))))
        misses.append(np.abs(drawn - P).max())
        p = np.linspace(0.02, 1, 99)
        kept = [(shape_probabilities(scores, t, top_p=one)[0] > 0).sum() for one in p]
        axes[1].plot(p, kept, color=colour)
        enough = [np.cumsum(P)[n - 1] >= one - 1e-12 for n, one in zip(kept, p, strict=True)]
        show(all(enough), "the tokens that are kept have the probability that was asked for")
    axes[0].set_ylim(1e-4, 1)
    axes[0].set_xlabel("rank of the token")
    axes[0].set_ylabel("probability")
    axes[0].legend()
    axes[1].set_xlabel("p")
    axes[1].set_ylabel("tokens that are kept")
    # of 120 shares, none is further off than Hoeffding's bound at one in a thousand
    show(
        max(misses) < np.sqrt(np.log(2 * 120 / 1e-3) / 4000),
        "draws have the probabilities of the softmax",
    )
    show(
        (np.argsort(entropies) == np.argsort([temperature, 1, 2])).all(),
        "the hotter, the more even",
    )
    return drawing


@entry("accuracy-by-shots", 'ML "Self-supervised Learning"')
def accuracy_by_shots(seed: int = 0):
    """Examples in a prompt do not help where there is nothing to know.

    An 8-gram that has read "sun is hot. ice is cold. …" is asked for what it has read, and for answers that a coin has drawn,
    60 each, with up to 4 examples before the question. Bars are intervals at 95 %.
    """
    from lemmata.language import NGram, Template, few_shot

    facts = {
        "sun": "hot",
        "ice": "cold",
        "tea": "hot",
        "snow": "cold",
        "fire": "hot",
        "wind": "cold",
    }
    line, rng = Template("{x} is {y}. "), np.random.default_rng(seed)
    read = [line.write(one, facts[one]) for one in rng.choice(list(facts), 400)]
    model = NGram(8, test_fraction=0.0).fit(["".join(read)])
    X, y = list(facts), list(facts.values())
    asked = [str(one) for one in rng.choice(X, 60)]
    coins = [("hot", "cold")[i] for i in rng.permutation(60) % 2]
    shots = (0, 1, 2, 4)
    drawing, ax = figure(size=(4.8, 3.4))
    for name, answers, colour in (
        ("what it has read", [facts[one] for one in asked], BLUE),
        ("answers of a coin", coins, RED),
    ):
        found = few_shot(model, X, y, asked, answers, line, shots, seed)
        right = np.array([found[k] for k in shots])
        ends = np.array([found.interval[k] for k in shots]).T
        ax.errorbar(
            shots, right, np.abs(ends - right), fmt="o-", color=colour, capsize=3, label=name
        )
        if answers is coins:
            bound = np.sqrt(np.log(2 * len(shots) / 1e-3) / (2 * len(asked)))  # Hoeffding
            show(
                np.abs(right - 0.5).max() < bound,
                "a coin is guessed half of the time, up to chance",
            )
        else:
            show((right == 1).all(), "what was read is known without an example")
    ax.axhline(0.5, color=GREY, ls="--")
    ax.set_xticks(shots)
    ax.set_ylim(0, 1.05)
    ax.set_xlabel("examples in the prompt")
    ax.set_ylabel("share of right answers")
    ax.legend(loc="lower right")
    return drawing


HEADS = {  # the tokens of "[CLS] who [SEP] she saw me [SEP]" that each of them scores
    "hidden words": "saw",
    "b follows a?": "[CLS]",
    "class of the text": "[CLS] who [SEP] she saw me [SEP]",
    "label of each word": "who she saw me",
    "first and last word": "she saw me",
}


@entry("bert-inputs", 'ML "Self-supervised Learning"')
def bert_inputs(seed: int = 0):
    """BERT reads two parts of a text with words hidden, and its heads read BERT.

    Left, a batch: [CLS] a [SEP] b [SEP], filled up at the end; of the words 15 % are selected (red), to be told from the
    others, and four in five of these are [MASK]. Right, which tokens the heads score.
    """
    import torch
    from matplotlib.colors import ListedColormap

    from lemmata.language import Characters, Corpus
    from lemmata.language.corruption import Passages, mask_words, texts_of
    from lemmata.language.tokens import FIRST, MASK, PAD

    coder = Characters().learn(echoes(100, 0))
    corpus = Corpus.of(echoes(3000, seed), coder)
    batches = Passages(corpus.tokens, *texts_of(corpus), 15, 0.7).batches(seed, 0, 20)
    words = hidden = masked = asked = follow = 0
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for batch in batches:
            tokens, segments, follows = batch.parts
            inputs, selected = mask_words(tokens, len(coder))
            words += int((tokens >= FIRST).sum())
            hidden += int(selected.sum())
            masked += int((inputs == MASK).sum())
            asked += int((follows >= 0).sum())
            follow += int((follows == 1).sum())
            show(bool((inputs == tokens)[~selected].all()), "what was not selected stays")
    drawing, axes = figure(1, 2, size=(5.4, 3.4))
    kind = torch.where(tokens >= FIRST, 2 + segments, (tokens != PAD).int()).masked_fill(
        selected, 4
    )
    colours = ["#ffffff", "#555555", "#bcd4ea", "#f6d3a8", RED]
    axes[0].imshow(kind, cmap=ListedColormap(colours), vmin=0, vmax=4, aspect="auto")
    for colour, label in zip(colours[1:], ("special", "part a", "part b", "selected"), strict=True):
        axes[0].plot([], [], "s", color=colour, label=label)
    axes[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4)
    axes[0].set_xlabel("place")
    axes[0].set_ylabel("row of a batch")
    axes[0].set_yticks([0, 5, 10, 15])
    text = HEADS["class of the text"].split()
    read = np.array([[word in one.split() for word in text] for one in HEADS.values()])
    axes[1].imshow(read, cmap=ListedColormap(["#ffffff", BLUE]), aspect="auto")
    axes[1].set_xticks(range(len(text)), text)
    axes[1].set_yticks(range(len(HEADS)), HEADS)
    axes[1].set_xticks(np.arange(len(text)) - 0.5, minor=True)
    axes[1].set_yticks(np.arange(len(HEADS)) - 0.5, minor=True)
    axes[1].grid(which="minor", color=GREY, lw=0.5)
    for part, whole, share, sentence in (
        (hidden, words, 0.15, "15 % of the words are selected"),
        (masked, hidden, 0.8, "80 % of these become [MASK]"),
        (follow, asked, 0.5, "half of the second parts follow"),
    ):
        spread = np.sqrt(share * (1 - share) / whole)
        show(abs(part / whole - share) < 4 * spread, sentence)
    return drawing
