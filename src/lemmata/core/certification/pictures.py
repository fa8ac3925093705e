"""One look for all figures: colours that colour-blind people can tell apart (Okabe & Ito), and a few shared drawings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BLUE, ORANGE, GREEN, RED, SKY, PURPLE = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#56B4E9",
    "#CC79A7",
)
GREY = "#666666"


def figure(rows: int = 1, columns: int = 1, size: tuple[float, float] = (4.2, 3.2), **options):
    """A figure and its axes, laid out so that nothing overlaps. Draws off screen, whatever backend the user has."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(size[0] * columns, size[1] * rows), dpi=130, layout="constrained")
    FigureCanvasAgg(drawing)
    axes = drawing.subplots(rows, columns, **options)
    for ax in np.atleast_1d(axes).flat:
        ax.spines[["top", "right"]].set_visible(False)
    return drawing, axes


def image_grid(
    ax, images: np.ndarray, columns: int, *, signed=False, gap: int = 1, names: Sequence[str] = ()
):
    """Draw equally large images (m, h, w) as one mosaic, with a name above each; signed ones blue to red, white at zero."""
    m, h, w = images.shape
    rows = -(-m // columns)
    mosaic = np.full((rows * (h + gap) - gap, columns * (w + gap) - gap), np.nan)
    corners = [((i // columns) * (h + gap), (i % columns) * (w + gap)) for i in range(m)]
    for image, (top, left) in zip(images, corners, strict=True):
        mosaic[top : top + h, left : left + w] = image
    for name, (top, left) in zip(names, corners, strict=False):
        ax.text(left + w / 2 - 0.5, top - 0.8, name, ha="center", va="bottom", fontsize=8)
    limit = np.abs(images).max() if signed else None
    ax.set_axis_off()
    colours = "RdBu_r" if signed else "gray_r"
    return ax.imshow(mosaic, cmap=colours, vmin=-limit if limit else None, vmax=limit)
