"""Pages, summaries and help are plain English by count, and what they show runs as it stands."""

import contextlib
import doctest
import io
import re
import shlex
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_invoke import invoke

sys.path.insert(0, str(Path(__file__).parents[2]))  # tools/ stands next to tests/

from lemmata import registry
from lemmata.cli import guidance
from tools import prose

ROOT = Path(__file__).parents[2]
PAGES = prose.pages()
PACKAGES = re.findall(r"^([a-z-]+)$", (ROOT / "docs" / "packages.md").read_text(), re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_reads_easily(page):
    assert list(prose.complain(page.read_text(), str(page.relative_to(ROOT)))) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_page_of_a_package_is_short(package):
    page = (ROOT / "docs" / f"{package}.md").read_text()
    assert len(page.split()) <= 900
    assert len(page.split("\n")[0]) <= 30


def test_summaries_of_models_read_easily():
    text = "\n\n".join(one.summary for one in registry.MODELS.values())
    assert list(prose.complain(text, "registry")) == []


@pytest.mark.parametrize("command", ["", *guidance.EXAMPLES])
def test_help_reads_easily_and_fits_80_columns(command):
    out = invoke(*([command] if command else []), "--help")
    assert max(map(len, out.splitlines())) <= 80
    assert "..." not in out.partition("\n\n")[2]  # Usage ends with the shell's own
    first = out.split("\n\n")[1]
    assert [line for line in prose.complain(first, "help") if "on average" not in line] == []


def test_commands_stand_in_groups_and_exit_codes_come_last():
    out = invoke("--help")
    places = [out.index(f"\n{group}:") for group in guidance.GROUPS]
    assert places == sorted(places)
    assert out.index("Exit codes") > places[-1]
    assert sorted(guidance.EXAMPLES) == sorted(
        name for names in guidance.GROUPS.values() for name in names
    )


def options_of(command):
    return set(
        re.findall(r"(?<!\w)--?[a-z][\w-]*", invoke(command, "--help").partition("Examples:")[0])
    )


@pytest.mark.parametrize("command", guidance.EXAMPLES)
def test_two_examples_end_each_help_and_name_options_that_exist(command):
    shown = invoke(command, "--help").partition("Examples:")[2]
    assert shown.count("$ lemmata") == 2
    for line in guidance.EXAMPLES[command]:
        words = shlex.split(line)
        assert words[0] == command
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= options_of(command) | {
            "--help"
        }


def test_a_shell_completes_models_parameters_and_entries():
    context = SimpleNamespace(params={"model": "kmeans"})
    assert guidance.complete_models("kM") == ["kmeans"]
    assert "n_clusters=" in guidance.complete_settings(context, "n_")
    assert "eigendigits" in guidance.complete_atlas("eigen")


# --- the checker itself -----------------------------------------------------------------------------------------------


def test_the_checker_finds_what_it_counts():
    text = (
        "# Title\n\nShort one.\n\n"
        + "word " * 41
        + ".\n\nA dear claim, learnt anew.\n\n"
        + "x" * 121
        + "\n"
    )
    found = list(prose.complain(text, "page.md"))
    assert any("page.md:5: a sentence of 41 words" in line for line in found)
    assert sum("page.md:7" in line for line in found) == 3
    assert any("page.md:9: 121 columns" in line for line in found)


def test_the_checker_leaves_code_tables_and_generated_parts_alone():
    text = (
        "```python\n"
        + "dear " * 50
        + "\n```\n\n| "
        + "x" * 130
        + " |\n\n<!-- a: generated -->\n"
        + "dear " * 60
        + "\n<!-- /a -->\n"
    )
    assert list(prose.complain(text, "page.md")) == []


# --- what the README and the first three screens show --------------------------------------------------------------


def hide_numbers(text):
    """How far a fit got that did not arrive, and what is rounding, differs by CPU; verdicts and sentences are compared."""
    return re.sub(r"-?\d+(\.\d+)?(e-\d+)?", "#", text)


@pytest.mark.parametrize(
    "name", ["README.md", "docs/index.md", "docs/which-model.md", "docs/certificate.md"]
)
def test_blocks_of_python_run_as_they_stand_and_print_what_is_shown(name):
    text, known = (ROOT / name).read_text(), {}
    check = doctest.OutputChecker()
    for code, shown in re.findall(r"```python\n(.*?)```\n+(?:```text\n(.*?)```)?", text, re.S):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(code, name, "exec"), known)
        if shown:
            wanted, found = hide_numbers(shown.replace("…", "...")), hide_numbers(out.getvalue())
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            assert check.check_output(wanted, found, flags), out.getvalue()


def test_commands_of_the_readme_and_the_three_screens_exist(tmp_path, monkeypatch):
    """Those of lemmata run, on a small file of the name that they use."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 7}.5,{i % 5}.25,{'rose' if i % 2 else 'lily'}" for i in range(60)]
    Path("flowers.csv").write_text("\n".join(["a,b,kind", *rows]) + "\n")
    Path("data.csv").write_text(
        "\n".join(["a,b", *(row.rpartition(",")[0] for row in rows)]) + "\n"
    )
    for name in ("README.md", "docs/index.md", "docs/which-model.md", "docs/certificate.md"):
        for block in re.findall(r"```sh\n(.*?)```", (ROOT / name).read_text(), re.S):
            for line in re.findall(r"^lemmata (.*)$", block, re.M):
                words = shlex.split(line.partition("||")[0])
                invoke(*words)
