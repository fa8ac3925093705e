"""I want to understand: draw a figure of the atlas, and read what it shows.

./run py examples/draw_from_the_atlas.py
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from lemmata import atlas

# Each entry draws one figure of the lecture notes, and asserts what the figure shows.
entry = atlas.entries()["pca-basis"]
print(f"{entry.title} ({entry.source})")
drawn = entry.perform(tempfile.mkdtemp())
print(drawn.caption or entry.title)
for fact in drawn.shown:
    print("shown:", fact)

# The numbers of the picture stand inside the file, so that it can be compared with one that is drawn later.
print(f"{Path(drawn.path).stat().st_size / 1000:.0f} kB")
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.imshow(plt.imread(drawn.path))
axes.axis("off")
