"""Files that somebody made on purpose, hash recomputed: refused in little time and memory, and never the end of the process."""

import json
import os
import resource
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
import true_files
from small_models import ROWS, TEXTS, data_of, fitted, targets, unfitted

import lemmata
from lemmata import registry
from lemmata.core import StoreError, store
from tools import forge


def content_of(model):
    return {
        "class": type(model).__name__,
        "parameters": model.get_params(deep=False),
        "attributes": model.stored_attributes(),
    }


def load(folder, content):
    store.write(folder / "forged.lemma", "model", content)
    return lemmata.load(folder / "forged.lemma")


def signed(manifest, arrays):
    from safetensors.numpy import save

    manifest = {key: value for key, value in manifest.items() if key != "hash"}
    manifest["hash"] = store.hash_of(manifest, arrays)
    return save(arrays, metadata={"lemmata": json.dumps(manifest)})


def parts_of(path):
    from safetensors.numpy import load

    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["lemmata"]), load(raw)


def places(value, kind):
    """The tagged dicts of a kind in a manifest."""
    if isinstance(value, dict):
        found = [value] if value.get("$") == kind else []
        return found + [place for item in value.values() for place in places(item, kind)]
    if isinstance(value, list):
        return [place for item in value for place in places(item, kind)]
    return []


# --- random states ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("pos", 10**9), ("pos", -5), ("pos", 625), ("has_gauss", 7), ("bit_generator", "os")],
)
def test_a_random_state_is_checked_before_it_is_believed(tmp_path, field, wrong):
    """A position beyond its key was read from whatever lay there: SIGSEGV at the next fit."""
    path = tmp_path / "m.lemma"
    model = lemmata.KMeans(2, random_state=np.random.RandomState(0)).fit(ROWS)
    lemmata.save(model, path)
    manifest, arrays = parts_of(path)
    (random,) = places(manifest, "RandomState")
    pairs = [pair for place in places(random, "dict") for pair in place["items"]]
    next(pair for pair in pairs if pair[0] == field)[1] = wrong
    path.write_bytes(signed(manifest, arrays))
    with pytest.raises(StoreError):
        lemmata.load(path)


@pytest.mark.parametrize(
    "key", [np.zeros(3, np.uint32), np.zeros(624), np.zeros((624, 2), np.uint32)]
)
def test_the_key_of_a_random_state_has_its_size(tmp_path, key):
    model = lemmata.KMeans(2, random_state=np.random.RandomState(0)).fit(ROWS)
    lemmata.save(model, tmp_path / "m")
    manifest, arrays = parts_of(tmp_path / "m")
    (random,) = places(manifest, "RandomState")
    arrays[places(random, "array")[0]["key"]] = key
    (tmp_path / "m").write_bytes(signed(manifest, arrays))
    with pytest.raises(StoreError, match="key of a random generator"):
        lemmata.load(tmp_path / "m")


# --- every array of every model ---------------------------------------------------------------------------------------


def arrays_in(model):
    return {
        name: value
        for name, value in model.stored_attributes().items()
        if isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and value.size
    }


HARMLESS = {
    ("doc_topic_", "longer"),  # nothing else in a file says how many documents there were
    ("chain_log_likelihoods_", "longer"),  # … or how many chains
    ("criterion_", "longer"),  # … or how many orders were compared
    ("test_rows_", "longer"),  # … or how many rows were kept for testing
    ("labels_", "longer"),  # nothing else in a file says how many rows there were
    ("X_fit_", "longer"),  # … (where they have no targets)
    ("singular_", "longer"),  # … or singular values
    ("spectrum_", "longer"),
    ("scores_", "longer"),  # … or penalties
    ("scores_", "flat"),  # one output, written as a table of one
    ("coef_", "flat"),
    ("alphas_", "flat"),
    ("mse_path_", "flat"),
    ("classes_", "bool"),  # True and False are labels
}


@pytest.mark.parametrize("name", registry.MODELS)
def test_every_stored_array_is_finite_of_its_shape_and_of_numbers(tmp_path, name):
    model = fitted(name)
    content = content_of(model)
    assert type(load(tmp_path, content)).__name__ == name
    accepted = []
    for attribute, value in arrays_in(model).items():
        spoilt = value.copy()
        if value.dtype.kind == "f":
            spoilt.flat[0] = np.nan
        forgeries = {"NaN": spoilt, "longer": np.concatenate([value, value]), "flat": value[None]}
        forgeries["bool"] = value.astype(bool)
        for what, wrong in forgeries.items():
            if what == "NaN" and value.dtype.kind != "f":
                continue
            attributes = {**content["attributes"], attribute: wrong}
            try:
                load(tmp_path, {**content, "attributes": attributes})
            except StoreError:
                continue
            accepted += [(attribute, what)] if (attribute, what) not in HARMLESS else []
    assert accepted == [], accepted


@pytest.mark.parametrize("name", registry.MODELS)
def test_a_file_never_says_where_the_next_fit_writes(tmp_path, name):
    model, place = fitted(name), tmp_path / "written-by-a-file"
    content = content_of(model)
    if "checkpoint" not in content["parameters"]:
        pytest.skip("has no checkpoint")
    content["parameters"] = {**content["parameters"], "checkpoint": str(place)}
    assert load(tmp_path, content).checkpoint is None
    held = type(model)(**{**model.get_params(deep=False), "checkpoint": place})
    held.__dict__.update({k: v for k, v in vars(model).items() if k.endswith("_")})
    lemmata.save(held, tmp_path / "m")  # a Path could not be saved at all
    assert str(place) not in (tmp_path / "m").read_bytes().decode("latin-1")


# --- memory -----------------------------------------------------------------------------------------------------------


def forged_files(folder):
    """Small files that claim to be large, each with what reading it may take beyond its size, in MB."""
    lemmata.save(fitted("PCA"), folder / "m")
    whole = (folder / "m").read_bytes()
    with open(folder / "zeros", "wb") as file:
        file.write(whole)
    os.truncate(folder / "zeros", len(whole) + 4 * 2**30)  # sparse: no disk is filled

    text = {"format": 1, "kind": "model", "library": "0"}
    padded = {
        "$": "text",
        "shape": [16_000],
        "object": False,
        "items": ["a" * 16_000, *["b"] * 15_999],
    }
    (folder / "padded").write_bytes(
        signed({**text, "content": {"$": "dict", "items": [["class", padded]]}}, {})
    )

    # as safetensors writes it: the manifest is a text in the header
    many = b'{"__metadata__":{"lemmata":"{\\"content\\":[' + b"[]," * (21 * 10**6) + b'0]}"}}'
    (folder / "lists").write_bytes(struct.pack("<Q", len(many)) + many)
    few = many[: 15 * 2**20]  # below the limit in bytes, not in parts
    (folder / "parts").write_bytes(struct.pack("<Q", len(few)) + few)

    row = np.arange(40_000.0)
    trace = {"$": "object", "class": "Trace", "version": 1, "fields": {}}
    column = {"$": "array", "key": "a0"}
    trace["fields"] = {"objective": column, "seconds": column, "extras": {"$": "dict", "items": []}}
    twice = {"$": "dict", "items": [["class", [trace] * 5000]]}
    (folder / "twice").write_bytes(signed({**text, "content": twice}, {"a0": row}))

    content = content_of(fitted("ALS"))
    lemmata.save(fitted("ALS"), folder / "als")
    manifest, arrays = parts_of(folder / "als")
    observed = next(o for o in places(manifest, "object") if o["class"] == "Observed")
    observed["fields"]["shape"] = {
        "$": "tuple",
        "items": [len(content["attributes"]["U_"]), 4 * 10**8],
    }
    (folder / "wide").write_bytes(signed(manifest, arrays))
    return ["zeros", "padded", "lists", "parts", "twice", "wide"]


CHILD = """
import resource, sys, time
import lemmata
from lemmata.core import StoreError
import lemmata.completion.als.estimator, safetensors.numpy, scipy.sparse
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
for path in sys.argv[1:]:
    before, began = peak(), time.process_time()
    try:
        lemmata.load(path)
        word = "loaded"
    except StoreError:
        word = "refused"
    print(path.rpartition("/")[2], word, round(peak() - before), round(time.process_time() - began, 2))
"""


def test_what_a_file_takes_is_bounded_by_its_size(tmp_path):
    """4 GB of zeros, a gigabyte of padding, millions of empty lists, one array 10,000 times, 4·10⁸ columns."""
    names = forged_files(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *(str(tmp_path / name) for name in names)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in found] == names
    for name, word, megabytes, seconds in found:
        assert word == "refused", name
        size = 0 if name == "zeros" else (tmp_path / name).stat().st_size / 2**20
        assert float(megabytes) < 100 + 3 * size, (name, megabytes)
        assert float(seconds) < 5, (name, seconds)


def test_texts_of_wildly_different_lengths_come_back_without_the_padding(tmp_path):
    texts = np.array(["a" * 2000, *map(str, range(9_000))])
    store.write(tmp_path / "t", "test", {"texts": texts})
    assert (tmp_path / "t").stat().st_size < 400_000
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    back = store.read(tmp_path / "t", "test")["texts"]
    assert back.tolist() == texts.tolist()
    assert back.dtype == object
    assert time.process_time() - began < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_a_manifest_that_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MAX_PARTS", 1000)
    with pytest.raises(StoreError, match="a file holds up to"):
        store.write(tmp_path / "t", "test", {"lists": [[] for _ in range(1000)]})
    assert not (tmp_path / "t").exists()


# --- checkpoints, and a share of tools/forge.py -----------------------------------------------------------------------

HARD = {"tol": 0, "max_iter": 9}  # no fit is over before its checkpoint is written
SETTINGS = {
    "gibbs": ("LDA", {"method": "gibbs", "max_iter": 4}),
    "ksvd": ("DictionaryLearning", {"method": "ksvd", "max_iter": 4}),
    "burg": ("AR", {"order": 3, "method": "burg"}),
    "adamw": ("NeuralClassifier", {"optimizer": "adamw", "max_iter": 4}),
    "mlp": ("MLPClassifier", {"max_iter": 4}),
    "plsa": ("PLSA", {"max_iter": 4}),
    "softmax": ("SkipGram", {"objective": "softmax", "epochs": 4}),
    "fasttext": ("FastTextClassifier", {"max_n": 3, "bucket": 50, "epochs": 1}),
    "autoencoder": ("LinearAutoencoder", {"max_iter": 4}),
    "lanczos": ("PCA", {"svd_solver": "lanczos"}),
    "huber": ("RobustRegression", {"loss": "huber", **HARD}),
    "tukey": ("RobustRegression", {"loss": "tukey", **HARD}),
    "lbfgs": ("LogisticRegression", {"solver": "lbfgs", **HARD}),
}


@pytest.fixture
def true_file(tmp_path, monkeypatch):
    """By name and kind: a true file, and what is done with it."""
    monkeypatch.setenv("LEMMATA_CERTIFICATE", "0")

    def find(name, kind):
        cls, settings = SETTINGS.get(name, (name, {}))
        X, path = data_of(cls), tmp_path / "true"
        y = targets(unfitted(cls), X)
        files = true_files.files_of(path, lambda **more: unfitted(cls, **settings, **more), X, y)
        return next(one for one in true_files.checked(name, files, path) if one.kind == kind)

    return find


def changed(source, path, field, change):
    """The file with one array, or another value, changed."""
    path.write_bytes(source.raw)
    manifest, arrays = parts_of(path)
    places_of = forge._places(manifest["content"], "")
    holder, at = next((h, at) for h, at, name in places_of if name.endswith(field))
    key = holder[at].get("key") if isinstance(holder[at], dict) else None
    new = change(arrays.get(key, holder[at]))
    if isinstance(new, np.ndarray):
        arrays[key] = np.ascontiguousarray(new)
    else:
        holder[at] = new
    path.write_bytes(signed(manifest, arrays))
    return path


@pytest.mark.parametrize(
    ("name", "field", "change"),
    [
        ("gibbs", ".topics", lambda x: np.full_like(x, 3000)),  # kernels wrote there
        ("gibbs", ".topics", lambda x: x[:-1]),
        ("ksvd", ".index", lambda x: np.full_like(x, 10**6)),
        ("Alignment", ".pairs", lambda x: x + 10**6),
        ("adamw", ".exp_avg", lambda x: x[:1]),  # fused steps read beyond its end
        ("adamw", ".exp_avg", lambda x: 0),
        ("burg", ".variances", lambda x: x[:0]),
        ("softmax", ".outputs", lambda x: x[:-1]),
        ("SGDFactorization", ".U", lambda x: x.astype(np.float32)),  # half of a line is another's
        ("huber", ".theta", lambda x: x[:-1]),
        ("huber", ".sigma", lambda x: 0.0),
        ("tukey", ".theta", lambda x: np.append(x, x)),
        ("tukey", ".scale", lambda x: -x),
        ("autoencoder", ".params.0", lambda x: x * np.nan),
        ("lanczos", ".basis.0", lambda x: x * np.inf),
        ("lbfgs", ".moves", lambda x: x.astype(int)),
        ("lbfgs", ".changes", lambda x: x[:, :-1]),
    ],
)
def test_places_and_sizes_in_a_state_are_those_of_the_run(tmp_path, true_file, name, field, change):
    source = true_file(name, "checkpoint")
    path = changed(source, tmp_path / "forged", field, change)
    outcome, message = true_files.attempt(source, path)
    assert (outcome, "is damaged" in message) == ("refused", True), message


@pytest.mark.parametrize(
    ("name", "field", "change"),
    [
        ("mlp", ".loss_curve_", lambda x: [*x, [1.0]]),  # partial_fit takes their least
        ("mlp", ".classes_", lambda x: []),  # no array here
        ("mlp", ".classes_", lambda x: np.arange(3)),  # for one output
        ("fasttext", ".features_.max_n", lambda x: 0),  # slots of parts are then beyond the table
        ("ksvd", ".n_nonzero", lambda x: 100),
        ("SVC", ".n_features_in_", lambda x: x + 1),
    ],
)
def test_what_a_model_is_used_with_fits_together(tmp_path, true_file, name, field, change):
    source = true_file(name, "model")
    path = changed(source, tmp_path / "forged", field, change)
    outcome, message = true_files.attempt(source, path)
    assert outcome == "refused", message


def test_forged_files_are_refused_or_work(tmp_path, true_file):
    """24 of the 10,000 of `python -m tools.forge`: none kills its process, fills the memory or takes for ever."""
    kinds = {"gibbs": "checkpoint", "Alignment": "checkpoint", "plsa": "model", "SVC": "model"}
    found = [true_file(name, kind) for name, kind in kinds.items()]
    counts = {}
    for source, what, outcome, message, *_ in forge.forge_all(found, 24, 24, tmp_path):
        counts.setdefault(outcome, []).append((source.name, what, message))
    assert set(counts) == {"refused", "works"}, counts
    assert len(counts["refused"]) > 9


# --- networks, tokenizers, seeds --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "net.lemma"
    model = lemmata.NeuralClassifier(max_iter=1, random_state=0, net__widths=(8,))
    with lemmata.config(certificate=False):
        lemmata.save(model.fit(ROWS, np.arange(len(ROWS)) % 2), path)
    return path


def module_of(manifest):
    return next(one for one in places(manifest, "object") if one["class"] == "Network")


@pytest.mark.parametrize("widths", [[4000] * 9, [8] * 4000, [["$"]]])
def test_a_network_is_compared_with_its_weights_before_it_takes_memory(tmp_path, network, widths):
    """16 kB asked for gigabytes: it is built without memory first."""
    manifest, arrays = parts_of(network)
    config = module_of(manifest)["fields"]["config"]["items"]
    next(pair for pair in config if pair[0] == "widths")[1] = {"$": "tuple", "items": widths}
    (tmp_path / "m").write_bytes(signed(manifest, arrays))
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(StoreError):
        lemmata.load(tmp_path / "m")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    assert time.process_time() - began < 5


@pytest.mark.parametrize("kind", ["network", "class"])
def test_a_loss_in_a_file_is_no_network(tmp_path, network, kind):
    manifest, arrays = parts_of(network)
    fields = {"name": "ConvNet", "fields": {"$": "dict", "items": [["input_shape", [1, 8, 8]]]}}
    loss = {"$": "object", "class": "Named", "version": 1, "fields": fields}
    if kind == "network":
        loss = forge._copy(module_of(manifest), arrays)
    parameters = next(p for p in manifest["content"]["items"] if p[0] == "parameters")[1]["items"]
    next(pair for pair in parameters if pair[0] == "loss")[1] = loss
    (tmp_path / "m").write_bytes(signed(manifest, arrays))
    with pytest.raises(StoreError, match="its loss is"):
        lemmata.load(tmp_path / "m")


def test_a_pattern_that_can_run_for_ever_is_not_taken_from_a_file(tmp_path):
    text, slow = lemmata.text, r"(\w+\s?)*$"
    for pattern in (slow, r"[a-z]+(?:'[a-z]+)?"):
        with lemmata.config(certificate=False):
            model = lemmata.PMI(2, min_count=1, tokenizer=text.Tokenizer(token_pattern=pattern))
            model.tokenizer = text.Tokenizer() if pattern == slow else model.tokenizer
            model.fit(TEXTS)
        model.tokenizer = text.Tokenizer(token_pattern=pattern)
        lemmata.save(model, tmp_path / pattern[:3])
    assert lemmata.load(tmp_path / "[a-").tokenizer.token_pattern == pattern
    with pytest.raises(StoreError, match="may take for ever"):
        lemmata.load(tmp_path / "(\\w")
    own = text.Tokenizer(token_pattern=slow)
    assert lemmata.load(tmp_path / "(\\w", tokenizer=own).tokenizer is own


def test_seeds_of_a_million_numbers_are_refused_at_once(tmp_path):
    model = lemmata.KMeans(2, random_state=0).fit(ROWS)
    model.random_state = np.random.Generator(np.random.PCG64(np.random.SeedSequence(1)))
    store.write(tmp_path / "s", "test", {"rng": model.random_state})
    manifest, arrays = parts_of(tmp_path / "s")
    (seeds,) = places(manifest, "SeedSequence")
    next(p for p in seeds["state"]["items"] if p[0] == "entropy")[1] = [1] * 2**20
    (tmp_path / "s").write_bytes(signed(manifest, arrays))
    began = time.process_time()
    with pytest.raises(StoreError, match="too many numbers"):
        store.read(tmp_path / "s", "test")
    assert time.process_time() - began < 5  # it took 44 s
