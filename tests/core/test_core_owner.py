"""Parameters as a checkpoint compares them: the same in every process, and other for whatever computes something else."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold

from lemmata.core.files.encoding import digest
from lemmata.core.files.owner import brief, describe, differences, owner_of
from lemmata.text import Tokenizer


@dataclass(frozen=True, slots=True)
class Slotted:
    a: Any


class Shift:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x + self.by


def power(p):
    return lambda x: x**p


def plain(x, scale=1.0):
    return scale * np.exp(x)


# pairs of one name or kind that compute something else
DIFFERENT = [
    [None, 0, 1, 1.0, True, "1", np.inf, [1], [1, 2], {"a": 1}, {"a": 2}, {1: "a"}, {1}, {1, 2}],
    [np.ones(2), np.ones(3), np.ones((2, 1)), np.ones(2, np.float32), np.array([1, "a"], object)],
    [sp.csr_array(np.eye(2)), sp.csr_array(np.eye(3))],
    [lambda x: x, lambda x: x + 1, lambda x: x + 2, lambda x, y=2: x, lambda x, y=3: x],
    [
        lambda x: np.exp(x),
        lambda x: np.log(x),
        lambda x: [i + 1 for i in x],
        lambda x: [i + 2 for i in x],
    ],
    [power(2), power(3), power([1]), plain, partial(plain, scale=2.0), partial(plain, scale=3.0)],
    [Shift(1), Shift(2), Shift(1).__call__, Shift(2).__call__, Shift(np.ones(2)), Shift],
    [np.exp, np.log, len, sum, int, float],
    [KFold(3), KFold(4), KFold(3, shuffle=True, random_state=0), iter([])],
    [Tokenizer(), Tokenizer(stop_words=["a", "b"]), Tokenizer(stop_words=["a", "c"])],
    [
        Slotted(1),
        Slotted(2),
        Slotted(np.zeros(9999)),
        Slotted(np.arange(9999) == 999),
        re.compile("a"),
        re.compile("b"),
        range(3),
        range(4),
        b"a",
        1j,
    ],
]


def marks():
    return [[digest(describe(value)) for value in values] for values in DIFFERENT]


def test_values_that_differ_have_other_marks():
    for values, found in zip(DIFFERENT, marks(), strict=True):
        for (a, x), (b, y) in combinations(zip(values, found, strict=True), 2):
            assert x != y, (a, b)


def test_marks_are_the_same_in_every_process_and_however_a_value_was_made():
    code = "import json, test_core_owner; print(json.dumps(test_core_owner.marks()))"
    there = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=there, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == marks()
    for one, other in [
        (3, np.int64(3)), (0.5, np.float64(0.5)), ((1, 2), [1, 2]), (power(2), power(2)), ({1, 2}, {2, 1}),
        (Tokenizer(), Tokenizer()),
    ]:  # fmt: skip
        assert digest(describe(one)) == digest(describe(other))


def test_what_refers_to_itself_comes_to_an_end():
    ring: list = []
    ring.append(ring)
    assert describe(ring)


def test_networks_are_known_by_what_they_are_made_of_not_by_the_weights_they_begin_with():
    torch = pytest.importorskip("torch")
    one, other = (digest(describe(torch.nn.Linear(3, 2))) for _ in range(2))
    assert one == other != digest(describe(torch.nn.Linear(3, 3)))
    losses = [torch.nn.CrossEntropyLoss(weight=w * torch.ones(2)) for w in (1, 2)]
    assert len({digest(describe(loss)) for loss in losses}) == 2


def owned(random_state=0, callbacks=None):
    class Model:
        def get_params(self, deep):
            return {"random_state": random_state, "callbacks": callbacks}

    return owner_of(Model())["parameters"]


def test_seeds_agree_if_they_are_ints_and_a_run_begun_without_goes_on_with_what_it_drew():
    assert not differences(owned(0), owned(np.int64(0)))
    assert differences(owned(0), owned(1)) == ["random_state: 0 in the checkpoint, 1 now"]
    assert differences(owned(0), owned(None)) == ["random_state: 0 in the checkpoint, None now"]
    assert not differences(owned(None), owned(np.random.RandomState(3)))
    assert not differences(owned(np.random.RandomState(3)), owned(np.random.RandomState(4)))


def test_callbacks_are_known_by_name_whatever_they_saw():
    seen: list = []
    before = owned(callbacks=[seen.append, Shift(1)])
    seen.append(1)
    assert not differences(before, owned(callbacks=[seen.append, Shift(2)]))
    assert differences(before, owned(callbacks=[print, Shift(1)]))


def test_a_value_is_named_by_itself_if_it_is_short():
    values = [0.1, "rbf", (8,), None, np.ones((2, 3)), plain, Shift, Shift(1), KFold(3), "a" * 99]
    assert [brief(value) for value in values] == [
        "0.1", "'rbf'", "(8,)", "None", "array of float64, (2, 3)", "plain", "Shift", "Shift",
        "KFold(n_splits=3, random_state=None, shuffle=False)", "str",
    ]  # fmt: skip


def test_a_class_of_networks_is_known_by_its_name():
    nn = pytest.importorskip("torch").nn
    assert digest(describe(nn.Linear)) == digest(describe(nn.Linear))
    assert digest(describe(nn.Linear)) != digest(describe(nn.Bilinear))
