"""The house stays in order: names, docstrings, folders, files, parameters and levels (tools/names.py), and short journeys.

`python -m tools.house` prints the figures and `python -m tools.names --list` the places behind them.
"""

import re
import subprocess
import sys
from pathlib import Path

from tools import names

ROOT = Path(__file__).parent.parent

PARTICIPLES, DOCSTRINGS = (
    21,
    29,
)  # names of claims, the hook `updated`, nouns that look like participles

# files that a journey may enter
MOST_FILES = {"recommender": 36, "kmeans": 24, "certify": 15}


def test_a_class_name_has_one_meaning():
    assert names.repeated_classes() == []


def test_functions_are_verbs_but_for_a_few_names_of_claims():
    assert len(found := names.participles()) <= PARTICIPLES, found


def test_docstrings_begin_with_a_verb_or_a_noun():
    assert len(found := names.clumsy_docstrings()) <= DOCSTRINGS, found


def test_no_folder_is_crowded_and_no_file_is_long():
    assert names.crowded_folders() == []
    assert names.long_files() == []


def test_no_function_has_many_parameters_but_constructors_kernels_and_commands():
    assert names.wide_functions() == []


def test_no_attribute_carries_an_argument_from_one_method_to_the_next():
    assert names.carried_attributes() == []


def test_at_most_three_classes_stand_between_a_model_and_the_base_of_scikit_learn():
    assert names.deep_models() == []


def test_journeys_enter_few_files():
    done = subprocess.run(
        [sys.executable, "-m", "tools.journeys", *MOST_FILES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(re.findall(r"^(\w+): (\d+) files$", done.stdout, re.M))
    assert set(found) == set(MOST_FILES), done.stderr
    assert all(int(found[name]) <= most for name, most in MOST_FILES.items()), done.stdout
