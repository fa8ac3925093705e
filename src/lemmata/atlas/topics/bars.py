"""Gibbs sampling, drawn (CIL 3.2.4; CIL20 4.4.2): topics that are bars of pixels come out of noise."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from lemmata.atlas import entry, show
from lemmata.core.blocks import Blocks
from lemmata.core.certification.pictures import GREY, figure
from lemmata.topics.lda.gibbs import GibbsAlgorithm
from lemmata.topics.lda.tokens import Tokens

Array = np.ndarray
SIDE = 5


def bars() -> Array:
    """Five rows and five columns of a square of 5 × 5 pixels, each as a distribution: (10, 25)."""
    lines = np.zeros((2 * SIDE, SIDE, SIDE))
    for i in range(SIDE):
        lines[i, i] = lines[SIDE + i, :, i] = 1 / SIDE
    return lines.reshape(2 * SIDE, -1)


@entry("bars", "CIL 3.2.4; CIL20 4.4.2")
def topics_that_are_bars(seed: int = 1):
    """Topics that are bars come out of noise, one after the other.

    Each document is 60 dots on 25 pixels: a pixel is a word, a row or a column of them a topic, and documents mix a few.
    First line: six documents. Then the ten topics of one chain of Gibbs sampling after 0, 5, 20 and 80 passes, matched with
    the bars.
    """
    truth, rng = bars(), np.random.default_rng(seed)
    k = len(truth)
    N = rng.multinomial(60, rng.dirichlet(np.full(k, 0.2), 400) @ truth)
    tokens = Tokens(Blocks.of(N.astype(float)), k, 1)
    tokens.compiled = False
    algorithm = GibbsAlgorithm((0.2,) * k, np.full((1, k), 0.05))
    state, looks, losses = algorithm.init(tokens, rng), {}, []
    for passes in range(81):
        if passes in (0, 5, 20, 80):
            looks[passes] = (state.words + 0.05).T / (state.words + 0.05).sum(axis=0)[:, None]
        losses.append(state.loss)
        state = algorithm.step(state, tokens)

    drawing, axes = figure(5, k, size=(0.75, 0.75))
    shared = np.minimum(looks[80][:, None], truth[None]).sum(axis=2)
    order = np.argsort(linear_sum_assignment(-shared)[1])
    for ax in axes.ravel():
        ax.set(xticks=[], yticks=[])
        for side in ax.spines.values():
            side.set(visible=True, color=GREY, linewidth=0.6)
    for place in range(k):
        if place < 6:
            axes[0, place].imshow(N[place].reshape(SIDE, SIDE), cmap="gray_r")
        else:
            axes[0, place].set_visible(False)
    for line, (passes, phi) in enumerate(looks.items(), start=1):
        for place, topic in enumerate(order):
            axes[line, place].imshow(
                phi[topic].reshape(SIDE, SIDE), cmap="gray_r", vmin=0, vmax=0.2
            )
        axes[line, 0].set_ylabel(f"{passes}\npasses", rotation=0, ha="right", va="center")
    axes[0, 0].set_ylabel("texts", rotation=0, ha="right", va="center")

    common = {passes: np.minimum(phi[order], truth).sum(axis=1) for passes, phi in looks.items()}
    seen = common[80].min() > 0.9
    show(seen, "after 80 passes every bar is found, to nine tenths of its probability")
    show(common[0].max() < 0.5, "at the start none is")
    show(np.mean(losses[-20:]) < np.mean(losses[:5]), "ln p(w, z) has risen")
    return drawing
