"""The help of every command: whole sentences in 80 columns, each option explained, and commands under headings."""

from functools import cache

import click
import pytest
from support.shell import Shell

from exposurekit.cli.help_groups import summary
from exposurekit.cli.main import SECTIONS, cli

COLUMNS = 80


def commands(group=cli, words=()):
    """Every command with the words that call it, the groups too."""
    yield words, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*words, name))


each = pytest.mark.parametrize(
    ("words", "command"), [pytest.param(*one, id=" ".join(one[0]) or "exposurekit") for one in commands()]
)


@pytest.fixture(scope="module")
def help_text(tmp_path_factory):
    """Returns the help of a command, which is printed once."""
    shell = Shell(tmp_path_factory.mktemp("help"), COLUMNS=str(COLUMNS))
    return cache(lambda *words: shell.here(*words, "--help").stdout)


@each
def test_help_has_an_example_and_fits_80_columns(words, command, help_text):
    text = help_text(*words)
    assert text.startswith("Usage: exposurekit")
    assert "COMMAND [ARGS]..." in text or f"Example: exposurekit {' '.join(words)}" in text
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert "\\b" not in text
    assert "\b" not in text
    assert "..." not in text.partition("\n")[2].replace("[ARGS]...", "")


@each
def test_every_option_is_explained(words, command):
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, option.name
            assert option.help[0].isupper(), option.name
            assert option.help.rstrip(")")[-1] == ".", option.name


@each
def test_a_summary_is_one_line_of_its_group(words, command, help_text):
    if words:
        lines = help_text(*words[:-1]).splitlines()
        assert [line for line in lines if line.split() == [words[-1], *summary(command).split()]]


def test_every_command_has_a_heading(help_text):
    grouped = [command for commands in SECTIONS.values() for command in commands]
    assert {*grouped} == {*cli.commands.values()}
    text = help_text()
    positions = [text.index(f"\n{heading}:\n") for heading in SECTIONS]
    assert positions == sorted(positions)
    assert "\nCommands:\n" not in text


def test_every_verb_is_a_command():
    verbs = "demo serve worker integrator sites webhooks users collect watch inbox notifications report export check"
    assert {*verbs.split(), "doctor", "open"} <= {*cli.commands}
