"""The numbers of a picture: what tells whether it is current, on any machine and with any font.

Every line, bar, image and cloud of points is summed up by its size, mean, root mean square and a sum weighted by
position, so that a value that moves is noticed and one that differs by rounding is not. They travel inside the PNG.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

KEY = "Numbers"  # of the PNG's text
# one per axes: {"texts": […], "data": [[size, mean, rms, weighted], …]}
Numbers = list[dict[str, Any]]

_DIGITS = re.compile(r"[-−]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


def numbers_of(figure: Any) -> Numbers:
    """Sum up the axes of a figure: their words and their data."""
    return [
        {"texts": _texts(ax), "data": [_sum_up(array) for array in _arrays(ax)]}
        for ax in figure.axes
    ]


def stored_in(path: Path) -> Numbers:
    """The numbers inside a PNG that the atlas drew; ValueError for any other picture."""
    from PIL import Image

    with Image.open(path) as image:
        text = image.info.get(KEY)
    if text is None:
        raise ValueError(f"{path} has no numbers inside: it was not drawn by the atlas.")
    return json.loads(text)


def differences(old: Numbers, new: Numbers, rtol: float = 0.01) -> list[str]:
    """Where two pictures show other things, in words; numbers may differ by rtol of their size."""
    if len(old) != len(new):
        return [f"{len(old)} axes have become {len(new)}"]
    found = []
    for place, (before, now) in enumerate(zip(old, new, strict=True)):
        for a, b in _pairs(before["texts"], now["texts"]):
            if not _same_words(a, b, rtol):
                found.append(f"axes {place}: {a!r} has become {b!r}")
        for i, (a, b) in enumerate(_pairs(before["data"], now["data"])):
            if not _same_data(a, b, rtol):
                found.append(f"axes {place}, drawing {i}: {a} has become {b}")
    return found


def _pairs(old: list, new: list) -> list[tuple[Any, Any]]:
    """Old and new, item by item; None where one list is longer."""
    length = max(len(old), len(new))
    pad = [None] * length
    return list(zip((old + pad)[:length], (new + pad)[:length], strict=True))


def _same_words(a: str | None, b: str | None, rtol: float) -> bool:
    if a is None or b is None or _DIGITS.sub("#", a) != _DIGITS.sub("#", b):
        return False
    old, new = _values(a), _values(b)
    # two shown digits that differ by one in the last place are one rounding apart
    return np.allclose(old, new, rtol=max(rtol, 0.05), atol=0.011)


def _values(text: str) -> list[float]:
    return [float(word.replace(",", "").replace("−", "-")) for word in _DIGITS.findall(text)]


def _same_data(a: list | None, b: list | None, rtol: float) -> bool:
    if a is None or b is None or a[0] != b[0]:
        return False
    size = max(abs(a[2]), abs(b[2]))  # a mean near 0 is judged by the size of the values
    return bool(np.abs(np.subtract(a[1:], b[1:])).max() <= rtol * size)


def _sum_up(array: Any) -> list[float]:
    """Size, mean, root mean square, and the mean with weights that differ from place to place."""
    values = np.ma.filled(np.ma.asarray(array, dtype=np.float64), np.nan).ravel()
    values = values[np.isfinite(values)]
    if not values.size:
        return [0, 0.0, 0.0, 0.0]
    weights = np.cos(np.arange(values.size) * 0.7)  # no pattern of a picture repeats with it
    shown = (values.mean(), np.sqrt((values**2).mean()), (weights * values).mean())
    return [values.size, *(float(f"{value:.4g}") for value in shown)]


def _texts(ax: Any) -> list[str]:
    """Title, labels, legend and what is written on the axes."""
    legend = ax.get_legend()
    entries = [text.get_text() for text in legend.get_texts()] if legend else []
    written = [text.get_text() for text in ax.texts]
    all_of_it = [ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), *entries, *written]
    return [text for text in all_of_it if text]


def _arrays(ax: Any) -> list[np.ndarray]:
    """The data of everything drawn, in the order of drawing."""
    lines = [np.asarray(line.get_xydata(), dtype=float) for line in ax.lines]
    bars = [np.array([[p.get_x(), p.get_y(), p.get_width(), p.get_height()] for p in ax.patches
                      if hasattr(p, "get_width")])]  # fmt: skip
    clouds = [_collect_values(one) for one in ax.collections]
    images = [np.asarray(image.get_array(), dtype=float) for image in ax.images]
    return [array for array in [*lines, *bars, *clouds, *images] if np.size(array)]


def _collect_values(collection: Any) -> np.ndarray:
    """A cloud's points, a mesh's or a field's values, an area's outline; with the colours of its points."""
    values = collection.get_array()
    points: np.ndarray = np.ma.filled(np.ma.asarray(collection.get_offsets(), dtype=float), np.nan)
    paths = [] if len(points) > 1 else [path.vertices for path in collection.get_paths()]
    colours = collection.get_facecolor() if len(points) > 1 else []
    parts = [points, *paths, colours, [] if values is None else values]
    return np.concatenate(
        [np.ma.filled(np.ma.asarray(part, float), np.nan).ravel() for part in parts]
    )
