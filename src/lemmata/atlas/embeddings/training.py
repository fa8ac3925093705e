"""Training vectors of words (CIL 3.3.2): the loss that is measured after an epoch, and the one that is summed up during it."""

from __future__ import annotations

import numpy as np

from lemmata.atlas import entry, show
from lemmata.atlas.embeddings.texts import corpus
from lemmata.core.certification.pictures import BLUE, GREY, ORANGE, figure
from lemmata.embedding import SkipGram


@entry("true-loss", "CIL (3.50)")
def true_loss(seed: int = 0):
    """The running loss hides what is learned; measured after the epoch it falls.

    Skip-gram's loss after every epoch, on windows and negatives that are the same every time (blue), and the mean over
    the steps of that epoch, each before it was made (orange), which is what other libraries report. A step sees words
    that the steps before it have just moved, so the latter is low from the beginning and seems to fall little.
    """
    found = corpus(seed)
    model = SkipGram(
        16 if found.generated else 50, window=5, epochs=5, negatives_per="window", random_state=seed, deterministic=True,
        alpha=0.05 if found.generated else None,
    ).fit(found.encoded)  # fmt: skip
    true = np.asarray(model.trace_.objective)
    running = np.asarray(model.trace_.extras["running_loss"])[1:]
    epochs = np.arange(len(true))
    drawing, ax = figure(size=(5.0, 3.4))
    ax.plot(epochs, true, color=BLUE, marker="o", label="of the vectors after the epoch")
    label = "mean over the epoch's own steps"
    ax.plot(epochs[1:], running, color=ORANGE, marker="s", ls="--", label=label)
    guess = 6 * np.log(2)
    ax.axhline(guess, color=GREY, lw=1, ls=":")
    ax.text(epochs[-1], guess, "guessing: 6 ln 2", ha="right", va="bottom", fontsize=8, color=GREY)
    ax.set(xlabel="epoch", ylabel="loss a pair", xticks=epochs)
    ax.legend(fontsize=9)
    ax.set_title(found.name)
    show(abs(true[0] - guess) < 1e-3, "before the first step the loss is that of guessing")
    show((np.diff(true) < 0).all(), "the loss of the vectors falls in every epoch")
    return drawing
