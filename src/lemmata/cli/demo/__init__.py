"""`lemmata demo`: the main job on data that every installation has, in scenes (scenes.py).

A scene plays (fits something and says what it found), draws its part of the picture, and sums itself up for --json. A new
chapter adds its scene to SCENES; the picture grows by one strip.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from lemmata.core.store import write_atomically

WIDTH, DPI = 11.0, 130
FORMATS = (".png", ".pdf", ".svg")

Say = Callable[[Any], None]


class Scene(Protocol):
    """A part of the demo. `height` is that of its strip of the picture, in inches."""

    name: str
    title: str
    height: float

    def play(self, say: Say) -> Any:
        """Do the work and say what came out; the result goes to the other two."""
        ...

    def draw(self, figure: Any, played: Any) -> None:
        """Draw the result on a matplotlib (sub)figure."""
        ...

    def summary(self, played: Any) -> dict[str, Any]:
        """The result as plain JSON."""
        ...


def play(
    out: Path = Path("demo.png"), quiet: bool = False, scenes: Iterable[Scene] | None = None
) -> dict[str, Any]:
    """Play the scenes, draw the picture, and return the results as plain JSON."""
    from lemmata.cli.demo.scenes import SCENES

    if out.suffix.lower() not in FORMATS:
        raise ValueError(f"{out}: the picture is drawn as {', '.join(FORMATS)}.")
    start = time.perf_counter()
    say: Say = (lambda what: None) if quiet else _printer()
    played = [(scene, scene.play(say)) for scene in (SCENES if scenes is None else scenes)]
    _draw(out, played)
    seconds = time.perf_counter() - start
    say(f"\n{out} drawn; {seconds:.1f} s in all.")
    return {
        "figure": str(out),
        "seconds": round(seconds, 2),
        **{scene.name: scene.summary(result) for scene, result in played},
    }


def _draw(out: Path, played: list[tuple[Scene, Any]]) -> None:
    from matplotlib.figure import Figure

    heights = [scene.height for scene, _ in played]
    figure = Figure(figsize=(WIDTH, sum(heights)), dpi=DPI)
    figure.set_layout_engine("constrained", rect=(0.01, 0.01, 0.98, 0.98))
    strips = figure.subfigures(len(played), 1, height_ratios=heights, squeeze=False)
    for (strip,), (scene, result) in zip(strips, played, strict=True):
        scene.draw(strip, result)
    content = io.BytesIO()
    figure.savefig(content, format=out.suffix.lower().lstrip("."))
    write_atomically(out, content.getvalue())


def _printer() -> Say:
    """Return a function that prints: in colour on a terminal, plain elsewhere."""
    if not sys.stdout.isatty():
        return print
    from rich.console import Console

    console = Console(highlight=False)
    return lambda what: console.print(what, soft_wrap=True)
