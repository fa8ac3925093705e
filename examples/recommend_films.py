"""From a ratings file to recommendations, and to knowing how far to believe them.

Uses MovieLens small where LEMMATA_DATA points to it, otherwise ratings made up on the spot.
"""

import tempfile
from pathlib import Path

import numpy as np

import lemmata
from lemmata.completion import ALS, Observed, metrics, recovery


def invented(path: Path) -> Path:
    """40 users and 30 films of two tastes, a third of them rated."""
    rng = np.random.default_rng(0)
    taste, kind = rng.normal(size=(40, 2)), rng.normal(size=(30, 2))
    stars = np.clip(np.round(3.4 + taste @ kind.T + 0.3 * rng.normal(size=(40, 30))), 1, 5)
    lines = [
        f"{u + 1},film {i:02},{stars[u, i]:.0f}"
        for u, i in np.argwhere(rng.random(stars.shape) < 0.33)
    ]
    path.write_text("user,item,rating\n" + "\n".join(lines))
    return path


try:
    ratings = Observed.of(lemmata.data.movielens_small())
except lemmata.data.DataNotFound:
    with tempfile.TemporaryDirectory() as folder:
        ratings = Observed.from_file(invented(Path(folder) / "ratings.csv"))

train, test = ratings.split(test=0.1, seed=0)
# before any fit: can these entries determine a matrix of rank 8?
print(recovery.diagnose(train, 8), "\n")

# how many stars would somebody give? Explicit feedback predicts ratings ...
stars = ALS(rank=8, random_state=0).fit(train)
print(stars.certify(train, test), "\n")
print(metrics.evaluate(stars, test), "\n")
bare = metrics.evaluate(
    stars, test, damping=0
)  # the highest predictions: films that hardly anybody rated
print(f"ranked by bare predictions: precision@10 {bare['precision']:.4f}\n")

# ... and what will somebody choose? Implicit feedback ranks: compare both with popularity
choices = ALS(rank=8, feedback="implicit", random_state=0).fit(train)
print(metrics.evaluate(choices, test), "\n")

user = ratings.row_labels.names[0]
best = choices.recommend(user, n=5)
print(best)
print(choices.explain(user, best.items[0]))

# somebody new: one least-squares solve, no training
print("a new user:", choices.recommend(ratings={ratings.column_labels.names[0]: 5.0}, n=3))
