"""Files of an earlier lemmata (672054f, before the trusted base moved) open as they were: models, certificates, checkpoints."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

import lemmata
from lemmata.core import Checkpoint, MaxSteps, run
from lemmata.linalg import RandomizedAlgorithm

STORED = Path(__file__).parent / "stored"
VERDICTS = json.loads((STORED / "verdicts.json").read_text())
X, Y = load_iris(return_X_y=True)


@pytest.mark.parametrize("name", VERDICTS)
def test_a_model_and_its_certificate_open_as_they_were_saved(name, tmp_path):
    model = lemmata.load(STORED / f"{name}.lemma")
    found = {item.name: item.verdict for item in model.certificate_}
    assert found == VERDICTS[name]["verdicts"]
    assert all(item.witness == {} for item in model.certificate_)
    lemmata.save(model, tmp_path / "again.lemma")
    assert lemmata.load(tmp_path / "again.lemma").certificate_ == model.certificate_


@pytest.mark.parametrize("name", ["pca", "kmeans", "mixture", "lasso", "logistic", "svc", "nmf"])
def test_a_stored_model_is_certified_on_its_data(name):
    model = lemmata.load(STORED / f"{name}.lemma")
    found = model.certify(X, Y)
    assert found.broken == []
    held = {claim for claim, verdict in VERDICTS[name]["verdicts"].items() if verdict == "holds"}
    assert held <= set(found.held)


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    shutil.copy(STORED / "randomized.ckpt", tmp_path)
    S, algorithm = np.diag(np.arange(8.0, 0, -1)), RandomizedAlgorithm(2, oversampling=1)
    callbacks = [Checkpoint(tmp_path / "randomized.ckpt")]
    resumed = run(algorithm, S, stop=MaxSteps(6), callbacks=callbacks, rng=0)
    whole = run(algorithm, S, stop=MaxSteps(6), rng=0)
    np.testing.assert_allclose(resumed.trace.objective, whole.trace.objective, rtol=1e-12)


def test_a_models_checkpoint_without_its_parameters_is_refused(tmp_path):
    shutil.copy(STORED / "kmeans.ckpt", tmp_path)
    model = lemmata.KMeans(3, random_state=0, n_init=1, checkpoint=tmp_path / "kmeans.ckpt")
    with pytest.raises(ValueError, match="written by an earlier lemmata"):
        model.fit(X)
