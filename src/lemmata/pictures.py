"""One look for all figures: colours that colour-blind people can tell apart (Okabe & Ito), and a few shared drawings."""

from __future__ import annotations

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


def image_grid(ax, images: np.ndarray, columns: int, *, signed: bool = False, gap: int = 1) -> None:
    """Draw equally large images (m, h, w) as one mosaic; signed ones blue to red with white at zero."""
    m, h, w = images.shape
    rows = -(-m // columns)
    mosaic = np.full((rows * (h + gap) - gap, columns * (w + gap) - gap), np.nan)
    for i, image in enumerate(images):
        top, left = (i // columns) * (h + gap), (i % columns) * (w + gap)
        mosaic[top : top + h, left : left + w] = image
    limit = np.abs(images).max() if signed else None
    ax.imshow(
        mosaic, cmap="RdBu_r" if signed else "gray_r", vmin=-limit if limit else None, vmax=limit
    )
    ax.set_axis_off()
