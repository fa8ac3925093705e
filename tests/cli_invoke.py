"""How tests run a command."""

from typer.testing import CliRunner

from lemmata import cli


def invoke(*arguments, code=0, stdin=None):
    """Run a command in this process; its stdout. A failing one has to answer with one line and no traceback."""
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == code, result.output
    if code in (cli.BAD_INPUT, cli.BAD_USAGE):
        assert result.stderr.count("\n") == 1, result.stderr
        assert result.stderr.startswith("lemmata: ")
        return result.stderr
    return result.stdout
