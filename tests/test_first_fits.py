"""First fits on small data wait for no compiler: one fresh process makes them, package by package, without loading Numba."""

import json
import os
import subprocess
import sys

FIRST_FITS = {
    "reading": """
path = folder / "ratings.csv"
path.write_text("user,item,rating\\n" + "".join(f"{i % 9},{i % 7},{i % 5}\\n" for i in range(60)))
lemmata.completion.Observed.from_file(path)
assert "pyarrow.csv" not in sys.modules
""",
    "recommending": """
X = np.where(np.random.default_rng(0).random((60, 40)) < 0.3, 4.0, np.nan)
lemmata.MeanRatings().fit(X).recommend(n=5)
""",
    "completion": """
rng = np.random.default_rng(0)
X = np.where(rng.random((60, 40)) < 0.5, rng.normal(size=(60, 40)), np.nan)
ALS = lemmata.ALS
for model in (ALS(3), ALS(3, 1.0, nonnegative=True, max_iter=5), ALS(3, "auto", max_iter=5), lemmata.MeanRatings()):
    model.fit(X).predict([0], [1]), model.fold_in(X[:2]), model.transform(X[:3]), model.certify(X)
""",
    "clustering": """
from lemmata.clustering import KMeans, MiniBatchKMeans, LightweightCoreset, greedy_d2_sampling
X = np.random.default_rng(0).normal(size=(1797, 64))
for model in (KMeans(10, random_state=0), MiniBatchKMeans(10, random_state=0), KMeans(10, init="k-means||", random_state=0)):
    for data in (X, sp.csr_array(X)):
        model.fit(data)
        model.predict(data), model.transform(data), model.score(data), model.partial_fit(data[:100])
LightweightCoreset(100, random_state=0).fit(X).cost(X[:5])
greedy_d2_sampling(X, 10, 0)
""",
    "mixtures": """
from sklearn.datasets import load_digits
X = load_digits().data[:300]
model = lemmata.GaussianMixture(5, covariance_type="diag", random_state=0).fit(X)
model.predict(X), model.score(X), model.sample(3)
X[::3, 40] = np.nan
holes = lemmata.GaussianMixture(2, random_state=0, init_params="k-means++", max_iter=2, tol=1).fit(X[:, 36:44])
holes.impute(X[:, 36:44]), holes.predict_proba(X[:, 36:44])
lemmata.Mixture(5, family="bernoulli", random_state=0).fit(np.nan_to_num(X) > 7).predict(np.nan_to_num(X) > 7)
assert "dask" not in sys.modules
""",
    "reduction": """
X = sp.random_array((500, 2000), density=0.01, rng=np.random.default_rng(0), format="csr")
for model in (lemmata.PCA(3), lemmata.TruncatedSVD(3), lemmata.TruncatedSVD(3, algorithm="arpack")):
    model.fit(X).transform(X)
lemmata.PCA(3).fit(np.eye(9)), lemmata.KernelPCA(2).fit(np.eye(9)), lemmata.LinearAutoencoder(2).fit(np.eye(9))
""",
    "support vectors": """
from sklearn.datasets import load_breast_cancer
lemmata.SVC().fit(*load_breast_cancer(return_X_y=True))
""",
    "word vectors": """
from lemmata.embedding import SkipGram
SkipGram(4, min_count=1).fit(["a b c d e f"] * 5 + ["aa bb cc"] * 9)
""",
    "the demo": """
from lemmata.cli.demo import play
play(folder / "demo.png", quiet=True)
""",
}

FRESH = """
import json, sys
from pathlib import Path
import numpy as np, scipy.sparse as sp, lemmata

folder = Path(sys.argv[1])
for name, code in json.loads(sys.stdin.read()).items():
    exec(code, {"np": np, "sp": sp, "sys": sys, "lemmata": lemmata, "folder": folder})
    assert not {"numba", "llvmlite"} & set(sys.modules), f"compiled: {name}"
print("none compiled")
"""


def test_first_fits_on_small_data_wait_for_no_compiler(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FRESH, str(tmp_path)],
        input=json.dumps(FIRST_FITS),
        capture_output=True,
        text=True,
        env={**os.environ, "LEMMATA_COMPILE": "auto"},
    )
    assert done.stdout.strip() == "none compiled", done.stderr
    assert "compiling" not in done.stderr
