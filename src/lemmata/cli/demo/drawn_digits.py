"""The scene of `lemmata demo --deep`: digits that nobody wrote, drawn class by class by a diffusion model, and judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lemmata.cli.demo import Say

NAMES = ("passes_for_data", "modes_covered", "not_copied", "classes_obeyed")
COLUMNS, DRAWN = 16, 120  # shown and drawn of each class


@dataclass(frozen=True)
class Drawing:
    """Draws of each class, the fit, and what is claimed of them next to new digits."""

    images: np.ndarray  # (10, DRAWN, 8, 8)
    fit: Any
    samples: Any


class DrawnDigits:
    """Diffusion on 1,200 digits; 1,200 draws judged next to 597 digits that it never saw."""

    name = "drawn"
    title = "Digits that nobody wrote: a diffusion model after half a minute"
    height = 7.0
    epochs = 40

    def play(self, say: Say) -> Drawing:
        import lemmata
        from lemmata.data import digits
        from lemmata.generate import Diffusion, Samples

        data = digits()
        order = np.random.default_rng(0).permutation(len(data.X))
        images = (data.X[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
        labels = np.asarray(data.y)[order]
        say(f"{self.title}\n")
        settings = {"width": 16, "batch_size": 32, "learning_rate": 4e-3, "random_state": 0}
        model = Diffusion(max_iter=self.epochs, **settings, verbose=1)
        model.fit(images[:1200], labels[:1200])
        asked = np.repeat(np.arange(10), DRAWN)
        # digits have levels, draws have not: a classifier would tell them apart by that
        drawn = np.rint(16 * model.sample(len(asked), y=asked, steps=20, random_state=0)) / 16
        found = lemmata.certify(
            Samples(drawn, asked), images[:1200], labels[:1200], X_test=images[1200:], y_test=labels[1200:]
        )  # fmt: skip
        say(model.certificate_)
        say("")
        say(found)
        return Drawing(drawn.reshape(10, DRAWN, 8, 8), model.certificate_, found)

    def draw(self, figure: Any, played: Drawing) -> None:
        from lemmata.core.certification.pictures import image_grid

        figure.suptitle(self.title, fontsize=15, fontweight="bold")
        axes = figure.subplots()
        image_grid(axes, played.images[:, :COLUMNS].reshape(-1, 8, 8), COLUMNS)
        verdicts = [f"{name}: {played.samples[name].verdict}" for name in NAMES]
        main = played.fit[played.fit.main]
        axes.set_title("   ".join([f"{main.name}: {main.verdict}", *verdicts]), fontsize=8)

    def summary(self, played: Drawing) -> dict[str, Any]:
        return {"certificate": played.fit.to_dict(), "samples": played.samples.to_dict()}
