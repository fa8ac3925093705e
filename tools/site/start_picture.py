"""docs/start.png: the certificate of a real fit, with three labels.

python -m tools.site.start_picture
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import lemmata

PICTURE = Path(__file__).parents[2] / "docs" / "start.png"
# what a label points to: the beginning of its words on a line, and where the label stands
LABELS = (
    ("the next step of Lloyd", "what is claimed", "#0b5394"),
    ("gain of one step", "the number and its bound", "#7a3e00"),
    ("→ Lloyd's iteration", "what to do", "#1b5e20"),
)


def main() -> None:
    """Fit k-means to the digits, stop it after three steps, draw what its certificate says."""
    X = lemmata.data.digits().X
    model = lemmata.KMeans(n_clusters=10, random_state=0, max_iter=3).fit(X)
    lines = [line for line in str(model.certificate_).splitlines() if line.strip()][:6]
    figure = plt.figure(figsize=(9.6, 2.1), dpi=130)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 100), ylim=(len(lines) - 0.4, -0.6))
    axes.axis("off")
    for row, line in enumerate(lines):
        found = [one for one in LABELS if one[0] in line]
        color = found[0][2] if found else "#222222"
        axes.text(2, row, line, family="monospace", fontsize=9.5, va="center", color=color)
        for _, words, shade in found:
            axes.annotate(
                words, (66, row), (71, row), va="center", fontsize=11, color=shade, weight="bold",
                arrowprops={"arrowstyle": "->", "color": shade},
            )  # fmt: skip
    figure.savefig(PICTURE)


if __name__ == "__main__":
    main()
